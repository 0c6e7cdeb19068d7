"""Measure the statements, calls and CPU of one turn (`session.context`) in long conversations of real text.

    python benchmarks/context_latency.py --data recall_locomo.json.gz [--sizes 200 10000] [--tokens 800 4000]
        [--keep DIRECTORY] [--url postgresql://…] [--no-recall] [--show]

The file's conversations are appended to one session until it has the given number of messages, which are then
summarised by rules and indexed. Their questions are the queries; "common" is a query of frequent words only.

- "tokens": the limit of the recalled section.
- "statements": statements sent to the database, without BEGIN, COMMIT and ROLLBACK.
- "store calls": calls from other packages into `arc_common.stores`. "files": source files of arc that ran.
- "CPU ms": the median CPU of the process per turn. "new": each question for the first time; "again": the same
  questions a second time.

Calls and files are counted in one turn with one more new question. So are statements on PostgreSQL; on SQLite they are
counted when that question is asked again.
"""

import argparse
import gzip
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.table import Table
from sqlalchemy import create_engine, event

from arc_common import ArcSettings, ContextEngine, Message, Role, Session
from arc_common import __file__ as _package

_PACKAGE = str(Path(_package).parent)
_STORES = f"{_PACKAGE}/stores/"
_COMMON = "I would like to know what you think of it and when you went there with them, if you can say so."
_TRANSACTION_CONTROL = ("BEGIN", "COMMIT", "ROLLBACK")
_BATCH = 500


@dataclass
class Turn:
    """The counts of one turn, collected by a profile function."""

    calls: int = 0
    store_calls: int = 0
    files: set[str] = field(default_factory=set)
    statements: list[str] = field(default_factory=list)

    def note_call(self, frame: FrameType, kind: str, _: object) -> None:
        """Record a call; used as the profile function."""
        if kind != "call":
            return
        self.calls += 1
        code = frame.f_code
        name = code.co_filename
        if name.startswith(_PACKAGE):
            self.files.add(name)
            before = frame.f_back.f_code.co_filename if frame.f_back else ""
            public = not code.co_name.startswith(("_", "<"))
            self.store_calls += public and name.startswith(_STORES) and not before.startswith(_STORES)
        elif code.co_name == "execute" and name.endswith("psycopg/connection.py"):
            self.note_statement(str(frame.f_locals.get("query")))

    def note_statement(self, sql: str) -> None:
        """Record a statement, unless it only controls a transaction."""
        if not sql.startswith((*_TRANSACTION_CONTROL, "--")):
            self.statements.append(sql)


def read(path: Path) -> tuple[list[Message], list[str]]:
    """Return the messages and the questions of the conversations in a file."""
    conversations = json.loads(gzip.decompress(path.read_bytes()))
    messages = [
        Message(Role.USER if turn["speaker"] == one["turns"][0]["speaker"] else Role.ASSISTANT, turn["text"])
        for one in conversations
        for turn in one["turns"]
    ]
    return messages, [each["question"] for one in conversations for each in one["questions"]]


def fill(session: Session, engine: ContextEngine, messages: Iterator[Message], size: int) -> None:
    """Append messages up to the given size, then summarise and index them."""
    stored = 0
    while stored < size:
        stored += len(session.append(list(islice(messages, min(_BATCH, size - stored)))))
        session.summarize()
    while not engine.flush(600):
        pass
    session.recall("Hello?")
    engine.flush(600)


def measure(url: str, messages: Sequence[Message], questions: Sequence[str], size: int, settings: ArcSettings) -> Any:
    """Return the median CPU in ms of turns with new and with repeated questions, and the counts of one turn."""
    database = create_engine(url) if url.startswith("sqlite") else url
    connections: list[Any] = []
    if not isinstance(database, str):
        event.listen(database, "connect", lambda connection, _: connections.append(connection))
    with ContextEngine.open(database, settings=settings) as engine:
        session = engine.session(f"s{size}")
        if not session.exists():
            fill(session, engine, cycle(messages), size)
        first, *asked, counted = questions
        session.context(first)
        new, again = ([cpu_of_turn(session, question) for question in asked] for _ in range(2))
        turn = Turn()
        sys.setprofile(turn.note_call)
        session.context(counted)
        sys.setprofile(None)
        for connection in connections:
            connection.set_trace_callback(turn.note_statement)
        session.context(counted)
        for connection in connections:
            connection.set_trace_callback(None)
    if not isinstance(database, str):
        database.dispose()
    return statistics.median(new), statistics.median(again), turn


def cpu_of_turn(session: Session, question: str) -> float:
    """Return the CPU of one turn in ms."""
    before = time.process_time()
    session.context(question)
    return (time.process_time() - before) * 1_000


def main() -> None:
    """Measure every size and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 10_000, 100_000], help="messages")
    parser.add_argument("--tokens", type=int, nargs="+", default=[800, 4_000], help="of the recalled section")
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--keep", type=Path, help="directory that keeps the SQLite files for the next run")
    parser.add_argument("--url", help="a PostgreSQL database to use instead of SQLite")
    parser.add_argument("--no-recall", action="store_true", help="disable recall")
    parser.add_argument("--show", action="store_true", help="also print the statements")
    given = parser.parse_args()
    messages, questions = read(given.data)
    asked = {"questions": questions[:: max(1, len(questions) // given.questions)], "common": [_COMMON] * 10}
    table = Table(
        "messages", "tokens", "questions", "statements", "store calls", "Python calls", "files", "CPU ms, new", "again"
    )
    console = Console(width=110)
    with tempfile.TemporaryDirectory() as temporary:
        directory = given.keep or Path(temporary)
        for size in given.sizes:
            url = given.url or f"sqlite:///{directory / f'{size}.db'}"
            for tokens in given.tokens:
                settings = ArcSettings(
                    budget={"recalled": tokens},
                    recall={"enabled": not given.no_recall},
                    storage={"synchronous": "normal"},
                )
                for name, texts in asked.items():
                    new, again, turn = measure(url, messages, texts, size, settings)
                    figures = len(turn.statements), turn.store_calls, turn.calls, len(turn.files), f"{new:.2f}"
                    table.add_row(f"{size:,}", f"{tokens:,}", name, *map(str, figures), f"{again:.2f}")
                    if given.show:
                        console.print("\n".join(" ".join(sql.split())[:100] for sql in turn.statements), markup=False)
    console.print(table)


if __name__ == "__main__":
    main()
