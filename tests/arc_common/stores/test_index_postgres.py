"""What only PostgreSQL does: plans by what a filter lets through, graphs, and servers without pgvector."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import nan
from typing import Any

import numpy as np
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pgvector import Vector
from sqlalchemy import create_engine, text

from arc_common.exceptions import ConfigurationError
from arc_common.filters import AllOf, AnyOf, Condition, Filter, Not, OneOf
from arc_common.protocols.search_index import IndexEntry, Scope
from arc_common.retrieval import HybridIndex
from arc_common.retrieval.index import SearchMode
from arc_common.stores.connection import Database
from arc_common.stores.conversations import SqlStore
from arc_common.stores.drivers import PackedVector, SqlOptions
from arc_common.stores.search_index.postgres_statements import Graph, Reach, index_ddl, walks_for
from arc_common.stores.search_index.store import SqlIndexStore
from arc_common.testing.search_index_search_contract import an_entry, matching
from tests.databases import new_database
from tests.servers import PostgresServer

SCOPE = Scope("caller")


def clustered(count: int, dimension: int) -> NDArray[np.float32]:
    """Unit vectors, ten about each centre."""
    rng = np.random.default_rng(3)
    centres = rng.standard_normal((count // 10, dimension), dtype=np.float32)
    table = centres[rng.integers(len(centres), size=count)]
    table += 0.5 * rng.standard_normal((count, dimension), dtype=np.float32)
    unit: NDArray[np.float32] = table / np.linalg.norm(table, axis=1, keepdims=True)
    return unit


def entries(table: NDArray[np.float32]) -> list[IndexEntry]:
    """Each with its number, in an order without a relation to the vectors."""
    return [
        IndexEntry(f"{n:05}", "", {}, {"n": n, "part": n % 20, "rare": n % 1000}, None, vector, "test")
        for n, vector in enumerate(table)
    ]


def index_on(url: str, *, graph_from: int) -> tuple[Database, SqlIndexStore]:
    database = Database(url, auto_migrate=True, options=SqlOptions())
    return database, SqlIndexStore(database, graph_from=graph_from)


def scans(database: Database, url: str, dimension: int) -> int:
    """How often was the graph walked? -1 if there is none."""
    walked = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = :name"
    found = reported(database, url, walked, name=f"arc_index_vectors_hnsw_{dimension}")
    return -1 if found is None else int(found)


def blocks(database: Database, url: str) -> int:
    """How many blocks of vectors were read."""
    read = "SELECT heap_blks_hit + heap_blks_read FROM pg_statio_user_tables WHERE relname = 'arc_index_vectors'"
    return int(reported(database, url, read))


def reported(database: Database, url: str, query: str, **asked: str) -> Any:
    """Close the connections, which then report, and ask for one of the statistics."""
    database.close()
    others = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
    )
    engine = create_engine(url)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        deadline = time.monotonic() + 10
        while connection.execute(others).scalar_one() > 1:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        found = connection.execute(text(query), asked).scalar()
    engine.dispose()
    return found


SHARES: list[tuple[Filter | None, int]] = [
    (Condition("rare", "eq", 7), 4),
    (Condition("n", "lt", 40), 40),
    (Condition("part", "eq", 3), 200),
    (OneOf("part", (1, 2, 3, 4)), 800),
    (AllOf((Condition("n", "gte", 1000), Condition("part", "lt", 10))), 1500),
    (Condition("n", "gte", 0), 4000),
    (None, 4000),
]


def test_filters_keep_recall_and_rows(postgres_database: Callable[[], str]) -> None:
    """Whatever share passes, the ten nearest are those that memory finds, beside another tenant twice as large."""
    url = postgres_database()
    database, index = index_on(url, graph_from=500)
    memory = SqlIndexStore.open()
    table = clustered(4000, 24)
    index.put(Scope("stranger"), "document", entries(clustered(8000, 24)[::-1]))
    for start in range(0, 4000, 1000):
        index.put(SCOPE, "document", entries(table)[start : start + 1000])
    memory.put(SCOPE, "document", entries(table))
    measured = scans(database, url, 24)
    queries = clustered(4000, 24)[:20] + np.float32(0.02)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    for filters, passing in SHARES:
        hits = 0
        for query in queries:
            asked = {"embedder": "test", "filters": filters, "limit": 10}
            expected = [name for name, _ in memory.dense(SCOPE, "document", query, **asked)]  # type: ignore[arg-type]
            found = [name for name, _ in index.dense(SCOPE, "document", query, **asked)]  # type: ignore[arg-type]
            assert len(found) == min(10, passing)
            hits += len(set(found) & set(expected))
        assert hits >= 0.99 * min(10, passing) * len(queries), filters
    assert scans(database, url, 24) > measured


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    rows: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return rows


def nearest_found(index: SqlIndexStore, table: NDArray[np.float32], queries: NDArray[np.float32], limit: int) -> float:
    """The part of the nearest that searches find."""
    found = 0
    for query in queries:
        names = {name for name, _ in index.dense(SCOPE, "document", query, embedder="test", limit=limit)}
        found += len(names & {f"{n:05}" for n in np.argsort(-(table @ query), kind="stable")[:limit]})
    return found / limit / len(queries)


@pytest.mark.parametrize(
    ("dimension", "limit"), [(24, 10), (24, 100), (96, 10), (96, 100)], ids=["10", "100", "10 far", "100 far"]
)
def test_vectors_in_all_directions_are_found_too(
    postgres_database: Callable[[], str], dimension: int, limit: int
) -> None:
    """A graph leads astray where nothing is near to anything: walks are as wide as they must be, or there are none."""
    database, index = index_on(postgres_database(), graph_from=300)
    rows = unit(np.random.default_rng(5).standard_normal((3030, dimension), dtype=np.float32))
    table, queries = rows[:3000], rows[3000:]
    index.put(SCOPE, "document", entries(table))
    assert nearest_found(index, table, queries, limit) >= 0.99
    database.close()


def test_questions_aside_of_all_are_found_too(postgres_database: Callable[[], str]) -> None:
    """What a walk finds for them is not as near as for others: then the next one is as wide as they need."""
    url = postgres_database()
    database, index = index_on(url, graph_from=500)
    table = clustered(3000, 64)
    index.put(SCOPE, "document", entries(table))
    measured = scans(database, url, 64)
    database, index = index_on(url, graph_from=500)  # remembers nothing
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE arc_index_walks SET near = '{10,10,10}', aside = '{480,480,480}'"))
    queries = unit(np.random.default_rng(6).standard_normal((20, 64), dtype=np.float32))
    assert nearest_found(index, table, queries, 10) >= 0.99
    assert scans(database, url, 64) > measured + 30
    database, index = index_on(url, graph_from=500)
    nearest_found(index, table, unit(table[:20] + np.float32(0.02)), 10)
    assert scans(database, url, 64) < measured + 40 + 30


def widths(database: Database) -> list[tuple[str, int, int | None]]:
    with database.engine.connect() as connection:
        rows = connection.execute(text("SELECT embedder, vectors, near[1] FROM arc_index_walks")).all()
    return [(row[0], row[1], row[2]) for row in rows]


def test_walks_are_measured_as_a_scope_grows(postgres_database: Callable[[], str]) -> None:
    """When it has grown by half, whichever process adds, and when another embedder has made its vectors."""
    url = postgres_database()
    database, index = index_on(url, graph_from=500)
    table = clustered(1700, 16)
    index.put(SCOPE, "document", entries(table[:500]))
    assert widths(database) == []
    index.put(SCOPE, "document", entries(table)[500:800])
    assert widths(database) == [("test", 800, 120)]
    once = scans(database, url, 16)
    other, others = index_on(url, graph_from=500)
    for store, rows in ((index, slice(800, 1000)), (others, slice(1000, 1199))):
        store.put(SCOPE, "document", entries(table)[rows])
    assert widths(database) == [("test", 800, 120)]
    other.close()
    assert scans(database, url, 16) == once
    others.put(SCOPE, "document", entries(table)[1199:1300])
    index.put(SCOPE, "document", entries(table)[1300:])
    assert widths(database) == [("test", 1300, 120)]
    others.detach(SCOPE, "document")
    index.attach(SCOPE, "document", [replace(entry, embedder="new") for entry in entries(table)])
    assert widths(database) == [("new", 1700, 120)]
    other.close()
    database.close()


def test_vectors_are_stored_where_measuring_fails(
    postgres_database: Callable[[], str], caplog: pytest.LogCaptureFixture
) -> None:
    """All are compared then, as the log says; the next time, when the scope has grown, it is tried again."""
    url = postgres_database()
    database, index = index_on(url, graph_from=500)
    table = clustered(1300, 16)
    index.put(SCOPE, "document", entries(table[:100]))
    refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no room'; END $$"
    with database.engine.begin() as connection:
        connection.execute(text(refuse))
        connection.execute(
            text("CREATE TRIGGER refuse BEFORE INSERT ON arc_index_walks FOR EACH ROW EXECUTE FUNCTION refuse()")
        )
    index.put(SCOPE, "document", entries(table)[100:800])
    assert "are not measured" in caplog.text
    assert index.count(SCOPE, "document") == 800
    before = scans(database, url, 16)
    assert nearest_found(index, table[:800], table[:20], 10) == 1.0
    assert scans(database, url, 16) == before
    with database.engine.begin() as connection:
        connection.execute(text("DROP TRIGGER refuse ON arc_index_walks"))
    index.put(SCOPE, "document", entries(table)[800:])
    assert widths(database) == [("test", 1300, 120)]
    database.close()


def test_until_walks_are_measured_all_are_compared(postgres_database: Callable[[], str]) -> None:
    """What was measured of other vectors says nothing either; the next that is added has them measured."""
    url = postgres_database()
    database, index = index_on(url, graph_from=500)
    table = clustered(800, 16)
    index.put(SCOPE, "document", entries(table))
    for statement, walks in (
        ("UPDATE arc_index_walks SET embedder = 'former'", False),
        ("DELETE FROM arc_index_walks", False),
        ("SELECT 1", True),
    ):
        with database.engine.begin() as connection:
            connection.execute(text(statement))
        before = scans(database, url, 16)
        database, index = index_on(url, graph_from=500)
        assert nearest_found(index, table, table[:20], 10) == 1.0
        assert (scans(database, url, 16) > before) is walks
        index.put(SCOPE, "document", entries(table)[:1])
    database.close()


def test_what_a_walk_leaves_short_is_compared(postgres_database: Callable[[], str]) -> None:
    """Half of all pass a filter, and hardly any of those near: its ten nearest are found, which no walk comes to."""
    url = postgres_database()
    database, index = index_on(url, graph_from=500)
    table = np.abs(clustered(2000, 16))
    table[::2, 0] = -1 - table[::2, 0]
    table = unit(table)
    passes = [bool(n % 2 or n % 500 == 0) for n in range(2000)]
    labelled = [replace(one, metadata={"side": side}) for one, side in zip(entries(table), passes, strict=True)]
    index.put(SCOPE, "document", labelled)
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE arc_index_walks SET near = '{120,120,120}'"))
    measured = scans(database, url, 16)
    database, index = index_on(url, graph_from=500)  # remembers nothing
    for query in table[:20:2]:
        asked = Condition("side", "eq", value=True)
        found = index.dense(SCOPE, "document", query, embedder="test", filters=asked, limit=10)
        passing = [n for n in np.argsort(-(table @ query), kind="stable") if passes[n]]
        assert [name for name, _ in found] == [f"{n:05}" for n in passing[:10]]
    assert scans(database, url, 16) > measured
    database.close()


def test_a_database_made_anew_is_not_taken_for_the_former(postgres_database: Callable[[], str]) -> None:
    """Its scopes have the same numbers and other salts: what was learned of the former ones is not asked of them."""
    database, index = index_on(postgres_database(), graph_from=10_000)
    table = clustered(40, 8)
    asked = Not(Condition("part", "eq", 3))
    for _ in range(2):
        index.put(SCOPE, "document", entries(table))
        found = index.dense(SCOPE, "document", table[3], embedder="test", filters=asked, limit=40)
        assert sorted(name for name, _ in found) == [f"{n:05}" for n in range(40) if n % 20 != 3]
        with database.engine.begin() as connection:
            other = SqlStore(database.engine)
            other.index.erase(SCOPE)
            connection.execute(text("TRUNCATE arc_index_scopes RESTART IDENTITY CASCADE"))
    database.close()


class Named:
    """Says whose the vectors are that entries and questions bring."""

    name = "test"

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        raise NotImplementedError


@pytest.mark.parametrize(("asked", "walks"), [("dense", True), ("hybrid", False)])
def test_a_search_by_vectors_alone_looks_no_farther_than_asked(
    postgres_database: Callable[[], str], asked: SearchMode, *, walks: bool
) -> None:
    """Ten are walked to where the hundred that fusing takes are out of a walk's reach; both find the same."""
    url = postgres_database()
    database, index = index_on(url, graph_from=500)
    table = clustered(800, 16)
    index.put(SCOPE, "document", entries(table))
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE arc_index_walks SET near = '{120,NaN,NaN}', aside = '{120,NaN,NaN}'"))
    measured = scans(database, url, 16)
    database, index = index_on(url, graph_from=500)  # remembers nothing
    hybrid = HybridIndex(index, scope=SCOPE, embedder=Named())
    for query in table[:10]:
        found = hybrid.search("", vector=query.tolist(), mode=asked, top_k=10)
        nearest = [f"{n:05}" for n in np.argsort(-(table @ query), kind="stable")[:10]]
        assert [one.document.id for one in found] == nearest
    assert (scans(database, url, 16) > measured) is walks


def test_ranges_are_those_of_a_scope(postgres_database: Callable[[], str]) -> None:
    """A compared range finds what is in the scope, whatever others have under the same key."""
    database, index = index_on(postgres_database(), graph_from=10_000)
    table = clustered(40, 8)
    for scope in (SCOPE, Scope("stranger"), Scope("caller", session_id="other")):
        index.put(scope, "document", entries(table))
    asked = AllOf((Condition("n", "lt", 20), Condition("n", "gte", 15)))
    found = index.dense(SCOPE, "document", table[0], embedder="test", filters=asked, limit=40)
    assert sorted(name for name, _ in found) == [f"{n:05}" for n in range(15, 20)]
    database.close()


def test_an_exact_search_walks_no_graph(postgres_database: Callable[[], str]) -> None:
    """What is asked for exactly, or among named entries, is compared with all of them."""
    url = postgres_database()
    database, index = index_on(url, graph_from=100)
    table = clustered(600, 8)
    index.put(SCOPE, "document", entries(table))
    measured = scans(database, url, 8)
    for query in table[:10]:
        found = index.dense(SCOPE, "document", query, embedder="test", limit=600, exact=True)
        assert [name for name, _ in found] == [f"{n:05}" for n in np.argsort(-(table @ query), kind="stable")]
        named = index.dense(SCOPE, "document", query, embedder="test", ids=["00001", "00002"], limit=9)
        assert {name for name, _ in named} == {"00001", "00002"}
    assert len(index.dense(SCOPE, "document", table[0], embedder="test", limit=600)) == 600
    assert scans(database, url, 8) == measured


@pytest.mark.parametrize(("dimension", "has_graph"), [(2500, True), (4001, False)], ids=["half precision", "no graph"])
def test_long_vectors(postgres_database: Callable[[], str], dimension: int, *, has_graph: bool) -> None:
    """Beyond 2,000 numbers the graph has half their precision, beyond 4,000 there is none: the cosines are exact."""
    url = postgres_database()
    database, index = index_on(url, graph_from=300)
    table = clustered(600, dimension)
    index.put(SCOPE, "document", entries(table))
    measured = scans(database, url, dimension)
    for query in table[:5]:
        found = index.dense(SCOPE, "document", query, embedder="test", limit=5)
        nearest = np.argsort(-(table @ query))[:5]
        assert [name for name, _ in found] == [f"{n:05}" for n in nearest]
        assert [cosine for _, cosine in found] == pytest.approx((table @ query)[nearest].tolist(), abs=1e-5)
    walked = scans(database, url, dimension)
    assert walked > measured if has_graph else walked == -1


def test_a_server_without_pgvector_searches_by_words(postgres: PostgresServer) -> None:
    """Vectors are an error that says what to do, and nothing is written; once pgvector is there, they work."""
    url = new_database(postgres, tables=False)
    name = url.rpartition("/")[2]
    with psycopg.connect(postgres.dsn(name), autocommit=True) as admin:
        admin.execute(f"CREATE ROLE plain_{name} LOGIN")
        admin.execute(f"GRANT CREATE, USAGE ON SCHEMA public TO plain_{name}")
        store = SqlStore(url.replace("arc@", f"plain_{name}@"))
        store.index.put(SCOPE, "document", [an_entry("a", "word")])
        assert matching(store.index, SCOPE, "word") == ["a"]
        with pytest.raises(ConfigurationError, match="CREATE EXTENSION vector"):
            store.index.put(SCOPE, "document", [an_entry("b", "word", vector=[1, 0])])
        assert store.index.count(SCOPE, "document") == 1
        assert store.index.scan(SCOPE, "document", limit=9) == [an_entry("a", "word")]
        assert store.index.dense(SCOPE, "document", np.array([1, 0], np.float32), embedder="test", limit=9) == []
        assert store.index.vectors(SCOPE, "document", ["a"]) == {}
        admin.execute("CREATE EXTENSION vector")
        store.index.put(SCOPE, "document", [an_entry("b", "word", vector=[1, 0])])
        found = store.index.dense(SCOPE, "document", np.array([1, 0], np.float32), embedder="test", limit=9)
        assert [entry_id for entry_id, _ in found] == ["b"]
        assert store.index.vectors(SCOPE, "document", ["a", "b"])["b"].tolist() == [1, 0]
        store.close()


def test_the_plan() -> None:
    """Few vectors are compared, a scope that is little of its graph too; else the graph is walked as far as needed."""
    graph, reach = Graph(384, 100_000), Reach("test", 100_000, 1.0, (120, 140, 240), (120, 140, 240))
    plan: dict[str, Any] = {"compared": 5_000, "limit": 10}
    assert walks_for(graph, reach, vectors=4_000, share=1.0, **plan) == []
    for share in (0.001, 0.01, 0.05):
        assert walks_for(graph, reach, vectors=100_000, share=share, **plan) == []
    assert walks_for(Graph(384, 10_000_000), reach, vectors=20_000, share=1.0, **plan) == []
    walks = [walks_for(graph, reach, vectors=100_000, share=share, **plan) for share in (1.0, 0.5, 0.2, 0.11)]
    assert [[walk.ef_search for walk in tried] for tried in walks] == [[120], [125], [140], [222]]
    assert walks_for(graph, reach, compared=5_000, vectors=100_000, share=1.0, limit=1_000) == []
    unknown = replace(reach, near=(120, nan, nan), aside=(120, nan, nan))  # where a walk finds ten, and none fifty
    assert walks_for(graph, unknown, vectors=100_000, share=1.0, **plan) == walks[0]
    assert walks_for(graph, unknown, vectors=100_000, share=0.5, **plan) == []
    assert walks_for(graph, Reach(), vectors=100_000, share=1.0, **plan) == []
    thinned = walks_for(Graph(384, 200_000), reach, vectors=100_000, share=1.0, **plan)  # others came, none of it went
    assert thinned == walks[1]
    assert "halfvec(3000)" in index_ddl(3000)


def test_the_plan_for_questions_aside() -> None:
    """They are told by what the first walk finds; the second is as wide as they need, or all are compared."""
    graph, reach = Graph(384, 100_000), Reach("test", 100_000, 1.0, (120,) * 3, (240, 480, nan), (0.6, 0.4, 0.3))
    plan: dict[str, Any] = {"compared": 5_000, "vectors": 100_000, "limit": 10}
    tried = {share: walks_for(graph, reach, share=share, **plan) for share in (1.0, 0.5, 0.2)}
    assert [[walk.ef_search for walk in walks] for walks in tried.values()] == [[120, 240], [120, 300], [120]]
    assert [walks[0].cosine for walks in tried.values()] == pytest.approx([0.6, 0.55, 0.4])
    assert [walk.cosine for walks in tried.values() for walk in walks[1:]] == [-1.0, -1.0]


@pytest.mark.parametrize("vectors", [30_000, 48_000, 100_000, 400_000])
def test_the_wider_the_walk_the_more_are_compared(vectors: int) -> None:
    """A quarter is walked to in a scope of any size, and no share where so wide a walk is not worth it."""
    widths: dict[int, int] = {}
    reach = Reach("test", vectors, 1.0, (120, 140, 240), (120, 140, 240))
    for percent in range(100, 0, -1):
        walks = walks_for(Graph(384, vectors), reach, compared=5_000, vectors=vectors, share=percent / 100, limit=10)
        if walks:
            widths[percent] = walks[0].ef_search
            assert vectors * percent / 100 > 5_000 * walks[0].ef_search / widths[100]
    assert sorted(widths) == list(range(min(widths), 101))
    assert 1 < min(widths) <= 25


def among_many(url: str) -> tuple[Database, SqlIndexStore, NDArray[np.float32]]:
    """A thousand vectors among so many that the database would care for how many pass, and how many are wanted."""
    database, index = index_on(url, graph_from=10_000)
    table = clustered(1000, 8)
    words = [replace(entry, metadata={**entry.metadata, "word": f"w{n:04}"}) for n, entry in enumerate(entries(table))]
    index.put(SCOPE, "document", words)
    for n in range(20):
        index.put(Scope(f"small {n}"), "document", words[:5])
    more = (
        "INSERT INTO arc_index_vectors (id, scope, caller_id, vector, entry_id, sample, labels) "
        "SELECT id + 2000 * n, scope, caller_id, vector, entry_id || n, sample, '{0}' "
        "FROM arc_index_vectors, generate_series(1, 100) AS n"
    )
    with database.engine.begin() as connection:
        connection.execute(text(more))
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))
    return database, index, table


FEW: dict[str, Filter] = {
    "equal": Condition("rare", "eq", 7),
    "number": Condition("n", "lt", 40),
    "text": Condition("word", "gte", "w0990"),
    "one of two": AnyOf((Condition("rare", "eq", 7), Condition("n", "lt", 40))),
    "both": AllOf((Condition("n", "lt", 40), Not(Condition("part", "eq", 3)))),
}


@pytest.mark.parametrize("filters", FEW.values(), ids=FEW)
def test_few_are_found_without_reading_all(postgres_database: Callable[[], str], filters: Filter) -> None:
    """Nor is the scope gathered, which the database takes for small where there are many."""
    url = postgres_database()
    database, index, table = among_many(url)
    before = blocks(database, url)
    for vector in table[:15]:
        assert index.dense(SCOPE, "document", vector, embedder="test", filters=filters, limit=3)
    assert blocks(database, url) - before < 15 * 100
    gathered = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'arc_index_vectors_sample'"
    assert reported(database, url, gathered) == 0


def test_what_must_not_be_is_planned_for_its_scope(postgres_database: Callable[[], str]) -> None:
    """A search that reads its whole scope anyhow: a plan for one of the mean size looks up its rows one by one."""
    url = postgres_database()
    database, index = index_on(url, graph_from=10_000)
    table = clustered(100, 8)
    index.put(SCOPE, "document", entries(table))
    with database.engine.begin() as connection:
        name = connection.execute(text("SELECT current_database()")).scalar_one()
        connection.execute(text(f"ALTER DATABASE {name} SET plan_cache_mode = force_generic_plan"))
    database.close()
    database, index = index_on(url, graph_from=10_000)
    for vector in table[:15]:
        asked = Not(Condition("n", "gte", 40))
        found = index.dense(SCOPE, "document", vector, embedder="test", filters=asked, limit=100)
        assert sorted(name for name, _ in found) == [f"{n:05}" for n in range(40)]
    with database.engine.begin() as connection:
        prepared = "SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE statement LIKE '%<#>%'"
        ((generic, custom),) = connection.execute(text(prepared)).all()
    assert generic == 0
    assert custom > 0
    database.close()


@pytest.mark.parametrize("filters", FEW.values(), ids=FEW)
def test_one_plan_does_for_all_values(postgres_database: Callable[[], str], filters: Filter) -> None:
    """A compared search is planned for five values, then no more: planning takes as long as comparing a few."""
    database, index, table = among_many(postgres_database())
    for vector in table[:15]:
        assert index.dense(SCOPE, "document", vector, embedder="test", filters=filters, limit=3)
    with database.engine.begin() as connection:
        prepared = "SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE statement LIKE '%<#>%'"
        ((generic, custom),) = connection.execute(text(prepared)).all()
    assert custom == 5
    assert generic > 0
    database.close()


@pytest.mark.parametrize("filters", [None, *FEW.values()], ids=["all", *FEW])
def test_each_vector_is_compared_once(postgres_database: Callable[[], str], filters: Filter | None) -> None:
    """Not once for the order, and again for the cosine that is returned."""
    url = postgres_database()
    database, index = index_on(url, graph_from=10_000)
    table = clustered(100, 8)
    words = [
        replace(entry, metadata={**entry.metadata, "word": f"w{n + 900:04}"}) for n, entry in enumerate(entries(table))
    ]
    index.put(SCOPE, "document", words)
    with database.engine.begin() as connection:
        name = connection.execute(text("SELECT current_database()")).scalar_one()
        connection.execute(text(f"ALTER DATABASE {name} SET track_functions = 'all'"))
    database.close()
    passing = index.count(SCOPE, "document", filters=filters)
    index.dense(SCOPE, "document", table[0], embedder="test", filters=filters, limit=3)
    compared = "SELECT calls FROM pg_stat_user_functions WHERE funcname = 'vector_negative_inner_product'"
    assert reported(database, url, compared) == passing


def test_labels_are_spelt_out_before_they_are_sent(postgres_database: Callable[[], str]) -> None:
    """In a list, psycopg would look for the types of its items anew at each search."""
    database, index = index_on(postgres_database(), graph_from=10_000)
    index.put(SCOPE, "document", entries(clustered(100, 8)))
    called: set[str] = set()

    def search(filters: Filter) -> list[tuple[str, float]]:
        return index.dense(SCOPE, "document", np.eye(8, dtype=np.float32)[0], embedder="test", filters=filters, limit=3)

    search(FEW["equal"])
    sys.setprofile(lambda frame, event, _: called.add(frame.f_globals["__name__"]))
    try:
        found = search(OneOf("rare", (7, 8, 9)))
    finally:
        sys.setprofile(None)
    assert sorted(name for name, _ in found) == ["00007", "00008", "00009"]
    assert "psycopg._queries" in called
    assert "psycopg.types.array" not in called
    database.close()


def test_what_was_just_added_does_not_slow_searches(postgres_database: Callable[[], str]) -> None:
    """What an index has still to take in is a list that each search reads: of some pages, not of hundreds."""
    database, index = index_on(postgres_database(), graph_from=10_000)
    index.put(SCOPE, "document", [replace(one, terms={one.id: 1, "all": 1}) for one in entries(clustered(4000, 4))])
    for table, column in (("arc_index_vectors", "labels"), ("arc_index_entries", "tokens")):
        asked = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT id FROM {table} WHERE {column} && '{{0}}'"
        with database.engine.begin() as connection:
            connection.execute(text("SET LOCAL enable_seqscan = off"))
            plan = connection.execute(text(asked)).scalar_one()[0]["Plan"]
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 30
    database.close()


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=40))
def test_a_packed_vector_is_pgvector_s_own_form(numbers: list[float]) -> None:
    """Bit for bit, from arrays that lie in memory in any way."""
    vector = np.array([numbers, numbers], np.float32).T[:, 0]
    packed = PackedVector.of(vector)
    assert bytes(packed) == Vector(numbers).to_binary()
    assert packed.unpacked().tobytes() == vector.tobytes()
