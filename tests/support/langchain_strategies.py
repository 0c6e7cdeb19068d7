"""Hypothesis strategies for LangChain messages: every type, every field."""

import base64
import json
from datetime import UTC
from typing import Any

from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    FunctionMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)

texts = st.text(max_size=10) | st.sampled_from(
    ["", " ", "\x00", "안녕하세요", "🎉", "\ud800", "\ud83d\ude00", "__arc__", "lc"]
)
words = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=10).filter(str.strip)
encoded = st.binary(min_size=1, max_size=9).map(lambda data: base64.b64encode(data).decode())
urls = words.map(lambda word: f"https://example.com/{word}")
mime_types = st.sampled_from(["image/png", "audio/wav", "application/pdf", "text/plain", "video/mp4", "video/*"])
text_or_none = st.none() | texts

_json_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
_keys = texts | st.sampled_from(["arc", "type", "id", "value", "kwargs"])


def _nested(scalars: st.SearchStrategy[Any], keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=5,
    )


json_values = _nested(_json_scalars, _keys)
json_objects = st.dictionaries(_keys, json_values, max_size=3)
values = _nested(
    _json_scalars
    | st.binary(max_size=4)
    | st.dates()
    | st.datetimes(timezones=st.sampled_from([None, UTC])).map(lambda time: time.replace(fold=0))
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.tuples(texts, st.integers())
    | st.frozensets(st.integers(), max_size=1),  # with more, the repr depends on their order
    _keys | st.integers(),
)
"""Every value that arc can store."""
objects = st.dictionaries(texts, values, max_size=2)


def _blocks_of(**required: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    further = {"id": words, "index": st.integers(0, 3), "extras": objects, "cache_control": json_objects}
    return st.fixed_dictionaries(required, optional=further)


def _sources(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    """Draw a block of this kind as in LangChain v1, LangChain v0 and Anthropic's API."""
    kinds, named = st.just(kind), {"filename": words, "title": words, "metadata": json_objects}
    return (
        st.fixed_dictionaries({"type": kinds, "base64": encoded, "mime_type": mime_types})
        | st.fixed_dictionaries({"type": kinds, "url": urls}, optional={"mime_type": mime_types})
        | st.fixed_dictionaries({"type": kinds, "extras": st.fixed_dictionaries({"filename": words}), "url": urls})
        | _blocks_of(type=kinds, file_id=words)
        | _blocks_of(type=kinds, base64=encoded)
        | st.fixed_dictionaries(
            {"type": kinds, "source_type": st.just("base64"), "data": encoded, "mime_type": mime_types}, optional=named
        )
        | st.fixed_dictionaries({"type": kinds, "source_type": st.just("url"), "url": urls}, optional=named)
        | st.fixed_dictionaries({"type": kinds, "source_type": st.just("text"), "text": texts}, optional=named)
        | st.fixed_dictionaries({"type": kinds, "source_type": st.just("id"), "id": words}, optional=named)
        | _blocks_of(
            type=kinds,
            source=st.fixed_dictionaries({"type": st.just("base64"), "media_type": mime_types, "data": encoded})
            | st.fixed_dictionaries({"type": st.just("url"), "url": urls})
            | st.fixed_dictionaries({"type": st.just("text"), "media_type": st.just("text/plain"), "data": texts})
            | st.fixed_dictionaries({"type": st.just("file"), "file_id": words}),
        )
    )


data_urls = st.builds("data:{};base64,{}".format, mime_types, encoded)
image_urls = _blocks_of(
    type=st.just("image_url"),
    image_url=st.fixed_dictionaries({"url": urls | data_urls}, optional={"detail": st.sampled_from(["low", "high"])})
    | data_urls,
)
text_blocks = st.builds(lambda text: {"type": "text", "text": text}, texts)
blocks = st.one_of(
    texts,
    text_blocks,
    _blocks_of(type=st.just("text"), text=texts),
    image_urls,
    *(_sources(kind) for kind in ("image", "audio", "video", "file", "document", "text-plain")),
    _blocks_of(
        type=st.just("input_audio"),
        input_audio=st.fixed_dictionaries({"data": encoded, "format": st.sampled_from(["wav", "mp3"])}),
    ),
    _blocks_of(
        type=st.just("file"), file=st.fixed_dictionaries({"file_data": data_urls}, optional={"filename": words})
    ),
    _blocks_of(type=st.just("file"), file=st.fixed_dictionaries({"file_id": words})),
    _blocks_of(type=st.just("reasoning"), reasoning=texts),
    _blocks_of(type=st.just("reasoning"), summary=st.lists(text_blocks, max_size=2)),
    st.fixed_dictionaries({"type": st.just("thinking"), "thinking": texts}, optional={"signature": texts}),
    _blocks_of(type=st.just("redacted_thinking"), data=encoded),
    _blocks_of(type=st.just("tool_use"), name=words, input=json_objects),
    _blocks_of(type=st.just("tool_call"), name=words, args=json_objects),
    _blocks_of(type=st.just("non_standard"), value=values),
    st.fixed_dictionaries({"type": st.just("non_standard"), "value": objects}, optional={"name": words}),
    st.dictionaries(texts, values, max_size=3),
    st.dictionaries(_keys, values, max_size=2).map(lambda block: {**block, "type": "text"}),
)
contents = texts | st.lists(blocks, max_size=4)
documents = st.builds(Document, page_content=texts, metadata=objects, id=st.none() | words)
artifacts = st.none() | values | st.lists(documents, max_size=2) | st.builds(lambda one: {"docs": (one,)}, documents)
ids = st.none() | words | st.just("")

tool_calls = st.builds(
    lambda name, args, call_id: {"name": name, "args": args, "id": call_id, "type": "tool_call"},
    texts,
    objects,
    text_or_none,
)
invalid_tool_calls = st.builds(
    lambda name, args, call_id, error: {
        "name": name,
        "args": args,
        "id": call_id,
        "error": error,
        "type": "invalid_tool_call",
    },
    text_or_none,
    text_or_none,
    text_or_none,
    text_or_none,
)
tool_call_chunks = st.builds(
    lambda name, args, call_id, index: {
        "name": name,
        "args": args,
        "id": call_id,
        "index": index,
        "type": "tool_call_chunk",
    },
    text_or_none,
    text_or_none | json_objects.map(json.dumps),
    text_or_none,
    st.none() | st.integers(0, 3),
)
usage = st.fixed_dictionaries(
    {"input_tokens": st.integers(0, 99), "output_tokens": st.integers(0, 99), "total_tokens": st.integers(0, 198)},
    optional={"input_token_details": st.fixed_dictionaries({}, optional={"cache_read": st.integers(0, 99)})},
)
_openai_calls = st.fixed_dictionaries(
    {
        "tool_calls": st.lists(
            st.builds(
                lambda call_id, name, args: {
                    "id": call_id,
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(args)},
                },
                words,
                words,
                json_objects,
            ),
            min_size=1,
            max_size=2,
        )
    }
)
_common: dict[str, st.SearchStrategy[Any]] = {
    "additional_kwargs": st.just({})
    | objects
    | _openai_calls
    | st.builds(lambda mark: {"arc": mark}, json_values)
    | st.builds(lambda mark, others: {"arc": mark, **others}, json_values, objects),
    "response_metadata": objects,
    "name": text_or_none,
    "id": ids,
    "remark": values,  # an undeclared field
}
_calls = {
    "tool_calls": st.lists(tool_calls, max_size=2),
    "invalid_tool_calls": st.lists(invalid_tool_calls, max_size=2),
}


def _built(cls: type[BaseMessage], **required: st.SearchStrategy[Any]) -> st.SearchStrategy[BaseMessage]:
    fields = {"content": contents, **required}
    optional = {name: field for name, field in _common.items() if name not in fields}
    return st.fixed_dictionaries(fields, optional=optional).map(lambda data: cls(**data))


def _without_calls(message: BaseMessage) -> BaseMessage:
    """Remove the calls from a message but not from its `additional_kwargs`, as some middleware does."""
    return message.model_copy(update={"tool_calls": [], "invalid_tool_calls": []})


_tool_fields = {"tool_call_id": texts, "artifact": artifacts, "status": st.sampled_from(["success", "error"])}
_roles = st.sampled_from(["user", "Human", "assistant", "AI", "system", "developer", "tool", "critic"]) | texts
_ai = _built(AIMessage, usage_metadata=st.none() | usage, **_calls)
_ai_chunks = _built(
    AIMessageChunk,  # only JSON arguments: the class serialises the calls itself
    tool_calls=st.lists(tool_calls.map(lambda call: {**call, "args": {"a": call["name"]}}), max_size=2),
    invalid_tool_calls=_calls["invalid_tool_calls"],
    usage_metadata=st.none() | usage,
) | _built(
    AIMessageChunk, tool_call_chunks=st.lists(tool_call_chunks, max_size=2), chunk_position=st.none() | st.just("last")
)

messages: st.SearchStrategy[BaseMessage] = st.one_of(
    _built(HumanMessage),
    _built(SystemMessage),
    _ai,
    _ai.map(_without_calls),
    _built(ToolMessage, **_tool_fields),
    _built(ChatMessage, role=_roles),
    _built(FunctionMessage, name=texts),
    _built(HumanMessageChunk),
    _built(SystemMessageChunk),
    _ai_chunks,
    _built(ToolMessageChunk, **_tool_fields),
    _built(ChatMessageChunk, role=_roles),
    _built(FunctionMessageChunk, name=texts),
)
"""Any LangChain message with any content that can be stored."""

_named = {"name": st.none() | words, "id": st.none() | words}
_inline_images = st.builds(lambda data: {"type": "image", "base64": data, "mime_type": "image/png"}, encoded)
_standard_blocks = (
    text_blocks
    | _inline_images
    | urls.map(lambda url: {"type": "image", "url": url})
    | texts.map(lambda text: {"type": "reasoning", "reasoning": text})
)
_plain_contents = texts | st.lists(_standard_blocks, max_size=3)
plain_messages: st.SearchStrategy[BaseMessage] = st.one_of(
    st.builds(HumanMessage, _plain_contents, **_named),
    st.builds(SystemMessage, texts, **_named),
    st.builds(AIMessage, _plain_contents, tool_calls=st.lists(tool_calls, max_size=2), **_named),
    st.builds(ToolMessage, _plain_contents, tool_call_id=texts, **_named),
)
"""Messages that arc's canonical fields describe in full."""

_portable_calls = st.lists(
    st.builds(
        lambda name, args, call_id: {"name": name, "args": args, "id": call_id, "type": "tool_call"},
        words,
        st.dictionaries(words, st.none() | st.booleans() | st.integers(-999, 999) | words, max_size=3),
        words,
    ),
    max_size=3,
    unique_by=lambda call: call["id"],
)
_portable_contents = words | st.lists(
    words.map(lambda text: {"type": "text", "text": text})
    | _inline_images
    | urls.map(lambda url: {"type": "image", "url": url})
    | image_urls,
    min_size=1,
    max_size=3,
)
portable_messages: st.SearchStrategy[BaseMessage] = st.one_of(
    st.builds(HumanMessage, _portable_contents, id=st.none() | words),
    st.builds(SystemMessage, words, id=st.none() | words),
    st.builds(AIMessage, words | st.just(""), tool_calls=_portable_calls, id=st.none() | words),
    st.builds(ToolMessage, _portable_contents, tool_call_id=words, id=st.none() | words),
)
"""Messages whose role, text, tool calls, ids and images every framework supports."""
