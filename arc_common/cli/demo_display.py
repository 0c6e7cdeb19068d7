"""`arc demo` on the console: its options, its turns as they are played, and the comparison at the end."""

import math
import os
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from shlex import quote
from shutil import which

from rich.box import ASCII, SIMPLE_HEAD, Box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.rule import Rule
from rich.table import Table
from rich.text import Text
from sqlalchemy import URL

from arc_common.cli.demo import (
    SESSION,
    DemoRun,
    Half,
    Missing,
    Question,
    Script,
    ScriptTurn,
    TurnRecord,
    View,
    find_halves,
    support_script,
)
from arc_common.exceptions import ConfigurationError, InvalidInputError
from arc_common.protocols import ChatModel
from arc_common.testing import ScriptedChatModel

_HALVES = ("cyan", "magenta")
_WIDEST = 120
"""Columns; in wider lines the columns would be too far apart."""
_ARC, _NEWEST, _WHOLE = "arc", "newest", "everything"
_SIDES = (_ARC, _NEWEST, _WHOLE)
_TOO_LONG = "too long"


@dataclass(frozen=True, slots=True)
class _Glyphs:
    seen: str
    noted: str
    unseen: str
    fact: str
    right: str
    wrong: str
    rule: str
    box: Box
    overflow: str


_UNICODE = _Glyphs("█", "▒", "·", "◆", "✓", "✗", "─", SIMPLE_HEAD, "ellipsis")
_ASCII = _Glyphs("#", "o", ".", "*", "+", "x", "-", ASCII, "crop")


class Display:
    """Prints the demo to a console."""

    def __init__(self, console: Console, script: Script, *, limit: int) -> None:
        self._console = console
        self._script = script
        self._limit = limit
        self._width = min(console.width, _WIDEST)
        self._glyphs = _ASCII if console.options.ascii_only or console.legacy_windows else _UNICODE
        self._styles: dict[str, str] = {}

    def title(self, rows: Iterable[tuple[str, RenderableType]]) -> None:
        """Print the introduction: the conversation, the three strategies, and the run's details."""
        messages = 2 * len(self._script.turns)
        self._print("")
        self._print(Text.assemble(("arc demo", "bold"), "  one conversation, two frameworks, one database"))
        self._print(
            f"A customer and a furniture shop exchange {messages} messages; then she asks about what she said early "
            f"on. The model takes {self._limit:,} tokens in one request (a token is about three quarters of "
            "a word), and knows only what is in it. What should be in it? Three answers, side by side:"
        )
        self._print("")
        table = Table.grid(padding=(0, 2))
        for name, words in (
            (_ARC, "what arc selects: the newest messages, and facts, a summary and quotations of older ones"),
            (_NEWEST, "as many of the newest messages as fit: a sliding window"),
            (_WHOLE, "all messages so far; the model refuses a request that is too long"),
        ):
            table.add_row(Text(name, "bold"), words)
        table.add_row("", "")
        for name, value in rows:
            table.add_row(Text(name, "bold"), value)
        self._print(table)

    def half(self, name: str, note: str) -> None:
        """Print the heading of a framework's half."""
        self._print("")
        self._rule(Text.assemble((name, "bold"), "  ", note), self._style_of(name))
        self._row("", Text("the customer says", "dim"), *(Text(side, "dim") for side in _SIDES))

    def turn(self, turn: ScriptTurn, record: TurnRecord) -> None:
        """Print one finished turn: the tokens of each request, and marks for the answers to a question."""
        said = Text(turn.user, "" if turn.question is None else "bold", no_wrap=True)
        said.overflow = self._glyphs.overflow  # type: ignore[assignment]  # a str of rich's own choices
        cells = [
            Text.assemble(f"{cost:,}", self._mark(turn.question, answer, fits=cost <= self._limit))
            for answer, cost in zip(record.answers, record.tokens, strict=True)
        ]
        self._row(Text(f"{turn.number}", self._style_of(record.framework)), said, *cells)

    def comparison(self, records: Sequence[TurnRecord]) -> None:
        """Print the results of the three strategies after the last turn."""
        asked = [(question, records[turn.number - 1]) for turn, question in self._script.questions]
        self._print("")
        self._rule(Text("What the model saw at the end, and what it answered", "bold"), "default")
        self._print(Padding(self._map(records), (1, 1, 0, 1)))
        self._print(self._answers(asked))
        self._print(Padding(self._costs(records, asked), (0, 1, 1, 1)))
        self._print(Padding(self._remark(records, asked), (0, 1)))

    def closing(self, path: Path, stored: int, *, inspect: str, restart: str) -> None:
        """Print where the messages are stored, how to inspect them, and how to start again."""
        self._print("")
        for line in (
            f"All {stored} messages are in {path}.",
            "",
            "The last request, part by part:",
            f"  {inspect}",
            "Play it again:",
            f"  {restart}",
        ):
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def note(self, text: str) -> None:
        """Print a line in bold."""
        self._print("")
        self._print(Text(text, "bold"))

    def _print(self, what: RenderableType) -> None:
        self._console.print(what, highlight=False, width=self._width)

    def _rule(self, title: Text, style: str) -> None:
        self._print(Rule(title, style=style, align="left", characters=self._glyphs.rule))

    def _row(self, *cells: RenderableType) -> None:
        """Print a turn's number, text and tokens."""
        table = Table.grid(padding=(0, 1))
        table.add_column(width=3, justify="right")
        numbers = (7, 7, 10)
        table.add_column(width=self._width - 3 - sum(numbers) - len(numbers) - 1)
        for width in numbers:
            table.add_column(width=width, justify="right", no_wrap=True)
        table.add_row(*cells)
        self._print(table)

    def _mark(self, question: Question | None, answer: str, *, fits: bool) -> tuple[str, str]:
        """Return the mark after a request's tokens, with its style."""
        if not fits or (question and question.value_in(answer) is None):
            return f" {self._glyphs.wrong}", "bold red"
        return (f" {self._glyphs.right}", "bold green") if question else ("  ", "")

    def _answer(self, question: Question, answer: str, tokens: int) -> Text:
        """Return an answer with its mark; a right answer is cut to its value."""
        if tokens > self._limit:
            return Text.assemble((f"{self._glyphs.wrong} ", "bold red"), (_TOO_LONG, "dim"))
        value = question.value_in(answer)
        if value is None:
            return Text.assemble((f"{self._glyphs.wrong} ", "bold red"), answer, overflow="fold")
        return Text.assemble((f"{self._glyphs.right} ", "bold green"), (value, "bold green"), overflow="fold")

    def _map(self, records: Sequence[TurnRecord]) -> Table:
        """Draw the conversation before the last question, with the turns that state facts and the messages seen."""
        last = records[-1]
        before = last.number - 1
        step = math.ceil(before / max(self._width - 50, 10))
        cells = [range(turn, min(turn + step, last.number)) for turn in range(1, last.number, step)]
        stated = {question.stated for _, question in self._script.questions}
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, min_width=len(cells))
        marks = "".join(self._glyphs.fact if stated & {*cell} else " " for cell in cells)
        whole_fits = last.whole <= self._limit
        whole = View(tuple(range(1, 2 * before + 1)) if whole_fits else (), (), {}, "")
        table.add_row(Text("asked for", "bold"), Text(marks, "bold yellow"), Text("stated here", "yellow"))
        for name, view in ((_ARC, last.arc), (_NEWEST, last.newest), (_WHOLE, whole)):
            quoted = len({*view.noted} - {*view.seen})
            said = f"{len(view.seen)} of {2 * before} messages" + (f", {quoted} more quoted" if quoted else "")
            said = said if name != _WHOLE or whole_fits else f"none: {last.whole:,} tokens are {_TOO_LONG}"
            table.add_row(Text(name, "bold"), self._seen(cells, view, records), Text(said))
        key = Text()
        for name in dict.fromkeys(record.framework for record in records):
            key.append(f"{self._glyphs.seen} ", self._style_of(name)).append(f"{name}  ")
        key.append(f"{self._glyphs.noted} quoted in part")
        table.add_row("", key)
        return table

    def _seen(self, cells: Sequence[range], view: View, records: Sequence[TurnRecord]) -> Text:
        line = Text()
        for cell in cells:
            messages = {number for turn in cell for number in (2 * turn - 1, 2 * turn)}
            seen, noted = messages & {*view.seen}, messages & {*view.noted}
            glyph = self._glyphs.seen if seen else self._glyphs.noted if noted else self._glyphs.unseen
            line.append(glyph, self._style_of(records[cell[0] - 1].framework) if seen or noted else "dim")
        return line

    def _answers(self, asked: Sequence[tuple[Question, TurnRecord]]) -> Table:
        table = Table(box=self._glyphs.box, header_style="bold")
        table.add_column("asked for", no_wrap=True)
        table.add_column(_ARC)
        table.add_column(_NEWEST)
        table.add_column(_WHOLE)
        for question, record in asked:
            said = zip(record.answers, record.tokens, strict=True)
            table.add_row(question.about, *(self._answer(question, *one) for one in said))
        return table

    def _costs(self, records: Sequence[TurnRecord], asked: Sequence[tuple[Question, TurnRecord]]) -> Table:
        table = Table.grid(padding=(0, 3))
        table.add_column()
        for _ in _SIDES:
            table.add_column(justify="right", no_wrap=True)
        table.add_row("", *(Text(name, "bold") for name in _SIDES))
        right = [self._right(asked, side) for side in range(3)]
        table.add_row(
            Text("right answers", "bold"), *(Text(f"{n} of {len(asked)}", _grade(n, len(asked))) for n in right)
        )
        tokens = [*zip(*(record.tokens for record in records), strict=True)]
        fit = [sum(cost <= self._limit for cost in side) for side in tokens]
        table.add_row("requests that the model took", *(f"{n} of {len(records)}" for n in fit))
        table.add_row("tokens in the largest request", *(f"{max(side):,}" for side in tokens))
        table.add_row(f"tokens in all {len(records)} requests", *(f"{sum(side):,}" for side in tokens))
        return table

    def _right(self, asked: Sequence[tuple[Question, TurnRecord]], side: int) -> int:
        return sum(
            question.value_in(record.answers[side]) is not None
            for question, record in asked
            if side < 2 or record.whole <= self._limit
        )

    def _remark(self, records: Sequence[TurnRecord], asked: Sequence[tuple[Question, TurnRecord]]) -> str:
        """Explain the comparison, and give the result for a model without a limit."""
        models = ", ".join(dict.fromkeys(record.model for _, record in asked))
        unlimited = sum(question.value_in(record.whole_answer) is not None for question, record in asked)
        times = sum(record.whole for record in records) / sum(record.arc.tokens for record in records)
        last = records[-1].arc.parts
        return (
            f"Same model ({models}), same questions, same limit of {self._limit:,} tokens; all tokens are counted as "
            f"the model received them. arc's last request: {last['facts']:,} tokens of facts, {last['summary']:,} of "
            f"summary, {last['recalled']:,} of recalled messages, {last['history']:,} of newest messages. Rules wrote "
            f"facts and summary, without a call to a model. Without a limit, sending everything gets {unlimited} of "
            f"{len(asked)} right, for {times:.1f} times arc's tokens."
        )

    def _style_of(self, framework: str) -> str:
        return self._styles.setdefault(framework, _HALVES[len(self._styles) % len(_HALVES)])


def _grade(right: int, asked: int) -> str:
    return "bold green" if 4 * right >= 3 * asked else "bold red" if 2 * right < asked else "bold yellow"


_PAUSE = 0.8
"""Seconds after a turn when every turn is shown."""

_SHOWN_EVERY = 20
"""Otherwise all questions and one in this many turns are shown."""


@dataclass(frozen=True, slots=True)
class _Provider:
    """A model provider: its name, the variables of its key, and its default model."""

    name: str
    keys: tuple[str, ...]
    model: str


_PROVIDERS = (
    _Provider("openai", ("OPENAI_API_KEY",), "gpt-5-mini"),
    _Provider("anthropic", ("ANTHROPIC_API_KEY",), "claude-haiku-4-5"),
    _Provider("google", ("GOOGLE_API_KEY", "GEMINI_API_KEY"), "gemini-2.5-flash"),
)


def _provider_with_key() -> _Provider | None:
    """Return the first provider whose key is set and not empty; `None` if there is none."""
    return next((provider for provider in _PROVIDERS if any(map(os.environ.get, provider.keys))), None)


@dataclass(frozen=True, slots=True)
class _Cast:
    """The model that answers, its name, and a remark on why it was chosen."""

    model: ChatModel
    name: str
    remark: str


def run_demo(
    console: Console, *, file: Path, restart: bool, turns: int | None, local: bool, model: str | None, slow: bool
) -> None:
    """Play the demo from where it stopped, and show the comparison at the end."""
    script = support_script()
    with console.status("starting", spinner="line"):  # importing two frameworks takes seconds
        halves, missing = find_halves()
    if not halves:
        raise ConfigurationError("the demo needs a framework: " + " or ".join(map(_advice, missing)))
    cast = _cast(halves, local=local, wanted=model)
    path = file.expanduser().resolve()
    run = DemoRun(_url(path), script, halves, cast.model, cast.name)
    try:
        if restart:
            run.restart()
        _play(console, run, _rows(path, halves, missing, cast), path=path, stop=turns, show_all=slow)
    finally:
        run.close()


def _play(
    console: Console,
    run: DemoRun,
    rows: Sequence[tuple[str, Text]],
    *,
    path: Path,
    stop: int | None,
    show_all: bool,
) -> None:
    display = Display(console, run.script, limit=run.limit)
    records = run.done()
    turns = run.script.turns
    finished = len(records) == len(turns)
    display.title(rows)
    if finished:
        display.note("This conversation is complete; nothing was asked again.")
    elif records:
        display.note(f"Continuing after turn {len(records)} of {len(turns)}: the file remembers the rest.")
    with _progress(console) as progress, closing(run.play()) as played:
        task = progress.add_task("turns", total=len(turns), completed=len(records))
        playing = ""
        for record in islice(played, stop):
            if record.framework != playing:
                playing = record.framework
                display.half(playing, _entrance(2 * record.number - 2, path))
            turn = turns[record.number - 1]
            if show_all or turn.question or record.number == 1 or record.number % _SHOWN_EVERY == 0:
                display.turn(turn, record)
            records.append(record)
            progress.advance(task)
            if show_all and console.is_interactive:
                time.sleep(_PAUSE)
    if len(records) < len(turns):
        display.note(f"Stopped after turn {len(records)} of {len(turns)}; run the same command to continue.")
        return
    display.comparison(records)
    arc, shown = _program(), _relative(path)
    file = "" if shown == Path("arc-demo.db") else f" --file {quote(str(shown))}"
    display.closing(
        path,
        len(run.stored()),
        inspect=f"{arc} inspect {SESSION} --url {quote(_url(shown))} --tokens {run.limit}",
        restart=f"{arc} demo --restart{file}",
    )


def _program() -> str:
    """Return the `arc` command to type in this folder, as a path if its environment isn't active."""
    own = which("arc", path=str(Path(sys.executable).parent))
    return "arc" if own is None or which("arc") == own else quote(str(_relative(Path(own))))


def _relative(path: Path) -> Path:
    """Return the path, relative to this folder if it is below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _entrance(seen: int, path: Path) -> str:
    return f"continues with the {seen} messages in {path.name}" if seen else f"begins, and writes to {path.name}"


def _cast(halves: Sequence[Half], *, local: bool, wanted: str | None) -> _Cast:
    scripted = ScriptedChatModel()
    name = "local"
    explained = "local, needs no key: it can only quote what it is shown"
    if wanted is not None:
        provider, _, chosen = wanted.partition(":")
        if provider not in {known.name for known in _PROVIDERS} or not chosen:
            known = ", ".join(f"{each.name}:{each.model}" for each in _PROVIDERS)
            raise InvalidInputError("--model", wanted, f"provider:name, such as {known}")
        return _Cast(_real(halves, provider, chosen), wanted, wanted)
    found = _provider_with_key()
    if local or found is None:
        return _Cast(scripted, name, explained)
    real = f"{found.name}:{found.model}"
    try:
        return _Cast(_real(halves, found.name, found.model), real, f"{real}, because a key of {found.name} is set")
    except ConfigurationError as error:
        return _Cast(scripted, name, f"{explained}\na key of {found.name} is set, but {error}")


def _real(halves: Sequence[Half], provider: str, name: str) -> ChatModel:
    """Return the model from the first framework that can reach it."""
    reasons = []
    for half in halves:
        try:
            return half.model(provider, name)
        except ConfigurationError as error:
            reasons.append(str(error))
        except Exception as error:  # noqa: BLE001 - some clients go online at once; their words may show the key
            reasons.append(f"{half.name} can't reach {provider}:{name} ({type(error).__name__})")
    raise ConfigurationError("; or ".join(reasons))


def _rows(path: Path, halves: Sequence[Half], missing: Sequence[Missing], cast: _Cast) -> list[tuple[str, Text]]:
    rows = [
        (order, Text(f"{half.name}: {half.recipe}")) for order, half in zip(("first", "then"), halves, strict=False)
    ]
    rows += [("missing", Text(_advice(each), "yellow")) for each in missing]
    return [
        *rows,
        ("file", Text(str(path))),
        ("model", Text(cast.remark)),
    ]


def _advice(missing: Missing) -> str:
    return f"pip install 'arc-context-engine[{missing.extra}]' ({missing.reason})"


def _url(path: Path) -> str:
    return URL.create("sqlite", database=path.as_posix()).render_as_string()


def _progress(console: Console) -> Progress:
    return Progress(
        SpinnerColumn("line"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        console=console,
        transient=True,
        disable=not console.is_interactive,
    )
