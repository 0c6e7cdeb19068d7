"""Settings act where they say they do."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from sqlalchemy import create_engine, event

from arc_common import ArcSettings, ContextEngine, Document, TiktokenCounter
from tests.support.databases import rows, sqlite_url


@pytest.mark.parametrize(
    ("storage", "pragma", "value"),
    [
        ({}, "synchronous", 2),
        ({"synchronous": "normal"}, "synchronous", 1),
        ({}, "secure_delete", 1),
        ({"secure_delete": False}, "secure_delete", 0),
        ({}, "busy_timeout", 30_000),
        ({"busy_timeout_seconds": 1.5}, "busy_timeout", 1_500),
    ],
    ids=str,
)
def test_sqlite_is_treated_as_the_settings_say(tmp_path, storage, pragma, value):
    """On the very connections that the store uses."""
    opened = []
    database = create_engine(sqlite_url(tmp_path))
    event.listen(database, "connect", lambda connection, _: opened.append(connection))
    with ContextEngine.open(database, settings=ArcSettings(storage=storage)) as engine:
        engine.session("s").save_turn("hi", "hello")
        assert value in [connection.execute(f"PRAGMA {pragma}").fetchone()[0] for connection in opened]
    database.dispose()


def test_the_pool_is_as_large_as_the_settings_say(postgres_database):
    """However many use the engine at once."""
    url = postgres_database()
    with ContextEngine.open(url, settings=ArcSettings(storage={"pool_size": 3})) as engine:
        with ThreadPoolExecutor(12) as pool:
            list(pool.map(lambda n: engine.session(f"s{n}").save_turn("hi", "hello"), range(60)))
        assert engine.flush(60)
        ((connections,),) = rows(
            url,
            "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        assert 1 <= connections <= 3


def test_the_index_keeps_in_memory_what_the_settings_allow(tmp_path):
    """Over SQLite, where a second search reads less then; what is found is the same."""
    counts = {}
    for index_cache_bytes in (0, 2**30):
        read = []
        database = create_engine(f"sqlite:///{tmp_path}/{index_cache_bytes}.db")
        event.listen(database, "connect", lambda connection, _, read=read: connection.set_trace_callback(read.append))
        settings = ArcSettings(storage={"index_cache_bytes": index_cache_bytes})
        with ContextEngine.open(database, embedder=Counting(), settings=settings) as engine:
            engine.documents.add([f"{'a' * n} text" for n in range(30)])
            for _ in range(2):
                read.clear()
                assert engine.documents.search("a" * 7 + " text", top_k=1)[0].document.text == "a" * 7 + " text"
            counts[index_cache_bytes] = sum("arc_index_vectors" in sql for sql in read)
        database.dispose()
    assert counts[2**30] < counts[0]


def test_postgres_walks_a_graph_from_the_number_that_the_settings_say(postgres_database):
    """A scope with more vectors than that gets one."""
    graphs = {}
    for index_graph_from in (10, 10_000):
        settings = ArcSettings(storage={"index_graph_from": index_graph_from})
        url = postgres_database()
        with ContextEngine.open(url, embedder=Counting(), settings=settings) as engine:
            engine.documents.add([f"{'a' * n} text" for n in range(30)])
            found = rows(url, "SELECT indexdef FROM pg_indexes WHERE indexdef LIKE '%hnsw%'")
            graphs[index_graph_from] = len(found)
    assert graphs == {10: 1, 10_000: 0}


def test_postgres_walks_as_wide_as_the_settings_say(postgres_database):
    """The server is told the setting, unless comparing all takes less time than a walk that finds enough."""
    widths = {}
    for index_ef_search in (1, 300, 1_000):
        given = widths[index_ef_search] = []

        class Noting(psycopg.Cursor):
            def execute(self, query, params=None, *, given=given, **options):
                given += [params["ef_search"]] if params and "ef_search" in params else []
                return super().execute(query, params, **options)

        settings = ArcSettings(storage={"index_graph_from": 10, "index_ef_search": index_ef_search})
        database = create_engine(postgres_database(), connect_args={"cursor_factory": Noting})
        with ContextEngine.open(database, embedder=Counting(), settings=settings) as engine:
            engine.documents.add([f"{'a' * n} text" for n in range(30)])
            assert engine.documents.search("aa text", top_k=1)
        database.dispose()
    assert widths == {1: [], 300: ["300"], 1_000: ["1000"]}


class Counting:
    """A vector of how often a letter occurs."""

    name = "counting"

    def embed(self, texts):
        return [[text.count("a") + 0.1, 1.0] for text in texts]


def test_the_counter_is_the_one_that_the_settings_name(tmp_path):
    """By name, with its vocabulary's place."""
    names = {}
    for counter in ("calibrated", "heuristic"):
        with ContextEngine.open(settings=ArcSettings(tokens={"counter": counter})) as engine:
            names[counter] = engine.token_counter.name.partition("/")[0]
    assert names == {"calibrated": "calibrated", "heuristic": "heuristic"}
    tokens = {"counter": "tiktoken", "encoding": "cl100k_base", "vocabulary_timeout_seconds": 0.5}
    with ContextEngine.open(settings=ArcSettings(tokens=tokens)) as engine:
        assert isinstance(engine.token_counter, TiktokenCounter)


@pytest.mark.parametrize(("placement", "role"), [("user", "user"), ("system", "system")])
def test_documents_go_where_the_settings_say(placement, role):
    """Behind the user's text, or into the system message."""
    settings = ArcSettings(context={"placement": placement, "receipt_misses": 0})
    with ContextEngine.open(settings=settings) as engine:
        window = engine.session("s").context("where?", system_prompt="Be kind.", documents=[Document("on the shelf")])
    (holder,) = [message for message in window.messages if "on the shelf" in message.text]
    assert holder.role == role


@pytest.mark.parametrize(("placement", "role"), [("system", "system"), ("user", "user")])
def test_facts_go_where_the_settings_say(placement, role):
    """Into the system message, or kept out of it altogether."""
    with ContextEngine.open(settings=ArcSettings(context={"facts_role": placement})) as engine:
        session = engine.session("s")
        session.save_turn("My order number is HN-48213.", "Noted.")
        for n in range(12):
            session.save_turn(f"Question {n}?", f"Answer {n}.")
        session.summarize()
        window = session.context("And now?", system_prompt="Be kind.")
    (holder,) = [message for message in window.messages if "HN-48213" in message.text]
    assert holder.role == role
