"""Call ids that no two calls of a request share. Pure."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from arc_common.messages import Message, exchanges_of

__all__ = ["renamed_ids", "with_distinct_call_ids"]

_LONGEST = 32
"""Characters kept of an id that gets a number: OpenAI takes 40."""

_ID_KEYS = ("call_id", "tool_call_id", "tool_use_id", "tool_id", "id")
"""The keys that hold a call's id at OpenAI, LangChain, Anthropic and LlamaIndex; `call_id` precedes an item's `id`."""
_ARGUMENT_KEYS = ("args", "arguments", "input", "tool_kwargs")
"""Ids in arguments are data and stay as they are."""


def with_distinct_call_ids(messages: Sequence[Message]) -> list[Message]:
    """The messages with another id for each call whose id an earlier call has, and for its result.

    Some models number their calls anew in each answer (`search:0`, `search:1`); Anthropic refuses a request in which a
    call's id comes twice ("`tool_use` ids must be unique"), OpenAI a message in which it does.

    - The first call of an id keeps it, so that what comes later changes nothing before it.
    - Results follow the call that they answer, as `exchanges_of` pairs them. Calls without ids stay so.
    - Ids in foreign blocks are renamed, too. `origin` stays as it is: the adapters rename the ids in messages made from
      it.
    - Messages that need no other id are the same objects.
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
    """Return a copy of plain values (blocks, a provider's own keys) with new call ids.

    - An id shared by several calls is replaced in their order, once for each dictionary that holds it.
    - In a dictionary keyed by call ids, the keys are replaced. Arguments and texts stay as they are.

    Args:
        value: Lists and dictionaries; any other value is returned as it is.
        old: The calls' ids.
        new: Their new ids, in the same order.
    """
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
