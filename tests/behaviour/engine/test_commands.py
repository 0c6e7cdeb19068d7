"""The `arc` command: output, errors, and start-up time."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import pytest
from cryptography.fernet import Fernet

from arc_common import ContextEngine, __version__
from arc_common.cli.commands import main
from arc_common.settings import describe_settings
from tests.support.databases import new_database, rows
from tests.support.forks import Fork
from tests.support.servers import PostgresServer

Arc: TypeAlias = Callable[..., tuple[int, str, str]]


@pytest.fixture
def arc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Arc:
    """Return a function that runs the command in an empty folder without arc's variables: exit code, output, errors."""
    for name in os.environ:
        if name.startswith("ARC_") or name == "DATABASE_URL":
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["arc", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


def test_it_says_its_version(arc: Arc) -> None:
    assert arc("--version") == (0, f"arc {__version__}\n", "")


def test_help_names_every_command(arc: Arc) -> None:
    code, out, _ = arc("--help")
    assert code == 0
    assert all(command in out for command in ("demo", "settings", "db"))


def test_help_loads_no_heavy_library() -> None:
    command = [sys.executable, "-X", "importtime", "-c", "from arc_common.cli.commands import main; main()", "--help"]
    log = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in log.splitlines()}
    assert "typer" in loaded
    assert not loaded & {"sqlalchemy", "pydantic", "pydantic_settings", "langchain_core", "llama_index", "numpy"}


def test_settings_lists_every_setting(arc: Arc) -> None:
    code, out, err = arc("settings")
    assert (code, err) == (0, "")
    words = set(out.split())
    for setting in describe_settings():
        assert {setting.name, *setting.environment_names} <= words


def test_settings_shows_what_the_environment_set_and_no_secret(arc: Arc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARC_CONVERSATION__MAX_TURNS", "77")
    monkeypatch.setenv("ARC_DATABASE_URL", "postgresql://me:hunter2@host/db")
    _, out, _ = arc("settings")
    assert "77" in out.split()
    assert "me:***@host" in out
    assert "hunter2" not in out


def test_db_upgrade_makes_the_tables_once(arc: Arc, tmp_path: Path) -> None:
    code, out, _ = arc("db", "upgrade", "--url", "sqlite:///new.db")
    assert code == 0
    assert out.startswith("sqlite:///new.db: created")
    assert (tmp_path / "new.db").exists()
    assert arc("db", "upgrade", "--url", "sqlite:///new.db")[1].startswith("sqlite:///new.db: already at revision")


def test_db_current_and_check_tell_a_deployment_what_is_there(arc: Arc, tmp_path: Path) -> None:
    """Neither changes anything; `check` fails until the tables are those of this version."""
    assert arc("db", "current", "--url", "sqlite:///new.db") == (0, "sqlite:///new.db: no tables\n", "")
    code, out, err = arc("db", "check", "--url", "sqlite:///new.db")
    assert (code, out) == (1, "")
    assert "arc db upgrade" in err
    arc("db", "upgrade", "--url", "sqlite:///new.db")
    assert arc("db", "current", "--url", "sqlite:///new.db")[1].startswith("sqlite:///new.db: revision 0")
    assert arc("db", "check", "--url", "sqlite:///new.db") == (0, "sqlite:///new.db: up to date\n", "")


def test_db_partition_makes_sixteen_parts_once(arc: Arc, postgres: PostgresServer) -> None:
    url = new_database(postgres)
    assert arc("db", "partition", "--url", url)[1].endswith(": each table has 16 partitions\n")
    assert arc("db", "partition", "--url", url)[1].endswith(": already partitioned\n")
    parts = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'arc_messages'::regclass"
    assert rows(url, parts) == [(16,)]


def test_db_row_security_prints_sql(arc: Arc) -> None:
    code, out, _ = arc("db", "row-security", "shop")
    assert code == 0
    assert 'GRANT USAGE ON SEQUENCE arc_index_rows TO "shop";' in out.splitlines()


def test_export_and_import_move_a_caller(arc: Arc, monkeypatch: pytest.MonkeyPatch) -> None:
    """One command writes what the other stores once in another database; a missing database is an error."""
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal, where both show how far they are
    with ContextEngine.open("sqlite:///one.db") as engine:
        engine.session("s", caller_id="shop", user_id="ann").save_turn("My code is 4711.", "Noted.")
    exported = arc("export", "out.jsonl.gz", "--caller", "shop", "--url", "sqlite:///one.db")
    assert exported[0] == 0
    assert exported[1].startswith("out.jsonl.gz: ")
    assert re.search("[1-9] lines exported", exported[2])
    assert re.search("[1-9] lines read", arc("import", "out.jsonl.gz", "--url", "sqlite:///two.db")[2])
    assert arc("import", "out.jsonl.gz", "--url", "sqlite:///two.db")[0] == 0
    with ContextEngine.open("sqlite:///two.db") as engine:
        stored = engine.session("s", caller_id="shop", user_id="ann").messages()
        assert [one.text for one in stored] == ["My code is 4711.", "Noted."]
    code, _, err = arc("export", "out.jsonl", "--url", "sqlite:///none.db")
    assert (code, "none.db" in err) == (1, True)


def test_db_upgrade_takes_the_address_from_the_settings(arc: Arc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARC_DATABASE_URL", "sqlite:///set.db")
    assert arc("db", "upgrade")[1].startswith("sqlite:///set.db: created")
    monkeypatch.setenv("CONVERSATION_STORAGE_MODE", "memory")
    assert "storage.mode: got 'in-memory'" in arc("db", "current")[2]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["db", "upgrade"], "ARC_DATABASE_URL"),
        (["db", "partition", "--url", "sqlite:///new.db"], "only PostgreSQL"),
        (["db", "upgrade", "--url", "mysql://me:hunter2@host/db"], "'mysql' is not supported"),
        (["db", "upgrade", "--url", "sqlite:////nowhere/at/all.db"], "unable to open"),
        (["db", "upgrade", "--url", "postgresql://me:hunter2@127.0.0.1:1/db?connect_timeout=1"], "127.0.0.1"),
        (["demo", "--file", "/nowhere/at/all.db"], "unable to open"),
        (["demo", "--model", "nobody:x"], "provider:name"),
    ],
    ids=[
        "no address",
        "no partitions",
        "other database",
        "no folder",
        "no server",
        "demo without folder",
        "unknown provider",
    ],
)
def test_an_error_is_said_once_and_without_a_traceback(arc: Arc, words: list[str], told: str) -> None:
    code, _, err = arc(*words)
    assert code == 1
    assert err.startswith("arc: ")
    assert told in err
    assert "Traceback" not in err
    assert "hunter2" not in err


def test_a_wrong_setting_is_named(arc: Arc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARC_CONVERSATION__MAX_TURNS", "many")
    code, _, err = arc("settings")
    assert code == 1
    assert "ARC_CONVERSATION__MAX_TURNS" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", [["nope"], ["demo", "--nope"], ["demo", "--turns", "0"], ["db", "upgrade", "a"]])
def test_wrong_usage_is_exit_code_2(arc: Arc, words: list[str]) -> None:
    assert arc(*words)[0] == 2


def test_an_encrypted_database_is_made_checked_and_encrypted_anew(
    arc: Arc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, old, new = f"sqlite:///{tmp_path / 'arc.db'}", *(Fernet.generate_key().decode() for _ in "ab")
    for keys, command, said in (
        (old, "upgrade", "created"),
        (f"{new},{old}", "check", "up to date"),
        (f"{new},{old}", "reencrypt", "rows re-encrypted"),
        (new, "check", "up to date"),
    ):
        monkeypatch.setenv("ARC_STORAGE__ENCRYPTION_KEYS", keys)
        code, out, _ = arc("db", command, "--url", url)
        assert (code, said in out) == (0, True)
        with ContextEngine.open(url) as engine:
            engine.session("s").save_turn("Hello", "Hi")
    assert new not in arc("settings")[1]
    monkeypatch.setenv("ARC_STORAGE__ENCRYPTION_KEYS", old)
    code, _, error = arc("db", "check", "--url", url)
    assert (code, "another key" in error) == (1, True)


def test_other_libraries_data_are_imported(arc: Arc, tmp_path: Path) -> None:
    folder, url = Path(__file__).parents[2] / "support" / "data" / "histories", f"sqlite:///{tmp_path / 'arc.db'}"
    history = f"sqlite:///{folder / 'langchain.db'}"
    for stored in (9, 0):
        code, out, _ = arc("import", history, "--from", "langchain", "--caller", "shop", "--user", "ann", "--url", url)
        assert (code, f"{stored} items stored" in out) == (0, True)
    assert arc("import", str(folder / "simple_chat_store.json"), "--from", "simple-chat-store", "--url", url)[0] == 0
    assert arc("import", str(folder / "mem0.json"), "--from", "mem0", "--url", url)[0] == 0
    with ContextEngine.open(url) as engine:
        assert len(engine.session("ann-1", caller_id="shop", user_id="ann").messages()) == 7
        assert len(engine.session("ann-1").messages()) == 4
        assert len(engine.memories(user_id="ann").list()) == 3
    code, _, error = arc("import", history, "--from", "nowhere", "--url", url)
    assert (code, "langchain, llamaindex, mem0, simple-chat-store" in error) == (1, True)


def test_maintain_says_what_was_archived(arc: Arc, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It follows the settings and rejects an invalid time."""
    old = datetime(2026, 1, 1, tzinfo=UTC)
    with ContextEngine.open("sqlite:///arc.db", clock=lambda: old) as engine:
        engine.session("s").save_turn("One.", "Two.")
    command = ("maintain", "--url", "sqlite:///arc.db")
    assert arc(*command)[:2] == (0, "archived 0, deleted 0, failed 0\n")
    monkeypatch.setenv("ARC_ARCHIVE__ENABLED", "true")
    monkeypatch.setenv("ARC_ARCHIVE__URL", str(tmp_path / "archive"))
    assert arc(*command)[1] == "archived 1, deleted 0, failed 0\n"
    assert len(list((tmp_path / "archive").rglob("*.json.gz"))) == 1
    for wrong in ("soon", "0m", "-5m", "1w", ""):
        code, _, err = arc(*command, "--every", wrong)
        assert code == 2
        assert "such as 60m" in err


def test_sessions_are_archived_and_restored(arc: Arc, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All idle ones are archived; one is restored by its id, and an unknown id is an error."""
    url, archive = ("--url", "sqlite:///arc.db"), tmp_path / "archive"
    with ContextEngine.open("sqlite:///arc.db", clock=lambda: datetime(2026, 1, 1, tzinfo=UTC)) as engine:
        engine.session("s", user_id="ann").save_turn("One.", "Two.")
    code, _, error = arc("archive", *url)
    assert (code, "archive.url" in error) == (1, True)
    monkeypatch.setenv("ARC_ARCHIVE__URL", str(archive))
    assert arc("archive", "--older-than", "100000d", *url)[1] == "archived 0, deleted 0, failed 0\n"
    assert arc("archive", "--older-than", "1h", *url)[1] == "archived 1, deleted 0, failed 0\n"
    assert len(list(archive.rglob("*.json.gz"))) == 1
    assert "no session" in arc("restore", "s", *url)[2]
    for told in ("restored", "was neither archived nor deleted"):
        assert arc("restore", "s", "--user", "ann", *url)[1] == f"s: {told}\n"
    assert not list(archive.rglob("*.json.gz"))


def test_maintain_goes_on_until_it_is_stopped(tmp_path: Path) -> None:
    """It repeats, even after an error, until Ctrl-C."""
    with ContextEngine.open(f"sqlite:///{tmp_path / 'arc.db'}") as engine:
        engine.session("s").save_turn("One.", "Two.")
    with Fork(tmp_path, ["maintain", "--every", "1s", "--url", "sqlite:///arc.db"], os.environ) as process:
        for _ in range(2):
            assert process.stdout.readline() == "archived 0, deleted 0, failed 0\n"
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
