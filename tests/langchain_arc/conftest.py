"""Engines for the tests of the LangChain adapter."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from arc_common import ArcSettings, ContextEngine
from langchain_arc import open_engine
from tests.databases import sqlite_url

BY_COUNT = ArcSettings(summary={"high_water_tokens": 0})
"""Summaries are adopted by the number of messages, however short they are."""


@pytest.fixture
def sqlite_engine(tmp_path: Path) -> Iterator[ContextEngine]:
    """An engine over a SQLite file, for tests whose many cases are about LangChain rather than the store."""
    with open_engine(sqlite_url(tmp_path), settings=BY_COUNT) as engine:
        yield engine


@pytest.fixture(params=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ContextEngine]:
    """An engine over each store that needs no server."""
    address = sqlite_url(tmp_path) if request.param == "sqlite" else None
    with open_engine(address, settings=BY_COUNT) as engine:
        yield engine
