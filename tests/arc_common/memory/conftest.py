"""What several tests of memory ask for: engines that are closed at the end."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from arc_common.engine.context_engine import ContextEngine
from arc_common.tokens.counters import HeuristicTokenCounter
from tests.arc_common.memory.summarising import Model, settings_with


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
