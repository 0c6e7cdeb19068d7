"""Call ids that no two calls of a request share. Pure."""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace

from arc_common.messages import Message, exchanges_of

__all__ = ["with_distinct_call_ids"]

_LONGEST = 32
"""Characters kept of an id that gets a number: OpenAI takes 40."""


def with_distinct_call_ids(messages: Sequence[Message]) -> list[Message]:
    """The messages with another id for each call whose id an earlier call has, and for its result.

    Some models number their calls anew in each answer (`search:0`, `search:1`); Anthropic refuses a request in which a
    call's id comes twice ("`tool_use` ids must be unique"), OpenAI a message in which it does.

    - The first call of an id keeps it, so that what comes later changes nothing before it.
    - Results follow the call that they answer, as `exchanges_of` pairs them. Calls without ids stay so.
    - Messages that need no other id are the same objects; the others lose their exact foreign form.
    """
    given = [call.id for message in messages for call in message.tool_calls if call.id is not None]
    taken = set(given)
    if len(given) == len(taken):
        return list(messages)
    seen: set[str] = set()
    numbers: Counter[str] = Counter()
    changed: dict[int, Message] = {}
    for exchange in exchanges_of(messages)[0]:
        caller, *results = exchange.messages
        answers: dict[str | None, deque[str | None]] = {}
        for call in caller.tool_calls:
            new = call.id
            if call.id is not None and call.id in seen:
                new = _free(call.id, taken, numbers)
                taken.add(new)
            if call.id is not None:
                seen.add(call.id)
            answers.setdefault(call.id, deque()).append(new)
        if all(new == old for old, ids in answers.items() for new in ids):
            continue
        queues = {old: deque(ids) for old, ids in answers.items()}
        calls = tuple(replace(call, id=queues[call.id].popleft()) for call in caller.tool_calls)
        changed[id(caller)] = replace(caller, tool_calls=calls, origin=None)
        for result in results:
            changed[id(result)] = replace(result, tool_call_id=answers[result.tool_call_id].popleft(), origin=None)
    return [changed.get(id(message), message) for message in messages]


def _free(call_id: str, taken: set[str], numbers: Counter[str]) -> str:
    while True:
        numbers[call_id] += 1
        new = f"{call_id[:_LONGEST]}_{numbers[call_id] + 1}"
        if new not in taken:
            return new
