"""Prepares LangChain's messages for the store: whole, with the usage that the provider reported."""

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
    """Convert a message for the store: a chunk becomes a whole message, an answer gets its reported usage."""
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
    """Return the ids of the messages that have one."""
    return [message.id for message in batch if message.id is not None]


def _usage_of(message: BaseMessage) -> dict[str, int]:
    """Return an answer's reported usage as the engine reads it; a cached answer's report lacks the counts."""
    reported: Mapping[str, Any] = (message.usage_metadata if isinstance(message, AIMessage) else None) or {}
    details = reported.get("output_token_details") or {}
    usage = {"output_tokens": reported.get("output_tokens"), "reasoning_tokens": details.get("reasoning")}
    return {name: tokens for name, tokens in usage.items() if isinstance(tokens, int)}
