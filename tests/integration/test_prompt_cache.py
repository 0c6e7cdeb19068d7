"""Consecutive requests share a prefix, so that providers' prompt caches hit: the short form of the benchmark."""

from types import ModuleType
from typing import Any

import pytest

from tests.support.benchmarks import benchmark


@pytest.fixture(scope="module")
def replaying() -> ModuleType:
    return benchmark("prompt_cache")


@pytest.fixture(scope="module")
def rows(replaying: ModuleType) -> dict[str, dict[str, Any]]:
    """Replay 160 turns at 4,000 tokens with three variants of arc and with two other libraries."""
    conversation, compared = replaying.generated(160), replaying.strategies(4_000)
    ways = dict([*compared, *replaying.variants(4_000)])
    asked = ("arc", "… nothing recalled", "… and by rules", "SummarizationMiddleware", "trim_messages")
    most = replaying.TokenBudget(4_000, 0).max_tokens("facts")
    return {
        name: replaying.replay(
            conversation, ways[name], replaying.Summariser(conversation.said, output_price=5.0, most=most)
        )
        for name in asked
    }


def test_stable_layers_repeat(rows: dict[str, dict[str, Any]]) -> None:
    """System prompt, facts, summary and history nearly always repeat the beginning of the previous request."""
    assert rows["arc"]["stable"] >= 0.9
    assert rows["trim_messages"]["stable"] < 0.6


def test_no_reply_waits_for_a_model(rows: dict[str, dict[str, Any]]) -> None:
    """Arc writes its summaries beside the turns; the middleware writes its own within them."""
    assert rows["arc"]["calls"] > 0
    assert rows["arc"]["blocking"] == 0
    assert rows["SummarizationMiddleware"]["blocking"] == rows["SummarizationMiddleware"]["calls"] > 0


def test_all_keep_the_budget(rows: dict[str, dict[str, Any]]) -> None:
    """No request exceeds the budget, so the costs are comparable."""
    assert {name: row["largest"] for name, row in rows.items() if row["largest"] > 4_000} == {}


def test_costs_no_more_than_the_summarising_middleware_and_holds_as_much(rows: dict[str, dict[str, Any]]) -> None:
    """This includes arc with recall, which finds hardly anything relevant in this conversation."""
    peer = rows["SummarizationMiddleware"]
    for name in ("arc", "… nothing recalled", "… and by rules"):
        assert rows[name]["cost"] <= peer["cost"]
        assert rows[name]["held"] >= peer["held"]


@pytest.mark.torture
def test_more_room_means_longer_prefixes(replaying: ModuleType) -> None:
    """With a limit for hundreds of messages, the boundary moves only after as many."""
    conversation = replaying.generated(150)
    summariser = replaying.Summariser(conversation.said, output_price=5.0, most=1_000)
    row = replaying.replay(conversation, lambda model: replaying.Arc(16_000, model), summariser)
    assert row["stable"] >= 0.97
    assert row["blocking"] == 0


def test_common_prefix(replaying: ModuleType) -> None:
    """The prefix is counted in tokens with framing, and may end within a message."""
    before = [("system", "Be brief."), ("user", "one two three")]
    longer = [("system", "Be brief."), ("user", "one two four"), ("assistant", "five")]
    assert replaying.common_prefix([], before) == 0
    assert replaying.common_prefix(before, before) == replaying.size(before)
    assert replaying.common_prefix(before, longer) == replaying.size(before[:1]) + 3 + 2


def test_cached_tokens_cost_a_tenth_from_1_024_on_in_blocks_of_128(replaying: ModuleType) -> None:
    """Repeated prefixes are cheaper from 1,024 tokens on, in whole blocks of 128."""
    for words, cached in ((900, 0), (1_100, 1_024), (1_200, 1_152)):
        usage = replaying.Usage()
        request = [("user", " word" * words)]
        usage.add(request)
        fresh = usage.cost
        usage.add(request)
        assert fresh == replaying.size(request)
        assert usage.cost - fresh == pytest.approx(fresh - 0.9 * cached)
