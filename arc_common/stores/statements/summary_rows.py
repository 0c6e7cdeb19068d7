"""Segments, facts and views as rows and back. Pure."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from arc_common.caches import cached_text
from arc_common.facts import Fact, FactCategory
from arc_common.protocols.summaries import Maker, Segment, View
from arc_common.stores.codec import from_body, from_microseconds, to_body, to_microseconds
from arc_common.trust import Trust

SEGMENT_COLUMNS = (
    "level", "start_seq", "end_seq", "narrative", "tokens", "made_by", "sources", "parts", "created_at",
    "covered",
)  # fmt: skip
"""The columns that `segment_from_row` reads, in its order."""

FACT_COLUMNS = (
    "fact_id", "body", "category", "sources", "importance", "leaf_start", "made_by", "valid_from", "status",
    "place",
)  # fmt: skip
"""The columns that `fact_from_row` reads, in its order; after them comes the id of the fact's successor."""

_BODY, _MADE_BY = FACT_COLUMNS.index("body"), FACT_COLUMNS.index("made_by")

UNGROUNDED = "ungrounded"
"""The status of a fact that its sources don't state."""

EMPTY_SEGMENT = {"narrative": '""', "tokens": 0, "made_by": "", "sources": "[]"}
"""The columns of a leaf that must be written again; it has no time."""

_MAKERS: dict[str, Maker | None] = {"": None, "model": "model", "rules": "rules"}


def segment_row(segment: Segment, *, now: datetime) -> dict[str, Any]:
    """Return the columns of a segment, with `now` as its time if it has none."""
    return {
        "level": segment.level,
        "start_seq": segment.start,
        "end_seq": segment.end,
        "narrative": to_body(segment.narrative, field="segment.narrative"),
        "tokens": segment.tokens,
        "made_by": segment.made_by or "",
        "sources": to_body([list(source) for source in segment.sources], field="segment.sources"),
        "parts": segment.parts,
        "point_seq": segment.end,
        "created_at": to_microseconds(segment.created_at or now),
        "covered": 0,
    }


def segment_from_row(row: Sequence[Any]) -> Segment:
    """Read a row of `SEGMENT_COLUMNS`."""
    level, start, end, narrative, tokens, made_by, sources, parts, created_at, covered = row
    return Segment(
        level=level,
        start=start,
        end=end,
        narrative=from_body(narrative),
        tokens=tokens,
        made_by=_MAKERS[made_by],
        sources=tuple(map(tuple, from_body(sources))),
        parts=parts,
        created_at=None if created_at is None else from_microseconds(created_at),
        covered=bool(covered),
    )


LEAF_COLUMNS = ("branch", "leaf_seq", "leaf_start", "point_seq")
"""The columns of a fact that say which leaf it was read from, and where that is shown."""


@dataclass(frozen=True, slots=True)
class FactRow:
    """A fact in its slot, or a tombstone, which ends a slot's facts of earlier leaves or of its own."""

    slot: str
    fact: Fact | None = None
    heir: str | None = None
    ends_own: bool = False
    leaf: Mapping[str, int] = field(default_factory=dict)
    folded_key: str = ""

    @property
    def ends(self) -> str:
        """The slot or, for a model's fact, the key whose earlier facts it ends."""
        fact = self.fact
        return self.folded_key if fact and fact.made_by == "model" and fact.grounded else self.slot


def slot_of(fact: Fact, hash_key: bytes = b"") -> str:
    """Return the slot of a fact, which is the same for all that say the same, in whichever leaf or branch."""
    parts = folded(fact.slot), folded(fact.value), fact.user
    return _digest("".join(f"{len(part)} {part}" for part in parts) if fact.grounded else fact.id, hash_key)


def fact_row(row: FactRow, number: int, leaf: Segment) -> dict[str, Any]:
    """Return the columns of a leaf's fact, or of a tombstone: its place is below 0 if it ends only earlier leaves."""
    at = {"leaf_seq": leaf.end, "leaf_start": leaf.start, "point_seq": leaf.end, "slot": row.slot, "ends": row.ends}
    fact = row.fact
    if fact is None:
        place = _MOST_FACTS + (int(row.slot[:16], 16) >> 2)
        return {**at, **_TOMBSTONE, "heir": row.heir, "place": place if row.ends_own else -place}
    return {
        **at,
        "place": number,
        "tombstone": 0,
        "heir": None,
        "fact_id": fact.id,
        "folded_key": row.folded_key,
        "category": fact.category.value,
        "status": "" if fact.grounded else UNGROUNDED,
        "importance": float(fact.importance),
        "sources": to_body(list(fact.sources), field="fact.sources"),
        "valid_from": to_microseconds(fact.valid_from),
        "made_by": fact.made_by,
        "body": to_body([fact.key, fact.value, fact.said_by, fact.trust.value], field="fact"),
    }


_MOST_FACTS = 2**32


_TOMBSTONE = {
    "tombstone": 1, "fact_id": None, "folded_key": "", "category": "", "status": "", "importance": 0.0,
    "sources": "[]", "valid_from": 0, "made_by": "", "body": "",
}  # fmt: skip


def fact_from_row(row: Sequence[Any]) -> Fact:
    """Read a row of `FACT_COLUMNS` and the id of the fact's successor ("" if it ended without one)."""
    fact_id, body, category, sources, importance, leaf_start, made_by, valid_from, status, place, heir = row
    key, value, said_by, trust = from_body(body)
    return Fact(
        id=fact_id,
        key=key,
        value=value,
        category=FactCategory(category),
        sources=tuple(from_body(sources)),
        importance=importance,
        segment=leaf_start,
        made_by=made_by,
        valid_from=from_microseconds(valid_from),
        said_by=said_by,
        superseded_by=heir or None,
        removed=heir == "",
        grounded=status != UNGROUNDED,
        trust=Trust(trust),
        place=place,
    )


def folded(text: str) -> str:
    """Fold case and whitespace of a key or value for comparison."""
    return " ".join(text.casefold().split())


def folded_key(key: str, hash_key: bytes = b"") -> str:
    """Return a short, storable name shared by all keys that are equal after folding case and whitespace."""
    return _digest(folded(key), hash_key)


def _digest(text: str, hash_key: bytes) -> str:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16, key=hash_key).hexdigest()


def may_concern(row: Sequence[Any], said: Collection[str]) -> bool:
    """Return whether a row of `FACT_COLUMNS` is a model's fact or has one of these folded values."""
    return row[_MADE_BY] != "rules" or folded(from_body(row[_BODY])[1]) in said


def view_text(view: View) -> str:
    """Return a view as JSON."""
    return to_body({one.name: getattr(view, one.name) for one in fields(view)}, field="view")


@cached_text(256)  # each turn reads the view that it adopted turns ago
def view_from_text(text: str) -> View:
    """Read the view that `view_text` wrote."""
    return View(**from_body(text))
