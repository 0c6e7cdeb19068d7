"""The receipt of a turn: what each section of the request costs, and what was left out."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import accumulate, pairwise
from typing import Any, overload

from arc_common.messages import Message

NEAREST = 20
"""How many of the things left out a receipt names one by one."""


@dataclass(frozen=True, slots=True)
class Item:
    """One thing in a request.

    Args:
        kind: "message", "fact", "summary", "memory", "artifact", "recalled", "document", "tool", "schema", "note" or
            "reserved".
        text: Its text; `""` for a tool or a schema.
        id: Its id, if it has one.
        tokens: Its share of the section's tokens, headings and framing included.
        score_parts: The scores that it was chosen by.
        day: The day on which a recalled line was said.
    """

    kind: str
    text: str
    id: str | None = None
    tokens: int | None = None
    score_parts: Mapping[str, float] = field(default_factory=dict)
    day: date | None = None


class MessageItems(Sequence[Item]):
    """Messages as items, made when somebody looks: of the hundreds that a request may have, few are looked at.

    Equal to a tuple of the same items; the same items each time.

    Args:
        messages: The messages.
        tokens: What each costs.
    """

    __slots__ = ("_items", "_messages", "_tokens")

    def __init__(self, messages: Sequence[Message], tokens: Sequence[int]) -> None:
        self._messages, self._tokens = messages, tokens
        self._items: tuple[Item, ...] | None = None

    def _made(self) -> tuple[Item, ...]:
        if self._items is None:
            pairs = zip(self._messages, self._tokens, strict=True)
            self._items = tuple(Item("message", message.text, message.id, tokens) for message, tokens in pairs)
        return self._items

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Item, ...]: ...
    def __getitem__(self, index: int | slice) -> Item | tuple[Item, ...]:
        return self._made()[index]

    def __eq__(self, other: object) -> bool:
        return self._made() == (other._made() if isinstance(other, MessageItems) else other)

    __hash__ = None  # type: ignore[assignment]  # as items, which hold a mapping

    def __repr__(self) -> str:
        return repr(self._made())


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the request: its tokens (framing included), its limit, and its items.

    The items' tokens add up to the section's, and the sections' tokens to the request's. The 3 tokens that prime the
    model's reply belong to the user message. The limits of facts and summary apply to their lines, not their headings.
    """

    name: str
    tokens: int
    limit: int
    items: Sequence[Item] = ()


def with_parts_of(tokens: int, items: Sequence[Item]) -> tuple[Item, ...]:
    """Share a section's tokens among its items, in proportion to their own tokens or else to their texts' lengths."""
    weights = [max(len(item.text) if item.tokens is None else item.tokens, 1) for item in items]
    ends = [tokens * sum_ // max(sum(weights), 1) for sum_ in accumulate(weights, initial=0)]
    return tuple(replace(item, tokens=end - start) for item, (start, end) in zip(items, pairwise(ends), strict=True))


@dataclass(frozen=True, slots=True)
class Omission:
    """One thing that was left out, or shortened.

    Args:
        kind: As an `Item`'s.
        id: What names it.
        tokens: What is not shown of it, in tokens.
        reason: Why.
        score_parts: What it was judged by.
    """

    kind: str
    id: str | None
    tokens: int
    reason: str
    score_parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """How many things were left out for one reason, and their tokens together."""

    count: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a request was made of, and what it was not.

    Args:
        kept: The ids of the messages and documents in it, in its order.
        nearest: Some of the things left out (20, unless a setting says otherwise), those that came closest first.
        rest: All other things left out, by reason.
        notes: What went wrong on the way without stopping it.
        sections: What each part costs.
        total_tokens: The request's tokens.
        input_tokens: The limit for them.
        error_reserve: The part of the limit that was kept free because the counter estimates.
    """

    kept: tuple[str, ...]
    nearest: tuple[Omission, ...] = ()
    rest: Mapping[str, LeftOut] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    total_tokens: int = 0
    input_tokens: int = 0
    error_reserve: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Its JSON form: ids, tokens, reasons and scores, but nothing of what anybody said."""
        return {
            "total_tokens": self.total_tokens,
            "input_tokens": self.input_tokens,
            "error_reserve": self.error_reserve,
            "sections": [_section(section) for section in self.sections],
            "kept": list(self.kept),
            "nearest": [_omission(omission) for omission in self.nearest],
            "rest": {reason: {"count": left.count, "tokens": left.tokens} for reason, left in self.rest.items()},
            "notes": list(self.notes),
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """`to_dict` as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)

    def sse_lines(self) -> list[str]:
        """It as comment lines for an event stream, without line ends; clients ignore them.

        `: MEMORY_DEBUG …` is about the conversation and the request as a whole, `: RAG_DEBUG …` about documents,
        `: SEARCH_DEBUG …` about what was recalled; each with one JSON object on the line (WHATWG HTML, 9.2.6: a line
        that begins with a colon is a comment).
        """
        topics = {"MEMORY_DEBUG": self.to_dict()}
        for topic, section, kinds in (
            ("RAG_DEBUG", "documents", ("document",)),
            ("SEARCH_DEBUG", "recalled", ("fact", "memory", "artifact", "recalled")),
        ):
            topics[topic] = {
                "sections": [_section(found) for found in self.sections if found.name == section],
                "nearest": [_omission(omission) for omission in self.nearest if omission.kind in kinds],
            }
        return [f": {topic} {json.dumps(content)}" for topic, content in topics.items()]


def receipt_of(
    kept: Sequence[str],
    omissions: Sequence[Omission],
    *,
    rest: Mapping[str, LeftOut] | None = None,
    notes: Sequence[str] = (),
    nearest: int = NEAREST,
    sections: tuple[Section, ...] = (),
    total_tokens: int = 0,
    input_tokens: int = 0,
    error_reserve: int = 0,
) -> Receipt:
    """The receipt: the nearest omissions one by one, the others summed up by reason.

    Args:
        kept: What is in the request, in its order.
        omissions: What is not, the nearest first.
        rest: Further things left out that nobody looked at, by reason.
        notes: What went wrong on the way.
        nearest: How many omissions are named one by one.
        sections: What each part costs.
        total_tokens: The request's tokens.
        input_tokens: The limit for them.
        error_reserve: The part of the limit that was kept free.
    """
    counts: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    for omission in omissions[nearest:]:
        counts[omission.reason] += 1
        tokens[omission.reason] += omission.tokens
    for reason, left in (rest or {}).items():
        counts[reason] += left.count
        tokens[reason] += left.tokens
    return Receipt(
        kept=tuple(kept),
        nearest=tuple(omissions[:nearest]),
        rest={reason: LeftOut(counts[reason], tokens[reason]) for reason in sorted(counts) if counts[reason]},
        notes=tuple(notes),
        sections=sections,
        total_tokens=total_tokens,
        input_tokens=input_tokens,
        error_reserve=error_reserve,
    )


def _section(section: Section) -> dict[str, Any]:
    items = [
        {"kind": item.kind, "id": item.id, "tokens": item.tokens, "score_parts": dict(item.score_parts)}
        for item in section.items
    ]
    return {"name": section.name, "tokens": section.tokens, "limit": section.limit, "items": items}


def _omission(omission: Omission) -> dict[str, Any]:
    return {
        "kind": omission.kind,
        "id": omission.id,
        "tokens": omission.tokens,
        "reason": omission.reason,
        "score_parts": dict(omission.score_parts),
    }
