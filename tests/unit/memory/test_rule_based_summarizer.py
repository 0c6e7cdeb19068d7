"""Summaries with no model."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.exceptions import InvalidInputError
from arc_common.memory.summaries.summarizers import RuleBasedSummarizer
from arc_common.messages import Message, Role
from arc_common.text.sentences import sentences_of
from arc_common.tokens.counters import HeuristicTokenCounter
from tests.support.planted_facts import FACT_SETS, build_conversation, load_facts

COUNTER = HeuristicTokenCounter()
RULES = RuleBasedSummarizer(COUNTER)


def said(*texts: str, role: Role = Role.USER) -> list[Message]:
    return [Message(role, text, id=f"m{i}") for i, text in enumerate(texts)]


def test_a_summary_has_facts_and_a_narrative() -> None:
    """Both come from the same messages; the narrative is made of whole sentences of theirs, in their order."""
    messages = build_conversation(load_facts(FACT_SETS[0]), seed=4)[:16]
    narrative = RULES.narrative(messages, max_tokens=80)
    assert 0 < COUNTER.count(narrative) <= 80
    whole = "\n".join(message.text for message in messages)
    told = sentences_of(narrative.replace("User: ", "\n").replace("Assistant: ", "\n"))
    places = [whole.index(sentence) for sentence in told]
    assert places == sorted(places)


def test_central_sentences_come_first() -> None:
    """What the others speak of too is told rather than what stands alone, however much it says."""
    messages = said(
        "Giraffes, lanterns, kettles, pianos, velvet, amber, walnuts, herons.",
        "Boilers, cellars, plumbers, valves, gaskets, copper, thermostats, radiators.",
        "Boilers, cellars, plumbers, valves, insurers, invoices, landlords, mould.",
    )
    assert "Boilers" in RULES.narrative(messages, max_tokens=24)


def test_what_was_said_first_is_told_first() -> None:
    """Sentences stand in the order of the conversation, also where the most central one was said last."""
    lines = [
        "The landlord inspected the mould and the invoices.",
        "The plumbers replaced valves and boilers.",
        "Boilers, plumbers, valves: the landlord pays the invoices.",
    ]
    central = f"User: {lines[-1]}"
    assert RULES.narrative(said(*lines), max_tokens=COUNTER.count(central)) == central
    assert RULES.narrative(said(*lines), max_tokens=60) == f"User: {' '.join(lines)}"


def test_courtesies_come_last() -> None:
    """A courtesy is told only when there is room, also when it is the longer sentence and comes first."""
    messages = said(
        "Thanks for those marvellous lanterns, kettles, pianos, walnuts, herons!", "Boilers, cellars and plumbers leak."
    )
    assert "Boilers" in RULES.narrative(messages, max_tokens=24)


def test_nothing_is_told_twice() -> None:
    """A sentence much like one that was chosen is left out."""
    line = "The boiler in the cellar leaks every night."
    assert RULES.narrative(said(line, line, line), max_tokens=200).count("boiler") == 1


def test_who_said_it() -> None:
    """Each run of sentences is attributed once, also where narratives are told again."""
    messages = [
        Message(Role.USER, "The boiler in the cellar leaks."),
        Message(Role.ASSISTANT, "A plumber should inspect the boiler."),
    ]
    first = RULES.narrative(messages, max_tokens=60)
    assert first == "User: The boiler in the cellar leaks. Assistant: A plumber should inspect the boiler."
    assert RULES.retold([first], max_tokens=60) == first
    second = "User: It is loud at night. The neighbours complained. Assistant: Ask them for patience."
    both = RULES.retold([first, second], max_tokens=200)
    assert both == f"{first} {second}"
    assert RULES.retold([first, "They spoke about the roof."], max_tokens=200) == f"{first} They spoke about the roof."


def test_what_is_told_again_stays_within_its_ceiling() -> None:
    """Whole sentences, each by who said it; of nothing, nothing."""
    narratives = [f"User: The boiler number {n} in cellar {n} leaks. It drips on shelf {n}." for n in range(20)]
    told = RULES.retold(narratives, max_tokens=40)
    assert 0 < COUNTER.count(told) <= 40
    assert told.startswith("User: ")
    assert RULES.retold([], max_tokens=40) == RULES.retold(["", " "], max_tokens=40) == ""


def test_text_is_never_answered_by_nothing() -> None:
    """A narrative of non-empty text is not empty, in any script, within its limit."""
    all_texts = [
        "보일러가 지하실에서 새요. 배관공을 불렀어요.",
        "ボイラーが壊れました。配管工を呼びました。",
        "锅炉坏了。我叫了水管工。",
        "ok",
        "?",
        "👍",
    ]
    for text in all_texts:
        for max_tokens in [2, 8, 60]:
            narrative = RULES.narrative(said(text), max_tokens=max_tokens)
            assert narrative.strip()
            assert COUNTER.count(narrative) <= max_tokens


@given(st.lists(st.tuples(st.sampled_from(list(Role)), st.text(max_size=120)), max_size=12), st.integers(1, 40))
def test_the_limit_holds_for_any_conversation(turns: list[tuple[Role, str]], max_tokens: int) -> None:
    """Within the limit, deterministic, and empty only when nobody said anything."""
    messages = [Message(role, text) for role, text in turns]
    narrative = RULES.narrative(messages, max_tokens=max_tokens)
    assert COUNTER.count(narrative) <= max_tokens
    assert narrative == RULES.narrative(messages, max_tokens=max_tokens)
    assert bool(narrative) == any(text.strip() for _, text in turns)


def test_tools_speak_only_when_nobody_else_does() -> None:
    """A tool's output is told when there is nothing else, and left out otherwise."""
    tool = Message(Role.TOOL, "The stock level of boilers is 42 units.", tool_call_id="c")
    assert "42" in RULES.narrative([tool], max_tokens=60)
    assert "42" not in RULES.narrative([tool, *said("The boiler leaks again today.")], max_tokens=60)


def test_limits_are_checked() -> None:
    """A limit below one token is refused."""
    with pytest.raises(InvalidInputError, match="max_tokens"):
        RULES.narrative(said("hello"), max_tokens=0)


def test_a_block_of_long_messages_takes_bounded_time() -> None:
    """Sixty-four messages of ten thousand words each are summarised in a few seconds."""
    messages = said(
        *(
            f"w{i}x{j} alpha beta gamma. " * 400 + " ".join(f"q{i}{k}" for k in range(9_000))
            for j in (0,)
            for i in range(64)
        )
    )
    start = time.perf_counter()
    assert RULES.narrative(messages, max_tokens=80)
    assert time.perf_counter() - start < 5
