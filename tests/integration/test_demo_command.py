"""`arc demo` on a new file: missing frameworks, models and keys, terminals, and resuming after a kill."""

import json
import os
import pty
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from arc_common.cli.commands import main
from arc_common.cli.demo import RECORDS, SESSION
from arc_common.engine.context_engine import ContextEngine
from arc_common.exceptions import ConfigurationError
from arc_common.messages import Message, Role
from tests.support.demo_runs import (
    PROVIDER,
    Ran,
    environment,
    here,
    opened,
    played,
    script,
    spoken,
    stored,
)  # fmt: skip
from tests.support.forks import Fork


def test_it_stops_where_it_is_told_and_begins_anew(tmp_path: Path) -> None:
    """`--turns` leaves the rest to the next run; `--restart` deletes the earlier conversation."""
    assert "after turn 2 of" in here(tmp_path, "--turns", "2").out
    assert len(spoken(tmp_path)) == 4
    here(tmp_path, "--restart", "--turns", "1")
    assert len(spoken(tmp_path)) == 2


def without(folder: Path, packages: str, *words: str) -> Ran:
    """Run the command in a fork that cannot import these packages, and imports the adapters anew."""

    def run() -> None:
        hidden = packages.split()
        for name in list(sys.modules):
            if name.partition(".")[0] in {*hidden, "langchain_arc", "llamaindex_arc"}:
                del sys.modules[name]
        sys.modules.update(dict.fromkeys(hidden))
        main()

    with Fork(folder, ["demo", *words], environment(), run=run) as process:
        printed, errors = process.stdout.read(), process.stderr.read()
        return Ran(process.wait(), printed, errors)


@pytest.mark.parametrize(
    ("absent", "extra", "other"),
    [("langchain_core", "langchain", "LlamaIndex"), ("llama_index", "llamaindex", "LangChain")],
)
def test_without_one_framework_the_other_one_plays_all(tmp_path: Path, absent: str, extra: str, other: str) -> None:
    """The output names the missing extra and the command that installs it."""
    ran = without(tmp_path, absent, "--turns", "2")
    assert ran.code == 0, ran.err
    assert f"pip install 'arc-context-engine[{extra}]'" in ran.out
    assert {json.loads(message.text)["framework"] for message in stored(tmp_path, RECORDS)} == {other}


def test_without_any_framework_it_says_what_to_install(tmp_path: Path) -> None:
    """It exits with code 1 and one message, and creates no file."""
    ran = without(tmp_path, "langchain_core llama_index")
    assert ran.code == 1
    assert "arc-context-engine[langchain]" in ran.err
    assert "arc-context-engine[llamaindex]" in ran.err
    assert "Traceback" not in ran.err
    assert not (tmp_path / "arc-demo.db").exists()


def test_a_model_that_fails_ends_the_run_and_can_be_resumed(provider: Callable[[str], None], tmp_path: Path) -> None:
    """It exits with code 1 and names the model without the client's error text; all messages so far are kept."""
    provider(PROVIDER.format(body="raise PermissionError('bad key sk-hunter2')"))
    ran = here(tmp_path, OPENAI_API_KEY="sk-hunter2")
    assert ran.code == 1
    assert ran.err.startswith("arc: the model openai:gpt-5-mini failed (PermissionError)")
    assert "hunter2" not in ran.out + ran.err
    done = script.questions[0][0].number - 1
    assert len(spoken(tmp_path)) == 2 * done + 1
    assert f"after turn {done}" in here(tmp_path, "--local", "--turns", "1").out


def test_a_named_model_without_its_package_is_an_error(tmp_path: Path) -> None:
    """A requested model is never replaced; the error names the package to install."""
    ran = here(tmp_path, "--model", "google:some")
    assert ran.code == 1
    if find_spec("langchain_google_genai") is None:  # deepagents installs it
        assert "pip install langchain-google-genai" in ran.err
    assert "pip install llama-index-llms-google-genai" in ran.err


def test_a_client_that_fails_when_it_is_made_is_said(provider: Callable[[str], None], tmp_path: Path) -> None:
    """Some clients connect when created; the local model replaces a failed one, whose error text is not shown."""
    provider("def ChatOpenAI(model): raise OSError('sk-hunter2')")
    ran = here(tmp_path, "--turns", "1", OPENAI_API_KEY="sk-hunter2")
    assert ran.code == 0, ran.err
    assert "LangChain can't reach openai:gpt-5-mini (OSError)" in " ".join(ran.out.split())
    assert "hunter2" not in ran.out + ran.err


def test_local_wins_over_a_key(tmp_path: Path) -> None:
    """The local model is used although a key is set."""
    ran = here(tmp_path, "--local", "--turns", "1", OPENAI_API_KEY="sk-hunter2")
    assert ran.code == 0
    assert "openai" not in ran.out


def test_a_key_without_the_package_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The local model answers, and the output names the missing package."""
    monkeypatch.setitem(sys.modules, "langchain_anthropic", None)
    ran = here(tmp_path, "--turns", "1", ANTHROPIC_API_KEY="sk-hunter2")
    assert ran.code == 0, ran.err
    assert "pip install langchain-anthropic" in " ".join(ran.out.split())
    assert "hunter2" not in ran.out + ran.err


def test_in_a_terminal(tmp_path: Path) -> None:
    """A capable terminal gets colour and a progress bar."""
    ours, theirs = pty.openpty()
    chunks = []

    def read() -> None:
        with suppress(OSError):  # Linux raises this when the other end is closed
            while chunk := os.read(ours, 65536):
                chunks.append(chunk)

    with ThreadPoolExecutor(1) as reading:
        reading.submit(read)
        with os.fdopen(theirs, "w", encoding="utf-8") as terminal:
            ran = here(tmp_path, "--turns", "3", out=terminal, TERM="xterm-256color")
    os.close(ours)
    output = b"".join(chunks)
    assert ran.code == 0, ran.err
    assert b"\x1b[" in output
    assert b"3/208" in output or b"2/208" in output
    assert "Mina Park" in output.decode()


def test_no_colour_and_a_dumb_terminal_are_respected(tmp_path: Path) -> None:
    """NO_COLOR turns colour off on any terminal, and a dumb terminal gets plain lines."""
    terminal = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "TTY_INTERACTIVE": "0"}
    assert "\x1b[36m" in here(tmp_path, "--turns", "1", **terminal).out
    assert "\x1b[36m" not in here(tmp_path, "--turns", "1", **terminal, NO_COLOR="1").out
    dumb = here(tmp_path, "--turns", "3", FORCE_COLOR="1", TERM="dumb").out
    assert "\x1b" not in dumb
    assert "/208" not in dumb


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/demo.db"


def texts(url: str) -> list[str]:
    with ContextEngine.open(url) as engine:
        return [message.text for message in engine.session(SESSION).messages()]


@pytest.mark.parametrize("left", [1, 2], ids=["question only", "turn without record"])
def test_what_a_killed_process_left_unfinished_is_played_again(url: str, left: int) -> None:
    played(url, 5)
    unfinished = [Message(Role.USER, script.turns[5].user), Message(Role.ASSISTANT, "half a")][:left]
    with ContextEngine.open(url) as engine:
        engine.session(SESSION).append(unfinished)
    played(url, 1)
    stored = texts(url)
    assert len(stored) == 12
    assert stored[-1] == script.turns[5].reply


def test_restart_removes_the_demo_and_nothing_else(url: str) -> None:
    with ContextEngine.open(url) as engine:
        engine.session("mine").append(Message(Role.USER, "keep me"))
    played(url, 3)
    with opened(url) as run:
        run.restart()
        assert run.done() == []
    assert texts(url) == []
    with ContextEngine.open(url) as engine:
        assert len(engine.session("mine").messages()) == 1


@pytest.mark.parametrize(("name", "caller"), [(SESSION, "default"), (RECORDS, RECORDS)])
def test_a_changed_conversation_is_not_continued(url: str, name: str, caller: str) -> None:
    played(url, 3)
    with ContextEngine.open(url) as engine:
        session = engine.session(name, caller_id=caller)
        first = session.messages()[0]
        session.append(Message(first.role, "something else", id=first.id))
    with pytest.raises(ConfigurationError, match="--restart"):
        played(url)
    assert len(texts(url)) == 6
