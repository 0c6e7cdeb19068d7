"""Stores an agent's conversation: saves what is new in its state, and builds the window for a request."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from arc_common.context import ContextWindow
from arc_common.engine.session import Session
from arc_common.exceptions import InvalidInputError, MissingDependencyError
from arc_common.messages import Message, Role
from arc_common.tokens.budget import TokenBudget
from langchain_arc.states import behind, names_of, said, unsaved
from langchain_arc.stored_messages import stored_form

try:
    from langchain_core.messages import BaseMessage
except ImportError as error:
    raise MissingDependencyError("ArcMemoryMiddleware", package="langchain-core", extra="langchain") from error

_CHUNK = 32
"""Number of newest messages looked up first; older ones are looked up only if none of these is stored."""

_LOOK_BACK = 256
"""Number of messages before the newest one that are fitted when other writers have appended after it."""


def save_state(session: Session, messages: Sequence[BaseMessage], answer: Sequence[BaseMessage] = ()) -> str | None:
    """Store the state's new messages and the model's answer; return the newest message's stored id."""
    own = said(messages)
    state, names, stored = _looked_up(session, own, [message.id for message in answer if message.id])
    converted = [stored_form(message) for message in state]
    newest = next((name for name in (names[-1] if names else ()) if name in stored), None)
    new = unsaved(converted, names, stored)
    if new is None:
        tail = session.messages(limit=len(converted)) if converted else []
        new, newest = behind(tail, converted, names)
    answers = [stored_form(message) for message in answer]
    new += [replace(message, id=None) if message.id in stored else message for message in answers]
    kept = session.append(new) if new else []
    return kept[-1].id if kept and (newest is None or answer) else newest


def window_until(
    newest: str,
    session: Session,
    *,
    system_prompt: str | None,
    tools: Sequence[Mapping[str, Any]],
    response_format: Mapping[str, Any] | None,
    budget: TokenBudget,
) -> ContextWindow | None:
    """Return the request's window, ending with the state's newest message; `None` without a user message."""
    context = partial(
        session.context, system_prompt=system_prompt, tools=tools, response_format=response_format, budget=budget
    )
    try:
        window = context()
    except InvalidInputError as error:
        if error.field != "query":  # the messages read of a very long turn don't reach back to its question
            raise
    else:
        if window.messages and window.messages[-1].id == newest:
            return window
    history = [*session.messages(limit=_LOOK_BACK, before=newest), *session.find([newest])]
    if not any(message.role is Role.USER for message in history):
        return None
    return context(history=history)


def _looked_up(
    session: Session, messages: Sequence[BaseMessage], also: Sequence[str]
) -> tuple[Sequence[BaseMessage], list[tuple[str, ...]], dict[str, Message]]:
    """Return the messages back to a stored one, the ids each may have, and the stored messages by id."""
    size = _CHUNK
    while True:
        state = messages[-size:]
        names = names_of(state)
        known = session.find([*(name for own in names for name in own), *also])
        stored = {message.id: message for message in known if message.id}
        if size >= len(messages) or any(name in stored for own in names for name in own):
            return state, names, stored
        size *= 4
