"""LongTermMemory and MemoryKeeper: extract, store, find and forget long-term memories."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from threading import Lock

from arc_common.caches import LRUCache
from arc_common.concurrency import BackgroundQueue, begin_in_each_process
from arc_common.documents import Document, ScoredDocument
from arc_common.exceptions import InvalidInputError, NotFoundError, StoreError, check_whole
from arc_common.memories import Memory, MemoryStatus, ProposedMemory, ScoredMemory
from arc_common.memory.answer_sources import Shown
from arc_common.memory.long_term.deduplication import Holdings
from arc_common.memory.long_term.extraction import Extractor
from arc_common.memory.long_term.index import MemoryIndex, with_one_of
from arc_common.memory.long_term.model_tools import ToolContext, may_forget, saved_by_model
from arc_common.memory.long_term.policy import Outcome, held_at, ranked
from arc_common.memory.long_term.writer import MemoryWriter, T
from arc_common.memory.own_words import learnable
from arc_common.memory.services import Services
from arc_common.memory.summaries.writer import content_hash
from arc_common.messages import Message, Role, local
from arc_common.model_calls import SpentError
from arc_common.prompts.memories import InteractionMode
from arc_common.protocols import SessionKey, StoredMessage
from arc_common.protocols.conversations import NO_EDITS
from arc_common.protocols.records import Onlooker, Progress, RecordChange, Records
from arc_common.protocols.search_index import Candidates, IndexQuery, Scope, cached_scope
from arc_common.rerankers import BM25Reranker
from arc_common.retrieval.bm25 import CANDIDATES, search_terms
from arc_common.settings import ArcSettings

_log = logging.getLogger("arc.memory")

_SETTLE_SECONDS = 5.0
"""The delay before access times are written: a commit for each turn would block appends."""


class AccessTimes:
    """Writes memories' access times in the background, so that no search waits for a disk."""

    def __init__(self, services: Services) -> None:
        self._store = services.store.records
        self._observer = services.observer
        begin_in_each_process(self._begin)
        self.queue: BackgroundQueue[Scope] = BackgroundQueue(
            self._write, threads=1, on_error=self._count, settle=_SETTLE_SECONDS
        )

    def _begin(self) -> None:
        self._lock = Lock()
        self._noted: dict[Scope, dict[str, datetime]] = {}

    def note(self, scope: Scope, ids: Sequence[str], *, at: datetime) -> None:
        """Note that memories were returned."""
        with self._lock:
            self._noted.setdefault(scope, {}).update(dict.fromkeys(ids, at))
        self.queue.schedule(scope)

    def flush(self, scope: Scope | None = None) -> None:
        """Write the noted access times (of this scope) and wait for running writes; never raises."""
        with self._lock:
            scopes = list(self._noted) if scope is None else [scope] if scope in self._noted else []
        for place in scopes:
            try:
                self._write(place)
            except Exception as error:  # noqa: BLE001 - a lost access time must not raise
                _log.warning("times of access were not stored: %s", error)
                self._count(error)
        self.queue.wait(1.0)

    def close(self) -> None:
        """Write the noted access times and stop."""
        self.flush()
        self.queue.close()

    def _write(self, scope: Scope) -> None:
        with self._lock:
            noted = self._noted.pop(scope, {})
        if noted:
            self._store.commit(scope, RecordChange(accessed=noted), version=None)

    def _count(self, error: Exception) -> None:
        self._observer.count("memory.touch_errors", error=type(error).__name__)


_CANDIDATES = 4
_LEAST_CANDIDATES = 20
"""Fetch four candidates per memory requested, and at least 20: a slightly less relevant one may be more important."""


class MemoryKeeper(MemoryWriter):
    """Keeps the memories of scopes in their store and in the index, and finds them."""

    def __init__(self, services: Services) -> None:
        self._index = MemoryIndex(services)
        super().__init__(services, self._index)
        self.access_times = AccessTimes(services)

    def _retried(self, scope: Scope, change: Callable[[Holdings], T | None]) -> T:
        self.access_times.flush(scope)
        return super()._retried(scope, change)

    def as_of(self, scope: Scope, moment: datetime) -> list[Memory]:
        """Return the memories that were valid at a given time, as they were then."""
        held = held_at(self._store.find(scope, history=True), moment)
        live = {one.id for one in self._store.find(scope, [one.id for one in held], on="live")}
        return [one for one in held if one.id in live]

    def _search_as_of(
        self, scope: Scope, query: str, moment: datetime, tags: Sequence[str], limit: int
    ) -> list[ScoredMemory]:
        """Search by words alone, because only memories that are valid now are indexed."""
        held = {one.id: one for one in self.as_of(scope, moment) if not tags or not set(tags).isdisjoint(one.tags)}
        given = [ScoredDocument(Document(one.attributed, id=one.id)) for one in held.values()]
        found = [one for one in BM25Reranker(top_k=max(len(given), 1)).rerank(query, given) if one.score]
        best = max((one.score or 0.0 for one in found), default=0.0)
        relevance = {str(one.document.id): (one.score or 0.0) / best for one in found}
        return ranked([held[name] for name in relevance], relevance, now=moment, limit=limit)

    def asking(self, scope: Scope, query: str, *, limit: int, tags: Sequence[str] = ()) -> IndexQuery:
        """Return the index query of `search` for a question, by words."""
        filters, most = with_one_of(tags) if tags else None, max(CANDIDATES, _CANDIDATES * limit)
        return IndexQuery(scope, "memory", search_terms(query, "memory"), filters=filters, limit=most)

    def search(
        self,
        scope: Scope,
        query: str,
        *,
        limit: int,
        tags: Sequence[str] = (),
        as_of: datetime | None = None,
        candidates: Candidates | None = None,
        on: Onlooker = "live",
    ) -> list[ScoredMemory]:
        """Return the memories that match a question; `candidates` are those of `asking`, if read already."""
        if not isinstance(query, str):
            raise InvalidInputError("query", query, "text")
        check_whole("top_k", limit)
        if as_of is not None:
            return self._search_as_of(scope, query, as_of, tags, limit)
        top_k = max(_LEAST_CANDIDATES, _CANDIDATES * limit)
        now, best = self._clock(), list[ScoredMemory]()
        while found := self._index.search(scope, query, top_k=top_k, tags=tags, candidates=candidates):
            seen = self._store.find(scope, list(found), on=on)
            best = ranked(seen, found, now=now, limit=limit)
            if len(best) >= limit or len(found) < top_k or len(seen) == len(found):
                break
            top_k, candidates = 2 * top_k, None  # those of other branches have taken their places
        if best:
            self._observer.count("memory.retrieved.count", len(best))
            self.access_times.note(scope, [one.memory.id for one in best], at=now)
        return [replace(one, memory=self._dated(one.memory)) for one in best]

    def _dated(self, memory: Memory) -> Memory:
        """Return a memory with its time in the clock's zone, whose day its line shows."""
        return replace(memory, valid_from=local(memory.valid_from, self._clock().tzinfo))

    def related(self, scope: Scope, text: str, *, limit: int, on: Onlooker = "live") -> list[Memory]:
        """Return the valid memories that match a text, best first, without recording access times."""
        ids = list(self._index.search(scope, text, top_k=limit))
        found, now = self._store.find(scope, ids, on=on) if ids else [], self._clock()
        return [memory for memory in found if memory.is_current and not memory.has_ended(now)]

    def get(self, scope: Scope, ids: Sequence[str]) -> list[Memory]:
        """Return the memories that exist, in the order of the ids."""
        self.access_times.flush(scope)
        return self._store.find(scope, ids, on="live")

    @property
    def store(self) -> Records:
        """The store, with all noted access times written."""
        self.access_times.flush()
        return self._store

    def delete(self, scope: Scope, ids: Sequence[str]) -> int:
        """Remove memories; return how many existed."""
        there = [memory.id for memory in self._store.find(scope, ids)]
        if not there:
            return 0
        self.remove(scope, there)
        return len(there)

    def forget(self, key: SessionKey, message_ids: Sequence[str] | None = None) -> int:
        """Remove memories whose only sources are a session, or some of its messages; return how many."""
        count = self._store.forget(key, message_ids)
        for scope in _scopes_of(key):
            self.settle(scope)
            self._index.complete(scope)
        return count

    def count(self, scope: Scope) -> int:
        """Return the number of valid memories."""
        return len(self._store.find(scope, on="live"))


def _scopes_of(key: SessionKey) -> Iterator[Scope]:
    """Yield the scopes whose memories may come from a session."""
    for user_id in dict.fromkeys((None, key.user_id)):
        for session_id in (None, key.session_id):
            yield Scope(key.caller_id, user_id, session_id)


_PAGE = 64
"""The most messages in one request to the model."""

MOST_WITHOUT_ANSWER = 8
"""Once this many user messages are unanswered, they are read without an answer."""


def due(messages: Sequence[StoredMessage], *, more: bool) -> Sequence[StoredMessage]:
    """Return the messages to read now: up to the newest answer; without one, all if there are many, else none."""
    said = [_speaker(stored) for stored in messages]
    if Role.ASSISTANT in said:
        return messages[: len(said) - said[::-1].index(Role.ASSISTANT)]
    return messages if more or said.count(Role.USER) >= MOST_WITHOUT_ANSWER else ()


def _speaker(stored: StoredMessage) -> Role | None:
    """Return the role of a message; `None` if it is empty."""
    return stored.message.role if stored.message.text.strip() else None


_SESSIONS = 10_000

_NEWEST_SESSIONS = 64
"""The most of a scope's sessions that are searched for unread messages."""

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
        return cached_scope(key.caller_id)
    if settings.memory.scope == "user" and key.user_id is not None:
        return cached_scope(key.caller_id, key.user_id)
    return cached_scope(key.caller_id, key.user_id, key.session_id)


class LongTermMemory:
    """Extracts memories from the messages that sessions save."""

    def __init__(self, services: Services) -> None:
        self.keeper = MemoryKeeper(services)
        self.extractor = Extractor(services)
        self._store = services.store.records
        self._conversations = services.store
        self._settings = services.settings
        self._observer = services.observer
        self.queue: BackgroundQueue[SessionKey] = BackgroundQueue(
            self._work, threads=services.settings.background.threads, on_error=self._count_error
        )
        begin_in_each_process(self._begin)

    def _begin(self) -> None:
        self._lock = Lock()
        self._unanswered: LRUCache[SessionKey, int] = LRUCache(_SESSIONS)  # of the sessions used in this process
        self._with_documents: LRUCache[SessionKey, bool] = LRUCache(_SESSIONS)  # true if the newest turn had documents
        self._looked_into: LRUCache[Scope, bool] = LRUCache(_SESSIONS)

    def scope_of(self, key: SessionKey) -> Scope:
        """Return the scope whose memories a session reads and adds to."""
        return scope_of(key, self._settings)

    def schedule(
        self, key: SessionKey, messages: Sequence[Message], *, with_documents: bool = False, is_edit: bool = False
    ) -> None:
        """Schedule the reading of saved messages if it is due; never raises."""
        key = _plain(key)
        said = [message.role for message in messages if message.text.strip()]
        with self._lock:
            is_first, is_answered = key not in self._unanswered, Role.ASSISTANT in said
            unanswered = 0 if is_answered else self._unanswered.get(key, 0) + said.count(Role.USER)
            self._unanswered[key] = unanswered
            self._with_documents[key] = with_documents
        if is_first or is_answered or is_edit or unanswered >= MOST_WITHOUT_ANSWER:
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
        try:
            self.keeper.forget(_plain(key), message_ids)
        except StoreError as error:
            _log.warning("memories of edited messages were not removed yet: %s", error)
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
        for proposed in self._held_back(extracted):
            added = self.keeper.add(scope, proposed)
            if added.outcome not in _NOT_STORED:
                found[added.memory.id] = added.memory
        return list(found.values())

    def propose(
        self,
        scope: Scope,
        proposed: ProposedMemory,
        *,
        key: SessionKey | None,
        running: Sequence[Message],
        shown: Callable[[SessionKey, str], Shown],
    ) -> Memory | None:
        """Store a memory that a model saves by a tool, with the trust that the newest and the running messages give it.

        Return the memory that represents it; `None` if its scope is full of stronger ones.
        """
        context = ToolContext.read(self._conversations, key, running, lambda key: shown(key, proposed.text))
        (saved,) = self._held_back([saved_by_model(proposed, context)])
        added = self.keeper.add(scope, saved, by_hand=saved.supersedes)
        return None if added.outcome is Outcome.FULL else added.memory

    def may_forget(
        self,
        memory: Memory,
        *,
        key: SessionKey | None,
        running: Sequence[Message],
        shown: Callable[[SessionKey, str], Shown],
    ) -> bool:
        """Return whether a model may delete a memory, given the newest and the running messages."""
        return may_forget(
            memory, ToolContext.read(self._conversations, key, running, lambda key: shown(key, memory.text))
        )

    def forget(self, key: SessionKey, message_ids: Sequence[str] | None = None) -> int:
        """Remove memories whose only sources are a session, or some of its messages; return how many."""
        return self.keeper.forget(_plain(key), message_ids)

    def wait(self, timeout: float | None = None, *, key: SessionKey | None = None) -> bool:
        """Wait until no messages (of this session) are being read; return whether this was within `timeout` seconds."""
        if key is not None:
            return self.queue.wait(timeout, key=_plain(key))
        return self.queue.wait(timeout) and self.keeper.access_times.queue.wait(timeout)

    def close(self) -> None:
        """Wait briefly for running work and write access times; waiting sessions are read at their next use."""
        self.queue.close(timeout=_LAST_SECONDS)
        self.keeper.access_times.close()

    def work(self, key: SessionKey, *, stop: Callable[[], bool] = bool) -> None:
        """Read a session's due messages."""
        key = _plain(key)
        self._read_edited(key)
        while not (self.queue.stopping or stop()) and self._read_on(key):
            pass

    def _work(self, key: SessionKey) -> None:
        try:
            self.work(key)
        except NotFoundError:  # the branch was deleted, or the session, and created again by another user
            return
        except StoreError:
            with self._lock:
                self._unanswered.pop(key, None)  # so that the next message tries again
            raise
        scope = self.scope_of(key)
        with self._lock:
            is_new = scope not in self._looked_into
            self._looked_into[scope] = True
        if is_new and not self.queue.stopping:
            for other in self._unread(scope):
                self.catch_up(other)

    def _unread(self, scope: Scope) -> list[SessionKey]:
        """Return the scope's sessions with unread messages among the newest of its user or caller, newest first."""
        newest = self._conversations.page(scope.caller_id, user_id=scope.user_id, limit=_NEWEST_SESSIONS)
        behind = [one.key for one in newest.conversations if one.last_seq > one.remembered_seq]
        return [key for key in behind if scope.session_id in (None, key.session_id)]

    def _read_to(self, key: SessionKey) -> int:
        """Return the `seq` up to which a session's messages were read."""
        conversation = self._conversations.get(key)
        return conversation.remembered_seq if conversation else 0

    def _read_on(self, key: SessionKey) -> bool:
        """Read the next messages of a session; return whether more may be due."""
        if self.extractor.waits:
            return False
        on = self._on_branch(key)
        start = self._read_to(on)
        found = self._conversations.read(on, after=max(start - 1, 0), limit=_PAGE + 1)
        following = found[:_PAGE]
        before = following.pop(0) if following and following[0].seq <= start else None
        batch = due(following, more=len(found) > _PAGE)
        if not batch:
            return False
        try:
            proposed = self._extracted(key, on, batch, before)
        except SpentError:  # the summaries spent the rest since `waits` was asked
            return False
        if self.queue.stopping:
            return False
        if self._read_to(on) != start:  # another process has read the same meanwhile
            return True
        if not self._keep(on, batch if before is None else [before, *batch], proposed, goes_on=True):
            return False
        read = _as_read(batch)
        if not self._changed(on, list(read), read):  # otherwise the batch is read again
            progress = Progress(on, after=start, to=batch[-1].seq)
            self._store.commit(self.scope_of(key), RecordChange(progress=progress), version=None)
        return True

    def _on_branch(self, key: SessionKey) -> SessionKey:
        """Return a key on the branch that a session is on now: another one may be current before all is read."""
        return replace(key, branch=self._conversations.path(key).branch)

    def _read_edited(self, key: SessionKey) -> None:
        """Read the messages again that were edited since they were read."""
        edits = NO_EDITS
        while (edits := self._conversations.edits(key, reader="memories", done=edits)).places:
            for branch in self._conversations.branch(key, "list"):
                on = replace(key, branch=branch.id)
                path, end = self._conversations.path(on), self._read_to(on)
                seqs = sorted({seq for at, seq in edits.places if seq <= end and path.shows(at, seq)})
                for first in range(0, len(seqs), _PAGE):
                    batch = self._conversations.read(on, seqs=seqs[first : first + _PAGE])
                    if batch and not self._read_anew(key, on, batch):
                        return

    def _read_anew(self, key: SessionKey, on: SessionKey, batch: Sequence[StoredMessage]) -> bool:
        """Keep the memories of messages in place of those of their earlier text; return whether that was done."""
        self.keeper.forget(on, [stored.message.id or "" for stored in batch])
        try:
            proposed = self._extracted(key, on, batch)
        except SpentError:
            return False
        return self._keep(on, batch, proposed, goes_on=False)

    def _extracted(
        self,
        key: SessionKey,
        on: SessionKey,
        batch: Sequence[StoredMessage],
        before: StoredMessage | None = None,
    ) -> Sequence[ProposedMemory]:
        messages = [stored.message for stored in batch]
        with self._lock:
            with_documents = self._with_documents.get(key, False)
        with_tools = any(message.role is Role.TOOL or message.tool_calls for message in messages)
        mode: InteractionMode = "agent" if with_tools else "rag" if with_documents else "chat"
        known = self._known(self.scope_of(key), messages, on=on)
        answered = before.message if before is not None and _speaker(before) is Role.ASSISTANT else None
        extracted = self.extractor.extract(
            messages, mode=mode, session_id=key.session_id, known=known, before=answered, may_wait=True
        )
        return self._held_back(extracted)

    def _held_back(self, memories: Sequence[ProposedMemory]) -> Sequence[ProposedMemory]:
        """Return the memories, pending if a reviewer must approve them."""
        if not self._settings.memory.require_review:
            return memories
        return [replace(one, status=MemoryStatus.PENDING) for one in memories]

    def _known(self, scope: Scope, messages: Sequence[Message], *, on: Onlooker = "live") -> Sequence[Memory]:
        """Return the memories related to the user's messages, so that a model can say which are no longer valid."""
        if not self.extractor.has_model:
            return ()
        said = "\n".join(message.text for message in learnable(messages) if message.role is Role.USER)
        return self.keeper.related(scope, said[-_CHARACTERS_ASKED:], limit=_MOST_KNOWN, on=on) if said else ()

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
            kept = [
                replace(memory, branch=key.branch)
                for memory in together
                if gone.isdisjoint(name for _, name in memory.sources)
            ]
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
            there = _as_read(self._conversations.read(key, ids=message_ids))
        except NotFoundError:  # the session or its branch was deleted
            there = {}
        return [message_id for message_id in message_ids if there.get(message_id) != read.get(message_id)]

    def _count_error(self, error: Exception) -> None:
        self._observer.count("memory.extraction.errors", error=type(error).__name__)


_Read = tuple[int, int, str]
"""A message's place, revision and content hash; a session deleted meanwhile may reuse the same ids."""


def _as_read(batch: Sequence[StoredMessage]) -> dict[str, _Read]:
    return {stored.message.id or "": (stored.seq, stored.revision, content_hash(stored.message)) for stored in batch}


def _plain(key: SessionKey) -> SessionKey:
    """Return the key without its account, so that queues and caches hold each session once."""
    return key if key.account_id is None else replace(key, account_id=None)
