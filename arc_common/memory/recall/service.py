"""Recall: finds earlier messages that a question needs, in this session or in all of the user's sessions."""

import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from threading import Lock
from typing import Literal, NamedTuple

from arc_common.caches import drop_session
from arc_common.concurrency import BackgroundQueue, replying
from arc_common.context import Layers
from arc_common.documents import Document, ScoredDocument
from arc_common.exceptions import ArchiveError, BranchNotFoundError, SessionNotFoundError, StoreError
from arc_common.facts import Fact
from arc_common.memory.recall.index import FoundMessages, LookedUp, MessageIndex, MessagePlace, of_user
from arc_common.memory.recall.indexing import MessageIndexer
from arc_common.memory.recall.ranking import (
    MOST_READ_ANEW,
    Recalled,
    Stated,
    is_small_talk,
    rank_found,
    relevant,
    share_of_room,
    specific_terms,
    stated_anew,
)
from arc_common.memory.services import Services
from arc_common.messages import Role
from arc_common.observability import timed
from arc_common.prompts.context import FENCE, named_parts, without_blocks
from arc_common.protocols import Conversation, ConversationStatus, SessionKey, StoredMessage
from arc_common.protocols.conversations import Path
from arc_common.protocols.search_index import IndexQuery, Scope
from arc_common.protocols.summaries import ScoredMessage
from arc_common.rerankers.base import reranked_if_possible
from arc_common.retrieval.bm25 import QueryTerms
from arc_common.text.sentences import is_question

_log = logging.getLogger("arc.recall")

_CANDIDATES = 100
"""The fewest messages that are ranked."""
_SHORT = 16
"""Tokens of a short message: as many candidates are found as might fit into the room."""
_PAGE = 24
"""Tokens of a usual message: as many are read at once as usually fill the room."""
_MOST_TOKENS = 300
"""The most tokens of a message that is shown by excerpts."""
_RERANKED = 30
_DEFAULT_TOP_K = 10
_AT_ONCE = 32
"""Index a session once this many messages are new, or at once if the user's other sessions search it."""


RecallScope = Literal["session", "user"]
"""Which conversations are searched."""

FactSearch = Callable[[SessionKey, str], Sequence[tuple[Fact, float]]]
"""Returns the valid facts of a session, each with its share of a perfect match for a question (0 for none)."""


class RecalledMessage(NamedTuple):
    """A message recalled for a question; its score is `None` if it is only the neighbour of one that was found."""

    place: MessagePlace
    stored: StoredMessage
    score: float | None
    parts: Mapping[str, float]


class FoundForTurn(NamedTuple):
    """The messages found for a turn, the share of the room that they may fill, and notes on failures."""

    messages: Sequence[RecalledMessage] = ()
    share: float = 1.0
    notes: tuple[str, ...] = ()


class SessionRecall:
    """Finds sessions' messages for questions, and keeps the message index up to date in the background."""

    def __init__(self, services: Services, *, facts: FactSearch) -> None:
        self._index = MessageIndex(services)
        self._indexer = MessageIndexer(services, self._index)
        self._conversations = services.store
        self._facts = facts
        self._observer = services.observer
        self._reranker = services.reranker
        self._patience = services.settings.summary.synchronous_timeout_seconds
        self._lock = Lock()
        self._new: dict[SessionKey, int] = {}
        self.queue: BackgroundQueue[SessionKey] = BackgroundQueue(self._work, threads=1, on_error=self._count_error)

    def schedule(self, key: SessionKey, count: int, *, at_once: bool = False) -> None:
        """Schedule `count` messages for indexing; use `at_once` for edits, so that old words soon stop matching."""
        with self._lock:
            waiting = self._new[key] = self._new.get(key, 0) + count
            due = at_once or waiting >= _AT_ONCE or self._index.is_user_wide(key)
        if due:
            self.queue.schedule(key)

    def catch_up(self, key: SessionKey) -> None:
        """Index all messages that are not indexed yet, and wait for it; vectors are made in the background."""
        self._catch_up(key)

    def recall(
        self, key: SessionKey, question: str, *, top_k: int | None, scope: RecallScope | None = None
    ) -> list[ScoredMessage]:
        """Return the messages relevant to a question, best first; facts also find the messages that state them."""
        joint = self._index.is_user_wide(key)
        others = self._sessions(key) if scope == "user" else []
        sessions = [one.key.session_id for one in others]
        active = [of_user(key, one.key.session_id) for one in others if one.status is ConversationStatus.ACTIVE]
        until = time.monotonic() + self._patience
        for one in dict.fromkeys((key, *active)):
            self._make_current(one, until)
        top_k = top_k or _DEFAULT_TOP_K
        limit = max(_CANDIDATES, 4 * top_k)
        found = self._index.search(key, question, limit=limit, sessions=sessions, only=scope == "session")
        one_session = scope == "session" or not (joint or sessions)
        stated = self._stated(key, question) if one_session else []  # other sessions' facts are not read
        ranked = rank_found(found, stated=stated, key=key)
        known: dict[MessagePlace, StoredMessage] = {}
        wanted = max(top_k, _RERANKED) if self._reranker else top_k
        for page in _pages(ranked, wanted):
            known |= self._read(key, [one.place for one in page])
            if len(known) >= wanted:
                break
        best = self._reranked(question, [one for one in ranked if one.place in known], known)
        return [
            ScoredMessage(known[one.place].message, one.score, one.parts, one.place.session_id) for one in best[:top_k]
        ]

    def asking(self, key: SessionKey, question: str, *, room: int) -> tuple[QueryTerms, IndexQuery]:
        """Return the question as read, and the index query of `for_turn` for it, by words."""
        asked = QueryTerms.of(question)
        query = self._index.asking(key, asked, limit=_limit(room))
        return asked, query if self._may_find(question) else replace(query, terms={})

    def for_turn(
        self,
        key: SessionKey,
        question: str,
        *,
        layers: Layers,
        shown: Collection[str],
        room: int,
        looked: LookedUp | None = None,
    ) -> FoundForTurn:
        """Return the messages that may fill `room` tokens, best first, then their neighbours."""
        if not self._may_find(question):
            return FoundForTurn()
        try:
            with replying(), timed(self._observer, "context.recall"):
                found = self._index.search(key, question, limit=_limit(room), looked=looked)
                return self._for_turn(key, question, found, layers=layers, shown=shown, room=room)
        except Exception as error:  # noqa: BLE001 - a reply must not depend on recall
            _log.warning("messages of session %r are not recalled: %s", key.session_id, error, exc_info=error)
            self._count_error(error)
            return FoundForTurn(notes=(f"messages were not recalled: {type(error).__name__}",))

    def _may_find(self, question: str) -> bool:
        """Return whether a turn's question can prove any message relevant: by its meaning, or by a specific word."""
        return self._index.embedder is not None or bool(specific_terms(question))

    def forget(self, key: SessionKey) -> None:
        """Drop a session from this process's caches; edited messages are still to be indexed."""
        self._indexer.forget(key)

    def forget_messages(self, key: SessionKey) -> None:
        """Remove deleted messages from the index."""
        self._indexer.refresh(key)

    def forget_branch(self, key: SessionKey, path: Path, *, end: int) -> None:
        """Remove a deleted branch from the index."""
        self._indexer.remove_branch(key, path, end=end)

    def forget_session(self, key: SessionKey) -> None:
        """Remove a session that was cleared or deleted from the index."""
        with self._lock:
            drop_session(self._new, key)
        self._indexer.remove_session(key)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until indexing has finished; return whether it did within `timeout` seconds."""
        return self.queue.wait(timeout)

    def close(self) -> None:
        """Stop indexing; the remaining messages are indexed when the session is used again."""
        self.queue.close()

    def _count_error(self, error: Exception) -> None:
        self._observer.count("recall.errors", error=type(error).__name__)

    def work(self, key: SessionKey, *, stop: Callable[[], bool] = bool) -> None:
        """Index all messages of a session that are not indexed yet, and make the missing vectors."""
        self._catch_up(key, stop=stop)
        self._indexer.embed(key, stop=lambda: self.queue.stopping or stop())

    def re_embed(self, scope: Scope, *, stop: Callable[[], bool]) -> int:
        """Replace the vectors of all messages in a scope: see `MessageIndexer.re_embed`."""
        return self._indexer.re_embed(scope, stop=stop)

    def _work(self, key: SessionKey) -> None:
        with suppress(BranchNotFoundError):  # it was deleted meanwhile
            self.work(key)

    def _catch_up(self, key: SessionKey, *, stop: Callable[[], bool] = bool) -> None:
        with self._lock:
            self._new.pop(key, None)
        self._indexer.catch_up(key, stop=lambda: self.queue.stopping or stop())

    def _make_current(self, key: SessionKey, until: float) -> None:
        """Index a session's new messages, in the background once it is later than `until`."""
        try:
            self._catch_up(key, stop=lambda: time.monotonic() > until)
            self._indexer.embed(key, most=1)
        except SessionNotFoundError:
            raise
        except StoreError as error:  # such as a full or read-only disk: the index can still be read
            _log.warning("session %r is searched without the messages not indexed yet: %s", key.session_id, error)
            self._count_error(error)
        if self._index.embedder is not None or time.monotonic() > until:
            self.queue.schedule(key)

    def _sessions(self, key: SessionKey) -> list[Conversation]:
        """Return all sessions of the session's user."""
        found: list[Conversation] = []
        cursor: str | None = None
        while True:
            page = self._conversations.page(key.caller_id, user_id=key.user_id, cursor=cursor)
            found += [one for one in page.conversations if one.key.account_id == key.account_id]
            if (cursor := page.next_cursor) is None:
                return found

    def _stated(self, key: SessionKey, question: str) -> list[Stated]:
        """Return the facts that may answer, including those of the newest messages, extracted here."""
        facts = self._facts(key, question)
        newest = self._conversations.read(key, limit=MOST_READ_ANEW)
        read_to = max((fact.segment for fact, _ in facts), default=0)
        unread = {MessagePlace(key.session_id, one.seq): one.message for one in newest if one.seq > read_to}
        sources = sorted({source for fact, share in facts if share for source in fact.sources})
        read = self._conversations.read(key, ids=sources) if sources else []
        places = {one.message.id: MessagePlace(key.session_id, one.seq) for one in read}
        stated = [
            Stated(fact.text, [places[one] for one in fact.sources if one in places], share) for fact, share in facts
        ]
        return stated + stated_anew(question, unread)

    def _for_turn(
        self,
        key: SessionKey,
        question: str,
        found: FoundMessages,
        *,
        layers: Layers,
        shown: Collection[str],
        room: int,
    ) -> FoundForTurn:
        ranked = rank_found(found, key=key)
        # messages after the boundary are in sight; reading 500 of them took most of a turn
        own, last = key.session_id, layers.boundary or math.inf
        seen = {one.place for one in ranked if one.place.session_id == own and one.place.seq > last}
        hidden = [one for one in ranked if one.place not in seen]
        known: dict[MessagePlace, StoredMessage] = {}
        chosen: list[Recalled] = []
        left, share = float(room), 1.0
        beside: dict[MessagePlace, StoredMessage] | None = None
        best = relevant(question, hidden, found, seen=seen)
        size = max(room // _PAGE, _RERANKED if self._reranker else 1)
        shown_already = False
        for page in _pages(best, size):
            few = len(best) < size  # they seldom fill the room, so their answers are read with them
            read = self._not_shown(key, [one.place for one in page], shown, beside=few)
            beside = read if few else None
            known |= {place: read[place] for place, *_ in page if place in read and not _says_nothing(read[place])}
            chosen = [one for one in best if one.place in known]
            if in_sight := {one.place for one in page if one.place not in read}:
                shown_already = True
                seen |= in_sight
            if shown_already:  # one of them may have been the question itself
                chosen = relevant(question, chosen, found, seen=seen)
            share = share_of_room(chosen, found)
            left = share * room - sum(min(known[one.place].tokens, _MOST_TOKENS) for one in chosen)
            if left <= 0:
                break
        chosen = self._reranked(question, chosen, known)
        recalled = {one.place: RecalledMessage(one.place, known[one.place], one.score, one.parts) for one in chosen}
        if left > 0 and chosen:
            self._add_neighbours(key, recalled, shown, read=beside)
        return FoundForTurn(list(recalled.values()), share, found.notes)

    def _reranked(
        self, question: str, ranked: Sequence[Recalled], known: Mapping[MessagePlace, StoredMessage]
    ) -> list[Recalled]:
        """Return the messages with the best 30 in the reranker's order; unchanged if there is none or it fails."""
        best, rest = ranked[:_RERANKED], ranked[_RERANKED:]
        if self._reranker is None or len(best) < 2:
            return list(ranked)
        documents = [
            ScoredDocument(Document(known[one.place].message.text, id=str(at)), one.score)
            for at, one in enumerate(best)
        ]
        found = reranked_if_possible(self._reranker, question, documents, top_k=len(documents))
        scores = {int(one.document.id or 0): one.score or 0.0 for one in found}
        first = [best[at]._replace(parts={**best[at].parts, "reranker": score}) for at, score in scores.items()]
        return [*first, *(one for at, one in enumerate(best) if at not in scores), *rest]

    def _add_neighbours(
        self,
        key: SessionKey,
        recalled: dict[MessagePlace, RecalledMessage],
        shown: Collection[str],
        *,
        read: dict[MessagePlace, StoredMessage] | None,
    ) -> None:
        """Add each message's answer or question, because one is of little use without the other.

        Small talk ("yes, great") is added only as the answer to a user's question.
        """
        found = {_beside(one.place, one.stored): one.stored.message for one in recalled.values()}
        beside = list(found)
        if read is None:
            read = self._not_shown(key, [place for place in beside if place not in recalled], shown)
        for place in beside:
            is_answer = found[place].role is Role.USER and is_question(found[place].text)
            said = _said_in(read[place]) if place not in recalled and place in read else ""
            if said and (is_answer or not is_small_talk(said)):
                recalled[place] = RecalledMessage(place, read[place], None, {})

    def _not_shown(
        self, key: SessionKey, places: Sequence[MessagePlace], shown: Collection[str], *, beside: bool = False
    ) -> dict[MessagePlace, StoredMessage]:
        """Return the messages at these places, and those beside them, that the turn does not show already."""
        return {
            place: stored
            for place, stored in self._read(key, places, beside=beside).items()
            if place.session_id != key.session_id or stored.message.id not in shown
        }

    def _read(
        self, key: SessionKey, places: Iterable[MessagePlace], *, beside: bool = False
    ) -> dict[MessagePlace, StoredMessage]:
        """Return the messages that exist at these places, with one query per session."""
        by_session: dict[str, set[int]] = {}
        for place in places:
            by_session.setdefault(place.session_id, set()).add(place.seq)
        found: dict[MessagePlace, StoredMessage] = {}
        for session_id, seqs in by_session.items():
            of = key if session_id == key.session_id else of_user(key, session_id)
            path = self._conversations.path(of, known=True)
            try:
                stored = self._conversations.read(of, seqs=sorted(seqs), beside=beside)
            except SessionNotFoundError:
                continue  # deleted, perhaps created again by another user
            except ArchiveError as error:
                _log.warning("messages of session %r are not recalled: %s", session_id, error)
                self._count_error(error)
                continue
            if self._conversations.path(of, known=True) == path:  # else other messages may be at these places now
                found.update({MessagePlace(session_id, one.seq): one for one in stored})
        return found


def _limit(room: int) -> int:
    """Return how many candidates fill `room` tokens."""
    return max(_CANDIDATES, room // _SHORT)


def _says_nothing(stored: StoredMessage) -> bool:
    return is_small_talk(_said_in(stored)) and not named_parts(stored.message)


def _said_in(stored: StoredMessage) -> str:
    text = stored.message.text
    return (without_blocks(text) if FENCE in text else text).strip()


def _beside(place: MessagePlace, stored: StoredMessage) -> MessagePlace:
    return MessagePlace(place.session_id, place.seq + (1 if stored.message.role is Role.USER else -1))


def _pages(ranked: Sequence[Recalled], size: int) -> Iterator[Sequence[Recalled]]:
    for start in range(0, len(ranked), size):
        yield ranked[start : start + size]
