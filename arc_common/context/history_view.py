"""Builds the view of a conversation, for adapters with a prompt of their own."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import Any

from arc_common.context.builder import Builder, less
from arc_common.context.receipt import ContextWindow, Item, LeftOut, Omission, Section, receipt_of, with_parts_of
from arc_common.context.repetition import Said, each_once
from arc_common.context.request import RECALLED, Costs, Draft, Layers, Request, fact_items
from arc_common.exceptions import BudgetExceededError
from arc_common.messages import ARC_MARK, Message, Role
from arc_common.tokens.selection import (
    EMPTY,
    OLDER,
    CurrentTurn,
    Dropped,
    Fitted,
    Selection,
    current_turn,
    fit_exchanges,
    says_something,
    select_window,
    with_distinct_call_ids,
)


@dataclass(frozen=True, slots=True)
class ViewLimits:
    """The limits and options of a view: see `Session.window`."""

    max_tokens: int | None = None
    max_turns: int | None = None
    max_messages: int | None = None
    reserved: int = 0
    keep_opening: bool = False
    keep_newest: bool = False
    include_summary: bool = True

    @property
    def unlimited(self) -> bool:
        """Return whether no token, turn or message limit is set."""
        return self.max_tokens is None and self.max_turns is None and self.max_messages is None


def build_view(
    limits: ViewLimits,
    history: Sequence[Message],
    *,
    costs: Costs,
    most: int,
    error_reserve: int,
    layers: Layers,
    unread: LeftOut,
    notes: Sequence[str],
    nearest: int,
) -> ContextWindow:
    """Show the newest whole turns within limits, after facts and summary: see `Session.window` for the guarantees.

    `most` is the `max_tokens` of `limits`, or a default if it has none; `error_reserve` is kept free on top of it.

    Raises:
        BudgetExceededError: With `keep_newest`: the newest user message and the system messages before it exceed
            `max_tokens`; or, with any limits, the pins do.
    """
    builder = _ViewBuilder(limits, history, costs=costs, most=most, layers=layers, is_whole=not unread.count)
    chosen = builder.choose()
    shown = with_distinct_call_ids(chosen)
    longer = costs.messages(shown) - costs.messages(chosen)
    if longer > 0 and limits.max_tokens is not None:  # renamed call ids may cost more tokens
        shown = with_distinct_call_ids(builder.choose(spare=longer))
    messages = (builder.memory, *shown) if builder.memory else tuple(shown)
    receipt = receipt_of(
        [message.id for message in messages if message.id],
        builder.omissions(),
        rest={OLDER: unread},
        notes=notes,
        nearest=nearest,
        sections=builder.sections(shown),
        total_tokens=costs.messages(messages) + limits.reserved,
        input_tokens=most + error_reserve,
        error_reserve=error_reserve,
    )
    return ContextWindow(messages, receipt.sections, receipt.total_tokens, receipt)


class _ViewBuilder(Builder):
    """Builds one view."""

    def __init__(
        self,
        limits: ViewLimits,
        history: Sequence[Message],
        *,
        costs: Costs,
        most: int,
        layers: Layers,
        is_whole: bool,
    ) -> None:
        super().__init__(costs)
        self._limits, self._layers, self._most, self._is_whole = limits, layers, most, is_whole
        self.memory: Message | None = None
        self._merged: list[Omission] = []
        self._available = max(most - limits.reserved, 0)
        messages = [message for message in history if says_something(message)]
        self._empty = [Dropped(message, EMPTY) for message in history if not says_something(message)]
        self._leading = list(takewhile(lambda message: message.role is Role.SYSTEM, messages))
        spoken = messages[len(self._leading) :]
        unsplit = CurrentTurn(tuple(spoken), None, (), ())
        turn = current_turn(spoken, live=False) if limits.keep_newest else unsplit
        self._turn = turn if turn.user else unsplit

    def choose(self, *, spare: int = 0) -> list[Message]:
        """Choose the newest turn, facts and summary, and older turns, leaving `spare` tokens free."""
        costs = self._costs
        self._steps = self._fitted_steps(spare)
        self._newest = (self._turn.user, *self._steps.shown) if self._turn.user else ()
        self._drop_repeated()
        self.memory, self._remembered = self._memory_message()
        if self._limits.max_tokens is not None and self._layers.pins and self._fixed(self._most) > self._most:
            needed = self._fixed(self._most)
            raise BudgetExceededError("system messages and pins", needed=needed, available=self._most)
        spent = costs.messages(self._newest) + (costs.message(self.memory) if self.memory else 0) + spare
        self._selection = self._window(spent)
        return [*self._selection.kept, *self._newest]

    def _window(self, spent: int) -> Selection:
        """Return the turns before the newest that fit."""
        limits = self._limits
        return select_window(
            [*self._leading, *self._turn.before],
            max_turns=less(limits.max_turns, 1 if self._newest else 0),
            max_messages=less(limits.max_messages, len(self._newest)),
            max_tokens=None if limits.max_tokens is None else max(self._available - spent, 0),
            count=self._costs.message,
            keep_opening=limits.keep_opening and self._is_whole and self.memory is None and not self._newest,
            continued=bool(self._newest),
            shorten=self._shorten,
        )

    def _drop_repeated(self) -> None:
        """Drop recalled text that the facts, the summary or a message that is sure to fit already says."""
        layers, costs = self._layers, self._costs
        if not layers.has_recollections:
            return
        said = Said(layers.recalled_lines)
        verbatim = self._window(costs.messages(self._newest) + self._room()).kept
        said.add_fixed((*verbatim, *self._newest), layers)
        for name, given in layers.recollections.items():
            lines, merged = each_once(given, RECALLED[name], said, corrected=costs.corrected, room=self._most)
            parts: dict[str, Any] = {name: tuple(lines)}
            layers = replace(layers, **parts)
            self._merged += merged
        self._layers = layers

    def _fitted_steps(self, spare: int) -> Fitted:
        """Return the steps of the newest turn that fit."""
        most, costs, user, running = self._limits.max_tokens, self._costs, self._turn.user, self._turn.running
        if user is None or most is None:
            steps = tuple(message for step in running for message in step.messages)
            return Fitted(steps, (), (), costs.messages(steps))
        asked = costs.message(user)
        fixed = self._fixed(most - asked)
        if fixed + asked > most:
            what = "system messages and user message" if fixed else "user message"
            what = "system messages, pins and user message" if self._layers.pins else what
            raise BudgetExceededError(what, needed=fixed + asked, available=most)
        last = costs.messages(running[-1].messages) if running else 0
        room = max(self._available - fixed - asked, min(most - fixed - asked, last)) - spare
        return fit_exchanges(running, room, count=costs.message, shorten=self._shorten)

    def _fixed(self, room: int) -> int:
        """Return the system messages' tokens, dropping the oldest summarised ones after the first until they fit."""
        leading = self._costs.messages(self._leading)
        while True:
            tokens = leading + self._tokens_of(Layers(instructions=self._layers.instructions, pins=self._layers.pins))
            first, *others = self._layers.instructions or ("",)
            if tokens <= room or not others:
                return tokens
            self._layers = replace(self._layers, instructions=(first, *others[max(len(others) // 4, 1) :]))

    def _tokens_of(self, layers: Layers) -> int:
        system = Draft(Request(), None, layers).system
        return self._costs.message(system) if system else 0

    def _memory_message(self) -> tuple[Message | None, dict[str, list[Item]]]:
        """Return older instructions, facts, summary and recalled items as one message, and its items by section."""
        room, costs, layers = self._room(), self._costs, self._layers
        narrative = layers.narrative_lines
        while True:
            adopted = fact_items(layers.pins, layers.facts, layers.fact_ids)
            draft = Draft(Request(), None, replace(layers, narrative="\n".join(narrative)))
            message = draft.system
            if message is None:
                return None, {}
            message = replace(message, metadata={ARC_MARK: "memory"})
            if costs.message(message) <= room:
                lines = [Item("summary", line) for line in narrative]
                return message, {"facts": adopted, "summary": lines, "recalled": draft.recollections(costs)()}
            if layers.idle_note:
                layers = replace(layers, idle_note="")
            elif not (layers.facts or narrative or layers.has_recollections):
                return message, {"facts": adopted}
            elif layers.has_recollections:
                layers = layers.with_fewer_recollections()
            elif narrative:
                narrative = narrative[1:]
            else:
                layers = layers.with_fewer_facts()

    def _room(self) -> int:
        """Return the tokens for facts and summary: at most half of the limit."""
        taken = self._costs.messages((*self._leading, *self._newest)) if self._newest else 0
        return min(self._most // 2, max(self._available - taken, 0))

    def sections(self, shown: Sequence[Message]) -> tuple[Section, ...]:
        """Return the sections of the view, which shows these messages after facts and summary."""
        costs, most, reserved = self._costs, self._most, self._limits.reserved
        instructions = self._tokens_of(Layers(instructions=self._layers.instructions))
        block = (costs.message(self.memory) if self.memory else 0) - instructions
        said = [Item("message", text) for text in self._layers.instructions if text.strip()]
        turns = len(shown) - len(self._newest)
        asked = turns + bool(self._newest)
        leading, spoken = shown[: len(self._leading)], shown[len(self._leading) : turns]
        system = [*with_parts_of(instructions, said), *self._items(leading)]
        remembered = iter(
            with_parts_of(block, [replace(item, tokens=None) for items in self._remembered.values() for item in items])
        )
        layers = [(name, list(islice(remembered, len(items)))) for name, items in self._remembered.items()]
        sections: tuple[tuple[str, int, int, Sequence[Item]], ...] = (
            ("reserved", reserved, most, [Item("reserved", "", tokens=reserved)]),
            ("system", instructions + costs.messages(leading), most, system),
            *((name, sum(item.tokens or 0 for item in items), self._room(), items) for name, items in layers),
            ("history", costs.messages(spoken), self._available, self._items(spoken)),
            ("user_message", costs.messages(shown[turns:asked]), most, self._items(shown[turns:asked])),
            ("current_turn", costs.messages(shown[asked:]), most, self._items(shown[asked:])),
        )
        # Instructions and the newest turn are shown even where they exceed their room.
        return tuple(
            Section(name, tokens, max(limit, tokens), items) for name, tokens, limit, items in sections if tokens
        )

    def omissions(self) -> list[Omission]:
        """Return the items that the view omits or shortens."""
        self._note_older_steps(self._steps)
        self._note_dropped([*self._turn.dropped, *self._selection.dropped[::-1], *self._empty])
        self._note_changed([*self._steps.changed, *self._selection.changed])
        return [*self._omissions, *self._merged]
