"""What three conversations give to a model in every public way: the prompts and receipts that goldens are made of."""

import gzip
import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, message_to_dict

from arc_common import ArcSettings, ContextEngine, Message, TokenBudget
from arc_common.exceptions import BudgetExceededError
from arc_common.session import Session
from langchain_arc import ArcChatMessageHistory, ArcMemoryMiddleware
from llamaindex_arc import ArcChatMemoryBuffer
from tests.goldens.conversations import (
    FOLLOW_UPS,
    INSTRUCTIONS,
    LOOKED_UP,
    MEMORIES,
    QUESTIONS,
    conversation,
    documents,
)
from tests.langchain_arc.scripted_agents import ScriptedToolModel

__all__ = ["BUDGETS", "USER", "WAYS", "Shown", "build", "read_goldens", "windows", "write_goldens"]

BUDGETS = (700, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 128_000)
USER = "ann"
SESSION = "golden"
_FOLDER = Path(__file__).parent / "data"
_SETTINGS = ArcSettings(memory={"min_importance": 1.0})
"""Nothing is remembered but what is entered by hand: the background's progress must not show."""
_TOOLS = (
    {
        "type": "function",
        "function": {
            "name": "look_up_order",
            "description": "Look up an order by its number.",
            "parameters": {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]},
        },
    },
)

Shown = dict[str, Any]
"""The messages of one turn, and its receipt; or the error."""


class _Clock:
    """Moves on by a second each time it is asked, from a moment nine days after the conversation's end."""

    def __init__(self, start: datetime) -> None:
        self._start = start
        self._asked = count(1)

    def __call__(self) -> datetime:
        return self._start + timedelta(days=9, seconds=next(self._asked))


def build(url: str, language: str) -> None:
    """Fill an empty database with one language's conversation, documents, memories and an artifact, summarised."""
    with _engine(url, language) as engine:
        engine.documents.add(documents(language))
        for text in MEMORIES[language]:
            engine.memories(user_id=USER).add(text, importance=1.0)
        session = engine.session(SESSION, user_id=USER)
        session.append(conversation(language))
        session.summarize()
        session.add_artifact(LOOKED_UP[language], source="https://flights.example/tp1234")


def windows(url: str, language: str, way: str, budget: int) -> list[Shown]:
    """Two turns on a copy of what `build` made, one after the other: what the model is shown, and the receipts."""
    shown: list[Shown] = []
    with _engine(url, language) as engine:
        session = engine.session(SESSION, user_id=USER)
        known = sorted(engine.memories(user_id=USER).list(), key=lambda memory: memory.text)
        names = {memory.id: f"memory-{place}" for place, memory in enumerate(known)}
        for question in (QUESTIONS[language], FOLLOW_UPS[language]):
            try:
                messages = WAYS[way](engine, session, language, question, budget)
            except BudgetExceededError as error:
                shown.append({"error": str(error)})
                continue
            receipt = engine.admin.debug(SESSION, user_id=USER).receipt
            assert receipt is not None
            shown.append(_steady({"messages": messages, "receipt": receipt.to_dict()}, names))
            if way != "middleware":  # which saves by itself
                session.save_turn(question, "…")
            session.summarize()  # or the next turn would depend on how far the background is
    return shown


def read_goldens(language: str) -> dict[str, list[Shown]]:
    """The turns of a language as they were recorded, by way and budget."""
    with gzip.open(_FOLDER / f"{language}.json.gz", "rt", encoding="utf-8") as file:
        recorded: dict[str, list[Shown]] = json.load(file)
    return recorded


def write_goldens(language: str, turns: Mapping[str, list[Shown]]) -> None:
    """Record turns; the same turns give the same bytes."""
    text = json.dumps(turns, ensure_ascii=False, indent=0, sort_keys=True)
    _FOLDER.mkdir(exist_ok=True)
    (_FOLDER / f"{language}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def _engine(url: str, language: str) -> ContextEngine:
    newest = conversation(language)[-1].created_at
    assert newest is not None
    numbers = count()
    return ContextEngine.open(url, settings=_SETTINGS, clock=_Clock(newest), new_id=lambda: f"new{next(numbers)}")


def _steady(value: Any, names: Mapping[str, str]) -> Any:
    """Replace what differs from run to run: random ids of memories and answers, and the last digits of scores."""
    if isinstance(value, dict):
        return {key: _steady(inside, names) for key, inside in value.items()}
    if isinstance(value, list):
        return [_steady(inside, names) for inside in value]
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, str):
        return "answer" if value.startswith("lc_run-") else names.get(value, value)
    return value


def _by_context(engine: ContextEngine, session: Session, language: str, question: str, budget: int) -> list[Any]:
    window = session.context(
        question,
        system_prompt=INSTRUCTIONS[language],
        tools=_TOOLS,
        budget=TokenBudget(budget, output_reserve=0),
    )
    return list(map(_plain, window.messages))


def _by_window(engine: ContextEngine, session: Session, language: str, question: str, budget: int) -> list[Any]:
    return list(map(_plain, session.window(max_tokens=budget, query=question)))


def _by_history(engine: ContextEngine, session: Session, language: str, question: str, budget: int) -> list[Any]:
    history = ArcChatMessageHistory(SESSION, engine=engine, user_id=USER, max_tokens=budget)
    return list(map(message_to_dict, history.messages))


def _by_middleware(engine: ContextEngine, session: Session, language: str, question: str, budget: int) -> list[Any]:
    model = ScriptedToolModel(script=[AIMessage("…")])
    middleware = ArcMemoryMiddleware(engine, user_id=USER, budget=TokenBudget(budget, output_reserve=0))
    agent = create_agent(model, tools=[], system_prompt=INSTRUCTIONS[language], middleware=[middleware])
    place = engine.admin.debug(SESSION, user_id=USER).conversation.message_count
    asked = HumanMessage(question, id=f"asked{place}")
    agent.invoke({"messages": [asked]}, {"configurable": {"thread_id": SESSION}})
    return list(map(message_to_dict, model.requests[-1]))


def _by_memory(engine: ContextEngine, session: Session, language: str, question: str, budget: int) -> list[Any]:
    memory = ArcChatMemoryBuffer.from_defaults(engine=engine, session_id=SESSION, user_id=USER, token_limit=budget)
    return [message.model_dump(mode="json") for message in memory.get(input=question)]


WAYS: dict[str, Callable[[ContextEngine, Session, str, str, int], list[Any]]] = {
    "context": _by_context,
    "window": _by_window,
    "history": _by_history,
    "middleware": _by_middleware,
    "memory": _by_memory,
}
"""Every public way to what a model is shown, by name."""


def _plain(message: Message) -> Shown:
    calls = [{"name": call.name, "arguments": call.arguments, "id": call.id} for call in message.tool_calls]
    return {
        "role": message.role.value,
        "text": message.text,
        "tool_calls": calls,
        "tool_call_id": message.tool_call_id,
        "name": message.name,
        "id": message.id,
    }
