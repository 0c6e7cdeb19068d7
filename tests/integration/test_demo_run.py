"""The demo keeps what it says, goes on where it was left, measures what the model received, and fits its display."""

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from arc_common.cli.demo.display import Display
from arc_common.cli.demo.run import CONTEXT_WINDOW, SESSION, DemoRun, Question, ScriptTurn, TurnRecord
from arc_common.engine.context_engine import ContextEngine
from arc_common.exceptions import ConfigurationError
from arc_common.messages import Message, Role
from tests.support.demo_runs import FIRST, SECOND, opened, played, script


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/demo.db"


def texts(url: str) -> list[str]:
    with ContextEngine.open(url) as engine:
        return [message.text for message in engine.session(SESSION).messages()]


def test_every_turn_is_stored_once(whole: str) -> None:
    stored = texts(whole)
    assert stored[::2] == [turn.user for turn in script.turns]
    assert len(stored) == 2 * len(script.turns)


def test_the_second_half_takes_over_where_the_script_says(records: list[TurnRecord]) -> None:
    frameworks = [record.framework for record in records]
    assert frameworks == ["First"] * script.handover + ["Second"] * (len(script.turns) - script.handover)


def test_a_single_half_plays_all(url: str) -> None:
    early = replace(script, handover=1)
    assert {record.framework for record in played(url, 2, halves=[SECOND], script=early)} == {"Second"}
    assert len(texts(url)) == 4


def test_arc_answers_what_the_newest_messages_lost(records: list[TurnRecord]) -> None:
    """The same model, the same questions and the same limit; only what it was shown differs."""
    asked = [(question, records[turn.number - 1]) for turn, question in script.questions]
    with_arc = [question.value_in(record.arc.answer) is not None for question, record in asked]
    with_newest = [question.value_in(record.newest.answer) is not None for question, record in asked]
    assert 4 * sum(with_arc) >= 3 * len(asked)
    assert with_newest == [2 * question.stated - 1 in record.newest.seen for question, record in asked]
    assert 1 < sum(with_newest) < sum(with_arc) / 2


def test_all_of_it_answers_everything_and_does_not_fit(records: list[TurnRecord]) -> None:
    """The questions have answers; sending everything gets them, for more than twice arc's tokens and over the limit."""
    for turn, question in script.questions:
        assert question.value_in(records[turn.number - 1].whole_answer)
    assert records[-1].whole > 3 * CONTEXT_WINDOW
    assert 2 * sum(record.arc.tokens for record in records) < sum(record.whole for record in records)


def test_no_request_is_over_the_limit(records: list[TurnRecord], whole: str) -> None:
    """The window beside arc gets as much as fits: another turn would be too much."""
    with opened(whole) as run:
        limit = run.limit
    assert limit == CONTEXT_WINDOW - CONTEXT_WINDOW // 4
    for record in records:
        assert record.arc.tokens <= limit
        assert record.newest.tokens <= limit
        assert record.newest.tokens == record.whole or record.newest.tokens > limit - 400
    assert sum(record.arc.tokens for record in records) < sum(record.newest.tokens for record in records)


def test_views_say_which_messages_a_request_held(records: list[TurnRecord]) -> None:
    """The newest, without a gap; with arc the older ones' place is taken by facts and summary, not before."""
    for record in records:
        before = 2 * (record.number - 1)
        for view in (record.arc, record.newest):
            assert view.seen == tuple(range(before - len(view.seen) + 1, before + 1))
            assert view.tokens > sum(view.parts.values()) > view.parts["question"] > 0
            assert (view.parts["history"] > 0) == (before > 0)
        parts = record.arc.parts
        shortened = len(record.arc.seen) < before
        assert (parts["facts"] > 0, parts["summary"] > 0) == (shortened, shortened)
        assert bool({*record.arc.noted} - {*record.arc.seen}) == shortened
        assert not record.newest.noted


def test_facts_and_what_is_recalled_keep_within_their_shares(records: list[TurnRecord]) -> None:
    most = 0.4 * (CONTEXT_WINDOW - CONTEXT_WINDOW // 4)
    assert max(record.arc.parts["facts"] + record.arc.parts["recalled"] for record in records) < most + 100


def test_a_stopped_run_goes_on_where_it_stopped(url: str, whole: str, records: list[TurnRecord]) -> None:
    """It is the conversation of a run without interruption, each request to the token."""
    stopped, end = script.handover, script.handover + 3
    played(url, stopped)
    assert [record.number for record in played(url, end - stopped)] == list(range(stopped + 1, end + 1))
    assert texts(url) == texts(whole)[: 2 * end]
    with opened(url) as run:
        assert run.done() == records[:end]


@pytest.mark.parametrize("left", [1, 2], ids=["question only", "turn without record"])
def test_what_a_killed_process_left_unfinished_is_played_again(url: str, left: int) -> None:
    played(url, 5)
    unfinished = [Message(Role.USER, script.turns[5].user), Message(Role.ASSISTANT, "half a")][:left]
    with ContextEngine.open(url) as engine:
        engine.session(SESSION).append(unfinished)
    played(url, 1)
    stored = texts(url)
    assert len(stored) == 12
    assert stored[-1] == script.turns[5].reply


def test_a_finished_run_plays_nothing(whole: str) -> None:
    assert played(whole) == []


def test_restart_removes_the_demo_and_nothing_else(url: str) -> None:
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
    played(url, 3)
    with ContextEngine.open(url) as engine:
        first = engine.session(session).messages()[0]
        engine.session(session).append(Message(first.role, "something else", id=first.id))
    with pytest.raises(ConfigurationError, match="--restart"):
        played(url)
    assert len(texts(url)) == 6


def test_a_failing_model_is_named_and_its_words_are_not_repeated(url: str) -> None:
    class Refusing:
        def complete(self, messages: Sequence[Message]) -> str:
            raise PermissionError("bad key sk-secret")

    run = DemoRun(url, script, [FIRST], Refusing(), "openai:small")
    with pytest.raises(ConfigurationError, match="openai:small failed \\(PermissionError\\)") as caught:
        list(run.play())
    run.close()
    assert "sk-secret" not in str(caught.value)
    assert len(texts(url)) == 2 * (script.questions[0][0].number - 1)


# The display fits its console, says the same with and without colour, and shows every verdict

LIMIT = 3_072


def shown(records: list[TurnRecord], width: int, *, encoding: str = "utf-8", colour: bool = False) -> str:
    stream = io.BytesIO()
    output = io.TextIOWrapper(stream, encoding=encoding, errors="replace", newline="")
    console = Console(file=output, width=width, force_terminal=colour, color_system="standard" if colour else None)
    display = Display(console, script, limit=LIMIT)
    display.title([("file", "demo.db")])
    for record in records:
        if record.number in (1, script.handover + 1):
            display.half(record.framework, "goes on")
        display.turn(script.turns[record.number - 1], record)
    display.comparison(records)
    output.flush()
    return stream.getvalue().decode(encoding)


def test_no_line_is_wider_than_the_console(records: list[TurnRecord]) -> None:
    for width in (40, 63, 80, 120):
        assert max(map(cell_len, shown(records, width).splitlines())) <= width


@pytest.mark.parametrize("width", [40, 80])
def test_every_number_is_whole_at_any_width(records: list[TurnRecord], width: int) -> None:
    text = shown(records, width)
    comparison = text.split("in the end")[-1]
    for record in records:
        assert f"{record.arc.tokens:,}" in text
    tokens = zip(*((record.arc.tokens, record.newest.tokens, record.whole) for record in records), strict=True)
    for side in tokens:
        assert f"{max(side):,}" in comparison
        assert f"{sum(side):,}" in comparison
    for turn, question in script.questions:
        if value := question.value_in(records[turn.number - 1].arc.answer):
            assert value in comparison
    for part in ("facts", "summary", "history"):
        assert f"{records[-1].arc.parts[part]:,}" in comparison
    asked = [(question, records[turn.number - 1]) for turn, question in script.questions]
    taken = [one for one in asked if one[1].whole <= LIMIT]
    for answered in (
        sum(question.value_in(record.arc.answer) is not None for question, record in asked),
        sum(question.value_in(record.newest.answer) is not None for question, record in asked),
        sum(question.value_in(record.whole_answer) is not None for question, record in taken),
    ):
        assert f"{answered} of {len(asked)}" in comparison


def test_it_needs_no_colour(records: list[TurnRecord]) -> None:
    """Without colour there are no control characters, and the words are the same."""
    plain, coloured = shown(records, 100), shown(records, 100, colour=True)
    assert "\x1b" not in plain
    assert "\x1b[" in coloured


def test_it_needs_no_unicode(records: list[TurnRecord]) -> None:
    """Where the output can't show block characters, only the conversation's own letters are replaced."""
    text = shown(records, 80, encoding="ascii")
    assert "+ 1,284,000" in text
    assert "x " in text
    assert text.isascii()


def test_only_what_the_customer_says_is_shortened(records: list[TurnRecord]) -> None:
    for width in (64, 71, 80, 120):
        cut = [line for line in shown(records, width).splitlines() if "…" in line]
        assert cut, width
        assert all(line[:3].strip().isdigit() for line in cut), width


@pytest.mark.parametrize("width", [64, 120])
def test_a_turn_shows_the_tokens_and_the_mark_of_each_way(records: list[TurnRecord], width: int) -> None:
    """A right answer is ticked; a wrong one, and a request that the model refuses, are crossed."""
    played = shown(records, width).split("in the end, and")[0].splitlines()
    lines = {int(line[:3]): line for line in played if line[:3].strip().isdigit()}
    for turn, record in zip(script.turns, records, strict=True):
        cells = []
        for answer, tokens in (
            (record.arc.answer, record.arc.tokens),
            (record.newest.answer, record.newest.tokens),
            (record.whole_answer, record.whole),
        ):
            is_wrong = turn.question is not None and turn.question.value_in(answer) is None
            cells.append(f"{tokens:,}{' ✗' if is_wrong or tokens > LIMIT else ' ✓' if turn.question else ''}")
        assert re.search(r"\s+".join(map(re.escape, cells)) + r"\s*$", lines[turn.number])


def test_the_map_tells_what_was_seen_from_what_was_only_quoted(records: list[TurnRecord]) -> None:
    """A cell is full where messages were shown, shaded where arc only quotes some, and a dot elsewhere."""
    last = records[-1]
    lines = shown(records, 120).splitlines()
    line = next(line for line in lines if line.startswith(" arc") and "█" in line)
    cells = line.split()[1]
    step = -(-(last.number - 1) // len(cells))
    for place, cell in enumerate(cells):
        turns = range(place * step + 1, min((place + 1) * step, last.number - 1) + 1)
        messages = {number for turn in turns for number in (2 * turn - 1, 2 * turn)}
        expected = "█" if messages & {*last.arc.seen} else "▒" if messages & {*last.arc.noted} else "·"
        assert cell == expected
    assert "▒" in cells
    whole = next(line for line in lines if line.startswith(" everything") and "·" in line)
    assert "none" in whole
    assert f"{last.whole:,}" in whole
    everything = [*records[:-1], replace(last, whole=LIMIT)]
    whole = next(line for line in shown(everything, 120).splitlines() if line.startswith(" everything") and "█" in line)
    assert "·" not in whole


@pytest.mark.parametrize("times", [4.0, 1.0, 0.5], ids=["more", "as much", "less"])
def test_the_cost_of_everything_is_told_as_it_was_measured(records: list[TurnRecord], times: float) -> None:
    scaled = [replace(record, whole=int(record.arc.tokens * times)) for record in records]
    assert f"for {times:.1f} times arc's tokens" in " ".join(shown(scaled, 120).split())


questions = pytest.mark.parametrize(
    ("turn", "question"), script.questions, ids=[f"turn {turn.number}" for turn, _ in script.questions]
)


def test_it_is_long_enough_to_outgrow_a_window() -> None:
    """At least 300 messages that don't repeat each other, some of them Korean, played by two frameworks."""
    assert 2 * len(script.turns) >= 300
    said = [text for turn in script.turns for text in (turn.user, turn.reply) if text]
    assert len(set(said)) == len(said)
    assert any("가" <= letter <= "힣" for turn in script.turns for letter in turn.user)
    assert 1 < script.handover < len(script.turns)


@questions
def test_a_fact_is_stated_once_and_by_the_user(turn: ScriptTurn, question: Question) -> None:
    """The value stands in the turn that is named, and in no other written text: nothing gives it away later."""
    written = {(each.number, text) for each in script.turns for text in (each.user, each.reply or "")}
    holding = {number for number, text in written if question.value_in(text)}
    assert holding == {question.stated}
    assert question.value_in(script.turns[question.stated - 1].user)


@questions
def test_a_question_does_not_hold_its_answer(turn: ScriptTurn, question: Question) -> None:
    assert question.value_in(turn.user) is None
    assert question.value_in(script.system) is None


def test_facts_are_asked_for_early_and_late() -> None:
    """The first question comes while all is short, most at the end, one of them about the newest part."""
    distances = [turn.number - question.stated for turn, question in script.questions]
    assert script.questions[0][0].number < 25
    assert sum(distance > 50 for distance in distances) >= 10
    assert sum(distance < 25 for distance in distances[1:]) == 1


def test_replies_are_told_apart_by_what_they_answer() -> None:
    said = [turn.user for turn in script.turns]
    assert not [(a, b) for a in said for b in said if a is not b and b.startswith(a)]
