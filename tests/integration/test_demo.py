"""`arc demo` as a user runs it: real frameworks, a real file, its own process."""

import json
import os
import pty
import signal
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, trim_messages

from arc_common.cli.commands import main
from arc_common.cli.demo.run import RECORDS, SESSION, find_halves, support_script
from arc_common.engine.context_engine import ContextEngine
from arc_common.messages import Message, Role
from arc_common.tokens.calibration import CalibratedTokenCounter
from arc_common.tokens.counters import REQUEST_OVERHEAD, message_tokens_batch

script = support_script()
ARC = [sys.executable, "-c", "from arc_common.cli.commands import main; main()"]
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY")


def environment(**variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ARC_") and name not in KEYS}
    path = os.pathsep.join(filter(None, [variables.get("PYTHONPATH"), kept.get("PYTHONPATH")]))
    return {**kept, "COLUMNS": "110", **variables, "PYTHONPATH": path}


@dataclass(frozen=True)
class Ran:
    """What a run printed, and its exit code."""

    code: int
    out: str
    err: str


def demo(folder: Path, *words: str, **variables: str) -> Ran:
    """Run it in a process of its own."""
    ran = subprocess.run(
        [*ARC, "demo", *words],
        check=False,
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=280,
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


Demo: TypeAlias = Callable[..., Ran]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Demo:
    """Run it in this process, which has the frameworks loaded already: importing both takes three seconds."""
    for name in [name for name in os.environ if name.startswith("ARC_") or name in KEYS]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "110")

    def run(folder: Path, *words: str, **variables: str) -> Ran:
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            patch.chdir(folder)
            patch.setattr(sys, "argv", ["arc", "demo", *words])
            try:
                main()
                code: object = 0
            except SystemExit as ended:
                code = ended.code or 0
        printed = capsys.readouterr()
        return Ran(int(str(code)), printed.out, printed.err)

    return run


def stored(folder: Path, session: str = SESSION) -> list[Message]:
    with ContextEngine.open(f"sqlite:///{folder}/arc-demo.db") as engine:
        return engine.session(session).messages()


def spoken(folder: Path) -> list[tuple[str, str]]:
    return [(message.role.value, message.text) for message in stored(folder)]


@dataclass(frozen=True)
class Finished:
    folder: Path
    output: str
    errors: str
    records: Sequence[dict[str, Any]]


HALF = "half.db"
"""The file of the run as it is at the handover."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A run from the first turn to the comparison, which only pauses at the handover, where its file is copied."""
    folder = tmp_path_factory.mktemp("whole")
    for words in (("--turns", str(script.handover)), ()):
        ran = demo(folder, *words)
        assert ran.code == 0, ran.err
        if words:
            (folder / HALF).write_bytes((folder / "arc-demo.db").read_bytes())
    records = [json.loads(message.text) for message in stored(folder, RECORDS)]
    return Finished(folder, ran.out, ran.err, records)


def test_one_database_holds_the_messages_of_both_frameworks(whole: Finished) -> None:
    """LangChain's half and LlamaIndex's half are one conversation, in order, each message once."""
    assert [record["framework"] for record in whole.records] == ["LangChain"] * script.handover + ["LlamaIndex"] * (
        len(script.turns) - script.handover
    )
    said = spoken(whole.folder)
    assert said[::2] == [("user", turn.user) for turn in script.turns]
    assert said[1::2] == [("assistant", record["arc"]["answer"]) for record in whole.records]


def test_the_second_framework_received_what_the_first_one_wrote(whole: Finished) -> None:
    """The first request through LlamaIndex holds LangChain's newest messages, and facts and summary for the rest."""
    last, first = whole.records[script.handover - 1 : script.handover + 1]
    assert (last["framework"], first["framework"]) == ("LangChain", "LlamaIndex")
    assert first["arc"]["seen"][-2:] == [2 * script.handover - 1, 2 * script.handover]
    assert {*last["arc"]["seen"]} & {*first["arc"]["seen"]}
    assert all(first["arc"]["parts"][part] > 0 for part in ("facts", "summary"))
    assert min(first["arc"]["noted"]) < 20


def test_arc_answers_most_of_what_a_window_lost_for_fewer_tokens(whole: Finished) -> None:
    """All three have the same limit; sending everything soon goes over it, and costs more than twice as much."""
    asked = [(question, whole.records[turn.number - 1]) for turn, question in script.questions]
    right = [sum(question.value_in(record[side]["answer"]) is not None for question, record in asked) for side in SIDES]
    assert 4 * right[0] >= 3 * len(asked)
    assert 2 * right[1] < right[0]
    arc, newest = (sum(map(cost_of(side), whole.records)) for side in SIDES)
    everything = [record["whole"] for record in whole.records]
    assert arc < newest
    assert 2 * arc < sum(everything)
    assert everything[-1] > 15_000
    assert max(map(cost_of("arc"), whole.records)) <= LIMIT


SIDES = ("arc", "newest")
LIMIT = 3_072
PART_BY_PART = "What the model saw in the end, part by part:"


def cost_of(side: str) -> Callable[[dict[str, Any]], int]:
    """The tokens of a record's request."""
    return lambda record: sum(record[side]["parts"].values()) + 3


def test_it_says_what_was_right_and_what_it_cost(whole: Finished) -> None:
    """All costs, what the model refused, and where the conversation is kept; nothing on stderr."""
    assert whole.errors == ""
    assert "\x1b" not in whole.output
    assert str(whole.folder / "arc-demo.db") in whole.output
    everything = [record["whole"] for record in whole.records]
    for costs in (*(list(map(cost_of(side), whole.records)) for side in SIDES), everything):
        assert f"{max(costs):,}" in whole.output
        assert f"{sum(costs):,}" in whole.output
    refused = sum(cost > LIMIT for cost in everything)
    assert f"{len(everything) - refused} of {len(everything)}" in whole.output


def test_the_commands_at_its_end_work_in_a_shell(whole: Finished, here: Demo, tmp_path: Path) -> None:
    """As printed, in the same folder, without the environment being active, whatever the file is called."""
    file = tmp_path / "my demo's.db"
    file.write_bytes((whole.folder / "arc-demo.db").read_bytes())
    printed = here(tmp_path, "--file", file.name).out.splitlines()
    inspect, restart = (printed[printed.index(above) + 1] for above in (PART_BY_PART, "Play it again:"))
    path = os.pathsep.join(folder for folder in os.defpath.split(os.pathsep) if folder)
    for command in (inspect, restart + " --turns 1"):
        ran = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=tmp_path,
            env=environment(PATH=path),
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        if command == inspect:
            assert f"session {SESSION}" in ran.stdout
            assert f"{2 * len(script.turns)} messages" in ran.stdout
    with ContextEngine.open(f"sqlite:///{file}") as engine:
        assert len(engine.session(SESSION).messages()) == 2


def test_the_window_is_what_trim_messages_keeps(whole: Finished) -> None:
    """The conversation beside it is cut as LangChain's own function cuts it, by the same counts."""
    counter = CalibratedTokenCounter()

    def cost(messages: Sequence[BaseMessage]) -> int:
        roles = {"system": Role.SYSTEM, "human": Role.USER, "ai": Role.ASSISTANT}
        counted = [Message(roles[message.type], str(message.content)) for message in messages]
        return sum(message_tokens_batch(counter, counted))

    room = LIMIT - REQUEST_OVERHEAD  # `trim_messages` counts a request in two parts
    history: list[BaseMessage] = [SystemMessage(script.system)]
    for turn, record in zip(script.turns, whole.records, strict=True):
        asked = [*history, HumanMessage(turn.user)]
        if turn.number in {1, 50, script.handover, len(script.turns)}:
            kept = trim_messages(
                asked, max_tokens=room, token_counter=cost, strategy="last", start_on="human", include_system=True
            )
            shown = len(kept) - 2
            assert record["newest"]["seen"] == list(range(len(history) - shown, len(history)))
        history += [HumanMessage(turn.user), AIMessage(record["newest"]["answer"])]


def test_run_again_it_shows_the_comparison_and_asks_nothing(whole: Finished, here: Demo) -> None:
    """A finished conversation stays as it is."""
    before = spoken(whole.folder)
    again = here(whole.folder)
    assert "complete" in again.out
    assert again.out.split("answered ─")[1] == whole.output.split("answered ─")[1]
    assert spoken(whole.folder) == before


@pytest.mark.parametrize("begin", [0, script.handover], ids=["LangChain", "LlamaIndex"])
def test_after_a_kill_it_goes_on_where_it_was(whole: Finished, here: Demo, tmp_path: Path, begin: int) -> None:
    """What is there after SIGKILL in either half is what a run without interruption had, with the same records."""
    if begin:
        (tmp_path / "arc-demo.db").write_bytes((whole.folder / HALF).read_bytes())
    kill_at(begin + 4, tmp_path)
    done, goes_on = len(stored(tmp_path, RECORDS)), begin + 9
    assert begin + 4 <= done < goes_on
    resumed = here(tmp_path, "--turns", str(goes_on - done))
    assert f"after turn {done} of {len(script.turns)}" in resumed.out
    assert spoken(tmp_path) == spoken(whole.folder)[: 2 * goes_on]
    assert [json.loads(message.text) for message in stored(tmp_path, RECORDS)] == whole.records[:goes_on]


def kill_at(turn: int, folder: Path) -> None:
    """Run it in a process of its own, which is killed as soon as it shows the turn."""
    process = subprocess.Popen(
        [*ARC, "demo", "--slow"], cwd=folder, env=environment(PYTHONUNBUFFERED="1"), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(f"{turn:3} "):
            break
    process.send_signal(signal.SIGKILL)
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL


def test_it_stops_where_it_is_told_and_begins_anew(here: Demo, tmp_path: Path) -> None:
    """`--turns` leaves the rest for the next run, `--restart` forgets what was there."""
    assert "after turn 2 of" in here(tmp_path, "--turns", "2").out
    assert len(spoken(tmp_path)) == 4
    here(tmp_path, "--restart", "--turns", "1")
    assert len(spoken(tmp_path)) == 2


def module(folder: Path, name: str, text: str) -> str:
    """A module that stands before the installed one of that name; returns what PYTHONPATH has to be."""
    folder.joinpath(f"{name}.py").write_text(textwrap.dedent(text))
    return str(folder)


@pytest.mark.parametrize(
    ("absent", "extra", "other"),
    [("langchain_core", "langchain", "LlamaIndex"), ("llama_index", "llamaindex", "LangChain")],
)
def test_without_one_framework_the_other_one_plays_all(tmp_path: Path, absent: str, extra: str, other: str) -> None:
    """The extra that is missing is named with the command that installs it."""
    path = module(tmp_path, absent, f"raise ModuleNotFoundError('No module named {absent}')")
    ran = demo(tmp_path, "--turns", "2", PYTHONPATH=path)
    assert ran.code == 0, ran.err
    assert f"pip install 'arc-context-engine[{extra}]'" in ran.out
    assert {json.loads(message.text)["framework"] for message in stored(tmp_path, RECORDS)} == {other}


def test_without_any_framework_it_says_what_to_install(tmp_path: Path) -> None:
    """Exit code 1, one message, and no file."""
    module(tmp_path, "langchain_core", "raise ImportError('none')")
    ran = demo(tmp_path, PYTHONPATH=module(tmp_path, "llama_index", "raise ImportError('none')"))
    assert ran.code == 1
    assert "arc-context-engine[langchain]" in ran.err
    assert "arc-context-engine[llamaindex]" in ran.err
    assert "Traceback" not in ran.err
    assert not (tmp_path / "arc-demo.db").exists()


PROVIDER = """
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class ChatOpenAI(BaseChatModel):
        model: str

        @property
        def _llm_type(self):
            return "test"

        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            {body}
            text = f"{{self.model}} was shown {{len(messages)}} messages"
            return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])
    """


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Installs a provider's package, for as long as the test lasts."""

    def install(text: str) -> None:
        module(tmp_path, "langchain_openai", text)
        monkeypatch.syspath_prepend(str(tmp_path))

    yield install
    sys.modules.pop("langchain_openai", None)


def without_the_end(whole: Finished, folder: Path, turns: int) -> None:
    """A copy of the run's file, in which the conversation stands after so many turns."""
    (folder / "arc-demo.db").write_bytes((whole.folder / "arc-demo.db").read_bytes())
    with ContextEngine.open(f"sqlite:///{folder}/arc-demo.db") as engine:
        for name, messages in ((SESSION, 2 * turns), (RECORDS, turns)):
            session = engine.session(name)
            session.remove([message.id for message in session.messages()[messages:] if message.id])


@pytest.mark.parametrize("half", ["LangChain", "LlamaIndex"])
def test_a_real_model_answers_when_a_key_is_set(
    whole: Finished, here: Demo, provider: Callable[[str], None], tmp_path: Path, half: str
) -> None:
    """Only the questions cost calls, both halves ask it, and the key shows nowhere."""
    provider(PROVIDER.format(body="pass"))
    asked = [turn.number for turn, _ in script.questions]
    begin, end = 0, asked[0]
    if half == "LlamaIndex":
        begin = next(number for number in asked if number > script.handover) - 2
        end = len(script.turns)
        without_the_end(whole, tmp_path, begin)
    ran = here(tmp_path, "--turns", str(end - begin), OPENAI_API_KEY="sk-hunter2")
    assert ran.code == 0, ran.err
    assert "openai:gpt-5-mini" in ran.out
    assert "hunter2" not in ran.out + ran.err
    answers = [text for _, text in spoken(tmp_path)[1::2]]
    records = [json.loads(message.text) for message in stored(tmp_path, RECORDS)]
    assert {record["framework"] for record in records[begin:]} == {half}
    assert {number: text for number, text in enumerate(answers, 1) if "gpt-5-mini" in text} == {
        # two of the system's, and the question
        number: f"gpt-5-mini was shown {len(records[number - 1]['arc']['seen']) + 3} messages"
        for number in asked
        if begin < number <= end
    }


def test_a_model_that_fails_ends_the_run_and_can_be_resumed(
    here: Demo, provider: Callable[[str], None], tmp_path: Path
) -> None:
    """Exit code 1, the model's name, not the client's words; the turns before it, and the question, are kept."""
    provider(PROVIDER.format(body="raise PermissionError('bad key sk-hunter2')"))
    ran = here(tmp_path, OPENAI_API_KEY="sk-hunter2")
    assert ran.code == 1
    assert ran.err.startswith("arc: the model openai:gpt-5-mini failed (PermissionError)")
    assert "hunter2" not in ran.out + ran.err
    done = script.questions[0][0].number - 1
    assert len(spoken(tmp_path)) == 2 * done + 1
    assert f"after turn {done}" in here(tmp_path, "--local", "--turns", "1").out


def test_a_model_can_be_named(here: Demo, provider: Callable[[str], None], tmp_path: Path) -> None:
    """The name goes to the provider's class as it is."""
    provider(PROVIDER.format(body="pass"))
    here(tmp_path, "--model", "openai:my-own", "--turns", str(script.questions[0][0].number))
    assert spoken(tmp_path)[-1][1].startswith("my-own was shown")


def test_a_named_model_without_its_package_is_an_error(here: Demo, tmp_path: Path) -> None:
    """Who asked for it gets no other one in its place."""
    ran = here(tmp_path, "--model", "google:some")
    assert ran.code == 1
    assert "pip install langchain-google-genai" in ran.err
    assert "pip install llama-index-llms-google-genai" in ran.err


def test_a_client_that_fails_when_it_is_made_is_said(
    here: Demo, provider: Callable[[str], None], tmp_path: Path
) -> None:
    """Some go online at once; the local model answers, and their words are not repeated."""
    provider("def ChatOpenAI(model): raise OSError('sk-hunter2')")
    ran = here(tmp_path, "--turns", "1", OPENAI_API_KEY="sk-hunter2")
    assert ran.code == 0, ran.err
    assert "LangChain can't reach openai:gpt-5-mini (OSError)" in " ".join(ran.out.split())
    assert "hunter2" not in ran.out + ran.err


def test_local_wins_over_a_key(here: Demo, tmp_path: Path) -> None:
    """No call is made, and no provider's package is looked for."""
    ran = here(tmp_path, "--local", "--turns", "1", OPENAI_API_KEY="sk-hunter2")
    assert ran.code == 0
    assert "openai" not in ran.out


def test_a_key_without_the_package_is_said(here: Demo, tmp_path: Path) -> None:
    """The local model answers, and the missing package is named."""
    ran = here(tmp_path, "--turns", "1", ANTHROPIC_API_KEY="sk-hunter2")
    assert ran.code == 0, ran.err
    assert "pip install langchain-anthropic" in " ".join(ran.out.split())
    assert "hunter2" not in ran.out + ran.err


@pytest.mark.parametrize(
    ("variables", "escapes"),
    [({"TERM": "xterm-256color"}, True), ({"TERM": "dumb"}, False)],
    ids=["colour terminal", "dumb terminal"],
)
def test_in_a_terminal(tmp_path: Path, variables: dict[str, str], escapes: bool) -> None:
    """A capable terminal gets colour and a progress bar; a dumb one gets plain lines."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*ARC, "demo", "--fast", "--turns", "3"], cwd=tmp_path, env=environment(**variables), stdout=theirs
    )
    os.close(theirs)
    output = b""
    try:
        while chunk := os.read(ours, 65536):
            output += chunk
    except OSError:  # Linux says so when the other end is closed
        pass
    os.close(ours)
    assert process.wait() == 0
    assert (b"\x1b[" in output) == escapes
    assert (b"3/208" in output or b"2/208" in output) == escapes
    assert "Mina Park" in output.decode()


def test_no_colour_is_respected(here: Demo, tmp_path: Path) -> None:
    """NO_COLOR wins over a terminal that has it."""
    terminal = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "TTY_INTERACTIVE": "0"}
    assert "\x1b[36m" in here(tmp_path, "--turns", "1", **terminal).out
    assert "\x1b[36m" not in here(tmp_path, "--turns", "1", **terminal, NO_COLOR="1").out


def test_an_old_console_gets_letters_that_it_can_show(whole: Finished) -> None:
    """No error where the output's encoding holds neither Korean nor block characters."""
    ran = demo(whole.folder, PYTHONIOENCODING="ascii")
    assert ran.code == 0, ran.err
    assert f"16 of {len(script.questions)}" in ran.out
    assert ran.out.isascii()


def test_registering_emits_no_warning() -> None:
    """What LangChain says about its own class stays out of the demo."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        halves, missing = find_halves()
    assert [half.name for half in halves] == ["LangChain", "LlamaIndex"]
    assert not missing
