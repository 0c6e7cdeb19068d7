"""Common parts of the providers' rules: violations, and the matching of results to tool calls."""

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

from arc_common.messages import ContentPart, Message, Role


@dataclass(frozen=True, slots=True)
class Violation:
    """A provider's rule that a message breaks, or the whole request (`index` is `None`)."""

    rule: str
    index: int | None
    explanation: str


class Call(NamedTuple):
    """A tool call with the id that is sent."""

    id: str
    name: str
    arguments: Mapping[str, Any] | str


class Addressed(NamedTuple):
    """A message with the ids of its calls, or with the call that a tool result answers."""

    message: Message
    calls: tuple[Call, ...] = ()
    answers: Call | None = None


def addressed(messages: Sequence[Message]) -> Iterator[Addressed]:
    """Give each tool call an id and each tool result the id and name of its call, as every provider requires.

    - Given ids are kept, unique or not.
    - Calls without an id get a unique one; results without one answer them in order.
    - A result that answers no earlier call keeps its id, or gets an empty one.
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
    """Join all system messages, for providers with a separate field for them."""
    texts = [message.text for message in messages if message.role is Role.SYSTEM]
    return "\n\n".join(text for text in texts if text.strip())


def text_parts(message: Message) -> Sequence[ContentPart]:
    """Return the content as parts: one for plain text, none for no content."""
    if isinstance(message.content, str):
        return (ContentPart("text", text=message.content),)
    return message.content or ()


def data_url(part: ContentPart) -> str:
    """Return the URL of an image, sound or file, or a data URL of its bytes."""
    if part.data is not None:
        return f"data:{part.mime_type or 'application/octet-stream'};base64,{part.data}"
    return part.url or ""


def is_object(value: object) -> bool:
    """Return whether a value is a JSON object."""
    return isinstance(value, Mapping)


def pattern(expression: str) -> "re.Pattern[str]":
    """Compile a pattern that must match a whole value."""
    return re.compile(rf"(?:{expression})\Z")
