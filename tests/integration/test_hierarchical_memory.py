"""Sixty facts in a long conversation: what is still in the prompt, and what comes back when asked for."""

import json

import pytest

from arc_common import ArcSettings, ContextEngine, TokenBudget
from tests.arc_common.memory.conversations import FACT_SETS, FIRST_SIGHT_SETS, build_conversation, load_facts
from tests.databases import sqlite_url

BUDGET = TokenBudget(5_000, 0)
"""Some 4,400 counted tokens, as the counter's error is kept free; how many facts are shown varies with the boundary."""
INVENTIONS = {"swordfish-99", "zeppelin"}


class Good:
    """A summariser that finds what was planted, and nothing else."""

    def __init__(self, facts):
        self._facts = facts

    def complete(self, messages):
        text = messages[-1].text
        found = [
            {"key": fact.question.rstrip("?"), "value": fact.value, "category": "GENERAL"}
            for fact in self._facts
            if fact.value in text
        ]
        return json.dumps({"facts": found, "narrative": "They spoke of this and that, and agreed."}, ensure_ascii=False)


class Useless:
    """A summariser that says nothing."""

    def complete(self, messages):
        return json.dumps({"facts": [], "narrative": "They talked."})


class Failing:
    """A summariser that is down."""

    def complete(self, messages):
        raise ConnectionError("down")


class Hallucinating:
    """A summariser that makes things up."""

    def complete(self, messages):
        facts = [
            {"key": "password", "value": "swordfish-99", "category": "ENTITY"},
            {"key": "vehicle", "value": "a zeppelin worth $77,777", "category": "NUMERIC"},
        ]
        return json.dumps({"facts": facts, "narrative": "They talked."})


class Embroidering:
    """A summariser that makes things up in what it tells, and in the names that it gives to what was said."""

    def complete(self, messages):
        facts = [{"key": "password swordfish-99", "value": "the user and the assistant", "category": "ENTITY"}]
        told = "They agreed on a zeppelin for $77,777. The password is swordfish-99."
        return json.dumps({"facts": facts, "narrative": told})


class Revoking:
    """A summariser that says of everything that it is shown as known that it is over."""

    def complete(self, messages):
        known = messages[-1].text.rpartition("<arc:conversation>")[0]
        keys = [line[2:].partition(":")[0] for line in known.splitlines() if line.startswith("- ")]
        return json.dumps({"facts": [], "removed": keys, "narrative": "They talked."})


def folded(text):
    return " ".join(text.casefold().split())


def in_text(facts, text):
    return [fact for fact in facts if folded(fact.value) in folded(text)]


@pytest.fixture(scope="module", params=(*FACT_SETS, *FIRST_SIGHT_SETS))
def planted(request):
    return load_facts(request.param)


def played(planted, model, url=None):
    """An engine that has lived through the conversation, turn by turn, with its background kept up."""
    engine = ContextEngine.open(url, chat_model=model, settings=ArcSettings(model_calls={"attempts": 1}))
    session = engine.session("s")
    conversation = build_conversation(planted)
    for user, assistant in zip(conversation[::2], conversation[1::2], strict=True):
        session.context(user, system_prompt="You are helpful.", budget=BUDGET)
        session.save_turn(user, assistant)
        session.summarize()
    return engine


@pytest.mark.parametrize(
    ("make_model", "least"),
    [
        pytest.param(Good, 58, id="good"),
        pytest.param(lambda _: Useless(), 45, id="useless"),
        pytest.param(lambda _: Failing(), 45, id="failing"),
        pytest.param(lambda _: Hallucinating(), 45, id="hallucinating"),
        pytest.param(lambda _: Embroidering(), 45, id="embroidering"),
        pytest.param(lambda _: Revoking(), 45, id="revoking"),
        pytest.param(lambda _: None, 45, id="rules"),
    ],
)
def test_facts_stay_in_the_prompt(planted, make_model, least):
    """At 4,000 tokens, of a conversation of twice as many; and none of a model's inventions."""
    with played(planted, make_model(planted)) as engine:
        session = engine.session("s")
        window = session.context("Is there anything else?", system_prompt="You are helpful.", budget=BUDGET)
        assert window.total_tokens <= 4_000
        prompt = "\n".join(message.text for message in window.messages)
        shown = in_text(planted, prompt)
        assert len(shown) >= least, [fact.value for fact in planted if fact not in shown]
        assert not [invention for invention in INVENTIONS if invention in prompt]
        known = "\n".join([*(fact.line for fact in session.facts()), session.summary().narrative])
        assert not [invention for invention in INVENTIONS if invention in known]
        verbatim = "\n".join(message.text for message in window.messages[1:-1])
        assert len(in_text(planted, verbatim)) < 30
        assert len(session.messages()) == 120


def lost_to_recall(planted):
    """The questions whose fact is in none of the messages that recall gives, with no embedder."""
    with played(planted, None) as engine:
        session = engine.session("s")
        return [
            fact.question
            for fact in planted
            if not in_text([fact], "\n".join(found.message.text for found in session.recall(fact.question)))
        ]


@pytest.mark.parametrize("name", [*FACT_SETS, "facts_own_question", "facts_first_sight_home"])
def test_facts_come_back_with_their_own_question(name):
    """In as many messages as recall gives: each of 420."""
    assert lost_to_recall(load_facts(name)) == []


@pytest.mark.parametrize(("name", "least"), [("facts_first_sight_work", 56), ("facts_first_sight_wedding", 57)])
def test_most_facts_come_back_when_asked_in_other_words(name, least):
    """Of 60 each; with no embedder some of those whose questions avoid the words that were said don't."""
    planted = load_facts(name)
    lost = lost_to_recall(planted)
    assert len(planted) - len(lost) >= least, lost


def test_a_restart_finds_all_of_it_again(planted, tmp_path):
    """Facts, narrative, boundary and messages are in the file."""
    url = sqlite_url(tmp_path)
    with played(planted, None, url) as engine:
        session = engine.session("s")
        before = session.context("And now?", budget=BUDGET)
        facts, summary = session.facts(), session.summary()
    with ContextEngine.open(url) as engine:
        session = engine.session("s")
        assert session.context("And now?", budget=BUDGET).messages == before.messages
        assert session.facts() == facts
        assert session.summary() == summary


def test_each_fact_names_its_messages(planted):
    """Sources resolve to messages that say it."""
    with played(planted, None) as engine:
        session = engine.session("s")
        facts = session.facts()
        assert facts
        for fact in facts:
            sources = session.find(fact.sources)
            assert len(sources) == len(fact.sources) > 0
            assert folded(fact.value) in folded(" ".join(message.text for message in sources))
