"""An engine without summaries, and LlamaIndex's own `Memory` for memory blocks."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.memory import BaseMemoryBlock, Memory
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from arc_common.engine.context_engine import ContextEngine
from llamaindex_arc import open_engine
from tests.support.counters import Ones
from tests.support.llamaindex_helpers import NO_SUMMARIES


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    """Open an engine without summaries, which `test_summaries` covers."""
    with open_engine(token_counter=Ones(), settings=NO_SUMMARIES) as opened:
        yield opened


@pytest.fixture
def blocking_loop() -> Iterator[None]:
    """Set the event loop that LlamaIndex's blocking methods would create and leave open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    loop.close()
    asyncio.set_event_loop(None)


@pytest.fixture
def memory_of(tmp_path: Path) -> Callable[..., Memory]:
    """Return a function that creates small memories of about six messages; their connections close after each use."""
    database = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'memory.db'}", poolclass=NullPool)
    numbers = itertools.count()

    def make(session_id: str, *blocks: BaseMemoryBlock[Any], **given: Any) -> Memory:
        return Memory.from_defaults(
            session_id=session_id,
            memory_blocks=list(blocks),
            async_engine=database,
            table_name=f"queue_{next(numbers)}",
            **{"token_limit": 2_000, "token_flush_size": 60, "chat_history_token_ratio": 0.1, **given},
        )

    return make
