"""Archived conversations are restored on use, exported and erased."""

import gzip
import json
import re
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from threading import Event
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
    MissingDependencyError,
    SessionNotFoundError,
)
from arc_common.messages import Message
from arc_common.observability import SilentObserver
from tests.behaviour.engine.test_erase import talk
from tests.behaviour.engine.test_transfer import shown
from tests.support.archives import calling, objects, status, status_of
from tests.support.clocks import START, Clock
from tests.support.databases import on_sqlite, rows, sqlite_url
from tests.support.leak_world import Letters

DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("database", "keeps"), [("sqlite", False), ("sqlite", True), ("postgres", False)], indirect=["database"]
)
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


@on_sqlite
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
    with archiving(database, enabled=False, after_days=30) as off:
        assert off.admin.maintain().archived == 0
    assert engine.admin.maintain(progress=seen.append).archived == 2
    assert seen == [1, 2]
    assert engine.admin.maintain().archived == 0
    assert len(engine.session("s0", caller_id="c0").messages()) == 2
    first = objects(folder)
    clock.now = START + 80 * DAY
    assert str(engine.admin.archive()) == "archived 2, deleted 0, failed 0"  # the settings' time, too
    assert len(objects(folder)) == 3
    assert set(first) < set(objects(folder))
    with archiving(database, conversation={"ttl_hours": 1}) as other:
        other.session("new").save_turn("One.", "Two.")
        clock.now += timedelta(hours=2)
        assert other.admin.maintain().archived == 1
    for name in ("left", "used"):
        clock.now += timedelta(hours=1)
        engine.session(name).save_turn("One.", "Two.")
    clock.now += 31 * DAY
    assert engine.admin.archive(progress=lambda _: engine.session("used").save_turn("Three.", "Four.")).archived == 1
    assert status_of(database, "used") == "active"


def test_without_an_archive_the_time_to_live_deletes(
    database: str, opened: Callable[..., ContextEngine], clock: Clock
) -> None:
    """Sessions go with their derived data unless somebody has just used them; without the setting, all stay."""
    engine = opened(database, clock=clock, settings=ArcSettings(conversation={"ttl_hours": 24}))
    engine.session("old").save_turn("My code is 4711.", "Noted.")
    clock.now += timedelta(seconds=1)
    engine.session("read").save_turn("One.", "Two.")
    clock.now += DAY
    with opened(database, clock=clock) as unasked:
        assert str(unasked.admin.maintain()) == "archived 0, deleted 0, failed 0"
    assert engine.admin.maintain(progress=lambda _: engine.session("read").save_turn("Three.", "Four.")).deleted == 1
    assert rows(database, "SELECT session_id FROM arc_conversations") == [("read",)]


@on_sqlite
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


@on_sqlite
def test_an_object_that_stays_is_on_the_receipt(
    database: str, archiving: Callable[..., ContextEngine], folder: Path
) -> None:
    """If the archive fails, the erasure raises before it removes the row, the only reference to the object.

    If the archive only claims to have removed it, it is found afterwards.
    """
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
    engine.session("s", user_id="ann").save_turn("My code is 4711.", "Noted.")
    assert engine.session("s", user_id="ann").archive()
    with calling(lambda step: 0 if step == "remove" else None):
        receipt = engine.admin.erase(caller_id="default", user_id="ann")
    assert (receipt.left, receipt.is_complete) == ({"archive objects": 1}, False)


@on_sqlite
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


@on_sqlite
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


@on_sqlite
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


@pytest.mark.parametrize(
    ("protocol", "module", "command"),
    [
        ("s3a", "s3fs", "'arc-context-engine[archive]'"),
        ("gs", "gcsfs", "gcsfs"),
        ("az", "adlfs", "adlfs"),
        ("abfs", "adlfs", "adlfs"),
        ("sftp", "paramiko", "'fsspec[sftp]'"),
    ],
)
def test_the_package_of_an_archive_s_file_system_is_named(
    monkeypatch: pytest.MonkeyPatch, protocol: str, module: str, command: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError) as caught:
        ContextEngine.open(settings=ArcSettings(archive={"url": f"{protocol}://ann:secret@chats/a"}))
    assert str(caught.value).startswith(f"archive.url '{protocol}://ann:***@chats/a' needs the package")
    assert str(caught.value).endswith(f": pip install -U {command}")


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
    engine = opened(sqlite_url(tmp_path), settings=ArcSettings(archive={"url": "ftp://ann:secret@127.0.0.1:1/a"}))
    with pytest.raises(ArchiveError, match=r"ftp://ann:\*\*\*@127\.0\.0\.1:1/a") as caught:
        engine.session("s").archive()
    assert "secret" not in str(caught.value)
    engine = opened(sqlite_url(tmp_path), settings=ArcSettings(archive={"url": str(tmp_path / "a")}))
    with pytest.raises(SessionNotFoundError):
        engine.session("other").archive()
    engine.session("s").delete(soft=True)
    with pytest.raises(ConversationDeletedError):
        engine.session("s").archive()


@on_sqlite
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
