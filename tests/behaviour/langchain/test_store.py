"""`ArcStore` is LangGraph's store; benchmarks/upstream_store.py runs LangGraph's own tests of it."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage

from arc_common import ContextEngine, InvalidInputError
from langchain_arc import ArcStore, open_engine
from tests.support.clocks import Clock
from tests.support.databases import on_sqlite
from tests.support.langchain_agents import ScriptedToolModel, call


@pytest.fixture
def engine(database: str, clock: Clock) -> Iterator[ContextEngine]:
    with open_engine(database, clock=clock) as opened:
        yield opened


def keys(items: list[Any]) -> list[str]:
    return [item.key for item in items]


def test_another_process_sees_the_same_and_another_scope_nothing(engine: ContextEngine, database: str) -> None:
    ArcStore(engine, caller_id="shop", user_id="ann").put(("n",), "a", {"text": "tea"})
    for scope in ({}, {"caller_id": "shop"}, {"caller_id": "shop", "user_id": "eve"}, {"user_id": "ann"}):
        other = ArcStore(engine, **scope)
        assert other.get(("n",), "a") is None
        assert other.search(()) == other.search(("n",), query="tea") == other.list_namespaces() == []
        other.delete(("n",), "a")
    with open_engine(database) as again:
        found = ArcStore(again, caller_id="shop", user_id="ann").get(("n",), "a")
    assert found is not None
    assert found.value == {"text": "tea"}


@on_sqlite
def test_items_are_neither_documents_nor_shown_in_a_turn(engine: ContextEngine) -> None:
    ArcStore(engine).put(("n",), "a", {"text": "The secret is tea."})
    with pytest.raises(InvalidInputError, match="JSON"):
        ArcStore(engine).put(("n",), "b", {"value": object()})
    assert engine.documents.search("What is the secret?") == []
    assert "tea" not in str(engine.session("s").context("What is the secret?").messages)


@on_sqlite
@pytest.mark.parametrize(("name", "value"), [("fields", "title"), ("fields", [5]), ("embed", 5)])
def test_a_wrong_part_of_its_configuration_is_named(engine: ContextEngine, name: str, value: object) -> None:
    index: Any = {name: value}
    with pytest.raises(InvalidInputError, match=rf"^index\.{name}: "):
        ArcStore(engine, index=index)


FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({"price": {"$gt": 1}, "kind": "x"}, ["b"]),
    ({"tags": ["p", "q"]}, ["a"]),
    ({"owner": {"name": "ann"}}, ["b"]),
    ({"owner.name": "ann"}, ["b"]),
    ({"missing": None}, ["a", "b", "c"]),
]


def test_filters(engine: ContextEngine) -> None:
    """They mean the same in listings and queries."""
    store = ArcStore(engine)
    store.put(("n",), "a", {"kind": "x", "price": 1, "tags": ["p", "q"], "text": "item"})
    store.put(("n",), "b", {"kind": "x", "price": 2, "owner": {"name": "ann", "age": 3}, "text": "item"})
    store.put(("n",), "c", {"kind": "y", "price": 3, "tags": ["p"], "text": "item"})
    for wanted, expected in FILTERS:
        for query in (None, "item"):
            assert sorted(keys(store.search(("n",), query=query, filter=wanted))) == expected, (wanted, query)


@on_sqlite
def test_a_query_finds_by_words_without_an_embedder(engine: ContextEngine, clock: Clock) -> None:
    """Other items follow without a score, newest first; `index` names the searched fields."""
    store = ArcStore(engine, index={"dims": 0, "fields": ["text"]})  # type: ignore[typeddict-item]
    for key, text in (("a", "Ann drinks green tea."), ("b", "Eve cycles."), ("c", "The sky is blue.")):
        clock.now += timedelta(minutes=1)
        store.put(("n",), key, {"text": text, "note": "tea"})
    found = store.search(("n",), query="tea")
    assert keys(found) == ["a", "c", "b"]
    assert [item.score is not None for item in found] == [True, False, False]
    store.put(("n",), "a", {"text": "Ann drinks green tea."}, index=False)
    store.put(("n",), "b", {"text": "Eve cycles.", "note": "tea"}, index=["note"])
    assert [(item.key, item.score is not None) for item in store.search(("n",), query="tea", limit=1)] == [("b", True)]


def test_a_query_finds_the_nearest_of_an_item_s_texts(engine: ContextEngine) -> None:
    """Each text of a list has its own vector, an item comes once, and pages don't overlap."""
    embeddings = DeterministicFakeEmbedding(size=32)
    store = ArcStore(engine, index={"dims": 32, "embed": embeddings, "fields": ["texts[*]"]})
    for place in range(30):
        store.put(("n",), f"k{place}", {"texts": [f"text {place}", f"other {place}"]})
    for query in ("text 7", "other 7"):
        (best,) = store.search(("n",), query=query, limit=1)
        assert best.key == "k7"
        assert best.score == pytest.approx(1, abs=1e-4)
    pages = [keys(store.search(("n",), query="text 7", limit=10, offset=offset)) for offset in (0, 10, 20, 30)]
    assert [len(page) for page in pages] == [10, 10, 10, 0]
    assert len({key for page in pages for key in page}) == 30
    store.put(("n",), "k7", {"texts": ["text 7"]})
    (best,) = store.search(("n",), query="other 7", limit=1)
    assert best.key != "k7"


def test_an_item_ends_unless_it_is_read(engine: ContextEngine, clock: Clock) -> None:
    """Reads renew it unless told not to; expired items are never returned, and a sweep removes them."""
    store = ArcStore(engine, ttl={"refresh_on_read": True, "default_ttl": 10})
    store.put(("n",), "default", {"text": "tea"})
    store.put(("n",), "short", {"text": "tea"}, ttl=1)
    store.put(("m",), "forever", {"text": "tea"}, ttl=None)
    clock.now += timedelta(minutes=2)
    assert store.get(("n",), "short") is None
    assert sorted(keys(store.search((), query="tea", refresh_ttl=False))) == ["default", "forever"]
    clock.now += timedelta(minutes=7)
    assert store.get(("n",), "default") is not None
    clock.now += timedelta(minutes=9)
    assert keys(store.search(("n",), refresh_ttl=False)) == ["default"]
    clock.now += timedelta(minutes=2)
    assert store.list_namespaces() == [("m",)]
    assert store.sweep_ttl() == 2
    assert store.sweep_ttl() == 0
    store.put(("n",), "default", {"text": "again"}, ttl=None)
    clock.now += timedelta(minutes=1_000)
    assert store.get(("n",), "default") is not None


@on_sqlite
def test_an_agent_s_tools_use_it(engine: ContextEngine) -> None:
    def note(text: str, runtime: ToolRuntime) -> str:
        """Write something down."""
        assert runtime.store is not None
        runtime.store.put(("notes",), "1", {"text": text})
        return "done"

    model = ScriptedToolModel(script=[AIMessage("", tool_calls=[call("note", "c", text="tea")]), AIMessage("Noted.")])
    store = ArcStore(engine)
    create_agent(model, [note], store=store).invoke({"messages": [("user", "Note: tea.")]})
    item = store.get(("notes",), "1")
    assert item is not None
    assert item.value == {"text": "tea"}
