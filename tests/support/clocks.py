"""A clock that a test sets."""

from datetime import UTC, datetime

START = datetime(2026, 3, 1, tzinfo=UTC)


class Clock:
    """A clock that stands still unless a test moves it."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now
