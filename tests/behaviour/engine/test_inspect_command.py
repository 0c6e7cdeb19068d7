"""`arc inspect` shows a stored turn's request in a terminal and as JSON, without changing anything."""

import hashlib
import json
import re
import shutil
import sys

import pytest
from typer.testing import CliRunner

from arc_common import ContextEngine, Message, ToolCall
from arc_common.cli.commands import app, main
from tests.support.context_windows import CONTROLS, MARKUP
from tests.support.databases import sqlite_url
from tests.support.forks import Fork


@pytest.fixture(autouse=True)
def _environment(monkeypatch, tmp_path):
    """Remove outside settings; use an empty folder and a wide terminal."""
    for name in ("ARC_DATABASE_URL", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)


def fill(url):
    """Store two sessions: a long one with adopted summaries, and one of a user with a tool and hostile texts."""
    with ContextEngine.open(url) as engine:
        session = engine.session("support-1")
        for n in range(1, 25):
            question = f"Question {n}: my order ORD-{n:04} has {n} lamps."
            session.context(question)
            session.save_turn(question, f"Answer {n}: noted.")
            session.summarize()
        call = ToolCall("look_up", {"id": 7}, id="c1")
        turn = [Message("assistant", "", tool_calls=(call,)), Message("tool", CONTROLS[:-1], tool_call_id="c1")]
        other = engine.session("support-2", user_id="ann", caller_id="shop")
        other.save_turn(MARKUP, [*turn, Message("assistant", "done")])
    return url


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """Return a read-only file of these sessions."""
    folder = tmp_path_factory.mktemp("filled")
    fill(sqlite_url(folder))
    return folder / "arc.db"


@pytest.fixture
def file(filled, tmp_path):
    return f"sqlite:///{shutil.copy(filled, tmp_path)}"


def run(*words):
    result = CliRunner().invoke(app, ["inspect", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_it_shows_the_newest_turn_with_the_sessions_state(file):
    """The output has the budget, the sections with their items, and the omissions."""
    out = run("support-1", "--url", file)
    assert "session support-1\n48 messages, " in out
    assert re.search(r"summary of \d+ messages, \d+ facts, \d+ messages not summarised", out)
    assert "turn 24 of 24: what the model is shown before it answers" in out
    assert re.search(r"[\d,]+ of 123,904 tokens  (under 1|\d)% used", out)
    assert re.search(r"f facts +\d+  of [\d,]+, \d+ items\n", out)
    assert "  user  Question 24: my order ORD-0024 has 24 lamps.\n" in out
    assert "Answer 24" not in out
    assert "note  replayed from what is stored" in out


def test_an_older_turn_is_shown_without_what_came_after_it(file):
    out = run("support-1", "--turn", "5", "--url", file, "--full")
    assert "turn 5 of 24" in out
    assert "Answer 4: noted." in out
    assert "ORD-0006" not in out
    assert "facts and summary cover later turns by now" in " ".join(out.split())


def test_the_address_may_come_from_the_environment(file, monkeypatch):
    monkeypatch.setenv("ARC_DATABASE_URL", file)
    assert run("support-1") == run("support-1", "--url", file)


def test_a_budget_may_be_tried(file):
    out = run("support-1", "--url", file, "--tokens", "300")
    assert re.search(r"\d+ of 300 tokens", out)
    assert re.search(r"left out or shortened  \d+ items", out)


def test_a_session_of_a_callers_user_is_found_by_both(file):
    out = run("support-2", "--url", file, "--caller", "shop", "--user", "ann", "--full")
    assert "session support-2  caller shop, user ann\n" in out
    assert '→ look_up({"id": 7})' in out
    assert "<script>alert(1)</script>" in out
    assert "[bold]x[/bold]" in out
    assert "␛[31mred" in out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "1 tool call" in out


def test_json_is_for_programs(file):
    """It has the receipt and the session's state; message texts only with --full."""
    brief = json.loads(run("support-1", "--url", file, "--json"))
    assert brief.keys() == {"session", "turn", "turns", "receipt"}
    assert (brief["turn"], brief["turns"], brief["session"]["message_count"]) == (24, 24, 48)
    assert "Question" not in json.dumps(brief)
    full = run("support-2", "--url", file, "--caller", "shop", "--user", "ann", "--json", "--full")
    assert full.isascii()
    assert {*full} & {*map(chr, range(0x20)), "\x7f"} == {"\n"}
    messages = json.loads(full)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    assert messages[1]["tool_calls"] == [{"id": "c1", "name": "look_up", "arguments": {"id": 7}}]
    assert messages[2]["content"] == CONTROLS[:-1]
    assert messages[0]["content"] == MARKUP


def test_it_changes_nothing(file, tmp_path):
    database = tmp_path / "arc.db"
    before = hashlib.sha256(database.read_bytes()).hexdigest()
    run("support-1", "--url", file)
    run("support-1", "--url", file, "--turn", "3", "--json")
    assert hashlib.sha256(database.read_bytes()).hexdigest() == before
    assert {path.name for path in tmp_path.iterdir()} == {"arc.db"}


def refused(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["arc", "inspect", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nobody"], "arc: no session 'nobody' for this caller and user"),
        (["support-2", "--caller", "shop"], "arc: no session 'support-2' for this caller and user"),
        (["support-1", "--turn", "25"], "arc: turn: got 25, expected a whole number from 1 to 24"),
        (["support-1", "--turn", "0"], "arc: turn: got 0"),
        (["support-1", "--tokens", "5"], "4 available"),
        ([""], "session_id"),
    ],
    ids=["session", "user", "turn", "turn 0", "budget", "empty id"],
)
def test_what_is_not_there_is_said_in_one_line(file, monkeypatch, capsys, words, told):
    err = refused(monkeypatch, capsys, *words, "--url", file)
    assert told in err
    assert err.startswith("arc: ")
    assert err.count("\n") == 1


def test_without_a_database_it_says_how_to_name_one(monkeypatch, capsys):
    told = refused(monkeypatch, capsys, "s")
    monkeypatch.setattr(sys, "argv", ["arc", "db", "upgrade"])
    with pytest.raises(SystemExit):
        main()
    assert told == capsys.readouterr().err
    assert "ARC_DATABASE_URL" in told


def test_a_mistyped_file_is_not_made(monkeypatch, capsys, tmp_path):
    assert "no file 'typo.db'" in refused(monkeypatch, capsys, "s", "--url", "sqlite:///typo.db")
    assert not (tmp_path / "typo.db").exists()
    (tmp_path / "empty.db").touch()
    assert "arc db upgrade" in refused(monkeypatch, capsys, "s", "--url", "sqlite:///empty.db")
    assert (tmp_path / "empty.db").read_bytes() == b""


def test_on_a_colour_terminal_it_has_colours(file, tmp_path):
    colour = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": "60", "PATH": ""}
    with Fork(tmp_path, ["inspect", "support-1", "--url", file], colour) as process:
        sent = process.stdout.read()
        assert process.wait() == 0
    assert "\x1b[32m" in sent
    assert "█" in sent
