"""What storing a segment and changing a message mean for summaries and facts, decided without a database. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from arc_common.exceptions import InvalidInputError
from arc_common.facts import Fact
from arc_common.messages import check_identifier
from arc_common.protocols import StoredMessage
from arc_common.protocols.summaries import Commit, Segment, View
from arc_common.stores.codec import row_key
from arc_common.stores.validation import checked_limit

_RANK = {None: 0, "rules": 1, "model": 2}
_LONGEST_LEASE = 86_400.0


@dataclass(frozen=True, slots=True)
class Changed:
    """Messages that were edited or removed."""

    places: tuple[int, ...]
    message_ids: tuple[str, ...]
    removed: bool


def edited(revised: Sequence[StoredMessage]) -> Changed:
    """New revisions as a change."""
    return Changed(
        tuple(stored.seq for stored in revised), tuple(stored.message.id or "" for stored in revised), removed=False
    )


@dataclass(frozen=True, slots=True)
class KnownFact:
    """A fact of an earlier leaf that a new leaf may end."""

    slots: tuple[bytes, ...]
    leaf_start: int
    holds: bool


@dataclass(frozen=True, slots=True)
class FactRow:
    """A fact in its slot, or a tombstone: what the slot held has ended."""

    slot: bytes
    fact: Fact | None = None
    heir: str | None = None


def fact_rows(commit: Commit, known: Mapping[str, KnownFact]) -> list[FactRow]:
    """The rows of a leaf, in order."""
    start = commit.segment.start
    own = {fact.id: place for place, fact in enumerate(commit.facts)}
    ended: dict[str, list[bytes]] = {}
    tombstones: list[FactRow] = []
    for fact_id, heir in (*commit.superseded.items(), *((fact_id, None) for fact_id in commit.removed)):
        before = known.get(fact_id)
        if before is None or not before.holds or before.leaf_start >= start:
            continue
        if heir is None and fact_id in commit.superseded:
            continue
        if heir in own:
            ended.setdefault(heir or "", []).extend(before.slots)
        else:
            tombstones += [FactRow(slot, heir=heir) for slot in before.slots]
    rows: list[FactRow] = []
    for place, fact in enumerate(commit.facts):
        slots = ended.get(fact.id, [])
        taker = known.get(fact.superseded_by or "")
        if taker is not None and taker.leaf_start > start:
            slots = [taker.slots[0], *(slot for slot in slots if slot != taker.slots[0])]
        slots = slots or [row_key(fact.id)]
        rows.append(FactRow(slots[0], fact))
        rows += [FactRow(slot, heir=fact.id) for slot in slots[1:]]
        if fact.removed:
            rows += [FactRow(slot) for slot in slots]
        elif own.get(fact.superseded_by or "", -1) > place:
            ended.setdefault(fact.superseded_by or "", []).extend(slots)
        elif fact.superseded_by is not None and (taker is None or taker.leaf_start <= start):
            rows += [FactRow(slot, heir=fact.superseded_by) for slot in slots]
    return [*rows, *tombstones]


@dataclass(frozen=True, slots=True)
class Touched:
    """What rests on some messages."""

    places: tuple[int, ...]
    leaves: tuple[int, ...]
    higher: tuple[tuple[int, int, int], ...]
    fact_ids: tuple[str, ...]
    view: View | None


def may_store(new: Segment, overlapping: Iterable[Segment]) -> bool:
    """Whether a segment may take its place among those of its level."""
    for old in overlapping:
        if old.start != new.start or old.end > new.end or _RANK[new.made_by] < _RANK[old.made_by]:
            return False
        if old.end < new.end and new.level < 2:
            return False
        if old.end == new.end and _RANK[new.made_by] == _RANK[old.made_by]:
            return False
    return True


def rests_on(view: View, *, places: Iterable[int], fact_ids: Iterable[str]) -> bool:
    """Whether what a view shows was made from one of these messages or leaves, or is one of these facts."""
    return any(place <= view.boundary for place in places) or not set(fact_ids).isdisjoint(view.fact_ids)


def without_text(view: View, changed: Changed) -> View:
    """The view when a text behind it has changed: the boundary stays, what was said is gone."""
    gone = sum(place <= view.boundary for place in changed.places) if changed.removed else 0
    return replace(
        view,
        facts=(),
        fact_ids=(),
        narrative="",
        instructions=(),
        covered=max(0, view.covered - gone),
        stale=True,
        unshown=0,
        unshown_tokens=0,
    )


def checked_commit(commit: Commit) -> None:
    """Refuse what is not a finished segment with facts of its own."""
    segment = commit.segment
    for name, number, least in (
        ("level", segment.level, 0),
        ("start", segment.start, 1),
        ("end", segment.end, segment.start),
        ("tokens", segment.tokens, 0),
        ("parts", segment.parts, 0),
    ):
        if number is None:
            raise InvalidInputError(f"segment.{name}", None, "a whole number")
        checked_limit(f"segment.{name}", number, least=least)
    if segment.made_by not in ("model", "rules"):
        raise InvalidInputError("segment.made_by", segment.made_by, "'model' or 'rules'")
    if segment.created_at is not None and segment.created_at.tzinfo is None:
        raise InvalidInputError("segment.created_at", segment.created_at, "a time with zone")
    if segment.level and (commit.facts or commit.superseded or commit.removed):
        raise InvalidInputError("facts", commit.facts, "none with a block or era: facts are read from leaves")
    if len({fact.id for fact in commit.facts}) < len(commit.facts):
        raise InvalidInputError("facts", commit.facts, "facts with different ids")
    for fact in commit.facts:
        _checked_fact(fact, segment)
    for fact_id in (*commit.superseded, *commit.superseded.values(), *commit.removed):
        check_identifier("fact.id", fact_id)


def _checked_fact(fact: Fact, leaf: Segment) -> None:
    check_identifier("fact.id", fact.id)
    for source in fact.sources:
        check_identifier("fact.sources", source)
    if fact.superseded_by is not None:
        check_identifier("fact.superseded_by", fact.superseded_by)
    if fact.segment != leaf.start:
        raise InvalidInputError("fact.segment", fact.segment, f"{leaf.start}, where its leaf begins")
    if not 0.0 <= fact.importance <= 1.0:
        raise InvalidInputError("fact.importance", fact.importance, "a number from 0 to 1")
    if fact.made_by not in ("model", "rules"):
        raise InvalidInputError("fact.made_by", fact.made_by, "'model' or 'rules'")
    if fact.removed and not fact.grounded:
        raise InvalidInputError("fact.removed", fact.removed, "False for a fact that is not grounded: it never held")
    if fact.valid_from.tzinfo is None:
        raise InvalidInputError("fact.valid_from", fact.valid_from, "a time with zone")


def checked_fact_ids(ids: Sequence[str]) -> list[str]:
    """The ids as a list, if each could be a fact's."""
    if isinstance(ids, str):
        raise InvalidInputError("ids", ids, "a sequence of ids")
    return [check_identifier("fact.id", fact_id) for fact_id in ids]


def checked_view(view: View) -> None:
    """Refuse a view that could not have been adopted."""
    checked_limit("view.version", view.version, least=1)
    checked_limit("view.boundary", view.boundary)
    checked_limit("view.covered", view.covered)
    checked_limit("view.unshown", view.unshown)
    checked_limit("view.unshown_tokens", view.unshown_tokens)
    if view.adopted_at.tzinfo is None:
        raise InvalidInputError("view.adopted_at", view.adopted_at, "a time with zone")


def checked_lease(owner: str, seconds: float) -> None:
    """Refuse an owner without a name and a lease of no length."""
    check_identifier("owner", owner)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= _LONGEST_LEASE:
        raise InvalidInputError("seconds", seconds, f"a number of seconds above 0, at most {_LONGEST_LEASE:,.0f}")


def epoch_of(incarnation: int, edits: int) -> int:
    """A session's epoch: other for each edit, and for a session of the same name that was made anew."""
    return (incarnation << 32) + edits
