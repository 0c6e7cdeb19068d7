"""HybridIndex: finds texts of one scope and kind by their words, by their vectors, or by both."""

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from arc_common.documents import Document, ScoredDocument, checked_items
from arc_common.exceptions import InvalidInputError, check_whole
from arc_common.filters import Filter, parse_filter
from arc_common.model_calls import ModelHealth
from arc_common.observability import Observer, guarded_observer
from arc_common.protocols import Embedder
from arc_common.protocols.search_index import (
    KINDS,
    Candidates,
    EntryKind,
    IndexEntry,
    IndexQuery,
    IndexReader,
    IndexStore,
    Scope,
    one_embedding,
    unit_vector,
)
from arc_common.retrieval.bm25 import BM25, CANDIDATES, best_places, search_terms
from arc_common.retrieval.fusion import Ranking, credibility, fused_scores, lifted
from arc_common.retrieval.multi_scope import MultiScopeReader
from arc_common.retrieval.vectors import GuardedEmbedder
from arc_common.text import analyze, han_characters


def entry_of(item: Document | IndexEntry) -> IndexEntry:
    """Return an item's entry without terms; a document without an id gets one made from its source and text."""
    if isinstance(item, IndexEntry):
        return item
    entry_id = item.id
    if entry_id is None:
        entry_id = sha256(f"{item.source or ''}\x00{item.text}".encode(errors="surrogatepass")).hexdigest()[:32]
    return IndexEntry(entry_id, item.text, {}, item.metadata, item.source)


def with_terms(entry: IndexEntry, kind: EntryKind) -> IndexEntry:
    """Return the entry with its text's terms, unless it has terms already."""
    if entry.terms:
        return entry
    characters = han_characters(entry.text) if kind == "document" else []
    return replace(entry, terms=_PackedTerms(Counter(analyze(entry.text)) | Counter(characters)))


class _PackedTerms(Mapping[str, float]):
    """Terms as one JSON text, in a third of a dictionary's memory: a large document has many."""

    __slots__ = ("_count", "_packed")

    def __init__(self, terms: Mapping[str, float]) -> None:
        self._packed = json.dumps(terms, ensure_ascii=False, separators=(",", ":"))
        self._count = len(terms)

    def __getitem__(self, term: str) -> float:
        return self._terms()[term]

    def __iter__(self) -> Iterator[str]:
        return iter(self._terms())

    def __len__(self) -> int:
        return self._count

    def items(self) -> ItemsView[str, float]:
        return self._terms().items()

    def values(self) -> ValuesView[float]:
        return self._terms().values()

    def _terms(self) -> dict[str, float]:
        terms: dict[str, float] = json.loads(self._packed)
        return terms


def document_of(entry: IndexEntry) -> Document:
    """Return an entry as a document for display."""
    return Document(entry.text, entry.id, entry.source, entry.metadata)


SearchMode = Literal["hybrid", "lexical", "dense"]


def checked_ids(ids: object) -> list[str]:
    """Return the ids as a list if they are a collection of strings."""
    return checked_items("ids", ids, str, expected="a collection of ids")


def check_search(query: object, top_k: object, threshold: object, mode: object) -> None:
    """Refuse invalid arguments of a search."""
    if not isinstance(query, str):
        raise InvalidInputError("query", query, "text")
    check_whole("top_k", top_k)
    if threshold is not None and not (isinstance(threshold, int | float) and -1 <= threshold <= 1):
        raise InvalidInputError("threshold", threshold, "a cosine from -1 to 1, or None")
    if not isinstance(mode, str) or mode not in get_args(SearchMode):
        raise InvalidInputError("mode", mode, f"one of {', '.join(get_args(SearchMode))}")


_BM25 = BM25()

_ANSWERED = 0.5
"""The share of the full score that the best text by words must reach to be worth 1, so that one chance word in common
outweighs no vector. Compared with 0.25, nDCG@10 is .366 instead of .349 for one-line descriptions, which share few
words with queries, and within .001 for paragraphs in three languages and for abstracts."""

_BY_WORDS_ONLY = "no vector for the query: searched by words only"
_NO_THRESHOLD_MET = "no vector for the query: nothing can meet the threshold"
OTHER_EMBEDDER = "the stored vectors are of another embedder: their texts were searched by words only"

_MOST = 2**62
"""The maximum number of texts requested from a store: a larger one may overflow SQL's integers."""

_BATCH = 64
_PAGE = 500


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The ids of the added texts, and the number of those without a vector until `HybridIndex.embed_pending` runs."""

    ids: tuple[str, ...]
    unembedded: int = 0


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The documents found, best first, and notes for readers on parts of the search that were not possible.

    A score is between 0 and 1 in mode "hybrid", otherwise the part's own; `score_parts` holds "bm25" and "vector" (a
    cosine) if that part found the document.
    """

    documents: tuple[ScoredDocument, ...] = ()
    notes: tuple[str, ...] = ()


class HybridIndex:
    """Stores and finds texts of one scope and kind, on any `IndexStore`.

    - Ranks by arc's own BM25 over the scope's statistics, fused with cosines, identically on every store. Cosines are
      weighted by their agreement with the words (see `credibility`), words by how much of the query they answer. If
      both parts found documents, a document near a better one is lifted towards it (see `lifted`); the lift appears in
      none of its score parts.
    - Documents are also indexed by single Han characters, so that a query of one character finds them.
    - A failing embedder loses nothing: texts are stored without vectors and searched by words, and the failure is
      counted ("index.embedder_errors"), logged and reported.
    - Thread-safe if the embedder and the store are. The constructor does no I/O.

    Args:
        store: The store of the entries.
        scope: The scope of the entries; no other is changed.
        others: Further scopes that are searched together with it, as if they were one. Scores are on one scale, by the
            statistics of all of them; where vectors are from another embedder, only words are used.
        kind: The kind of the entries.
        embedder: Makes vectors, of `batch_size` texts at once; without one, texts are found by words only.
        drop_stop_words: Drop a query's stop words and question words.
        observer: Receives counts.

    Raises:
        InvalidInputError: The kind or the batch size is invalid.
    """

    def __init__(
        self,
        store: IndexStore,
        *,
        scope: Scope | None = None,
        others: Sequence[Scope] = (),
        kind: EntryKind = "document",
        embedder: Embedder | None = None,
        drop_stop_words: bool = True,
        batch_size: int = _BATCH,
        observer: Observer | None = None,
        models: ModelHealth | None = None,
    ) -> None:
        if kind not in KINDS:
            raise InvalidInputError("kind", kind, f"one of {', '.join(KINDS)}")
        self._store = store
        self._scope = scope or Scope()
        self._kind: EntryKind = kind
        self._scopes = (self._scope, *others)
        self._reader: IndexReader = store
        if others:
            self._reader = MultiScopeReader(store, self._scopes, embedder.name if embedder else None)
        self._embedder = None if embedder is None else GuardedEmbedder(embedder, guarded_observer(observer), models)
        self._drop_stop_words = drop_stop_words
        self._batch_size = check_whole("batch_size", batch_size)

    def add(self, items: Sequence[Document | IndexEntry]) -> WriteResult:
        """Store texts; each replaces the one with its id.

        - A document without an id gets one derived from its text and source; added again, it gets the same id.
        - An entry may bring its own terms and vector; otherwise its text is analysed and embedded.
        - Writes nothing if one of the items can't be stored.
        - If the stored vectors are from another embedder or have another dimension, texts are stored without vectors
          and found by words until `re_embed`. A warning is logged.

        Raises:
            InvalidInputError: An item can't be stored, or its vector's embedder or dimension differs from that of the
                stored vectors or of other items.
        """
        given: list[Document | IndexEntry] = checked_items(
            "items", items, (Document, IndexEntry), expected="Documents or IndexEntries"
        )
        return self.replace((None, [item]) for item in given)

    def replace(self, documents: Iterable[tuple[str | None, Sequence[Document | IndexEntry]]]) -> WriteResult:
        """Store documents, given as ids and parts; each replaces the document stored under its id, whole or in chunks.

        One step stores the parts of a document and removes the parts that they replace; with `None` as the id, they
        replace only entries with their own ids. Everything else is as for `add`.
        """
        parts = [(name, [entry_of(item) for item in items]) for name, items in documents]
        entries = [entry for _, own in parts for entry in own]
        embedder = self._embedder
        brings_vectors = any(entry.vector is not None for entry in entries)
        stored = self._embedding() if embedder or brings_vectors else None
        embedding = one_embedding(stored, entries)
        if embedder is not None and not embedder.accepts(embedding):
            embedder = None
        unembedded = 0
        for names, whole in _steps(parts, self._batch_size):
            step: list[IndexEntry] = []
            for start in range(0, len(whole), self._batch_size):
                batch = whole[start : start + self._batch_size]
                if embedder is not None:
                    made, works = embedder.of_entries(batch, embedding)
                    embedding = embedding or one_embedding(None, made)
                    embedder = (
                        embedder if works else None
                    )  # an embedder that hangs should not be called a thousand times
                    batch = made
                step += [with_terms(entry, self._kind) for entry in batch]
            self._store.put(self._scope, self._kind, step, removed=names)
            unembedded += sum(entry.vector is None for entry in step)
        return WriteResult(tuple(entry.id for entry in entries), unembedded)

    def embed_pending(self) -> int:
        """Make vectors for the texts without one; return the number made. Stops when the embedder fails.

        A text that changes meanwhile does not receive the vector of its old version.

        Raises:
            InvalidInputError: The stored vectors are from another embedder.
        """
        embedder = self._embedder
        if embedder is not None:  # the store would refuse another embedder's vectors only after they are paid for
            embedder.check(self._embedding())
        done, after, limit = 0, None, self._batch_size
        while embedder is not None and (
            page := self._store.scan(self._scope, self._kind, unembedded=True, after=after, limit=limit)
        ):
            after = page[-1].id
            page, works = embedder.of_entries(page)
            ready = [entry for entry in page if entry.vector is not None]
            done += self._store.put(self._scope, self._kind, ready, only_vectors=True)
            embedder = embedder if works else None
        return done

    def re_embed(self, *, stop: Callable[[], bool] = bool) -> int:
        """Replace all vectors after a change of the embedder; return the number of vectors made.

        - The new vectors are made beside those of the other embedder and take their place when all are made. Until
          then, this index finds texts by words, and processes with the other embedder also by its vectors.
        - If it is interrupted, or the embedder fails, the next call makes those that are missing.
        - If the embedder has the same name (a new version of the model), each vector is replaced one by one.

        Args:
            stop: Called before each batch; stops if it returns true.
        """
        embedder, stored = self._embedder, self._embedding()
        if embedder is None or stored is None or stored[0] == embedder.name:
            self._store.remove(self._scope, self._kind, None, only_vectors=True)
            return self.embed_pending()
        done, more = 0, 1
        while more:  # texts may change behind the place that a pass has reached
            more, is_complete = self._embed_beside(embedder, stop)
            done += more
            if not is_complete:
                return done
        self._store.remove(self._scope, self._kind, None, only_vectors=True, embedder=embedder.name)
        return done + self.embed_pending()

    def _embed_beside(self, embedder: GuardedEmbedder, stop: Callable[[], bool]) -> tuple[int, bool]:
        """Make the vectors that are missing beside the stored ones; return how many, and whether none was left out."""
        done, after = 0, None
        while page := self._store.scan(
            self._scope, self._kind, unembedded=embedder.name, after=after, limit=self._batch_size
        ):
            if stop():
                return done, False
            after = page[-1].id
            made, works = embedder.of_entries([replace(one, vector=None, embedder=None) for one in page])
            if not works:
                return done, False
            ready = [entry for entry in made if entry.vector is not None]
            done += self._store.put(self._scope, self._kind, ready, only_vectors=True)
        return done, True

    def delete(self, ids: Collection[str]) -> int:
        """Remove texts, including a document's chunks; return the number removed."""
        return self._store.remove(self._scope, self._kind, checked_ids(ids))

    def get(self, ids: Sequence[str]) -> list[Document]:
        """Return the stored texts with these ids, in the order of the ids."""
        return [document_of(entry) for entry in self._store.fetch(self._scope, self._kind, checked_ids(ids))]

    @property
    def has_embedder(self) -> bool:
        """Return whether texts get vectors."""
        return self._embedder is not None

    def scan(self, filters: Filter | None = None) -> Iterator[Document]:
        """Yield all texts whose metadata match, by id, also those that are empty."""
        after: str | None = None
        while page := self._store.scan(self._scope, self._kind, filters=filters, after=after, limit=_PAGE):
            yield from map(document_of, page)
            after = page[-1].id

    def count(self) -> int:
        """Return the number of texts."""
        return self._statistics(()).count

    def term_statistics(self, terms: Sequence[str]) -> tuple[int, float, list[int]]:
        """Return the statistics of terms, so that an index can serve as the `TermStatistics` of a `BM25Reranker`."""
        held = self._statistics(terms)
        counts = dict(zip(dict.fromkeys(terms), held.document_frequencies.tolist(), strict=True))
        return held.count, held.total_length / held.count if held.count else 0.0, [counts[term] for term in terms]

    def vectors(self, ids: Collection[str]) -> dict[str, NDArray[np.float32]]:
        """Return the vectors of the texts with these ids, by id, omitting texts without one."""
        found = self._reader.fetch(self._scope, self._kind, checked_ids(ids), vectors=True)
        return {entry.id: entry.vector for entry in found if entry.vector is not None}

    def search(
        self,
        query: str,
        *,
        top_k: int = 10,
        filters: Mapping[str, Any] | Filter | None = None,
        threshold: float | None = None,
        mode: SearchMode = "hybrid",
        vector: Sequence[float] | None = None,
    ) -> list[ScoredDocument]:
        """Return the documents that `find` finds; its arguments and errors apply."""
        found = self.find(query, top_k=top_k, filters=filters, threshold=threshold, mode=mode, vector=vector)
        return list(found.documents)

    def find(
        self,
        query: str,
        *,
        top_k: int = 10,
        filters: Mapping[str, Any] | Filter | None = None,
        threshold: float | None = None,
        mode: SearchMode = "hybrid",
        vector: Sequence[float] | None = None,
        cosines: bool = False,
        found: Candidates | None = None,
        only_ids: bool = False,
    ) -> SearchResult:
        """Return the texts that answer a query best, best first; ties go to the smaller id.

        Stored vectors of another embedder or dimension are treated as if the embedder had failed.

        Args:
            query: The query. An empty one finds nothing unless `vector` is given.
            top_k: The maximum number of texts. Above 100, both parts consider more candidates, which may change the
                order of the first texts.
            filters: Return only texts whose metadata match (see `parse_filter`).
            threshold: The least cosine (−1 to 1) with which a text counts as found by its vector; 0.7 is usual.
            mode: "lexical" searches by words only, "dense" by vectors only, "hybrid" by both. If the embedder fails,
                "dense" searches by words, unless there is a threshold, which words can't meet.
            vector: The query's vector, if known; the embedder is then not called.
            cosines: Add the score part "vector" to all texts that have a vector, not only to the nearest.
            found: The candidates for `asking(query)` if they have been read already.
            only_ids: Return documents without text, which are not read.

        Raises:
            InvalidInputError: An argument is invalid, or `vector` can't be compared with the stored vectors.
        """
        asked = parse_filter(filters)
        check_search(query, top_k, threshold, mode)
        top_k = min(top_k, _MOST)
        if mode == "dense" and vector is None and self._embedder is None:
            raise InvalidInputError("mode", mode, "an embedder in the index, or a vector")
        if not query.strip() and vector is None:
            return SearchResult()
        asks_vectors = mode != "lexical" and (vector is not None or self._embedder is not None)
        limit = max(CANDIDATES, top_k)
        terms = search_terms(query, self._kind, drop_stop_words=self._drop_stop_words)
        if found is None:
            found = self._candidates({} if mode == "dense" else terms, asked, limit)
        stored = found.embedding if asks_vectors else None
        if vector is not None and self._embedder is not None:
            self._embedder.check(stored)
        rankings: dict[str, Ranking] = {}
        notes: list[str] = []
        wanted = None if vector is None else unit_vector("vector", vector)
        near: dict[str, float] = {}
        if stored is not None:
            if wanted is None and self._embedder is not None:
                comparable = self._embedder.accepts(stored)
                wanted = self._embedder.of_query(query, stored[1]) if comparable else None
                if wanted is None:
                    why = _BY_WORDS_ONLY if comparable else OTHER_EMBEDDER
                    notes.append(_NO_THRESHOLD_MET if mode == "dense" and threshold is not None else why)
            if wanted is not None:
                nearest = top_k if mode == "dense" else limit
                near = self._near(IndexQuery(*self._place, {}, wanted, stored[0], asked, limit=nearest))
                rankings["vector"] = self._nearest(near, threshold)
        if mode != "dense" or (notes and threshold is None):
            if mode == "dense":
                found = self._candidates(terms, asked, limit)
            words, answered = self._matching(found, list(terms.values()), limit)
            rankings["bm25"] = words
            if near:
                # evidence falls with the share answered, agreement with its square root (Spearman 1904)
                credible = credibility(near, words.scores, answered=math.sqrt(answered))
                rankings["vector"] = replace(rankings["vector"], weight=credible)
        documents = self._documents(rankings, top_k, limit=limit, fuse=mode == "hybrid", only_ids=only_ids)
        if cosines and stored is not None and wanted is not None:
            documents = self._with_cosines(documents, wanted, embedder=stored[0])
        if len(self._scopes) > 1:
            documents = [
                replace(one, document=replace(one.document, id=MultiScopeReader.apart(one.document.id or "")[1]))
                for one in documents
            ]
            if wanted is not None and OTHER_EMBEDDER not in notes and self._has_several_embedders():
                notes.append(OTHER_EMBEDDER)
        return SearchResult(tuple(documents), tuple(notes))

    @property
    def _place(self) -> tuple[Scope, EntryKind]:
        return self._scope, self._kind

    def _statistics(self, terms: Sequence[str]) -> Candidates:
        """Return the statistics of scope and kind, without candidates."""
        return self._reader.candidates(IndexQuery(*self._place, dict.fromkeys(terms, 1.0)))[0]

    def _has_several_embedders(self) -> bool:
        known = self._store.candidates(*(IndexQuery(scope, self._kind) for scope in self._scopes))
        return len({one.embedding for one in known if one.embedding}) > 1

    def _embedding(self) -> tuple[str, int] | None:
        return self._statistics(()).embedding

    def _candidates(self, terms: Mapping[str, float], filters: Filter | None, limit: int) -> Candidates:
        return self._reader.candidates(IndexQuery(*self._place, terms, filters=filters, limit=limit))[0]

    def _near(self, query: IndexQuery) -> dict[str, float]:
        return dict(self._reader.candidates(query)[0].near)

    def _matching(self, found: Candidates, weights: Sequence[float], limit: int) -> tuple[Ranking, float]:
        """Return the ranking by words and the share of the query that its best text answers."""
        if not weights or not found.ids:
            return Ranking({}), 0.0
        scores = _BM25.scores(found, weights)
        best = {found.ids[place]: float(scores[place]) for place in best_places(found.ids, scores, limit)}
        if not best:
            return Ranking({}), 0.0
        highest, full = max(best.values()), _BM25.full_score(found, weights)
        # Texts without any term score 0; if more than `limit` have one, the rest score at most as much as the last.
        floor = min(best.values()) if len(best) == limit else 0.0
        return Ranking(best, floor=floor, ideal=max(highest, _ANSWERED * full)), min(1.0, highest / full)

    def _nearest(self, near: Mapping[str, float], threshold: float | None) -> Ranking:
        kept = {entry_id: cosine for entry_id, cosine in near.items() if threshold is None or cosine >= threshold}
        return Ranking(kept, floor=min(near.values(), default=None), ideal=1.0)

    def _documents(
        self, rankings: Mapping[str, Ranking], top_k: int, *, limit: int, fuse: bool, only_ids: bool
    ) -> list[ScoredDocument]:
        parts = {name: ranking for name, ranking in rankings.items() if ranking.scores}
        if fuse:
            scores = self._lifted(fused_scores(list(parts.values())), parts, limit)
        else:
            scores = {key: score or 0.0 for part in parts.values() for key, score in part.scores.items()}
        best = _best(scores, top_k)
        if only_ids:
            found = [Document("", one) for one in best]
        else:
            found = [document_of(entry) for entry in self._reader.fetch(self._scope, self._kind, best)]
        return [
            ScoredDocument(
                one,
                scores[name],
                {kind: score for kind, part in parts.items() if (score := part.scores.get(name)) is not None},
            )
            for one in found
            for name in [one.id or ""]
        ]

    def _lifted(self, scores: Mapping[str, float], parts: Mapping[str, Ranking], limit: int) -> Mapping[str, float]:
        """Return the best documents' scores, lifted by near documents if both words and vectors found some.

        Other kinds are not lifted: a message's context is the messages around it, and a text near a memory is another
        fact. At most the best hundred are compared, because time and memory grow with their square.
        """
        if self._kind != "document" or len(parts) < 2:
            return scores
        best = {entry_id: scores[entry_id] for entry_id in _best(scores, limit)}
        compared = list(islice(best, CANDIDATES))
        return lifted(best, self.vectors(compared), trust=parts["vector"].weight)

    def _with_cosines(
        self, documents: list[ScoredDocument], vector: NDArray[np.float32], *, embedder: str
    ) -> list[ScoredDocument]:
        """Return the documents, adding the cosine of each that has a vector but lacks the part "vector"."""
        missing = [found.document.id or "" for found in documents if "vector" not in found.score_parts]
        if not missing:
            return documents
        asked = IndexQuery(*self._place, {}, vector, embedder, ids=missing, limit=len(missing), exact=True)
        near = self._near(asked)
        return [
            replace(found, score_parts={**found.score_parts, "vector": near[found.document.id]})
            if found.document.id in near
            else found
            for found in documents
        ]


def _steps(
    documents: Iterable[tuple[str | None, list[IndexEntry]]], size: int
) -> Iterator[tuple[list[str], list[IndexEntry]]]:
    """Group whole documents until a group has at least `size` entries, which are stored in one step."""
    names: list[str] = []
    entries: list[IndexEntry] = []
    for name, parts in documents:
        names += [] if name is None else [name]
        entries += parts
        if len(entries) >= size:
            yield names, entries
            names, entries = [], []
    if names or entries:
        yield names, entries


def _best(scores: Mapping[str, float], limit: int) -> list[str]:
    return sorted(scores, key=lambda entry_id: (-scores[entry_id], entry_id))[:limit]
