"""Turns while a model is far behind, invents things, or writes too much."""

import shutil
from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from sqlalchemy import create_engine, event

from arc_common.context import ContextWindow
from arc_common.engine.context_engine import ContextEngine
from arc_common.engine.session import Session
from arc_common.messages import Message, Role
from arc_common.protocols import SessionKey
from arc_common.settings import ArcSettings
from arc_common.stores.conversations import SqlStore
from arc_common.tokens.budget import TokenBudget
from arc_common.tokens.selection import OLDER
from tests.support.databases import rows, sqlite_url
from tests.support.probes import OwnThread
from tests.support.summaries import LONG, Model, ids, settings_with, turn

TITANIC = [{"key": "ship", "value": "Titanic", "category": "ENTITY"}]
"""A fact that nobody stated."""


@pytest.fixture
def open_session(opened: Callable[..., ContextEngine], tmp_path: Path) -> Callable[..., Session]:
    def open_it(model: Model | None, *, conversation: dict[str, Any] | None = None, **summary: Any) -> Session:
        settings = settings_with(summary=summary, conversation=conversation or {})
        return opened(sqlite_url(tmp_path), model, settings=settings).session("s")

    return open_it


def talk(session: Session, first: int, last: int) -> None:
    for number in range(first, last + 1):
        session.append(
            [
                Message(Role.USER, f"My order {number} is ORD-{1000 + number}.", id=f"q{number}"),
                Message(Role.ASSISTANT, "Noted.", id=f"a{number}"),
            ]
        )


def shown(session: Session, **more: Any) -> list[str | None]:
    """Return the ids of the stored messages in a turn."""
    return [message.id for message in session.context("And now?", **more).messages if message.id]


def test_a_gap_is_bridged_as_far_as_there_is_room(open_session: Callable[..., Session]) -> None:
    """Hundreds of unsummarised messages are shown as far as they fit."""
    model = Model(held=True)
    session = open_session(model)
    talk(session, 1, 12)
    session.context("And now?")
    assert model.asked.wait(LONG)
    for number in range(13, 201, 4):
        talk(session, number, number + 3)
        assert shown(session) == ids(1, number + 3)
    window = session.context("And now?", budget=TokenBudget(4_000, 0))
    assert window.total_tokens <= 4_000
    assert any("summarised by rules" in note for note in window.receipt.notes)
    assert any("ORD-1001" in fact.value for fact in session.facts())
    assert len(model.requests) == 1
    model.may_answer.set()


def test_a_model_that_is_too_far_behind(open_session: Callable[..., Session]) -> None:
    """Beyond some hundred messages the rules replace it, in one step, and the receipt says so."""
    model = Model(held=True)
    session = open_session(model)
    talk(session, 1, 12)
    counts = []
    notes: set[str] = set()
    for number in range(13, 301):
        talk(session, number, number)
        if number % 4:
            continue
        window = session.context("And now?")
        counts.append(len([message for message in window.messages if message.id]))
        notes.update(window.receipt.notes)
        if counts[-1] > 400:  # the rules are at work, behind these calls
            sleep(0.1)
    assert 256 < max(counts) <= 512
    assert counts[-1] < 512
    assert notes <= {"summarised by rules, because the model's summary is missing"}
    model.may_answer.set()


def test_inventions_are_shown_to_nobody(open_session: Callable[..., Session]) -> None:
    """Neither the answering nor the summarising model sees them; they are listed on request."""
    model = Model(facts=TITANIC)
    session = open_session(model)
    talk(session, 1, 40)
    session.summarize()
    window = session.context("What is the ship called, is it the Titanic?")
    answered = [message.text for message in window.messages[:-1]]
    assert not [text for text in answered if "Titanic" in text]
    assert window.messages[-1].text.count("Titanic") == 1
    assert not [request for request in model.requests if "Titanic" in request]
    assert not [fact for fact in session.facts(include_superseded=True) if fact.value == "Titanic"]
    marked = [fact for fact in session.facts(include_ungrounded=True) if fact.value == "Titanic"]
    assert len(marked) == 5
    assert not any(fact.grounded or fact.is_current for fact in marked)
    assert all(session.find(fact.sources) for fact in marked)


def test_a_summary_longer_than_its_limit(open_session: Callable[..., Session], tmp_path: Path) -> None:
    """The number and length of its omitted, oldest parts are known."""
    session = open_session(Model(), max_tokens=25, eras_enabled=False)
    talk(session, 1, 40)
    session.summarize()
    window = session.context("And now?")
    (narrative,) = [section for section in window.sections if section.name == "summary"]
    left_out = window.receipt.rest["summary beyond its limit"]
    first = session.messages().index(next(message for message in session.messages() if message in window.messages))
    written = rows(
        f"sqlite:///{tmp_path / 'arc.db'}", "SELECT * FROM arc_segments WHERE end_seq <= :first", first=first
    )
    assert left_out.count == len(written) - len(narrative.items) > 0
    assert left_out.tokens > 0


def test_what_is_written_is_adopted_before_the_room_runs_out(open_session: Callable[..., Session]) -> None:
    """Near the limit, enough messages leave at once to free two thirds of it; fewer wait."""
    session = open_session(None, high_water_tokens=100_000)
    tight = TokenBudget(3_000, 0)
    talk(session, 1, 12)
    session.summarize()
    first = shown(session)
    talk(session, 13, 22)  # 16 of these messages could leave
    session.summarize()
    assert shown(session)[0] == first[0]
    talk(session, 23, 60)
    session.summarize()
    assert shown(session)[0] == first[0]
    assert int(shown(session, budget=tight)[0][1:]) > 1
    assert len(shown(session)) == len(shown(session, budget=tight))  # messages that left stay away


def test_recent_messages_that_there_is_no_room_for_are_summarised(open_session: Callable[..., Session]) -> None:
    """Ten of 400 tokens don't fit: each message is in the request or in a summary, and each turn shows some."""
    session = open_session(None)
    said: list[str] = []
    for number in range(1, 19):
        turn = [
            Message(role, f"Number {number} of them. " * 80, id=f"{role}{number}") for role in ("user", "assistant")
        ]
        said += [message.id or "" for message in session.append(turn)]
        session.summarize()
        seen = shown(session, budget=TokenBudget(4_000, 0))
        summary = session.summary()
        if number > 10:  # below trigger_message_count there is no summary
            assert summary is not None
            assert seen == said[-len(seen) :]
            assert len(said) - len(seen) <= summary.summarized_up_to
            assert len(seen) >= 2


def test_in_a_small_window_no_message_is_left_without_a_summary(open_session: Callable[..., Session]) -> None:
    """Rules summarise messages that don't fit, however few, since they cost no call."""
    session = open_session(None)
    said: list[str] = []
    for number in range(1, 31):
        turn = [
            Message(role, f"Number {number} of them. " * 12, id=f"{role}{number}") for role in ("user", "assistant")
        ]
        said += [message.id or "" for message in session.append(turn)]
        session.summarize()
        seen = shown(session, budget=TokenBudget(1_000, 0))
        summary = session.summary()
        if number > 15:  # below trigger_message_count there is no summary
            assert summary is not None
            assert seen == said[-len(seen) :]
            assert len(said) - len(seen) <= summary.summarized_up_to
            assert seen


def test_the_threshold_is_a_share_of_the_room_or_a_number_of_tokens(open_session: Callable[..., Session]) -> None:
    """Adoption comes in the first turn beyond it, while everything still fits, without waiting."""
    adopting = {}
    for threshold in (0.2, 0.8, 3_000):
        session = open_session(None, conversation={"compression_threshold": threshold})
        session.delete()
        longest = 0
        for number in range(1, 60):
            session.append(
                turn(number, f"my order is ORD-{1000 + number}, {'as I told you before, ' * 3}so where is it")
            )
            session.summarize()
            window = session.context("And now?", budget=TokenBudget(4_000, 0))
            assert not window.receipt.notes
            history = sum(section.tokens for section in window.sections if section.name == "history")
            if history < longest // 2:
                break
            longest = max(longest, history)
        adopting[threshold] = longest
    room = 2_950  # 4,000 less the question and the memory section; there is no view yet
    assert adopting[0.2] < adopting[3_000] < adopting[0.8] <= 0.8 * room + 100, adopting


def test_short_messages_stay_verbatim_above_the_high_water_mark(open_session: Callable[..., Session]) -> None:
    seen = {}
    for tokens in (0, 600):
        session = open_session(None, high_water_tokens=tokens)
        session.delete()
        counts = []
        for number in range(1, 51):
            talk(session, number, number)
            session.summarize()
            counts.append(len(shown(session)))
        seen[tokens] = max(counts[20:])
    assert seen[0] == 34
    assert 60 < seen[600] < 80


KEY = SessionKey("s")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a read-only file of an unsummarised conversation of 1,200 messages."""
    folder = tmp_path_factory.mktemp("imported")
    settings = ArcSettings(storage={"synchronous": "normal"}, summary={"enabled": False}, recall={"enabled": False})
    with ContextEngine.open(sqlite_url(folder), settings=settings) as engine:
        engine.session(KEY.session_id).append([message for number in range(600) for message in turn(number)])
    return folder / "arc.db"


@pytest.fixture
def imported(filled: Path, tmp_path: Path) -> str:
    return f"sqlite:///{shutil.copy(filled, tmp_path)}"


READS: dict[str, Callable[[Session], object]] = {
    "context": lambda session: session.context("And my order?"),
    "context of few tokens": lambda session: session.context("And my order?", budget=TokenBudget(900, 100)),
    "window": lambda session: session.window(max_tokens=600, query="And my order?"),
    "window of a few messages": lambda session: session.window(max_messages=4),
    "facts": lambda session: session.facts(),
    "summary": lambda session: session.summary(),
    "messages": lambda session: session.messages(limit=10),
    "recall": lambda session: session.recall("And my order?", top_k=3),
}


@pytest.mark.parametrize(("name", "at_work"), [(name, place % 2 == 0) for place, name in enumerate(READS)])
def test_the_first_read_after_an_import_writes_at_most_one_leaf(imported: str, name: str, *, at_work: bool) -> None:
    """The read is the first after an import of 1,200 messages, beside the background or alone."""
    rival, own = SqlStore(imported), OwnThread(imported)
    if not at_work:
        assert rival.summaries.claim(KEY, owner="rival", seconds=600) is not None
    settings = ArcSettings(recall={"enabled": False}, summary={"synchronous_timeout_seconds": 1e-6})
    with ContextEngine.open(own.database, settings=settings) as engine:
        session = engine.session(KEY.session_id)
        session.messages(limit=1)
        own.statements.clear()
        READS[name](session)
        written = sum(sql.startswith("INSERT INTO arc_segments") for sql in own.statements)
        began = own.statements.count("BEGIN IMMEDIATE")
    own.database.dispose()
    rival.close()
    assert written <= 1
    assert began <= 4, own.statements


def test_what_is_behind_is_worked_off_after_a_read(imported: str) -> None:
    """Until then the receipt counts the omitted messages; afterwards a summary covers them."""
    rival = SqlStore(imported)
    lease = rival.summaries.claim(KEY, owner="rival", seconds=600)
    assert lease is not None
    with ContextEngine.open(imported) as engine:
        session = engine.session(KEY.session_id)
        before = session.context("And my order?", budget=TokenBudget(900, 100))
        rival.summaries.release(KEY, lease)
        after = session.context("And my order?", budget=TokenBudget(900, 100))
        session.summarize()
        summary = session.summary()
        done = session.context("And my order?", budget=TokenBudget(900, 100))
    rival.close()
    for window in (before, after):
        assert window.total_tokens <= 800
        assert _missing(window) > 1_000
    assert any("not summarised yet" in note for note in before.receipt.notes)
    assert summary is not None
    assert summary.pending < 70
    assert _missing(done) < 70


def test_working_off_an_import_reads_each_segment_a_few_times(imported: str) -> None:
    """All segments of a session are read together instead of again for each new one, which is quadratic."""
    database, statements = create_engine(imported), list[str]()
    event.listen(database, "connect", lambda connection, _: connection.set_trace_callback(statements.append))
    with ContextEngine.open(database, settings=ArcSettings(recall={"enabled": False})) as engine:
        engine.session(KEY.session_id).summarize()
    database.dispose()
    written = sum(sql.startswith("INSERT INTO arc_segments") for sql in statements)
    read_whole = sum("FROM arc_segments" in sql and "covered = 0" in sql for sql in statements)
    assert written > 16
    assert read_whole <= 4


def _missing(window: ContextWindow) -> int:
    """Return the number of messages that are neither shown nor summarised."""
    left = window.receipt.rest.get(OLDER)
    return left.count if left else 0


@pytest.mark.parametrize("waiting", [600, 1_200])
def test_turns_read_no_summaries_again_while_messages_wait(tmp_path: Path, waiting: int) -> None:
    """Only new ones are read, also those without facts that another process wrote."""
    own, url = OwnThread(sqlite_url(tmp_path)), sqlite_url(tmp_path)
    settings = settings_with(background={"in_process": False}, recall={"enabled": False})
    greetings = [Message(role, "Hello there!") for _ in range(waiting // 2) for role in (Role.USER, Role.ASSISTANT)]
    with ContextEngine.open(own.database, settings=settings) as engine:
        session = engine.session("s")
        session.append(greetings[:48])
        session.summarize()
        session.context("And now?")
        session.append(greetings)
        session.context("And now?")
        own.statements.clear()
        notes = [session.context(f"And at {hour}?").receipt.notes for hour in range(4)]
        assert all("not summarised yet" in note for (note,) in notes)
        assert not [sql for sql in own.statements if "arc_segments" in sql]
        with ContextEngine.open(url, settings=settings) as worker:
            worker.admin.work()
        assert rows(url, "SELECT facts_version FROM arc_conversations") == [(0,)]
        assert session.context("And now?").receipt.notes == ()
    own.database.dispose()
