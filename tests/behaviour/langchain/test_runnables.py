"""`with_arc_memory` and `ArcContext`: storage and failures."""

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableGenerator, RunnableLambda, RunnablePassthrough

from arc_common import BudgetExceededError, ContextEngine, InvalidInputError, Message, StoreError, TokenBudget
from arc_common.testing import CountingObserver
from langchain_arc import ArcContext, open_engine, with_arc_memory
from tests.support.databases import unreadable, unwritable
from tests.support.langchain_helpers import WAYS, echo_model, run, said

KEYS = {"input_messages_key": "question", "history_messages_key": "history"}
CONFIG: Any = {"configurable": {"session_id": "s"}}


def failing(value: Any) -> Any:
    raise OSError("overloaded")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("policy", ["keep_user", "drop_turn"])
async def test_a_chain_that_fails(engine: ContextEngine, policy: Any, way: str) -> None:
    """The error is raised; the user's message stays or is dropped; earlier turns are unchanged."""
    await run("invoke", with_arc_memory(echo_model(), engine), "before")
    broken = with_arc_memory(RunnableLambda(failing), engine, on_error=policy)
    for _ in range(2):
        with pytest.raises(OSError, match="overloaded"):
            await run(way, broken, "hello")
    before = [("user", "before"), ("assistant", "echo of before")]
    assert said(engine) == ([*before, ("user", "hello")] if policy == "keep_user" else before)
    await run(way, with_arc_memory(echo_model(), engine, on_error=policy), "hello")
    assert said(engine) == [*before, ("user", "hello"), ("assistant", "echo of hello")]


async def test_a_message_that_was_there_before_is_not_dropped(engine: ContextEngine) -> None:
    """A failed turn drops only its own messages."""
    chain = with_arc_memory(echo_model(), engine)
    chain.invoke(HumanMessage("hello", id="mine"), CONFIG)
    broken = with_arc_memory(RunnableLambda(failing), engine, on_error="drop_turn")
    with pytest.raises(OSError, match="overloaded"):
        broken.invoke(HumanMessage("hello", id="mine"), CONFIG)
    assert said(engine) == [("user", "hello"), ("assistant", "echo of hello")]


def words(fail_after: int | None = None) -> Any:
    """Return a chain that streams words, and fails after some of them."""

    def stream(values: Any) -> Any:
        for _ in values:
            pass
        for n in range(5):
            if n == fail_after:
                raise OSError("the line is dead")
            yield AIMessageChunk(f"word{n} ", id="run-1")

    async def astream(values: Any) -> Any:
        async for _ in values:
            pass
        for n in range(5):
            if n == fail_after:
                raise OSError("the line is dead")
            yield AIMessageChunk(f"word{n} ", id="run-1")
            await asyncio.sleep(0)

    return RunnableGenerator(stream, astream)


async def part_of(chain: Any, way: str, pieces: int) -> None:
    """Read some pieces of a stream, then close it."""
    if way == "stream":
        stream = chain.stream("hello", CONFIG)
        for _ in range(pieces):
            next(stream)
        stream.close()
    elif way == "astream":
        stream = chain.astream("hello", CONFIG)
        for _ in range(pieces):
            await anext(stream)
        await stream.aclose()
    else:
        reached = asyncio.Event()

        async def read() -> None:
            seen = 0
            async for _ in chain.astream("hello", CONFIG):
                seen += 1
                if seen == pieces:
                    reached.set()
                    await asyncio.sleep(60)

        task = asyncio.create_task(read())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.2)  # the loop closes the generator after the task


@pytest.mark.parametrize("policy", ["keep_user", "drop_turn"])
@pytest.mark.parametrize("way", ["stream", "astream", "cancelled"])
async def test_a_stream_that_is_cut_short(engine: ContextEngine, way: str, policy: Any) -> None:
    """The received part is stored and marked as incomplete."""
    await part_of(with_arc_memory(words(), engine, on_error=policy), way, 2)
    assert said(engine) == [("user", "hello"), ("assistant", "word0 word1 ")]
    assert engine.session("s").messages()[1].metadata["cut_short"] is True


@pytest.mark.parametrize("way", ["stream", "astream"])
async def test_a_stream_that_fails(engine: ContextEngine, way: str) -> None:
    """Half an answer is not stored; the user's message stays or is dropped."""
    for policy, left in (("keep_user", [("user", "hello")]), ("drop_turn", [])):
        session_id = policy
        chain = with_arc_memory(words(3), engine, on_error=policy)
        with pytest.raises(OSError, match="the line is dead"):
            await run(way, chain, "hello", session_id)
        assert said(engine, session_id) == left


@pytest.mark.parametrize("way", ["stream", "astream"])
async def test_of_several_iterations_the_last_one_is_stored(engine: ContextEngine, way: str) -> None:
    """A chain with tools streams several messages in sequence."""

    def stream(values: Any) -> Any:
        for _ in values:
            pass
        for run_id, text in (("a", "let me "), ("a", "see"), ("b", "it is "), ("b", "six")):
            yield AIMessageChunk(text, id=run_id)

    async def astream(values: Any) -> Any:
        async for _ in values:
            pass
        for chunk in stream([]):
            yield chunk

    await run(way, with_arc_memory(RunnableGenerator(stream, astream), engine), "2 x 3?")
    assert said(engine) == [("user", "2 x 3?"), ("assistant", "it is six")]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("failing_part", ["reading", "writing"])
async def test_a_store_that_fails_before_the_chain_runs(tmp_path: Path, failing_part: str, way: str) -> None:
    """It ends the turn, or the chain runs without memory; both are counted."""
    observer, url = CountingObserver(), f"sqlite:///{tmp_path}/arc.db"
    fault = {"reading": unreadable, "writing": unwritable}[failing_part]
    with open_engine(url, observer=observer) as engine:
        await run("invoke", with_arc_memory(echo_model(), engine), "before")
        with fault(url, "arc_messages"):
            with pytest.raises(StoreError):
                await run(way, with_arc_memory(echo_model(), engine), "hello")
            await run(way, with_arc_memory(echo_model(), engine, on_store_error="continue"), "hello")
        assert observer.counts[{"reading": "context.errors", "writing": "save.errors"}[failing_part]] >= 1


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
async def test_an_answer_that_can_not_be_stored_comes_back(
    tmp_path: Path, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, counted and returned under any policy."""
    lost: list[Any] = []
    observer, url = CountingObserver(), f"sqlite:///{tmp_path}/arc.db"
    with (
        ExitStack() as faults,
        open_engine(url, observer=observer, on_save_error=lambda error, messages: lost.append(messages)) as engine,
    ):

        def breaking(messages: Any) -> AIMessage:
            faults.enter_context(unwritable(url, "arc_messages"))
            return AIMessage("six")

        await run(way, with_arc_memory(RunnableLambda(breaking), engine), "2 x 3?")
        assert [message.text for message in lost[0]] == ["six"]
        assert observer.counts["save.errors"] == 1
        assert "was not saved" in caplog.text


def test_an_output_that_is_no_message_is_an_error(engine: ContextEngine) -> None:
    """LangChain's wrapper would log a line and forget the turn."""
    chain = with_arc_memory(RunnableLambda(lambda _: {"answer": 6, "why": "because"}), engine)
    with pytest.raises(InvalidInputError, match="output"):
        chain.invoke("2 x 3?", CONFIG)
    named = with_arc_memory(RunnableLambda(lambda _: {"answer": 6}), engine, output_messages_key="answer")
    with pytest.raises(InvalidInputError, match="output"):
        named.invoke("2 x 3?", CONFIG)


@pytest.mark.parametrize("value", [7, b"hello", {"a": "x", "b": "y"}, [7], None], ids=str)
def test_an_input_that_is_no_message_is_an_error(engine: ContextEngine, value: Any) -> None:
    """Nothing is stored."""
    with pytest.raises(InvalidInputError, match="input"):
        with_arc_memory(echo_model(), engine).invoke(value, CONFIG)
    assert not engine.session("s").exists()


@pytest.fixture
def remembering(engine: ContextEngine) -> ContextEngine:
    """Return an engine with a long, summarised conversation."""
    session = engine.session("s")
    for n in range(40):
        session.save_turn(f"My dog number {n} is called Rex{n} and weighs {n + 3} kg.", "Noted.")
    session.summarize()
    return engine


QUESTIONS: dict[str, Any] = {
    "a text": "what does Rex2 weigh?",
    "a message": HumanMessage("what does Rex2 weigh?"),
    "messages": [HumanMessage("hello"), AIMessage("hi"), HumanMessage("what does Rex2 weigh?")],
    "a dictionary": {"question": "what does Rex2 weigh?", "ability": "math"},
    "a dictionary with messages": {"messages": [HumanMessage("what does Rex2 weigh?")]},
}


async def test_memory_for_a_prompt(remembering: ContextEngine) -> None:
    """Any form of question gives one fenced text with facts and summary; nothing is stored."""
    for way in WAYS:
        for kind, question in QUESTIONS.items():
            seen: list[str] = []
            chain = ArcContext(remembering) | RunnableLambda(lambda text, seen=seen: seen.append(text) or "ok")
            await run(way, chain, question)
            assert seen[0].startswith("<arc:memory>"), (way, kind)
            assert "Rex2 and weighs 5 kg" in seen[0], (way, kind)
            assert "Facts:" in seen[0], (way, kind)
    assert len(said(remembering)) == 80


async def test_memory_as_a_variable(remembering: ContextEngine) -> None:
    """It fills a prompt's variable, next to the history of `with_arc_memory`."""
    seen: list[Any] = []
    prompt = ChatPromptTemplate.from_messages(
        [("system", "Known: {memory}"), MessagesPlaceholder("history"), ("human", "{question}")]
    )
    chain = with_arc_memory(
        RunnablePassthrough.assign(memory=ArcContext(remembering))
        | prompt
        | RunnableLambda(lambda value: seen.append(value.to_messages()) or "ok"),
        remembering,
        **KEYS,
        include_summary=False,
        max_turns=2,
    )
    await run("ainvoke", chain, {"question": "what does Rex2 weigh?"})
    system, *rest = seen[0]
    assert "Rex2 and weighs 5 kg" in system.text
    assert [message.type for message in rest] == ["human", "ai"] * 2 + ["human"]


async def test_memory_and_history_as_variables(remembering: ContextEngine) -> None:
    """The input's dictionary gets two more keys, also inside `with_arc_memory`, which has stored the question."""
    context = ArcContext(remembering, output="variables", budget=TokenBudget(2_000))
    variables = context.invoke({"question": "what does Rex2 weigh?", "ability": "math"}, CONFIG)
    assert set(variables) == {"question", "ability", "memory", "history"}
    assert [message.type for message in variables["history"][-2:]] == ["human", "ai"]
    assert not isinstance(variables["history"][0], SystemMessage)
    assert set(await context.ainvoke("what does Rex2 weigh?", CONFIG)) == {"input", "memory", "history"}
    stored = with_arc_memory(context | RunnableLambda(lambda value: value["history"][-1].text), remembering)
    assert stored.invoke({"question": "what does Rex2 weigh?"}, CONFIG) == "Noted."


def test_memory_of_a_new_session_is_empty(engine: ContextEngine) -> None:
    """The prompt's variable is then an empty string."""
    assert ArcContext(engine, session_id="new").invoke("hello?") == ""
    assert ArcContext(engine, session_id="new", output="variables").invoke("hello?") == {
        "input": "hello?",
        "memory": "",
        "history": [],
    }


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_memory_and_history_fit_the_budget(engine: ContextEngine, way: str) -> None:
    """Text that does not fit is omitted; a question that does not fit raises an error."""
    for n in range(10):
        engine.session("s").save_turn(f"question {n}", "answer")
    seen: list[Any] = []
    context = ArcContext(engine, output="variables", budget=TokenBudget(100, 0))
    await run(way, context | RunnableLambda(lambda value: seen.append(value["history"]) or "ok"), "well?")
    assert [message.text for message in seen[0][-2:]] == ["question 9", "answer"]
    assert len(seen[0]) < 20
    with pytest.raises(BudgetExceededError, match="88 available"):
        await run(way, context, "word " * 200)


def test_stored_instructions_lead_the_history(engine: ContextEngine) -> None:
    """They are not part of the memory's text."""
    engine.session("s").append([Message("system", "Be brief."), Message("user", "hi"), Message("assistant", "hello")])
    variables = ArcContext(engine, session_id="s", output="variables").invoke("well?")
    assert [message.text for message in variables["history"]] == ["Be brief.", "hi", "hello"]


@pytest.mark.parametrize("value", ["", "  ", [], [AIMessage("hi")], {"x": "a", "y": "b"}, 7], ids=str)
def test_no_question_is_an_error(engine: ContextEngine, value: Any) -> None:
    """The error states the expected value."""
    with pytest.raises(InvalidInputError, match="input"):
        ArcContext(engine, session_id="s").invoke(value)
