"""`Session.window`: the newest whole turns within limits, read from the end, and their receipt."""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.engine.context_engine import ContextEngine
from arc_common.engine.session import Session
from arc_common.exceptions import BudgetExceededError
from arc_common.messages import Message, Role, ToolCall, exchanges_of
from arc_common.settings import ArcSettings
from arc_common.tokens.budget import TokenBudget
from arc_common.tokens.counters import message_tokens
from arc_common.tokens.selection import says_something, select_window, with_distinct_call_ids
from tests.support.counters import Ones
from tests.support.databases import sqlite_url
from tests.support.probes import OwnThread
from tests.support.strategies import conversations

PLAIN = ArcSettings(summary={"enabled": False})
"""Settings without summaries."""


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    with ContextEngine.open(token_counter=Ones(), settings=PLAIN) as opened:
        yield opened


def turns(number: int) -> list[Message]:
    """Return questions with answers, each message five tokens under `Ones`."""
    return [
        Message(role, f"{word} {n}", id=f"{word}{n}")
        for n in range(number)
        for role, word in ((Role.USER, "q"), (Role.ASSISTANT, "a"))
    ]


def tool_turn(name: str, steps: int) -> list[Message]:
    """Return a question and calls with their results, without an answer."""
    messages = [Message(Role.USER, "go", id=f"{name}-q")]
    for n in range(steps):
        call = ToolCall("look_up", {}, id=f"{name}-{n}")
        messages.append(Message(Role.ASSISTANT, None, tool_calls=(call,), id=f"{name}-c{n}"))
        messages.append(Message(Role.TOOL, "found", tool_call_id=call.id, id=f"{name}-r{n}"))
    return messages


def ids(messages: Sequence[Message]) -> list[str | None]:
    return [message.id for message in messages]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param({"max_turns": 2}, ["q28", "a28", "q29", "a29"], id="turns"),
        pytest.param({"max_messages": 3}, ["q29", "a29"], id="messages, whole turns only"),
        pytest.param({"max_tokens": 20}, ["q28", "a28", "q29", "a29"], id="tokens"),
        pytest.param({"max_tokens": 19, "max_turns": 9}, ["q29", "a29"], id="the narrowest limit"),
        pytest.param({"max_tokens": 0}, [], id="nothing fits"),
        pytest.param({}, [f"{word}{n}" for n in range(20, 30) for word in "qa"], id="the settings' ten turns"),
    ],
)
async def test_whole_turns_within_the_limits(
    engine: ContextEngine, limits: dict[str, Any], expected: list[str]
) -> None:
    """The newest turns that fit all limits are returned, in both forms."""
    session = engine.session("s")
    session.append(turns(30))
    assert ids(session.window(**limits)) == expected
    assert ids(await session.awindow(**limits)) == expected


@given(
    conversation=conversations(max_size=80),
    max_tokens=st.integers(0, 120),
    max_messages=st.none() | st.integers(0, 12),
    keep_opening=st.booleans(),
)
def test_reading_a_part_gives_what_reading_all_would(
    conversation: list[Message], max_tokens: int, max_messages: int | None, keep_opening: bool
) -> None:
    """The window equals that of the whole conversation, or its newest part if much of it is unusable."""
    limits: dict[str, Any] = {"max_tokens": max_tokens, "max_messages": max_messages}
    with ContextEngine.open(token_counter=Ones(), settings=PLAIN) as engine:
        session = engine.session("s")
        whole = session.append(conversation)
        got = session.window(**limits, keep_opening=keep_opening)
    chosen = list(select_window(whole, **limits, count=cost, keep_opening=keep_opening).kept)
    assert got == with_distinct_call_ids(chosen[len(chosen) - len(got) :])
    assert len(whole) > 32 or len(got) == len(chosen)
    exchanges, orphans = exchanges_of(got)
    assert not orphans
    assert all(exchange.complete for exchange in exchanges)


def cost(message: Message) -> int:
    """Return a message's tokens under `Ones`: framing, text and other parts."""
    calls = sum(5 + (call.id is not None) for call in message.tool_calls)
    return 4 + (message.content is not None) + calls + (message.tool_call_id is not None)


@given(conversation=conversations(max_size=60), max_tokens=st.integers(0, 120), reserved=st.integers(0, 150))
def test_the_newest_turn_that_is_kept_makes_no_broken_request(
    conversation: list[Message], max_tokens: int, reserved: int
) -> None:
    """Its question and newest exchange are kept despite reserved tokens; `max_tokens` always holds."""
    with ContextEngine.open(token_counter=Ones(), settings=PLAIN) as engine:
        session = engine.session("s")
        whole = session.append(conversation)
        asked = [message for message in whole if message.role is Role.USER and message.text]
        try:
            got = session.window(max_tokens=max_tokens, reserved=reserved, keep_newest=True)
        except BudgetExceededError as error:
            leading = takewhile(lambda message: message.role is Role.SYSTEM, filter(says_something, whole))
            assert error.available == max_tokens < error.needed == cost(asked[-1]) + sum(map(cost, leading))
            return
    spoken = [message for message in got if message.role is not Role.SYSTEM]
    assert bool(asked) == bool(spoken)
    assert not asked or asked[-1] in got
    assert sum(map(cost, got if asked else spoken)) <= max_tokens
    exchanges, orphans = exchanges_of(got)
    assert not orphans
    assert all(exchange.complete for exchange in exchanges)


@pytest.mark.parametrize("limits", [{"max_messages": 30}, {"max_tokens": 150}], ids=["messages", "tokens"])
def test_calls_without_results_fill_no_limit(engine: ContextEngine, limits: dict[str, int]) -> None:
    """Enough turns are read, however many unanswered calls are between them."""
    session = engine.session("s")
    said = turns(30)
    calls = [Message(Role.ASSISTANT, None, tool_calls=(ToolCall("look_up", {}, id=f"c{n}"),)) for n in range(30)]
    session.append([one for n in range(30) for one in (*said[2 * n : 2 * n + 2], calls[n])])
    assert ids(session.window(**limits)) == ids(said[-30:])


def test_messages_that_are_not_stored_follow_those_that_are(engine: ContextEngine) -> None:
    session = engine.session("s")
    session.append(turns(3))
    following = [Message(Role.USER, "and now?", id="n")]
    assert ids(session.window(max_tokens=15, following=following)) == ["q2", "a2", "n"]
    assert ids(session.window(max_tokens=14, following=following)) == ["n"]
    assert ids(session.window(max_tokens=14, following=following, count=lambda _: 7)) == ["n"]


def test_the_greeting_is_kept_only_while_everything_fits(engine: ContextEngine) -> None:
    """An assistant's opening message leaves first."""
    session = engine.session("s")
    greeting = Message(Role.ASSISTANT, "Welcome!", id="hi")
    session.append([greeting, *turns(2)])
    assert ids(session.window(max_tokens=25, keep_opening=True)) == ["hi", "q0", "a0", "q1", "a1"]
    assert ids(session.window(max_tokens=24, keep_opening=True)) == ["q0", "a0", "q1", "a1"]
    assert ids(session.window(max_tokens=25)) == ["q0", "a0", "q1", "a1"]


@pytest.mark.parametrize("length", [3, 14, 300], ids=["read whole", "read whole, unknowingly", "read in part"])
def test_instructions_at_the_start_are_never_forgotten(engine: ContextEngine, length: int) -> None:
    """System messages that open the conversation are kept and counted, whatever its length."""
    session = engine.session("s")
    instructions = [Message(Role.SYSTEM, "Be kind.", id="s0"), Message(Role.SYSTEM, "Be brief.", id="s1")]
    session.append([*instructions, *turns(length), Message(Role.SYSTEM, "later", id="s2"), *tool_turn("t", 0)])
    assert ids(session.window(max_tokens=15)) == ["s0", "s1", "t-q"]
    assert ids(session.window(max_tokens=30)) == ["s0", "s1", f"q{length - 1}", f"a{length - 1}", "s2", "t-q"]
    assert ids(session.window(max_tokens=15, reserved=15, keep_newest=True)) == ["s0", "s1", "t-q"]
    with pytest.raises(BudgetExceededError, match="system messages and user message: 15 tokens needed, 14 available"):
        session.window(max_tokens=14, keep_newest=True)
    assert session.context("and?").messages[0].text.startswith("Be kind.\n\nBe brief.")


def test_a_system_message_amid_a_turn_opens_no_conversation(engine: ContextEngine) -> None:
    session = engine.session("s")
    notes = [Message(Role.SYSTEM, "note", id=f"n{n}") for n in range(40)]
    session.append([*turns(1), *notes, *turns(2)[2:], *tool_turn("t", 0)])
    assert ids(session.window(max_tokens=20)) == ["q1", "a1", "t-q"]


def test_a_count_of_ones_own_decides_alone(engine: ContextEngine) -> None:
    """With `count`, stored counts are ignored."""
    session = engine.session("s")
    session.append(turns(200))
    assert len(session.window(max_tokens=300, count=lambda _: 1)) == 300
    assert len(session.window(max_tokens=300, count=lambda _: 100)) == 2


@pytest.mark.parametrize("length", [50, 2_000])
def test_costs_the_same_however_long_the_conversation(tmp_path: Path, length: int) -> None:
    """A window reads a bounded number of rows and statements, and counts nothing again."""
    counter = Ones()
    own = OwnThread(sqlite_url(tmp_path, "c.db"))
    with ContextEngine.open(own.database, token_counter=counter, settings=PLAIN) as engine:
        session = engine.session("s")
        session.append(turns(length // 2))
        counted = counter.counted
        own.statements.clear()
        assert len(session.window(max_tokens=100)) == 20
        assert counter.counted == counted
        assert len(own.statements) == 4  # with summaries off, pins need a statement of their own
        read = Counter[str | None]()

        def five(message: Message) -> int:
            read[message.id] += 1
            return 5

        assert len(session.window(max_tokens=100, count=five)) == 20
        assert read.total() == 32
    own.database.dispose()


def test_the_newest_part_of_a_giant_older_turn_is_shown_behind_its_question() -> None:
    """The newest turns alone would leave most tokens unused; calls keep results, and the user comes first."""
    with ContextEngine.open(token_counter=Ones(), settings=PLAIN) as engine:
        session = engine.session("s")
        session.append([*turns(3), *tool_turn("giant", 100), *turns(4)[6:]])
        budget = TokenBudget(150, 0)
        window = session.context("And now?", budget=budget)

    shown = [message for message in window.messages if message.role is not Role.SYSTEM]
    assert window.total_tokens <= 150
    assert window.total_tokens >= 0.8 * 150
    assert shown[0].role is Role.USER
    assert len([message for message in shown if message.role is Role.TOOL]) > 1
    exchanges, orphans = exchanges_of(shown)
    assert not orphans
    assert all(exchange.complete for exchange in exchanges)


def test_a_limit_of_turns_holds_against_a_giant_older_turn() -> None:
    limited = ArcSettings(summary={"enabled": False}, conversation={"max_turns": 1})
    with ContextEngine.open(token_counter=Ones(), settings=limited) as engine:
        session = engine.session("s")
        session.append([*tool_turn("giant", 100), *turns(1)])
        window = session.context("And now?", budget=TokenBudget(150, 0))

    assert [message.role for message in window.messages] == [Role.USER, Role.ASSISTANT, Role.USER]


@pytest.fixture
def session(engine: ContextEngine) -> Session:
    return engine.session("s")


def cost_of(messages: list[Message]) -> int:
    return sum(message_tokens(Ones(), message) for message in messages)


def test_a_view_leaves_a_receipt(engine: ContextEngine, session: Session, caplog: pytest.LogCaptureFixture) -> None:
    """`debug` and the log list its content, the omissions with reasons, and each part's tokens."""
    session.append([Message(Role.SYSTEM, "Be kind.", id="s"), *turns(40), *tool_turn("t", 1)])
    with caplog.at_level(logging.DEBUG, logger="arc.context"):
        shown = session.window(max_tokens=60, keep_newest=True)
    receipt = engine.admin.debug("s").receipt
    assert receipt is not None
    assert receipt.kept == tuple(message.id for message in shown)
    assert receipt.total_tokens == cost_of(shown) <= 60 == receipt.input_tokens
    assert [section.name for section in receipt.sections] == ["system", "history", "user_message", "current_turn"]
    assert sum(section.tokens for section in receipt.sections) == receipt.total_tokens
    assert {omission.reason for omission in receipt.nearest} == {"older than the window"}
    left = len(receipt.nearest) + sum(rest.count for rest in receipt.rest.values())
    assert left + len(shown) == len(session.messages())
    assert receipt.to_json() in caplog.text


def test_what_is_taken_already_is_a_section(engine: ContextEngine, session: Session) -> None:
    """The receipt thereby accounts for all tokens; reserving too many is no error."""
    session.append(turns(40))
    shown = session.window(max_tokens=60, reserved=25)
    receipt = engine.admin.debug("s").receipt
    assert receipt is not None
    tokens = {section.name: section.tokens for section in receipt.sections}
    assert tokens == {"reserved": 25, "history": cost_of(shown)}
    assert receipt.total_tokens == 25 + cost_of(shown) <= 60 == receipt.input_tokens
    assert not session.window(max_tokens=60, reserved=100)
    assert [section.tokens for section in engine.admin.debug("s").receipt.sections] == [100]


def test_facts_summary_and_recalled_items_are_sections_of_their_own() -> None:
    """One message contains them; the receipt separates them like a window's."""
    with ContextEngine.open() as engine:
        session = engine.session("s", user_id="ann")
        engine.memories(user_id="ann").add("Ann's loom is blue.")
        session.save_turn("My order number is HN-48213.", "It comes on Friday.")
        for n in range(30):
            session.save_turn(f"Is question {n} about the weather?", f"It rains on day {n}, as the forecast said.")
        session.compact()
        view = session.window(max_tokens=400, query="Which colour has Ann's loom?")
        sections = {section.name: section for section in session.receipt().sections}
    assert {"facts", "summary", "recalled"} <= sections.keys()
    told = sum(sections[name].tokens for name in ("facts", "summary", "recalled"))
    assert told == message_tokens(engine.token_counter, view[0])
    assert any("HN-48213" in item.text for item in sections["facts"].items)
    assert {item.kind for item in sections["summary"].items} == {"summary"}
    assert any("blue" in item.text for item in sections["recalled"].items)


def test_ids_made_distinct_are_within_the_limit() -> None:
    """A repeated call id gets a longer one, whose cost is counted once."""

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
    """Only system messages at the very start are always kept; a stray result does not extend the start."""
    session.append([Message(Role.TOOL, "stray", tool_call_id="9"), Message(Role.SYSTEM, "remark"), *turns(1)])
    assert [message.text for message in session.window(max_tokens=10, keep_newest=True)] == ["q 0", "a 0"]
