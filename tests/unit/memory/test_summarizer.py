"""The model's summaries: form, limits, sources, and one kind of failure."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common import ArcError, ArcSettings, HeuristicTokenCounter, Message
from arc_common.exceptions import ModelCallError, SummaryFailedError
from arc_common.facts import FactCategory, ProposedFact
from arc_common.memory.summaries.summarizers import ModelSummarizer, cut_to_tokens, with_sources
from arc_common.prompts.summary import SummaryFormatError
from arc_common.testing import CountingObserver
from arc_common.testing.fakes import FailingChatModel, ReplyingChatModel
from tests.support.services import services

CHAT = [
    Message("user", "My order is ORD-7731, ship it to Porto.", id="m0"),
    Message("assistant", "ORD-7731 will go to Porto on Friday.", id="m1"),
    Message("user", "And never leave it with the neighbours, 이름은 보리예요.", id="m2"),
    Message("assistant", "Understood, thank you!", id="m3"),
]
GOOD = json.dumps(
    {
        "facts": [{"key": "order", "value": "ORD-7731 to Porto", "category": "NUMERIC"}],
        "removed": ["old address"],
        "narrative": "The user sends an order to Porto. The tone is friendly.",
    }
)


def summarizer(model, *, observer=None, calls=None, **summary):
    settings = ArcSettings(model_calls={"attempts": 1, **(calls or {})}, summary=summary)
    parts = {} if observer is None else {"observer": observer}
    return ModelSummarizer(services(settings=settings, **parts), model, pause_seconds=0)


def test_a_leaf_has_facts_with_sources_and_a_narrative():
    """By one call."""
    observer, model = CountingObserver(), ReplyingChatModel([GOOD])
    summary = summarizer(model, observer=observer).leaf(CHAT)
    assert [(fact.key, fact.value, fact.category) for fact in summary.facts] == [
        ("order", "ORD-7731 to Porto", FactCategory.NUMERIC)
    ]
    assert summary.facts[0].sources == ("m0",)
    assert summary.removed_keys == ("old address",)
    assert summary.narrative == "The user sends an order to Porto. The tone is friendly."
    assert observer.counts == {"summary.calls": 1}


@pytest.mark.parametrize(("level", "most"), [("leaf", 60), ("block", 80), ("era", 120)])
def test_narratives_keep_to_their_ceilings(level, most):
    """Cut at a sentence's end; the model is told the limit."""
    long = " ".join(f"They talked about matter number {i} for a while." for i in range(60))
    model = ReplyingChatModel([json.dumps({"facts": [], "narrative": long})])
    made = getattr(summarizer(model), level)([message.text for message in CHAT] if level == "era" else CHAT)
    assert 0 < HeuristicTokenCounter().count(made.narrative) <= most
    assert made.narrative.endswith("while.")
    assert f"{most} tokens" in model.requests[0][0].text


def test_an_answer_without_a_summary_is_sent_back_once():
    """With the reason; the second answer is taken."""
    cases = ["", "I can't help with that.", '{"facts": [], "narrative": ""}', '[{"key": "a", "value": "b"}]', "{"]
    for bad in cases:
        observer, model = CountingObserver(), ReplyingChatModel([bad, GOOD])
        summary = summarizer(model, observer=observer).leaf(CHAT)
        assert summary.narrative.startswith("The user sends")
        assert observer.counts == {"summary.calls": 2, "summary.reasks": 1}
        assert "That answer can't be used" in model.requests[1][1].text
        assert model.requests[1][1].text.startswith(model.requests[0][1].text)


@pytest.mark.parametrize("level", ["leaf", "block", "era"])
def test_a_second_answer_without_a_summary_is_a_failure(level):
    """It is not asked a third time, and nothing of what it said comes out."""
    model = ReplyingChatModel(["nonsense"])
    with pytest.raises(SummaryFailedError) as caught:
        getattr(summarizer(model), level)(["x"] if level == "era" else CHAT)
    assert isinstance(caught.value.__cause__, SummaryFormatError)
    assert isinstance(caught.value, ArcError)
    assert len(model.requests) == 2


def test_a_model_that_fails_is_a_failure_of_the_same_kind():
    """After its retries; the model's error is further down the chain."""
    model = FailingChatModel(OSError("no route"))
    with pytest.raises(SummaryFailedError, match="no route") as caught:
        summarizer(model, calls={"attempts": 3}).leaf(CHAT)
    assert isinstance(caught.value.__cause__, ModelCallError)
    assert len(model.requests) == 3


def test_sessions_share_one_breaker():
    """One summariser serves all; once the model is down, no session asks it."""
    model = FailingChatModel(OSError("down"))
    shared = summarizer(model, calls={"breaker_failures": 2})
    for call in (lambda: shared.leaf(CHAT), lambda: shared.block(CHAT), lambda: shared.era(["x"])):
        with pytest.raises(SummaryFailedError):
            call()
    assert len(model.requests) == 2


def test_a_huge_message_is_cut_for_the_model():
    """In its middle; the messages beside it are whole."""
    model = ReplyingChatModel([GOOD])
    pasted = Message("user", "begin " + "log line\n" * 100_000 + " end", id="m9")
    summarizer(model).leaf([*CHAT, pasted])
    text = model.requests[0][1].text
    assert len(text) < 40_000
    for part in ("begin", " end", "characters left out", *(message.text for message in CHAT)):
        assert part in text


def proposed(value, key="k"):
    return ProposedFact(key, value, FactCategory.GENERAL)


@pytest.mark.parametrize(
    ("fact", "sources"),
    [
        (proposed("ORD 7731"), ("m0",)),
        (proposed("neighbours"), ("m2",)),
        (proposed("Friday"), ("m1",)),
        (proposed("보리"), ("m2",)),
        (proposed("Porto, not with neighbours, on Friday"), ("m1", "m2")),
        (proposed("quokka", key="neighbours"), ("m2",)),
        (proposed("quokka"), ("m0", "m2")),
    ],
    ids=["user-first", "one", "assistant", "korean", "several", "by-key", "nowhere"],
)
def test_a_fact_points_at_the_messages_that_say_it(fact, sources):
    """The best ones; the user's before the assistant's; all of the user's where none says it."""
    assert with_sources([fact], CHAT)[0].sources == sources


def test_the_user_s_message_is_pointed_at_before_the_assistant_s():
    """Also where the assistant said it first."""
    chat = [Message("assistant", "Is it blue?", id="a"), Message("user", "Yes, it is blue.", id="u")]
    assert with_sources([proposed("blue")], chat)[0].sources == ("u",)


def test_of_messages_with_the_same_words_the_one_that_says_it_is_pointed_at():
    """What somebody removes must take along what they said, and nothing else."""
    apart = "My sister flew to Porto. My uncle works in a bank."
    chat = [Message("user", apart, id="apart"), Message("user", "My sister works in a bank in Porto.", id="says")]
    assert with_sources([proposed("My sister works in a bank in Porto")], chat)[0].sources == ("says",)


@given(st.lists(st.sampled_from([*CHAT, Message("assistant", "no id"), Message("tool", "7731", id="t")]), max_size=8))
def test_sources_are_ids_of_the_messages_given(messages):
    """At least one, as long as any message has an id; nothing else of the fact changes."""
    fact = proposed("ORD-7731 in Porto with the quokka")
    (found,) = with_sources([fact], messages)
    ids = {message.id for message in messages if message.id}
    assert set(found.sources) <= ids
    assert bool(found.sources) == bool(ids)
    assert (found.key, found.value, found.category) == (fact.key, fact.value, fact.category)


@given(st.text(st.sampled_from("ab .!?\n가。"), max_size=200), st.integers(1, 40))
def test_a_cut_text_fits_and_says_nothing_new(text, most):
    """Whole sentences where one fits, otherwise a beginning and an ellipsis."""
    count = HeuristicTokenCounter().count
    cut = cut_to_tokens(text, most, count)
    assert count(cut) <= most
    if count(text) <= most:
        assert cut == text
    assert set(cut) <= set(text) | {" ", "…"}
