"""Writes a conversation's summaries: chooses the next segment, reads its sources and stores the result."""

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import takewhile
from threading import Lock
from typing import TypeVar

from arc_common.caches import LRUCache, drop_session
from arc_common.concurrency import give_way, giving_way
from arc_common.exceptions import SummaryFailedError
from arc_common.facts import IN_REPLY, Fact, ProposedFact
from arc_common.memory.facts.extraction import excerpts_of, extract_facts
from arc_common.memory.facts.fidelity import (
    invents,
    is_grounded,
    is_revoked,
    missing_facts,
    rests_on,
    without_inventions,
)
from arc_common.memory.facts.ledger import merged, related
from arc_common.memory.own_words import learnable
from arc_common.memory.services import Services
from arc_common.memory.summaries.summarizers import ModelSummarizer, RuleBasedSummarizer
from arc_common.memory.summaries.trigger import EVERY, Plan, leaf_size, next_block, next_era, next_leaf, rest_leaf
from arc_common.messages import Message, Role, content_of
from arc_common.model_calls import SpentError
from arc_common.observability import timed
from arc_common.prompts.context import speaker_of, spoken
from arc_common.prompts.summary import ParsedSummary
from arc_common.protocols import SessionKey, StoredMessage
from arc_common.protocols.summaries import Commit, Lease, Maker, Segment
from arc_common.trust import Trust

T = TypeVar("T")

_SESSIONS = 1_024
_SEGMENTS = 20_000
"""The most segments cached for all sessions together, without sources; a session with more is not cached."""
_OUTLINES = 64
_MORE = 8
"""The growth of the page of unfinished segments, if none read so far needs writing; usually one is enough."""
_LEFT_OUT = 0.7
"""Scale the importance of a rule's fact that the model left out, because the model has read it in context."""
_RELATED_PART = 8
_RELATED_TOKENS = 100
_MOST_RELATED_TOKENS = 1_000
"""The tokens of known facts that a leaf may change: an eighth of its messages' tokens, within these limits. With half,
they were a third of each request. A fact is replaced by its key whether it was shown or not."""
_CONTRADICTED = 100
"""The most facts, the most important first, that a fact by words of change or denial may end."""
_KNOWN_FACTS = 300
"""The most facts of the ledger that are searched for those related to a leaf, the most important first."""


class SummaryWriter:
    """Writes a session's segments, oldest first, one at a time."""

    def __init__(
        self, services: Services, summarizer: ModelSummarizer | None, *, room_of: Callable[[SessionKey], int | None]
    ) -> None:
        self._services = services
        self._store = services.store.summaries
        self._settings = services.settings.summary
        self._summarizer = summarizer
        self._rules = RuleBasedSummarizer(services.token_counter)
        self._given_up: set[tuple[SessionKey, int, int, int]] = set()
        self._room_of = room_of
        self._covers: LRUCache[SessionKey, tuple[int, list[Segment]]] = LRUCache(
            _SEGMENTS, getsizeof=lambda kept: 1 + len(kept[1])
        )
        self._lock = Lock()
        self._stopped = False

    @property
    def has_model(self) -> bool:
        """`True` if a model writes summaries; otherwise only rules do."""
        return self._summarizer is not None

    def stop(self) -> None:
        """Store nothing more, including results of model calls that are still running."""
        self._stopped = True

    def is_final(self, key: SessionKey, segment: Segment) -> bool:
        """Return whether a segment is final: written by the model, or by rules where no model will be asked."""
        if segment.made_by is None:
            return False
        if segment.made_by == "model" or self._summarizer is None or segment.level > 0:
            return True  # blocks take their leaves' sentences, and an era is rewritten when it grows
        return (key, *_place(segment)) in self._given_up or not self._services.models.may_spend()

    def step(self, key: SessionKey, lease: Lease) -> bool:
        """Write the next segment, if any is due; return whether there may be more."""
        with timed(self._services.observer, "summary.write"):
            state = self._store.state(key, limit=0)
            if state.epoch != lease.epoch:
                return False
            give_way()
            cover = self._cover(key, epoch=state.epoch)
            leaf = self._next_leaf(key, cover)
            give_way()
            if leaf is not None:  # refused if another turn has just written it: then a next one may be due
                return (
                    self._leaf_by_rules(key, leaf, epoch=lease.epoch)
                    or self._next_leaf(key, self._cover(key, epoch=state.epoch)) != leaf
                )
            if (unfinished := self._next_unfinished(key)) is not None:
                return self._rewrite(key, unfinished, lease)
            higher = self._next_higher(cover, boundary=state.boundary)
            if higher is None:
                return False
            return self._block(key, higher, lease) if higher.level == 1 else self._era(key, higher, lease)

    def is_due(self, key: SessionKey) -> bool:
        """Return whether anything is due, except the segments at which the model failed."""
        state = self._store.state(key, limit=0)
        cover = self._cover(key, epoch=state.epoch)
        return (
            self._next_leaf(key, cover) is not None
            or self._next_unfinished(key) is not None
            or self._next_higher(cover, boundary=state.boundary) is not None
        )

    def leaf_by_rules(self, key: SessionKey, *, epoch: int) -> bool | None:
        """Write the oldest leaf without a summary, with neither model nor lease."""
        empty = next((one for one in takewhile(_is_empty, self._unfinished(key)) if one.level == 0), None)
        plan = Plan(0, empty.start, empty.end) if empty else self._next_leaf(key, self._cover(key, epoch=epoch))
        return None if plan is None else self._leaf_by_rules(key, plan, epoch=epoch)

    def leaf_of_the_rest(self, key: SessionKey) -> None:
        """Write one leaf by rules from the messages that no leaf covers yet, except the recent ones."""
        state = self._store.state(key, limit=0)
        last = max((segment.end for segment in self._cover(key, epoch=state.epoch)), default=0)
        outlines = self._store.state(key, limit=0, after=last, outlines=EVERY).outlines
        plan = rest_leaf(outlines, recent=self._settings.recent_message_count)
        if plan is not None:
            self._leaf_by_rules(key, plan, epoch=state.epoch)

    def forget(self, key: SessionKey) -> None:
        """Drop the segments kept of this session."""
        with self._lock:
            drop_session(self._covers, key)

    def _cover(self, key: SessionKey, *, epoch: int) -> list[Segment]:
        """Return the segments that stand for the session, as read at this epoch and changed by this process since."""
        with self._lock:
            kept = self._covers.get(key)
        if kept is not None and kept[0] == epoch:
            return kept[1]
        cover = [replace(segment, sources=()) for segment in self._store.segments(key)]
        self._keep(key, cover, epoch=epoch)
        return cover

    def _keep(self, key: SessionKey, cover: list[Segment], *, epoch: int) -> None:
        with self._lock:
            self._covers.pop(key, None)
            if len(cover) < _SEGMENTS:
                self._covers[key] = epoch, cover

    def _next_leaf(self, key: SessionKey, cover: Sequence[Segment]) -> Plan | None:
        last = max((segment.end for segment in cover), default=0)
        room = self._room_of(key)
        room = 2 * self._settings.leaf_tokens if room is None else room
        recent = self._settings.recent_message_count
        enough, most = leaf_size(self._settings, room=room, is_first=not cover)
        limit = max(_OUTLINES, recent + 1)
        while True:
            outlines = self._store.state(key, limit=0, after=last, outlines=limit).outlines
            if not cover and len(outlines) <= recent:
                return None  # all messages are shown anyway
            plan = next_leaf(
                outlines,
                room=enough,
                full=self._settings.leaf_tokens,
                recent=recent,
                size=most,
                shown=room,
                by_rules=self._summarizer is None,
            )
            if plan is not None or len(outlines) < limit:
                return plan
            limit *= 2

    def _next_higher(self, cover: Sequence[Segment], *, boundary: int) -> Plan | None:
        """Plan the next block, or the next era if eras are enabled."""
        block = next_block(cover, boundary=boundary)
        if block is not None or not self._settings.eras_enabled:
            return block
        return next_era(cover, max_tokens=self._settings.max_tokens)

    def _next_unfinished(self, key: SessionKey) -> Segment | None:
        """Return the oldest segment that is empty, or written by rules although the model can still be asked."""
        unfinished = self._unfinished(key)
        if self._summarizer is None:  # without a model, segments written by rules are final
            unfinished = takewhile(_is_empty, unfinished)
        return next((segment for segment in unfinished if not self.is_final(key, segment)), None)

    def _unfinished(self, key: SessionKey) -> Iterator[Segment]:
        """Yield the unfinished segments, empty ones first; pages are read on demand."""
        limit = seen = 0
        while limit == seen:
            limit = max(1, _MORE * limit)
            page = self._store.segments(key, part="unfinished", limit=limit)
            yield from page[seen:]
            seen = len(page)

    def _rewrite(self, key: SessionKey, segment: Segment, lease: Lease) -> bool:
        plan = Plan(segment.level, segment.start, segment.end)
        if segment.level > 0:
            return self._block(key, plan, lease)
        if segment.made_by is None:
            return self._leaf_by_rules(key, plan, epoch=lease.epoch)
        self._leaf_by_model(key, plan, lease)
        return True

    def _leaf_by_rules(self, key: SessionKey, plan: Plan, *, epoch: int) -> bool:
        self._given_up.discard((key, *_place(plan)))  # its messages are not the ones that the model failed at
        asked, sources, following = self._read(key, plan)
        messages = [stored.message for stored in sources]
        give_way()
        facts = self._guarded([(fact, "rules") for fact in _facts(messages, asked)], messages, asked)
        most, known = self._settings.leaf_narrative_tokens, [fact.value for fact, _ in facts]
        narrative = self._rules.narrative(_own_side(messages), max_tokens=most, facts=known, following=following)
        segment = self._segment(plan, sources, narrative, "rules")
        merge = partial(self._with_facts, key, segment, messages, facts)
        return self._commit_leaf(key, merge, lease=None, epoch=epoch)

    def _leaf_by_model(self, key: SessionKey, plan: Plan, lease: Lease) -> bool:
        asked, sources, following = self._read(key, plan)
        messages = [stored.message for stored in sources]
        said = sum(stored.tokens for stored in sources)
        known = self._store.facts(key, limit=_KNOWN_FACTS)
        near = related(
            [fact for fact in known if fact.segment != plan.start and not fact.is_excerpt],
            " ".join(message.text for message in messages),
            max_tokens=min(_MOST_RELATED_TOKENS, max(said // _RELATED_PART, _RELATED_TOKENS)),
            count=self._services.token_counter.count,
        )
        summary = self._ask(key, plan, lambda model: model.leaf(messages, related=near))
        if summary is None:
            return False
        facts, ungrounded = self._checked(summary, messages, asked)
        text = spoken(learnable(messages))
        guarded = without_inventions(summary.narrative, text, untrusted=spoken(messages))
        most = self._settings.leaf_narrative_tokens
        narrative = guarded or self._rules.narrative(_own_side(messages), max_tokens=most, following=following)
        segment = self._segment(plan, sources, narrative, "model")
        named = set(summary.removed_keys)
        ends = self._services.contradictions.contradicts
        removed = {fact.slot for fact in near if fact.slot in named and is_revoked(fact, text, ends)}
        merge = partial(
            self._with_facts, key, segment, messages, facts, removed_keys=sorted(removed), ungrounded=ungrounded
        )
        return self._commit_leaf(key, merge, lease=lease, epoch=lease.epoch)

    def _checked(
        self, summary: ParsedSummary, messages: Sequence[Message], asked: Sequence[Message]
    ) -> tuple[list[tuple[ProposedFact, str]], list[ProposedFact]]:
        """Return the model's grounded facts with those that it left out, and its ungrounded facts."""
        text, untrusted = spoken(learnable(messages)), spoken(messages)
        grounded: list[ProposedFact] = []
        ungrounded: list[ProposedFact] = []
        for fact in giving_way(summary.facts):
            holds = is_grounded(fact.value, text) and not invents(fact.key, text)
            holds = holds and not rests_on(fact.value, untrusted, text)
            (grounded if holds else ungrounded).append(fact)
        if ungrounded:
            self._services.observer.count("facts.ungrounded", len(ungrounded))
        # The narrative does not count: a block's narrative replaces it later, and an era's replaces that.
        missing = missing_facts(_facts(messages, asked), facts=grounded)
        self._services.observer.count("facts.guarded", len(missing))
        missing = [replace(fact, importance=_LEFT_OUT * fact.importance) for fact in missing]
        facts = [*((fact, "model") for fact in grounded), *((fact, "rules") for fact in missing)]
        return self._guarded(facts, messages, asked), ungrounded

    def _guarded(
        self, facts: Sequence[tuple[ProposedFact, str]], messages: Sequence[Message], asked: Sequence[Message]
    ) -> list[tuple[ProposedFact, str]]:
        """Return the facts with excerpts of the messages for values that no fact says."""
        excerpts = excerpts_of([*asked, *messages], facts=[fact for fact, _ in facts])
        excerpts = [one for one in excerpts if not asked or one.sources[:1] != (asked[0].id,)]
        self._services.observer.count("facts.excerpts", len(excerpts))
        return [*facts, *((excerpt, "guard") for excerpt in excerpts)]

    def _with_facts(
        self,
        key: SessionKey,
        segment: Segment,
        messages: Sequence[Message],
        facts: Sequence[tuple[ProposedFact, str]],
        *,
        removed_keys: Sequence[str] = (),
        ungrounded: Sequence[ProposedFact] = (),
    ) -> Commit:
        by_id = {message.id: message for message in messages}
        now = self._services.clock()

        def said(fact: ProposedFact) -> tuple[datetime, str, Trust]:
            stated = [by_id[source] for source in fact.sources if source in by_id]
            newest = max(stated, key=lambda message: message.created_at or now, default=None)
            if newest is None:
                return now, "", Trust.USER
            trust = newest.trust if IN_REPLY in fact.value else Trust.least(message.trust for message in stated)
            return newest.created_at or now, speaker_of(newest), trust

        return merged(
            segment,
            facts,
            known=self._known(key, segment, facts, removed_keys),
            removed_keys=removed_keys,
            said=said,
            new_id=self._services.new_id,
            ungrounded=ungrounded,
            contradicts=self._services.contradictions.contradicts,
        )

    def _known(
        self, key: SessionKey, segment: Segment, facts: Sequence[tuple[ProposedFact, str]], removed: Sequence[str]
    ) -> list[Fact]:
        """Return the known facts that a segment's facts may supersede."""
        # A rule's fact supersedes an equal one; a model's facts and removals supersede the whole key.
        whole = {fact.slot for fact, maker in giving_way(facts) if maker == "model" or fact.key} | {*removed}
        others = [fact for fact, _ in facts if fact.slot not in whole]
        by_value = list(dict.fromkeys(fact.slot for fact in others))
        known: dict[str, Fact] = {}
        for names, said in ((sorted(whole), None), (by_value, {fact.value for fact in others})):
            if names:
                give_way()
                found = self._store.facts(key, keys=names, leaf=segment.start, saying=said)
                known.update((one.id, one) for one in found)
        if any(maker != "guard" and self._services.contradictions.may_end(fact.value) for fact, maker in facts):
            near = self._store.facts(key, limit=_CONTRADICTED, leaf=segment.start)
            known = {one.id: one for one in near} | known
        give_way()
        return list(known.values())

    def _block(self, key: SessionKey, plan: Plan, lease: Lease) -> bool:
        leaves = self._store.segments(key, within=self._segment(plan, (), "", "rules"))
        most = self._settings.block_narrative_tokens
        narrative = self._rules.retold([leaf.narrative for leaf in leaves], max_tokens=most)
        maker: Maker = "model" if any(leaf.made_by == "model" for leaf in leaves) else "rules"
        segment = self._segment(plan, self._sources(key, plan), narrative, maker)
        return self._commit(key, Commit(segment), lease=lease, epoch=lease.epoch)

    def _era(self, key: SessionKey, plan: Plan, lease: Lease) -> bool:
        parts: list[Segment] = []
        for part in plan.parts:  # a growing era is rewritten from its own blocks
            parts += self._store.segments(key, within=part) if part.level == plan.level else [part]
        narratives = [part.narrative for part in parts if part.narrative]
        told = self._ask(key, plan, lambda model: model.era(narratives))
        guarded = without_inventions(told, "\n".join(narratives)) if told else ""
        narrative = guarded or self._rules.retold(narratives, max_tokens=self._settings.era_narrative_tokens)
        segment = self._segment(plan, (), narrative, "model" if told else "rules", parts=len(parts))
        return self._commit(key, Commit(segment), lease=lease, epoch=lease.epoch)

    def _ask(self, key: SessionKey, plan: Plan, call: Callable[[ModelSummarizer], T]) -> T | None:
        """Return the model's answer; `None` without a model or if it failed; it is not asked again for that plan."""
        if self._summarizer is None:
            return None
        try:
            return call(self._summarizer)
        except SummaryFailedError as error:
            if not isinstance(error.__cause__, SpentError):
                self._given_up.add((key, *_place(plan)))
            return None

    def _commit_leaf(self, key: SessionKey, merge: Callable[[], Commit], *, lease: Lease | None, epoch: int) -> bool:
        """Store a leaf; merge its facts again if another leaf, perhaps of another branch, came between."""
        version = self._store.state(key, limit=0, view=False).facts_version
        while not self._commit(key, replace(merge(), facts_version=version), lease=lease, epoch=epoch):
            state = self._store.state(key, limit=0, view=False)
            if self._stopped or state.epoch != epoch or state.facts_version == version:
                return False
            version = state.facts_version
        return True

    def _commit(self, key: SessionKey, commit: Commit, *, lease: Lease | None, epoch: int) -> bool:
        give_way()
        before = self._cover(key, epoch=epoch)
        if self._stopped or not self._store.commit(key, commit, lease=lease, epoch=epoch):
            self.forget(key)
            return False
        self._keep(key, _with(before, replace(commit.segment, sources=())), epoch=epoch)
        return True

    def _sources(self, key: SessionKey, plan: Plan) -> list[StoredMessage]:
        return [self._dated(one) for one in self._services.store.read(key, before=plan.end + 1, after=plan.start - 1)]

    def _read(self, key: SessionKey, plan: Plan) -> tuple[list[Message], list[StoredMessage], list[Message]]:
        """Return the assistant's message right before a leaf, the leaf's messages, and the message right after it.

        The leaf's first message may answer the one before.
        """
        read = self._sources(key, replace(plan, start=max(plan.start - 1, 1), end=plan.end + 1))
        asked = [one.message for one in read if one.seq < plan.start and one.message.role is Role.ASSISTANT]
        following = [one.message for one in read if one.seq > plan.end]
        return asked, [one for one in read if plan.start <= one.seq <= plan.end], following

    def _dated(self, stored: StoredMessage) -> StoredMessage:
        """Return a message with its time in the clock's zone, whose day excerpts show."""
        at = stored.message.created_at
        return replace(stored, message=replace(stored.message, created_at=self._services.local(at))) if at else stored

    def _segment(
        self, plan: Plan, sources: Sequence[StoredMessage], narrative: str, maker: Maker, *, parts: int = 0
    ) -> Segment:
        return Segment(
            level=plan.level,
            start=plan.start,
            end=plan.end,
            narrative=narrative,
            tokens=self._services.token_counter.count(narrative),
            made_by=maker,
            sources=tuple((stored.message.id or "", content_hash(stored.message)) for stored in sources),
            parts=parts,
            created_at=self._services.clock(),
        )


def _own_side(messages: Sequence[Message]) -> list[Message]:
    """Return the messages, with "…" for text that may not be learned; it still answers the questions before it."""
    own = {message.id: message for message in learnable(messages)}
    return [own.get(one.id) or replace(one, content="…", origin=None) for one in messages if own and one.text.strip()]


def _facts(messages: Sequence[Message], asked: Sequence[Message]) -> list[ProposedFact]:
    """Return the facts of a leaf's messages, which may answer the message before them."""
    return extract_facts([*asked, *messages], told_by=lambda one: not asked or one.id != asked[0].id)


def content_hash(message: Message) -> str:
    """Return a short hash of a message's content, covering all that `same_content` compares."""
    said = repr(content_of(message))
    return hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _with(cover: list[Segment], new: Segment) -> list[Segment]:
    """Return the session's segments with a new one, without those that lie within a higher one."""
    first = bisect_left(cover, new.start, key=lambda one: one.start)
    behind = bisect_right(cover, new.end, key=lambda one: one.start)
    higher = max(behind - 1, 0)
    if cover[higher : higher + 1] and cover[higher].level > new.level and cover[higher].end >= new.end:
        return cover
    return [*cover[:first], new, *cover[behind:]]


def _is_empty(segment: Segment) -> bool:
    return segment.made_by is None


def _place(stretch: Plan | Segment) -> tuple[int, int, int]:
    return stretch.level, stretch.start, stretch.end
