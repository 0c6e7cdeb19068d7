"""Engines for the tests of the LangChain adapter."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from arc_common import ArcSettings, ContextEngine
from langchain_arc import open_engine
from tests.support.databases import sqlite_url

BY_COUNT = ArcSettings(summary={"high_water_tokens": 0})
"""Summaries are adopted by the number of messages, however short they are."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[ContextEngine]:
    """An engine over a SQLite file: these tests are about LangChain, not about the store."""
    with open_engine(sqlite_url(tmp_path), settings=BY_COUNT) as engine:
        yield engine
