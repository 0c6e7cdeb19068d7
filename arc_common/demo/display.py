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

_PARTS = (
    ("system", "system prompt", "blue"),
    ("facts", "facts", "cyan"),
    ("summary", "summary", "magenta"),
    ("history", "earlier messages", "green"),
    ("question", "new", "yellow"),
)
_HALVES = ("cyan", "magenta")
_WIDEST = 120
"""Columns: more would only pull a line's parts away from each other."""
_BAR = 16
"""Columns of a full bar."""
_ARC = "arc"
_WINDOW = f"last {WINDOW}"
_WHOLE = "everything"


@dataclass(frozen=True, slots=True)
class _Glyphs:
    bar: str
    seen: str
    noted: str
    unseen: str
    fact: str
    right: str
    wrong: str
    rule: str
    box: Box
    overflow: str


_UNICODE = _Glyphs("▇", "█", "▒", "·", "◆", "✓", "✗", "─", SIMPLE_HEAD, "ellipsis")
_ASCII = _Glyphs("=", "#", "o", ".", "*", "+", "x", "-", ASCII, "crop")


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
        self._glyphs = _ASCII if console.options.ascii_only or console.legacy_windows else _UNICODE
        self._styles: dict[str, str] = {}

    def title(self, rows: Iterable[tuple[str, RenderableType]], *, turns: bool = True) -> None:
        """What is about to happen; with `turns`, also how to read them."""
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
        if turns and self._wide:
            table.add_row(Text("bars", "bold"), self._legend())
        self._print(table)

    def half(self, name: str, note: str) -> None:
        """A framework takes over."""
        self._print("")
        self._rule(Text.assemble((name, "bold"), "  ", note), self._style_of(name))
        columns = ("noted", "tokens") if self._narrow else ("facts", "summary", "messages", "tokens")
        words = ("", "the customer says", *columns, *(("which", "") if self._wide else ()))
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

    def comparison(self, records: Sequence[TurnRecord], *, context_window: int) -> None:
        """What both came to, when all turns are done; `context_window` is what arc was told of the model, in tokens."""
        asked = [(question, records[turn.number - 1]) for turn, question in self._script.questions]
        self._print("")
        self._rule(Text("What the model saw in the end, and what it answered", "bold"), "default")
        self._print(Padding(self._map(records), (1, 1, 1 if self._narrow else 0, 1)))
        self._print(self._answers(asked))
        models = ", ".join(dict.fromkeys(record.model for _, record in asked))
        self._print(Padding(self._costs(records, asked), (1 if self._narrow else 0, 1, 1, 1)))
        self._print(
            Padding(
                f"Same model ({models}), same questions; tokens are those of the requests as it received them. arc has "
                f"its default settings, for a model of {context_window:,} tokens: the newest messages word for word, "
                "the older ones as facts and a summary, which rules made without a call to a model. "
                f"{_costs_compared(records)} Of everything only the tokens were counted; it was not asked.",
                (0, 1),
            )
        )

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
        """Number, words, and what the model got."""
        table = Table.grid(padding=(0, 1))
        table.add_column(width=3, justify="right")
        numbers = (5, 6) if self._narrow else (5, 7, 8, 6)
        drawn = (8, _BAR) if self._wide else ()
        table.add_column(width=self._width - 3 - sum(numbers) - sum(drawn) - len(numbers) - len(drawn) - 1)
        for width in numbers:
            table.add_column(width=width, justify="right", no_wrap=True)
        for width in drawn:
            table.add_column(width=width, no_wrap=True)
        table.add_row(*cells)
        self._print(table)

    def _request(self, view: View) -> list[Text]:
        """What a model got: the tokens of its parts and of all, which messages, and a bar."""
        parts = view.parts
        numbers = (
            [parts["facts"] + parts["summary"]]
            if self._narrow
            else [parts["facts"], parts["summary"], parts["history"]]
        )
        cells = [Text(f"{number:,}" if number else "-", "dim") for number in numbers]
        cells.append(Text(f"{view.tokens:,}"))
        if self._wide:
            span = f"{view.seen[0]} to {view.seen[-1]}" if view.seen else "none yet"
            cells += [Text(span, "dim"), self._bar(view)]
        return cells

    def _bar(self, view: View) -> Text:
        bar = Text()
        tokens = 0
        for part, _, style in _PARTS:
            tokens += view.parts[part]
            end = max(round(tokens / self._full_bar * _BAR), len(bar) + bool(view.parts[part]))
            bar.append(self._glyphs.bar * (min(end, _BAR) - len(bar)), style)
        return bar

    def _legend(self) -> Text:
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
                messages = {number for turn in range(cell, cell + step) for number in (2 * turn - 1, 2 * turn)}
                seen, noted = messages & {*view.seen}, messages & {*view.noted}
                style = self._style_of(records[cell - 1].framework) if seen or noted else "dim"
                glyphs = self._glyphs
                line.append(glyphs.seen if seen else glyphs.noted if noted else glyphs.unseen, style)
            total = f"{len(view.seen)} of {2 * last.number - 2}"
            quoted = len({*view.noted} - {*view.seen})
            more = f" messages, {quoted} more quoted" if quoted else " messages"
            table.add_row(Text(name, "bold"), line, total if self._narrow else total + more)
        halves = Text()
        for name in dict.fromkeys(record.framework for record in records):
            halves.append(f"{self._glyphs.seen} ", self._style_of(name)).append(f"{name}  ")
        table.add_row("", halves, "")
        if last.arc.noted:
            table.add_row("", Text(f"{self._glyphs.noted} only quoted, in facts or summary"), "")
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
        table = Table.grid(padding=(0, 1 if self._narrow else 3))
        table.add_column()
        for _ in range(3):
            table.add_column(justify="right", no_wrap=True)
        table.add_row("", *(Text(name, "bold") for name in (_ARC, _WINDOW, _WHOLE)))
        table.add_row(
            Text("right answers", "bold"),
            *(Text(f"{n} of {len(asked)}", _grade(n, len(asked))) for n in right),
            Text("-", "dim"),
        )
        tokens = [*([view.tokens for view in side] for side in views), [record.whole for record in records]]
        table.add_row("tokens in the largest request", *(f"{max(side):,}" for side in tokens))
        table.add_row(f"tokens in all {len(records)} requests", *(f"{sum(side):,}" for side in tokens))
        for part, words, _ in _PARTS:
            if part in {"facts", "summary", "history"}:
                last = [view.parts[part] for view in (records[-1].arc, records[-1].window)]
                table.add_row(Text(f"{words}, last request", "dim"), *(f"{n:,}" if n else "-" for n in last))
        return table

    def _style_of(self, framework: str) -> str:
        return self._styles.setdefault(framework, _HALVES[len(self._styles) % len(_HALVES)])


def _costs_compared(records: Sequence[TurnRecord]) -> str:
    """What arc costs beside the other two, in the words that the figures bear."""
    arc = sum(record.arc.tokens for record in records)
    window = sum(record.window.tokens for record in records)
    whole = sum(record.whole for record in records)
    saved = round(100 - 100 * arc / whole)
    beside = f"{saved} % less than" if saved > 0 else f"{-saved} % more than" if saved < 0 else "as much as"
    return f"That cost {arc / window:.1f} times the window's tokens, and {beside} sending everything each time."


def _grade(right: int, asked: int) -> str:
    return "bold green" if right == asked else "bold red" if 2 * right < asked else "bold yellow"
