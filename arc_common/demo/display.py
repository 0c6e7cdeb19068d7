"""How the demo looks: a line for each turn while it plays, and the comparison at the end.

- Colours are the terminal's own, so that they read on dark and on light ground; without colour nothing is lost.
- Where the output can't show block characters, ASCII stands in for them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.box import ASCII, SIMPLE_HEAD, Box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from arc_common.demo.actor import View
from arc_common.demo.run import WINDOW, TurnRecord
from arc_common.demo.script import Question, Script, ScriptTurn

__all__ = ["Display"]

_PARTS = (("system", "system prompt", "blue"), ("history", "earlier messages", "green"), ("question", "new", "yellow"))
_HALVES = ("cyan", "magenta")
_WIDEST = 120
"""Columns: more would only pull a line's parts away from each other."""
_ARC = "arc"
_WINDOW = f"last {WINDOW}"


@dataclass(frozen=True, slots=True)
class _Glyphs:
    bar: str
    seen: str
    unseen: str
    fact: str
    right: str
    wrong: str
    rule: str
    box: Box
    overflow: str


_UNICODE = _Glyphs("▇", "█", "·", "◆", "✓", "✗", "─", SIMPLE_HEAD, "ellipsis")
_ASCII = _Glyphs("=", "#", ".", "*", "+", "x", "-", ASCII, "crop")


class Display:
    """Prints the demo to a console.

    Args:
        console: Where it goes; its width decides how much of a turn is shown.
        script: The conversation.
        full_bar: The tokens that a full bar stands for.
    """

    def __init__(self, console: Console, script: Script, *, full_bar: int) -> None:
        self._console = console
        self._script = script
        self._full_bar = full_bar
        self._width = min(console.width, _WIDEST)
        self._wide = self._width >= 100
        self._narrow = self._width < 64
        self._seen_width, self._bar_width = (16, 24) if self._wide else (8, 0 if self._narrow else 12)
        self._glyphs = _ASCII if console.options.ascii_only or console.legacy_windows else _UNICODE
        self._styles: dict[str, str] = {}

    def title(self, rows: Iterable[tuple[str, RenderableType]]) -> None:
        """What is about to happen."""
        messages = 2 * len(self._script.turns)
        self._print("")
        self._print(Text.assemble(("arc demo", "bold"), "  one conversation, two frameworks, one database"))
        self._print(
            f"A customer talks to a shop's support for {messages} messages. She states facts early and asks for them "
            f"late.\nEach request goes to a model twice: with what arc selects, and with the last {WINDOW} messages, "
            "the usual sliding window."
        )
        self._print("")
        table = Table.grid(padding=(0, 2))
        for name, value in rows:
            table.add_row(Text(name, "bold"), value)
        self._print(table)

    def half(self, name: str, note: str) -> None:
        """A framework takes over."""
        self._print("")
        self._rule(Text.assemble((name, "bold"), "  ", note), self._style_of(name))
        words = ("", "the customer says", "earlier messages" if self._wide else "earlier", "tokens", "")
        self._row(*(Text(word, "dim") for word in words))

    def turn(self, turn: ScriptTurn, record: TurnRecord) -> None:
        """One finished turn: what was said and what it cost, and for a question both answers."""
        number = Text(f"{turn.number}", self._style_of(record.framework))
        if turn.question is None:
            said = Text(turn.user, no_wrap=True, overflow=self._glyphs.overflow)  # type: ignore[arg-type]  # a str of rich's own choices
            self._row(number, said, *self._request(record.arc))
            return
        asked = Table.grid(padding=(0, 1))
        asked.add_column(width=3, justify="right")
        asked.add_row(number, Text(turn.user, "bold"))
        self._print(asked)
        for name, view in ((_ARC, record.arc), (_WINDOW, record.window)):
            answer = Table.grid(padding=(0, 1))
            answer.add_column(width=len(_WINDOW))
            answer.add_row(Text(name, "bold"), self._answer(turn.question, view))
            self._row("", answer, *self._request(view))

    def comparison(self, records: Sequence[TurnRecord], *, budget: int) -> None:
        """What both came to, when all turns are done; `budget` is the most tokens that arc may put in a request."""
        asked = [(question, records[turn.number - 1]) for turn, question in self._script.questions]
        self._print("")
        self._rule(Text("What the model saw in the end, and what it answered", "bold"), "default")
        self._print(Padding(self._map(records), (1, 1, 1 if self._narrow else 0, 1)))
        self._print(self._answers(asked))
        models = ", ".join(dict.fromkeys(record.model for _, record in asked))
        bounds = (
            f"Same model ({models}), same questions. arc keeps whole turns within a budget of {budget:,} tokens a "
            f"request; the window keeps {WINDOW} messages, whatever their size."
        )
        if all(len(record.arc.seen) == 2 * record.number - 2 for record in records):
            bounds += " This conversation fits that budget whole: arc left nothing out, and paid for all of it."
        self._print(Padding(self._costs(records, asked), (1 if self._narrow else 0, 1, 1, 1)))
        self._print(Padding(bounds, (0, 1)))

    def closing(self, path: Path, stored: int) -> None:
        """Where it is all kept, and how to begin anew."""
        self._print("")
        self._console.print(
            f"All {stored} messages are in {path}; `arc demo --restart` begins anew.", highlight=False, soft_wrap=True
        )

    def note(self, text: str) -> None:
        """A line of its own."""
        self._print("")
        self._print(Text(text, "bold"))

    def _print(self, what: RenderableType) -> None:
        self._console.print(what, highlight=False, width=self._width)

    def _rule(self, title: Text, style: str) -> None:
        self._print(Rule(title, style=style, align="left", characters=self._glyphs.rule))

    def _row(self, *cells: RenderableType) -> None:
        """Number, words, what the model got, tokens, bar."""
        table = Table.grid(padding=(0, 1))
        table.add_column(width=3, justify="right")
        table.add_column(width=self._width - 3 - self._seen_width - 6 - self._bar_width - 4)
        table.add_column(width=self._seen_width, no_wrap=True)
        table.add_column(width=6, justify="right", no_wrap=True)
        if self._bar_width:
            table.add_column(width=self._bar_width, no_wrap=True)
        table.add_row(*cells[: len(table.columns)])
        self._print(table)

    def _request(self, view: View) -> tuple[Text, Text, Text]:
        """What a model got, its tokens, and their bar."""
        span = f"{view.seen[0]} to {view.seen[-1]}" if view.seen else "none yet"
        return Text(span, "dim"), Text(f"{view.tokens:,}"), self._bar(view)

    def _bar(self, view: View) -> Text:
        bar = Text()
        tokens = 0
        for part, _, style in _PARTS:
            tokens += view.parts[part]
            end = max(round(tokens / self._full_bar * self._bar_width), len(bar) + bool(view.parts[part]))
            bar.append(self._glyphs.bar * (min(end, self._bar_width) - len(bar)), style)
        return bar

    def legend(self) -> Text:
        """What the parts of a bar are."""
        legend = Text("tokens: ")
        for _, words, style in _PARTS:
            legend.append(self._glyphs.bar * 2, style).append(f" {words}   ")
        return legend

    def _answer(self, question: Question, view: View, *, value_only: bool = False) -> Text:
        value = question.value_in(view.answer)
        if value is None:
            return Text.assemble((f"{self._glyphs.wrong} ", "bold red"), view.answer, overflow="fold")
        answer = Text(value if value_only else view.answer)
        answer.highlight_words([value], "bold green", case_sensitive=False)
        return Text.assemble((f"{self._glyphs.right} ", "bold green"), answer, overflow="fold")

    def _map(self, records: Sequence[TurnRecord]) -> Table:
        """A cell for each turn before the last question: where facts were stated, and what each model saw."""
        last = records[-1]
        step = 2 if self._narrow else 1
        cells = range(1, last.number, step)
        facts = {question.stated for _, question in self._script.questions}
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, min_width=len(cells))
        table.add_column()
        marks = [self._glyphs.fact if facts & {*range(cell, cell + step)} else " " for cell in cells]
        table.add_row(
            Text("asked for", "bold"),
            Text("".join(marks), "bold yellow"),
            Text("" if self._narrow else "stated here", "yellow"),
        )
        for name, view in ((_ARC, last.arc), (_WINDOW, last.window)):
            line = Text()
            for cell in cells:
                seen = 2 * cell in view.seen
                style = self._style_of(records[cell - 1].framework) if seen else "dim"
                line.append(self._glyphs.seen if seen else self._glyphs.unseen, style)
            unit = "" if self._narrow else " messages"
            table.add_row(Text(name, "bold"), line, f"{len(view.seen)} of {2 * last.number - 2}{unit}")
        halves = Text()
        for name in dict.fromkeys(record.framework for record in records):
            halves.append(f"{self._glyphs.seen} ", self._style_of(name)).append(f"{name}  ")
        table.add_row("", halves, "")
        return table

    def _answers(self, asked: Sequence[tuple[Question, TurnRecord]]) -> Table:
        if self._narrow:
            return self._answer_list(asked)
        table = Table(box=self._glyphs.box, width=self._width, header_style="bold")
        table.add_column("asked for", no_wrap=True)
        if self._wide:
            table.add_column("stated", no_wrap=True)
        table.add_column("with arc", no_wrap=True)
        table.add_column(f"with the last {WINDOW} messages", ratio=1)
        for question, record in asked:
            stated = (f"turn {question.stated}",) if self._wide else ()
            table.add_row(question.about, *stated, *self._both_answers(question, record))
        return table

    def _answer_list(self, asked: Sequence[tuple[Question, TurnRecord]]) -> Table:
        table = Table.grid(padding=(0, 2))
        for question, record in asked:
            arc, window = self._both_answers(question, record)
            table.add_row("", Text(question.about, "bold"))
            table.add_row(f" {_ARC}", arc)
            table.add_row(f" {_WINDOW}", window)
        return table

    def _both_answers(self, question: Question, record: TurnRecord) -> list[Text]:
        return [self._answer(question, view, value_only=True) for view in (record.arc, record.window)]

    def _costs(self, records: Sequence[TurnRecord], asked: Sequence[tuple[Question, TurnRecord]]) -> Table:
        views = ([record.arc for record in records], [record.window for record in records])
        answers = ([(q, record.arc) for q, record in asked], [(q, record.window) for q, record in asked])
        right = [sum(q.value_in(view.answer) is not None for q, view in side) for side in answers]
        table = Table.grid(padding=(0, 3))
        table.add_column()
        table.add_column(justify="right")
        table.add_column(justify="right")
        table.add_row("", Text(_ARC, "bold"), Text(_WINDOW, "bold"))
        table.add_row(
            Text("right answers", "bold"), *(Text(f"{n} of {len(asked)}", _grade(n, len(asked))) for n in right)
        )
        table.add_row("tokens in the largest request", *(f"{max(view.tokens for view in side):,}" for side in views))
        table.add_row(
            f"tokens in all {len(records)} requests", *(f"{sum(view.tokens for view in side):,}" for side in views)
        )
        return table

    def _style_of(self, framework: str) -> str:
        return self._styles.setdefault(framework, _HALVES[len(self._styles) % len(_HALVES)])


def _grade(right: int, asked: int) -> str:
    return "bold green" if right == asked else "bold red" if 2 * right < asked else "bold yellow"
