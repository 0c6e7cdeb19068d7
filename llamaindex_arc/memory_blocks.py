"""Blocks of LlamaIndex's `Memory` that recall messages and long-term memories for a question."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from threading import Lock
from typing import ClassVar, Unpack
from weakref import WeakKeyDictionary

from cachetools import LRUCache

from arc_common.engine.context_engine import ContextEngine
from arc_common.engine.session import Session
from arc_common.engine.turn import message_line
from arc_common.exceptions import (
    EngineClosedError,
    InvalidInputError,
    MemoryNotFoundError,
    MissingDependencyError,
)
from arc_common.memories import ScoredMemory
from arc_common.messages import Message
from arc_common.prompts import render_fence, render_recalled
from arc_common.prompts.memories import render_memories
from arc_common.protocols import SessionKey
from llamaindex_arc.session_blocks import BlockOptions, SessionBlock

try:
    from llama_index.core.base.llms.types import ChatMessage, MessageRole
except ImportError as error:
    raise MissingDependencyError("llamaindex_arc.blocks", package="llama-index-core", extra="llamaindex") from error

_TURNS = 256


class ArcRecallBlock(SessionBlock):
    """Shows messages of this session about the user's question that have left the `Memory`'s queue.

    - The best `settings.recall.top_k` messages, in conversation order, each with its day and speaker; long ones are
      shortened to the sentences that match.
    - They stay within the tokens of `settings.budget.recalled` that an `ArcLongTermBlock` leaves: both blocks of a
      `Memory` together take no more than either may alone.
    - Only the `Memory`'s own session is searched: each call names its id, so that one block may serve many sessions.
    - Messages still in the queue are not repeated; the block is empty if `settings.recall.enabled` is off.
    - For everything else, including the arguments, see `ArcFactsBlock`.
    """

    # In each class: type checkers believe that a pydantic class without an `__init__` of its own takes its fields.
    def __init__(
        self, engine: ContextEngine | None = None, *, name: str = "ArcRecall", **given: Unpack[BlockOptions]
    ) -> None:
        super().__init__(engine, name=name, **given)

    @classmethod
    def class_name(cls) -> str:
        """Return the name in serialised form."""
        return "ArcRecallBlock"

    def _text(self, session: Session, messages: Sequence[ChatMessage]) -> str:
        settings = self._engine.settings
        question = _question(messages)
        if not settings.recall.enabled or not question.strip():
            return ""
        shown = {message.content for message in messages}
        most = settings.recall.top_k
        recalled = session.recall(question, top_k=most + len(messages))
        found = [
            one.message for one in recalled if one.session_id in (None, session.id)
        ]  # only this session's, regardless of `recall.scope`
        best = [one for one in found if one.text.strip() and one.text not in shown][:most]
        fitting: list[Message] = []
        count = self._engine.token_counter.count
        room = settings.budget.recalled - count(_memories(self, session, messages)) if best else 0
        for message in best:
            if count(_rendered([*fitting, message], question)) <= room:
                fitting.append(message)
        return _rendered(session.find([message.id or "" for message in fitting]), question)


class ArcLongTermBlock(SessionBlock):
    """Shows memories from earlier sessions that are about the user's question.

    - The best `settings.memory.top_k` memories within `settings.budget.recalled` tokens, best first.
    - They are the user's, or the session's if there is no `user_id`; `settings.memory.scope` may say otherwise.
    - Messages that leave the queue are stored in the engine's session, and memories are extracted from them in the
      background, even without a `user_id`, because the block requests it.
    - The block is empty if `settings.memory.enabled` is off.
    - For everything else, including the arguments, see `ArcFactsBlock`.
    """

    _closing: ClassVar[int] = 2  # the marker and the instruction on their use
    _oldest_first: ClassVar[bool] = False

    # In each class: type checkers believe that a pydantic class without an `__init__` of its own takes its fields.
    def __init__(
        self, engine: ContextEngine | None = None, *, name: str = "ArcLongTerm", **given: Unpack[BlockOptions]
    ) -> None:
        super().__init__(engine, name=name, **given)

    @classmethod
    def class_name(cls) -> str:
        """Return the name in serialised form."""
        return "ArcLongTermBlock"

    async def _keep(self, session_id: str | None, messages: Sequence[ChatMessage]) -> None:
        await super()._keep(session_id, messages)
        with suppress(InvalidInputError, EngineClosedError):  # what could not be stored has been reported
            await self.session(session_id).aremember()

    def _text(self, session: Session, messages: Sequence[ChatMessage]) -> str:
        return _memories(self, session, messages)


class _Found:
    """Shares the memories found for a turn between both blocks, so that they see the same ones."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._of: WeakKeyDictionary[ContextEngine, LRUCache[tuple[type, bytes], tuple[tuple[ScoredMemory, ...], int]]]
        self._of = WeakKeyDictionary()

    def take(self, block: SessionBlock, turn: bytes) -> tuple[tuple[ScoredMemory, ...], int] | None:
        """Remove and return the memories that the other kind of block found, and their tokens when shown."""
        other = ArcLongTermBlock if isinstance(block, ArcRecallBlock) else ArcRecallBlock
        with self._lock:
            known = self._of.get(block.engine)
            return None if known is None else known.pop((other, turn), None)

    def note(self, block: SessionBlock, turn: bytes, found: Sequence[ScoredMemory], tokens: int) -> None:
        """Keep the memories that a block found."""
        kind = ArcRecallBlock if isinstance(block, ArcRecallBlock) else ArcLongTermBlock
        with self._lock:
            self._of.setdefault(block.engine, LRUCache(_TURNS))[kind, turn] = tuple(found), tokens


_found = _Found()


def _memories(block: SessionBlock, session: Session, messages: Sequence[ChatMessage]) -> str:
    """Return the memories about the question, rendered: the best that fit the budget."""
    from arc_common.memory.long_term.service import scope_of  # noqa: PLC0415 - brings the settings, which take 0.2 s

    question = _question(messages)
    engine, settings = block.engine, block.engine.settings
    if not settings.memory.enabled or not question.strip() or session.id is None:
        return ""
    scope = scope_of(SessionKey(session.id, block.caller_id, block.user_id), settings)
    memories = engine.memories(user_id=scope.user_id, session_id=scope.session_id, caller_id=scope.caller_id)
    turn = _digest(block, session.id, messages)
    if (known := _found.take(block, turn)) is None:
        shown = _fitting(engine, memories.search(question, settings.memory.top_k), settings.budget.recalled)
        _found.note(block, turn, shown[0], engine.token_counter.count(shown[1]))
        return shown[1]
    there = []
    for one in known[0]:
        with suppress(MemoryNotFoundError):
            there.append(replace(one, memory=memories.get(one.memory.id)))
    return _fitting(engine, [one for one in there if one.memory.holds], known[1])[1]


def _fitting(engine: ContextEngine, found: Sequence[ScoredMemory], room: int) -> tuple[Sequence[ScoredMemory], str]:
    """Return the best memories that fit, and their rendered text."""
    for most in range(len(found), 0, -1):
        text = render_fence("memories", render_memories(found[:most]))
        if engine.token_counter.count(text) <= room:
            return found[:most], text
    return (), ""


def _digest(block: SessionBlock, session_id: str, messages: Sequence[ChatMessage]) -> bytes:
    """Return a key for a turn, from its scope and all of its messages."""
    parts = [block.caller_id, block.user_id or "", session_id]
    parts += [f"{message.role}\x00{message.content}" for message in messages]
    return blake2b("\x01".join(parts).encode(errors="surrogatepass"), digest_size=16).digest()


def _question(messages: Sequence[ChatMessage]) -> str:
    """Return the text of the newest user message."""
    return next((one.content or "" for one in reversed(messages) if one.role == MessageRole.USER), "")


def _rendered(messages: Sequence[Message], question: str) -> str:
    """Render recalled messages as a block, in the order given."""
    said = [(one.created_at.date() if one.created_at else None, message_line(one, question)) for one in messages]
    return render_recalled((), said)
