"""What a model gets to see on one turn, what each part costs, and what was left out."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from arc_common.messages import Message

__all__ = ["NEAREST", "ContextWindow", "LeftOut", "Omission", "Receipt", "Section", "receipt_of"]

NEAREST = 20
"""How many of the things left out a receipt names one by one."""


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the request: its tokens, the most it could have had, and how many items it holds."""

    name: str
    tokens: int
    allotted: int
    items: int


@dataclass(frozen=True, slots=True)
class Omission:
    """One thing that was left out: its kind ("message", "document"), what names it, its tokens and the reason."""

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
    """

    kept: tuple[str, ...]
    nearest: tuple[Omission, ...] = ()
    rest: Mapping[str, LeftOut] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """The messages of a request, ready for a model, with the account of them.

    - `total_tokens`, framing, tools and response schema included, is at most the budget's `input_tokens`.
    - The system prompt and the current user message are there whole.
    - One leading system message at most, then the user's first; each tool call stands before all of its results.
    """

    messages: tuple[Message, ...]
    sections: tuple[Section, ...]
    total_tokens: int
    receipt: Receipt


def receipt_of(
    kept: Sequence[str],
    omissions: Sequence[Omission],
    *,
    rest: Mapping[str, LeftOut] | None = None,
    notes: Sequence[str] = (),
    nearest: int = NEAREST,
) -> Receipt:
    """The receipt: the nearest omissions one by one, the others summed up by reason.

    Args:
        kept: What is in the request, in its order.
        omissions: What is not, the nearest first.
        rest: Further things left out that nobody looked at, by reason.
        notes: What went wrong on the way.
        nearest: How many omissions are named one by one.
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
    )
