"""From the tables without summaries to those with them, and back."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, create_engine, inspect, text

import arc_common.stores
from arc_common.protocols import SessionKey
from arc_common.protocols.summaries import Commit
from arc_common.stores.conversations import SqlStore
from arc_common.stores.migrate import current_revision
from arc_common.stores.schema import HEAD
from arc_common.testing.conversation_store_contract import counted
from arc_common.testing.summary_store_contract import a_fact, a_leaf, a_view

KEY = SessionKey("old", user_id="user")

SESSION = """
INSERT INTO arc_sessions (caller_id, session_id, user_id, status, created_at, updated_at, last_message_at, next_seq,
                          message_count, tool_calls_count, total_tokens)
VALUES ('default', 'old', 'user', 'active', 1000000, 1000000, 1000000, 5, 4, 0, 40)
"""
MESSAGE = """
INSERT INTO arc_messages (session, seq, caller_id, message_id, revision, role, content, tokens, counter, tool_calls,
                          created_at)
SELECT id, :seq, 'default', :name, 1, 'user', :content, 10, 'test/1', 0, 1000000 FROM arc_sessions
"""


def migrate(engine: Engine, revision: str) -> None:
    """Up or down to a revision."""
    config = Config()
    config.set_main_option("script_location", str(Path(arc_common.stores.__path__[0]) / "migrations"))
    config.set_main_option("path_separator", "os")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        if revision < (current_revision(engine) or ""):
            command.downgrade(config, revision)
        else:
            command.upgrade(config, revision)


def old_database(url: str) -> Engine:
    """Tables of revision 1 with a conversation of four messages."""
    engine = create_engine(url)
    migrate(engine, "0001")
    with engine.begin() as connection:
        connection.execute(text(SESSION))
        for seq in range(1, 5):
            connection.execute(text(MESSAGE), {"seq": seq, "name": f"m{seq}", "content": f"m{seq}"})
    return engine


def test_an_old_conversation_gets_summaries(empty_database: str) -> None:
    """All that was stored is there after the first use of this version, and takes summaries at once."""
    engine = old_database(empty_database)
    store = SqlStore(engine)
    state = store.summaries.state(KEY, limit=9)
    assert current_revision(engine) == HEAD
    assert [one.message.text for one in state.messages] == ["m1", "m2", "m3", "m4"]
    assert (state.view, state.message_count, state.total_tokens, state.facts_version) == (None, 4, 40, 0)
    store.append(KEY, [counted("m5")])
    assert store.summaries.commit(KEY, Commit(a_leaf(1, 4), (a_fact("f"),)), lease=None, epoch=state.epoch)
    assert store.summaries.adopt(KEY, a_view(), epoch=state.epoch)
    lease = store.summaries.acquire(KEY, owner="a", seconds=5)
    assert lease is not None
    assert (lease.fence, lease.epoch) == (1, state.epoch)
    assert [one.message.text for one in store.summaries.state(KEY, limit=9).messages] == ["hello"]
    engine.dispose()


def test_and_back(empty_database: str) -> None:
    """The conversation survives the way back; the columns and tables are gone."""
    engine = old_database(empty_database)
    before = sorted(column["name"] for column in inspect(engine).get_columns("arc_sessions"))
    migrate(engine, "0002")
    migrate(engine, "0001")
    tables = inspect(engine)
    assert sorted(column["name"] for column in tables.get_columns("arc_sessions")) == before
    assert sorted(tables.get_table_names()) == ["arc_alembic_version", "arc_messages", "arc_sessions"]
    assert current_revision(engine) == "0001"
    store = SqlStore(engine)
    assert len(store.tail(KEY)) == 4
    engine.dispose()
