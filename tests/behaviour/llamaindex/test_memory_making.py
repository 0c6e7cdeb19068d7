"""Creation of an `ArcMemory` or `ArcChatMemoryBuffer`: upstream's arguments, copies, serialised forms."""

import copy
import inspect
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms import MockLLM
from llama_index.core.memory import BaseMemory, ChatMemoryBuffer
from llama_index.core.storage.chat_store import SimpleChatStore

from arc_common.engine.context_engine import ContextEngine
from arc_common.exceptions import InvalidInputError
from llamaindex_arc import ArcChatMemoryBuffer, ArcChatStore, ArcMemory, open_engine
from tests.support import llamaindex_strategies as strategies
from tests.support.counters import Ones
from tests.support.llamaindex_helpers import assistant, memory_over, said, turns, user


def test_is_the_class_that_user_code_is_typed_to() -> None:
    """It is a `ChatMemoryBuffer` by class and name, never falsy, and uses none of upstream's reads."""
    assert ChatMemoryBuffer.class_name() in [cls.__name__ for cls in ArcChatMemoryBuffer.__mro__]
    assert ArcChatMemoryBuffer.class_name() == "ArcChatMemoryBuffer"
    assert bool(ArcChatMemoryBuffer.from_defaults())
    inherited = {
        name
        for name, _ in inspect.getmembers(BaseMemory, inspect.isfunction)
        if not name.startswith("_") and name in vars(BaseMemory) and name not in vars(ArcMemory)
    }
    assert inherited == set()


def test_a_memory_is_no_buffer_and_has_room_for_three_quarters() -> None:
    """Its default limit is three quarters of the model's or the engine's window; its session has one name."""
    memory = ArcMemory.from_defaults(session_id="s")
    assert not isinstance(memory, ChatMemoryBuffer)
    assert memory.token_limit == 96_000
    assert ArcMemory.from_defaults(llm=MockLLM(), token_limit=50).token_limit == 50
    assert ArcMemory.from_defaults(llm=MockLLM()).token_limit == int(MockLLM().metadata.context_window * 0.75)
    with pytest.raises(InvalidInputError, match="no further arguments"):
        ArcMemory.from_defaults(chat_store_key="s")
    with pytest.raises(InvalidInputError, match="session_id"):
        ArcMemory.from_defaults(engine=open_engine())


def test_a_memory_and_a_buffer_are_one_conversation() -> None:
    with open_engine() as engine:
        ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="s").put(user("hello"))
        memory = ArcMemory.from_defaults(engine=engine, session_id="s")
        memory.put(assistant("hi"))
        assert said(memory.get()) == ["hello", "hi"]
        for again in (
            ArcMemory.from_string(memory.to_string()),
            pickle.loads(pickle.dumps(memory)),  # noqa: S301 - its own bytes
            copy.deepcopy(memory),
        ):
            assert type(again) is ArcMemory
            assert again.get_all() == memory.get_all()


def test_from_defaults_takes_upstreams_arguments_in_upstreams_order() -> None:
    """Positional calls of upstream's `from_defaults` keep working."""
    upstream = list(inspect.signature(ChatMemoryBuffer.from_defaults).parameters)
    ours = list(inspect.signature(ArcChatMemoryBuffer.from_defaults).parameters)
    assert ours[: len(upstream) - 1] == upstream[:-1]
    store = ArcChatStore()
    memory = ArcChatMemoryBuffer.from_defaults(turns(1), MockLLM(), store, "key", None, str.split)
    assert memory.token_limit == int(MockLLM().metadata.context_window * 0.75)
    assert store.get_messages("key") == turns(1)
    assert ArcChatMemoryBuffer.from_defaults().token_limit == 3_000


def test_without_an_engine_it_has_one_of_its_own() -> None:
    """Two memories share nothing, even if the class creates them directly."""
    one, other = ArcChatMemoryBuffer.from_defaults(), ArcChatMemoryBuffer(token_limit=100)
    one.put(user("hello"))
    assert said(one.get()) == ["hello"]
    assert other.get() == []


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda engine: ArcChatMemoryBuffer.from_defaults(engine=engine), id="engine"),
        pytest.param(lambda engine: ArcChatMemoryBuffer.from_defaults(chat_store=ArcChatStore(engine)), id="store"),
        pytest.param(lambda engine: ArcChatMemoryBuffer(token_limit=9, chat_store=ArcChatStore(engine)), id="class"),
        pytest.param(
            lambda engine: ChatMemoryBuffer.from_defaults([user("q")], None, ArcChatStore(engine)), id="theirs"
        ),
    ],
)
def test_a_shared_engine_needs_the_conversations_id(
    engine: ContextEngine, make: Callable[[ContextEngine], ChatMemoryBuffer]
) -> None:
    """With LlamaIndex's constant default key, two users would read each other's messages."""
    with pytest.raises(ValueError, match="session_id: got 'chat_history', expected"):
        make(engine)
    assert ArcChatStore(engine).get_keys() == []


def test_an_engine_of_its_own_needs_the_conversations_id_over_a_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All processes share a database named by the settings."""
    monkeypatch.setenv("ARC_DATABASE_URL", f"sqlite:///{tmp_path / 'arc.db'}")
    for make in (ArcChatMemoryBuffer.from_defaults, lambda: ArcChatMemoryBuffer(token_limit=9)):
        with pytest.raises(ValueError, match="session_id: got 'chat_history', expected"):
            make()
    assert ArcChatMemoryBuffer.from_defaults(session_id="s").get() == []


def test_memories_without_an_id_stay_apart_when_they_are_restored_over_one_engine(engine: ContextEngine) -> None:
    """Each has its own id, so a restored one never continues another's conversation."""
    memories = [ArcChatMemoryBuffer.from_defaults(chat_history=[user(name)]) for name in ("ann", "bob")]
    restored = [memory_from(memory.to_dict(), engine=engine) for memory in memories]
    assert [said(memory.get_all()) for memory in restored] == [["ann"], ["bob"]]


def test_a_history_given_begins_the_conversation(engine: ContextEngine) -> None:
    """A repeated greeting does not erase later messages; a different history replaces them."""
    greeting = [assistant("Welcome!")]
    memory = memory_over(engine, chat_history=greeting)
    memory.put_messages(turns(1))
    assert memory_over(engine, chat_history=greeting).get_all() == [*greeting, *turns(1)]
    assert memory_over(engine, chat_history=[]).get_all() == [*greeting, *turns(1)]
    assert memory_over(engine, chat_history=turns(2)).get_all() == turns(2)


@pytest.mark.parametrize(
    ("field", "given"),
    [
        pytest.param("session_id", {"chat_store_key": "\x00"}, id="NUL in the key"),
        pytest.param("chat_store", {"chat_store": SimpleChatStore()}, id="foreign store"),
        pytest.param("chat_store", {"chat_store": ArcChatStore(), "user_id": "ann"}, id="store and scope"),
        pytest.param("kwargs", {"limit": 3}, id="unknown argument"),
    ],
)
def test_refuses_what_it_can_not_work_with(field: str, given: dict[str, Any]) -> None:
    """The error names the argument and is a `ValueError`, like upstream's."""
    with pytest.raises(InvalidInputError) as caught:
        ArcChatMemoryBuffer.from_defaults(**given)
    assert caught.value.field == field
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("write", ["set", "put_messages"])
@pytest.mark.parametrize("given", [5, None, "hi", [5]], ids=repr)
async def test_refuses_what_are_no_messages(engine: ContextEngine, write: str, given: Any) -> None:
    """The error names the argument, in both forms, and stored messages stay."""
    memory = memory_over(engine)
    memory.put_messages(turns(1))
    with pytest.raises(InvalidInputError, match="messages: got"):
        getattr(memory, write)(given)
    with pytest.raises(InvalidInputError, match="messages: got"):
        await getattr(memory, f"a{write}")(given)
    assert memory.get_all() == turns(1)


@pytest.mark.parametrize("given", [{}, {"token_limit": 0}, {"token_limit": None}], ids=repr)
def test_the_class_itself_checks_the_limit_as_upstream_does(given: dict[str, Any]) -> None:
    """The limit must be at least 1."""
    with pytest.raises(ValueError, match="Token limit must be set and greater than 0"):
        ArcChatMemoryBuffer(**given)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
def test_a_copy_works_on_the_same_session(
    engine: ContextEngine, copied: Callable[[ArcChatMemoryBuffer], ArcChatMemoryBuffer]
) -> None:
    """Workflows copy their arguments; messages put through a copy reach the conversation."""
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
    restored = pickle.loads(pickle.dumps(memory))  # noqa: S301 - its own bytes
    assert isinstance(restored, ArcChatMemoryBuffer)
    return restored


memory_from = ArcChatMemoryBuffer.from_dict


@given(
    there_and_back=st.sampled_from([_through_text, _through_json, _through_pickle]),
    conversation=st.lists(strategies.messages, max_size=4),
)
def test_carries_its_messages_when_serialised(
    there_and_back: Callable[[ArcChatMemoryBuffer], ArcChatMemoryBuffer], conversation: list[ChatMessage]
) -> None:
    """Without its engine, a serialised memory brings its messages with ids, limit and scope."""
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
    """A restored workflow's messages reach the session; a closed engine is not used."""
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


def test_a_name_of_no_engine_is_passed_over() -> None:
    """The messages are still there."""
    for name in [None, 3, ["x"], "unknown"]:
        memory = ArcChatMemoryBuffer.from_defaults(chat_history=[user("q")])
        assert said(memory_from({**memory.to_dict(), "engine": name}).get_all()) == ["q"]


def test_a_serialised_memory_never_overwrites_what_came_after_it(engine: ContextEngine) -> None:
    """Restored over the session's engine, it continues with the session's present messages."""
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
    """The serialised form has conversation and scope but no database URL."""
    with open_engine(f"sqlite:///{tmp_path / 'secret-place.db'}") as engine:
        memory = memory_over(engine)
        memory.put(user("hello"))
        for text in (memory.to_string(), memory.json(), repr(memory), repr(memory.model_dump())):
            assert "secret-place" not in text
        assert memory.dict()["class_name"] == "ArcChatMemoryBuffer"


def test_refuses_to_be_restored_from_something_else() -> None:
    """The error names data that `to_dict` did not produce."""
    for data in [{}, {"messages": 3}, {"messages": [{}]}, {"chat_history": []}, []]:
        with pytest.raises(InvalidInputError, match="data"):
            ArcChatMemoryBuffer.from_dict(data)


def test_pickles_with_a_tokenizer_that_does_not() -> None:
    """A function of the user's is dropped."""
    memory = ArcChatMemoryBuffer.from_defaults(chat_history=[user("q")], tokenizer_fn=lambda text: text.split())
    assert _through_pickle(memory).get() == [user("q")]
