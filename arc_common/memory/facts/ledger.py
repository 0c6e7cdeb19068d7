"""The facts ledger: merges a leaf's facts into the known ones and chooses the facts that are always shown. Pure."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import datetime

from arc_common.concurrency import giving_way
from arc_common.facts import Fact, ProposedFact
from arc_common.memory.long_term.contradictions import contradicts, follows_up, is_changed
from arc_common.prompts.context import split_day
from arc_common.protocols.summaries import Commit, Segment
from arc_common.text import analyze
from arc_common.trust import Trust

_MOST_MISSES = 16
_NEAR = 20
"""A change that does not name its subject is about one of this many newest facts."""
_RELATED = 0.5
"""A text may change a fact if it contains at least this share, by weight, of the fact's key or value."""


def folded(text: str) -> str:
    """Return a key or value with case and whitespace folded, for comparison."""
    return " ".join(text.casefold().split())


def merged(
    segment: Segment,
    proposed: Sequence[tuple[ProposedFact, str]],
    *,
    known: Sequence[Fact],
    removed_keys: Iterable[str] = (),
    said: Callable[[ProposedFact], tuple[datetime, str, Trust]],
    new_id: Callable[[], str],
    ungrounded: Sequence[ProposedFact] = (),
    contradicts: Callable[[str, str], bool] = contradicts,
) -> Commit:
    """Return the commit that stores a leaf with these facts in the ledger."""

    def stored(proposal: ProposedFact, maker: str, *, grounded: bool = True) -> Fact:
        valid_from, said_by, trust = said(proposal)
        return Fact(
            id=new_id(),
            key=proposal.key,
            value=proposal.value,
            category=proposal.category,
            sources=proposal.sources,
            importance=proposal.importance,
            segment=segment.start,
            made_by=maker,
            valid_from=valid_from,
            said_by=said_by,
            trust=trust,
            grounded=grounded,
        )

    facts, ends = _of_one_leaf(giving_way([stored(proposal, maker) for proposal, maker in proposed]), contradicts)
    earlier = [fact for fact in known if fact.segment < segment.start and fact.is_current]
    later = [fact for fact in known if fact.segment > segment.start and fact.grounded]
    superseded = {one.id: fact.id for fact in giving_way(facts) for one in earlier if _ends(fact, one, contradicts)}
    overtaken = [(fact.id, one.id) for fact in facts for one in later if _ends(one, fact, contradicts)]
    gone = {folded(key) for key in removed_keys} - {folded(fact.slot) for fact in facts}
    removed = [(one.id, None) for one in earlier if folded(one.slot) in gone and one.id not in superseded]
    invented = (stored(proposal, "model", grounded=False) for proposal in ungrounded)
    return Commit(segment, (*facts, *invented), (*superseded.items(), *removed, *ends.items(), *overtaken))


def _of_one_leaf(
    proposed: Iterable[Fact], contradicts: Callable[[str, str], bool]
) -> tuple[list[Fact], dict[str, str]]:
    """Return the last of each group of equal facts, and the later fact that ends each ended one, by ids."""
    facts: dict[tuple[str, ...], Fact] = {}
    ends: dict[str, str] = {}
    for fact in proposed:
        own = folded(fact.slot), folded(fact.value), fact.user
        facts.pop(own, None)  # so that the last one also comes last
        if fact.made_by == "rules":
            ends |= {before.id: fact.id for before in facts.values() if _contradicts(fact, before, contradicts)}
        facts[own] = fact
    return list(facts.values()), ends


def _ends(later: Fact, earlier: Fact, contradicts: Callable[[str, str], bool]) -> bool:
    """Return whether a later fact replaces an earlier one: it says the same, has a model's key, or contradicts it."""
    if folded(later.slot) == folded(earlier.slot) and (
        later.made_by == "model"
        or (folded(later.value) == folded(earlier.value) and not _are_of_two_users(later, earlier))
    ):
        return True
    return not later.is_excerpt and _contradicts(later, earlier, contradicts)


def _contradicts(later: Fact, earlier: Fact, contradicts: Callable[[str, str], bool]) -> bool:
    """Return whether a later fact ends a rule's; an assistant's ends a user's only by words of change."""
    if earlier.made_by != "rules" or _are_of_two_users(later, earlier) or not contradicts(later.value, earlier.value):
        return False
    return earlier.trust is not Trust.USER or later.trust is Trust.USER or is_changed(later.value)


def _are_of_two_users(one: Fact, other: Fact) -> bool:
    return one.trust is other.trust is Trust.USER and one.user != other.user


def related(facts: Sequence[Fact], text: str, *, max_tokens: int, count: Callable[[str], int]) -> list[Fact]:
    """Return the facts that a text may change, best matches first, as long as their lines fit."""
    words = set(analyze(text))
    sides = [(set(analyze(fact.key)), set(analyze(fact.value))) for fact in giving_way(facts)]
    spread = Counter(term for key, value in sides for term in key | value)
    weight = {term: math.log(1 + len(facts) / number) for term, number in spread.items()}

    def said(terms: Set[str]) -> float:
        whole = sum(weight[term] for term in sorted(terms))
        return sum(weight[term] for term in sorted(terms & words)) / whole if whole else 0.0

    ranked = sorted(
        ((max(map(said, pair)), fact) for pair, fact in zip(sides, facts, strict=True)),
        key=lambda pair: (-pair[0], pair[1].segment, pair[1].text),
    )
    chosen: list[Fact] = []
    total = 0
    for share, fact in ranked:
        tokens = count(fact.line + "\n") if share >= _RELATED else 0
        if share < _RELATED or total + tokens > max_tokens:
            break
        chosen.append(fact)
        total += tokens
    return chosen


def adopted_facts(
    facts: Sequence[Fact],
    *,
    max_tokens: int,
    count: Callable[[str], int],
) -> list[Fact]:
    """Choose the facts that are always shown: the most important, then the newest, as long as their lines fit.

    A fact that a later one partly replaces ("We changed it to 10 August") is shown with it or not at all.
    """
    after = follow_ups(facts)
    chosen: dict[str, Fact] = {}
    said: set[tuple[str, str]] = set()
    sentences: dict[str, list[str]] = {}
    days: set[str] = set()
    total = misses = 0
    best_first = sorted(facts, key=lambda fact: (-fact.importance, -fact.valid_from.timestamp(), fact.text))
    for fact in giving_way(best_first):
        if fact.id in chosen or (fact.user, folded(fact.text)) in said or _is_said(fact, sentences):
            continue
        both = [one for one in (fact, after.get(fact.id)) if one is not None and one.id not in chosen]
        lines = [split_day(one.line) for one in both]
        headings = {day for day, _ in lines if len(both) > 1 or day not in days} - {""}
        tokens = sum(count(f"{line}\n") for _, line in lines) + sum(count(f"[{day}]\n") for day in headings)
        if total + tokens > max_tokens:
            misses += 1
            if misses == _MOST_MISSES:  # counting the tokens of all facts took half the time of an adoption
                break
            continue
        misses = 0
        days |= headings
        for one in both:
            chosen[one.id] = one
            said.add((one.user, folded(one.text)))
            for source in one.sources if one.made_by != "model" else ():
                sentences.setdefault(source, []).append(folded(one.text))
        total += tokens
    return in_order(list(chosen.values()), after)


def follow_ups(facts: Iterable[Fact]) -> dict[str, Fact]:
    """Return, by the id of a fact, the later one that changes its value without naming it."""
    found: dict[str, Fact] = {}
    before: list[Fact] = []
    for fact in sorted(facts, key=lambda fact: (fact.valid_from, fact.segment, fact.place)):
        if is_changed(fact.value):
            earlier = next((one for one in reversed(before[-_NEAR:]) if follows_up(fact.value, one.value)), None)
            if earlier is not None:
                found[earlier.id] = fact
        before.append(fact)
    return found


def in_order(facts: Sequence[Fact], after: Mapping[str, Fact]) -> list[Fact]:
    """Return facts in the order they were said, each followed directly by the one that partly replaces it."""
    order: dict[str, Fact] = {}
    for fact in sorted(facts, key=lambda fact: (fact.valid_from, fact.segment, fact.place, fact.line)):
        one: Fact | None = fact
        while one is not None and one.id not in order and one in facts:
            order[one.id] = one
            one = after.get(one.id)
    return list(order.values())


def _is_said(fact: Fact, sentences: Mapping[str, Sequence[str]]) -> bool:
    """Return whether every source message of a fact already has a chosen line that contains the fact's value."""
    value = folded(fact.value)
    said = [sentences.get(source, ()) for source in fact.sources]
    return bool(said) and all(any(_stands_in(value, line) for line in lines) for lines in said)


def _stands_in(value: str, line: str) -> bool:
    """Return whether a line contains a value outside a longer ASCII word or number; Korean particles may follow."""
    start = line.find(value)
    while start >= 0:
        end = start + len(value)
        if not _is_one(line[max(start - 1, 0) : start + 1]) and not _is_one(line[end - 1 : end + 1]):
            return True
        start = line.find(value, start + 1)
    return False


def _is_one(pair: str) -> bool:
    return len(pair) == 2 and pair.isascii() and pair.isalnum()
