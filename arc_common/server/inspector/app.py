"""Builds the inspector: an application of pages to mount in another one."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from json import dumps, loads
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

from arc_common.context.display import LOOKS, STYLE, counted, visible
from arc_common.engine.context_engine import ContextEngine, checked_engine
from arc_common.exceptions import MissingDependencyError
from arc_common.server.access import AccessError, Role, Token
from arc_common.server.problems import body_of, problem_of

try:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, RedirectResponse, Response
    from starlette.routing import Route

    from arc_common.server.inspector.sign_in import SignIn
except ImportError as error:
    raise MissingDependencyError("arc_common.server.inspector", package="jinja2", extra="server") from error

from arc_common.server.inspector import actions, pages
from arc_common.server.inspector.visit import Visit

_MOST_BYTES = 256_000
_MOST_FIELDS = 50
_AGAIN = '<!doctype html><html lang="en"><title>Arc</title><meta http-equiv="refresh" content="0">'
"""Asks for the page again from itself: browsers send no cookie along with a link on another site."""
_FORM = "application/x-www-form-urlencoded"
_FILLS = "".join(f".of-{name}{{fill:{look.color}}}" for name, look in LOOKS.items())
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",  # without a referrer, browsers would send forms without their origin
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Page:
    """A page (GET) or the action of a form (POST), with the role that it needs."""

    method: Literal["GET", "POST"]
    path: str
    function: Callable[[Visit], pages.Answer]
    role: Role


PAGES = (
    Page("GET", "/", pages.conversations, Role.READER),
    Page("GET", "/conversation", pages.conversation, Role.READER),
    Page("GET", "/turn", pages.turn, Role.READER),
    Page("GET", "/review", pages.review, Role.REVIEWER),
    Page("POST", "/pin", actions.pin, Role.WRITER),
    Page("POST", "/unpin", actions.unpin, Role.WRITER),
    Page("POST", "/restore", actions.restore, Role.WRITER),
    Page("POST", "/memory/edit", actions.edit_memory, Role.WRITER),
    Page("POST", "/memory/forget", actions.forget_memory, Role.WRITER),
    Page("POST", "/memory/pin", actions.pin_memory, Role.WRITER),
    Page("POST", "/memory/unpin", actions.unpin_memory, Role.WRITER),
    Page("POST", "/memory/approve", actions.approve_memory, Role.REVIEWER),
    Page("POST", "/memory/reject", actions.reject_memory, Role.REVIEWER),
    Page("POST", "/review/approve", actions.approve, Role.REVIEWER),
    Page("POST", "/review/reject", actions.reject, Role.REVIEWER),
)


def build_inspector(engine: ContextEngine, tokens: Sequence[Token], *, anonymous: bool = False) -> Starlette:
    """Return the inspector as an application to mount in another one.

        app.mount("/inspector", build_inspector(engine, tokens))

    - Browsers sign in with a token, and see what the API shows to it. Nothing is loaded from elsewhere.
    - The engine stays the application's: close it when the application ends.
    - `anonymous` shows the pages to this machine without a token.

    Raises:
        ConfigurationError: There are no tokens and `anonymous` is not set, or both are given.
    """
    return Inspector(SignIn(checked_engine(engine), tokens, anonymous=anonymous)).application()


class Inspector:
    """Answers requests for pages: admits them, reads forms, renders templates and errors."""

    def __init__(self, sign_in: SignIn) -> None:
        self._sign_in = sign_in
        static = files("arc_common.server.inspector") / "static"
        self._static = {
            "inspector.css": (f"{STYLE}\n{_FILLS}\n{(static / 'inspector.css').read_text('utf-8')}", "text/css"),
            "inspector.js": ((static / "inspector.js").read_text("utf-8"), "text/javascript"),
            "icon.svg": ((static / "icon.svg").read_text("utf-8"), "image/svg+xml"),
        }
        self._templates = Environment(
            loader=PackageLoader("arc_common.server.inspector"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_shown,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        version = sha256("".join(text for text, _ in self._static.values()).encode()).hexdigest()[:12]
        self._templates.globals |= {"counted": counted, "looks": LOOKS, "version": version}
        self._templates.filters |= {
            "number": "{:,}".format,
            "change": "{:+,}".format,
            "time": "{:%Y-%m-%d %H:%M:%S}".format,
            "day": "{:%Y-%m-%d}".format,
            "tojson_text": _json,
        }

    def application(self) -> Starlette:
        """Return the application."""
        routes = [Route(one.path, self._route(one), methods=[one.method]) for one in PAGES]
        routes += [
            Route("/sign-in", self._guarded(self._ask_for_token), methods=["GET"]),
            Route("/sign-in", self._guarded(self._take_token), methods=["POST"]),
            Route("/sign-out", self._guarded(self._sign_out), methods=["POST"]),
            Route("/static/{name}", self._guarded(self._file), methods=["GET"]),
        ]
        return Starlette(routes=routes, exception_handlers={HTTPException: self._refused, Exception: self._failed})

    def _route(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            is_form = page.method == "POST"
            if is_form:
                self._sign_in.check_origin(request)
            try:
                signed_in = self._sign_in.admit(request, page.role)
            except AccessError as error:
                if error.status != HTTPStatus.UNAUTHORIZED or is_form:
                    raise
                if request.headers.get("sec-fetch-site") == "cross-site":
                    return HTMLResponse(_AGAIN)
                return RedirectResponse(f"{_root(request)}/sign-in?{urlencode({'next': _address(request)})}", 303)
            form = await _form(request) if is_form else {}
            if is_form:
                self._sign_in.check_form(signed_in.csrf, form.get("csrf", ""))
            visit = Visit(
                signed_in.access,
                dict(request.query_params),
                form,
                _root(request),
                signed_in.csrf,
                self._sign_in.is_needed,
            )
            response = await run_in_threadpool(self._answered, page, visit)
            if signed_in.cookie:
                self._sign_in.set_cookie(response, request, signed_in.cookie)
            return response

        return self._guarded(answer)

    def _answered(self, page: Page, visit: Visit) -> Response:
        answer = page.function(visit)
        if isinstance(answer, str):
            return RedirectResponse(answer, 303)
        template, values = answer
        return self._rendered(template, visit.root, visit=visit, **values)

    def _guarded(self, handle: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """Show errors as pages, and send every answer with the headers that keep it to itself."""

        async def guarded(request: Request) -> Response:
            try:
                response = await handle(request)
            except Exception as error:
                answer = problem_of(error)
                if answer is None:
                    raise
                told = loads(bytes(answer.body))
                response = self._rendered("error.html", _root(request), code=answer.status_code, problem=told)
            response.headers.update({**_HEADERS, **dict(response.headers)})
            return response

        return guarded

    async def _failed(self, request: Request, _: Exception) -> Response:
        """Answer an unexpected error, which is raised again for the server's log."""
        told = {
            "title": "Internal Server Error",
            "detail": "An unexpected error: the server's log names it.",
            "errors": (),
        }
        response = self._rendered("error.html", _root(request), code=500, problem=told)
        response.headers.update(_HEADERS)
        return response

    def _rendered(self, template: str, root: str, *, code: int = 200, **values: Any) -> Response:
        values.setdefault("visit", None)
        return HTMLResponse(self._templates.get_template(template).render(root=root, **values), code)

    async def _ask_for_token(self, request: Request) -> Response:
        if not self._sign_in.is_needed:
            return RedirectResponse(f"{_root(request)}/", 303)
        return self._rendered("sign_in.html", _root(request), next=request.query_params.get("next", ""), refused=False)

    async def _take_token(self, request: Request) -> Response:
        self._sign_in.check_origin(request)
        form = await _form(request)
        try:
            cookie = self._sign_in.signed_in(form.get("token", "").strip()).cookie
        except AccessError:
            values = {"next": form.get("next", ""), "refused": True}
            return self._rendered("sign_in.html", _root(request), code=401, **values)
        response = RedirectResponse(f"{_root(request)}{_own(form.get('next', ''))}", 303)
        self._sign_in.set_cookie(response, request, cookie)
        return response

    async def _sign_out(self, request: Request) -> Response:
        self._sign_in.check_origin(request)
        csrf = self._sign_in.admit(request, Role.READER).csrf
        self._sign_in.check_form(csrf, (await _form(request)).get("csrf", ""))
        response = RedirectResponse(f"{_root(request)}/sign-in", 303)
        self._sign_in.set_cookie(response, request, None)
        return response

    async def _file(self, request: Request) -> Response:
        found = self._static.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        return Response(found[0], media_type=found[1], headers={"Cache-Control": "public, max-age=31536000, immutable"})

    async def _refused(self, request: Request, error: Exception) -> Response:
        """Answer an unknown address, or another method."""

        async def fail(_: Request) -> Response:
            raise error

        return await self._guarded(fail)(request)


def _root(request: Request) -> str:
    root: str = request.scope.get("root_path", "")
    return root.rstrip("/")


def _address(request: Request) -> str:
    """Return the request's path below the inspector, with its query."""
    return request.url.path.removeprefix(_root(request)) + (f"?{request.url.query}" if request.url.query else "")


def _own(address: str) -> str:
    """Return the address if it is a page's, otherwise the first page's."""
    parts = urlsplit(address)
    is_page = parts.path in [one.path for one in PAGES if one.method == "GET"]
    if not is_page or parts.scheme or parts.netloc:
        return "/"
    return parts.path + (f"?{urlencode(parse_qsl(parts.query))}" if parts.query else "")


async def _form(request: Request) -> Mapping[str, str]:
    """Return the fields of a form; raise if it is too large or no form."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise HTTPException(415, f"expected a form ({_FORM})")
    body = await body_of(request, _MOST_BYTES, "for a form")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"))
    except ValueError:
        raise HTTPException(400, "expected a form in UTF-8") from None


def _shown(value: object) -> object:
    """Show control characters of texts; leave HTML and numbers as they are."""
    return visible(value) if type(value) is str else value


def _json(value: Mapping[str, object]) -> str:
    return dumps(dict(value), ensure_ascii=False, default=str)
