"""Marks the stable beginning of a request for the prompt caches of providers."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import takewhile
from threading import Lock
from typing import Any

from langchain.agents.middleware import ModelRequest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage

from arc_common.caches import LRUCache

_MARK = {"cache_control": {"type": "ephemeral"}}
_MOST_MARKS = 4
"""The most marks that Anthropic accepts in a request."""
_SESSIONS = 256


class PromptCaches:
    """Marks requests, and keeps how the last request of each conversation began. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._begun: LRUCache[str, list[int]] = LRUCache(_SESSIONS)

    def marked(self, request: ModelRequest[Any], *, scope: str, system: bool) -> tuple[ModelRequest[Any], str | None]:
        """Return the marked request, unchanged for other providers, and a note on the part that should be cached."""
        kinds = {kind.__name__ for kind in type(request.model).__mro__}  # their packages need not be installed
        if "BaseChatOpenAI" in kinds:
            key = sha256(scope.encode()).hexdigest()[:32]
            marked = request.override(model_settings={"prompt_cache_key": key, **request.model_settings})
            return marked, self._note(request, scope, kept=len(request.messages))
        if "ChatAnthropic" not in kinds or not system or _marks_of(request) > _MOST_MARKS - 2:
            return request, None
        messages: list[AnyMessage] = list(request.messages)
        if (place := _end_of_prefix(messages)) is not None:
            messages[place] = _with_mark(messages[place])
        marked_system = _with_mark(request.system_message) if request.system_message else None
        note = self._note(request, scope, kept=0 if place is None else place + 1)
        return request.override(system_message=marked_system, messages=messages), note

    def _note(self, request: ModelRequest[Any], scope: str, *, kept: int) -> str | None:
        """Return a note on the messages that the request shares with the previous one, if that is known."""
        first = [request.system_message] if request.system_message else []
        begins = [hash((message.type, str(message.content))) for message in (*first, *request.messages)]
        with self._lock:
            before = self._begun.get(scope)
            self._begun[scope] = begins[: len(first) + kept]
        if before is None:
            return None
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, begins, strict=False)))
        parts = ["the system message"] if first and shared else []
        if number := shared - len(first) if shared else 0:
            parts.append(f"the first {number} messages" if number > 1 else "the first message")
        return f"prompt cache: {' and '.join(parts) or 'nothing'} should be read from it"


def read_from_cache(answer: Sequence[BaseMessage]) -> str | None:
    """Return a note on how much of a request was read from a cache, if its model reports it."""
    for message in answer:
        usage = message.usage_metadata if isinstance(message, AIMessage) else None
        read = (usage.get("input_token_details") or {}).get("cache_read") if usage else None
        if usage and read is not None:
            return f"prompt cache: {read:,} of {usage['input_tokens']:,} tokens were read from it"
    return None


def _end_of_prefix(messages: Sequence[BaseMessage]) -> int | None:
    """Return the place of the last message that can be marked before the question, which the next request changes."""
    question = max((place for place, it in enumerate(messages) if isinstance(it, HumanMessage)), default=0)
    return next((place for place in range(question - 1, -1, -1) if _can_be_marked(messages[place])), None)


def _can_be_marked(message: BaseMessage) -> bool:
    blocks = _blocks(message)
    return bool(blocks) and blocks[-1].get("type") == "text" and bool(str(blocks[-1].get("text", "")).strip())


def _with_mark(message: Any) -> Any:
    """Return a copy with a mark on its last block."""
    if not _can_be_marked(message):
        return message
    blocks = _blocks(message)
    return message.model_copy(update={"content": [*blocks[:-1], {**blocks[-1], **_MARK}]})


def _blocks(message: BaseMessage) -> list[dict[str, Any]]:
    content = message.content if isinstance(message.content, list) else [message.content]
    return [{"type": "text", "text": block} if isinstance(block, str) else block for block in content]


def _marks_of(request: ModelRequest[Any]) -> int:
    """Count the marks that a request has already, wherever Anthropic takes them."""
    first = [request.system_message] if request.system_message else []
    tools = [tool if isinstance(tool, Mapping) else tool.extras or {} for tool in request.tools]
    elsewhere = sum("cache_control" in part for part in (request.model_settings, *tools))
    return elsewhere + sum(_marks(message.content) for message in (*first, *request.messages))


def _marks(content: object) -> int:
    """Count the marks in a message's blocks and in the blocks within these."""
    if isinstance(content, Mapping):
        return ("cache_control" in content) + _marks(content.get("content"))
    return sum(map(_marks, content)) if isinstance(content, list) else 0
