"""LongTermMemory: extracts memories from sessions' messages in the background, into each session's scope."""

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
"""The most places read at once, and so the most messages in one request to the model."""

MOST_WITHOUT_ANSWER = 8
"""The number of unanswered user messages at which they are read without an answer."""


def unread(conversations: ConversationStore, key: SessionKey, *, after: int) -> tuple[list[StoredMessage], bool]:
    """Return the messages after a place, at most 64, oldest first; and whether more follow."""
    newest = conversations.tail(key, limit=1)
    end = newest[0].seq if newest else 0
    if end <= after:
        return [], False
    oldest = conversations.head(key, limit=1)  # a message limit may have removed those before it
    first = max(after + 1, oldest[0].seq if oldest else 0)
    while first <= end:
        found = conversations.tail(key, after=first - 1, before=first + _PAGE)
        if found:
            return found, found[-1].seq < end
        first += _PAGE
    return [], False


def due(messages: Sequence[StoredMessage], *, more: bool) -> Sequence[StoredMessage]:
    """Return the messages to read now: up to the newest answer; without one, all if there are many, else none."""
    answer = next((place for place in reversed(range(len(messages))) if is_answer(messages[place])), None)
    if answer is not None:
        return messages[: answer + 1]
    return messages if more or sum(map(is_question, messages)) >= MOST_WITHOUT_ANSWER else ()


def is_answer(stored: StoredMessage) -> bool:
    """Return whether this is a non-empty assistant message."""
    return stored.message.role is Role.ASSISTANT and bool(stored.message.text.strip())


def is_question(stored: StoredMessage) -> bool:
    """Return whether this is a non-empty user message."""
    return stored.message.role is Role.USER and bool(stored.message.text.strip())


_log = logging.getLogger("arc.memory")

_SESSIONS = 10_000

_MOST_KNOWN = 10
"""The most known memories that a model sees beside the messages and may declare outdated."""

_CHARACTERS_ASKED = 2_000
"""The last characters of the user's messages by which known memories are found."""

_TOGETHER = 16
"""The number of memories stored between two checks that their messages still exist."""

_NOT_STORED = (Outcome.REJECTED, Outcome.FULL)

_LAST_SECONDS = 1.0
"""Seconds that `close` waits for running work. Messages not read by then are read at the next use."""


def scope_of(key: SessionKey, settings: ArcSettings) -> Scope:
    """Return the scope that a session reads and adds to, by `settings.memory.scope`; without a user, its own."""
    if settings.memory.scope == "caller":
        return Scope(key.caller_id)
    if settings.memory.scope == "user" and key.user_id is not None:
        return Scope(key.caller_id, key.user_id)
    return Scope(key.caller_id, key.user_id, key.session_id)


class LongTermMemory:
    """Extracts memories from the messages that sessions save."""

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
        self._unanswered: LRUCache[SessionKey, int] = LRUCache(_SESSIONS)  # of the sessions used in this process
        self._with_documents: LRUCache[SessionKey, bool] = LRUCache(_SESSIONS)  # whether the newest turn had documents
        self._edited: LRUCache[SessionKey, set[str]] = LRUCache(_SESSIONS)
        self._looked_into: LRUCache[Scope, bool] = LRUCache(_SESSIONS)

    def scope_of(self, key: SessionKey) -> Scope:
        """Return the scope whose memories a session reads and adds to."""
        return scope_of(key, self._settings)

    def schedule(self, key: SessionKey, messages: Sequence[Message], *, with_documents: bool = False) -> None:
        """Schedule the reading of saved messages if it is due; never raises."""
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
        """Schedule a session and its scope's unread sessions at the session's first use here; never raises."""
        key = _plain(key)
        with self._lock:
            if key in self._unanswered:
                return
            self._unanswered[key] = 0
        self.queue.schedule(key)

    def read_soon(self, key: SessionKey) -> None:
        """Schedule the reading of a session's due messages; never raises."""
        self.queue.schedule(_plain(key))

    def edited(self, key: SessionKey, message_ids: Sequence[str]) -> None:
        """Remove memories that rest on the previous text of edited messages; never raises."""
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
        """Extract and store memories; return the stored or merged memories, each once."""
        known = self._known(scope, messages)
        extracted = self.extractor.extract(messages, mode=mode, session_id=session_id, known=known)
        found: dict[str, Memory] = {}
        for proposed in extracted.memories:
            added = self.keeper.add(scope, proposed)
            if added.outcome not in _NOT_STORED:
                found[added.memory.id] = added.memory
        return list(found.values())

    def forget(self, key: SessionKey, message_ids: Sequence[str] | None = None) -> int:
        """Remove memories whose only sources are a session, or some of its messages; return how many."""
        return self.keeper.forget(_plain(key), message_ids)

    def wait(self, timeout: float | None = None, *, key: SessionKey | None = None) -> bool:
        """Wait until no messages (of this session) are being read; return whether this was within `timeout` seconds."""
        if key is not None:
            return self.queue.wait(timeout, key=_plain(key))
        return self.queue.wait(timeout) and self.keeper.wait(timeout)

    def close(self) -> None:
        """Wait briefly for running work and write access times; waiting sessions are read at their next use."""
        self.queue.close(timeout=_LAST_SECONDS)
        self.keeper.close()

    def _work(self, key: SessionKey) -> None:
        try:
            self._read_edited(key)
            while not self.queue.stopping and self._read_on(key):
                pass
        except SessionNotFoundError:  # deleted, then created again by another user
            return
        scope = self.scope_of(key)
        with self._lock:
            is_new = scope not in self._looked_into
            self._looked_into[scope] = True
        if is_new and not self.queue.stopping:
            for other in self._store.unread(scope):
                self.catch_up(other)

    def _read_on(self, key: SessionKey) -> bool:
        """Read the next messages of a session; return whether more may be due."""
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
        if not self._changed(key, list(read), read):  # else the batch is read again
            self._store.mark_read(key, after=start, to=batch[-1].seq)
        return True

    def _read_edited(self, key: SessionKey) -> None:
        """Read messages again that were edited after they had been read."""
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
        """Return the memories related to the user's messages, so that a model can say which no longer hold."""
        if not self.extractor.has_model:
            return ()
        said = "\n".join(message.text for message in as_said(messages) if message.role is Role.USER)
        return self.keeper.related(scope, said[-_CHARACTERS_ASKED:], limit=_MOST_KNOWN) if said else ()

    def _keep(
        self, key: SessionKey, batch: Sequence[StoredMessage], proposed: Sequence[ProposedMemory], *, goes_on: bool
    ) -> bool:
        """Store the memories whose messages are still unchanged; return whether all were handled before closing."""
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
                if isinstance(added, InvalidInputError):  # one invalid memory must not block the others
                    _log.warning("a memory can't be stored: %s", added)
                    self._count_error(added)
            if kept and (changed := self._changed(key, ids, read)):
                self.keeper.forget(key, changed)
        return True

    def _changed(self, key: SessionKey, message_ids: Sequence[str], read: Mapping[str, "_Read"]) -> list[str]:
        """Return the ids of messages that were changed or removed since they were read."""
        try:
            there = _as_read(self._conversations.find(key, message_ids))
        except SessionNotFoundError:
            there = {}
        return [message_id for message_id in message_ids if there.get(message_id) != read.get(message_id)]

    def _count_error(self, error: Exception) -> None:
        self._observer.count("memory.extraction.errors", error=type(error).__name__)


_Read = tuple[int, int, str]
"""A message's place, revision and content hash; a session deleted meanwhile may reuse the same ids."""


def _as_read(batch: Sequence[StoredMessage]) -> dict[str, _Read]:
    return {stored.message.id or "": (stored.seq, stored.revision, content_hash(stored.message)) for stored in batch}


def _mode_of(messages: Sequence[Message], *, with_documents: bool) -> InteractionMode:
    """Return the kind of interaction that messages come from: with tools, with documents, or with neither."""
    if any(message.role is Role.TOOL or message.tool_calls for message in messages):
        return "agent"
    return "rag" if with_documents else "chat"


def _plain(key: SessionKey) -> SessionKey:
    """Return the key without its account, so that queues and caches hold each session once."""
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
