"""What a window of messages guarantees, whatever the conversation."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.exceptions import InvalidInputError
from arc_common.messages import Message, Role, ToolCall, exchanges_of
from arc_common.tokens.selection import says_something, select_window
from tests.support.strategies import conversations

limits = st.none() | st.integers(0, 12)


def cost(message: Message) -> int:
    return len(message.text) + 1


def chat(*roles: str) -> list[Message]:
    return [Message(role, f"{role} {i}", id=str(i)) for i, role in enumerate(roles)]


def kept_of(messages: list[Message], **limits: Any) -> list[Message]:
    return list(select_window(messages, **limits).kept)


@given(conversations(), limits, limits, st.none() | st.integers(0, 200), st.booleans(), st.booleans())
def test_every_window_is_one_that_a_provider_accepts(messages, max_turns, max_messages, max_tokens, live, keep_opening):
    """Pairs are whole, the user comes first, limits hold, order is kept, and every message is accounted for once."""
    before = list(messages)
    selection = select_window(
        messages,
        max_turns=max_turns,
        max_messages=max_messages,
        max_tokens=max_tokens,
        count=cost,
        live=live,
        keep_opening=keep_opening,
    )
    kept = list(selection.kept)

    assert messages == before
    everything = Counter(message.id for message in kept) + Counter(item.message.id for item in selection.dropped)
    assert everything == Counter(message.id for message in messages)

    spoken = [message for message in messages if says_something(message)]
    first = next((i for i, message in enumerate(spoken) if message.role is not Role.SYSTEM), len(spoken))
    body = kept[first:]
    assert kept[:first] == spoken[:first]
    assert max_messages is None or not body or len(kept) <= max_messages
    assert max_tokens is None or not body or sum(map(cost, kept)) <= max_tokens
    assert max_turns is None or sum(message.role is Role.USER for message in body) <= max_turns
    if body and not keep_opening:
        assert body[0].role is Role.USER

    exchanges, orphans = exchanges_of(body)
    assert not orphans
    open_exchanges = [exchange for exchange in exchanges if not exchange.complete]
    assert not open_exchanges or (live and exchanges[-1:] == open_exchanges)
    assert [message for exchange in exchanges for message in exchange.messages] == body, "results stand at their call"


@given(conversations(), st.integers(1, 12))
def test_nothing_that_fits_is_left_out(messages, max_turns):
    """A window of turns holds exactly the newest turns, without gaps."""
    everything = select_window(messages).kept
    users = [i for i, message in enumerate(everything) if message.role is Role.USER]
    kept = select_window(messages, max_turns=max_turns).kept
    if len(users) <= max_turns:
        assert kept == everything
    else:
        assert kept[-len(everything[users[-max_turns] :]) :] == everything[users[-max_turns] :]


@pytest.mark.parametrize(
    ("messages", "kept"),
    [
        pytest.param(chat("user", "assistant", "user", "assistant"), ["2", "3"], id="the newest turn"),
        pytest.param(chat("system", "user", "assistant", "user"), ["0", "3"], id="a leading system message stays"),
        pytest.param(chat("assistant", "user"), ["1"], id="a greeting can't come first"),
        pytest.param([], [], id="nothing"),
    ],
)
def test_last_turns(messages, kept):
    """One turn is a user message with what follows it."""
    assert [message.id for message in kept_of(messages, max_turns=1)] == kept


def test_a_window_of_messages_drops_the_turn_that_does_not_fit_whole():
    """Nineteen messages are nine whole turns."""
    messages = chat(*["user", "assistant"] * 30)
    assert kept_of(messages, max_messages=19) == messages[-18:]


def test_a_turn_too_large_for_the_window_keeps_its_user_message_and_newest_exchanges():
    """The oldest tool exchanges of the running turn go first."""
    turn = [Message("user", "go", id="u")]
    for n in range(4):
        turn += [
            Message("assistant", "", tool_calls=(ToolCall("t", {}, id=f"c{n}"),), id=f"a{n}"),
            Message("tool", "r", tool_call_id=f"c{n}", id=f"r{n}"),
        ]
    assert [message.id for message in kept_of(turn, max_messages=5)] == ["u", "a2", "r2", "a3", "r3"]
    assert [message.id for message in kept_of(turn, max_tokens=6, count=lambda _: 1)] == ["u", "a2", "r2", "a3", "r3"]


def test_a_result_that_came_late_stands_at_its_call():
    """Other writers' messages may lie between a call and its result."""
    messages = [
        Message("user", "a", id="u1"),
        Message("assistant", tool_calls=(ToolCall("t", {}, id="c"),), id="call"),
        Message("user", "b", id="u2"),
        Message("tool", "r", tool_call_id="c", id="result"),
        Message("assistant", "done", id="end"),
    ]
    assert [message.id for message in kept_of(messages, max_turns=10)] == ["u1", "call", "result", "u2", "end"]
    assert [message.id for message in kept_of(messages, max_turns=1)] == ["u2", "end"]


def test_open_calls_stay_only_while_the_turn_runs():
    """A call without a result is refused by providers, unless its result comes next."""
    messages = [
        Message("user", "a", id="u"),
        Message("assistant", tool_calls=(ToolCall("t", {}, id="c"),), id="call"),
    ]
    assert [message.id for message in select_window(messages, live=True).kept] == ["u", "call"]
    dropped = select_window(messages).dropped
    assert [(item.message.id, item.reason) for item in dropped] == [("call", "tool call without a result")]


def test_wrong_limits_are_refused():
    """A limit is a whole number of at least 0."""
    for name in ["max_turns", "max_messages", "max_tokens"]:
        for value in [-1, 1.5, True, "3"]:
            with pytest.raises(InvalidInputError, match=name):
                select_window([], **{name: value}, count=cost)


def test_tokens_need_a_counter():
    """A token limit without a way to count is a mistake."""
    with pytest.raises(InvalidInputError, match="count"):
        select_window([], max_tokens=3)


def shorten(message: Message, room: int) -> Message | None:
    """As many characters as fit, of ten and more."""
    return replace(message, content=message.text[: room - 1]) if room > 10 else None


def test_a_tenth_is_not_left_unused():
    """The oldest turn that is shown is shown in part; nothing is left out behind it."""
    messages = chat("user", "assistant", "user", "assistant", "user", "assistant")
    messages[2] = Message("user", "a long question " * 20, id="2")
    messages[3] = Message("assistant", "a long answer " * 20, id="3")
    selection = select_window(messages, max_tokens=120, count=cost, continued=True, shorten=shorten)
    assert [message.id for message in selection.kept] == ["2", "3", "4", "5"]
    assert sum(map(cost, selection.kept)) > 108
    assert [item.message.id for item in selection.dropped] == ["0", "1"]
    assert [change.message.id for change in selection.changed] == ["2", "3"]


def test_a_turn_of_which_nothing_is_dropped_does_not_end_the_window():
    """As where a picture was taken out of it: what is older may still stand before it, and in part too."""

    def without_picture(message: Message, room: int) -> Message | None:
        return (
            replace(message, content="[cleared]") if "picture" in message.text and room > 10 else shorten(message, room)
        )

    messages = chat("user", "assistant", "user", "assistant", "user", "assistant")
    messages[2] = Message("user", "picture " * 50, id="2")
    kept = select_window(messages, max_tokens=80, count=cost, continued=True, shorten=without_picture).kept
    assert [message.text for message in kept[:3]] == ["user 0", "assistant 1", "[cleared]"]
    messages[0] = Message("user", "picture " * 50, id="0")
    selection = select_window(messages, max_tokens=80, count=cost, continued=True, shorten=without_picture)
    assert [message.text for message in selection.kept[:3]] == ["[cleared]", "assistant 1", "[cleared]"]
    assert [change.message.id for change in selection.changed] == ["0", "2"]
