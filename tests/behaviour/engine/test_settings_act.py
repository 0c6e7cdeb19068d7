"""Every setting changes what a user sees or does, shown here or in the test that is named."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from arc_common import ArcSettings, ContextEngine, Document
from arc_common.settings import describe_settings

TESTS = Path(__file__).parents[2]
DAY = datetime(2026, 1, 1, tzinfo=UTC)
TOPICS = ("cats", "boats", "trees", "stars", "bread", "music", "stone", "glass")


class Vectors:
    """A vector of a few letters' counts."""

    name = "letters"

    def embed(self, texts: list[str]) -> list[list[float]]:
        return [[text.count(letter) + 0.1 for letter in "aeiost"] for text in texts]


def shown(settings: ArcSettings) -> str:
    """All that a user sees of one and the same conversation, with its documents, artifacts and memories."""
    with ContextEngine.open(settings=settings, embedder=Vectors(), new_id=iter_ids(), clock=lambda: DAY) as engine:
        session = engine.session("s")
        for number in range(90):
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
        seen = []
        for question in ("What did box 3 cost, and what of cats?", "latest price of cats today"):
            window = session.context(question, system_prompt="Be kind.")
            seen += [f"{message.role}: {message.text}" for message in window.messages]
            seen += [f"{section.name} {len(section.items)}" for section in window.sections]
            seen += [str(len(window.receipt.nearest))]
        seen += [fact.line for fact in session.facts()]
        return "\n".join(seen)


def iter_ids() -> Any:
    """Mints the same ids each time."""
    numbers = iter(range(10**6))
    return lambda: f"m{next(numbers)}"


@pytest.fixture(scope="module")
def usual() -> str:
    """What is seen by default."""
    return shown(ArcSettings())


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
    "budget.facts_share": {"budget": {"recalled": 0}},  # which lends its room to facts
    "context.receipt_misses": {"budget": {"context_window": 3_000}},
}
"""What must be set besides for a setting to act."""

ELSEWHERE: dict[str, str] = {
    "artifacts.recency_cues": "test_settings_switch_them_off_and_bound_them",
    "artifacts.rerank_top_n": "test_settings_switch_them_off_and_bound_them",
    "artifacts.tool_relevance": "test_settings_switch_them_off_and_bound_them",
    "artifacts.top_k": "test_settings_switch_them_off_and_bound_them",
    "context.compression": "test_a_strategy_of_ones_own_takes_the_place_of_the_settings",
    "conversation.compression_threshold": "test_the_threshold_is_a_share_of_the_room_or_a_number_of_tokens",
    "conversation.resume_note_days": "test_a_conversation_resumed_after_a_long_rest_gets_a_note",
    "facts.related_tokens": "test_known_facts_keep_their_ceiling_in_a_leaf_of_long_messages",
    "memory.enabled": "test_memories_keep_within_their_numbers",
    "memory.max_per_scope": "test_keepers_at_once_lose_and_double_nothing",
    "memory.min_importance": "test_what_is_not_important_enough_is_left_out",
    "memory.scope": "test_users_share_memories_where_settings_say_so",
    "memory.top_k": "test_memories_keep_within_their_numbers",
    "model_calls.attempts": "test_a_model_that_is_down_is_left_alone",
    "model_calls.breaker_failures": "test_a_model_that_is_down_is_left_alone",
    "rag.fusion": "test_the_settings_name_the_reranker",
    "rag.max_history_turns": "test_a_pipeline_of_ones_own_is_asked_by_the_settings",
    "rag.reranker": "test_the_settings_name_the_reranker",
    "rag.skip_oversized": "test_settings_choose_what_becomes_of_large_ones",
    "rag.truncate_documents": "test_settings_choose_what_becomes_of_large_ones",
    "recall.top_k": "test_recalled_messages_stand_in_their_order_each_once",
    "require_scope": "test_the_default_caller_can_be_refused",
    "storage.busy_timeout_seconds": "test_sqlite_is_treated_as_the_settings_say",
    "storage.index_cache_bytes": "test_the_index_keeps_in_memory_what_the_settings_allow",
    "storage.index_ef_search": "test_postgres_walks_as_wide_as_the_settings_say",
    "storage.index_graph_from": "test_postgres_walks_a_graph_from_the_number_that_the_settings_say",
    "storage.max_messages_per_session": "test_no_fact_is_lost_at_the_smallest_cap",
    "storage.mode": "test_sql_storage_needs_a_database",
    "storage.pool_size": "test_the_pool_is_as_large_as_the_settings_say",
    "storage.secure_delete": "test_sqlite_is_treated_as_the_settings_say",
    "storage.synchronous": "test_sqlite_is_treated_as_the_settings_say",
    "summary.high_water_mark": "test_a_tail_of_too_many_tokens_triggers",
    "summary.llm_model": "test_a_model_by_name_is_refused_where_nobody_can_make_it",
    "summary.synchronous_timeout_seconds": "test_it_waits_no_longer_than_it_may",
    "tokens.counter": "test_the_counter_is_the_one_that_the_settings_name",
    "tokens.encoding": "test_the_counter_is_the_one_that_the_settings_name",
    "tokens.vocabulary_timeout_seconds": "test_the_counter_is_the_one_that_the_settings_name",
    "summary.block_narrative_tokens": "test_a_block_comes_with_adoption_and_of_its_leaves_sentences",
    "summary.reread_for_blocks": "test_a_block_is_read_from_originals_by_setting",
    "summary.eras_enabled": "test_eras",
    "model_calls.timeout_seconds": "test_a_call_that_hangs_is_given_up_and_its_late_answer_ignored",
    "model_calls.breaker_reset_seconds": "test_after_a_while_the_model_is_tried_again",
}
"""The test in which a setting acts that needs more than a conversation."""

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
        "rag.diversity_lambda",
        "rag.drop_stop_words",
        "rag.keyword_weight",
        "rag.rrf_k",
        "recall.diversity",
        "recall.scope",
        "recall.window_terms",
        "storage.auto_migrate",
        "storage.max_sessions_in_memory",
        "summary.era_narrative_tokens",
        "tokens.vocabulary_directory",
    }
)
"""Settings that something reads (`test_settings_in_use`), whose effect no test shows by their name."""


def test_every_setting_has_its_place() -> None:
    """A setting that comes is shown to act."""
    listed = [*ACTS, *ELSEWHERE, *NOT_SHOWN]
    assert sorted(listed) == sorted(description.name for description in describe_settings())


@pytest.mark.parametrize("name", ACTS)
def test_a_setting_changes_what_is_seen(usual: str, name: str) -> None:
    """The same conversation looks otherwise, and equal settings give the same."""
    group, setting = name.split(".")
    beside = BESIDE.get(name, {})
    before = shown(ArcSettings(**beside)) if beside else usual
    assert shown(ArcSettings(**{**beside, group: {**beside.get(group, {}), setting: ACTS[name]}})) != before


def test_what_is_seen_depends_on_the_settings_alone(usual: str) -> None:
    """Else any setting would seem to act."""
    assert shown(ArcSettings()) == usual


def test_the_test_that_shows_a_setting_is_there() -> None:
    """One file has the test that is named, and sets the setting."""
    sources = [path.read_text() for path in TESTS.rglob("test_*.py")]
    for name, function in ELSEWHERE.items():
        setting = name.rpartition(".")[2]
        assert any(f"def {function}(" in source and setting in source for source in sources), function
