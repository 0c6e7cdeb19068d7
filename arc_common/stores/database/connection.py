"""Creates a pooled SQLAlchemy engine from an address, and runs statements on it."""

import json
import math
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path as FilePath
from threading import Lock, local
from typing import Any, TypeVar

from sqlalchemy import URL, Engine, NullPool, Pool, StaticPool, create_engine, event, make_url
from sqlalchemy.exc import SQLAlchemyError

from arc_common.caches import LRUCache
from arc_common.concurrency import ForkGate, give_way, in_background
from arc_common.exceptions import (
    ArchiveError,
    BranchNotFoundError,
    ConfigurationError,
    MissingDependencyError,
    SessionNotFoundError,
    hide_password,
    scrubbed,
)
from arc_common.protocols import Cipher, SessionKey
from arc_common.protocols.conversations import MAIN, Path
from arc_common.settings import StorageSettings
from arc_common.stores.branch_paths import ArchivedConversationError, check_owner, check_status, is_main, place_on
from arc_common.stores.database.drivers import FROZEN, Call, Driver, PostgresDriver, Row, SqliteDriver, Transaction
from arc_common.stores.database.encryption import Seal, SealedTransaction
from arc_common.stores.database.migrate import ensure_schema
from arc_common.stores.statements.conversations import statements_for

T = TypeVar("T")

_ALLOWED = "sqlite:///file.db, sqlite:// (in memory) or postgresql+psycopg://user:password@host/database"
_PATHS = 4_096
_MEMORY_NAMES = (None, "", ":memory:")


def connect(url: str | URL | Engine, settings: StorageSettings | None = None) -> tuple[Engine, bool]:
    """Return an engine for the address and whether the caller must close it; open no connection."""
    if isinstance(url, Engine):
        _check(url.url, url.dialect.name, url.dialect.driver)
        return url, False
    if not isinstance(url, str | URL):
        raise ConfigurationError(f"database URL: got {type(url).__name__}, expected text such as {_ALLOWED}")
    try:
        address = make_url(url)
    except (SQLAlchemyError, ValueError) as error:
        raise ConfigurationError(f"database URL: this is not a URL; expected {_ALLOWED}") from error
    if address.drivername in ("postgres", "postgresql"):
        address = address.set(drivername="postgresql+psycopg")
    if "@" in (address.host or ""):  # the rest of a password, which a driver's errors would show as a host
        raise ConfigurationError(f"database URL {_shown(address)}: write an @ in the password as %40")
    name, _, driver = address.drivername.partition("+")
    _check(address, name, driver or {"sqlite": "pysqlite"}.get(name, driver))
    try:
        engine = create_engine(address, **_pool(address, settings or StorageSettings()))
    except ImportError as error:
        raise MissingDependencyError("PostgreSQL storage", package="psycopg", extra="postgres") from error
    except (SQLAlchemyError, TypeError, ValueError) as error:
        raise ConfigurationError(f"database URL {_shown(address)}: {scrubbed(str(error), _whole(address))}") from None
    if name == "sqlite":
        event.listen(engine, "do_connect", _open_sqlite)
    return engine, True


def _open_sqlite(_dialect: Any, record: Any, arguments: list[Any], options: dict[str, Any]) -> sqlite3.Connection:
    """Open a file, as immutable if it is read-only and SQLite can't create its log beside it."""
    connection: sqlite3.Connection = sqlite3.connect(*arguments, **options)
    try:
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.Error as error:
        is_closed_to_us = (error.sqlite_errorcode & 0xFF) in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
        path = FilePath(arguments[0])  # not a file if the address has options of its own
        log = path.with_name(f"{path.name}-wal")
        if is_closed_to_us and path.is_file() and not (log.exists() and log.stat().st_size):
            connection.close()
            record.info[FROZEN] = True
            connection = sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", **{**options, "uri": True})
    return connection


def _check(address: URL, name: str, driver: str) -> None:
    if (name, driver) not in (("sqlite", "pysqlite"), ("postgresql", "psycopg")):
        raise ConfigurationError(
            f"database URL {_shown(address)}: {address.drivername!r} is not supported; expected {_ALLOWED}"
        )


def _whole(address: URL) -> str:
    return address.render_as_string(hide_password=False)


def _shown(address: URL) -> str:
    return hide_password(_whole(address))


def shown_address(engine: Engine) -> str:
    """Return an engine's address without passwords, also those among its parameters."""
    return _shown(engine.url)


def _pool(address: URL, settings: StorageSettings) -> dict[str, Any]:
    if address.drivername.startswith("sqlite"):
        if address.database in _MEMORY_NAMES or address.query.get("mode") == "memory":
            pool_class: type[Pool] = StaticPool
        else:
            pool_class = NullPool  # `SqliteDriver` keeps connections itself
        return {"poolclass": pool_class, "connect_args": {"check_same_thread": False}}
    pool: dict[str, Any] = {"pool_size": settings.pool_size, "max_overflow": 4, "pool_recycle": 1800}
    pool["pool_reset_on_return"] = None  # `PostgresDriver` ends its transactions
    pool["pool_timeout"] = settings.pool_timeout_seconds
    arguments: dict[str, Any] = {}
    if "connect_timeout" not in address.query:  # libpq takes whole seconds
        arguments["connect_timeout"] = math.ceil(settings.connect_timeout_seconds)
    if settings.transaction_pooling:  # the next transaction may be another connection's, which has prepared nothing
        arguments["prepare_threshold"] = None
    if settings.statement_timeout_seconds is not None:
        given = address.query.get("options", "")
        timeout = f"-c statement_timeout={math.ceil(1000 * settings.statement_timeout_seconds)}"
        arguments["options"] = f"{given} {timeout}".strip()
    return {**pool, "connect_args": arguments}


def _refuse(key: SessionKey) -> None:
    raise ArchiveError(f"session {key.session_id!r} is archived: set archive.url to where its archive is")


class Database:
    """Runs statements; creates or upgrades the tables at first use."""

    def __init__(self, url: str | Engine, settings: StorageSettings, cipher: Cipher | None = None) -> None:
        self.settings = settings
        self._seal = Seal(cipher)
        self.engine, self._owned = connect(url, settings)
        self._driver: Driver = (
            SqliteDriver(self.engine, settings)
            if self.dialect == "sqlite"
            else PostgresDriver(self.engine, owned=self._owned)
        )
        self._gate = ForkGate(before=self._driver.before_fork, in_child=self._driver.in_child)
        self._ready = False
        self._preparing = Lock()
        self._locking = Lock()
        self._own = local()
        self._paths: LRUCache[SessionKey, Path] = LRUCache(_PATHS)
        self.restore: Callable[[SessionKey], object] = _refuse
        """Brings a conversation's messages back from the archive."""

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.engine.dialect.name

    def many(self, values: Sequence[Any]) -> Any:
        """Return any number of values as one parameter."""
        return json.dumps(values) if self.dialect == "sqlite" else list(values)

    @property
    def seal(self) -> Seal:
        """Return the seal that encrypts texts within a parameter or a column, and hashes under the database's key."""
        if not self._ready:
            with self._gate.operation():
                self._prepare()
        return self._seal

    def read(self, call: Call) -> list[Row]:
        """Run one reading statement, in one round trip."""
        seal = self._seal
        if not seal.is_on:
            return self._operate(lambda driver: driver.read(call))
        return self._operate(lambda driver: seal.opened_rows(call[0], driver.read(seal.closed_call(call))))

    def snapshot(self, *calls: Call) -> list[list[Row]]:
        """Run reading statements on one snapshot, in one round trip; return the rows of each."""
        if len(calls) == 1:  # a statement is a snapshot of its own
            return [self.read(calls[0])]
        return self.reading(lambda transaction: transaction.commit(*calls))

    def along(self, key: SessionKey, work: Callable[[Path], T]) -> T:
        """Call `work` with the session's last known path, and again if it finds nothing and the path has changed."""
        path = self.last_path(key)
        while not (found := work(path)):
            before, (path, is_restored) = path, self._path_of(key)
            if path == before and not is_restored:
                break
        return found

    def last_path(self, key: SessionKey) -> Path:
        """Return the session's path as last read."""
        with self._locking:
            if key in self._paths:
                return self._paths[key]
        return MAIN if key.branch is None else self.path_of(key, active=False)

    def path_of(self, key: SessionKey, *, active: bool = True) -> Path:
        """Read the session's path; raise if the session can't be used. With `active`, restore an archived one."""
        return self._path_of(key, active=active)[0]

    def _path_of(self, key: SessionKey, *, active: bool = True) -> tuple[Path, bool]:
        """Return the path, and whether the session had to be restored."""
        is_restored = False
        while rows := self.read((statements_for(self.dialect).owner, place_on(key, MAIN, self.dialect))):
            user_id, status, branch, text = rows[0]
            path = self._known_path(key, user_id, branch, text)
            try:
                check_status(key, status)
            except ArchivedConversationError:
                if active:
                    self._restore(key)
                    is_restored = True
                    continue
            return path, is_restored
        if key.branch:
            raise BranchNotFoundError(key.session_id, key.branch)
        return MAIN, is_restored

    def _restore(self, key: SessionKey) -> None:
        if in_background():  # it would undo the archiving of a conversation that nobody uses
            raise ArchivedConversationError(key)
        with suppress(SessionNotFoundError):  # deleted meanwhile, which the next try finds
            self.restore(key)

    def _known_path(self, key: SessionKey, user_id: str | None, branch: int | None, text: str | None) -> Path:
        """Return a path as read, and keep it for the next read."""
        check_owner(key, user_id)
        if branch is None:
            raise BranchNotFoundError(key.session_id, key.branch or 0)
        path = Path.from_text(branch, text)
        with self._locking:
            if is_main(key, path):
                self._paths.pop(key, None)
            else:
                self._paths[key] = path
        return path

    def place(self, key: SessionKey, path: Path) -> Mapping[str, Any]:
        """Return the parameters that identify a session's path and its owner."""
        return place_on(key, path, self.dialect)

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Call `work` in a writing transaction; changes that it does not commit are rolled back."""
        before: list[Callable[[], None]] | None = getattr(self._own, "ending", None)
        ending = self._own.ending = list[Callable[[], None]]()
        try:
            result = self._operate(lambda driver: driver.transact(self._sealed(work)))
        finally:
            self._own.ending = before
        for call in ending:
            call()
        return result

    def after_transaction(self, call: Callable[[], None]) -> None:
        """Call a function once this thread's transaction has ended, or now if none runs: it may take other locks."""
        ending: list[Callable[[], None]] | None = getattr(self._own, "ending", None)
        if ending is None:
            call()
        else:
            ending.append(call)

    def reading(self, work: Callable[[Transaction], T]) -> T:
        """Call `work` in a reading transaction on one snapshot."""
        return self._operate(lambda driver: driver.reading(self._sealed(work)))

    def check(self) -> None:
        """Raise `StoreUnavailableError` if new writes would be lost."""
        self._operate(lambda driver: driver.check())

    def _sealed(self, work: Callable[[Transaction], T]) -> Callable[[Transaction], T]:
        if not self._seal.is_on:
            return work
        return lambda transaction: work(SealedTransaction(transaction, self._seal))

    def _operate(self, work: Callable[[Driver], T]) -> T:
        """Call `work` with the driver once the tables exist, while no fork happens."""
        while True:
            give_way()
            try:
                with self._gate.operation():
                    if not self._ready:
                        self._prepare()
                    return work(self._driver)
            except ArchivedConversationError as archived:
                self._restore(archived.key)

    def close(self) -> None:
        """Close the connections, and the engine if this object created it."""
        self._driver.close()
        if self._owned:
            self.engine.dispose()

    def _prepare(self) -> None:
        with self._preparing:
            if not self._ready:
                ensure_schema(self.engine, auto_migrate=self.settings.auto_migrate, seal=self._seal)
                # Connect now: an interrupt before the first connection would lose a database in memory.
                self._driver.reading(lambda _: None)
                self._ready = True
