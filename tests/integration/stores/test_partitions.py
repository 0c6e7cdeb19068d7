"""PostgreSQL's tables in partitions: no data is lost, and a turn touches one partition of each table."""

import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import create_engine, event, text

from arc_common import ArcSettings, ContextEngine, Document
from arc_common.exceptions import ConfigurationError, InvalidInputError, StoreUnavailableError
from arc_common.protocols.search_index import IndexEntry, Scope
from arc_common.settings import StorageSettings
from arc_common.stores.database.connection import Database
from arc_common.stores.database.migrate import partition
from arc_common.stores.database.schema import index_tables, metadata
from arc_common.stores.search_index.store import SqlIndexStore
from tests.contracts.index_queries import dense
from tests.support.databases import new_database, partitioned_database, rows
from tests.support.servers import PostgresServer

QUESTION = "What did I say about the order of blue chairs?"


def talk(engine: ContextEngine, user_id: str = "ann") -> None:
    """Let a user talk, and let the engine derive summaries, facts and memories."""
    session = engine.session(user_id, user_id=user_id)
    engine.memories(user_id=user_id).add("Prefers blue chairs to red ones.")
    for number in range(24):
        session.save_turn(f"My order {number} of blue chairs costs ${number} and goes to Seoul.", f"Noted: {number}.")
    session.pin("Never ship on Mondays.")
    session.summarize()
    engine.flush(60)


def seen(engine: ContextEngine) -> list[Any]:
    """Return a user's request, messages, facts, documents and memories."""
    session = engine.session("ann", user_id="ann")
    window = session.context(QUESTION, system_prompt="You sell chairs.")
    return [
        [(one.role, one.text) for one in window.messages],
        [one.id for one in session.messages()],
        [one.value for one in session.facts()],
        [one.document.id for one in engine.documents.search("wooden chairs", top_k=3)],
        [one.text for one in engine.memories(user_id="ann").list()],
    ]


def test_partitioning_keeps_everything(postgres: PostgresServer) -> None:
    """The rows of a database in use are moved, and a second call changes nothing."""
    url = new_database(postgres)
    with ContextEngine.open(url) as engine:
        engine.documents.add([Document(f"Wooden chairs, model {n}", id=f"d{n}") for n in range(3)])
        talk(engine)
        before = seen(engine)
    counted = {name: rows(url, f"SELECT count(*) FROM {name}") for name in tables(url)}
    database = create_engine(url)
    assert partition(database, 2)
    assert not partition(database, 2)
    database.dispose()
    assert {name: rows(url, f"SELECT count(*) FROM {name}") for name in counted} == counted
    parts = "SELECT count(*) FROM pg_inherits WHERE inhparent = to_regclass(:name)"
    assert {rows(url, parts, name=name)[0][0] for name in counted if name != "arc_alembic_version"} == {2}
    with ContextEngine.open(url) as engine:
        assert seen(engine) == before
        talk(engine, "bob")
        engine.documents.delete(["d0", "d1", "d2"])
        assert engine.admin.erase(caller_id="default", user_id=None).left == {}


def tables(url: str) -> list[str]:
    found = rows(url, "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relname LIKE 'arc%'")
    return [name for (name,) in found if not re.search(r"_p\d+$", name)]


def test_what_cannot_be_partitioned_is_left_as_it_was(postgres: PostgresServer, tmp_path: Any) -> None:
    with pytest.raises(ConfigurationError, match="SQLite"):
        partition(create_engine(f"sqlite:///{tmp_path / 'arc.db'}"))
    url = new_database(postgres)
    owner = create_engine(url)
    with pytest.raises(InvalidInputError, match="parts"):
        partition(owner, 1)
    with owner.begin() as connection:
        connection.execute(text("CREATE VIEW mine AS SELECT conversation FROM arc_messages"))
        connection.execute(text("CREATE TABLE arc_messages_p3 (n INTEGER)"))
    before = tables(url)
    with pytest.raises(StoreUnavailableError, match="arc_messages_p3"):
        partition(owner)
    owner.dispose()
    assert tables(url) == before
    assert rows(url, "SELECT count(*) FROM mine") == [(0,)]


@pytest.fixture
def explained(postgres: PostgresServer) -> Iterator[tuple[ContextEngine, list[dict[str, Any]]]]:
    """Open an engine on a partitioned database, and yield it with the plans of its statements."""
    plans: list[dict[str, Any]] = []
    database = create_engine(partitioned_database(postgres))

    def explain(connection: Any, _: object) -> None:
        connection.add_notice_handler(
            lambda notice: plans.append(json.loads(notice.message_primary.partition("plan:")[2]))
        )
        connection.execute(
            "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_level = notice;"
            "SET auto_explain.log_format = json; SET auto_explain.log_analyze = on"
        )
        connection.commit()

    event.listen(database, "connect", explain)
    with ContextEngine.open(database, settings=ArcSettings(summary={"trigger_message_count": 20})) as engine:
        yield engine, plans
    database.dispose()


def touched(plan: Any) -> Iterator[str]:
    """Yield the tables that a plan read or changed."""
    if isinstance(plan, list):
        for part in plan:
            yield from touched(part)
    elif isinstance(plan, dict):
        if "Relation Name" in plan and plan.get("Actual Loops"):
            yield plan["Relation Name"]
        for part in plan.values():
            yield from touched(part)


def test_the_page_distributes_each_table_by_the_same_key() -> None:
    """For Citus, `docs/postgresql.md` lists each table in the block of its key."""
    page = (Path(__file__).parents[3] / "docs" / "postgresql.md").read_text()
    block = re.sub(r"\bcolocate_with => '\w+'", "", page.partition("```sql")[2].partition("```")[0])
    first, _, second = block.partition("'arc_scopes'")
    for tables in (metadata, index_tables("postgresql").metadata):
        for table in tables.sorted_tables:
            named = second if "scope" in table.primary_key else first
            assert f"'{table.name}'" in named or table.name == "arc_scopes"


def test_every_statement_of_a_turn_touches_one_partition(
    explained: tuple[ContextEngine, list[dict[str, Any]]],
) -> None:
    """A statement touches one partition for each scope that it names; this includes the background's statements."""
    engine, plans = explained
    talk(engine)
    engine.documents.add([Document(f"Wooden chairs, model {n}", id=f"d{n}") for n in range(3)])
    session = engine.session("ann", user_id="ann")
    plans.clear()
    for number in range(8):
        session.context(f"{QUESTION} {number}")
        session.save_turn(f"{QUESTION} {number}", f"You ordered {number} of them.")
        engine.flush(60)
    read, more = set(), defaultdict(set)
    for plan in plans:
        sql = plan["Query Text"]
        for table, count in Counter(name.rpartition("_p")[0] for name in set(touched(plan["Plan"]))).items():
            read.add(table)
            places = re.findall(rf"(?:FROM|JOIN|UPDATE|INTO) {table}\b|, {table} AS", sql)
            listed = ",".join(re.findall(rf"{table}\.scope IN \((\$[^)]*)\)", sql))
            if count > len(places) + listed.count(","):
                more[sql].add(table)
    assert {"arc_conversations", "arc_messages", "arc_facts", "arc_records", "arc_index_entries"} <= read
    assert more == {}


def test_each_partition_has_a_graph(postgres: PostgresServer) -> None:
    """The graphs are built and walked, and find the same vectors as a full comparison."""
    url = partitioned_database(postgres)
    database = Database(url, settings=StorageSettings(index_graph_from=50))
    index = SqlIndexStore(database)
    table = np.random.default_rng(3).standard_normal((300, 8), dtype=np.float32)
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    scopes = [Scope("caller"), Scope("caller", "ann")]
    for scope in scopes:
        index.put(
            scope, "document", [IndexEntry(f"{n:03}", "", {}, {}, None, row, "test") for n, row in enumerate(table)]
        )
    built = (
        "SELECT count(*) FROM pg_index JOIN pg_class ON oid = indexrelid WHERE indisvalid AND relname LIKE '%hnsw_8_p%'"
    )
    assert rows(url, built) == [(2,)]
    for scope in scopes:
        found = [dense(index, scope, "document", row, embedder="test", limit=5) for row in table[:20]]
        exact = [dense(index, scope, "document", row, embedder="test", limit=5, exact=True) for row in table[:20]]
        assert found == exact
    database.close()
    walked = "SELECT count(*) FROM pg_stat_user_indexes WHERE indexrelname LIKE '%hnsw%' AND idx_scan >= 20"
    deadline = time.monotonic() + 10  # until the closed connections have reported
    while not rows(url, walked)[0][0]:
        assert time.monotonic() < deadline
