"""Which messages of a conversation a model gets to see: the newest whole turns within limits. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from arc_common.exceptions import InvalidInputError
from arc_common.messages import Exchange, Message, Role, Turn, exchanges_of, turns_of
from arc_common.tokens.greedy import Changed, Fitted, Shorten, fit_turn

__all__ = [
    "CurrentTurn",
    "Dropped",
    "Selection",
    "check_limits",
    "current_turn",
    "last_messages",
    "last_turns",
    "says_something",
    "select_window",
    "within_tokens",
]

EMPTY = "nothing in it"
OLDER = "older than the window"
UNANSWERED = "tool call without a result"
ORPHANED = "tool result without a call"
NO_USER = "before the first user message"


@dataclass(frozen=True, slots=True)
class Dropped:
    """A message that was left out, and why."""

    message: Message
    reason: str


@dataclass(frozen=True, slots=True)
class Selection:
    """What was kept, in conversation order; what was left out, oldest first by reason; what is kept in part."""

    kept: tuple[Message, ...]
    dropped: tuple[Dropped, ...]
    changed: tuple[Changed, ...] = ()


@dataclass(frozen=True, slots=True)
class CurrentTurn:
    """A conversation cut before its newest user message.

    Args:
        before: Results without a call; and what comes before it, results at their calls.
        user: The newest user message with anything in it; `None` if there is none.
        running: What follows it: the steps that a provider accepts.
        dropped: Steps that it doesn't accept, and empty messages.
    """

    before: tuple[Message, ...]
    user: Message | None
    running: tuple[Exchange, ...]
    dropped: tuple[Dropped, ...]


def last_turns(messages: Sequence[Message], max_turns: int = 10) -> list[Message]:
    """The last `max_turns` turns; see `select_window` for what holds."""
    return list(select_window(messages, max_turns=max_turns).kept)


def last_messages(messages: Sequence[Message], max_messages: int = 20) -> list[Message]:
    """The newest whole turns of at most `max_messages` messages together; see `select_window` for what holds."""
    return list(select_window(messages, max_messages=max_messages).kept)


def within_tokens(messages: Sequence[Message], max_tokens: int, *, count: Callable[[Message], int]) -> list[Message]:
    """The newest whole turns of at most `max_tokens` tokens together; see `select_window` for what holds."""
    return list(select_window(messages, max_tokens=max_tokens, count=count).kept)


def check_limits(**limits: int | None) -> None:
    """Raise `InvalidInputError` for a limit that is negative or no whole number."""
    for name, limit in limits.items():
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
            raise InvalidInputError(name, limit, "a whole number of at least 0, or None")


def current_turn(messages: Sequence[Message], *, live: bool = True) -> CurrentTurn:
    """Find the newest turn.

    Args:
        messages: The conversation, oldest first; no system messages.
        live: Whether it is still running: calls without results at its end are to be answered yet, and stay.
    """
    empty = [Dropped(message, EMPTY) for message in messages if not says_something(message)]
    exchanges, orphans = exchanges_of([message for message in messages if says_something(message)])
    start = max((i for i, exchange in enumerate(exchanges) if exchange.role is Role.USER), default=None)
    before = tuple(message for exchange in exchanges[:start] for message in exchange.messages)
    if start is None:
        return CurrentTurn((*orphans, *before), None, (), tuple(empty))
    running, unanswered = _answered(exchanges[start + 1 :], live=live)
    dropped = [Dropped(message, UNANSWERED) for exchange in unanswered for message in exchange.messages]
    return CurrentTurn((*orphans, *before), exchanges[start].messages[0], tuple(running), (*dropped, *empty))


def select_window(
    messages: Sequence[Message],
    *,
    max_turns: int | None = None,
    max_messages: int | None = None,
    max_tokens: int | None = None,
    count: Callable[[Message], int] | None = None,
    live: bool = False,
    keep_opening: bool = False,
    continued: bool = False,
    shorten: Shorten | None = None,
    whole_turns: bool = False,
) -> Selection:
    """Keep the newest turns that fit all limits together.

    - A tool call and its results are kept together or not at all; results that came late stand behind their call.
    - Turns are kept whole and without gaps. Only when the newest turn alone is too large, its user message is kept
      with its newest exchanges; older tool results in it are cleared before exchanges are dropped.
    - The first message that is not a system message is the user's.
    - System messages at the very start are kept and counted before anything else.
    - Messages with nothing in them are left out: providers refuse them.
    - Order is the conversation's; there are no duplicates; the input is not changed.
    - With `shorten`, a tenth of the tokens is not left unused while anything more can be shown in part: of the oldest
      turn that is shown then the user message, if need be its beginning, and the newest exchanges, at least one. Calls
      are never cut.

    Args:
        messages: The conversation, oldest first.
        max_turns: At most so many turns.
        max_messages: At most so many messages, leading system messages included.
        max_tokens: At most so many tokens, leading system messages included.
        count: The tokens of a message; needed with `max_tokens`.
        live: Whether the newest turn is still running: calls without results at its end are then kept.
        keep_opening: Keep what comes before the first user message (a greeting) when everything else fits too.
        continued: Whether a newer turn follows that is not among the messages; then these may all be left out.
        shorten: Shortens a message to so many tokens.
        whole_turns: Whether to use `shorten` for the newest turn only, and show other turns whole or not at all.

    Raises:
        InvalidInputError: A limit is negative or no whole number.
    """
    check_limits(max_turns=max_turns, max_messages=max_messages, max_tokens=max_tokens)
    if max_tokens is not None and count is None:
        raise InvalidInputError("count", count, "a function that counts a message, when max_tokens is given")
    spoken = [message for message in messages if says_something(message)]
    empty = () if len(spoken) == len(messages) else [one for one in messages if not says_something(one)]
    first = next((i for i, message in enumerate(spoken) if message.role is not Role.SYSTEM), len(spoken))
    leading = spoken[:first]
    room = _Room(max_turns, max_messages, max_tokens, count)
    room.take(leading, room.cost(leading))
    if _is_plain(spoken, first) and room.takes(spoken[first:], turns=_turns(spoken)):
        return Selection(tuple(spoken), tuple(Dropped(message, EMPTY) for message in empty))
    exchanges, orphans = exchanges_of(spoken[first:])
    complete, unanswered = _answered(exchanges, live=live)
    turns = turns_of(complete)
    opening = turns.pop(0) if turns and not turns[0].starts_with_user else None
    kept: list[Sequence[Message]] = []  # by turns, the newest first; so is what is left out
    left: list[Sequence[Message]] = []
    changed: tuple[Changed, ...] = ()
    is_full = False
    fills = shorten is not None and not whole_turns
    for turn in reversed(turns):
        said = turn.messages
        if not is_full and room.takes(said, turns=1):
            kept.append(said)
        elif not is_full and (not (kept or continued) or (fills and room.is_wasted_without(turn))):
            part = room.part_of(turn, shorten)
            if (kept or continued) and len(part.shown) == 1 < len(said):
                # a question without its answer helps nobody
                part = Fitted((), said, (), 0)
            room.take(part.shown, part.tokens, turns=1)
            changed = (*part.changed, *changed)
            kept.append(part.shown)
            left.append(part.dropped)
            is_full = bool(part.dropped)
        else:
            left.append(said)
            is_full = True
    dropped = [Dropped(message, OLDER) for said in reversed(left) for message in said]
    if opening is not None:
        if keep_opening and not is_full and room.takes(opening.messages):
            kept.append(opening.messages)
        else:
            dropped += [Dropped(message, NO_USER) for message in opening.messages]
    dropped += [Dropped(message, UNANSWERED) for exchange in unanswered for message in exchange.messages]
    dropped += [Dropped(message, ORPHANED) for message in orphans]
    dropped += [Dropped(message, EMPTY) for message in empty]
    shown = [message for said in reversed(kept) for message in said]
    return Selection((*leading, *shown), tuple(dropped), changed)


class _Room:
    """What is left of each limit."""

    def __init__(
        self,
        turns: int | None,
        messages: int | None,
        tokens: int | None,
        count: Callable[[Message], int] | None,
    ) -> None:
        unlimited = float("inf")
        self._turns = unlimited if turns is None else turns
        self._messages = unlimited if messages is None else messages
        self._tokens = unlimited if tokens is None else tokens
        self._all_tokens = self._tokens
        self._count = count if tokens is not None else None

    def cost(self, messages: Sequence[Message]) -> int:
        """Their tokens, where these are limited."""
        return sum(map(self._count, messages)) if self._count else 0

    def takes(self, messages: Sequence[Message], *, turns: int = 0) -> bool:
        """Take them in, if all limits allow it; whether they do."""
        if turns > self._turns or len(messages) > self._messages:
            return False
        cost = self.cost(messages)
        if cost > self._tokens:
            return False
        self.take(messages, cost, turns=turns)
        return True

    def take(self, messages: Sequence[Message], cost: int, *, turns: int = 0) -> None:
        """Take them in, whatever the limits."""
        self._turns -= turns
        self._messages -= len(messages)
        self._tokens -= cost

    def is_wasted_without(self, turn: Turn) -> bool:
        """Whether only tokens keep the turn out, and more than a tenth of them is left."""
        if self._count is None or self._turns < 1 or len(turn.messages) > self._messages:
            return False
        return self._tokens > self._all_tokens / 10

    def part_of(self, turn: Turn, shorten: Shorten | None) -> Fitted:
        """As much of a turn as fits, its user message first; nothing where that doesn't fit."""
        if self._turns < 1 or self._messages < 1 or self._tokens < 1:
            return Fitted((), turn.messages, (), 0)
        newest = len(turn.exchanges)
        places = self._messages - 1
        while newest > 1 and len(turn.exchanges[newest - 1].messages) <= places:
            newest -= 1
            places -= len(turn.exchanges[newest].messages)
        possible = Turn((turn.exchanges[0], *turn.exchanges[newest:]))
        if self._count is None:
            fitted = Fitted(possible.messages, (), (), 0)
        else:
            fitted = fit_turn(possible, int(self._tokens), count=self._count, shorten=shorten)
        older = Turn(turn.exchanges[1:newest]).messages
        return replace(fitted, dropped=(*older, *fitted.dropped))


def _is_plain(messages: Sequence[Message], first: int) -> bool:
    """Whether a user begins behind the leading ones, and there are no tools: then what fits whole needs no grouping.

    Half of what a turn with 500 messages took.
    """
    begins = first < len(messages) and messages[first].role is Role.USER
    return begins and not any(message.tool_calls or message.role is Role.TOOL for message in messages)


def _turns(messages: Sequence[Message]) -> int:
    return sum(message.role is Role.USER for message in messages)


def _answered(exchanges: list[Exchange], *, live: bool) -> tuple[list[Exchange], list[Exchange]]:
    """Those that a provider accepts, and the others; calls at the very end of a live turn are still to be answered."""
    last = len(exchanges) - 1
    accepted = [exchange for i, exchange in enumerate(exchanges) if exchange.complete or (live and i == last)]
    refused = [exchange for i, exchange in enumerate(exchanges) if not exchange.complete and not (live and i == last)]
    return accepted, refused


def says_something(message: Message) -> bool:
    """Whether a provider would take it: text that is more than spaces, another part, a call, or a tool's result."""
    if message.role is Role.TOOL or message.tool_calls:
        return True
    content = message.content
    if content is None or isinstance(content, str):
        return bool(content and not content.isspace())
    return any(part.type != "text" or (part.text and not part.text.isspace()) for part in content)
