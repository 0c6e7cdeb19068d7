"""Marks the stable beginning of a request for the prompt caches of providers. Pure."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from arc_common.exceptions import MissingDependencyError

try:
    from langchain.agents.middleware import ModelRequest
    from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
except ImportError as error:
    raise MissingDependencyError("ArcMemoryMiddleware", package="langchain", extra="agents") from error

_MARK = {"cache_control": {"type": "ephemeral"}}
_MOST_MARKS = 4
"""The most marks that Anthropic accepts in a request."""


def marked(request: ModelRequest[Any], *, scope: str, system: bool) -> tuple[ModelRequest[Any], str | None]:
    """Return the request for a cache, and a note on what should be read from it; unchanged for other providers.

    Args:
        request: The request as its model would see it.
        scope: Names the conversation; requests of one conversation share their beginning.
        system: True if the next request has the same system message.
    """
    kinds = {kind.__name__ for kind in type(request.model).__mro__}  # of packages that need not be installed
    place = _end_of_prefix(request.messages)
    stable = ["the system message"] if system and request.system_message else []
    if system and place is not None:
        stable.append(f"the {place + 1} messages before the question")
    note = f"prompt cache: {' and '.join(stable) or 'nothing'} should be read from it"
    if "BaseChatOpenAI" in kinds:
        key = sha256(scope.encode()).hexdigest()[:32]
        return request.override(model_settings={"prompt_cache_key": key, **request.model_settings}), note
    own = [request.system_message] if request.system_message else []
    if "ChatAnthropic" not in kinds or not system or sum(map(_marks, [*own, *request.messages])) > _MOST_MARKS - 2:
        return request, None
    messages: list[AnyMessage] = list(request.messages)
    if place is not None:
        messages[place] = _with_mark(messages[place])
    marked_system = _with_mark(request.system_message) if request.system_message else None
    return request.override(system_message=marked_system, messages=messages), note


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
    content = message.content
    if isinstance(content, str):
        return bool(content.strip())
    return bool(content) and isinstance(content[-1], dict) and content[-1].get("type") == "text"


def _with_mark(message: Any) -> Any:
    """Return a copy with a mark on its last block."""
    if not _can_be_marked(message):
        return message
    content = message.content
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    return message.model_copy(update={"content": [*blocks[:-1], {**blocks[-1], **_MARK}]})


def _marks(message: BaseMessage) -> int:
    blocks = message.content if isinstance(message.content, list) else []
    return sum(isinstance(block, Mapping) and "cache_control" in block for block in blocks)
