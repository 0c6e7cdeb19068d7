"""Chooses the prompt's narratives and facts, from those that were read ahead, and keeps the adopted views."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile
from operator import attrgetter
from threading import Lock

from arc_common.caches import LRUCache, drop_session
from arc_common.context.repetition import Said, body, without_lead_in
from arc_common.facts import IN_REPLY, Fact
from arc_common.memory.facts.index import FactIndex
from arc_common.memory.facts.ledger import adopted_facts
from arc_common.memory.long_term.contradictions import is_negated
from arc_common.memory.summaries.summarizers import asked_again
from arc_common.memory.summaries.trigger import ERA, Line, first_to_stay
from arc_common.prompts.context import ERA_MARK, by_day, is_excerpts
from arc_common.protocols import SessionKey
from arc_common.protocols.summaries import Segment, SessionState, SummaryStore, View
from arc_common.text.analyzer import content_words


def boundary_after(cover: Sequence[Segment], *, boundary: int, verbatim: Sequence[Line], recent: int) -> int:
    """Return how far summaries may replace messages: the `seq` of the last message that leaves the verbatim part."""
    further = [segment for segment in cover if segment.end > boundary]
    if len(verbatim) <= recent or not further:
        return boundary
    latest = verbatim[-recent].seq if recent else verbatim[-1].seq + 1
    for segment in further:
        behind = bisect_right(verbatim, boundary, key=attrgetter("seq"))
        if behind == len(verbatim):
            break
        following = verbatim[behind].seq
        is_removed = segment.end < following  # with all its messages
        if not is_removed and (segment.start > following or segment.end >= latest):
            break
        boundary = segment.end
    return boundary


def shown_narratives(
    cover: Sequence[Segment], *, boundary: int, max_tokens: int
) -> tuple[list[Segment], list[Segment]]:
    """Return the narratives up to the boundary that fit, oldest first, and those that do not."""
    told = [segment for segment in cover if segment.end <= boundary and segment.narrative]
    shown: list[Segment] = []
    total = 0
    for segment in sorted(told, key=lambda one: (one.level < ERA, -one.start)):
        if total + segment.tokens <= max_tokens:
            shown.append(segment)
            total += segment.tokens
    kept = {segment.start for segment in shown}
    left_out = sorted((segment for segment in told if segment.start not in kept), key=lambda one: one.start)
    return sorted(shown, key=lambda one: one.start), left_out


_DATED_LINE = re.compile(r"- \d{4}-\d\d-\d\d")
_CANDIDATES = 300
"""The most facts considered for adoption, the most important first."""
_FEW = 3
"""The most specific words that a sentence has beside a fact that it repeats word for word."""
_CLAUSE_END = re.compile(r"\W*$|[,.;:!?](?!\w)|[，。；：！？、]|\s[–—-]")
_COMPOSED = 3
"""The number of boundaries for which material is composed ahead."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The facts and narrative that replace the messages up to a boundary."""

    facts: tuple[str, ...]
    fact_ids: tuple[str, ...]
    narrative: str
    unshown: int
    unshown_tokens: int
    stale: bool


def written(state: SessionState) -> tuple[int, int]:
    """Return what changes with every leaf that is written: how far the summaries go, and the facts' version."""
    return state.summarized_to, state.facts_version


@dataclass(frozen=True, slots=True)
class Material:
    """The input for a session's views, read at one moment."""

    epoch: int
    written: tuple[int, int]
    cover: tuple[Segment, ...]
    final: tuple[bool, ...]
    index: FactIndex
    facts_tokens: int
    narrative_tokens: int
    ready: dict[int, Shown]

    def serves(self, state: SessionState, *, being_read: bool) -> bool:
        """Return whether this is current for a state; while newer segments are being read, the known ones do."""
        return self.epoch == state.epoch and (being_read or self.written == written(state))

    def reach(self, verbatim: Sequence[Line], *, boundary: int, room: int, recent: int, any_maker: bool) -> int:
        """Return how far this can be adopted: up to the first unwritten (or, unless `any_maker`, not final) segment."""
        before = [0, *accumulate(line.tokens for line in verbatim)]
        staying = len(verbatim) - first_to_stay(before, recent=recent, shown=room)
        ready = takewhile(
            lambda pair: pair[0].end <= boundary or (pair[0].made_by is not None and (any_maker or pair[1])),
            zip(self.cover, self.final, strict=True),
        )
        return boundary_after([one for one, _ in ready], boundary=boundary, verbatim=verbatim, recent=staying)

    def by_rules(self, *, behind: int, up_to: int) -> bool:
        """Return whether a segment that ends in this span was written by rules."""
        return any(segment.made_by == "rules" and behind < segment.end <= up_to for segment in self.cover)

    def composed_ahead(self, *, boundary: int) -> "Material":
        """Return the material with the contents for its last boundaries composed ahead of the turns."""
        ends = [segment.end for segment in self.cover if segment.made_by is not None and segment.end > boundary]
        return replace(self, ready={end: composed(self, end) for end in ends[-_COMPOSED:]})

    def within(self, facts_tokens: int, narrative_tokens: int) -> "Material":
        """Return the material for other limits of facts and narratives."""
        if (facts_tokens, narrative_tokens) == (self.facts_tokens, self.narrative_tokens):
            return self
        return replace(self, facts_tokens=facts_tokens, narrative_tokens=narrative_tokens, ready={})


def composed(material: Material, boundary: int) -> Shown:
    """Compose the facts and narrative that replace the messages up to a boundary, each within its limit."""
    shown, left_out = shown_narratives(material.cover, boundary=boundary, max_tokens=material.narrative_tokens)
    most, index = material.narrative_tokens, material.index
    narrative, dropped = narrated(shown, max_tokens=most, count=index.count)
    emptied = [one for one in material.cover if one.made_by is None and one.end <= boundary]
    missed = [*left_out, *dropped, *emptied]
    known = [fact for fact in index.facts.values() if fact.segment <= boundary]
    facts = [fact for fact in known if not fact.is_excerpt][:_CANDIDATES]
    facts = adopted_facts(facts, max_tokens=material.facts_tokens, count=index.cost)
    narrative = with_excerpts(narrative, known, max_tokens=most, count=index.cost)
    facts, narrative = _each_once(facts, narrative)
    return Shown(
        facts=tuple(fact.line for fact in facts),
        fact_ids=tuple(fact.id for fact in facts),
        narrative=narrative,
        unshown=len(missed),
        unshown_tokens=sum(segment.tokens for segment in missed),
        stale=bool(emptied),
    )


def with_excerpts(narrative: str, known: Sequence[Fact], *, max_tokens: int, count: Callable[[str], int]) -> str:
    """Return a narrative with the excerpts among the known facts that fit beside it, by their days."""
    room = max_tokens - count(f"{by_day(narrative.splitlines())}\n")
    excerpts = [fact for fact in known if fact.is_excerpt][:_CANDIDATES]
    lines = [fact.line for fact in adopted_facts(excerpts, max_tokens=room, count=count)] if room > 0 else []
    told = narrative.splitlines()
    if not lines or any(not _DATED_LINE.match(line) for line in told):
        return "\n".join([*told, *lines])
    return "\n".join(sorted([*told, *lines], key=lambda line: line[: len("- 2026-11-23")]))


def _marked(narrative: str) -> str:
    return narrative if is_excerpts(narrative) else f"{ERA_MARK}{narrative}"  # excerpts are as they were said


def _each_once(facts: Sequence[Fact], narrative: str) -> tuple[list[Fact], str]:
    """Return the facts without near-copies of earlier ones, and the narrative without sentences that repeat them."""
    told = {line: without_lead_in(body(line)) for line in narrative.splitlines()}
    shown = [*(fact.line for fact in facts), *told, *told.values()]
    said, by_user = Said(shown), {user: Said(shown) for user in {fact.user for fact in facts}}
    kept: list[Fact] = []
    for fact in sorted(facts, key=lambda fact: -len(fact.line)):  # a copy may say more
        if by_user[fact.user].unsaid(fact.line)[0]:
            kept.append(fact)
            by_user[fact.user].add(fact.id, body(fact.line))
            said.add(fact.id, body(fact.line))
            said.add(fact.id, body(fact.line).partition(IN_REPLY)[0])
    lines: list[str] = []
    again = asked_again([(_speaker(line), bare) for line, bare in told.items()])
    for place, line in enumerate(told):
        if place in again or _is_part(line, told):
            continue
        if left := said.unsaid(_beside(line, kept))[0]:
            lines.append(left)
            said.add("the summary", body(left))
    return [fact for fact in facts if fact in kept], "\n".join(lines)


def _is_part(line: str, told: Iterable[str]) -> bool:
    """Return whether another line of the same speaker has the text of a line, and more."""
    text = body(line)
    part = text.rstrip(".!…。！")  # an answer stands without them before its question
    end = "" if text.endswith("…") else r"(?![.,:]?\w)"  # 180 and 18.5 do not have 18
    return any(
        len(text) < len(body(one))
        and part in one
        and _speaker(one) == _speaker(line)
        and re.search(rf"(?<!\w){re.escape(part)}{end}", one)
        for one in told
    )


def _beside(line: str, facts: Sequence[Fact]) -> str:
    """Return a line with "…" for its speaker's facts; `""` if it has few further words, no denial and no value."""
    text = body(line)
    head = line.removesuffix(text)
    for fact in facts:
        before, found, after = text.partition(fact.value)
        rest = f"{before} {after}"
        if not found or _speaker(line) != _speaker(fact.line) or is_negated(rest):
            continue
        words = content_words(rest)
        if len(words) <= min(_FEW, len(content_words(found))) and not any(map(str.isdigit, rest)):
            return ""  # "Fun! And I …"
        if _CLAUSE_END.match(after):
            text = f"{before if content_words(before) else ''}… {after.lstrip(' ,.;:!–—-')}".replace("… …", "…").strip()
    return head + text


def _speaker(line: str) -> str:
    return line.removesuffix(body(line)).rpartition(", ")[2]


def narrated(
    shown: Sequence[Segment], *, max_tokens: int, count: Callable[[str], int]
) -> tuple[str, Sequence[Segment]]:
    """Join the narratives, and return those dropped to keep within the limit: the oldest first, eras last."""
    lines = {one.start: _marked(one.narrative) if one.level >= ERA else one.narrative for one in shown}
    dropped: list[Segment] = []
    for one in sorted(shown, key=lambda one: (one.level >= ERA, one.start)):
        if count("\n".join(lines.values())) <= max_tokens:
            break
        del lines[one.start]
        dropped.append(one)
    return "\n".join(lines.values()), sorted(dropped, key=lambda one: one.start)


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
        """Adopt a view unless another turn was first; return the one adopted."""
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
        """Store the waiting view; return whether it stays adopted. A view that the store refuses is dropped."""
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
            drop_session(self._sessions, key)
