"""`ArcChatStore`, used by LlamaIndex's memories and apps."""

import asyncio
import copy
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer, ChatSummaryMemoryBuffer
from llama_index.core.storage.chat_store import BaseChatStore, SimpleChatStore

from arc_common.engine.context_engine import ContextEngine
from arc_common.exceptions import InvalidInputError, SessionNotFoundError
from arc_common.messages import Message, Role
from llamaindex_arc import ArcChatStore, open_engine
from tests.support import llamaindex_strategies as strategies
from tests.support.counters import Ones
from tests.support.databases import sqlite_url
from tests.support.llamaindex_helpers import assistant, said, turns, user

_TWINS = {"add_message": "async_add_message"}


class Both:
    """A store whose blocking methods call its blocking or its async forms."""

    def __init__(self, store: ArcChatStore, *, through_async: bool) -> None:
        self._store = store
        self._through_async = through_async

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not self._through_async:
            return getattr(self._store, name)  # type: ignore[no-any-return]  # a method, whichever
        twin = getattr(self._store, _TWINS.get(name, f"a{name}"))
        return lambda *args: asyncio.run(twin(*args))


forms = pytest.mark.parametrize("through_async", [False, True], ids=["sync", "async"])


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    with open_engine(token_counter=Ones()) as opened:
        yield opened


keys = st.sampled_from(["one", "two"])


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("add_message"), keys, strategies.messages),
            st.tuples(st.just("set_messages"), keys, st.lists(strategies.messages, max_size=3)),
            st.tuples(st.just("delete_message"), keys, st.integers(0, 4)),
            st.tuples(st.just("delete_last_message"), keys),
            st.tuples(st.just("delete_messages"), keys),
            st.tuples(st.just("get_messages"), keys),
            st.tuples(st.just("get_keys")),
        ),
        max_size=8,
    ),
    through_async=st.booleans(),
)
def test_answers_as_the_simple_store_does(steps: list[tuple[Any, ...]], through_async: bool) -> None:
    """Any sequence of calls has the results and effects of LlamaIndex's in-memory store."""
    simple = SimpleChatStore()
    with open_engine(token_counter=Ones()) as engine:
        store = Both(ArcChatStore(engine), through_async=through_async)
        for name, *arguments in steps:
            got = getattr(store, name)(*arguments)
            if name == "delete_last_message" and not simple.get_messages(*arguments):
                assert got is None  # the simple store raises IndexError for an empty list
                continue
            expected = getattr(simple, name)(*copy.deepcopy(arguments))
            if name == "get_keys":  # the simple store keeps the key of an empty list
                assert {key for key in got if store.get_messages(key)} == {
                    key for key in expected if simple.get_messages(key)
                }
            elif name == "delete_messages":
                assert (got or None) == (expected or None)
            else:
                assert got == expected
        for key in ("one", "two"):
            assert store.get_messages(key) == simple.get_messages(key)


@forms
def test_messages_are_deleted_by_their_place(engine: ContextEngine, through_async: bool) -> None:
    """Indices work as in a list, from both ends; an index without a message has no effect."""
    store = Both(ArcChatStore(engine), through_async=through_async)
    for index, text in ((0, "q0"), (3, "a1"), (-1, "a1"), (-4, "q0"), (4, None), (-5, None)):
        store.set_messages("k", turns(2))
        deleted = store.delete_message("k", index)
        assert (deleted and deleted.content) == text
        assert said(store.get_messages("k")) == [there for there in ("q0", "a0", "q1", "a1") if there != text]


def test_lists_all_keys_of_its_caller_and_user(engine: ContextEngine) -> None:
    """All pages of keys are listed, and nobody else's."""
    stores = {
        scope: ArcChatStore(engine, caller_id=scope[0], user_id=scope[1])
        for scope in (("shop", None), ("shop", "ann"), ("bank", None))
    }
    for n in range(501):
        ArcChatStore(engine, caller_id="shop").add_message(f"k{n}", user("hi"))
    stores["shop", "ann"].add_message("hers", user("hi"))
    assert sorted(stores["shop", None].get_keys()) == sorted(f"k{n}" for n in range(501))
    assert stores["shop", "ann"].get_keys() == ["hers"]
    assert stores["bank", None].get_keys() == []
    with pytest.raises(SessionNotFoundError):
        stores["shop", None].get_messages("hers")
    assert stores["bank", None].get_messages("hers") == []


@pytest.mark.parametrize("delete", ["delete_messages", "adelete_messages"])
async def test_a_deleted_key_is_gone(engine: ContextEngine, delete: str) -> None:
    """Deleting a key's messages deletes its session."""
    store = ArcChatStore(engine)
    store.add_message("k", user("hi"))
    deleted = getattr(store, delete)("k")
    assert said(await deleted if asyncio.iscoroutine(deleted) else deleted) == ["hi"]
    assert store.get_keys() == []
    assert not engine.session("k").exists()


def test_serves_upstreams_memory(tmp_path: Path) -> None:
    """It makes LlamaIndex's own memory buffer durable."""
    for expected in (2, 4):
        with open_engine(sqlite_url(tmp_path, "c.db")) as engine:
            memory = ChatMemoryBuffer.from_defaults(chat_store=ArcChatStore(engine), chat_store_key="k")
            memory.put(user("hello"))
            memory.put(assistant("hi"))
            assert len(memory.get()) == expected
            summary = ChatSummaryMemoryBuffer.from_defaults(chat_store=ArcChatStore(engine), chat_store_key="summary")
            summary.put(user("hello"))
            assert len(summary.get()) == expected // 2


def test_is_named_as_llama_index_names_stores() -> None:
    """LlamaIndex recognises its class name, base classes and serialised form."""
    assert BaseChatStore.__name__ in [cls.__name__ for cls in ArcChatStore.__mro__]
    assert ArcChatStore.class_name() == "ArcChatStore"
    store = ArcChatStore(caller_id="shop", user_id="ann")
    assert store.to_dict() == {"class_name": "ArcChatStore", "caller_id": "shop", "user_id": "ann"}


def test_comes_back_from_its_serialised_form(engine: ContextEngine) -> None:
    """The scope is serialised; the engine is passed again."""
    store = ArcChatStore(engine, caller_id="shop", user_id="ann")
    store.add_message("k", user("hi"))
    restored = ArcChatStore.from_dict(store.to_dict(), engine=engine)
    assert restored.get_keys() == ["k"]


def test_copies_share_the_engine_and_pickles_are_refused(engine: ContextEngine) -> None:
    """Without its engine it would be an empty store, so pickling raises an error."""
    store = ArcChatStore(engine, user_id="ann")
    for other in (copy.copy(store), copy.deepcopy(store)):
        assert (other.engine, other.user_id) == (engine, "ann")
    with pytest.raises(TypeError, match="can't be pickled"):
        pickle.dumps(store)


@pytest.mark.parametrize(
    ("field", "call"),
    [
        pytest.param("session_id", lambda: ArcChatStore().get_messages(""), id="empty key"),
        pytest.param("message", lambda: ArcChatStore().add_message("k", "hi"), id="no message"),  # type: ignore[arg-type]  # the point
        pytest.param("messages", lambda: ArcChatStore().set_messages("k", None), id="no messages"),  # type: ignore[arg-type]  # the point
        pytest.param("messages", lambda: ArcChatStore().set_messages("k", {}), id="a mapping"),  # type: ignore[arg-type]  # the point
        pytest.param("idx", lambda: ArcChatStore().delete_message("k", "0"), id="no index"),  # type: ignore[arg-type]  # the point
    ],
)
def test_refuses_what_it_can_not_work_with(field: str, call: Callable[[], object]) -> None:
    """The error names the argument."""
    with pytest.raises(InvalidInputError) as caught:
        call()
    assert caught.value.field == field


def test_a_wrong_message_in_a_list_changes_nothing(engine: ContextEngine) -> None:
    """`set_messages` checks all messages before it writes one."""
    store = ArcChatStore(engine)
    store.set_messages("k", turns(1))
    wrong: list[Any] = [user("new"), "text"]
    with pytest.raises(InvalidInputError, match="message"):
        store.set_messages("k", wrong)
    assert store.get_messages("k") == turns(1)


def test_set_messages_of_a_foreign_conversation(engine: ContextEngine) -> None:
    """Another framework's messages count as equal if LlamaIndex sees the same."""
    stored = engine.session("k").append([Message(Role.USER, "from elsewhere", metadata={"a": 1})])
    store = ArcChatStore(engine)
    conversation: list[ChatMessage] = [*store.get_messages("k"), assistant("hi")]
    store.set_messages("k", conversation)
    assert engine.session("k").messages()[:1] == stored
