"""Sessions' messages in the hybrid index: each is found by its words, its neighbours' words and its vector."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arc_common.caches import LRUCache
from arc_common.exceptions import SessionNotFoundError
from arc_common.filters import parse_filter
from arc_common.memory.services import Services
from arc_common.protocols import SessionKey
from arc_common.protocols.conversations import MAIN, Path
from arc_common.protocols.search_index import (
    Candidates,
    IndexQuery,
    IndexReader,
    IndexStore,
    Scope,
    cached_scope,
)
from arc_common.retrieval.bm25 import QueryTerms, best_places
from arc_common.retrieval.multi_scope import MultiScopeReader

NEIGHBOURS = 3
"""The most neighbours on each side; a window of 60 terms seldom holds more."""

_MOST_TERMS = 40
"""The most terms of a question that are searched, with those that may replace them; of a pasted page, the first. With
48, turns about something else recall 2 to 3 % more, and questions find the same within a point."""
_SESSIONS = 4_096
_DIGITS = 19
"""Digits of the largest `seq`; ids are zero-padded to them so that they sort by place."""
_DIGEST = 32
"""Characters of the digest of a session's name with which the ids of its entries begin."""
_LENGTH = _DIGEST + 1 + _DIGITS
"""Characters of an entry's id on the main branch."""


class MessagePlace(NamedTuple):
    """The place of a message: its session, and its `seq` there."""

    session_id: str
    seq: int


@dataclass(frozen=True, slots=True)
class FoundMessages:
    """The messages that match a question by words (shares of a perfect match) and by meaning (cosines)."""

    said: Mapping[MessagePlace, float]
    near: Mapping[MessagePlace, float]
    notes: tuple[str, ...] = ()
    words: Mapping[str, float] = field(default_factory=dict)
    """The words searched for, and the weight of each."""
    held: Sequence[int] = ()
    """For each word, the number of messages that have it or are next to one that does."""
    rows: Mapping[MessagePlace, int] = field(default_factory=dict)
    """The row in `often` of each message that was found by words."""
    often: NDArray[np.float64] | None = None
    """The number of times that messages have each word, themselves or beside them; of shape (n, words)."""
    lengths: NDArray[np.float64] | None = None
    """The number of terms of each row's message and of the neighbours indexed with it; of shape (n,)."""
    count: int = 0
    """The number of messages searched by words."""


LookedUp = tuple[QueryTerms, IndexQuery, Candidates]
"""A question, its index query, and the candidates found."""


class MessageIndex:
    """Finds sessions' messages in an `IndexStore`; a `MessageIndexer` writes them."""

    def __init__(self, services: Services) -> None:
        recall = services.settings.recall
        self._conversations = services.store
        self._user_wide = recall.scope == "user"
        self.store: IndexStore = services.store.index
        """The store of the entries."""
        self.embedder = services.guarded_embedder()
        """The embedder that makes vectors; `None` without one."""
        self._lock = Lock()
        self._names: LRUCache[str, str] = LRUCache(_SESSIONS)  # by their digests

    def scope(self, key: SessionKey) -> Scope:
        """Return the scope of a session's entries."""
        return cached_scope(key.caller_id, key.user_id, None if self.is_user_wide(key) else key.session_id)

    def is_user_wide(self, key: SessionKey) -> bool:
        """Return whether a search for this session covers all sessions of its user."""
        return self._user_wide and key.user_id is not None

    def places(self, key: SessionKey, entry_ids: Sequence[str]) -> dict[str, MessagePlace]:
        """Return the places of the messages that the paths show: in other sessions, their current branch's."""
        if not self.is_user_wide(key):
            path = self._conversations.path(key, known=True)
            if path is MAIN:  # most sessions have no other branch
                own = [one for one in entry_ids if len(one) == _LENGTH]
                return {one: MessagePlace(key.session_id, int(one[-_DIGITS:])) for one in own}
            return {one: MessagePlace(key.session_id, place_of(one)) for one in entry_ids if is_on_path(path, one)}
        names = self._names_of(key, entry_ids)
        paths = {name: self._conversations.path(of_user(key, name), known=True) for name in set(names.values())}
        named = [(one, names[one[:_DIGEST]]) for one in entry_ids if one[:_DIGEST] in names]
        return {one: MessagePlace(name, place_of(one)) for one, name in named if is_on_path(paths[name], one)}

    def _names_of(self, key: SessionKey, entry_ids: Sequence[str]) -> dict[str, str]:
        """Return the names of the user's sessions that entries are of, by the digest with which their ids begin."""
        first = {one[:_DIGEST]: one for one in entry_ids}
        with self._lock:
            names = {digest: self._names[digest] for digest in first if digest in self._names}
        unknown = [one for digest, one in first.items() if digest not in names]
        for entry in self.store.fetch(self.scope(key), "message", unknown) if unknown else ():
            name = entry.metadata.get("session", key.session_id)
            with suppress(SessionNotFoundError):  # another user has it now
                self._conversations.path(of_user(key, name))
                names[entry.id[:_DIGEST]] = name
        with self._lock:
            self._names.update(names)
        return names

    def forget(self, key: SessionKey) -> None:
        """Drop a session from this process's caches."""
        with self._lock:
            self._names.pop(entry_prefix(key)[:_DIGEST], None)

    def asking(self, key: SessionKey, asked: QueryTerms, *, limit: int, only: bool = False) -> IndexQuery:
        """Return the query to the store for a question, by words."""
        filters = parse_filter({"session": key.session_id}) if only and self.is_user_wide(key) else None
        return IndexQuery(self.scope(key), "message", asked.sought(_MOST_TERMS), filters=filters, limit=limit)

    def search(
        self,
        key: SessionKey,
        question: str,
        *,
        limit: int,
        sessions: Sequence[str] = (),
        only: bool = False,
        looked: LookedUp | None = None,
    ) -> FoundMessages:
        """Find the indexed messages that match: the best `limit` by words and by vectors each.

        `sessions` are searched too, as if they were one; `only` this session even if the user's are indexed together.
        `looked` holds the query and its results if the index has been read already.
        """
        others = [one for one in sessions if one != key.session_id] if not self.is_user_wide(key) else ()
        keys = [key, *(of_user(key, one) for one in others)]
        reader: IndexReader = self.store
        if others:
            embedder = None if self.embedder is None else self.embedder.name
            reader = MultiScopeReader(self.store, [self.scope(one) for one in keys], embedder)
        if looked is None:
            asked = QueryTerms.of(question)
            query = self.asking(key, asked, limit=limit, only=only)
            (found,) = reader.candidates(query)
        else:
            asked, query, found = looked
        said = _lexical_shares(asked, found, list(query.terms), limit)
        near: dict[str, float] = {}
        notes: tuple[str, ...] = ()
        stored = found.embedding
        if self.embedder is not None and stored is not None and stored[0] == self.embedder.name:
            vector = self.embedder.of_query(question, stored[1])
            if vector is None:
                notes = ("no vector for the question: messages were recalled by their words",)
            else:
                near = dict(reader.candidates(replace(query, terms={}, vector=vector, embedder=stored[0]))[0].near)
        ids = list({**said, **near})
        if others:
            apart = {one: MultiScopeReader.apart(one) for one in ids}
            paths = [self._conversations.path(one, known=True) for one in keys]
            places = {
                one: MessagePlace(keys[at].session_id, place_of(entry))
                for one, (at, entry) in apart.items()
                if is_on_path(paths[at], entry)
            }
        else:
            places = self.places(key, ids)
        if len(places) < min(limit, len(ids)) and max(len(found.ids), len(near)) >= limit:
            # other branches' entries took the places of this one's
            return self.search(key, question, limit=2 * limit, sessions=sessions, only=only)
        return FoundMessages(
            {places[entry_id]: score for entry_id, score in said.items() if entry_id in places},
            {places[entry_id]: score for entry_id, score in near.items() if entry_id in places},
            notes,
            words=query.terms,
            held=found.document_frequencies.tolist(),
            rows={places[name]: row for row, name in enumerate(found.ids) if name in said and name in places},
            often=found.frequencies,
            lengths=found.lengths,
            count=found.count,
        )


def place_of(entry_id: str) -> int:
    """Return the place of an entry's message, which is part of the entry's id."""
    return int(entry_id.split("-")[1])


def entry_id(key: SessionKey, path: Path, seq: int) -> str:
    """Return a place's entry id, which branches share if its last neighbour is before their fork; ids sort by place."""
    branch = path.branch_at(seq + NEIGHBOURS)
    return f"{entry_prefix(key)}{seq:0{_DIGITS}}{f'-{branch}' if branch else ''}"


def entry_prefix(key: SessionKey) -> str:
    """Return what the ids of a session's entries begin with."""
    return f"{blake2b(key.session_id.encode(), digest_size=16).hexdigest()}-"


def is_on_path(path: Path, entry_id: str) -> bool:
    """Return whether a path shows an entry."""
    _, seq, *branch = entry_id.split("-")
    return path.branch_at(int(seq) + NEIGHBOURS) == (int(branch[0]) if branch else 0)


def of_user(key: SessionKey, session_id: str) -> SessionKey:
    """Return the key of another session of the same user, on its current branch."""
    return key if session_id == key.session_id else replace(key, session_id=session_id, branch=None)


def _lexical_shares(asked: QueryTerms, found: Candidates, terms: Sequence[str], limit: int) -> dict[str, float]:
    if not found.ids:
        return {}
    scores, matches = asked.scores(found, terms, asked.alternatives)
    ideal = asked.ideal(found, terms) or 1.0
    best = best_places(found.ids, scores, limit)
    return {found.ids[place]: float(scores[place]) / ideal for place in best if matches[place]}
