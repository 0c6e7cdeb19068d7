"""What several tests of memory ask for: engines that are closed at the end, over memory and SQLite."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from arc_common.engine.context_engine import ContextEngine
from arc_common.tokens.counters import HeuristicTokenCounter
from tests.arc_common.memory.summarising import Model, settings_with
from tests.databases import sqlite_url


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    """Where conversations are kept."""
    return None if request.param == "memory" else sqlite_url(tmp_path)


@pytest.fixture
def opened() -> Iterator[Callable[..., ContextEngine]]:
    """Opens engines that are closed at the end."""
    engines: list[ContextEngine] = []

    def open_engine(url: str | None = None, model: Model | None = None, **more: Any) -> ContextEngine:
        more.setdefault("settings", settings_with())
        engine = ContextEngine.open(url, chat_model=model, token_counter=HeuristicTokenCounter(), **more)
        engines.append(engine)
        return engine

    yield open_engine
    for engine in engines:
        engine.close()
