"""Fixtures of the engine's tests: a clock that stands still, and engines with an archive."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arc_common import ArcSettings, ContextEngine
from tests.support.clocks import Clock
from tests.support.leak_world import Letters


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.fixture
def archiving(opened: Callable[..., ContextEngine], folder: Path, clock: Clock) -> Callable[..., ContextEngine]:
    """Return a function that opens an engine with an archive in a folder; keyword arguments change its settings."""

    def open_engine(database: str, conversation: dict[str, Any] | None = None, **archive: Any) -> ContextEngine:
        settings = ArcSettings(
            archive={"enabled": True, "url": str(folder), **archive}, conversation=conversation or {}
        )
        return opened(database, embedder=Letters(), clock=clock, settings=settings)

    return open_engine
