"""Builds the view for adapters with a prompt of their own: facts, summary and the newest turns. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from arc_common.context.draft import NO_LAYERS, NOTHING, Layers, memory_message
from arc_common.context.receipt import (
    NEAREST,
    Item,
    LeftOut,
    MessageItems,
    Omission,
    Receipt,
    Section,
    receipt_of,
    with_parts_of,
)
from arc_common.context.request import Costs
from arc_common.exceptions import BudgetExceededError
from arc_common.messages import Message, Role
from arc_common.tokens.compression.truncation import shortened
from arc_common.tokens.selection import (
    EMPTY,
    OLDER,
    Changed,
    Dropped,
    Fitted,
    Selection,
    current_turn,
    fit_exchanges,
    says_something,
    select_window,
    with_distinct_call_ids,
)

_NO_STEPS = Fitted((), (), (), 0)


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


@dataclass(frozen=True, slots=True)
class View:
    """The messages of a view and their receipt."""

    messages: tuple[Message, ...]
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class _Newest:
    """The running turn: the messages before it, its user message, and the steps that fit."""

    before: Sequence[Message]
    user: Message | None = None
    steps: Fitted = field(default=_NO_STEPS)
    dropped: Sequence[Dropped] = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        return (self.user, *self.steps.shown) if self.user else ()


def build_view(
    limits: ViewLimits,
    history: Sequence[Message],
    *,
    costs: Costs,
    most: int,
    error_reserve: int = 0,
    layers: Layers = NO_LAYERS,
    unread: LeftOut = NOTHING,
    notes: Sequence[str] = (),
    nearest: int = NEAREST,
) -> View:
    """Show the newest whole turns within limits, after facts and summary: see `Session.window` for the guarantees.

    Args:
        limits: The limits and options of the view.
        history: The conversation's newest messages, oldest first.
        costs: Counts the tokens of messages.
        most: The limit in tokens: the `max_tokens` of `limits`, or a default if it has none.
        error_reserve: The tokens that the caller kept free on top of `most`, for the receipt.
        layers: Facts, summary and recalled lines to show as well.
        unread: The messages before `history` that were neither loaded nor summarised.
        notes: Problems so far, for the receipt.
        nearest: How many omissions the receipt lists one by one.

    Raises:
        BudgetExceededError: With `keep_newest`: the newest user message and the system messages before it exceed
            `max_tokens`.
    """
    return _Builder(limits, history, costs=costs, most=most, layers=layers).view(unread, notes, nearest, error_reserve)


class _Builder:
    """Builds one view."""

    def __init__(
        self, limits: ViewLimits, history: Sequence[Message], *, costs: Costs, most: int, layers: Layers
    ) -> None:
        self._limits, self._costs, self._most = limits, costs, most
        self._available = max(most - limits.reserved, 0)
        messages = [message for message in history if says_something(message)]
        self._empty = [Dropped(message, EMPTY) for message in history if not says_something(message)]
        self._leading = list(takewhile(lambda message: message.role is Role.SYSTEM, messages))
        self._spoken = messages[len(self._leading) :]
        self._layers = layers

    def view(self, unread: LeftOut, notes: Sequence[str], nearest: int, error_reserve: int) -> View:
        """Return the messages and their receipt."""
        is_whole = not unread.count
        newest, (memory, remembered), selection = self._chosen(is_whole=is_whole)
        shown = with_distinct_call_ids([*selection.kept, *newest.messages])
        longer = self._cost(shown) - self._cost([*selection.kept, *newest.messages])
        if longer > 0 and self._limits.max_tokens is not None:  # renamed call ids may cost more tokens
            newest, (memory, remembered), selection = self._chosen(is_whole=is_whole, spare=longer)
            shown = with_distinct_call_ids([*selection.kept, *newest.messages])
        messages = (*([memory] if memory else ()), *shown)
        receipt = receipt_of(
            [message.id for message in messages if message.id],
            self._omissions(selection, newest),
            rest={OLDER: unread},
            notes=notes,
            nearest=nearest,
            sections=self._sections(memory, remembered, shown, newest),
            total_tokens=self._cost(messages) + self._limits.reserved,
            input_tokens=self._most + error_reserve,
            error_reserve=error_reserve,
        )
        return View(messages, receipt)

    def _chosen(
        self, *, is_whole: bool, spare: int = 0
    ) -> tuple[_Newest, tuple[Message | None, list[Item]], Selection]:
        """Choose the newest turn, facts and summary, and older turns, leaving `spare` tokens free."""
        limits = self._limits
        newest = self._newest(spare)
        memory, remembered = memory_message(self._layers, max_tokens=self._room(newest), costs=self._costs)
        spent = self._cost(newest.messages) + (self._cost([memory]) if memory else 0) + spare
        selection = select_window(
            [*self._leading, *newest.before],
            max_turns=_less(limits.max_turns, 1 if newest.user else 0),
            max_messages=_less(limits.max_messages, len(newest.messages)),
            max_tokens=None if limits.max_tokens is None else max(self._available - spent, 0),
            count=self._costs.message,
            keep_opening=limits.keep_opening and is_whole and memory is None and newest.user is None,
            continued=newest.user is not None,
            shorten=self._shorten,
        )
        return newest, (memory, remembered), selection

    def _newest(self, spare: int) -> _Newest:
        """Return the newest turn as far as it fits, if `keep_newest` is set; otherwise all messages as `before`."""
        limits, count = self._limits, self._costs.message
        turn = current_turn(self._spoken, live=False)
        if not limits.keep_newest or turn.user is None:
            return _Newest(self._spoken)
        steps = [message for step in turn.running for message in step.messages]
        if limits.max_tokens is None:
            return _Newest(turn.before, turn.user, Fitted(tuple(steps), (), (), self._cost(steps)), turn.dropped)
        asked = count(turn.user)
        fixed = self._fixed(limits.max_tokens - asked)
        if fixed + asked > limits.max_tokens:
            what = "system messages and user message" if fixed else "user message"
            raise BudgetExceededError(what, needed=fixed + asked, available=limits.max_tokens)
        last = self._cost(turn.running[-1].messages) if turn.running else 0
        room = max(self._available - fixed - asked, min(limits.max_tokens - fixed - asked, last)) - spare
        fitted = fit_exchanges(turn.running, room, count=count, shorten=self._shorten)
        return _Newest(turn.before, turn.user, fitted, turn.dropped)

    def _fixed(self, room: int) -> int:
        """Return the system messages' tokens, dropping the oldest summarised ones after the first until they fit."""
        leading = self._cost(self._leading)
        while True:
            bare = self._instructions()
            tokens = leading + (self._cost([bare]) if bare else 0)
            first, *others = self._layers.instructions or ("",)
            if tokens <= room or not others:
                return tokens
            self._layers = replace(self._layers, instructions=(first, *others[max(len(others) // 4, 1) :]))

    def _instructions(self) -> Message | None:
        """Return the system message without facts and summary."""
        layers = replace(NO_LAYERS, instructions=self._layers.instructions)
        return memory_message(layers, max_tokens=0, costs=self._costs)[0]

    def _room(self, newest: _Newest) -> int:
        """Return the tokens for facts and summary: at most half of the limit."""
        if not newest.user:
            return min(self._most // 2, self._available)
        return min(self._most // 2, max(self._available - self._cost((*self._leading, *newest.messages)), 0))

    def _sections(
        self, memory: Message | None, remembered: list[Item], shown: Sequence[Message], newest: _Newest
    ) -> tuple[Section, ...]:
        bare = self._instructions()
        instructions = self._cost([bare]) if bare else 0
        block = (self._cost([memory]) if memory else 0) - instructions
        said = [Item("message", text) for text in self._layers.instructions if text.strip()]
        turns = len(shown) - len(newest.messages)
        asked = turns + bool(newest.user)
        leading, spoken = shown[: len(self._leading)], shown[len(self._leading) : turns]
        system = [*with_parts_of(instructions, said), *self._items(leading)]
        reserved = [Item("reserved", "", tokens=self._limits.reserved)]
        remembered = [replace(item, tokens=None) for item in remembered]
        sections: tuple[tuple[str, int, int, Sequence[Item]], ...] = (
            ("reserved", self._limits.reserved, self._most, reserved),
            ("system", instructions + self._cost(leading), self._most, system),
            ("facts", block, self._room(newest), with_parts_of(block, remembered)),
            ("history", self._cost(spoken), self._available, self._items(spoken)),
            ("user_message", self._cost(shown[turns:asked]), self._most, self._items(shown[turns:asked])),
            ("current_turn", self._cost(shown[asked:]), self._most, self._items(shown[asked:])),
        )
        # Instructions and the newest turn are shown even where they exceed their room.
        return tuple(
            Section(name, tokens, max(most, tokens), items) for name, tokens, most, items in sections if tokens
        )

    def _omissions(self, selection: Selection, newest: _Newest) -> list[Omission]:
        dropped = [
            *(Dropped(message, "older step of the running turn") for message in reversed(newest.steps.dropped)),
            *newest.dropped,
            *selection.dropped[::-1],
            *self._empty,
        ]
        changed: list[Changed] = [*newest.steps.changed, *selection.changed]
        return [
            *(Omission("message", left.message.id, self._costs.message(left.message), left.reason) for left in dropped),
            *(
                Omission("message", part.message.id, max(part.tokens_before - part.tokens_after, 0), part.reason)
                for part in changed
            ),
        ]

    def _cost(self, messages: Sequence[Message]) -> int:
        return self._costs.messages(messages)

    def _items(self, messages: Sequence[Message]) -> MessageItems:
        return MessageItems(messages, list(map(self._costs.message, messages)))

    def _shorten(self, message: Message, room: int) -> Message | None:
        return shortened(message, max_tokens=room, count=self._costs.message)


def _less(limit: int | None, taken: int) -> int | None:
    return None if limit is None else max(limit - taken, 0)
