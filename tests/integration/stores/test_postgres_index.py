"""The index on PostgreSQL: plans by the share that passes a filter, graphs, and servers without pgvector."""

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pgvector import Vector
from sqlalchemy import NullPool, create_engine, text

from arc_common.exceptions import ConfigurationError, MissingDependencyError
from arc_common.filters import AllOf, AnyOf, Condition, Filter, Not, OneOf
from arc_common.protocols.search_index import IndexEntry, Scope
from arc_common.retrieval import HybridIndex
from arc_common.retrieval.index import SearchMode
from arc_common.settings import StorageSettings
from arc_common.stores.conversations import SqlStore
from arc_common.stores.database.connection import Database
from arc_common.stores.database.drivers import send_vectors
from arc_common.stores.search_index.postgres import index_ddl, index_name, walk_width
from arc_common.stores.search_index.store import SqlIndexStore
from tests.contracts.index_queries import count, dense, lexical, vectors_of
from tests.contracts.search_index_contract import an_entry, matching
from tests.support.databases import new_database
from tests.support.servers import PostgresServer

SCOPE = Scope("caller")
GRAPH = {"name": "arc_index_vectors_hnsw_8"}


def clustered(count: int, dimension: int) -> NDArray[np.float32]:
    """Return unit vectors, about ten around each centre."""
    rng = np.random.default_rng(3)
    centres = rng.standard_normal((count // 10, dimension), dtype=np.float32)
    table = centres[rng.integers(len(centres), size=count)]
    table += 0.5 * rng.standard_normal((count, dimension), dtype=np.float32)
    unit: NDArray[np.float32] = table / np.linalg.norm(table, axis=1, keepdims=True)
    return unit


def entries(table: NDArray[np.float32]) -> list[IndexEntry]:
    """Return an entry for each vector, with metadata by its number."""
    return [
        IndexEntry(f"{n:05}", "", {}, {"n": n, "part": n % 20, "rare": n % 1000}, None, vector, "test")
        for n, vector in enumerate(table)
    ]


def index_on(url: str, *, graph_from: int) -> tuple[Database, SqlIndexStore]:
    database = Database(url, settings=StorageSettings(index_graph_from=graph_from))
    return database, SqlIndexStore(database)


def scans(database: Database, url: str, dimension: int) -> int:
    """Return the number of walks of the graph, or -1 if there is none."""
    walked = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = :name"
    found = reported(database, url, walked, name=f"arc_index_vectors_hnsw_{dimension}")
    return -1 if found is None else int(found)


def blocks(database: Database, url: str) -> int:
    """Return the number of blocks of vectors that were read."""
    read = "SELECT heap_blks_hit + heap_blks_read FROM pg_statio_user_tables WHERE relname = 'arc_index_vectors'"
    return int(reported(database, url, read))


def reported(database: Database, url: str, query: str, **asked: str) -> Any:
    """Close the connections, which then report, and return one of the statistics."""
    database.close()
    others = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
    )
    engine = create_engine(url)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        wait_until(lambda: connection.execute(others).scalar_one() <= 1)
        found = connection.execute(text(query), asked).scalar()
    engine.dispose()
    return found


SHARES: dict[str, tuple[Filter | None, Callable[[int], bool]]] = {
    "one": (Condition("rare", "eq", 7), lambda n: n % 1000 == 7),
    "1 %": (Condition("n", "lt", 10), lambda n: n < 10),
    "5 %": (Condition("part", "eq", 3), lambda n: n % 20 == 3),
    "20 %": (OneOf("part", (1, 2, 3, 4)), lambda n: n % 20 in (1, 2, 3, 4)),
    "37 %": (AllOf((Condition("n", "gte", 250), Condition("part", "lt", 10))), lambda n: n >= 250 and n % 20 < 10),
    "all by a filter": (Condition("n", "gte", 0), lambda n: True),
    "all": (None, lambda n: True),
}


def test_filters_keep_recall_and_rows(postgres_database: Callable[[], str]) -> None:
    """For any share that passes the filter, a search beside a larger tenant finds the ten nearest."""
    url = postgres_database()
    database, index = index_on(url, graph_from=100)
    table = clustered(1000, 24)
    index.put(Scope("stranger"), "document", entries(clustered(1200, 24)[::-1]))
    index.put(SCOPE, "document", entries(table))
    before = scans(database, url, 24)
    queries = unit(table[:10] + np.float32(0.02))
    all_hits = wanted = 0
    for name, (filters, passes) in SHARES.items():
        passing = np.array([n for n in range(len(table)) if passes(n)])
        hits = 0
        for query in queries:
            nearest = passing[np.argsort(-(table[passing] @ query), kind="stable")[:10]]
            found = dense(index, SCOPE, "document", query, embedder="test", filters=filters, limit=10)
            assert len(found) == len(nearest)
            hits += len({entry_id for entry_id, _ in found} & {f"{n:05}" for n in nearest})
        assert hits >= 0.95 * min(10, len(passing)) * len(queries), name  # each graph differs a little
        all_hits, wanted = all_hits + hits, wanted + min(10, len(passing)) * len(queries)
    assert all_hits >= 0.99 * wanted
    assert scans(database, url, 24) >= before + 2 * len(queries)  # for 37 %, the planner decides by its statistics


def wait_until(happens: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    rows: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return rows


def nearest_found(index: SqlIndexStore, table: NDArray[np.float32], queries: NDArray[np.float32], limit: int) -> float:
    """Return the share of the nearest entries that searches find."""
    found = 0
    for query in queries:
        names = {name for name, _ in dense(index, SCOPE, "document", query, embedder="test", limit=limit)}
        found += len(names & {f"{n:05}" for n in np.argsort(-(table @ query), kind="stable")[:limit]})
    return found / limit / len(queries)


@pytest.mark.parametrize(("dimension", "limit"), [(24, 10), pytest.param(96, 100, marks=pytest.mark.torture)])
def test_vectors_in_all_directions_are_found_too(
    postgres_database: Callable[[], str], dimension: int, limit: int
) -> None:
    """Graphs are least reliable without clusters; walks over 2,000 such vectors still find 99 %."""
    url = postgres_database()
    database, index = index_on(url, graph_from=300)
    rows = unit(np.random.default_rng(5).standard_normal((2030, dimension), dtype=np.float32))
    table, queries = rows[:2000], rows[2000:]
    index.put(SCOPE, "document", entries(table))
    assert nearest_found(index, table, queries, limit) >= 0.99
    assert scans(database, url, dimension) == len(queries)


def test_other_writers_do_not_wait_for_a_graph(postgres_database: Callable[[], str]) -> None:
    """A builder waits for an earlier writer; later writers wait for neither."""
    url = postgres_database()
    database, index = index_on(url, graph_from=50)
    table = clustered(100, 8)
    index.put(SCOPE, "document", entries(table)[:50])
    application = create_engine(url, poolclass=NullPool)  # arc's own connections commit by themselves
    with ThreadPoolExecutor(1) as building, application.begin() as before:
        before.execute(text("UPDATE arc_index_vectors SET labels = labels WHERE entry_id = '00001'"))
        built = building.submit(index.put, SCOPE, "document", entries(table)[50:])
        waiting = text(
            "SELECT count(*) FROM pg_locks waiting JOIN pg_locks held USING (pid)"
            " JOIN pg_database ON oid = held.database AND datname = current_database()"
            " WHERE waiting.locktype = 'virtualxid' AND NOT waiting.granted"
        )
        wait_until(lambda: before.execute(waiting).scalar_one() > 0)
        for name in ("first", "second"):  # the second has as many vectors, and leaves the building to the other
            other, others = index_on(url, graph_from=50)
            others.put(Scope(name), "document", entries(table))
            other.close()
        assert not built.done()
    built.result()
    assert scans(database, url, 8) == 0


def test_a_graph_that_was_not_completed_is_built_anew(
    postgres_database: Callable[[], str], caplog: pytest.LogCaptureFixture
) -> None:
    """If building fails, vectors are stored and compared, and the log says so; the next addition builds the graph."""
    url = postgres_database()
    database, index = index_on(url, graph_from=50)
    table = clustered(300, 8)
    refuse = "CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no room'; END $$"
    trigger = "CREATE EVENT TRIGGER refuse ON ddl_command_start WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION refuse()"
    index.put(SCOPE, "document", entries(table)[:50])
    with database.engine.begin() as connection:
        connection.execute(text(refuse))
        connection.execute(text(trigger))
    index.put(SCOPE, "document", entries(table)[50:100])
    assert "was not built" in caplog.text
    assert nearest_found(index, table[:100], table[:20], 10) == 1.0
    with database.engine.begin() as connection:
        connection.execute(text("DROP EVENT TRIGGER refuse"))
        connection.execute(text(index_ddl(index_name(8), "vector(8)", 8).replace("CONCURRENTLY", "")))
        connection.execute(text("UPDATE pg_index SET indisvalid = false WHERE indexrelid = to_regclass(:name)"), GRAPH)
    assert nearest_found(index, table[:100], table[:20], 10) == 1.0
    assert scans(database, url, 8) == 0
    index.put(SCOPE, "document", entries(table)[100:])
    assert nearest_found(index, table, table[:20], 10) >= 0.99
    assert scans(database, url, 8) == 20


def test_a_graph_is_built_through_a_pooler(pooled_postgres: PostgresServer, postgres: PostgresServer) -> None:
    """Behind PgBouncer, a builder leaves no lock and no setting on shared connections."""
    url = pooled_postgres.url(new_database(postgres).rpartition("/")[2])
    settings = StorageSettings(index_graph_from=50, transaction_pooling=True)
    database = Database(url, settings=settings)
    SqlIndexStore(database).put(SCOPE, "document", entries(clustered(100, 8)))
    with database.engine.connect() as connection:
        assert connection.exec_driver_sql(f"SELECT to_regclass('{GRAPH['name']}') IS NOT NULL").scalar()
        for _ in range(8):
            locks = "SELECT datname FROM pg_locks JOIN pg_database ON oid = database WHERE locktype = 'advisory'"
            assert url.rpartition("/")[2] not in connection.exec_driver_sql(locks).scalars().all()
            assert connection.exec_driver_sql("SHOW statement_timeout").scalar() == "0"
            assert connection.exec_driver_sql("SHOW maintenance_work_mem").scalar() == "64MB"
            connection.rollback()
    database.close()


def test_a_walk_that_finds_too_few_is_completed_by_comparing(postgres_database: Callable[[], str]) -> None:
    url = postgres_database()
    database, index = index_on(url, graph_from=500)
    table = np.abs(clustered(2000, 16))
    table[::2, 0] = -1 - table[::2, 0]
    table = unit(table)
    passes = [bool(n % 2 or n % 500 == 0) for n in range(2000)]
    labelled = [replace(one, metadata={"side": side}) for one, side in zip(entries(table), passes, strict=True)]
    index.put(SCOPE, "document", labelled)
    before = scans(database, url, 16)
    for query in table[:20:2]:
        asked = Condition("side", "eq", value=True)
        found = dense(index, SCOPE, "document", query, embedder="test", filters=asked, limit=10)
        passing = [n for n in np.argsort(-(table @ query), kind="stable") if passes[n]]
        assert [name for name, _ in found] == [f"{n:05}" for n in passing[:10]]
    assert scans(database, url, 16) > before
    database.close()


def test_a_database_created_again_is_not_taken_for_the_former(postgres_database: Callable[[], str]) -> None:
    """Its scopes have the same numbers and other salts; cached data of the former scopes is not used for them."""
    database, index = index_on(postgres_database(), graph_from=10_000)
    table = clustered(40, 8)
    asked = Not(Condition("part", "eq", 3))
    for _ in range(2):
        index.put(SCOPE, "document", entries(table))
        found = dense(index, SCOPE, "document", table[3], embedder="test", filters=asked, limit=40)
        assert sorted(name for name, _ in found) == [f"{n:05}" for n in range(40) if n % 20 != 3]
        with database.engine.begin() as connection:
            other = SqlStore(database.engine)
            other.index.remove(SCOPE, None, None)
            connection.execute(text("ALTER SEQUENCE arc_index_rows RESTART"))
    database.close()


class Named:
    """Names the embedder of given vectors."""

    name = "test"

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        raise NotImplementedError


@pytest.mark.parametrize(("asked", "walks"), [("dense", True), ("hybrid", False)])
def test_a_search_by_vectors_alone_looks_no_farther_than_asked(
    postgres_database: Callable[[], str], asked: SearchMode, *, walks: bool
) -> None:
    """A search for ten walks; fusion takes a hundred, which comparing finds sooner. Both find the same."""
    url = postgres_database()
    database, index = index_on(url, graph_from=500)
    table = clustered(800, 16)
    index.put(SCOPE, "document", entries(table))
    before = scans(database, url, 16)
    hybrid = HybridIndex(index, scope=SCOPE, embedder=Named())
    for query in table[:10]:
        found = hybrid.search("", vector=query.tolist(), mode=asked, top_k=10)
        nearest = [f"{n:05}" for n in np.argsort(-(table @ query), kind="stable")[:10]]
        assert [one.document.id for one in found] == nearest
    assert (scans(database, url, 16) > before) is walks


def test_ranges_are_those_of_a_scope(postgres_database: Callable[[], str]) -> None:
    """A range finds only entries of its scope, although other scopes have the same key."""
    database, index = index_on(postgres_database(), graph_from=10_000)
    table = clustered(40, 8)
    for scope in (SCOPE, Scope("stranger"), Scope("caller", session_id="other")):
        index.put(scope, "document", entries(table))
    asked = AllOf((Condition("n", "lt", 20), Condition("n", "gte", 15)))
    found = dense(index, SCOPE, "document", table[0], embedder="test", filters=asked, limit=40)
    assert sorted(name for name, _ in found) == [f"{n:05}" for n in range(15, 20)]
    database.close()


def test_an_exact_search_walks_no_graph(postgres_database: Callable[[], str]) -> None:
    """An exact search, or one among given ids, compares all vectors."""
    url = postgres_database()
    database, index = index_on(url, graph_from=100)
    table = clustered(600, 8)
    index.put(SCOPE, "document", entries(table))
    measured = scans(database, url, 8)
    for query in table[:10]:
        found = dense(index, SCOPE, "document", query, embedder="test", limit=600, exact=True)
        assert [name for name, _ in found] == [f"{n:05}" for n in np.argsort(-(table @ query), kind="stable")]
        named = dense(index, SCOPE, "document", query, embedder="test", ids=["00001", "00002"], limit=9)
        assert {name for name, _ in named} == {"00001", "00002"}
    assert len(dense(index, SCOPE, "document", table[0], embedder="test", limit=600)) == 600
    assert scans(database, url, 8) == measured


@pytest.mark.parametrize(("dimension", "has_graph"), [(2500, True), (4001, False)], ids=["half precision", "no graph"])
def test_long_vectors(postgres_database: Callable[[], str], dimension: int, *, has_graph: bool) -> None:
    """Beyond 2,000 dimensions the graph has half precision, beyond 4,000 there is none; the cosines are exact."""
    url = postgres_database()
    database, index = index_on(url, graph_from=300)
    table = clustered(600, dimension)
    index.put(SCOPE, "document", entries(table))
    measured = scans(database, url, dimension)
    for query in table[:5]:
        found = dense(index, SCOPE, "document", query, embedder="test", limit=5)
        nearest = np.argsort(-(table @ query))[:5]
        assert [name for name, _ in found] == [f"{n:05}" for n in nearest]
        assert [cosine for _, cosine in found] == pytest.approx((table @ query)[nearest].tolist(), abs=1e-5)
    walked = scans(database, url, dimension)
    assert walked > measured if has_graph else walked == -1


def test_a_server_without_pgvector_searches_by_words(postgres: PostgresServer) -> None:
    """Adding vectors raises an error that names the command and writes nothing; with pgvector, it works."""
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
        assert count(store.index, SCOPE, "document") == 1
        assert store.index.scan(SCOPE, "document", limit=9) == [an_entry("a", "word")]
        assert dense(store.index, SCOPE, "document", np.array([1, 0], np.float32), embedder="test", limit=9) == []
        assert vectors_of(store.index, SCOPE, "document", ["a"]) == {}
        admin.execute("CREATE EXTENSION vector")
        store.index.put(SCOPE, "document", [an_entry("b", "word", vector=[1, 0])])
        found = dense(store.index, SCOPE, "document", np.array([1, 0], np.float32), embedder="test", limit=9)
        assert [entry_id for entry_id, _ in found] == ["b"]
        assert vectors_of(store.index, SCOPE, "document", ["a", "b"])["b"].tolist() == [1, 0]
        store.close()


def test_the_width_of_a_walk_depends_on_the_share_that_passes() -> None:
    """A walk is wider if fewer of the graph pass a filter; where comparing is shorter, there is no walk."""
    for passing, graph, limit, width in (
        (100_000, 100_000, 10, 120),
        (20_000, 100_000, 10, 120),
        (10_000, 100_000, 10, 200),
        (100_000, 100_000, 100, 200),
        (5_000, 100_000, 10, None),
        (6_000, 100_000, 10, None),
        (20_000, 10_000_000, 10, None),
        (100_000, 100_000, 1_000, None),
    ):
        assert walk_width(ef_search=120, compared=5_000, graph=graph, passing=passing, limit=limit) == width


def among_many(url: str) -> tuple[Database, SqlIndexStore, NDArray[np.float32]]:
    """Add 1,000 vectors among so many that the planner would choose by the share that passes and by the limit."""
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


PLANS = "SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE statement LIKE '%<#>%'"


def test_a_filter_that_few_pass_has_one_plan_and_does_not_read_all(postgres_database: Callable[[], str]) -> None:
    """A search is planned for five values, then no more; it neither reads all vectors nor gathers the scope."""
    url = postgres_database()
    database, index, table = among_many(url)
    for name, filters in FEW.items():
        before = blocks(database, url)
        for vector in table[:15]:
            assert dense(index, SCOPE, "document", vector, embedder="test", filters=filters, limit=3)
        with database.engine.begin() as connection:
            ((generic, custom),) = connection.execute(text(PLANS)).all()
        assert (custom, generic > 0) == (5, True), name
        assert blocks(database, url) - before < 15 * 100, name
    gathered = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'arc_index_vectors_sample'"
    assert reported(database, url, gathered) == 0


def test_a_negated_filter_is_planned_for_its_scope(postgres_database: Callable[[], str]) -> None:
    """A negated filter reads its whole scope; a generic plan would look up the rows one by one."""
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
        found = dense(index, SCOPE, "document", vector, embedder="test", filters=asked, limit=100)
        assert sorted(name for name, _ in found) == [f"{n:05}" for n in range(40)]
    with database.engine.begin() as connection:
        ((generic, custom),) = connection.execute(text(PLANS)).all()
    assert generic == 0
    assert custom > 0
    database.close()


def test_frequent_words_do_not_make_a_search_read_a_large_scope(postgres_database: Callable[[], str]) -> None:
    """The heaviest words find the entries, and all words score them; with a filter, all words find entries."""
    url = postgres_database()
    database, index = index_on(url, graph_from=10_000)
    held = [{"the": 1.0, "order": 0.0 + (n % 5 == 0), "rare": 2.0 * (n < 4)} for n in range(3_000)]
    words = [{word: times for word, times in one.items() if times} for one in held]
    index.put(SCOPE, "document", [IndexEntry(f"{n:04}", "", one, {"n": n}) for n, one in enumerate(words)])
    asked = {"the": 1.0, "order": 1.0, "rare": 1.0}
    read = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'arc_index_entries'"
    before = reported(database, url, read)
    found = lexical(index, SCOPE, "document", asked, limit=10)
    assert reported(database, url, read) - before == 600 + 3
    assert found.ids == ("0000", "0001", "0002", "0003", *(f"{n:04}" for n in range(5, 35, 5)))
    assert found.frequencies[:5].tolist() == [[1, 1, 2], [1, 0, 2], [1, 0, 2], [1, 0, 2], [1, 1, 0]]
    assert found.document_frequencies.tolist() == [3_000, 600, 4]
    before = reported(database, url, read)
    assert len(lexical(index, SCOPE, "document", {"the": 1.0}, limit=10).ids) == 10
    assert reported(database, url, read) - before == 2_000
    narrow = Condition("n", "eq", 1_001)
    assert lexical(index, SCOPE, "document", asked, limit=10, filters=narrow).ids == ("1001",)
    database.close()


def test_a_frequent_word_beside_a_rare_one_is_passed_over(postgres_database: Callable[[], str]) -> None:
    """A frequent word alone finds as many entries as requested; beside a rare word it only ranks."""
    database, index = index_on(postgres_database(), graph_from=10**9)
    scope = Scope("caller")
    index.put(scope, "message", [IndexEntry(f"e{n:04}", "", {"common": 1.0}) for n in range(1_100)])
    index.put(
        scope, "message", [IndexEntry("r0", "", {"rare": 1.0}), IndexEntry("r1", "", {"rare": 1.0, "common": 1.0})]
    )
    words = {"common": 1.0, "rare": 1.0}
    assert set(lexical(index, scope, "message", words, limit=50).ids) == {"r0", "r1"}
    assert lexical(index, scope, "message", words, limit=50).document_frequencies.tolist() == [1_101, 2]
    assert len(lexical(index, scope, "message", {"common": 1.0}, limit=50).ids) == 50
    database.close()


def test_frequent_alternatives_of_a_word_choose_no_entries(postgres_database: Callable[[], str]) -> None:
    """A term of little weight is reported for the entries that the others choose, and rare ones find entries too."""
    database, index = index_on(postgres_database(), graph_from=10**9)
    scope = Scope("caller")
    held: dict[str, dict[str, float]] = {f"e{n:04}": {"frequent": 1.0, "x": 1.0} for n in range(1_100)}
    held |= {f"a{n}": {"asked": 1.0, "frequent" if n in (0, 8, 9) else "x": 1.0} for n in range(10)}
    held |= {"b": {"seldom": 1.0, "x": 1.0}}
    index.put(scope, "message", [IndexEntry(name, "", terms) for name, terms in held.items()])
    words = {"asked": 4.0, "frequent": 1.0, "seldom": 1.0}
    found = lexical(index, scope, "message", words, limit=3)
    assert found.ids == ("a0", "a1", "a2")
    assert found.frequencies.tolist() == [[1, 1, 0], [1, 0, 0], [1, 0, 0]]
    assert found.document_frequencies.tolist() == [10, 1_103, 1]
    assert set(lexical(index, scope, "message", words, limit=50).ids) == {*(f"a{n}" for n in range(10)), "b"}
    database.close()


@pytest.mark.parametrize("holders", [1_900, 2_100])
def test_alternatives_are_left_out_where_many_have_the_words(
    holders: int, postgres_database: Callable[[], str]
) -> None:
    """A filter may let none of these entries through."""
    database, index = index_on(postgres_database(), graph_from=10**9)
    held = [{"job" if n < holders else "nurse": 1.0} for n in range(2_200)]
    index.put(SCOPE, "document", [IndexEntry(f"{n:04}", "", one, {"n": n}) for n, one in enumerate(held)])
    words = {"job": 1.0, "nurse": 0.3}
    found = lexical(index, SCOPE, "document", words, limit=2_200)
    assert len(found.ids) == (2_200 if holders == 1_900 else 2_100)
    narrow = Condition("n", "eq", 2_199)
    assert lexical(index, SCOPE, "document", words, limit=10, filters=narrow).ids == ("2199",)
    database.close()


def test_each_vector_is_compared_once(postgres_database: Callable[[], str]) -> None:
    """The order and the returned cosine come from one comparison."""
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
    compared = "SELECT sum(calls) FROM pg_stat_user_functions WHERE funcname = 'vector_negative_inner_product'"
    expected = 0
    for filters in (None, *FEW.values()):
        expected += count(index, SCOPE, "document", filters=filters)
        dense(index, SCOPE, "document", table[0], embedder="test", filters=filters, limit=3)
        assert reported(database, url, compared) == expected, filters


def test_labels_are_spelt_out_before_they_are_sent(postgres_database: Callable[[], str]) -> None:
    """For a list, psycopg would look up the types of its items at each search."""
    database, index = index_on(postgres_database(), graph_from=10_000)
    index.put(SCOPE, "document", entries(clustered(100, 8)))
    called: set[str] = set()

    def search(filters: Filter) -> list[tuple[str, float]]:
        axis = np.eye(8, dtype=np.float32)[0]
        return dense(index, SCOPE, "document", axis, embedder="test", filters=filters, limit=3)

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
    """The index's list of pending entries, which each search reads, has some pages, not hundreds."""
    database, index = index_on(postgres_database(), graph_from=10_000)
    index.put(SCOPE, "document", [replace(one, terms={one.id: 1, "all": 1}) for one in entries(clustered(4000, 4))])
    for table, column in (("arc_index_vectors", "labels"), ("arc_index_entries", "tokens")):
        asked = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT id FROM {table} WHERE {column} && '{{0}}'"
        with database.engine.begin() as connection:
            connection.execute(text("SET LOCAL enable_seqscan = off"))
            plan = connection.execute(text(asked)).scalar_one()[0]["Plan"]
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 30
    database.close()


def test_postgresql_needs_the_package_pgvector(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening a store raises an error that names the extra to install."""
    monkeypatch.setitem(sys.modules, "pgvector.psycopg.vector", None)
    with pytest.raises(MissingDependencyError, match=r"'pgvector'.*arc-context-engine\[postgres\]"):
        SqlStore("postgresql+psycopg://nobody@localhost/nowhere")


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=40))
def test_vectors_are_stored_bit_for_bit(postgres: PostgresServer, numbers: list[float]) -> None:
    """PostgreSQL returns the same numbers, for arrays of any memory layout."""
    vector = np.array([numbers, numbers], np.float32).T[:, 0]
    with psycopg.connect(postgres.dsn()) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        send_vectors(connection)
        asked = "SELECT vector_send(given), CAST(given AS text) FROM (SELECT CAST(%s AS vector) AS given) AS one"
        binary, spelt = connection.execute(asked, [Vector(vector)]).fetchone() or (b"", "")
    assert Vector.from_binary(binary).to_numpy().tobytes() == vector.tobytes()
    assert Vector.from_text(spelt).to_numpy().tobytes() == vector.tobytes()
