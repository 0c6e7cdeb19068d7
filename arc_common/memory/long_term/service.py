"""LongTermMemory: gathers memories from what is said, in the background, and knows where each session's are kept."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from threading import Lock

from cachetools import LRUCache

from arc_common.concurrency import BackgroundQueue, begin_in_each_process
from arc_common.exceptions import InvalidInputError, SessionNotFoundError, StoreError
from arc_common.memories import Memory, ProposedMemory
from arc_common.memory.long_term.contradictions import Contradictions
from arc_common.memory.long_term.extraction import Extractor, as_said
from arc_common.memory.long_term.policy import Outcome
from arc_common.memory.long_term.storage import MemoryKeeper
from arc_common.memory.summaries.writer import content_hash
from arc_common.messages import Message, Role
from arc_common.observability import Observer
from arc_common.prompts.memories import InteractionMode
from arc_common.protocols import ChatModel, ConversationStore, Embedder, SessionKey, StoredMessage
from arc_common.protocols.memories import MemoryStore
from arc_common.protocols.search_index import IndexStore, Scope
from arc_common.settings import ArcSettings

_PAGE = 64
"""Places: at most as many messages go into one request to the model."""

MOST_WITHOUT_ANSWER = 8
"""User messages that wait for their answer; then they are read without one."""


def unread(conversations: ConversationStore, key: SessionKey, *, after: int) -> tuple[list[StoredMessage], bool]:
    """The messages that follow a place, 64 at most, oldest first; and whether there are more behind them."""
    newest = conversations.tail(key, limit=1)
    end = newest[0].seq if newest else 0
    if end <= after:
        return [], False
    oldest = conversations.head(key, limit=1)  # a cap on the session may have taken what lay before it
    first = max(after + 1, oldest[0].seq if oldest else 0)
    while first <= end:
        found = conversations.tail(key, after=first - 1, before=first + _PAGE)
        if found:
            return found, found[-1].seq < end
        first += _PAGE
    return [], False


def due(messages: Sequence[StoredMessage], *, more: bool) -> Sequence[StoredMessage]:
    """Those to read now: up to the newest answer; without one, all if they are many; else none."""
    answer = next((place for place in reversed(range(len(messages))) if is_answer(messages[place])), None)
    if answer is not None:
        return messages[: answer + 1]
    return messages if more or sum(map(is_question, messages)) >= MOST_WITHOUT_ANSWER else ()


def is_answer(stored: StoredMessage) -> bool:
    """Whether an assistant says something in it."""
    return stored.message.role is Role.ASSISTANT and bool(stored.message.text.strip())


def is_question(stored: StoredMessage) -> bool:
    """Whether a user says something in it."""
    return stored.message.role is Role.USER and bool(stored.message.text.strip())


_log = logging.getLogger("arc.memory")

_SESSIONS = 10_000

_MOST_KNOWN = 10
"""Memories that a model is shown beside what is said, of which it may say that they no longer hold."""

_CHARACTERS_ASKED = 2_000
"""Of what the user says, by which those are found: the last."""

_TOGETHER = 16
"""Memories stored between two checks that their messages are still there."""

_NOT_STORED = (Outcome.REJECTED, Outcome.FULL)

_LAST_SECONDS = 1.0
"""Seconds that closing waits for a memory that is being stored. What is not read by then is read at the next use."""


def scope_of(key: SessionKey, settings: ArcSettings) -> Scope:
    """Whose memories a session reads and adds to, by `settings.memory.scope`; without a user, its own."""
    if settings.memory.scope == "caller":
        return Scope(key.caller_id)
    if settings.memory.scope == "user" and key.user_id is not None:
        return Scope(key.caller_id, key.user_id)
    return Scope(key.caller_id, key.user_id, key.session_id)


class LongTermMemory:
    """Gathers memories from what sessions save."""

    def __init__(
        self,
        keeper: MemoryKeeper,
        extractor: Extractor,
        *,
        store: MemoryStore,
        conversations: ConversationStore,
        settings: ArcSettings,
        observer: Observer,
    ) -> None:
        self.keeper = keeper
        self.extractor = extractor
        self._store = store
        self._conversations = conversations
        self._settings = settings
        self._observer = observer
        self.queue: BackgroundQueue[SessionKey] = BackgroundQueue(
            self._work, threads=settings.background.threads, on_error=self._count_error
        )
        begin_in_each_process(self._begin)

    def _begin(self) -> None:
        self._lock = Lock()
        self._unanswered: LRUCache[SessionKey, int] = LRUCache(_SESSIONS)  # of the sessions that were used here
        self._with_documents: LRUCache[SessionKey, bool] = LRUCache(_SESSIONS)  # whether the newest turn had some
        self._edited: LRUCache[SessionKey, set[str]] = LRUCache(_SESSIONS)
        self._looked_into: LRUCache[Scope, bool] = LRUCache(_SESSIONS)

    def scope_of(self, key: SessionKey) -> Scope:
        """Whose memories a session reads and adds to."""
        return scope_of(key, self._settings)

    def schedule(self, key: SessionKey, messages: Sequence[Message], *, with_documents: bool = False) -> None:
        """Have what was saved read soon; never raises."""
        key = _plain(key)
        said = [message.role for message in messages if message.text.strip()]
        with self._lock:
            is_first, is_answered = key not in self._unanswered, Role.ASSISTANT in said
            unanswered = 0 if is_answered else self._unanswered.get(key, 0) + said.count(Role.USER)
            self._unanswered[key] = unanswered
            self._with_documents[key] = with_documents
            is_edited = key in self._edited
        if is_first or is_answered or is_edited or unanswered >= MOST_WITHOUT_ANSWER:
            self.queue.schedule(key)

    def catch_up(self, key: SessionKey) -> None:
        """At its first use here, have read what others left unread of a session and of its scope; never raises."""
        key = _plain(key)
        with self._lock:
            if key in self._unanswered:
                return
            self._unanswered[key] = 0
        self.queue.schedule(key)

    def read_soon(self, key: SessionKey) -> None:
        """Have what is due of a session read, whatever was saved; never raises."""
        self.queue.schedule(_plain(key))

    def edited(self, key: SessionKey, message_ids: Sequence[str]) -> None:
        """Remove what rests on the words that messages had before; never raises."""
        key = _plain(key)
        with self._lock:
            self._edited[key] = self._edited.get(key, set()) | set(message_ids)
        try:
            self.keeper.forget(key, message_ids)
        except StoreError as error:
            _log.warning("memories of edited messages are still there: %s", error)
            self._count_error(error)

    def extract(
        self,
        scope: Scope,
        messages: Sequence[Message],
        *,
        mode: InteractionMode = "chat",
        session_id: str | None = None,
    ) -> list[Memory]:
        """Find what is worth remembering, store it, and give what stands for it now, each memory once."""
        known = self._known(scope, messages)
        extracted = self.extractor.extract(messages, mode=mode, session_id=session_id, known=known)
        found: dict[str, Memory] = {}
        for proposed in extracted.memories:
            added = self.keeper.add(scope, proposed)
            if added.outcome not in _NOT_STORED:
                found[added.memory.id] = added.memory
        return list(found.values())

    def forget(self, key: SessionKey, message_ids: Sequence[str] | None = None) -> int:
        """Remove what rests on a session, or on some of its messages, alone; how many memories that were."""
        return self.keeper.forget(_plain(key), message_ids)

    def wait(self, timeout: float | None = None, *, key: SessionKey | None = None) -> bool:
        """Wait until nothing (of this session) is being read; return whether that was so within `timeout` seconds."""
        if key is not None:
            return self.queue.wait(timeout, key=_plain(key))
        return self.queue.wait(timeout) and self.keeper.wait(timeout)

    def close(self) -> None:
        """Give what runs a moment to end, and write what searches noted. What waits is read at its next use."""
        self.queue.close(timeout=_LAST_SECONDS)
        self.keeper.close()

    def _work(self, key: SessionKey) -> None:
        try:
            self._read_edited(key)
            while not self.queue.stopping and self._read_on(key):
                pass
        except SessionNotFoundError:  # deleted, and begun by another user
            return
        scope = self.scope_of(key)
        with self._lock:
            is_new = scope not in self._looked_into
            self._looked_into[scope] = True
        if is_new and not self.queue.stopping:
            for other in self._store.unread(scope):
                self.catch_up(other)

    def _read_on(self, key: SessionKey) -> bool:
        """Read the next messages of a session; whether others may be due."""
        start = self._store.read_to(key)
        following, more = unread(self._conversations, key, after=start)
        batch = due(following, more=more)
        if not batch:
            return False
        proposed = self._extracted(key, batch)
        if self.queue.stopping:
            return False
        if self._store.read_to(key) != start:  # another process has read the same meanwhile
            return True
        if not self._keep(key, batch, proposed, goes_on=True):
            return False
        read = _as_read(batch)
        if not self._changed(key, list(read), read):  # else it is read again, as it is now
            self._store.mark_read(key, after=start, to=batch[-1].seq)
        return True

    def _read_edited(self, key: SessionKey) -> None:
        """Read messages anew that were edited after they had been read."""
        with self._lock:
            edited = self._edited.pop(key, set())
        if not edited:
            return
        try:
            self.keeper.forget(key, sorted(edited))
            end = self._store.read_to(key)
            batch = [stored for stored in self._conversations.find(key, sorted(edited)) if stored.seq <= end]
            if not batch or self._keep(key, batch, self._extracted(key, batch), goes_on=False):
                return
        except StoreError:
            with self._lock:
                self._edited[key] = self._edited.get(key, set()) | edited
            raise

    def _extracted(self, key: SessionKey, batch: Sequence[StoredMessage]) -> Sequence[ProposedMemory]:
        messages = [stored.message for stored in batch]
        with self._lock:
            with_documents = self._with_documents.get(key, False)
        mode = _mode_of(messages, with_documents=with_documents)
        known = self._known(self.scope_of(key), messages)
        return self.extractor.extract(messages, mode=mode, session_id=key.session_id, known=known).memories

    def _known(self, scope: Scope, messages: Sequence[Message]) -> Sequence[Memory]:
        """The memories that what the user says may have to do with, for a model to say which of them are over."""
        if not self.extractor.has_model:
            return ()
        said = "\n".join(message.text for message in as_said(messages) if message.role is Role.USER)
        return self.keeper.related(scope, said[-_CHARACTERS_ASKED:], limit=_MOST_KNOWN) if said else ()

    def _keep(
        self, key: SessionKey, batch: Sequence[StoredMessage], proposed: Sequence[ProposedMemory], *, goes_on: bool
    ) -> bool:
        """Store what was found in messages, as far as these are there as they were read; whether there was time."""
        scope = self.scope_of(key)
        read = _as_read(batch)
        places = {stored.message.id: stored.seq for stored in batch}
        follows = key.session_id if goes_on else None
        in_order = sorted(
            (memory for memory in proposed if memory.sources),
            key=lambda one: max(places.get(name, 0) for _, name in one.sources),
        )
        for first in range(0, len(in_order), _TOGETHER):
            if self.queue.stopping:
                return False
            together = in_order[first : first + _TOGETHER]
            ids = list(dict.fromkeys(name for memory in together for _, name in memory.sources))
            gone = set(self._changed(key, ids, read))
            kept = [memory for memory in together if gone.isdisjoint(name for _, name in memory.sources)]
            for added in self.keeper.add_all(scope, kept, follows=follows) if kept else ():
                if isinstance(added, InvalidInputError):  # it must not hold up the others
                    _log.warning("a memory can't be stored: %s", added)
                    self._count_error(added)
            if kept and (changed := self._changed(key, ids, read)):
                self.keeper.forget(key, changed)
        return True

    def _changed(self, key: SessionKey, message_ids: Sequence[str], read: Mapping[str, "_Read"]) -> list[str]:
        """Those of the messages that are no longer there as they were read."""
        try:
            there = _as_read(self._conversations.find(key, message_ids))
        except SessionNotFoundError:
            there = {}
        return [message_id for message_id in message_ids if there.get(message_id) != read.get(message_id)]

    def _count_error(self, error: Exception) -> None:
        self._observer.count("memory.extraction.errors", error=type(error).__name__)


_Read = tuple[int, int, str]
"""A message's place, its revision and its content: ids may be used again in a session that was deleted meanwhile."""


def _as_read(batch: Sequence[StoredMessage]) -> dict[str, _Read]:
    return {stored.message.id or "": (stored.seq, stored.revision, content_hash(stored.message)) for stored in batch}


def _mode_of(messages: Sequence[Message], *, with_documents: bool) -> InteractionMode:
    """What kind of interaction messages come from: one with tools, with documents, or neither."""
    if any(message.role is Role.TOOL or message.tool_calls for message in messages):
        return "agent"
    return "rag" if with_documents else "chat"


def _plain(key: SessionKey) -> SessionKey:
    """The key without what names no other session: queues and caches know each session once."""
    return key if key.account_id is None else replace(key, account_id=None)


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
    contradictions: Contradictions | None = None,
) -> LongTermMemory:
    """Build the `LongTermMemory` of an engine from the engine's parts. Does no I/O."""
    keeper = MemoryKeeper(
        store,
        index_store=index_store,
        embedder=embedder,
        settings=settings,
        observer=observer,
        clock=clock,
        contradictions=contradictions,
    )
    extractor = Extractor(chat_model, settings=settings, observer=observer)
    return LongTermMemory(
        keeper, extractor, store=store, conversations=conversations, settings=settings, observer=observer
    )
