"""Archives beside other writers, kills and failing storage: no message is lost, and no object stays unknown."""

import gzip
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread, current_thread
from typing import Any

import pytest

from arc_common import ArchiveError, ContextEngine, StoreError
from arc_common.messages import Message
from arc_common.protocols import ConversationStatus, SessionKey
from arc_common.protocols.conversations import Idle
from arc_common.settings import ArchiveSettings
from arc_common.stores.conversations import SqlStore
from tests.support.archives import calling, fill, objects, small_disk, status, status_of
from tests.support.clocks import Clock
from tests.support.databases import observed, on_sqlite, rows, run, sqlite_url
from tests.support.processes import append, archive_and_die, archive_and_restore, die_while_writing

DAY = timedelta(days=1)


def kill(helper: Any, log: Path, work: Callable[..., object], **values: Any) -> None:
    """Run work that kills its process."""
    assert helper.wait(helper.start(work, log, **values)) == -9, log.read_text()


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


def test_what_another_machine_has_just_archived_stays_archived(
    archiving: Callable[..., ContextEngine], tmp_path: Path, clock: Clock
) -> None:
    """Indexing its newest messages is no use of it, so it is not restored."""
    url, done = sqlite_url(tmp_path), list[int]()
    first = archiving(url)
    first.session("s").save_turn("One.", "Two.")
    clock.now += 100 * DAY

    def interrupt(sql: str) -> None:
        if "FROM arc_messages" in sql and not done:
            done.append(0)
            done[0] = first.admin.maintain().archived

    database = observed(url, interrupt)
    done.append(archiving(database).admin.maintain().archived)
    assert (done, status(url)) == ([1, 0], ("archived", 0))
    database.dispose()


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


@on_sqlite
@pytest.mark.parametrize("step", ["write", "read"])
def test_an_archive_that_fails_loses_nothing(
    database: str, archiving: Callable[..., ContextEngine], folder: Path, clock: Clock, step: str
) -> None:
    """Messages stay, the error names the object, the run continues with all others, and the next run succeeds."""
    engine = archiving(database, url=f"calling://{folder}")
    for number in range(8):
        engine.session(f"s{number}").save_turn("One.", "Two.")
    clock.now += 100 * DAY
    calls: list[str] = []

    def fail(found: str) -> None:
        if found == step:
            calls.append(found)
            if len(calls) < 8:
                raise PermissionError("Access Denied")

    with calling(fail):
        with pytest.raises(ArchiveError, match=r"2026/03/\w+\.json\.gz in .*Access Denied"):
            engine.session("s0").archive()
        result = engine.admin.maintain()
    assert (result.archived, result.failed) == (2, 6)
    assert engine.admin.maintain().archived == 6
    assert len(objects(folder)) == 8


@on_sqlite
def test_a_run_ends_if_the_archive_can_not_be_reached(
    database: str, archiving: Callable[..., ContextEngine], folder: Path, clock: Clock, caplog: Any
) -> None:
    engine = archiving(database, url=f"calling://{folder}")
    for number in range(8):
        engine.session(f"s{number}").save_turn("One.", "Two.")
    clock.now += 100 * DAY
    folder.write_text("Not a folder.")
    assert engine.admin.maintain().failed == 5
    assert "maintenance ends early" in caplog.text
    folder.unlink()
    assert engine.admin.maintain().archived == 8


def test_an_object_of_nobody_that_can_not_be_removed_keeps_no_other(
    database: str, archiving: Callable[..., ContextEngine], folder: Path, caplog: Any
) -> None:
    engine = archiving(database, url=f"calling://{folder}")
    engine.session("s").save_turn("One.", "Two.")
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.json.gz").write_bytes(b"")
        stray = f"conversation, '{number}.json.gz', caller_id, user_id, {number}"
        run(database, f"INSERT INTO arc_stray_objects SELECT {stray} FROM arc_conversations")
    calls: list[str] = []

    def fail(step: str) -> None:
        calls.append(step)
        if len(calls) < 3:
            raise PermissionError("Access Denied")

    with calling(fail):
        engine.admin.maintain()
    assert objects(folder) == ["0.json.gz", "1.json.gz"]
    assert rows(database, "SELECT count(*) FROM arc_stray_objects") == [(2,)]
    assert caplog.text.count("Access Denied") == 1
    engine.admin.maintain()
    assert (objects(folder), rows(database, "SELECT count(*) FROM arc_stray_objects")) == ([], [(0,)])


@on_sqlite
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


@on_sqlite
def test_a_truncated_object_is_noticed_before_anything_is_removed(
    database: str, archiving: Callable[..., ContextEngine], folder: Path
) -> None:
    """The object is read back and compared; a partial one is removed by the next attempt."""
    engine = archiving(database, url=f"calling://{folder}")
    engine.session("s").save_turn("One.", "Two.")
    with (
        calling(lambda step: 100 if step == "write" else None),
        pytest.raises(ArchiveError, match="not stored completely"),
    ):
        engine.session("s").archive()
    assert status(database) == ("active", 2)
    assert engine.session("s").archive()
    assert len(objects(folder)) == 1


@on_sqlite
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


@on_sqlite
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


@on_sqlite
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


@pytest.mark.parametrize("use", ["append", "read"])
def test_a_use_between_an_object_s_removal_and_its_session_s(
    database: str, archiving: Callable[..., ContextEngine], folder: Path, use: str
) -> None:
    """A deletion removes the object first: an append begins the session again, and a reader finds none."""
    engine, other = (archiving(database, url=f"calling://{folder}") for _ in range(2))
    engine.session("s").save_turn("One.", "Two.")
    assert engine.session("s").archive()
    found: list[Any] = []

    def use_it() -> None:
        try:
            found.append(
                other.session("s").append(Message("user", "Three.", id="m3"))
                if use == "append"
                else other.session("s").messages()
            )
        except ArchiveError as error:
            found.append(error)

    reading, user = Event(), Thread(target=use_it)

    def interrupt(step: str) -> None:
        if step == "remove":
            for name in objects(folder):
                (folder / name).unlink()
            user.start()
            assert reading.wait(30)
        elif step == "read":
            reading.set()

    with calling(interrupt):
        engine.session("s").delete()
        user.join()
    assert found != []
    assert [one.id for one in found[0]] == (["m3"] if use == "append" else [])
    assert [one.id for one in engine.session("s").messages()] == (["m3"] if use == "append" else [])


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


@on_sqlite
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
    kill(helper, tmp_path / "log", archive_and_die, url=database, folder=str(folder), change=change)
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


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux")
def test_new_folders_are_on_the_disk_before_messages_leave(
    archiving: Callable[..., ContextEngine], tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each folder's name is in its parent: without a sync, a power cut takes the folder with its objects."""
    engine = archiving(sqlite_url(tmp_path), url=str(folder / "arc"))
    engine.session("s").save_turn("One.", "Two.")
    sync, synced = os.fsync, list[str]()

    def noted(file: int) -> None:
        sync(file)
        synced.append(str(Path(f"/proc/self/fd/{file}").readlink()))

    monkeypatch.setattr(os, "fsync", noted)
    assert engine.session("s").archive()
    parents = {str(folder / one) for one in ("", "arc", "arc/2026", "arc/2026/03")}
    assert {str(tmp_path), *parents} <= set(synced)


@on_sqlite
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
    kill(helper, tmp_path / "log", die_while_writing, url=database, folder=str(folder))
    assert len(objects(folder)) == 1
    if then == "erase":
        engine.admin.erase(caller_id="default", user_id="ann")
        assert objects(folder) == []
        return
    clock.now = datetime.now(UTC) + timedelta(hours=1)  # the dead process's lease has ended
    assert engine.session("s", user_id="ann").archive()
    assert [one.endswith(".json.gz") for one in objects(folder)] == [True]
