"""Reads a session for a turn, and adopts the summaries that are due."""

import copy
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate, count
from threading import Lock
from typing import Protocol

from cachetools import LRUCache

from arc_common.concurrency import give_way, waiting_for_background
from arc_common.context import HistoryRoom
from arc_common.memory.facts.index import FactIndexes
from arc_common.memory.summaries.adoption import AdoptedViews, Material, Placed, adopted
from arc_common.memory.summaries.trigger import first_to_stay
from arc_common.memory.summaries.writer import SummaryWriter
from arc_common.messages import Role
from arc_common.observability import Observer
from arc_common.protocols import ConversationStore, SessionKey, StoredMessage, TokenCounter
from arc_common.protocols.summaries import Outline, SessionState, SummaryStore, View
from arc_common.settings import ArcSettings
from arc_common.tokens.calibration import Correcting

_SESSIONS = 1_024
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


_EVERY = 2**31 - 1

_MOST_BRIDGED = 512
"""The most messages shown verbatim for lack of a summary, where there is room. Adding one to a request takes about
2 µs, so these slow a turn by a millisecond; if the model is further behind, the rules write the summaries."""

_WORTH_A_PREFIX = 2 / 3
"""The share of the verbatim tokens that an early adoption must free. Otherwise it waits for the limit, because it
invalidates the provider's cached prefix after the system prompt."""

_BACKLOG = 2
"""A turn does not wait for the model if more than this many times its room waits to be summarised."""

BEHIND = "some older messages are not summarised yet: the newest turns are shown"
BY_RULES = "summarised by rules: the model's summary is not there"
WAITED = "the turn waited for a summary"


@dataclass(frozen=True, slots=True)
class Remembered:
    """The part of a conversation that a turn reads."""

    state: SessionState | None
    notes: tuple[str, ...] = ()


class Background(Protocol):
    """Writes summaries in the background."""

    def is_busy(self, key: SessionKey) -> bool:
        """Return whether work on this session is waiting or running."""

    def is_writing(self, key: SessionKey) -> bool:
        """Return whether the session's summaries are being written."""

    def schedule(self, key: SessionKey) -> None:
        """Schedule the writing of due summaries."""

    def write(self, key: SessionKey, *, timeout: float) -> None:
        """Schedule the writing of due summaries, and wait for it at most `timeout` seconds."""

    def save_soon(self, key: SessionKey) -> None:
        """Schedule the storing of adopted views."""


class TurnReader:
    """Reads sessions for their turns, and adopts the summaries prepared for them."""

    def __init__(
        self,
        store: SummaryStore,
        conversations: ConversationStore,
        *,
        writer: SummaryWriter,
        background: Background,
        tails: TailReader,
        views: AdoptedViews,
        indexes: FactIndexes,
        counter: TokenCounter,
        settings: ArcSettings,
        observer: Observer,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._conversations = conversations
        self._writer = writer
        self._background = background
        self._tails = tails
        self._views = views
        self._indexes = indexes
        self._counter = counter
        self._settings = settings
        self._observer = observer
        self._clock = clock
        self._lock = Lock()
        self._tickets = count()
        self._materials: LRUCache[SessionKey, tuple[int, Material]] = LRUCache(_SESSIONS)
        self._limits: LRUCache[SessionKey, tuple[int, int]] = LRUCache(_SESSIONS)

    def tail(self, key: SessionKey, *, room: int) -> Tail:
        """Return the session with its current view and the messages after the view's boundary."""
        known = self._views.newest(key)
        tail = self._tails.read(key, room=room, most=_MOST_BRIDGED)
        return tail.behind(known.view) if known is not None and known.is_ahead_of(tail.state) else tail

    def read(self, key: SessionKey, tail: Tail, history: HistoryRoom) -> Remembered:
        """Return the tail as a turn sees it, after adopting the summaries that are due."""
        room, budget = history.least, history.budget
        more_room = history.more_beside(tail.state.view)
        soft_room = history.soft(room + more_room)
        limit = self._limit(room + more_room)
        limits = budget.max_tokens("facts") + budget.lent_to_facts(), budget.max_tokens("summary")
        with self._lock:
            self._limits[key] = limits
        self._writer.fits(key, room + more_room)
        view = tail.state.view
        fits = tail.complete and tail.tokens <= limit and len(tail.state.messages) <= _MOST_BRIDGED
        stale = view is not None and view.stale
        least = self._least_to_free(tail, soft=soft_room) if fits else 0
        if least is None and not stale:
            return Remembered(tail.state)
        if not stale and tail.complete:
            found = self._by_what_is_prepared(key, tail, fits=fits, room=room, limits=limits, least=least or 0)
            if found is not None:
                return found
        if not self._views.save(key):
            tail = self.tail(key, room=room + more_room)
        return self._by_itself(key, tail, fits=fits, room=room)

    def prepare(self, key: SessionKey, *, changed: bool) -> None:
        """Prepare the material that the session's next turn may adopt, if this process has read a turn of it."""
        with self._lock:
            asked = key in self._limits
        if not asked:
            return
        state = self._store.state(key, limit=0)
        known = self._material(key)
        same = known is not None and (known.epoch, known.facts_version) == (state.epoch, state.facts_version)
        if changed or not same:
            self._prepared(key, state)

    def forget(self, key: SessionKey) -> None:
        """Drop this session from the cache."""
        with self._lock:
            self._materials.pop(key, None)

    def _least_to_free(self, tail: Tail, *, soft: int) -> int | None:
        """Return the tokens that an adoption must free while there is room; `None` if no adoption is due."""
        options, count = self._settings.summary, len(tail.state.messages)
        if tail.state.view is None and count > options.trigger_message_count:
            return 0
        if tail.state.view and count and tail.state.messages[-1].seq - tail.state.view.boundary > count:
            return 0  # `max_messages_per_session` removed messages after the boundary
        if tail.state.view and count > options.high_water_mark and tail.tokens > options.high_water_tokens:
            return 0
        return int(_WORTH_A_PREFIX * tail.tokens) if tail.tokens > soft else None

    def _by_what_is_prepared(
        self, key: SessionKey, tail: Tail, *, fits: bool, room: int, limits: tuple[int, int], least: int
    ) -> Remembered | None:
        """Serve the turn from the material that the background prepared; `None` if that is not enough."""
        state, limit = tail.state, self._limit(room)
        material = self._material(key)
        busy = self._background.is_busy(key)
        cold = material is None or not material.serves(state, being_read=busy)
        if material is None or cold:
            material = self._prepared(key, state)
        material = material.within(*limits)
        boundary = _boundary(state)
        reach = self._reach(material, state.messages, boundary=boundary, room=room, any_maker=False)
        by_rules = False
        if not fits and not _fits(state.messages, reach, limit):
            if self._writer.has_model and not self._background.is_writing(key):
                return None
            further = self._reach(material, state.messages, boundary=boundary, room=room, any_maker=True)
            if not _fits(state.messages, further, limit):
                return None
            by_rules = further > reach and self._writer.has_model
            reach = further
        freed = sum(stored.tokens for stored in state.messages if stored.seq <= reach)
        if reach == boundary or (fits and freed < least):
            return Remembered(state) if fits else None
        if not self._views.is_stored(key, epoch=state.epoch):
            return self._bridged(key, tail) if fits else None
        notes = (BY_RULES,) if by_rules and material.by_rules(behind=boundary, up_to=reach) else ()
        return Remembered(self._adopt(key, tail, material, reach, state.messages, at_once=cold), notes)

    def _bridged(self, key: SessionKey, tail: Tail) -> Remembered:
        """Return the turn without adopting anything, but under a view that another turn adopted meanwhile."""
        known = self._views.newest(key)
        ahead = known is not None and known.is_ahead_of(tail.state)
        return Remembered((tail.behind(known.view) if known and ahead else tail).state)

    def _by_itself(self, key: SessionKey, tail: Tail, *, fits: bool, room: int) -> Remembered:
        """Write one leaf if the turn needs it, adopt the finished summaries, and leave the rest to the background."""
        state = tail.state
        verbatim: Sequence[Outline] = [
            Outline(stored.seq, stored.message.role, stored.tokens) for stored in state.messages
        ]
        boundary = _boundary(state)
        if not tail.complete:
            verbatim = self._store.outlines(key, after=boundary, limit=_EVERY)
        stale = state.view is not None and state.view.stale
        if stale:
            self._writer.leaf_by_rules(key, epoch=state.epoch)
        material = self._prepared(key, state)
        reach = self._reach(material, verbatim, boundary=boundary, room=room, any_maker=False)
        notes: list[str] = []
        if not fits and not _fits(verbatim, reach, self._limit(room)):
            material, reach, notes = self._caught_up(
                key, state, verbatim, material, reach, room=room, may_write=not stale
            )
            if not _fits(verbatim, reach, self._limit(room)):
                self._background.schedule(key)
                notes.append(BEHIND)
        if reach == boundary and not stale:
            return Remembered(state, tuple(notes))
        return Remembered(self._adopt(key, tail, material, reach, verbatim, at_once=True), tuple(notes))

    def _caught_up(
        self,
        key: SessionKey,
        state: SessionState,
        verbatim: Sequence[Outline],
        material: Material,
        reach: int,
        *,
        room: int,
        may_write: bool,
    ) -> tuple[Material, int, list[str]]:
        """Write one leaf by rules, wait for the model if the backlog is small, and find how far to adopt."""
        boundary = _boundary(state)

        def furthest_of(found: Material) -> int:
            return self._reach(found, verbatim, boundary=boundary, room=room, any_maker=True)

        if may_write and self._writer.leaf_by_rules(key, epoch=state.epoch) is not None:
            material = self._prepared(key, self._store.state(key, limit=0))
        furthest = furthest_of(material)
        if furthest == reach:
            return material, reach, []
        notes: list[str] = []
        is_backlog = not _fits(verbatim, furthest, _BACKLOG * self._limit(room))
        if self._writer.has_model and not is_backlog and not self._background.is_writing(key):
            with waiting_for_background():
                self._background.write(key, timeout=self._settings.summary.synchronous_timeout_seconds)
            notes.append(WAITED)
            material = self._prepared(key, self._store.state(key, limit=0))
            furthest = furthest_of(material)
        if self._writer.has_model and material.by_rules(behind=boundary, up_to=furthest):
            notes.append(BY_RULES)
        return material, furthest, notes

    def _adopt(
        self,
        key: SessionKey,
        tail: Tail,
        material: Material,
        boundary: int,
        verbatim: Sequence[Placed],
        *,
        at_once: bool,
    ) -> SessionState:
        """Adopt the next view and return the state under it; with `at_once`, also store the view."""
        state = tail.state
        view = adopted(
            state,
            material.shown(boundary),
            boundary=boundary,
            remaining=sum(line.seq > boundary for line in verbatim),
            instructions=self._instructions(key, tail, boundary),
            correction=self._counter.adopt_correction().factor if isinstance(self._counter, Correcting) else 1.0,
            now=self._clock(),
        )
        holding = self._views.adopt(key, view, epoch=state.epoch)
        if holding is view:
            self._observer.count("summary.adopted")
            if not at_once:
                self._background.save_soon(key)
            elif not self._views.save(key):
                return self.tail(key, room=tail.tokens).state  # another process adopted first: its view holds
        return tail.behind(holding).state

    def _instructions(self, key: SessionKey, tail: Tail, boundary: int) -> tuple[str, ...]:
        """Return the texts of the system messages before the boundary."""
        before = tail.state.view
        kept = before.instructions if before and not before.stale else ()
        after = before.boundary if before and not before.stale else 0
        if tail.complete and after == _boundary(tail.state):
            passed = [stored for stored in tail.state.messages if stored.seq <= boundary]
            return kept + tuple(stored.message.text for stored in passed if stored.message.role is Role.SYSTEM)
        outlines = self._store.outlines(key, after=after, limit=_EVERY)
        places = [line.seq for line in outlines if line.role is Role.SYSTEM and line.seq <= boundary]
        found = self._conversations.read(key, seqs=places) if places else ()
        return kept + tuple(stored.message.text for stored in found)

    def _limit(self, room: int) -> int:
        """Return the most tokens that verbatim messages may take."""
        trigger = self._settings.summary.trigger_tokens
        return room if trigger is None else min(room, trigger)

    def _reach(
        self,
        material: Material,
        verbatim: Sequence[StoredMessage | Outline],
        *,
        boundary: int,
        room: int,
        any_maker: bool,
    ) -> int:
        before = [0, *accumulate(line.tokens for line in verbatim)]
        first = first_to_stay(before, recent=self._settings.summary.recent_message_count, shown=room)
        recent = len(verbatim) - first
        return material.reach(verbatim, boundary=boundary, recent=recent, any_maker=any_maker)

    def _material(self, key: SessionKey) -> Material | None:
        with self._lock:
            found = self._materials.get(key)
        return None if found is None else found[1]

    def _prepared(self, key: SessionKey, state: SessionState) -> Material:
        """Read and compose the material that can be adopted now; cache it unless a newer one was cached meanwhile."""
        with self._lock:
            ticket = next(self._tickets)
            facts_tokens, narrative_tokens = self._limits.get(key, (0, 0))
        cover = tuple(self._store.cover(key))
        give_way()
        read_to = max((segment.end for segment in cover if segment.made_by is not None), default=0)
        material = Material(
            epoch=state.epoch,
            facts_version=state.facts_version,
            cover=cover,
            final=tuple(self._writer.is_final(key, segment) for segment in cover),
            index=self._indexes.refreshed(key, state, read_to=read_to),
            facts_tokens=facts_tokens,
            narrative_tokens=narrative_tokens,
            ready={},
        ).composed_ahead(boundary=_boundary(state))
        with self._lock:
            if key not in self._materials or self._materials[key][0] < ticket:
                self._materials[key] = ticket, material
        return material


def _boundary(state: SessionState) -> int:
    return state.view.boundary if state.view else 0


def _fits(verbatim: Sequence[StoredMessage | Outline], reach: int, limit: int) -> bool:
    """Return whether the messages after a place fit."""
    costs = [line.tokens for line in verbatim if line.seq > reach]
    return len(costs) <= _MOST_BRIDGED and sum(costs) <= limit
