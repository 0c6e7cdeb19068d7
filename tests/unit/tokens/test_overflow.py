"""Errors that reject a request as too long are recognised, with the figures that they state."""

from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.exceptions import ContextOverflowError

from arc_common.testing import CountingObserver
from arc_common.tokens.budget import TokenBudget
from arc_common.tokens.overflow import LearnedLimits, Overflow, astreamed, overflow_of, streamed


def refused(text: str, **attributes: Any) -> Exception:
    """Return an error like that of a provider's client."""
    error = Exception(text)
    vars(error).update(attributes)
    return error


OPENAI = (
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9021 tokens. "
    "Please reduce the length of the messages."
)
OPENAI_WITH_ANSWER = (
    "This model's maximum context length is 8,192 tokens. However, you requested 9,000 tokens (5,000 in the messages, "
    "4,000 in the completion)."
)


@pytest.mark.parametrize(
    ("error", "overflow"),
    [
        pytest.param(ContextOverflowError("too much"), Overflow(), id="langchain"),
        pytest.param(refused("prompt is too long: 208310 tokens > 200000 maximum"), Overflow(208_310, 200_000), id="a"),
        pytest.param(refused(OPENAI, code="context_length_exceeded"), Overflow(9_021, 8_192), id="openai"),
        pytest.param(refused(OPENAI_WITH_ANSWER), Overflow(5_000, 4_192), id="openai with an answer"),
        pytest.param(refused("", body={"code": "context_length_exceeded"}), Overflow(), id="openai by code"),
        pytest.param(
            refused("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
            Overflow(1_200_000, 1_048_576),
            id="gemini",
        ),
        pytest.param(
            refused("Requested tokens (4100) exceed context window of 2048"),
            Overflow(4_100, 2_048),
            id="llama-cpp-python",
        ),
        pytest.param(
            refused("the request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it"),
            Overflow(5_000, 4_096),
            id="llama.cpp",
        ),
        pytest.param(
            refused(
                "An error occurred (ValidationException): Input is too long for requested model.",
                response={"ResponseMetadata": {"HTTPStatusCode": 400}},
            ),
            Overflow(),
            id="bedrock",
        ),
        pytest.param(refused("too many tokens: total 9000", status_code=400), Overflow(), id="cohere"),
        pytest.param(refused("rate limit: too many tokens per minute", status_code=429), None, id="rate limit"),
        pytest.param(refused("the context window is fine", response=SimpleNamespace()), None, id="words alone"),
        pytest.param(ValueError("tool failed"), None, id="another"),
    ],
)
def test_a_refusal_is_told(error: Exception, overflow: Overflow | None) -> None:
    """It is recognised by itself and as the cause of a wrapper's error."""
    assert overflow_of(error) == overflow
    wrapped = RuntimeError("the model failed")
    wrapped.__cause__ = error
    assert overflow_of(wrapped) == overflow


@pytest.mark.parametrize(
    ("text", "whole", "most"),
    [
        pytest.param("prompt is too long: 2000 tokens > 1000 maximum", True, 380, id="half"),
        pytest.param("prompt is too long: 2000 tokens > 1999 maximum", True, 759, id="at least a bit less"),
        pytest.param("prompt is too long: 1100 tokens > 1000 maximum", False, 690, id="the rest stays as it is"),
        pytest.param("prompt is too long: 3000 tokens > 1000 maximum", False, 126, id="most of it is not known"),
    ],
)
def test_a_limit_is_learned_in_arc_s_own_tokens(text: str, whole: bool, most: int) -> None:
    """The limit applies to this model and never exceeds the budget."""
    observer = CountingObserver()
    limits = LearnedLimits(observer)
    budget = TokenBudget(4_000, 0)
    assert limits.limited(budget, "m") == budget
    note = limits.learn(refused(text), 800, "m", whole=whole)
    assert "arc counted 800 tokens, the model" in note
    assert limits.limited(budget, "m").input_limit == most
    assert limits.limited(budget, "other") == budget
    assert limits.limited(TokenBudget(100, 0), "m").input_limit == 100
    assert observer.counts["context.overflows"] == 1


def test_any_other_error_is_raised_and_nothing_learned() -> None:
    limits = LearnedLimits(CountingObserver())
    with pytest.raises(ValueError, match="other"):
        limits.learn(ValueError("other"), 800)
    assert limits.limited(TokenBudget(4_000, 0)) == TokenBudget(4_000, 0)


def raised(error: Exception) -> Any:
    raise error


async def test_a_stream_that_nobody_reads_any_more_is_closed() -> None:
    """A model stops as soon as its reader does, in both forms."""
    closed: list[str] = []

    def parts(_: str) -> Iterator[int]:
        try:
            yield from range(3)
        finally:
            closed.append("sync")

    async def aparts(_: str) -> AsyncIterator[int]:
        async def stream() -> AsyncIterator[int]:
            try:
                for number in range(3):
                    yield number
            finally:
                closed.append("async")

        return stream()

    answer = streamed(parts, "", raised)
    assert next(answer) == 0
    answer.close()
    other = astreamed(aparts, "", raised)
    assert await anext(other) == 0
    await other.aclose()
    assert closed == ["sync", "async"]
    assert list(streamed(parts, "", raised)) == [part async for part in astreamed(aparts, "", raised)] == [0, 1, 2]
