"""Engines for the tests of the LangChain adapter."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from arc_common import ContextEngine
from langchain_arc import open_engine


@pytest.fixture
def sqlite_engine(tmp_path: Path) -> Iterator[ContextEngine]:
    """An engine over a SQLite file, for tests whose many cases are about LangChain rather than the store."""
    with open_engine(f"sqlite:///{tmp_path}/arc.db") as engine:
        yield engine


@pytest.fixture(params=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ContextEngine]:
    """An engine over each store that needs no server."""
    with open_engine(f"sqlite:///{tmp_path}/arc.db" if request.param == "sqlite" else None) as engine:
        yield engine
