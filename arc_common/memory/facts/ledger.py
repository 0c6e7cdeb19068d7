"""The facts ledger: merges a leaf's facts into the known ones and chooses the facts that are always shown. Pure."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime

from arc_common.concurrency import giving_way
from arc_common.facts import Fact, ProposedFact
from arc_common.memory.long_term.contradictions import contradicts
from arc_common.protocols.summaries import Commit, Maker, Segment
from arc_common.text import analyze

_MOST_MISSES = 16
_RELATED = 0.5
"""A text may change a fact if it contains at least this share, by weight, of the fact's key or value."""


def folded(text: str) -> str:
    """Return a key or value with case and whitespace folded, for comparison."""
    return " ".join(text.casefold().split())


def merged(
    segment: Segment,
    proposed: Sequence[tuple[ProposedFact, Maker]],
    *,
    known: Sequence[Fact],
    removed_keys: Iterable[str] = (),
    said_at: Callable[[ProposedFact], datetime],
    new_id: Callable[[], str],
    ungrounded: Sequence[ProposedFact] = (),
    contradicts: Callable[[str, str], bool] = contradicts,
) -> Commit:
    """Return the commit that stores a leaf with these facts in the ledger."""

    def stored(proposal: ProposedFact, maker: Maker, *, grounded: bool = True) -> Fact:
        return Fact(
            id=new_id(),
            key=proposal.key,
            value=proposal.value,
            category=proposal.category,
            sources=proposal.sources,
            importance=proposal.importance,
            segment=segment.start,
            made_by=maker,
            valid_from=said_at(proposal),
            grounded=grounded,
        )

    facts = _of_one_leaf(giving_way([stored(proposal, maker) for proposal, maker in proposed]), contradicts)
    earlier = _by_key(fact for fact in known if fact.holds and fact.segment < segment.start)
    later = _by_key(fact for fact in known if fact.holds and fact.segment > segment.start)
    for (key, value), fact in giving_way(list(facts.items())):
        taker = next((one.id for one in later.get(key, ()) if _ends(one, fact, contradicts)), None)
        facts[key, value] = replace(fact, superseded_by=taker) if taker else fact
    superseded = {
        other.id: fact.id
        for (key, _), fact in giving_way(list(facts.items()))
        for other in earlier.get(key, ())
        if _ends(fact, other, contradicts)
    }
    gone = {folded(key) for key in removed_keys} - {key for key, _ in facts}
    removed = tuple(other.id for key in earlier if key in gone for other in earlier[key] if other.id not in superseded)
    invented = (stored(proposal, "model", grounded=False) for proposal in ungrounded)
    return Commit(segment, (*facts.values(), *invented), superseded, removed)


def _of_one_leaf(proposed: Iterable[Fact], contradicts: Callable[[str, str], bool]) -> dict[tuple[str, str], Fact]:
    """Return facts by folded key and value: the last of equal ones, each superseded by a later one that ends it."""
    facts: dict[tuple[str, str], Fact] = {}
    for fact in proposed:
        key, value = folded(fact.key), folded(fact.value)
        facts.pop((key, value), None)  # so that the last one also comes last
        for place, before in facts.items():
            by_rules = fact.made_by == before.made_by == "rules"
            if place[0] == key and by_rules and contradicts(fact.value, before.value):
                facts[place] = replace(before, superseded_by=fact.id)
        facts[key, value] = fact
    return facts


def _by_key(facts: Iterable[Fact]) -> dict[str, list[Fact]]:
    found: dict[str, list[Fact]] = {}
    for fact in facts:
        found.setdefault(folded(fact.key), []).append(fact)
    return found


def _ends(later: Fact, earlier: Fact, contradicts: Callable[[str, str], bool]) -> bool:
    """Return whether a later fact replaces an earlier one with the same key."""
    if later.made_by == "model" or folded(later.value) == folded(earlier.value):
        return True
    return earlier.made_by == "rules" and contradicts(later.value, earlier.value)


def related(facts: Sequence[Fact], text: str, *, max_tokens: int, count: Callable[[str], int]) -> list[Fact]:
    """Return the facts that a text may change, best matches first, as long as their lines fit."""
    words = set(analyze(text))
    sides = [(set(analyze(fact.key)), set(analyze(fact.value))) for fact in facts]
    spread = Counter(term for key, value in sides for term in key | value)
    weight = {term: math.log(1 + len(facts) / number) for term, number in spread.items()}

    def said(terms: Set[str]) -> float:
        whole = sum(weight[term] for term in sorted(terms))
        return sum(weight[term] for term in sorted(terms & words)) / whole if whole else 0.0

    ranked = sorted(
        ((max(map(said, pair)), fact) for pair, fact in zip(sides, facts, strict=True)),
        key=lambda pair: (-pair[0], pair[1].segment, pair[1].line),
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
    """Choose the facts that are always shown: the most important, then the newest, as long as their lines fit."""
    chosen: list[Fact] = []
    lines: set[str] = set()
    sentences: dict[str, list[str]] = {}
    total = misses = 0
    best_first = sorted(facts, key=lambda fact: (-fact.importance, -fact.valid_from.timestamp(), fact.line))
    for fact in giving_way(best_first):
        line = folded(fact.line)
        if line in lines or _is_said(fact, sentences):
            continue
        tokens = count(fact.line + "\n")
        if total + tokens > max_tokens:
            misses += 1
            if misses == _MOST_MISSES:  # counting the tokens of all facts took half the time of an adoption
                break
            continue
        misses = 0
        lines.add(line)
        for source in fact.sources if fact.made_by == "rules" else ():
            sentences.setdefault(source, []).append(line)
        chosen.append(fact)
        total += tokens
    return sorted(chosen, key=lambda fact: (fact.valid_from, fact.line))


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
