"""`fit_messages` returns messages within the limit that every provider accepts, and otherwise unchanged."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda

from arc_common import BudgetExceededError, HeuristicTokenCounter, InvalidInputError
from arc_common.exceptions import ArcError
from langchain_arc import fit_messages, from_arc, to_arc
from tests.support.langchain_agents import call
from tests.support.langchain_helpers import anthropic_request
from tests.support.providers import anthropic, gemini, openai
from tests.support.strategies import conversations


def letters(messages: Sequence[BaseMessage]) -> int:
    """Count a list: one token per letter, one per message and seven per request."""
    return 7 + sum(len(message.text) + 1 for message in messages)


def one_letter(message: BaseMessage) -> int:
    return len(message.text) + 1


class Counting(FakeListChatModel):
    """A model that counts letters as tokens."""

    def get_num_tokens_from_messages(self, messages: list[BaseMessage], tools: Any = None) -> int:
        return letters(messages)


COUNTERS: dict[str, Any] = {
    "a function over a list": letters,
    "a function over one message": one_letter,
    "a function without annotations": lambda messages: sum(len(it.text) + 1 for it in messages),
    "the number of messages": len,
    "a model": Counting(responses=["ok"]),
    "arc's heuristic": HeuristicTokenCounter(),
    "approximate": "approximate",
}


def turn(n: int, size: int = 20) -> list[BaseMessage]:
    return [
        HumanMessage(f"question {n} ".ljust(size, "?"), id=f"h{n}"),
        AIMessage("", tool_calls=[call("look", f"c{n}", q=n), call("look", f"d{n}", q=n)], id=f"a{n}"),
        ToolMessage("result".ljust(size, "."), tool_call_id=f"c{n}", id=f"t{n}"),
        ToolMessage("result".ljust(size, "."), tool_call_id=f"d{n}", id=f"u{n}"),
        AIMessage("answer".ljust(size, "."), id=f"b{n}"),
    ]


CONVERSATION: list[BaseMessage] = [SystemMessage("Be brief."), *(it for n in range(20) for it in turn(n))]


def test_the_newest_turns_that_fit() -> None:
    """Whole turns follow the system message, as the same objects."""
    for count in COUNTERS.values():
        limit = 18 if count is len else 400
        fitted = fit_messages(CONVERSATION, max_tokens=limit, token_counter=count)
        assert fitted[0] is CONVERSATION[0]
        kept = len(fitted) - 1
        assert kept % 5 == 0
        assert 5 <= kept < 100
        assert all(one is other for one, other in zip(fitted[1:], CONVERSATION[-kept:], strict=True))


def test_a_list_that_counts_as_more_than_its_messages() -> None:
    """The limit applies to the counter's result for the whole list."""

    def steep(messages: Sequence[BaseMessage]) -> int:
        return len(messages) ** 2

    fitted = fit_messages(CONVERSATION, max_tokens=130, token_counter=steep)
    assert 6 <= len(fitted) <= 11


def test_what_a_counter_adds_once_is_not_taken_for_each_message() -> None:
    """Otherwise short messages would use only a part of the limit."""
    short = [it for n in range(200) for it in (HumanMessage("a" * 9), AIMessage("b" * 9))]
    assert letters(fit_messages(short, max_tokens=1_000, token_counter=letters)) > 970


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "chain"])
async def test_the_runnable_form(way: str) -> None:
    """Like `trim_messages`, it can stand between prompt and model."""
    fit = fit_messages(max_tokens=200, token_counter=letters)
    expected = fit_messages(CONVERSATION, max_tokens=200, token_counter=letters)
    if way == "chain":
        prompt = ChatPromptTemplate.from_messages([("placeholder", "{history}")])
        assert (prompt | fit | RunnableLambda(len)).invoke({"history": CONVERSATION}) == len(expected)
    elif way == "ainvoke":
        assert await fit.ainvoke(CONVERSATION) == expected
    else:
        assert fit.invoke(CONVERSATION) == expected


def test_messages_in_any_form_that_langchain_takes() -> None:
    """Text, pairs and dictionaries are accepted."""
    fitted = fit_messages([("system", "Be brief."), {"role": "user", "content": "hi"}, "well?"], max_tokens=100)
    assert [(message.type, message.text) for message in fitted] == [
        ("system", "Be brief."),
        ("human", "hi"),
        ("human", "well?"),
    ]


@pytest.mark.parametrize("too_large", ["question", "instructions"])
def test_what_must_be_there_and_does_not_fit_raises(too_large: str) -> None:
    """The error has both figures."""
    messages = [
        SystemMessage("s" * (100 if too_large == "instructions" else 5)),
        HumanMessage("earlier"),
        AIMessage("yes"),
        HumanMessage("q" * (100 if too_large == "question" else 5)),
    ]
    with pytest.raises(BudgetExceededError) as caught:
        fit_messages(messages, max_tokens=50, token_counter=letters)
    assert (caught.value.needed, caught.value.available) == (114, 50)


def test_calls_at_the_end_are_still_to_be_answered() -> None:
    """The agent may stop before its tools."""
    messages = [HumanMessage("go"), AIMessage("", tool_calls=[call("look", "c1", q=1)])]
    assert fit_messages(messages, max_tokens=100) == messages


def test_what_no_store_could_hold_is_sent_all_the_same() -> None:
    """Objects in artifacts and blocks of unknown kinds are unchanged."""
    strange = ToolMessage([{"type": "hologram", "volume": 3}], tool_call_id="c1", artifact=object())
    messages = [HumanMessage("go"), AIMessage("", tool_calls=[call("look", "c1", q=object())]), strange]
    assert all(one is other for one, other in zip(fit_messages(messages, max_tokens=300), messages, strict=True))


def test_system_messages_in_the_middle_are_moved_up() -> None:
    """In the middle, Anthropic rejects them and Gemini drops them."""
    messages = [SystemMessage("one"), HumanMessage("hi"), SystemMessage("two"), AIMessage("yes"), HumanMessage("well?")]
    assert [message.text for message in fit_messages(messages, max_tokens=100)] == ["one", "two", "hi", "yes", "well?"]


class Words:
    """A counter that returns words instead of a number."""

    name = "words"

    def count(self, text: str) -> int:
        return text  # type: ignore[return-value]  # the point

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        return list(texts)  # type: ignore[arg-type]  # the point


def words_of_one(message: BaseMessage) -> int:
    return message.text  # type: ignore[return-value]  # the point


def test_wrong_arguments_are_named() -> None:
    """The runnable form checks them, too."""
    cases = [
        ([RemoveMessage(id="x")], {"max_tokens": 9}, "message"),
        (None, {"max_tokens": -1}, "max_tokens"),
        (5, {"max_tokens": 9}, "messages"),
        ("hi", {"max_tokens": 9}, "messages"),
        ({"role": "user", "content": "hi"}, {"max_tokens": 9}, "messages"),
        ([5], {"max_tokens": 9}, "messages"),
        ([("nobody", "hi")], {"max_tokens": 9}, "messages"),
        ([HumanMessage("hi")], {"max_tokens": 9, "token_counter": lambda _: "x"}, "token_counter"),
        ([HumanMessage("hi")], {"max_tokens": 9, "token_counter": words_of_one}, "token_counter"),
        ([HumanMessage("hi")], {"max_tokens": 9, "token_counter": Words()}, "token_counter"),
    ]
    for messages, options, field in cases:
        with pytest.raises(InvalidInputError) as caught:
            fit_messages(messages, **options)
        assert caught.value.field == field


def test_nothing_in_nothing_out() -> None:
    """An empty list has no requirements."""
    assert fit_messages([], max_tokens=0) == []


def with_blocks(message: BaseMessage) -> BaseMessage:
    """Return the message as in Anthropic's LangChain package, with calls as content blocks, too."""
    if not isinstance(message, AIMessage) or not message.tool_calls:
        return message
    text = [{"type": "text", "text": message.text}] if message.text else []
    calls = [{"type": "tool_use", "id": it["id"], "name": it["name"], "input": it["args"]} for it in message.tool_calls]
    return message.model_copy(update={"content": [*text, *calls]})


@given(conversations(), st.integers(0, 120), st.sampled_from([letters, HeuristicTokenCounter(), len]), st.booleans())
def test_never_broken_and_never_too_large(conversation: Any, limit: int, counter: Any, as_blocks: bool) -> None:
    """For any conversation, each provider accepts the result, or an error says that nothing fits."""
    messages = [from_arc(message) for message in conversation]
    if as_blocks:
        messages = list(map(with_blocks, messages))
    before = [message.model_copy(deep=True) for message in messages]
    try:
        fitted = fit_messages(messages, max_tokens=limit, token_counter=counter)
    except ArcError:
        return
    assert messages == before
    if callable(counter):
        assert not fitted or counter(fitted) <= limit
    users = [message for message in messages if message.type == "human" and message.text.strip()]
    if not users:
        return
    assert users[-1] in fitted
    calling = max((i for i, message in enumerate(fitted) if isinstance(message, AIMessage)), default=0)
    if len(getattr(fitted[calling], "tool_calls", ())) > len(fitted) - calling - 1:
        fitted = fitted[:calling]  # open calls are answered next
    if not isinstance(fitted[-1], HumanMessage | ToolMessage):
        fitted = [*fitted, HumanMessage("and now?")]  # a history before a question
    for provider in (openai, anthropic, gemini):
        found = provider.violations(provider.render([to_arc(message) for message in fitted]))
        assert found == []
    if all(it["id"] for message in fitted if isinstance(message, AIMessage) for it in message.tool_calls):
        assert anthropic.violations(anthropic_request(fitted)) == []
