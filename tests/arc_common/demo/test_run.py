"""DemoRun plays all turns once, goes on where it was left, and measures what the model received."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest

from arc_common.demo.halves import Half
from arc_common.demo.run import CONTEXT_WINDOW, SESSION, WINDOW, DemoRun, TurnRecord
from arc_common.demo.script import support_script
from arc_common.engine import ContextEngine
from arc_common.exceptions import ConfigurationError
from arc_common.messages import Message, Role
from arc_common.testing import ScriptedChatModel
from tests.arc_common.demo.halves import FIRST, SECOND

script = support_script()
pytestmark = pytest.mark.xdist_group("demo run")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/demo.db"


@contextmanager
def opened(url: str, halves: Sequence[Half] = (FIRST, SECOND)) -> Iterator[DemoRun]:
    run = DemoRun(url, script, halves, ScriptedChatModel(), "local")
    try:
        yield run
    finally:
        run.close()


def played(url: str, turns: int | None = None, halves: Sequence[Half] = (FIRST, SECOND)) -> list[TurnRecord]:
    with opened(url, halves) as run:
        return list(islice(run.play(), turns))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The database of a run without interruption; not to be written to."""
    url = f"sqlite:///{tmp_path_factory.mktemp('whole')}/demo.db"
    played(url)
    return url


@pytest.fixture(scope="module")
def records(whole: str) -> list[TurnRecord]:
    with opened(whole) as run:
        return run.done()


def texts(url: str) -> list[str]:
    with ContextEngine.open(url) as engine:
        return [message.text for message in engine.session(SESSION).messages()]


def test_every_turn_is_stored_once(whole: str) -> None:
    """Two messages a turn, the user's words as they are written."""
    stored = texts(whole)
    assert stored[::2] == [turn.user for turn in script.turns]
    assert len(stored) == 2 * len(script.turns)


def test_the_second_half_takes_over_where_the_script_says(records: list[TurnRecord]) -> None:
    """The first framework plays up to the handover, the other one the rest."""
    frameworks = [record.framework for record in records]
    assert frameworks == ["First"] * script.handover + ["Second"] * (len(script.turns) - script.handover)


def test_a_single_half_plays_all(url: str) -> None:
    """Without the other framework the conversation is still whole."""
    assert {record.framework for record in played(url, halves=[SECOND])} == {"Second"}
    assert len(texts(url)) == 2 * len(script.turns)


def test_arc_is_right_about_everything_and_the_window_about_what_is_recent(records: list[TurnRecord]) -> None:
    """The same model, the same questions, and only what it was shown differs."""
    for turn, question in script.questions:
        record = records[turn.number - 1]
        recent = 2 * (turn.number - question.stated) <= WINDOW
        assert question.value_in(record.arc.answer)
        assert bool(question.value_in(record.window.answer)) == recent


def test_views_say_which_messages_a_request_held(records: list[TurnRecord]) -> None:
    """The newest, without a gap; with arc the older ones' place is taken by facts and summary, not before."""
    for record in records:
        before = 2 * (record.number - 1)
        parts = record.arc.parts
        assert record.arc.seen == tuple(range(before - len(record.arc.seen) + 1, before + 1))
        assert record.window.seen == tuple(range(max(before - WINDOW, 0) + 1, before + 1))
        assert record.arc.tokens > sum(parts.values()) > parts["question"] > 0
        assert (parts["history"] > 0) == (before > 0)
        shortened = len(record.arc.seen) < before
        assert (parts["facts"] > 0, parts["summary"] > 0) == (shortened, shortened)
        assert bool({*record.arc.noted} - {*record.arc.seen}) == shortened
        assert not record.window.noted


def test_arc_makes_requests_smaller_than_the_whole_conversation(records: list[TurnRecord]) -> None:
    """As soon as facts and summary stand for something; before that they are the same, and so is a short window."""
    for record in records:
        if record.arc.noted:
            assert record.arc.tokens < record.whole
        else:
            assert record.arc.tokens == record.whole
    assert records[-1].arc.noted
    assert records[0].window.tokens == records[0].whole


def test_facts_keep_within_their_share(records: list[TurnRecord]) -> None:
    """15 % of what a request may hold, and their heading."""
    most = 0.15 * (CONTEXT_WINDOW - 1_024)
    assert max(record.arc.parts["facts"] for record in records) < most + 40


def test_two_runs_are_the_same(url: str, records: list[TurnRecord]) -> None:
    """Each request to the token, although summaries are written in the background."""
    assert played(url) == records


@pytest.mark.parametrize("turns", [script.handover, len(script.turns) - 1])
def test_a_stopped_run_goes_on_where_it_stopped(url: str, whole: str, records: list[TurnRecord], turns: int) -> None:
    """In the end it is the conversation, and the records, of a run without interruption."""
    played(url, turns)
    assert [record.number for record in played(url)] == list(range(turns + 1, len(script.turns) + 1))
    assert texts(url) == texts(whole)
    with opened(url) as run:
        assert run.done() == records


@pytest.mark.parametrize("left", [1, 2], ids=["question only", "turn without record"])
def test_what_a_killed_process_left_unfinished_is_played_again(url: str, left: int) -> None:
    """Nothing is asked twice in what is stored."""
    played(url, 5)
    unfinished = [Message(Role.USER, script.turns[5].user), Message(Role.ASSISTANT, "half a")][:left]
    with ContextEngine.open(url) as engine:
        engine.session(SESSION).append(unfinished)
    played(url, 1)
    stored = texts(url)
    assert len(stored) == 12
    assert stored[-1] == script.turns[5].reply


def test_a_finished_run_plays_nothing(whole: str) -> None:
    """Its records are all there is to show."""
    assert played(whole) == []


def test_restart_removes_the_demo_and_nothing_else(url: str) -> None:
    """Another conversation in the same file stays."""
    with ContextEngine.open(url) as engine:
        engine.session("mine").append(Message(Role.USER, "keep me"))
    played(url, 3)
    with opened(url) as run:
        run.restart()
        assert run.done() == []
    assert texts(url) == []
    with ContextEngine.open(url) as engine:
        assert len(engine.session("mine").messages()) == 1


@pytest.mark.parametrize("session", [SESSION, "arc-demo-records"])
def test_a_changed_conversation_is_not_continued(url: str, session: str) -> None:
    """The error says how to begin anew, and nothing is written."""
    played(url, 3)
    with ContextEngine.open(url) as engine:
        first = engine.session(session).messages()[0]
        engine.session(session).append(Message(first.role, "something else", id=first.id))
    with pytest.raises(ConfigurationError, match="--restart"):
        played(url)
    assert len(texts(url)) == 6


def test_a_failing_model_is_named_and_its_words_are_not_repeated(url: str) -> None:
    """A provider's error may show the key."""

    class Refusing:
        def complete(self, messages: Sequence[Message]) -> str:
            raise PermissionError("bad key sk-secret")

    run = DemoRun(url, script, [FIRST], Refusing(), "openai:small")
    with pytest.raises(ConfigurationError, match="openai:small failed \\(PermissionError\\)") as caught:
        list(run.play())
    run.close()
    assert "sk-secret" not in str(caught.value)
    assert len(texts(url)) == 2 * (script.handover - 1)
