"""Recall: finds earlier messages that a question needs, in this session or in all of the user's sessions."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock

from arc_common.concurrency import BackgroundQueue, replying
from arc_common.context import Layers
from arc_common.documents import Document, ScoredDocument
from arc_common.exceptions import SessionNotFoundError, StoreError
from arc_common.facts import Fact
from arc_common.memory.recall.index import NEIGHBOURS, MessageIndex, MessagePlace
from arc_common.memory.recall.ranking import MOST_READ_ANEW, Recalled, Stated, rank_found, said_by_words, stated_anew
from arc_common.memory.services import Services
from arc_common.messages import Role
from arc_common.protocols import SessionKey, StoredMessage
from arc_common.protocols.summaries import ScoredMessage
from arc_common.rerankers import DiversityReranker
from arc_common.text.sentences import seeks

_log = logging.getLogger("arc.recall")

_CANDIDATES = 200
_FEW = 500
_OF_A_TURN = 100
# Share of planted facts recalled for their questions without an embedder (with MiniLM in brackets). Questions in other
# words: 90.0 % (91.8) with five messages, 95.4 (96.8) with twenty, 94.7 (96.2) with as many as needed, 14 on average.
# Questions in about the same words: 99.5 (99.3), 99.8 (99.9), and 99.8 (99.8) with 7 messages on average.
_PLAINLY_ANSWERED = 0.5
_FEW_COME = 5
_MANY_COME = 20
_LEAST_SHARE = 0.1
_LEAST_COSINE = 0.25
_MOST_REPEATED = 8
_AT_ONCE = 32
"""Index a session once this many messages are new, or at once if the user's other sessions search it."""


FactSearch = Callable[[SessionKey, str], Sequence[tuple[Fact, float]]]
"""Returns the facts of a session that hold, each with its share of a perfect match for a question (0 for none)."""


@dataclass(frozen=True, slots=True)
class RecalledMessage:
    """A message recalled for a question; its score is `None` if it is only the neighbour of one that was found."""

    place: MessagePlace
    stored: StoredMessage
    score: float | None
    parts: Mapping[str, float]


class SessionRecall:
    """Finds sessions' messages for questions, and keeps the message index up to date in the background."""

    def __init__(self, services: Services, *, facts: FactSearch) -> None:
        self._index = MessageIndex(services)
        self._conversations = services.store
        self._facts = facts
        self._observer = services.observer
        self._settings = services.settings.recall
        self._patience = services.settings.summary.synchronous_timeout_seconds
        self._lock = Lock()
        self._new: dict[SessionKey, set[str]] = {}
        self.queue: BackgroundQueue[SessionKey] = BackgroundQueue(self._work, threads=1, on_error=self._count_error)

    def schedule(self, key: SessionKey, message_ids: Iterable[str], *, at_once: bool = False) -> None:
        """Schedule these messages for indexing; use `at_once` for edits, so that old words soon stop matching."""
        with self._lock:
            waiting = self._new.setdefault(key, set())
            waiting.update(message_ids)
            due = at_once or len(waiting) >= _AT_ONCE or self._index.is_user_wide(key)
        if due:
            self.queue.schedule(key)

    def catch_up(self, key: SessionKey) -> None:
        """Index all messages that are not indexed yet, and wait for it; vectors are made in the background."""
        self._catch_up(key)

    def recall(self, key: SessionKey, question: str, *, top_k: int | None) -> list[ScoredMessage]:
        """Return the messages relevant to a question, best first; facts also find the messages that state them."""
        until = time.monotonic() + self._patience
        try:
            self._catch_up(key, stop=lambda: time.monotonic() > until)
            self._index.embed(key, most=1)
        except SessionNotFoundError:
            raise
        except StoreError as error:  # such as a full or read-only disk: the index can still be read
            _log.warning("session %r is searched without the messages not indexed yet: %s", key.session_id, error)
            self._count_error(error)
        if self._index.embedder is not None or time.monotonic() > until:
            self.queue.schedule(key)
        found = self._index.search(key, question, limit=_CANDIDATES)
        stated, newest = self._stated(key, question)
        if (said_here := self._said_in_few(key, question)) is not None:
            found = replace(found, said=said_here)
        known = self._read(key, [*found.said, *found.near, *(place for fact in stated for place in fact.places)])
        known.update((MessagePlace(key.session_id, stored.seq), stored) for stored in newest)
        texts = {place: stored.message.text for place, stored in known.items()}
        said = {place: share for place, share in found.said.items() if place in known}
        near = {place: cosine for place, cosine in found.near.items() if place in known}
        ranked = rank_found(question, said, texts=texts, stated=stated, near=near if self._index.embedder else None)
        best = _best([one for one in ranked if one.place in known], key)
        return [
            ScoredMessage(known[one.place].message, one.score, one.parts, one.place.session_id)
            for one in best[: _needed(best) if top_k is None else top_k]
        ]

    def for_turn(
        self, key: SessionKey, question: str, *, layers: Layers, shown: Collection[str], top_k: int
    ) -> tuple[list[RecalledMessage], tuple[str, ...]]:
        """Return up to `top_k` messages for a turn, best first, then their neighbours; and notes on failures."""
        try:
            with replying():
                return self._for_turn(key, question, layers=layers, shown=shown, top_k=top_k)
        except Exception as error:  # noqa: BLE001 - a reply must not depend on recall
            _log.warning("messages of session %r are not recalled: %s", key.session_id, error, exc_info=error)
            self._count_error(error)
            return [], (f"messages were not recalled: {type(error).__name__}",)

    def forget(self, key: SessionKey) -> None:
        """Drop a session from this process's caches."""
        with self._lock:
            self._new.pop(key, None)
        self._index.forget(key)

    def forget_messages(self, key: SessionKey, places: Collection[int]) -> None:
        """Remove deleted messages from the index."""
        self._index.remove(key, places)

    def forget_session(self, key: SessionKey) -> None:
        """Remove a session that was cleared or deleted from the index."""
        self.forget(key)
        self._index.remove_session(key)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until indexing has finished; return whether it did within `timeout` seconds."""
        return self.queue.wait(timeout)

    def close(self) -> None:
        """Stop indexing; the remaining messages are indexed when the session is used again."""
        self.queue.close()

    def _count_error(self, error: Exception) -> None:
        self._observer.count("recall.errors", error=type(error).__name__)

    def _work(self, key: SessionKey) -> None:
        self._catch_up(key)
        self._index.embed(key, stop=lambda: self.queue.stopping)

    def _catch_up(self, key: SessionKey, *, stop: Callable[[], bool] = bool) -> None:
        with self._lock:
            ids = self._new.pop(key, set())
        try:
            self._index.catch_up(key, edited=ids, stop=lambda: self.queue.stopping or stop())
        except SessionNotFoundError:
            raise
        except Exception:
            with self._lock:
                self._new.setdefault(key, set()).update(ids)
            raise

    def _said_in_few(self, key: SessionKey, question: str) -> dict[MessagePlace, float] | None:
        """Return how well each message matches by words, typos included; `None` if there are too many to read all."""
        if self._index.is_user_wide(key):
            return None
        stored = self._conversations.read(key, limit=_FEW + 1)
        if len(stored) > _FEW:
            return None
        texts = ["" if one.message.role is Role.SYSTEM else one.message.text for one in stored]
        shares = said_by_words(question, texts, window_terms=self._index.window_terms)
        return {MessagePlace(key.session_id, stored[place].seq): share for place, share in shares.items()}

    def _stated(self, key: SessionKey, question: str) -> tuple[list[Stated[MessagePlace]], list[StoredMessage]]:
        """Return the facts that may answer, including those of the newest messages, extracted here."""
        facts = self._facts(key, question)
        newest = self._conversations.read(key, limit=MOST_READ_ANEW)
        read_to = max((fact.segment for fact, _ in facts), default=0)
        unread = [stored for stored in newest if stored.seq > read_to]
        sources = sorted({source for fact, _ in facts for source in fact.sources})
        seqs = (
            {stored.message.id: stored.seq for stored in self._conversations.read(key, ids=sources)} if sources else {}
        )

        def places(ids: Iterable[str]) -> list[MessagePlace]:
            return [MessagePlace(key.session_id, seqs[source]) for source in ids if source in seqs]

        stated = [Stated(f"{fact.key} {fact.value}", places(fact.sources), share) for fact, share in facts]
        for fact in stated_anew(question, [stored.message for stored in unread]):
            where = [MessagePlace(key.session_id, unread[place].seq) for place in fact.places]
            stated.append(Stated(fact.text, where, fact.share))
        return stated, newest

    def _for_turn(
        self, key: SessionKey, question: str, *, layers: Layers, shown: Collection[str], top_k: int
    ) -> tuple[list[RecalledMessage], tuple[str, ...]]:
        found = self._index.search(key, question, limit=max(_OF_A_TURN, 2 * top_k), kin=False)
        near = found.near if self._index.embedder else None
        first = [Recalled(place, share) for place, share in found.said.items()]
        if near is not None:
            first = rank_found(question, found.said, texts={}, near=near)
        places, boundary = [one.place for one in _best(first, key)], layers.boundary
        if boundary:  # messages already shown need no reading: with 500 of them it took most of a turn
            places = [place for place in places if place.session_id != key.session_id or place.seq <= boundary]
        known = self._not_shown(key, places[: (0 if boundary else len(shown)) + 2 * top_k], shown)
        texts = {place: stored.message.text for place, stored in known.items()}
        said = found.said if near is not None else {place: found.said[place] for place in known}
        ranked = _best(rank_found(question, said, texts=texts, near=near), key)
        in_sight = [one.place for one in first if _is_in_sight(one.place, key, layers)]
        in_sight = self._not_asked_there(key, question, in_sight, found.said)
        chosen = _about(
            [one for one in ranked if one.place in known],
            said_in_sight=max((found.said.get(place, 0.0) for place in in_sight), default=0.0),
            near_in_sight=max((found.near.get(place, 0.0) for place in in_sight), default=0.0),
            seeking=seeks(question),
        )
        if self._settings.diversity:
            chosen = _diverse(chosen, texts, question, self._settings.diversity)
        return self._with_neighbours(key, chosen[:top_k], known, shown), found.notes

    def _with_neighbours(
        self,
        key: SessionKey,
        chosen: Sequence[Recalled[MessagePlace]],
        known: Mapping[MessagePlace, StoredMessage],
        shown: Collection[str],
    ) -> list[RecalledMessage]:
        """Return the messages, then each one's answer or question: one is of little use without the other."""
        recalled = {one.place: RecalledMessage(one.place, known[one.place], one.score, one.parts) for one in chosen}
        beside = [_beside(one.place, known[one.place]) for one in chosen]
        both = {**known, **self._not_shown(key, [place for place in beside if place not in known], shown)}
        for place in beside:
            if place in both and place not in recalled and both[place].message.text.strip():
                recalled[place] = RecalledMessage(place, both[place], None, {})
        return list(recalled.values())

    def _not_asked_there(
        self, key: SessionKey, question: str, places: Sequence[MessagePlace], said: Mapping[MessagePlace, float]
    ) -> list[MessagePlace]:
        """Return the visible messages, except those that match only because the same question was asked nearby."""
        best = sorted(places, key=lambda place: -said.get(place, 0.0))[:_MOST_REPEATED]
        words = question.split()
        asked = [place.seq for place, stored in self._read(key, best).items() if stored.message.text.split() == words]
        return [place for place in places if all(abs(place.seq - seq) > NEIGHBOURS for seq in asked)]

    def _not_shown(
        self, key: SessionKey, places: Sequence[MessagePlace], shown: Collection[str]
    ) -> dict[MessagePlace, StoredMessage]:
        """Return the messages at these places that the turn does not show already."""
        return {
            place: stored
            for place, stored in self._read(key, places).items()
            if place.session_id != key.session_id or stored.message.id not in shown
        }

    def _read(self, key: SessionKey, places: Iterable[MessagePlace]) -> dict[MessagePlace, StoredMessage]:
        """Return the messages that exist at these places, with one query per session."""
        by_session: dict[str, set[int]] = {}
        for place in places:
            by_session.setdefault(place.session_id, set()).add(place.seq)
        found: dict[MessagePlace, StoredMessage] = {}
        for session_id, seqs in by_session.items():
            of = SessionKey(session_id, key.caller_id, key.user_id, key.account_id)
            try:
                stored = self._conversations.read(of, seqs=sorted(seqs))
            except SessionNotFoundError:
                continue  # deleted, then created again by another user
            found.update((MessagePlace(session_id, one.seq), one) for one in stored)
        return found


def _beside(place: MessagePlace, stored: StoredMessage) -> MessagePlace:
    return MessagePlace(place.session_id, place.seq + (1 if stored.message.role is Role.USER else -1))


def _best(ranked: Sequence[Recalled[MessagePlace]], key: SessionKey) -> list[Recalled[MessagePlace]]:
    """Sort best first; break ties by this session before others, then the later message."""
    return sorted(
        ranked,
        key=lambda one: (-one.score, one.place.session_id != key.session_id, one.place.session_id, -one.place.seq),
    )


def _needed(ranked: Sequence[Recalled[MessagePlace]]) -> int:
    """Return the default number of messages: few if one matches at least half of the question by words."""
    plain = any(one.parts.get("message", 0.0) >= _PLAINLY_ANSWERED for one in ranked)
    return _FEW_COME if plain else _MANY_COME


def _is_in_sight(place: MessagePlace, key: SessionKey, layers: Layers) -> bool:
    """Return whether a message is shown already, and lies too far from the question to have it in its window."""
    return place.session_id == key.session_id and 0 < layers.boundary < place.seq < layers.turn - NEIGHBOURS


def _about(
    ranked: Sequence[Recalled[MessagePlace]], *, said_in_sight: float, near_in_sight: float, seeking: bool
) -> list[Recalled[MessagePlace]]:
    """Return the messages that are relevant enough to be worth their tokens."""
    said = max((one.parts.get("message", 0.0) for one in ranked), default=0.0)
    near = max((one.parts.get("vector", 0.0) for one in ranked), default=0.0)
    if seeking:
        share = min(_LEAST_SHARE, said / 2)
        cosine = min(_LEAST_COSINE, near / 2) if said >= _LEAST_SHARE or near >= _LEAST_COSINE else _LEAST_COSINE
        share, cosine = max(share, said_in_sight / 2), max(cosine, near_in_sight / 2)
    else:
        share = max(2 * _LEAST_SHARE, said / 2, 2 * said_in_sight)
        cosine = max(2 * _LEAST_COSINE, near_in_sight)
    return [
        one
        for one in ranked
        if one.parts.get("message", 0.0) >= share > 0 or one.parts.get("vector", 0.0) >= cosine > 0
    ]


def _diverse(
    ranked: Sequence[Recalled[MessagePlace]], texts: Mapping[MessagePlace, str], question: str, diversity: float
) -> list[Recalled[MessagePlace]]:
    """Rerank messages by maximal marginal relevance over their words, so that each differs from those before it."""
    documents = [
        ScoredDocument(Document(texts[one.place], id=str(place)), one.score) for place, one in enumerate(ranked)
    ]
    found = DiversityReranker(trade_off=1 - diversity).rerank(question, documents, top_k=max(len(documents), 1))
    return [ranked[int(one.document.id or 0)] for one in found]
