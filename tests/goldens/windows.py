"""The requests and receipts that goldens record: three conversations through each public entry point."""

import asyncio
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from math import sqrt
from typing import Any
from uuid import uuid4

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, message_to_dict
from langchain_core.runnables import RunnableLambda
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory
from sqlalchemy.ext.asyncio import create_async_engine

from arc_common import ContextEngine, Message, Session, TokenBudget
from arc_common.exceptions import BudgetExceededError
from langchain_arc import ArcChatMessageHistory, ArcMemoryMiddleware, with_arc_memory
from llamaindex_arc import ArcChatMemoryBuffer, ArcFactsBlock, ArcLongTermBlock, ArcRecallBlock, ArcSummaryBlock
from tests.goldens.conversations import SCRIPTS, Script, conversation, documents
from tests.support.langchain_agents import ScriptedToolModel

_BUDGETS = (700, 1_000, 2_000, 4_000, 16_000, 128_000)
_USER = "ann"
_SESSION = "golden"
_LONG = 60.0
_ANSWER = "OK."
_TOOLS = (
    {
        "type": "function",
        "function": {
            "name": "look_up_parcel",
            "description": "Look up a parcel by its number.",
            "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
        },
    },
)
_MINTED = re.compile(r"\b(?:minted_|mem_|lc_run-+)[0-9a-f-]{32,36}")


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn's request, as JSON in the adapter's format or as the text of an error, and its receipt if it has one."""

    messages: list[Any]
    receipt: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question in a session, with its arguments."""

    engine: ContextEngine
    session: Session
    script: Script
    question: str
    budget: int

    @property
    def token_budget(self) -> TokenBudget:
        return TokenBudget(self.budget, output_reserve=0)


class _Clock:
    """A clock nine days after the conversation, which advances by a minute per turn."""

    def __init__(self) -> None:
        newest = conversation("en")[-1].created_at
        assert newest is not None
        self.now = newest + timedelta(days=9)

    def __call__(self) -> datetime:
        return self.now


class _Vectors:
    """Embeds a text by its pairs of characters, the same on every machine; similar texts get similar vectors."""

    name = "pairs"

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        numbers = [0.0] * 32
        for pair in pairwise(text):
            numbers[zlib.crc32("".join(pair).encode()) % 32] += 1.0
        length = sqrt(sum(number * number for number in numbers)) or 1.0
        return [number / length for number in numbers]


def build(url: str, language: str) -> None:
    """Fill an empty database with a conversation, documents, memories and an artifact, indexed and summarised."""
    script = SCRIPTS[language]
    with _engine(url, _Clock()) as engine:
        engine.documents.add(documents(language))
        for text in script.memories:
            engine.memories(user_id=_USER).add(text, importance=0.9)
        session = engine.session(_SESSION, user_id=_USER)
        session.append(conversation(language))
        assert engine.flush(_LONG)
        session.add_artifact(script.artifact, source="https://timetable.example/1234")
        session.summarize()
        assert engine.flush(_LONG)


def turns(url: str, language: str, way: str, budget: int) -> list[Turn]:
    """Ask two questions in a copy of a database that `build` filled."""
    script, clock = SCRIPTS[language], _Clock()
    ask, _ = WAYS[way]
    shown: list[Turn] = []
    with _engine(url, clock) as engine:
        session = engine.session(_SESSION, user_id=_USER)
        for question in script.questions:
            clock.now += timedelta(minutes=1)
            try:
                messages = ask(_Asked(engine, session, script, question, budget))
            except BudgetExceededError as error:
                shown.append(Turn([str(error)], None))
                continue
            receipt = engine.admin.debug(_SESSION, user_id=_USER).receipt
            shown.append(Turn(messages, None if receipt is None else receipt.to_dict()))
            if session.messages(limit=1)[0].text != _ANSWER:
                session.save_turn(question, _ANSWER)
            assert engine.flush(_LONG)
    return _steady(shown)


def _engine(url: str, clock: Callable[[], datetime]) -> ContextEngine:
    return ContextEngine.open(url, embedder=_Vectors(), clock=clock, new_id=lambda: f"minted_{uuid4().hex}")


def _steady(shown: Sequence[Turn]) -> list[Turn]:
    """Rename generated call ids to m1, m2 and so on in the order of their appearance, requests first; round scores."""
    names: dict[str, str] = {}

    def steady(value: Any) -> Any:
        if isinstance(value, dict):
            return {steady(key): steady(inside) for key, inside in value.items()}
        if isinstance(value, list):
            return [steady(inside) for inside in value]
        if isinstance(value, float):
            return round(value, 4)
        if isinstance(value, str):
            return _MINTED.sub(lambda found: names.setdefault(found[0], f"m{len(names) + 1}"), value)
        return value

    messages = [steady(turn.messages) for turn in shown]
    return [Turn(said, steady(turn.receipt)) for said, turn in zip(messages, shown, strict=True)]


def _by_context(asked: _Asked) -> list[Any]:
    window = asked.session.context(
        asked.question, system_prompt=asked.script.instructions, tools=_TOOLS, budget=asked.token_budget
    )
    return [_plain(message) for message in window.messages]


def _by_history(asked: _Asked) -> list[Any]:
    history = ArcChatMessageHistory(_SESSION, engine=asked.engine, user_id=_USER, max_tokens=asked.budget)
    return [message_to_dict(message) for message in history.messages]


def _by_chain(asked: _Asked) -> list[Any]:
    shown: list[Any] = []

    def model(messages: Any) -> AIMessage:
        shown.extend(message_to_dict(message) for message in messages)
        return AIMessage(_ANSWER)

    chain = with_arc_memory(RunnableLambda(model), asked.engine, user_id=_USER, max_tokens=asked.budget)
    chain.invoke([HumanMessage(asked.question)], {"configurable": {"session_id": _SESSION}})
    return shown


def _by_middleware(asked: _Asked) -> list[Any]:
    model = ScriptedToolModel(script=[AIMessage(_ANSWER)])
    middleware = ArcMemoryMiddleware(asked.engine, user_id=_USER, budget=asked.token_budget)
    agent = create_agent(model, tools=[], system_prompt=asked.script.instructions, middleware=[middleware])
    place = asked.engine.admin.debug(_SESSION, user_id=_USER).conversation.message_count
    question = HumanMessage(asked.question, id=f"asked{place}")
    agent.invoke({"messages": [question]}, {"configurable": {"thread_id": _SESSION}})
    return [message_to_dict(message) for message in model.requests[-1]]


def _by_buffer(asked: _Asked) -> list[Any]:
    memory = ArcChatMemoryBuffer.from_defaults(
        engine=asked.engine, session_id=_SESSION, user_id=_USER, token_limit=asked.budget
    )
    return [message.model_dump(mode="json") for message in memory.get(input=asked.question)]


def _by_blocks(asked: _Asked) -> list[Any]:
    kinds = (ArcFactsBlock, ArcSummaryBlock, ArcRecallBlock, ArcLongTermBlock)

    async def ask() -> list[ChatMessage]:
        queue = create_async_engine("sqlite+aiosqlite://")
        memory = Memory.from_defaults(
            session_id=_SESSION,
            token_limit=asked.budget,
            memory_blocks=[kind(asked.engine, user_id=_USER) for kind in kinds],
            async_engine=queue,
        )
        await memory.aput(ChatMessage(asked.question))
        messages = await memory.aget()
        await queue.dispose()
        return messages

    return [message.model_dump(mode="json") for message in asyncio.run(ask())]


WAYS: dict[str, tuple[Callable[[_Asked], list[Any]], tuple[int, ...]]] = {
    "arc": (_by_context, (700, 1_000, 1_500, 2_000, 4_000, 6_000, 16_000, 128_000)),
    "langchain-chain": (_by_chain, _BUDGETS),
    "langchain-history": (_by_history, _BUDGETS),
    "langchain-middleware": (_by_middleware, _BUDGETS),
    "llamaindex-blocks": (_by_blocks, (2_000, 128_000)),
    "llamaindex-buffer": (_by_buffer, _BUDGETS),
}
"""The public entry points to a model's request with their budgets: 204 requests in all."""


def _plain(message: Message) -> dict[str, Any]:
    return {
        "role": message.role.value,
        "text": message.text,
        "tool_calls": [{"name": one.name, "arguments": one.arguments, "id": one.id} for one in message.tool_calls],
        "tool_call_id": message.tool_call_id,
        "name": message.name,
        "id": message.id,
    }
