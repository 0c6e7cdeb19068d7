"""The contract of every `IndexStore`, as tests that a backend inherits."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import numpy as np
import pytest

from arc_common.filters import Condition, parse_filter
from arc_common.protocols.search_index import EntryKind, IndexEntry, IndexStore, Scope
from arc_common.testing.search_index_filter_contract import IndexFilterContract
from arc_common.testing.search_index_search_contract import IndexSearchContract, an_entry, matching

ODD = [
    "a' OR '1'='1", 'a"; DROP TABLE arc_documents; --', "a%_\\", "a.b[0]$.c", "NEAR(a b)", "a AND b OR NOT c*",
    "-a ^b :c", "한국어 검색", "🎉👩‍👩‍👧", "e\u0301", "é", "ẞß", "\u200b\ufeff", "tab\tand\nline", "x" * 200,
]  # fmt: skip
"""Text with a meaning to databases, and text that is easily altered in transit."""


def names(entries: Sequence[IndexEntry]) -> list[str]:
    """Return the entries' ids."""
    return [entry.id for entry in entries]


class IndexStoreContract(IndexSearchContract, IndexFilterContract):
    """Inherit from this class and provide the fixture `store`."""

    @pytest.fixture
    def store(self) -> IndexStore:
        """Return the store to test."""
        raise NotImplementedError

    @pytest.fixture
    def scope(self) -> Scope:
        """Return a scope that no other test uses."""
        return Scope(f"caller-{uuid4()}")

    # Put, fetch, remove

    def test_what_is_put_comes_back(self, store: IndexStore, scope: Scope) -> None:
        """Text, source and metadata come back unchanged; `scan` also returns terms and vector."""
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

    def test_entries_without_anything_come_back(self, store: IndexStore, scope: Scope) -> None:
        """Text, terms and metadata are all optional."""
        store.put(scope, "document", [IndexEntry("a", "")])
        assert store.scan(scope, "document", limit=10) == [IndexEntry("a", "")]

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
        assert store.count(scope, "document") == len(ODD) - 3

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
        """Neither the words nor the metadata nor the vector of the replaced entry are found."""
        store.put(
            scope, "document", [an_entry("a", "old words", vector=[1, 0], metadata={"v": 1}), an_entry("b", "old")]
        )
        store.put(scope, "document", [an_entry("a", "new", metadata={"v": 2})])
        assert matching(store, scope, "old") == ["b"]
        assert matching(store, scope, "words") == []
        assert matching(store, scope, "new") == ["a"]
        assert store.count(scope, "document", filters=parse_filter({"v": 1})) == 0
        assert store.vectors(scope, "document", ["a"]) == {}
        assert store.embedding(scope, "document") is None
        assert store.count(scope, "document") == 2
        found = store.lexical(scope, "document", {"old": 1}, limit=9)
        assert (found.count, found.total_length, found.document_frequencies.tolist()) == (2, 2, [1])

    def test_of_two_with_one_id_the_later_stays(self, store: IndexStore, scope: Scope) -> None:
        """The later entry stays, even within one call."""
        store.put(scope, "document", [an_entry("a", "first"), an_entry("b"), an_entry("a", "second")])
        assert store.fetch(scope, "document", ["a"])[0].text == "second"
        assert matching(store, scope, "first") == []
        assert store.count(scope, "document") == 2

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
        assert store.embedding(scope, "document") is None
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
        """More entries than fit one statement are put, fetched and removed at once."""
        entries = [an_entry(f"{n:05}", f"word{n} common", metadata={"n": n}) for n in range(3_000)]
        store.put(scope, "document", entries)
        assert store.count(scope, "document") == 3_000
        assert len(store.fetch(scope, "document", names(entries))) == 3_000
        assert matching(store, scope, "word2999") == ["02999"]
        assert store.remove(scope, "document", names(entries)[1:]) == 2_999
        assert matching(store, scope, "common") == ["00000"]

    def test_an_enormous_text_is_stored(self, store: IndexStore, scope: Scope) -> None:
        """A whole book fits one entry."""
        book = IndexEntry("book", "page " * 200_000, {f"word{n}": n + 1 for n in range(20_000)})
        store.put(scope, "document", [book])
        assert store.scan(scope, "document", limit=1) == [book]
        assert matching(store, scope, "word19999") == ["book"]

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
            found = store.lexical(where, kind, {"common": 1, "word0": 1}, limit=99)
            assert set(found.ids) == {"same", f"other{n}"}
            assert (found.count, found.total_length) == (2, 3)
            assert found.document_frequencies.tolist() == [2, 1 if n == 0 else 0]
            near = store.dense(where, kind, np.array([1, 0], np.float32), embedder="test", limit=99)
            assert dict(near) == pytest.approx({"same": 1 / (1 + n * n) ** 0.5}, abs=1e-5)
            assert store.count(where, kind) == len(store.scan(where, kind, limit=99)) == 2
            assert store.count(where, kind, filters=Condition("n", "eq", 0)) == (n == 0)
            assert set(store.vectors(where, kind, ["same", "other0"])) == {"same"}
        assert store.remove(*places[0], ["same"]) == 1
        assert all(store.count(where, kind) == 2 for where, kind in places[1:])

    def test_erase_takes_what_lies_within_a_scope(self, store: IndexStore, scope: Scope) -> None:
        """A user's conversations' entries are erased too; other users' and other callers' stay."""
        places = self._places(scope)
        for where, kind in places:
            store.put(where, kind, [an_entry("a", "word", vector=[1, 0])])
        caller, kind_only, user, session, other, stranger = places
        assert store.erase(Scope(scope.caller_id, user_id="u")) == 2
        assert [store.count(*place) for place in (user, session)] == [0, 0]
        assert matching(store, user[0], "word") == []
        assert [store.count(*place) for place in (caller, kind_only, other, stranger)] == [1, 1, 1, 1]
        assert store.erase(Scope(scope.caller_id), kind="memory") == 1
        assert store.erase(Scope(scope.caller_id)) == 2
        assert store.count(*stranger) == 1
        assert store.erase(Scope(scope.caller_id)) == 0
        store.put(*user, [an_entry("a", vector=[1, 0, 0])])
        assert store.embedding(*user) == ("test", 3)

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
        assert store.count(scope, "document") == len(matching(store, scope, "common")) == 40
        found = store.lexical(scope, "document", {"common": 1}, limit=99)
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
        found = store.lexical(scope, "document", {f"word{i}": 1 for i in range(40)}, limit=99)
        assert (found.count, found.total_length, found.document_frequencies.sum()) == (1, 1, 1)

    def test_closing_twice_is_fine(self, store: IndexStore) -> None:
        """A closed store can be closed again."""
        store.close()
        store.close()
