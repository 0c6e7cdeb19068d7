"""An engine with a detector of contradictions that its user brings: facts and memories both ask it."""

import pytest

from arc_common import ContextEngine, Message, Role
from arc_common.exceptions import InvalidInputError
from arc_common.testing import CountingObserver


class Drinks:
    """An entailment model that knows only this: whoever drinks tea drinks no coffee."""

    def contradicts(self, statement, earlier):
        return ["tea" in statement and "coffee" in one for one in earlier]


class Broken:
    """One that cannot be reached."""

    def contradicts(self, statement, earlier):
        raise OSError("no route to the model")


def held(engine: ContextEngine, *texts: str) -> list[str]:
    """What a user's memories say, after these were added."""
    memories = engine.memories(user_id="ann")
    for text in texts:
        memories.add(text)
    return sorted(memory.text for memory in memories.list())


def test_it_decides_about_memories():
    """In place of the rules: what these would end stays."""
    with ContextEngine.open(contradiction_detector=Drinks()) as engine:
        found = held(engine, "User drinks coffee", "User lives in Seoul", "User drinks tea", "User lives in Busan")
    assert found == ["User drinks tea", "User lives in Busan", "User lives in Seoul"]


def test_it_decides_about_facts():
    """The same, for what rules take from a conversation."""
    with ContextEngine.open(contradiction_detector=Drinks()) as engine:
        session = engine.session("s")
        for text in ("My budget drink is 3 coffee pots.", "My budget drink is 5 tea pots."):
            session.append([Message(Role.USER, text), Message(Role.ASSISTANT, "Noted.")])
        for number in range(30):
            session.append([Message(Role.USER, f"Hm, {number}?"), Message(Role.ASSISTANT, "Well.")])
        session.summarize()
        assert [fact.value for fact in session.facts()] == ["My budget drink is 5 tea pots"]


def test_one_that_fails_breaks_nothing():
    """The rules decide, and failures are counted."""
    observer = CountingObserver()
    with ContextEngine.open(contradiction_detector=Broken(), observer=observer) as engine:
        assert held(engine, "User lives in Seoul", "User lives in Busan") == ["User lives in Busan"]
    assert observer.counts["memory.contradictions.errors"] > 0


def test_what_is_none_is_refused():
    """When the engine is opened."""
    with pytest.raises(InvalidInputError, match="contradiction_detector"):
        ContextEngine.open(contradiction_detector=object())
