"""Selects the messages of a conversation to show: the newest whole turns within limits. Pure."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from arc_common.exceptions import InvalidInputError, check_whole
from arc_common.messages import Exchange, Message, Role, Turn, exchanges_of, turns_of

_LONGEST = 32
"""Characters kept of an id that gets a number suffix: OpenAI allows 40."""

_ID_KEYS = ("call_id", "tool_call_id", "tool_use_id", "tool_id", "id")
"""The keys that hold a call's id at OpenAI, LangChain, Anthropic and LlamaIndex; `call_id` precedes an item's `id`."""
_ARGUMENT_KEYS = ("args", "arguments", "input", "tool_kwargs")
"""The keys of a call's arguments, in which ids are data and stay unchanged."""


def with_distinct_call_ids(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with a new id for each call that repeats an earlier call's id, and for its result."""
    given = [
        call.id for message in messages if message.tool_calls for call in message.tool_calls if call.id is not None
    ]
    taken = set(given)
    if len(given) == len(taken):
        return list(messages)
    seen: set[str] = set()
    numbers: Counter[str] = Counter()
    changed: dict[int, Message] = {}
    for exchange in exchanges_of(messages)[0]:
        caller, *results = exchange.messages
        names: list[str | None] = []
        for call in caller.tool_calls:
            new = call.id
            if call.id is not None and call.id in seen:
                new = _free(call.id, taken, numbers)
                taken.add(new)
            if call.id is not None:
                seen.add(call.id)
            names.append(new)
        old = [call.id for call in caller.tool_calls]
        if names == old:
            continue
        calls = tuple(replace(call, id=name) for call, name in zip(caller.tool_calls, names, strict=True))
        changed[id(caller)] = replace(caller, tool_calls=calls, content=_content(caller, old, names))
        answers: dict[str | None, deque[str | None]] = {}
        for before, after in zip(old, names, strict=True):
            answers.setdefault(before, deque()).append(after)
        for result in results:
            name = answers[result.tool_call_id].popleft()
            content = _content(result, [result.tool_call_id], [name])
            changed[id(result)] = replace(result, tool_call_id=name, content=content)
    return [changed.get(id(message), message) for message in messages]


def renamed_ids(value: Any, old: Sequence[str | None], new: Sequence[str | None]) -> Any:
    """Return a copy of plain values (blocks, a provider's own keys) with new call ids."""
    names: dict[str, deque[str]] = {}
    for before, after in zip(old, new, strict=True):
        if before is not None and after is not None:
            names.setdefault(before, deque()).append(after)
    return _renamed(value, names)


def _renamed(value: Any, names: Mapping[str, deque[str]]) -> Any:
    if isinstance(value, list):
        return [_renamed(one, names) for one in value]
    if not isinstance(value, dict):
        return value
    own = next((value[key] for key in _ID_KEYS if isinstance(value.get(key), str) and value[key] in names), None)
    if own is not None:
        new = names[own].popleft() if len(names[own]) > 1 else names[own][0]
        value = {key: new if key in _ID_KEYS and one == own else one for key, one in value.items()}
    elif value and all(key in names for key in value):
        return {names[key][0]: one for key, one in value.items()}
    return {key: one if key in _ARGUMENT_KEYS else _renamed(one, names) for key, one in value.items()}


def _content(message: Message, old: Sequence[str | None], new: Sequence[str | None]) -> Any:
    """Return the message's content with new ids in its foreign blocks."""
    if old == new or message.content is None or isinstance(message.content, str):
        return message.content
    places = [place for place, part in enumerate(message.content) if part.type == "opaque"]
    blocks = renamed_ids([dict(message.content[place].extra) for place in places], old, new)
    parts = list(message.content)
    for place, block in zip(places, blocks, strict=True):
        parts[place] = replace(parts[place], extra=block)
    return tuple(parts)


def _free(call_id: str, taken: set[str], numbers: Counter[str]) -> str:
    while True:
        numbers[call_id] += 1
        new = f"{call_id[:_LONGEST]}_{numbers[call_id] + 1}"
        if new not in taken:
            return new


CLEARED = "tool result cleared"
SHORTENED = "shortened"

Count = Callable[[Message], int]
"""The tokens of a message."""

Shorten = Callable[[Message, int], Message | None]
"""Shortens a message to a number of tokens; `None` if nothing useful fits."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A message that was replaced by another form, and the reason."""

    message: Message
    replacement: Message
    reason: str
    tokens_before: int
    tokens_after: int  # 0 if another change of the same replacement counts them


@dataclass(frozen=True, slots=True)
class Fitted:
    """The shown messages in conversation order, the dropped and the changed ones, and the tokens shown."""

    shown: tuple[Message, ...]
    dropped: tuple[Message, ...]
    changed: tuple[Changed, ...]
    tokens: int


def cleared(message: Message, tokens: int) -> Message:
    """Return a tool result whose content is replaced by a note of its size, without its `origin`."""
    return replace(message, content=f"[cleared: {tokens:,} tokens]", origin=None)


def fit_turn(turn: Turn, room: int, *, count: Count, shorten: Shorten | None = None) -> Fitted:
    """Fit a turn into `room` tokens: its user message, whole if it fits, and its newest exchanges."""
    user, exchanges = turn.exchanges[0].messages[0], turn.exchanges[1:]
    tokens = count(user)
    fitted = Fitted((), turn.messages, (), 0)
    if tokens <= room:
        steps = fit_exchanges(exchanges, room - tokens, count=count, shorten=shorten)
        fitted = Fitted((user, *steps.shown), steps.dropped, steps.changed, tokens + steps.tokens)
        if steps.shown or not exchanges:
            return fitted
    if shorten is None:
        return fitted
    opening, steps = None, Fitted((), Turn(exchanges).messages, (), 0)
    least = _bare(_form(exchanges[-1], count), count).tokens if exchanges else 0
    for share in (room // 2, max(room - least, 0)):
        opening = shorten(user, share)
        if opening is not None and opening is not user:
            steps = fit_exchanges(exchanges, room - count(opening), count=count, shorten=shorten)
        if steps.shown:
            break
    else:
        opening = None if fitted.shown else shorten(user, room)
    if opening is None:
        return fitted
    opened = shorten(user, room - steps.tokens) or opening
    cost = count(opened)
    changes = (Changed(user, opened, SHORTENED, tokens, cost), *steps.changed)
    return Fitted((opened, *steps.shown), steps.dropped, changes, cost + steps.tokens)


def fit_exchanges(exchanges: Sequence[Exchange], room: int, *, count: Count, shorten: Shorten | None = None) -> Fitted:
    """Fit the exchanges of one turn into `room` tokens, newest first, clearing or shortening older results."""
    if not exchanges:
        return Fitted((), (), (), 0)
    whole = [_form(exchange, count) for exchange in exchanges]
    left = room
    newest = whole[-1] if whole[-1].tokens <= left else _shortened(whole[-1], left, count, shorten)
    if newest is None:
        return _fitted(whole, [])
    left -= newest.tokens
    older = whole[-2::-1]
    bare: list[_Form] = []
    if sum(form.tokens for form in older) > left:
        half = left // 2
        for form in older:
            least = _bare(form, count)
            if least.tokens > half:
                break
            half -= least.tokens
            bare.append(least)
    left -= sum(form.tokens for form in bare)
    forms = [newest]
    for i, form in enumerate(older):
        there = left + (bare[i].tokens if i < len(bare) else 0)
        shown = form if form.tokens <= there else _shortened(form, there, count, shorten)
        if shown is None:
            break
        forms.append(shown)
        left = there - shown.tokens
    return _fitted(whole, forms[::-1])


@dataclass(frozen=True, slots=True)
class _Form:
    """One possible form of an exchange: its messages and the tokens of each."""

    messages: tuple[Message, ...]
    costs: tuple[int, ...]

    @property
    def tokens(self) -> int:
        return sum(self.costs)


def _form(exchange: Exchange, count: Count) -> _Form:
    return _Form(exchange.messages, tuple(map(count, exchange.messages)))


def _bare(form: _Form, count: Count) -> _Form:
    """Return the exchange with its tool results cleared where that saves tokens."""
    messages, costs = list(form.messages), list(form.costs)
    for i, (message, tokens) in enumerate(zip(form.messages, form.costs, strict=True)):
        if message.role is Role.TOOL:
            mark = cleared(message, tokens)
            size = count(mark)
            if size < tokens:
                messages[i], costs[i] = mark, size
    return _Form(tuple(messages), tuple(costs))


def _shortened(form: _Form, room: int, count: Count, shorten: Shorten | None) -> _Form | None:
    """Cut the exchange to fit: the text beside the calls and each result get equal shares and the room others leave."""
    bare = _bare(form, count)
    if shorten is None:
        return bare if bare.tokens <= room else None
    messages, costs = list(bare.messages), list(bare.costs)
    costs[0] = min(costs[0], count(replace(messages[0], content=None, origin=None)))
    left = room - sum(costs)
    if left < 0:
        return None
    more = [whole - least for whole, least in zip(form.costs, costs, strict=True)]
    shares = {0: max(left // len(more), left - sum(more[1:]))}  # then the results, the smallest first
    for place, i in enumerate([0, *sorted(range(1, len(more)), key=more.__getitem__)]):
        share = costs[i] + shares.get(i, left // (len(more) - place))
        shown: Message | None = form.messages[i]
        if form.costs[i] > share:
            shown = shorten(form.messages[i], share)
            if i == 0 and shown is None:  # unlike a result, it can't be cleared
                shown = (
                    form.messages[0] if form.costs[0] <= costs[0] + left else shorten(form.messages[0], costs[0] + left)
                )
                if shown is None:
                    return None
        if shown is None:
            continue
        tokens = form.costs[i] if shown is form.messages[i] else count(shown)
        left -= tokens - costs[i]
        messages[i], costs[i] = shown, tokens
    return _Form(tuple(messages), tuple(costs))


def _fitted(whole: Sequence[_Form], shown: Sequence[_Form]) -> Fitted:
    dropped = [message for form in whole[: len(whole) - len(shown)] for message in form.messages]
    changed = [
        Changed(before, after, _reason(before, after, tokens), tokens, kept)
        for form, part in zip(whole[len(whole) - len(shown) :], shown, strict=True)
        for before, after, tokens, kept in zip(form.messages, part.messages, form.costs, part.costs, strict=True)
        if after is not before
    ]
    return Fitted(
        tuple(message for form in shown for message in form.messages),
        tuple(dropped),
        tuple(changed),
        sum(form.tokens for form in shown),
    )


def _reason(before: Message, after: Message, tokens: int) -> str:
    return CLEARED if after.content == cleared(before, tokens).content else SHORTENED


EMPTY = "nothing in it"
OLDER = "older than the window"
UNANSWERED = "tool call without a result"
ORPHANED = "tool result without a call"
NO_USER = "before the first user message"


@dataclass(frozen=True, slots=True)
class Dropped:
    """A message that was dropped, and the reason."""

    message: Message
    reason: str


@dataclass(frozen=True, slots=True)
class Selection:
    """The kept messages in conversation order, the dropped ones (oldest first by reason), and the changed ones."""

    kept: tuple[Message, ...]
    dropped: tuple[Dropped, ...]
    changed: tuple[Changed, ...] = ()


@dataclass(frozen=True, slots=True)
class CurrentTurn:
    """A conversation split at its newest user message."""

    before: tuple[Message, ...]
    user: Message | None
    running: tuple[Exchange, ...]
    dropped: tuple[Dropped, ...]


def check_limits(**limits: int | None) -> None:
    """Raise `InvalidInputError` for a limit that is negative or not a whole number."""
    for name, limit in limits.items():
        if limit is not None and (type(limit) is not int or limit < 0):
            check_whole(name, limit, least=0)


def current_turn(messages: Sequence[Message], *, live: bool = True) -> CurrentTurn:
    """Find the newest turn."""
    spoken = speaking(messages)
    empty = () if len(spoken) == len(messages) else [one for one in messages if not says_something(one)]
    exchanges, orphans = exchanges_of(spoken)
    start = max((i for i, exchange in enumerate(exchanges) if exchange.role is Role.USER), default=None)
    before = tuple(message for exchange in exchanges[:start] for message in exchange.messages)
    if start is None:
        return CurrentTurn((*orphans, *before), None, (), tuple([Dropped(message, EMPTY) for message in empty]))
    running, unanswered = _answered(exchanges[start + 1 :], live=live)
    dropped = [Dropped(message, UNANSWERED) for exchange in unanswered for message in exchange.messages]
    dropped += [Dropped(message, EMPTY) for message in empty]
    return CurrentTurn((*orphans, *before), exchanges[start].messages[0], tuple(running), tuple(dropped))


def select_window(
    messages: Sequence[Message],
    *,
    max_turns: int | None = None,
    max_messages: int | None = None,
    max_tokens: int | None = None,
    count: Callable[[Message], int] | None = None,
    total: Callable[[Sequence[Message]], int] | None = None,
    live: bool = False,
    keep_opening: bool = False,
    continued: bool = False,
    shorten: Shorten | None = None,
    whole_turns: bool = False,
) -> Selection:
    """Keep the newest turns that fit all limits together; `total` sums up `count`."""
    check_limits(max_turns=max_turns, max_messages=max_messages, max_tokens=max_tokens)
    if max_tokens is not None and count is None:
        raise InvalidInputError("count", count, "a function that counts a message, when max_tokens is given")
    spoken = speaking(messages)
    empty = () if len(spoken) == len(messages) else [one for one in messages if not says_something(one)]
    first = 0
    while first < len(spoken) and spoken[first].role is Role.SYSTEM:
        first += 1
    leading = spoken[:first]
    room = _Room(max_turns, max_messages, max_tokens, count, total)
    room.take(leading, room.cost(leading))
    if _is_plain(spoken, first) and room.takes(spoken[first:], turns=_turns(spoken)):
        return Selection(tuple(spoken), tuple([Dropped(message, EMPTY) for message in empty]))
    exchanges, orphans = exchanges_of(spoken[first:])
    complete, unanswered = _answered(exchanges, live=live)
    turns = turns_of(complete)
    opening = turns.pop(0) if turns and not turns[0].starts_with_user else None
    kept: list[Sequence[Message]] = []  # by turn, newest first; `left` too
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
    """Tracks the rest of each limit."""

    def __init__(
        self,
        turns: int | None,
        messages: int | None,
        tokens: int | None,
        count: Callable[[Message], int] | None,
        total: Callable[[Sequence[Message]], int] | None,
    ) -> None:
        unlimited = float("inf")
        self._turns = unlimited if turns is None else turns
        self._messages = unlimited if messages is None else messages
        self._tokens = unlimited if tokens is None else tokens
        self._all_tokens = self._tokens
        self._count = count if tokens is not None else None
        self._total = total

    def cost(self, messages: Sequence[Message]) -> int:
        """Return the messages' tokens; 0 if tokens are not limited."""
        if self._count is None or not messages:
            return 0
        return sum(map(self._count, messages)) if self._total is None else self._total(messages)

    def takes(self, messages: Sequence[Message], *, turns: int = 0) -> bool:
        """Take the messages if all limits allow it, and return whether they do."""
        if turns > self._turns or len(messages) > self._messages:
            return False
        cost = self.cost(messages)
        if cost > self._tokens:
            return False
        self.take(messages, cost, turns=turns)
        return True

    def take(self, messages: Sequence[Message], cost: int, *, turns: int = 0) -> None:
        """Take the messages regardless of the limits."""
        self._turns -= turns
        self._messages -= len(messages)
        self._tokens -= cost

    def is_wasted_without(self, turn: Turn) -> bool:
        """Return whether only the token limit excludes the turn, and more than a tenth of it is left."""
        if self._count is None or self._turns < 1 or len(turn.messages) > self._messages:
            return False
        return self._tokens > self._all_tokens / 10

    def part_of(self, turn: Turn, shorten: Shorten | None) -> Fitted:
        """Fit as much of a turn as possible, its user message first; nothing if that doesn't fit."""
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
    """Return whether a user message follows the leading ones and there are no tools, so grouping is unnecessary."""
    begins = first < len(messages) and messages[first].role is Role.USER
    return begins and not [one for one in messages if one.tool_calls or one.role is Role.TOOL]


def _turns(messages: Sequence[Message]) -> int:
    return len([message for message in messages if message.role is Role.USER])


def _answered(exchanges: list[Exchange], *, live: bool) -> tuple[list[Exchange], list[Exchange]]:
    """Split exchanges into those a provider accepts and the others; accept open calls at the end of a live turn."""
    last = len(exchanges) - 1
    accepted = [exchange for i, exchange in enumerate(exchanges) if exchange.complete or (live and i == last)]
    refused = [exchange for i, exchange in enumerate(exchanges) if not exchange.complete and not (live and i == last)]
    return accepted, refused


def speaking(messages: Iterable[Message]) -> list[Message]:
    """Return the messages that say something."""
    return [one for one in messages if (type(one.content) is str and one.content.strip()) or says_something(one)]


def says_something(message: Message) -> bool:
    """Return whether a message has text other than whitespace, another part, a call, or is a tool result."""
    if message.role is Role.TOOL or message.tool_calls:
        return True
    content = message.content
    if content is None or isinstance(content, str):
        return bool(content and not content.isspace())
    return any(part.type != "text" or (part.text and not part.text.isspace()) for part in content)
