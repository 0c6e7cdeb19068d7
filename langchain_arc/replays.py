"""Finds the new messages of a batch: LangChain's wrappers return the conversation along with what was added."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from arc_common.messages import Message, Role, same_content
from langchain_arc.messages import from_arc, to_arc

_ANSWERING = (Role.ASSISTANT, Role.TOOL)


def new_messages(batch: Sequence[Message], known: Mapping[str, Message | None]) -> list[Message]:
    """Return the messages of a batch that are to be stored, in their order."""
    messages = _without_doubled_input(batch, known)
    end = 1 + max((i for i, it in enumerate(messages) if it.role is Role.USER and it.id in known), default=-1)
    while end < len(messages) and messages[end].id in known:
        end += 1
    fresh = [it for it in messages[:end] if it.id is None or it.id not in known or _edited(it, known[it.id])]
    taken = set(known)
    for message in messages[end:]:
        fresh.append(replace(message, id=None) if message.id in taken and message.role in _ANSWERING else message)
        if message.id is not None:
            taken.add(message.id)
    return fresh


def taken_meanwhile(given: Sequence[Message], stored: Sequence[Message], known: Collection[str]) -> list[Message]:
    """Return, without their ids, the answers not stored because another run just stored the same id."""
    now = next((kept.created_at for message, kept in zip(given, stored, strict=True) if message.id is None), None)
    return [
        replace(message, id=None)
        for message, kept in zip(given, stored, strict=True)
        if now is not None and kept.created_at != now and message.id not in known and message.role in _ANSWERING
    ]


def _edited(message: Message, stored: Message | None) -> bool:
    """Return whether the message differs from the stored one, as it is and after a round trip through LangChain."""
    return (
        stored is not None and not same_content(message, stored) and not same_content(message, to_arc(from_arc(stored)))
    )


def _without_doubled_input(batch: Sequence[Message], known: Collection[str]) -> list[Message]:
    again = next((i for i in range(1, len(batch)) if batch[i].id not in known and _same(batch[0], batch[i])), 0)
    length = 0
    while length < again and again + length < len(batch) and _same(batch[length], batch[again + length]):
        length += 1
    between = batch[length:again]
    if batch and batch[0].id is None and not all(_from_state(message, known) for message in between):
        return list(batch)
    return list(batch[length:])


def _same(one: Message, later: Message) -> bool:
    """Return whether both are the same message; the earlier one may not have had its id yet."""
    if one.id is None:
        return later.id is not None and same_content(one, later)
    return one.id == later.id


def _from_state(message: Message, known: Collection[str]) -> bool:
    """Return whether a message can precede the input in a graph's state; an unknown answer can't."""
    return message.id in known or (message.id is not None and message.role not in _ANSWERING)
