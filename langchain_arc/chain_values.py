"""Converts a chain's input and output to messages, and finds the session that its configuration names."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from arc_common.engine.context_engine import ContextEngine
from arc_common.engine.session import Session
from arc_common.exceptions import InvalidInputError, MissingDependencyError
from langchain_arc.engine import checked_engine

try:
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, convert_to_messages
    from langchain_core.runnables import RunnableConfig
    from langchain_core.runnables.utils import ConfigurableFieldSpec
except ImportError as error:
    raise MissingDependencyError("langchain_arc", package="langchain-core", extra="langchain") from error

_NAMES = ("session_id", "user_id", "caller_id", "account_id")
_FORMS = "text, a message, a list of messages, or a dictionary with one of these under a key"


@dataclass(frozen=True, slots=True)
class SessionSource:
    """Finds the session of a run."""

    engine: ContextEngine
    session_id: str | None = None
    user_id: str | None = None
    caller_id: str = "default"
    account_id: str | None = None
    specs: Sequence[ConfigurableFieldSpec] = ()
    get_session: Callable[..., Session] | None = None

    def __post_init__(self) -> None:
        checked_engine(self.engine)
        self.engine.session(
            self.session_id, user_id=self.user_id, caller_id=self.caller_id, account_id=self.account_id
        )  # checks the ids early
        if self.get_session is not None and not callable(self.get_session):
            raise InvalidInputError("get_session", self.get_session, "a function that returns a Session, or None")
        for spec in self.specs:
            if self.get_session is None and spec.id not in _NAMES:
                raise InvalidInputError(
                    "history_factory_config", spec.id, f"one of {', '.join(_NAMES)}, or a get_session that takes it"
                )

    @property
    def fields(self) -> list[ConfigurableFieldSpec]:
        """The configuration keys that name the session."""
        if self.specs:
            return list(self.specs)
        return [
            ConfigurableFieldSpec(
                id="session_id",
                annotation=str,
                name="Session ID",
                description="The conversation's id.",
                default=self.session_id,
                is_shared=True,
            )
        ]

    def session(self, config: RunnableConfig | None) -> Session:
        """Return the run's session."""
        configurable: Mapping[str, Any] = (config or {}).get("configurable") or {}
        names = {spec.id: configurable[spec.id] for spec in self.fields if spec.id in configurable}
        if self.session_id is not None:
            names.setdefault("session_id", self.session_id)
        missing = [spec.id for spec in self.fields if spec.id not in names]
        if missing:
            raise InvalidInputError(
                'config["configurable"]', dict(names), f"the keys {', '.join(missing)}, which name the session"
            )
        if self.get_session is not None:
            return self.get_session(**names)
        default = {"user_id": self.user_id, "caller_id": self.caller_id, "account_id": self.account_id}
        return self.engine.session(**{**default, **names})


def picked(value: Any, key: str | None, *, field: str, usual: Sequence[str]) -> Any:
    """Return a dictionary's value under the given key, its only key or a usual one; other values unchanged."""
    if not isinstance(value, Mapping):
        return value
    if key is None:
        key = next(iter(value)) if len(value) == 1 else next((name for name in usual if name in value), None)
    if key is None or key not in value:
        raise InvalidInputError(field, sorted(map(str, value)), f"a dictionary with the key {key or usual[0]!r}")
    return value[key]


def input_messages(value: Any, *, field: str = "input") -> list[BaseMessage]:
    """Convert a user's input to messages; text becomes a human message."""
    if isinstance(value, str):
        return [HumanMessage(value)]
    return _messages(value, field)


def output_messages(value: Any, *, field: str = "output") -> list[BaseMessage]:
    """Convert a chain's answer to messages; text becomes an AI message."""
    if isinstance(value, str):
        return [AIMessage(value)]
    return _messages(value, field)


def _messages(value: Any, field: str) -> list[BaseMessage]:
    if isinstance(value, BaseMessage):
        return [value]
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        try:
            return list(convert_to_messages(value))
        except (ValueError, NotImplementedError, TypeError) as error:
            raise InvalidInputError(field, value, _FORMS) from error
    raise InvalidInputError(field, value, _FORMS)
