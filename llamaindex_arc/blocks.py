"""A session's facts and its summary as blocks of LlamaIndex's `Memory`."""
# ruff: noqa: ARG002 - `Memory` calls every block with more than these need

import asyncio
import hashlib
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, NoReturn, Self, TypedDict, Unpack

from arc_common.engine import ContextEngine
from arc_common.exceptions import InvalidInputError, MissingDependencyError, StoreError
from arc_common.facts import Fact
from arc_common.memory.extraction import extract_facts
from arc_common.memory.ledger import pinned
from arc_common.memory.rule_based import RuleBasedSummarizer
from arc_common.messages import Message
from arc_common.prompts import render_memory
from arc_common.session import Session
from arc_common.summaries import ConversationSummary
from llamaindex_arc._exact import to_exact
from llamaindex_arc.escaping import without_fields
from llamaindex_arc.messages import to_arc

try:
    from llama_index.core.base.llms.types import ChatMessage, MessageRole
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
    from llama_index.core.memory import BaseMemoryBlock
except ImportError as error:
    raise MissingDependencyError("llamaindex_arc.blocks", package="llama-index-core", extra="llamaindex") from error

__all__ = ["ArcFactsBlock", "ArcNarrativeBlock"]

_SESSION = "session_id"
_MOST_PENDING = 64
"""Messages that are looked through by rules while no summary stands for them: more than ever wait for one."""
_UNDATED = datetime.fromtimestamp(0, UTC)
_FRAME = 4
"""Lines of a block before its content: the marker, the heading, an empty line and the label."""

_MARGIN = 1.1
"""More is saved than asked for: `Memory` may count by another tokenizer, and drops a block that stays too long."""


class _Given(TypedDict, total=False):
    """What may be given for either block, beside its name: see `ArcFactsBlock`."""

    description: str | None
    priority: int
    accept_short_term_memory: bool
    caller_id: str
    user_id: str | None


class _ArcBlock(BaseMemoryBlock[str]):
    """What both blocks do: store what `Memory` no longer holds, and show what is made of it."""

    caller_id: str = Field(default="default", description="Whose sessions.")
    user_id: str | None = Field(default=None, description="Which user's sessions.")
    _engine: ContextEngine = PrivateAttr()
    _unsaved: dict[str, tuple[Message, ...]] = PrivateAttr(default_factory=dict)

    def __init__(self, engine: ContextEngine | None, *, name: str, **given: Unpack[_Given]) -> None:
        if engine is not None and not isinstance(engine, ContextEngine):
            raise InvalidInputError("engine", engine, "a ContextEngine; open_engine(url) opens one")
        opened = engine or ContextEngine.open()
        opened.session("any", caller_id=given.get("caller_id", "default"), user_id=given.get("user_id"))
        fields: dict[str, Any] = {"name": name, **given}
        super().__init__(**fields)
        self._engine = opened

    @property
    def engine(self) -> ContextEngine:
        """Where the sessions are."""
        return self._engine

    def session(self, session_id: str | None) -> Session:
        """The session of a `Memory` with this id. Does no I/O.

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
        """Store messages in the sessions that their `additional_kwargs` name, as `aput` notes it. Never raises."""
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
        except Exception as error:  # noqa: BLE001 - `Memory` has let go of these messages; raising would break the reply
            if isinstance(error, StoreError) and session_id:
                self._unsaved[session_id] = tuple(batch)
            await session.areport_save_error(error, batch)

    async def _aget(
        self, messages: list[ChatMessage] | None = None, session_id: str | None = None, **block_kwargs: Any
    ) -> str:
        """The block's text for a session; `""` while there is nothing to say, and when summaries are switched off.

        Raises:
            SessionNotFoundError: The session belongs to another user.
            StoreError: The store failed.
        """
        if not self._engine.settings.summary.enabled:
            return ""
        return without_fields(await asyncio.to_thread(self._text, self.session(session_id)))

    def _text(self, session: Session) -> str:
        summary = session.summary()
        limit = _MOST_PENDING if summary is None else min(summary.pending, _MOST_PENDING)
        return self._rendered(summary, session.messages(limit=limit))

    @abstractmethod
    def _rendered(self, summary: ConversationSummary | None, pending: Sequence[Message]) -> str:
        """The block's text, from what is summarised and the messages that are not yet."""

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """The text without its first, oldest lines, so that about so many tokens are saved; `None` if none is left."""
        lines = content.split("\n") if content else []
        head, kept, tail = lines[:_FRAME], lines[_FRAME:-1], lines[-1:]
        saved, enough = 0, tokens_to_truncate * _MARGIN
        while kept and saved < enough:
            saved += self._engine.token_counter.count(kept.pop(0) + "\n")
        return "\n".join([*head, *kept, *tail]) if kept else None

    def __copy__(self) -> Self:
        return type(self)(self._engine, **self.model_dump())

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self.__copy__()

    def __getstate__(self) -> NoReturn:
        raise TypeError(
            f"an {type(self).__name__} holds its engine's connections, so it can't be pickled; make it anew"
        )


class ArcFactsBlock(_ArcBlock):
    """What a session established, as `- key: value` lines: the most important, within `settings.budget.facts` tokens.

    - Of messages that are not summarised yet, what rules find in them.
    - Durable, in the engine's session of the same id as the `Memory`'s; two sessions never mix, whatever object serves
      them.
    - What is put is stored once, also when two blocks get it or when a `Memory` replays its history: a turn is known by
      its words. A turn that repeats an earlier one word for word is kept once.
    - Putting never raises: a failure is logged, counted (`save.errors`) and handed to the engine's `on_save_error`.
      What a failing store could not take is stored with the next messages of its session.
    - A copy works on the same engine. It can't be pickled: an engine holds connections.

    Args:
        engine: Where the sessions are; by default an engine of its own, as the settings say.
        name: What the block is called in the prompt.
        description: What it is for.
        priority: 0 keeps it whole; else `Memory` shortens lower numbers first when there is no room.
        accept_short_term_memory: Whether messages that leave the `Memory`'s queue are stored.
        caller_id: Whose sessions.
        user_id: Which user's sessions.
    """

    # In each class: type checkers believe that a pydantic class without an `__init__` of its own takes its fields.
    def __init__(self, engine: ContextEngine | None = None, *, name: str = "ArcFacts", **given: Unpack[_Given]) -> None:
        super().__init__(engine, name=name, **given)

    @classmethod
    def class_name(cls) -> str:
        """The name in serialised form."""
        return "ArcFactsBlock"

    def _rendered(self, summary: ConversationSummary | None, pending: Sequence[Message]) -> str:
        facts = [*(summary.facts if summary else ()), *_facts_of(pending)]
        count = self._engine.token_counter.count
        shown = pinned(facts, max_tokens=self._engine.settings.budget.facts, count=count)
        return render_memory([fact.line for fact in shown], "")


class ArcNarrativeBlock(_ArcBlock):
    """What happened in a session, the newest part at the end, within `settings.summary.max_narrative_tokens` tokens.

    - Of messages that are not summarised yet, the sentences that say most.
    - For the rest, and the arguments, see `ArcFactsBlock`.
    """

    # In each class: type checkers believe that a pydantic class without an `__init__` of its own takes its fields.
    def __init__(
        self, engine: ContextEngine | None = None, *, name: str = "ArcNarrative", **given: Unpack[_Given]
    ) -> None:
        super().__init__(engine, name=name, **given)

    @classmethod
    def class_name(cls) -> str:
        """The name in serialised form."""
        return "ArcNarrativeBlock"

    def _rendered(self, summary: ConversationSummary | None, pending: Sequence[Message]) -> str:
        knobs = self._engine.settings.summary
        rules = RuleBasedSummarizer(self._engine.token_counter)
        newest = rules.narrative(pending, max_tokens=knobs.leaf_narrative_tokens)
        return render_memory((), "\n".join(filter(None, [summary.narrative if summary else "", newest])))


def _facts_of(messages: Sequence[Message]) -> list[Fact]:
    """What rules find in messages, in the ledger's form."""
    times = {message.id: message.created_at for message in messages}
    return [
        Fact(
            id=f"pending-{number}",
            key=found.key,
            value=found.value,
            category=found.category,
            sources=found.sources,
            importance=found.importance,
            segment=0,
            made_by="rules",
            valid_from=next((time for source in found.sources if (time := times.get(source))), _UNDATED),
        )
        for number, found in enumerate(extract_facts(messages))
    ]


def _identified(messages: Sequence[ChatMessage]) -> list[Message]:
    """The messages as arc's, with ids made of what their turns say: the same turn gets the same ids, whenever it comes.

    Within a batch a turn that repeats an earlier one is another one.
    """
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
    """The message as it was before `Memory` noted the session's id in it, for every block."""
    kwargs = {key: value for key, value in message.additional_kwargs.items() if key != _SESSION}
    return message.model_copy(update={"additional_kwargs": kwargs})
