"""Measure appends per second of `session.append` and of a hand-written loop over the driver, at equal durability.

    python benchmarks/append_throughput.py [--appends 80] [--rounds 25] [--postgres-url URL]

The loop does the same job with the fewest statements: it locks the session's counter, inserts one row with its place,
and commits (SQLite: WAL, synchronous=FULL; PostgreSQL: its defaults, fsync on). Arc runs with background work off
and on (summaries, recall and memories at their defaults). The contestants alternate within each round.

Prints JSON for each database with 1 and with 8 processes: the median appends per second of all processes together, and
the median ratio to the loop of the same round.
"""

import argparse
import json
import multiprocessing
import sqlite3
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).parents[1]))

from arc_common import ArcSettings, ContextEngine, Message, Role

TEXT = "A message of an ordinary length: where is my order 4711, and when will it be here?"
TABLES = (
    "CREATE TABLE IF NOT EXISTS loop_sessions (id BIGINT PRIMARY KEY, next_seq BIGINT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS loop_messages (
        session BIGINT, seq BIGINT, message_id TEXT, role TEXT, content TEXT, created_at BIGINT,
        PRIMARY KEY (session, seq), UNIQUE (session, message_id))""",
    "INSERT INTO loop_sessions VALUES (1, 1) ON CONFLICT DO NOTHING",
)
LOCK = "UPDATE loop_sessions SET next_seq = next_seq + 1 WHERE id = 1 RETURNING next_seq - 1"

KINDS = ["arc", "arc with background work", "loop"]
Append = Callable[[str], object]


@contextmanager
def arc(url: str, *, background: bool = False) -> Iterator[Append]:
    """Open an engine and yield the `append` of one session."""
    off = {"enabled": False}
    settings = ArcSettings() if background else ArcSettings(summary=off, recall=off, memory=off)
    with ContextEngine.open(url, settings=settings) as engine:
        session = engine.session(f"background {background}", user_id="ann")
        yield lambda message_id: session.append(Message(Role.USER, TEXT, id=message_id))


@contextmanager
def loop(url: str) -> Iterator[Append]:
    """Yield the `append` of the hand-written loop."""
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


def work(url: str, count: int, rounds: int, barrier: Barrier, spans: "Queue[tuple[int, str, float, float]]") -> None:
    """Append with each contestant in turn, in step with the other processes, and report when each round ran."""
    with arc(url) as quiet, arc(url, background=True) as busy, loop(url) as bare:
        kinds = dict(zip(KINDS, (quiet, busy, bare), strict=True))
        for append in kinds.values():
            for _ in range(10):
                append(uuid4().hex)
        for number in range(rounds):
            for kind in KINDS[number % 3 :] + KINDS[: number % 3]:
                barrier.wait()
                begin = time.time()
                for _ in range(count):
                    kinds[kind](uuid4().hex)
                spans.put((number, kind, begin, time.time()))


def compare(url: str, processes: int, count: int, rounds: int) -> dict[str, float]:
    """Return the median appends per second of each contestant, and arc's median ratios to the loop."""
    # Create the tables first: on PostgreSQL, concurrent CREATE TABLE IF NOT EXISTS statements can fail.
    with loop(url):
        pass
    fork = multiprocessing.get_context("fork")
    barrier, spans = fork.Barrier(processes), fork.Queue()
    workers = [
        fork.Process(target=work, args=(url, count // processes, rounds, barrier, spans)) for _ in range(processes)
    ]
    for worker in workers:
        worker.start()
    times: dict[tuple[int, str], list[tuple[float, float]]] = defaultdict(list)
    for _ in range(processes * rounds * len(KINDS)):
        number, kind, begin, end = spans.get()
        times[number, kind].append((begin, end))
    for worker in workers:
        worker.join()
    done = count // processes * processes
    rates = {
        round_: done / (max(end for _, end in both) - min(begin for begin, _ in both)) for round_, both in times.items()
    }
    shown: dict[str, float] = {}
    for kind in KINDS:
        shown[kind] = round(statistics.median(rates[n, kind] for n in range(rounds)), 1)
    for kind in KINDS[:2]:
        shown[f"{kind}, ratio"] = round(statistics.median(rates[n, kind] / rates[n, "loop"] for n in range(rounds)), 3)
    return shown


def main() -> None:
    """Measure both databases and print the results as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--appends", type=int, default=80, help="per round, over all processes")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--postgres-url", help="a running server; by default one is started from the pip package")
    arguments = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder, _server(arguments.postgres_url) as postgres:
        for name, url in (("sqlite", f"sqlite:///{folder}/arc.db"), ("postgres", postgres)):
            for processes in (1, 8):
                results[f"{name}, {processes} processes"] = compare(url, processes, arguments.appends, arguments.rounds)
    print(json.dumps(results, indent=2))


@contextmanager
def _server(url: str | None) -> Iterator[str]:
    from tests.support.servers import postgres_server

    if url:
        yield url
    else:
        with postgres_server(durable=True) as server:
            yield server.url()


if __name__ == "__main__":
    main()
