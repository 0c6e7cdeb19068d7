"""Errors as problem+json (RFC 9457)."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from arc_common.exceptions import (
    ArcError,
    BudgetExceededError,
    ConfigurationError,
    EngineClosedError,
    InvalidInputError,
    MemoryConflictError,
    NotFoundError,
    ReviewConflictError,
    StoreError,
)
from arc_common.server.access import AccessError

MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """An error, as RFC 9457 describes it."""

    type: str = Field(description="A name of the kind of problem.")
    title: str = Field(description="The status in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="The value received, the values expected, and the remedy.")
    errors: list[str] = Field(default=[], description="Each wrong value of the request.")


_STATUS: Sequence[tuple[type[ArcError], int]] = (
    (NotFoundError, 404),
    (InvalidInputError, 422),
    (BudgetExceededError, 422),
    (MemoryConflictError, 409),
    (ReviewConflictError, 409),
    (ConfigurationError, 409),
    (StoreError, 503),
    (EngineClosedError, 503),
    (ArcError, 500),
)


def problem(status: int, detail: str, *, kind: str = "about:blank", errors: Sequence[str] = ()) -> Response:
    """Return a problem as a response."""
    told = Problem(type=kind, title=HTTPStatus(status).phrase, status=status, detail=detail, errors=list(errors))
    headers = {"WWW-Authenticate": "Bearer"} if status == HTTPStatus.UNAUTHORIZED else None
    return JSONResponse(told.model_dump(), status, headers, MEDIA_TYPE)


class NotReadyError(ArcError):
    """Some parts of the engine don't work."""

    def __init__(self, parts: Sequence[str]) -> None:
        self.parts = parts
        super().__init__("the server is not ready")


def problem_of(error: Exception) -> Response | None:
    """Return an expected error as a response; `None` for any other."""
    if isinstance(error, AccessError):
        return problem(error.status, str(error))
    if isinstance(error, NotReadyError):
        return problem(503, str(error), kind="NotReady", errors=error.parts)
    if isinstance(error, RequestValidationError):
        errors = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        return problem(422, "the request is not valid", kind="invalid-request", errors=errors)
    if isinstance(error, HTTPException):
        answer = problem(error.status_code, str(error.detail))
        answer.headers.update(error.headers or {})
        return answer
    for kind, status in _STATUS:
        if isinstance(error, kind):
            return problem(status, detail_of(error), kind=type(error).__name__)
    return None


async def body_of(request: Request, most: int, limit: str) -> bytes:
    """Return a request's body; raise once it is too large."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise HTTPException(413, f"the body is too large: at most {most:,} bytes ({limit})")
    return bytes(body)


def detail_of(error: ArcError) -> str:
    """Return an error's text for a client; nothing of the store, whose errors may quote its address."""
    return "the store can't be reached" if isinstance(error, StoreError | EngineClosedError) else str(error)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the problems of a route for its documentation."""
    schema = Problem.model_json_schema()
    return {
        status: {"description": HTTPStatus(status).phrase, "content": {MEDIA_TYPE: {"schema": schema}}}
        for status in statuses
    }
