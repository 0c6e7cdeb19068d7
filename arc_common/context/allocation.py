"""Allocates the budget: tracks the tokens a request has used, those its open sections want, and the rest. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from arc_common.context.receipt import Item, Section
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


class Allocator:
    """Tracks a request's budget while its sections are filled one after the other."""

    def __init__(
        self, draft: Draft, *, budget: TokenBudget, schemas: int, wanted: Mapping[str, int], costs: Costs
    ) -> None:
        self.draft = draft
        self.sections: dict[str, Section] = {}
        self._budget, self._costs = budget, costs
        self._wanted = dict(wanted)
        self._rooms: Mapping[str, int] | None = None
        self._carried = draft.tokens(costs)
        self.left = budget.input_tokens - REQUEST_OVERHEAD - schemas - self._carried

    def wanted(self, name: str) -> int:
        """Return the tokens an open section could use, up to its limit."""
        return min(self._wanted.get(name, 0), self._budget.max_tokens(name))

    def room(self, name: str) -> int:
        """Return the tokens allotted to a section, until another is closed."""
        if self._rooms is None:
            self._rooms = self._budget.allot(self._wanted, self.left)
        return self._rooms[name]

    def close(self, name: str, *, tokens: int, limit: int, items: Sequence[Item] = (), fixed: int = 0) -> None:
        """Record a section's tokens and items, and allot it no more; the draft began with `fixed` more tokens of it."""
        self.sections[name] = Section(name, tokens + fixed, limit + fixed, items)
        self._wanted.pop(name, None)
        self.left -= tokens
        self._rooms = None

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
        self, items: Sequence[T], fill: Callable[[tuple[T, ...]], Draft], *, sizes: Sequence[int], room: int
    ) -> Draft:
        """Return the draft with the items that fit, chosen best first."""
        chosen: list[int] = []
        estimated = 0
        for place, tokens in enumerate(sizes):
            if estimated + tokens <= room:
                chosen.append(place)
                estimated += tokens
        while chosen:
            filled = fill(tuple([items[place] for place in chosen]))
            added = self.added(filled)
            if added <= room:
                return filled
            while chosen and added > room:  # counting is slow: drop the sure excess before the next count
                added -= 2 * sizes[chosen.pop()] + _FRAMING
        return self.draft


def wanted_tokens(
    request: Request,
    layers: Layers,
    *,
    before: Sequence[Message],
    running: Sequence[Exchange],
    costs: Costs,
) -> dict[str, int]:
    """Estimate the tokens that each section could use."""
    recalled = costs.text(layers.idle_note) + _BLOCK if layers.idle_note else 0
    for lines in (layers.memories, layers.artifacts, (*layers.recalled, *layers.messages)):
        if lines:
            recalled += _BLOCK + len(lines) + sum(map(costs.corrected, [line.tokens for line in lines]))
    documents = sum([costs.text(plain(document).text) + _FRAMING for document in request.documents])
    facts = costs.text(by_day(layers.facts))
    recalled += max(facts - request.budget.max_tokens("facts"), 0)
    return {
        "facts": facts,
        "summary": costs.text(by_day(layers.narrative_lines)),
        "recalled": recalled,
        "current_turn": sum([costs.messages(step.messages) for step in running]),
        "documents": documents + (_BLOCK if documents else 0),
        "history": costs.messages(before),
    }


class HistoryRoom:
    """The tokens for verbatim messages; beyond `threshold`, a share or (above 1) tokens, summaries are adopted."""

    def __init__(self, budget: TokenBudget, left: int, costs: Costs, threshold: float) -> None:
        self.budget, self._left, self._costs, self._threshold = budget, left, costs, threshold
        most = sum(map(budget.max_tokens, ("facts", "summary", "recalled")))
        self._reserved = min(most, max(left, 0) // 2)
        self.least = max(left - self._reserved, 0)
        """The tokens for messages when every other section reaches its limit."""

    def beside(self, pins: Sequence[Pin]) -> "HistoryRoom":
        """Return the room that pins leave."""
        if not pins:
            return self
        tokens = self._costs.text(render_pins([pin.line for pin in pins]))
        return HistoryRoom(self.budget, self._left - tokens, self._costs, self._threshold)

    def more_beside(self, view: View | None) -> int:
        """Return the tokens that a current view's facts and summary leave unused; 0 for a stale view."""
        if view is not None and view.stale:
            return 0
        used = self.budget.max_tokens("recalled") + 2 * _BLOCK
        if view is not None:
            adopted = self._costs.text(by_day(view.facts))
            borrowed = min(max(adopted - self.budget.max_tokens("facts"), 0), self.budget.lent_to_facts())
            used += adopted - borrowed + self._costs.text(by_day(view.narrative.splitlines()))
        return max(self._reserved - used, 0)

    def soft(self, room: int) -> int:
        """Return the tokens of messages in `room` above which finished summaries are adopted."""
        used, threshold = self.budget.input_tokens - room, self._threshold
        return max(int(threshold * room if threshold <= 1 else threshold - used), 0)


def history_room(request: Request, costs: Costs) -> HistoryRoom:
    """Return the tokens available for verbatim messages."""
    budget = request.budget
    instructions = (request.system_prompt,) if request.system_prompt else ()
    fixed = Draft(request, request.query, Layers(instructions=instructions)).tokens(costs)
    documents = sum([costs.text(plain(document).text) for document in request.documents])
    documents = min(documents, budget.max_tokens("documents"))
    left = budget.input_tokens - REQUEST_OVERHEAD - costs.schemas(request) - fixed - documents
    return HistoryRoom(budget, left, costs, request.compress_from)
