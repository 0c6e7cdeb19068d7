"""Facts, narrative and recent messages: what a turn sees, when summaries are adopted, and what never happens."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from threading import Barrier, Event, Lock, Thread, current_thread
from time import perf_counter
from typing import Any, ClassVar

import pytest
from sqlalchemy import create_engine

from arc_common.context_window import ContextWindow
from arc_common.engine import ContextEngine
from arc_common.exceptions import StoreUnavailableError
from arc_common.messages import Message, Role, ToolCall
from arc_common.session import Session
from arc_common.settings import ArcSettings
from arc_common.testing import CountingObserver
from arc_common.tokens.budget import TokenBudget
from arc_common.tokens.counters import HeuristicTokenCounter

LONG = 20.0
"""Seconds that nothing here takes."""


class Model:
    """Says how often it was asked; waits before an answer while it is held.

    Args:
        held: Whether it waits from the beginning.
        error: What it raises in place of an answer.
    """

    def __init__(self, *, held: bool = False, error: Exception | None = None, facts: Sequence[object] = ()) -> None:
        self.error = error
        self.facts = facts
        self.requests: list[str] = []
        self.asked = Event()
        self.may_answer = Event()
        self._lock = Lock()
        if not held:
            self.may_answer.set()

    def complete(self, messages: Sequence[Message]) -> str:
        """A summary with the number of the request."""
        with self._lock:
            self.requests.append("\n".join(message.text for message in messages))
            number = len(self.requests)
        self.asked.set()
        assert self.may_answer.wait(LONG)
        if self.error:
            raise self.error
        return json.dumps({"facts": list(self.facts), "narrative": f"MODEL {'again ' * (number - 1)}told it."})


def settings_with(**groups: Any) -> ArcSettings:
    """Settings whose model calls don't try twice."""
    return ArcSettings(model_calls={"attempts": 1}, **groups)


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    """Where conversations are kept."""
    return None if request.param == "memory" else f"sqlite:///{tmp_path / 'arc.db'}"


@pytest.fixture
def opened() -> Iterator[Callable[..., ContextEngine]]:
    """Opens engines that are closed at the end."""
    engines: list[ContextEngine] = []

    def open_engine(url: str | None = None, model: Model | None = None, **more: Any) -> ContextEngine:
        more.setdefault("settings", settings_with())
        engine = ContextEngine.open(url, chat_model=model, token_counter=HeuristicTokenCounter(), **more)
        engines.append(engine)
        return engine

    yield open_engine
    for engine in engines:
        engine.close()


def turn(number: int, text: str = "") -> list[Message]:
    """A question and its answer."""
    return [
        Message(Role.USER, f"Question {number}: {text or f'my order is ORD-{1000 + number}'}.", id=f"q{number}"),
        Message(Role.ASSISTANT, f"Answer {number}, noted.", id=f"a{number}"),
    ]


def talk(session: Session, turns: int, *, first: int = 1) -> None:
    """So many turns, one after the other."""
    for number in range(first, first + turns):
        session.append(turn(number))


def verbatim(window: ContextWindow) -> list[str | None]:
    """The ids of the stored messages that are shown as they are."""
    return [message.id for message in window.messages if message.role is not Role.SYSTEM]


def system(window: ContextWindow) -> str:
    """The leading system message."""
    return window.messages[0].text if window.messages and window.messages[0].role is Role.SYSTEM else ""


def shown(window: ContextWindow) -> str:
    """All text of a window."""
    return "\n".join(message.text for message in window.messages)


def ids(first: int, last: int) -> list[str]:
    """The ids of these turns' messages."""
    return [f"{kind}{number}" for number in range(first, last + 1) for kind in "qa"]


# When summaries are at work


def test_up_to_the_trigger_the_last_turns(url: str | None, opened: Any) -> None:
    """Twenty messages are shown as they are, with nothing in front of them."""
    session = opened(url).session("s")
    talk(session, 10)
    session.summarize()
    window = session.context()
    assert verbatim(window) == ids(1, 10)
    assert not system(window)


def test_above_the_trigger_facts_narrative_and_the_recent(url: str | None, opened: Any) -> None:
    """The older messages give way to facts and narrative; at least ten stay, in whole turns."""
    session = opened(url, Model()).session("s")
    talk(session, 11)
    session.summarize()
    window = session.context("And now?", system_prompt="Be brief.")
    assert verbatim(window) == [*ids(6, 11), None]
    assert system(window).startswith("Be brief.")
    assert "MODEL told it." in system(window)
    assert "ORD-1001" in system(window)
    assert "ORD-1006" not in system(window)


def test_a_tail_of_too_many_tokens_triggers(opened: Any) -> None:
    """Also below the high-water mark."""
    for most, expected in ((None, ids(6, 20)), (150, ids(14, 20))):
        settings = settings_with(summary={"trigger_tokens": most, "high_water_mark": 34})
        session = opened(settings=settings).session("s")
        talk(session, 11)
        session.summarize()
        session.context()
        talk(session, 9, first=12)
        session.summarize()
        assert verbatim(session.context()) == expected


def test_turned_off(opened: Any) -> None:
    """Without summaries the last turns are shown, nothing is written and nothing is asked."""
    model = Model()
    session = opened(None, model, settings=settings_with(summary={"enabled": False})).session("s")
    talk(session, 30)
    window = session.context()
    assert verbatim(window) == ids(21, 30)
    assert session.facts() == []
    assert session.summary() is None
    assert session.summarize() is None
    assert not model.requests


def test_turned_off_later(tmp_path: Path, opened: Any) -> None:
    """Then the last turns are shown again, and every original is there."""
    url = f"sqlite:///{tmp_path / 'arc.db'}"
    with opened(url) as engine:
        session = engine.session("s")
        talk(session, 30)
        session.summarize()
        assert "ORD-1001" in system(session.context())
    session = opened(url, settings=settings_with(summary={"enabled": False})).session("s")
    assert verbatim(session.context()) == ids(21, 30)
    assert not system(session.context())
    assert [message.id for message in session.messages()] == ids(1, 30)


def test_more_recent_than_there_are(opened: Any) -> None:
    """Everything is shown and nothing is summarised."""
    model = Model()
    session = opened(None, model, settings=settings_with(summary={"recent_message_count": 100})).session("s")
    talk(session, 40)
    session.summarize()
    assert verbatim(session.context()) == ids(1, 40)
    assert not system(session.context())
    assert session.summary() is None
    assert not model.requests


def test_a_restart_finds_everything(tmp_path: Path, opened: Any) -> None:
    """Another engine on the same file gives the same bytes, facts and summary, and asks no model again."""
    url = f"sqlite:///{tmp_path / 'arc.db'}"
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


# Adopting


@pytest.mark.parametrize("with_model", [False, True], ids=["rules", "model"])
def test_between_adoptions_the_view_stays(with_model: bool, opened: Any) -> None:
    """Over 200 turns the leading message changes only when the boundary moves, and that is seldom."""
    counts = CountingObserver()
    settings = settings_with(summary={"high_water_tokens": 0})
    session = opened(None, Model() if with_model else None, observer=counts, settings=settings).session("s")
    changes = prefixes = longest = 0
    before: ContextWindow | None = None
    for number in range(1, 201):
        session.append(turn(number))
        session.summarize()
        window = session.context()
        assert len(verbatim(window)) >= min(10, 2 * number)
        assert len(window.messages) <= 35
        longest = max(longest, len(verbatim(window)))
        if before is not None:
            same = system(window) == system(before)
            changes += not same
            stable = len(before.messages) - 2  # behind the current question stand facts for that question alone
            prefixes += window.messages[:stable] == before.messages[:stable]
            assert same == (verbatim(window)[0] == verbatim(before)[0])
        before = window
    assert changes == counts.counts["summary.adopted"]
    assert 12 <= changes <= 25  # one for each leaf of sixteen messages at most
    assert prefixes == 199 - changes
    assert longest == 34


def test_facts_and_system_messages_that_the_boundary_passes(url: str | None, opened: Any) -> None:
    """Instructions within a conversation stay in the prompt for good, whole and once."""
    session = opened(url).session("s")
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


def test_instructions_survive_an_edit_before_the_boundary(url: str | None, opened: Any) -> None:
    """An edited message makes the view anew; what system messages said stays, unless it is they that were edited."""
    session = opened(url).session("s")
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


def test_facts_that_are_not_pinned_come_back_with_their_question(url: str | None, opened: Any) -> None:
    """Behind the user's message; pinned ones stand where they are, once; the receipt counts those that are nowhere."""
    settings = settings_with(summary={"high_water_tokens": 0}, budget={"facts": 60})
    session = opened(url, settings=settings).session("s")
    talk(session, 30)
    session.summarize()
    came_back = 0
    for number in range(1, 21):
        window = session.context(f"And ORD-{1000 + number}?")
        facts = {section.name: [item for item in section.items if item.kind == "fact"] for section in window.sections}
        pinned, recalled = ([item.text for item in facts[name]] for name in ("facts", "memory"))
        [found] = [line for line in (*pinned, *recalled) if f"ORD-{1000 + number}" in line]
        came_back += found in recalled
        assert all(line in window.messages[-1].text for line in recalled)
        outside = [fact for fact in session.facts() if not set(fact.sources) & set(verbatim(window))]
        assert window.receipt.rest["fact that is not pinned"].count == len(outside) - len(pinned) - len(recalled)
    assert 10 < came_back < 20


def test_two_turns_adopt_at_once(tmp_path: Path, opened: Any) -> None:
    """Both see one and the same view, and it is adopted once."""
    counts = CountingObserver()
    session = opened(f"sqlite:///{tmp_path / 'arc.db'}", observer=counts).session("s")
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


# In nobody's way


def test_a_slow_model_is_bridged_verbatim(url: str | None, opened: Any) -> None:
    """While there is room everything is shown, and no turn waits or takes the rules' summary."""
    model = Model(held=True)
    session = opened(url, model).session("s")
    talk(session, 11)
    assert model.asked.wait(LONG)
    for number in range(12, 60):
        session.append(turn(number))
        window = session.context()
        assert verbatim(window) == ids(1, number)
        assert not window.receipt.notes
    assert len(model.requests) == 1
    model.may_answer.set()
    session.summarize()
    window = session.context()
    assert "MODEL " in system(window)
    assert 10 <= len(verbatim(window)) < 34


def test_no_room_and_a_slow_model(url: str | None, opened: Any) -> None:
    """The rules take its place at once, and the receipt says so; its own words come with the next adoption."""
    model = Model(held=True)
    session = opened(url, model, settings=settings_with(summary={"high_water_tokens": 0})).session("s")
    talk(session, 30)
    assert model.asked.wait(LONG)
    window = session.context("And now?", budget=TokenBudget(1_000, 0))
    assert 10 <= len(verbatim(window)) < 60
    assert "ORD-1001" in shown(window)
    assert "MODEL " not in shown(window)
    assert window.receipt.notes == ("summarised by rules: the model's summary is not there",)
    model.may_answer.set()
    session.summarize()
    talk(session, 20, first=31)
    session.summarize()
    window = session.context("And now?", budget=TokenBudget(3_000, 0))
    assert "MODEL " in system(window)
    assert not window.receipt.notes


def test_no_room_and_nobody_at_it(tmp_path: Path, opened: Any) -> None:
    """Then the turn waits for the model, and the receipt says so."""
    url = f"sqlite:///{tmp_path / 'arc.db'}"
    with opened(url, settings=settings_with(summary={"enabled": False})) as engine:
        talk(engine.session("s"), 30)
    model = Model()
    window = opened(url, model).session("s").context("And now?", budget=TokenBudget(1_000, 0))
    assert "MODEL told it." in system(window)
    assert window.receipt.notes == ("the turn waited for a summary",)


def test_it_waits_no_longer_than_it_may(tmp_path: Path, opened: Any) -> None:
    """A model that does not answer in time leaves the rules' summary; the next turn does not wait again."""
    url = f"sqlite:///{tmp_path / 'arc.db'}"
    with opened(url, settings=settings_with(summary={"enabled": False})) as engine:
        talk(engine.session("s"), 30)
    model = Model(held=True)
    session = opened(url, model, settings=settings_with(summary={"synchronous_timeout_seconds": 0.05})).session("s")
    begin = perf_counter()
    window = session.context("And now?", budget=TokenBudget(1_000, 0))
    assert perf_counter() - begin < 8  # the model is let go after 20 s only
    assert "ORD-1001" in shown(window)
    assert window.receipt.notes == (
        "the turn waited for a summary",
        "summarised by rules: the model's summary is not there",
    )
    talk(session, 30, first=31)
    window = session.context("And now?", budget=TokenBudget(1_000, 0))
    assert window.receipt.notes == ("summarised by rules: the model's summary is not there",)
    model.may_answer.set()


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(Model(error=RuntimeError("down")), id="raises"),
        pytest.param(None, id="none"),
    ],
)
def test_the_rules_serve(broken: Model | None, url: str | None, opened: Any) -> None:
    """With a model that fails, or none, the rules' facts and narrative are adopted like any other."""
    session = opened(url, broken).session("s")
    talk(session, 30)
    session.summarize()
    window = session.context("And now?")
    assert len(verbatim(window)) < 35
    assert "ORD-1001" in system(window)
    assert "User:" in system(window)


def test_a_conversation_that_is_one_turn(opened: Any) -> None:
    """With no border there is no leaf: all of it is shown, and what does not fit leaves by the window's rules."""
    session = opened(None, Model()).session("s")
    session.append(Message(Role.USER, "Go.", id="q"))
    for n in range(30):
        call = ToolCall("look", {"n": n}, id=f"c{n}")
        session.append(
            [
                Message(Role.ASSISTANT, None, tool_calls=(call,), id=f"a{n}"),
                Message(Role.TOOL, "found " * 20, tool_call_id=f"c{n}", id=f"t{n}"),
            ]
        )
    session.summarize()
    assert len(verbatim(session.context())) == 61
    window = session.context(budget=TokenBudget(600, 0))
    assert window.total_tokens <= 600
    assert window.receipt.notes == ("no more could be summarised: the last turns are shown",)


# Stores that fail


@pytest.mark.parametrize("table", ["arc_summaries", "arc_facts"])
def test_summaries_that_cannot_be_read(table: str, tmp_path: Path, opened: Any) -> None:
    """A turn goes on with what there is; saving goes on; the receipt and a count say that something is wrong."""
    counts = CountingObserver()
    session = opened(f"sqlite:///{tmp_path / 'arc.db'}", observer=counts).session("s")
    talk(session, 30)
    session.summarize()
    with closing(sqlite3.connect(tmp_path / "arc.db")) as connection:
        connection.execute(f"DROP TABLE {table}")
    window = session.context("And now?")
    assert verbatim(window)[-11:] == [*ids(26, 30), None]
    assert any("summaries were left out" in note for note in window.receipt.notes)
    talk(session, 5, first=31)
    assert verbatim(session.context())[-10:] == ids(31, 35)
    with pytest.raises(StoreUnavailableError):
        session.summarize()
    assert counts.counts["summary.errors"] == 2
    assert table == "arc_facts" or counts.counts["background.errors"] >= 1


def test_a_view_that_cannot_be_read(tmp_path: Path, opened: Any) -> None:
    """Then the last turns are shown."""
    session = opened(f"sqlite:///{tmp_path / 'arc.db'}").session("s")
    talk(session, 30)
    session.summarize()
    session.context()
    with closing(sqlite3.connect(tmp_path / "arc.db")) as connection:
        connection.execute("UPDATE arc_sessions SET view = 'no JSON'")
        connection.commit()
    window = session.context("And now?")
    assert verbatim(window) == [*ids(21, 30), None]
    assert window.receipt.notes == ("summaries were left out: JSONDecodeError",)
    assert verbatim(session.context()) == [message.id for message in session.window() if message.id]


# Edits, removals, forgetting


def everything(session: Session, window: ContextWindow) -> str:
    """All that is said of a conversation anywhere but in its originals."""
    facts = "\n".join(fact.line for fact in session.facts(include_superseded=True))
    summary = session.summary()
    return "\n".join([shown(window), facts, summary.narrative if summary else ""])


@pytest.mark.parametrize("adopted", [False, True], ids=["not yet adopted", "adopted"])
@pytest.mark.parametrize("how", ["edit", "remove"])
def test_what_was_removed_is_nowhere(how: str, adopted: bool, url: str | None, opened: Any) -> None:
    """An edited or removed message leaves neither prompt, summary nor facts with a word of it, at once and later."""
    session = opened(url).session("s")
    talk(session, 3)
    session.append(turn(4, "the vault code is VC-4711"))
    talk(session, 30, first=5)
    session.summarize()
    if adopted:
        assert "VC-4711" in everything(session, session.context())
    assert "VC-4711" in everything(session, session.context("And now?", history=[]))
    if how == "edit":
        session.append(Message(Role.USER, "Question 4: the vault code is VC-0815.", id="q4"))
    else:
        session.remove(["q4"])
    for _ in range(2):
        window = session.context("What is the vault code?")
        assert "VC-4711" not in everything(session, window)
        assert ("VC-0815" in everything(session, window)) == (how == "edit")
        assert "ORD-1002" in everything(session, window)
        session.summarize()
    ledger = session.facts()
    assert len({(fact.key, fact.value) for fact in ledger}) == len(ledger)


@pytest.mark.parametrize("how", ["edit", "remove", "clear", "delete"])
def test_what_was_removed_while_a_summary_is_made(how: str, url: str | None, opened: Any) -> None:
    """What the model read before is not stored; it reads what is there now."""
    model = Model(held=True, facts=[{"key": "vault code", "value": "VC-4711", "category": "NUMERIC"}])
    session = opened(url, model).session("s")
    session.append(turn(1, "the vault code is VC-4711"))
    talk(session, 12, first=2)
    assert model.asked.wait(LONG)
    assert "VC-4711" in model.requests[0]
    if how == "edit":
        session.append(Message(Role.USER, "Question 1: never mind.", id="q1"))
    elif how == "remove":
        session.remove(["q1"])
    elif how == "clear":
        session.clear()
    else:
        session.delete()
    model.may_answer.set()
    session.summarize()
    window = session.context("What is the vault code?")
    assert "VC-4711" not in everything(session, window)
    assert (session.summary() is None) == (how in ("clear", "delete"))
    assert all("VC-4711" not in request for request in model.requests[1:])
    if how in ("clear", "delete"):
        assert len(window.messages) == 1
        talk(session, 12, first=20)
        session.summarize()
        assert "MODEL " in system(session.context())
        assert "VC-4711" not in everything(session, session.context())


def test_closed_while_a_summary_is_made(tmp_path: Path, opened: Any) -> None:
    """What the model says afterwards is not stored, though somebody else's engine still has the database open."""
    database = create_engine(f"sqlite:///{tmp_path / 'arc.db'}")
    model = Model(held=True)
    engine = opened(database, model)
    talk(engine.session("s"), 12)
    assert model.asked.wait(LONG)
    closing = Thread(target=engine.close)
    closing.start()
    hierarchy = engine._runtime.hierarchy
    while not hierarchy.queue.stopping:
        pass
    model.may_answer.set()
    closing.join(LONG)
    assert hierarchy.queue.wait(LONG)
    with ContextEngine.open(database, token_counter=HeuristicTokenCounter(), settings=settings_with()) as other:
        summary = other.session("s").summary()
    assert summary is not None
    assert "MODEL" not in summary.narrative
    database.dispose()


# Facts and summary as they are given out


def test_facts_point_at_their_messages(url: str | None, opened: Any) -> None:
    """Each source is found, and says the fact's value; what no longer holds is kept apart."""
    model = Model(facts=[{"key": "order", "value": "ORD-1001", "category": "NUMERIC"}])
    session = opened(url, model).session("s")
    talk(session, 30)
    session.summarize()
    facts = session.facts()
    assert {f"ORD-{1000 + n}" for n in range(1, 26)} <= {word for fact in facts for word in words(fact.value)}
    for fact in facts:
        found = session.find(fact.sources)
        assert [message.id for message in found] == list(fact.sources) != []
        assert any(fact.value in message.text for message in found)


def test_a_newer_value_supersedes(url: str | None, opened: Any) -> None:
    """The earlier value is kept as history, with the id of what took its place."""
    values = iter(["Berlin", "Lisbon", *["Lisbon"] * 50])

    class Moving(Model):
        def complete(self, messages: Sequence[Message]) -> str:
            self.facts = [{"key": "home town", "value": next(values), "category": "STATE"}]
            return super().complete(messages)

    session = opened(url, Moving()).session("s")
    session.append(turn(1, "I live in Berlin"))
    talk(session, 7, first=2)
    session.append(turn(9, "I moved to Lisbon"))
    talk(session, 12, first=10)
    session.summarize()
    assert [fact.value for fact in session.facts() if fact.key == "home town"] == ["Lisbon"]
    history = [fact for fact in session.facts(include_superseded=True) if fact.key == "home town"]
    assert {fact.value for fact in history} == {"Berlin", "Lisbon"}
    old, new = sorted(history, key=lambda fact: fact.value)
    assert old.superseded_by == new.id
    assert session.find(old.sources)[0].id == "q1"


def test_the_summary_says_how_far_it_goes(url: str | None, opened: Any) -> None:
    """Counted in messages from the beginning; with what it does not stand for it makes the whole."""
    session = opened(url).session("s")
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


async def test_async_twins(url: str | None, opened: Any) -> None:
    """They give the same."""
    session = opened(url).session("s")
    await session.aappend([message for number in range(1, 31) for message in turn(number)])
    assert await session.asummarize() == session.summary() == await session.asummary()
    assert await session.afacts() == session.facts() != []
    assert (await session.acontext("And now?")).messages == session.context("And now?").messages


def words(text: str) -> list[str]:
    """Its words without points."""
    return [word.strip(".,") for word in text.split()]


# Time


def test_a_thousand_turns_with_a_slow_model(opened: Any) -> None:
    """No turn asks the model or waits for it: one call hangs all the time, and turns take what they take without it."""

    class Watched(Model):
        threads: ClassVar[set[str]] = set()

        def complete(self, messages: Sequence[Message]) -> str:
            self.threads.add(current_thread().name)
            return super().complete(messages)

    took: dict[str, list[float]] = {}
    for name, model in (("slow", Watched(held=True)), ("none", None)):
        session = opened(None, model).session("s")
        took[name] = []
        for number in range(1, 1_001):
            session.append(turn(number))
            begin = perf_counter()
            window = session.context("And now?")
            took[name].append(perf_counter() - begin)
            assert verbatim(window)[-11:] == [*ids(number - 4, number), None][-11:] or number < 5
        if model is not None:
            assert len(model.requests) == 1
            assert model.threads == {"arc-model"}
            assert "ORD-1001" in shown(session.context("What was my order ORD-1001?"))
            model.may_answer.set()
    # Two thousand messages are adopted by rules a few hundred at a time; the machine may be busy with other things.
    assert median(took["slow"]) < 0.1
    assert sorted(took["slow"])[950] < 1.0
