"""A database with arc's tables in it: what the SQL stores run their statements on."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

from sqlalchemy import Engine

from arc_common.forking import ForkGate
from arc_common.protocols import SessionKey
from arc_common.stores.connection import connect, driver_for
from arc_common.stores.drivers import Call, Row, Transaction
from arc_common.stores.migrate import ensure_schema
from arc_common.stores.options import SqlOptions

__all__ = ["Database", "scope"]


class Database:
    """Runs statements, after the tables have been made or brought up to date at first use.

    - Nothing is opened before the first statement.
    - It survives `os.fork`: both sides go on, each with connections of its own.

    Args:
        url: A SQLAlchemy address or an `Engine`. An engine of yours is used as it is and not closed.
        auto_migrate: Whether to bring the tables up to date at first use.
        options: How it is treated.

    Raises:
        ConfigurationError: The address is not one of SQLite or PostgreSQL.
    """

    def __init__(self, url: str | Engine, *, auto_migrate: bool, options: SqlOptions) -> None:
        self.engine, self._owned = connect(url, options)
        self._auto_migrate = auto_migrate
        self._driver = driver_for(self.engine, options)
        self._gate = ForkGate(before=self._driver.before_fork, in_child=self._driver.in_child)
        self._ready = False
        self._preparing = Lock()

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.engine.dialect.name

    def many(self, values: Sequence[Any]) -> Any:
        """Any number of values as one parameter."""
        return json.dumps(values) if self.dialect == "sqlite" else list(values)

    def read(self, call: Call) -> list[Row]:
        """Run one reading statement, in one round trip."""
        with self._gate.operation():
            self._prepare()
            return self._driver.read(call)

    def snapshot(self, *calls: Call) -> list[list[Row]]:
        """Run reading statements on one snapshot, in one round trip; return the rows of each."""
        with self._gate.operation():
            self._prepare()
            return self._driver.snapshot(*calls)

    def write(self, call: Call) -> list[Row] | None:
        """Run one writing statement, durable in one round trip; `None` if another writer interfered."""
        with self._gate.operation():
            self._prepare()
            return self._driver.write(call)

    def attempt(self, *calls: Call) -> bool:
        """Run writing statements as one transaction, in one round trip; return whether no other writer interfered."""
        with self._gate.operation():
            self._prepare()
            return self._driver.attempt(*calls)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Begin a writing transaction."""
        with self._gate.operation():
            self._prepare()
            with self._driver.transaction() as transaction:
                yield transaction

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Begin a reading transaction on one snapshot."""
        with self._gate.operation():
            self._prepare()
            with self._driver.reading() as transaction:
                yield transaction

    def close(self) -> None:
        """Close the connections, and the engine if it is our own."""
        self._driver.close()
        if self._owned:
            self.engine.dispose()

    def _prepare(self) -> None:
        if self._ready:
            return
        with self._preparing:
            if not self._ready:
                ensure_schema(self.engine, auto_migrate=self._auto_migrate)
                with self._driver.reading():  # an interrupt before the first connection would lose a database in memory
                    pass
                self._ready = True


def scope(key: SessionKey) -> dict[str, Any]:
    """The parameters that name a session and whose it is."""
    return {"caller_id": key.caller_id, "session_id": key.session_id, "user_id": key.user_id}
