"""Measure the rows, bytes, statements, WAL and CPU of a turn on PostgreSQL, and its bytes in Redis and in the archive.

    python benchmarks/bytes_per_turn.py --data recall_longmemeval.json.gz [--sessions 200]

Real chats are replayed turn by turn (`session.context`, `session.save_turn`) with Redis and the archive enabled, with
rules instead of a model and without an embedder. Afterwards all background work is done, tables are measured after
VACUUM FULL (a busy database is a tenth to a third larger), and every session is archived.

All figures are per turn. "in indexes" is the part of a table's bytes that its indexes take.
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

_COUNTED = "statements", "BEGIN, COMMIT", "WAL bytes", "client CPU, ms", "server CPU, ms"

_SESSIONS_PER_USER = 4


def chats(path: Path) -> Iterator[list[tuple[str, str]]]:
    """Yield the turns of each distinct chat."""
    seen = set()
    for one in json.loads(gzip.decompress(path.read_bytes())):
        for session in one["sessions"]:
            texts = [turn["content"] for turn in session["turns"]]
            turns = [(user, answer) for user, answer in zip(texts[::2], texts[1::2], strict=False) if user and answer]
            if turns and session["id"] not in seen:
                seen.add(session["id"])
                yield turns


class CountingCursor(psycopg.Cursor[Any]):
    """A cursor that counts the statements sent."""

    sent: ClassVar[Counter[str]] = Counter()

    def execute(self, query: Any, params: Any = None, **more: Any) -> Any:
        """Count the statement and run it."""
        is_control = str(query).startswith(("BEGIN", "COMMIT", "ROLLBACK"))
        CountingCursor.sent["BEGIN, COMMIT" if is_control else "statements"] += 1
        return super().execute(query, params, **more)


def totals(admin: "psycopg.Connection[Any]", postgres: Any) -> Counter[str]:
    """Return the totals so far: WAL bytes, statements sent, and CPU of client and server in ms."""
    ((wal,),) = admin.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')").fetchall()
    cpu = {"client CPU, ms": time.process_time_ns() // 1_000_000, "server CPU, ms": server_ns(postgres) // 1_000_000}
    return Counter({"WAL bytes": int(wal), **CountingCursor.sent, **cpu})


def fsyncs(admin: "psycopg.Connection[Any]") -> int:
    """Return the number of WAL fsyncs by client backends so far."""
    time.sleep(2)  # backends report their statistics once they are idle
    query = "SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal' AND backend_type = 'client backend'"
    ((syncs,),) = admin.execute(query).fetchall()
    return int(syncs)


def table_sizes(admin: "psycopg.Connection[Any]") -> dict[str, tuple[int, int]]:
    """Return for each table its bytes including indexes, and the bytes of the indexes alone."""
    admin.execute("VACUUM FULL ANALYZE")
    return {name: (size + indexes, indexes) for name, size, indexes in admin.execute(_SIZES).fetchall()}


@dataclass
class Figures:
    """The figures of one replay."""

    phases: dict[str, Counter[str]]
    base: dict[str, tuple[int, int]]
    sizes: dict[str, tuple[int, int]]
    rows: dict[str, int]
    waits: tuple[int, int]
    hot: list[int]
    other_redis_bytes: int
    objects: list[int]
    left_in_database: int


def replay(replayed: list[list[tuple[str, str]]]) -> Figures:
    """Replay the chats, do all background work, and archive every session."""
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
        database = create_engine(postgres.url(), connect_args={"cursor_factory": CountingCursor})
        phases: dict[str, Counter[str]] = {"context": Counter(), "save_turn": Counter(), "background": Counter()}
        with ContextEngine.open(database, settings=settings) as engine:
            engine.session("first", user_id="nobody").save_turn("Hello.", "Hello.")
            base, syncs = table_sizes(admin), fsyncs(admin)
            for number, chat in enumerate(replayed):
                session = engine.session(f"s{number}", user_id=f"u{number // _SESSIONS_PER_USER}")
                for user, answer in chat:
                    before = totals(admin, postgres)
                    session.context(user)
                    between = totals(admin, postgres)
                    session.save_turn(user, answer)
                    phases["context"] += between - before
                    phases["save_turn"] += totals(admin, postgres) - between
            waits = fsyncs(admin) - syncs
            before = totals(admin, postgres)
            engine.admin.work(threads=1)
            phases["background"] = totals(admin, postgres) - before
            later = fsyncs(admin) - syncs - waits
            sizes = table_sizes(admin)
            rows = {name: admin.execute(f"SELECT count(*) FROM {name}").fetchall()[0][0] for name in sizes}  # noqa: S608
            client = redis.client_of_bytes()
            hot = [client.memory_usage(key) or 0 for key in client.scan_iter(b"*:conversation:{*")]
            other = sum(client.memory_usage(key) or 0 for key in client.scan_iter()) - sum(hot)
            for number in range(len(replayed)):
                engine.session(f"s{number}", user_id=f"u{number // _SESSIONS_PER_USER}").archive()
            objects = [path.stat().st_size for path in Path(archive).rglob("*.gz")]
            left = sum(size - base[name][0] for name, (size, _) in table_sizes(admin).items())
        database.dispose()
    return Figures(phases, base, sizes, rows, (waits, later), hot, other, objects, left)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sessions", type=int, default=200)
    given = parser.parse_args()
    replayed = list(islice(chats(given.data), given.sessions))
    turns = sum(map(len, replayed))
    text = sum(len(one.encode()) for chat in replayed for turn in chat for one in turn)
    found = replay(replayed)
    console = Console()
    size = f"{turns / len(replayed):.1f} per session, {text / turns:.0f} bytes of text per turn"
    console.print(f"{len(replayed)} sessions, {turns} turns, {size}")
    table = Table("table", "rows per turn", "bytes per turn", "in indexes")
    for name, (size, indexes) in found.sizes.items():
        own = size - found.base[name][0]
        if own:
            inner = (indexes - found.base[name][1]) / turns
            table.add_row(name, f"{found.rows[name] / turns:.2f}", f"{own / turns:,.0f}", f"{inner:,.0f}")
    total = sum(size - found.base[name][0] for name, (size, _) in found.sizes.items())
    table.add_row("total", "", f"{total / turns:,.0f}", "")
    console.print(table)
    left = found.left_in_database / turns
    console.print(f"left in PostgreSQL once every session is archived: {left:,.0f} bytes per turn")
    table = Table("per turn", *_COUNTED)
    for phase, counts in found.phases.items():
        table.add_row(phase, *(f"{counts[name] / turns:,.2f}" for name in _COUNTED))
    console.print(table)
    direct, later = (waits / turns for waits in found.waits)
    console.print(f"fsyncs per turn: {direct:.2f}, in the background {later:.2f}")
    sessions = f"{len(found.hot)} sessions, {mean(found.hot):,.0f} bytes each"
    console.print(f"Redis: {sessions}; {found.other_redis_bytes:,} bytes in other keys")
    console.print(f"archive: {len(found.objects)} objects, {mean(found.objects):,.0f} bytes each")


if __name__ == "__main__":
    main()
