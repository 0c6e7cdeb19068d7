"""What a turn leaves behind and costs: rows and bytes by table on PostgreSQL, in Redis and in the archive.

    python benchmarks/bytes_per_turn.py --data recall_longmemeval.json.gz [--sessions 200]

Real chats with an assistant are told turn by turn (`session.context`, `session.save_turn`) to an engine with the modes
"redis" and archive, with rules instead of a model and without an embedder. Then everything due is done, sizes are read
after VACUUM FULL (a busy database has a tenth to a third more), and every session is archived.
"""

import argparse
import gzip
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Any, ClassVar

import psycopg
from flatness import server_ns
from rich.console import Console
from rich.table import Table
from sqlalchemy import create_engine

sys.path.insert(0, str(Path(__file__).parents[1]))

from arc_common import ArcSettings, ContextEngine

_SIZES = """
SELECT relname, pg_table_size(oid), pg_indexes_size(oid) FROM pg_class
WHERE relname LIKE 'arc\\_%' AND relkind = 'r' ORDER BY 1"""

_COUNTED = "statements", "BEGIN, COMMIT", "WAL bytes", "CPU here, ms", "of the server"

_EACH = 4
"""Sessions of a user."""


def chats(path: Path) -> Iterator[list[tuple[str, str]]]:
    """Yield the turns of each chat, once."""
    seen = set()
    for one in json.loads(gzip.decompress(path.read_bytes())):
        for session in one["sessions"]:
            texts = [turn["content"] for turn in session["turns"]]
            turns = [(user, answer) for user, answer in zip(texts[::2], texts[1::2], strict=False) if user and answer]
            if turns and session["id"] not in seen:
                seen.add(session["id"])
                yield turns


class Counted(psycopg.Connection[Any]):
    """Counts what is sent."""

    sent: ClassVar[Counter[str]] = Counter()

    def execute(self, query: Any, params: Any = None, **more: Any) -> Any:
        """Run a statement."""
        Counted.sent["BEGIN, COMMIT" if str(query).startswith(("BEGIN", "COMMIT", "ROLLBACK")) else "statements"] += 1
        return super().execute(query, params, **more)


def logged(admin: "psycopg.Connection[Any]", postgres: Any) -> Counter[str]:
    """Return the bytes of WAL that the server has written, the statements sent, and the CPU of both in ms."""
    ((wal,),) = admin.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')").fetchall()
    cpu = {"CPU here, ms": time.process_time_ns() // 1_000_000, "of the server": server_ns(postgres) // 1_000_000}
    return Counter({"WAL bytes": int(wal), **Counted.sent, **cpu})


def synced(admin: "psycopg.Connection[Any]") -> int:
    """Return how often the server's clients have waited for the disk."""
    time.sleep(2)  # processes report what they did once they are idle
    asked = "SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal' AND backend_type = 'client backend'"
    ((syncs,),) = admin.execute(asked).fetchall()
    return int(syncs)


def sizes_of(admin: "psycopg.Connection[Any]") -> dict[str, tuple[int, int]]:
    """Return the bytes of each table with its indexes, and those of its indexes."""
    admin.execute("VACUUM FULL ANALYZE")
    return {name: (size + indexes, indexes) for name, size, indexes in admin.execute(_SIZES).fetchall()}


@dataclass
class Measured:
    """What was measured."""

    phases: dict[str, Counter[str]]
    base: dict[str, tuple[int, int]]
    sizes: dict[str, tuple[int, int]]
    rows: dict[str, int]
    waits: tuple[int, int]
    hot: list[int]
    lists: int
    objects: list[int]
    left: int


def tell(told: list[list[tuple[str, str]]]) -> Measured:
    """Tell the chats, do all work that is due, and archive them."""
    from tests.support.redis_servers import redis_server
    from tests.support.servers import postgres_server

    with (
        postgres_server(durable=True) as postgres,
        redis_server() as redis,
        tempfile.TemporaryDirectory() as archive,
        psycopg.connect(postgres.dsn(), autocommit=True) as admin,
    ):
        settings = ArcSettings(
            background={"in_process": False},
            redis={"url": redis.url, "enabled": True},
            archive={"enabled": True, "url": archive},
        )
        database = create_engine(postgres.url(), creator=lambda: Counted.connect(postgres.dsn()))
        phases: dict[str, Counter[str]] = {"context": Counter(), "save_turn": Counter(), "background": Counter()}
        with ContextEngine.open(database, settings=settings) as engine:
            engine.session("first", user_id="nobody").save_turn("Hello.", "Hello.")
            base, syncs = sizes_of(admin), synced(admin)
            for number, chat in enumerate(told):
                session = engine.session(f"s{number}", user_id=f"u{number // _EACH}")
                for user, answer in chat:
                    before = logged(admin, postgres)
                    session.context(user)
                    between = logged(admin, postgres)
                    session.save_turn(user, answer)
                    phases["context"] += between - before
                    phases["save_turn"] += logged(admin, postgres) - between
            waits = synced(admin) - syncs
            before = logged(admin, postgres)
            engine.admin.work(threads=1)
            phases["background"] = logged(admin, postgres) - before
            later = synced(admin) - syncs - waits
            sizes = sizes_of(admin)
            rows = {name: admin.execute(f"SELECT count(*) FROM {name}").fetchall()[0][0] for name in sizes}  # noqa: S608
            client = redis.client_of_bytes()
            hot = [client.memory_usage(key) or 0 for key in client.scan_iter(b"*:conversation:{*")]
            other = sum(client.memory_usage(key) or 0 for key in client.scan_iter()) - sum(hot)
            for number in range(len(told)):
                engine.session(f"s{number}", user_id=f"u{number // _EACH}").archive()
            objects = [path.stat().st_size for path in Path(archive).rglob("*.gz")]
            left = sum(size - base[name][0] for name, (size, _) in sizes_of(admin).items())
        database.dispose()
    return Measured(phases, base, sizes, rows, (waits, later), hot, other, objects, left)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sessions", type=int, default=200)
    given = parser.parse_args()
    told = list(islice(chats(given.data), given.sessions))
    turns = sum(map(len, told))
    text = sum(len(one.encode()) for chat in told for turn in chat for one in turn)
    found = tell(told)
    console = Console()
    console.print(
        f"{len(told)} sessions, {turns} turns, {turns / len(told):.1f} a session, {text / turns:.0f} bytes a turn"
    )
    table = Table("table", "rows a turn", "bytes a turn", "of these indexes")
    for name, (size, indexes) in found.sizes.items():
        own = size - found.base[name][0]
        if own:
            inner = (indexes - found.base[name][1]) / turns
            table.add_row(name, f"{found.rows[name] / turns:.2f}", f"{own / turns:,.0f}", f"{inner:,.0f}")
    total = sum(size - found.base[name][0] for name, (size, _) in found.sizes.items())
    table.add_row("all", "", f"{total / turns:,.0f}", "")
    console.print(table)
    console.print(f"left once every session is archived: {found.left / turns:,.0f} bytes a turn")
    table = Table("a turn's", *_COUNTED)
    for phase, counts in found.phases.items():
        table.add_row(phase, *(f"{counts[name] / turns:,.2f}" for name in _COUNTED))
    console.print(table)
    direct, later = (waits / turns for waits in found.waits)
    console.print(f"waits for the disk a turn: {direct:.2f}, in the background {later:.2f}")
    console.print(f"Redis: {len(found.hot)} sessions, {mean(found.hot):,.0f} bytes each; {found.lists:,} for lists")
    console.print(f"archive: {len(found.objects)} objects, {mean(found.objects):,.0f} bytes each")


if __name__ == "__main__":
    main()
