"""`ArcChatMessageHistory` under LangChain's `RunnableWithMessageHistory`: nothing lost, nothing stored twice."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.caches import InMemoryCache
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import ConfigurableFieldSpec, RunnableLambda

from arc_common import ContextEngine, Message
from arc_common.testing import CountingObserver
from langchain_arc import ArcChatMessageHistory, ArcChatModel, open_engine
from tests.support.databases import sqlite_url
from tests.support.langchain_helpers import WAYS, Echo, echo_model, run, said, with_history

with_key = ChatPromptTemplate.from_messages(
    [("system", "Be brief."), MessagesPlaceholder("history"), ("human", "{question}")]
)
without_key = ChatPromptTemplate.from_messages([("system", "Be brief."), MessagesPlaceholder("question")])

SHAPES: dict[str, tuple[Any, dict[str, str], Any]] = {
    "history key, text": (
        lambda: with_key | echo_model(),
        {"input_messages_key": "question", "history_messages_key": "history"},
        lambda text: {"question": text},
    ),
    "history key, parsed to text": (
        lambda: with_key | echo_model() | StrOutputParser(),
        {"input_messages_key": "question", "history_messages_key": "history"},
        lambda text: {"question": text},
    ),
    "no history key, dictionary of text": (
        lambda: without_key | echo_model(),
        {"input_messages_key": "question"},
        lambda text: {"question": text},
    ),
    "no history key, dictionary of a message": (
        lambda: without_key | echo_model(),
        {"input_messages_key": "question"},
        lambda text: {"question": HumanMessage(text)},
    ),
    "no history key, dictionary of messages": (
        lambda: without_key | echo_model(),
        {"input_messages_key": "question"},
        lambda text: {"question": [HumanMessage(text)]},
    ),
    "text": (echo_model, {}, lambda text: text),
    "message": (echo_model, {}, HumanMessage),
    "messages": (echo_model, {}, lambda text: [HumanMessage(text)]),
    "output key": (
        lambda: with_key | echo_model() | RunnableLambda(lambda answer: {"answer": answer, "sources": ["a", "b"]}),
        {"input_messages_key": "question", "history_messages_key": "history", "output_messages_key": "answer"},
        lambda text: {"question": text},
    ),
}


def turns(*texts: str) -> list[tuple[str, str]]:
    return [pair for text in texts for pair in (("user", text), ("assistant", f"echo of {text}"))]


@pytest.mark.parametrize("way", WAYS)
async def test_each_turn_is_stored_once(engine: ContextEngine, way: str) -> None:
    """Whatever goes in and however the chain runs: the user's message and the answer, once, as whole messages."""
    for shape, (chain, keys, value) in SHAPES.items():
        wrapped = with_history(chain(), ArcChatMessageHistory.factory(engine), **keys)
        for text in ("one", "two", "one"):
            await run(way, wrapped, value(text), shape)
        assert said(engine, shape) == turns("one", "two", "one"), shape
        stored = ArcChatMessageHistory(shape, engine=engine).messages
        assert [type(message) for message in stored] == [HumanMessage, AIMessage] * 3, shape
        assert len({message.id for message in stored}) == 6, shape


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", ["history key, text", "no history key, dictionary of text", "messages"])
async def test_another_writer_in_the_middle_of_a_run(engine: ContextEngine, shape: str, way: str) -> None:
    """What others write between a run's read and its write moves nothing and hides nothing."""
    chain, keys, value = SHAPES[shape]

    def interrupted(shown: Any) -> Any:
        engine.session("s").append([Message("user", "from elsewhere"), Message("assistant", "answered elsewhere")])
        return shown

    prompt_or_model = chain()
    interrupting = RunnableLambda(interrupted)
    wrapped = with_history(
        prompt_or_model | interrupting if shape != "messages" else interrupting | prompt_or_model,
        ArcChatMessageHistory.factory(engine),
        **keys,
    )
    elsewhere = [("user", "from elsewhere"), ("assistant", "answered elsewhere")]
    for text in ("one", "two", "three"):
        await run(way, wrapped, value(text))
    assert said(engine) == [*elsewhere, *turns("one"), *elsewhere, *turns("two"), *elsewhere, *turns("three")]


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
@pytest.mark.parametrize("shape", ["history key, text", "messages"])
async def test_a_history_cleared_in_the_middle_of_a_run(engine: ContextEngine, shape: str, way: str) -> None:
    """A run that began before the conversation was cleared saves its own turn, and brings nothing back."""
    chain, keys, value = SHAPES[shape]
    factory = ArcChatMessageHistory.factory(engine)
    await run(way, with_history(chain(), factory, **keys), value("one"))

    def clearing(answer: Any) -> Any:
        engine.session("s").clear()
        return answer

    await run(way, with_history(chain() | RunnableLambda(clearing), factory, **keys), value("two"))
    assert said(engine) == turns("two")


@pytest.mark.parametrize("shape", ["history key, text", "no history key, dictionary of text", "text"])
async def test_the_model_is_shown_what_was_said(engine: ContextEngine, shape: str) -> None:
    """The conversation so far stands before the question."""
    echo = Echo()
    chain, keys, value = SHAPES[shape]
    model = ArcChatModel(chat_model=echo)
    chain = {"history key, text": with_key | model, "text": model}.get(shape, without_key | model)
    wrapped = with_history(chain, ArcChatMessageHistory.factory(engine), **keys)
    for text in ("one", "two"):
        await run("invoke", wrapped, value(text))
    assert [text for text in echo.shown[1] if text != "Be brief."] == ["one", "echo of one", "two"]


@pytest.mark.parametrize("shape", ["history key, text", "no history key, dictionary of text", "messages"])
def test_concurrent_threads_on_one_session(engine: ContextEngine, shape: str) -> None:
    """Forty runs on eight threads: every turn is there once, and in one piece."""
    chain, keys, value = SHAPES[shape]
    wrapped = with_history(chain(), ArcChatMessageHistory.factory(engine), **keys)
    texts = [f"question {n}" for n in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: wrapped.invoke(value(text), {"configurable": {"session_id": "s"}}), texts))
    stored = said(engine)
    assert sorted(stored) == sorted(turns(*texts))
    assert stored == turns(*(text for role, text in stored if role == "user"))


@pytest.mark.parametrize("way", ["ainvoke", "astream", "abatch"])
async def test_concurrent_tasks_on_one_session(engine: ContextEngine, way: str) -> None:
    """Forty runs at once on one loop: every turn is there once, and in one piece."""
    chain, keys, value = SHAPES["no history key, dictionary of text"]
    wrapped = with_history(chain(), ArcChatMessageHistory.factory(engine), **keys)
    texts = [f"question {n}" for n in range(40)]
    if way == "abatch":
        await wrapped.abatch([value(text) for text in texts], {"configurable": {"session_id": "s"}})
    else:
        await asyncio.gather(*(run(way, wrapped, value(text)) for text in texts))
    stored = said(engine)
    assert sorted(stored) == sorted(turns(*texts))
    assert stored == turns(*(text for role, text in stored if role == "user"))


def test_a_batch_over_several_sessions(engine: ContextEngine) -> None:
    """Each input of a batch goes to the session that its own configuration names."""
    chain, keys, value = SHAPES["history key, text"]
    wrapped = with_history(chain(), ArcChatMessageHistory.factory(engine), **keys)
    names = [f"s{n}" for n in range(12)]
    wrapped.batch([value(name) for name in names], [{"configurable": {"session_id": name}} for name in names])
    assert [said(engine, name) for name in names] == [turns(name) for name in names]


@pytest.mark.parametrize("shape", ["history key, text", "messages"])
async def test_async_runs_never_block_the_event_loop(engine: ContextEngine, shape: str) -> None:
    """Making the history, reading and writing it do no I/O on the loop's thread."""
    chain, keys, value = SHAPES[shape]
    wrapped = with_history(chain(), ArcChatMessageHistory.factory(engine), **keys)
    with blockbuster_ctx():
        await run("ainvoke", wrapped, value("one"))
        await run("astream", wrapped, value("two"))
    assert said(engine) == turns("one", "two")


SCRIPTS = {
    "list": lambda: FakeMessagesListChatModel(responses=[AIMessage("ok")]),
    "iterator": lambda: GenericFakeChatModel(messages=cycle([AIMessage("ok")])),
    "cache": lambda: GenericFakeChatModel(messages=iter([AIMessage("ok")]), cache=InMemoryCache()),
}


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("way", ["invoke", "ainvoke", "batch"])
async def test_a_model_that_hands_out_one_message_again_and_again(engine: ContextEngine, script: str, way: str) -> None:
    """Cached and scripted answers carry the id of their first use; each is stored as the new answer that it is."""
    chain = ChatPromptTemplate.from_messages([("human", "{question}")]) | SCRIPTS[script]()
    factory = ArcChatMessageHistory.factory(engine, max_turns=2)
    wrapped = with_history(chain, factory, input_messages_key="question", history_messages_key="history")
    for _ in range(5):
        await run(way, wrapped, {"question": "well?"})
    assert said(engine) == [("user", "well?"), ("assistant", "ok")] * 5


def test_one_message_handed_to_concurrent_runs(engine: ContextEngine) -> None:
    """Also runs that save the same answer object at the same moment store one answer each."""
    chain = FakeMessagesListChatModel(responses=[AIMessage("ok", id="same")])
    wrapped = with_history(chain, ArcChatMessageHistory.factory(engine))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: wrapped.invoke(f"{n}", {"configurable": {"session_id": "s"}}), range(40)))
    stored = said(engine)
    assert stored.count(("assistant", "ok")) == 40
    assert len(stored) == 80


async def test_a_tool_loop_in_one_answer(engine: ContextEngine) -> None:
    """A chain that answers with a call, its result and the last word has all of them stored, and shown together."""
    loop = [
        AIMessage("", tool_calls=[{"name": "look_up", "args": {"q": "x"}, "id": "c1"}]),
        ToolMessage("42", tool_call_id="c1"),
        AIMessage("It is 42."),
    ]
    wrapped = with_history(RunnableLambda(lambda _: loop), ArcChatMessageHistory.factory(engine, max_messages=5))
    for _ in range(2):
        await run("invoke", wrapped, "what is x?")
    assert [role for role, _ in said(engine)] == ["user", "assistant", "tool", "assistant"] * 2
    assert [message.type for message in ArcChatMessageHistory("s", engine=engine, max_messages=5).messages] == [
        "human",
        "ai",
        "tool",
        "ai",
    ]


async def test_the_window_does_not_move_what_is_saved(engine: ContextEngine) -> None:
    """Without a history key the input is cut by the view's length: also when the view is a window of the whole."""
    chain, keys, value = SHAPES["messages"]
    wrapped = with_history(chain(), ArcChatMessageHistory.factory(engine, max_turns=1), **keys)
    texts = [f"question {n}" for n in range(6)]
    for text in texts:
        await run("ainvoke", wrapped, value(text))
    assert said(engine) == turns(*texts)


async def test_a_run_for_each_user(engine: ContextEngine) -> None:
    """With two configured keys the factory is called by name, and each user's sessions are the user's own."""
    chain, keys, value = SHAPES["history key, text"]
    specs = [ConfigurableFieldSpec(id=name, annotation=str) for name in ("user_id", "session_id")]
    factory = ArcChatMessageHistory.factory(engine)
    wrapped = with_history(chain(), factory, history_factory_config=specs, **keys)
    await run("ainvoke", wrapped, value("mine"), "a", user_id="ann")
    assert engine.session("a", user_id="ann").exists()
    assert not engine.session("a", user_id="bob").exists()
    with pytest.raises(LookupError):
        await run("ainvoke", wrapped, value("also mine?"), "a", user_id="bob")


async def test_a_user_fixed_for_all_runs(engine: ContextEngine) -> None:
    """A factory made for one user and caller writes as them."""
    chain, keys, value = SHAPES["history key, text"]
    factory = ArcChatMessageHistory.factory(engine, user_id="ann", caller_id="shop", account_id="acme")
    await run("invoke", with_history(chain(), factory, **keys), value("hello"))
    (conversation,) = engine.admin.sessions("shop").conversations
    assert (conversation.key.user_id, conversation.key.account_id) == ("ann", "acme")


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_a_failed_write_is_reported_and_the_reply_stands(tmp_path: Any, way: str) -> None:
    """LangChain swallows the error of a failed write: the engine's counter and handler hear of it all the same."""
    observer, failures = CountingObserver(), []
    engine = open_engine(
        sqlite_url(tmp_path), observer=observer, on_save_error=lambda error, turn: failures.append(turn)
    )
    with engine:

        def closing(answer: Any) -> Any:
            engine.close()
            return answer

        wrapped = with_history(echo_model() | RunnableLambda(closing), ArcChatMessageHistory.factory(engine))
        await run(way, wrapped, "hello")
    assert observer.counts["save.errors"] == 1
    assert [[message.text for message in turn] for turn in failures] == [["hello", "echo of hello"]]


async def test_a_failed_model_saves_nothing(engine: ContextEngine) -> None:
    """A run that raises leaves no half turn behind."""

    def failing(_: Any) -> Any:
        raise RuntimeError("no answer")

    wrapped = with_history(RunnableLambda(failing), ArcChatMessageHistory.factory(engine))
    with pytest.raises(RuntimeError, match="no answer"):
        await run("ainvoke", wrapped, "hello")
    assert not engine.session("s").exists()


async def test_a_system_message_in_the_input_is_stored_as_one(engine: ContextEngine) -> None:
    """What a caller sends is stored as sent."""
    wrapped = with_history(echo_model(), ArcChatMessageHistory.factory(engine))
    await run("invoke", wrapped, [SystemMessage("Be kind."), HumanMessage("hello")])
    assert said(engine) == [("system", "Be kind."), *turns("hello")]
