"""Builds the API from its routes: the application, and a router to mount in another one."""

import json
import math
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from arc_common.engine.context_engine import ContextEngine, checked_engine
from arc_common.exceptions import InvalidInputError, MissingDependencyError
from arc_common.server.access import Guard, Token

try:
    from fastapi import APIRouter, FastAPI, Security
    from fastapi.dependencies.models import Dependant
    from fastapi.routing import APIRoute
    from fastapi.security import HTTPBearer
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import RedirectResponse, Response
    from starlette.types import Message, Receive
except ImportError as error:
    raise MissingDependencyError("arc_common.server", package="fastapi", extra="server") from error

from arc_common import __version__
from arc_common.server.inspector import build_inspector
from arc_common.server.problems import body_of, documented, problem, problem_of
from arc_common.server.routes.table import ENDPOINTS, Endpoint

_BEARER = HTTPBearer(auto_error=False, description="A token of this server.")


def build_router(engine: ContextEngine, tokens: Sequence[Token], *, anonymous: bool = False) -> APIRouter:
    """Return the API as a router: `app.include_router(build_router(engine, tokens))`.

    - Access, size limits and errors are the router's own: the application needs nothing else.
    - The engine stays the application's: close it when the application ends.
    - `anonymous` serves requests from this machine without a token.

    Raises:
        ConfigurationError: There are no tokens and `anonymous` is not set, or both are given.
    """
    guard = Guard(checked_engine(engine), tokens, anonymous=anonymous)
    most = engine.settings.server.max_body_bytes
    router = APIRouter()
    for endpoint in ENDPOINTS:
        router.routes.append(_route(endpoint, guard, engine, most))
    return router


def create_app(engine: ContextEngine, tokens: Sequence[Token], *, anonymous: bool = False) -> FastAPI:
    """Return the API with its description at `/openapi.json`, and the inspector at `/inspector`.

    Takes the same as `build_router`.
    """
    app = FastAPI(
        title="Arc",
        version=__version__,
        description="Arc decides what a language model sees on each turn.",
        docs_url=None,  # its page needs assets from another server
        redoc_url=None,
    )
    app.include_router(build_router(engine, tokens, anonymous=anonymous))
    app.mount("/inspector", build_inspector(engine, tokens, anonymous=anonymous))
    app.add_route("/", lambda _: RedirectResponse("inspector/", 303), include_in_schema=False)

    async def refused(_: Request, error: Exception) -> Response:
        return problem_of(error) or problem(500, "an unexpected error")

    app.add_exception_handler(HTTPException, refused)  # an unknown path, or another method
    app.add_exception_handler(Exception, refused)  # the error is raised again, for the server's log
    return app


def _route(endpoint: Endpoint, guard: Guard, engine: ContextEngine, most: int) -> APIRoute:
    """Return a route that admits requests before it reads them."""

    class Guarded(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
            handle = super().get_route_handler()
            known = _parameters(self.dependant)

            async def guarded(request: Request) -> Response:
                try:
                    if endpoint.role is None:
                        request.scope["arc_engine"] = engine
                    else:
                        request.scope["arc_access"] = guard.admit(request, endpoint.role)
                        _check_parameters(request, known)
                    if endpoint.method in ("POST", "PUT"):
                        body = await body_of(request, most, "server.max_body_bytes")
                        _check_json(body)
                        request = Request(request.scope, _received(body))
                    return await handle(request)
                except Exception as error:
                    answer = problem_of(error)
                    if answer is None:
                        raise
                    return answer

            return guarded

    statuses = [503] if endpoint.role is None else [401, 403, 422, 503]
    statuses += [404] if "{" in endpoint.path else []
    statuses += [400, 413] if endpoint.method in ("POST", "PUT") else []
    statuses += endpoint.conflicts
    options: dict[str, Any] = {"dependencies": [Security(_BEARER)]} if endpoint.role else {}
    return Guarded(
        endpoint.path,
        endpoint.function,
        methods=[endpoint.method],
        status_code=endpoint.status,
        responses=documented(*sorted(statuses)),
        tags=[endpoint.tag],
        summary=endpoint.summary,
        description=(endpoint.function.__doc__ or "") + (f"\n\nRole: {endpoint.role}." if endpoint.role else ""),
        operation_id=endpoint.function.__name__,
        response_model_exclude_none=False,
        **options,
    )


def _parameters(dependant: Dependant) -> set[str]:
    """Return the names of the query parameters that a route takes."""
    own = {parameter.alias for parameter in dependant.query_params}
    return own.union(*map(_parameters, dependant.dependencies))


def _check_parameters(request: Request, known: Collection[str]) -> None:
    """Refuse unknown query parameters: `user_id` in place of `userId` would act for no user."""
    for name in request.query_params:
        if name not in known:
            raise InvalidInputError("query", name, f"one of {', '.join(sorted(known))}" if known else "no parameters")


def _check_json(body: bytes) -> None:
    """Refuse JSON that could be stored but not returned: numbers beyond a float, and halves of characters."""
    try:
        value = json.loads(body, parse_constant=_refused, parse_float=_finite, parse_int=_finite)
        if b"\\u" in body:
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError:  # reported with its place once the route reads it
        return
    except UnicodeError:
        raise InvalidInputError("body", "half of a character", "JSON text of whole characters, in UTF-8") from None
    except RecursionError:
        raise InvalidInputError("body", "deeply nested JSON", "at most a few hundred levels") from None


def _finite(text: str) -> float:
    return number if math.isfinite(number := float(text)) else _refused(text)


def _refused(text: str) -> float:
    raise InvalidInputError("body", text, "numbers that JSON and a float can represent")


def _received(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
