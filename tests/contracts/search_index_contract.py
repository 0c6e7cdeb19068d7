"""The contract of every `IndexStore`, as tests that a backend inherits."""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arc_common.exceptions import InvalidInputError
from arc_common.filters import Condition, Filter, parse_filter
from arc_common.protocols.search_index import Candidates, EntryKind, IndexEntry, IndexStore, Scope, unit_vector
from arc_common.retrieval.bm25 import BM25, best_places
from tests.contracts.index_filters_contract import IndexFiltersContract
from tests.contracts.index_queries import count, dense, embedding, lexical, vectors_of

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
    return sorted(lexical(store, scope, "document", dict.fromkeys(terms, 1.0), limit=10_000).ids)


def scored(found: Candidates, terms: Mapping[str, float], limit: int) -> list[tuple[str, float]]:
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


ODD = [
    "a' OR '1'='1", 'a"; DROP TABLE arc_documents; --', "a%_\\", "a.b[0]$.c", "NEAR(a b)", "a AND b OR NOT c*",
    "-a ^b :c", "한국어 검색", "🎉👩‍👩‍👧", "e\u0301", "é", "ẞß", "\u200b\ufeff", "tab\tand\nline", "x" * 200,
]  # fmt: skip
"""Text with a meaning to databases, and text that is easily altered in transit."""


def names(entries: Sequence[IndexEntry]) -> list[str]:
    """Return the entries' ids."""
    return [entry.id for entry in entries]


class IndexStoreContract(IndexFiltersContract):
    """Inherit from this class and provide the fixture `store`."""

    @pytest.fixture
    def store(self) -> IndexStore:
        """Return the store to test."""
        raise NotImplementedError

    @pytest.fixture
    def compares_texts(self) -> bool:
        """Return whether filters may compare the order of texts; on encrypted stores they can't."""
        return True

    @pytest.fixture
    def scope(self) -> Scope:
        """Return a scope that no other test uses."""
        return Scope(f"caller-{uuid4()}")

    # Put, fetch, remove

    def test_what_is_put_comes_back(self, store: IndexStore, scope: Scope) -> None:
        """Text, source and metadata come back unchanged; `scan` also returns terms and vector; all are optional."""
        metadata = {"n": 1, "x": 0.5, "yes": True, "none": None, "list": ["a", [1]], "deep": {"a": {"b": "한"}}}
        entry = an_entry("a", "one two two", vector=[3, 4], metadata=metadata, source="A book")
        store.put(scope, "document", [entry])
        (shown,) = store.fetch(scope, "document", ["a"])
        assert (shown.id, shown.text, shown.source, shown.metadata) == ("a", "one two two", "A book", metadata)
        (whole,) = store.scan(scope, "document", limit=10)
        assert whole == entry
        assert isinstance(whole.metadata["yes"], bool)
        assert whole.vector is not None
        assert whole.vector.dtype == np.float32
        assert whole.vector.tolist() == pytest.approx([0.6, 0.8])
        store.put(scope, "document", [IndexEntry("b", "")])
        assert store.scan(scope, "document", after="a", limit=10) == [IndexEntry("b", "")]

    def test_any_text_comes_back(self, store: IndexStore, scope: Scope) -> None:
        """Text that looks like SQL, a search operator or another normal form is only text."""
        entries = [
            IndexEntry(odd, odd, {odd: 2.0, "other": 1.0}, {odd: odd}, odd, np.array([1, 0]), "test") for odd in ODD
        ]
        store.put(scope, "document", entries)
        assert names(store.fetch(scope, "document", ODD)) == ODD
        assert {entry.id: entry for entry in store.scan(scope, "document", limit=100)} == {
            entry.id: entry for entry in entries
        }
        for odd in ODD:
            assert matching(store, scope, odd) == [odd]
            assert names(store.scan(scope, "document", filters=Condition(odd, "eq", odd), limit=9)) == [odd]
        assert store.remove(scope, "document", ODD[:3]) == 3
        assert count(store, scope, "document") == len(ODD) - 3

    def test_a_caller_s_metadata_stay_its_own(self, store: IndexStore, scope: Scope) -> None:
        """Changing the metadata given or returned does not change what is stored."""
        given = {"tags": ["a"]}
        store.put(scope, "document", [an_entry("a", metadata=given)])
        given["tags"].append("b")
        (first,) = store.fetch(scope, "document", ["a"])
        first.metadata["tags"].append("c")
        (second,) = store.fetch(scope, "document", ["a"])
        assert second.metadata == {"tags": ["a"]}

    def test_an_entry_takes_the_place_of_the_one_with_its_id(self, store: IndexStore, scope: Scope) -> None:
        """Nothing of the replaced entry is found; of two in one call, the later stays."""
        store.put(
            scope, "document", [an_entry("a", "old words", vector=[1, 0], metadata={"v": 1}), an_entry("b", "old")]
        )
        store.put(scope, "document", [an_entry("a", "first"), an_entry("a", "new", metadata={"v": 2})])
        assert matching(store, scope, "old") == ["b"]
        assert matching(store, scope, "words") == []
        assert matching(store, scope, "new", "first") == ["a"]
        assert count(store, scope, "document", filters=parse_filter({"v": 1})) == 0
        assert vectors_of(store, scope, "document", ["a"]) == {}
        assert embedding(store, scope, "document") is None
        assert count(store, scope, "document") == 2
        found = lexical(store, scope, "document", {"old": 1}, limit=9)
        assert (found.count, found.total_length, found.document_frequencies.tolist()) == (2, 2, [1])

    def test_fetch_keeps_the_order_asked(self, store: IndexStore, scope: Scope) -> None:
        """Fetching returns the existing entries, each once."""
        store.put(scope, "document", [an_entry(name) for name in "abc"])
        assert names(store.fetch(scope, "document", ["c", "x", "a", "c"])) == ["c", "a"]
        assert store.fetch(scope, "document", []) == []

    def test_what_is_removed_is_gone(self, store: IndexStore, scope: Scope) -> None:
        """A removed entry is in no search and no count; removing it again removes nothing."""
        store.put(scope, "document", [an_entry(name, "word", vector=[1, 0]) for name in "abc"])
        assert store.remove(scope, "document", ["a", "x", "a"]) == 1
        assert store.remove(scope, "document", ["a"]) == 0
        assert store.remove(scope, "document", []) == 0
        assert store.fetch(scope, "document", ["a"]) == []
        assert matching(store, scope, "word") == ["b", "c"]
        assert [name for name, _ in self.nearest(store, scope, [1, 0])] == ["b", "c"]
        assert store.remove(scope, "document", ["b", "c"]) == 2
        assert embedding(store, scope, "document") is None
        store.put(scope, "document", [an_entry("a", "word", vector=[1, 0, 0])])
        assert matching(store, scope, "word") == ["a"]

    def test_a_document_s_chunks_leave_with_it(self, store: IndexStore, scope: Scope) -> None:
        """Chunks that name the document are removed, but neither similar ids nor chunks put in the same step."""

        def put(*ids: str, removed: Sequence[str] = ()) -> list[str]:
            chunks = [IndexEntry(one, "", metadata={"document_id": one.partition("#")[0]}) for one in ids]
            store.put(scope, "document", chunks, removed=removed)
            return names(store.scan(scope, "document", limit=100))

        alike = [IndexEntry("a#9", ""), IndexEntry("a#0#0", "", metadata={"document_id": "a#0"}), IndexEntry("a$", "")]
        store.put(scope, "document", alike)
        others = ["a#0#0", "a#9", "a$", "b#0"]
        assert put("a#0", "a#1", "a#2", "b#0", removed=["a"]) == sorted(["a#0", "a#1", "a#2", *others])
        assert put("a#0", "a", removed=["a", "none"]) == sorted(["a", "a#0", *others])
        assert put(removed=["a"]) == others
        put("a", "a#0", "a#1")
        assert store.remove(scope, "document", ["a"]) == 3
        assert names(store.scan(scope, "document", limit=100)) == others
        store.put(scope, "memory", [IndexEntry("a#0", "", metadata={"document_id": "a"})])
        assert store.remove(scope, "memory", ["a"]) == 0

    def test_many_come_back(self, store: IndexStore, scope: Scope) -> None:
        """More entries than fit one statement are put, fetched and removed at once; a whole book fits one entry."""
        entries = [an_entry(f"{n:05}", f"word{n} common", metadata={"n": n}) for n in range(1_100)]
        store.put(scope, "document", entries)
        assert count(store, scope, "document") == 1_100
        assert len(store.fetch(scope, "document", names(entries))) == 1_100
        assert matching(store, scope, "word1099") == ["01099"]
        assert store.remove(scope, "document", names(entries)[1:]) == 1_099
        assert matching(store, scope, "common") == ["00000"]
        book = IndexEntry("book", "page " * 200_000, {f"word{n}": n + 1 for n in range(20_000)})
        store.put(scope, "document", [book])
        assert store.scan(scope, "document", after="00000", limit=1) == [book]

    # Scan and count

    def test_scan_pages_in_the_order_of_code_points(self, store: IndexStore, scope: Scope) -> None:
        """Pages follow code points, whatever the database's collation."""
        order = sorted(["a", "B", "_", "é", "e\u0301", "z", "한", "１", "10", "9", "🎉", "\uffff"])
        store.put(scope, "document", [an_entry(name) for name in reversed(order)])
        assert names(store.scan(scope, "document", limit=100)) == order
        paged: list[str] = []
        while page := store.scan(scope, "document", after=paged[-1] if paged else None, limit=5):
            paged += names(page)
        assert paged == order
        assert store.scan(scope, "document", limit=0) == []

    def test_scan_finds_what_has_no_vector(self, store: IndexStore, scope: Scope) -> None:
        """A scan finds entries without a vector, and combines this with filters."""
        store.put(scope, "document", [an_entry("a", vector=[1, 0]), an_entry("b"), an_entry("c", metadata={"n": 1})])
        assert names(store.scan(scope, "document", unembedded=True, limit=9)) == ["b", "c"]
        assert names(store.scan(scope, "document", unembedded=True, filters=Condition("n", "eq", 1), limit=9)) == ["c"]
        assert names(store.scan(scope, "document", unembedded=True, after="b", limit=9)) == ["c"]

    # Scopes

    def test_a_scope_sees_its_own_entries_only(self, store: IndexStore, scope: Scope) -> None:
        """The same id in five scopes and another kind has its own text, words, vector and statistics."""
        places = self._places(scope)
        for n, (where, kind) in enumerate(places):
            entry = an_entry("same", f"common word{n}", vector=[1, n], metadata={"n": n})
            store.put(where, kind, [entry, an_entry(f"other{n}", "common")])
        for n, (where, kind) in enumerate(places):
            assert [entry.text for entry in store.fetch(where, kind, ["same"])] == [f"common word{n}"]
            found = lexical(store, where, kind, {"common": 1, "word0": 1}, limit=99)
            assert set(found.ids) == {"same", f"other{n}"}
            assert (found.count, found.total_length) == (2, 3)
            assert found.document_frequencies.tolist() == [2, 1 if n == 0 else 0]
            near = dense(store, where, kind, np.array([1, 0], np.float32), embedder="test", limit=99)
            assert dict(near) == pytest.approx({"same": 1 / (1 + n * n) ** 0.5}, abs=1e-5)
            assert count(store, where, kind) == len(store.scan(where, kind, limit=99)) == 2
            assert count(store, where, kind, filters=Condition("n", "eq", 0)) == (n == 0)
            assert set(vectors_of(store, where, kind, ["same", "other0"])) == {"same"}
        assert store.remove(*places[0], ["same"]) == 1
        assert all(count(store, where, kind) == 2 for where, kind in places[1:])

    def test_erase_takes_what_lies_within_a_scope(self, store: IndexStore, scope: Scope) -> None:
        """A user's conversations' entries are erased too; other users' and other callers' stay."""
        places = self._places(scope)
        for where, kind in places:
            store.put(where, kind, [an_entry("a", "word", vector=[1, 0])])
        caller, kind_only, user, session, other, stranger = places
        assert store.remove(Scope(scope.caller_id, user_id="u"), None, None) == 2
        assert [count(store, *place) for place in (user, session)] == [0, 0]
        assert matching(store, user[0], "word") == []
        assert [count(store, *place) for place in (caller, kind_only, other, stranger)] == [1, 1, 1, 1]
        assert store.remove(Scope(scope.caller_id), "memory", None) == 1
        assert store.remove(Scope(scope.caller_id), None, None) == 2
        assert count(store, *stranger) == 1
        assert store.remove(Scope(scope.caller_id), None, None) == 0
        store.put(*user, [an_entry("a", vector=[1, 0, 0])])
        assert embedding(store, *user) == ("test", 3)

    @staticmethod
    def _places(scope: Scope) -> list[tuple[Scope, EntryKind]]:
        caller = scope.caller_id
        return [
            (scope, "document"), (scope, "memory"), (Scope(caller, "u"), "document"),
            (Scope(caller, "u", "s"), "document"), (Scope(caller, None, "u"), "document"),
            (Scope(f"{caller}-2"), "document"),
        ]  # fmt: skip

    # Many at once

    def test_many_threads_at_once(self, store: IndexStore, scope: Scope) -> None:
        """Each thread finds its own entries while others write; nothing is lost or counted twice."""

        def work(name: str) -> None:
            for n in range(5):
                ids = [f"{name}{n}-{i}" for i in range(4)]
                store.put(scope, "document", [an_entry(one, f"common {name}", vector=[1, n]) for one in ids])
                assert set(ids) <= set(matching(store, scope, name))
                assert {one for one, _ in self.nearest(store, scope, [1, n], limit=1_000)} >= set(ids)
                assert store.remove(scope, "document", ids[1:]) == 3

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, "abcdefgh"))
        assert count(store, scope, "document") == len(matching(store, scope, "common")) == 40
        found = lexical(store, scope, "document", {"common": 1}, limit=99)
        assert (found.count, found.total_length, found.document_frequencies.tolist()) == (40, 80, [40])

    def test_one_id_from_many_threads(self, store: IndexStore, scope: Scope) -> None:
        """Exactly one version stays, intact."""

        def work(n: int) -> None:
            store.put(scope, "document", [an_entry("a", f"word{n}", vector=[1, n], metadata={"n": n})])

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(40)))
        (kept,) = store.scan(scope, "document", limit=9)
        n = kept.metadata["n"]
        assert kept == an_entry("a", f"word{n}", vector=[1, n], metadata={"n": n})
        assert matching(store, scope, f"word{n}") == ["a"]
        found = lexical(store, scope, "document", {f"word{i}": 1 for i in range(40)}, limit=99)
        assert (found.count, found.total_length, found.document_frequencies.sum()) == (1, 1, 1)

    # Words and vectors

    @staticmethod
    def nearest(store: IndexStore, scope: Scope, vector: Sequence[float], **more: Any) -> list[tuple[str, float]]:
        """Return the results of `dense`."""
        asked = {"embedder": "test", "limit": 10, "exact": True, **more}
        return dense(store, scope, "document", unit_vector("vector", vector), **asked)

    # Words

    def test_candidates_come_with_all_that_scoring_needs(self, store: IndexStore, scope: Scope) -> None:
        """Candidates have frequencies in the terms' order, lengths, and the scope's statistics."""
        store.put(scope, "document", [
            IndexEntry("a", "", {"x": 2, "y": 1}), IndexEntry("b", "", {"y": 0.35}), IndexEntry("c", "", {"z": 4}),
        ])  # fmt: skip
        found = lexical(store, scope, "document", {"y": 1, "unknown": 1, "x": 3}, limit=10)
        rows = dict(zip(found.ids, zip(found.frequencies.tolist(), found.lengths.tolist(), strict=True), strict=True))
        assert rows == {"a": ([1, 0, 2], 3), "b": ([pytest.approx(0.35), 0, 0], pytest.approx(0.35))}
        assert found.document_frequencies.tolist() == [2, 0, 1]
        assert found.count == 3
        assert found.total_length == pytest.approx(7.35)

    @given(corpus=corpora, query=queries)
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_the_ranking_is_bm25_s(
        self, store: IndexStore, corpus: list[dict[str, float]], query: dict[str, float]
    ) -> None:
        """For any texts and query, scores and order are those of the formula."""
        scope = Scope(f"caller-{uuid4()}")
        texts = {f"d{n}": terms for n, terms in enumerate(corpus)}
        store.put(scope, "document", [IndexEntry(key, "", terms) for key, terms in texts.items()])
        expected = {key: bm25(texts, query, key) for key, terms in texts.items() if set(terms) & set(query)}
        found = scored(lexical(store, scope, "document", query, limit=100), query, 100)
        assert dict(found) == pytest.approx(expected)
        assert [key for key, _ in found] == sorted(dict(found), key=lambda key: (-dict(found)[key], key))

    def test_the_best_are_among_a_limited_number(self, store: IndexStore, scope: Scope) -> None:
        """If fewer are wanted than match, the best by BM25 are among them."""
        store.put(scope, "document", [
            an_entry(f"{n:03}", " ".join(["common"] * (1 + n % 3) + ["rare"] * (n % 40 == 0) + ["filler"] * (n % 7)))
            for n in range(400)
        ])  # fmt: skip
        terms = {"common": 1.0, "rare": 1.0}
        every = scored(lexical(store, scope, "document", terms, limit=400), terms, 400)
        assert len(every) == 400
        some = lexical(store, scope, "document", terms, limit=20)
        assert len(some.ids) >= 20
        assert scored(some, terms, 10) == every[:10]

    def test_of_equal_texts_the_smaller_ids_are_among_a_limited_number(self, store: IndexStore, scope: Scope) -> None:
        """A hundred greetings have one score; their ids decide."""
        store.put(scope, "document", [an_entry(f"{n:03}", "hello") for n in reversed(range(100))])
        found = lexical(store, scope, "document", {"hello": 1.0}, limit=5)
        assert [key for key, _ in scored(found, {"hello": 1.0}, 5)] == ["000", "001", "002", "003", "004"]

    def test_an_entry_may_get_its_first_words_later(self, store: IndexStore, scope: Scope) -> None:
        """An entry stored without words, and searched, is found by the words that replace it."""
        for words in ("", "red"):
            store.put(scope, "document", [an_entry("d", words)])
            found = lexical(store, scope, "document", {"red": 1}, limit=9)
            assert found.ids == (("d",) if words else ())

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
            found = lexical(store, scope, "document", {"word": 1}, filters=filters, ids=ids, limit=9)
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
        assert set(lexical(store, scope, "document", {"word": 1.0}, filters=kept, limit=10).ids) == expected
        assert {key for key, _ in self.nearest(store, scope, [1, 0], filters=kept)} == expected
        assert {key for key, _ in self.nearest(store, scope, [1, 0], filters=kept, exact=False)} == expected

    def test_nothing_is_found_where_nothing_is(self, store: IndexStore, scope: Scope) -> None:
        """No terms, entries, limit or match gives no candidates and no error."""
        empty = lexical(store, scope, "document", {"word": 1.0}, limit=10)
        assert (empty.ids, empty.count, empty.total_length) == ((), 0, 0)
        assert empty.frequencies.shape == (0, 1)
        assert self.nearest(store, scope, [1, 0]) == []
        store.put(scope, "document", [an_entry("a", "word", vector=[1, 0])])
        assert lexical(store, scope, "document", {}, limit=10).ids == ()
        assert lexical(store, scope, "document", {"other": 1.0}, limit=10).ids == ()
        assert lexical(store, scope, "document", {"word": 1.0}, limit=0).ids == ()
        assert lexical(store, scope, "document", {"\ud800": 1.0}, limit=10).document_frequencies.tolist() == [0]
        assert self.nearest(store, scope, [1, 0], limit=0) == []
        assert self.nearest(store, scope, [1, 0], ids=[]) == []

    def test_what_search_engines_take_for_operators_are_terms(self, store: IndexStore, scope: Scope) -> None:
        """A query finds the entries with its terms, and nothing is executed."""
        odd = [
            "AND", "or", "NEAR(a,b)", "wo*", "-word", "^word", "text:word", '"', "'", "(", "\\", "%", "{a b}", "a & !b",
        ]  # fmt: skip
        store.put(scope, "document", [IndexEntry(str(n), "", {term: 1.0}) for n, term in enumerate(odd)])
        store.put(scope, "document", [IndexEntry("word", "", {"word": 1.0, "a": 1.0, "b": 1.0})])
        for n, term in enumerate(odd):
            assert matching(store, scope, term) == [str(n)]
        assert matching(store, scope, *odd) == sorted(map(str, range(len(odd))))

    # Vectors

    @given(table=st.lists(vectors, max_size=12), query=vectors, limit=st.integers(1, 14))
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
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
        """Entries without a vector are omitted; ids and filters restrict the others."""
        entries = [an_entry(f"d{n}", vector=None if n % 2 else [1, n], metadata={"n": n}) for n in range(8)]
        store.put(scope, "document", entries)
        assert [key for key, _ in self.nearest(store, scope, [1, 0])] == ["d0", "d2", "d4", "d6"]
        assert [key for key, _ in self.nearest(store, scope, [1, 0], ids=["d3", "d4", "x"])] == ["d4"]
        assert [key for key, _ in self.nearest(store, scope, [1, 0], filters=Condition("n", "gt", 2))] == ["d4", "d6"]
        assert set(vectors_of(store, scope, "document", ["d0", "d1", "x"])) == {"d0"}
        assert embedding(store, scope, "document") == ("test", 2)

    def test_two_embedders_are_never_compared(self, store: IndexStore, scope: Scope) -> None:
        """Another embedder or dimension raises on storing and on searching, and nothing is written.

        Vectors of another embedder that are put alone are kept separately until they replace the others.
        """
        store.put(scope, "document", [an_entry("a", vector=[1, 0])])
        for wrong in (an_entry("b", vector=[1, 0], embedder="other"), an_entry("b", vector=[1, 0, 0])):
            with pytest.raises(InvalidInputError):
                store.put(scope, "document", [an_entry("c"), wrong])
        with pytest.raises(InvalidInputError):
            store.put(scope, "document", [an_entry("a", vector=[1, 0, 0])], only_vectors=True)
        assert store.put(scope, "document", [an_entry("a", vector=[1, 0], embedder="other")], only_vectors=True) == 1
        with pytest.raises(InvalidInputError):
            store.put(scope, "memory", [an_entry("a", vector=[1, 0]), an_entry("b", vector=[1, 0, 0])])
        with pytest.raises(InvalidInputError, match="other"):
            self.nearest(store, scope, [1, 0], embedder="other")
        with pytest.raises(InvalidInputError, match="3"):
            self.nearest(store, scope, [1, 0, 0])
        assert count(store, scope, "document") == 1
        assert count(store, scope, "memory") == 0

    def test_limits_are_checked(self, store: IndexStore, scope: Scope) -> None:
        """A limit must be a whole number up to 2**62."""
        calls: list[Callable[[int], object]] = [
            lambda wrong: store.scan(scope, "document", limit=wrong),
            lambda wrong: lexical(store, scope, "document", {"red": 1.0}, limit=wrong),
            lambda wrong: self.nearest(store, scope, [1, 0], limit=wrong),
        ]
        for wrong in (-1, True, 2**62 + 1, 10**30):
            for call in calls:
                with pytest.raises(InvalidInputError, match="limit"):
                    call(wrong)

    def test_vectors_can_come_later(self, store: IndexStore, scope: Scope) -> None:
        """A vector is added only if the text is still the same; everything else stays."""
        store.put(scope, "document", [an_entry("a", "one", metadata={"n": 1}), an_entry("b", "new")])
        late = [an_entry("a", "one", vector=[1, 0]), an_entry("b", "old", vector=[1, 0]), an_entry("x", vector=[1, 0])]
        assert store.put(scope, "document", late, only_vectors=True) == 1
        assert [key for key, _ in self.nearest(store, scope, [1, 0])] == ["a"]
        first, second = store.scan(scope, "document", limit=9)
        assert (first.metadata, first.terms, first.embedder) == ({"n": 1}, {"one": 1}, "test")
        assert second == an_entry("b", "new")
        assert store.put(scope, "document", [], only_vectors=True) == 0

    def test_another_embedder_can_take_over(self, store: IndexStore, scope: Scope) -> None:
        """A new embedder works once the old vectors are removed; the words stay."""
        store.put(scope, "document", [an_entry("a", "one", vector=[1, 0]), an_entry("b", "two")])
        assert store.remove(scope, "document", None, only_vectors=True) == 1
        assert store.remove(scope, "document", None, only_vectors=True) == 0
        assert embedding(store, scope, "document") is None
        assert (
            store.put(scope, "document", [an_entry("a", "one", vector=[0, 0, 1], embedder="other")], only_vectors=True)
            == 1
        )
        assert embedding(store, scope, "document") == ("other", 3)
        assert dict(self.nearest(store, scope, [0, 0, 2], embedder="other")) == pytest.approx({"a": 1})
        assert matching(store, scope, "one") == ["a"]
