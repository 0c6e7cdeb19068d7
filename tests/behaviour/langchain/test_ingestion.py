"""Chains and agents add their answered questions, and nothing else, to the review queue."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from arc_common import ArcSettings, ContextEngine
from langchain_arc import ArcIngestionHandler, ArcIngestionMiddleware, open_engine
from tests.support.databases import sqlite_url
from tests.support.langchain_agents import ScriptedToolModel, call

QUESTION, ANSWER = "How long can I return it?", "You can return it within 30 days."


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[ContextEngine]:
    settings = ArcSettings(rag={"ingestion": {"enabled": True}})
    with open_engine(sqlite_url(tmp_path), settings=settings) as engine:
        yield engine


def captured(engine: ContextEngine) -> list[tuple[str, str, str | None, str | None]]:
    found = engine.ingestion.candidates().candidates
    return [(one.query, one.response, one.session_id, one.user_id) for one in found]


def chain() -> Any:
    prompt = ChatPromptTemplate.from_messages([("system", "Be kind."), ("human", "{input}")])
    return prompt | FakeListChatModel(responses=[ANSWER])


async def test_a_chain_is_captured_once_however_it_is_called(engine: ContextEngine) -> None:
    """Its steps are not captured; the session comes from the handler or the metadata."""
    own = ArcIngestionHandler(engine, session_id="s", user_id="ann", channel="web")
    plain = ArcIngestionHandler(engine)
    chain().invoke({"input": QUESTION}, {"callbacks": [own]})
    assert captured(engine) == [(QUESTION, ANSWER, "s", "ann")]
    config: Any = {"callbacks": [plain], "metadata": {"thread_id": "t", "user_id": "ben"}}
    await chain().ainvoke({"input": QUESTION}, config)
    assert "".join(chunk.content for chunk in chain().stream({"input": QUESTION}, config)) == ANSWER
    async for _ in chain().astream({"input": QUESTION}, config):
        pass
    assert captured(engine)[1:] == [(QUESTION, ANSWER, "t", "ben")] * 3
    assert [one.channel for one in engine.ingestion.candidates().candidates] == ["web", "chat", "chat", "chat"]


def test_what_is_no_answer_is_left_out(engine: ContextEngine, caplog: pytest.LogCaptureFixture) -> None:
    """Failed runs, inputs without a question and tool calls are skipped; a failing store does not affect the answer."""
    handler = ArcIngestionHandler(engine)

    def fail(_: object) -> str:
        raise ValueError("down")

    with pytest.raises(ValueError, match="down"):
        RunnableLambda(fail).invoke(QUESTION, {"callbacks": [handler]})
    RunnableLambda(lambda _: 3).invoke(QUESTION, {"callbacks": [handler]})
    RunnableLambda(lambda _: ANSWER).invoke({"number": 3}, {"callbacks": [handler]})
    calling = AIMessage("I will look up how long that is.", tool_calls=[call("look_up", "c1", word="return")])
    RunnableLambda(lambda _: calling).invoke(QUESTION, {"callbacks": [handler]})
    assert captured(engine) == []
    RunnableLambda(lambda _: {"answer": ANSWER}).invoke({"question": QUESTION}, {"callbacks": [handler]})
    assert len(captured(engine)) == 1
    engine.close()
    assert chain().invoke({"input": QUESTION}, {"callbacks": [handler]}).content == ANSWER
    assert "an answer was not captured" in caplog.text


class Another(ArcIngestionMiddleware):
    """A second handler in the same agent."""


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_an_agent_is_captured_once(engine: ContextEngine, asynchronous: bool) -> None:
    """Only its final answer is, with its thread, even with two handlers."""

    @tool
    def look_up(word: str) -> str:
        """Look a word up."""
        return f"{word}: 30 days"

    script = [AIMessage("", tool_calls=[call("look_up", "c1", word="return")]), AIMessage(ANSWER)]
    model = ScriptedToolModel(script=script)
    twice = [ArcIngestionMiddleware(engine, user_id="ann"), Another(engine, user_id="ann")]
    agent = create_agent(model, [look_up], middleware=twice, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    given: Any = {"messages": [("human", QUESTION)]}
    state = await agent.ainvoke(given, config) if asynchronous else agent.invoke(given, config)
    assert state["messages"][-1].content == ANSWER
    assert captured(engine) == [(QUESTION, ANSWER, "t", "ann")]
