"""Saving a streamed turn: the last iteration's content, also when the stream is cut short."""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from arc_common.messages import Message, Role

__all__ = ["StreamedTurn"]

_CUT_SHORT = (GeneratorExit, KeyboardInterrupt, asyncio.CancelledError)


class StreamedTurn:
    """Collects a streamed answer and saves the turn when the block ends. Use it with `with` or `async with`.

    - Of an answer in several iterations (a model that calls tools in between) only the last one's content is saved.
    - A stream that is closed or cancelled is saved as far as it came, if anything came; the message's metadata says
      so (`{"cut_short": True}`).
    - When the block raises, the turn has failed and is not saved.
    - Saving never raises: see `Session.save_turn`.

    Args:
        user: The user's message.
        save: Saves the turn.
        asave: Saves the turn from a coroutine, also when that is being cancelled.
    """

    def __init__(
        self,
        user: Message,
        *,
        save: Callable[[Message, Message], None],
        asave: Callable[[Message, Message], Awaitable[None]],
    ) -> None:
        self._user = user
        self._save = save
        self._asave = asave
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """What came so far in this iteration."""
        return "".join(self._pieces)

    def write(self, delta: str) -> None:
        """Add a piece of the answer."""
        self._pieces.append(delta)

    def next_iteration(self) -> None:
        """Begin the answer anew: what came so far led to tool calls."""
        self._pieces.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        answer = self._answer(error)
        if answer is not None:
            self._save(self._user, answer)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        answer = self._answer(error)
        if answer is not None:
            await self._asave(self._user, answer)

    def _answer(self, error: BaseException | None) -> Message | None:
        if error is None:
            return Message(Role.ASSISTANT, self.text)
        if isinstance(error, _CUT_SHORT) and self._pieces:
            return Message(Role.ASSISTANT, self.text, metadata={"cut_short": True})
        return None
