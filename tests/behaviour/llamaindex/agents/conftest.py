"""Memories and engines for agents: with a large limit, and with summaries."""

from collections.abc import Iterator

import pytest

from arc_common.engine.context_engine import ContextEngine
from llamaindex_arc import ArcMemory, open_engine


@pytest.fixture
def memory() -> ArcMemory:
    return ArcMemory.from_defaults(token_limit=20_000)


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    with open_engine() as opened:
        yield opened
