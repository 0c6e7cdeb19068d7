"""A turn in which tools are called hundreds of times keeps its question."""

import pytest

from arc_common import ArcSettings, ContextEngine, HeuristicTokenCounter, Message, Role, TokenBudget, ToolCall
from arc_common.messages import exchanges_of

BEFORE = 30


@pytest.fixture(params=[100, 700], ids=["longer than a leaf", "longer than what is read"])
def session(request):
    """Sixty messages, then a question and so many steps behind it, summarised as far as can be."""
    with ContextEngine.open(settings=ArcSettings(), token_counter=HeuristicTokenCounter()) as engine:
        session = engine.session("s")
        for n in range(BEFORE):
            session.save_turn(f"question {n}", f"answer {n}")
        session.append(Message("user", "find them all", id="question"))
        for n in range(request.param // 2):
            call = ToolCall("look_up", {"n": n}, id=f"c{n}")
            result = Message("tool", "found it here " * 20, tool_call_id=call.id)
            session.append([Message("assistant", None, tool_calls=(call,)), result])
        session.summarize()
        yield session


@pytest.mark.parametrize("tokens", [400, 4_000, 20_000])
def test_a_long_running_turn_keeps_its_question_and_its_newest_step(session, tokens):
    """Whatever else has to leave; the budget is used."""
    window = session.context(budget=TokenBudget(tokens, 0))
    asked = [message.text for message in window.messages if message.role is Role.USER]
    assert asked[-1].startswith("find them all")
    assert window.messages[-1].text.startswith("found it here")
    assert window.total_tokens <= tokens
    exchanges, orphans = exchanges_of(window.messages)
    assert not orphans
    assert all(exchange.complete for exchange in exchanges)
    left_out = window.receipt.nearest or window.receipt.rest
    assert window.total_tokens > 0.9 * tokens or not left_out


@pytest.mark.parametrize("reserved", [0, 390, 500])
def test_so_does_the_view_of_an_adapter(session, reserved):
    """Also where nothing is left for it."""
    view = session.window(max_tokens=400, reserved=reserved, keep_newest=True)
    asked = [message.text for message in view if message.role is Role.USER]
    assert asked[-1] == "find them all"
    assert view[-1].text.startswith("found it here")
