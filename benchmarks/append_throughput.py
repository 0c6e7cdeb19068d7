"""Appends a second: arc's store beside a loop written by hand for the driver, at equal durability.

The loop does the same job with the fewest statements: it locks the session's counter, inserts one row with its place,
and commits (SQLite: WAL, synchronous=FULL; PostgreSQL: as installed, fsync on). Rounds alternate; medians are shown.

python benchmarks/append_throughput.py [--appends 400] [--rounds 7] [--postgres-url URL]
"""

import argparse
import json
import multiprocessing
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).parents[1]))

from arc_common.messages import Message, Role
from arc_common.protocols import CountedMessage, SessionKey
from arc_common.stores.sql import SqlStore

TEXT = "A message of an ordinary length: where is my order 4711, and when will it be here?"
TABLES = (
    "CREATE TABLE IF NOT EXISTS loop_sessions (id BIGINT PRIMARY KEY, next_seq BIGINT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS loop_messages (
        session BIGINT, seq BIGINT, message_id TEXT, role TEXT, content TEXT, created_at BIGINT,
        PRIMARY KEY (session, seq), UNIQUE (session, message_id))""",
    "INSERT INTO loop_sessions VALUES (1, 1) ON CONFLICT DO NOTHING",
)
LOCK = "UPDATE loop_sessions SET next_seq = next_seq + 1 WHERE id = 1 RETURNING next_seq - 1"

Append = Callable[[str], object]


@contextmanager
def arc(url: str) -> Iterator[Append]:
    """Arc's store."""
    store = SqlStore(url)
    key = SessionKey("one session")

    def append(message_id: str) -> object:
        message = Message(Role.USER, TEXT, id=message_id, created_at=datetime.now(UTC))
        return store.append(key, [CountedMessage(message, 20, "benchmark/1")])

    yield append
    store.close()


@contextmanager
def loop(url: str) -> Iterator[Append]:
    """The driver, by hand."""
    with _sqlite_loop(url) if url.startswith("sqlite") else _postgres_loop(url) as append:
        yield append


@contextmanager
def _sqlite_loop(url: str) -> Iterator[Append]:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, timeout=30)
    for setting in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON"):
        connection.execute(f"PRAGMA {setting}")
    for statement in TABLES:
        connection.execute(statement)

    def append(message_id: str) -> object:
        connection.execute("BEGIN IMMEDIATE")
        (seq,) = connection.execute(LOCK).fetchone()
        connection.execute(
            "INSERT INTO loop_messages VALUES (1, ?, ?, 'user', ?, ?)", (seq, message_id, TEXT, time.time_ns() // 1000)
        )
        return connection.execute("COMMIT")

    yield append
    connection.close()


@contextmanager
def _postgres_loop(url: str) -> Iterator[Append]:
    import psycopg

    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        for statement in TABLES:
            connection.execute(statement)

        def append(message_id: str) -> object:
            with connection.transaction():
                row = connection.execute(LOCK).fetchone()
                return connection.execute(
                    "INSERT INTO loop_messages VALUES (1, %s, %s, 'user', %s, %s)",
                    (row and row[0], message_id, TEXT, time.time_ns() // 1000),
                )

        yield append


KINDS = {"arc": arc, "loop": loop}


def work(kind: str, url: str, count: int, at: float) -> tuple[float, float]:
    """Append from `at` on; when it began and ended."""
    with KINDS[kind](url) as append:
        append(uuid4().hex)
        time.sleep(max(0.0, at - time.time()))
        begin = time.time()
        for _ in range(count):
            append(uuid4().hex)
        return begin, time.time()


def rate(kind: str, url: str, processes: int, count: int) -> float:
    """Appends a second, all processes together."""
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        at = time.time() + 0.5
        spans = pool.starmap(work, [(kind, url, count // processes, at)] * processes, chunksize=1)
    begin, end = min(span[0] for span in spans), max(span[1] for span in spans)
    return (count // processes) * processes / (end - begin)


def compare(url: str, processes: int, count: int, rounds: int) -> dict[str, float]:
    """The medians of alternating rounds, and their ratio."""
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        for kind, values in rates.items():
            values.append(rate(kind, url, processes, count))
    medians = {kind: statistics.median(values) for kind, values in rates.items()}
    return {
        **{kind: round(value, 1) for kind, value in medians.items()},
        "ratio": round(medians["arc"] / medians["loop"], 3),
    }


def main() -> None:
    """Print appends a second and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--appends", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--postgres-url", help="a server to use; without it, one from the pip package is started")
    arguments = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder, _server(arguments.postgres_url) as postgres:
        for name, url in (("sqlite", f"sqlite:///{folder}/arc.db"), ("postgres", postgres)):
            for processes in (1, 8):
                results[f"{name}, {processes} processes"] = compare(url, processes, arguments.appends, arguments.rounds)
    print(json.dumps(results, indent=2))


@contextmanager
def _server(url: str | None) -> Iterator[str]:
    from tests.servers import postgres_server

    if url:
        yield url
    else:
        with postgres_server(durable=True) as server:
            yield server.url()


if __name__ == "__main__":
    main()
