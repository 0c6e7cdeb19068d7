"""The parameters that routes share."""

from typing import Annotated, TypeVar

from fastapi import Depends, Path, Query
from starlette.requests import Request

from arc_common.engine.session import Session
from arc_common.exceptions import SessionNotFoundError
from arc_common.server.access import Access

T = TypeVar("T")

SessionId = Annotated[str, Path(alias="sessionId", min_length=1, max_length=255, description="The session's id.")]
UserId = Annotated[
    str | None,
    Query(
        alias="userId",
        min_length=1,
        max_length=255,
        description="The user that the session belongs to; by default the token's. Required if the token is for any "
        "user and the session has one.",
    ),
]
BranchName = Annotated[
    str | None,
    Query(
        alias="branch", min_length=1, max_length=255, description="A branch's number or name; by default the current."
    ),
]
Limit = Annotated[int, Query(ge=1, le=1_000, description="The most results.")]
Cursor = Annotated[str | None, Query(max_length=2_000, description="`nextCursor` of the page before.")]


async def _access(request: Request) -> Access:  # FastAPI would run a sync function on a thread
    access: Access = request.scope["arc_access"]
    return access


Caller = Annotated[Access, Depends(_access)]


async def _session(access: Caller, session_id: SessionId, user_id: UserId = None, branch: BranchName = None) -> Session:
    return access.session(session_id, user_id, branch)


OpenSession = Annotated[Session, Depends(_session)]
"""A session of the caller and user, stored or not."""


async def there(session: Session, found: list[T]) -> list[T]:
    """Return the value found; without one, raise `SessionNotFoundError` if nothing was ever stored in the session."""
    if not found and not await session.aexists():
        raise SessionNotFoundError(session.id or "")
    return found


async def _stored(session: OpenSession) -> Session:
    await there(session, [])
    return session


StoredSession = Annotated[Session, Depends(_stored)]
"""A session of the caller and user that something was stored in; otherwise it is not found."""
