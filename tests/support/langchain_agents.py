"""A scripted chat model with tool calls that rejects invalid requests."""

from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field, PrivateAttr


class RefusedRequestError(Exception):
    """A request that a provider would reject."""


def call(name: str, call_id: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": call_id, "type": "tool_call"}


def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


def check_request(messages: Sequence[BaseMessage]) -> None:
    """Raise an error for a request that any provider would reject, by the strictest of their rules.

    At most one system message, at the start; then the user's; each call followed by exactly its results; no result
    without its call; nothing empty.
    """
    rest = list(messages[1:] if messages and isinstance(messages[0], SystemMessage) else messages)
    if not rest:
        raise RefusedRequestError("no messages")
    if any(isinstance(message, SystemMessage) for message in rest):
        raise RefusedRequestError("a system message that is not the first")
    if not isinstance(rest[0], HumanMessage):
        raise RefusedRequestError(f"begins with {rest[0].type}")
    ids = [message.id for message in rest if message.id]
    if len(set(ids)) != len(ids):
        raise RefusedRequestError("a message twice")
    open_calls: list[str | None] = []
    for message in rest:
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in open_calls:
                raise RefusedRequestError(f"result without a call: {message.tool_call_id}")
            open_calls.remove(message.tool_call_id)
            continue
        if open_calls:
            raise RefusedRequestError(f"calls without results: {open_calls}")
        if isinstance(message, AIMessage):
            open_calls = [call["id"] for call in (*message.tool_calls, *message.invalid_tool_calls)]
        if not message.content and not open_calls:
            raise RefusedRequestError(f"an empty {message.type} message")
    if open_calls:
        raise RefusedRequestError(f"calls without results: {open_calls}")


class ScriptedToolModel(BaseChatModel):
    """Answers with the next message of its script, or raises it if it is an exception. Supports tools and streaming.

    - Each request is checked with `check_request` and recorded in `requests` with the system message first.
    - Each answer is a new message with its own id, like a provider's.
    """

    script: list[Any] = Field(default_factory=list)
    checked: bool = True
    _requests: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    @property
    def requests(self) -> list[list[BaseMessage]]:
        return self._requests

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> "ScriptedToolModel":
        return self

    def _next(self, messages: list[BaseMessage]) -> AIMessage:
        if self.checked:
            check_request(messages)
        place = len(self._requests)
        self._requests.append(list(messages))
        said = self.script[place] if place < len(self.script) else AIMessage(f"answer {place}")
        if isinstance(said, BaseException):
            raise said
        return said.model_copy(deep=True) if isinstance(said, AIMessage) else AIMessage(said)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._next(messages))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        answer = self._next(messages)
        pieces = answer.text.split(" ") if answer.text else [""]
        for i, piece in enumerate(pieces):
            last = i == len(pieces) - 1
            chunk = AIMessageChunk(piece if last else piece + " ", tool_calls=answer.tool_calls if last else [])
            yield ChatGenerationChunk(message=chunk)
