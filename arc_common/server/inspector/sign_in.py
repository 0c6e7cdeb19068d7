"""Signs browsers in: a cookie signed with the token's own secret, which also protects forms."""

import hmac
import secrets
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from itsdangerous import BadData, URLSafeTimedSerializer
from starlette.requests import Request
from starlette.responses import Response

from arc_common.engine.context_engine import ContextEngine
from arc_common.server.access import Access, AccessError, Guard, Role, Token

_COOKIE = "arc_inspector"
_SECONDS = 12 * 60 * 60
_SALT = "arc inspector"


class SignedIn(NamedTuple):
    """The data that a browser may reach, the secret of its forms, and the cookie to set if it is new."""

    access: Access
    csrf: str
    cookie: str | None = None


class SignIn:
    """Signs in and out, and checks cookies and forms.

    - A cookie is signed with the secret of the token that it was given for: it is valid in every process that knows the
      token, for twelve hours, and no longer than the token.
    - Without tokens, this machine needs no sign-in; its cookie only protects forms.
    """

    def __init__(self, engine: ContextEngine, tokens: Sequence[Token], *, anonymous: bool) -> None:
        self._engine = engine
        self._guard = Guard(engine, tokens, anonymous=anonymous)
        self._tokens = tokens
        self._here = secrets.token_urlsafe()  # signs the cookies of a server without tokens

    @property
    def is_needed(self) -> bool:
        """Return whether pages need a token."""
        return bool(self._tokens)

    def admit(self, request: Request, role: Role) -> SignedIn:
        """Return the data that a browser may reach, or raise `AccessError`; 401 if it is not signed in."""
        given = request.cookies.get(_COOKIE, "")
        if not self._tokens:
            access = self._guard.admit(request, role)
            csrf = _read(given, self._here)
            return SignedIn(access, csrf) if csrf else self._new(access, self._here)
        for token in self._tokens:
            if csrf := _read(given, token.secret):
                return SignedIn(Access(self._engine, token).needing(role), csrf)
        raise AccessError(401, "sign in with a token of this server")

    def signed_in(self, secret: str) -> SignedIn:
        """Return the data that a token may reach, or raise `AccessError`."""
        token = self._guard.token(secret)
        return self._new(Access(self._engine, token), token.secret)

    @staticmethod
    def check_form(csrf: str, given: str) -> None:
        """Raise `AccessError` for a form that no page of the same browser held."""
        if not hmac.compare_digest(csrf.encode(), given.encode(errors="replace")):
            raise AccessError(403, "this page is too old: go back, reload it, and try again")

    @staticmethod
    def check_origin(request: Request) -> None:
        """Raise `AccessError` for a form that was sent from a page of another site."""
        site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
        if site is not None:
            is_own = site in ("same-origin", "none")
        else:
            is_own = origin is None or origin.partition("://")[2] == request.headers.get("host")
        if not is_own:
            raise AccessError(403, "the form was sent from another site")

    @staticmethod
    def set_cookie(response: Response, request: Request, cookie: str | None) -> None:
        """Set the cookie for the pages only, or remove it."""
        path = request.scope.get("root_path") or "/"
        if cookie is None:
            response.delete_cookie(_COOKIE, path=path)
            return
        is_secure = request.url.scheme == "https"
        response.set_cookie(
            _COOKIE, cookie, max_age=_SECONDS, path=path, secure=is_secure, httponly=True, samesite="strict"
        )

    @staticmethod
    def _new(access: Access, secret: str) -> SignedIn:
        csrf = secrets.token_urlsafe(24)
        return SignedIn(access, csrf, _signer(secret).dumps(csrf))


def _signer(secret: str) -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(secret, salt=_SALT, signer_kwargs={"digest_method": sha256})


def _read(cookie: str, secret: str) -> str:
    """Return the forms' secret of a cookie that was signed with this secret; `""` for any other."""
    try:
        csrf = _signer(secret).loads(cookie, max_age=_SECONDS)
    except BadData:
        return ""
    return csrf if isinstance(csrf, str) else ""
