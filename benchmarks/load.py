"""Many writers at once: 32 over 1,000 sessions on PostgreSQL beside the driver, and 8 processes on one SQLite file.

    python benchmarks/load.py [--seconds 60] [--processes 4] [--threads 8] [--sessions 1000]
        [--database postgres sqlite]

Each writer appends turns of two messages to sessions at random. On PostgreSQL (fsync on), the bare driver issues the
statements that arc issues for such an append, recorded for each session and sent with other ids, texts and times, so
that both write the same rows, bytes and index entries. Arc and the driver take turns of a few seconds, of which
`--seconds` is the sum for each, after a second in which all connections open and prepare their statements. Background
work is off: `benchmarks/workers.py` measures it. On SQLite, an error such as "database is locked" counts.
"""

import argparse
import json
import multiprocessing
import random
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
_TURNS = 6
_WARMING = 1.0

Append = Callable[[int], object]
Statements = list[tuple[Any, Any]]


def turn(name: str) -> list[Message]:
    """Return the two messages of a turn."""
    return [
        Message(Role.USER, f"{USER} {name}", id=f"{name}-q"),
        Message(Role.ASSISTANT, f"{ASSISTANT} {name}", id=f"{name}-a"),
    ]


class Recording(psycopg.Connection[Any]):
    """A connection that records what is sent."""

    sent: Statements | None = None

    def execute(self, query: Any, params: Any = None, **more: Any) -> Any:
        """Run a statement."""
        if Recording.sent is not None:
            Recording.sent.append((query, params))
        return super().execute(query, params, **more)


def recorded(url: str, sessions: int) -> list[tuple[str, Statements]]:
    """Begin the sessions; return what arc sends for one more turn of each, and the name of that turn."""
    dsn = url.replace("+psycopg", "")
    database = create_engine(url, creator=lambda: Recording.connect(dsn))
    found = []
    with ContextEngine.open(database, settings=SETTINGS) as engine:
        for number in range(sessions):
            session = engine.session(f"s{number}", user_id="ann")
            session.append(turn("first"))
            name = uuid4().hex
            Recording.sent = []
            session.append(turn(name))
            found.append((name, Recording.sent))
            Recording.sent = None
    database.dispose()
    return found


@contextmanager
def arc(url: str) -> Iterator[Callable[[], Append]]:
    """An engine that the threads of a process share."""
    with ContextEngine.open(url, settings=SETTINGS) as engine:
        yield lambda: lambda number: engine.session(f"s{number}", user_id="ann").append(turn(uuid4().hex))


@contextmanager
def driver(url: str, known: list[tuple[str, Statements]]) -> Iterator[Callable[[], Append]]:
    """A connection of the driver for each thread."""

    def connect() -> Append:
        connection = psycopg.connect(url.replace("+psycopg", ""), autocommit=True)

        def append(number: int) -> None:
            before, statements = known[number]
            name = uuid4().hex
            for query, parameters in statements:
                cursor = connection.execute(query, _renamed(parameters, before, name))
                if cursor.description is not None:
                    cursor.fetchall()

        return append

    yield connect


def _renamed(parameters: Any, before: str, name: str) -> Any:
    if not isinstance(parameters, dict):
        return parameters
    renamed = {}
    now, then = time.time_ns() // 1_000, str(parameters.get("last_at"))
    for key, value in parameters.items():
        if key in ("now", "last_at"):
            value = now  # noqa: PLW2901 - the same parameter
        elif isinstance(value, str):
            value = value.replace(before, name).replace(then, str(now))  # noqa: PLW2901 - the same parameter
        elif isinstance(value, list):
            value = [one.replace(before, name) if isinstance(one, str) else one for one in value]  # noqa: PLW2901
        renamed[key] = value
    return renamed


def work(
    openers: dict[str, Callable[[], Any]],
    given: argparse.Namespace,
    together: Barrier,
    results: "Queue[tuple[str, int, Counter[str]]]",
) -> None:
    """Take turns with all kinds, in step with the other processes."""
    for kind in list(openers) * _TURNS:
        with openers[kind]() as connect:
            appends = [connect() for _ in range(given.threads)]
            together.wait()
            _written(appends, _WARMING, given.sessions)
            together.wait()
            count, errors = _written(appends, given.seconds / _TURNS, given.sessions)
        results.put((kind, count, errors))


def _written(appends: list[Append], seconds: float, sessions: int) -> tuple[int, Counter[str]]:
    """Append on a thread each for so long; return how often, and the errors."""
    counts: list[int] = []
    errors: Counter[str] = Counter()
    end = time.monotonic() + seconds

    def write(append: Append) -> None:
        chance, done = random.Random(), 0
        while time.monotonic() < end:
            try:
                append(chance.randrange(sessions))
                done += 1
            except Exception as error:  # noqa: BLE001 - what is counted
                errors[f"{type(error).__name__}: {error}"[:120]] += 1
        counts.append(done)

    threads = [threading.Thread(target=write, args=(one,)) for one in appends]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return sum(counts), errors


def load(openers: dict[str, Callable[[], Any]], given: argparse.Namespace) -> dict[str, Any]:
    """Return turns a second of each kind, and the errors."""
    fork = multiprocessing.get_context("fork")
    together, results = fork.Barrier(given.processes), fork.Queue()
    workers = [fork.Process(target=work, args=(openers, given, together, results)) for _ in range(given.processes)]
    for one in workers:
        one.start()
    rates: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    for _ in range(given.processes * _TURNS * len(openers)):
        kind, count, failed = results.get()
        rates[kind] += count
        errors += failed
    for one in workers:
        one.join()
    return {**{kind: round(count / given.seconds, 1) for kind, count in rates.items()}, "errors": dict(errors)}


def main() -> None:
    """Print turns a second, their ratio and the errors."""
    from tests.support.servers import postgres_server

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--threads", type=int, default=8)
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
