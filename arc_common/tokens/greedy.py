"""Shows as much of a turn as fits where the whole of it does not. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from arc_common.messages import Exchange, Message, Role, Turn

__all__ = ["CLEARED", "SHORTENED", "Changed", "Count", "Fitted", "Shorten", "cleared", "fit_exchanges", "fit_turn"]

CLEARED = "tool result cleared"
SHORTENED = "shortened"

Count = Callable[[Message], int]
"""The tokens of a message."""

Shorten = Callable[[Message, int], Message | None]
"""As much of a message as so many tokens hold; `None` when that is nothing of any use."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A message that stands in the result in another form, and why.

    Args:
        message: The original.
        replacement: What stands in its place.
        reason: "tool result cleared", "truncated" …
        tokens_before: Tokens of the original.
        tokens_after: Tokens of the replacement; 0 where another message's replacement holds it too.
    """

    message: Message
    replacement: Message
    reason: str
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True)
class Fitted:
    """What is shown, in conversation order; what isn't; and what is shown in part. Its tokens are those shown."""

    shown: tuple[Message, ...]
    dropped: tuple[Message, ...]
    changed: tuple[Changed, ...]
    tokens: int


def cleared(message: Message, tokens: int) -> Message:
    """A tool's result with its content taken out, and a word on how much it was; its exact foreign form is gone."""
    return replace(message, content=f"[cleared: {tokens:,} tokens]", origin=None)


def fit_turn(turn: Turn, room: int, *, count: Count, shorten: Shorten | None = None) -> Fitted:
    """As much of a turn as fits: its user message, whole if it fits, and its newest exchanges (see `fit_exchanges`).

    With `shorten`, a user message that does not fit, or whose exchanges then don't, leaves half of the room to them if
    they need it, and more where the newest needs more with its results cleared. Without it nothing is shown of a turn
    whose user message does not fit.
    """
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
    """As much of the exchanges of one turn as fits, the newest first.

    - Calls and their results stay together; order stays; there is no gap: what is dropped is older than what is shown.
    - The newest is shown whole if it fits. Of the others, older tool results are cleared before anything is dropped,
      as far as half of the room holds what is left of them.
    - With `shorten`, the first that does not fit is shortened until it does. This begins with the newest, so that
      results that have just arrived are cut, not cleared.

    Args:
        exchanges: The exchanges, oldest first.
        room: The tokens that there are.
        count: The tokens of a message.
        shorten: Gives as much of a message as fits.
    """
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
    """One exchange as it could be shown: its messages and the tokens of each."""

    messages: tuple[Message, ...]
    costs: tuple[int, ...]

    @property
    def tokens(self) -> int:
        return sum(self.costs)


def _form(exchange: Exchange, count: Count) -> _Form:
    return _Form(exchange.messages, tuple(map(count, exchange.messages)))


def _bare(form: _Form, count: Count) -> _Form:
    """The exchange with its tools' results cleared, where that makes them smaller."""
    messages, costs = list(form.messages), list(form.costs)
    for i, (message, tokens) in enumerate(zip(form.messages, form.costs, strict=True)):
        if message.role is Role.TOOL:
            mark = cleared(message, tokens)
            size = count(mark)
            if size < tokens:
                messages[i], costs[i] = mark, size
    return _Form(tuple(messages), tuple(costs))


def _shortened(form: _Form, room: int, count: Count, shorten: Shorten | None) -> _Form | None:
    """Cut the exchange to fit: the text beside the calls and each result get equal shares and the room others leave.

    Without `shorten` it takes its bare form. `None` if not even the calls and cleared results fit.
    """
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
