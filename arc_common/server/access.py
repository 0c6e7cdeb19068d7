"""Bearer tokens, their roles, and the data that a request may reach."""

import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from arc_common.engine.context_engine import ContextEngine
from arc_common.engine.ingestion import Ingestion
from arc_common.engine.memories import Memories
from arc_common.engine.session import Session
from arc_common.exceptions import ArcError, ConfigurationError, InvalidInputError
from arc_common.messages import check_identifier, member_of

if TYPE_CHECKING:
    from starlette.requests import Request

LOOPBACK = ("127.0.0.1", "::1", "localhost")
_SHORTEST = 16


class Role(StrEnum):
    """The rights of a token. Each role also has the rights of those before it."""

    READER = "reader"
    """Read."""
    WRITER = "writer"
    """Add and remove messages, memories, documents, pins and branches, and capture answers."""
    REVIEWER = "reviewer"
    """See the review queue, decide, and change its policy."""

    def includes(self, other: "Role") -> bool:
        """Return whether this role includes another."""
        roles = list(Role)
        return roles.index(self) >= roles.index(other)


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token, and its rights.

    Args:
        secret: The secret that clients send, at least 16 characters.
        caller_id: The caller whose data it reaches; no other's.
        user_id: The one user of the caller that it reaches; `None` for any.
        role: Its rights.
        name: Its holder, who is named as the reviewer.

    Raises:
        InvalidInputError: A value is invalid.
    """

    secret: str = field(repr=False)
    caller_id: str = "default"
    user_id: str | None = None
    role: Role = Role.READER
    name: str = "api"

    def __post_init__(self) -> None:
        if not isinstance(self.secret, str) or len(self.secret) < _SHORTEST or not self.secret.isascii():
            raise InvalidInputError("token", "a secret", f"at least {_SHORTEST} ASCII characters")
        check_identifier("caller", self.caller_id)
        check_identifier("name", self.name)
        if self.user_id is not None:
            check_identifier("user", self.user_id)
        object.__setattr__(self, "role", member_of(Role, self.role, "role"))


def load_tokens(path: str | Path) -> list[Token]:
    """Read tokens from a JSON file: an array of objects with `token`, and optionally `caller`, `user`, `role`, `name`.

    Raises:
        ConfigurationError: The file can't be read, or a token is invalid.
    """
    try:
        listed = json.loads(Path(path).read_text("utf-8"))
        return [_token(**one) for one in list.copy(listed)]
    except InvalidInputError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    except (OSError, ValueError, TypeError) as error:
        what = type(error).__name__ if isinstance(error, ValueError | TypeError) else error  # it may quote a token
        expected = 'a JSON array of objects such as {"token": "…", "caller": "shop", "role": "reader"}'
        raise ConfigurationError(f"server.tokens_file {str(path)!r}: {what}, expected {expected}") from None


def _token(
    *, token: str, caller: str = "default", user: str | None = None, role: str = "reader", name: str = "api"
) -> Token:
    return Token(token, caller, user, role, name)  # type: ignore[arg-type]  # checked by the class


class AccessError(ArcError):
    """A request without a valid token, or beyond its token's rights."""

    def __init__(self, status: int, reason: str) -> None:
        self.status = status
        super().__init__(reason)


_ANYBODY = Token("-" * _SHORTEST, role=Role.REVIEWER)


class Guard:
    """Admits requests by their tokens.

    Every token's digest is compared, in constant time, so that the time of a refusal tells nothing. Without tokens,
    only requests from this machine to this machine are admitted, none that a web page of another origin sends.
    """

    def __init__(self, engine: ContextEngine, tokens: Sequence[Token], *, anonymous: bool = False) -> None:
        if not tokens and not anonymous:
            raise ConfigurationError(
                "server.tokens_file: no token is configured; name a file of tokens, or pass --anonymous "
                "(anonymous=True) to serve this machine only"
            )
        if tokens and anonymous:
            raise ConfigurationError(
                "server.tokens_file: tokens are configured; --anonymous is for a server without any"
            )
        if len({one.secret for one in tokens}) < len(tokens):
            raise ConfigurationError("server.tokens_file: a token is listed twice")
        self._engine = engine
        self._tokens = [(sha256(one.secret.encode()).digest(), one) for one in tokens]

    def admit(self, request: "Request", role: Role) -> "Access":
        """Return the data that a request may reach, or raise `AccessError`."""
        if self._tokens:
            kind, _, secret = request.headers.get("authorization", "").partition(" ")
            token = self.token(secret.strip() if kind.lower() == "bearer" else "")
        else:
            token = self._local(request)
        return Access(self._engine, token).needing(role)

    def token(self, secret: str) -> Token:
        """Return the token with this secret; without tokens, the one that stands for this machine."""
        if not self._tokens:
            return _ANYBODY
        digest = sha256(secret.encode(errors="replace")).digest()
        found = [token for known, token in self._tokens if hmac.compare_digest(known, digest)]
        if not found:
            raise AccessError(401, "a valid bearer token is required")
        return found[0]

    @staticmethod
    def _local(request: "Request") -> Token:
        hosts = [
            request.client.host if request.client else None,
            urlsplit(f"//{request.headers.get('host', '')}").hostname,
        ]
        if origin := request.headers.get("origin"):
            hosts.append(urlsplit(origin).hostname)
        if any(host not in LOOPBACK for host in hosts):
            raise AccessError(403, "this server has no tokens, and serves only this machine")
        return _ANYBODY


@dataclass(frozen=True, slots=True)
class Access:
    """The data that a request may reach: that of its token's caller, and of one user or any."""

    engine: ContextEngine
    token: Token

    @property
    def caller_id(self) -> str:
        """The caller."""
        return self.token.caller_id

    def needing(self, role: Role) -> "Access":
        """Return this access, or raise `AccessError` if the token's role does not include another."""
        if not self.token.role.includes(role):
            raise AccessError(403, f"this needs the role {role.value!r}, and the token's is {self.token.role.value!r}")
        return self

    def user(self, user_id: str | None) -> str | None:
        """Return the user of a request: the token's, or the one it names if the token is for any user."""
        own = self.token.user_id
        if own is not None and user_id not in (None, own):
            raise AccessError(403, "the token is for another user")
        return user_id if own is None else own

    def session(self, session_id: str, user_id: str | None, branch: str | None = None) -> Session:
        """Return a handle on a session of the user."""
        on = None if branch is None else branch_of(branch)
        return self.engine.session(session_id, user_id=self.user(user_id), caller_id=self.caller_id, branch=on)

    def memories(self, session_id: str | None, user_id: str | None) -> Memories:
        """Return the memories that a session reads and adds to; without one, a user's or those of all users."""
        user, scope = self.user(user_id), self.engine.settings.memory.scope
        whose: dict[str, Any] = {"user_id": user} if scope != "caller" else {}
        if scope == "session" or (scope == "user" and user is None):
            if session_id is None:
                raise InvalidInputError("session_id", None, "a session" if scope == "session" else "one, or a user_id")
            whose["session_id"] = session_id
        return self.engine.memories(caller_id=self.caller_id, **whose)

    @property
    def ingestion(self) -> Ingestion:
        """The caller's review queue."""
        return self.engine.ingestion_of(self.caller_id)


def branch_of(text: str) -> int | str:
    """Return the number or name of a branch in an address."""
    return int(text) if text.isascii() and text.isdecimal() else text
