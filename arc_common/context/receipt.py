"""The context window of a turn and its receipt: the tokens of each section, and the omissions."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, overload

from arc_common.messages import Message
from arc_common.trust import Trust

if TYPE_CHECKING:
    from rich.console import RenderableType


NEAREST = 20
"""The number of omissions that a receipt lists one by one by default."""


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a request.

    Args:
        kind: "message", "pin", "fact", "summary", "memory", "artifact", "recalled", "document", "tool", "schema",
            "note" or "reserved".
        text: The item's text; `""` for a tool or a schema.
        id: The item's id, if it has one.
        tokens: The item's share of the section's tokens, including headings and framing.
        score_parts: The scores by which the item was chosen.
        day: The day on which a recalled line was said.
        trust: The trust in the text; `None` for a message, and for an item without text of its own.
        source: The origin of an untrusted text.
    """

    kind: str
    text: str
    id: str | None = None
    tokens: int | None = None
    score_parts: Mapping[str, float] = field(default_factory=dict)
    day: date | None = None
    trust: Trust | None = None
    source: str = ""


class LazyItems(Sequence[Item]):
    """Items that are made when they are first read: a request may have hundreds, and few receipts are inspected."""

    __slots__ = ("_items", "_make", "holds_untrusted")

    def __init__(self, make: Callable[[], Sequence[Item]], *, holds_untrusted: bool = False) -> None:
        self._make: Callable[[], Sequence[Item]] | None = make
        self._items: Sequence[Item] = ()
        self.holds_untrusted = holds_untrusted

    def _made(self) -> Sequence[Item]:
        make = self._make
        if make is not None:
            self._items = tuple(make())  # two threads may both make them
            self._make = None
        return self._items

    def __len__(self) -> int:
        return len(self._made())

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        return self._made()[index]

    def __eq__(self, other: object) -> bool:
        return self._made() == (other._made() if isinstance(other, LazyItems) else other)

    __hash__ = None  # type: ignore[assignment]  # as items, which hold a mapping

    def __repr__(self) -> str:
        return repr(self._made())

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self._made(),)


def message_items(messages: Sequence[Message], tokens: Sequence[int]) -> LazyItems:
    """Return messages as items."""
    return LazyItems(
        lambda: [Item("message", one.text, one.id, cost) for one, cost in zip(messages, tokens, strict=True)]
    )


def holds_untrusted(items: Sequence[Item]) -> bool:
    """Return whether any of a section's items is untrusted."""
    return items.holds_untrusted if isinstance(items, LazyItems) else any(one.trust is Trust.UNTRUSTED for one in items)


@dataclass(frozen=True, slots=True)
class Section:
    """One section of the request: its tokens (including framing), its limit in tokens, and its items.

    The items' tokens add up to the section's, and the sections' tokens to the request's. The 3 tokens that prime the
    model's reply belong to the user message. The limits of facts and summary apply to their lines, not their headings.
    """

    name: str
    tokens: int
    limit: int
    items: Sequence[Item] = ()


def with_parts_of(tokens: int, items: Sequence[Item]) -> tuple[Item, ...]:
    """Divide a section's tokens among its items, in proportion to their own tokens or their texts' lengths."""
    weights = [max(len(item.text) if item.tokens is None else item.tokens, 1) for item in items]
    whole = max(sum(weights), 1)
    ends = [tokens * sum_ // whole for sum_ in accumulate(weights, initial=0)]
    return tuple([replace(item, tokens=end - start) for item, (start, end) in zip(items, pairwise(ends), strict=True)])


def shared_out(tokens: int, make: Callable[[], Sequence[Item]], *, holds_untrusted: bool = False) -> LazyItems:
    """Return items that are made when they are first read, and then share a section's tokens as by `with_parts_of`."""
    return LazyItems(lambda: with_parts_of(tokens, make()), holds_untrusted=holds_untrusted)


@dataclass(frozen=True, slots=True)
class Omission:
    """One item that was omitted or shortened.

    Args:
        kind: The item's kind, as in `Item`.
        id: The item's id, if it has one.
        tokens: The tokens that are not shown.
        reason: Why it was omitted or shortened.
        score_parts: The scores by which it was ranked.
        carrier: The item that says the same, by kind and id ("fact f1").
    """

    kind: str
    id: str | None
    tokens: int
    reason: str
    score_parts: Mapping[str, float] = field(default_factory=dict)
    carrier: str = ""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The number of items omitted for one reason, and their total tokens."""

    count: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """The account of a request: its contents, the tokens of each part, and the omissions.

    Args:
        kept: The ids of the items in the request, in the request's order.
        nearest: The omissions that came closest to being shown, closest first (`settings.context.receipt_misses`, 20).
        rest: All other omissions, summed up by reason.
        notes: Problems that did not stop the turn.
        sections: The request's sections with their tokens and items.
        total_tokens: The request's tokens.
        input_tokens: The limit of `total_tokens`, including `error_reserve`.
        error_reserve: The tokens of the limit that were kept free because the counter estimates.
    """

    kept: tuple[str, ...]
    nearest: tuple[Omission, ...] = ()
    rest: Mapping[str, LeftOut] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    total_tokens: int = 0
    input_tokens: int = 0
    error_reserve: int = 0

    def to_dict(self, *, texts: bool = False) -> dict[str, Any]:
        """Return the receipt as JSON values: ids, tokens, reasons and scores, but no message text.

        With `texts`, items other than messages with an id have their texts, days and sources.
        """
        return {
            "total_tokens": self.total_tokens,
            "input_tokens": self.input_tokens,
            "error_reserve": self.error_reserve,
            "sections": [_section(section, texts=texts) for section in self.sections],
            "kept": list(self.kept),
            "nearest": [_omission(omission) for omission in self.nearest],
            "rest": {reason: {"count": left.count, "tokens": left.tokens} for reason, left in self.rest.items()},
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, texts: Mapping[str, str] | None = None) -> "Receipt":
        """Return the receipt that `to_dict` returned; `texts` are those of messages, by id."""
        known = texts or {}
        return cls(
            kept=tuple(values["kept"]),
            nearest=tuple(Omission(**one) for one in values["nearest"]),
            rest={reason: LeftOut(**left) for reason, left in values["rest"].items()},
            notes=tuple(values["notes"]),
            sections=tuple(
                Section(one["name"], one["tokens"], one["limit"], tuple(_item(item, known) for item in one["items"]))
                for one in values["sections"]
            ),
            total_tokens=values["total_tokens"],
            input_tokens=values["input_tokens"],
            error_reserve=values["error_reserve"],
        )

    def to_json(self) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def sse_lines(self) -> list[str]:
        """Return the receipt as comment lines for an event stream, without line ends; clients ignore them.

        `: MEMORY_DEBUG …` describes the whole request, `: RAG_DEBUG …` the documents, and `: SEARCH_DEBUG …` the
        recalled items. Each line holds one JSON object (WHATWG HTML, 9.2.6: a line that begins with a colon is a
        comment).
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
    """Return a receipt that lists the nearest omissions one by one and sums up the others, and `rest`, by reason."""
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


def _item(values: Mapping[str, Any], texts: Mapping[str, str]) -> Item:
    return Item(
        values["kind"],
        values.get("text", texts.get(values["id"] or "", "")),
        values["id"],
        values["tokens"],
        values["score_parts"],
        date.fromisoformat(values["day"]) if values.get("day") else None,
        Trust(values["trust"]) if values.get("trust") else None,
        values.get("source", ""),
    )


def _section(section: Section, *, texts: bool = False) -> dict[str, Any]:
    items = [
        {
            "kind": item.kind,
            "id": item.id,
            "tokens": item.tokens,
            "score_parts": dict(item.score_parts),
            **({"trust": item.trust.value} if item.trust else {}),
            **(_said(item) if texts and not (item.kind == "message" and item.id) else {}),
        }
        for item in section.items
    ]
    return {"name": section.name, "tokens": section.tokens, "limit": section.limit, "items": items}


def _said(item: Item) -> dict[str, Any]:
    return {"text": item.text, "day": item.day.isoformat() if item.day else None, "source": item.source}


def _omission(omission: Omission) -> dict[str, Any]:
    return {
        "kind": omission.kind,
        "id": omission.id,
        "tokens": omission.tokens,
        "reason": omission.reason,
        "score_parts": dict(omission.score_parts),
        **({"carrier": omission.carrier} if omission.carrier else {}),
    }


@dataclass(frozen=True, slots=True, repr=False)
class ContextWindow:
    """The messages of a request, ready for a model, and their receipt.

    - `total_tokens`, including framing, tools and response schema, is at most the budget's `input_tokens`, which
      excludes the tokens kept free because the counter estimates (`receipt.error_reserve`).
    - The system prompt and the current user message are complete.
    - At most one system message leads, followed by a user message; each tool call precedes all of its results.
    """

    messages: tuple[Message, ...]
    sections: tuple[Section, ...]
    total_tokens: int
    receipt: Receipt

    def __repr__(self) -> str:
        """Return one line: the tokens used and available, the number of messages, and the tokens of each section."""
        sections = ", ".join(f"{section.name} {section.tokens:,}" for section in self.sections if section.tokens)
        used = f"{self.total_tokens:,} of {self.receipt.input_tokens:,} tokens"
        count = len(self.messages)
        return f"<ContextWindow {used}, {count} message{'' if count == 1 else 's'}: {sections or 'nothing'}>"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the budget by section, each section's items, and the omissions."""
        from arc_common.context.display import render_html  # noqa: PLC0415 - imported only for display

        return render_html(self)

    def __rich__(self) -> "RenderableType":
        """Return the rich renderable for a terminal: `rich.print(window)`."""
        from arc_common.context.display import render_terminal  # noqa: PLC0415 - rich takes a while to import

        return render_terminal(self)
