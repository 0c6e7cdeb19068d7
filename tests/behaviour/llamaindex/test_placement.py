"""Facts and summary with the user's words: for models and agents that have room for one system message, their own."""

import asyncio
import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock

from arc_common.engine.context_engine import ContextEngine
from arc_common.exceptions import InvalidInputError
from arc_common.settings import ArcSettings, ContextSettings
from arc_common.tokens.counters import message_tokens
from llamaindex_arc import ArcChatMemoryBuffer, open_engine, to_arc
from tests.behaviour.llamaindex.test_layers import summarised, text_of, through_json, told
from tests.support.llamaindex_helpers import assistant, said, system, user

WITH_USER: dict[str, Any] = {"facts_role": "user"}


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    with open_engine() as opened:
        yield opened


def test_facts_open_the_first_question(engine: ContextEngine) -> None:
    """As a block of their own; the question's own blocks follow, and no system message is left."""
    first, *others = summarised(engine, **WITH_USER).get()
    memory, *own = first.blocks
    assert first.role is MessageRole.USER
    assert isinstance(memory, TextBlock)
    assert memory.text.startswith("<arc:memory>\n")
    assert memory.text.endswith("\n</arc:memory>\n\n")
    assert ChatMessage(role=first.role, blocks=own) in told(25)
    assert MessageRole.SYSTEM not in {message.role for message in others}


def test_instructions_stay_in_the_system_message(engine: ContextEngine) -> None:
    """Only what was said by others leaves it."""
    first, second, *_ = summarised(engine, [system("Be kind."), *told(25)], **WITH_USER).get()
    assert (first.role, first.content) == (MessageRole.SYSTEM, "Be kind.")
    assert text_of(second).startswith("<arc:memory>\n")


def test_the_engines_setting_holds_where_nothing_is_said() -> None:
    """And what is said to one memory goes along when it is copied or serialised."""
    with open_engine(settings=ArcSettings(context=ContextSettings(facts_role="user"))) as engine:
        assert summarised(engine).get()[0].role is MessageRole.USER
        memory = ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="s", facts_role="system")
        for other in (
            memory,
            copy.deepcopy(memory),
            ArcChatMemoryBuffer.from_string(memory.to_string(), engine=engine),
        ):
            assert other.get()[0].role is MessageRole.SYSTEM


@pytest.mark.parametrize("placement", ["tool", "", True, 3])
def test_other_places_are_refused(engine: ContextEngine, placement: Any) -> None:
    """Before anything is read."""
    with pytest.raises(InvalidInputError, match=r'facts_role: .*"system", "user" or None'):
        ArcChatMemoryBuffer.from_defaults(engine=engine, facts_role=placement)


@given(limit=st.integers(60, 3_000), taken=st.integers(0, 500), instructed=st.booleans())
@settings(max_examples=40)
def test_the_limit_holds_there_too(limit: int, taken: int, instructed: bool) -> None:
    """Whatever the limit is."""
    with open_engine() as engine:
        start = [system("Be kind.")] if instructed else []
        memory = summarised(engine, [*start, *told(25)], token_limit=limit, **WITH_USER)
        assert sum(message_tokens(engine.token_counter, to_arc(message)) for message in memory.get()) <= limit
        assert memory.get(initial_token_count=taken)[-2:] == told(25)[-2:] or taken


@pytest.mark.parametrize("instructed", [False, True])
@pytest.mark.parametrize("through", [list, copy.deepcopy, through_json])
def test_handing_it_back_changes_nothing(
    engine: ContextEngine,
    through: Callable[[list[ChatMessage]], list[ChatMessage]],
    instructed: bool,
) -> None:
    """It is known again, whichever memory gets it; what it stands for stays, and so do the objects handed back."""
    memory = summarised(engine, [*([system("Be kind.")] if instructed else []), *told(25)], **WITH_USER)
    before, shown = memory.get_all(), through(memory.get())
    given = copy.deepcopy(shown)
    memory.set(shown)
    assert memory.get_all() == before
    asyncio.run(ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="s").aset(shown))
    assert memory.get_all() == before
    assert shown == given
    memory.set([*shown[:-2], user("Another question?"), assistant("Another answer.")])
    assert said(memory.get_all()) == [*said(before)[:-2], "Another question?", "Another answer."]


def test_it_is_not_stored_with_the_question_that_carries_it(engine: ContextEngine) -> None:
    """An agent that puts what it got stores the question as it was asked."""
    memory = summarised(engine, **WITH_USER)
    carrier = memory.get()[0]
    memory.put(carrier)
    assert memory.get_all()[-1].blocks == carrier.blocks[1:]


def test_a_user_may_say_what_it_says(engine: ContextEngine) -> None:
    """A question of nothing else, or with it somewhere else, is a question."""
    memory = summarised(engine, **WITH_USER)
    block = memory.get()[0].blocks[0]
    assert isinstance(block, TextBlock)
    for message in (
        ChatMessage(role=MessageRole.USER, blocks=[block]),
        ChatMessage(role=MessageRole.USER, blocks=[TextBlock(text="see:"), block]),
        ChatMessage(role=MessageRole.USER, blocks=[TextBlock(text=block.text + "!"), block]),
        ChatMessage(role=MessageRole.ASSISTANT, blocks=[block, block]),
    ):
        memory.put(message)
        assert memory.get_all()[-1] == message


def test_nothing_is_placed_where_nothing_is_summarised(engine: ContextEngine) -> None:
    """A short conversation is shown as it is."""
    memory = ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="short", facts_role="user")
    memory.put_messages([system("Be kind."), *told(2)])
    assert memory.get() == [system("Be kind."), *told(2)]
