"""Engines for tests of the LangChain adapter."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from arc_common import ArcSettings, ContextEngine
from langchain_arc import open_engine
from tests.support.databases import sqlite_url

BY_COUNT = ArcSettings(summary={"high_water_tokens": 0})
"""Settings that adopt summaries by the number of messages, however short they are."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[ContextEngine]:
    """Open an engine on a SQLite file."""
    with open_engine(sqlite_url(tmp_path), settings=BY_COUNT) as engine:
        yield engine
