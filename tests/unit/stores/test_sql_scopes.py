"""The check of all SQL in the suite detects tables that nothing ties to a caller."""

import pytest

from arc_common.stores.statements.appends import append_statements
from arc_common.stores.statements.archive import archive_statements_for
from arc_common.stores.statements.compiler import Statements
from arc_common.stores.statements.conversations import statements_for
from arc_common.stores.statements.records import record_statements_for
from arc_common.stores.statements.summaries import summary_statements_for
from tests.support.sql_scopes import is_maintenance, unscoped

TIED = {
    "by its caller": "SELECT body FROM arc_messages WHERE caller_id = :caller_id AND seq > :after",
    "by a key": "DELETE FROM arc_facts WHERE arc_facts.conversation = :conversation",
    "by a table that is": "SELECT m.body FROM arc_branches b JOIN arc_messages m ON m.conversation = b.conversation "
    "WHERE b.caller_id = :caller_id",
    "by the query around it": "SELECT name FROM arc_scopes s WHERE s.scope = :scope AND EXISTS "
    "(SELECT 1 FROM arc_records r WHERE r.scope = s.scope)",
    "by a query that is": "SELECT body FROM arc_messages WHERE conversation = "
    "(SELECT conversation FROM arc_conversations WHERE conversation = :conversation)",
    "by its own columns": "INSERT INTO arc_views (conversation, body) VALUES (:conversation, :body)",
}
LOOSE = {
    "nothing": ("SELECT body FROM arc_messages", ["arc_messages"]),
    "a place": ("UPDATE arc_branches SET live = 0 WHERE branch = :branch", ["arc_branches"]),
    "one of two": ("DELETE FROM arc_facts WHERE caller_id = :caller_id OR place = 1", ["arc_facts"]),
    "not this caller": ("SELECT body FROM arc_records WHERE caller_id <> :caller_id", ["arc_records"]),
    "each other": (
        "SELECT 1 FROM arc_scopes s JOIN arc_records r ON r.scope = s.scope WHERE s.kind = :kind",
        ["arc_scopes", "arc_records"],
    ),
    "a column of its own": ("SELECT 1 FROM arc_scopes s WHERE s.scope = s.scope", ["arc_scopes"]),
    "an inner query": (
        "SELECT body FROM arc_messages WHERE conversation IN (SELECT conversation FROM arc_conversations)",
        ["arc_conversations"],
    ),
    "a table beside it": (
        "SELECT m.body FROM arc_branches b, arc_messages m WHERE b.caller_id = :caller_id",
        ["arc_messages"],
    ),
    "rows to be copied": ("INSERT INTO arc_views SELECT * FROM arc_views AS old", ["arc_views"]),
    "a number that a user may guess": ("SELECT text FROM arc_index_texts WHERE id = :id", ["arc_index_texts"]),
}


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
@pytest.mark.parametrize("sql", TIED.values(), ids=TIED)
def test_a_statement_is_tied_to_a_caller(sql: str, dialect: str) -> None:
    assert unscoped(sql, dialect) == []


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
@pytest.mark.parametrize(("sql", "tables"), LOOSE.values(), ids=LOOSE)
def test_a_statement_tied_to_nothing_is_found(sql: str, tables: list[str], dialect: str) -> None:
    assert unscoped(sql, dialect) == tables


def test_psycopgs_parameters_are_read() -> None:
    assert unscoped("SELECT 1 FROM arc_messages WHERE seq = %(seq)s::BIGINT", "postgres") == ["arc_messages"]
    assert unscoped("SELECT 1 FROM arc_messages WHERE caller_id = %(caller_id)s::VARCHAR", "postgres") == []


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_nothing_else_is_taken_for_maintenance(dialect: str) -> None:
    """Other statements with the same columns, such as the list of a caller's conversations, are checked."""
    every: list[Statements] = [
        make(dialect)
        for make in (statements_for, archive_statements_for, record_statements_for, summary_statements_for)
    ]
    every += [append_statements()] if dialect == "postgresql" else []
    excused = {name for one in every for name, statement in one.by_name.items() if is_maintenance(statement.sql)}
    assert excused == {"idle", "stale_sessions", "strays", "due", "claim_due"}
