"""A model that can be held, turns, and views of a window for tests of summaries."""

import json
from collections.abc import Sequence
from threading import Event, Lock
from typing import Any

from arc_common.context import ContextWindow
from arc_common.engine.session import Session
from arc_common.messages import Message, Role
from arc_common.settings import ArcSettings

LONG = 60.0
"""Seconds that no step of a test takes."""


class Model:
    """Counts its requests, raises `error` if there is one, and waits before an answer while it is held."""

    def __init__(self, *, held: bool = False, error: Exception | None = None, facts: Sequence[object] = ()) -> None:
        self.error = error
        self.facts = facts
        self.requests: list[str] = []
        self.asked = Event()
        self.may_answer = Event()
        self._lock = Lock()
        if not held:
            self.may_answer.set()

    def complete(self, messages: Sequence[Message]) -> str:
        """Return a summary with the number of the request."""
        with self._lock:
            self.requests.append("\n".join(message.text for message in messages))
            number = len(self.requests)
        self.asked.set()
        assert self.may_answer.wait(LONG)
        if self.error:
            raise self.error
        return json.dumps({"facts": list(self.facts), "narrative": f"MODEL {'again ' * (number - 1)}told it."})


def settings_with(**groups: Any) -> ArcSettings:
    """Return settings without retries of model calls, and with leaves that few short messages fill."""
    summary = {"leaf_messages": 16, **groups.pop("summary", {})}
    return ArcSettings(model_calls={"attempts": 1}, summary=summary, **groups)


def turn(number: int, text: str = "") -> list[Message]:
    """Return a question and its answer."""
    return [
        Message(Role.USER, f"Question {number}: {text or f'my order is ORD-{1000 + number}'}.", id=f"q{number}"),
        Message(Role.ASSISTANT, f"Answer {number}, noted.", id=f"a{number}"),
    ]


def talk(session: Session, turns: int, *, first: int = 1) -> None:
    """Append turns one after the other."""
    for number in range(first, first + turns):
        session.append(turn(number))


def verbatim(window: ContextWindow) -> list[str | None]:
    """Return the ids of the stored messages that the window shows verbatim."""
    return [message.id for message in window.messages if message.role is not Role.SYSTEM]


def system(window: ContextWindow) -> str:
    """Return the leading system message, or an empty string."""
    return window.messages[0].text if window.messages and window.messages[0].role is Role.SYSTEM else ""


def shown(window: ContextWindow) -> str:
    """Return all text of a window."""
    return "\n".join(message.text for message in window.messages)


def ids(first: int, last: int) -> list[str]:
    """Return the ids of the messages of these turns."""
    return [f"{kind}{number}" for number in range(first, last + 1) for kind in "qa"]
