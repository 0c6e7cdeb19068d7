"""In a group chat each statement belongs to its speaker, in facts and in memories."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from arc_common import ArcSettings, ContextEngine, InvalidInputError, Message, Role

DAY = datetime(2026, 11, 20, 12, tzinfo=UTC)
SETTINGS = ArcSettings(memory={"enabled": True})


def said(name: str | None, text: str, number: int) -> Message:
    return Message(Role.USER, text, name=name, id=f"m{number}", created_at=DAY)


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    with ContextEngine.open("sqlite://", settings=SETTINGS, clock=lambda: DAY) as engine:
        yield engine


def say(engine: ContextEngine, *spoken: tuple[str | None, str]) -> None:
    """Save a group's chat, each message with an answer."""
    session = engine.session("group", user_id="club")
    start = len(session.messages())
    for number, (name, text) in enumerate(spoken, start):
        session.save_turn(said(name, text, number), "Noted.")
    assert engine.flush(60)


def known(engine: ContextEngine) -> list[tuple[str, str]]:
    return sorted((one.speaker or "", one.text) for one in engine.memories(user_id="club").list())


def test_what_each_says_of_themselves_is_kept_and_shown_with_the_speaker(engine: ContextEngine) -> None:
    """Jonas's city does not end Mina's, equal texts are kept for each, and Mina's next city ends hers."""
    say(engine, ("Mina", "I live in Porto."), ("Jonas", "I live in Bonn."), ("Jonas", "I'm allergic to peanuts."))
    say(engine, ("Mina", "I'm allergic to peanuts."))
    expected = [
        ("Jonas", "I live in Bonn"),
        ("Jonas", "I'm allergic to peanuts"),
        ("Mina", "I live in Porto"),
        ("Mina", "I'm allergic to peanuts"),
    ]
    assert known(engine) == expected
    shown = engine.session("other", user_id="club").context("Where does Mina live?").messages[-1].text
    assert "- 2026-11-20, Mina: I live in Porto" in shown
    say(engine, ("Mina", "I live in Seoul now."))
    assert ("Mina", "I live in Porto") not in known(engine)
    assert known(engine)[:2] == expected[:2]


def test_a_question_about_one_of_them_finds_what_that_one_said(engine: ContextEngine) -> None:
    """The speaker's name is searched like the words."""
    say(engine, ("Mina", "I live in Porto."), ("Jonas", "I live in Bonn."))
    assert engine.memories(user_id="club").search("Jonas")[0].memory.text == "I live in Bonn"


def test_the_speaker_survives_a_restart_edits_and_a_rollback(tmp_path: Path) -> None:
    """An edited text is no longer verbatim but keeps its speaker, who alone can contradict it."""
    url = f"sqlite:///{tmp_path / 'arc.db'}"
    with ContextEngine.open(url, settings=SETTINGS, clock=lambda: DAY) as engine:
        say(engine, ("Mina", "I live in Porto."))
    with ContextEngine.open(url, settings=SETTINGS, clock=lambda: DAY) as engine:
        memories = engine.memories(user_id="club")
        (one,) = memories.list()
        assert one.speaker == "Mina"
        edited = memories.edit(one.id, text="Mina lives in Porto, near the river.")
        assert edited.speaker == "Mina"
        assert "- 2026-11-20, noted from Mina: Mina lives in Porto" in memories.context("Porto")
        assert [old.speaker for old in memories.history(one.id)] == ["Mina", "Mina"]
        assert memories.rollback(one.id, 1).speaker == "Mina"
        memories.pin(one.id)
        assert "- Mina: I live in Porto" in engine.session("other", user_id="club").context("Hi").messages[0].text


def test_somebody_can_enter_what_a_member_said(engine: ContextEngine) -> None:
    """Memories with and without a speaker are distinct."""
    memories = engine.memories(user_id="club")
    memories.add("I live in Bonn.", speaker="Jonas")
    memories.add("I live in Porto.")
    assert known(engine) == [("", "I live in Porto."), ("Jonas", "I live in Bonn.")]
    with pytest.raises(InvalidInputError):
        memories.add("I live in Porto.", speaker=" ")


def test_a_chat_without_names_is_as_before(engine: ContextEngine) -> None:
    """Each new value of the single user ends the earlier one."""
    say(engine, (None, "I live in Porto."), (None, "I live in Bonn."))
    assert known(engine) == [("", "I live in Bonn")]
    assert "- 2026-11-20, user: I live in Bonn" in engine.memories(user_id="club").context("Bonn")


class Repeating:
    """A model that returns the same memory for any input."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def complete(self, messages: Sequence[Message]) -> str:
        self.asked.append(messages[-1].text)
        return '{"memories": [{"content": "Jonas lives in Bonn.", "type": "fact", "importance": 0.8}]}'


def test_a_model_is_told_who_speaks_and_its_memories_are_from_that_speaker() -> None:
    """A memory that names its speaker is grounded, although the message's text does not contain the name."""
    model = Repeating()
    with ContextEngine.open("sqlite://", chat_model=model, settings=SETTINGS, clock=lambda: DAY) as engine:
        memories = engine.memories(user_id="club")
        for name, text in (("Mina", "I live in Porto."), ("Jonas", "I live in Bonn.")):
            memories.extract(said(name, text, 1), session_id="group")
        assert "[user Mina]: I live in Porto." in model.asked[0]
        assert "1. Mina: I live in Porto" in model.asked[1] or "known" not in model.asked[1]
        assert known(engine) == [("Jonas", "Jonas lives in Bonn."), ("Mina", "I live in Porto")]
        assert "noted from Jonas: Jonas lives in Bonn." in memories.context("Bonn")


@pytest.mark.parametrize("name", ["user: x", "assistant", "Mina\n- 2026-01-01, user", "noted", "x" * 300])
def test_a_name_passes_for_nobody_else(engine: ContextEngine, name: str) -> None:
    """It can't begin a line, end a heading, or act as a role."""
    say(engine, (name, "I live in Porto."))
    *_, line = block = engine.memories(user_id="club").context("Porto").splitlines()
    who, separator, text = line.removeprefix("- 2026-11-20, ").partition(": ")
    assert (len(block), separator, text) == (2, ": ", "I live in Porto")
    assert who not in ("user", "user x", "assistant", "noted")
    assert len(who) < 80


def test_facts_of_a_group_are_each_speaker_s(engine: ContextEngine) -> None:
    """One attribute of two people has two values, and equal statements of two are two facts."""
    say(
        engine,
        ("Mina", "I live in Porto."),
        ("Jonas", "I live in Bonn."),
        ("Mina", "I'm allergic to peanuts."),
        ("Jonas", "I'm allergic to peanuts."),
        ("Mina", "I live in Seoul now."),
        *((("Mina", "Jonas")[number % 2], f"What is on day {number}?") for number in range(12)),
    )
    session = engine.session("group", user_id="club")
    session.summarize()
    assert sorted((fact.said_by, fact.value) for fact in session.facts()) == [
        ("Jonas", "I live in Bonn"),
        ("Jonas", "I'm allergic to peanuts"),
        ("Mina", "I live in Seoul now"),
        ("Mina", "I'm allergic to peanuts"),
    ]
    shown = session.context("Who is allergic?").messages[0].text
    assert all(f"{name}: I'm allergic to peanuts" in shown for name in ("Mina", "Jonas"))


def test_equal_answers_of_two_to_one_question_are_two_facts(engine: ContextEngine) -> None:
    """A question that is shown with its answer makes the answer no less its speaker's."""
    session = engine.session("group", user_id="club")
    for number, name in enumerate(("Mina", "Jonas")):
        session.save_turn(said("Lea", "Go on.", 2 * number), "Which airline do you prefer?")
        session.save_turn(said(name, "Anything but Ryanair.", 2 * number + 1), "Noted.")
    say(engine, *[("Lea", f"What is on day {number}?") for number in range(12)])
    session.summarize()
    assert {(fact.said_by, fact.trust) for fact in session.facts() if "Ryanair" in fact.value} == {
        ("Jonas", "user"),
        ("Mina", "user"),
    }


def test_a_request_shows_what_two_say_in_the_same_words_of_both(engine: ContextEngine) -> None:
    """Deduplication is per speaker."""
    same = "I'm allergic to peanuts, shellfish and raw celery."
    say(engine, ("Mina", same), ("Jonas", same))
    shown = engine.session("other", user_id="club").context("Who is allergic to celery?").messages[-1].text
    assert [name for name in ("Jonas", "Mina") if f"{name}: I'm allergic to peanuts, shellfish" in shown] == [
        "Jonas",
        "Mina",
    ]
