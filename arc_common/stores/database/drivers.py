"""Runs statements on the driver's own connections, which SQLAlchemy's pool hands out."""

import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from threading import RLock
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from sqlalchemy import Engine, NullPool, StaticPool
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import PoolProxiedConnection

from arc_common.exceptions import MissingDependencyError, StoreError, StoreUnavailableError, scrubbed
from arc_common.settings import StorageSettings
from arc_common.stores.database.schema import SHOW_POSTINGS
from arc_common.stores.statements.compiler import Statement


def send_vectors(connection: Any) -> None:
    """Make a psycopg connection send pgvector's `Vector` in binary form."""
    from pgvector import Vector  # noqa: PLC0415 - an optional dependency
    from pgvector.psycopg.vector import VectorBinaryDumper  # noqa: PLC0415

    connection.adapters.register_dumper(Vector, VectorBinaryDumper)


T = TypeVar("T")
Row = Sequence[Any]
Call = tuple[Statement, Mapping[str, Any] | Iterable[Mapping[str, Any]]]
"""A statement and its parameters; with several sets of them, it runs once for each and returns no rows."""
SingleCall = tuple[Statement, Mapping[str, Any]]
"""A statement with one set of parameters."""


_PATIENCE = 30.0
"""The longest wait for SQLite's writer, in seconds."""

_IDLE = 8
"""The maximum number of idle connections kept for a SQLite file."""

FROZEN = "arc_frozen"
"""The key in a connection's `info` that marks one opened as immutable: it does not see later writes."""


_PLACE = "arc_place"
"""The key in a connection's `info` of its file's path, and of the file that was there when it was opened."""


class Transaction(Protocol):
    """An open transaction."""

    def run(self, *calls: Call) -> list[list[Row]]:
        """Run the calls in one round trip; return the rows of each."""

    def commit(self, *calls: Call) -> list[list[Row]]:
        """Run the last calls and commit, in one round trip; return the rows of each."""


class Driver(Protocol):
    """Runs statements on one database."""

    def read(self, call: Call) -> list[Row]:
        """Run one reading statement."""

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Call `work` in a writing transaction."""

    def reading(self, work: Callable[[Transaction], T]) -> T:
        """Call `work` in a reading transaction on one snapshot."""

    def check(self) -> None:
        """Raise `StoreUnavailableError` if new writes would be lost."""

    def close(self) -> None:
        """Close the connections that the driver keeps."""

    def before_fork(self) -> None:
        """Prepare for a fork."""

    def in_child(self) -> None:
        """Start again in the child of a fork."""


class SqliteDriver:
    """SQLite through `sqlite3`."""

    def __init__(self, engine: Engine, settings: StorageSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._idle: deque[PoolProxiedConnection] = deque()
        self._turn = RLock() if isinstance(engine.pool, StaticPool) else None
        self._writing = RLock()

    def read(self, call: Call) -> list[Row]:
        """Run one reading statement, which is its own snapshot."""
        return self._run(None, lambda transaction: transaction.run(call)[0])

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Call `work` in a transaction that BEGIN IMMEDIATE opens."""
        return self._run("BEGIN IMMEDIATE", work, turn=self._turn or self._writing)

    def reading(self, work: Callable[[Transaction], T]) -> T:
        """Call `work` in a transaction whose first statement fixes the snapshot."""
        return self._run("BEGIN", work)

    def check(self) -> None:
        """Raise if the file of a connection was moved, deleted or replaced; wait for no writer."""
        self._run(None, lambda _: None, turn=self._turn or RLock())

    def _run(self, begin: str | None, work: Callable[[Transaction], T], *, turn: Any = None) -> T:
        """Call `work` with a connection, in a transaction if `begin` names one.

        An interrupt may arrive at the first line of any Python function, an `__exit__` or a `finally` included, and a
        notebook keeps the interrupted frames. So only code written in C releases things for which others wait: the
        lock's own `with` releases the turn, the connection's ends the transaction.
        """
        try:
            with turn or self._turn or RLock():
                pooled = self.connect()
                try:
                    connection: Any = pooled.driver_connection
                    with connection:
                        if begin:
                            connection.execute(begin)
                        if turn:
                            _check_place(pooled.info.get(_PLACE))
                        result = work(_SqliteTransaction(connection))
                        if begin and connection.in_transaction:
                            connection.execute("ROLLBACK")
                        return result
                finally:
                    self._give_back(pooled)
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise _translated(error, self._engine, unavailable=_sqlite_unavailable(error)) from error

    def connect(self) -> PoolProxiedConnection:
        """Return a connection for one caller, or the shared one for the caller whose turn it is."""
        try:
            return self._idle[0] if self._turn else self._idle.pop()
        except IndexError:
            pooled = self._engine.raw_connection()
            connection: Any = pooled.driver_connection
            _once(pooled, lambda: _configure_sqlite(pooled, connection, self._settings))
            if self._turn:
                self._idle.append(pooled)
            return pooled

    def _give_back(self, pooled: PoolProxiedConnection) -> None:
        """Keep a connection without an open transaction for later, or close it."""
        if FROZEN in pooled.info:  # so that the next caller sees later writes
            pooled.invalidate()
            pooled.close()
        elif not self._turn:
            if isinstance(self._engine.pool, NullPool) and len(self._idle) < _IDLE:
                self._idle.append(pooled)
            else:
                pooled.close()

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    def before_fork(self) -> None:
        """Close the file's idle connections."""
        if not self._turn:
            self.close()
            self._engine.dispose()

    def in_child(self) -> None:
        """Do nothing: a database in memory is the child's own copy, and no file is open."""


class _SqliteTransaction:
    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, *calls: Call) -> list[list[Row]]:
        return [self._rows(statement, parameters) for statement, parameters in calls]

    def commit(self, *calls: Call) -> list[list[Row]]:
        rows = self.run(*calls)
        self._connection.execute("COMMIT")
        return rows

    def _rows(self, statement: Statement, parameters: Any) -> list[Row]:
        if isinstance(parameters, Mapping):
            return self._connection.execute(statement.sql, {**statement.defaults, **parameters}).fetchall()
        self._connection.executemany(statement.sql, parameters)
        return []


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the numbers of a file's device and of the file on it; `None` if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _check_place(place: tuple[Path, tuple[int, int] | None] | None) -> None:
    """Raise if another file, or none, is where a connection's was: what SQLite writes to that one is lost."""
    if place is not None and _identity(place[0]) != place[1]:
        raise StoreUnavailableError(
            f"the database file '{place[0]}' was moved, deleted or replaced while it was open: put it back, or open a "
            "new engine"
        )


def _sqlite_unavailable(failure: Exception) -> bool:
    """Return whether the database is locked, full, unreadable or invalid; not for a constraint or statement error."""
    return isinstance(failure, sqlite3.OperationalError) or type(failure) is sqlite3.DatabaseError


def _configure_sqlite(pooled: PoolProxiedConnection, connection: sqlite3.Connection, settings: StorageSettings) -> None:
    """Configure durable commits, concurrent readers and, by default, erasure of deleted text from free pages."""
    connection.execute(f"PRAGMA busy_timeout = {round(_PATIENCE * 1000)}")
    connection.execute(f"PRAGMA synchronous = {'FULL' if settings.synchronous == 'full' else 'NORMAL'}")
    connection.execute(f"PRAGMA secure_delete = {'ON' if settings.secure_delete else 'OFF'}")
    if connection.execute("PRAGMA journal_mode").fetchone()[0] not in ("wal", "memory"):
        _switch_to_wal(connection)
    connection.execute(SHOW_POSTINGS)
    if name := connection.execute("PRAGMA database_list").fetchone()[2]:
        pooled.info[_PLACE] = Path(name), _identity(Path(name))


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL, retrying: connections that do so at the same moment are refused without waiting."""
    deadline = monotonic() + _PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or monotonic() > deadline:
                raise
            sleep(0.005)
        else:
            return


class PostgresDriver:
    """PostgreSQL through psycopg, in pipeline mode: BEGIN goes out with the first calls, COMMIT with the last."""

    def __init__(self, engine: Engine, *, owned: bool) -> None:
        import psycopg  # noqa: PLC0415 - an optional dependency

        try:
            import pgvector.psycopg.vector  # noqa: F401, PLC0415 - sooner than with the first connection
        except ImportError as error:
            raise MissingDependencyError("PostgreSQL storage", package="pgvector", extra="postgres") from error
        self.engine = engine
        self.owned = owned
        """True if nothing else uses the engine, so that its connections may stay in autocommit mode."""
        self.error = psycopg.Error
        self.unavailable = (psycopg.OperationalError, psycopg.InterfaceError)

    def read(self, call: Call) -> list[Row]:
        """Run one reading statement, outside a transaction."""
        with _PostgresTransaction(self) as connected:
            return connected.read(*call)

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Call `work` in a transaction that its first calls begin."""
        for left in reversed(range(_TRIES)):
            try:
                # statements after the lock must see all earlier commits
                with _PostgresTransaction(self, begin="BEGIN ISOLATION LEVEL READ COMMITTED") as transaction:
                    return work(transaction)
            except StoreError as error:
                if not left or _code(error) != _DEADLOCK:
                    raise
        raise AssertionError("the last try returns or raises")

    def reading(self, work: Callable[[Transaction], T]) -> T:
        """Call `work` in a transaction that its first calls begin."""
        with _PostgresTransaction(self, begin="BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as transaction:
            return work(transaction)

    def check(self) -> None:
        """Do nothing: the server keeps its files."""

    def close(self) -> None:
        """Do nothing: the engine's pool holds the connections."""

    def before_fork(self) -> None:
        """Do nothing: a connection open in both processes does no harm while only one uses it."""

    def in_child(self) -> None:
        """Leave the parent's connections to it, open."""
        self.engine.dispose(close=False)


class _PostgresTransaction:
    """A connection in autocommit mode, and the transaction that its first calls begin."""

    __slots__ = ("_before", "_begin_by", "_begun", "_connection", "_driver", "_pooled")

    def __init__(self, driver: PostgresDriver, *, begin: str = "") -> None:
        self._driver = driver
        self._begin_by = begin
        self._begun = False

    def __enter__(self) -> Self:
        engine = self._driver.engine
        try:
            self._pooled = engine.raw_connection()
            while self._driver.owned and _is_left_open(self._pooled):  # arc's own pool rolls nothing back
                self._pooled.invalidate()
                self._pooled = engine.raw_connection()
        except (SQLAlchemyError, self._driver.error) as error:
            raise _translated(error, engine, unavailable=True) from error
        try:
            connection: Any = self._pooled.driver_connection
            _once(self._pooled, lambda: send_vectors(connection))
            self._connection = connection
            self._before = connection.autocommit
            if not self._before and not connection.closed:
                connection.autocommit = True
        except BaseException:
            self._pooled.invalidate()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        driver, connection = self._driver, self._connection
        failed = isinstance(error, (SQLAlchemyError, driver.error))
        # after an interrupt, which may have left a pipeline unfinished, a connection is not used again
        is_fit = error is None or (isinstance(error, Exception) and not (self._begun and failed))
        try:
            if is_fit and self._begun and not connection.closed:
                connection.execute("ROLLBACK")
        except driver.error:
            is_fit = False
        try:
            if connection.closed:
                self._pooled.invalidate()
                driver.engine.dispose()  # the server ended one; it may have ended all, and each would fail a call
            elif not is_fit:
                self._pooled.invalidate()
            elif not self._before and not driver.owned:
                connection.autocommit = False
        except BaseException:
            self._pooled.invalidate()
            raise
        finally:
            self._pooled.close()
        if failed and isinstance(error, Exception):
            unavailable = isinstance(error, driver.unavailable)
            raise _translated(error, driver.engine, unavailable=unavailable) from error

    def run(self, *calls: Call) -> list[list[Row]]:
        return self._sent(calls)

    def commit(self, *calls: Call) -> list[list[Row]]:
        rows = self._sent(calls, "COMMIT")
        self._begun = False
        return rows

    def _sent(self, calls: Sequence[Call], *last: str) -> list[list[Row]]:
        """Run calls, and begin the transaction with the first ones."""
        with self._connection.pipeline():
            if not self._begun:
                self._connection.execute(self._begin_by)
                self._begun = True
            cursors = [self.send(*call) for call in calls]
            for sql in last:
                self._connection.execute(sql)
        # Fetch after the pipeline: inside it, the first fetch would be a separate round trip.
        return [[] if cursor is None or cursor.description is None else cursor.fetchall() for cursor in cursors]

    def read(self, statement: Statement, parameters: Any) -> list[Row]:
        """Return the rows of one statement, on the cursor that ran it before: it knows how to send its parameters."""
        kept = self._pooled.info.setdefault("arc cursors", {})
        cursor = kept.pop(statement.sql, None) or self._connection.cursor()
        rows: list[Row] = cursor.execute(statement.sql, {**statement.defaults, **parameters}).fetchall()
        if len(kept) < _CURSORS and _is_small(rows):  # a kept cursor also keeps its rows
            kept[statement.sql] = cursor
        return rows

    def send(self, statement: Statement, parameters: Any) -> Any:
        """Return the cursor of one call."""
        if isinstance(parameters, Mapping):
            return self._connection.execute(statement.sql, {**statement.defaults, **parameters})
        with self._connection.cursor() as cursor:
            cursor.executemany(statement.sql, parameters)
        return None


_CURSORS = 32
_FEW_ROWS = 8
_SHORT = 10_000


def _is_left_open(pooled: PoolProxiedConnection) -> bool:
    """Return whether an interrupt left a connection within a statement or a transaction."""
    connection: Any = pooled.driver_connection
    return connection.pgconn.transaction_status in _LEFT_OPEN


_LEFT_OPEN = (1, 2, 3)
"""PQTRANS_ACTIVE, PQTRANS_INTRANS and PQTRANS_INERROR of libpq."""


def _is_small(rows: Sequence[Row]) -> bool:
    if len(rows) > _FEW_ROWS:
        return False
    return max([len(value) for row in rows for value in row if isinstance(value, str)], default=0) <= _SHORT


def _once(pooled: PoolProxiedConnection, configure: Callable[[], None]) -> None:
    """Call `configure` once for each connection of the pool."""
    if "arc" not in pooled.info:
        configure()
        pooled.info["arc"] = True


_DEADLOCK = "40P01"
"""PostgreSQL's code of a deadlock, whose victim was rolled back as a whole."""
_TRIES = 5
_CONFLICTS = ("23505", "40001", _DEADLOCK)
"""PostgreSQL's codes of a unique violation, a serialisation failure and a deadlock."""


_UNPREPARED = ("42P05", "26000")
"""PostgreSQL's codes of a prepared statement that exists already, and of one that does not."""
_POOLED = " (behind PgBouncer in transaction mode, set storage.transaction_pooling to true)"


def is_conflict(error: StoreError) -> bool:
    """Return whether a statement failed because another writer interfered."""
    return _code(error) in _CONFLICTS


def _code(error: StoreError) -> str | None:
    return getattr(error.__cause__, "sqlstate", None)


def _translated(failure: Exception, engine: Engine, *, unavailable: bool) -> StoreError:
    if unavailable or isinstance(failure, SQLAlchemyError):
        url = engine.url.render_as_string(hide_password=False)
        return StoreUnavailableError(f"the database can't be used: {scrubbed(str(failure), url)}")
    pooled = getattr(failure, "sqlstate", None) in _UNPREPARED
    return StoreError(f"the database refused a statement: {failure}{_POOLED if pooled else ''}")
