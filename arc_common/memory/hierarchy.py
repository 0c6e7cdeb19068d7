"""Facts, narrative and recent messages of a conversation: what a turn reads, and when summaries are adopted."""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile
from threading import Lock
from uuid import uuid4

from cachetools import LRUCache

from arc_common.assembly import NO_LAYERS, Layers
from arc_common.context_window import LeftOut
from arc_common.exceptions import SessionNotFoundError
from arc_common.facts import Fact
from arc_common.memory.background import BackgroundQueue
from arc_common.memory.fact_index import FactIndex
from arc_common.memory.ledger import pinned
from arc_common.memory.recall import SessionIndex, fused
from arc_common.memory.segments import boundary_after, shown_narratives
from arc_common.memory.summaries import SummaryWriter
from arc_common.messages import Role
from arc_common.observability import Observer
from arc_common.protocols import ConversationStore, SessionKey, StoredMessage, TokenCounter
from arc_common.settings import ArcSettings
from arc_common.summaries import ConversationSummary, Outline, ScoredMessage, Segment, SessionState, SummaryStore, View
from arc_common.tokens.correction import Correcting

__all__ = ["HierarchicalMemory", "Remembered"]

_log = logging.getLogger("arc.memory")

_MOST_MESSAGES = 256
"""Messages that one turn reads behind the boundary; with more than these unsummarised it adopts at any price."""
_MOST_INDEXED = 2_000
"""Facts that are looked through for a question: the most important."""
_EVERY = 2**31 - 1
_MOST_RECALLED = 100
_INDEXES = 128
"""Sessions whose facts are kept ready for questions."""
_CANDIDATES = 300
"""Facts that are looked through for the pinned ones: the most important."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a turn reads of its conversation.

    Args:
        state: The snapshot: the adopted view, and the messages behind its boundary; `None` if it could not be read.
        notes: What could not be done as it should, for the receipt.
    """

    state: SessionState | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Indexed:
    """Facts as they were at an epoch and version of the ledger; they have all that this view stands for."""

    epoch: int
    facts_version: int
    view_version: int
    facts: FactIndex


class HierarchicalMemory:
    """Reads sessions for their turns, adopts summaries, and has them written in the background.

    - Adopting is rare: when more messages are verbatim than the high-water mark or than there is room for, the boundary
      moves by whole segments down to the recent count. Between adoptions the view stays as it is, to the byte.
    - What is not summarised yet is shown verbatim while there is room for it. Only when there is not, and nothing is
      being written, does a turn wait for the model, once and with a limit; then the rules serve.
    - Nothing of this raises into a turn.

    Args:
        store: Where summaries are kept.
        conversations: Where messages are.
        writer: Writes segments.
        counter: Counts the texts of a view.
        settings: The knobs (`summary`, `budget`, `background`).
        observer: Receives counts.
        clock: Gives the time with zone.
    """

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
    ) -> None:
        self._store = store
        self._conversations = conversations
        self._writer = writer
        self._counter = counter
        self._settings = settings
        self._observer = observer
        self._clock = clock
        self._name = uuid4().hex
        self._indexes: LRUCache[SessionKey, _Indexed] = LRUCache(_INDEXES)
        self._indexes_lock = Lock()
        self._looked: set[SessionKey] = set()  # those whose summaries were looked through since a step was done
        self.queue: BackgroundQueue[SessionKey] = BackgroundQueue(
            self._work, threads=settings.background.threads, on_error=self._count_error
        )
        self._rules: BackgroundQueue[SessionKey] = BackgroundQueue(
            self._write_by_rules, threads=1, on_error=self._count_error
        )

    def schedule(self, key: SessionKey) -> None:
        """Have what is due written soon: by rules also while a model is at work, so that no turn has to."""
        busy = self.queue.is_busy(key)
        self.queue.schedule(key)
        if busy and self._writer.has_model:
            self._rules.schedule(key)

    def summarize(self, key: SessionKey) -> None:
        """Have what is due written now, and wait for it."""
        self.queue.schedule(key)
        self.queue.wait(key=key)

    def close(self) -> None:
        """Drop what waits and stop what runs; what a model says after that is not stored."""
        self._writer.stop()
        self._rules.close()
        self.queue.close()

    def facts(self, key: SessionKey, *, include_superseded: bool = False) -> list[Fact]:
        """The ledger: the most important first, the newest first among equals."""
        return self._store.facts(key, include_superseded=include_superseded)

    def summary(self, key: SessionKey) -> ConversationSummary | None:
        """What is written so far, whether it is adopted or not; `None` if nothing is."""
        cover = [segment for segment in self._store.cover(key) if segment.created_at is not None]
        if not cover:
            return None
        shown, _ = shown_narratives(
            cover, boundary=cover[-1].end, max_tokens=self._settings.summary.max_narrative_tokens
        )
        times = [segment.created_at for segment in cover if segment.created_at is not None]
        behind = self._store.outlines(key, after=cover[-1].end, limit=_EVERY)
        return ConversationSummary(
            narrative=self._narrative(shown),
            facts=tuple(self._store.facts(key)),
            summarized_up_to=self._store.state(key, limit=0).message_count - len(behind),
            pending=len(behind),
            created_at=min(times),
            updated_at=max(times),
        )

    def recall(self, key: SessionKey, query: str, *, top_k: int) -> list[ScoredMessage]:
        """The messages that a question is about, best first; a fact finds the messages that say it.

        Looks through the whole session: its cost grows with it.
        """
        stored = self._conversations.tail(key)
        by_id = {item.message.id or "": item.message for item in stored}
        facts = self._store.facts(key)
        wide = max(4 * top_k, 20)
        messages = SessionIndex((item.message.id or "", item.message.text) for item in stored).search(query, top_k=wide)
        lines = SessionIndex(((fact.id, f"{fact.key} {fact.value}") for fact in facts), window_terms=0)
        sources = {fact.id: [source for source in fact.sources if source in by_id] for fact in facts}
        said = [(source, score) for name, score in lines.search(query, top_k=wide) for source in sources[name]]
        parts = {"message": dict(reversed(messages)), "fact": dict(reversed(said))}
        return [
            ScoredMessage(by_id[name], score, {part: found[name] for part, found in parts.items() if name in found})
            for name, score in fused(messages, said, top_k=top_k)
        ]

    def read(self, key: SessionKey, *, room: int, input_tokens: int) -> Remembered:
        """What a turn reads, after adopting what is to be adopted.

        Args:
            key: The session.
            room: The tokens that there are for verbatim messages (as stored, without correction).
            input_tokens: The tokens of the whole request, of which facts get their share.
        """
        state = None
        try:
            state = self._store.state(key, limit=_MOST_MESSAGES)
            return self._adopted(key, state, room=room, input_tokens=input_tokens)
        except SessionNotFoundError:
            raise
        except Exception as error:  # noqa: BLE001 - a summary must not break a reply; the receipt says what was lost
            _log.warning("summaries of session %r are left out: %s", key.session_id, error, exc_info=error)
            self._observer.count("summary.errors")
            return Remembered(state, (f"summaries were left out: {type(error).__name__}",))

    def layers(self, key: SessionKey, state: SessionState, query: str) -> Layers:
        """What is shown besides the messages: the adopted view, and the facts outside it that this question needs."""
        view = state.view
        if view is None:
            return NO_LAYERS
        layers = Layers(view.facts, view.fact_ids, view.narrative, view.instructions)
        try:
            facts = self._indexed(key, state, view)
            found, others = facts.search(query, top_k=_MOST_RECALLED, boundary=view.boundary, pinned=view.fact_ids)
        except Exception as error:  # noqa: BLE001 - recalled facts are a help, no condition of a reply
            _log.warning("facts of session %r are not recalled: %s", key.session_id, error, exc_info=error)
            self._observer.count("recall.errors")
            return layers
        return replace(
            layers,
            recalled=tuple(found),
            not_recalled=LeftOut(others, 0),
        )

    def _indexed(self, key: SessionKey, state: SessionState, view: View) -> FactIndex:
        """The facts, ready for questions.

        Reading them anew is left to the background while it is at work, except right after an adoption: until the next
        one, whatever it adds to the ledger is still shown verbatim.
        """
        with self._indexes_lock:
            known = self._indexes.get(key)
        if known is not None and known.epoch == state.epoch:
            same = known.facts_version == state.facts_version
            if known.view_version == view.version and (same or self.queue.is_busy(key)):
                return known.facts
            if same:
                return self._keep(key, replace(known, view_version=view.version))
        return self._read_facts(key, state.epoch, state.facts_version, view.version, known)

    def _read_facts(
        self, key: SessionKey, epoch: int, facts_version: int, view_version: int, known: _Indexed | None
    ) -> FactIndex:
        earlier = known.facts if known is not None and known.epoch == epoch else None
        facts = self._store.facts(key, limit=_MOST_INDEXED)
        index = FactIndex(facts, count=self._counter.count, earlier=earlier)
        return self._keep(key, _Indexed(epoch, facts_version, view_version, index))

    def _keep(self, key: SessionKey, indexed: _Indexed) -> FactIndex:
        with self._indexes_lock:
            self._indexes[key] = indexed
        return indexed.facts

    def _index_ahead(self, key: SessionKey) -> None:
        """Read what a step added to the ledger, so that no turn has to; only for a session that has had turns here."""
        with self._indexes_lock:
            known = self._indexes.get(key)
        if known is None:
            return
        state = self._store.state(key, limit=0)
        if state.view is not None and (known.epoch, known.facts_version) != (state.epoch, state.facts_version):
            self._read_facts(key, state.epoch, state.facts_version, state.view.version, known)

    def _adopted(self, key: SessionKey, state: SessionState, *, room: int, input_tokens: int) -> Remembered:
        knobs = self._settings.summary
        view = state.view
        limit = room if knobs.trigger_tokens is None else min(room, knobs.trigger_tokens)
        fits = _fits(state.messages, limit)
        stale = view is not None and view.stale
        most = knobs.high_water_mark if view else knobs.trigger_message_count
        if fits and not stale and (len(state.messages) <= most or self._is_awaited(key)):
            return Remembered(state)
        if stale:
            self._writer.leaves_by_rules(key, epoch=state.epoch)
        whole = state
        if len(state.messages) == _MOST_MESSAGES:
            messages = self._conversations.tail(key, after=view.boundary if view else 0)
            whole = replace(state, messages=tuple(messages))
        cover, reach = self._look(key, whole, any_maker=False)
        notes: list[str] = []
        if not fits and not _fits([stored for stored in whole.messages if stored.seq > reach], limit):
            cover, reach, notes = self._caught_up(key, whole, reach)
        boundary = view.boundary if view else 0
        if reach == boundary and not stale:
            if self.queue.is_busy(key):
                self._looked.add(key)
            return Remembered(state, () if fits else (*notes, "no more could be summarised: the last turns are shown"))
        return Remembered(self._adopt(key, whole, cover, reach, input_tokens=input_tokens), tuple(notes))

    def _is_awaited(self, key: SessionKey) -> bool:
        """Whether there was nothing to adopt, and nothing was written since."""
        return key in self._looked and self.queue.is_busy(key)

    def _caught_up(self, key: SessionKey, state: SessionState, reach: int) -> tuple[list[Segment], int, list[str]]:
        """See to it that there is something to adopt: by the model if nobody is at it, and by the rules."""
        self._writer.leaves_by_rules(key, epoch=state.epoch)
        cover, furthest = self._look(key, state, any_maker=True)
        if furthest == reach:
            return cover, reach, []
        notes: list[str] = []
        if self._writer.has_model and not self.queue.is_busy(key):
            self.queue.schedule(key)
            self.queue.wait(self._settings.summary.synchronous_timeout_seconds, key=key)
            notes.append("the turn waited for a summary")
            cover, furthest = self._look(key, state, any_maker=True)
        before = state.view.boundary if state.view else 0
        if self._writer.has_model and any(
            segment.made_by == "rules" and before < segment.end <= furthest for segment in cover
        ):
            notes.append("summarised by rules: the model's summary is not there")
        return cover, furthest, notes

    def _look(self, key: SessionKey, state: SessionState, *, any_maker: bool) -> tuple[list[Segment], int]:
        """The segments, and how far they can be adopted: to the first that is to be written, be it by the model."""
        cover = self._store.cover(key)
        before = state.view.boundary if state.view else 0
        ready = takewhile(
            lambda segment: (
                segment.end <= before
                or (segment.made_by is not None and (any_maker or self._writer.is_final(key, segment)))
            ),
            cover,
        )
        reach = boundary_after(
            list(ready),
            boundary=before,
            verbatim=[Outline(stored.seq, stored.message.role, stored.tokens) for stored in state.messages],
            recent=self._settings.summary.recent_message_count,
        )
        return cover, reach

    def _adopt(
        self, key: SessionKey, state: SessionState, cover: Sequence[Segment], boundary: int, *, input_tokens: int
    ) -> SessionState:
        remaining = tuple(stored for stored in state.messages if stored.seq > boundary)
        left = [stored for stored in state.messages if stored.seq <= boundary]
        adopted = self._view(
            key, state, cover, boundary, left, covered=state.message_count - len(remaining), input_tokens=input_tokens
        )
        if not self._store.adopt(key, adopted, epoch=state.epoch):
            return self._store.state(key, limit=_MOST_MESSAGES)  # another turn adopted first: its view holds
        self._observer.count("summary.adopted")
        return replace(state, view=adopted, messages=remaining)

    def _view(
        self,
        key: SessionKey,
        state: SessionState,
        cover: Sequence[Segment],
        boundary: int,
        left: Sequence[StoredMessage],
        *,
        covered: int,
        input_tokens: int,
    ) -> View:
        budget = self._settings.budget
        ceiling = min(budget.facts, int(budget.facts_share * input_tokens))
        shown, _ = shown_narratives(cover, boundary=boundary, max_tokens=self._settings.summary.max_narrative_tokens)
        known = [fact for fact in self._store.facts(key, limit=_CANDIDATES) if fact.segment <= boundary]
        facts = pinned(known, max_tokens=ceiling, count=self._counter.count)
        before = state.view
        if before is None or not before.stale:
            instructions = (before.instructions if before else ()) + tuple(
                stored.message.text for stored in left if stored.message.role is Role.SYSTEM
            )
        else:
            instructions = self._instructions(key, boundary)
        correction = self._counter.adopt_correction().factor if isinstance(self._counter, Correcting) else 1.0
        return View(
            version=before.version + 1 if before else 1,
            boundary=boundary,
            covered=covered,
            facts=tuple(fact.line for fact in facts),
            fact_ids=tuple(fact.id for fact in facts),
            narrative=self._narrative(shown),
            instructions=instructions,
            correction=correction,
            adopted_at=self._clock(),
        )

    def _instructions(self, key: SessionKey, boundary: int) -> tuple[str, ...]:
        """The system messages before a place, read anew."""
        outlines = self._store.outlines(key, after=0, limit=_EVERY)
        places = [line.seq for line in outlines if line.role is Role.SYSTEM and line.seq <= boundary]
        found = [self._conversations.tail(key, after=place - 1, before=place + 1) for place in places]
        return tuple(stored.message.text for messages in found for stored in messages)

    def _narrative(self, shown: Sequence[Segment]) -> str:
        """The narratives as one text that keeps within the ceiling also with the line breaks between them."""
        lines = [segment.narrative for segment in shown]
        while lines and self._counter.count("\n".join(lines)) > self._settings.summary.max_narrative_tokens:
            lines.pop(0)
        return "\n".join(lines)

    def _write_by_rules(self, key: SessionKey) -> None:
        if self._writer.leaves_by_rules(key, epoch=self._store.state(key, limit=0).epoch):
            self._index_ahead(key)

    def _work(self, key: SessionKey) -> None:
        owner = f"{self._name}-{os.getpid()}"  # a forked child is another
        seconds = self._settings.background.lease_seconds
        lease = self._store.acquire(key, owner=owner, seconds=seconds)
        if lease is None:
            return
        try:
            while not self.queue.stopping and self._writer.step(key, lease):
                self._looked.discard(key)
                self._index_ahead(key)
                renewed = self._store.acquire(key, owner=owner, seconds=seconds)
                if renewed is None or renewed.fence != lease.fence:
                    return
                lease = renewed
        finally:
            self._looked.discard(key)
            self._store.release(key, lease)

    def _count_error(self, error: Exception) -> None:
        self._observer.count("background.errors", error=type(error).__name__)


def _fits(messages: Sequence[StoredMessage], limit: int) -> bool:
    return len(messages) < _MOST_MESSAGES and sum(stored.tokens for stored in messages) <= limit
