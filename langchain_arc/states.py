"""Finds the messages of an agent's state that its session does not hold yet. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import NAMESPACE_OID, uuid5

from arc_common.exceptions import MissingDependencyError
from arc_common.messages import ARC_MARK, Message, same_content
from langchain_arc.messages import from_arc, to_arc

try:
    from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
except ImportError as error:
    raise MissingDependencyError("ArcMemoryMiddleware", package="langchain-core", extra="langchain") from error

_SUMMARY_SOURCE = "summarization"
"""The value of `additional_kwargs["lc_source"]` on summaries that `SummarizationMiddleware` puts in the state."""


def split_instructions(messages: Sequence[BaseMessage]) -> tuple[list[SystemMessage], list[BaseMessage]]:
    """Return the system messages at the start, and the messages after them."""
    first = next((i for i, it in enumerate(messages) if not isinstance(it, SystemMessage)), len(messages))
    return [it for it in messages[:first] if isinstance(it, SystemMessage)], list(messages[first:])


def said(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages without arc's own and without the summaries of LangChain's middleware."""
    return [
        message
        for message in messages
        if ARC_MARK not in message.additional_kwargs and message.additional_kwargs.get("lc_source") != _SUMMARY_SOURCE
    ]


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
        if name is not None and not _same(message, stored[name])
    ]
    return [*edited, *_named(state[last + 1 :], names[last + 1 :])]


def behind(
    tail: Sequence[Message], state: Sequence[Message], names: Sequence[tuple[str, ...]]
) -> tuple[list[Message], str | None]:
    """Return the messages after those that the session ends with, matched by content, and the last stored id."""
    longest = min(len(tail), len(state))
    length = next((n for n in range(longest, 0, -1) if all(map(_same, state[:n], tail[-n:]))), 0)
    return _named(state[length:], names[length:]), tail[-1].id if length and length == len(state) else None


def _named(state: Sequence[Message], names: Sequence[tuple[str, ...]]) -> list[Message]:
    return [replace(it, id=own[0]) if own and it.id is None else it for it, own in zip(state, names, strict=True)]


def _same(message: Message, stored: Message) -> bool:
    """Return whether both say the same, as they are or after a round trip of the stored one through LangChain."""
    return same_content(message, stored) or same_content(message, to_arc(from_arc(stored)))
