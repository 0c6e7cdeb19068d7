"""The base of arc's `Memory` blocks: stores the messages that leave the queue, and shows text from the session."""
# ruff: noqa: ARG002 - `Memory` calls every block with more than these need

import asyncio
import hashlib
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, ClassVar, NoReturn, Self, TypedDict, Unpack

from arc_common.engine.context_engine import ContextEngine
from arc_common.engine.session import Session
from arc_common.exceptions import MissingDependencyError, StoreError
from arc_common.messages import Message
from llamaindex_arc.engine import checked_engine, open_engine
from llamaindex_arc.messages import to_arc, to_exact
from llamaindex_arc.template_fields import without_fields

try:
    from llama_index.core.base.llms.types import ChatMessage, MessageRole
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
    from llama_index.core.memory import BaseMemoryBlock
except ImportError as error:
    raise MissingDependencyError("llamaindex_arc.blocks", package="llama-index-core", extra="llamaindex") from error

_SESSION = "session_id"

_MARGIN = 1.1
"""The factor by which more is cut than requested: `Memory` may count with another tokenizer, and drops long blocks."""


class BlockOptions(TypedDict, total=False):
    """Options of each block besides its name: see `ArcFactsBlock`."""

    description: str | None
    priority: int
    accept_short_term_memory: bool
    caller_id: str
    user_id: str | None


class SessionBlock(BaseMemoryBlock[str]):
    """Stores the messages that leave a `Memory` in the engine's session of its id, and shows text derived from it."""

    _frame: ClassVar[int] = 2
    """Number of lines before the content: the marker and the heading."""
    _closing: ClassVar[int] = 1
    """Number of lines after the content: the marker."""
    _oldest_first: ClassVar[bool] = True
    """Whether shortening drops lines from the start of the content; else from its end."""

    caller_id: str = Field(default="default", description="Whose sessions.")
    user_id: str | None = Field(default=None, description="Which user's sessions.")
    _engine: ContextEngine = PrivateAttr()
    _unsaved: dict[str, tuple[Message, ...]] = PrivateAttr(default_factory=dict)

    def __init__(self, engine: ContextEngine | None, *, name: str, **given: Unpack[BlockOptions]) -> None:
        opened = open_engine() if engine is None else checked_engine(engine)
        opened.session("any", caller_id=given.get("caller_id", "default"), user_id=given.get("user_id"))
        fields: dict[str, Any] = {"name": name, **given}
        super().__init__(**fields)
        self._engine = opened

    @property
    def engine(self) -> ContextEngine:
        """The engine that keeps the sessions."""
        return self._engine

    def session(self, session_id: str | None) -> Session:
        """Return the session of a `Memory` with this id. Does no I/O.

        Raises:
            InvalidInputError: It can't be a session's id.
        """
        return self._engine.session(session_id, caller_id=self.caller_id, user_id=self.user_id)

    async def aput(
        self, messages: list[ChatMessage], from_short_term_memory: bool = False, session_id: str | None = None
    ) -> None:
        """Store messages of a session; the objects given are not changed. Never raises."""
        copies = [one.model_copy(update={"additional_kwargs": {**one.additional_kwargs}}) for one in messages]
        await super().aput(copies, from_short_term_memory, session_id)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Store messages in the sessions that `aput` noted in their `additional_kwargs`. Never raises."""
        for session_id, group in groupby(messages, key=lambda message: message.additional_kwargs.get(_SESSION)):
            await self._keep(session_id, list(group))

    async def _keep(self, session_id: str | None, messages: Sequence[ChatMessage]) -> None:
        session = self._engine.session(None)
        batch: list[Message] = []
        try:
            session = self.session(session_id)
            batch = _identified(messages)
            batch = [*self._unsaved.pop(session_id or "", ()), *batch]
            await session.aappend(batch)
        except Exception as error:  # noqa: BLE001 - these messages have left the `Memory`; raising would break the reply
            if isinstance(error, StoreError) and session_id:
                self._unsaved[session_id] = tuple(batch)
            await session.areport_save_error(error, batch)

    async def _aget(
        self, messages: list[ChatMessage] | None = None, session_id: str | None = None, **block_kwargs: Any
    ) -> str:
        """Return the block's text for a session; `""` if it has none."""
        text = await asyncio.to_thread(self._text, self.session(session_id), [*(messages or ())])
        return without_fields(text)

    @abstractmethod
    def _text(self, session: Session, messages: Sequence[ChatMessage]) -> str:
        """Return the block's text."""

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """Shorten the text by about `tokens_to_truncate`, least useful lines first; `None` if none remain."""
        lines = content.split("\n") if content else []
        end = max(len(lines) - self._closing, self._frame)
        head, kept, tail = lines[: self._frame], lines[self._frame : end], lines[end:]
        saved, enough = 0, tokens_to_truncate * _MARGIN
        while kept and saved < enough:
            saved += self._engine.token_counter.count(kept.pop(0 if self._oldest_first else -1) + "\n")
        return "\n".join([*head, *kept, *tail]) if kept else None

    def __copy__(self) -> Self:
        return type(self)(self._engine, **self.model_dump())

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self.__copy__()

    def __getstate__(self) -> NoReturn:
        raise TypeError(
            f"an {type(self).__name__} holds its engine's connections, so it can't be pickled; make it anew"
        )


def _identified(messages: Sequence[ChatMessage]) -> list[Message]:
    """Return the messages as arc's, with ids derived from their turns' words, so that a turn keeps its ids."""
    turns: list[list[ChatMessage]] = []
    for message in map(_without_session, messages):
        if message.role == MessageRole.USER or not turns:
            turns.append([])
        turns[-1].append(message)
    seen: Counter[str] = Counter()
    identified: list[Message] = []
    now = datetime.now(UTC)
    for turn in turns:
        text = "\x1f".join(map(to_exact, turn))
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        prefix = f"turn_{digest}_{seen[digest]}"
        seen[digest] += 1
        identified += [to_arc(message).stored_as(f"{prefix}_{place}", now) for place, message in enumerate(turn)]
    return identified


def _without_session(message: ChatMessage) -> ChatMessage:
    """Return the message without the session's id, which `Memory` adds for every block."""
    kwargs = {key: value for key, value in message.additional_kwargs.items() if key != _SESSION}
    return message.model_copy(update={"additional_kwargs": kwargs})
