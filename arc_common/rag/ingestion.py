"""Decides which answered questions may become documents, and makes the documents. Pure."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from arc_common.documents import Document
from arc_common.exceptions import InvalidInputError, MissingDependencyError
from arc_common.protocols.review import Candidate
from arc_common.settings import IngestionPolicy

_MOST_PATTERNS = 100
_LONGEST_PATTERN = 1_000
_MOST_INSTRUCTIONS = 5_000
"""RE2's, of all patterns together. The worst of that size take 0.1 ms a character, such as `(?:a?b?){900}c`."""


def refusal(policy: IngestionPolicy, query: str, response: str, channel: str) -> str | None:
    """Return the part of the policy that refuses an answered question; `None` if none does."""
    if not policy.enabled:
        return "enabled"
    if policy.allowed_channels and channel not in policy.allowed_channels:
        return "allowed_channels"
    if len(query.strip()) < policy.min_query_chars:
        return "min_query_chars"
    if len(response.strip()) < policy.min_response_chars:
        return "min_response_chars"
    patterns = _compiled(policy.blocked_patterns)
    if any(pattern.search(text) for pattern in patterns for text in (query, response)):
        return "blocked_patterns"
    return None


def check_patterns(patterns: Sequence[str]) -> None:
    """Raise if a pattern is not a regular expression of RE2, if there are too many, or RE2 is not installed."""
    _compiled(tuple(patterns))


@lru_cache(64)
def _compiled(patterns: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the patterns compiled by RE2, which matches in linear time whatever the pattern is."""
    if not patterns:
        return ()
    try:
        import re2  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise MissingDependencyError("rag.ingestion.blocked_patterns", package="google-re2", extra="review") from error
    if len(patterns) > _MOST_PATTERNS:
        raise InvalidInputError("blocked_patterns", len(patterns), f"at most {_MOST_PATTERNS} patterns")
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    compiled = []
    for pattern in patterns:
        if len(pattern) > _LONGEST_PATTERN:
            raise InvalidInputError("blocked_patterns", pattern, f"at most {_LONGEST_PATTERN} characters")
        try:
            compiled.append(re2.compile(pattern, options))
        except re2.error as error:
            why = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else error
            raise InvalidInputError("blocked_patterns", pattern, f"a regular expression of RE2: {why}") from error
        if sum(one.programsize for one in compiled) > _MOST_INSTRUCTIONS:
            expected = f"fewer repetitions: at most {_MOST_INSTRUCTIONS:,} instructions of RE2 in all patterns"
            raise InvalidInputError("blocked_patterns", pattern, expected)
    return tuple(compiled)


def document_of(candidate: Candidate) -> Document:
    """Return the document that an approved answer becomes."""
    metadata = {"candidate_id": candidate.id, **({"channel": candidate.channel} if candidate.channel else {})}
    return Document(
        f"Question: {candidate.query}\nAnswer: {candidate.response}",
        id=f"answer-{candidate.id}",
        source=f"answer of {candidate.captured_at:%Y-%m-%d}",
        metadata=metadata,
    )
