"""Chains, models and runs for tests of the chat message history."""

import asyncio
import warnings
from collections.abc import Sequence
from typing import Any

from langchain_core._api import LangChainDeprecationWarning
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.runnables.history import RunnableWithMessageHistory

from arc_common import ContextEngine, Message
from arc_common.messages import Role
from langchain_arc import ArcChatModel

WAYS = ["invoke", "ainvoke", "stream", "astream", "batch", "abatch"]
"""All methods that run a runnable."""


class Echo:
    """An arc chat model that answers with the last user message and records its requests."""

    def __init__(self) -> None:
        self.shown: list[list[str]] = []

    def complete(self, messages: Sequence[Message]) -> str:
        self.shown.append([message.text for message in messages])
        return f"echo of {[message for message in messages if message.role is Role.USER][-1].text}"


class ToolModel(GenericFakeChatModel):
    """A scripted model that accepts tools."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> "ToolModel":
        return self


def echo_model() -> ArcChatModel:
    return ArcChatModel(chat_model=Echo())


def with_history(chain: Any, factory: Any, **keys: Any) -> RunnableWithMessageHistory:
    """Return LangChain's deprecated wrapper, which most chains still use, without its warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "RunnableWithMessageHistory is deprecated", LangChainDeprecationWarning)
        return RunnableWithMessageHistory(chain, factory, **keys)


async def run(way: str, chain: Any, value: Any, session_id: str = "s", **configurable: str) -> None:
    """Run the chain to its end by the given method; blocking methods run on a thread."""
    config = {"configurable": {"session_id": session_id, **configurable}}
    if way == "invoke":
        await asyncio.to_thread(chain.invoke, value, config)
    elif way == "ainvoke":
        await chain.ainvoke(value, config)
    elif way == "stream":
        await asyncio.to_thread(lambda: list(chain.stream(value, config)))
    elif way == "astream":
        assert [chunk async for chunk in chain.astream(value, config)]
    elif way == "batch":
        await asyncio.to_thread(chain.batch, [value], config)
    else:
        await chain.abatch([value], config)


def said(engine: Any, session_id: str = "s") -> list[tuple[str, str]]:
    """Return the role and text of each stored message."""
    return [(message.role.value, message.text) for message in engine.session(session_id).messages()]


def settle(engine: ContextEngine) -> None:
    """Wait until all due summaries are written."""
    assert engine.flush(30)


def anthropic_request(messages: Sequence[BaseMessage]) -> dict[str, Any]:
    """Return the messages as `langchain_anthropic` sends them: blocks unchanged, then the calls that no block names."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        if isinstance(message, SystemMessage):
            continue
        role = "assistant" if isinstance(message, AIMessage) else "user"
        given = message.content if isinstance(message.content, list) else [{"type": "text", "text": message.content}]
        blocks = [dict(block) for block in given if isinstance(block, dict) and block.get("text") != ""]
        blocks = [block for block in blocks if block["type"] not in ("reasoning", "function_call")]
        for block in blocks:
            if block["type"] == "tool_call":
                block.update(type="tool_use", input=block.pop("args"))
        if isinstance(message, ToolMessage):
            named = bool(blocks) and all(block["type"] == "tool_result" for block in blocks)
            result = {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": blocks}
            blocks = blocks if named else [result]
        elif isinstance(message, AIMessage):
            named_ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
            blocks += [
                {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["args"]}
                for call in message.tool_calls
                if call["id"] not in named_ids
            ]
        if not turns or turns[-1]["role"] != role:
            turns.append({"role": role, "content": []})
        turns[-1]["content"] += blocks
    return {"messages": turns}
