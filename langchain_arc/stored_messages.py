"""LangChain's messages as they are stored: whole, with what the provider reported of them, and each once."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from arc_common.documents import checked_items
from arc_common.exceptions import MissingDependencyError
from arc_common.memory.conversation import USAGE
from arc_common.messages import Message
from langchain_arc.messages import to_arc

try:
    from langchain_core.messages import AIMessage, BaseMessage, BaseMessageChunk, message_chunk_to_message
except ImportError as error:
    raise MissingDependencyError("langchain_arc", package="langchain-core", extra="langchain") from error


def stored_form(message: BaseMessage) -> Message:
    """A message as it is stored: a chunk as the whole message that it is, an answer with the usage reported for it."""
    whole = message_chunk_to_message(message) if isinstance(message, BaseMessageChunk) else message
    converted = to_arc(whole)
    usage = _usage_of(whole)
    return replace(converted, metadata={**converted.metadata, USAGE: usage}) if usage else converted


def stored_batch(messages: Iterable[BaseMessage]) -> list[Message]:
    """Return the messages as they are stored, without those that arc itself made."""
    given = checked_items("messages", messages, BaseMessage, expected="LangChain messages")
    converted = map(stored_form, given)
    return [message for message in converted if not message.made_by_arc]


def ids_of(batch: Iterable[Message]) -> list[str]:
    """The ids of those that have one."""
    return [message.id for message in batch if message.id is not None]


def _usage_of(message: BaseMessage) -> dict[str, int]:
    """What the provider reported for an answer, as the engine reads it; a cached answer's report lacks the counts."""
    reported: Mapping[str, Any] = (message.usage_metadata if isinstance(message, AIMessage) else None) or {}
    details = reported.get("output_token_details") or {}
    usage = {"output_tokens": reported.get("output_tokens"), "reasoning_tokens": details.get("reasoning")}
    return {name: tokens for name, tokens in usage.items() if isinstance(tokens, int)}
