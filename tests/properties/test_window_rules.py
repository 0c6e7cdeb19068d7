"""The window rules detect windows that break them."""

from dataclasses import replace
from math import inf

import pytest

from arc_common import HeuristicTokenCounter, Message, Role, TokenBudget, ToolCall
from arc_common.context import ContextWindow, Receipt, Request
from tests.support.window_cases import Case
from tests.support.window_rules import (
    BrokenWindowError,
    answered,
    check_contents,
    check_fixed,
    check_langchain,
    check_llamaindex,
    check_order,
    check_providers,
    check_shape,
    check_tokens,
    least_more,
)

PROMPT = Message(Role.SYSTEM, "Be kind.")
QUERY = Message(Role.USER, "And tomorrow?", id="query")
USER = Message(Role.USER, "What is the weather?", id="m0")
CALL = Message(Role.ASSISTANT, None, tool_calls=(ToolCall("weather", {}, id="c1"),), id="m1")
RESULT = Message(Role.TOOL, "rain", tool_call_id="c1", id="m2")
HISTORY = (USER, CALL, RESULT)
CASE = Case(1, HeuristicTokenCounter(), Request(query=QUERY, system_prompt="Be kind."), HISTORY)
SOUND = (PROMPT, *HISTORY, QUERY)


def test_a_sound_window_passes():
    """Every rule accepts it."""
    check_fixed(CASE, SOUND)
    check_shape(SOUND, is_running=False)
    check_order(CASE, SOUND)
    for check in (check_langchain, check_llamaindex):
        check(CASE, SOUND)
    check_providers(CASE, SOUND, "arc")


@pytest.mark.parametrize(
    ("rule", "messages"),
    [
        ("empty request", ()),
        ("system prompt", (USER, QUERY)),
        ("system prompt", (replace(PROMPT, content="Be."), QUERY)),
        ("current user message", (PROMPT, USER)),
        ("current user message", (PROMPT, replace(QUERY, content="And"))),
        ("current user message", (PROMPT, QUERY, CALL)),
        ("system messages", (PROMPT, USER, PROMPT, QUERY)),
        ("first message", (PROMPT, CALL, RESULT, QUERY)),
        ("first message", (PROMPT,)),
        ("orphaned result", (PROMPT, USER, RESULT, QUERY)),
        ("orphaned result", (PROMPT, *HISTORY, RESULT, QUERY)),
        ("orphaned call", (PROMPT, USER, CALL, QUERY)),
        ("orphaned call", (PROMPT, USER, CALL, QUERY, RESULT)),
        ("orphaned call", (PROMPT, QUERY, CALL)),
        ("order", (PROMPT, CALL, RESULT, USER, QUERY)),
        ("order", (PROMPT, USER, USER, QUERY)),
    ],
)
def test_a_broken_window_is_found(rule, messages):
    """The broken rule is named."""
    found = set()
    for check in (
        lambda: check_fixed(CASE, messages),
        lambda: check_shape(messages, is_running=False),
        lambda: check_order(CASE, messages),
    ):
        try:
            check()
        except BrokenWindowError as error:
            found.add(error.rule)
        except IndexError:
            assert not messages
    assert rule in found


@pytest.mark.parametrize(
    ("messages", "more"),
    [
        pytest.param(SOUND, inf, id="all of it is shown"),
        pytest.param((PROMPT, QUERY), 4 + 6 + 17, id="a turn is left out"),
        pytest.param((PROMPT, USER, QUERY), 17, id="a call and its result are"),
        pytest.param((PROMPT, replace(USER, content="What is... [truncated]"), CALL, RESULT, QUERY), 0, id="a word is"),
    ],
)
def test_the_fewest_tokens_of_more_history(messages, more):
    """The fewest additional tokens are computed."""
    assert least_more(CASE, messages) == pytest.approx(more, abs=4)


@pytest.mark.parametrize(("total", "budget"), [(500, 400), (1, 400)], ids=["over budget", "counted too low"])
def test_tokens_are_counted_anew(total, budget):
    """Neither the window's total nor its budget is trusted."""
    case = replace(CASE, request=replace(CASE.request, budget=TokenBudget(budget, 0)))
    with pytest.raises(BrokenWindowError, match="budget"):
        check_tokens(case, ContextWindow(SOUND, (), total, Receipt(())))


def test_open_calls_of_a_running_turn_are_answered_before_a_provider_sees_them():
    """The answers are those that the agent's loop adds next."""
    assert [message.role.value for message in answered((USER, CALL))] == ["user", "assistant", "tool"]
    assert answered(HISTORY) == list(HISTORY)
    with pytest.raises(BrokenWindowError, match="unanswered"):
        check_providers(CASE, (USER, CALL, QUERY), "arc")


def test_frameworks_are_checked_on_their_own_objects():
    """A result without its call is detected there, too."""
    for check in (check_langchain, check_llamaindex):
        for messages in ((USER, RESULT), (USER, CALL, QUERY), (CALL, RESULT)):
            with pytest.raises(BrokenWindowError):
                check(CASE, messages)


def test_other_words_in_a_framework_s_message_are_found():
    """A changed text is detected in every message; a framework may join parts with other white space."""
    for place in range(len(SOUND)):
        texts = [message.text.replace(" ", "\n") for message in SOUND]
        check_contents(SOUND, texts, "LangChain")
        texts[place] = "x"
        with pytest.raises(BrokenWindowError, match="LangChain text"):
            check_contents(SOUND, texts, "LangChain")
