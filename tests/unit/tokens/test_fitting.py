"""What is shown of a turn that does not fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common import HeuristicTokenCounter, Message, Role, ToolCall
from arc_common.messages import Turn, exchanges_of
from arc_common.tokens.compression import truncated
from arc_common.tokens.counters import message_tokens
from arc_common.tokens.selection import fit_exchanges, fit_turn

COUNTER = HeuristicTokenCounter()


def cost(message):
    """A message's tokens."""
    return message_tokens(COUNTER, message)


def shorten(message, room):
    """A message's beginning."""
    return truncated(message, max_tokens=room, count=cost)


def step(n, words, calls=1):
    """An assistant's calls with results of so many words."""
    made = tuple(ToolCall("look_up", {"n": n}, id=f"{n}-{i}") for i in range(calls))
    results = [Message("tool", f"found {n} " * words, tool_call_id=call.id, id=f"r{call.id}") for call in made]
    return [Message("assistant", None, tool_calls=made, id=f"a{n}"), *results]


steps = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 3)), min_size=1, max_size=12).map(
    lambda drawn: [message for n, (words, calls) in enumerate(drawn) for message in step(n, words, calls)]
)


@pytest.mark.parametrize("shortener", [None, shorten], ids=["whole or cleared", "shortened"])
@given(messages=steps, room=st.integers(0, 900))
def test_what_is_shown_fits_and_is_accounted_for(shortener, messages, room):
    """Pairs stay together, there are no gaps, each message is shown or dropped, and what changed is named."""
    exchanges, _ = exchanges_of(messages)
    fitted = fit_exchanges(exchanges, room, count=cost, shorten=shortener)
    assert fitted.tokens == sum(map(cost, fitted.shown)) <= room or not fitted.shown
    assert [message.id for message in (*fitted.dropped, *fitted.shown)] == [message.id for message in messages]
    shown, orphans = exchanges_of(fitted.shown)
    assert not orphans
    assert all(exchange.complete for exchange in shown)
    originals = {message.id: message for message in messages}
    changed = {change.message.id for change in fitted.changed}
    assert changed == {message.id for message in fitted.shown if message is not originals[message.id]}
    if (
        fitted.shown
        and cost(exchanges[-1].messages[-1]) + cost(exchanges[-1].messages[0])
        == sum(map(cost, exchanges[-1].messages))
        <= room
    ):
        assert fitted.shown[-1] is messages[-1]


def test_older_results_are_cleared_before_anything_is_dropped():
    """All steps are still there; the newest results whole, the oldest as a word on their size."""
    exchanges, _ = exchanges_of([message for n in range(6) for message in step(n, 40)])
    fitted = fit_exchanges(exchanges, 420, count=cost, shorten=shorten)
    results = [message.text for message in fitted.shown if message.role is Role.TOOL]
    assert len(results) == 6
    assert results[0].startswith("[cleared: ")
    assert results[-1].startswith("found 5")
    assert not fitted.dropped
    assert fitted.tokens > 0.9 * 420


def test_clearing_that_would_not_save_anything_is_left_alone():
    """A short result is shorter than the word on its size."""
    exchanges, _ = exchanges_of([*step(0, 0), *step(1, 30)])
    fitted = fit_exchanges(exchanges, 60, count=cost)
    assert all(change.tokens_after < change.tokens_before for change in fitted.changed)


def test_of_a_newest_result_too_large_the_beginning_is_shown():
    """Without a way to shorten it, its size is."""
    exchanges, _ = exchanges_of(step(0, 2_000))
    fitted = fit_exchanges(exchanges, 200, count=cost, shorten=shorten)
    assert fitted.shown[-1].text.endswith("... [truncated]")
    assert fitted.tokens > 180
    assert fit_exchanges(exchanges, 200, count=cost).shown[-1].text.startswith("[cleared: ")


def test_a_user_message_too_large_leaves_half_of_the_room_to_its_answer():
    """And takes what that does not need."""
    question, answer = Message("user", "why " * 3_000, id="q"), Message("assistant", "because " * 40, id="a")
    exchanges, _ = exchanges_of([question, answer])
    fitted = fit_turn(Turn(tuple(exchanges)), 400, count=cost, shorten=shorten)
    assert fitted.shown[1] is answer
    assert 380 <= fitted.tokens <= 400
    assert not fit_turn(Turn(tuple(exchanges)), 400, count=cost).shown


def test_a_question_is_shortened_where_its_answer_would_not_fit():
    """Half of the room is the answer's; a question whose answer can't be cut stands alone, and whole."""
    question, answer = Message("user", "why " * 88, id="q"), Message("assistant", "because " * 400, id="a")
    exchanges, _ = exchanges_of([question, answer])
    fitted = fit_turn(Turn(tuple(exchanges)), 100, count=cost, shorten=shorten)
    assert [message.id for message in fitted.shown] == ["q", "a"]
    assert all(message.text.endswith("... [truncated]") for message in fitted.shown)
    assert 90 <= fitted.tokens <= 100
    call = ToolCall("write", {"text": "word " * 500}, id="c")
    exchanges, _ = exchanges_of(
        [question, Message("assistant", None, tool_calls=(call,)), Message("tool", "ok", tool_call_id="c")]
    )
    assert fit_turn(Turn(tuple(exchanges)), 100, count=cost, shorten=shorten).shown == (question,)
    assert len(fit_turn(Turn(tuple(exchanges)), 60, count=cost, shorten=shorten).shown) == 1


def test_a_question_leaves_room_for_calls_that_take_more_than_half():
    """Their results cleared, if need be: the beginning of a question with its answer says more than all of it alone."""
    for words in [40, 70, 88, 400]:
        question, newest = Message("user", "why " * words, id="q"), step(1, 200, calls=4)
        exchanges, _ = exchanges_of([question, *newest])
        calls = cost(newest[0]) + 4 * cost(Message("tool", "[cleared: 600 tokens]", tool_call_id="1-0"))
        room = calls + cost(Message("user", "why " * 20))
        assert cost(question) > room - calls
        fitted = fit_turn(Turn(tuple(exchanges)), room, count=cost, shorten=shorten)
        assert [message.id for message in fitted.shown] == ["q", *(message.id for message in newest)]
        assert room - 16 <= fitted.tokens <= room


def test_a_question_too_large_to_be_halved_is_shortened_to_all_of_the_room():
    """Where half of it holds no beginning worth showing."""
    exchanges, _ = exchanges_of([Message("user", "why " * 90), Message("assistant", "because " * 40)])
    fitted = fit_turn(Turn(tuple(exchanges)), 20, count=cost, shorten=shorten)
    assert len(fitted.shown) == 1
    assert fitted.tokens > 12
