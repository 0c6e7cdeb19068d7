"""Allocates the budget: tracks the tokens a request has used, those its open sections want, and the rest. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from arc_common.context.receipt import Item, MessageItems, Section, with_parts_of
from arc_common.context.request import Costs, Draft, Layers, Request, plain
from arc_common.memories import Pin
from arc_common.messages import Exchange, Message
from arc_common.prompts.context import by_day, render_pins
from arc_common.protocols.summaries import View
from arc_common.tokens.budget import TokenBudget
from arc_common.tokens.counters import REQUEST_OVERHEAD

_FRAMING = 16
"""The most tokens expected around an item in its block."""
_BLOCK = 48
"""The most tokens expected around a block of items, for its heading and fence."""

T = TypeVar("T")


class Sharing:
    """Tracks a request's budget while its sections are filled one after the other."""

    def __init__(
        self, draft: Draft, *, budget: TokenBudget, schemas: int, wanted: Mapping[str, int], costs: Costs
    ) -> None:
        self.draft = draft
        self.sections: dict[str, Section] = {}
        self._budget, self._costs = budget, costs
        self._wanted = dict(wanted)
        self._carried = draft.tokens(costs)
        self.left = budget.input_tokens - REQUEST_OVERHEAD - schemas - self._carried

    def wanted(self, name: str) -> int:
        """Return the tokens an open section could use, up to its limit."""
        return min(self._wanted.get(name, 0), self._budget.max_tokens(name))

    def room(self, name: str) -> int:
        """Return the tokens allotted to a section."""
        return self._budget.allot(self._wanted, self.left)[name]

    def close(self, name: str, *, tokens: int, limit: int, items: Sequence[Item] = (), fixed: int = 0) -> None:
        """Record a section's tokens and items, and allot it no more; the draft began with `fixed` more tokens of it."""
        whole = tokens + fixed
        listed = items if isinstance(items, MessageItems) else with_parts_of(whole, items)
        self.sections[name] = Section(name, whole, limit + fixed, listed)
        self._wanted.pop(name, None)
        self.left -= tokens

    def added(self, filled: Draft) -> int:
        """Return the tokens a fuller draft adds to the current one."""
        return filled.tokens(self._costs) - self._carried

    def fill(self, filled: Draft) -> int:
        """Adopt a fuller draft and return the tokens it adds."""
        added = self.added(filled)
        self.draft = filled
        self._carried += added
        return added

    def filled(
        self, items: Sequence[T], fill: Callable[[tuple[T, ...]], Draft], *, size: Callable[[T], int], room: int
    ) -> Draft:
        """Return the draft with the items that fit, chosen best first."""
        chosen: list[T] = []
        estimated = 0
        for item in items:
            tokens = size(item)
            if estimated + tokens <= room:
                chosen.append(item)
                estimated += tokens
        while chosen:
            filled = fill(tuple(chosen))
            added = self.added(filled)
            if added <= room:
                return filled
            while chosen and added > room:  # counting is slow: drop the sure excess before the next count
                added -= 2 * size(chosen.pop()) + _FRAMING
        return self.draft


def wishes(
    request: Request,
    layers: Layers,
    *,
    before: Sequence[Message],
    running: Sequence[Exchange],
    costs: Costs,
) -> dict[str, int]:
    """Estimate the tokens that each section could use."""
    blocks = (layers.memories, layers.artifacts, (*layers.recalled, *layers.messages))
    recalled = sum(costs.corrected(line.tokens) + 1 for lines in blocks for line in lines)
    recalled += costs.text(layers.idle_note) + _BLOCK * sum(map(bool, (layers.idle_note, *blocks)))
    documents = sum(costs.text(plain(document).text) + _FRAMING for document in request.documents)
    facts = costs.text(by_day(layers.facts))
    recalled += max(facts - request.budget.max_tokens("facts"), 0)
    return {
        "facts": facts,
        "summary": costs.text(by_day(layers.narrative_lines)),
        "recalled": recalled,
        "current_turn": sum(costs.messages(step.messages) for step in running),
        "documents": documents + (_BLOCK if documents else 0),
        "history": costs.messages(before),
    }


@dataclass(frozen=True, slots=True)
class HistoryRoom:
    """The tokens available for verbatim messages."""

    budget: TokenBudget
    left: int  # what the fixed parts and the documents leave to messages, facts, summary and recalled items
    costs: Costs
    threshold: float  # the share of the room, or above 1 the tokens, beyond which finished summaries are adopted

    @property
    def least(self) -> int:
        """The tokens for messages when every other section reaches its limit."""
        return max(self.left - self._reserved, 0)

    def beside(self, pins: Sequence[Pin]) -> "HistoryRoom":
        """Return the room that pins leave."""
        tokens = self.costs.text(render_pins([pin.line for pin in pins]))
        return replace(self, left=self.left - tokens) if tokens else self

    def more_beside(self, view: View | None) -> int:
        """Return the tokens that a current view's facts and summary leave unused; 0 for a stale view.

        Recalled items keep their full limit.
        """
        if view is not None and view.stale:
            return 0
        facts, narrative = (view.facts, view.narrative) if view else ((), "")
        adopted = self.costs.text(by_day(facts))
        borrowed = min(max(adopted - self.budget.max_tokens("facts"), 0), self.budget.lent_to_facts())
        told = self.costs.text(by_day(narrative.splitlines()))
        used = adopted + told + self.budget.max_tokens("recalled") - borrowed + 2 * _BLOCK
        return max(self._reserved - used, 0)

    def soft(self, room: int) -> int:
        """Return the tokens of messages in `room` above which finished summaries are adopted."""
        used = self.budget.input_tokens - room
        return max(int(self.threshold * room if self.threshold <= 1 else self.threshold - used), 0)

    @property
    def _reserved(self) -> int:
        most = sum(map(self.budget.max_tokens, ("facts", "summary", "recalled")))
        return min(most, max(self.left, 0) // 2)


def history_room(request: Request, costs: Costs) -> HistoryRoom:
    """Return the tokens available for verbatim messages."""
    budget = request.budget
    instructions = (request.system_prompt,) if request.system_prompt else ()
    fixed = Draft(request, request.query, Layers(instructions=instructions)).tokens(costs)
    documents = sum(costs.text(plain(document).text) for document in request.documents)
    documents = min(documents, budget.max_tokens("documents"))
    left = budget.input_tokens - REQUEST_OVERHEAD - costs.schemas(request) - fixed - documents
    return HistoryRoom(budget, left, costs, request.compress_from)
