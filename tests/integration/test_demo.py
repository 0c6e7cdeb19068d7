"""`arc demo` from the first turn to the comparison: stored messages, requests, and displayed results."""

import io
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, trim_messages
from rich.cells import cell_len
from rich.console import Console

from arc_common.cli.demo import CONTEXT_WINDOW, RECORDS, SESSION, TurnRecord
from arc_common.cli.demo_display import Display
from arc_common.engine.context_engine import ContextEngine
from arc_common.messages import Message, Role
from arc_common.tokens.calibration import CalibratedTokenCounter
from arc_common.tokens.counters import REQUEST_OVERHEAD, message_tokens_batch
from tests.support.demo_runs import PROVIDER, environment, here, opened, script, spoken, stored
from tests.support.forks import Fork, arc_server

HALF = "half.db"
"""A copy of the run's file at the handover."""
LIMIT = 3_072
PART_BY_PART = "The last request, part by part:"


@dataclass(frozen=True)
class Finished:
    folder: Path
    output: str
    errors: str


def recorded(folder: Path) -> list[TurnRecord]:
    with opened(f"sqlite:///{folder}/arc-demo.db") as run:
        return run.done()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Run the demo to the comparison, with a pause at the handover, where its file is copied."""
    folder = tmp_path_factory.mktemp("whole")
    for words in (("--turns", str(script.handover)), ()):
        ran = here(folder, *words)
        assert ran.code == 0, ran.err
        if words:
            (folder / HALF).write_bytes((folder / "arc-demo.db").read_bytes())
    return Finished(folder, ran.out, ran.err)


@pytest.fixture(scope="module")
def records(whole: Finished) -> list[TurnRecord]:
    return recorded(whole.folder)


def test_one_database_holds_the_messages_of_both_frameworks(whole: Finished, records: list[TurnRecord]) -> None:
    """LangChain's half and LlamaIndex's half are one conversation, in order, each message once."""
    behind = len(script.turns) - script.handover
    assert [one.framework for one in records] == ["LangChain"] * script.handover + ["LlamaIndex"] * behind
    said = spoken(whole.folder)
    assert said[::2] == [("user", turn.user) for turn in script.turns]
    assert said[1::2] == [("assistant", one.arc.answer) for one in records]


def test_the_second_framework_received_what_the_first_one_wrote(records: list[TurnRecord]) -> None:
    """The first request through LlamaIndex has LangChain's newest messages, and facts and a summary of the rest."""
    last, first = (one.arc for one in records[script.handover - 1 : script.handover + 1])
    assert first.seen[-2:] == (2 * script.handover - 1, 2 * script.handover)
    assert {*last.seen} & {*first.seen}
    assert all(first.parts[part] > 0 for part in ("facts", "summary"))
    assert min(first.noted) < 20


def test_arc_answers_what_the_newest_messages_lost(records: list[TurnRecord]) -> None:
    """With the same model, questions and limit, the newest messages answer fewer than half as many questions as arc."""
    asked = [(question, records[turn.number - 1]) for turn, question in script.questions]
    with_arc = [question.value_in(record.arc.answer) is not None for question, record in asked]
    with_newest = [question.value_in(record.newest.answer) is not None for question, record in asked]
    assert 4 * sum(with_arc) >= 3 * len(asked)
    assert with_newest == [2 * question.stated - 1 in record.newest.seen for question, record in asked]
    assert 1 < sum(with_newest) < sum(with_arc) / 2


def test_all_of_it_answers_everything_and_does_not_fit(records: list[TurnRecord]) -> None:
    """Sending everything answers all questions, but exceeds the limit and takes more than twice arc's tokens."""
    for turn, question in script.questions:
        assert question.value_in(records[turn.number - 1].whole_answer)
    assert records[-1].whole > 15_000
    assert 2 * sum(record.arc.tokens for record in records) < sum(record.whole for record in records)


def test_no_request_is_over_the_limit(records: list[TurnRecord], whole: Finished) -> None:
    """Neither window exceeds the limit, and the newest messages fill theirs to within 400 tokens."""
    with opened(f"sqlite:///{whole.folder}/arc-demo.db") as run:
        limit = run.limit
    assert limit == CONTEXT_WINDOW - CONTEXT_WINDOW // 4
    for record in records:
        assert record.arc.tokens <= limit
        assert record.newest.tokens <= limit
        assert record.newest.tokens == record.whole or record.newest.tokens > limit - 400
    assert sum(record.arc.tokens for record in records) < sum(record.newest.tokens for record in records)


def test_views_say_which_messages_a_request_held(records: list[TurnRecord]) -> None:
    """They are the newest without a gap; arc adds facts and a summary once older ones are left out, and not before."""
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


def test_it_says_what_was_right_and_what_it_cost(whole: Finished, records: list[TurnRecord]) -> None:
    """It prints all costs, the number of accepted requests, and the database's location; stderr is empty."""
    assert whole.errors == ""
    assert "\x1b" not in whole.output
    assert str(whole.folder / "arc-demo.db") in whole.output
    everything = [one.whole for one in records]
    for costs in ([one.arc.tokens for one in records], [one.newest.tokens for one in records], everything):
        assert f"{max(costs):,}" in whole.output
        assert f"{sum(costs):,}" in whole.output
    refused = sum(cost > LIMIT for cost in everything)
    assert f"{len(everything) - refused} of {len(everything)}" in whole.output


def test_the_commands_at_its_end_work_in_a_shell(whole: Finished, tmp_path: Path) -> None:
    """They work as printed in the same folder, without an active environment, for any file name."""
    file = tmp_path / "my demo's.db"
    file.write_bytes((whole.folder / "arc-demo.db").read_bytes())
    path = os.pathsep.join(folder for folder in os.defpath.split(os.pathsep) if folder)
    printed = here(tmp_path, "--file", file.name, PATH=path).out.splitlines()
    inspect, restart = (printed[printed.index(above) + 1] for above in (PART_BY_PART, "Play it again:"))
    ran = subprocess.run(
        ["/bin/sh", "-c", inspect],
        cwd=tmp_path,
        env=environment(PATH=path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert f"session {SESSION}" in ran.stdout
    assert f"{2 * len(script.turns)} messages" in ran.stdout
    program, name, *words = shlex.split(restart)
    assert (program, name) == (shlex.split(inspect)[0], "demo")
    assert here(tmp_path, *words, "--turns", "1").code == 0
    with ContextEngine.open(f"sqlite:///{file}") as engine:
        assert len(engine.session(SESSION).messages()) == 2


def test_the_window_is_what_trim_messages_keeps(records: list[TurnRecord]) -> None:
    """The comparison's window is cut as LangChain's own function cuts it, with the same counts."""
    counter = CalibratedTokenCounter()

    def cost(messages: Sequence[BaseMessage]) -> int:
        roles = {"system": Role.SYSTEM, "human": Role.USER, "ai": Role.ASSISTANT}
        counted = [Message(roles[message.type], str(message.content)) for message in messages]
        return sum(message_tokens_batch(counter, counted))

    room = LIMIT - REQUEST_OVERHEAD  # `trim_messages` counts a request in two parts
    history: list[BaseMessage] = [SystemMessage(script.system)]
    for turn, record in zip(script.turns, records, strict=True):
        asked = [*history, HumanMessage(turn.user)]
        if turn.number in {1, 50, script.handover, len(script.turns)}:
            kept = trim_messages(
                asked, max_tokens=room, token_counter=cost, strategy="last", start_on="human", include_system=True
            )
            shown = len(kept) - 2
            assert record.newest.seen == tuple(range(len(history) - shown, len(history)))
        history += [HumanMessage(turn.user), AIMessage(record.newest.answer)]


def test_run_again_it_shows_the_comparison_and_asks_nothing(whole: Finished) -> None:
    """A finished conversation does not change."""
    before = spoken(whole.folder)
    again = here(whole.folder)
    assert "complete" in again.out
    assert again.out.split("answered ─")[1] == whole.output.split("answered ─")[1]
    assert spoken(whole.folder) == before


def test_the_server_plays_it_to_the_end_and_shows_it(whole: Finished, tmp_path: Path) -> None:
    """`arc serve --demo` needs no further set-up: no URL and no token."""
    without_the_end(whole.folder / "arc-demo.db", tmp_path, len(script.turns) - 1)
    with arc_server(tmp_path, "serve", "--demo") as address:
        (shown,) = httpx.get(f"{address}/api/sessions").json()["sessions"]
        page = httpx.get(f"{address}/inspector/conversation", params={"id": SESSION}).text
        found = httpx.get(f"{address}/api/sessions/{SESSION}/messages", params={"limit": 1_000}).json()["messages"]
    assert shown["sessionId"] == SESSION
    assert "The tokens of the newest" in page
    assert [(one["role"], one["content"]) for one in found] == spoken(whole.folder)


@pytest.mark.parametrize("begin", [0, script.handover], ids=["LangChain", "LlamaIndex"])
def test_after_a_kill_it_goes_on_where_it_was(
    whole: Finished, records: list[TurnRecord], tmp_path: Path, begin: int
) -> None:
    """After SIGKILL in either half, the stored messages and records equal those of an uninterrupted run."""
    if begin:
        (tmp_path / "arc-demo.db").write_bytes((whole.folder / HALF).read_bytes())
    kill_at(begin + 4, tmp_path)
    done, goes_on = len(stored(tmp_path, RECORDS)), begin + 9
    assert begin + 4 <= done < goes_on
    resumed = here(tmp_path, "--turns", str(goes_on - done))
    assert f"after turn {done} of {len(script.turns)}" in resumed.out
    assert spoken(tmp_path) == spoken(whole.folder)[: 2 * goes_on]
    assert recorded(tmp_path) == records[:goes_on]


def kill_at(turn: int, folder: Path) -> None:
    """Run the demo in a separate process, and kill it as soon as it shows the turn."""
    with Fork(folder, ["demo", "--slow"], environment()) as process:
        for line in process.stdout:
            if line.startswith(f"{turn:3} "):
                break
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL


def without_the_end(file: Path, folder: Path, turns: int) -> None:
    """Copy a run's file, and cut its conversation after this many turns."""
    (folder / "arc-demo.db").write_bytes(file.read_bytes())
    with ContextEngine.open(f"sqlite:///{folder}/arc-demo.db") as engine:
        for name, caller, messages in ((SESSION, "default", 2 * turns), (RECORDS, RECORDS, turns)):
            session = engine.session(name, caller_id=caller)
            session.remove([message.id for message in session.messages()[messages:] if message.id])


ASKED = [turn.number for turn, _ in script.questions]


@pytest.mark.parametrize(
    ("begin", "end", "words", "name"),
    [
        (0, ASKED[0], (), "gpt-5-mini"),
        (script.handover - 1, script.handover + 2, ("--model", "openai:my-own"), "my-own"),
        (ASKED[2] - 2, ASKED[2], ("--model", "openai:my-own"), "my-own"),
    ],
    ids=["LangChain", "handover", "LlamaIndex"],
)
def test_a_real_model_answers_when_a_key_is_set(
    whole: Finished,
    provider: Callable[[str], None],
    tmp_path: Path,
    begin: int,
    end: int,
    words: tuple[str, ...],
    name: str,
) -> None:
    """Both halves call it, even in one process, and only for questions; the key is never shown."""
    assert ASKED[1] == script.handover < ASKED[2]
    provider(PROVIDER.format(body="pass"))
    if begin:
        without_the_end(whole.folder / (HALF if begin < script.handover else "arc-demo.db"), tmp_path, begin)
    ran = here(tmp_path, *words, "--turns", str(end - begin), OPENAI_API_KEY="sk-hunter2")
    assert ran.code == 0, ran.err
    assert f"openai:{name}" in ran.out
    assert "hunter2" not in ran.out + ran.err
    answers = [text for _, text in spoken(tmp_path)[1::2]]
    records = recorded(tmp_path)
    assert len(records) == end
    for record in records[begin:]:
        assert record.framework == ("LangChain" if record.number <= script.handover else "LlamaIndex")
        if record.number > 1:
            assert record.arc.seen[-1] == 2 * record.number - 2
    assert {number: text for number, text in enumerate(answers, 1) if name in text} == {
        # the messages, two system messages and the question
        number: f"{name} was shown {len(records[number - 1].arc.seen) + 3} messages"
        for number in ASKED
        if begin < number <= end
    }


def test_an_old_console_gets_letters_that_it_can_show(whole: Finished) -> None:
    """An output encoding without Korean or block characters causes no error."""
    ran = here(whole.folder, encoding="ascii")
    assert ran.code == 0, ran.err
    assert f"16 of {len(script.questions)}" in ran.out
    assert ran.out.isascii()


# The display fits its console and shows every verdict


def shown(records: list[TurnRecord], width: int) -> str:
    output = io.StringIO()
    console = Console(file=output, width=width, force_terminal=False, color_system=None)
    display = Display(console, script, limit=LIMIT)
    display.title([("file", "demo.db")])
    for record in records:
        if record.number in (1, script.handover + 1):
            display.half(record.framework, "goes on")
        display.turn(script.turns[record.number - 1], record)
    display.comparison(records)
    return output.getvalue()


def test_no_line_is_wider_than_the_console(records: list[TurnRecord]) -> None:
    for width in (63, 80, 120):
        assert max(map(cell_len, shown(records, width).splitlines())) <= width


def test_only_what_the_customer_says_is_shortened(records: list[TurnRecord]) -> None:
    for width in (80, 120):
        cut = [line for line in shown(records, width).splitlines() if "…" in line]
        assert cut, width
        assert all(line[:3].strip().isdigit() for line in cut), width


@pytest.mark.parametrize("width", [64, 120])
def test_a_turn_shows_the_tokens_and_the_mark_of_each_way(records: list[TurnRecord], width: int) -> None:
    """A right answer has a tick; a wrong one and a refused request have a cross."""
    played = shown(records, width).split("at the end, and")[0].splitlines()
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
    """A cell is full for shown messages, shaded for quoted ones, and a dot otherwise."""
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


def test_it_is_long_enough_to_outgrow_a_window() -> None:
    """It has at least 300 distinct messages, some of them Korean, over two frameworks."""
    assert 2 * len(script.turns) >= 300
    said = [text for turn in script.turns for text in (turn.user, turn.reply) if text]
    assert len(set(said)) == len(said)
    assert any("가" <= letter <= "힣" for turn in script.turns for letter in turn.user)
    assert 1 < script.handover < len(script.turns)


def test_a_fact_is_stated_once_by_the_user_and_not_in_its_question() -> None:
    """The value occurs in the named turn and in no other text of the script."""
    written = {(each.number, text) for each in script.turns for text in (each.user, each.reply or "")}
    for turn, question in script.questions:
        assert {number for number, text in written if question.value_in(text)} == {question.stated}, turn.number
        assert question.value_in(script.turns[question.stated - 1].user)
        assert question.value_in(turn.user) is None
        assert question.value_in(script.system) is None


def test_facts_are_asked_for_early_and_late() -> None:
    """The first question comes early; at least ten go back more than 50 turns, and one of the others less than 25."""
    distances = [turn.number - question.stated for turn, question in script.questions]
    assert script.questions[0][0].number < 25
    assert sum(distance > 50 for distance in distances) >= 10
    assert sum(distance < 25 for distance in distances[1:]) == 1


def test_no_user_message_begins_with_another() -> None:
    said = [turn.user for turn in script.turns]
    assert not [(a, b) for a in said for b in said if a is not b and b.startswith(a)]
