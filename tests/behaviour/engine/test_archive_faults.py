"""Archived conversations: no failure loses anything, and they are restored on use."""

import gzip
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread, current_thread
from typing import Any
from uuid import uuid4

import pytest
import s3fs
from cryptography.fernet import Fernet

from arc_common import (
    ArchiveError,
    ArcSettings,
    ConfigurationError,
    ContextEngine,
    ConversationDeletedError,
    InvalidInputError,
    SessionNotFoundError,
    StoreError,
)
from arc_common.messages import Message
from arc_common.observability import SilentObserver
from arc_common.protocols import ConversationStatus, SessionKey
from arc_common.protocols.conversations import Idle
from arc_common.settings import ArchiveSettings
from arc_common.stores.conversations import SqlStore
from tests.behaviour.engine.test_erase import talk
from tests.behaviour.engine.test_lifecycle import Clock
from tests.behaviour.engine.test_transfer import shown
from tests.support.archives import calling, fill, small_disk
from tests.support.databases import observed, rows, sqlite_url
from tests.support.leak_world import Letters
from tests.support.processes import append, archive_and_die, archive_and_restore, die_while_writing

START = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def clock() -> Clock:
    return Clock(START)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.fixture
def archiving(opened: Callable[..., ContextEngine], folder: Path, clock: Clock) -> Callable[..., ContextEngine]:
    """Return a function that opens an engine with an archive in a folder; keyword arguments change its settings."""

    def open_engine(database: str, conversation: dict[str, Any] | None = None, **archive: Any) -> ContextEngine:
        settings = ArcSettings(
            archive={"enabled": True, "url": str(folder), **archive}, conversation=conversation or {}
        )
        return opened(database, embedder=Letters(), clock=clock, settings=settings)

    return open_engine


def objects(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def status(database: str) -> tuple[str, int]:
    """Return the status of the only session, and the number of its messages in the database."""
    ((found,),) = rows(database, "SELECT status FROM arc_conversations")
    return found, rows(database, "SELECT count(*) FROM arc_messages")[0][0]


def status_of(database: str, session: str) -> str:
    return str(rows(database, "SELECT status FROM arc_conversations WHERE session_id = :id", id=session)[0][0])


@pytest.mark.parametrize("keeps", [False, True], ids=["removed from the database", "kept there"])
def test_an_archived_conversation_comes_back_as_it_was(
    database: str, archiving: Callable[..., ContextEngine], folder: Path, *, keeps: bool
) -> None:
    """Only its messages leave the database; every public view is the same on each branch, and the object is removed."""
    engine = archiving(database, cleanup_after_archive=not keeps)
    talk(engine, "shop", "ann", "S3CRET-ANN-한국")
    before = [shown(engine, "shop", "ann", "S3CRET-ANN-한국") for _ in range(2)][1]  # the first access changes a memory
    others = {name: rows(database, f"SELECT * FROM {name}") for name in ("arc_facts", "arc_segments", "arc_branches")}
    session = engine.session("ann-1", caller_id="shop", user_id="ann")
    assert session.archive()
    assert not session.archive()
    assert status(database) == ("archived", 28 if keeps else 0)
    assert {name: rows(database, f"SELECT * FROM {name}") for name in others} == others
    (name,) = objects(folder)
    assert re.fullmatch(r"2026/03/[0-9a-f]{64}\.json\.gz", name)
    head, record, end = gzip.decompress((folder / name).read_bytes()).decode().split("\n")
    assert (json.loads(head)["arc"], len(json.loads(record)["arc_messages"]), end) == ("0001", 28, "")
    assert rows(database, "SELECT archive_path FROM arc_conversations") == [(name,)]
    assert [one.status for one in engine.admin.sessions("shop", status="archived").conversations] == ["archived"]
    assert shown(engine, "shop", "ann", "S3CRET-ANN-한국") == before
    assert status(database) == ("active", 28)
    assert objects(folder) == []
    assert rows(database, "SELECT archive_path, archive_checksum FROM arc_conversations") == [(None, None)]


USES: dict[str, Callable[[ContextEngine], Any]] = {
    "append": lambda engine: engine.session("s").append(Message("user", "Once more.")),
    "read": lambda engine: engine.session("s").messages(limit=1),
    "context": lambda engine: engine.session("s").context("What was it?"),
    "fork": lambda engine: engine.session("s").fork(),
    "remove": lambda engine: engine.session("s").remove(["m0"]),
    "clear": lambda engine: engine.session("s").clear(),
    "restore": lambda engine: engine.admin.restore("s"),
    "branch": lambda engine: engine.session("s", branch=0).messages(limit=1),
}


@pytest.mark.parametrize("use", USES)
def test_each_use_restores(
    database: str, archiving: Callable[..., ContextEngine], folder: Path, clock: Clock, use: str
) -> None:
    """Reads and writes restore all messages, also in a process that did not archive them."""
    with archiving(database) as engine:
        for number in range(4):
            engine.session("s").append(Message("user", f"Message {number}.", id=f"m{number}"))
        assert engine.session("s").archive()
    clock.now += DAY
    engine = archiving(database)
    assert engine.session("s").exists()
    assert status(database) == ("archived", 0)
    USES[use](engine)
    assert status(database)[0] == "active"
    expected = [f"m{number}" for number in range(4) if use != "clear" and (use, number) != ("remove", 0)]
    assert [one.id for one in engine.session("s").messages()][: len(expected)] == expected
    assert objects(folder) == []
    assert engine.admin.archive(older_than=DAY).archived == 0  # it was just used


def test_maintenance_archives_what_is_idle_and_nothing_else(
    database: str, archiving: Callable[..., ContextEngine], folder: Path, clock: Clock
) -> None:
    """The settings give the time; other callers are included; archiving again removes the older object."""
    engine = archiving(database, after_days=30)
    for number in range(3):
        clock.now = START + number * 10 * DAY
        engine.session(f"s{number}", caller_id=f"c{number}").save_turn("One.", "Two.")
    seen: list[int] = []
    clock.now = START + 40 * DAY
    assert engine.admin.maintain(progress=seen.append).archived == 2
    assert seen == [1, 2]
    assert engine.admin.maintain().archived == 0
    assert len(engine.session("s0", caller_id="c0").messages()) == 2
    first = objects(folder)
    clock.now = START + 80 * DAY
    assert str(engine.admin.maintain()) == "archived 2, deleted 0, failed 0"
    assert len(objects(folder)) == 3
    assert set(first) < set(objects(folder))
    with archiving(database, conversation={"ttl_hours": 1}) as other:
        other.session("new").save_turn("One.", "Two.")
        clock.now += timedelta(hours=2)
        assert other.admin.maintain().archived == 1


def test_without_an_archive_the_time_to_live_deletes(
    database: str, opened: Callable[..., ContextEngine], clock: Clock
) -> None:
    """Unused sessions and their derived data are deleted; without the setting nothing is."""
    engine = opened(database, clock=clock, settings=ArcSettings(conversation={"ttl_hours": 24}))
    engine.session("old").save_turn("My code is 4711.", "Noted.")
    engine.session("read").save_turn("One.", "Two.")
    clock.now += DAY
    engine.session("read").save_turn("Three.", "Four.")
    with opened(database, clock=clock) as unasked:
        assert str(unasked.admin.maintain()) == "archived 0, deleted 0, failed 0"
    assert engine.admin.maintain().deleted == 1
    assert rows(database, "SELECT session_id FROM arc_conversations") == [("read",)]


def test_a_message_that_arrives_meanwhile_is_not_lost(
    archiving: Callable[..., ContextEngine], folder: Path, tmp_path: Path, helper: Any
) -> None:
    """If another process appends to any branch while the object is written, the session stays unchanged."""
    database = sqlite_url(tmp_path)
    engine = archiving(database)
    engine.session("shared").save_turn("One.", "Two.")
    engine.session("shared").fork(name="idea").save_turn("A.", "B.")
    engine.session("other").save_turn("One.", "Two.")
    folder.mkdir()
    written: list[str] = []

    def interrupt(step: str) -> None:
        if step == "write" and not written:
            written.append(step)
            writing[0]()

    def late() -> None:
        assert helper.run(append, tmp_path, [{"url": database, "name": "late", "count": 2}]) == [["late-0", "late-1"]]

    def on_branch() -> None:
        with archiving(database) as other:
            other.session("shared", branch="idea").append(Message("user", "On the branch.", id="b"))

    def edit() -> None:
        with archiving(database) as other:
            other.session("shared", branch=0).append(Message("user", "Edited.", id="late-0"))

    calling_url = f"calling://{folder}"
    writing: list[Callable[[], None]] = []
    for write in (late, on_branch, edit):
        writing[:] = [write]
        written.clear()
        with archiving(database, url=calling_url) as slow, calling(interrupt):
            assert not slow.session("shared").archive()
        assert written
        assert objects(folder) == []
        assert status_of(database, "shared") == "active"
    session = engine.session("shared")
    assert [one.id for one in session.messages()][-2:] == ["late-0", "late-1"]
    assert session.messages()[-2].text == "Edited."
    assert [one.id for one in engine.session("shared", branch="idea").messages()][-1] == "b"
    assert session.archive()


@pytest.mark.parametrize("hours", [0, 1], ids=["at once", "held up"])
def test_machines_that_archive_at_the_same_time(
    archiving: Callable[..., ContextEngine], database: str, folder: Path, clock: Clock, hours: int
) -> None:
    """While one writes an object, others skip the session; one delayed too long does no harm."""
    first, second = archiving(database, url=f"calling://{folder}"), archiving(database)
    for number in range(3):
        first.session(f"s{number}").save_turn(f"One {number}.", "Two.")
    clock.now += 100 * DAY
    done: list[int] = []

    def interrupt(step: str) -> None:
        if step == "write" and not done:
            clock.now += timedelta(hours=hours)
            done.append(second.admin.maintain().archived)

    with calling(interrupt):
        done.append(first.admin.maintain().archived)
    assert done == ([3, 0] if hours else [2, 1])
    assert len(objects(folder)) == 3
    for number in range(3):
        assert first.session(f"s{number}").messages()[0].text == f"One {number}."
    assert objects(folder) == []


def test_a_machine_that_is_held_up_before_it_reads(tmp_path: Path, folder: Path, clock: Clock) -> None:
    """Another one takes over and archives the same content; its object is never removed."""
    url, key = sqlite_url(tmp_path), SessionKey("s")
    taken_over, written = Event(), Event()

    def store(before_reading: Callable[[], object]) -> SqlStore:
        steps: list[Callable[[], object]] = []
        database = observed(url, lambda sql: steps.pop()() if sql == "BEGIN" and steps else None)
        made = SqlStore(database, clock=clock, archive=ArchiveSettings(url=f"calling://{folder}"))
        made.get(key)  # creates the tables
        steps.append(before_reading)
        return made

    def hold_up() -> None:
        clock.now += timedelta(hours=1)
        other.start()
        assert taken_over.wait(20)

    def read_later() -> None:
        taken_over.set()
        written.wait(20)

    def finish_other(step: str) -> None:
        if step == "write" and current_thread() is not other:
            written.set()
            other.join()

    with ContextEngine.open(url, clock=clock) as engine:
        engine.session("s").save_turn("One.", "Two.")
    slow, fast = store(hold_up), store(read_later)
    other = Thread(target=fast.archive, args=(key,))
    with calling(finish_other):
        slow.archive(key)
        written.set()
        other.join()
    assert [one.message.text for one in fast.read(key)] == ["One.", "Two."]
    for one in (slow, fast):
        one.close()
        one.engine.dispose()


@pytest.mark.parametrize("step", ["write", "read"])
def test_an_archive_that_fails_loses_nothing(
    database: str, archiving: Callable[..., ContextEngine], folder: Path, clock: Clock, step: str
) -> None:
    """Messages stay, the error names the object, the run continues with others, and the next run succeeds."""
    engine = archiving(database, url=f"calling://{folder}")
    for number in range(8):
        engine.session(f"s{number}").save_turn("One.", "Two.")
    clock.now += 100 * DAY
    calls: list[str] = []

    def fail(found: str) -> None:
        if found == step:
            calls.append(found)
            if len(calls) != 2:
                raise PermissionError("Access Denied")

    with calling(fail):
        with pytest.raises(ArchiveError, match=r"2026/03/\w+\.json\.gz in .*Access Denied"):
            engine.session("s0").archive()
        result = engine.admin.maintain()
    assert (result.archived, result.failed) == (1, 5)  # five failures in a row end the run
    assert len(calls) == 7
    assert engine.admin.maintain().archived == 7
    assert len(objects(folder)) == 8


@pytest.mark.parametrize("how", ["purge", "clear"])
def test_an_object_that_can_not_be_removed_keeps_no_other_session(
    database: str, archiving: Callable[..., ContextEngine], folder: Path, how: str
) -> None:
    """The error comes at the end; what is left goes with the next call."""
    engine = archiving(database, url=f"calling://{folder}")
    for number in range(3):
        engine.session(f"s{number}").save_turn("One.", "Two.")
        assert engine.session(f"s{number}").archive()
        if how == "purge":
            engine.session(f"s{number}").delete(soft=True)
    delete = engine.admin.purge if how == "purge" else lambda: engine.admin.clear(caller_id="default")
    removed: list[str] = []

    def fail(step: str) -> None:
        removed.append(step)
        if len(removed) == 1:
            raise PermissionError("Access Denied")

    with calling(fail), pytest.raises(ArchiveError, match="Access Denied"):
        delete()
    assert rows(database, "SELECT count(*) FROM arc_conversations") == [(1,)]
    assert len(objects(folder)) == 1
    assert delete() == 1
    assert objects(folder) == []


def test_a_truncated_object_is_noticed_before_anything_is_removed(
    database: str, archiving: Callable[..., ContextEngine], folder: Path
) -> None:
    """The object is read back and compared; a partial one is removed by the next attempt."""
    engine = archiving(database, url=f"calling://{folder}")
    engine.session("s").save_turn("One.", "Two.")
    with calling(lambda step: 100 if step == "write" else None), pytest.raises(ArchiveError, match="not stored whole"):
        engine.session("s").archive()
    assert status(database) == ("active", 2)
    assert engine.session("s").archive()
    assert len(objects(folder)) == 1


@pytest.mark.parametrize("fault", ["missing", "damaged", "cut", "no archive"])
def test_an_object_that_can_not_be_used_is_a_clear_error(
    database: str,
    archiving: Callable[..., ContextEngine],
    opened: Callable[..., ContextEngine],
    folder: Path,
    fault: str,
) -> None:
    """The error names session, object and fault; nothing changes, and the user's other sessions are still recalled."""
    with archiving(database) as engine:
        engine.session("s", user_id="ann").save_turn("My boat is called Seagull.", "Nice.")
        engine.session("t", user_id="ann").save_turn("My boat is in the harbour.", "Nice.")
        engine.flush(60)
        assert engine.session("s", user_id="ann").archive()
    (name,) = objects(folder)
    content = (folder / name).read_bytes()
    engine = opened(database) if fault == "no archive" else archiving(database)
    if fault == "missing":
        (folder / name).unlink()
    elif fault == "damaged":
        (folder / name).write_bytes(gzip.compress(gzip.decompress(content).replace(b"Seagull", b"Seamew.")))
    elif fault == "cut":
        (folder / name).write_bytes(content[:-9])
    session = engine.session("s", user_id="ann")
    reason = {"missing": "missing", "no archive": r"archive\.url"}.get(fault, "damaged")
    for use in (session.messages, lambda: session.append(Message("user", "Hello?"))):
        with pytest.raises(ArchiveError, match=rf"session 's'.*{name}.*{reason}"):
            use()
    assert engine.session("t", user_id="ann").recall("boat", scope="user")[0].session_id == "t"
    with pytest.raises(ArchiveError):
        engine.admin.export(folder / "export", caller_id="default", user_id="ann")
    if fault != "no archive":
        (folder / name).write_bytes(content)
        assert len(session.messages()) == 2


def test_an_archived_session_is_still_recalled(database: str, archiving: Callable[..., ContextEngine]) -> None:
    """The user's other sessions find its messages, even those not yet indexed, and restore it."""
    engine = archiving(database)
    engine.session("s", user_id="ann").save_turn("My boat is called Seagull.", "A fine name.")
    engine.session("t", user_id="ann").save_turn("Hello.", "Hello.")
    assert engine.session("s", user_id="ann").archive()
    assert (
        engine.session("t", user_id="ann").recall("boat", scope="user")[0].message.text == "My boat is called Seagull."
    )
    assert status_of(database, "s") == "active"


def test_objects_of_an_encrypted_database_are_encrypted(
    empty_database: str, opened: Callable[..., ContextEngine], folder: Path
) -> None:
    """They contain no readable text, and only the keys restore the messages."""
    storage = {"encryption_keys": Fernet.generate_key().decode()}
    settings = ArcSettings(archive={"url": str(folder)}, storage=storage)
    engine = opened(empty_database, settings=settings)
    engine.session("s").save_turn("My code is 4711.", "Noted.")
    assert engine.session("s").archive()
    content = gzip.decompress((folder / objects(folder)[0]).read_bytes())
    assert not any(word in content for word in (b"4711", b"arc_messages", b"default"))
    assert engine.session("s").messages()[0].text == "My code is 4711."


def test_erasing_removes_the_objects(
    database: str, archiving: Callable[..., ContextEngine], folder: Path, clock: Clock
) -> None:
    """The receipt counts them, with softly deleted sessions; others stay; deleting a session does the same."""
    engine = archiving(database)
    for caller_id, user_id in (("shop", "ann"), ("shop", "ben"), ("blog", "ann")):
        for number in range(2):
            session = engine.session(f"{user_id}-{number}", caller_id=caller_id, user_id=user_id)
            session.save_turn("My code is 4711.", "Noted.")
            assert session.archive()
        session.delete(soft=True)
    assert len(objects(folder)) == 6
    receipt = engine.admin.erase(caller_id="shop", user_id="ann")
    assert receipt.is_complete
    assert receipt.removed["archive objects"] == 2
    assert len(objects(folder)) == 4
    assert engine.admin.restore("ben-1", caller_id="shop", user_id="ben")
    assert len(engine.session("ben-1", caller_id="shop", user_id="ben").messages()) == 2
    assert engine.session("ben-0", caller_id="shop", user_id="ben").delete()
    assert engine.admin.clear(caller_id="blog") == 2
    assert objects(folder) == []


def test_an_object_that_stays_is_on_the_receipt(
    database: str, archiving: Callable[..., ContextEngine], folder: Path
) -> None:
    """If the archive fails, the erasure raises before it removes the row, the only reference to the object."""
    engine = archiving(database, url=f"calling://{folder}")
    engine.session("s", user_id="ann").save_turn("My code is 4711.", "Noted.")
    assert engine.session("s", user_id="ann").archive()

    def fail(step: str) -> None:
        if step == "remove":
            raise PermissionError("Access Denied")

    with calling(fail), pytest.raises(ArchiveError, match="Access Denied"):
        engine.admin.erase(caller_id="default", user_id="ann")
    assert status(database)[0] == "archived"
    assert engine.admin.erase(caller_id="default", user_id="ann").is_complete
    assert objects(folder) == []


def test_what_is_removed_from_a_conversation_is_in_no_object(
    database: str, archiving: Callable[..., ContextEngine], folder: Path
) -> None:
    """An object of a failed run is removed with the message, although the session was never archived."""
    engine = archiving(database, url=f"calling://{folder}")
    (first, _) = engine.session("s").append([Message("user", "My code is 4711."), Message("assistant", "Noted.")])

    def fail(step: str) -> None:
        if step == "read":
            raise OSError("the connection was lost")

    with calling(fail), pytest.raises(ArchiveError):
        engine.session("s").archive()
    assert len(objects(folder)) == 1
    engine.session("s").remove([first.id or ""])
    assert objects(folder) == []


def test_exports_include_archived_conversations(
    database: str,
    archiving: Callable[..., ContextEngine],
    opened: Callable[..., ContextEngine],
    tmp_path: Path,
    folder: Path,
) -> None:
    """They are imported as active sessions without an archive; exporting changes neither session nor object."""
    engine = archiving(database)
    talk(engine, "shop", "ann", "S3CRET")
    before = [shown(engine, "shop", "ann", "S3CRET") for _ in range(2)][1]  # the first access changes a memory
    assert engine.session("ann-1", caller_id="shop", user_id="ann").archive()
    engine.admin.export(tmp_path / "ann.jsonl", caller_id="shop", user_id="ann")
    assert status(database) == ("archived", 0)
    for number, file in enumerate((tmp_path / "ann.jsonl", folder / objects(folder)[0])):
        other = opened(sqlite_url(tmp_path, f"other {number}.db"), embedder=Letters(), clock=lambda: START)
        other.admin.import_(file)
        messages = other.session("ann-1", caller_id="shop", user_id="ann", branch="other").messages()
        assert len(messages) == 28
        if not number:
            assert shown(other, "shop", "ann", "S3CRET") == before


@pytest.mark.parametrize("change", ["remove", "remove nothing", "clear", "delete if idle"])
def test_a_change_while_another_machine_archives(
    database: str, archiving: Callable[..., ContextEngine], folder: Path, clock: Clock, change: str
) -> None:
    """It removes the object that it knows of: the other one has written it by then, but never relies on it."""
    first, second = (archiving(database, url=f"calling://{folder}") for _ in range(2))
    first.session("s").append([Message("user", f"Message {n}.", id=f"m{n}") for n in range(3)])
    begun, archived = Event(), Event()

    def work() -> None:
        session = second.session("s")
        if change == "delete if idle":  # like a machine without an archive in its settings
            idle = Idle(ConversationStatus.ACTIVE, clock.now)
            store = SqlStore(database, clock=clock, archive=ArchiveSettings(url=f"calling://{folder}"))
            store.delete(SessionKey("s"), idle=idle)
            store.close()
        elif change == "clear":
            session.clear()
        else:
            session.remove(["m0" if change == "remove" else "m9"])

    def interrupt(step: str) -> None:
        if step == "write" and not begun.is_set():
            other.start()
            assert begun.wait(20)
        elif step == "remove" and current_thread() is other:
            begun.set()
            archived.wait(20)

    other = Thread(target=work)
    with calling(interrupt):
        assert not first.session("s").archive()
        archived.set()
        other.join()
    left = {"remove": 2, "remove nothing": 3, "clear": 0, "delete if idle": 0}
    assert len(first.session("s").messages()) == left[change]
    assert objects(folder) == []


def test_a_deletion_before_the_object_is_read_back(
    database: str, archiving: Callable[..., ContextEngine], folder: Path
) -> None:
    """The deletion removes the object; the archive reports no failure."""
    first, second = archiving(database, url=f"calling://{folder}"), archiving(database)
    first.session("s").save_turn("One.", "Two.")
    deleted: list[bool] = []

    def interrupt(step: str) -> None:
        if step == "read" and not deleted:
            deleted.append(second.session("s").delete())

    with calling(interrupt):
        assert not first.session("s").archive()
    assert (deleted, objects(folder)) == ([True], [])


@pytest.mark.parametrize("use", ["read", "export"])
def test_two_use_it_at_the_same_time(
    database: str, archiving: Callable[..., ContextEngine], tmp_path: Path, folder: Path, use: str
) -> None:
    """One restores it, and removes its object, before the other one has read that."""
    engine = archiving(database, url=f"calling://{folder}")
    engine.session("s").save_turn("One.", "Two.")
    assert engine.session("s").archive()
    restored: list[int] = []

    def interrupt(step: str) -> None:
        if step == "read" and not restored:
            with archiving(database) as other:
                restored.append(len(other.session("s").messages()))

    with calling(interrupt):
        if use == "read":
            assert [one.text for one in engine.session("s").messages()] == ["One.", "Two."]
        else:
            engine.admin.export(tmp_path / "all.jsonl", caller_id="default", user_id=None)
            assert '"Two.' in (tmp_path / "all.jsonl").read_text().replace("\\", "")
    assert (restored, objects(folder)) == ([2], [])


def test_an_import_names_no_objects(
    database: str, archiving: Callable[..., ContextEngine], tmp_path: Path, folder: Path
) -> None:
    """A file that somebody else has written removes nothing from the archive, whatever it says."""
    engine = archiving(database)
    for number in range(2):
        engine.session(f"s{number}", user_id="ann").save_turn("One.", "Two.")
    engine.session("s0", user_id="ann").archive()
    (name,) = objects(folder)
    file = tmp_path / "s1.jsonl"
    engine.admin.export(file, caller_id="default", user_id="ann")
    engine.session("s1", user_id="ann").delete()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    (mine,) = [one for one in lines if one.get("arc_conversations", [{}])[0].get("session_id") == "s1"]
    mine["arc_conversations"][0] |= {"archive_path": name, "archive_checksum": "0" * 64}
    file.write_text("".join(f"{json.dumps(one)}\n" for one in (lines[0], mine)))
    engine.admin.import_(file)
    engine.session("s1", user_id="ann").delete()
    assert objects(folder) == [name]
    stray = {**mine["arc_conversations"][0], "path": name, "since": 0}
    stray = {one: stray[one] for one in ("conversation", "path", "caller_id", "user_id", "since")}
    file.write_text("".join(f"{json.dumps(one)}\n" for one in (lines[0], {"arc_stray_objects": [stray]})))
    with pytest.raises(InvalidInputError, match="arc_stray_objects"):
        engine.admin.import_(file)


def test_a_full_disk_loses_nothing(archiving: Callable[..., ContextEngine]) -> None:
    """It may be full for the object or for the restored messages."""
    with small_disk(512) as archive, small_disk(16_384) as home:
        database = sqlite_url(home)
        with archiving(database, url=str(archive)) as engine:
            for number in range(40):
                text = "".join(chr(0xAC00 + (number * 7919 + place * 104_729) % 11_000) for place in range(2_000))
                engine.session("s").append(Message("user", text, id=f"m{number}"))
            filler = fill(archive, leave=8_192)
            with pytest.raises(ArchiveError, match="No space left"):
                engine.session("s").archive()
            assert status(database) == ("active", 40)
            filler.unlink()
            assert engine.session("s").archive()
        with archiving(database, url=str(archive)) as engine:
            filler = fill(home)
            with pytest.raises(StoreError):
                engine.session("s").messages()
            assert len(objects(archive)) == 1
            filler.unlink()
            assert len(engine.session("s").messages()) == 40


@pytest.mark.parametrize("apart", [6, pytest.param(1, marks=pytest.mark.torture)], ids=["some", "each"])
def test_kills_at_each_step(
    archiving: Callable[..., ContextEngine], folder: Path, tmp_path: Path, helper: Any, clock: Clock, apart: int
) -> None:
    """A process that archives and restores is killed before each statement and each archive step in turn."""
    clock.now = datetime.now(UTC) + DAY  # a dead process's lease has ended
    code, at, steps = -9, 0, 20
    while code:
        at += apart
        database = sqlite_url(tmp_path, f"{at}.db")
        with archiving(database) as engine:
            session = engine.session("s")
            session.append([Message("user", f"Message {number}.", id=f"m{number}") for number in range(3)])
            session.fork(name="idea").append(Message("user", "On a branch.", id="b"))
            code = helper.wait(
                helper.start(archive_and_restore, tmp_path / "log", url=database, folder=str(folder), at=at)
            )
            assert code in (0, -9), (tmp_path / "log").read_text()
            for _ in range(2):
                assert [one.id for one in session.messages()] == ["m0", "m1", "m2"], at
                idea = engine.session("s", branch="idea")
                assert [one.id for one in idea.messages()] == ["m0", "m1", "m2", "b"], at
                assert session.archive(), at
                assert len(objects(folder)) == 1, at
            assert len(session.messages()) == 3
            assert objects(folder) == []
    assert at > steps


@pytest.mark.parametrize("change", ["delete", "remove", "archive"])
def test_a_kill_after_the_conversation_was_changed(
    database: str,
    archiving: Callable[..., ContextEngine],
    folder: Path,
    tmp_path: Path,
    helper: Any,
    clock: Clock,
    change: str,
) -> None:
    """An object of a killed process that no session references is swept a day later."""
    clock.now = datetime.now(UTC)
    engine = archiving(database)
    engine.session("s", user_id="ann").append([Message("user", f"Message {n}.", id=f"m{n}") for n in range(3)])
    code = helper.wait(helper.start(archive_and_die, tmp_path / "log", url=database, folder=str(folder), change=change))
    assert code == -9, (tmp_path / "log").read_text()
    kept = [one for (one,) in rows(database, "SELECT archive_path FROM arc_conversations") if one]
    assert len(kept) == (change == "archive")
    assert len(objects(folder)) == len(kept) + 1
    clock.now += timedelta(hours=2)
    assert str(engine.admin.maintain()) == "archived 0, deleted 0, failed 0"
    assert len(objects(folder)) == len(kept) + 1  # the last one may still be being written
    clock.now += DAY
    with calling(lambda _: 1 / 0), archiving(database, url=f"calling://{folder}") as broken:
        assert str(broken.admin.maintain()) == "archived 0, deleted 0, failed 0"
    if change == "delete":
        erased = engine.admin.erase(caller_id="default", user_id="ann")
        assert (erased.removed, erased.left) == ({}, {"arc_stray_objects": 1})
    with archiving(database, enabled=False) as single:  # archives only the sessions that somebody names
        assert str(single.admin.maintain()) == "archived 0, deleted 0, failed 0"
    assert objects(folder) == kept
    left = {"delete": 0, "remove": 2, "archive": 3}
    assert len(engine.session("s", user_id="ann").messages()) == left[change]
    assert engine.admin.erase(caller_id="default", user_id="ann").is_complete


@pytest.mark.parametrize("then", ["archive", "erase"])
def test_a_kill_while_a_file_is_written(
    database: str,
    archiving: Callable[..., ContextEngine],
    folder: Path,
    tmp_path: Path,
    helper: Any,
    clock: Clock,
    then: str,
) -> None:
    """The next attempt removes the part that is in the folder; so does an erasure."""
    engine = archiving(database)
    engine.session("s", user_id="ann").append([Message("user", "My code is 4711.", id="m")])
    code = helper.wait(helper.start(die_while_writing, tmp_path / "log", url=database, folder=str(folder)))
    assert code == -9, (tmp_path / "log").read_text()
    assert len(objects(folder)) == 1
    if then == "erase":
        engine.admin.erase(caller_id="default", user_id="ann")
        assert objects(folder) == []
        return
    clock.now = datetime.now(UTC) + timedelta(hours=1)  # the dead process's lease has ended
    assert engine.session("s", user_id="ann").archive()
    assert [one.endswith(".json.gz") for one in objects(folder)] == [True]


def test_an_archive_must_be_usable(opened: Callable[..., ContextEngine], tmp_path: Path) -> None:
    """A missing or unknown URL and a disabled archive raise errors that name the setting."""
    with pytest.raises(ConfigurationError, match=r"archive\.enabled .*ARCHIVE_S3_BUCKET"):
        ContextEngine.open(settings=ArcSettings(archive={"enabled": True}))
    with pytest.raises(ConfigurationError, match=r"archive\.url: got 'nowhere://ann:\*\*\*@b'"):
        ContextEngine.open(settings=ArcSettings(archive={"url": "nowhere://ann:secret@b"}))
    engine = opened(sqlite_url(tmp_path))
    engine.session("s").save_turn("One.", "Two.")
    for attempt in (engine.session("s").archive, engine.admin.archive):
        with pytest.raises(ConfigurationError, match=r"archive\.url"):
            attempt()
    engine = opened(sqlite_url(tmp_path), settings=ArcSettings(archive={"url": str(tmp_path / "a")}))
    with pytest.raises(SessionNotFoundError):
        engine.session("other").archive()
    engine.session("s").delete(soft=True)
    with pytest.raises(ConversationDeletedError):
        engine.session("s").archive()


def test_a_timer_maintains_by_itself(
    database: str, archiving: Callable[..., ContextEngine], folder: Path, clock: Clock
) -> None:
    """Each process with an engine runs maintenance every `maintenance.interval_minutes`."""
    archived = Event()

    class Counts(SilentObserver):
        def count(self, name: str, amount: int = 1, **labels: object) -> None:
            if name == "maintenance.archived":
                archived.set()

    with archiving(database) as engine:
        engine.session("s").save_turn("One.", "Two.")
    clock.now += 100 * DAY
    settings = ArcSettings(archive={"enabled": True, "url": str(folder)}, maintenance={"interval_minutes": 0.002})
    with ContextEngine.open(database, clock=clock, settings=settings, observer=Counts()):
        assert archived.wait(30)
    assert status(database) == ("archived", 0)


def test_s3(
    database: str, opened: Callable[..., ContextEngine], s3: str, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """The same works on an S3 server by `url` or `s3_bucket`; a missing bucket raises an error."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "arc")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "arc")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    bucket, by = f"arc-{uuid4().hex}", "url" if database.startswith("sqlite") else "bucket"
    if by == "bucket":
        monkeypatch.setenv("ARCHIVE_S3_BUCKET", bucket)
    files = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)
    files.mkdir(bucket)
    url = {"url": f"s3://{bucket}/chats"} if by == "url" else {}
    root = f"{bucket}/chats" if by == "url" else bucket
    engine = opened(database, clock=clock, settings=ArcSettings(archive={"enabled": True, **url}))
    for number in range(3):
        engine.session(f"s{number}").save_turn(f"My boat is number {number}.", "Noted.")
    clock.now += 100 * DAY
    assert engine.admin.maintain().archived == 3
    found = files.find(root)
    assert all(re.fullmatch(rf"{root}/2026/03/[0-9a-f]{{64}}\.json\.gz", one) for one in found)
    assert len(found) == 3
    assert engine.session("s1").messages()[0].text == "My boat is number 1."
    assert len(files.find(root)) == 2
    files.rm(bucket, recursive=True)
    with pytest.raises(ArchiveError, match="missing"):
        engine.session("s0").messages()
    with pytest.raises(ArchiveError, match=f"s3://{bucket}"):
        engine.session("s1").archive()
    assert len(engine.session("s1").messages()) == 2
