"""`ArcChatMemoryBuffer` as code that is typed to `ChatMemoryBuffer` uses it."""

import asyncio
import copy
import inspect
import json
import logging
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock
from llama_index.core.llms import MockLLM
from llama_index.core.memory import BaseMemory, ChatMemoryBuffer
from llama_index.core.storage.chat_store import SimpleChatStore
from sqlalchemy import create_engine, event

from arc_common.engine import ContextEngine
from arc_common.exceptions import BudgetExceededError, InvalidInputError, SessionNotFoundError, StoreUnavailableError
from arc_common.messages import exchanges_of
from arc_common.protocols import StoredMessage
from arc_common.stores.in_memory import InMemoryStore
from arc_common.tokens.counting import message_tokens
from llamaindex_arc import ArcChatMemoryBuffer, ArcChatStore, open_engine, to_arc
from tests.counters import Ones
from tests.llamaindex_arc import strategies
from tests.llamaindex_arc.helpers import (
    NO_SUMMARIES,
    assistant,
    break_writes,
    calling,
    mend_writes,
    own_statements,
    result,
    said,
    system,
    turns,
    user,
)


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    """Without summaries: `test_layers` is about those."""
    with open_engine(token_counter=Ones(), settings=NO_SUMMARIES) as opened:
        yield opened


def memory_over(engine: ContextEngine, session_id: str = "s", **given: Any) -> ArcChatMemoryBuffer:
    return ArcChatMemoryBuffer.from_defaults(engine=engine, session_id=session_id, **given)


class Both:
    """A memory through its blocking methods or through its async ones, under the blocking ones' names."""

    def __init__(self, memory: ArcChatMemoryBuffer, *, through_async: bool) -> None:
        self._memory = memory
        self._through_async = through_async

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not self._through_async:
            return getattr(self._memory, name)  # type: ignore[no-any-return]  # a method, whichever
        twin = getattr(self._memory, f"a{name}")
        return lambda *args, **kwargs: asyncio.run(twin(*args, **kwargs))


forms = pytest.mark.parametrize("through_async", [False, True], ids=["sync", "async"])


# --- get ------------------------------------------------------------------------------------------------------------


@forms
@pytest.mark.parametrize(
    ("limit", "taken", "expected"),
    [
        pytest.param(100, 0, ["q0", "a0", "q1", "a1", "q2", "a2"], id="everything fits"),
        pytest.param(29, 0, ["q1", "a1", "q2", "a2"], id="whole turns"),
        pytest.param(30, 0, ["q0", "a0", "q1", "a1", "q2", "a2"], id="to the last token"),
        pytest.param(30, 1, ["q1", "a1", "q2", "a2"], id="less what is taken already"),
        pytest.param(30, 31, ["q2", "a2"], id="more is taken than there is"),
        pytest.param(5, 0, ["q2"], id="the newest question alone"),
    ],
)
def test_get_keeps_the_newest_whole_turns(
    engine: ContextEngine, through_async: bool, limit: int, taken: int, expected: list[str]
) -> None:
    """Within what is left of the limit, turns leave whole and oldest first; the newest question never does."""
    memory = memory_over(engine, token_limit=limit)
    memory.put_messages(turns(3))
    assert said(Both(memory, through_async=through_async).get(initial_token_count=taken)) == expected


def test_get_takes_what_chat_engines_give_it(engine: ContextEngine) -> None:
    """The question and further arguments may be there."""
    memory = memory_over(engine)
    memory.put(user("hello"))
    assert said(memory.get("hello")) == said(memory.get(input="hello", anything="else")) == ["hello"]


def test_a_question_too_long_is_refused(engine: ContextEngine) -> None:
    """A question that is over the limit by itself: the error names both figures, before any model is called."""
    memory = memory_over(engine, token_limit=1)
    memory.put_messages([*turns(2), user("a long question")])
    with pytest.raises(BudgetExceededError, match="user message: 5 tokens needed, 1 available"):
        memory.get()


def test_a_greeting_is_shown_until_the_user_speaks(engine: ContextEngine) -> None:
    """Then `get` is what a model is sent: Anthropic and Gemini refuse what the assistant begins. `get_all` has it."""
    memory = memory_over(engine, token_limit=15)
    memory.put(assistant("Welcome!"))
    assert said(memory.get()) == ["Welcome!"]
    memory.put_messages([user("q"), assistant("a")])
    assert said(memory.get()) == ["q", "a"]
    assert said(memory.get_all()) == ["Welcome!", "q", "a"]


def test_tool_results_never_stand_without_their_calls(engine: ContextEngine) -> None:
    """A call and its results are shown together or not at all, also when the call waits or the result came late."""
    memory = memory_over(engine, token_limit=1_000)
    call = calling("1", "2")
    memory.put_messages([user("q"), call, result("1"), user("and?"), result("2"), calling("3"), result("9"), user("!")])
    assert memory.get() == [user("q"), call, result("1"), result("2"), user("and?"), user("!")]


def test_tool_calls_cost_tokens(engine: ContextEngine) -> None:
    """A call without words is not free, and content `None` is not the word "None"."""
    memory = memory_over(engine, token_limit=22)
    memory.put_messages([*turns(1), user("q"), calling("1"), result("1")])
    # the newest turn: 5 for the question, 4 + 3 + 3 texts for the call, 4 + 2 texts for its result
    assert len(memory.get()) == 3
    assert len(memory.get(initial_token_count=1)) == 3
    assert len(memory_over(engine, token_limit=31).get()) == 5
    assert len(memory_over(engine, token_limit=30).get()) == 3


def spoken(messages: list[ChatMessage]) -> list[ChatMessage]:
    """Those that say or do something."""
    return [
        message
        for message in messages
        if message.role is MessageRole.TOOL
        or (message.blocks != [] and (message.content != "" or len(message.blocks) > 1))
    ]


@given(
    conversation=st.lists(
        st.one_of(
            st.builds(user, st.sampled_from(["q", "", None])),
            st.builds(assistant, st.sampled_from(["a", "", None])),
            st.builds(lambda ids: calling(*ids), st.lists(st.sampled_from("123"), min_size=1, max_size=3, unique=True)),
            st.builds(result, st.sampled_from("1234")),
            st.builds(system, st.just("be kind")),
        ),
        max_size=40,
    ),
    limit=st.integers(1, 200),
    taken=st.integers(0, 200),
)
@settings(max_examples=150, deadline=None)
def test_get_never_gives_a_broken_request(conversation: list[ChatMessage], limit: int, taken: int) -> None:
    """Whatever is stored: results stand behind their calls, the first message is the user's, and the limit holds.

    Empty messages are not shown: providers refuse them. Where too much is taken already, only the newest question and
    last exchange may cost more than what is left.
    """
    with open_engine(token_counter=Ones()) as engine:
        memory = memory_over(engine, token_limit=limit)
        memory.put_messages(conversation)
        whole = memory.get_all()
        try:
            got = memory.get(initial_token_count=taken)
        except BudgetExceededError as error:
            leading = list(takewhile(lambda message: message.role is MessageRole.SYSTEM, spoken(whole)))
            assert error.available == limit < error.needed == 5 * (1 + len(leading))
            return
        cost = sum(message_tokens(Ones(), to_arc(message)) for message in got)
    exchanges, orphans = exchanges_of(list(map(to_arc, got)))
    assert not orphans
    assert all(exchange.complete for exchange in exchanges)
    shown = [message for message in got if message.role is not MessageRole.SYSTEM]
    questions = [message for message in shown if message.role is MessageRole.USER]
    asked = [message for message in whole if message.role is MessageRole.USER and message.content]
    assert not shown or shown[0].role is MessageRole.USER or questions == asked
    assert questions == asked[len(asked) - len(questions) :]
    assert bool(questions) == bool(asked)
    assert cost <= limit or not shown
    assert cost <= max(limit - taken, 0) or len(questions) == 1 or not shown


def test_what_get_returns_is_the_callers_own(engine: ContextEngine) -> None:
    """Agents write into the messages that they were given; the next `get` doesn't show it."""
    memory = memory_over(engine)
    memory.put_messages([user("q"), calling("1", text="let me see"), result("1")])
    for read in (memory.get, memory.get_all):
        for message in read():
            message.blocks.append(TextBlock(text="scribble"))
            message.blocks[0].__dict__["tool_kwargs"] = {"q": "scribble"}
            message.additional_kwargs["scribble"] = True
    assert "scribble" not in repr([*memory.get(), *memory.get_all()])


def test_what_was_put_can_be_changed_afterwards(engine: ContextEngine) -> None:
    """A message that its owner goes on writing to is stored as it was when it was put."""
    memory = memory_over(engine)
    message = user("as it was")
    memory.put(message)
    message.blocks[0].text = "as it is"  # type: ignore[union-attr]  # a text block
    assert said(memory.get()) == ["as it was"]


@pytest.mark.parametrize("own", [False, True], ids=["engine's counter", "tokenizer_fn"])
@pytest.mark.parametrize("length", [50, 5_000])
def test_get_costs_the_same_for_any_length(tmp_path: Path, length: int, own: bool) -> None:
    """At 5,000 messages `get` runs the same statements, reads the same rows and counts as little as at 50.

    With summaries: see `test_layers`.
    """
    counter = Ones()
    tokenized: list[str] = []

    def tokenizer(text: str) -> list[int]:
        tokenized.append(text)
        return [1]

    statements: list[str] = []
    database = create_engine(f"sqlite:///{tmp_path / 'c.db'}")
    note = own_statements(statements)
    event.listen(database, "connect", lambda connection, _: connection.set_trace_callback(note))
    with open_engine(database, token_counter=counter, settings=NO_SUMMARIES) as engine:
        memory = memory_over(engine, token_limit=100, tokenizer_fn=tokenizer if own else None)
        memory.put_messages(turns(length // 2))
        counter.counted = 0
        statements.clear()
        assert len(memory.get()) == 20
        assert counter.counted == 0
        assert len(statements) == 3
        assert len(tokenized) == (32 if own else 0)
        assert len(memory.get()) == 20
        assert len(tokenized) == (32 if own else 0)
    database.dispose()


def test_the_users_tokenizer_decides_alone(engine: ContextEngine) -> None:
    """With a tokenizer of one's own, its counts and no others hold; without one the engine's counter serves as one."""
    memory = memory_over(engine, token_limit=100, tokenizer_fn=str.split)
    memory.put_messages([user("one " * 50), *turns(1), user("two " * 46)])
    first, *others = memory.get()
    assert (first.content or "").endswith("... [truncated]")
    assert len(others) == 3
    assert len(memory.get(initial_token_count=41)) == 1
    assert len(memory_over(engine, token_limit=20).get()) == 4
    assert len(memory_over(engine).tokenizer_fn("any text")) == 1


# --- put, set, reset ------------------------------------------------------------------------------------------------


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("put"), strategies.messages),
            st.tuples(st.just("put_messages"), st.lists(strategies.messages, max_size=3)),
            st.tuples(st.just("set"), st.tuples(st.integers(0, 6), st.lists(strategies.messages, max_size=3))),
            st.tuples(st.just("reset"), st.none()),
        ),
        max_size=6,
    ),
    through_async=st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_holds_what_a_plain_list_would_hold(steps: list[tuple[str, Any]], through_async: bool) -> None:
    """After any sequence of writes, the conversation is the list that upstream's memory would hold."""
    expected: list[ChatMessage] = []
    with open_engine(token_counter=Ones()) as engine:
        memory = Both(memory_over(engine), through_async=through_async)
        for step, value in steps:
            if step == "put":
                memory.put(value)
                expected = [*expected, value]
            elif step == "put_messages":
                memory.put_messages(value)
                expected = [*expected, *value]
            elif step == "set":
                kept, more = value
                expected = [*expected[:kept], *more]
                memory.set(expected)
            else:
                memory.reset()
                expected = []
            assert memory.get_all() == expected


@forms
def test_set_keeps_what_is_there_already(engine: ContextEngine, through_async: bool) -> None:
    """Messages at the start that stay the same keep their ids and times; only the rest is replaced."""
    memory = memory_over(engine)
    memory.put_messages(turns(2))
    before = memory.session.messages()
    Both(memory, through_async=through_async).set([*turns(1), user("instead")])
    after = memory.session.messages()
    assert after[:2] == before[:2]
    assert [message.text for message in after] == ["q0", "a0", "instead"]


def test_set_that_is_cut_short_loses_nothing(tmp_path: Path) -> None:
    """When the store fails halfway through `set`, everything old is still there."""
    database = tmp_path / "c.db"
    with open_engine(f"sqlite:///{database}") as engine:
        memory = memory_over(engine)
        memory.put_messages(turns(2))
        break_writes(database)
        with pytest.raises(StoreUnavailableError, match="disk full") if False else pytest.raises(Exception):  # noqa: PT011
            memory.set([user("instead")])
        assert memory.get_all() == turns(2)


def test_put_messages_is_one_append(tmp_path: Path) -> None:
    """A scratchpad is stored in one transaction."""
    statements: list[str] = []
    database = create_engine(f"sqlite:///{tmp_path / 'c.db'}")
    note = own_statements(statements)
    event.listen(database, "connect", lambda connection, _: connection.set_trace_callback(note))
    with open_engine(database, settings=NO_SUMMARIES) as engine:
        memory = memory_over(engine)
        memory.put(user("q"))
        statements.clear()
        memory.put_messages(turns(5))
        assert [text for text in statements if text.startswith(("BEGIN", "COMMIT"))] == ["BEGIN IMMEDIATE", "COMMIT"]
    database.dispose()


@forms
def test_two_memories_on_one_session_lose_nothing(tmp_path: Path, through_async: bool) -> None:
    """Whoever puts at the same time as others, everything is there once, and each writer's messages in order."""
    with open_engine(f"sqlite:///{tmp_path / 'c.db'}") as engine:
        memories = [Both(memory_over(engine), through_async=through_async) for _ in range(4)]

        def write(number: int) -> None:
            for n in range(20):
                memories[number].put(user(f"{number}-{n}"))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(4)))
        got = said(memories[0].get_all())
        for number in range(4):
            assert [text for text in got if text and text[0] == str(number)] == [f"{number}-{n}" for n in range(20)]
        assert len(got) == 80


# --- failure --------------------------------------------------------------------------------------------------------


@forms
def test_a_put_that_fails_does_not_break_the_reply(
    tmp_path: Path, through_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The message is reported, shown to the model nevertheless, and stored once by the next put that succeeds."""
    database = tmp_path / "c.db"
    reported: list[tuple[Exception, list[str]]] = []
    with open_engine(
        f"sqlite:///{database}",
        on_save_error=lambda error, messages: reported.append((error, [message.text for message in messages])),
    ) as engine:
        memory = Both(memory_over(engine), through_async=through_async)
        memory.put_messages(turns(1))
        break_writes(database)
        with caplog.at_level(logging.CRITICAL):
            memory.put(user("q1"))
            memory.put(assistant("a1"))
        assert [texts for _, texts in reported] == [["q1"], ["q1", "a1"]]
        assert said(memory.get()) == said(memory.get_all()) == ["q0", "a0", "q1", "a1"]
        assert memory_over(engine).get_all() == turns(1)
        mend_writes(database)
        memory.put(user("q2"))
        assert said(memory_over(engine).get_all()) == ["q0", "a0", "q1", "a1", "q2"]
        memory.put(assistant("a2"))
        assert said(memory_over(engine).get_all()) == ["q0", "a0", "q1", "a1", "q2", "a2"]


class UnsureStore(InMemoryStore):
    """Stores, and then says that it could not: what a connection that breaks during a commit looks like."""

    unsure = False

    def append(self, *args: Any, **kwargs: Any) -> list[StoredMessage]:
        stored = super().append(*args, **kwargs)
        if self.unsure:
            raise StoreUnavailableError("the connection broke")
        return stored


@forms
def test_a_message_that_was_stored_after_all_is_not_stored_twice(engine: ContextEngine, through_async: bool) -> None:
    """When nobody knows whether a put went through, trying again does no harm."""
    store = UnsureStore()
    engine._runtime.conversations = store
    memory = Both(memory_over(engine), through_async=through_async)
    store.unsure = True
    memory.put(user("q"))
    store.unsure = False
    memory.put(assistant("a"))
    assert said(memory.get_all()) == ["q", "a"]


@forms
def test_instructions_at_the_start_are_never_forgotten(engine: ContextEngine, through_async: bool) -> None:
    """A system message that opens the conversation is shown at any length, and paid for."""
    memory = memory_over(engine, token_limit=20)
    memory.put_messages([system("Be kind."), *turns(300)])
    assert said(Both(memory, through_async=through_async).get()) == ["Be kind.", "q299", "a299"]


@pytest.mark.parametrize("forget", ["reset", "set"])
def test_what_could_not_be_stored_is_forgotten_with_the_rest(tmp_path: Path, forget: str) -> None:
    """`reset` and `set` also take away what waits to be stored."""
    database = tmp_path / "c.db"
    with open_engine(f"sqlite:///{database}") as engine:
        memory = memory_over(engine)
        memory.put(user("q0"))
        break_writes(database)
        memory.put(user("lost"))
        mend_writes(database)
        memory.reset() if forget == "reset" else memory.set([user("q0")])
        memory.put(user("next"))
        assert said(memory.get_all()) == (["next"] if forget == "reset" else ["q0", "next"])


def test_reads_raise_when_the_store_can_not_be_read(tmp_path: Path) -> None:
    """A conversation that can't be read is not taken for an empty one."""
    (tmp_path / "c.db").write_text("this is no database, and long enough to be seen as none " * 50)
    with open_engine(f"sqlite:///{tmp_path / 'c.db'}") as engine:
        memory = memory_over(engine)
        for read in (memory.get, memory.get_all, memory.to_dict):
            with pytest.raises(StoreUnavailableError):
                read()


@forms
def test_wrong_use_raises(engine: ContextEngine, through_async: bool) -> None:
    """What is no message is refused by `put` too, and so is somebody else's session."""
    memory = Both(memory_over(engine, user_id="ann"), through_async=through_async)
    with pytest.raises(InvalidInputError, match="message"):
        memory.put("text")
    with pytest.raises(InvalidInputError, match="initial_token_count"):
        memory.get(initial_token_count=-1)
    memory.put(user("private"))
    stranger = Both(memory_over(engine, user_id="bob"), through_async=through_async)
    for call, arguments in ((stranger.get, ()), (stranger.get_all, ()), (stranger.put, (user("hi"),))):
        with pytest.raises(SessionNotFoundError):
            call(*arguments)


# --- making, copying, serialising -----------------------------------------------------------------------------------


def test_is_the_class_that_user_code_is_typed_to() -> None:
    """It is a `ChatMemoryBuffer` by class and by name, never falsy, and has nothing left of upstream's reading."""
    assert ChatMemoryBuffer.class_name() in [cls.__name__ for cls in ArcChatMemoryBuffer.__mro__]
    assert ArcChatMemoryBuffer.class_name() == "ArcChatMemoryBuffer"
    assert bool(ArcChatMemoryBuffer.from_defaults())
    inherited = {
        name
        for name, _ in inspect.getmembers(BaseMemory, inspect.isfunction)
        if not name.startswith("_") and name in vars(BaseMemory) and name not in vars(ArcChatMemoryBuffer)
    }
    assert inherited == set()


def test_from_defaults_takes_upstreams_arguments_in_upstreams_order() -> None:
    """Code that calls upstream's `from_defaults` by position goes on working."""
    upstream = list(inspect.signature(ChatMemoryBuffer.from_defaults).parameters)
    ours = list(inspect.signature(ArcChatMemoryBuffer.from_defaults).parameters)
    assert ours[: len(upstream) - 1] == upstream[:-1]
    store = ArcChatStore()
    memory = ArcChatMemoryBuffer.from_defaults(turns(1), MockLLM(), store, "key", None, str.split)
    assert memory.token_limit == int(MockLLM().metadata.context_window * 0.75)
    assert store.get_messages("key") == turns(1)
    assert ArcChatMemoryBuffer.from_defaults().token_limit == 3_000


def test_without_an_engine_it_has_one_of_its_own() -> None:
    """Two memories that share nothing see nothing of each other, also when they are made by the class itself."""
    one, other = ArcChatMemoryBuffer.from_defaults(), ArcChatMemoryBuffer(token_limit=100)
    one.put(user("hello"))
    assert said(one.get()) == ["hello"]
    assert other.get() == []


def test_a_history_given_begins_the_conversation(engine: ContextEngine) -> None:
    """A greeting given at each start doesn't wipe what came after it; another history takes its place."""
    greeting = [assistant("Welcome!")]
    memory = memory_over(engine, chat_history=greeting)
    memory.put_messages(turns(1))
    assert memory_over(engine, chat_history=greeting).get_all() == [*greeting, *turns(1)]
    assert memory_over(engine, chat_history=[]).get_all() == [*greeting, *turns(1)]
    assert memory_over(engine, chat_history=turns(2)).get_all() == turns(2)


@pytest.mark.parametrize(
    ("field", "given"),
    [
        pytest.param("token_limit", {"token_limit": 0}, id="no limit"),
        pytest.param("token_limit", {"token_limit": -5}, id="negative limit"),
        pytest.param("token_limit", {"token_limit": 1.5}, id="half a token"),
        pytest.param("token_limit", {"token_limit": True}, id="true"),
        pytest.param("session_id", {"session_id": ""}, id="empty id"),
        pytest.param("session_id", {"session_id": "x" * 256}, id="long id"),
        pytest.param("session_id", {"chat_store_key": "\x00"}, id="NUL in the key"),
        pytest.param("user_id", {"user_id": " "}, id="blank user"),
        pytest.param("engine", {"engine": "sqlite://"}, id="address for an engine"),
        pytest.param("chat_store", {"chat_store": SimpleChatStore()}, id="foreign store"),
        pytest.param("chat_store", {"chat_store": ArcChatStore(), "user_id": "ann"}, id="store and scope"),
        pytest.param("tokenizer_fn", {"tokenizer_fn": "cl100k_base"}, id="no function"),
        pytest.param("kwargs", {"limit": 3}, id="unknown argument"),
        pytest.param("message", {"chat_history": ["hi"]}, id="no messages"),
    ],
)
def test_refuses_what_it_can_not_work_with(field: str, given: dict[str, Any]) -> None:
    """The error names the argument; upstream's `ValueError` catches it too."""
    with pytest.raises(InvalidInputError) as caught:
        ArcChatMemoryBuffer.from_defaults(**given)
    assert caught.value.field == field
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("given", [{}, {"token_limit": 0}, {"token_limit": None}], ids=repr)
def test_the_class_itself_checks_the_limit_as_upstream_does(given: dict[str, Any]) -> None:
    """Without a limit of at least 1 there is no memory."""
    with pytest.raises(ValueError, match="Token limit must be set and greater than 0"):
        ArcChatMemoryBuffer(**given)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
def test_a_copy_works_on_the_same_session(
    engine: ContextEngine, copied: Callable[[ArcChatMemoryBuffer], ArcChatMemoryBuffer]
) -> None:
    """Workflows copy what they are given; what is put through a copy is in the conversation."""
    memory = memory_over(engine, token_limit=77, tokenizer_fn=str.split)
    other = copied(memory)
    other.put(user("through the copy"))
    assert said(memory.get()) == ["through the copy"]
    assert other.chat_store.engine is engine
    assert (other.token_limit, other.tokenizer_fn) == (77, str.split)


def _through_text(memory: ArcChatMemoryBuffer) -> ArcChatMemoryBuffer:
    return ArcChatMemoryBuffer.from_string(memory.to_string())


def _through_json(memory: ArcChatMemoryBuffer) -> ArcChatMemoryBuffer:
    return ArcChatMemoryBuffer.from_dict(json.loads(json.dumps(memory.to_dict())))


def _through_pickle(memory: ArcChatMemoryBuffer) -> ArcChatMemoryBuffer:
    restored = pickle.loads(pickle.dumps(memory))  # noqa: S301 - pickled on the line itself
    assert isinstance(restored, ArcChatMemoryBuffer)
    return restored


memory_from = ArcChatMemoryBuffer.from_dict


@pytest.mark.parametrize("there_and_back", [_through_text, _through_json, _through_pickle])
@given(conversation=st.lists(strategies.messages, max_size=4))
@settings(max_examples=40, deadline=None)
def test_carries_its_messages_when_serialised(
    there_and_back: Callable[[ArcChatMemoryBuffer], ArcChatMemoryBuffer], conversation: list[ChatMessage]
) -> None:
    """Without its engine at hand, a serialised memory brings its messages, with their ids, its limit and its scope."""
    with open_engine(token_counter=Ones()) as engine:
        memory = memory_over(engine, user_id="ann", caller_id="shop", token_limit=77)
        memory.put_messages(conversation)
        stored = memory.session.messages()
        data = memory.to_dict()
    restored = there_and_back(memory_from({**data, "engine": "of another process"}))
    assert restored.get_all() == conversation
    assert restored.session.messages() == stored
    assert restored.token_limit == 77
    assert (restored.chat_store.user_id, restored.chat_store.caller_id) == ("ann", "shop")


@pytest.mark.parametrize("there_and_back", [_through_text, _through_json, _through_pickle])
def test_goes_on_over_its_engine_where_that_is_open(
    there_and_back: Callable[[ArcChatMemoryBuffer], ArcChatMemoryBuffer],
) -> None:
    """What a workflow puts after it was saved and restored is in the session; a closed engine is not used."""
    with open_engine(token_counter=Ones()) as engine:
        memory = memory_over(engine, user_id="ann")
        memory.put(user("before"))
        restored = there_and_back(memory)
        restored.put(user("after"))
        assert said(memory.get_all()) == ["before", "after"]
        data = memory.to_dict()
        assert memory_from(data).chat_store.engine is engine
    assert memory_from(data).chat_store.engine is not engine
    assert said(memory_from(data).get_all()) == ["before", "after"]


@pytest.mark.parametrize("name", [None, 3, ["x"], "unknown"], ids=repr)
def test_a_name_of_no_engine_is_passed_over(name: Any) -> None:
    """The messages are there nevertheless."""
    memory = ArcChatMemoryBuffer.from_defaults(chat_history=[user("q")])
    assert said(memory_from({**memory.to_dict(), "engine": name}).get_all()) == ["q"]


def test_a_serialised_memory_never_overwrites_what_came_after_it(engine: ContextEngine) -> None:
    """Restored over an engine that holds the session, it goes on with what the session holds by then."""
    memory = memory_over(engine)
    memory.put_messages(turns(1))
    data = memory.to_dict()
    before = copy.deepcopy(data)
    memory.put(user("later"))
    restored = ArcChatMemoryBuffer.from_dict(data, engine=engine)
    assert restored.get_all() == [*turns(1), user("later")]
    assert data == before
    memory.set([user("instead")])
    assert ArcChatMemoryBuffer.from_dict(data, engine=engine).get_all() == [user("instead")]


def test_what_is_serialised_names_no_address(tmp_path: Path) -> None:
    """The serialised form holds the conversation and its scope; where the database lies stays out of it."""
    with open_engine(f"sqlite:///{tmp_path / 'secret-place.db'}") as engine:
        memory = memory_over(engine)
        memory.put(user("hello"))
        for text in (memory.to_string(), memory.json(), repr(memory), repr(memory.model_dump())):
            assert "secret-place" not in text
        assert memory.dict()["class_name"] == "ArcChatMemoryBuffer"


@pytest.mark.parametrize("data", [{}, {"messages": 3}, {"messages": [{}]}, {"chat_history": []}, []], ids=repr)
def test_refuses_to_be_restored_from_something_else(data: Any) -> None:
    """What `to_dict` didn't give is named as such."""
    with pytest.raises(InvalidInputError, match="data"):
        ArcChatMemoryBuffer.from_dict(data)
