"""What a turn costs in a long conversation, compared with a short one, on SQLite and PostgreSQL among many sessions.

    python benchmarks/flatness.py --data recall_longmemeval.json.gz [--sizes 100 1000 10000 100000] [--others 10000]
        [--questions 68] [--rounds 4] [--keep DIRECTORY]

One database holds a session of each size and `--others` sessions of four messages. The messages are the sentences of
real chats, each once. The former, and a tenth of the latter, are summarised by rules and indexed. Each session is
asked about messages from its beginning, each question once ("new") and once more ("again", with its words known to the
process), the sizes interleaved. The cost is CPU: of this process and, on PostgreSQL, of the server's processes.
`--keep` keeps the filled database of SQLite, from which that of PostgreSQL is copied.
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
_AT_ONCE = 2_000
_SHORT = 4
_ASKED_ABOUT = 120
_WORD = re.compile(r"[A-Za-z]{5,}")
_TWO = 2
_WARMING = 8
_WORKED = 10


def sentences(path: Path) -> Iterator[str]:
    """Yield the sentences of chats, each once."""
    seen = set()
    for one in json.loads(gzip.decompress(path.read_bytes())):
        for session in one.get("sessions", [one]):
            for turn in session["turns"]:
                for text in _END.split(turn.get("content", turn.get("text"))):
                    if text not in seen and 20 <= len(text) <= 400:
                        seen.add(text)
                        yield text


def spoken(texts: Iterator[str], count: int) -> list[Message]:
    """Return the next messages, by user and assistant in turn."""
    found = [
        Message(Role.ASSISTANT if number % 2 else Role.USER, text) for number, text in enumerate(islice(texts, count))
    ]
    if len(found) < count:
        raise ValueError("the data has too few sentences")
    return found


def fill(url: str, texts: Iterator[str], sizes: list[int], others: int) -> None:
    """Store all sessions, and work on those that are asked and on some others."""
    with ContextEngine.open(url, settings=SETTINGS) as engine:
        worked = others // _WORKED
        for number in range(worked):
            engine.session(f"other {number}").append(spoken(texts, _SHORT))
        for size in sizes:
            for left in range(size, 0, -_AT_ONCE):
                engine.session(f"s{size}").append(spoken(texts, min(_AT_ONCE, left)))
        engine.admin.work(threads=1)
        for number in range(worked, others):
            engine.session(f"other {number}").append(spoken(texts, _SHORT))


def server_ns(server: Any) -> int:
    """Return the CPU time of the server's processes."""
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
    """Return questions about what was said early in a session: each names two long words of a message."""
    found = []
    first = session.stored(after=0, limit=_ASKED_ABOUT)
    for stored in first:
        words = sorted(set(_WORD.findall(stored.message.text)), key=lambda word: (-len(word), word))[:2]
        if len(words) == _TWO:
            found.append(f"What did we say about {words[0]} and {words[1]}?")
    return found[:count]


def costs(session: Session, questions: list[str], server: Any) -> tuple[float, float]:
    """Return the median CPU of this process for a question, and the server's mean CPU, in ms."""
    own, before = [], server_ns(server)
    for question in questions:
        begin = time.process_time_ns()
        session.context(question)
        own.append((time.process_time_ns() - begin) / 1e6)
    return statistics.median(own), (server_ns(server) - before) / 1e6 / len(questions)


def measure(url: str, server: Any, given: argparse.Namespace) -> dict[tuple[int, str], tuple[float, float]]:
    """Return the CPU of a turn, here and at the server, for each size: of questions asked first, and again."""
    found: dict[tuple[int, str], list[tuple[float, float]]] = defaultdict(list)
    with ContextEngine.open(url, settings=SETTINGS) as engine:
        sessions = {size: engine.session(f"s{size}") for size in given.sizes}
        asked = {size: questions_about(sessions[size], given.questions) for size in given.sizes}
        for size in given.sizes:
            costs(sessions[size], asked[size][:_WARMING], server)
        for number in range(given.rounds):
            for size in given.sizes[:: 1 if number % 2 else -1]:
                mine = asked[size][_WARMING:][number :: given.rounds]
                found[size, "new"].append(costs(sessions[size], mine, server))
                found[size, "again"].append(costs(sessions[size], mine, server))
    return {
        name: (statistics.median(one for one, _ in both), statistics.mean(other for _, other in both))
        for name, both in sorted(found.items(), key=lambda one: (one[0][1], one[0][0]))
    }


def copied(source: str, url: str, folder: Path) -> None:
    """Copy a database."""
    file = folder / "copy.jsonl"
    with ContextEngine.open(source, settings=SETTINGS) as old, ContextEngine.open(url, settings=SETTINGS) as new:
        old.admin.export(file, caller_id="default", user_id=None)
        new.admin.import_(file)
    file.unlink()


def main() -> None:
    """Print the table."""
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
    table = Table("database", "question", "messages", "CPU here, ms", "of the server", "sum", "times the shortest")
    with ExitStack() as stack:
        folder = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(postgres_server())
        file = folder / "flatness.db"
        if not file.exists():
            part = file.with_suffix(".part")
            fill(f"sqlite:///{part}", sentences(given.data), given.sizes, given.others)
            part.rename(file)
        postgres = new_database(server)
        copied(f"sqlite:///{file}", postgres, folder)
        with psycopg.connect(server.dsn(postgres.rpartition("/")[2]), autocommit=True) as admin:
            admin.execute("VACUUM ANALYZE")
        for url, where in ((f"sqlite:///{file}", None), (postgres, server)):
            found = measure(url, where, given)
            for (size, kind), (own, there) in found.items():
                shortest = sum(found[given.sizes[0], kind])
                figures = f"{own:.2f}", f"{there:.2f}", f"{own + there:.2f}", f"{(own + there) / shortest:.2f}"
                table.add_row(url.partition(":")[0], kind, f"{size:,}", *figures)
    Console().print(table)


if __name__ == "__main__":
    main()
