"""Measure the CPU of a turn in long and short conversations, on SQLite and PostgreSQL with many other sessions.

    python benchmarks/flatness.py --data recall_longmemeval.json.gz [--sizes 100 1000 10000 100000] [--others 10000]
        [--questions 68] [--rounds 4] [--keep DIRECTORY]

One database holds a session of each size and `--others` sessions of four messages. Messages are distinct sentences of
real chats. The measured sessions and a tenth of the others are summarised by rules and indexed. Each session is asked
about its early messages, the sizes interleaved; the first eight questions only warm up.

- "new": each question for the first time. "again": the same question a second time, when its words are cached.
- "client CPU, ms": the median of this process. "server CPU, ms": the mean of PostgreSQL's processes.
- "ratio": the sum of both, relative to the smallest size.

`--keep` keeps the filled SQLite database, from which the PostgreSQL one is copied.
"""

import argparse
import gzip
import json
import re
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from arc_common import ArcSettings, ContextEngine, Message, Role, Session

SETTINGS = ArcSettings(background={"in_process": False}, storage={"synchronous": "normal"})
_END = re.compile(r"(?<=[.!?])\s+")
_BATCH = 2_000
_OTHER_SIZE = 4
_EARLY_MESSAGES = 120
_WORD = re.compile(r"[A-Za-z]{5,}")
_WORDS = 2
_WARM_UP = 8
_SUMMARISED = 10  # one in so many of the other sessions


def sentences(path: Path) -> Iterator[str]:
    """Yield the distinct sentences of the chats."""
    seen = set()
    for one in json.loads(gzip.decompress(path.read_bytes())):
        for session in one.get("sessions", [one]):
            for turn in session["turns"]:
                for text in _END.split(turn.get("content", turn.get("text"))):
                    if text not in seen and 20 <= len(text) <= 400:
                        seen.add(text)
                        yield text


def take_messages(texts: Iterator[str], count: int) -> list[Message]:
    """Take the next texts as messages, alternately of user and assistant."""
    found = [
        Message(Role.ASSISTANT if number % 2 else Role.USER, text) for number, text in enumerate(islice(texts, count))
    ]
    if len(found) < count:
        raise ValueError(f"the data has {len(found)} more sentences, but {count} are needed")
    return found


def fill(url: str, texts: Iterator[str], sizes: list[int], others: int) -> None:
    """Store all sessions; summarise and index the measured ones and some of the others."""
    with ContextEngine.open(url, settings=SETTINGS) as engine:
        summarised = others // _SUMMARISED
        for number in range(summarised):
            engine.session(f"other {number}").append(take_messages(texts, _OTHER_SIZE))
        for size in sizes:
            for left in range(size, 0, -_BATCH):
                engine.session(f"s{size}").append(take_messages(texts, min(_BATCH, left)))
        engine.admin.work(threads=1)
        for number in range(summarised, others):
            engine.session(f"other {number}").append(take_messages(texts, _OTHER_SIZE))


def server_ns(server: Any) -> int:
    """Return the CPU time of the server's processes in ns, or 0 without a server."""
    if server is None:
        return 0
    found = 0
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(status.read_text().rpartition(")")[2].split()[1]) == server.pid:
                found += int((status.parent / "schedstat").read_text().split()[0])
        except (OSError, ValueError):
            continue
    return found


def questions_about(session: Session, count: int) -> list[str]:
    """Return questions about early messages of a session, each naming two long words of one message."""
    found = []
    first = session.stored(after=0, limit=_EARLY_MESSAGES)
    for stored in first:
        words = sorted(set(_WORD.findall(stored.message.text)), key=lambda word: (-len(word), word))[:_WORDS]
        if len(words) == _WORDS:
            found.append(f"What did we say about {words[0]} and {words[1]}?")
    return found[:count]


def costs(session: Session, questions: list[str], server: Any) -> tuple[float, float]:
    """Return this process's median CPU per question and the server's mean CPU per question, in ms."""
    own, before = [], server_ns(server)
    for question in questions:
        begin = time.process_time_ns()
        session.context(question)
        own.append((time.process_time_ns() - begin) / 1e6)
    return statistics.median(own), (server_ns(server) - before) / 1e6 / len(questions)


def measure(url: str, server: Any, given: argparse.Namespace) -> dict[tuple[int, str], tuple[float, float]]:
    """Return the CPU of a turn on client and server in ms, for each size, with new and repeated questions."""
    found: dict[tuple[int, str], list[tuple[float, float]]] = defaultdict(list)
    with ContextEngine.open(url, settings=SETTINGS) as engine:
        sessions = {size: engine.session(f"s{size}") for size in given.sizes}
        asked = {size: questions_about(sessions[size], given.questions) for size in given.sizes}
        for size in given.sizes:
            costs(sessions[size], asked[size][:_WARM_UP], server)
        for number in range(given.rounds):
            for size in given.sizes[:: 1 if number % 2 else -1]:
                mine = asked[size][_WARM_UP:][number :: given.rounds]
                found[size, "new"].append(costs(sessions[size], mine, server))
                found[size, "again"].append(costs(sessions[size], mine, server))
    return {
        name: (statistics.median(one for one, _ in both), statistics.mean(other for _, other in both))
        for name, both in sorted(found.items(), key=lambda one: (one[0][1], one[0][0]))
    }


def copy_database(source: str, url: str, folder: Path) -> None:
    """Copy everything in one database to another."""
    file = folder / "copy.jsonl"
    with ContextEngine.open(source, settings=SETTINGS) as old, ContextEngine.open(url, settings=SETTINGS) as new:
        old.admin.export(file, caller_id="default", user_id=None)
        new.admin.import_(file)
    file.unlink()


def main() -> None:
    """Fill the databases, measure, and print the table."""
    from tests.support.databases import new_database
    from tests.support.servers import postgres_server

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1_000, 10_000, 100_000])
    parser.add_argument("--others", type=int, default=10_000)
    parser.add_argument("--questions", type=int, default=68)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    table = Table("database", "question", "messages", "client CPU, ms", "server CPU, ms", "sum", "ratio")
    with ExitStack() as stack:
        folder = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(postgres_server())
        file = folder / "flatness.db"
        if not file.exists():
            part = file.with_suffix(".part")
            fill(f"sqlite:///{part}", sentences(given.data), given.sizes, given.others)
            part.rename(file)
        postgres = new_database(server)
        copy_database(f"sqlite:///{file}", postgres, folder)
        with psycopg.connect(server.dsn(postgres.rpartition("/")[2]), autocommit=True) as admin:
            admin.execute("VACUUM ANALYZE")
        for url, process in ((f"sqlite:///{file}", None), (postgres, server)):
            found = measure(url, process, given)
            for (size, kind), (own, there) in found.items():
                smallest = sum(found[given.sizes[0], kind])
                figures = f"{own:.2f}", f"{there:.2f}", f"{own + there:.2f}", f"{(own + there) / smallest:.2f}"
                table.add_row(url.partition(":")[0], kind, f"{size:,}", *figures)
    Console().print(table)


if __name__ == "__main__":
    main()
