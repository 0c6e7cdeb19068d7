"""The interface of sessions to their memory: facts, narrative and recent messages of a conversation."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from arc_common.concurrency import BackgroundQueue, replying
from arc_common.context import NO_LAYERS, HistoryRoom, Layers, LeftOut
from arc_common.exceptions import SessionNotFoundError
from arc_common.facts import Fact
from arc_common.memory.facts.index import FactIndexes
from arc_common.memory.summaries.adoption import narrated, shown_narratives
from arc_common.memory.summaries.background import Upkeep
from arc_common.memory.summaries.reader import Remembered, TurnReader
from arc_common.memory.summaries.tail import AdoptedViews, TailReader
from arc_common.memory.summaries.writer import SummaryWriter
from arc_common.messages import Role
from arc_common.observability import Observer
from arc_common.protocols import ConversationStore, SessionKey, TokenCounter
from arc_common.protocols.summaries import ConversationSummary, SessionState, SummaryInspection, SummaryStore
from arc_common.settings import ArcSettings

_log = logging.getLogger("arc.memory")

_EVERY = 2**31 - 1
_MOST_RECALLED = 100


class HierarchicalMemory:
    """Reads sessions for their turns, adopts summaries, and has them written in the background."""

    def __init__(
        self,
        store: SummaryStore,
        conversations: ConversationStore,
        *,
        writer: SummaryWriter,
        counter: TokenCounter,
        settings: ArcSettings,
        observer: Observer,
        clock: Callable[[], datetime],
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._store = store
        self._writer = writer
        self._counter = counter
        self._settings = settings
        self._observer = observer
        self._tails = TailReader(store)
        self._views = AdoptedViews(store)
        self._indexes = FactIndexes(store, count=counter.count)
        self._upkeep = Upkeep(
            store,
            writer,
            settings=settings.background,
            prepare=lambda key, changed: self._turns.prepare(key, changed=changed),
            save=self._views.save,
            observer=observer,
            clock=clock,
            pause=pause,
        )
        self._turns = TurnReader(
            store,
            conversations,
            writer=writer,
            background=self._upkeep,
            tails=self._tails,
            views=self._views,
            indexes=self._indexes,
            counter=counter,
            settings=settings,
            observer=observer,
            clock=clock,
        )

    @property
    def queue(self) -> BackgroundQueue[SessionKey]:
        """The queue of sessions whose summaries are being written or are scheduled."""
        return self._upkeep.queue

    def schedule(self, key: SessionKey) -> None:
        """Schedule due summaries; write leaves by rules even while a model is at work, so that no turn has to."""
        self._upkeep.schedule(key)

    def summarize(self, key: SessionKey) -> None:
        """Write all due summaries and wait for them, also after another process crashed (see `Upkeep.finish`)."""
        self._upkeep.finish(key)

    def forget(self, key: SessionKey) -> None:
        """Drop a session from this process's memory; the next read goes to the store."""
        for kept in (self._tails, self._views, self._indexes, self._turns, self._writer):
            kept.forget(key)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until no summary is being written; return whether that happened within `timeout` seconds."""
        return self._upkeep.wait(timeout)

    def close(self) -> None:
        """Drop waiting work, stop running work and store adopted views; a model's later answers are not stored."""
        self._writer.stop()
        self._upkeep.close()
        for key in self._views.waiting():
            try:
                self._views.save(key)
            except Exception as error:  # noqa: BLE001 - the view is adopted again later; closing continues
                _log.warning("a view of session %r is not stored: %s", key.session_id, error)
                self._observer.count("background.errors", error=type(error).__name__)

    def facts(
        self, key: SessionKey, *, include_superseded: bool = False, include_ungrounded: bool = False
    ) -> list[Fact]:
        """Return the ledger's facts, the most important first, the newest first among equals."""
        return self._store.facts(key, include_superseded=include_superseded, include_ungrounded=include_ungrounded)

    def summary(self, key: SessionKey) -> ConversationSummary | None:
        """Return the summary written so far, adopted or not; `None` if there is none."""
        cover = [segment for segment in self._store.cover(key) if segment.created_at is not None]
        if not cover:
            return None
        most = self._settings.summary.max_tokens
        shown, _ = shown_narratives(cover, boundary=cover[-1].end, max_tokens=most)
        times = [segment.created_at for segment in cover if segment.created_at is not None]
        behind = self._store.outlines(key, after=cover[-1].end, limit=_EVERY)
        return ConversationSummary(
            narrative=narrated(shown, max_tokens=most, count=self._counter.count)[0],
            facts=tuple(self._store.facts(key)),
            summarized_up_to=self._store.state(key, limit=0).message_count - len(behind),
            pending=len(behind),
            created_at=min(times),
            updated_at=max(times),
        )

    def inspect(self, key: SessionKey) -> SummaryInspection:
        """Return the progress of a session's summaries, without reading their text."""
        known = self._views.newest(key)
        state = self._store.state(key, limit=0)
        segments = tuple(self._store.segments(key))
        written = max((segment.end for segment in segments if not segment.stale), default=0)
        return SummaryInspection(
            segments=segments,
            view=known.view if known is not None and known.is_ahead_of(state) else state.view,
            message_count=state.message_count,
            pending=len(self._store.outlines(key, after=written, limit=_EVERY)),
            is_busy=self._upkeep.is_busy(key),
        )

    def facts_about(self, key: SessionKey, question: str) -> list[tuple[Fact, float]]:
        """Return the facts that are searched for a question, each with its share of a perfect match."""
        state = self._store.state(key, limit=0)
        return self._indexes.refreshed(key, state, read_to=state.view.boundary if state.view else 0).shares(question)

    def read(self, key: SessionKey, room: HistoryRoom) -> Remembered:
        """Read a session for a turn, after adopting finished summaries that are due."""
        state = None
        with replying():
            try:
                tail = self._turns.tail(key, room=room.least + room.more_beside(None))
                state = tail.state
                return self._turns.read(key, tail, room)
            except SessionNotFoundError:
                raise
            except Exception as error:  # noqa: BLE001 - a summary must not break a reply; the receipt notes the loss
                _log.warning("summaries of session %r are left out: %s", key.session_id, error, exc_info=error)
                self._observer.count("summary.errors")
                return Remembered(state, (f"summaries were left out: {type(error).__name__}",))

    def layers(self, key: SessionKey, state: SessionState, query: str) -> Layers:
        """Return the layers besides the messages: the adopted view, and other facts that the question needs."""
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
                facts = self._indexes.for_turn(key, state, being_read=self._upkeep.is_busy(key))
                found, others = facts.search(query, top_k=_MOST_RECALLED, boundary=view.boundary, adopted=view.fact_ids)
        except Exception as error:  # noqa: BLE001 - a reply must not depend on recalled facts
            _log.warning("facts of session %r are not recalled: %s", key.session_id, error, exc_info=error)
            self._observer.count("recall.errors")
            return layers
        return replace(
            layers,
            importance=facts.importance(view.fact_ids),
            recalled=tuple(found),
            not_recalled=LeftOut(others, 0),
        )


def _current_turn(state: SessionState, query: str) -> int:
    """Return the place of the current user message if it is stored already, else the next free place."""
    said = next((stored for stored in reversed(state.messages) if stored.message.role is Role.USER), None)
    if said is not None and said.message.text == query:
        return said.seq
    return max((stored.seq for stored in state.messages), default=0) + 1
