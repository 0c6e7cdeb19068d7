"""Several strategies, one after the other."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from arc_common.exceptions import InvalidInputError
from arc_common.messages import Message
from arc_common.tokens.compression.base import (
    BaseStrategy,
    Changed,
    Compression,
    CompressionStrategy,
    CountOnce,
)
from arc_common.tokens.selection import Dropped

__all__ = ["Chain"]


@dataclass(frozen=True, slots=True)
class Chain(BaseStrategy):
    """Runs strategies in order, each only while the budget is still exceeded.

    - The account names the originals: a message changed twice is one change; one changed and then dropped is dropped.

    Args:
        strategies: The gentlest first, one that drops last: `Chain((ClearToolResults(), Truncate(), RollingWindow()))`.
    """

    name: ClassVar[str] = "chain"
    strategies: Sequence[CompressionStrategy]

    def __post_init__(self) -> None:
        object.__setattr__(self, "strategies", tuple(self.strategies))
        for strategy in self.strategies:
            if not callable(getattr(strategy, "compress", None)):
                raise InvalidInputError("strategies", strategy, "compression strategies")

    def _shrink(self, messages: Sequence[Message], max_tokens: int, count: CountOnce) -> Compression:
        result = Compression(tuple(messages), count.total(messages))
        for strategy in self.strategies:
            if result.tokens <= max_tokens:
                break
            result = _joined(result, strategy.compress(result.messages, max_tokens=max_tokens, count=count))
        place = {id(message): i for i, message in enumerate(messages)}
        return replace(
            result, changed=tuple(sorted(result.changed, key=lambda change: place.get(id(change.message), -1)))
        )


def _joined(first: Compression, then: Compression) -> Compression:
    """The account of two steps as one."""
    earlier: dict[int, list[Changed]] = {}
    for change in first.changed:
        earlier.setdefault(id(change.replacement), []).append(change)
    dropped: list[Dropped] = []
    for item in then.dropped:
        originals = [change.message for change in earlier.pop(id(item.message), ())]
        dropped += [Dropped(message, item.reason) for message in originals or [item.message]]
    changed: list[Changed] = []
    for change in then.changed:
        changed += [_one(before, change) for before in earlier.pop(id(change.message), ())] or [change]
    untouched = [change for changes in earlier.values() for change in changes]
    return replace(then, dropped=(*first.dropped, *dropped), changed=(*untouched, *changed))


def _one(before: Changed, then: Changed) -> Changed:
    """A message changed twice."""
    return Changed(
        before.message,
        then.replacement,
        f"{before.reason}, {then.reason}",
        before.tokens_before,
        then.tokens_after if before.tokens_after else 0,
    )
