"""The search contract of every `IndexStore`, by words and by vectors, as tests. See `index_contract`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arc_common.exceptions import InvalidInputError
from arc_common.filters import Condition, Filter, parse_filter
from arc_common.protocols.search_index import IndexEntry, IndexStore, LexicalCandidates, Scope, unit_vector
from arc_common.ranking import best_places
from arc_common.retrieval.bm25 import BM25
from arc_common.retrieval.index import HybridIndex
from arc_common.text import analyze

TERMS = ["red", "green", "blue", "한국", "漢", "a-b", "1.5"]

frequencies = st.dictionaries(st.sampled_from(TERMS), st.sampled_from([0.35, 1, 2, 7]), max_size=5)
corpora = st.lists(frequencies, max_size=12)
queries = st.dictionaries(st.sampled_from([*TERMS, "unknown"]), st.sampled_from([0.3, 1, 2]), max_size=5)
vectors = st.lists(st.integers(-3, 3), min_size=3, max_size=3).filter(any)


def an_entry(
    entry_id: str,
    text: str = "",
    *,
    vector: Sequence[float] | None = None,
    embedder: str = "test",
    metadata: Mapping[str, Any] | None = None,
    source: str | None = None,
) -> IndexEntry:
    """Create an entry whose terms are its words."""
    terms = {word: float(text.split().count(word)) for word in text.split()}
    array = None if vector is None else np.array(vector, dtype=np.float32)
    return IndexEntry(entry_id, text, terms, metadata or {}, source, array, None if vector is None else embedder)


def matching(store: IndexStore, scope: Scope, *terms: str) -> list[str]:
    """Return the ids of documents with any of the terms, sorted."""
    return sorted(store.lexical(scope, "document", dict.fromkeys(terms, 1.0), limit=10_000).ids)


def scored(found: LexicalCandidates, terms: Mapping[str, float], limit: int) -> list[tuple[str, float]]:
    """Return the documents found with their scores, best first."""
    scores = BM25().scores(found, list(terms.values()))
    return [(found.ids[place], float(scores[place])) for place in best_places(found.ids, scores, limit)]


def bm25(texts: Mapping[str, Mapping[str, float]], query: Mapping[str, float], key: str) -> float:
    """Return one text's score by the BM25 formula."""
    mean = sum(sum(terms.values()) for terms in texts.values()) / len(texts)
    score = 0.0
    for term, weight in query.items():
        if term in texts[key]:
            holders = sum(term in terms for terms in texts.values())
            idf = math.log(1 + (len(texts) - holders + 0.5) / (holders + 0.5))
            frequency = texts[key][term]
            score += weight * idf * frequency / (frequency + 1.2 * (0.5 + 0.5 * sum(texts[key].values()) / mean))
    return score


class IndexSearchContract:
    """Part of `IndexStoreContract`."""

    @staticmethod
    def nearest(
        store: IndexStore,
        scope: Scope,
        vector: Sequence[float],
        *,
        embedder: str = "test",
        filters: Filter | None = None,
        ids: Sequence[str] | None = None,
        limit: int = 10,
        exact: bool = True,
    ) -> list[tuple[str, float]]:
        """Return the results of `dense`."""
        unit = unit_vector("vector", vector)
        return store.dense(
            scope, "document", unit, embedder=embedder, filters=filters, ids=ids, limit=limit, exact=exact
        )

    # Words

    def test_candidates_come_with_all_that_scoring_needs(self, store: IndexStore, scope: Scope) -> None:
        """Candidates have frequencies in the terms' order, lengths, and the scope's statistics."""
        store.put(scope, "document", [
            IndexEntry("a", "", {"x": 2, "y": 1}), IndexEntry("b", "", {"y": 0.35}), IndexEntry("c", "", {"z": 4}),
        ])  # fmt: skip
        found = store.lexical(scope, "document", {"y": 1, "unknown": 1, "x": 3}, limit=10)
        rows = dict(zip(found.ids, zip(found.frequencies.tolist(), found.lengths.tolist(), strict=True), strict=True))
        assert rows == {"a": ([1, 0, 2], 3), "b": ([pytest.approx(0.35), 0, 0], pytest.approx(0.35))}
        assert found.document_frequencies.tolist() == [2, 0, 1]
        assert found.count == 3
        assert found.total_length == pytest.approx(7.35)

    @given(corpus=corpora, query=queries)
    @settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_the_ranking_is_bm25_s(
        self, store: IndexStore, corpus: list[dict[str, float]], query: dict[str, float]
    ) -> None:
        """For any texts and query, scores and order are those of the formula."""
        scope = Scope(f"caller-{uuid4()}")
        texts = {f"d{n}": terms for n, terms in enumerate(corpus)}
        store.put(scope, "document", [IndexEntry(key, "", terms) for key, terms in texts.items()])
        expected = {key: bm25(texts, query, key) for key, terms in texts.items() if set(terms) & set(query)}
        found = scored(store.lexical(scope, "document", query, limit=100), query, 100)
        assert dict(found) == pytest.approx(expected)
        assert [key for key, _ in found] == sorted(dict(found), key=lambda key: (-dict(found)[key], key))

    def test_the_best_are_among_a_limited_number(self, store: IndexStore, scope: Scope) -> None:
        """If fewer are wanted than match, the best by BM25 are among them."""
        store.put(scope, "document", [
            an_entry(f"{n:03}", " ".join(["common"] * (1 + n % 3) + ["rare"] * (n % 40 == 0) + ["filler"] * (n % 7)))
            for n in range(400)
        ])  # fmt: skip
        terms = {"common": 1.0, "rare": 1.0}
        every = scored(store.lexical(scope, "document", terms, limit=400), terms, 400)
        assert len(every) == 400
        some = store.lexical(scope, "document", terms, limit=20)
        assert len(some.ids) >= 20
        assert scored(some, terms, 10) == every[:10]

    def test_of_equal_texts_the_smaller_ids_are_among_a_limited_number(self, store: IndexStore, scope: Scope) -> None:
        """A hundred greetings have one score; their ids decide."""
        store.put(scope, "document", [an_entry(f"{n:03}", "hello") for n in reversed(range(100))])
        found = store.lexical(scope, "document", {"hello": 1.0}, limit=5)
        assert [key for key, _ in scored(found, {"hello": 1.0}, 5)] == ["000", "001", "002", "003", "004"]

    def test_filters_and_ids_leave_the_statistics(self, store: IndexStore, scope: Scope) -> None:
        """A term's rarity is computed over the scope, not over the filtered entries."""
        store.put(scope, "document", [an_entry(f"d{n}", "word other", metadata={"n": n}) for n in range(6)])
        asked: list[tuple[Filter | None, list[str] | None, set[str]]] = [
            (parse_filter({"n": {"$gte": 4}}), None, {"d4", "d5"}),
            (None, ["d1", "nothing"], {"d1"}),
            (Condition("n", "lt", 2), ["d1", "d2"], {"d1"}),
            (None, [], set()),
        ]
        for filters, ids, expected in asked:
            found = store.lexical(scope, "document", {"word": 1}, filters=filters, ids=ids, limit=9)
            assert set(found.ids) == expected
            assert (found.count, found.total_length, found.document_frequencies.tolist()) == (6, 12, [6])

    def test_a_filter_lets_all_through_that_match(self, store: IndexStore, scope: Scope) -> None:
        """All matching entries are found by words and vectors, even if many better ones don't match."""
        entries = [an_entry(f"{n:04}", "word word", vector=[1, n / 100]) for n in range(1_000) if n % 100]
        entries += [
            an_entry(f"{n:04}", "word filler", vector=[1, 20], metadata={"kept": True}) for n in range(0, 1_000, 100)
        ]
        store.put(scope, "document", entries)
        kept = Condition("kept", "eq", value=True)
        expected = {f"{n:04}" for n in range(0, 1_000, 100)}
        assert set(store.lexical(scope, "document", {"word": 1.0}, filters=kept, limit=10).ids) == expected
        assert {key for key, _ in self.nearest(store, scope, [1, 0], filters=kept)} == expected
        assert {key for key, _ in self.nearest(store, scope, [1, 0], filters=kept, exact=False)} == expected

    def test_nothing_is_found_where_nothing_is(self, store: IndexStore, scope: Scope) -> None:
        """No terms, entries, limit or match gives no candidates and no error."""
        empty = store.lexical(scope, "document", {"word": 1.0}, limit=10)
        assert (empty.ids, empty.count, empty.total_length) == ((), 0, 0)
        assert empty.frequencies.shape == (0, 1)
        assert self.nearest(store, scope, [1, 0]) == []
        store.put(scope, "document", [an_entry("a", "word", vector=[1, 0])])
        assert store.lexical(scope, "document", {}, limit=10).ids == ()
        assert store.lexical(scope, "document", {"other": 1.0}, limit=10).ids == ()
        assert store.lexical(scope, "document", {"word": 1.0}, limit=0).ids == ()
        assert store.lexical(scope, "document", {"\ud800": 1.0}, limit=10).document_frequencies.tolist() == [0]
        assert self.nearest(store, scope, [1, 0], limit=0) == []
        assert self.nearest(store, scope, [1, 0], ids=[]) == []

    def test_what_search_engines_take_for_operators_are_terms(self, store: IndexStore, scope: Scope) -> None:
        """A query finds the entries with its terms, and nothing is executed."""
        odd = [
            "AND",
            "or",
            "NEAR(a,b)",
            "wo*",
            "-word",
            "^word",
            "text:word",
            '"',
            "'",
            "(",
            "\\",
            "%",
            "{a b}",
            "a & !b",
        ]
        store.put(scope, "document", [IndexEntry(str(n), "", {term: 1.0}) for n, term in enumerate(odd)])
        store.put(scope, "document", [IndexEntry("word", "", {"word": 1.0, "a": 1.0, "b": 1.0})])
        for n, term in enumerate(odd):
            assert matching(store, scope, term) == [str(n)]
        assert matching(store, scope, *odd) == sorted(map(str, range(len(odd))))

    def test_analysed_text_is_found_in_any_script(self, store: IndexStore, scope: Scope) -> None:
        """The index finds texts by the analyzer's terms."""
        texts = {
            "ko": "배터리가 빨리 닳아요", "zh": "黑豹队的防守", "ja": "東京タワーへ行きます", "ru": "Быстрая лисица",
            "th": "สวัสดีครับ", "en": "Running ORD-7731 e-mails", "ar": "مرحبا بالعالم", "num": "1,240.50 원",
        }  # fmt: skip
        store.put(scope, "document", [
            IndexEntry(key, text, {term: float(analyze(text).count(term)) for term in analyze(text)})
            for key, text in texts.items()
        ])  # fmt: skip
        for key, text in texts.items():
            assert matching(store, scope, *analyze(text)) == [key]

    # Vectors

    @given(table=st.lists(vectors, max_size=12), query=vectors, limit=st.integers(1, 14))
    @settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_the_nearest_are_found(
        self, store: IndexStore, table: list[list[int]], query: list[int], limit: int
    ) -> None:
        """Cosines are correct, the best come first, and none are missing."""
        scope = Scope(f"caller-{uuid4()}")
        store.put(scope, "document", [an_entry(f"d{n:02}", vector=vector) for n, vector in enumerate(table)])
        cosines = {
            f"d{n:02}": np.dot(vector, query) / np.linalg.norm(vector) / np.linalg.norm(query)
            for n, vector in enumerate(table)
        }
        found = self.nearest(store, scope, query, limit=limit)
        assert [cosine for _, cosine in found] == pytest.approx(
            sorted(cosines.values(), reverse=True)[:limit], abs=1e-5
        )
        assert dict(found) == pytest.approx({key: cosines[key] for key, _ in found}, abs=1e-5)
        assert len(dict(found)) == len(found)

    def test_of_equally_near_ones_the_smaller_ids_come_first(self, store: IndexStore, scope: Scope) -> None:
        """Ties are broken by id, whatever their number and insertion order."""
        store.put(scope, "document", [an_entry(f"{n:03}", vector=[1, 2, 2]) for n in reversed(range(60))])
        found = self.nearest(store, scope, [2, 1, 2], limit=7)
        assert [key for key, _ in found] == [f"{n:03}" for n in range(7)]
        assert len({cosine for _, cosine in found}) == 1

    def test_only_what_has_a_vector_is_near(self, store: IndexStore, scope: Scope) -> None:
        """Entries without one are left out, and ids and filters restrict the others."""
        entries = [an_entry(f"d{n}", vector=None if n % 2 else [1, n], metadata={"n": n}) for n in range(8)]
        store.put(scope, "document", entries)
        assert [key for key, _ in self.nearest(store, scope, [1, 0])] == ["d0", "d2", "d4", "d6"]
        assert [key for key, _ in self.nearest(store, scope, [1, 0], ids=["d3", "d4", "x"])] == ["d4"]
        assert [key for key, _ in self.nearest(store, scope, [1, 0], filters=Condition("n", "gt", 2))] == ["d4", "d6"]
        assert set(store.vectors(scope, "document", ["d0", "d1", "x"])) == {"d0"}
        assert store.embedding(scope, "document") == ("test", 2)

    def test_two_embedders_are_never_compared(self, store: IndexStore, scope: Scope) -> None:
        """Another embedder or dimension raises on storing and on searching, and nothing is written."""
        store.put(scope, "document", [an_entry("a", vector=[1, 0])])
        for wrong in (an_entry("b", vector=[1, 0], embedder="other"), an_entry("b", vector=[1, 0, 0])):
            with pytest.raises(InvalidInputError):
                store.put(scope, "document", [an_entry("c"), wrong])
            with pytest.raises(InvalidInputError):
                store.attach(scope, "document", [wrong])
        with pytest.raises(InvalidInputError):
            store.put(scope, "memory", [an_entry("a", vector=[1, 0]), an_entry("b", vector=[1, 0, 0])])
        with pytest.raises(InvalidInputError, match="other"):
            self.nearest(store, scope, [1, 0], embedder="other")
        with pytest.raises(InvalidInputError, match="3"):
            self.nearest(store, scope, [1, 0, 0])
        assert store.count(scope, "document") == 1
        assert store.count(scope, "memory") == 0

    def test_more_than_there_are_is_all(self, store: IndexStore, scope: Scope) -> None:
        """However many a search asks an index for; a store is asked for no more than 2**62, and none for a part."""
        store.put(scope, "document", [an_entry("a", "red", vector=[1, 0]), an_entry("b", "red", vector=[0, 1])])
        index = HybridIndex(store, scope=scope)
        for most in (2**62, 2**63 - 1, 2**63, 10**30):
            assert len(index.search("red", top_k=most)) == 2
            assert len(index.search("", top_k=most, vector=[1, 0], mode="dense", filters={})) == 2
        for wrong in (-1, True, 2**62 + 1, 2**63, 10**30):
            with pytest.raises(InvalidInputError, match="limit"):
                store.scan(scope, "document", limit=wrong)
            with pytest.raises(InvalidInputError, match="limit"):
                store.lexical(scope, "document", {"red": 1.0}, limit=wrong)
            with pytest.raises(InvalidInputError, match="limit"):
                self.nearest(store, scope, [1, 0], limit=wrong)

    def test_vectors_can_come_later(self, store: IndexStore, scope: Scope) -> None:
        """A vector is added only if the text is still the same; everything else stays."""
        store.put(scope, "document", [an_entry("a", "one", metadata={"n": 1}), an_entry("b", "new")])
        late = [an_entry("a", "one", vector=[1, 0]), an_entry("b", "old", vector=[1, 0]), an_entry("x", vector=[1, 0])]
        assert store.attach(scope, "document", late) == 1
        assert [key for key, _ in self.nearest(store, scope, [1, 0])] == ["a"]
        first, second = store.scan(scope, "document", limit=9)
        assert (first.metadata, first.terms, first.embedder) == ({"n": 1}, {"one": 1}, "test")
        assert second == an_entry("b", "new")
        assert store.attach(scope, "document", []) == 0

    def test_another_embedder_can_take_over(self, store: IndexStore, scope: Scope) -> None:
        """A new embedder works once the old vectors are removed; the words stay."""
        store.put(scope, "document", [an_entry("a", "one", vector=[1, 0]), an_entry("b", "two")])
        assert store.detach(scope, "document") == 1
        assert store.detach(scope, "document") == 0
        assert store.embedding(scope, "document") is None
        assert store.attach(scope, "document", [an_entry("a", "one", vector=[0, 0, 1], embedder="other")]) == 1
        assert store.embedding(scope, "document") == ("other", 3)
        assert dict(self.nearest(store, scope, [0, 0, 2], embedder="other")) == pytest.approx({"a": 1})
        assert matching(store, scope, "one") == ["a"]
