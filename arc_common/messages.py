"""Messages, and their groups that selection keeps whole: exchanges and turns."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import MAXYEAR, MINYEAR, UTC, datetime, tzinfo
from enum import StrEnum
from typing import Any, Literal, Self, TypeVar, get_args

from arc_common.documents import checked_items
from arc_common.exceptions import InvalidInputError, or_converted
from arc_common.trust import SOURCE, Trust

MAX_ID_LENGTH = 255
"""The most characters in an id from a caller."""

ARC_MARK = "arc"
"""The metadata key that marks messages created by arc, which are never stored."""

PartType = Literal["text", "image", "audio", "file", "thinking", "opaque"]
_PART_TYPES = frozenset(get_args(PartType))


_Choice = TypeVar("_Choice", bound=StrEnum)


def check_identifier(field_name: str, value: object, *, longest: int = MAX_ID_LENGTH) -> str:
    """Return the id unchanged if it is text of 1 to 255 (`longest`) characters that any store can hold; else raise."""
    if type(value) is str and value.isascii() and value.isprintable() and value.strip() and len(value) <= longest:
        return value
    if not isinstance(value, str):
        raise InvalidInputError(field_name, value, "text")
    if not value.strip():
        raise InvalidInputError(field_name, value, "text that is not empty")
    if len(value) > longest:
        raise InvalidInputError(field_name, value, f"at most {longest:,} characters, not {len(value):,}")
    return check_text(field_name, value)


def check_text(field_name: str, value: object) -> str:
    """Return the text unchanged if any store can hold it; raise `InvalidInputError` otherwise."""
    if not isinstance(value, str):
        raise InvalidInputError(field_name, value, "text")
    if not is_storable(value):
        raise InvalidInputError(field_name, value, "text without NUL characters and lone surrogates")
    return value


def is_storable(text: str) -> bool:
    """Return whether a text has neither NUL characters nor lone surrogates, which databases refuse."""
    return "\x00" not in text and is_utf8(text)


def is_utf8(text: str) -> bool:
    """Return whether a text has no lone surrogates."""
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        return False
    return True


def member_of(kind: type[_Choice], value: object, field_name: str) -> _Choice:
    """Return the member of an enumeration that a text names, whatever its case; raise for any other value."""
    name = value.strip().casefold() if isinstance(value, str) else None
    for member in kind:
        if member.value.casefold() == name:
            return member
    raise InvalidInputError(field_name, value, f"one of {', '.join(kind)}")


class Role(StrEnum):
    """The speaker of a message. Parsed case-insensitively: `Role("User") is Role.USER`."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return member_of(cls, value, "role")


@dataclass(frozen=True, slots=True)
class ContentPart:
    """One piece of a message's content.

    Args:
        type: The kind of part. `opaque` is a foreign block that arc stores without interpreting it.
        text: The text of `text` and `thinking` parts.
        url: The URL of an image, audio or file part.
        data: The part's bytes as base64 text, if the message contains them.
        mime_type: The MIME type of `url` or `data`.
        name: A file's name or title, or an opaque block's kind.
        extra: Other storable values of the foreign block (an image's detail, a signature).
    """

    type: PartType
    text: str | None = None
    url: str | None = None
    data: str | None = None
    mime_type: str | None = None
    name: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.type, str) or self.type not in _PART_TYPES:
            raise InvalidInputError("content.type", self.type, f"one of {', '.join(sorted(_PART_TYPES))}")
        if self.type == "text" and not isinstance(self.text, str):
            raise InvalidInputError("content.text", self.text, "text")
        for name in ("text", "url", "data", "mime_type", "name"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise InvalidInputError(f"content.{name}", value, "text or None")
        if not isinstance(self.extra, Mapping):
            raise InvalidInputError("content.extra", self.extra, "a mapping")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call in an assistant message.

    Args:
        name: The tool's name.
        arguments: The arguments by name, or the raw text if it was not valid JSON.
        id: The id that the result refers to. Without ids, results are paired with calls in order.
    """

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InvalidInputError("tool_calls.name", self.name, "text")
        if not isinstance(self.arguments, Mapping | str):
            raise InvalidInputError("tool_calls.arguments", self.arguments, "a mapping or the raw text")
        if self.id is not None and not isinstance(self.id, str):
            raise InvalidInputError("tool_calls.id", self.id, "text or None")


@dataclass(frozen=True, slots=True)
class Origin:
    """The foreign object that a message was converted from: its format ("langchain") and its exact JSON text."""

    format: str
    json: str

    def __post_init__(self) -> None:
        for name in ("format", "json"):
            if not isinstance(getattr(self, name), str):
                raise InvalidInputError(f"origin.{name}", getattr(self, name), "text")


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation. Immutable; `dataclasses.replace` returns a changed copy.

    - `None` and `""` are different contents.
    - Two messages with the same `id`, `content`, `tool_calls`, `tool_call_id` and `name` are the same message, whatever
      their `metadata` and `origin`.

    Args:
        role: The speaker; text is parsed case-insensitively.
        content: Text, typed parts, or `None`.
        tool_calls: The tool calls of an assistant message.
        tool_call_id: The call that a tool message answers.
        name: The speaker's or the tool's name.
        id: Unique within the session; generated when the message is stored, if it has none.
        created_at: The time with zone; set when the message is stored, if it has none.
        metadata: Storable values of the application's own.
        origin: The exact foreign object, kept by the adapters if the other fields don't express all of it.
    """

    role: Role
    content: str | tuple[ContentPart, ...] | None = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    id: str | None = None
    created_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    origin: Origin | None = None

    def __post_init__(self) -> None:
        if type(self.role) is not Role:
            if not isinstance(self.role, str):  # Enum would repr the value, which fails if it is nested too deep
                raise InvalidInputError("role", self.role, "one of system, user, assistant, tool")
            object.__setattr__(self, "role", Role(self.role))
        content = self.content
        if isinstance(content, str):
            if type(content) is not str:
                object.__setattr__(self, "content", str(content))
        elif content is not None:
            expected = "text, a sequence of ContentPart, or None"
            parts = checked_items("message.content", content, ContentPart, expected=expected)
            object.__setattr__(self, "content", tuple(parts))
        if self.tool_calls:
            calls = checked_items("message.tool_calls", self.tool_calls, ToolCall, expected="a sequence of ToolCall")
            object.__setattr__(self, "tool_calls", tuple(calls))
        elif type(self.tool_calls) is not tuple:
            object.__setattr__(self, "tool_calls", ())
        if self.id is not None:
            check_identifier("message.id", self.id)
        for name, value in (("tool_call_id", self.tool_call_id), ("name", self.name)):
            if value is not None and not isinstance(value, str):
                raise InvalidInputError(f"message.{name}", value, "text or None")
        if self.created_at is not None and (
            not isinstance(self.created_at, datetime) or self.created_at.tzinfo is None
        ):
            raise InvalidInputError("message.created_at", self.created_at, "a datetime with a time zone")
        if self.origin is not None and not isinstance(self.origin, Origin):
            raise InvalidInputError("message.origin", self.origin, "an Origin or None")
        if type(self.metadata) is not dict and not isinstance(self.metadata, Mapping):
            raise InvalidInputError("message.metadata", self.metadata, "a mapping")

    @property
    def text(self) -> str:
        """The message's text, or its text parts joined; `""` if there are none."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text or "" for part in self.content or () if part.type == "text")

    @property
    def made_by_arc(self) -> bool:
        """Return whether arc created this message; such messages are never stored."""
        return ARC_MARK in self.metadata

    @property
    def trust(self) -> Trust:
        """The trust of the message's own words: by its role, or untrusted if it names a source (`SOURCE`)."""
        if SOURCE in self.metadata or self.role is Role.TOOL:
            return Trust.UNTRUSTED
        return Trust.ASSISTANT if self.role is Role.ASSISTANT else Trust.USER

    def stored_as(self, message_id: str, created_at: datetime) -> "Message":
        """Return the message with an id and a time (in UTC), keeping existing ones."""
        created = (self.created_at or created_at).astimezone(UTC)
        if self.id is not None and created is self.created_at:
            return self
        fields = self.role, self.content, self.tool_calls, self.tool_call_id, self.name, self.id or message_id, created
        return Message(*fields, self.metadata, self.origin)  # `replace` takes twice as long


def as_message(field_name: str, value: object, role: Role) -> Message:
    """Return a message; text becomes one of this role."""
    if isinstance(value, Message):
        return value
    if isinstance(value, str):
        return Message(role, value)
    raise InvalidInputError(field_name, value, or_converted("text or a Message", value))


@dataclass(frozen=True, slots=True)
class Exchange:
    """The unit of selection: a user or system message, or an assistant message with its tool results.

    `complete` is false while a call has no result; providers refuse such an exchange unless the result comes next.
    """

    messages: tuple[Message, ...]
    complete: bool = True

    @property
    def role(self) -> Role:
        """The role of the first message."""
        return self.messages[0].role


@dataclass(frozen=True, slots=True)
class Turn:
    """A user message and the exchanges up to the next one; only the first turn may lack a user message."""

    exchanges: tuple[Exchange, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """The turn's messages, in conversation order."""
        if len(self.exchanges) == 1:
            return self.exchanges[0].messages
        return tuple(message for exchange in self.exchanges for message in exchange.messages)

    @property
    def starts_with_user(self) -> bool:
        """Return whether the turn begins with a user message, so that it can open a request."""
        return self.exchanges[0].role is Role.USER


def exchanges_of(messages: Sequence[Message]) -> tuple[list[Exchange], list[Message]]:
    """Group messages into exchanges, in conversation order; return them and the tool results that answer no open call.

    - Each tool result follows the assistant message with its call, even if it arrived later, between other writers'
      messages.
    - A repeated call id refers to the latest call that has no result yet; calls without ids are answered in order.
    """
    groups: list[list[Message]] = []
    open_calls: dict[str | None, deque[int]] = {}
    missing: dict[int, int] = {}
    orphans: list[Message] = []
    for message in messages:
        if message.role is Role.TOOL:
            waiting = open_calls.get(message.tool_call_id or None)
            if not waiting:
                orphans.append(message)
                continue
            index = waiting.pop() if message.tool_call_id else waiting.popleft()
            groups[index].append(message)
            missing[index] -= 1
            continue
        for call in message.tool_calls:
            open_calls.setdefault(call.id or None, deque()).append(len(groups))
        if message.tool_calls:
            missing[len(groups)] = len(message.tool_calls)
        groups.append([message])
    return [Exchange(tuple(group), not missing.get(i)) for i, group in enumerate(groups)], orphans


def turns_of(exchanges: Sequence[Exchange]) -> list[Turn]:
    """Group exchanges into turns; exchanges before the first user message form a turn without one."""
    groups: list[list[Exchange]] = []
    for exchange in exchanges:
        if exchange.role is Role.USER or not groups:
            groups.append([])
        groups[-1].append(exchange)
    return [Turn(tuple(group)) for group in groups]


def same_content(one: Message, other: Message) -> bool:
    """Return whether role, text, other parts, calls and names are equal, whichever framework the messages came through.

    `None` and `""` are equal here, because not every framework can tell them apart.
    """
    return content_of(one) == content_of(other)


def content_of(message: Message) -> tuple[object, ...]:
    """Return the content of a message that `same_content` compares."""
    parts = message.content if isinstance(message.content, tuple) else ()
    things = [
        (part.type, part.url, part.data, part.mime_type, part.text)
        for part in parts
        if part.type not in ("text", "opaque")
    ]
    return message.role, message.text, message.tool_calls, message.tool_call_id, message.name, things


_PART_FIELDS = ("text", "url", "data", "mime_type", "name")


def plain_fields(message: Message) -> dict[str, Any]:
    """Return a message's fields, except role, id and time, as plain values; empty ones are left out."""
    content = message.content
    plain: dict[str, Any] = {"content": content}
    if content is not None and not isinstance(content, str):
        plain["content"] = [_plain_part(part) for part in content]
    if message.tool_calls:
        plain["tool_calls"] = [
            {
                "name": call.name,
                "arguments": call.arguments if isinstance(call.arguments, str) else dict(call.arguments),
                "id": call.id,
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        plain["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        plain["name"] = message.name
    if message.metadata:
        plain["metadata"] = dict(message.metadata)
    if message.origin is not None:
        plain["origin"] = [message.origin.format, message.origin.json]
    return plain


def _plain_part(part: ContentPart) -> dict[str, Any]:
    given = {name: value for name in _PART_FIELDS if (value := getattr(part, name)) is not None}
    extra = {"extra": dict(part.extra)} if part.extra else {}
    return {"type": part.type, **given, **extra}


def fields_from_plain(plain: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `Message` for the value of `plain_fields`."""
    if isinstance(plain["content"], list):
        plain["content"] = tuple(ContentPart(**part) for part in plain["content"])
    if "tool_calls" in plain:
        plain["tool_calls"] = tuple(ToolCall(**call) for call in plain["tool_calls"])
    if "origin" in plain:
        plain["origin"] = Origin(*plain["origin"])
    return plain


def local(moment: datetime, zone: tzinfo | None) -> datetime:
    """Return a time in the zone whose days prompts show; the calendar's first and last year stay as they are."""
    return moment if moment.year in (MINYEAR, MAXYEAR) else moment.astimezone(zone)
