"""Conversations and memories stored by other libraries are imported once and unchanged.

`tests/support/data/histories` holds files of langchain-community 0.4.2, llama-index-core 0.14.25 (with pydantic 2.13,
as `SimpleChatStore.persist` fails with 2.14) and mem0ai 2.2.1; `Memory`'s table is written here.
"""

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import Memory
from sqlalchemy.ext.asyncio import create_async_engine

from arc_common import ConfigurationError, ContextEngine, InvalidInputError, SessionNotFoundError
from arc_common.engine.importers import ImportedMemory, ImportedSession, mem0_memories
from arc_common.messages import Message, Role
from langchain_arc import from_arc as to_langchain
from langchain_arc.importers import message_store
from llamaindex_arc import from_arc as to_llamaindex
from llamaindex_arc.importers import memory_table, simple_chat_store
from tests.support.databases import on_sqlite

DATA = Path(__file__).parents[2] / "support" / "data" / "histories"
HISTORY = f"sqlite:///{DATA / 'langchain.db'}"


@pytest.fixture
def engine(database: str, opened: Callable[..., ContextEngine]) -> ContextEngine:
    return opened(database)


def test_langchains_table_is_imported_once(engine: ContextEngine) -> None:
    """Each message comes back as LangChain's, with calls, usage and blocks; equal messages stay two."""
    steps: list[int] = []
    assert engine.admin.import_(message_store(HISTORY), progress=steps.append) == steps[-1] == 9
    session = engine.session("ann-1")
    (_, asked, called, result, answer, *thanks) = map(to_langchain, session.messages())
    assert (asked.content, asked.id) == ("My order number is HN-48213.", "m1")
    assert called.tool_calls == [{"name": "track", "args": {"order": "HN-48213"}, "id": "c1", "type": "tool_call"}]
    assert (result.content, result.tool_call_id) == ("On its way.", "c1")
    assert answer.usage_metadata["total_tokens"] == 7
    assert [one.content for one in thanks] == ["Thanks!", "Thanks!"]
    assert engine.session("ben-1").messages()[0].text == "안녕하세요"
    for _ in range(2):
        assert engine.admin.import_(message_store(HISTORY)) == 0
    assert len(session.messages()) == 7
    assert "HN-48213" in str([message.text for message in session.context("Which order?").messages])


@on_sqlite
def test_an_interrupted_import_goes_on(engine: ContextEngine, tmp_path: Path) -> None:
    """An invalid row is named; the rows before it are stored, and a repetition stores the rest."""
    copied = shutil.copy(DATA / "langchain.db", tmp_path / "history.db")
    with closing(sqlite3.connect(copied, isolation_level=None)) as connection:
        stored = connection.execute("SELECT message FROM message_store WHERE id = 9").fetchone()
        connection.execute('UPDATE message_store SET message = \'{"type": "alien"}\' WHERE id = 9')
        with pytest.raises(InvalidInputError, match="message 9 of session 'ben-1'"):
            engine.admin.import_(message_store(f"sqlite:///{copied}"))
        connection.execute("UPDATE message_store SET message = ? WHERE id = 9", stored)
    assert engine.admin.import_(message_store(f"sqlite:///{copied}")) == 2
    assert len(engine.session("ben-1").messages()) == 2


@on_sqlite
def test_llamaindexs_memory_is_imported_with_what_has_left_its_window(engine: ContextEngine, tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'memory.db'}"

    async def write() -> None:
        database = create_async_engine(url)  # `Memory` never closes it
        memory = Memory.from_defaults(
            session_id="ann-1",
            token_limit=200,
            chat_history_token_ratio=0.5,
            token_flush_size=50,
            async_engine=database,
        )
        for number in range(12):
            await memory.aput(ChatMessage(role="user", content=f"Order {number} is HN-4821{number}, please track it."))
            await memory.aput(ChatMessage(role="assistant", content=f"Tracked order {number}."))
        await database.dispose()

    asyncio.run(write())
    assert engine.admin.import_(memory_table(url), user_id="ann") == 24
    assert engine.admin.import_(memory_table(url), user_id="ann") == 0
    messages = engine.session("ann-1", user_id="ann").messages()
    assert [message.text for message in messages][::2] == [
        f"Order {number} is HN-4821{number}, please track it." for number in range(12)
    ]
    times = [message.created_at for message in messages]
    assert times == sorted(times)
    assert abs(datetime.now(UTC) - times[0]).total_seconds() < 600
    assert to_llamaindex(messages[0]) == ChatMessage(role="user", content=messages[0].text)


@on_sqlite
def test_a_simple_chat_store_is_imported_once(engine: ContextEngine, tmp_path: Path) -> None:
    path = str(DATA / "simple_chat_store.json")
    assert engine.admin.import_(simple_chat_store(path), caller_id="shop") == 5
    assert engine.admin.import_(simple_chat_store(path), caller_id="shop") == 0
    messages = engine.session("ann-1", caller_id="shop").messages()
    answer = to_llamaindex(messages[1])
    assert ([block.text for block in answer.blocks], answer.additional_kwargs) == (["Noted:", "HN-48213."], {"x": 1})
    assert [message.text for message in messages[2:]] == ["Thanks!", "Thanks!"]
    older = tmp_path / "older.json"
    older.write_text(json.dumps(Path(path).read_text("utf-8")), "utf-8")
    assert engine.admin.import_(simple_chat_store(str(older)), caller_id="shop") == 0


def test_mem0s_memories_are_imported_once(engine: ContextEngine) -> None:
    """Each belongs to its user, with its time and mem0's metadata."""
    path = DATA / "mem0.json"
    assert engine.admin.import_(mem0_memories(path)) == 4
    assert engine.admin.import_(mem0_memories(path)) == 0
    ann = {one.text: one for one in engine.memories(user_id="ann").list()}
    assert set(ann) == {"I live in Busan.", "My order number is HN-48213.", "Noted: HN-48213."}
    assert ann["I live in Busan."].metadata["category"] == "place"
    assert ann["Noted: HN-48213."].metadata["run_id"] == "ann-1"
    assert ann["I live in Busan."].valid_from == datetime(2026, 11, 26, 18, 38, 26, 313119, tzinfo=UTC)
    (ben,) = engine.memories(user_id="ben").list()
    assert ben.text == "I prefer trains."


@on_sqlite
def test_a_session_of_somebody_else_is_not_written_to(engine: ContextEngine) -> None:
    engine.session("ann-1", user_id="eve").save_turn("Mine.", "Yours.")
    with pytest.raises(SessionNotFoundError, match="ann-1"):
        engine.admin.import_(message_store(HISTORY), user_id="ann")
    assert len(engine.session("ann-1", user_id="eve").messages()) == 2


@pytest.mark.parametrize(
    ("source", "error", "said"),
    [
        (message_store("sqlite:////nowhere/history.db"), ConfigurationError, "no such file"),
        (message_store(HISTORY, "other"), ConfigurationError, "no such table"),
        (message_store("nonsense"), ConfigurationError, "nonsense"),
        (memory_table(HISTORY), ConfigurationError, "llama_index_memory"),
        (simple_chat_store(str(DATA / "mem0.json")), InvalidInputError, "SimpleChatStore"),
        (simple_chat_store(str(DATA / "nowhere.json")), InvalidInputError, "nowhere"),
        (mem0_memories(DATA / "simple_chat_store.json"), InvalidInputError, "mem0"),
        (mem0_memories(DATA / "langchain.db"), InvalidInputError, "JSON"),
        ([5], InvalidInputError, "ImportedSession"),
        ([ImportedSession("s", [Message(Role.USER, "Hi")])], InvalidInputError, "ids"),
        ([ImportedMemory("1", "")], InvalidInputError, "text"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_source_is_a_clear_error(
    opened: Callable[..., ContextEngine], source: object, error: type[Exception], said: str
) -> None:
    engine = opened()
    with pytest.raises(error, match=said):
        engine.admin.import_(source)
    assert not engine.admin.sessions().conversations


@pytest.mark.parametrize("content", ['"not JSON"', '{"store": {"s": null}}', '{"store": {"s": [{"role": 5}]}}'])
def test_a_damaged_chat_store_is_a_clear_error(
    opened: Callable[..., ContextEngine], tmp_path: Path, content: str
) -> None:
    (tmp_path / "store.json").write_text(content, "utf-8")
    with pytest.raises(InvalidInputError, match=r"SimpleChatStore|ChatMessage"):
        opened().admin.import_(simple_chat_store(str(tmp_path / "store.json")))


def test_a_damaged_row_of_a_memory_is_named(opened: Callable[..., ContextEngine], tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "memory.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE llama_index_memory (id INTEGER, key TEXT, timestamp INTEGER, data TEXT)")
        connection.execute("INSERT INTO llama_index_memory VALUES (7, 'ann-1', 1, 'not JSON')")
    with pytest.raises(InvalidInputError, match="message 7 of session 'ann-1'"):
        opened().admin.import_(memory_table(f"sqlite:///{tmp_path / 'memory.db'}"))


def test_a_row_that_the_database_cannot_read_is_a_clear_error(
    opened: Callable[..., ContextEngine], tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "memory.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE llama_index_memory (id INTEGER, key TEXT, timestamp INTEGER, data TEXT)")
        for number, data in ((7, "'{}'"), (8, "CAST(x'ff' AS TEXT)")):
            connection.execute(f"INSERT INTO llama_index_memory VALUES ({number}, 'ann-1', {number}, {data})")
    with pytest.raises(ConfigurationError, match=r"memory\.db: Could not decode"):
        opened().admin.import_(memory_table(f"sqlite:///{tmp_path / 'memory.db'}"))


def test_ids_of_an_export_are_its_own(opened: Callable[..., ContextEngine], tmp_path: Path) -> None:
    engine = opened()
    engine.session("s").save_turn("Hello", "Hi")
    engine.admin.export(tmp_path / "a.jsonl", caller_id="default", user_id=None)
    with pytest.raises(InvalidInputError, match="caller_id"):
        engine.admin.import_(tmp_path / "a.jsonl", caller_id="shop")
