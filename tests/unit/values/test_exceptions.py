"""Errors as values: they can be copied and pickled."""

import pickle
from copy import copy

import pytest

from arc_common.exceptions import (
    ArcError,
    BranchNotFoundError,
    BudgetExceededError,
    ConversationDeletedError,
    InvalidInputError,
    MemoryConflictError,
    MissingDependencyError,
    ReviewConflictError,
    SessionNotFoundError,
)

ERRORS = (
    InvalidInputError("top_k", 0, "a whole number of at least 1"),
    MissingDependencyError("arc serve", package="uvicorn", extra="server"),
    BudgetExceededError("user message", needed=9, available=4),
    SessionNotFoundError("chat-1"),
    ConversationDeletedError("chat-1"),
    BranchNotFoundError("chat-1", "idea"),
    MemoryConflictError("m-1", expected=1, found=2),
    ReviewConflictError("c-1", "INGESTED"),
)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_pickled_error_keeps_its_class_message_and_fields(error: ArcError) -> None:
    """A worker process returns its errors by pickling."""
    for again in (pickle.loads(pickle.dumps(error)), copy(error)):  # noqa: S301 - its own bytes
        assert type(again) is type(error)
        assert (str(again), vars(again)) == (str(error), vars(error))
