"""Decides what happens to a new memory, which memories are evicted, and how they are ranked. Pure."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from arc_common.memories import SAID_BY, Memory, MemoryStatus, ProposedMemory, ScoredMemory, Wording, check_span
from arc_common.memory.long_term.deduplication import Holdings, folded, may_be_the_same
from arc_common.messages import Role

RELEVANCE_WEIGHT = 0.6
IMPORTANCE_WEIGHT = 0.2
RECENCY_WEIGHT = 0.2
"""The weights of the three parts of a score (Park et al. 2023, Generative Agents). The paper weighs them equally; here
relevance counts most, because a question asks for a memory rather than a moment."""

HALF_LIFE = timedelta(days=30)
"""The time without being said or returned after which a memory's recency halves."""

RAISE = 0.1
"""The share of the gap to 1 that a memory's importance gains each time the same is said again."""

MOST_WORDINGS = 16
"""The most wordings kept per memory: the longest, and those said last."""


class Outcome(StrEnum):
    """The outcome of a proposed memory."""

    NEW = "new"
    KNOWN = "known"
    """It exists already, word for word."""
    MERGED = "merged"
    """It says the same as an existing one, in almost the same words or by its meaning."""
    REJECTED = "rejected"
    """A review rejected the same memory."""
    APPROVED = "approved"
    """The same memory was pending; now somebody entered it by hand."""
    FULL = "full"
    """It was not stored, because its scope is full of stronger memories."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision on a proposed memory: its outcome, its twin, the superseded memories and the superseding one."""

    outcome: Outcome
    twin: str | None = None
    superseded: tuple[str, ...] = ()
    superseded_by: str | None = None


def decide(
    proposed: ProposedMemory,
    holdings: Holdings,
    *,
    now: datetime,
    merge_similarity: float,
    alike: Iterable[str] = (),
    by_hand: bool = False,
    outranked: Collection[str] = (),
    overruled: Collection[str] = (),
) -> Decision:
    """Decide what happens to a proposed memory, by comparison with the existing ones."""
    is_active = proposed.status is MemoryStatus.ACTIVE

    def joins(status: MemoryStatus) -> bool:
        return status is proposed.status or (not by_hand and (is_active or status is MemoryStatus.REJECTED))

    def new() -> Decision:
        said = proposed.valid_from or now
        replaces = proposed.replaces
        return placed(proposed, holdings, said=said, replaces=replaces, outranked=outranked, overruled=overruled)

    def joined(outcome: Outcome, twin: str) -> Decision:
        status = holdings[twin].status
        if status is MemoryStatus.REJECTED:
            return Decision(Outcome.REJECTED, twin)
        if not (is_active and status is MemoryStatus.ACTIVE):
            return Decision(outcome, twin)
        place = new()
        others = () if place.superseded_by else (name for name in place.superseded if name != twin)
        return Decision(outcome, twin, superseded=tuple(others))

    exact = holdings.same_text(proposed.text, proposed.speaker)
    if exact is not None:
        status = holdings[exact].status
        if joins(status):
            return joined(Outcome.KNOWN, exact)
        if is_active and status is MemoryStatus.PENDING:
            return Decision(Outcome.APPROVED, exact)
        if status is MemoryStatus.ACTIVE and proposed.status is MemoryStatus.PENDING:
            return Decision(Outcome.KNOWN, exact)
    twin = _similar(proposed, holdings, joins=joins, merge_similarity=merge_similarity, alike=alike)
    if twin is not None:
        return joined(Outcome.MERGED, twin)
    return new() if is_active else Decision(Outcome.NEW)


def _similar(
    proposed: ProposedMemory,
    holdings: Holdings,
    *,
    joins: Callable[[MemoryStatus], bool],
    merge_similarity: float,
    alike: Iterable[str],
) -> str | None:
    """Return a memory that says the same in almost the same words or, for an active one, by its meaning."""
    opposed = {*holdings.contradicted(proposed.text, proposed.speaker), *proposed.replaces}
    for memory_id in holdings.similar(proposed.text, cutoff=merge_similarity):
        one = holdings[memory_id]
        is_own = one.speaker == proposed.speaker and memory_id not in opposed
        if is_own and joins(one.status) and may_be_the_same(proposed.text, one.text):
            return memory_id
    for memory_id in alike if proposed.status is MemoryStatus.ACTIVE else ():
        found = holdings.get(memory_id)
        if found is None or not found.is_current or memory_id in opposed or found.speaker != proposed.speaker:
            continue
        if may_be_the_same(proposed.text, found.text, by_meaning=True):
            return memory_id
    return None


def placed(
    statement: ProposedMemory | Memory,
    holdings: Holdings,
    *,
    said: datetime,
    replaces: Collection[str] = (),
    outranked: Collection[str] = (),
    overruled: Collection[str] = (),
) -> Decision:
    """Decide which memories a new active memory supersedes, or which later one supersedes it."""
    contradicted = [holdings[name] for name in holdings.contradicted(statement.text, statement.speaker)]
    named = [one for name in sorted(set(replaces)) if (one := holdings.get(name)) is not None and one.is_current]
    later = [one for one in contradicted if one.id in outranked or (one.valid_from > said and one.id not in overruled)]
    if later:
        newest = max(later, key=lambda one: (one.valid_from, one.id))
        return Decision(Outcome.NEW, superseded_by=newest.id)
    before = [*contradicted, *(one for one in named if one.valid_from <= said or one.id in overruled)]
    return Decision(Outcome.NEW, superseded=tuple(dict.fromkeys(one.id for one in before)))


def is_firm(memory: Memory) -> bool:
    """Return whether a memory rests on more than what an assistant said or concluded."""
    return not all(_is_assistants(wording) for wording in memory.said)


def merged(memory: Memory, proposed: ProposedMemory, *, now: datetime, known: bool = False) -> Memory:
    """Return a memory after it was said again: more important, with the sources and wordings of both."""
    if not proposed.reinforces:
        return memory
    wordings = _with_wording(memory.said, _wording_of(proposed))
    worded = memory if wordings == memory.said else memory.worded(wordings)
    if known and proposed.sources and not memory.has_ended(now):
        worded = replace(worded, valid_from=max(memory.valid_from, proposed.valid_from or memory.valid_from))
        return worded if worded != memory else memory
    least = max(memory.importance, min(1.0, max(0.0, proposed.importance)))
    own = {name: value for name, value in proposed.metadata.items() if name != SAID_BY}
    until = proposed.valid_until or (None if memory.has_ended(now) else memory.valid_until)
    return replace(
        worded,
        tags=(*memory.tags, *proposed.tags),
        valid_until=until,
        importance=round(least + RAISE * (1.0 - least), 4),
        valid_from=max(memory.valid_from, proposed.valid_from or now),
        metadata={**worded.metadata, **own},
    )


def _wording_of(proposed: ProposedMemory) -> Wording:
    said_by = proposed.metadata.get(SAID_BY)
    return Wording(proposed.text, proposed.sources, said_by if isinstance(said_by, str) else None)


def _is_assistants(wording: Wording) -> bool:
    return wording.said_by == Role.ASSISTANT.value


def _with_wording(said: Sequence[Wording], new: Wording) -> tuple[Wording, ...]:
    """Return a memory's wordings with a new one; a known wording gains the new one's sources."""
    words = folded(new.text)
    for place, known in enumerate(said):
        if folded(known.text) == words and _is_assistants(known) == _is_assistants(new):
            is_by_hand = not known.sources or not new.sources
            sources = () if is_by_hand else tuple(dict.fromkeys((*known.sources, *new.sources)))
            return (*said[:place], replace(known, sources=sources), *said[place + 1 :])
    is_first = any(folded(known.text) == words for known in said) and not _is_assistants(new)
    return _bounded((new, *said) if is_first else (*said, new))


def _bounded(said: Sequence[Wording]) -> tuple[Wording, ...]:
    """Return the wordings without redundant ones, bounded by `MOST_WORDINGS`."""
    useless: list[Wording] = []
    for of_assistant in (False, True):
        by_hand = [one for one in said if not one.sources and _is_assistants(one) == of_assistant]
        useless += sorted(by_hand, key=lambda one: len(one.text))[:-1]
    wordings = [one for one in said if one not in useless]
    if len(wordings) > MOST_WORDINGS:
        longest = max(wordings, key=lambda one: len(one.text))
        wordings.remove(next(one for one in wordings if one is not longest and one.sources))
    return tuple(wordings)


def approved(waiting: Memory, proposed: ProposedMemory, *, now: datetime) -> Memory:
    """Return a pending memory approved because somebody entered the same, with the data of both and the later time."""
    given = proposed.stored_as(waiting.id, now)
    worded = waiting.worded(_with_wording(waiting.said, _wording_of(proposed)))
    return replace(
        worded,
        status=given.status,
        importance=max(waiting.importance, given.importance),
        valid_from=max(waiting.valid_from, given.valid_from),
        metadata={**worded.metadata, **{name: value for name, value in given.metadata.items() if name != SAID_BY}},
        tags=(*waiting.tags, *given.tags),
        valid_until=given.valid_until or waiting.valid_until,
    )


def revised(memory: Memory, values: Mapping[str, Any], *, now: datetime) -> Memory:
    """Return the next revision of a memory; an edited text is nobody's own words, and keeps all sources."""
    edited = replace(memory, **values, revision=memory.revision + 1, revised_at=now, wordings=())
    if not values.keys().isdisjoint(("valid_from", "valid_until")):
        check_span(edited)
    if edited.text == memory.text:
        return replace(edited, wordings=memory.wordings)
    return replace(edited, metadata={name: value for name, value in edited.metadata.items() if name != SAID_BY})


def leaving(memories: Collection[Memory], *, now: datetime, most: int, keep: Collection[str] = ()) -> list[str]:
    """Return the ids of the memories to evict so that at most `most` of each kind remain, the weakest first."""
    if len(memories) <= most:
        return []
    holding = [one for one in memories if one.is_current]
    waiting = [one for one in memories if one.superseded_by is None and one.status is MemoryStatus.PENDING]
    living = {one.id for one in (*holding, *waiting)}
    history = [one for one in memories if one.id not in living]
    gone: list[Memory] = []
    for kind in (holding, waiting, history):
        first = sorted(
            (one for one in kind if one.id not in keep and not one.pinned),
            key=lambda one: (0.0 if kind is history else _strength(one, now), one.valid_from, one.id),
        )
        gone += first[: max(0, len(kind) - most)]
    return [one.id for one in gone]


def ranked(
    memories: Sequence[Memory], relevance: Mapping[str, float], *, now: datetime, limit: int
) -> list[ScoredMemory]:
    """Return the memories with the best scores, best first; ties put the later memory first, then the smaller id."""
    scored = []
    for memory in memories:
        if memory.is_current and not memory.has_ended(now):
            parts = {
                "relevance": min(1.0, max(0.0, relevance.get(memory.id, 0.0))),
                "importance": memory.importance,
                "recency": recency(memory, now),
            }
            score = (
                RELEVANCE_WEIGHT * parts["relevance"]
                + IMPORTANCE_WEIGHT * parts["importance"]
                + RECENCY_WEIGHT * parts["recency"]
            )
            scored.append(ScoredMemory(memory, score, parts))
    scored.sort(key=lambda one: one.memory.id)
    scored.sort(key=lambda one: (one.score, one.memory.valid_from), reverse=True)
    return scored[:limit]


def held_at(revisions: Iterable[Memory], moment: datetime) -> list[Memory]:
    """Return the memories that were valid at a given time, as they were then; `revisions` are by id and revision."""
    by_id: dict[str, list[Memory]] = {}
    for one in revisions:
        by_id.setdefault(one.id, []).append(one)
    starts = {name: min(them[0].created_at, them[0].valid_from) for name, them in by_id.items()}
    found = []
    for name, them in by_id.items():
        then = [one for one in them if (one.revised_at or starts[name]) <= moment]
        taker = them[-1].superseded_by
        is_over = taker is not None and starts.get(taker, starts[name]) <= moment
        if then and not is_over and then[-1].status is MemoryStatus.ACTIVE and not then[-1].has_ended(moment):
            found.append(replace(then[-1], superseded_by=None))
    return found


def recency(memory: Memory, now: datetime) -> float:
    """Return a memory's recency: 1 if it was said or returned now, halved with each half-life."""
    last = memory.valid_from if memory.last_accessed_at is None else max(memory.valid_from, memory.last_accessed_at)
    return math.exp2(-max(timedelta(), now - last) / HALF_LIFE)


def _strength(memory: Memory, now: datetime) -> float:
    return IMPORTANCE_WEIGHT * memory.importance + RECENCY_WEIGHT * recency(memory, now)
