"""Decides how stored segments and changed messages affect summaries and facts. Pure."""

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
    """Return new revisions as a change."""
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
    """A fact in its slot, or a tombstone, which ends the slot's previous fact."""

    slot: bytes
    fact: Fact | None = None
    heir: str | None = None


def fact_rows(commit: Commit, known: Mapping[str, KnownFact]) -> list[FactRow]:
    """Return the fact rows of a leaf, in order."""
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
    """The results derived from some messages."""

    places: tuple[int, ...]
    leaves: tuple[int, ...]
    higher: tuple[tuple[int, int, int], ...]
    fact_ids: tuple[str, ...]
    view: View | None


def may_store(new: Segment, overlapping: Iterable[Segment]) -> bool:
    """Return whether a segment may be stored beside the overlapping ones of its level."""
    for old in overlapping:
        if old.start != new.start or old.end > new.end or _RANK[new.made_by] < _RANK[old.made_by]:
            return False
        if old.end < new.end and new.level < 2:
            return False
        if old.end == new.end and _RANK[new.made_by] == _RANK[old.made_by]:
            return False
    return True


def rests_on(view: View, *, places: Iterable[int], fact_ids: Iterable[str]) -> bool:
    """Return whether a view shows one of these facts or content from one of these messages or leaves."""
    return any(place <= view.boundary for place in places) or not set(fact_ids).isdisjoint(view.fact_ids)


def without_text(view: View, changed: Changed) -> View:
    """Return the view as stale, without its texts but with its boundary, after a source has changed."""
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
    """Refuse anything other than a finished segment with its own facts."""
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
    """Return the ids as a list if each is a valid fact id."""
    if isinstance(ids, str):
        raise InvalidInputError("ids", ids, "a sequence of ids")
    return [check_identifier("fact.id", fact_id) for fact_id in ids]


def checked_view(view: View) -> None:
    """Refuse an invalid view."""
    checked_limit("view.version", view.version, least=1)
    checked_limit("view.boundary", view.boundary)
    checked_limit("view.covered", view.covered)
    checked_limit("view.unshown", view.unshown)
    checked_limit("view.unshown_tokens", view.unshown_tokens)
    if view.adopted_at.tzinfo is None:
        raise InvalidInputError("view.adopted_at", view.adopted_at, "a time with zone")


def checked_lease(owner: str, seconds: float) -> None:
    """Refuse an invalid owner or duration of a lease."""
    check_identifier("owner", owner)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= _LONGEST_LEASE:
        raise InvalidInputError("seconds", seconds, f"a number of seconds above 0, at most {_LONGEST_LEASE:,.0f}")


def epoch_of(incarnation: int, edits: int) -> int:
    """Return a session's epoch, which differs after each edit and for a new session with the same id."""
    return (incarnation << 32) + edits
