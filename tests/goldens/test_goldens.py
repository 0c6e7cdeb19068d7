"""Requests and receipts equal the recorded goldens, on SQLite and on PostgreSQL."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.goldens.conversations import LANGUAGES
from tests.goldens.long_conversations import NAMES, golden, requests
from tests.goldens.recordings import differences
from tests.goldens.windows import WAYS, Turn, build, turns
from tests.support.databases import copied_database
from tests.support.servers import PostgresServer

ON_POSTGRES = {"arc": 4_000, "langchain-middleware": 1_000, "llamaindex-buffer": 2_000}
"""Budgets on PostgreSQL, where a turn takes two and a half times as long."""
RECORD = "To accept this, record anew: python -W ignore -m tests.goldens"


def check(language: str, way: str, budget: int, shown: list[Turn]) -> None:
    found = differences(language, way, budget, shown)
    assert not found, f"{found}\n{RECORD}"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function from a language to its SQLite file, which is filled once."""
    folder = tmp_path_factory.mktemp("goldens")

    def file(language: str) -> Path:
        path = folder / f"{language}.db"
        if not path.exists():
            build(f"sqlite:///{path}", language)
        return path

    return file


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_requests_on_sqlite(filled: Callable[[str], Path], tmp_path: Path, language: str, way: str) -> None:
    """Two turns are compared at each budget."""
    _, budgets = WAYS[way]
    for budget in budgets:
        copied = shutil.copy(filled(language), tmp_path / f"{budget}.db")
        check(language, way, budget, turns(f"sqlite:///{copied}", language, way, budget))


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_same_requests_on_postgres(
    postgres: PostgresServer, postgres_database: Callable[[], str], language: str
) -> None:
    """The same goldens hold, at one budget for each entry point."""
    filled = postgres_database()
    build(filled, language)
    for way, budget in ON_POSTGRES.items():
        check(language, way, budget, turns(copied_database(postgres, filled), language, way, budget))


@pytest.mark.parametrize("name", NAMES)
def test_requests_of_whole_conversations(name: str) -> None:
    """Requests at two or three turns of each are recorded as text to be read: `long/NAME.TURN.golden`."""
    for turn, text in requests(name).items():
        assert text == golden(name, turn).read_text("utf-8"), RECORD
