"""What a view of a session, for an adapter with a prompt of its own, holds and accounts for."""

import logging
from collections.abc import Iterator

import pytest

from arc_common.engine.context_engine import ContextEngine
from arc_common.engine.session import Session
from arc_common.exceptions import BudgetExceededError
from arc_common.messages import Message, Role, ToolCall
from arc_common.settings import ArcSettings
from arc_common.tokens.counters import message_tokens
from tests.behaviour.sessions.test_session_window import Ones, tool_turn, turns


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    with ContextEngine.open(token_counter=Ones(), settings=ArcSettings(summary={"enabled": False})) as opened:
        yield opened


@pytest.fixture
def session(engine: ContextEngine) -> Session:
    return engine.session("s")


def cost(messages: list[Message]) -> int:
    return sum(message_tokens(Ones(), message) for message in messages)


def test_a_view_leaves_a_receipt(engine: ContextEngine, session: Session, caplog: pytest.LogCaptureFixture) -> None:
    """What is in it, what is not and why, and what each part costs: in `debug`, and in the log."""
    session.append([Message(Role.SYSTEM, "Be kind.", id="s"), *turns(40), *tool_turn("t", 1)])
    with caplog.at_level(logging.DEBUG, logger="arc.context"):
        shown = session.window(max_tokens=60, keep_newest=True)
    receipt = engine.admin.debug("s").receipt
    assert receipt is not None
    assert receipt.kept == tuple(message.id for message in shown)
    assert receipt.total_tokens == cost(shown) <= 60 == receipt.input_tokens
    assert [section.name for section in receipt.sections] == ["system", "history", "user_message", "current_turn"]
    assert sum(section.tokens for section in receipt.sections) == receipt.total_tokens
    assert {omission.reason for omission in receipt.nearest} == {"older than the window"}
    left = len(receipt.nearest) + sum(rest.count for rest in receipt.rest.values())
    assert left + len(shown) == len(session.messages())
    assert receipt.to_json() in caplog.text


def test_what_is_taken_already_is_a_section(engine: ContextEngine, session: Session) -> None:
    """So that the receipt says where the room went; more than there is is no error."""
    session.append(turns(40))
    shown = session.window(max_tokens=60, reserved=25)
    receipt = engine.admin.debug("s").receipt
    assert receipt is not None
    tokens = {section.name: section.tokens for section in receipt.sections}
    assert tokens == {"reserved": 25, "history": cost(shown)}
    assert receipt.total_tokens == 25 + cost(shown) <= 60 == receipt.input_tokens
    assert not session.window(max_tokens=60, reserved=100)
    assert [section.tokens for section in engine.admin.debug("s").receipt.sections] == [100]


def test_ids_made_distinct_are_within_the_limit() -> None:
    """A call's id that comes again gets a longer one, and what that costs is not spent twice."""

    class Letters(Ones):
        name = "letters"

        def count_batch(self, texts: list[str]) -> list[int]:
            return list(map(len, texts))

    with ContextEngine.open(token_counter=Letters(), settings=ArcSettings(summary={"enabled": False})) as engine:
        session = engine.session("s")
        for _ in range(12):
            call = Message(Role.ASSISTANT, None, tool_calls=(ToolCall("look_up", {}, id="c"),))
            session.append([Message(Role.USER, "question"), call, Message(Role.TOOL, "found", tool_call_id="c")])
        for limit in range(60, 400, 7):
            shown = session.window(max_tokens=limit, keep_newest=True)
            ids = [call.id for message in shown for call in message.tool_calls]
            assert len(ids) == len(set(ids))
            assert sum(message_tokens(Letters(), message) for message in shown) <= limit


def test_a_remark_behind_a_stray_result_is_no_instruction(session: Session) -> None:
    """Only system messages at the very start are kept whatever comes; a result without a call is no reason."""
    session.append([Message(Role.TOOL, "stray", tool_call_id="9"), Message(Role.SYSTEM, "remark"), *turns(1)])
    assert [message.text for message in session.window(max_tokens=10, keep_newest=True)] == ["q 0", "a 0"]


def test_what_is_refused_is_named(session: Session) -> None:
    """System messages at the start and the question, when they alone are too much; what is reserved is no reason."""
    session.append([Message(Role.SYSTEM, "Be kind."), Message(Role.USER, "hi")])
    assert len(session.window(max_tokens=10, reserved=10, keep_newest=True)) == 2
    with pytest.raises(BudgetExceededError, match="system messages and user message: 10 tokens needed, 9 available"):
        session.window(max_tokens=9, keep_newest=True)
