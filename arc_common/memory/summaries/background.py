"""Summaries of sessions: their service, its background work and its leases."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Condition, Lock, Thread
from uuid import uuid4

from arc_common.concurrency import BackgroundQueue, begin_in_each_process, give_way, replying
from arc_common.context import NO_LAYERS, HistoryRoom, Layers, LeftOut
from arc_common.exceptions import SessionNotFoundError
from arc_common.facts import Fact
from arc_common.memory.facts.index import FactIndexes
from arc_common.memory.summaries.adoption import AdoptedViews, narrated, shown_narratives
from arc_common.memory.summaries.reader import Remembered, TailReader, TurnReader
from arc_common.memory.summaries.writer import SummaryWriter
from arc_common.messages import Role
from arc_common.observability import Observer
from arc_common.protocols import ConversationStore, SessionKey, TokenCounter
from arc_common.protocols.summaries import ConversationSummary, Lease, SessionState, SummaryInspection, SummaryStore
from arc_common.settings import ArcSettings
from arc_common.settings.groups import BackgroundSettings

_log = logging.getLogger("arc.memory")

_BEATS = 3
"""Renewals within the duration of a lease."""


class HeldLease:
    """A lease under which this process works. Thread-safe."""

    def __init__(self, store: SummaryStore, key: SessionKey, lease: Lease, *, seconds: float) -> None:
        self._store = store
        self._key = key
        self._seconds = seconds
        self._lock = Lock()
        self.lease: Lease | None = lease
        """The lease as last renewed; `None` once it is lost or released."""

    def renew(self) -> None:
        """Extend the lease, and read the session's current epoch with it."""
        with self._lock:
            before = self.lease
            if before is None:
                return
            renewed = self._store.acquire(self._key, owner=before.owner, seconds=self._seconds)
            self.lease = renewed if renewed is not None and renewed.fence == before.fence else None
            if renewed is not None and self.lease is None:  # it expired, and another process held it meanwhile
                self._store.release(self._key, renewed)

    def release(self) -> None:
        """Release the lease, unless it is lost."""
        with self._lock:
            before, self.lease = self.lease, None
            if before is not None:
                self._store.release(self._key, before)


class SessionLeases:
    """Takes leases on sessions, and renews them on a thread of its own while work runs."""

    def __init__(self, store: SummaryStore, *, seconds: float) -> None:
        self._store = store
        self._seconds = seconds
        begin_in_each_process(self._begin)

    def _begin(self) -> None:
        self._name = uuid4().hex
        self._changed = Condition()
        self._held: set[HeldLease] = set()
        self._thread: Thread | None = None
        self._closed = False

    @contextmanager
    def hold(self, key: SessionKey) -> Iterator[HeldLease | None]:
        """Hold a session's lease; yields `None` if another process holds it or the session does not exist."""
        lease = self._store.acquire(key, owner=self._name, seconds=self._seconds)
        if lease is None:
            yield None
            return
        held = HeldLease(self._store, key, lease, seconds=self._seconds)
        with self._changed:
            self._held.add(held)
            if self._thread is None and not self._closed:
                self._thread = Thread(target=self._beat, name="arc-leases", daemon=True)
                self._thread.start()
        try:
            yield held
        finally:
            with self._changed:
                self._held.discard(held)
            held.release()

    def close(self) -> None:
        """Stop renewing leases."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _beat(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed, self._seconds / _BEATS)
                if self._closed or not self._held:
                    self._thread = None
                    return
                held = list(self._held)
            for one in held:
                try:
                    one.renew()
                except Exception as error:  # noqa: BLE001 - the next beat tries again, and the other leases go on
                    _log.warning("a lease was not renewed: %s", error)


_log = logging.getLogger("arc.memory")

_POLL_SECONDS = 0.25
_PATIENCE = timedelta(seconds=60)
"""The longest wait in `finish` for another process at work."""

_PREPARING = 10
"""Segments are written for this many times as long as preparing a turn takes, before one is prepared again."""


class Upkeep:
    """Runs the writing of sessions' summaries, the storing of adopted views and the preparation of turns."""

    def __init__(
        self,
        store: SummaryStore,
        writer: SummaryWriter,
        *,
        settings: BackgroundSettings,
        prepare: Callable[[SessionKey, bool], None],
        save: Callable[[SessionKey], object],
        observer: Observer,
        clock: Callable[[], datetime],
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._store = store
        self._writer = writer
        self._leases = SessionLeases(store, seconds=settings.lease_seconds)
        self._prepare = prepare
        self._save = save
        self._observer = observer
        self._clock = clock
        self._pause = pause
        self._refused: set[SessionKey] = set()  # sessions whose lease another process held
        self.queue: BackgroundQueue[SessionKey] = BackgroundQueue(
            self._work, threads=settings.threads, on_error=self._count_error
        )
        self._quick: BackgroundQueue[SessionKey] = BackgroundQueue(
            self._work_quickly, threads=1, on_error=self._count_error
        )

    def schedule(self, key: SessionKey) -> None:
        """Schedule due summaries; write leaves by rules even while a model is at work."""
        busy = self.queue.is_busy(key)
        self.queue.schedule(key)
        if busy and self._writer.has_model:
            self._quick.schedule(key)

    def save_soon(self, key: SessionKey) -> None:
        """Schedule the storing of adopted views."""
        self._quick.schedule(key)

    def is_busy(self, key: SessionKey) -> bool:
        """Return whether work on this session is waiting or running."""
        return self.queue.is_busy(key) or self._quick.is_busy(key)

    def is_writing(self, key: SessionKey) -> bool:
        """Return whether the session's summaries are being written or are scheduled."""
        return self.queue.is_busy(key)

    def write(self, key: SessionKey, *, timeout: float) -> None:
        """Schedule the writing of due summaries, and wait for it at most `timeout` seconds."""
        self.queue.schedule(key)
        self.queue.wait(timeout, key=key)

    def finish(self, key: SessionKey) -> None:
        """Write all due summaries and wait for them, up to a limit also for another process at work."""
        until = self._clock() + _PATIENCE
        while True:
            self.queue.schedule(key)
            self.queue.wait(key=key)
            self._quick.wait(key=key)
            if key not in self._refused or not self._writer.is_due(key):
                return
            if self._clock() > until or self.queue.stopping:
                break
            self._pause(_POLL_SECONDS)
        _log.warning("session %r is still being summarised by another process", key.session_id)
        self._observer.count("summary.lease_held")

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until both queues are empty; return whether each was within `timeout` seconds."""
        return self.queue.wait(timeout) and self._quick.wait(timeout)

    def close(self) -> None:
        """Drop waiting work and stop running work."""
        self._quick.close()
        self.queue.close()
        self._leases.close()

    def _work(self, key: SessionKey) -> None:
        self._save(key)
        if not self._writer.is_due(key):  # as after most messages; a lease would cost two commits
            self._refused.discard(key)
            self._prepare(key, False)
            return
        with self._leases.hold(key) as held:
            if held is None:
                self._refused.add(key)
                self._prepare(key, True)
                return
            self._refused.discard(key)
            changed, not_before = False, 0.0
            while not self.queue.stopping and (lease := held.lease) is not None:
                if self._writer.step(key, lease):
                    changed = True
                    give_way()
                    if (begin := time.monotonic()) >= not_before:
                        self._prepare(key, changed)
                        end = time.monotonic()
                        not_before = end + _PREPARING * (end - begin)
                elif self._store.state(key, limit=0).epoch != lease.epoch:  # a message was edited meanwhile
                    held.renew()
                else:
                    break
        self._prepare(key, changed)

    def _work_quickly(self, key: SessionKey) -> None:
        """Store adopted views, and write leaves by rules while a model is at work."""
        self._save(key)
        if self.queue.is_busy(key) and self._writer.has_model:
            epoch, changed = self._store.state(key, limit=0).epoch, False
            while not self._quick.stopping and self._writer.leaf_by_rules(key, epoch=epoch):
                changed = True
            self._prepare(key, changed)

    def _count_error(self, error: Exception) -> None:
        self._observer.count("background.errors", error=type(error).__name__)


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
