"""Engines on one database whose only background work is memory extraction."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from arc_common import ArcSettings, ContextEngine
from tests.support.databases import sqlite_url


@pytest.fixture
def url(tmp_path: Any) -> str:
    return sqlite_url(tmp_path)


@pytest.fixture
def opened(url: str) -> Iterator[Callable[..., ContextEngine]]:
    """Return a function that opens engines and closes them at the end; further keywords are memory settings."""
    engines: list[ContextEngine] = []

    def open_engine(
        model: Any = None,
        observer: Any = None,
        embedder: Any = None,
        database: Any = None,
        clock: Any = None,
        **memory: Any,
    ) -> ContextEngine:
        settings = ArcSettings(
            memory=memory, summary={"enabled": False}, recall={"enabled": False}, model_calls={"attempts": 1}
        )
        parts = {"chat_model": model, "observer": observer, "embedder": embedder, "clock": clock}
        engines.append(ContextEngine.open(database or url, settings=settings, **parts))
        return engines[-1]

    yield open_engine
    for engine in engines:
        engine.close()
