"""Blocks of LlamaIndex's `Memory`: facts, summary, recalled messages and long-term memories."""
# ruff: noqa: ARG002 - `Memory` calls every block with more than these need

import asyncio
import hashlib
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby, pairwise
from threading import Lock
from typing import Any, ClassVar, NoReturn, Self, TypedDict, Unpack
from weakref import WeakKeyDictionary

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.bridge.pydantic import Field, PrivateAttr, ValidationError
from llama_index.core.memory import BaseMemoryBlock

from arc_common.caches import LRUCache, forget_with_texts, reading_texts
from arc_common.context.repetition import Said, body
from arc_common.engine.context_engine import ContextEngine, checked_engine
from arc_common.engine.session import Session
from arc_common.exceptions import (
    EngineClosedError,
    InvalidInputError,
    MemoryNotFoundError,
    StoreError,
)
from arc_common.facts import Fact, ProposedFact
from arc_common.memories import ScoredMemory, checked_memory_tags
from arc_common.memory.facts.extraction import extract_facts
from arc_common.memory.facts.ledger import adopted_facts
from arc_common.memory.recall.lines import message_lines
from arc_common.memory.summaries.summarizers import RuleBasedSummarizer
from arc_common.messages import Message, check_identifier
from arc_common.prompts.context import render_fence, render_memory, render_pins, render_recalled, speaker_of
from arc_common.prompts.memories import render_memories
from arc_common.protocols import SessionKey
from arc_common.protocols.summaries import ConversationSummary
from arc_common.trust import Trust
from llamaindex_arc.component import Component
from llamaindex_arc.engine import open_engine
from llamaindex_arc.messages import to_arc, to_exact
from llamaindex_arc.placement import without_fields

_SESSION = "session_id"

_MARGIN = 1.1
"""The factor by which more is cut than requested: `Memory` may count with another tokenizer, and drops long blocks."""


class BlockOptions(TypedDict, total=False):
    """Options of each block other than its name: see `ArcFactsBlock`."""

    description: str | None
    priority: int
    accept_short_term_memory: bool
    caller_id: str
    user_id: str | None


class MemoryBlockOptions(BlockOptions, total=False):
    """Options of the blocks that show or leave room for long-term memories: see `ArcLongTermBlock`."""

    memory_tags: Sequence[str] | None


class SessionBlock(Component, BaseMemoryBlock[str]):
    """Stores the messages that leave a `Memory` in the engine's session of its id, and shows text derived from it."""

    _frame: ClassVar[int] = 2
    """Number of lines before the content: the marker and the heading."""
    _closing: ClassVar[int] = 1
    """Number of lines after the content: the marker."""
    _oldest_first: ClassVar[bool] = True
    """Shortening drops lines from the start of the content; without it, from the end."""

    caller_id: str = Field(default="default", description="Whose sessions.")
    user_id: str | None = Field(default=None, description="Which user's sessions.")
    memory_tags: tuple[str, ...] | None = Field(default=None, description="Tags of the long-term memories to show.")
    _engine: ContextEngine = PrivateAttr()
    _unsaved: dict[str, tuple[Message, ...]] = PrivateAttr(default_factory=dict)

    def __init__(self, engine: ContextEngine | None, *, name: str, **given: Unpack[MemoryBlockOptions]) -> None:
        opened = open_engine() if engine is None else checked_engine(engine)
        opened.session("any", caller_id=given.get("caller_id", "default"), user_id=given.get("user_id"))
        tags = checked_memory_tags(given.get("memory_tags")) or None
        fields: dict[str, Any] = {"name": check_identifier("name", name), **given, "memory_tags": tags}
        try:
            super().__init__(**fields)
        except ValidationError as error:
            (first, *_) = error.errors()
            expected = first["msg"].removeprefix("Input should be ")
            raise InvalidInputError(str(first["loc"][0]), first["input"], expected) from error
        self._engine = opened

    @property
    def engine(self) -> ContextEngine:
        """The engine that keeps the sessions."""
        return self._engine

    def session(self, session_id: str | None) -> Session:
        """Return the session of a `Memory` with this id. Does no I/O."""
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
        text = await asyncio.to_thread(self._text_once, self.session(session_id), [*(messages or ())])
        return without_fields(text)

    @reading_texts()
    def _text_once(self, session: Session, messages: Sequence[ChatMessage]) -> str:
        """Return the block's text without the lines and sentences that the turn's earlier blocks or messages say."""
        text = self._text(session, messages)
        if not text or session.id is None:
            return text
        turn = _turn(self, session.id, messages)
        if self.name in turn.shown:  # the turn is asked again
            turn.shown.clear()
        pins, end, rest = text.partition(_PINS_END) if text.startswith("<arc:pins>") else ("", "", text)
        head, lines, tail = self._framed(rest.lstrip("\n"))
        said = Said(lines)
        for other in turn.shown.values():
            for line in other.splitlines():
                said.add("another block", body(line))
        for message in messages:
            said.add("message", message.content or "")
        left = [one for line in lines if (one := line if _LABEL.fullmatch(line) else _unsaid(said, line))]
        kept = [one for one, after in pairwise([*left, "["]) if not _heads_nothing(one, after)]
        content = "\n".join([*head, *kept, *tail]) if kept else ""
        turn.shown[self.name] = "\n\n".join(filter(None, [pins + end, content]))
        return turn.shown[self.name]

    def _framed(self, text: str) -> tuple[list[str], list[str], list[str]]:
        """Return the lines before a block's content, the content's, and those after it."""
        lines = text.split("\n") if text else []
        end = max(len(lines) - self._closing, self._frame)
        return lines[: self._frame], lines[self._frame : end], lines[end:]

    @abstractmethod
    def _text(self, session: Session, messages: Sequence[ChatMessage]) -> str:
        """Return the block's text."""

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """Shorten the text by about `tokens_to_truncate`, least useful lines first; `None` if none remain."""
        head, kept, tail = self._framed(content)
        saved, enough = 0, tokens_to_truncate * _MARGIN
        while kept and saved < enough:
            saved += self._engine.token_counter.count(kept.pop(0 if self._oldest_first else -1) + "\n")
        return "\n".join([*head, *kept, *tail]) if kept else None

    def __copy__(self) -> Self:
        return type(self)(self._engine, **self.model_dump())

    def __getstate__(self) -> NoReturn:
        raise TypeError(
            f"an {type(self).__name__} holds its engine's connections, so it can't be pickled; create a new one instead"
        )


def _unsaid(said: Said, line: str) -> str:
    """Return a line without repeated sentences; one with a quotation is kept whole or dropped."""
    return said.unsaid(line, trust=Trust.UNTRUSTED if "“" in line else None)[0]


_LABEL = re.compile(r"\[\d{4}-\d\d-\d\d\]|[^:]{1,80}:")
"""A day, or the label of excerpts."""


def _heads_nothing(line: str, after: str) -> bool:
    return _LABEL.fullmatch(line) is not None and (not after or after[0] == "[")


_TURNS = 256


@dataclass(slots=True)
class _Turn:
    """The state that the blocks of an engine share in a turn, so that they don't repeat each other."""

    shown: dict[str, str] = field(default_factory=dict)
    """The text of each block, by name."""
    found: dict[bool, tuple[Sequence[ScoredMemory], int]] = field(default_factory=dict)
    """The memories that a recall block (or another) found, and their tokens when shown, until the other kind takes
    them."""


_lock = Lock()
_turns: WeakKeyDictionary[ContextEngine, LRUCache[bytes, _Turn]] = WeakKeyDictionary()
forget_with_texts(_turns.clear)


def _turn(block: SessionBlock, session_id: str, messages: Sequence[ChatMessage]) -> _Turn:
    """Return the turn with this scope and all of these messages."""
    parts = [block.caller_id, block.user_id or "", session_id, *(block.memory_tags or ())]
    parts += [f"{message.role}\x00{message.content}" for message in messages]
    key = hashlib.blake2b("\x01".join(parts).encode(errors="surrogatepass"), digest_size=16).digest()
    with _lock:
        return _turns.setdefault(block.engine, LRUCache(_TURNS)).setdefault(key, _Turn())


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


_MOST_PENDING = 64
"""The most unsummarised messages that the rules read; more than ever wait for a summary."""
_FRAME = 4
"""Lines before the content: the marker, the heading, an empty line and the label."""
_PINS_END = "\n</arc:pins>"
_UNDATED = datetime.fromtimestamp(0, UTC)


# Each class has an `__init__`, because type checkers believe that a pydantic class without one takes its fields.


class ArcFactsBlock(SessionBlock):
    """Shows a session's pins, and its facts: the most important, within `settings.budget.facts` tokens.

        memory = Memory.from_defaults(session_id="s", memory_blocks=[ArcFactsBlock(engine), ArcSummaryBlock(engine)])

    - Messages that are not summarised yet contribute the facts that rules find in them.
    - Facts are durable, in the engine's session with the same id as the `Memory`; two sessions never mix, whatever
      object serves them.
    - A turn is stored once, even if two blocks receive it or a `Memory` replays its history: it is identified by its
      words. A turn that repeats an earlier one word for word is kept once.
    - Putting never raises: a failure is logged, counted (`save.errors`) and passed to the engine's `on_save_error`.
      Messages that a failing store could not take are stored with the next messages of their session.
    - A copy works on the same engine. A block can't be pickled, because its engine holds connections.

    Args:
        engine: The engine that keeps the sessions; by default a new one, as the settings say.
        priority: 0 keeps the block whole; otherwise, `Memory` shortens lower numbers first when there is no room, and
            leaves out blocks that do not fit even then, with their pins.
        accept_short_term_memory: Store the messages that leave the `Memory`'s queue.
        caller_id, user_id: As in `ContextEngine.session`.
    """

    _frame: ClassVar[int] = _FRAME

    def __init__(
        self, engine: ContextEngine | None = None, *, name: str = "ArcFacts", **given: Unpack[BlockOptions]
    ) -> None:
        super().__init__(engine, name=name, **given)

    def _text(self, session: Session, messages: Sequence[ChatMessage]) -> str:
        pins = render_pins([pin.line for pin in session.pins()])
        return "\n\n".join(filter(None, [pins, self._facts(session)]))

    def _facts(self, session: Session) -> str:
        if not self._engine.settings.summary.enabled:
            return ""
        summary, pending = _written(session)
        known = summary.facts if summary else ()
        facts = [*known, *_facts_of(pending, segment=1 + max((fact.segment for fact in known), default=0))]
        count = self._engine.token_counter.count
        shown = adopted_facts(facts, max_tokens=self._engine.settings.budget.facts, count=count)
        return render_memory([fact.line for fact in shown], "")

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """Shorten the facts; pins stay whole."""
        if not content or not content.startswith("<arc:pins>"):
            return await super().atruncate(content, tokens_to_truncate)
        pins, end, facts = content.partition(_PINS_END)
        kept = await super().atruncate(facts.lstrip("\n"), tokens_to_truncate)
        return "\n\n".join(filter(None, [pins + end, kept])) or None


class ArcSummaryBlock(SessionBlock):
    """Shows a session's summary, the newest part last, within `settings.summary.max_tokens` tokens.

    - Messages that are not summarised yet contribute their most informative sentences, without their facts.
    - For everything else, including the arguments, see `ArcFactsBlock`.
    """

    _frame: ClassVar[int] = _FRAME

    def __init__(
        self, engine: ContextEngine | None = None, *, name: str = "ArcSummary", **given: Unpack[BlockOptions]
    ) -> None:
        super().__init__(engine, name=name, **given)

    def _text(self, session: Session, messages: Sequence[ChatMessage]) -> str:
        settings = self._engine.settings.summary
        if not settings.enabled:
            return ""
        summary, pending = _written(session)
        rules = RuleBasedSummarizer(self._engine.token_counter)
        known = [fact.value for fact in extract_facts(pending)]
        newest = rules.narrative(pending, max_tokens=settings.leaf_narrative_tokens, facts=known)
        return render_memory((), "\n".join(filter(None, [summary.narrative if summary else "", newest])))


def _written(session: Session) -> tuple[ConversationSummary | None, list[Message]]:
    """Return a session's summary, and the messages that it does not cover yet."""
    summary = session.summary()
    limit = _MOST_PENDING if summary is None else min(summary.pending, _MOST_PENDING)
    return summary, session.messages(limit=limit)


def _facts_of(messages: Sequence[Message], *, segment: int) -> list[Fact]:
    """Return the facts that rules find in messages, in the ledger's form, as those of one segment."""
    by_id = {message.id: message for message in messages}

    def fact(number: int, found: ProposedFact) -> Fact:
        stating = [by_id[source] for source in found.sources]
        newest = max(stating, key=lambda message: message.created_at or _UNDATED)
        return Fact(
            id=f"pending-{number}",
            key=found.key,
            value=found.value,
            category=found.category,
            sources=found.sources,
            importance=found.importance,
            segment=segment,
            made_by="rules",
            valid_from=newest.created_at or _UNDATED,
            said_by=speaker_of(newest),
            trust=Trust.least(message.trust for message in stating),
            place=number,
        )

    return [fact(number, found) for number, found in enumerate(extract_facts(messages))]


_SHORT_MESSAGE = 16
"""Tokens: as many messages are asked for as may fit into the room."""


class ArcRecallBlock(SessionBlock):
    """Shows messages of this session about the user's question that have left the `Memory`'s queue.

    - The best messages, in conversation order, each with its day and speaker; long ones are shortened to the sentences
      that match.
    - They stay within the tokens of `settings.budget.recalled` that an `ArcLongTermBlock` leaves: both blocks of a
      `Memory` together take no more than either may alone.
    - Only the `Memory`'s own session is searched: each call names its id, so that one block may serve many sessions.
    - Messages still in the queue are not repeated; the block is empty if `settings.recall.enabled` is off.
    - For everything else, including the arguments, see `ArcFactsBlock`.
    """

    def __init__(
        self, engine: ContextEngine | None = None, *, name: str = "ArcRecall", **given: Unpack[MemoryBlockOptions]
    ) -> None:
        super().__init__(engine, name=name, **given)

    def _text(self, session: Session, messages: Sequence[ChatMessage]) -> str:
        settings = self._engine.settings
        question = _question(messages)
        if not settings.recall.enabled or not question.strip():
            return ""
        shown = {message.content for message in messages}
        most = len(messages) + max(settings.budget.recalled // _SHORT_MESSAGE, 1)
        found = [one.message for one in session.recall(question, top_k=most, scope="session")]
        best = [one for one in found if one.text.strip() and one.text not in shown]
        count = self._engine.token_counter.count
        room = settings.budget.recalled - count(_memories(self, session, messages)) if best else 0
        lines = message_lines(best, question, tokens=[count(one.text) for one in best], room=room)
        said = {
            one.id or "": (one.created_at.date() if one.created_at else None, line.text)
            for one, line in zip(best, lines, strict=True)
        }
        fitting: list[str] = []
        for name in said:
            if count(render_recalled((), [said[one] for one in (*fitting, name)])) <= room:
                fitting.append(name)
        return render_recalled((), [said[one.id or ""] for one in session.find(fitting)])


class ArcLongTermBlock(SessionBlock):
    """Shows memories from earlier sessions that are about the user's question.

    - The best `settings.memory.top_k` memories within `settings.budget.recalled` tokens, best first.
    - They are the user's, or the session's if there is no `user_id`; `settings.memory.scope` may say otherwise.
    - Messages that leave the queue are stored in the engine's session, and memories are extracted from them in the
      background, even without a `user_id`, because the block requests it.
    - `memory_tags=[…]` shows only memories with one of these tags; give an `ArcRecallBlock` beside it the same.
    - The block is empty if `settings.memory.enabled` is off.
    - For everything else, including the arguments, see `ArcFactsBlock`.
    """

    _oldest_first: ClassVar[bool] = False

    def __init__(
        self, engine: ContextEngine | None = None, *, name: str = "ArcLongTerm", **given: Unpack[MemoryBlockOptions]
    ) -> None:
        super().__init__(engine, name=name, **given)

    async def _keep(self, session_id: str | None, messages: Sequence[ChatMessage]) -> None:
        await super()._keep(session_id, messages)
        with suppress(InvalidInputError, EngineClosedError):  # messages that could not be stored were reported
            await self.session(session_id).aremember()

    def _text(self, session: Session, messages: Sequence[ChatMessage]) -> str:
        return _memories(self, session, messages)


def _memories(block: SessionBlock, session: Session, messages: Sequence[ChatMessage]) -> str:
    """Return the memories about the question, rendered: the best that fit the budget."""
    from arc_common.memory.long_term.service import scope_of  # noqa: PLC0415 - brings the settings, which take 0.2 s

    question = _question(messages)
    engine, settings = block.engine, block.engine.settings
    if not settings.memory.enabled or not question.strip() or session.id is None:
        return ""
    scope = scope_of(SessionKey(session.id, block.caller_id, block.user_id), settings)
    memories = engine.memories(user_id=scope.user_id, session_id=scope.session_id, caller_id=scope.caller_id)
    turn, is_recall = _turn(block, session.id, messages), isinstance(block, ArcRecallBlock)
    if (known := turn.found.pop(not is_recall, None)) is None:
        found = memories.search(question, settings.memory.top_k, tags=block.memory_tags or ())
        shown = _fitting(engine, found, settings.budget.recalled)
        turn.found[is_recall] = shown[0], engine.token_counter.count(shown[1])
        return shown[1]
    there = []
    for one in known[0]:
        with suppress(MemoryNotFoundError):
            there.append(replace(one, memory=memories.get(one.memory.id)))
    return _fitting(engine, [one for one in there if one.memory.is_current], known[1])[1]


def _fitting(engine: ContextEngine, found: Sequence[ScoredMemory], room: int) -> tuple[Sequence[ScoredMemory], str]:
    """Return the best memories that fit, and their rendered text."""
    for most in range(len(found), 0, -1):
        text = render_fence("memories", render_memories(found[:most]))
        if engine.token_counter.count(text) <= room:
            return found[:most], text
    return (), ""


def _question(messages: Sequence[ChatMessage]) -> str:
    """Return the text of the newest user message."""
    return next((one.content or "" for one in reversed(messages) if one.role == MessageRole.USER), "")
