"""Which messages of a conversation a model gets to see: the newest whole turns within limits. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from arc_common.exceptions import InvalidInputError
from arc_common.messages import Exchange, Message, Role, Turn, exchanges_of, turns_of

__all__ = ["Dropped", "Selection", "check_limits", "last_messages", "last_turns", "select_window", "within_tokens"]

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
    """What was kept, in conversation order, and what was left out, oldest first by reason."""

    kept: tuple[Message, ...]
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


def select_window(
    messages: Sequence[Message],
    *,
    max_turns: int | None = None,
    max_messages: int | None = None,
    max_tokens: int | None = None,
    count: Callable[[Message], int] | None = None,
    live: bool = False,
    keep_opening: bool = False,
) -> Selection:
    """Keep the newest turns that fit all limits together.

    - A tool call and its results are kept together or not at all; results that came late stand behind their call.
    - Turns are kept whole and without gaps. Only when the newest turn alone is too large, its user message is kept
      with its newest exchanges.
    - The first message that is not a system message is the user's.
    - System messages at the very start are kept and counted before anything else.
    - Order is the conversation's; there are no duplicates; the input is not changed.

    Args:
        messages: The conversation, oldest first.
        max_turns: At most so many turns.
        max_messages: At most so many messages, leading system messages included.
        max_tokens: At most so many tokens, leading system messages included.
        count: The tokens of a message; needed with `max_tokens`.
        live: Whether the newest turn is still running: calls without results at its end are then kept.
        keep_opening: Keep what comes before the first user message (a greeting) when everything else fits too.

    Raises:
        InvalidInputError: A limit is negative or no whole number.
    """
    check_limits(max_turns=max_turns, max_messages=max_messages, max_tokens=max_tokens)
    if max_tokens is not None and count is None:
        raise InvalidInputError("count", count, "a function that counts a message, when max_tokens is given")
    first = next((i for i, message in enumerate(messages) if message.role is not Role.SYSTEM), len(messages))
    leading = list(messages[:first])
    exchanges, orphans = exchanges_of(messages[first:])
    complete, unanswered = _answered(exchanges, live=live)
    turns = turns_of(complete)
    opening = turns.pop(0) if turns and not turns[0].starts_with_user else None

    room = _Room(max_turns, max_messages, max_tokens, count)
    room.take(leading)
    kept: list[Message] = []
    left: list[Message] = []
    for turn in reversed(turns):
        if not left and room.fits(turn.messages, turns=1):
            room.take(turn.messages, turns=1)
            kept[:0] = turn.messages
        elif not left and not kept:
            kept, left = _newest_part(turn, room)
        else:
            left[:0] = turn.messages
    dropped = [Dropped(message, OLDER) for message in left]
    if opening is not None:
        if keep_opening and not left and room.fits(opening.messages):
            kept[:0] = opening.messages
        else:
            dropped += [Dropped(message, NO_USER) for message in opening.messages]
    dropped += [Dropped(message, UNANSWERED) for exchange in unanswered for message in exchange.messages]
    dropped += [Dropped(message, ORPHANED) for message in orphans]
    return Selection((*leading, *kept), tuple(dropped))


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
        self._count = count if tokens is not None else None

    def fits(self, messages: Sequence[Message], *, turns: int = 0) -> bool:
        if turns > self._turns or len(messages) > self._messages:
            return False
        return self._cost(messages) <= self._tokens

    def take(self, messages: Sequence[Message], *, turns: int = 0) -> None:
        self._turns -= turns
        self._messages -= len(messages)
        self._tokens -= self._cost(messages)

    def _cost(self, messages: Sequence[Message]) -> int:
        return sum(map(self._count, messages)) if self._count else 0


def _answered(exchanges: list[Exchange], *, live: bool) -> tuple[list[Exchange], list[Exchange]]:
    """Those that a provider accepts, and the others; calls at the end of a live turn are still to be answered."""
    last_complete = max((i for i, exchange in enumerate(exchanges) if exchange.complete), default=-1)
    accepted = [exchange for i, exchange in enumerate(exchanges) if exchange.complete or (live and i > last_complete)]
    refused = [
        exchange for i, exchange in enumerate(exchanges) if not exchange.complete and not (live and i > last_complete)
    ]
    return accepted, refused


def _newest_part(turn: Turn, room: _Room) -> tuple[list[Message], list[Message]]:
    """The user message of a turn that is too large, with as many of its newest exchanges as fit."""
    user, *exchanges = turn.exchanges
    if not room.fits(user.messages, turns=1):
        return [], list(turn.messages)
    room.take(user.messages, turns=1)
    kept: list[Message] = []
    while exchanges and room.fits(exchanges[-1].messages):
        newest = exchanges.pop()
        room.take(newest.messages)
        kept[:0] = newest.messages
    return [*user.messages, *kept], [message for exchange in exchanges for message in exchange.messages]
