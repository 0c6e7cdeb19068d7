"""The verbatim part of a conversation: the messages that no summary covers yet, each read once."""

import copy
from bisect import bisect_right
from dataclasses import dataclass, replace
from threading import Lock

from cachetools import LRUCache

from arc_common.protocols import SessionKey, StoredMessage
from arc_common.protocols.summaries import SessionState, SummaryStore, View

_SESSIONS = 1_024


@dataclass(frozen=True, slots=True)
class AdoptedView:
    """A view that a turn of this process adopted."""

    epoch: int
    view: View
    stored: bool = False

    def is_ahead_of(self, state: SessionState) -> bool:
        """Return whether this view replaces the state's view."""
        return self.epoch == state.epoch and self.view.version > (state.view.version if state.view else 0)


class AdoptedViews:
    """Keeps adopted views until they are stored, so that no turn waits for a disk or another writer."""

    def __init__(self, store: SummaryStore) -> None:
        self._store = store
        self._lock = Lock()
        self._sessions: LRUCache[SessionKey, AdoptedView] = LRUCache(_SESSIONS)

    def newest(self, key: SessionKey) -> AdoptedView | None:
        """Return the view adopted here last. Call before reading the state, which then has views stored meanwhile."""
        with self._lock:
            return self._sessions.get(key)

    def adopt(self, key: SessionKey, view: View, *, epoch: int) -> View:
        """Adopt a view unless another turn was first; return the view that holds."""
        with self._lock:
            known = self._sessions.get(key)
            if known is not None and known.epoch == epoch and known.view.version >= view.version:
                return known.view
            self._sessions[key] = AdoptedView(epoch, view)
            return view

    def is_stored(self, key: SessionKey, *, epoch: int) -> bool:
        """Return whether no view of this epoch waits to be stored."""
        known = self.newest(key)
        return known is None or known.stored or known.epoch != epoch

    def save(self, key: SessionKey) -> bool:
        """Store the waiting view; return whether it holds. A view that the store refuses is dropped."""
        known = self.newest(key)
        if known is None or known.stored:
            return True
        stored = self._store.adopt(key, known.view, epoch=known.epoch)
        with self._lock:
            if self._sessions.get(key) is known:
                if stored:
                    self._sessions[key] = AdoptedView(known.epoch, known.view, stored=True)
                else:
                    del self._sessions[key]
        return stored

    def waiting(self) -> list[SessionKey]:
        """Return the sessions with a view that waits to be stored."""
        with self._lock:
            return [key for key, known in self._sessions.items() if not known.stored]

    def forget(self, key: SessionKey) -> None:
        """Drop this session from the cache."""
        with self._lock:
            self._sessions.pop(key, None)


_FIRST_READ = 256
_MOST_KEPT = 32_000_000
"""The most characters cached for all sessions together."""
_FRAME = 500
"""The overhead of a message besides its text, in characters."""


@dataclass(frozen=True, slots=True)
class Tail:
    """A session's state with the messages after its boundary."""

    state: SessionState
    tokens: int
    complete: bool

    def behind(self, view: View) -> "Tail":
        """Return the tail under another view with a later boundary."""
        messages = _behind(self.state.messages, view.boundary)
        passed = self.complete or len(messages) < len(self.state.messages)
        state = replace(self.state, view=view, messages=messages)
        return Tail(state, _tokens(messages), complete=passed)


@dataclass(frozen=True, slots=True)
class _Kept:
    """The messages of a session at one epoch."""

    epoch: int
    message_count: int
    messages: tuple[StoredMessage, ...]
    complete: bool
    plain: bool
    size: int

    @property
    def last(self) -> int:
        return self.messages[-1].seq


class TailReader:
    """Reads sessions with the messages after their boundaries, and caches these for the next turn."""

    def __init__(self, store: SummaryStore, *, most_kept: int = _MOST_KEPT) -> None:
        self._store = store
        self._most_kept = most_kept
        self._lock = Lock()
        self._sessions: LRUCache[SessionKey, _Kept] = LRUCache(most_kept, getsizeof=lambda kept: kept.size)

    def read(self, key: SessionKey, *, room: int, most: int) -> Tail:
        """Return the current tail of a session."""
        with self._lock:
            kept = self._sessions.get(key)
        tail = None if kept is None else self._continued(key, kept, room=room, most=most)
        return self._whole(key, room=room, most=most) if tail is None else tail

    def forget(self, key: SessionKey) -> None:
        """Drop this session from the cache."""
        with self._lock:
            self._sessions.pop(key, None)

    def _continued(self, key: SessionKey, kept: _Kept, *, room: int, most: int) -> Tail | None:
        """Return the cached tail with the new messages; `None` if that is no longer complete."""
        state = self._store.state(key, limit=_FIRST_READ, after=kept.last)
        same = state.epoch == kept.epoch and state.message_count == kept.message_count + len(state.messages)
        if not same:
            return None
        earlier = _behind(kept.messages, state.view.boundary if state.view else 0)
        messages = earlier + state.messages
        complete = kept.complete or len(earlier) < len(kept.messages)
        tokens = _tokens(messages)
        if not complete and tokens <= room and len(messages) < most:
            return None
        added = sum(map(_size, state.messages))
        return self._given(
            key,
            replace(state, messages=messages),
            tokens,
            complete=complete,
            plain=kept.plain and all(map(_is_plain, state.messages)),
            size=kept.size + added if len(earlier) == len(kept.messages) else sum(map(_size, messages)),
        )

    def _whole(self, key: SessionKey, *, room: int, most: int) -> Tail:
        limit = _FIRST_READ
        while True:
            state = self._store.state(key, limit=limit)
            complete = len(state.messages) < limit
            tokens = _tokens(state.messages)
            if complete or tokens > room or limit > most:
                break
            limit *= 4
        size = sum(map(_size, state.messages))
        plain = all(map(_is_plain, state.messages))
        return self._given(key, state, tokens, complete=complete, plain=plain, size=size)

    def _given(
        self, key: SessionKey, state: SessionState, tokens: int, *, complete: bool, plain: bool, size: int
    ) -> Tail:
        messages = state.messages
        with self._lock:
            self._sessions.pop(key, None)
            if messages and size <= self._most_kept:
                self._sessions[key] = _Kept(state.epoch, state.message_count, messages, complete, plain, size)
        own = state if plain else replace(state, messages=tuple(map(_own_copy, messages)))
        return Tail(own, tokens, complete)


def _behind(messages: tuple[StoredMessage, ...], boundary: int) -> tuple[StoredMessage, ...]:
    return messages[bisect_right(messages, boundary, key=lambda stored: stored.seq) :]


def _tokens(messages: tuple[StoredMessage, ...]) -> int:
    return sum([stored.tokens for stored in messages])


def _is_plain(stored: StoredMessage) -> bool:
    """Return whether a message has no mutable parts."""
    message = stored.message
    return not message.metadata and not message.tool_calls and type(message.content) in (str, type(None))


def _own_copy(stored: StoredMessage) -> StoredMessage:
    if _is_plain(stored):
        return stored
    message = stored.message
    parts = message.content if isinstance(message.content, tuple) else ()
    own = replace(
        message,
        content=tuple(replace(part, extra=copy.deepcopy(part.extra)) for part in parts) if parts else message.content,
        tool_calls=tuple(replace(call, arguments=copy.deepcopy(call.arguments)) for call in message.tool_calls),
        metadata=copy.deepcopy(message.metadata),
    )
    return replace(stored, message=own)


def _size(stored: StoredMessage) -> int:
    """Return the approximate size of a message in characters."""
    message = stored.message
    parts = message.content if isinstance(message.content, tuple) else ()
    data = sum(len(part.data or "") for part in parts)
    return _FRAME + len(message.text) + data + (len(message.origin.json) if message.origin else 0)
