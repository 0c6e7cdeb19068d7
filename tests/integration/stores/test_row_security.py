"""Row-level security on PostgreSQL: a role uses the rows of the caller with its name, and no others."""

import pytest
from cryptography.fernet import Fernet
from sqlalchemy import create_engine, text
from sqlalchemy.exc import ProgrammingError

from arc_common import ContextEngine, Document
from arc_common.exceptions import InvalidInputError, StoreError
from arc_common.stores.database.migrate import row_security
from tests.support.databases import new_database, partitioned_database, rows, run
from tests.support.servers import PostgresServer

SHOP = 'shop "A"'


def use(engine: ContextEngine, caller_id: str) -> list[str]:
    """Let a caller's user talk, and return the request's texts and the found documents."""
    session = engine.session("s", user_id="ann", caller_id=caller_id)
    documents = engine.documents_of(caller_id)
    documents.add([Document(f"Chairs of {caller_id}", id="d")])
    engine.memories(user_id="ann", caller_id=caller_id).add(f"Likes the chairs of {caller_id}.")
    for number in range(12):
        session.save_turn(f"My order {number} is of {caller_id} chairs.", "Noted.")
    session.summarize()
    engine.flush(60)
    window = session.context("Which chairs do I like?")
    return [*(one.text for one in window.messages), *(one.document.text for one in documents.search("chairs"))]


@pytest.mark.parametrize("make", [new_database, partitioned_database], ids=["whole", "partitioned"])
def test_a_role_sees_one_caller_only(postgres: PostgresServer, make: object) -> None:
    """A role can do everything for its caller, and can't read or write another caller's rows, even with its own SQL."""
    url = make(postgres)  # type: ignore[operator]
    run(
        url,
        f"""DO $$ BEGIN CREATE ROLE "{SHOP.replace('"', '""')}" LOGIN; EXCEPTION WHEN duplicate_object THEN END $$""",
    )
    for _ in range(2):
        run(url, *row_security(SHOP))
    with ContextEngine.open(url) as engine:
        use(engine, "bank")
    own = create_engine(url).url.set(username=SHOP)
    limited = create_engine(own)
    with ContextEngine.open(limited) as engine:
        seen = use(engine, SHOP)
        assert any(SHOP in one for one in seen)
        assert not any("bank" in one for one in seen)
        assert not engine.session("s", user_id="ann", caller_id="bank").exists()
        with pytest.raises(StoreError, match="row-level security"):
            use(engine, "bank")
    tables = rows(url, "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relname LIKE 'arc%'")
    with limited.connect() as connection:
        for (table,) in tables:
            try:
                with connection.begin_nested():
                    others = f"SELECT count(*) FROM {table} WHERE caller_id <> :mine"
                    assert connection.execute(text(others), {"mine": SHOP}).scalar() == 0
            except ProgrammingError as error:  # a partition itself, or the revision's table
                assert "permission denied" in str(error) or table == "arc_alembic_version"
    limited.dispose()


def test_a_role_uses_an_encrypted_database(postgres: PostgresServer) -> None:
    """A role may read the database's key, which is itself encrypted."""
    url, role, cipher = new_database(postgres, tables=False), "it's $$ mine", Fernet(Fernet.generate_key())
    run(url, """DO 'BEGIN CREATE ROLE "it''s $$ mine" LOGIN; EXCEPTION WHEN duplicate_object THEN END'""")
    with ContextEngine.open(url, cipher=cipher) as engine:
        engine.session("s", caller_id=role).save_turn("Hello.", "Hello.")
    run(url, *row_security(role))
    limited = create_engine(create_engine(url).url.set(username=role))
    with ContextEngine.open(limited, cipher=cipher) as engine:
        assert [one.text for one in engine.session("s", caller_id=role).messages()] == ["Hello.", "Hello."]
    limited.dispose()


def test_a_role_has_a_name() -> None:
    with pytest.raises(InvalidInputError, match="role"):
        row_security("")
    with pytest.raises(InvalidInputError, match="role"):
        row_security("a" * 64)
