"""Compiles statements to the SQL of one driver, and builds the conditions that several stores share."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Executable,
    Insert,
    Table,
    Text,
    Update,
    any_,
    bindparam,
    case,
    func,
    or_,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect

from arc_common.stores.database.schema import SealedText


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL text for one driver, with named parameters."""

    sql: str
    defaults: Mapping[str, Any]
    sealed: tuple[str, ...] = ()
    """The parameters that a cipher encrypts."""
    opened: tuple[int, ...] = ()
    """The places of the columns that a cipher decrypts."""


class Statements:
    """The statements of one store, compiled for one database; each is an attribute."""

    def __init__(self, dialect_name: str, statements: Mapping[str, Executable]) -> None:
        compiled = compiler_for(dialect_name)
        self.by_name = {name: compiled(statement) for name, statement in statements.items()}
        vars(self).update(self.by_name)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Statement: ...


def compiler_for(dialect_name: str) -> Callable[[Executable], Statement]:
    """Return a function that compiles statements to SQL for one driver."""
    dialect: Dialect
    if dialect_name == "sqlite":
        dialect = sqlite.dialect(paramstyle="named")
    else:
        dialect = postgresql.psycopg.dialect()  # type: ignore[no-untyped-call]  # untyped in SQLAlchemy

    def compiled(statement: Executable) -> Statement:
        built = statement.compile(dialect=dialect)  # type: ignore[attr-defined]  # every Executable here is compilable
        defaults = {name: value for name, value in built.params.items() if value is not None}
        read: Any = getattr(statement, "selected_columns", ())
        opened = tuple(place for place, column in enumerate(read) if isinstance(column.type, SealedText))
        return Statement(str(built), defaults, _sealed(statement, built.params), opened)

    return compiled


def _sealed(statement: Executable, parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the parameters whose values are written to columns that a cipher encrypts."""
    if not isinstance(statement, Insert | Update):
        return ()
    columns: Any = statement.table.columns
    return tuple(one.name for one in columns if isinstance(one.type, SealedText) and one.name in parameters)


def one_of(column: ColumnElement[Any], name: str, kind: Any, dialect_name: str) -> ColumnElement[bool]:
    """Compare a column with one parameter of any number of values (JSON or an array), for a constant statement."""
    if dialect_name == "sqlite":
        values = func.json_each(bindparam(name)).table_valued("value")
        return column.in_(select(values.c.value))
    return column == any_(bindparam(name, type_=ARRAY(kind)))


def insert_for(dialect_name: str) -> Callable[[Any], postgresql.Insert]:
    """Return the database's own `insert`, which can resolve conflicts: SQLite's has the same methods."""
    return sqlite.insert if dialect_name == "sqlite" else postgresql.insert  # type: ignore[return-value]


def upsert(dialect_name: str, table: Table, names: Iterable[str], changed: Iterable[str]) -> Executable:
    """Insert a row of the parameters with these names; if its key is stored, change some columns of that row."""
    row = insert_for(dialect_name)(table).values({name: bindparam(name) for name in names})
    return row.on_conflict_do_update(
        index_elements=table.primary_key, set_={name: row.excluded[name] for name in changed}
    )


def in_scope(table: Any) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions for rows of the parameters' scope."""
    return table.c.scope == bindparam("scope"), table.c.caller_id == bindparam("caller_id")


def scopes_within(table: Any, *names: str) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions for scopes within the parameters' one by some columns, where `""` stands for any value."""
    given = {name: bindparam(name, type_=Text) for name in names}
    return (
        table.c.caller_id == bindparam("caller_id"),
        *(or_(value == "", table.c[name] == value) for name, value in given.items()),
    )


def later(name: str, known: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the later of a parameter and a column, either of which may be null: a clock may go backwards."""
    given: Any = bindparam(name, type_=BigInteger)
    return case((given > func.coalesce(known, given - 1), given), else_=known)
