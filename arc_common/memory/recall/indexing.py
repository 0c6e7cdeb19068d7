"""Keeps the index of messages in step with the conversation store: writes entries, makes vectors, removes both."""

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import groupby, islice
from threading import Lock
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from arc_common.caches import LRUCache, cached_text, drop_session
from arc_common.concurrency import give_way
from arc_common.exceptions import ArchiveError, BranchNotFoundError, NotFoundError, SessionNotFoundError
from arc_common.memory.recall.index import NEIGHBOURS, MessageIndex, entry_id, entry_prefix, is_on_path, place_of
from arc_common.memory.services import Services
from arc_common.messages import Message, Role
from arc_common.protocols import SessionKey, StoredMessage
from arc_common.protocols.conversations import MAIN, NO_EDITS, Branch, Path
from arc_common.protocols.search_index import IndexEntry, IndexQuery, Scope, unit_vector
from arc_common.text import analyze

_log = logging.getLogger("arc.recall")

T = TypeVar("T")

_BATCH = 64
_PUT = 16
"""Entries per transaction; 64 of them would block an append to SQLite for 16 ms."""
_PAGE = 256
_VECTORS = 4_096
_TERMS = 256
"""The number of messages whose terms are cached: the latest of the sessions being indexed."""
_SESSIONS = 4_096
_WEIGHT = 0.5
_STEPS = 4
"""The values from one power of 2 to the next that frequencies are rounded to. SQLite stores a term's entries by
frequency: with few different ones the index has half the size, and recall is the same."""


def neighbour_weights(lengths: Sequence[float], place: int, *, window_terms: float) -> dict[int, float]:
    """Return the weight of each neighbour in a text's window, by place; the text itself weighs 1 and is left out."""
    weights: dict[int, float] = {}
    room = window_terms - lengths[place]
    for distance in range(1, NEIGHBOURS + 1):
        for near in (place - distance, place + distance):
            if room <= 0:
                return weights
            if 0 <= near < len(lengths) and (terms := lengths[near]):
                weights[near] = _WEIGHT * min(1.0, room / terms)
                room -= terms
    return weights


class MessageIndexer:
    """Writes the entries of a `MessageIndex`."""

    def __init__(self, services: Services, index: MessageIndex) -> None:
        self.index = index
        """The index that this object writes to."""
        self._conversations = services.store
        self._store = index.store
        self._embedder = index.embedder
        self._window_terms = services.settings.recall.window_terms
        self._lock = Lock()
        self._indexed_to: LRUCache[SessionKey, int] = LRUCache(_SESSIONS)
        self._own_terms: LRUCache[str, Counter[str]] = LRUCache(_TERMS)
        self._own_vectors: LRUCache[str, NDArray[np.float32] | None] = LRUCache(_VECTORS)

    def catch_up(self, key: SessionKey, *, stop: Callable[[], bool] = bool) -> int:
        """Index new and edited messages; return the number of entries written."""
        done = self.refresh(key)
        newest = self._conversations.read(key, limit=1)
        if not newest:
            return done
        end, path = newest[0].seq, self._conversations.path(key, known=True)
        start = self._known_end(key, path, end) + 1
        while start <= end and not stop():
            last = min(start + _BATCH - 1, end)
            if not self._is_indexed(key, path, last):
                done += self._write(key, start, last)
            with self._lock:
                self._indexed_to[replace(key, branch=path.branch)] = last
            start = last + 1
        return done

    def embed(self, key: SessionKey, *, most: int | None = None, stop: Callable[[], bool] = bool) -> int:
        """Make vectors for the session's entries without one; return how many got one. Stops if the embedder fails."""
        if self._embedder is None:
            return 0
        scope, done = self.index.scope(key), 0
        stored = self._store.candidates(IndexQuery(scope, "message"))[0].embedding
        if stored is not None and stored[0] != self._embedder.name:
            return done  # `re_embed` replaces them
        for page in islice(self._pages(key, unembedded=True), most):
            if stop():
                break
            vectors = self._vectors(key, page)
            if vectors is None:
                break
            made = next(iter(vectors.values()), None)
            if stored is not None and made is not None and len(made) != stored[1]:
                _log.warning("messages are embedded again: their vectors have %d numbers, not %d", stored[1], len(made))
                self._store.remove(scope, "message", None, only_vectors=True)
                return done + self.embed(key, most=most, stop=stop)
            ready = [
                IndexEntry(entry.id, entry.text, vector=vector, embedder=self._embedder.name)
                for entry in page
                if (vector := vectors.get(entry.id)) is not None
            ]
            done += self._store.put(scope, "message", ready, only_vectors=True)
        return done

    def re_embed(self, scope: Scope, *, stop: Callable[[], bool] = bool) -> int:
        """Replace the vectors of a scope that are another embedder's; return how many were made.

        If the vectors are of this embedder already, makes those that are missing. Stops if the embedder fails.
        """
        embedder = self._embedder
        if embedder is None:
            return 0
        stored = self._store.candidates(IndexQuery(scope, "message"))[0].embedding
        is_other = stored is not None and stored[0] != embedder.name
        missing: bool | str = embedder.name if is_other else True
        done, more = 0, 1
        while more:  # messages may change behind the place that a pass has reached
            more, after = 0, None
            while page := self._store.scan(scope, "message", unembedded=missing, after=after, limit=_BATCH):
                after = page[-1].id
                for key, entries in _by_branch(scope, page).items():
                    vectors = None if stop() else self._vectors_on(key, entries)
                    if vectors is None:
                        return done
                    ready = [
                        IndexEntry(one.id, one.text, vector=vector, embedder=embedder.name)
                        for one in entries
                        if (vector := vectors.get(one.id)) is not None
                    ]
                    more += self._store.put(scope, "message", ready, only_vectors=True)
                    done += len(ready)
        if is_other:
            self._store.remove(scope, "message", None, only_vectors=True, embedder=embedder.name)
        return done

    def _vectors_on(self, key: SessionKey, entries: Sequence[IndexEntry]) -> dict[str, NDArray[np.float32]] | None:
        """Return the vectors of a branch's entries, which other branches may show after it was deleted."""
        for branch in (key.branch, None):
            try:
                return self._vectors(replace(key, branch=branch), entries)
            except NotFoundError:
                continue
        return {}  # the session was deleted meanwhile

    def refresh(self, key: SessionKey) -> int:
        """Index edited messages and the neighbours of removed ones again; return the number of entries written."""
        done, edits = 0, NO_EDITS
        while (edits := self._conversations.edits(key, reader="index", done=edits)).places:
            for branch in self._conversations.branch(key, "list"):
                done += self._refresh_on(replace(key, branch=branch.id), edits.places)
        return done

    def _refresh_on(self, key: SessionKey, edited: Sequence[tuple[int, int]]) -> int:
        path = self._conversations.path(key)
        places = sorted({seq for branch, seq in edited if path.shows(branch, seq)})
        spoken = {one.seq for one in self._conversations.read(key, seqs=places) if _is_spoken(one.message)}
        silent = [entry_id(key, path, seq) for seq in places if seq not in spoken]
        if silent:
            self._store.remove(self.index.scope(key), "message", silent)
        newest = self._conversations.read(key, limit=1) if places else []
        # other places are indexed later, in order
        end = self._known_end(key, path, newest[0].seq) if newest else 0
        # another process may have indexed beyond the end that this one knows
        return sum(self._write(key, one[0], one[-1], written_to=min(one[-1], end)) for one in _in_a_row(places))

    def remove_branch(self, key: SessionKey, path: Path, *, end: int) -> None:
        """Remove the entries of a deleted branch up to a place that no other branch shows."""
        others = self._conversations.branch(replace(key, branch=None), "list")
        paths = [self._conversations.path(replace(key, branch=one.id)) for one in others]
        first = max(path.shared_with(paths) - NEIGHBOURS + 1, 1)
        for start in range(first, end + 1, _PAGE):
            places = range(start, min(start + _PAGE, end + 1))
            self._store.remove(self.index.scope(key), "message", [entry_id(key, path, seq) for seq in places])

    def remove_session(self, key: SessionKey) -> None:
        """Remove all messages of a session."""
        self.forget(key)
        if not self.index.is_user_wide(key):
            self._store.remove(self.index.scope(key), "message", None)
            return
        for page in self._pages(key, unembedded=False):
            self._store.remove(self.index.scope(key), "message", [entry.id for entry in page])

    def forget(self, key: SessionKey) -> None:
        """Drop a session from this process's caches."""
        self.index.forget(key)
        with self._lock:
            drop_session(self._indexed_to, key)
            self._own_terms.clear()  # its keys are contents, which name no session

    def _is_indexed(self, key: SessionKey, path: Path, seq: int) -> bool:
        """Return whether another process has indexed a place already; entries are stored in order."""
        return bool(self._store.fetch(self.index.scope(key), "message", [entry_id(key, path, seq)]))

    def _known_end(self, key: SessionKey, path: Path, end: int) -> int:
        """Return the last indexed place, from the cache or by a search back from the end in growing steps."""
        with self._lock:
            if (known := self._indexed_to.get(replace(key, branch=path.branch))) is not None:
                return known
        last, step = end, _BATCH
        while last > 0:
            first = max(last - _BATCH + 1, 1)
            ids = [entry_id(key, path, seq) for seq in range(first, last + 1)]
            found = self._store.fetch(self.index.scope(key), "message", ids)
            if found:
                return max(place_of(entry.id) for entry in found)
            last, step = last - step, step * 2
        return 0

    def _write(self, key: SessionKey, first: int, last: int, *, written_to: int | None = None) -> int:
        """Write the entries whose windows reach into these places; after `written_to`, only those that exist."""
        places = range(max(first - 2 * NEIGHBOURS, 1), last + 2 * NEIGHBOURS + 1)
        done, path = 0, self._conversations.path(key, known=True)
        on = replace(key, branch=path.branch)  # another one may become current meanwhile
        try:
            around = self._conversations.read(on, seqs=places)
        except BranchNotFoundError:
            if key.branch is None:
                return done
            raise
        within = range(first - NEIGHBOURS, last + NEIGHBOURS + 1)
        while True:
            done += self._put(key, self._entries(key, path, around, within), last if written_to is None else written_to)
            give_way()
            before = around
            try:
                around = self._still_there(on, places)
                is_same_branch = path is MAIN or self._conversations.path(on) == path
            except BranchNotFoundError:
                is_same_branch = False
            if not is_same_branch:  # deleted, or its number is a new session's: none of its entries may stay
                self._mend(key, {entry_id(key, path, one.seq) for one in before}, places)
                return done
            if _versions(around) == _versions(before):
                return done
            there = {stored.seq for stored in around}
            gone = [entry_id(key, path, stored.seq) for stored in before if stored.seq not in there]
            self._store.remove(self.index.scope(key), "message", gone)

    def _mend(self, key: SessionKey, ids: set[str], places: range) -> None:
        """Remove the entries that no branch shows, and rewrite those that a branch shows."""
        left = ids
        for branch in self._branches(key):
            other = replace(key, branch=branch.id)
            try:
                path, there = self._conversations.path(other), self._still_there(other, places)
            except NotFoundError:
                continue
            if shown := left.intersection(entry_id(key, path, one.seq) for one in there):
                self._write(other, places[0], places[-1], written_to=0)
                left = left - shown
        self._store.remove(self.index.scope(key), "message", sorted(left))

    def _branches(self, key: SessionKey) -> list[Branch]:
        try:
            return self._even_if_archived(key, lambda: self._conversations.branch(replace(key, branch=None), "list"))
        except SessionNotFoundError:
            return []

    def _still_there(self, key: SessionKey, places: Sequence[int]) -> list[StoredMessage]:
        try:
            return self._even_if_archived(key, lambda: self._conversations.read(key, seqs=places))
        except SessionNotFoundError:  # deleted, then created again by another user
            return []

    def _even_if_archived(self, key: SessionKey, read: Callable[[], list[T]]) -> list[T]:
        """Read what written entries are compared with, also if the session was archived after they were written."""
        try:
            return read()
        except ArchiveError:
            self._conversations.restore(key)
            return read()

    def _put(self, key: SessionKey, entries: Sequence[IndexEntry], last: int) -> int:
        scope = self.index.scope(key)
        there = {entry.id: entry.text for entry in self._store.fetch(scope, "message", [entry.id for entry in entries])}
        # after `last`, only rewrite existing entries: new ones are written with their own batch
        changed = [
            entry
            for entry in entries
            if there.get(entry.id) != entry.text and (entry.id in there or place_of(entry.id) <= last)
        ]
        for start in range(0, len(changed), _PUT):
            give_way()
            self._store.put(scope, "message", changed[start : start + _PUT])
        return len(changed)

    def _entries(self, key: SessionKey, path: Path, around: Sequence[StoredMessage], within: range) -> list[IndexEntry]:
        spoken = {stored.seq: stored.message for stored in around if _is_spoken(stored.message)}
        digests: dict[int, str] = {}
        terms: dict[int, Counter[str]] = {}
        for seq, message in spoken.items():
            give_way()
            digests[seq] = _content_digest(message)
            terms[seq] = self._terms_of(message, digests[seq])
        lengths = {seq: frequencies.total() for seq, frequencies in terms.items()}
        metadata = {"session": key.session_id} if self.index.is_user_wide(key) else {}
        entries = []
        for seq in (seq for seq in spoken if seq in within):
            give_way()
            window: dict[str, float] = dict(terms[seq])
            for term in _terms_of_label(read_as(spoken[seq])):
                window.setdefault(term, 1.0)
            weights = self._neighbours(seq, lengths)
            for near, weight in weights.items():
                for term, frequency in terms[near].items():
                    window[term] = window.get(term, 0.0) + weight * frequency
            window = {term: _rounded(frequency) for term, frequency in window.items()}
            entries.append(IndexEntry(entry_id(key, path, seq), _digest(digests, seq, weights), window, metadata))
        return entries

    def _terms_of(self, message: Message, digest: str) -> Counter[str]:
        """Return a message's terms, cached because a message is also part of its neighbours' windows."""
        with self._lock:
            known = self._own_terms.get(digest)
        if known is None:
            known = Counter(analyze(message.text))
            with self._lock:
                self._own_terms[digest] = known
        return known

    def _neighbours(self, seq: int, lengths: Mapping[int, float]) -> dict[int, float]:
        """Return the weights of a place's neighbours in its window, by place; a missing message leaves a gap."""
        near = range(seq - NEIGHBOURS, seq + NEIGHBOURS + 1)
        weights = neighbour_weights([lengths.get(s, 0) for s in near], NEIGHBOURS, window_terms=self._window_terms)
        return {near[place]: weight for place, weight in weights.items()}

    def _pages(self, key: SessionKey, *, unembedded: bool) -> Iterator[list[IndexEntry]]:
        """Yield pages of the session's entries, or those that have no vector and that its path shows, by place."""
        path = self._conversations.path(key, known=True)
        prefix = entry_prefix(key)
        after: str | None = prefix
        while after is not None:
            page = self._store.scan(self.index.scope(key), "message", unembedded=unembedded, after=after, limit=_PAGE)
            own = [entry for entry in page if entry.id.startswith(prefix)]
            if shown := [entry for entry in own if not unembedded or is_on_path(path, entry.id)]:
                yield shown
            after = page[-1].id if len(own) == _PAGE else None

    def _vectors(self, key: SessionKey, page: Sequence[IndexEntry]) -> dict[str, NDArray[np.float32]] | None:
        """Return the entries' vectors, each averaged with its neighbours'; `None` if the embedder fails."""
        wanted = {place_of(entry.id): entry.id for entry in page}
        reach = {seq + d for seq in wanted for d in range(-NEIGHBOURS, NEIGHBOURS + 1)}
        read = self._conversations.read(key, seqs=sorted(place for place in reach if place > 0))
        spoken = {stored.seq: stored.message for stored in read if _is_spoken(stored.message)}
        made = self._vectors_of(list(spoken.values()))
        if made is None:
            return None
        own = dict(zip(spoken, made, strict=True))
        lengths = {seq: len(analyze(message.text)) for seq, message in spoken.items()}
        vectors = {}
        for seq in (seq for seq in spoken if seq in wanted):
            give_way()
            if (vector := own[seq]) is None:
                continue
            mean = vector.copy()
            for near, weight in self._neighbours(seq, lengths).items():
                if (other := own[near]) is not None:
                    mean += weight * other
            vectors[wanted[seq]] = unit_vector("vector", mean)
        return vectors

    def _vectors_of(self, messages: Sequence[Message]) -> list[NDArray[np.float32] | None] | None:
        """Return each message's own vector, made once and cached; `None` if the embedder fails."""
        digests = [_content_digest(message) for message in messages]
        with self._lock:
            known = {digest: self._own_vectors[digest] for digest in digests if digest in self._own_vectors}
        new = {d: m for d, m in zip(digests, messages, strict=True) if d not in known}
        texts = iter(new.items())
        while self._embedder is not None and (batch := list(islice(texts, _BATCH))):
            give_way()
            made, works = self._embedder.of_entries([IndexEntry(d, _said_by(message)) for d, message in batch])
            if not works:
                return None
            known.update((entry.id, entry.vector) for entry in made)
        with self._lock:
            self._own_vectors.update(known)
        return [known[digest] for digest in digests]


def _rounded(frequency: float) -> float:
    """Round a frequency to the nearest of its `_STEPS` values."""
    mantissa, exponent = math.frexp(frequency)
    return math.ldexp(round(mantissa * 2 * _STEPS), exponent - 1) / _STEPS


def _in_a_row(places: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield ascending places that follow each other, at most 64 at once."""
    for _, row in groupby(enumerate(places), lambda pair: pair[1] - pair[0]):
        found = [place for _, place in row]
        yield from (found[start : start + _BATCH] for start in range(0, len(found), _BATCH))


def _versions(stored: Sequence[StoredMessage]) -> list[tuple[int, str | None, int, str]]:
    """Return what tells messages apart; in a session made anew, ids and places may be those of earlier ones."""
    return [(one.seq, one.message.id, one.revision, _content_digest(one.message)) for one in stored]


def read_as(message: Message) -> str:
    """Return the text that is searched in addition to a message's words: its speaker and its date."""
    parts = [message.name or ""]
    if (at := message.created_at) is not None:
        parts.append(f"{at:%d %B %Y}".lstrip("0"))
    return " ".join(parts)


def _said_by(message: Message) -> str:
    return f"{message.name}: {message.text}" if message.name else message.text


def _is_spoken(message: Message) -> bool:
    return message.role is not Role.SYSTEM and bool(message.text.strip())


def _by_branch(scope: Scope, page: Sequence[IndexEntry]) -> dict[SessionKey, list[IndexEntry]]:
    """Group a scope's entries by the session and branch that they are of."""
    found: dict[SessionKey, list[IndexEntry]] = {}
    for entry in page:
        name = entry.metadata.get("session") or scope.session_id or ""
        branch = entry.id.split("-")[2:]
        key = SessionKey(name, scope.caller_id, scope.user_id, branch=int(branch[0]) if branch else 0)
        found.setdefault(key, []).append(entry)
    return found


def _content_digest(message: Message) -> str:
    said = "\x00".join((message.role.value, message.name or "", str(message.created_at), message.text))
    return blake2b(said.encode(errors="surrogatepass"), digest_size=12).hexdigest()


def _digest(digests: Mapping[int, str], seq: int, weights: Mapping[int, float]) -> str:
    """Digest an entry's contents: its message and the neighbours in its window."""
    parts = [digests[seq]]
    parts += [f"{near - seq}:{weights[near]:.4f}:{digests[near]}" for near in sorted(weights)]
    return blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()


@cached_text(256)
def _terms_of_label(label: str) -> Sequence[str]:
    return analyze(label)
