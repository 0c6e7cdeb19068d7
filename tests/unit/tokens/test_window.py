"""Guarantees of message selection, and the part of a turn that is shown if it does not fit."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common import HeuristicTokenCounter
from arc_common.exceptions import InvalidInputError
from arc_common.messages import Message, Role, ToolCall, Turn, exchanges_of
from arc_common.tokens.compression import truncated
from arc_common.tokens.counters import message_tokens
from arc_common.tokens.selection import fit_exchanges, fit_turn, says_something, select_window
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
    """Calls have results, the user comes first, limits and order hold, and every message is accounted for once."""
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
    """A limit of turns keeps exactly the newest turns, without gaps."""
    everything = select_window(messages).kept
    users = [i for i, message in enumerate(everything) if message.role is Role.USER]
    kept = select_window(messages, max_turns=max_turns).kept
    if len(users) <= max_turns:
        assert kept == everything
    else:
        assert kept[-len(everything[users[-max_turns] :]) :] == everything[users[-max_turns] :]


def test_a_turn_too_large_for_the_window_keeps_its_user_message_and_newest_exchanges():
    turn = [Message("user", "go", id="u")]
    for n in range(4):
        turn += [
            Message("assistant", "", tool_calls=(ToolCall("t", {}, id=f"c{n}"),), id=f"a{n}"),
            Message("tool", "r", tool_call_id=f"c{n}", id=f"r{n}"),
        ]
    assert [message.id for message in kept_of(turn, max_messages=5)] == ["u", "a2", "r2", "a3", "r3"]
    assert [message.id for message in kept_of(turn, max_tokens=6, count=lambda _: 1)] == ["u", "a2", "r2", "a3", "r3"]


def test_open_calls_stay_only_while_the_turn_runs():
    """Providers reject a call without a result, unless its result comes next."""
    messages = [
        Message("user", "a", id="u"),
        Message("assistant", tool_calls=(ToolCall("t", {}, id="c"),), id="call"),
    ]
    assert [message.id for message in select_window(messages, live=True).kept] == ["u", "call"]
    dropped = select_window(messages).dropped
    assert [(item.message.id, item.reason) for item in dropped] == [("call", "tool call without a result")]


def test_wrong_limits_are_refused():
    for name in ["max_turns", "max_messages", "max_tokens"]:
        for value in [-1, 1.5, True, "3"]:
            with pytest.raises(InvalidInputError, match=name):
                select_window([], **{name: value}, count=cost)


def test_tokens_need_a_counter():
    with pytest.raises(InvalidInputError, match="count"):
        select_window([], max_tokens=3)


def shorten(message: Message, room: int) -> Message | None:
    """Shorten to the characters that fit, if these are more than ten."""
    return replace(message, content=message.text[: room - 1]) if room > 10 else None


def test_a_tenth_is_not_left_unused():
    """The oldest shown turn is shown in part, without a gap after it."""
    messages = chat("user", "assistant", "user", "assistant", "user", "assistant")
    messages[2] = Message("user", "a long question " * 20, id="2")
    messages[3] = Message("assistant", "a long answer " * 20, id="3")
    selection = select_window(messages, max_tokens=120, count=cost, continued=True, shorten=shorten)
    assert [message.id for message in selection.kept] == ["2", "3", "4", "5"]
    assert sum(map(cost, selection.kept)) > 108
    assert [item.message.id for item in selection.dropped] == ["0", "1"]
    assert [change.message.id for change in selection.changed] == ["2", "3"]


def test_a_turn_of_which_nothing_is_dropped_does_not_end_the_window():
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


COUNTER = HeuristicTokenCounter()


def tokens_of(message):
    """Return a message's tokens."""
    return message_tokens(COUNTER, message)


def beginning(message, room):
    """Return the beginning of a message."""
    return truncated(message, max_tokens=room, count=tokens_of)


def step(n, words, calls=1):
    """Return an assistant's calls with results of so many words."""
    made = tuple(ToolCall("look_up", {"n": n}, id=f"{n}-{i}") for i in range(calls))
    results = [Message("tool", f"found {n} " * words, tool_call_id=call.id, id=f"r{call.id}") for call in made]
    return [Message("assistant", None, tool_calls=made, id=f"a{n}"), *results]


steps = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 3)), min_size=1, max_size=12).map(
    lambda drawn: [message for n, (words, calls) in enumerate(drawn) for message in step(n, words, calls)]
)


@pytest.mark.parametrize("shortener", [None, beginning], ids=["whole or cleared", "shortened"])
@given(messages=steps, room=st.integers(0, 900))
def test_what_is_shown_fits_and_is_accounted_for(shortener, messages, room):
    """Calls keep their results, there are no gaps, each message is shown or dropped, and changes are listed."""
    exchanges, _ = exchanges_of(messages)
    fitted = fit_exchanges(exchanges, room, count=tokens_of, shorten=shortener)
    assert fitted.tokens == sum(map(tokens_of, fitted.shown)) <= room or not fitted.shown
    assert [message.id for message in (*fitted.dropped, *fitted.shown)] == [message.id for message in messages]
    shown, orphans = exchanges_of(fitted.shown)
    assert not orphans
    assert all(exchange.complete for exchange in shown)
    originals = {message.id: message for message in messages}
    changed = {change.message.id for change in fitted.changed}
    assert changed == {message.id for message in fitted.shown if message is not originals[message.id]}
    if (
        fitted.shown
        and tokens_of(exchanges[-1].messages[-1]) + tokens_of(exchanges[-1].messages[0])
        == sum(map(tokens_of, exchanges[-1].messages))
        <= room
    ):
        assert fitted.shown[-1] is messages[-1]


def test_older_results_are_cleared_before_anything_is_dropped():
    """All steps remain: the newest results whole, the oldest as a note of their size."""
    exchanges, _ = exchanges_of([message for n in range(6) for message in step(n, 40)])
    fitted = fit_exchanges(exchanges, 420, count=tokens_of, shorten=beginning)
    results = [message.text for message in fitted.shown if message.role is Role.TOOL]
    assert len(results) == 6
    assert results[0].startswith("[cleared: ")
    assert results[-1].startswith("found 5")
    assert not fitted.dropped
    assert fitted.tokens > 0.9 * 420


def test_clearing_that_would_not_save_anything_is_left_alone():
    exchanges, _ = exchanges_of([*step(0, 0), *step(1, 30)])
    fitted = fit_exchanges(exchanges, 60, count=tokens_of)
    assert all(change.tokens_after < change.tokens_before for change in fitted.changed)


def test_of_a_newest_result_too_large_the_beginning_is_shown():
    exchanges, _ = exchanges_of(step(0, 2_000))
    fitted = fit_exchanges(exchanges, 200, count=tokens_of, shorten=beginning)
    assert fitted.shown[-1].text.endswith("... [truncated]")
    assert fitted.tokens > 180
    assert fit_exchanges(exchanges, 200, count=tokens_of).shown[-1].text.startswith("[cleared: ")


def test_a_user_message_too_large_leaves_half_of_the_room_to_its_answer():
    question, answer = Message("user", "why " * 3_000, id="q"), Message("assistant", "because " * 40, id="a")
    exchanges, _ = exchanges_of([question, answer])
    fitted = fit_turn(Turn(tuple(exchanges)), 400, count=tokens_of, shorten=beginning)
    assert fitted.shown[1] is answer
    assert 380 <= fitted.tokens <= 400
    assert not fit_turn(Turn(tuple(exchanges)), 400, count=tokens_of).shown


def test_a_question_is_shortened_where_its_answer_would_not_fit():
    question, answer = Message("user", "why " * 88, id="q"), Message("assistant", "because " * 400, id="a")
    exchanges, _ = exchanges_of([question, answer])
    fitted = fit_turn(Turn(tuple(exchanges)), 100, count=tokens_of, shorten=beginning)
    assert [message.id for message in fitted.shown] == ["q", "a"]
    assert all(message.text.endswith("... [truncated]") for message in fitted.shown)
    assert 90 <= fitted.tokens <= 100
    call = ToolCall("write", {"text": "word " * 500}, id="c")
    exchanges, _ = exchanges_of(
        [question, Message("assistant", None, tool_calls=(call,)), Message("tool", "ok", tool_call_id="c")]
    )
    assert fit_turn(Turn(tuple(exchanges)), 100, count=tokens_of, shorten=beginning).shown == (question,)
    assert len(fit_turn(Turn(tuple(exchanges)), 60, count=tokens_of, shorten=beginning).shown) == 1


def test_a_question_leaves_room_for_calls_that_take_more_than_half():
    for words in [40, 70, 88, 400]:
        question, newest = Message("user", "why " * words, id="q"), step(1, 200, calls=4)
        exchanges, _ = exchanges_of([question, *newest])
        calls = tokens_of(newest[0]) + 4 * tokens_of(Message("tool", "[cleared: 600 tokens]", tool_call_id="1-0"))
        room = calls + tokens_of(Message("user", "why " * 20))
        assert tokens_of(question) > room - calls
        fitted = fit_turn(Turn(tuple(exchanges)), room, count=tokens_of, shorten=beginning)
        assert [message.id for message in fitted.shown] == ["q", *(message.id for message in newest)]
        assert room - 16 <= fitted.tokens <= room


def test_a_question_too_large_to_be_halved_is_shortened_to_all_of_the_room():
    exchanges, _ = exchanges_of([Message("user", "why " * 90), Message("assistant", "because " * 40)])
    fitted = fit_turn(Turn(tuple(exchanges)), 20, count=tokens_of, shorten=beginning)
    assert len(fitted.shown) == 1
    assert fitted.tokens > 12
