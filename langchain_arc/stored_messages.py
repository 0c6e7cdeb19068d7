"""Prepares LangChain's messages for the store, and finds those that a session does not hold yet."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    BaseMessageChunk,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
)

from arc_common.documents import checked_items
from arc_common.exceptions import InvalidInputError
from arc_common.memory.conversation import USAGE
from arc_common.messages import ARC_MARK, Message, Role, same_content
from langchain_arc.messages import from_arc, to_arc

_log = logging.getLogger("arc.messages")


def stored_form(message: BaseMessage) -> Message:
    """Convert a message for the store: a chunk becomes a whole message, an answer gets its reported usage.

    A tool's artifact that can't be stored is left out, because no model sees it, and the turn would be lost with it.
    """
    whole = message_chunk_to_message(message) if isinstance(message, BaseMessageChunk) else message
    try:
        converted = to_arc(whole)
    except InvalidInputError as error:
        if not isinstance(whole, ToolMessage) or not error.field.startswith("message.artifact"):
            raise
        _say_once(whole.tool_call_id, type(whole.artifact).__qualname__)
        converted = to_arc(whole.model_copy(update={"artifact": None}))
    usage = _usage_of(whole)
    return replace(converted, metadata={**converted.metadata, USAGE: usage}) if usage else converted


@lru_cache(1_024)  # an agent's state holds the message in all later calls, too
def _say_once(call_id: str, kind: str) -> None:
    _log.warning("the artifact of the result of call %r is not stored: a %s can't be", call_id, kind)


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


_ANSWERING = (Role.ASSISTANT, Role.TOOL)


def new_messages(batch: Sequence[Message], known: Mapping[str, Message | None]) -> list[Message]:
    """Return the messages of a batch that are to be stored, in their order."""
    messages = _without_doubled_input(batch, known)
    end = 1 + max((i for i, it in enumerate(messages) if it.role is Role.USER and it.id in known), default=-1)
    while end < len(messages) and messages[end].id in known:
        end += 1
    fresh = [it for it in messages[:end] if it.id is None or it.id not in known or _edited(it, known[it.id])]
    taken = set(known)
    for message in messages[end:]:
        fresh.append(replace(message, id=None) if message.id in taken and message.role in _ANSWERING else message)
        if message.id is not None:
            taken.add(message.id)
    return fresh


def taken_meanwhile(given: Sequence[Message], stored: Sequence[Message], known: Collection[str]) -> list[Message]:
    """Return, without their ids, the answers not stored because another run just stored the same id."""
    now = next((kept.created_at for message, kept in zip(given, stored, strict=True) if message.id is None), None)
    return [
        replace(message, id=None)
        for message, kept in zip(given, stored, strict=True)
        if now is not None and kept.created_at != now and message.id not in known and message.role in _ANSWERING
    ]


def _edited(message: Message, stored: Message | None) -> bool:
    return stored is not None and not is_stored_as(message, stored)


def _without_doubled_input(batch: Sequence[Message], known: Collection[str]) -> list[Message]:
    again = next((i for i in range(1, len(batch)) if batch[i].id not in known and _same(batch[0], batch[i])), 0)
    length = 0
    while length < again and again + length < len(batch) and _same(batch[length], batch[again + length]):
        length += 1
    between = batch[length:again]
    if batch and batch[0].id is None and not all(_from_state(message, known) for message in between):
        return list(batch)
    return list(batch[length:])


def _same(one: Message, later: Message) -> bool:
    """Return whether both are the same message; the earlier one may not have had its id yet."""
    if one.id is None:
        return later.id is not None and same_content(one, later)
    return one.id == later.id


def _from_state(message: Message, known: Collection[str]) -> bool:
    """Return whether a message can precede the input in a graph's state; an unknown answer can't."""
    return message.id in known or (message.id is not None and message.role not in _ANSWERING)


_SUMMARY_SOURCE = "summarization"
"""The value of `additional_kwargs["lc_source"]` on summaries that `SummarizationMiddleware` puts in the state."""


def split_instructions(messages: Sequence[BaseMessage]) -> tuple[list[SystemMessage], list[BaseMessage]]:
    """Return the system messages at the start, and the messages after them."""
    first = next((i for i, it in enumerate(messages) if not isinstance(it, SystemMessage)), len(messages))
    return [it for it in messages[:first] if isinstance(it, SystemMessage)], list(messages[first:])


def said(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages without arc's own and without the summaries of LangChain's middleware."""
    return [message for message in messages if ARC_MARK not in message.additional_kwargs and not is_summary(message)]


def is_summary(message: BaseMessage) -> bool:
    """Return whether LangChain's middleware made this message in place of older ones."""
    return message.additional_kwargs.get("lc_source") == _SUMMARY_SOURCE


def names_of(messages: Sequence[BaseMessage]) -> list[tuple[str, ...]]:
    """Return the ids under which each message may be stored, starting with the one that it gets first."""
    names: list[tuple[str, ...]] = []
    caller: str | None = None
    for message in messages:
        names_ = [message.id] if message.id else []
        if isinstance(message, AIMessage):
            caller = message.id
        if isinstance(message, ToolMessage) and caller is not None:
            names_.append(f"result_{uuid5(NAMESPACE_OID, f'{caller} {message.tool_call_id}').hex}")
        names.append(tuple(names_))
    return names


def unsaved(
    state: Sequence[Message], names: Sequence[tuple[str, ...]], stored: Mapping[str, Message]
) -> list[Message] | None:
    """Return the messages after the last stored one, and earlier ones edited since; `None` if none is stored."""
    places = [next((name for name in names_ if name in stored), None) for names_ in names]
    last = max((i for i, name in enumerate(places) if name is not None), default=None)
    if last is None:
        return None
    edited = [
        replace(message, id=name)
        for message, name in zip(state[: last + 1], places, strict=False)
        if name is not None and not is_stored_as(message, stored[name])
    ]
    return [*edited, *named(state[last + 1 :], names[last + 1 :])]


def behind(
    tail: Sequence[Message], state: Sequence[Message], names: Sequence[tuple[str, ...]]
) -> tuple[list[Message], str | None]:
    """Return the messages after those that the session ends with, matched by content, and the last stored id."""
    longest = min(len(tail), len(state))
    length = next((n for n in range(longest, 0, -1) if all(map(is_stored_as, state[:n], tail[-n:]))), 0)
    return named(state[length:], names[length:]), tail[-1].id if length and length == len(state) else None


def named(state: Sequence[Message], names: Sequence[tuple[str, ...]]) -> list[Message]:
    """Return the messages, each with the id that it is stored under."""
    return [replace(it, id=own[0]) if own and it.id is None else it for it, own in zip(state, names, strict=True)]


def is_stored_as(message: Message, stored: Message) -> bool:
    """Return whether both say the same, as they are or after a round trip of the stored one through LangChain."""
    return same_content(message, stored) or same_content(message, to_arc(from_arc(stored)))
