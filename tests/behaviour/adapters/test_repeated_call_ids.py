"""Repeated call ids are renamed wherever a framework's message contains them, and nothing else changes."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage, convert_to_openai_messages
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ThinkingBlock, ToolCallBlock
from llama_index.core.llms.llm import ToolSelection

from arc_common import ArcSettings, ContextEngine
from arc_common.settings import SummarySettings
from langchain_arc import ArcMemoryMiddleware, fit_messages
from llamaindex_arc import ArcChatMemoryBuffer
from tests.support.langchain_agents import ScriptedToolModel
from tests.support.langchain_helpers import anthropic_request
from tests.support.providers import anthropic, openai

SETTINGS = ArcSettings(summary=SummarySettings(enabled=False))
THINKING = {"type": "thinking", "thinking": "Let me look.", "signature": "c2lnbmVk"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VjcmV0"}
TEXT = {"type": "text", "text": "One moment."}
CALL_BLOCKS = ("tool_use", "tool_call", "function_call")


@dataclass(frozen=True, slots=True)
class Turn:
    """A question, calls with these ids in a framework's own form, their results, and an answer."""

    ids: tuple[str, ...]
    form: int
    result_form: int


turns = st.lists(
    st.builds(
        Turn,
        st.lists(st.sampled_from(["x", "y", "call_1"]), min_size=1, max_size=3).map(tuple),
        st.integers(0, 4),
        st.integers(0, 1),
    ),
    min_size=1,
    max_size=5,
)


# --- LangChain ------------------------------------------------------------------------------------------------------


def _anthropic_answer(ids: Sequence[str]) -> AIMessage:
    blocks = [{"type": "tool_use", "id": name, "name": "look", "input": {"id": name}} for name in ids]
    return AIMessage(
        [THINKING, TEXT, *blocks], tool_calls=_calls(ids), response_metadata={"model_provider": "anthropic"}
    )


def _responses_answer(ids: Sequence[str]) -> AIMessage:
    blocks = [
        {"type": "function_call", "id": f"fc_{n}", "call_id": name, "name": "look", "arguments": _json(name)}
        for n, name in enumerate(ids)
    ]
    kept = {"__openai_function_call_ids__": {name: f"fc_{n}" for n, name in enumerate(ids)}}
    return AIMessage([REASONING, *blocks], tool_calls=_calls(ids), additional_kwargs=kept)


def _standard_answer(ids: Sequence[str]) -> AIMessage:
    return AIMessage([THINKING, *_calls(ids)], tool_calls=_calls(ids), response_metadata={"output_version": "v1"})


def _chat_answer(ids: Sequence[str]) -> AIMessage:
    calls = [{"id": name, "type": "function", "function": {"name": "look", "arguments": _json(name)}} for name in ids]
    return AIMessage("", additional_kwargs={"tool_calls": calls}, tool_calls=_calls(ids))


def _bare_answer(ids: Sequence[str]) -> AIMessage:
    blocks = [{"type": "tool_use", "id": name, "name": "look", "input": {"id": name}} for name in ids]
    return AIMessage([TEXT, *blocks], tool_calls=_calls(ids))


ANSWERS: list[Callable[[Sequence[str]], AIMessage]] = [
    _anthropic_answer,
    _responses_answer,
    _standard_answer,
    _chat_answer,
    _bare_answer,
]


def _calls(ids: Sequence[str]) -> list[Any]:
    return [{"name": "look", "args": {"id": name}, "id": name, "type": "tool_call"} for name in ids]


def _json(name: str) -> str:
    return json.dumps({"id": name})


def langchain_conversation(listed: Sequence[Turn]) -> list[BaseMessage]:
    messages: list[BaseMessage] = []
    for n, turn in enumerate(listed):
        calling = ANSWERS[turn.form](turn.ids).model_copy(update={"id": f"a{n}"})
        results = [
            ToolMessage(
                "found" if turn.result_form else [{"type": "tool_result", "tool_use_id": name, "content": "found"}],
                tool_call_id=name,
                id=f"t{n}-{m}",
            )
            for m, name in enumerate(turn.ids)
        ]
        messages += [HumanMessage(f"question {n}", id=f"h{n}"), calling, *results, AIMessage("so it is", id=f"b{n}")]
    return messages


def through_fit_messages(messages: list[BaseMessage]) -> list[BaseMessage]:
    return fit_messages(messages, max_tokens=100_000)


def through_agent(messages: list[BaseMessage]) -> list[BaseMessage]:
    model = ScriptedToolModel(script=["ok"])
    with ContextEngine.open(settings=SETTINGS) as engine:
        agent = create_agent(model, [], middleware=[ArcMemoryMiddleware(engine)])
        state: Any = {"messages": [*messages, HumanMessage("and now?", id="now")]}
        agent.invoke(state, {"configurable": {"thread_id": "s"}})
    return model.requests[0]


LANGCHAIN = {
    "fit_messages": through_fit_messages,
    "agent": through_agent,
}


def openai_request(messages: Sequence[BaseMessage]) -> dict[str, Any]:
    """Return LangChain's conversion of the messages, without the blocks that `langchain_openai` removes."""
    converted: Any = convert_to_openai_messages(messages)
    for message in converted:
        if isinstance(message.get("content"), list):
            texts = [part for part in message["content"] if part["type"] == "text"]
            message["content"] = texts or ("" if message["role"] == "tool" else None)
    return {"messages": converted}


@pytest.mark.parametrize("way", LANGCHAIN)
@settings(max_examples=25)
@given(listed=turns)
def test_langchain_s_messages_name_each_call_once(way: str, listed: list[Turn]) -> None:
    """This covers blocks, `tool_calls` and fields of a provider's package."""
    given_messages = langchain_conversation(listed)
    shown = LANGCHAIN[way](given_messages)
    assert anthropic.violations(anthropic_request(shown)) == []
    assert openai.violations(openai_request(shown)) == []
    before = {message.id: message for message in given_messages}
    for message in shown:
        if not isinstance(message, AIMessage) or not message.tool_calls:
            continue
        original, ids = before[message.id], [call["id"] for call in message.tool_calls]
        assert isinstance(original, AIMessage)
        assert [call["args"] for call in message.tool_calls] == [call["args"] for call in original.tool_calls]
        assert message.response_metadata == original.response_metadata
        assert message.additional_kwargs.keys() == original.additional_kwargs.keys()
        assert [call["id"] for call in message.additional_kwargs.get("tool_calls", message.tool_calls)] == ids
        assert set(message.additional_kwargs.get("__openai_function_call_ids__", ids)) <= set(ids)
        if isinstance(message.content, str):
            assert message.content == original.content
            continue
        kept = [block for block in message.content if block["type"] not in CALL_BLOCKS]
        assert kept == [block for block in original.content if block["type"] not in CALL_BLOCKS]
        named = [block.get("call_id", block["id"]) for block in message.content if block["type"] in CALL_BLOCKS]
        assert named in ([], ids)
        assert len(message.content) == len(original.content)


# --- LlamaIndex -----------------------------------------------------------------------------------------------------


def _block_answer(ids: Sequence[str]) -> ChatMessage:
    blocks = [ToolCallBlock(tool_call_id=name, tool_name="look", tool_kwargs={"id": name}) for name in ids]
    thought = ThinkingBlock(content="Let me look.", num_tokens=3, additional_information={"signature": "c2lnbmVk"})
    return ChatMessage(role="assistant", blocks=[thought, TextBlock(text="One moment."), *blocks])


def _legacy_answer(ids: Sequence[str]) -> ChatMessage:
    calls = [{"id": name, "name": "look", "input": {"id": name}} for name in ids]
    return ChatMessage(
        role="assistant", content="One moment.", additional_kwargs={"tool_calls": calls, "x": {"x": 1, "note": "x"}}
    )


def _both_answer(ids: Sequence[str]) -> ChatMessage:
    blocks = [ToolCallBlock(tool_call_id=name, tool_name="look", tool_kwargs={"id": name}) for name in ids]
    calls = [{"id": name, "name": "look", "input": {"id": name}} for name in ids]
    return ChatMessage(
        role="assistant", blocks=[TextBlock(text="One."), *blocks], additional_kwargs={"tool_calls": calls}
    )


def _openai_answer(ids: Sequence[str]) -> ChatMessage:
    calls = [{"id": name, "type": "function", "function": {"name": "look", "arguments": _json(name)}} for name in ids]
    return ChatMessage(role="assistant", content=None, additional_kwargs={"tool_calls": calls})


def _selection_answer(ids: Sequence[str]) -> ChatMessage:
    calls = [ToolSelection(tool_id=name, tool_name="look", tool_kwargs={"id": name}) for name in ids]
    return ChatMessage(role="assistant", content="One moment.", additional_kwargs={"tool_calls": calls})


CHAT_ANSWERS: list[Callable[[Sequence[str]], ChatMessage]] = [
    _block_answer,
    _legacy_answer,
    _both_answer,
    _openai_answer,
    _selection_answer,
]


def llamaindex_conversation(listed: Sequence[Turn]) -> list[ChatMessage]:
    messages: list[ChatMessage] = []
    for n, turn in enumerate(listed):
        key = "tool_call_id" if turn.result_form else "call_id"
        results = [ChatMessage(role="tool", content="found", additional_kwargs={key: name}) for name in turn.ids]
        messages += [ChatMessage(content=f"question {n}"), CHAT_ANSWERS[turn.form](turn.ids), *results]
        messages.append(ChatMessage(role="assistant", content="so it is"))
    return messages


def through_memory(messages: list[ChatMessage]) -> list[ChatMessage]:
    with ContextEngine.open(settings=SETTINGS) as engine:
        memory = ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="s", token_limit=100_000)
        memory.put_messages(messages)
        return memory.get()


def named_calls(message: ChatMessage) -> list[tuple[str, Mapping[str, Any]]]:
    """Return a message's calls as LlamaIndex's packages for OpenAI and Anthropic read them: blocks, then the others."""
    found: list[tuple[str, Mapping[str, Any]]] = [
        (str(block.tool_call_id), dict(block.tool_kwargs))
        for block in message.blocks
        if isinstance(block, ToolCallBlock)
    ]
    in_blocks = {name for name, _ in found}
    for call in message.additional_kwargs.get("tool_calls", []):
        fields = call if isinstance(call, dict) else dict(call)
        arguments = fields.get("input") or fields.get("tool_kwargs") or json.loads(fields["function"]["arguments"])
        name = fields.get("id") or fields["tool_id"]
        if name not in in_blocks:
            found.append((name, arguments))
    return found


@settings(max_examples=25)
@given(listed=turns)
def test_llamaindex_s_messages_name_each_call_once(listed: list[Turn]) -> None:
    """This covers blocks and `additional_kwargs`."""
    given_messages = llamaindex_conversation(listed)
    shown = through_memory(given_messages)
    assert len(shown) >= len(given_messages)
    request: list[dict[str, Any]] = []
    for message in shown:
        calls = [
            {"type": "tool_use", "id": name, "name": "look", "input": arguments}
            for name, arguments in named_calls(message)
        ]
        answered = message.additional_kwargs.get("tool_call_id", message.additional_kwargs.get("call_id"))
        text: list[dict[str, Any]] = [{"type": "text", "text": message.content}] if message.content else []
        blocks = text + calls
        if message.role == "tool":
            blocks = [{"type": "tool_result", "tool_use_id": answered, "content": text}]
        role = "assistant" if message.role == "assistant" else "user"
        if not request or request[-1]["role"] != role:
            request.append({"role": role, "content": []})
        request[-1]["content"] += blocks
    assert anthropic.violations({"messages": request}) == []
    for message, original in zip(shown, given_messages, strict=False):
        assert len(message.blocks) == len(original.blocks)
        assert message.additional_kwargs.keys() == original.additional_kwargs.keys()
        for block, other in zip(message.blocks, original.blocks, strict=True):
            if isinstance(block, ToolCallBlock) and isinstance(other, ToolCallBlock):
                assert block.tool_kwargs == other.tool_kwargs
            else:
                assert block == other
