"""Facts, narrative and recent messages in a turn; adoption; and their public forms."""

import json
from collections.abc import Sequence
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

from arc_common import ArcSettings, ContextEngine
from arc_common.context import ContextWindow
from arc_common.messages import Message, Role
from arc_common.testing import CountingObserver, ReplyingChatModel
from tests.support.databases import sqlite_url
from tests.support.summaries import LONG, Model, ids, settings_with, shown, system, talk, turn, verbatim

# Triggers


def test_up_to_the_trigger_the_last_turns(opened: Any) -> None:
    session = opened().session("s")
    talk(session, 10)
    session.summarize()
    window = session.context()
    assert verbatim(window) == ids(1, 10)
    assert not system(window)


def test_above_the_trigger_facts_narrative_and_the_recent(opened: Any) -> None:
    """Facts and narrative replace the older messages; at least ten stay, in whole turns."""
    session = opened(model=Model()).session("s")
    talk(session, 11)
    session.summarize()
    window = session.context("And now?", system_prompt="Be brief.")
    assert verbatim(window) == [*ids(6, 11), None]
    assert system(window).startswith("Be brief.")
    assert "MODEL told it." in system(window)
    assert "ORD-1001" in system(window)
    assert "ORD-1006" not in system(window)


def test_the_facts_of_a_message_stand_in_its_order(opened: Any) -> None:
    """Neither the alphabet nor their importance decides, also if several messages have one time."""
    session = opened().session("s")
    said = "We moved to Porto. Never call before noon. Our flight is TP 1234. My sister Hana lives in Busan."
    session.append([Message("user", said), Message("user", "I have two cats.")])
    talk(session, 11)
    session.summarize()
    lines = [line.partition(": ")[2] for line in system(session.context()).splitlines() if line.startswith("- ")]
    assert lines[:5] == [
        "We moved to Porto", "Never call before noon", "Our flight is TP 1234", "My sister Hana lives in Busan",
        "I have two cats",
    ]  # fmt: skip


def test_a_tail_of_too_many_tokens_triggers(opened: Any) -> None:
    for most, expected in ((None, ids(6, 20)), (150, ids(14, 20))):
        settings = settings_with(summary={"trigger_tokens": most, "high_water_mark": 34})
        session = opened(settings=settings).session("s")
        talk(session, 11)
        session.summarize()
        session.context()
        talk(session, 9, first=12)
        session.summarize()
        assert verbatim(session.context()) == expected


def test_summaries_turned_off_later_are_not_shown(tmp_path: Path, opened: Any) -> None:
    url = sqlite_url(tmp_path)
    with opened(url) as engine:
        session = engine.session("s")
        talk(session, 30)
        session.summarize()
        assert "ORD-1001" in system(session.context())
    session = opened(url, settings=settings_with(summary={"enabled": False})).session("s")
    assert verbatim(session.context()) == ids(21, 30)
    assert not system(session.context())
    assert [message.id for message in session.messages()] == ids(1, 30)


def test_a_restart_finds_everything(tmp_path: Path, opened: Any) -> None:
    """Another engine on the same file has the same bytes, facts and summary, and calls no model."""
    url = sqlite_url(tmp_path)
    first = Model()
    with opened(url, first) as engine:
        session = engine.session("s")
        talk(session, 30)
        session.summarize()
        window = session.context("And now?")
        session.summarize()
        facts, summary = session.facts(), session.summary()
    second = Model()
    session = opened(url, second).session("s")
    assert session.context("And now?").messages == window.messages
    session.summarize()
    assert (session.facts(), session.summary()) == (facts, summary)
    assert not second.requests


# Adoption


def test_between_adoptions_the_view_stays(opened: Any) -> None:
    """Over 60 turns, the leading message changes only when the boundary moves, which is rare."""
    counts = CountingObserver()
    settings = settings_with(summary={"high_water_tokens": 0})
    session = opened(None, Model(), observer=counts, settings=settings).session("s")
    changes = prefixes = longest = 0
    before: ContextWindow | None = None
    for number in range(1, 61):
        session.append(turn(number))
        session.summarize()
        window = session.context()
        assert len(verbatim(window)) >= min(10, 2 * number)
        assert len(window.messages) <= 35
        longest = max(longest, len(verbatim(window)))
        if before is not None:
            same = system(window) == system(before)
            changes += not same
            stable = len(before.messages) - 2  # after the current question there are facts for it alone
            prefixes += window.messages[:stable] == before.messages[:stable]
            assert same == (verbatim(window)[0] == verbatim(before)[0])
        before = window
    assert changes == counts.counts["summary.adopted"]
    assert 3 <= changes <= 7  # one for each leaf of sixteen messages at most
    assert prefixes == 59 - changes
    assert longest == 34


def test_facts_and_system_messages_that_the_boundary_passes(opened: Any) -> None:
    """Instructions inside a conversation stay in the prompt, whole and once."""
    session = opened().session("s")
    session.append(Message(Role.SYSTEM, "Speak like a pirate.", id="s1"))
    talk(session, 5)
    session.append(Message(Role.SYSTEM, "Never name prices.", id="s2"))
    talk(session, 40, first=6)
    session.summarize()
    for _ in range(2):
        window = session.context(system_prompt="Be brief.")
        assert system(window).startswith("Be brief.\n\nSpeak like a pirate.\n\nNever name prices.\n\n")
        talk(session, 20, first=60)
        session.summarize()


def test_instructions_survive_an_edit_before_the_boundary(opened: Any) -> None:
    """An edit rebuilds the view; system messages stay unless they were edited."""
    session = opened().session("s")
    session.append([Message(Role.SYSTEM, "Speak like a pirate.", id="s1"), Message(Role.SYSTEM, "Old rule.", id="s2")])
    talk(session, 30)
    session.summarize()
    assert "Old rule." in system(session.context())
    session.append(Message(Role.USER, "Question 1: my order is ORD-7777.", id="q1"))
    window = session.context()
    assert system(window).startswith("Speak like a pirate.\n\nOld rule.\n\n")
    assert "ORD-7777" in system(window)
    session.append(Message(Role.SYSTEM, "New rule.", id="s2"))
    window = session.context()
    assert system(window).startswith("Speak like a pirate.\n\nNew rule.\n\n")
    assert "Old rule." not in shown(window)


def test_facts_that_are_not_adopted_come_back_with_their_question(opened: Any) -> None:
    """Each occurs once, as a fact or in the summary; the receipt counts facts not shown as such."""
    settings = settings_with(summary={"high_water_tokens": 0}, budget={"facts": 60})
    session = opened(settings=settings).session("s")
    talk(session, 30)
    session.summarize()
    for number in range(1, 21):
        window = session.context(f"And ORD-{1000 + number}?")
        items = [item for section in window.sections for item in section.items if item.kind in {"fact", "summary"}]
        assert sum(item.text.count(f"ORD-{1000 + number}") for item in items) >= 1
        assert window.receipt.rest["less relevant fact"].count > 0


@pytest.mark.parametrize("most", [14, 18, 22])
def test_a_line_that_is_part_of_another_is_shown_once(most: int) -> None:
    """A leaf without room for a whole message excerpts a part of it, and the guard keeps all its values."""
    with ContextEngine.open(settings=ArcSettings(summary={"leaf_narrative_tokens": most})) as engine:
        session = engine.session("s")
        text = "By 18 April. The flat has 82 square metres, a cellar and two balconies above the harbour."
        session.append([Message("user", text), *[Message(role, "Ok.") for role in ("assistant", "user") * 11]])
        session.summarize()
        assert engine.flush(LONG)
        shown = session.context("So?").messages[0].text
    assert [line for line in shown.splitlines() if line.startswith("- ")] == [f"- user: {text}"]


def test_an_answer_is_shown_once_with_its_question() -> None:
    """The narrative has it as it was said, and the guard with the question."""
    with ContextEngine.open(settings=ArcSettings(summary={"leaf_narrative_tokens": 60})) as engine:
        session = engine.session("s")
        session.append([Message("user", "I need a car."), Message("assistant", "When will you need it?")])
        session.append([Message("user", "On March the 5th, please."), Message("assistant", "Where will you get it?")])
        session.append([Message(role, "Ok.") for role in ("user", "assistant") * 11])
        session.summarize()
        assert engine.flush(LONG)
        shown = session.context("So?").messages[0].text
    assert [line for line in shown.splitlines() if "5th" in line] == [
        "- user: On March the 5th, please (in reply to: When will you need it?)"
    ]


@pytest.mark.parametrize(("answer", "is_open"), [("Yes, please.", False), ("Who is the best baker in Leith?", True)])
def test_a_leafs_last_question_is_open_unless_the_next_message_answers_it(answer: str, is_open: bool) -> None:
    with ContextEngine.open(settings=ArcSettings(summary={"leaf_narrative_tokens": 26})) as engine:
        session = engine.session("s")
        texts = ["The boiler in the cellar of the mill costs a lot.", *8 * ["Ok."]]
        texts += ["Shall the plumber come to the mill on 4 June?", answer, *13 * ["Ok."]]
        session.append([Message(("user", "assistant")[n % 2], text) for n, text in enumerate(texts)])
        session.summarize()
        summary = session.summary()
    assert summary is not None
    assert summary.pending == 14
    assert ("Shall the plumber" in summary.narrative) == is_open


def test_what_is_said_again_leaves_the_beginning_of_the_request_unchanged() -> None:
    """It stands twice until the next adoption, as a changed beginning is paid in full; recall does not repeat it."""
    said = "Our flight to Lisbon is TP 1234 on 3 May."
    with ContextEngine.open() as engine:
        session = engine.session("s")
        session.append([Message("user", said), *[Message(role, "Ok.") for role in ("assistant", "user") * 11]])
        session.summarize()
        assert engine.flush(LONG)
        before = session.context("So?").messages[0]
        session.append(
            [Message("assistant", "Ok."), Message("user", f"As I said: {said}"), Message("assistant", "Ok.")]
        )
        window = session.context("When is our flight to Lisbon?")
    assert said.rstrip(".") in before.text
    assert window.messages[0] == before
    assert [said.rstrip(".") in message.text for message in window.messages].count(True) == 2
    assert said.rstrip(".") not in window.messages[-1].text


@pytest.mark.parametrize("value", ["18", "18.5", "18 000", "180"])
def test_a_value_is_no_part_of_a_longer_one(value: str) -> None:
    texts = ["It will be table 18", f"It will be table {value} from Tuesday, beside the window"]
    with ContextEngine.open(settings=ArcSettings(summary={"leaf_narrative_tokens": 60})) as engine:
        session = engine.session("s")
        asked = [Message("user", text) for text in texts]
        session.append([*asked, *[Message(role, "Ok.") for role in ("assistant", "user") * 11]])
        session.summarize()
        assert engine.flush(LONG)
        shown = session.context("So?").messages[0].text
    lines = [line for line in shown.splitlines() if line.startswith("- ")]
    told = texts[1:] if value in {"18", "18 000"} else texts
    assert sorted(lines) == sorted(f"- user: {text}" for text in told)


@pytest.mark.parametrize(
    ("text", "fact", "told"),
    [
        (
            "I'm planning a trip to Europe with Hana, and I was wondering if you could name castles in Rome or Pisa",
            "I'm planning a trip to Europe with Hana",
            "… and I was wondering if you could name castles in Rome or Pisa",
        ),
        (
            "Coconut milk is one of my favourites as you might be able to tell, but I also love dark chocolate",
            "I also love dark chocolate",
            "Coconut milk is one of my favourites as you might be able to tell, but …",
        ),
    ],
)
def test_a_fact_is_not_told_again_within_a_longer_sentence(text: str, fact: str, told: str) -> None:
    with ContextEngine.open() as engine:
        session = engine.session("s")
        session.append([Message("user", f"{text}."), *[Message(role, "Ok.") for role in ("assistant", "user") * 11]])
        session.summarize()
        assert engine.flush(LONG)
        shown = session.context("So?").messages[0].text
    assert [line.rstrip(".") for line in shown.splitlines() if line.startswith("- ")] == [
        f"- user: {fact}",
        f"- user: {told}",
    ]


def test_an_answer_that_is_a_fact_is_not_told_again_without_its_question(opened: Any) -> None:
    session = opened().session("s")
    session.save_turn("Let us plan the trip.", "Which airline do you prefer?")
    session.save_turn("Anything but Ryanair.", "Noted.")
    for _ in range(14):
        session.save_turn("Hello there.", "Hi.")
    session.summarize()
    shown = system(session.context("So?"))
    assert "Anything but Ryanair (in reply to: Which airline do you prefer?)" in shown
    assert shown.count("Anything but Ryanair") == 1


BOAT = "We rented a red boat in the old harbour of Porto"
ONCE: dict[str, tuple[list[str], str | None, list[str]]] = {
    "a near-copy of a fact": ([f"{BOAT}.", "Lovely.", f"Yes, {BOAT} for a week."], None, [f"{BOAT} for a week"]),
    "a question that a fact shows": (
        ["Let us plan it.", "Which airline do you prefer for Porto?", "Anything but Ryanair."],
        None,
        ["Anything but Ryanair (in reply to: Which airline do you prefer for Porto?)"],
    ),
    "a fact in a model's summary": (
        [f"{BOAT}. Which museums are beside it?", "Let us compare the museums."],
        "In the old harbour of Porto they rented a red boat. They compared the museums beside it.",
        [BOAT, "They compared the museums beside it."],
    ),
}


@pytest.mark.parametrize("name", ONCE)
def test_facts_and_summary_say_a_thing_once(name: str) -> None:
    """A longer near-copy is shown, and of a summary's sentences those that no fact says."""
    texts, narrative, expected = ONCE[name]
    model = narrative and ReplyingChatModel([json.dumps({"facts": [{"value": BOAT}], "narrative": narrative})])
    with ContextEngine.open(chat_model=model or None) as engine:
        session = engine.session("s")
        session.append([Message(("user", "assistant")[place % 2], text) for place, text in enumerate(texts)])
        session.append([Message(role, "Ok.") for role in ("user", "assistant") * 11])
        session.summarize()
        assert engine.flush(LONG)
        shown = session.context("So?").messages[0].text
    told = shown.partition("Facts:\n")[2].replace("- user: ", "").replace("we rented", "We rented").splitlines()
    assert [line for line in told if line and line[0] not in "[<" and line != "Summary:"] == expected


class UnnamingModel:
    """Returns what its messages state, without keys."""

    def complete(self, messages: Sequence[Message]) -> str:
        said = [{"value": text} for text in (BOAT, "My aunt Hilda lives in Bergen") if text in messages[-1].text]
        return json.dumps({"facts": said, "narrative": "They talked."})


def test_facts_that_a_model_gives_no_key_stand_side_by_side(opened: Any) -> None:
    """They neither get a key nor end each other."""
    session = opened(model=UnnamingModel()).session("s")
    for text in (BOAT, "My aunt Hilda lives in Bergen"):
        session.append([Message(("user", "assistant")[n % 2], "Ok." if n else f"{text}.") for n in range(40)])
        session.summarize()
    lines = [line for line in system(session.context("So?")).splitlines() if line.startswith("- ")]
    assert lines == [f"- user: {BOAT}", "- user: My aunt Hilda lives in Bergen"]


def test_a_question_about_many_numbers_is_told_once(opened: Any) -> None:
    session = opened().session("s")
    for number in range(1, 61):
        session.save_turn(f"Do you have lamp number {number} in white, or only in black?", "In both.")
    session.compact()
    assert system(session.context("So?")).count("Do you have lamp number") == 1


def test_two_turns_adopt_at_once(tmp_path: Path, opened: Any) -> None:
    counts = CountingObserver()
    session = opened(sqlite_url(tmp_path), observer=counts).session("s")
    talk(session, 20)
    session.summarize()
    both = Barrier(4, timeout=LONG)
    windows: list[ContextWindow] = []

    def look() -> None:
        both.wait()
        windows.append(session.context())

    threads = [Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert len(windows) == 4
    assert all(window.messages == windows[0].messages for window in windows)
    assert counts.counts["summary.adopted"] == 1


# Public forms of facts and summary


def test_the_summary_says_how_far_it_goes(opened: Any) -> None:
    """It counts messages from the beginning; with the unsummarised ones they make up the whole."""
    session = opened().session("s")
    assert session.summary() is None
    for number in range(1, 40):
        session.append(turn(number))
        summary = session.summarize()
        total = 2 * number
        if summary is None:
            assert total <= 12
            continue
        assert summary.summarized_up_to + summary.pending == total
        assert summary.pending <= 17
        assert summary.created_at <= summary.updated_at
        assert summary.facts == tuple(session.facts())
