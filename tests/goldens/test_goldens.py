"""Requests and receipts are what they were when the goldens were recorded, on SQLite and on PostgreSQL."""

import json
import shutil
from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from tests.goldens.conversations import LANGUAGES
from tests.goldens.windows import BUDGETS, WAYS, Shown, build, read_goldens, windows
from tests.servers import PostgresServer

CASES = [(language, way) for language in LANGUAGES for way in WAYS]
ON_POSTGRES = (1_000, 4_000, 32_000)


def lines(turns: list[Shown]) -> list[str]:
    return json.dumps(turns, ensure_ascii=False, indent=1, sort_keys=True).splitlines()


def check(language: str, way: str, budget: int, turns: list[Shown]) -> None:
    recorded = read_goldens(language)[f"{way}/{budget}"]
    difference = "\n".join(unified_diff(lines(recorded), lines(json.loads(json.dumps(turns))), n=2, lineterm=""))
    assert not difference, f"{language}/{way}/{budget}: record anew by `python -m tests.goldens` if this is meant"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Gives the SQLite file of a language, filled once."""
    folder = tmp_path_factory.mktemp("goldens")

    def file(language: str) -> Path:
        path = folder / f"{language}.db"
        if not path.exists():
            build(f"sqlite:///{path}", language)
        return path

    return file


@pytest.mark.parametrize(("language", "way"), CASES)
def test_every_window_on_sqlite(filled: Callable[[str], Path], tmp_path: Path, language: str, way: str) -> None:
    """Eight budgets, two turns each."""
    for budget in BUDGETS:
        copied = shutil.copy(filled(language), tmp_path / f"{budget}.db")
        check(language, way, budget, windows(f"sqlite:///{copied}", language, way, budget))


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_same_windows_on_postgres(
    postgres: PostgresServer, postgres_database: Callable[[], str], language: str
) -> None:
    """Every way at three budgets, against the same goldens."""
    filled = postgres_database()
    build(filled, language)
    source = make_url(filled).database
    for way in WAYS:
        for budget in ON_POSTGRES:
            copied = f"{source}_{way}_{budget}"
            with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {copied} TEMPLATE {source} STRATEGY wal_log")
            check(language, way, budget, windows(postgres.url(copied), language, way, budget))
