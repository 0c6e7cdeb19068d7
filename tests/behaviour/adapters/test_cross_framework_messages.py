"""A conversation may change frameworks at any message: common content survives the way there and back."""

import base64

from hypothesis import given
from llama_index.core.base.llms.types import ToolCallBlock

import langchain_arc.messages as langchain
import llamaindex_arc.messages as llamaindex
from arc_common.messages import Message, Role, ToolCall, same_content
from tests.support import langchain_strategies, llamaindex_strategies


def through_llamaindex(message: Message) -> Message:
    return llamaindex.to_arc(llamaindex.from_arc(message))


def through_langchain(message: Message) -> Message:
    return langchain.to_arc(langchain.from_arc(message))


def images(message: Message) -> list[tuple[str | None, str | None, str | None]]:
    """Return the images that a model could be shown: those with a URL or with base64 data."""
    parts = message.content if isinstance(message.content, tuple) else ()
    return [
        (part.url, part.data, part.mime_type)
        for part in parts
        if part.type == "image" and (is_base64(part.data) if part.data else part.url)
    ]


def is_base64(data: str) -> bool:
    try:
        return base64.b64encode(base64.b64decode(data, validate=True)).decode() == data
    except ValueError:
        return False


def calls(message: Message) -> list[ToolCall]:
    """Return the calls, those with parsed arguments first, since LangChain keeps the others in a separate list."""
    return sorted(message.tool_calls, key=lambda call: isinstance(call.arguments, str))


@given(langchain_strategies.portable_messages)
def test_langchain_to_llamaindex_and_on(message):
    """LangChain → arc → LlamaIndex → arc → LangChain → arc: role, text, images, tool calls and their ids are kept."""
    start = langchain.to_arc(message)
    there = through_llamaindex(start)
    assert same_content(there, start)
    assert images(there) == images(start)
    assert same_content(through_langchain(there), start)


@given(langchain_strategies.messages)
def test_any_langchain_message_reads_in_llamaindex(message):
    """LlamaIndex gets role, text, calls and images of any LangChain message."""
    start = langchain.to_arc(message)
    there = through_llamaindex(start)
    assert (there.role, there.tool_call_id, there.name) == (start.role, start.tool_call_id, start.name)
    assert [(call.name, call.id) for call in there.tool_calls] == [(call.name, call.id) for call in start.tool_calls]
    assert set(images(there)) >= set(images(start))  # plus data that was not base64 before
    said = [part.text for part in start.content if part.type == "text"] if isinstance(start.content, tuple) else []
    assert all(text in there.text for text in said or [start.text])


@given(llamaindex_strategies.messages)
def test_any_llamaindex_message_reads_in_langchain(message):
    """LangChain gets role, text, calls and images of any LlamaIndex message."""
    start = llamaindex.to_arc(message)
    there = through_langchain(start)
    assert (there.role, there.text, there.tool_call_id) == (start.role, start.text, start.tool_call_id)
    if start.role is Role.ASSISTANT:
        assert list(there.tool_calls) == calls(start)
    assert images(there) == images(start)


@given(llamaindex_strategies.plain_messages)
def test_plain_llamaindex_messages_come_back(message):
    """LlamaIndex → arc → LangChain → arc → LlamaIndex gives the message, except that LangChain has no None content."""
    start = llamaindex.to_arc(message)
    back = through_langchain(start)
    assert same_content(back, start)
    if start.content is not None:
        assert llamaindex.from_arc(back).content == message.content
        assert [block for block in llamaindex.from_arc(back).blocks if isinstance(block, ToolCallBlock)] == [
            block for block in message.blocks if isinstance(block, ToolCallBlock)
        ]
