"""Conversations in this process's memory."""

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING

from cachetools import Cache, LRUCache

from arc_common.concurrency import ForkGate
from arc_common.exceptions import SessionNotFoundError
from arc_common.messages import Role
from arc_common.protocols import Conversation, ConversationPage, CountedMessage, SessionKey, StoredMessage
from arc_common.protocols.search_index import Scope
from arc_common.stores.append_plan import plan_append
from arc_common.stores.conversations_statements import detached, to_microseconds
from arc_common.stores.memories_in_memory import InMemoryMemories
from arc_common.stores.summaries_in_memory import InMemorySummaries, Ledger
from arc_common.stores.summaries_plan import Changed, edited
from arc_common.stores.validation import (
    checked_counts,
    checked_ids,
    checked_limit,
    checked_place,
    checked_places,
    checked_scope,
    page_position,
    page_token,
)

if TYPE_CHECKING:
    from arc_common.retrieval.in_memory import InMemoryIndexStore

__all__ = ["InMemoryStore"]

_log = logging.getLogger("arc.stores")


@dataclass(slots=True)
class _Session:
    """One conversation: its messages in order, and where each id is."""

    key: SessionKey
    number: int
    created_at: datetime
    updated_at: datetime
    last_message_at: datetime | None = None
    next_seq: int = 1
    remembered: int = 0
    messages: list[StoredMessage] = field(default_factory=list)
    by_id: dict[str, StoredMessage] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)

    def replace_all(self, messages: list[StoredMessage]) -> None:
        self.messages = messages
        self.by_id = {stored.message.id or "": stored for stored in messages}

    def index_of(self, seq: int) -> int:
        return bisect_left(self.messages, seq, key=lambda stored: stored.seq)

    def record(self) -> Conversation:
        return Conversation(
            key=self.key,
            created_at=self.created_at,
            updated_at=self.updated_at,
            last_message_at=self.last_message_at,
            message_count=len(self.messages),
            tool_calls_count=sum(len(stored.message.tool_calls) for stored in self.messages),
            total_tokens=sum(stored.tokens for stored in self.messages),
            status="active",
            metadata={},
        )


class InMemoryStore:
    """A `ConversationStore` that lasts as long as the process.

    - Holds the `max_sessions` sessions used last; when one more comes, the one unused for longest leaves, which is
      logged once.
    - Refuses what a database would refuse, so that a change of store changes nothing else.

    Args:
        max_sessions: How many sessions are kept.
        clock: Gives the time with zone; the system's by default.
    """

    def __init__(self, *, max_sessions: int = 1000, clock: Callable[[], datetime] | None = None) -> None:
        checked_limit("max_sessions", max_sessions, least=1)
        self._sessions = _LoggingCache(max_sessions, leaving=self._let_go)
        self._clock = clock or (lambda: datetime.now(UTC))
        self._numbers = count(1)
        self._lock = Lock()
        self._gate = ForkGate(before=_nothing, in_child=_nothing)
        self._summaries = InMemorySummaries(self._guarded, self._get, clock=self._clock)
        self._memories = InMemoryMemories(self._guarded, self._get, self._oldest_first, index=lambda: self._index)
        self._index: InMemoryIndexStore | None = None

    @property
    def summaries(self) -> InMemorySummaries:
        """The summaries and facts of its conversations."""
        return self._summaries

    @property
    def memories(self) -> InMemoryMemories:
        """The long-term memories. What a session that leaves had to itself goes with it."""
        return self._memories

    @property
    def index(self) -> "InMemoryIndexStore":
        """The index of texts, in the same memory. What it has of a session goes with the session."""
        with self._guarded():
            if self._index is None:
                from arc_common.retrieval.in_memory import (  # noqa: PLC0415 - numpy takes a tenth of a second
                    InMemoryIndexStore,
                )

                self._index = InMemoryIndexStore()
            return self._index

    def append(
        self, key: SessionKey, messages: Sequence[CountedMessage], *, max_messages: int | None = None
    ) -> list[StoredMessage]:
        """See `ConversationStore.append`."""
        checked_limit("max_messages", max_messages, least=1)
        checked_counts(messages)
        with self._gate.operation(), self._lock:
            session = self._get(key)
            if not messages:
                return []
            now = self._clock()
            if session is None:
                session = _Session(key, next(self._numbers), now, now)
                self._sessions[key.caller_id, key.session_id] = session
            plan = plan_append(messages, existing=session.by_id, next_seq=session.next_seq)
            if not plan.inserted and not plan.revised:
                return plan.results
            inserted, revised = ([detached(stored) for stored in kind] for kind in (plan.inserted, plan.revised))
            session.messages.extend(inserted)
            for stored in revised:
                session.messages[session.index_of(stored.seq)] = stored
            session.by_id.update((stored.message.id or "", stored) for stored in (*inserted, *revised))
            session.next_seq += len(plan.inserted)
            session.updated_at = now
            if plan.inserted:
                session.last_message_at = max(new.message.created_at or now for new in plan.inserted)
            if max_messages is not None and len(session.messages) > max_messages:
                session.replace_all(_without_oldest_turns(session.messages, max_messages))
            if revised:
                changed = edited(revised)
                session.ledger.after(changed, session.messages)
                self._memories.forget(key, changed.message_ids)
        return plan.results

    def tail(
        self,
        key: SessionKey,
        *,
        limit: int | None = None,
        max_tokens: int | None = None,
        before: int | None = None,
        after: int | None = None,
    ) -> list[StoredMessage]:
        """See `ConversationStore.tail`."""
        checked_limit("limit", limit)
        checked_limit("max_tokens", max_tokens)
        checked_place("before", before)
        checked_place("after", after)
        with self._gate.operation(), self._lock:
            session = self._get(key)
            if session is None:
                return []
            end = len(session.messages) if before is None else session.index_of(before)
            start = 0 if after is None else session.index_of(after + 1)
            if limit is not None:
                start = max(start, end - limit)
            if max_tokens is not None:
                start = _start_within(session.messages, start, end, max_tokens)
            return [detached(stored) for stored in session.messages[start:end]]

    def head(self, key: SessionKey, *, limit: int) -> list[StoredMessage]:
        """See `ConversationStore.head`."""
        checked_limit("limit", limit)
        with self._gate.operation(), self._lock:
            session = self._get(key)
            return [detached(stored) for stored in session.messages[:limit]] if session else []

    def find(self, key: SessionKey, message_ids: Sequence[str]) -> list[StoredMessage]:
        """See `ConversationStore.find`."""
        names = checked_ids(message_ids)
        with self._gate.operation(), self._lock:
            session = self._get(key)
            known = session.by_id if session else {}
            found = [known[name] for name in dict.fromkeys(names) if name in known]
        return [detached(stored) for stored in sorted(found, key=lambda stored: stored.seq)]

    def at(self, key: SessionKey, places: Sequence[int]) -> list[StoredMessage]:
        """See `ConversationStore.at`."""
        wanted = sorted(checked_places(places))
        with self._gate.operation(), self._lock:
            session = self._get(key)
            known = session.messages if session else []
            found = [known[i] for i in map(session.index_of, wanted) if i < len(known)] if session else []
        return [detached(stored) for stored in found if stored.seq in set(wanted)]

    def remove(self, key: SessionKey, message_ids: Sequence[str]) -> int:
        """See `ConversationStore.remove`."""
        names = set(checked_ids(message_ids))
        with self._gate.operation(), self._lock:
            session = self._get(key)
            if session is None:
                return 0
            gone = [stored.seq for stored in session.messages if stored.message.id in names]
            session.updated_at = self._clock()
            if gone:
                session.replace_all([stored for stored in session.messages if stored.message.id not in names])
                session.ledger.after(Changed(tuple(gone), tuple(names), removed=True), session.messages)
                self._memories.forget(key, list(names))
            return len(gone)

    def conversation(self, key: SessionKey) -> Conversation | None:
        """See `ConversationStore.conversation`."""
        with self._gate.operation(), self._lock:
            session = self._get(key)
            return session.record() if session else None

    def clear(self, key: SessionKey) -> int:
        """See `ConversationStore.clear`."""
        with self._gate.operation(), self._lock:
            session = self._get(key)
            if session is None:
                return 0
            removed = len(session.messages)
            session.replace_all([])
            session.ledger.clear()
            self._erase(key)
            self._memories.forget(key, None)
            session.updated_at = self._clock()
            return removed

    def delete(self, key: SessionKey) -> bool:
        """See `ConversationStore.delete`."""
        with self._gate.operation(), self._lock:
            if self._get(key) is None:
                return False
            del self._sessions[key.caller_id, key.session_id]
            self._erase(key)
            self._memories.forget(key, None)
            return True

    def conversations(
        self, caller_id: str, *, user_id: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> ConversationPage:
        """See `ConversationStore.conversations`."""
        checked_scope(caller_id, user_id, limit)
        position = page_position(cursor)
        with self._gate.operation(), self._lock:
            mine = [
                ((to_microseconds(session.created_at), session.number), session.record())
                for session in self._sessions.unused()
                if session.key.caller_id == caller_id and user_id in (None, session.key.user_id)
            ]
        behind = sorted((item for item in mine if item[0] < position), key=lambda item: item[0], reverse=True)
        page = behind[:limit]
        token = page_token(page[-1][1].created_at, page[-1][0][1]) if len(behind) > limit else None
        return ConversationPage(tuple(record for _, record in page), token)

    def close(self) -> None:
        """See `ConversationStore.close`."""

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        with self._gate.operation(), self._lock:
            yield

    def _erase(self, key: SessionKey) -> None:
        """Remove what the index has of a session."""
        if self._index is not None:
            self._index.erase(Scope(key.caller_id, session_id=key.session_id))

    def _let_go(self, key: SessionKey) -> None:
        """Remove what belongs to a session that leaves and to nobody else."""
        self._erase(key)
        self._memories.let_go(Scope(key.caller_id, key.user_id, key.session_id))

    def _oldest_first(self) -> list[_Session]:
        return sorted(self._sessions.unused(), key=lambda session: session.number)

    def _get(self, key: SessionKey) -> _Session | None:
        session = self._sessions.get((key.caller_id, key.session_id))
        if session is not None and session.key.user_id != key.user_id:
            raise SessionNotFoundError(key.session_id)
        return session


class _LoggingCache(LRUCache[tuple[str, str], _Session]):
    """Says once that sessions begin to leave."""

    _said = False

    def __init__(self, maxsize: int, *, leaving: Callable[[SessionKey], None]) -> None:
        super().__init__(maxsize)
        self._leaving = leaving

    def unused(self) -> list[_Session]:
        """All sessions, without using them."""
        return [Cache.__getitem__(self, name) for name in self]

    def popitem(self) -> tuple[tuple[str, str], _Session]:
        if not self._said:
            self._said = True
            _log.warning(
                "more than %d sessions in memory: the longest unused leave from now on; "
                "a database URL keeps all of them",
                self.maxsize,
            )
        name, session = super().popitem()
        self._leaving(session.key)
        return name, session


def _nothing() -> None:
    """A copy in the child is all there is to a fork."""


def _start_within(messages: Sequence[StoredMessage], start: int, end: int, max_tokens: int) -> int:
    """Where the longest run that ends at `end` and costs at most `max_tokens` begins."""
    total = 0
    for index in range(end - 1, start - 1, -1):
        total += messages[index].tokens
        if total > max_tokens:
            return index + 1
    return start


def _without_oldest_turns(messages: list[StoredMessage], keep: int) -> list[StoredMessage]:
    """The rule of the SQL store's `_oldest_turns`, on a list."""
    users = [stored.seq for stored in messages if stored.message.role is Role.USER]
    if not users:
        return messages
    leaving = [stored.seq for stored in messages if stored.message.role is not Role.SYSTEM]
    excess = len(messages) - keep
    behind = leaving[excess - 1] if excess <= len(leaving) else messages[-1].seq
    cut = next((seq for seq in users if seq > behind), users[-1])
    return [stored for stored in messages if stored.seq >= cut or stored.message.role is Role.SYSTEM]
