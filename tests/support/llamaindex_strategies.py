"""Hypothesis strategies for LlamaIndex chat messages: every role, every block, every additional field."""

import base64
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

from hypothesis import strategies as st
from llama_index.core.base.llms.types import (
    AudioBlock,
    CacheControl,
    CachePoint,
    ChatMessage,
    CitableBlock,
    CitationBlock,
    DocumentBlock,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)
from llama_index.core.llms.llm import ToolSelection

texts = st.text(max_size=30)
names = st.text("abcdefghij_", min_size=1, max_size=12)
ids = st.none() | st.text("abc-0123", min_size=1, max_size=10)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
arguments = st.dictionaries(names, json_values, max_size=3)

_SIGNATURES = [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"%PDF-1.7", b"RIFF\x00\x00\x00\x00WAVEfmt ", b""]
binary = st.builds(lambda head, tail: head + tail, st.sampled_from(_SIGNATURES), st.binary(max_size=20))
urls = st.sampled_from(
    [
        "https://example.com",
        "https://example.com/a%20b.png?x=1#y",
        "https://user@example.com:8443/ü/картинка.jpg",
        "file:///no/such/file.wav",
        "s3://bucket/key.mp4",
        "data:image/png;base64," + base64.b64encode(b"\x89PNG").decode(),
    ]
)
_HERE = Path(__file__)


def media(cls, data_field, **fields):
    """Draw blocks of a class with bytes, a URL, or the path of an existing file."""
    options = {name: st.none() | strategy for name, strategy in fields.items()}
    return st.one_of(
        st.builds(cls, **{data_field: binary}, **options),
        st.builds(cls, url=urls, **options),
        st.builds(cls, **{data_field: binary}, url=urls, **options),
        st.builds(cls, path=st.just(_HERE), **options),
    )


text_blocks = st.builds(TextBlock, text=texts)
image_blocks = media(
    ImageBlock,
    "image",
    image_mimetype=st.sampled_from(["image/png", "image/jpeg"]),
    detail=st.sampled_from(["low", "high"]),
)
document_blocks = media(DocumentBlock, "data", title=texts, document_mimetype=st.sampled_from(["text/plain", ""]))
thinking_blocks = st.builds(
    ThinkingBlock,
    content=st.none() | texts,
    num_tokens=st.none() | st.integers(0, 1000),
    additional_information=st.dictionaries(names | st.just("signature"), json_values, max_size=2),
)
tool_call_blocks = st.builds(ToolCallBlock, tool_call_id=ids, tool_name=names, tool_kwargs=arguments | texts)
blocks = st.one_of(
    text_blocks,
    image_blocks,
    media(AudioBlock, "audio", format=st.sampled_from(["wav", "mp3", "flac"])),
    media(VideoBlock, "video", video_mimetype=st.sampled_from(["video/mp4"]), detail=texts, fps=st.integers(1, 60)),
    document_blocks,
    st.builds(CachePoint, cache_control=st.builds(CacheControl, type=names, ttl=names)),
    st.builds(
        CitableBlock,
        title=texts,
        source=texts,
        content=texts | st.lists(text_blocks | image_blocks | document_blocks, max_size=3),
    ),
    st.builds(
        CitationBlock,
        cited_content=text_blocks | image_blocks,
        source=texts,
        title=texts,
        additional_location_info=st.dictionaries(names, st.integers(), max_size=2),
    ),
    thinking_blocks,
    tool_call_blocks,
)

storable = st.one_of(
    json_values,
    st.binary(max_size=10),
    st.tuples(json_values, st.binary(max_size=3)),
    st.dictionaries(st.integers(), json_values, max_size=2),
    st.sampled_from(
        [datetime(2026, 1, 2, tzinfo=UTC), date(2026, 1, 2), Decimal("1.10"), _HERE, MessageRole.TOOL, complex(1, 2)]
    ),
)
openai_calls = st.builds(
    lambda call_id, name, text: {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}},
    ids,
    names,
    texts | st.just('{"city": "Bern"}'),
)
selections = st.builds(ToolSelection, tool_id=names, tool_name=names, tool_kwargs=arguments)
additional_kwargs = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {},
        optional={
            "tool_call_id": ids | st.integers(),
            "name": st.none() | texts,
            "tool_calls": st.lists(openai_calls | selections | json_values, max_size=2) | json_values,
            "function_call": json_values,
            "session_id": texts,
            "anything": storable,
        },
    ),
)

messages = st.builds(
    ChatMessage,
    role=st.sampled_from(list(MessageRole)),
    blocks=st.lists(blocks, max_size=4),
    additional_kwargs=additional_kwargs,
)
"""Any message."""

_contents = st.one_of(st.just([]), st.lists(text_blocks, min_size=1, max_size=3))
plain_messages = st.one_of(
    st.builds(ChatMessage, role=st.sampled_from(["system", "user", "assistant"]), blocks=_contents),
    st.builds(
        lambda content, calls: ChatMessage(role="assistant", blocks=[*content, *calls]),
        _contents,
        st.lists(st.builds(ToolCallBlock, tool_call_id=ids, tool_name=names, tool_kwargs=arguments), max_size=3),
    ),
    st.builds(
        lambda content, call_id, name: ChatMessage(
            role="tool", blocks=content, additional_kwargs={"tool_call_id": call_id} | ({"name": name} if name else {})
        ),
        _contents,
        names,
        st.none() | names,
    ),
)
"""Messages that arc's canonical fields describe in full: text, tool calls with named arguments, results."""
