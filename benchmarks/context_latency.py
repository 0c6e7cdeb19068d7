"""What summaries add to a turn: `context` over a long conversation, with and without them, on SQLite.

    python benchmarks/context_latency.py [--turns 1000] [--model-seconds 3] [--think-seconds 0.02] [--no-recall]

Each turn appends a question and an answer and then asks for the context. "plain" has summaries switched off, "rules"
has no model, "model" one that takes so many seconds for each call. CPU is the calling thread's own: it shows what a
turn does, whatever else the machine is doing; wall also has its waiting for the disk, for other threads and for the
interpreter. "statements" are those that the turn's own thread ran in one turn of 25, which is not timed: to be told of
each, those that FTS5 runs within one too, takes milliseconds. The last column is what is added to plain.

A turn also looks for older messages that its question is about, with summaries and without; `--no-recall` leaves that
out. With no time to think the model falls behind from the first minute on, and everything it has not seen yet is shown
verbatim while there is room: a turn then shows up to all of the conversation, which plain never does.
"""

import argparse
import json
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from sqlalchemy import create_engine, event

from arc_common import ArcSettings, ContextEngine, Message, Role

_QUESTION = "And what of order ORD-1005 now?"
_TRACED = 25


class SlowModel:
    """Says little, and takes its time.

    Args:
        seconds: How long.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def complete(self, messages: Sequence[Message]) -> str:
        """A summary in the form asked for."""
        time.sleep(self._seconds)
        if '"facts"' not in messages[-1].text + messages[0].text:
            return json.dumps({"narrative": "They spoke of orders and deliveries, and agreed on dates."})
        facts = [{"key": "topic", "value": "order", "category": "GENERAL"}]
        return json.dumps({"facts": facts, "narrative": "They spoke of orders and deliveries, and agreed on dates."})


def turn(number: int) -> list[Message]:
    """A question with facts in it, and its answer."""
    return [
        Message(
            Role.USER,
            f"Question {number}: my order is ORD-{1000 + number}, the delivery to {number} High Street must not come "
            f"before {number % 28 + 1} May, and the budget is ${number * 7}.",
        ),
        Message(Role.ASSISTANT, f"Noted, answer {number}. We will see to it, and write to you when it has been sent."),
    ]


def measure(
    turns: int, *, enabled: bool, model: SlowModel | None, think: float, recall: bool
) -> dict[str, list[float]]:
    """Milliseconds of each turn, of its thread and by the clock, and the statements it ran."""
    figures: dict[str, list[float]] = {"cpu": [], "wall": [], "statements": [], "shown": []}
    me = threading.get_ident()
    ran: list[str] = []
    with tempfile.TemporaryDirectory() as directory:
        database = create_engine(f"sqlite:///{Path(directory) / 'arc.db'}")

        connections: list[sqlite3.Connection] = []
        event.listen(database, "connect", lambda connection, _: connections.append(connection))

        def note(sql: str) -> None:
            if threading.get_ident() == me and sql not in ("BEGIN", "ROLLBACK") and not sql.startswith("--"):
                ran.append(sql)

        def trace(callback: Callable[[str], None] | None) -> None:
            for connection in connections:
                connection.set_trace_callback(callback)

        settings = ArcSettings(summary={"enabled": enabled}, recall={"enabled": recall})
        with ContextEngine.open(database, chat_model=model, settings=settings) as engine:
            session = engine.session("s")
            for number in range(1, turns + 1):
                session.append(turn(number))
                time.sleep(think)
                if number % _TRACED == 0:
                    trace(note)
                    window = session.context(_QUESTION)
                    trace(None)
                    figures["statements"].append(len(ran))
                    figures["shown"].append(len(window.messages))
                    ran.clear()
                    continue
                wall, cpu = time.perf_counter(), time.thread_time()
                window = session.context(_QUESTION)
                figures["cpu"].append((time.thread_time() - cpu) * 1_000)
                figures["wall"].append((time.perf_counter() - wall) * 1_000)
                figures["shown"].append(len(window.messages))
        database.dispose()
    return figures


def quantile(values: Sequence[float], share: float) -> float:
    """The value that this share is at most."""
    return statistics.quantiles(values, n=1_000, method="inclusive")[round(share * 1_000) - 1]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=1_000)
    parser.add_argument("--model-seconds", type=float, default=3.0)
    parser.add_argument("--think-seconds", type=float, default=0.02)
    parser.add_argument("--no-recall", action="store_true", help="look for no older messages")
    given = parser.parse_args()
    columns = (
        "CPU p50",
        "CPU p99",
        "wall p50",
        "wall p99",
        "statements p50",
        "most",
        "most shown",
        "added CPU/wall p99",
    )
    table = Table("ms", *columns)
    plain: tuple[float, float] | None = None
    for name, enabled, model in (
        ("plain", False, None),
        ("rules", True, None),
        ("model", True, SlowModel(given.model_seconds)),
    ):
        figures = measure(
            given.turns, enabled=enabled, model=model, think=given.think_seconds, recall=not given.no_recall
        )
        cpu, wall, statements = figures["cpu"], figures["wall"], figures["statements"]
        p99 = quantile(cpu, 0.99), quantile(wall, 0.99)
        plain = plain or p99
        table.add_row(
            name,
            f"{quantile(cpu, 0.5):.2f}",
            f"{p99[0]:.2f}",
            f"{quantile(wall, 0.5):.2f}",
            f"{p99[1]:.2f}",
            f"{quantile(statements, 0.5):.0f}",
            f"{max(statements):.0f}",
            f"{max(figures['shown']):.0f}",
            f"{p99[0] - plain[0]:+.2f} / {p99[1] - plain[1]:+.2f}",
        )
    Console(width=124).print(table)


if __name__ == "__main__":
    main()
