"""Sessions: their messages, context windows, recall, facts, pins and branches."""

from dataclasses import replace
from typing import Annotated

from fastapi import Path, Query

from arc_common.exceptions import SessionNotFoundError
from arc_common.protocols.conversations import ConversationStatus
from arc_common.server.access import branch_of
from arc_common.server.models import (
    AppendIn,
    BranchOut,
    ContextIn,
    ContextOut,
    DebugOut,
    FactOut,
    ForkIn,
    MessageOut,
    MessagesOut,
    PinIn,
    PinOut,
    RecalledOut,
    RecallIn,
    RequestOut,
    RewindIn,
    SessionOut,
    SessionPage,
)
from arc_common.server.routes.parameters import (
    Caller,
    Cursor,
    Limit,
    OpenSession,
    SessionId,
    StoredSession,
    UserId,
    there,
)

_SHOWN = ("history", "current_turn", "user_message")
"""The sections of a request that hold messages."""


async def list_sessions(
    access: Caller,
    user_id: UserId = None,
    status: Annotated[ConversationStatus | None, Query(description="By default active and archived ones.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> SessionPage:
    """Return a page of the caller's sessions, or of one user's, the newest first."""
    page = await access.engine.admin.asessions(access.caller_id, access.user(user_id), limit, cursor, status=status)
    return SessionPage(sessions=list(map(SessionOut.of, page.conversations)), next_cursor=page.next_cursor)


async def delete_session(session: OpenSession) -> None:
    """Delete a session with everything derived from it."""
    if not await session.adelete():
        raise SessionNotFoundError(session.id or "")


async def append_messages(session: OpenSession, body: AppendIn) -> MessagesOut:
    """Append messages, and return them as stored.

    The first ones create the session. A message whose id is stored already is left as it is, or becomes a new revision.
    """
    stored = await session.aappend([one.message() for one in body.messages])
    return MessagesOut(messages=list(map(MessageOut.of, stored)))


async def list_messages(
    session: OpenSession,
    limit: Limit = 50,
    before: Annotated[str | None, Query(min_length=1, max_length=255, description="The id of a message.")] = None,
) -> MessagesOut:
    """Return the newest messages, or the newest before one, the oldest first."""
    found = await there(session, await session.amessages(limit=limit, before=before))
    return MessagesOut(messages=list(map(MessageOut.of, found)))


async def build_context(access: Caller, session: OpenSession, body: ContextIn) -> ContextOut:
    """Return the messages that a model should see on this turn, within the token budget, and the account of them."""
    budget = None
    if body.context_window is not None or body.output_reserve is not None:
        default = access.engine.budget
        budget = replace(
            default,
            context_window=body.context_window or default.context_window,
            output_reserve=default.output_reserve if body.output_reserve is None else body.output_reserve,
        )
    window = await session.acontext(
        body.query,
        system_prompt=body.system_prompt,
        documents=None if body.documents is None else [one.document() for one in body.documents],
        tools=body.tools,
        response_format=body.response_format,
        budget=budget,
        memory_tags=body.memory_tags,
    )
    messages = list(map(MessageOut.of, window.messages))
    return ContextOut(messages=messages, total_tokens=window.total_tokens, receipt=window.receipt.to_dict())


async def recall(session: OpenSession, body: RecallIn) -> list[RecalledOut]:
    """Return the messages most relevant to a question, best first."""
    found = await session.arecall(body.query, top_k=body.top_k, scope=body.scope)
    return list(map(RecalledOut.of, await there(session, found)))


async def list_facts(session: OpenSession) -> list[FactOut]:
    """Return the facts of a session, most important first."""
    return list(map(FactOut.of, await there(session, await session.afacts())))


async def list_pins(session: OpenSession) -> list[PinOut]:
    """Return the texts that every request of a session shows word for word, the oldest first."""
    return list(map(PinOut.of, await there(session, await session.apins())))


async def add_pin(session: StoredSession, body: PinIn) -> PinOut:
    """Show a text, or the message with this id, in every request of a session."""
    return PinOut.of(await session.apin(body.text))


async def remove_pin(session: StoredSession, pin_id: Annotated[str, Path(alias="pinId", max_length=255)]) -> None:
    """Remove a pin of a session."""
    await session.aunpin(pin_id)


async def list_branches(session: StoredSession) -> list[BranchOut]:
    """Return the branches of a session in the order in which they were made."""
    return list(map(BranchOut.of, await session.abranches()))


async def fork(session: StoredSession, body: ForkIn) -> BranchOut:
    """Make a branch that continues after a message."""
    made = await session.afork(body.at, name=body.name)
    branches = await session.abranches()
    return BranchOut.of(next(one for one in branches if made.branch in (one.id, one.name)))


async def rewind(session: StoredSession, body: RewindIn) -> list[BranchOut]:
    """Go back to a message: requests no longer show the messages after it. Return all branches."""
    await session.arewind(body.to)
    return list(map(BranchOut.of, await session.abranches()))


async def switch_branch(
    session: StoredSession, which: Annotated[str, Path(alias="branchName", max_length=255)]
) -> list[BranchOut]:
    """Make a branch, by number or name, the current one. Return all branches."""
    await session.aswitch(branch_of(which))
    return list(map(BranchOut.of, await session.abranches()))


async def delete_branch(
    session: StoredSession, which: Annotated[str, Path(alias="branchName", max_length=255)]
) -> None:
    """Delete a branch, by number or name, with everything that no other branch shows."""
    await session.adelete_branch(branch_of(which))


async def list_requests(
    access: Caller, session_id: SessionId, user_id: UserId = None, limit: Limit = 20
) -> list[RequestOut]:
    """Return a session's newest requests as they were sent, the newest first (see `context.store_receipts`)."""
    sent = await access.engine.admin.arequests(
        session_id, limit=limit, caller_id=access.caller_id, user_id=access.user(user_id)
    )
    return list(map(RequestOut.of, sent))


async def debug_conversation(
    access: Caller,
    conversation_id: Annotated[str, Path(alias="id", min_length=1, max_length=255)],
    user_id: UserId = None,
) -> DebugOut:
    """Return a conversation's figures, and the receipt of its last request."""
    engine = access.engine
    found = await engine.admin.adebug(conversation_id, caller_id=access.caller_id, user_id=access.user(user_id))
    sections = found.receipt.sections if found.receipt else ()
    shown = [item for section in sections if section.name in _SHOWN for item in section.items if item.kind == "message"]
    threshold = engine.settings.conversation.compression_threshold
    most = threshold * engine.budget.input_tokens if threshold <= 1 else threshold
    return DebugOut(
        conversation_id=conversation_id,
        total_messages=found.conversation.message_count,
        messages_in_context=len(shown),
        total_tokens=found.conversation.total_tokens,
        compression_needed=found.conversation.total_tokens > most,
        last_receipt=found.receipt.to_dict() if found.receipt else None,
    )
