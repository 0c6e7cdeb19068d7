"""Models, messages and faults for tests of LlamaIndex's memory and engines."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from threading import get_ident
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock, ToolCallBlock
from llama_index.core.memory import Memory
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from arc_common.engine.context_engine import ContextEngine
from arc_common.messages import Message
from arc_common.settings import ArcSettings, SummarySettings
from llamaindex_arc import ArcChatMemoryBuffer

NO_SUMMARIES = ArcSettings(summary=SummarySettings(enabled=False))


def own_statements(statements: list[str]) -> Callable[[str], None]:
    """Record the statements of the current thread, without those of the background and of connection set-up."""
    me = get_ident()

    def note(sql: str) -> None:
        if get_ident() == me and not sql.startswith(("PRAGMA", "CREATE VIRTUAL TABLE IF NOT EXISTS temp.")):
            statements.append(sql)

    return note


class Numbered:
    """A chat model that numbers its answers and records its requests."""

    def __init__(self) -> None:
        self.seen: list[list[Message]] = []

    def complete(self, messages: Sequence[Message]) -> str:
        """Return the next answer."""
        self.seen.append(list(messages))
        return f"answer number {len(self.seen)}"


class OneNode(BaseRetriever):
    """Finds the same node for every question."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text="The warranty lasts 24 months."), score=1.0)]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._retrieve(query_bundle)


def user(text: str | None) -> ChatMessage:
    return ChatMessage(role=MessageRole.USER, content=text)


def assistant(text: str | None) -> ChatMessage:
    return ChatMessage(role=MessageRole.ASSISTANT, content=text)


def system(text: str) -> ChatMessage:
    return ChatMessage(role=MessageRole.SYSTEM, content=text)


def calling(*ids: str, text: str | None = None) -> ChatMessage:
    """Return an assistant message that calls one tool with these call ids."""
    said = [TextBlock(text=text)] if text else []
    calls = [ToolCallBlock(tool_call_id=id_, tool_name="look_up", tool_kwargs={"q": id_}) for id_ in ids]
    return ChatMessage(role=MessageRole.ASSISTANT, blocks=[*said, *calls])


def result(id_: str, text: str = "found") -> ChatMessage:
    return ChatMessage(role=MessageRole.TOOL, content=text, additional_kwargs={"tool_call_id": id_})


def turns(number: int) -> list[ChatMessage]:
    """Return questions with answers, each message five tokens under `Ones`."""
    return [message for n in range(number) for message in (user(f"q{n}"), assistant(f"a{n}"))]


def said(messages: Sequence[ChatMessage]) -> list[str | None]:
    return [message.content for message in messages]


def memory_over(engine: ContextEngine, session_id: str = "s", **given: Any) -> ArcChatMemoryBuffer:
    return ArcChatMemoryBuffer.from_defaults(engine=engine, session_id=session_id, **given)


class Both:
    """A memory whose blocking methods call its blocking or its async forms."""

    def __init__(self, memory: ArcChatMemoryBuffer, *, through_async: bool) -> None:
        self._memory = memory
        self._through_async = through_async

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not self._through_async:
            return getattr(self._memory, name)  # type: ignore[no-any-return]  # a method, whichever
        twin = getattr(self._memory, f"a{name}")
        return lambda *args, **kwargs: asyncio.run(twin(*args, **kwargs))


forms = pytest.mark.parametrize("through_async", [False, True], ids=["sync", "async"])


def break_writes(database: Path) -> None:
    """Make the database refuse every new message, as on a full disk."""
    _run(database, "CREATE TRIGGER full BEFORE INSERT ON arc_messages BEGIN SELECT RAISE(ABORT, 'disk full'); END")


def mend_writes(database: Path) -> None:
    """Let the database accept messages again."""
    _run(database, "DROP TRIGGER full")


def _run(database: Path, statement: str) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(statement)
        connection.commit()


def settle(engine: ContextEngine) -> None:
    """Wait until all due summaries are written."""
    assert engine.flush(30)


def put(memory: Memory, messages: list[ChatMessage]) -> None:
    """Put messages one by one, like an engine."""

    async def put_all() -> None:
        for message in messages:
            await memory.aput(message)

    asyncio.run(put_all())
