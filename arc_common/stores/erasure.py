"""The rows that belong to a caller or one of its users, and the remains of deleted rows in a database."""

import mmap
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Table, bindparam, exists, func, select

from arc_common.stores.archive.store import SqlArchive
from arc_common.stores.branch_paths import objects_of
from arc_common.stores.database.connection import Database
from arc_common.stores.database.drivers import Row
from arc_common.stores.database.schema import WORDS, conversations, index_tables, metadata, scopes, stray_objects
from arc_common.stores.statements.compiler import Statement, compiler_for

_TEXTS = ("body", "narrative", "text", "terms", "metadata", "prefix", "sources", "name")
"""The columns that may hold words of a message."""

_ARCHIVE = "archive objects"

_OPTIMIZE = Statement(f"INSERT INTO {WORDS}({WORDS}) VALUES ('optimize')", {})  # noqa: S608 - our own name
"""Rewrites SQLite's index of words without those of deleted entries."""


class SqlTraces:
    """`Traces` in the tables of a `SqlStore`."""

    def __init__(self, database: Database, caller_id: str, user_id: str | None, archive: SqlArchive) -> None:
        self._database = database
        self._whose = {"caller_id": caller_id, **({} if user_id is None else {"user_id": user_id})}
        self._archive = archive
        self._objects: list[str] = []

    def owned(self) -> Mapping[str, int]:
        """See `Traces.owned`."""
        rows = self._read(_archived(self._database.dialect, tuple(self._whose)), **self._whose)
        self._objects = [one for row in rows for one in objects_of(row[0])]
        counts = self._counts(left=False)
        counts.pop(stray_objects.name, None)  # no erasure removes them
        return counts | ({_ARCHIVE: len(self._objects)} if self._objects else {})

    def left(self) -> Mapping[str, int]:
        """See `Traces.left`."""
        counts = self._counts(left=True)
        there = sum(map(self._archive.has, self._objects))
        return counts | ({_ARCHIVE: there} if there else {})

    def _counts(self, *, left: bool) -> dict[str, int]:
        every = _counting(self._database.dialect, tuple(self._whose), left=left)
        read = {name: int(self._read(statement, **self._whose)[0][0]) for name, statement in every.items()}
        return {name: count for name, count in read.items() if count}

    def clean(self) -> list[str]:
        """See `Traces.clean`."""
        if self._database.dialect == "postgresql":
            return ["PostgreSQL keeps deleted rows until VACUUM, and in its write-ahead log until that is recycled"]
        pending = []
        self._database.transact(lambda transaction: transaction.commit((_OPTIMIZE, {})))
        ((busy, *_),) = self._read(Statement("PRAGMA wal_checkpoint(TRUNCATE)", {}))
        if busy:
            pending.append("another connection reads the database: the write-ahead log keeps deleted rows meanwhile")
        if not self._database.settings.secure_delete:
            pending.append("storage.secure_delete is off: free pages keep deleted text until VACUUM")
        return pending

    def found_in_file(self, texts: Iterable[str]) -> int:
        """See `Traces.found_in_file`."""
        name = self._database.engine.url.database if self._database.dialect == "sqlite" else None
        files = [path for path in (Path(f"{name}{end}") for end in ("", "-wal")) if name and path.is_file()]
        found = 0
        for words in texts:
            if any(_holds(path, words.encode()) for path in files) and not self._stands(words):
                found += 1
        return found

    def _stands(self, words: str) -> bool:
        """Return whether any caller's rows have these words: the searched file holds all callers' texts."""
        columns = [
            (table.name, name) for table in _tables(self._database.dialect) for name in _TEXTS if name in table.c
        ]
        holding = "SELECT 1 FROM {} WHERE instr({}, :words) > 0 LIMIT 1"
        return any(self._read(Statement(holding.format(*column), {}), words=words) for column in columns)

    def _read(self, statement: Statement, **values: object) -> list[Row]:
        return self._database.read((statement, values))


def _tables(dialect_name: str) -> list[Table]:
    return [*metadata.sorted_tables, *index_tables(dialect_name).metadata.sorted_tables]


@cache
def _archived(dialect_name: str, whose: tuple[str, ...]) -> Statement:
    """Return the statement that reads the addresses of an owner's archived conversations."""
    path = conversations.c.archive_path
    return compiler_for(dialect_name)(select(path).where(path.is_not(None), *_named(conversations, whose)))


@cache  # compiling them took a third of the time of erasing a user
def _counting(dialect_name: str, whose: tuple[str, ...], *, left: bool) -> dict[str, Statement]:
    """Return statements that count an owner's rows, or those `left` without the row they belong to, by table."""
    compiled, index, statements = compiler_for(dialect_name), index_tables(dialect_name), {}
    for table in _tables(dialect_name):
        query = select(func.count()).select_from(table)
        if table in (conversations, scopes, stray_objects, index.scopes):
            query = query.where(*_named(table, whose))
        else:
            owner, key = _owner(table, index.scopes if table.metadata is index.metadata else scopes)
            held = exists().where(owner.primary_key.columns[0] == key)
            query = query.where(
                table.c.caller_id == bindparam("caller_id"), ~held if left else held.where(*_named(owner, whose))
            )
        statements[table.name] = compiled(query)
    return statements


def _owner(table: Table, scopes: Table) -> tuple[Table, ColumnElement[Any]]:
    """Return the table to whose rows a table's rows belong, and the column that names them."""
    return (scopes, table.c.scope) if "scope" in table.c else (conversations, table.c.conversation)


def _named(owner: Table, whose: tuple[str, ...]) -> list[ColumnElement[bool]]:
    return [owner.c[name] == bindparam(name) for name in whose]


def _holds(path: Path, words: bytes) -> bool:
    if not path.stat().st_size:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(words) >= 0
