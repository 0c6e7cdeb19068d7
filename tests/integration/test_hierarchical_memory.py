"""Sixty facts in a long conversation: those that stay in the prompt, and those that recall finds."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from arc_common import ArcSettings, ContextEngine, TokenBudget
from tests.support.databases import sqlite_url
from tests.support.planted_facts import FACT_SETS, FIRST_SIGHT_SETS, build_conversation, load_facts

BUDGET = TokenBudget(5_000, 0)
"""About 4,400 counted tokens, since the counter keeps its error free; the number of shown facts varies by boundary."""
INVENTIONS = {"swordfish-99", "zeppelin"}


class Good:
    """A summariser that finds the planted facts and nothing else."""

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


class Failing:
    """A summariser that always fails."""

    def complete(self, messages):
        raise ConnectionError("down")


class Inventing:
    """A summariser that invents facts, names and a narrative, and removes every known fact."""

    def complete(self, messages):
        known = messages[-1].text.rpartition("<arc:conversation>")[0]
        keys = [line[2:].partition(":")[0] for line in known.splitlines() if line.startswith("- ")]
        facts = [
            {"key": "password", "value": "swordfish-99", "category": "ENTITY"},
            {"key": "vehicle", "value": "a zeppelin worth $77,777", "category": "NUMERIC"},
            {"key": "password swordfish-99", "value": "the user and the assistant", "category": "ENTITY"},
        ]
        told = "They agreed on a zeppelin for $77,777. The password is swordfish-99."
        return json.dumps({"facts": facts, "removed": keys, "narrative": told})


def folded(text):
    return " ".join(text.casefold().split())


def in_text(facts, text):
    return [fact for fact in facts if folded(fact.value) in folded(text)]


def played(planted, model, url=None):
    """Return an engine after the whole conversation, turn by turn, with its background kept up."""
    engine = ContextEngine.open(url, chat_model=model, settings=ArcSettings(model_calls={"attempts": 1}))
    session = engine.session("s")
    conversation = build_conversation(planted)
    for user, assistant in zip(conversation[::2], conversation[1::2], strict=True):
        session.context(user, system_prompt="You are helpful.", budget=BUDGET)
        session.save_turn(user, assistant)
        session.summarize()
    return engine


@pytest.fixture(scope="module")
def lived(tmp_path_factory) -> Callable[[str], Path]:
    """Return a function that gives the file of a set's conversation, summarised by rules; tests only read it."""
    folder = tmp_path_factory.mktemp("lived")

    def file(name: str) -> Path:
        path = folder / f"{name}.db"
        if not path.exists():
            played(load_facts(name), None, sqlite_url(folder, path.name)).close()
        return path

    return file


@pytest.fixture
def by_rules(lived, tmp_path) -> Iterator[Callable[[str], ContextEngine]]:
    """Return a function that opens an engine over a copy of a set's file."""
    opened = []

    def engine(name: str) -> ContextEngine:
        opened.append(ContextEngine.open(f"sqlite:///{shutil.copy(lived(name), tmp_path)}"))
        return opened[-1]

    yield engine
    for one in opened:
        one.close()


def check_prompt(planted, engine: ContextEngine, least: int) -> None:
    """Check that a prompt of 4,000 tokens, for a conversation twice as long, has enough facts and no inventions."""
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


BY_RULES, WITH_A_MODEL, ASKED = 32, 46, 52
"""The least number of 60 planted facts in a prompt by rules, in one with a model, and found by other words.
Before facts were whole sentences these were 45, 58 and 56: rules take fewer statements for facts (see the changelog),
and whole lines take more tokens. The sets have 33 to 49 by rules and 48 to 55 with a good model, excerpts included."""

SETS = (*FACT_SETS, *FIRST_SIGHT_SETS)
SHORT = ("facts_unforeseen", "facts_first_sight_work")
"""The sets of the normal suite; `make torture` runs all of them."""


def sets(names, *, short=SHORT):
    """Parametrize a test by these sets, and mark all but the short ones as torture."""
    marked = [name if name in short else pytest.param(name, marks=pytest.mark.torture) for name in names]
    return pytest.mark.parametrize("name", marked)


@sets(SETS)
def test_facts_stay_in_the_prompt(by_rules, name):
    """Rules alone keep them, and each fact's source messages contain its value, also after a restart."""
    engine = by_rules(name)
    check_prompt(load_facts(name), engine, BY_RULES)
    session = engine.session("s")
    facts = session.facts()
    assert facts
    for fact in facts:
        sources = session.find(fact.sources)
        assert len(sources) == len(fact.sources) > 0
        assert folded(fact.value) in folded(" ".join(message.text for message in sources))


@sets(SETS, short=SHORT[1:])
@pytest.mark.parametrize(
    ("make_model", "least"),
    [
        (Good, WITH_A_MODEL),
        (lambda _: Inventing(), BY_RULES),
        pytest.param(lambda _: Failing(), BY_RULES, marks=pytest.mark.torture),
    ],
    ids=["good", "inventing", "failing"],
)
def test_facts_stay_in_the_prompt_whatever_the_model(name, make_model, least):
    """An inventing model does no harm; a failing one is covered by the tests of sessions, and here by the long form."""
    planted = load_facts(name)
    with played(planted, make_model(planted)) as engine:
        check_prompt(planted, engine, least)


def lost_to_recall(planted, engine):
    """Return the questions for which recall, without an embedder, finds no message with the fact."""
    session = engine.session("s")
    return [
        fact.question
        for fact in planted
        if not in_text([fact], "\n".join(found.message.text for found in session.recall(fact.question)))
    ]


@sets([*FACT_SETS, "facts_own_question", "facts_first_sight_home"])
def test_facts_come_back_with_their_own_question(by_rules, name):
    """Recall finds a message for all but at most four questions of a set."""
    assert len(lost_to_recall(load_facts(name), by_rules(name))) <= 4


@pytest.mark.parametrize(
    "name", ["facts_first_sight_work", pytest.param("facts_first_sight_wedding", marks=pytest.mark.torture)]
)
def test_most_facts_come_back_when_asked_in_other_words(by_rules, name):
    """Without an embedder, recall misses only a few of the questions that avoid the stated words."""
    planted = load_facts(name)
    lost = lost_to_recall(planted, by_rules(name))
    assert len(planted) - len(lost) >= ASKED, lost
