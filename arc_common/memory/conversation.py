"""Saves a conversation's messages, and loads as many as a request can use."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from types import TracebackType
from typing import Self

from arc_common.context import NO_LAYERS, Layers, LeftOut
from arc_common.exceptions import InvalidInputError, converter_of, or_converted
from arc_common.memory.services import Services
from arc_common.messages import Message, Role, check_identifier, exchanges_of
from arc_common.protocols import CountedMessage, SessionKey, StoredMessage
from arc_common.protocols.conversations import After
from arc_common.tokens.calibration import Correcting, corrected
from arc_common.tokens.counters import message_tokens_batch
from arc_common.tokens.selection import says_something

_CUT_SHORT = (GeneratorExit, KeyboardInterrupt, asyncio.CancelledError)


class StreamedTurn:
    """Collects a streamed answer and saves the turn when the block ends. Use it with `with` or `async with`.

    - If an answer takes several iterations (the model calls tools in between), only the last one's content is saved.
    - If a stream is closed or cancelled, the text received so far, if any, is saved; the message's metadata says so
      (`{"cut_short": True}`).
    - When the block raises, the turn has failed and is not saved.
    - Saving never raises: see `Session.save_turn`.

    Args:
        user: The user's message.
        save: Saves the turn.
        asave: Saves the turn from a coroutine, even while it is being cancelled.
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
        """The text received so far in this iteration."""
        return "".join(self._pieces)

    def write(self, delta: str) -> None:
        """Add a piece of the answer."""
        self._pieces.append(delta)

    def next_iteration(self) -> None:
        """Start the answer again: the text so far led to tool calls."""
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


USAGE = "usage"
"""The metadata key of the usage a provider reported: `{"output_tokens": 12, "reasoning_tokens": 0}`."""

_FIRST_CHUNK = 32
_USED = 0.9
"""Look for part of an older turn only below this share of the tokens: `select_window` leaves at most a tenth."""
_LEADING = 4
"""The number of messages at the start of a conversation that are checked for system messages."""


@dataclass(frozen=True, slots=True)
class LoadedHistory:
    """The newest messages of a conversation, and the layers that replace those before them."""

    messages: tuple[Message, ...]
    tokens: dict[int, int]
    unread: LeftOut
    layers: Layers = NO_LAYERS
    summarised: bool = False
    notes: tuple[str, ...] = ()
    at_seq: int | None = None  # of the newest message; `None` if it is not known


@dataclass(frozen=True, slots=True)
class _Limits:
    """The most turns, messages and tokens that a request can show; `None` for no limit."""

    turns: int | None
    messages: int | None
    tokens: int | None

    def are_passed(self, shown: Sequence[StoredMessage], tokens: int) -> bool:
        """Return whether any further message would be left out; the newest turn's user message never is."""
        turns = sum(map(opens_a_turn, shown))
        return turns > 0 and (
            (self.turns is not None and turns > self.turns)
            or (self.messages is not None and len(shown) > self.messages)
            or (self.tokens is not None and tokens > self.tokens)
        )

    def leave_room(self, shown: Sequence[StoredMessage], tokens: int) -> bool:
        """Return whether only tokens exclude the preceding turn, and more than a tenth of them is left."""
        return (
            self.tokens is not None
            and tokens < self.tokens * _USED
            and (self.turns is None or sum(map(opens_a_turn, shown)) < self.turns)
            and (self.messages is None or len(shown) < self.messages)
        )


class ConversationLog:
    """Reads and writes the messages of one conversation in a store."""

    def __init__(self, services: Services, key: SessionKey) -> None:
        self._services = services
        self._store = services.store
        self._key = key
        self._counter = services.token_counter

    def append(self, messages: Iterable[Message], *, after: After | None = None) -> list[StoredMessage]:
        """Store messages, except those that arc itself made."""
        now = self._services.clock()
        own = [
            message.stored_as(message.id or self._services.new_id(), now)
            for message in messages
            if not message.made_by_arc
        ]
        counts = message_tokens_batch(self._counter, own)
        name = self._counter.name
        counted = [CountedMessage(message, tokens, name) for message, tokens in zip(own, counts, strict=True)]
        settings = self._services.settings
        most, keep = settings.storage.max_messages_per_session, settings.summary.enabled
        stored = self._store.append(self._key, counted, max_messages=most, keep_unsummarized=keep, after=after)
        self._learn(counted, stored)
        return stored

    def originals(self, *, limit: int | None = None, before: str | None = None) -> list[Message]:
        """Return the newest messages (before the one with the id `before`), oldest first."""
        seq = None
        if before is not None:
            found = self._store.read(self._key, ids=[check_identifier("before", before)])
            if not found:
                raise InvalidInputError("before", before, "the id of a message of this session")
            seq = found[0].seq
        return [stored.message for stored in self._store.read(self._key, limit=limit, before=seq)]

    def load(
        self,
        *,
        max_turns: int | None,
        max_messages: int | None,
        max_tokens: int | None,
        count: Callable[[Message], int] | None = None,
    ) -> LoadedHistory:
        """Load the newest messages until a limit is exceeded and one is the user's, or load all."""
        limits = _Limits(max_turns, max_messages, max_tokens)
        loaded: list[StoredMessage] = []
        tokens: dict[int, int] = {}

        def total(shown: Sequence[StoredMessage]) -> int:
            raw = sum(tokens[id(kept.message)] for kept in shown)
            return raw if count else corrected(self._counter, raw)

        size = _FIRST_CHUNK
        while True:
            before = loaded[0].seq if loaded else None
            chunk = self._store.read(self._key, limit=size, before=before)
            loaded[:0] = chunk
            tokens.update(self.raw_tokens(chunk, count))
            shown = _showable(loaded)
            if len(chunk) < size or limits.are_passed(shown, total(shown)):
                break
            size *= 2
        exhausted = len(chunk) < size
        if not exhausted:
            whole = _whole_turns(loaded)
            shown = _showable(whole)
            if len(whole) < len(loaded) and limits.leave_room(shown, total(shown)):
                question = self.newest_question(before=loaded[0].seq)
                if question is not None:
                    whole = [question, *loaded]
                    tokens.update(self.raw_tokens([question], count))
            leading = self._leading(before=whole[0].seq)
            loaded = [*leading, *whole]
            tokens = {id(kept.message): tokens[id(kept.message)] for kept in whole} | self.raw_tokens(leading, count)
        return LoadedHistory(
            messages=tuple(stored.message for stored in loaded),
            tokens=tokens,
            unread=LeftOut(0, 0) if exhausted else self._unread(loaded),
            at_seq=loaded[-1].seq if loaded else 0,
        )

    def _leading(self, *, before: int) -> list[StoredMessage]:
        head = self._store.read(self._key, after=0, limit=_LEADING)
        spoken = (stored for stored in head if says_something(stored.message))
        leading = takewhile(lambda stored: stored.message.role is Role.SYSTEM, spoken)
        return [stored for stored in leading if stored.seq < before]

    def newest_question(self, *, before: int) -> StoredMessage | None:
        """Return the newest non-empty user message before a place, reading backwards in chunks until it is found."""
        size = _FIRST_CHUNK
        while True:
            chunk = self._store.read(self._key, limit=size, before=before)
            found = next((stored for stored in reversed(chunk) if opens_a_turn(stored)), None)
            if found is not None or len(chunk) < size:
                return found
            before, size = chunk[0].seq, 2 * size

    def raw_tokens(
        self, chunk: Sequence[StoredMessage], count: Callable[[Message], int] | None = None
    ) -> dict[int, int]:
        """Return the messages' token counts by `id()`; stored counts are used if the same counter made them."""
        if count is not None:
            return {id(stored.message): count(stored.message) for stored in chunk}
        name = self._counter.name
        others = [stored.message for stored in chunk if stored.counter != name]
        tokens = {id(stored.message): stored.tokens for stored in chunk}
        tokens.update(zip(map(id, others), message_tokens_batch(self._counter, others), strict=True))
        return tokens

    def _unread(self, loaded: Sequence[StoredMessage]) -> LeftOut:
        record = self._store.get(self._key)
        if record is None:
            return LeftOut(0, 0)
        tokens = record.total_tokens - sum(stored.tokens for stored in loaded)
        return LeftOut(max(record.message_count - len(loaded), 0), max(tokens, 0))

    def _learn(self, counted: Sequence[CountedMessage], stored: Sequence[StoredMessage]) -> None:
        for item, kept in zip(counted, stored, strict=True):
            usage = item.message.metadata.get(USAGE)
            is_new = kept.message is item.message
            if not is_new or item.message.role is not Role.ASSISTANT or not isinstance(usage, dict):
                continue
            reported = usage.get("output_tokens", 0) - usage.get("reasoning_tokens", 0)
            if isinstance(reported, int) and reported > 0 and isinstance(self._counter, Correcting):
                self._counter.observe(item.tokens, reported)


def as_messages(messages: Message | Iterable[Message], name: str = "messages") -> list[Message]:
    """Return one or several messages as a list."""
    if isinstance(messages, Message):
        return [messages]
    expected = 'a Message("user", "…") or an iterable of them'
    # A framework's message, a dictionary and a text are iterables of their parts.
    if type(messages) is not list and (
        converter_of(messages) or isinstance(messages, str | Mapping) or not isinstance(messages, Iterable)
    ):
        raise InvalidInputError(name, messages, or_converted(expected, messages))
    listed = list(messages)
    for message in listed:
        if not isinstance(message, Message):
            raise InvalidInputError(name, message, or_converted(expected, message))
    return listed


def _whole_turns(loaded: Sequence[StoredMessage]) -> Sequence[StoredMessage]:
    """Drop messages before the first user message: part of a turn can't be shown without its start."""
    return loaded[next(i for i, stored in enumerate(loaded) if opens_a_turn(stored)) :]


def _showable(loaded: Sequence[StoredMessage]) -> list[StoredMessage]:
    """Return the messages that a request can show: non-empty ones, with tool calls and results only together."""
    exchanges, _ = exchanges_of([stored.message for stored in loaded if says_something(stored.message)])
    shown = {id(message) for exchange in exchanges if exchange.complete for message in exchange.messages}
    return [stored for stored in loaded if id(stored.message) in shown]


def opens_a_turn(stored: StoredMessage) -> bool:
    """Return whether this is a non-empty user message."""
    return stored.message.role is Role.USER and says_something(stored.message)
