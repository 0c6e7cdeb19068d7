"""The paths of branches: a path is the parts of other branches up to a fork, and then the branch itself."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    ARRAY,
    JSON,
    BigInteger,
    ColumnElement,
    Text,
    and_,
    bindparam,
    cast,
    exists,
    func,
    literal_column,
    or_,
    select,
    true,
)

from arc_common.caches import cached_text
from arc_common.exceptions import ArchiveError, BranchNotFoundError, ConversationDeletedError, SessionNotFoundError
from arc_common.protocols import SessionKey
from arc_common.protocols.conversations import MAIN, ConversationStatus, Path
from arc_common.stores.codec import conversation_key
from arc_common.stores.database.schema import branches, conversations, messages

_ACTIVE = ConversationStatus.ACTIVE.value

FOLLOW = -1
"""The parameter `wanted` for a session that is on the current branch, whichever that is."""


def check_owner(key: SessionKey, user_id: str | None) -> None:
    """Raise `SessionNotFoundError` if a conversation's owner is not the key's user."""
    if user_id != key.user_id:
        raise SessionNotFoundError(key.session_id)


class ArchivedConversationError(ArchiveError):
    """A statement met a conversation whose messages are in the archive: `Database` restores it, and tries again."""

    def __init__(self, key: SessionKey) -> None:
        self.key = key
        super().__init__(f"session {key.session_id!r} is archived")


def check_status(key: SessionKey, status: str) -> None:
    """Raise if a conversation is deleted or archived."""
    if status == ConversationStatus.DELETED:
        raise ConversationDeletedError(key.session_id)
    if status == ConversationStatus.ARCHIVED:
        raise ArchivedConversationError(key)


def is_active() -> ColumnElement[bool]:
    """Return the condition that a conversation is neither archived nor deleted."""
    return conversations.c.status == literal_column(f"'{_ACTIVE}'")


LOCKED_COLUMNS = (
    *(conversations.c[name] for name in ("user_id", "status", "incarnation", "archive_path", "archive_checksum")),
    *(conversations.c[name] for name in ("next_branch", "current_branch", "next_seq")),
    *(branches.c[name] for name in ("branch", "path", "head_seq", "message_count", "summarized_seq", "name")),
)
"""The columns of a `Locked`, in order."""


@dataclass(frozen=True, slots=True)
class Locked:
    """A session's row and that of its branch."""

    next_branch: int
    current_branch: int
    next_main_seq: int
    path: Path
    head: int
    message_count: int
    summarized: int
    name: str | None
    status: str
    incarnation: int
    archive_path: str | None
    archive_checksum: str | None

    @property
    def next_seq(self) -> int:
        """The `seq` of the branch's next message."""
        return self.head + 1

    @property
    def is_forked(self) -> bool:
        """True if the conversation has ever had several branches."""
        return self.next_branch > 1


def locked_from_row(key: SessionKey, row: Sequence[Any], *, active: bool = True) -> Locked:
    """Read a row of `LOCKED_COLUMNS`; raise if the session can't be used (with `active`: written)."""
    user_id, status, *about = row[:5]
    next_branch, current, next_seq, branch, path, head, count, summarized, name = row[5:]
    check_owner(key, user_id)
    if active and status != _ACTIVE:
        check_status(key, status)
    if branch is None:
        raise BranchNotFoundError(key.session_id, key.branch or 0)
    known = Path.from_text(branch, path)
    return Locked(next_branch, current, next_seq, known, head, count, summarized, name, status, *about)


def objects_of(text: str | None) -> tuple[str, ...]:
    """Return the archive's objects that a conversation's `archive_path` names: its own first, then older ones."""
    return tuple((text or "").split())


@cached_text(4_096)  # each statement of a session names its place
def place_on(key: SessionKey, path: Path, dialect_name: str) -> Mapping[str, Any]:
    """Return the parameters that identify a conversation's path and its owner."""
    place: dict[str, Any] = {
        "conversation": conversation_key(key),
        "branch": path.branch,
        "caller_id": key.caller_id,
        "user_id": key.user_id,
        "wanted": FOLLOW if key.branch is None else key.branch,
    }
    if is_main(key, path):
        return MappingProxyType(place)
    return MappingProxyType({**place, "path": path.text, **parts_of(path.forks, dialect_name)})


_PARTS = ("part_branches", "part_ends", "part_forks")


def parts_of(forks: Iterable[tuple[int, int, int]], dialect_name: str) -> dict[str, Any]:
    """Return the parameters for a path's parts (`Path.forks`)."""
    parts = list(forks)
    if dialect_name == "sqlite":
        return {"path_parts": json.dumps(parts)}
    return {name: [part[place] for part in parts] for place, name in enumerate(_PARTS)}


def is_main(key: SessionKey, path: Path) -> bool:
    """Return whether the session follows the main branch, so that statements need no path."""
    return path is MAIN and key.branch is None


def in_conversation(table: Any) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions for rows of the parameters' conversation, without checking its user."""
    return table.c.conversation == bindparam("conversation"), table.c.caller_id == bindparam("caller_id")


def of_conversation() -> ColumnElement[bool]:
    """Return the condition that joins a conversation with the branch that the parameters ask for."""
    named = func.nullif(bindparam("wanted", type_=BigInteger), FOLLOW)
    return and_(
        branches.c.conversation == conversations.c.conversation,
        branches.c.branch == func.coalesce(named, conversations.c.current_branch),
        branches.c.caller_id == conversations.c.caller_id,
    )


def on_path_of(table: Any, dialect_name: str) -> ColumnElement[bool]:
    """Return the condition that a row's point lies on the path of the branch that the statement joins."""
    stored = func.coalesce(branches.c.path, "[]")
    branch: Any
    last: Any
    if dialect_name == "sqlite":
        part: Any = func.json_each(stored).table_valued("value", name="step")
        branch, last = (func.json_extract(part.c.value, f"$[{place}]") for place in range(2))
    else:
        part = func.json_array_elements(cast(stored, JSON)).table_valued("value", name="step")
        branch, last = (cast(part.c.value.op("->>")(literal_column(f"{place}")), BigInteger) for place in range(2))
    before = exists(select(branch).select_from(part).where(branch == table.c.branch, table.c.seq <= last))
    return or_(table.c.branch == branches.c.branch, before)


class Along:
    """Builds conditions for rows that a path shows: those whose point (branch and place) lies on it."""

    def __init__(self, dialect_name: str) -> None:
        self._dialect = dialect_name

    def parts(self) -> tuple[Any, Any, Any, Any]:
        """Return the path's parts as a table, and its columns for branch, last place and fork."""
        if self._dialect == "sqlite":
            part = func.json_each(bindparam("path_parts")).table_valued("value", name="part")
            branch, last, fork = (func.json_extract(part.c.value, f"$[{place}]") for place in range(3))
            return part, branch, last, fork
        given = (bindparam(name, type_=ARRAY(BigInteger)) for name in _PARTS)
        part = func.unnest(*given).table_valued("branch", "last", "fork").render_derived(name="part")
        return part, part.c.branch, part.c.last, part.c.fork

    def inside(self, table: Any) -> tuple[ColumnElement[bool], ...]:
        """Return the conditions for rows that the path shows, whose owner was checked under the lock."""
        return *in_conversation(table), *self.on_path(table)

    def in_session(self, table: Any) -> tuple[ColumnElement[bool], ...]:
        """Return the conditions for rows that the path shows if the conversation belongs to this user."""
        return (
            table.c.conversation == self.session_row(),
            table.c.caller_id == bindparam("caller_id"),
            *self.on_path(table),
        )

    def on_path(self, table: Any) -> tuple[ColumnElement[bool], ...]:
        """Return the conditions for rows whose points lie on the path."""
        place = next(table.c[name] for name in ("seq", "point_seq", "at_seq") if name in table.c)
        part, branch, _, _ = self.parts()
        other, its_branch, its_last, fork = self.parts()
        reached = place <= its_last
        if "since" in table.c:  # messages stored behind a part's last one after the fork are not on the path
            reached = or_(place < its_last, and_(place == its_last, table.c.since <= fork))
        # The list lets SQLite look each branch up; the EXISTS alone would read the whole conversation.
        within = exists(select(its_branch).select_from(other).where(its_branch == table.c.branch, reached))
        return table.c.branch.in_(select(branch).select_from(part)), within

    def session_row(self) -> Any:
        """Select the key of the parameters' conversation if it belongs to this user and the path is its branch's."""
        return (
            select(conversations.c.conversation)
            .select_from(conversations.join(branches, branches.c.conversation == conversations.c.conversation))
            .where(
                *in_conversation(conversations),
                conversations.c.user_id.is_not_distinct_from(bindparam("user_id", type_=Text)),
                self.of_branch(),
            )
            .scalar_subquery()
        )

    def of_branch(self) -> ColumnElement[bool]:
        """Return the condition that a branch has the parameters' path, and that the session is on it."""
        return and_(
            branches.c.conversation == conversations.c.conversation,
            branches.c.branch == bindparam("branch"),
            is_active(),
            func.coalesce(branches.c.path, "[]") == bindparam("path", type_=Text),
            or_(bindparam("wanted", type_=BigInteger) != FOLLOW, conversations.c.current_branch == bindparam("branch")),
        )

    def ids_at(self) -> Any:
        """Select branch, place and id of the messages at the ends of the parts."""
        part, branch, last, _ = self.parts()
        return (
            select(messages.c.branch, messages.c.seq, messages.c.message_id)
            .select_from(part.join(messages, and_(messages.c.branch == branch, messages.c.seq == last)))
            .where(*in_conversation(messages))
        )

    def messages(self, names: Sequence[str], *between: Any, newest: bool) -> Any:
        """Select the newest or oldest messages on the path, from each part no more rows than are asked for."""
        part, branch, last, _ = self.parts()
        limit = bindparam("row_limit", type_=BigInteger)
        near = messages.alias("near")
        these = (
            *in_conversation(near),
            near.c.branch == branch,
            near.c.seq <= last,
            *(condition(near) for condition in between),
        )
        order = near.c.seq.desc() if newest else near.c.seq
        if self._dialect == "sqlite":
            seqs = select(near.c.seq).where(*these).order_by(order).limit(limit).correlate(part)
            here: Any = messages
            rows = select(*(here.c[name] for name in names)).select_from(part.join(here, true()))
            rows = rows.where(here.c.branch == branch, here.c.seq.in_(seqs))
        else:
            found = select(near).where(*these).order_by(order).limit(limit).correlate(part).lateral("found")
            here = found
            rows = select(*(here.c[name] for name in names)).select_from(part.join(found, true()))
        rows = rows.where(here.c.conversation == self.session_row())
        return rows.order_by(here.c.seq.desc() if newest else here.c.seq).limit(limit)
