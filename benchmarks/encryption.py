"""Measure the bytes of a SQLite database and the CPU of appends, reads and turns, with and without encryption.

    python benchmarks/encryption.py --data recall_longmemeval.json.gz [--messages 2000] [--rounds 3]

Each round is 100 reads and 100 turns. "append, µs" and "read, µs" are the median CPU per message, "turn, ms" is that of
`session.context`. Plain and encrypted databases are measured twice each, alternately.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median

from cryptography.fernet import Fernet
from flatness import sentences, take_messages
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from arc_common import ArcSettings, ContextEngine

_PAGE = 100


def cpu_ms(call: Callable[[], object]) -> float:
    """Return the CPU of a call in ms."""
    begin = time.process_time_ns()
    call()
    return (time.process_time_ns() - begin) / 1e6


def measure(path: Path, key: str | None, texts: list[str], rounds: int) -> list[str]:
    """Measure a new database and return a row of the table."""
    storage = {"encryption_keys": key, "synchronous": "normal"}
    settings = ArcSettings(storage=storage, background={"in_process": False})
    appends, reads, turns = list[float](), list[float](), list[float]()
    with ContextEngine.open(f"sqlite:///{path}", settings=settings) as engine:
        session = engine.session("s", user_id="ann")
        for first in range(0, len(texts), _PAGE):
            page = take_messages(iter(texts[first : first + _PAGE]), _PAGE)
            appends.append(cpu_ms(partial(session.append, page)) / _PAGE * 1_000)
        engine.admin.work()
        for question in texts[: rounds * _PAGE]:
            reads.append(cpu_ms(partial(session.messages, limit=_PAGE)) / _PAGE * 1_000)
            turns.append(cpu_ms(partial(session.context, question)))
    size = path.stat().st_size / len(texts)
    return [f"{size:,.0f}", f"{median(appends):.0f}", f"{median(reads):.0f}", f"{median(turns):.2f}"]


def main() -> None:
    """Measure plain and encrypted databases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    texts = list(islice(sentences(given.data), given.messages))
    table = Table("", "bytes per message", "append, µs", "read, µs", "turn, ms")
    key = Fernet.generate_key().decode()
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder) / "first.db", key, texts, given.rounds)  # warm-up
        for number in range(2):
            for kind, used in (("plain", None), ("encrypted", key)):
                table.add_row(kind, *measure(Path(folder) / f"{kind}-{number}.db", used, texts, given.rounds))
    Console().print(table)


if __name__ == "__main__":
    main()
