"""LongTermMemory: gathers memories from what is said, in the background, and knows where each session's are kept."""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock

from cachetools import LRUCache

from arc_common.exceptions import SessionNotFoundError
from arc_common.indexing import IndexStore, Scope
from arc_common.memories import Memory
from arc_common.memory.background import BackgroundQueue
from arc_common.memory.keeping import MemoryKeeper
from arc_common.memory.long_term import Outcome
from arc_common.memory.memory_extraction import Extractor
from arc_common.memory_stores import MemoryStore
from arc_common.messages import Message, Role
from arc_common.observability import Observer
from arc_common.prompts.memories import InteractionMode
from arc_common.protocols import ChatModel, ConversationStore, Embedder, SessionKey
from arc_common.settings import ArcSettings

__all__ = ["LongTermMemory", "long_term_memory", "scope_of"]

_log = logging.getLogger("arc.memory")

_SESSIONS = 1_000
_MESSAGES = 10_000
"""Ids of messages that were read, over all sessions: an exchange that is saved again is not read again."""

_MOST_WAITING = 64
"""Messages of one session; of more the oldest are not read. At most as many go into one request to the model."""

_MOST_WITHOUT_ANSWER = 8
"""User messages that wait for their answer; then they are read without one."""

_LAST_SECONDS = 1.0
"""Seconds that closing waits for a memory that is being stored. What a model says later is not stored."""


def scope_of(key: SessionKey, settings: ArcSettings) -> Scope:
    """Whose memories a session reads and adds to, by `settings.memory.scope`; without a user, its own."""
    if settings.memory.scope == "caller":
        return Scope(key.caller_id)
    if settings.memory.scope == "user" and key.user_id is not None:
        return Scope(key.caller_id, key.user_id)
    return Scope(key.caller_id, key.user_id, key.session_id)


@dataclass(slots=True)
class _Waiting:
    """What a session saved and nobody has read yet."""

    messages: dict[str, Message] = field(default_factory=dict)
    edited: set[str] = field(default_factory=set)

    def add(self, message_id: str, message: Message, *, is_edited: bool) -> None:
        self.messages[message_id] = message
        if is_edited:
            self.edited.add(message_id)
        for oldest in list(self.messages)[: max(0, len(self.messages) - _MOST_WAITING)]:
            del self.messages[oldest]

    @property
    def is_due(self) -> bool:
        """Whether it has an answer, or has waited for one long enough."""
        answered = any(one.role is Role.ASSISTANT and one.text.strip() for one in self.messages.values())
        return bool(self.messages) and (answered or bool(self.edited) or len(self.messages) >= _MOST_WITHOUT_ANSWER)


class LongTermMemory:
    """Gathers memories from what sessions save. Thread-safe; nothing of it raises into a reply.

    - Coalesced per session: what was saved while a model was at work is one request.
    - A message is read once by this process, whenever it is saved again, and not before it has its answer. One that was
      edited is read anew, and what rested on its old words alone goes.
    - Nothing comes back after a session, or a message, was removed: sources are looked for before a memory is stored
      and once more after it.
    - A failing model, store or embedder costs memories and nothing else; each failure is counted.

    Args:
        keeper: Keeps them.
        extractor: Finds them.
        conversations: Where messages are.
        settings: The knobs (`memory`, `background`).
        observer: Receives counts.
    """

    def __init__(
        self,
        keeper: MemoryKeeper,
        extractor: Extractor,
        *,
        conversations: ConversationStore,
        settings: ArcSettings,
        observer: Observer,
    ) -> None:
        self.keeper = keeper
        self.extractor = extractor
        self._conversations = conversations
        self._settings = settings
        self._observer = observer
        self._process = os.getpid()
        self._lock = Lock()
        self._waiting: LRUCache[SessionKey, _Waiting] = LRUCache(_SESSIONS)
        self._read: LRUCache[tuple[SessionKey, str], int] = LRUCache(_MESSAGES)
        self.queue: BackgroundQueue[SessionKey] = BackgroundQueue(
            self._work, threads=settings.background.threads, on_error=self._count_error
        )

    def scope_of(self, key: SessionKey) -> Scope:
        """Whose memories a session reads and adds to."""
        return scope_of(key, self._settings)

    def schedule(self, key: SessionKey, messages: Sequence[Message]) -> None:
        """Have what was saved read soon; never raises.

        Args:
            key: The session.
            messages: As they were stored: with their ids.
        """
        with self._guard():
            waiting = self._waiting.get(key) or _Waiting()
            for message in messages:
                if message.id is None or message.role not in (Role.USER, Role.ASSISTANT):
                    continue
                words, before = hash(message.text), self._read.get((key, message.id))
                if before != words:
                    self._read[key, message.id] = words
                    waiting.add(message.id, message, is_edited=before is not None)
            if not waiting.messages:
                return
            self._waiting[key] = waiting
            is_due = waiting.is_due
        if is_due:
            self.queue.schedule(key)

    def extract(
        self,
        scope: Scope,
        messages: Sequence[Message],
        *,
        mode: InteractionMode = "chat",
        session_id: str | None = None,
    ) -> list[Memory]:
        """Find what is worth remembering, store it, and give what stands for it now, each memory once.

        Raises:
            InvalidInputError: The mode is unknown.
            StoreError: The store failed.
        """
        extracted = self.extractor.extract(messages, mode=mode, session_id=session_id)
        found: dict[str, Memory] = {}
        for proposed in extracted.memories:
            added = self.keeper.add(scope, proposed)
            if added.outcome is not Outcome.REJECTED:
                found[added.memory.id] = added.memory
        return list(found.values())

    def forget(self, key: SessionKey, message_ids: Sequence[str] | None = None) -> int:
        """Remove what rests on a session, or on some of its messages, alone; how many memories that were.

        Call it after the messages are gone.

        Raises:
            StoreError: The store failed.
        """
        with self._guard():
            waiting = self._waiting.pop(key, None)
            if waiting is not None and message_ids is not None:
                for message_id in message_ids:
                    waiting.messages.pop(message_id, None)
                self._waiting[key] = waiting
        return self.keeper.forget(key, message_ids)

    def wait(self, timeout: float | None = None, *, key: SessionKey | None = None) -> bool:
        """Wait until nothing (of this session) is being read; whether that was reached within `timeout` seconds."""
        return self.queue.wait(timeout, key=key)

    def close(self) -> None:
        """Drop what waits, give what runs a moment to end, and write what searches noted."""
        self.queue.close(timeout=_LAST_SECONDS)
        self.keeper.close()

    def _guard(self) -> Lock:
        if self._process != os.getpid():  # a lock that another thread of the parent held would stay held for good
            self._lock, self._process = Lock(), os.getpid()
        return self._lock

    def _work(self, key: SessionKey) -> None:
        with self._guard():
            waiting = self._waiting.get(key)
            if waiting is None or not waiting.is_due:
                return
            del self._waiting[key]
        if waiting.edited:
            self.keeper.forget(key, sorted(waiting.edited))
        scope = self.scope_of(key)
        extracted = self.extractor.extract(list(waiting.messages.values()), session_id=key.session_id)
        for proposed in extracted.memories:
            if self.queue.stopping:
                return
            if not self._are_there(key, [name for _, name in proposed.sources]):
                continue
            added = self.keeper.add(scope, proposed)
            if added.outcome is Outcome.REJECTED:
                continue
            gone = self._missing(key, [name for _, name in proposed.sources])
            if gone:
                self.keeper.forget(key, gone)

    def _are_there(self, key: SessionKey, message_ids: Sequence[str]) -> bool:
        return bool(message_ids) and not self._missing(key, message_ids)

    def _missing(self, key: SessionKey, message_ids: Sequence[str]) -> list[str]:
        try:
            there = {stored.message.id for stored in self._conversations.find(key, message_ids)}
        except SessionNotFoundError:
            there = set()
        return [message_id for message_id in message_ids if message_id not in there]

    def _count_error(self, error: Exception) -> None:
        self._observer.count("memory.extraction.errors", error=type(error).__name__)


def long_term_memory(
    store: MemoryStore,
    *,
    conversations: ConversationStore,
    index_store: Callable[[], IndexStore],
    chat_model: ChatModel | None,
    embedder: Embedder | None,
    settings: ArcSettings,
    observer: Observer,
    clock: Callable[[], datetime],
) -> LongTermMemory:
    """What gathers and keeps an engine's memories, from the engine's parts. Does no I/O."""
    keeper = MemoryKeeper(
        store, index_store=index_store, embedder=embedder, settings=settings, observer=observer, clock=clock
    )
    extractor = Extractor(chat_model, settings=settings, observer=observer)
    return LongTermMemory(keeper, extractor, conversations=conversations, settings=settings, observer=observer)
