"""The facts ledger: how what was read from a leaf changes what is known, and which facts are always shown. Pure."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from arc_common.facts import Fact, ProposedFact
from arc_common.summaries import Commit, Maker, Segment
from arc_common.text import analyze

__all__ = ["folded", "merged", "pinned", "related"]

_MOST_MISSES = 16


def folded(text: str) -> str:
    """A key or value as it is compared: case and space folded."""
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
) -> Commit:
    """What storing a leaf with these facts changes in the ledger.

    - A fact that says what an earlier one says supersedes it: the newest evidence stands.
    - A model's fact supersedes every earlier one under its key. One found by rules doesn't, because its key is a guess:
      both stand.
    - Within the leaf the last of several facts with one key and value stands.
    - Facts of the leaf itself, from an earlier reading, are replaced and are not in question here.
    - What is not grounded is kept with its mark, and changes nothing else.

    Args:
        segment: The leaf.
        proposed: Its facts, and who found each.
        known: The facts that hold under the same keys.
        removed_keys: Keys under which nothing holds any more, as a model said.
        said_at: When a fact was said.
        new_id: Mints ids.
        ungrounded: What a model said that the leaf doesn't say.
    """

    def stored(
        proposal: ProposedFact, maker: Maker, *, superseded_by: str | None = None, grounded: bool = True
    ) -> Fact:
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
            superseded_by=superseded_by,
            grounded=grounded,
        )

    others = [fact for fact in known if fact.segment != segment.start and fact.holds]
    later = [fact for fact in others if fact.segment > segment.start]
    facts: dict[tuple[str, str], Fact] = {}
    for proposal, maker in proposed:
        superseding = _superseding(proposal, later)
        facts[folded(proposal.key), folded(proposal.value)] = stored(proposal, maker, superseded_by=superseding)
    superseded: dict[str, str] = {}
    for (key, value), fact in facts.items():
        for other in others:
            earlier = folded(other.key) == key and other.segment < segment.start
            if earlier and (fact.made_by == "model" or folded(other.value) == value):
                superseded[other.id] = fact.id
    gone = {folded(key) for key in removed_keys} - {key for key, _ in facts}
    removed = tuple(
        other.id
        for other in others
        if folded(other.key) in gone and other.segment < segment.start and other.id not in superseded
    )
    invented = (stored(proposal, "model", grounded=False) for proposal in ungrounded)
    return Commit(segment, (*facts.values(), *invented), superseded, removed)


def _superseding(proposal: ProposedFact, later: Sequence[Fact]) -> str | None:
    """The fact of a later leaf that took this one's place already, when an old leaf is read again."""
    key, value = folded(proposal.key), folded(proposal.value)
    for fact in later:
        if folded(fact.key) == key and (fact.made_by == "model" or folded(fact.value) == value):
            return fact.id
    return None


def related(facts: Sequence[Fact], text: str, *, max_tokens: int, count: Callable[[str], int]) -> list[Fact]:
    """The facts that a text may be about: those that share the most words with it, as long as their lines fit.

    Facts that share none are left out: showing all of them to every summary would cost the square of the conversation.
    """
    words = set(analyze(text))
    shared = [(len(words.intersection(analyze(f"{fact.key} {fact.value}"))), fact) for fact in facts]
    chosen: list[Fact] = []
    total = 0
    for overlap, fact in sorted(shared, key=lambda pair: (-pair[0], pair[1].segment, pair[1].line)):
        tokens = count(fact.line + "\n")
        if overlap == 0 or total + tokens > max_tokens:
            break
        chosen.append(fact)
        total += tokens
    return chosen


def pinned(facts: Sequence[Fact], *, max_tokens: int, count: Callable[[str], int]) -> list[Fact]:
    """The facts that are always shown: the most important, then the newest, as long as their lines fit.

    A fact that doesn't fit is passed over for the next, sixteen times in a row at most. They are shown in the order in
    which they were said; those of one message, in the order of their lines, so that the same conversation gives the
    same bytes.
    """
    chosen: list[Fact] = []
    lines: set[str] = set()
    total = misses = 0
    for fact in sorted(facts, key=lambda fact: (-fact.importance, -fact.valid_from.timestamp(), fact.line)):
        line = folded(fact.line)
        if line in lines:
            continue
        tokens = count(fact.line + "\n")
        if total + tokens > max_tokens:
            misses += 1
            if misses == _MOST_MISSES:  # counting them all was half of what an adoption cost
                break
            continue
        misses = 0
        lines.add(line)
        chosen.append(fact)
        total += tokens
    return sorted(chosen, key=lambda fact: (fact.valid_from, fact.line))
