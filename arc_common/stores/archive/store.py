"""Moves the messages of conversations into an archive, and back when they are used.

A conversation's `archive_path` names its object first, then older ones that are still to be removed. It is written
before the first byte of an object, so that no crash leaves one that nobody knows. A name that is forgotten while some
machine may still write its object is noted as a stray, which `sweep` removes.
"""

import base64
import gzip
import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import sleep
from typing import Any
from uuid import uuid4

from arc_common.exceptions import ArchiveError, ConfigurationError, ConversationDeletedError, SessionNotFoundError
from arc_common.protocols import SessionKey
from arc_common.protocols.conversations import MAIN, ConversationStatus, Idle
from arc_common.protocols.summaries import Lease
from arc_common.stores.archive.objects import ArchiveObjects, checksum_of
from arc_common.stores.branch_paths import check_owner, objects_of
from arc_common.stores.codec import from_microseconds, to_microseconds
from arc_common.stores.database.connection import Database
from arc_common.stores.database.drivers import Call, Row, Transaction
from arc_common.stores.database.encryption import Seal
from arc_common.stores.database.schema import HEAD, branches, conversations, messages
from arc_common.stores.statements.archive import archive_statements_for
from arc_common.stores.summaries import SqlSummaries
from arc_common.stores.transfer import SqlTransfer, to_values

_log = logging.getLogger("arc.stores")

_LEASE_SECONDS = 60.0
"""The time for which other machines leave a conversation alone; if writing takes longer, only one succeeds."""


_STRAY = timedelta(days=1)
"""The longest that a machine may pause between naming an object and writing it."""
_NOBODY = "nobody.json.gz"
"""The name of an object that never exists: looking for it shows if the archive answers."""
_LOOKS, _PAUSE = 5, 0.05
"""How often, and in which seconds, to check whether a conversation whose object can't be read has changed."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the statement `look`."""

    user_id: str | None
    status: str
    incarnation: int
    objects: str | None
    checksum: str | None
    has_messages: bool

    @property
    def is_only_archived(self) -> bool:
        """True if the messages are in the archive alone."""
        return self.checksum is not None and not self.has_messages

    @property
    def whole(self) -> str:
        """The object that was written to its end, if there is one."""
        return objects_of(self.objects)[0] if self.checksum is not None else ""


def object_path(key: SessionKey, last_message_at: int, checksum: str, attempt: str) -> str:
    """Return where an object is stored: `YYYY/MM/<sha256 of caller, session, content and attempt>.json.gz`.

    No two attempts share a name, so that a machine that was held up never overwrites a newer object, nor removes one.
    """
    parts = [part.encode() for part in (key.caller_id, key.session_id, checksum, attempt)]
    name = hashlib.sha256(b"".join(len(part).to_bytes(4) + part for part in parts)).hexdigest()
    moment = from_microseconds(last_message_at)
    return f"{moment.year:04}/{moment.month:02}/{name}.json.gz"


def disowned(objects: str) -> str:
    """Return the names of objects of which none is the conversation's own any more: they follow a space."""
    return f" {objects.strip()}"


def packed(key: SessionKey, record: Mapping[str, Any], seal: Seal) -> bytes:
    """Return a conversation as an object's content: the compressed lines that an export of it alone would have.

    With a cipher, they are encrypted once they are compressed.
    """
    head = {"arc": HEAD, "caller_id": key.caller_id, "user_id": key.user_id}
    lines = (json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in (head, record))
    content = gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)
    if seal.is_on:
        content = gzip.compress(seal.closed(base64.b64encode(content).decode()).encode(), mtime=0)
    return content


def message_rows(content: bytes, seal: Seal) -> list[dict[str, Any]]:
    """Return the rows of messages in an object's content, with the columns of this version."""
    text = gzip.decompress(content).decode()
    if seal.is_on:
        text = gzip.decompress(base64.b64decode(seal.opened(text))).decode()
    record = json.loads(text.split("\n")[1])
    rows = map(to_values, record.get(messages.name, ()))
    return [{column.name: row.get(column.name) for column in messages.columns} for row in rows]


class SqlArchive:
    """The archive of a `SqlStore`; without `objects` there is none."""

    def __init__(
        self,
        database: Database,
        summaries: SqlSummaries,
        objects: ArchiveObjects | None,
        *,
        keeps_messages: bool,
        clock: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._summaries = summaries
        self._objects = objects
        self._keeps_messages = keeps_messages
        self._clock = clock
        self._sql = archive_statements_for(database.dialect)

    def archive(self, key: SessionKey, *, transfer: SqlTransfer, idle: Idle | None) -> bool:
        """See `Store.archive`."""
        objects = self._needed()
        row = self._look(key)
        if row is None:
            raise SessionNotFoundError(key.session_id)
        if row.status == ConversationStatus.DELETED:
            raise ConversationDeletedError(key.session_id)
        lease = self._summaries.claim(key, owner=uuid4().hex, seconds=_LEASE_SECONDS)
        if lease is None:  # archived already, or somebody is at work on it
            return False
        try:
            record = transfer.conversation(self._place(key)["conversation"])
            return self._archive(key, objects, record, lease, idle)
        finally:
            self._summaries.release(key, lease)

    def _archive(
        self, key: SessionKey, objects: ArchiveObjects, record: dict[str, Any] | None, lease: Lease, idle: Idle | None
    ) -> bool:
        if record is None or not record.get(messages.name):
            return False
        (row,) = record[conversations.name]
        before = row["archive_path"]
        if row["lease_fence"] != lease.fence:  # another machine took over
            return False
        if row["status"] != ConversationStatus.ACTIVE or (idle is not None and not _is_idle(row, idle)):
            return False
        row.update(archive_path=None, archive_checksum=None)
        content = packed(key, record, self._database.seal)
        checksum = checksum_of(content)
        path = object_path(key, row["last_message_at"] or row["created_at"], checksum, lease.owner)
        known = " ".join((path, *objects_of(before)))
        same = {**self._place(key), "incarnation": row["incarnation"]}
        if not self._commit((self._sql.name_objects, {**same, "before": before, "objects": known}))[0]:
            return False
        try:
            objects.write(path, content)
        except ArchiveError:
            if (now := self._look(key)) is not None and now.objects == known:
                raise
            return False  # somebody has changed or deleted it meanwhile, and removed the object
        unchanged = {**same, **{name: row[name] for name in ("epoch", "next_seq", "next_branch")}}
        heads = [(one["branch"], one["head_seq"]) for one in record[branches.name]]

        def work(transaction: Transaction) -> bool:
            marked, found = transaction.run(
                (self._sql.archive, {**unchanged, "before": known, "checksum": checksum}), (self._sql.heads, same)
            )
            if not marked or [tuple(one) for one in found] != heads:
                return False
            transaction.commit(*([] if self._keeps_messages else [(self._sql.drop_messages, same)]))
            return True

        if self._database.transact(work):
            self._tidy(key, known, keep=path)
            return True
        objects.remove(path)  # somebody has written meanwhile
        self._forget(key, known, keep=before or "", strays=())
        return False

    def restore(self, key: SessionKey) -> bool:
        """See `Store.restore`."""
        row = self._look(key)
        if row is None:
            raise SessionNotFoundError(key.session_id)
        if row.status == ConversationStatus.ACTIVE:
            return False
        try:
            found = self.messages_of(key, row.objects, row.checksum) if row.is_only_archived else []
        except ArchiveError:
            if not self._is_changing(key, row):
                raise
            return self.restore(key)
        changed = {"incarnation": row.incarnation, "was": row.status, "before": row.objects}
        objects = None if row.objects is None else disowned(row.objects)
        changed |= {**self._place(key), "objects": objects, "now": to_microseconds(self._clock())}

        def work(transaction: Transaction) -> bool:
            if not transaction.run((self._sql.restore, changed))[0]:
                return False
            insert = SqlTransfer.inserting(self._database, messages)
            transaction.commit(*([(insert, found)] if found else []))
            return True

        if not self._database.transact(work):
            return False
        if objects is not None:
            self._tidy(key, objects, whole=row.whole)
        return True

    def _is_changing(self, key: SessionKey, row: _Row) -> bool:
        """Return whether somebody has restored or deleted a conversation, which removes its object before its row."""
        for _ in range(_LOOKS):
            if self._look(key) != row:
                return True
            sleep(_PAUSE)
        return False

    def tidy(self, key: SessionKey) -> None:
        """Remove the objects of an active conversation, which may have messages that were removed from it since."""
        row = self._look(key) if self._objects is not None else None
        if row is None or not row.objects or row.status != ConversationStatus.ACTIVE:
            return
        if self._commit(self.disowning(key, row.incarnation, row.objects))[0]:  # otherwise, it was archived meanwhile
            self._tidy(key, disowned(row.objects))

    def disowning(self, key: SessionKey, incarnation: int, objects: str) -> Call:
        """Return the call after which nobody who is archiving an active conversation can finish."""
        named = {"incarnation": incarnation, "before": objects, "objects": disowned(objects)}
        return self._sql.name_objects, {**self._place(key), **named}

    def _tidy(self, key: SessionKey, known: str, *, keep: str = "", whole: str = "") -> None:
        """Remove a conversation's objects but one; they stay named until they are removed."""
        left = [path for path in objects_of(known) if path != keep]
        try:
            self.remove(left)
            if left:
                self._forget(key, known, keep=keep, strays=[path for path in left if path != whole])
        except ArchiveError as error:
            _log.warning("objects of session %r stay in the archive for now: %s", key.session_id, error)

    def _forget(self, key: SessionKey, known: str, *, keep: str, strays: Sequence[str]) -> None:
        """Let a conversation name no objects but one, if it still names what is known."""
        forgetting = self._sql.forget_objects, {**self._place(key), "before": known, "objects": keep}

        def work(transaction: Transaction) -> None:
            if transaction.run(forgetting)[0]:
                transaction.commit(*self.noting(key, strays))

        self._database.transact(work)

    def noting(self, key: SessionKey, paths: Sequence[str]) -> list[Call]:
        """Return the calls that note objects which somebody may still write, once no conversation names them."""
        place, since = self._place(key), to_microseconds(self._clock())
        noted = {**{name: place[name] for name in ("conversation", "caller_id", "user_id")}, "since": since}
        return [(self._sql.note_stray, {**noted, "path": path}) for path in paths]

    def sweep(self) -> int:
        """See `Store.sweep`."""
        self.has(_NOBODY)  # raises if the archive can't be reached
        strays = self._database.read((self._sql.strays, {"before": to_microseconds(self._clock() - _STRAY)}))
        errors = []
        for conversation, caller_id, path in strays:
            try:
                self.remove([path])
            except ArchiveError as error:
                errors.append(error)
                continue
            self._commit((self._sql.drop_stray, {"conversation": conversation, "caller_id": caller_id, "path": path}))
        if errors:
            _log.warning("%d orphaned objects stay in the archive for now: %s", len(errors), errors[0])
        return len(strays) - len(errors)

    def _commit(self, call: Call) -> list[list[Row]]:
        return self._database.transact(lambda transaction: transaction.commit(call))

    def remove(self, paths: Sequence[str]) -> None:
        """Remove objects."""
        for path in paths:
            self._needed().remove(path)

    def has(self, path: str) -> bool:
        """Return whether an object is there."""
        return self._needed().exists(path)

    def messages_of(self, key: SessionKey, paths: str | None, checksum: str | None) -> list[dict[str, Any]]:
        """Return the rows of messages in a conversation's object; its path comes first."""
        path = objects_of(paths)[0]
        if self._objects is None:
            raise ArchiveError(f"session {key.session_id!r} is archived as {path}: set archive.url to its archive")
        try:
            content = self._objects.read(path)
        except ArchiveError as error:
            raise ArchiveError(f"session {key.session_id!r} can't be restored: {error}") from error
        if checksum_of(content) != checksum:
            raise ArchiveError(
                f"session {key.session_id!r} can't be restored: {path} in {self._objects!r} is damaged, its sha256 is "
                f"not {checksum}; put the object back from a copy of the archive"
            )
        return message_rows(content, self._database.seal)

    def _look(self, key: SessionKey) -> _Row | None:
        rows = self._database.read((self._sql.look, self._place(key)))
        if not rows:
            return None
        row = _Row(*rows[0])
        check_owner(key, row.user_id)
        return row

    def _place(self, key: SessionKey) -> Mapping[str, Any]:
        return self._database.place(key, MAIN)

    def _needed(self) -> ArchiveObjects:
        if self._objects is None:
            raise ConfigurationError(
                "archive.url (ARC_ARCHIVE__URL): not set, expected the address of the archive, such as a folder or "
                "s3://bucket/folder"
            )
        return self._objects


def _is_idle(row: Mapping[str, Any], idle: Idle) -> bool:
    since = to_microseconds(idle.since)
    return row["status"] == idle.status and row["updated_at"] <= since and (row["last_message_at"] or 0) <= since
