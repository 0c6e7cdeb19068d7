"""Both adapters' chat memories behind one interface, for tests of their common behaviour."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

import langchain_arc
import llamaindex_arc
from arc_common import ContextEngine, Message, Role
from langchain_arc import ArcChatMessageHistory
from llamaindex_arc import ArcChatMemoryBuffer


@dataclass(frozen=True, slots=True)
class Face:
    """Functions that create, read and write a framework's memory, and convert its messages to arc's."""

    open_engine: Callable[..., ContextEngine]
    memory: Callable[..., Any]
    read: Callable[[Any], list[Any]]
    aread: Callable[[Any], Any]
    write: Callable[[Any, list[Any]], None]
    from_arc: Callable[[Message], Any]
    to_arc: Callable[[Any], Message]
    limit: str

    def put(self, engine: ContextEngine, messages: Sequence[Message], session_id: str = "s") -> None:
        self.write(self.memory(engine, session_id), list(map(self.from_arc, messages)))

    def shown(self, engine: ContextEngine, session_id: str = "s", **given: Any) -> list[Message]:
        return list(map(self.to_arc, self.read(self.memory(engine, session_id, **given))))


def _history(engine: ContextEngine, session_id: str = "s", **given: Any) -> ArcChatMessageHistory:
    return ArcChatMessageHistory(session_id, engine=engine, **given)


def _buffer(engine: ContextEngine, session_id: str = "s", **given: Any) -> ArcChatMemoryBuffer:
    return ArcChatMemoryBuffer.from_defaults(engine=engine, session_id=session_id, **given)


LANGCHAIN = Face(
    langchain_arc.open_engine,
    _history,
    lambda memory: memory.messages,
    lambda memory: asyncio.run(memory.aget_messages()),
    lambda memory, messages: memory.add_messages(messages),
    langchain_arc.from_arc,
    langchain_arc.to_arc,
    "max_tokens",
)
LLAMAINDEX = Face(
    llamaindex_arc.open_engine,
    _buffer,
    lambda memory: memory.get(),
    lambda memory: asyncio.run(memory.aget()),
    lambda memory, messages: memory.put_messages(messages),
    llamaindex_arc.from_arc,
    llamaindex_arc.to_arc,
    "token_limit",
)
FACES = {"LangChain": LANGCHAIN, "LlamaIndex": LLAMAINDEX}
faces = pytest.mark.parametrize("face", FACES.values(), ids=FACES)


def orders(number: int) -> list[Message]:
    """Return turns long enough to be summarised, each with its own order number."""
    return [
        message
        for n in range(number)
        for message in (
            Message(Role.USER, f"I placed order A-{1000 + n}, and it must not be sent to Berlin."),
            Message(Role.ASSISTANT, f"Order A-{1000 + n} goes to Lisbon, on day {n}. Is door {n} open?"),
        )
    ]


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]
