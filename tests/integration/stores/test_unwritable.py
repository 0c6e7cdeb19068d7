"""Databases that can't be written, from the start or later: all data can still be read."""

import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from arc_common import ArcSettings, ContextEngine, Document, Message, StoreError, StoreUnavailableError
from tests.support import processes as workers
from tests.support.processes import Helper


def fill(url: str) -> None:
    """Store a turn, a memory and a document."""
    with ContextEngine.open(url, settings=ArcSettings()) as engine:
        engine.session("s", user_id="ann").save_turn("My locker code is 4711.", "Noted.")
        engine.memories(user_id="ann").add("Ann keeps bees.")
        engine.documents.add(Document("The warranty lasts three years.", id="w"))


@contextmanager
def full_disk() -> Iterator[None]:
    """Keep this process from making any file larger."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Create a folder that other users can enter; pytest closes its own folders to them at each start."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_file_in_a_folder_that_can_t_be_written_is_read(helper: Helper, tmp_path: Path, open_folder: Path) -> None:
    folder = open_folder / "mounted"
    folder.mkdir()
    path = folder / "arc.db"
    fill(f"sqlite:///{path}")
    assert list(folder.iterdir()) == [path]
    before = path.read_bytes()
    path.chmod(0o444)
    folder.chmod(0o555)
    log, again = tmp_path / "log", open_folder / "again"
    deadline = time.monotonic() + 60
    pid = helper.start(workers.read_all, log, url=f"sqlite:///{path}", again=str(again))
    while "read\n" not in (log.read_text() if log.exists() else ""):
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.01)
    assert path.read_bytes() == before
    folder.chmod(0o755)
    path.chmod(0o644)
    with ContextEngine.open(f"sqlite:///{path}", settings=ArcSettings()) as engine:
        engine.session("s", user_id="ann").append([Message("user", "And more.")])
    again.touch()
    assert helper.wait(pid) == 0, log.read_text()
    said, recalled, asked, memories, documents, facts, *written, _, later = log.read_text().splitlines()
    assert said == "['My locker code is 4711.', 'Noted.']"
    assert "4711" in recalled
    assert asked.startswith("'Where is the locker?")
    assert (memories, documents) == ("['Ann keeps bees.']", "['w']")
    assert "Error" not in facts
    assert [each.partition(":")[0] for each in written] == ["StoreUnavailableError"] * 2
    assert all("readonly" in each for each in written)
    assert "And more." in later


def test_a_full_disk_leaves_all_reads(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    url = f"sqlite:///{tmp_path / 'arc.db'}"
    fill(url)
    with ContextEngine.open(url, settings=ArcSettings()) as engine:
        session = engine.session("s", user_id="ann")
        session.append([Message("user", "The bike lock opens with 0815.")])
        with full_disk():
            recalled = session.recall("bike lock")
            asked = session.context("What opens the bike lock?")
            memories = engine.memories(user_id="ann").search("bees")
            documents = engine.documents.search("warranty")
            facts = session.facts()
            with pytest.raises(StoreError):
                session.append([Message("user", "x" * 10_000)])
            assert len(session.messages()) == 3
    assert recalled[0].message.text == "The bike lock opens with 0815."
    assert asked.messages[-1].text.startswith("What opens the bike lock?")
    assert [one.memory.text for one in memories] == ["Ann keeps bees."]
    assert [one.document.id for one in documents] == ["w"]
    assert all(fact.value for fact in facts)
    assert "not indexed yet" in caplog.text


@pytest.mark.parametrize("way", ["moved", "deleted", "replaced"])
def test_a_file_that_was_moved_takes_no_further_writes(tmp_path: Path, way: str) -> None:
    """What SQLite would still accept is lost with the last connection. A file that is put back works again."""
    path, away = tmp_path / "arc.db", tmp_path / "away.db"
    fill(f"sqlite:///{path}")
    with ContextEngine.open(f"sqlite:///{path}", settings=ArcSettings()) as engine:
        session = engine.session("s", user_id="ann")
        assert len(session.messages()) == 2
        path.rename(away)
        if way == "deleted":
            away.unlink()
        elif way == "replaced":
            shutil.copy(away, path)
        with pytest.raises(StoreUnavailableError, match=r"arc\.db' was moved, deleted or replaced"):
            session.append([Message("user", "Lost?")])
        assert "arc.db' was moved, deleted or replaced" in engine.health().problems["store"]
        if way == "moved":
            away.rename(path)
            assert engine.health().ok
            session.append([Message("user", "Back.")])
    with ContextEngine.open(f"sqlite:///{path}", settings=ArcSettings()) as engine:
        said = [message.text for message in engine.session("s", user_id="ann").messages()]
    stayed = [] if way == "deleted" else ["My locker code is 4711.", "Noted."]
    assert said == stayed + ["Back."] * (way == "moved")
