"""Measure the time to load the last 20 of 100,000 messages from SQLite: arc, the bare driver, and loading everything.

    python benchmarks/load_tail.py [--messages 100000] [--rounds 300]

The bare driver runs arc's own statement. Its rounds and arc's alternate. Prints the median ms of each as JSON.
"""

import argparse
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from arc_common.messages import Message, Role
from arc_common.protocols import CountedMessage, SessionKey
from arc_common.stores.branch_paths import MAIN, place_on
from arc_common.stores.conversations import SqlStore
from arc_common.stores.statements.conversations import statements_for

KEY = SessionKey("long")
WINDOW = 20


def fill(store: SqlStore, count: int) -> None:
    """Store a conversation with alternating user and assistant messages."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for begin in range(0, count, 5_000):
        store.append(
            KEY,
            [
                CountedMessage(
                    Message(
                        Role.USER if number % 2 == 0 else Role.ASSISTANT,
                        f"Message {number} of a long conversation about orders, deliveries and refunds.",
                        id=f"m{number}",
                        created_at=start + timedelta(seconds=number),
                    ),
                    18,
                    "benchmark/1",
                )
                for number in range(begin, min(begin + 5_000, count))
            ],
        )


def median_ms(call: Callable[[], object], rounds: int) -> float:
    """Return the median time of a call in ms."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1_000


def main() -> None:
    """Print the medians as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=300)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "arc.db"
        store = SqlStore(f"sqlite:///{path}")
        fill(store, arguments.messages)
        tail = statements_for("sqlite").newest
        bare = sqlite3.connect(path, isolation_level=None)
        names = {
            **tail.defaults, **place_on(KEY, MAIN, "sqlite"), "before": 2**62, "after": -1, "row_limit": WINDOW,
        }  # fmt: skip
        calls: dict[str, Callable[[], object]] = {
            "arc_tail": lambda: store.read(KEY, limit=WINDOW),
            "bare_driver": lambda: bare.execute(tail.sql, names).fetchall(),
        }
        assert len(store.read(KEY, limit=WINDOW)) == WINDOW  # noqa: S101 - the reads must return rows
        results = {name: [] for name in calls}  # type: dict[str, list[float]]
        for _ in range(10):
            for name, call in calls.items():
                results[name].append(median_ms(call, arguments.rounds // 10))
        figures = {f"{name}_ms": round(statistics.median(values), 4) for name, values in results.items()}
        figures["load_all_ms"] = round(median_ms(lambda: store.read(KEY)[-WINDOW:], 2), 1)
        print(json.dumps({"messages": arguments.messages, "window": WINDOW, **figures}, indent=2))
        bare.close()
        store.close()


if __name__ == "__main__":
    main()
