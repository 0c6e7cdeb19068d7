"""What encryption costs: bytes of a SQLite database, and CPU of appends, reads and turns, with a cipher and without.

python benchmarks/encryption.py --data recall_longmemeval.json.gz [--messages 2000] [--rounds 5]
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
from flatness import sentences, spoken
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from arc_common import ArcSettings, ContextEngine

_PAGE = 100


def timed(call: Callable[[], object]) -> float:
    """Return the CPU of a call in ms."""
    begin = time.process_time_ns()
    call()
    return (time.process_time_ns() - begin) / 1e6


def measured(path: Path, key: str | None, said: list[str], rounds: int) -> list[str]:
    """Return a row of the table, from a new database."""
    storage = {"encryption_keys": key, "synchronous": "normal"}
    settings = ArcSettings(storage=storage, background={"in_process": False})
    appends, reads, turns = list[float](), list[float](), list[float]()
    with ContextEngine.open(f"sqlite:///{path}", settings=settings) as engine:
        session = engine.session("s", user_id="ann")
        for first in range(0, len(said), _PAGE):
            page = spoken(iter(said[first : first + _PAGE]), _PAGE)
            appends.append(timed(partial(session.append, page)) / _PAGE * 1_000)
        engine.admin.work()
        for question in said[: rounds * _PAGE]:
            reads.append(timed(partial(session.messages, limit=_PAGE)) / _PAGE * 1_000)
            turns.append(timed(partial(session.context, question)))
    size = path.stat().st_size / len(said)
    return [f"{size:,.0f}", f"{median(appends):.0f}", f"{median(reads):.0f}", f"{median(turns):.2f}"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    said = list(islice(sentences(given.data), given.messages))
    table = Table("", "bytes a message", "append, µs", "read, µs", "turn, ms")
    key = Fernet.generate_key().decode()
    with tempfile.TemporaryDirectory() as folder:
        measured(Path(folder) / "first.db", key, said, given.rounds)  # what is done once in a process
        for number in range(2):
            for kind, used in (("plain", None), ("encrypted", key)):
                table.add_row(kind, *measured(Path(folder) / f"{kind}-{number}.db", used, said, given.rounds))
    Console().print(table)


if __name__ == "__main__":
    main()
