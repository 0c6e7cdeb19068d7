"""Each turn of a chain or agent is stored once, with LangChain's history wrapper and with arc's."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langchain.agents import create_agent
from langchain_core.caches import InMemoryCache
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import ConfigurableFieldSpec, Runnable, RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver

from arc_common import ContextEngine, Message
from arc_common.testing import CountingObserver
from langchain_arc import ArcChatMessageHistory, ArcContext, open_engine, with_arc_memory
from tests.support.databases import sqlite_url
from tests.support.langchain_agents import multiply
from tests.support.langchain_helpers import WAYS, ToolModel, echo_model, run, said, with_history


def langchains(chain: Any, engine: ContextEngine, *, max_turns: int | None = None, **keys: Any) -> Any:
    return with_history(chain, ArcChatMessageHistory.factory(engine, max_turns=max_turns), **keys)


def arcs(chain: Any, engine: ContextEngine, **options: Any) -> Any:
    return with_arc_memory(chain, engine, **options)


Wrap = Callable[..., Any]
wrappers = pytest.mark.parametrize("wrap", [langchains, arcs])

with_key = ChatPromptTemplate.from_messages(
    [("system", "Be brief."), MessagesPlaceholder("history"), ("human", "{question}")]
)
without_key = ChatPromptTemplate.from_messages([("system", "Be brief."), MessagesPlaceholder("question")])
KEYS = {"input_messages_key": "question", "history_messages_key": "history"}

SHAPES: dict[str, tuple[Any, dict[str, str], Any]] = {
    "history key, text": (lambda: with_key | echo_model(), KEYS, lambda text: {"question": text}),
    "history key, parsed to text": (
        lambda: with_key | echo_model() | StrOutputParser(),
        KEYS,
        lambda text: {"question": text},
    ),
    "dictionary of text": (
        lambda: without_key | echo_model(),
        {"input_messages_key": "question"},
        lambda text: {"question": text},
    ),
    "dictionary of messages": (
        lambda: without_key | echo_model(),
        {"input_messages_key": "question"},
        lambda text: {"question": [HumanMessage(text)]},
    ),
    "text": (echo_model, {}, lambda text: text),
    "message": (echo_model, {}, HumanMessage),
    "messages": (echo_model, {}, lambda text: [HumanMessage(text)]),
    "output key": (
        lambda: with_key | echo_model() | RunnableLambda(lambda answer: {"answer": answer, "sources": ["a", "b"]}),
        {**KEYS, "output_messages_key": "answer"},
        lambda text: {"question": text},
    ),
}


def turns(*texts: str) -> list[tuple[str, str]]:
    return [pair for text in texts for pair in (("user", text), ("assistant", f"echo of {text}"))]


@wrappers
@pytest.mark.parametrize("way", WAYS)
async def test_each_turn_is_stored_once(engine: ContextEngine, wrap: Wrap, way: str) -> None:
    """User message and answer are stored whole, for any input and any way of running."""
    for shape, (chain, keys, value) in SHAPES.items():
        wrapped = wrap(chain(), engine, **keys)
        for text in ("one", "one"):
            await run(way, wrapped, value(text), shape)
        assert said(engine, shape) == turns("one", "one"), shape
        stored = ArcChatMessageHistory(shape, engine=engine).messages
        assert [type(message) for message in stored] == [HumanMessage, AIMessage] * 2, shape
        assert len({message.id for message in stored}) == 4, shape


@wrappers
@pytest.mark.parametrize("shape", ["history key, text", "messages"])
def test_concurrent_threads_on_one_session(engine: ContextEngine, wrap: Wrap, shape: str) -> None:
    """Sixteen runs on eight threads store every question and answer once."""
    chain, keys, value = SHAPES[shape]
    wrapped = wrap(chain(), engine, **keys)
    texts = [f"question {n}" for n in range(16)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: wrapped.invoke(value(text), {"configurable": {"session_id": "s"}}), texts))
    stored = said(engine)
    assert sorted(stored) == sorted(turns(*texts))
    if wrap is langchains:  # it stores a whole turn at once
        assert stored == turns(*(text for role, text in stored if role == "user"))


SCRIPTS = {
    "list": lambda: FakeMessagesListChatModel(responses=[AIMessage("ok", id="same")]),
    "iterator": lambda: GenericFakeChatModel(messages=cycle([AIMessage("ok")])),
    "cache": lambda: GenericFakeChatModel(messages=iter([AIMessage("ok")]), cache=InMemoryCache()),
}


@wrappers
@pytest.mark.parametrize("script", SCRIPTS)
async def test_a_model_that_hands_out_one_message_again_and_again(
    engine: ContextEngine, wrap: Wrap, script: str
) -> None:
    """Cached and scripted answers have the id of their first use; each is stored as a new answer."""
    chain = ChatPromptTemplate.from_messages([("human", "{question}")]) | SCRIPTS[script]()
    wrapped = wrap(chain, engine, max_turns=2, **KEYS)
    ways = ("invoke", "ainvoke", "batch", "invoke")
    for way in ways:
        await run(way, wrapped, {"question": "well?"})
    assert said(engine) == [("user", "well?"), ("assistant", "ok")] * len(ways)


@wrappers
async def test_async_runs_never_block_the_event_loop(engine: ContextEngine, wrap: Wrap) -> None:
    """Creating, reading and writing a history does no I/O on the loop's thread, for chains and agents."""
    chain, keys, value = SHAPES["history key, text"]
    wrapped = wrap(chain(), engine, **keys)
    acting = wrap(agent(), engine, **AGENT_KEYS)
    await run("ainvoke", wrapped, value("zero"))
    await run("ainvoke", acting, {"messages": "one"}, "agent")  # LangGraph reads its own files in its first run
    with blockbuster_ctx():
        for way in ("ainvoke", "astream", "abatch"):
            await run(way, wrapped, value(way))
        await run("ainvoke", acting, {"messages": "two"}, "agent")
        await ArcContext(engine, session_id="s").ainvoke("And now?")
    assert said(engine) == turns("zero", "ainvoke", "astream", "abatch")
    assert said(engine, "agent") == steps("one", "two")


# --- agents: they hand the whole conversation back ------------------------------------------------------------------


def _script() -> Iterator[AIMessage]:
    for n in range(1, 100):
        yield AIMessage("", tool_calls=[{"name": "multiply", "args": {"a": n, "b": 2}, "id": f"c{n}"}])
        yield AIMessage(f"it is {2 * n}")


def agent(**options: Any) -> Any:
    return create_agent(ToolModel(messages=_script()), [multiply], **options)


def steps(*texts: str) -> list[tuple[str, str]]:
    return [
        pair
        for n, text in enumerate(texts, 1)
        for pair in (("user", text), ("assistant", ""), ("tool", f"{2 * n}"), ("assistant", f"it is {2 * n}"))
    ]


def _through_a_function() -> Runnable[Any, Any]:
    """Return an agent that creates its input message itself, so that the saved one never gets an id."""
    inner = agent()

    def call(value: Any) -> Any:
        return inner.invoke({"messages": [*value["history"], HumanMessage(value["question"])]})

    async def acall(value: Any) -> Any:
        return await inner.ainvoke({"messages": [*value["history"], HumanMessage(value["question"])]})

    return RunnableLambda(call, acall)


AGENT_KEYS = {"input_messages_key": "messages", "output_messages_key": "messages"}
AGENTS: dict[str, tuple[Any, dict[str, str], Any]] = {
    "text": (agent, AGENT_KEYS, lambda text: {"messages": text}),
    "messages": (agent, AGENT_KEYS, lambda text: {"messages": [HumanMessage(text)]}),
    "history key": (_through_a_function, {**KEYS, "output_messages_key": "messages"}, lambda text: {"question": text}),
}


@pytest.mark.parametrize(
    ("wrap", "way"),
    [*((langchains, way) for way in WAYS), *((arcs, way) for way in ("invoke", "abatch"))],
)
async def test_each_turn_of_an_agent_is_stored_once(engine: ContextEngine, wrap: Wrap, way: str) -> None:
    """Two of three turns ask the same; the agent sees the whole history or a window."""
    for place, (shape, (chain, keys, value)) in enumerate(AGENTS.items()):
        wrapped = wrap(chain(), engine, **({"max_turns": 1} if place else {}), **keys)
        texts = ("one", "two", "two")
        for text in texts:
            await run(way, wrapped, value(text), shape)
        assert said(engine, shape) == steps(*texts), shape


@wrappers
async def test_an_agent_that_remembers_by_itself(engine: ContextEngine, wrap: Wrap) -> None:
    """With a checkpointer, the agent returns messages beyond its window, which are already stored."""
    _, keys, value = AGENTS["messages"]
    wrapped = wrap(agent(checkpointer=InMemorySaver()), engine, max_turns=1, **keys)
    for text in ("one", "two", "three"):
        await run("ainvoke", wrapped, value(text), thread_id="t")
    assert said(engine) == steps("one", "two", "three")


# --- LangChain's wrapper, which stores a turn when it is over -------------------------------------------------------

ELSEWHERE = [("user", "from elsewhere"), ("assistant", "answered elsewhere")]


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "astream"])
async def test_another_writer_in_the_middle_of_a_run(engine: ContextEngine, way: str) -> None:
    """Messages written between a run's read and write neither move nor hide any."""

    def interrupted(shown: Any) -> Any:
        engine.session(session_id).append([Message(role, text) for role, text in ELSEWHERE])
        return shown

    for shape in ("history key, text", "dictionary of text", "messages"):
        session_id = shape
        chain, keys, value = SHAPES[shape]
        step = RunnableLambda(interrupted)
        wrapped = langchains(step | chain() if shape == "messages" else chain() | step, engine, **keys)
        for text in ("one", "two"):
            await run(way, wrapped, value(text), shape)
        assert said(engine, shape) == [*ELSEWHERE, *turns("one"), *ELSEWHERE, *turns("two")], shape
    session_id = "agent"
    chain, keys, value = AGENTS["messages"]
    wrapped = langchains(chain() | RunnableLambda(interrupted), engine, **keys)
    await run("invoke", wrapped, value("one"), session_id)
    await run("ainvoke", wrapped, value("two"), session_id)
    assert said(engine, "agent") == [*ELSEWHERE, *steps("one", "two")[:4], *ELSEWHERE, *steps("one", "two")[4:]]


async def test_a_history_cleared_in_the_middle_of_a_run(engine: ContextEngine) -> None:
    """A run that began before the clearing saves only its own turn."""

    def clearing(answer: Any) -> Any:
        engine.session("s").clear()
        return answer

    for chain, keys, value in (SHAPES["history key, text"], SHAPES["messages"], AGENTS["messages"]):
        inner = chain()
        engine.session("s").clear()
        await run("invoke", langchains(inner, engine, **keys), value("one"))
        await run("invoke", langchains(inner | RunnableLambda(clearing), engine, **keys), value("two"))
        assert said(engine) in (turns("two"), steps("one", "two")[4:])


@wrappers
async def test_several_messages_as_input(engine: ContextEngine, wrap: Wrap) -> None:
    """Messages sent together are stored together, once, also in the first turn."""
    chain, keys, _ = AGENTS["messages"]
    wrapped = wrap(chain(), engine, **keys)
    await run("invoke", wrapped, {"messages": [HumanMessage("hello"), AIMessage("hi"), HumanMessage("one")]})
    await run("invoke", wrapped, {"messages": [HumanMessage("two"), HumanMessage("and this")]})
    first, second = steps("one", "two")[:4], steps("one", "two")[4:]
    begun = [("user", "hello"), ("assistant", "hi")]
    assert said(engine) == [*begun, *first, ("user", "two"), ("user", "and this"), *second[1:]]


async def test_a_tool_loop_in_one_answer(engine: ContextEngine) -> None:
    """A call, its result and the final answer returned together are all stored and shown."""
    loop = [
        AIMessage("", tool_calls=[{"name": "look_up", "args": {"q": "x"}, "id": "c1"}]),
        ToolMessage("42", tool_call_id="c1"),
        AIMessage("It is 42."),
    ]
    wrapped = with_history(RunnableLambda(lambda _: loop), ArcChatMessageHistory.factory(engine, max_messages=5))
    for _ in range(2):
        await run("invoke", wrapped, "what is x?")
    assert [role for role, _ in said(engine)] == ["user", "assistant", "tool", "assistant"] * 2
    shown = ArcChatMessageHistory("s", engine=engine, max_messages=5).messages
    assert [message.type for message in shown] == ["human", "ai", "tool", "ai"]


async def test_a_run_for_each_user(engine: ContextEngine) -> None:
    """With two configured keys the factory gets named arguments; a factory of one user and caller writes as them."""
    chain, keys, value = SHAPES["history key, text"]
    specs = [ConfigurableFieldSpec(id=name, annotation=str) for name in ("user_id", "session_id")]
    wrapped = langchains(chain(), engine, history_factory_config=specs, **keys)
    await run("ainvoke", wrapped, value("mine"), "a", user_id="ann")
    assert engine.session("a", user_id="ann").exists()
    with pytest.raises(LookupError):
        await run("ainvoke", wrapped, value("also mine?"), "a", user_id="bob")
    factory = ArcChatMessageHistory.factory(engine, user_id="ann", caller_id="shop", account_id="acme")
    await run("invoke", with_history(chain(), factory, **keys), value("hello"))
    (conversation,) = engine.admin.sessions("shop").conversations
    assert (conversation.key.user_id, conversation.key.account_id) == ("ann", "acme")


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_a_failed_write_is_reported_and_the_reply_stands(tmp_path: Any, way: str) -> None:
    """LangChain swallows the error; the engine's counter and handler get it."""
    observer, failures = CountingObserver(), []
    engine = open_engine(
        sqlite_url(tmp_path), observer=observer, on_save_error=lambda error, turn: failures.append(turn)
    )
    with engine:

        def closing(answer: Any) -> Any:
            engine.close()
            return answer

        await run(way, langchains(echo_model() | RunnableLambda(closing), engine), "hello")
    assert observer.counts["save.errors"] == 1
    assert [[message.text for message in turn] for turn in failures] == [["hello", "echo of hello"]]
