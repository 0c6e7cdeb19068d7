"""What the providers' rules share: the form of a violation, and who answers which tool call."""

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

from arc_common.messages import ContentPart, Message, Role

__all__ = [
    "Addressed",
    "Call",
    "Violation",
    "addressed",
    "data_url",
    "is_object",
    "pattern",
    "system_text",
    "text_parts",
]


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule of a provider that a request breaks.

    Args:
        rule: The rule's name, the same for each request that breaks it.
        index: The offending message's place in the request; `None` for the request as a whole.
        explanation: What is wrong there.
    """

    rule: str
    index: int | None
    explanation: str


class Call(NamedTuple):
    """A tool call with the id that goes over the wire."""

    id: str
    name: str
    arguments: Mapping[str, Any] | str


class Addressed(NamedTuple):
    """A message with its calls' ids, and for a tool's result the call that it answers."""

    message: Message
    calls: tuple[Call, ...] = ()
    answers: Call | None = None


def addressed(messages: Sequence[Message]) -> Iterator[Addressed]:
    """Give each tool call an id and each tool result the id and the name of its call, as every provider wants them.

    - Ids that are there stay as they are, unique or not.
    - Calls without an id get one that no other call has; results without one answer them in order.
    - A result that answers no call before it keeps what it says, and an empty id if it says nothing.
    """
    waiting: deque[Call] = deque()
    given = {call.id for message in messages for call in message.tool_calls}
    unused = (name for number in count() if (name := f"call_{number}") not in given)
    known: dict[str, Call] = {}
    for message in messages:
        if message.role is Role.TOOL:
            if message.tool_call_id is None and waiting:
                yield Addressed(message, answers=waiting.popleft())
            else:
                stated = message.tool_call_id or ""
                called = known.get(stated)
                yield Addressed(message, answers=called or Call(stated, message.name or "", {}))
        elif message.tool_calls:
            calls = []
            for call in message.tool_calls:
                if call.id is None:
                    calls.append(Call(next(unused), call.name, call.arguments))
                    waiting.append(calls[-1])
                else:
                    calls.append(Call(call.id, call.name, call.arguments))
                    known[call.id] = calls[-1]
            yield Addressed(message, tuple(calls))
        else:
            yield Addressed(message)


def system_text(messages: Sequence[Message]) -> str:
    """All system messages as the one text that a provider with a place of its own for it takes."""
    texts = [message.text for message in messages if message.role is Role.SYSTEM]
    return "\n\n".join(text for text in texts if text.strip())


def text_parts(message: Message) -> Sequence[ContentPart]:
    """The message's content as parts; text alone is one part, and nothing is none."""
    if isinstance(message.content, str):
        return (ContentPart("text", text=message.content),)
    return message.content or ()


def data_url(part: ContentPart) -> str:
    """Where an image, a sound or a file lies, or itself as a data URL."""
    if part.data is not None:
        return f"data:{part.mime_type or 'application/octet-stream'};base64,{part.data}"
    return part.url or ""


def is_object(value: object) -> bool:
    """Whether a value is what JSON calls an object."""
    return isinstance(value, Mapping)


def pattern(expression: str) -> "re.Pattern[str]":
    """A pattern that a whole value has to match."""
    return re.compile(rf"(?:{expression})\Z")
