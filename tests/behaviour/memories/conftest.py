"""Engines on one database that do nothing in the background but read messages for memories."""

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
    """Open engines that are closed at the end; further keywords are the settings of memories."""
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
