"""Reads a session for a turn: its newest messages under the adopted summary, and the facts that a question needs."""

import copy
import logging
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from threading import Lock

from arc_common.caches import LRUCache, drop_session
from arc_common.concurrency import give_way, replying, waiting_for_background
from arc_common.context import NO_LAYERS, HistoryRoom, Layers, LeftOut
from arc_common.exceptions import BranchNotFoundError, SessionNotFoundError
from arc_common.facts import Fact, with_local_days
from arc_common.memory.facts.index import FactIndexes
from arc_common.memory.services import Services
from arc_common.memory.summaries.adoption import (
    AdoptedViews,
    Material,
    composed,
    narrated,
    shown_narratives,
    with_excerpts,
    written,
)
from arc_common.memory.summaries.background import SummaryQueues
from arc_common.memory.summaries.summarizers import ModelSummarizer
from arc_common.memory.summaries.trigger import BACKLOG, EVERY, MOST_VERBATIM, Line, fits, least_to_free, token_limit
from arc_common.memory.summaries.writer import SummaryWriter
from arc_common.messages import Role
from arc_common.prompts.context import by_day
from arc_common.protocols import SessionKey, StoredMessage
from arc_common.protocols.summaries import (
    Compaction,
    ConversationSummary,
    SessionState,
    SummaryInspection,
    SummaryStore,
    View,
)
from arc_common.tokens.budget import TokenBudget
from arc_common.tokens.calibration import Correcting

_log = logging.getLogger("arc.memory")

_SESSIONS = 1_024
_FIRST_READ = 256
_MOST_KEPT = 32_000_000
"""The most characters cached for all sessions together."""
_FRAME = 500
"""The overhead of a message in addition to its text, in characters."""


@dataclass(frozen=True, slots=True)
class Tail:
    """A session's state with the messages after its boundary."""

    state: SessionState
    tokens: int
    complete: bool
    is_plain: bool  # no message has mutable parts
    size: int  # of the messages, in characters

    def under(self, view: View) -> "Tail":
        """Return the tail under another view with a later boundary."""
        messages = _messages_after(self.state.messages, view.boundary)
        passed = self.complete or len(messages) < len(self.state.messages)
        state = replace(self.state, view=view, messages=messages)
        return replace(self, state=state, tokens=_tokens(messages), complete=passed)


class TailReader:
    """Reads sessions with the messages after their boundaries, and caches these for the next turn."""

    def __init__(self, store: SummaryStore, *, most_kept: int = _MOST_KEPT) -> None:
        self._store = store
        self._most_kept = most_kept
        self._lock = Lock()
        self._sessions: LRUCache[SessionKey, Tail] = LRUCache(most_kept, getsizeof=lambda kept: kept.size)

    def read(self, key: SessionKey, *, room: int, most: int) -> Tail:
        """Return the current tail of a session."""
        with self._lock:
            kept = self._sessions.get(key)
        tail = None if kept is None else self._continued(key, kept, room=room, most=most)
        tail = self._read_anew(key, room=room, most=most) if tail is None else tail
        messages = tail.state.messages
        with self._lock:
            self._sessions.pop(key, None)
            if messages and tail.size <= self._most_kept:  # without texts that may be deleted from other sessions
                self._sessions[key] = replace(tail, state=replace(tail.state, view=None, pins=()))
        if tail.is_plain:
            return tail
        return replace(tail, state=replace(tail.state, messages=tuple(map(_own_copy, messages))))

    def forget(self, key: SessionKey) -> None:
        """Drop this session from the cache."""
        with self._lock:
            drop_session(self._sessions, key)

    def _continued(self, key: SessionKey, kept: Tail, *, room: int, most: int) -> Tail | None:
        """Return the cached tail with the new messages; `None` if that is no longer complete."""
        before = kept.state
        state = self._store.state(key, limit=_FIRST_READ, after=before.messages[-1].seq)
        new = state.messages
        if state.epoch != before.epoch or state.message_count != before.message_count + len(new):
            return None
        earlier = _messages_after(before.messages, state.boundary)
        complete = kept.complete or len(earlier) < len(before.messages)
        tokens = _tokens(earlier + new)
        if not complete and tokens <= room and len(earlier + new) < most:
            return None
        size = kept.size if len(earlier) == len(before.messages) else sum(map(_size, earlier))
        is_plain = kept.is_plain and all(map(_is_plain, new))
        state = replace(state, messages=earlier + new)
        return Tail(state, tokens, complete, is_plain, size + sum(map(_size, new)))

    def _read_anew(self, key: SessionKey, *, room: int, most: int) -> Tail:
        limit = _FIRST_READ
        while True:
            state = self._store.state(key, limit=limit)
            complete = len(state.messages) < limit
            tokens = _tokens(state.messages)
            if complete or tokens > room or limit > most:
                size = sum(map(_size, state.messages))
                return Tail(state, tokens, complete, all(map(_is_plain, state.messages)), size)
            limit *= 4


def _messages_after(messages: tuple[StoredMessage, ...], boundary: int) -> tuple[StoredMessage, ...]:
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


_MOST_RECALLED = 100

BEHIND = "some older messages are not summarised yet: the newest turns are shown"
BY_RULES = "summarised by rules, because the model's summary is missing"
WAITED = "the turn waited for a summary"


@dataclass(frozen=True, slots=True)
class Remembered:
    """The part of a conversation that a turn reads."""

    state: SessionState | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Turn:
    """A turn that reads a session: the messages that could be shown, and whether they fit its room."""

    key: SessionKey
    tail: Tail
    room: int
    limit: int
    limits: tuple[int, int]
    fits: bool

    @property
    def state(self) -> SessionState:
        return self.tail.state

    @property
    def boundary(self) -> int:
        return self.tail.state.boundary


class HierarchicalMemory:
    """Reads sessions for their turns, adopts summaries, and has them written in the background."""

    def __init__(
        self, services: Services, summarizer: ModelSummarizer | None, *, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._services = services
        self._settings = services.settings.summary
        self._store = services.store.summaries
        self._writer = SummaryWriter(services, summarizer, room_of=self._room_of)
        self._tails = TailReader(self._store)
        self._views = AdoptedViews(self._store)
        self._indexes = FactIndexes(services)
        self.queues = SummaryQueues(services, self._writer, prepare=self._prepare, save=self._views.save, pause=pause)
        self._lock = Lock()
        self._tickets = count()
        self._materials: LRUCache[SessionKey, tuple[int, Material]] = LRUCache(_SESSIONS)
        self._limits: LRUCache[SessionKey, tuple[int, int]] = LRUCache(_SESSIONS)
        self._rooms: LRUCache[SessionKey, int] = LRUCache(_SESSIONS)

    def compact(self, key: SessionKey, budget: TokenBudget) -> Compaction:
        """Write summaries of all but the recent messages, adopt them at once, and return the effect."""
        limits = budget.max_tokens("facts") + budget.lent_to_facts(), budget.max_tokens("summary")
        with self._lock:
            limits = self._limits.setdefault(key, limits)
        self.queues.finish(key)
        self._writer.leaf_of_the_rest(key)
        self.queues.finish(key)
        self._views.save(key)
        room = budget.input_tokens
        tail = self._tail(key, room=room)
        state, boundary = tail.state, tail.state.boundary
        lines = self._store.state(key, limit=0, after=boundary, outlines=EVERY).outlines
        material = self._prepared(key, state)
        turn = _Turn(key, tail, room, room, limits, fits=True)
        reach = self._reach(material, turn, lines, any_maker=True)
        before = self._shown_tokens(state) + sum(line.tokens for line in lines)
        if reach == boundary:
            return Compaction(0, before, before)
        after = self._shown_tokens(self._adopt(turn, material, reach, lines, at_once=True))
        after += sum(line.tokens for line in lines if line.seq > reach)
        by_rules = self._writer.has_model and material.by_rules(behind=boundary, up_to=reach)
        return Compaction(sum(line.seq <= reach for line in lines), before, after, (BY_RULES,) if by_rules else ())

    def _shown_tokens(self, state: SessionState) -> int:
        """Return the tokens of the adopted facts and narrative."""
        shown = [by_day(state.view.facts), by_day(state.view.narrative.splitlines())] if state.view else []
        return sum(map(self._services.token_counter.count, shown))

    def forget(self, key: SessionKey) -> None:
        """Drop a session from this process's memory; the next read goes to the store."""
        for kept in (self._tails, self._views, self._indexes, self._writer):
            kept.forget(key)
        with self._lock:
            drop_session(self._materials, key)

    def close(self) -> None:
        """Drop waiting work, stop running work and store adopted views; a model's later answers are not stored."""
        self._writer.stop()
        self.queues.close()
        for key in self._views.waiting():
            try:
                self._views.save(key)
            except Exception as error:  # noqa: BLE001 - the view is adopted again later; closing continues
                _log.warning("the adopted summary of session %r was not stored: %s", key.session_id, error)
                self._services.observer.count("background.errors", error=type(error).__name__)

    def facts(
        self,
        key: SessionKey,
        *,
        include_superseded: bool = False,
        include_ungrounded: bool = False,
        include_excerpts: bool = False,
    ) -> list[Fact]:
        """Return the ledger's facts, the most important first, the newest first among equals."""
        found = self._store.facts(key, include_superseded=include_superseded, include_ungrounded=include_ungrounded)
        return [fact for fact in found if include_excerpts or not fact.is_excerpt]

    def summary(self, key: SessionKey) -> ConversationSummary | None:
        """Return the summary written so far, adopted or not; `None` if there is none."""
        cover = [segment for segment in self._store.segments(key) if segment.created_at is not None]
        if not cover:
            return None
        most = self._settings.max_tokens
        shown, _ = shown_narratives(cover, boundary=cover[-1].end, max_tokens=most)
        times = [segment.created_at for segment in cover if segment.created_at is not None]
        state = self._store.state(key, limit=0, after=cover[-1].end, outlines=EVERY)
        count = self._services.token_counter.count
        known = with_local_days(self._store.facts(key), self._services.clock().tzinfo)
        narrative = narrated(shown, max_tokens=most, count=count)[0]
        return ConversationSummary(
            narrative=with_excerpts(narrative, known, max_tokens=most, count=count),
            facts=tuple(fact for fact in known if not fact.is_excerpt),
            summarized_up_to=state.message_count - len(state.outlines),
            pending=len(state.outlines),
            created_at=min(times),
            updated_at=max(times),
        )

    def inspect(self, key: SessionKey) -> SummaryInspection:
        """Return the progress of a session's summaries, without reading their text."""
        known = self._views.newest(key)
        segments = tuple(self._store.segments(key, part="all"))
        written = max((segment.end for segment in segments if not segment.stale), default=0)
        state = self._store.state(key, limit=0, after=written, outlines=EVERY)
        return SummaryInspection(
            segments=segments,
            view=known.view if known is not None and known.is_ahead_of(state) else state.view,
            message_count=state.message_count,
            pending=len(state.outlines),
            is_busy=self.queues.is_busy(key),
        )

    def facts_about(self, key: SessionKey, question: str) -> list[tuple[Fact, float]]:
        """Return the facts that are searched for a question, each with its share of a perfect match."""
        state = self._store.state(key, limit=0)
        return self._indexes.refreshed(key, state, read_to=state.boundary).shares(question)

    def layers(self, key: SessionKey, state: SessionState, query: str) -> Layers:
        """Return the layers other than the messages: the adopted view, and other facts that the question needs."""
        view = state.view
        if view is None:
            return NO_LAYERS
        layers = Layers(
            view.facts,
            view.fact_ids,
            view.narrative,
            view.instructions,
            not_narrated=LeftOut(view.unshown, view.unshown_tokens),
            boundary=view.boundary,
            covered=view.covered,
            turn=_current_turn(state, query),
        )
        try:
            with replying():
                facts = self._indexes.for_turn(key, state, being_read=partial(self.queues.is_busy, key))
                found, others = facts.search(query, top_k=_MOST_RECALLED, boundary=view.boundary, adopted=view.fact_ids)
        except Exception as error:  # noqa: BLE001 - a reply must not depend on recalled facts
            _log.warning("facts of session %r are not recalled: %s", key.session_id, error, exc_info=error)
            self._services.observer.count("recall.errors")
            return layers
        return replace(
            layers,
            importance=facts.importance(view.fact_ids),
            recalled=tuple(found),
            not_recalled=LeftOut(others, 0),
        )

    def read(self, key: SessionKey, room: HistoryRoom) -> Remembered:
        """Read a session for a turn, after adopting finished summaries that are due."""
        state = None
        with replying():
            try:
                tail = self._tail(key, room=room.least + room.more_beside(None))
                state = tail.state
                return self._read(key, tail, room)
            except (SessionNotFoundError, BranchNotFoundError):
                raise
            except Exception as error:  # noqa: BLE001 - a summary must not break a reply; the receipt notes the loss
                _log.warning("summaries of session %r are left out: %s", key.session_id, error, exc_info=error)
                self._services.observer.count("summary.errors")
                return Remembered(state, (f"summaries were left out: {type(error).__name__}",))

    def _tail(self, key: SessionKey, *, room: int) -> Tail:
        """Return the session with its current view and the messages after the view's boundary."""
        known = self._views.newest(key)
        tail = self._tails.read(key, room=room, most=MOST_VERBATIM)
        return tail.under(known.view) if known is not None and known.is_ahead_of(tail.state) else tail

    def _read(self, key: SessionKey, tail: Tail, history: HistoryRoom) -> Remembered:
        """Return the tail as a turn sees it, after adopting the summaries that are due."""
        history = history.beside(tail.state.pins)
        state, room, budget = tail.state, history.least, history.budget
        whole_room = room + history.more_beside(state.view)
        limits = budget.max_tokens("facts") + budget.lent_to_facts(), budget.max_tokens("summary")
        with self._lock:
            self._limits[key], self._rooms[key] = limits, whole_room
        limit = token_limit(self._settings, room)
        all_fit = tail.complete and fits(state.messages, limit=token_limit(self._settings, whole_room))
        turn = _Turn(key, tail, room, limit, limits, all_fit)
        soft = history.soft(whole_room)
        least = least_to_free(state, self._settings, tokens=tail.tokens, soft=soft) if all_fit else 0
        is_stale = state.view is not None and state.view.stale
        if least is None and not is_stale:
            return Remembered(state)
        if not is_stale and tail.complete and (found := self._read_prepared(turn, least=least or 0)) is not None:
            return found
        if not self._views.save(key):
            turn = replace(turn, tail=self._tail(key, room=whole_room))
        return self._read_unprepared(turn)

    def _read_prepared(self, turn: _Turn, *, least: int) -> Remembered | None:
        """Serve the turn from the material that the background prepared; `None` if that is not enough."""
        key, state = turn.key, turn.state
        material = self._material(key)
        cold = material is None or not material.serves(state, being_read=self.queues.is_busy(key))
        if material is None or cold:
            material = self._prepared(key, state)
        material = material.within(*turn.limits)
        reach = self._reach(material, turn, state.messages, any_maker=False)
        by_rules = False
        if not turn.fits and not fits(state.messages, limit=turn.limit, behind=reach):
            if self._writer.has_model and not self.queues.is_writing(key):
                return None
            further = self._reach(material, turn, state.messages, any_maker=True)
            if not fits(state.messages, limit=turn.limit, behind=further):
                return None
            by_rules = further > reach and self._writer.has_model
            reach = further
        freed = sum(stored.tokens for stored in state.messages if stored.seq <= reach)
        if reach == turn.boundary or (turn.fits and freed < least):
            return Remembered(state) if turn.fits else None
        if not self._views.is_stored(key, epoch=state.epoch):
            return Remembered(self._tail(key, room=turn.room).state) if turn.fits else None
        notes = (BY_RULES,) if by_rules and material.by_rules(behind=turn.boundary, up_to=reach) else ()
        return Remembered(self._adopt(turn, material, reach, state.messages, at_once=cold), notes)

    def _read_unprepared(self, turn: _Turn) -> Remembered:
        """Write one leaf if the turn needs it, adopt the finished summaries, and leave the rest to the background."""
        key, state = turn.key, turn.state
        verbatim: Sequence[Line] = state.messages
        is_stale = state.view is not None and state.view.stale
        if is_stale:
            self._writer.leaf_by_rules(key, epoch=state.epoch)
        being_read = not turn.tail.complete and self.queues.is_busy(key)
        material = None if is_stale else self._material(key)
        if material is None or not material.serves(state, being_read=being_read):
            material = self._prepared(key, state)
        material = material.within(*turn.limits)
        if not turn.tail.complete:
            is_written = any(one.end > turn.boundary and one.made_by for one in material.cover)
            if not (is_written or is_stale or fits(verbatim, limit=BACKLOG * turn.limit)):  # after a bulk append
                self.queues.schedule(key)
                return Remembered(state, (BEHIND,))
            verbatim = self._store.state(key, limit=0, after=turn.boundary, outlines=EVERY).outlines
        reach = self._reach(material, turn, verbatim, any_maker=False)
        notes: list[str] = []
        if not turn.fits and not fits(verbatim, limit=turn.limit, behind=reach):
            material, reach, notes = self._catch_up(turn, verbatim, material, reach, may_write=not is_stale)
            if not fits(verbatim, limit=turn.limit, behind=reach):
                self.queues.schedule(key)
                notes.append(BEHIND)
        if reach == turn.boundary and not is_stale:
            return Remembered(state, tuple(notes))
        return Remembered(self._adopt(turn, material, reach, verbatim, at_once=True), tuple(notes))

    def _catch_up(
        self, turn: _Turn, verbatim: Sequence[Line], material: Material, reach: int, *, may_write: bool
    ) -> tuple[Material, int, list[str]]:
        """Unless there is a backlog, write one leaf by rules or wait for the model; find how far to adopt."""
        key = turn.key
        far_behind = not fits(verbatim, limit=BACKLOG * turn.limit, behind=reach)
        if may_write and not far_behind and self._writer.leaf_by_rules(key, epoch=turn.state.epoch) is not None:
            material = self._prepared(key, self._store.state(key, limit=0))
        furthest = self._reach(material, turn, verbatim, any_maker=True)
        if furthest == reach:
            return material, reach, []
        notes: list[str] = []
        is_backlog = not fits(verbatim, limit=BACKLOG * turn.limit, behind=furthest)
        if self.queues.in_process and self._writer.has_model and not is_backlog and not self.queues.is_writing(key):
            with waiting_for_background():
                self.queues.write(key, timeout=self._settings.synchronous_timeout_seconds)
            notes.append(WAITED)
            material = self._prepared(key, self._store.state(key, limit=0))
            furthest = self._reach(material, turn, verbatim, any_maker=True)
        if self._writer.has_model and material.by_rules(behind=turn.boundary, up_to=furthest):
            notes.append(BY_RULES)
        return material, furthest, notes

    def _adopt(
        self, turn: _Turn, material: Material, boundary: int, verbatim: Sequence[Line], *, at_once: bool
    ) -> SessionState:
        """Adopt the next view and return the state under it; with `at_once`, also store the view."""
        key, tail, state = turn.key, turn.tail, turn.state
        counter, shown = self._services.token_counter, material.ready.get(boundary) or composed(material, boundary)
        view = View(
            version=state.view.version + 1 if state.view else 1,
            boundary=boundary,
            covered=state.message_count - sum(line.seq > boundary for line in verbatim),
            facts=shown.facts,
            fact_ids=shown.fact_ids,
            narrative=shown.narrative,
            instructions=self._instructions(turn, boundary),
            correction=counter.adopt_correction().factor if isinstance(counter, Correcting) else 1.0,
            adopted_at=self._services.clock(),
            stale=shown.stale,
            unshown=shown.unshown,
            unshown_tokens=shown.unshown_tokens,
        )
        holding = self._views.adopt(key, view, epoch=state.epoch)
        if holding is view:
            self._services.observer.count("summary.adopted")
            if not at_once:
                self.queues.save_soon(key)
            elif not self._views.save(key):
                return self._tail(key, room=tail.tokens).state  # another process adopted first: its view is used
        return tail.under(holding).state

    def _instructions(self, turn: _Turn, boundary: int) -> tuple[str, ...]:
        """Return the texts of the system messages before the boundary."""
        state, before = turn.state, turn.state.view
        kept = before.instructions if before and not before.stale else ()
        after = before.boundary if before and not before.stale else 0
        if turn.tail.complete and after == turn.boundary:
            passed = [stored for stored in state.messages if stored.seq <= boundary]
            return kept + tuple(stored.message.text for stored in passed if stored.message.role is Role.SYSTEM)
        outlines = self._store.state(turn.key, limit=0, after=after, outlines=EVERY).outlines
        places = [line.seq for line in outlines if line.role is Role.SYSTEM and line.seq <= boundary]
        found = self._services.store.read(turn.key, seqs=places) if places else ()
        return kept + tuple(stored.message.text for stored in found)

    def _reach(self, material: Material, turn: _Turn, verbatim: Sequence[Line], *, any_maker: bool) -> int:
        """Return how far the turn can adopt the material."""
        recent = self._settings.recent_message_count
        return material.reach(verbatim, boundary=turn.boundary, room=turn.room, recent=recent, any_maker=any_maker)

    def _prepare(self, key: SessionKey, changed: bool) -> None:
        """Prepare the material that the session's next turn may adopt, if this process has read a turn of it."""
        with self._lock:
            asked = key in self._limits
        if not asked:
            return
        state = self._store.state(key, limit=0)
        known = self._material(key)
        if changed or known is None or not known.serves(state, being_read=False):
            self._prepared(key, state)

    def _room_of(self, key: SessionKey) -> int | None:
        """Return the room for verbatim messages in a session's last request, for which leaves are sized."""
        with self._lock:
            return self._rooms.get(key)

    def _material(self, key: SessionKey) -> Material | None:
        with self._lock:
            found = self._materials.get(key)
        return None if found is None else found[1]

    def _prepared(self, key: SessionKey, state: SessionState) -> Material:
        """Read and compose the material that can be adopted now; cache it unless a newer one was cached meanwhile."""
        with self._lock:
            ticket = next(self._tickets)
            facts_tokens, narrative_tokens = self._limits.get(key, (0, 0))
        cover = tuple(self._store.segments(key))
        give_way()
        read_to = max((segment.end for segment in cover if segment.made_by is not None), default=0)
        material = Material(
            epoch=state.epoch,
            written=written(state),
            cover=cover,
            final=tuple(self._writer.is_final(key, segment) for segment in cover),
            index=self._indexes.refreshed(key, state, read_to=read_to),
            facts_tokens=facts_tokens,
            narrative_tokens=narrative_tokens,
            ready={},
        ).composed_ahead(boundary=state.boundary)
        with self._lock:
            if key not in self._materials or self._materials[key][0] < ticket:
                self._materials[key] = ticket, material
        return material


def _current_turn(state: SessionState, query: str) -> int:
    """Return the place of the current user message if it is stored already, else the next free place."""
    said = next((stored for stored in reversed(state.messages) if stored.message.role is Role.USER), None)
    if said is not None and said.message.text == query:
        return said.seq
    return (state.messages[-1].seq if state.messages else 0) + 1
