"""A request for a page: its caller, its parameters, and the addresses that the page links to."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import urlencode

from arc_common.engine.admin import SessionDebug
from arc_common.engine.context_engine import ContextEngine
from arc_common.engine.memories import Memories
from arc_common.engine.session import Session
from arc_common.exceptions import InvalidInputError, SessionNotFoundError
from arc_common.protocols import ConversationStatus
from arc_common.server.access import Access, Role

_MOST_DIGITS = 12


@dataclass(frozen=True)
class Visit:
    """A request for a page, or of a form on one, under the `root` of the pages; forms carry the secret `csrf`."""

    access: Access
    query: Mapping[str, str]
    form: Mapping[str, str]
    root: str
    csrf: str
    can_sign_out: bool

    @property
    def engine(self) -> ContextEngine:
        """The engine."""
        return self.access.engine

    def url(self, path: str, **query: object) -> str:
        """Return the address of a page; parameters that are `None` or empty are left out."""
        given = {name: value for name, value in query.items() if value not in (None, "")}
        return f"{self.root}/{path}" + (f"?{urlencode(given)}" if given else "")

    def may(self, role: str) -> bool:
        """Return whether the browser's token has a role."""
        return self.access.token.role.includes(Role(role))

    def text(self, name: str) -> str | None:
        """Return a parameter of the address; `None` if it is missing or empty."""
        return self.query.get(name) or None

    def number(self, name: str) -> int | None:
        """Return a parameter that is a whole number; `None` if it is missing or empty."""
        given = self.query.get(name, "").strip().replace(",", "")
        if not given:
            return None
        if not given.isascii() or not given.isdecimal() or len(given) > _MOST_DIGITS:
            raise InvalidInputError(name, self.query[name], "a whole number")
        return int(given)

    @cached_property
    def session_id(self) -> str:
        """The conversation that the page is about."""
        return self.query.get("id", "")

    @cached_property
    def user_id(self) -> str | None:
        """The user for whom the page is shown: the token's, or the one in the address."""
        return self.access.user(self.text("user"))

    @cached_property
    def branch(self) -> int | None:
        """The number of the branch in the address; `None` for the current one."""
        return self.number("branch")

    @cached_property
    def session(self) -> Session:
        """The conversation that the page is about."""
        return self.engine.session(
            self.session_id, user_id=self.user_id, caller_id=self.access.caller_id, branch=self.branch
        )

    @cached_property
    def debug(self) -> SessionDebug:
        """The conversation's record and summary."""
        return self.engine.admin.debug(
            self.session_id, caller_id=self.access.caller_id, user_id=self.user_id, branch=self.branch
        )

    @property
    def is_archived(self) -> bool:
        """True if the conversation's messages are in the archive."""
        return self.debug.conversation.status is ConversationStatus.ARCHIVED

    @cached_property
    def stored(self) -> Session:
        """The conversation, if anything was ever stored in it; otherwise it is not found."""
        if not self.session.exists():
            raise SessionNotFoundError(self.session_id)
        return self.session

    @cached_property
    def memories(self) -> Memories:
        """The memories that the conversation reads and adds to."""
        return self.access.memories(self.session_id, self.user_id)

    def of_conversation(self, path: str, **query: object) -> str:
        """Return the address of a page about the same conversation."""
        return self.url(path, id=self.session_id, user=self.text("user"), branch=self.branch, **query)
