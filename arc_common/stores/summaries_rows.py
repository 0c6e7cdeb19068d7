"""Segments, facts and views as rows and back, without losing anything. Pure.

Their texts are written as reversible JSON: a database refuses NUL and lone surrogates, and a model may say anything.
"""

import hashlib
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from arc_common.facts import Fact, FactCategory
from arc_common.protocols.summaries import Maker, Segment, SegmentOutline, View
from arc_common.serialization import dumps, loads
from arc_common.stores.conversations_rows import from_microseconds, to_microseconds
from arc_common.stores.summaries_plan import UNGROUNDED

__all__ = [
    "EMPTY_SEGMENT",
    "FACT_COLUMNS",
    "OUTLINE_COLUMNS",
    "SEGMENT_COLUMNS",
    "fact_from_row",
    "fact_row",
    "folded",
    "folded_key",
    "may_concern",
    "outline_from_row",
    "segment_from_row",
    "segment_row",
    "view_from_text",
    "view_text",
]

SEGMENT_COLUMNS = (
    "level", "start_seq", "end_seq", "narrative", "tokens", "made_by", "sources", "parts", "created_at",
)  # fmt: skip
"""The columns that `segment_from_row` reads, in its order."""

OUTLINE_COLUMNS = ("level", "start_seq", "end_seq", "tokens", "made_by", "parts", "covered", "created_at")
"""The columns that `outline_from_row` reads, in its order."""

FACT_COLUMNS = (
    "fact_id", "key", "value", "category", "sources", "importance", "segment", "made_by", "valid_from",
    "superseded_by", "removed_by",
)  # fmt: skip
"""The columns that `fact_from_row` reads, in its order."""

_VALUE, _MADE_BY = FACT_COLUMNS.index("value"), FACT_COLUMNS.index("made_by")

EMPTY_SEGMENT = {"narrative": '""', "tokens": 0, "made_by": "", "sources": "[]"}
"""What the row of a leaf that has to be written again holds; it has no time."""

_MAKERS: dict[str, Maker | None] = {"": None, "model": "model", "rules": "rules"}


def segment_row(segment: Segment, *, now: datetime) -> dict[str, Any]:
    """The columns of a segment; without a time of its own, it was written now."""
    return {
        "level": segment.level,
        "start_seq": segment.start,
        "end_seq": segment.end,
        "narrative": dumps(segment.narrative, field="segment.narrative"),
        "tokens": segment.tokens,
        "made_by": segment.made_by or "",
        "sources": dumps([list(source) for source in segment.sources], field="segment.sources"),
        "parts": segment.parts,
        "created_at": to_microseconds(segment.created_at or now),
    }


def segment_from_row(row: Sequence[Any]) -> Segment:
    """Read a row of `SEGMENT_COLUMNS`."""
    level, start, end, narrative, tokens, made_by, sources, parts, created_at = row
    return Segment(
        level=level,
        start=start,
        end=end,
        narrative=loads(narrative),
        tokens=tokens,
        made_by=_MAKERS[made_by],
        sources=tuple(map(tuple, loads(sources))),
        parts=parts,
        created_at=None if created_at is None else from_microseconds(created_at),
    )


def outline_from_row(row: Sequence[Any]) -> SegmentOutline:
    """Read a row of `OUTLINE_COLUMNS`."""
    level, start, end, tokens, made_by, parts, covered, created_at = row
    written = None if created_at is None else from_microseconds(created_at)
    return SegmentOutline(level, start, end, tokens, _MAKERS[made_by], parts, bool(covered), written)


def fact_row(fact: Fact, *, now: datetime) -> dict[str, Any]:
    """The columns of a fact. One that comes removed was removed by its own leaf."""
    removed_by = fact.segment if fact.removed else None
    return {
        "fact_id": fact.id,
        "key": dumps(fact.key, field="fact.key"),
        "folded": folded_key(fact.key),
        "value": dumps(fact.value, field="fact.value"),
        "category": fact.category.value,
        "sources": dumps(list(fact.sources), field="fact.sources"),
        "importance": float(fact.importance),
        "segment": fact.segment,
        "made_by": fact.made_by,
        "valid_from": to_microseconds(fact.valid_from),
        "superseded_by": fact.superseded_by,
        "removed_by": removed_by if fact.grounded else UNGROUNDED,
        "created_at": to_microseconds(now),
    }


def fact_from_row(row: Sequence[Any]) -> Fact:
    """Read a row of `FACT_COLUMNS`."""
    fact_id, key, value, category, sources, importance, segment, made_by, valid_from, superseded_by, removed_by = row
    return Fact(
        id=fact_id,
        key=loads(key),
        value=loads(value),
        category=FactCategory(category),
        sources=tuple(loads(sources)),
        importance=importance,
        segment=segment,
        made_by=made_by,
        valid_from=from_microseconds(valid_from),
        superseded_by=superseded_by,
        removed=removed_by not in (None, UNGROUNDED),
        grounded=removed_by != UNGROUNDED,
    )


def folded(text: str) -> str:
    """A key or value as it is compared: case and space folded."""
    return " ".join(text.casefold().split())


def folded_key(key: str) -> str:
    """A name for all keys that are equal after folding case and space: short and storable, whatever the key."""
    return hashlib.blake2b(folded(key).encode(errors="surrogatepass"), digest_size=16).hexdigest()


def may_concern(row: Sequence[Any], said: Collection[str]) -> bool:
    """Whether a row of `FACT_COLUMNS` is a model's fact, or says one of these folded values."""
    return row[_MADE_BY] != "rules" or folded(loads(row[_VALUE])) in said


def view_text(view: View) -> str:
    """A view as JSON."""
    return dumps(
        {
            "version": view.version,
            "boundary": view.boundary,
            "covered": view.covered,
            "facts": list(view.facts),
            "fact_ids": list(view.fact_ids),
            "narrative": view.narrative,
            "instructions": list(view.instructions),
            "correction": view.correction,
            "adopted_at": to_microseconds(view.adopted_at),
            "stale": view.stale,
            "unshown": view.unshown,
            "unshown_tokens": view.unshown_tokens,
        },
        field="view",
    )


def view_from_text(text: str | None) -> View | None:
    """Read what `view_text` wrote."""
    if text is None:
        return None
    fields: dict[str, Any] = loads(text)
    for name in ("facts", "fact_ids", "instructions"):
        fields[name] = tuple(fields[name])
    return View(**{**fields, "adopted_at": from_microseconds(fields["adopted_at"])})
