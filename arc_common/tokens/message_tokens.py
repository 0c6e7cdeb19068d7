"""Counts messages, tool definitions and response schemas: their texts plus the framing that providers add."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from arc_common.exceptions import InvalidInputError
from arc_common.messages import ContentPart, Message
from arc_common.protocols import TokenCounter
from arc_common.serialization import dumps

REQUEST_OVERHEAD = 3
"""Tokens once per request: each reply is primed with <|start|>assistant<|message|> (OpenAI cookbook)."""

_MESSAGE = 4
"""Per message: three of framing, one for the role's name (OpenAI cookbook, "How to count tokens")."""
_NAME = 1
"""Per message with a name, besides the name itself (same source)."""
_TOOL_CALL = 3
"""Per tool call, besides its name, id and arguments: it is framed like a message."""

_IMAGE, _IMAGE_LOW = 765, 85
"""An image without `detail: low` is taken as 1,024 × 1,024: 85 + 4 tiles × 170 (OpenAI, "Images and vision")."""
_AUDIO = 600
"""Audio whose size is unknown is taken as one minute: 10 tokens a second (OpenAI, audio input)."""
_AUDIO_BYTES_PER_TOKEN = 1_600
"""128 kbit/s, as MP3; uncompressed audio is over-counted."""
_FILE = 2_000
"""A file whose size is unknown is taken as one dense page (Anthropic: 1,500 to 3,000 tokens per PDF page)."""
_FILE_BYTES_PER_TOKEN = 32
"""A page of a PDF takes about 64 kB."""
_TEXT_BYTES_PER_TOKEN = 4
"""For attached files that are text."""

_TEXT_TYPES = re.compile(r"text/|application/(json|xml|x-yaml|yaml|javascript|toml)\b|.*\+(json|xml)\b")
_BINARY = re.compile(r"[A-Za-z0-9+/_-]{512,}={0,2}")
"""Long base64 text inside a foreign block, which the model receives as an image or audio, not as text."""


def message_tokens(counter: TokenCounter, message: Message) -> int:
    """Return the raw tokens that one message adds to a request: see `message_tokens_batch`."""
    return message_tokens_batch(counter, (message,))[0]


def message_tokens_batch(counter: TokenCounter, messages: Sequence[Message]) -> list[int]:
    """Return the raw tokens (without correction) that each message adds to a request, in order."""
    texts: list[str] = []
    fixed: list[int] = []
    ends = [0]
    for message in messages:
        tokens = _MESSAGE
        for piece in _pieces(message):
            if isinstance(piece, str):
                texts.append(piece)
            else:
                tokens += piece
        fixed.append(tokens)
        ends.append(len(texts))
    counts = counter.count_batch(texts)
    try:
        sums = list(accumulate(counts, initial=0))
    except TypeError as error:
        raise InvalidInputError("token_counter", counts, "a counter whose count_batch returns numbers") from error
    return [tokens + sums[end] - sums[start] for tokens, (start, end) in zip(fixed, pairwise(ends), strict=True)]


def tools_tokens(counter: TokenCounter, tools: Sequence[Mapping[str, Any]] | None) -> int:
    """Return the raw tokens that tool definitions add to a request, as compact JSON."""
    if not tools:
        return 0
    return sum(counter.count_batch([_json(tool, "tools") for tool in tools]))


def schema_tokens(counter: TokenCounter, response_format: Mapping[str, Any] | None) -> int:
    """Return the raw tokens that a response format (a JSON schema) adds to a request, as compact JSON."""
    return counter.count(_json(response_format, "response_format")) if response_format else 0


def _pieces(message: Message) -> Iterator[str | int]:
    """Yield a message's texts to count, and the token counts of its other parts."""
    if isinstance(message.content, str):
        yield message.content
    else:
        for part in message.content or ():
            yield from _part_pieces(part)
    for call in message.tool_calls:
        yield _TOOL_CALL
        yield call.name
        yield call.arguments if isinstance(call.arguments, str) else _arguments(call.arguments)
        if call.id is not None:
            yield call.id
    if message.tool_call_id is not None:
        yield message.tool_call_id
    if message.name is not None:
        yield message.name
        yield _NAME


def _part_pieces(part: ContentPart) -> Iterator[str | int]:
    if part.text is not None:
        yield part.text
    if part.type == "image":
        yield _IMAGE_LOW if part.extra.get("detail") == "low" else _IMAGE
    elif part.type == "audio":
        yield _AUDIO if part.data is None else _size(part.data) // _AUDIO_BYTES_PER_TOKEN + 1
    elif part.type == "file":
        if part.name is not None:
            yield part.name
        if part.data is not None:
            is_text = part.mime_type is not None and _TEXT_TYPES.match(part.mime_type)
            yield _size(part.data) // (_TEXT_BYTES_PER_TOKEN if is_text else _FILE_BYTES_PER_TOKEN) + 1
        elif part.text is None:
            yield _FILE
    elif part.type == "opaque":
        text = dumps(dict(part.extra), field="content.extra")
        yield _BINARY.sub("", text)
        yield sum(_size(found) // _FILE_BYTES_PER_TOKEN + 1 for found in _BINARY.findall(text))


def _size(base64_text: str) -> int:
    """Return the number of bytes that a base64 text encodes."""
    return len(base64_text) * 3 // 4


def _arguments(arguments: Mapping[str, Any]) -> str:
    """Return a call's arguments as the JSON text that frameworks send."""
    try:
        return json.dumps(dict(arguments), ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):  # a key that JSON can't represent, or a circular value
        return dumps(dict(arguments), field="message.tool_calls.arguments")


def _json(value: object, field: str) -> str:
    if not isinstance(value, Mapping):
        raise InvalidInputError(field, value, "a JSON schema as a mapping")
    try:
        return json.dumps(dict(value), ensure_ascii=False, separators=(",", ":"), default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(field, value, "a value that JSON can represent") from error
