"""The contract of LangGraph's stores: `ArcStore`, and LangGraph's own in memory and on SQLite."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from arc_common import ContextEngine
from arc_common.testing.langgraph_store_contract import LangGraphStoreContract
from langchain_arc import ArcStore


class TestArcStore(LangGraphStoreContract):
    @pytest.fixture
    def open_store(self, database: str, opened: Callable[..., ContextEngine]) -> Callable[[], Any]:
        return lambda: ArcStore(opened(database))


class TestInMemoryStore(LangGraphStoreContract):
    @pytest.mark.xfail(strict=True, reason="a read makes the namespace")
    def test_what_is_not_there_is_none(self, store: Any) -> None:
        super().test_what_is_not_there_is_none(store)

    @pytest.mark.xfail(strict=True, reason="a put sets both times")
    def test_a_put_replaces_the_value_and_keeps_the_first_time(self, store: Any) -> None:
        super().test_a_put_replaces_the_value_and_keeps_the_first_time(store)

    @pytest.mark.xfail(strict=True, reason="it keeps the dictionary that it was given")
    def test_an_item_is_the_callers_own(self, store: Any) -> None:
        super().test_an_item_is_the_callers_own(store)

    @pytest.fixture
    def open_store(self) -> Callable[[], Any]:
        store = InMemoryStore()
        return lambda: store


class TestSqliteStore(LangGraphStoreContract):
    @pytest.mark.xfail(strict=True, reason="AsyncSqliteStore has the async forms", raises=NotImplementedError)
    def test_the_async_forms_do_the_same(self, open_store: Callable[[], Any]) -> None:
        super().test_the_async_forms_do_the_same(open_store)

    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Iterator[Callable[[], Any]]:
        connections: list[sqlite3.Connection] = []
        one_at_a_time = Lock()  # concurrent set-ups would add the same column

        def make() -> SqliteStore:
            address = tmp_path / "items.db"
            with one_at_a_time:
                connections.append(sqlite3.connect(address, check_same_thread=False, isolation_level=None))
                store = SqliteStore(connections[-1])
                store.setup()
            return store

        yield make
        for connection in connections:
            connection.close()
