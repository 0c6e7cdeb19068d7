"""Every setting changes something that a user sees, shown here or in the test named."""

import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, event

from arc_common import ArcSettings, ContextEngine, Document, TiktokenCounter
from arc_common.settings import describe_settings
from tests.support.databases import rows, sqlite_url

TESTS = Path(__file__).parents[2]
DAY = datetime(2026, 1, 1, tzinfo=UTC)
TOPICS = ("cats", "boats", "trees", "stars", "bread", "music", "stone", "glass")


class Vectors:
    name = "letters"

    def embed(self, texts: list[str]) -> list[list[float]]:
        return [[text.count(letter) + 0.1 for letter in "aeiost"] for text in texts]


def opened(settings: ArcSettings, url: str | None = None) -> ContextEngine:
    numbers = count(0 if url is None else 10**6)
    return ContextEngine.open(
        url, settings=settings, embedder=Vectors(), new_id=lambda: f"m{next(numbers)}", clock=lambda: DAY
    )


def fill(engine: ContextEngine) -> None:
    """Store the same conversation, documents and artifacts."""
    session = engine.session("s")
    for number in range(40):
        topic = TOPICS[number % len(TOPICS)]
        session.save_turn(
            f"I like {topic} number {number}, and box {number} costs {number} dollars.",
            f"Noted for {topic}. " + f"It stands on shelf {number} in the {topic} room. " * 3,
        )
        session.summarize()
        if number % 10 == 0:
            session.context("And now?")
    session.summarize()
    for number in range(9):
        session.add_artifact(f"The price of cats is {number} dollars today.", source=f"shop {number}")
    texts = [f"{topic} {number} dollars. " + f"All about {topic}. " * 40 for number, topic in enumerate(TOPICS)]
    engine.documents.add([Document(text, source=topic) for text, topic in zip(texts, TOPICS, strict=True)])
    assert engine.flush(60)


def seen(engine: ContextEngine) -> str:
    """Return everything that a user sees of it."""
    session = engine.session("s")
    lines = []
    for question in ("What did box 3 cost, and what of cats?", "latest price of cats today"):
        window = session.context(question, system_prompt="Be kind.")
        lines += [f"{message.role}: {message.text}" for message in window.messages]
        lines += [f"{section.name} {len(section.items)}" for section in window.sections]
        lines += [str(len(window.receipt.nearest))]
    return "\n".join([*lines, *(fact.line for fact in session.facts())])


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a read-only file of the conversation under default settings."""
    path = tmp_path_factory.mktemp("stored") / "arc.db"
    with opened(ArcSettings(), f"sqlite:///{path}") as engine:
        fill(engine)
    return path


@pytest.fixture
def shown(stored: Path, tmp_path: Path) -> Callable[..., str]:
    """Return a function that shows a copy of the conversation under settings, or stores it anew with them."""

    def show(*, anew: bool = False, **groups: Any) -> str:
        url = None if anew else f"sqlite:///{shutil.copy(stored, tmp_path)}"
        with opened(ArcSettings(**groups), url) as engine:
            if anew:
                fill(engine)
            return seen(engine)

    return show


ACTS: dict[str, Any] = {
    "artifacts.enabled": False,
    "artifacts.final_top_k": 0,
    "artifacts.max_tool_snippets": 0,
    "budget.context_window": 3_000,
    "budget.documents": 300,
    "budget.facts": 50,
    "budget.facts_share": 0.0005,
    "budget.recalled": 100,
    "budget.output_reserve": 126_500,
    "context.facts_role": "user",
    "context.placement": "system",
    "context.receipt_misses": 0,
    "conversation.max_context_tokens": 1_500,
    "conversation.max_turns": 1,
    "conversation.rolling_window_size": 3,
    "conversation.window": "messages",
    "rag.document_order": "lost-in-the-middle",
    "rag.enabled": False,
    "rag.max_context_tokens": 200,
    "rag.rerank_enabled": False,
    "rag.rerank_top_k": 1,
    "rag.similarity_threshold": 0.99,
    "rag.top_k": 1,
    "recall.enabled": False,
    "summary.enabled": False,
    "summary.high_water_tokens": 0,
    "summary.leaf_messages": 8,
    "summary.leaf_narrative_tokens": 10,
    "summary.leaf_tokens": 200,
    "summary.max_tokens": 20,
    "summary.recent_message_count": 40,
    "summary.trigger_message_count": 300,
    "summary.trigger_tokens": 300,
}
"""Another value for each setting that acts on the conversation above."""

BESIDE: dict[str, dict[str, Any]] = {
    "budget.facts_share": {"budget": {"recalled": 0}},  # lends its tokens to facts
    "context.receipt_misses": {"budget": {"context_window": 3_000}},
}
"""Other settings that a setting needs in order to act."""

ELSEWHERE: dict[str, str] = {
    "archive.after_days": "test_maintenance_archives_what_is_idle_and_nothing_else",
    "archive.cleanup_after_archive": "test_an_archived_conversation_comes_back_as_it_was",
    "archive.enabled": "test_maintenance_archives_what_is_idle_and_nothing_else",
    "archive.s3_bucket": "test_s3",
    "archive.url": "test_an_archive_must_be_usable",
    "conversation.ttl_hours": "test_without_an_archive_the_time_to_live_deletes",
    "maintenance.interval_minutes": "test_a_timer_maintains_by_itself",
    "artifacts.recency_cues": "test_settings_switch_them_off_and_bound_them",
    "artifacts.rerank_top_n": "test_settings_switch_them_off_and_bound_them",
    "artifacts.tool_relevance": "test_settings_switch_them_off_and_bound_them",
    "artifacts.top_k": "test_settings_switch_them_off_and_bound_them",
    "context.cache_markers": "test_an_anthropic_request_is_marked_where_it_stays_the_same",
    "context.compression": "test_a_strategy_of_ones_own_takes_the_place_of_the_settings",
    "context.debug": "test_debug_logs_and_streams_the_receipt",
    "context.store_receipts": "test_the_newest_are_kept",
    "conversation.compression_threshold": "test_the_threshold_is_a_share_of_the_room_or_a_number_of_tokens",
    "conversation.resume_note_days": "test_a_conversation_resumed_after_a_long_rest_gets_a_note",
    "memory.enabled": "test_memories_keep_within_their_numbers",
    "memory.instructions": "test_types_and_instructions_of_the_application",
    "memory.max_per_scope": "test_keepers_at_once_lose_and_double_nothing",
    "memory.min_importance": "test_what_is_not_important_enough_is_left_out",
    "memory.require_review": "test_extracted_memories_wait_in_the_same_queue",
    "memory.scope": "test_users_share_memories_where_settings_say_so",
    "memory.top_k": "test_memories_keep_within_their_numbers",
    "memory.types": "test_types_and_instructions_of_the_application",
    "model_calls.attempts": "test_a_model_that_is_down_is_left_alone",
    "model_calls.breaker_failures": "test_a_model_that_is_down_is_left_alone",
    "rag.fusion": "test_the_settings_name_the_reranker",
    "rag.ingestion.allowed_channels": "test_the_policy_decides",
    "rag.ingestion.blocked_patterns": "test_the_policy_decides",
    "rag.ingestion.dynamic_enabled": "test_a_policy_changes_at_run_time",
    "rag.ingestion.enabled": "test_the_policy_decides",
    "rag.ingestion.min_query_chars": "test_the_policy_decides",
    "rag.ingestion.min_response_chars": "test_the_policy_decides",
    "rag.ingestion.require_review": "test_without_a_review_an_answer_is_a_document_at_once",
    "rag.max_history_turns": "test_a_pipeline_of_ones_own_is_asked_by_the_settings",
    "rag.reranker": "test_the_settings_name_the_reranker",
    "rag.skip_oversized": "test_what_does_not_fit_is_passed_over_where_it_says_so",
    "rag.truncate_documents": "test_a_document_is_cut_where_it_says_so",
    "redis.enabled": "test_settings_alone_choose_the_mode",
    "redis.fallback_to_sql": "test_reads_fail_without_redis_if_the_settings_say_so",
    "redis.key_prefix": "test_ids_stand_in_no_key",
    "redis.list_ttl_hours": "test_ids_stand_in_no_key",
    "redis.max_sessions": "test_no_more_sessions_are_cached_than_the_settings_say",
    "redis.retry_seconds": "test_it_says_once_that_redis_is_away",
    "redis.timeout_seconds": "test_a_redis_that_hangs_is_not_waited_for",
    "redis.ttl_minutes": "test_ids_stand_in_no_key",
    "redis.url": "test_settings_alone_choose_the_mode",
    "require_scope": "test_the_default_caller_can_be_refused",
    "server.max_body_bytes": "test_a_router_in_another_application",
    "server.mcp_token": "test_a_client_starts_the_mcp_server_and_calls_its_tools",
    "server.tokens_file": "test_serve_takes_its_tokens_from_a_file",
    "storage.encryption_keys": "test_no_text_stands_in_the_database",
    "storage.index_cache_bytes": "test_the_index_keeps_in_memory_what_the_settings_allow",
    "storage.index_ef_search": "test_postgres_walks_as_wide_as_the_settings_say",
    "storage.index_graph_from": "test_postgres_walks_a_graph_from_the_number_that_the_settings_say",
    "storage.max_messages_per_session": "test_no_fact_is_lost_at_the_smallest_cap",
    "storage.mode": "test_sql_storage_needs_a_database",
    "storage.pool_size": "test_the_pool_is_as_large_as_the_settings_say",
    "storage.secure_delete": "test_sqlite_is_treated_as_the_settings_say",
    "storage.statement_timeout_seconds": "test_a_statement_that_takes_too_long_is_ended",
    "background.in_process": "test_a_worker_makes_what_the_sessions_own_process_makes",
    "storage.transaction_pooling": "test_a_transaction_pooler_needs_its_setting",
    "storage.synchronous": "test_sqlite_is_treated_as_the_settings_say",
    "summary.high_water_mark": "test_a_tail_of_too_many_tokens_triggers",
    "summary.llm_model": "test_a_model_by_name_is_refused_where_nobody_can_make_it",
    "summary.synchronous_timeout_seconds": "test_it_waits_no_longer_than_it_may",
    "tokens.counter": "test_the_counter_is_the_one_that_the_settings_name",
    "tokens.encoding": "test_the_counter_is_the_one_that_the_settings_name",
    "summary.block_narrative_tokens": "test_a_block_is_written_at_adoption_from_its_leaves_sentences",
    "summary.eras_enabled": "test_eras",
    "model_calls.timeout_seconds": "test_a_call_that_hangs_is_given_up_and_its_late_answer_ignored",
    "background.max_tokens_per_hour": "test_background_calls_wait_once_the_hours_tokens_are_spent",
    "model_calls.input_price": "test_arcs_own_model_calls_are_told_with_tokens_and_price",
    "model_calls.output_price": "test_arcs_own_model_calls_are_told_with_tokens_and_price",
    "observability.otel": "test_the_setting_uses_the_applications_own_sdk",
    "model_calls.breaker_reset_seconds": "test_after_a_while_the_model_is_tried_again",
}
"""The test in which a setting acts that needs more than this conversation."""

NOT_SHOWN: frozenset[str] = frozenset(
    {
        "artifacts.max_facts",
        "background.lease_seconds",
        "storage.connect_timeout_seconds",
        "storage.pool_timeout_seconds",
        "background.threads",
        "database_url",
        "embeddings.batch_size",
        "memory.merge_cosine",
        "memory.merge_similarity",
        "rag.chunk_overlap",
        "rag.chunk_size",
        "rag.drop_stop_words",
        "recall.scope",
        "recall.window_terms",
        "storage.auto_migrate",
        "storage.max_sessions_in_memory",
        "summary.era_narrative_tokens",
        "tokens.vocabulary_directory",
    }
)
"""Settings whose effect no test shows by name."""


def test_every_setting_has_its_place() -> None:
    listed = [*ACTS, *ELSEWHERE, *NOT_SHOWN]
    assert sorted(listed) == sorted(description.name for description in describe_settings())


@pytest.fixture(scope="module")
def usual() -> str:
    """Return the view of a conversation stored under default settings."""
    with opened(ArcSettings()) as engine:
        fill(engine)
        return seen(engine)


@pytest.mark.parametrize("name", ACTS)
def test_a_setting_changes_what_is_seen(shown: Callable[..., str], usual: str, name: str) -> None:
    group, setting = name.split(".")
    beside = BESIDE.get(name, {})
    anew = group == "summary"
    before = usual if anew else shown(**beside)
    assert shown(anew=anew, **{**beside, group: {**beside.get(group, {}), setting: ACTS[name]}}) != before


def test_what_is_seen_depends_on_the_settings_alone(shown: Callable[..., str], usual: str) -> None:
    """Otherwise every setting would seem to act."""
    assert shown() == shown()
    assert shown(anew=True) == usual


def test_a_setting_whose_effect_is_not_shown_is_read() -> None:
    packages = (TESTS.parent / name for name in ("arc_common", "langchain_arc", "llamaindex_arc"))
    paths = [path for package in packages for path in package.rglob("*.py") if path.parent.name != "settings"]
    source = "\n".join(path.read_text() for path in paths)
    unread = [name for name in NOT_SHOWN if not re.search(rf"\.{name.rpartition('.')[2]}\b", source)]
    assert not unread


def test_the_test_that_shows_a_setting_is_there() -> None:
    sources = [path.read_text() for path in TESTS.rglob("test_*.py")]
    for name, function in ELSEWHERE.items():
        setting = name.rpartition(".")[2]
        assert any(f"def {function}(" in source and setting in source.lower() for source in sources), function


@pytest.mark.parametrize(
    ("storage", "pragma", "value"),
    [
        ({}, "synchronous", 2),
        ({"synchronous": "normal"}, "synchronous", 1),
        ({}, "secure_delete", 1),
        ({"secure_delete": False}, "secure_delete", 0),
        ({}, "busy_timeout", 30_000),
    ],
    ids=str,
)
def test_sqlite_is_treated_as_the_settings_say(tmp_path, storage, pragma, value):
    opened = []
    database = create_engine(sqlite_url(tmp_path))
    event.listen(database, "connect", lambda connection, _: opened.append(connection))
    with ContextEngine.open(database, settings=ArcSettings(storage=storage)) as engine:
        engine.session("s").save_turn("hi", "hello")
        assert value in [connection.execute(f"PRAGMA {pragma}").fetchone()[0] for connection in opened]
    database.dispose()


def test_the_pool_is_as_large_as_the_settings_say(postgres_database):
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
    """On SQLite, a second search then reads less and finds the same."""
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
    """The server gets the setting, unless an exact search is faster than a wide enough graph search."""
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
    name = "counting"

    def embed(self, texts):
        return [[text.count("a") + 0.1, 1.0] for text in texts]


def test_the_counter_is_the_one_that_the_settings_name(tmp_path):
    names = {}
    for counter in ("calibrated", "heuristic"):
        with ContextEngine.open(settings=ArcSettings(tokens={"counter": counter})) as engine:
            names[counter] = engine.token_counter.name.partition("/")[0]
    assert names == {"calibrated": "calibrated", "heuristic": "heuristic"}
    tokens = {"counter": "tiktoken", "encoding": "cl100k_base"}
    with ContextEngine.open(settings=ArcSettings(tokens=tokens)) as engine:
        assert isinstance(engine.token_counter, TiktokenCounter)


@pytest.mark.parametrize(("placement", "role"), [("user", "user"), ("system", "system")])
def test_documents_go_where_the_settings_say(placement, role):
    settings = ArcSettings(context={"placement": placement, "receipt_misses": 0})
    with ContextEngine.open(settings=settings) as engine:
        window = engine.session("s").context("where?", system_prompt="Be kind.", documents=[Document("on the shelf")])
    (holder,) = [message for message in window.messages if "on the shelf" in message.text]
    assert holder.role == role


@pytest.mark.parametrize(("placement", "role"), [("system", "system"), ("user", "user")])
def test_facts_go_where_the_settings_say(placement, role):
    with ContextEngine.open(settings=ArcSettings(context={"facts_role": placement})) as engine:
        session = engine.session("s")
        session.save_turn("My order number is HN-48213.", "Noted.")
        for n in range(12):
            session.save_turn(f"Question {n}?", f"Answer {n}.")
        session.summarize()
        window = session.context("And now?", system_prompt="Be kind.")
    (holder,) = [message for message in window.messages if "HN-48213" in message.text]
    assert holder.role == role
