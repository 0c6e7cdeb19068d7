"""Measure turns per second of concurrent writers: arc and the bare driver on PostgreSQL, and arc on one SQLite file.

    python benchmarks/load.py [--seconds 60] [--processes 4] [--threads 8] [--sessions 1000]
        [--database postgres sqlite]

Each writer appends turns of two messages to random sessions. On PostgreSQL (fsync on), the bare driver sends the
statements that arc sends for such an append. They are recorded for each session and replayed with other ids, texts and
times, so that both write the same rows, bytes and index entries. Arc and the driver alternate every few seconds, after
a second of warm-up each time; `--seconds` is the total of each. On SQLite, eight processes of one thread write.

Background work is off; `benchmarks/workers.py` measures it. Prints JSON with the turns per second, their ratio, and the
number of each error, such as "database is locked".
"""

import argparse
import json
import multiprocessing
import random
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from sqlalchemy import create_engine

sys.path.insert(0, str(Path(__file__).parents[1]))

from arc_common import ArcSettings, ContextEngine, Message, Role

OFF = {"enabled": False}
SETTINGS = ArcSettings(summary=OFF, recall=OFF, memory=OFF, storage={"pool_size": 16})
USER = "A message of an ordinary length: where is my order 4711, and when will it be here?"
ASSISTANT = "Your order 4711 was sent on Monday. It should be with you on Thursday, by noon at the latest."
_ALTERNATIONS = 6
_WARM_UP_SECONDS = 1.0
_TIMES = re.compile(r'("(?:now|last_at|created_at)":)\d+')
_NAME, _NOW = "@name@", "@now@"

Append = Callable[[int], object]
Statements = list[tuple[Any, Any]]


def turn(name: str) -> list[Message]:
    """Return the two messages of a turn."""
    return [
        Message(Role.USER, f"{USER} {name}", id=f"{name}-q"),
        Message(Role.ASSISTANT, f"{ASSISTANT} {name}", id=f"{name}-a"),
    ]


class RecordingCursor(psycopg.Cursor[Any]):
    """A cursor that records the statements sent."""

    sent: Statements | None = None

    def execute(self, query: Any, params: Any = None, **more: Any) -> Any:
        """Record the statement and run it."""
        if RecordingCursor.sent is not None:
            RecordingCursor.sent.append((query, params))
        return super().execute(query, params, **more)


def recorded(url: str, sessions: int) -> list[Statements]:
    """Create the sessions; return for each the statements that arc sent for one more turn."""
    database = create_engine(url, connect_args={"cursor_factory": RecordingCursor})
    found = []
    with ContextEngine.open(database, settings=SETTINGS) as engine:
        for number in range(sessions):
            session = engine.session(f"s{number}", user_id="ann")
            session.append(turn("first"))
            name = uuid4().hex
            RecordingCursor.sent = []
            session.append(turn(name))
            found.append([(query, _pattern(parameters, name)) for query, parameters in RecordingCursor.sent])
            RecordingCursor.sent = None
    database.dispose()
    return found


@contextmanager
def arc(url: str) -> Iterator[Callable[[], Append]]:
    """Yield a function that returns the `append` of a shared engine."""
    with ContextEngine.open(url, settings=SETTINGS) as engine:
        yield lambda: lambda number: engine.session(f"s{number}", user_id="ann").append(turn(uuid4().hex))


@contextmanager
def driver(url: str, known: list[Statements]) -> Iterator[Callable[[], Append]]:
    """Yield a function that opens a connection and returns an `append` that replays the recorded statements."""

    def connect() -> Append:
        connection = psycopg.connect(url.replace("+psycopg", ""), autocommit=True)

        def append(number: int) -> None:
            name = uuid4().hex
            for query, parameters in known[number]:
                cursor = connection.execute(query, _filled(parameters, name))
                if cursor.description is not None:
                    cursor.fetchall()

        return append

    yield connect


def _pattern(parameters: Any, name: str) -> Any:
    """Return recorded parameters with signs in place of the turn's name and times."""
    if not isinstance(parameters, dict) or "given" not in parameters:
        return parameters
    return {"given": _TIMES.sub(rf"\1{_NOW}", parameters["given"].replace(name, _NAME))}


def _filled(parameters: Any, name: str) -> Any:
    if not isinstance(parameters, dict) or "given" not in parameters:
        return parameters
    return {"given": parameters["given"].replace(_NAME, name).replace(_NOW, str(time.time_ns() // 1_000))}


def work(
    openers: dict[str, Callable[[], Any]],
    given: argparse.Namespace,
    barrier: Barrier,
    results: "Queue[tuple[str, int, Counter[str]]]",
) -> None:
    """Append with each contestant in turn, in step with the other processes."""
    for kind in list(openers) * _ALTERNATIONS:
        with openers[kind]() as connect:
            appends = [connect() for _ in range(given.threads)]
            barrier.wait()
            _append_for(appends, _WARM_UP_SECONDS, given.sessions)
            barrier.wait()
            count, errors = _append_for(appends, given.seconds / _ALTERNATIONS, given.sessions)
        results.put((kind, count, errors))


def _append_for(appends: list[Append], seconds: float, sessions: int) -> tuple[int, Counter[str]]:
    """Append from one thread per function until the time is over; return the number of appends and the errors."""
    counts: list[int] = []
    errors: Counter[str] = Counter()
    end = time.monotonic() + seconds

    def write(append: Append) -> None:
        chance, done = random.Random(), 0
        while time.monotonic() < end:
            try:
                append(chance.randrange(sessions))
                done += 1
            except Exception as error:  # noqa: BLE001 - all errors are counted
                errors[f"{type(error).__name__}: {error}"[:120]] += 1
        counts.append(done)

    threads = [threading.Thread(target=write, args=(one,)) for one in appends]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return sum(counts), errors


def load(openers: dict[str, Callable[[], Any]], given: argparse.Namespace) -> dict[str, Any]:
    """Return the turns per second of each contestant, and the errors."""
    fork = multiprocessing.get_context("fork")
    barrier, results = fork.Barrier(given.processes), fork.Queue()
    workers = [fork.Process(target=work, args=(openers, given, barrier, results)) for _ in range(given.processes)]
    for one in workers:
        one.start()
    rates: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    for _ in range(given.processes * _ALTERNATIONS * len(openers)):
        kind, count, failed = results.get()
        rates[kind] += count
        errors += failed
    for one in workers:
        one.join()
    return {**{kind: round(count / given.seconds, 1) for kind, count in rates.items()}, "errors": dict(errors)}


def main() -> None:
    """Measure the chosen databases and print the results as JSON."""
    from tests.support.servers import postgres_server

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="of each contestant")
    parser.add_argument("--processes", type=int, default=4, help="on PostgreSQL")
    parser.add_argument("--threads", type=int, default=8, help="of each process, on PostgreSQL")
    parser.add_argument("--sessions", type=int, default=1_000)
    parser.add_argument("--database", nargs="+", default=["postgres", "sqlite"])
    given = parser.parse_args()
    if "postgres" in given.database:
        with postgres_server(durable=True) as server:
            url, known = server.url(), recorded(server.url(), given.sessions)
            found = load({"arc": partial(arc, url), "driver": partial(driver, url, known)}, given)
        print(json.dumps({"postgres": {**found, "ratio": round(found["arc"] / found["driver"], 3)}}))
    if "sqlite" in given.database:
        given.processes, given.threads = 8, 1
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps({"sqlite": load({"arc": partial(arc, f"sqlite:///{folder}/arc.db")}, given)}))


if __name__ == "__main__":
    main()
