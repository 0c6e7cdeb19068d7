"""The contract of LangGraph's stores, as tests that any `BaseStore` inherits; it imports no LangGraph."""

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

VALUES: dict[str, dict[str, Any]] = {
    "empty": {},
    "nested": {"list": [1, 2.5, None, True, {"deep": ["a"]}], "big": 2**53 + 1, "negative": -0.5},
    "korean": {"text": "부산에서 태어났어요", "키": "값"},
    "hostile": {"text": "'); DROP TABLE store; -- {name} %s <b> \\ \n", "$eq": "x", "a.b": 1, "": "no name"},
}
NAMES = ("a", "A", "ab", "a b", "a%", "a_", "a*", "a[b]", "a/b", "a'--", "부산")


class LangGraphStoreContract:
    """Inherit from this class and provide the fixture `open_store`.

        class TestMine(LangGraphStoreContract):
            @pytest.fixture
            def open_store(self, tmp_path):
                return lambda: MyStore(tmp_path / "items.db")

    Override a check that your store can't pass: mark it `pytest.mark.xfail(strict=True, reason="…")` and
    call `super()`.
    """

    @pytest.fixture
    def open_store(self) -> Callable[[], Any]:
        """Return a function that opens the same storage, empty at first, with a new store on each call."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, open_store: Callable[[], Any]) -> Any:
        """Return the store to test."""
        return open_store()

    @pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
    def test_a_value_comes_back_as_it_was(self, store: Any, value: dict[str, Any]) -> None:
        """Any JSON value is returned equal, by its key and by a search."""
        store.put(("n", "s"), "k", value)
        item = store.get(("n", "s"), "k")
        assert (item.value, item.key, tuple(item.namespace)) == (value, "k", ("n", "s"))
        assert [found.value for found in store.search(("n",))] == [value]

    def test_what_is_not_there_is_none(self, store: Any) -> None:
        """Getting, searching, listing and deleting missing items returns nothing and raises nothing."""
        assert store.get(("n",), "k") is None
        assert store.search(("n",)) == store.list_namespaces() == []
        store.delete(("n",), "k")

    def test_a_put_replaces_the_value_and_keeps_the_first_time(self, store: Any) -> None:
        """A second put replaces the whole value, keeps `created_at`, and does not move `updated_at` back."""
        store.put(("n",), "k", {"a": 1, "b": 2})
        first = store.get(("n",), "k")
        store.put(("n",), "k", {"a": 3})
        second = store.get(("n",), "k")
        assert second.value == {"a": 3}
        assert first.created_at == second.created_at <= first.updated_at <= second.updated_at
        assert len(store.search(("n",))) == 1

    def test_a_deleted_item_is_gone(self, open_store: Callable[[], Any]) -> None:
        """A deleted item is found neither by this store nor by one opened afterwards; the others stay."""
        store = open_store()
        for key in ("k", "other"):
            store.put(("n",), key, {"text": key})
        store.delete(("n",), "k")
        for one in (store, open_store()):
            assert one.get(("n",), "k") is None
            assert [item.key for item in one.search(())] == ["other"]

    def test_namespaces_and_keys_are_apart(self, store: Any) -> None:
        """Namespaces and keys with similar names stay apart, and a prefix matches whole labels."""
        for name in NAMES:
            store.put((name, "x"), name, {"name": name})
        for name in NAMES:
            assert store.get((name, "x"), name).value == {"name": name}
            assert [item.key for item in store.search((name,))] == [name]
            assert store.search((name, "y")) == []
        assert len(store.search((), limit=100)) == len(NAMES)
        assert store.get(("a", "x"), "ab") is None

    def test_filters(self, store: Any) -> None:
        """A filter compares fields by equality or by $eq, $ne, $gt, $gte, $lt and $lte, all of which must hold."""
        for number in range(4):
            store.put(("n",), f"k{number}", {"number": number, "even": number % 2 == 0, "name": f"n{number}"})
        for wanted, numbers in (
            ({"number": 1}, [1]), ({"name": "n2"}, [2]), ({"even": True}, [0, 2]), ({"number": {"$eq": 3}}, [3]),
            ({"number": {"$ne": 3}}, [0, 1, 2]), ({"number": {"$gt": 1}}, [2, 3]), ({"number": {"$gte": 3}}, [3]),
            ({"number": {"$lt": 1}}, [0]), ({"number": {"$lte": 1, "$gt": 0}}, [1]),
            ({"even": True, "number": {"$gt": 0}}, [2]), ({"missing": 1}, []), ({"name": "' OR 1=1 --"}, []),
        ):  # fmt: skip
            found = sorted(item.value["number"] for item in store.search(("n",), filter=wanted))
            assert found == numbers, wanted

    def test_pages(self, store: Any) -> None:
        """`limit` and `offset` cut the results of a search into pages that neither overlap nor miss an item."""
        for number in range(7):
            store.put(("n",), f"k{number}", {"number": number})
        pages = [[item.key for item in store.search(("n",), limit=3, offset=offset)] for offset in (0, 3, 6, 9)]
        assert list(map(len, pages)) == [3, 3, 1, 0]
        assert sorted(key for page in pages for key in page) == [f"k{number}" for number in range(7)]

    def test_a_question_is_only_a_question(self, store: Any) -> None:
        """A search for any text raises nothing, and returns items of its namespace alone."""
        store.put(("n",), "k", {"text": "green tea"})
        store.put(("other",), "k2", {"text": "green tea"})
        for query in ("tea", "", "'", '"tea AND (', "*", "부산", "\x00"):
            assert {item.key for item in store.search(("n",), query=query)} <= {"k"}, query

    def test_namespaces_are_listed(self, store: Any) -> None:
        """Namespaces are listed once each, by prefix, by suffix, with wildcards, to a depth and by pages."""
        for namespace in (("a", "b", "c"), ("a", "b", "d"), ("a", "x", "c"), ("e",)):
            store.put(namespace, "k", {})
            store.put(namespace, "k2", {})
        listed = store.list_namespaces
        assert sorted(listed()) == [("a", "b", "c"), ("a", "b", "d"), ("a", "x", "c"), ("e",)]
        assert sorted(listed(prefix=("a", "b"))) == [("a", "b", "c"), ("a", "b", "d")]
        assert sorted(listed(suffix=("c",))) == [("a", "b", "c"), ("a", "x", "c")]
        assert sorted(listed(prefix=("a", "*", "c"))) == [("a", "b", "c"), ("a", "x", "c")]
        assert sorted(listed(max_depth=1)) == [("a",), ("e",)]
        assert sorted(listed(limit=2) + listed(limit=2, offset=2)) == sorted(listed())

    def test_a_batch_answers_in_order(self, store: Any) -> None:
        """A batch returns what was there before it, in the order of its operations; of several puts the last counts."""
        ops: Any = next(sys.modules[kind.__module__] for kind in type(store).__mro__ if kind.__name__ == "BaseStore")
        store.put(("n",), "k", {"a": 1})
        puts = [ops.PutOp(("n",), "new", {"a": number}) for number in (2, 3)]
        reads = [ops.GetOp(("n",), "k"), ops.SearchOp(("other",)), ops.GetOp(("n",), "new")]
        found = store.batch([ops.GetOp(("n",), "none"), *puts, *reads])
        assert [*found[:3], found[3].value, *found[4:]] == [None, None, None, {"a": 1}, [], None]
        assert store.get(("n",), "new").value == {"a": 3}

    def test_an_item_is_the_callers_own(self, store: Any) -> None:
        """Changing a value that was given or returned changes nothing in the store."""
        given = {"list": [1]}
        store.put(("n",), "k", given)
        given["list"].append(2)
        store.get(("n",), "k").value["list"].append(3)
        assert store.get(("n",), "k").value == {"list": [1]}

    def test_the_async_forms_do_the_same(self, open_store: Callable[[], Any]) -> None:
        """The async forms read items that the sync ones wrote, and the reverse."""

        async def run() -> list[Any]:
            store = open_store()
            await store.aput(("n",), "k", {"a": 1})
            await store.aput(("n",), "gone", {"a": 2})
            await store.adelete(("n",), "gone")
            found, names = await store.asearch(("n",)), await store.alist_namespaces()
            return [(await store.aget(("n",), "k")).value, [item.key for item in found], names]

        assert asyncio.run(run()) == [{"a": 1}, ["k"], [("n",)]]
        assert open_store().get(("n",), "k").value == {"a": 1}

    def test_an_item_outlives_its_store(self, open_store: Callable[[], Any]) -> None:
        """Items are found in a store that is opened afterwards."""
        open_store().put(("n",), "k", {"a": 1})
        assert open_store().get(("n",), "k").value == {"a": 1}

    def test_concurrent_writers_lose_nothing(self, open_store: Callable[[], Any]) -> None:
        """Eight threads, each with its own store over one storage, put items, and each item is there."""

        def write(writer: int) -> None:
            store = open_store()
            for number in range(5):
                store.put((f"w{writer}",), f"k{number}", {"number": number})

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(write, range(8)))
        store = open_store()
        assert len(store.search((), limit=100)) == 40
        assert all(store.get((f"w{writer}",), f"k{number}") for writer in range(8) for number in range(5))
