"""Renders a context window on a terminal, through rich."""

from collections.abc import Iterator, Mapping

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from arc_common.context import display
from arc_common.context.receipt import ContextWindow, Item, Section
from arc_common.messages import Message

_STYLES = {
    "system": "bright_black",
    "tools": "blue",
    "facts": "cyan",
    "summary": "magenta",
    "history": "green",
    "user_message": "yellow",
    "recalled": "bright_blue",
    "documents": "red",
    "current_turn": "bright_magenta",
}
"""The terminal's own colours, which are legible on dark and on light backgrounds."""

_LETTERS = {
    "system": "s",
    "tools": "t",
    "facts": "f",
    "summary": "n",
    "history": "h",
    "user_message": "q",
    "recalled": "r",
    "documents": "d",
    "current_turn": "a",
}
"""The letters that identify sections on terminals without colour."""

_WIDEST_BAR = 100
_PREVIEWED = 3
_LINE_CHARACTERS = 400
_ITEM_CHARACTERS = 20_000
_ROWS = 200
_NAMED = 5
_NOTE_CHARACTERS = 1_000


def render_terminal(window: ContextWindow, *, full: bool = False) -> RenderableType:
    """Render the budget as a bar, each section with the first words of its items, and the omissions."""
    return _View(window, full=full)


class _View:
    """Renders a window when rich passes the terminal's options."""

    def __init__(self, window: ContextWindow, *, full: bool) -> None:
        self._window = window
        self._full = full
        self._messages = display.messages_by_item(window)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        glyphs = _Glyphs(coloured=console.color_system is not None and not console.no_color, ascii=options.ascii_only)
        yield self._head()
        yield from _bar(self._window, min(options.max_width, _WIDEST_BAR), glyphs)
        for section in display.shown_sections(self._window):
            yield _headline(section, glyphs)
            yield from _contents(section, self._messages, full=self._full)
        yield from _omissions(self._window, most=_ROWS if self._full else _NAMED)
        for note in self._window.receipt.notes[:_ROWS]:
            yield _hanging(Text.assemble(("note  ", "yellow"), display.excerpt(note, _NOTE_CHARACTERS)), 0)

    def _head(self) -> Text:
        window = self._window
        limit = window.receipt.input_tokens
        messages = display.counted(len(window.messages), "message")
        notes = ", ".join(filter(None, [f"{display.free_tokens(window):,} free", display.error_note(window), messages]))
        return Text.assemble(
            (f"{window.total_tokens:,} of {limit:,} tokens", "bold"),
            (f"  {display.share_used(window)} used, {notes}", "dim"),
        )


class _Glyphs:
    """The characters that draw bars and marks."""

    def __init__(self, *, coloured: bool, ascii: bool) -> None:  # noqa: A002 - the field's word
        self._block, self._mark, self.free = ("#", "#", ".") if ascii else ("█", "■", "░")
        self._coloured = coloured

    def block(self, section: Section) -> str:
        """Return the character that fills a section's part of the bar."""
        return self._block if self._coloured else _LETTERS.get(section.name, "?")

    def mark(self, section: Section) -> str:
        """Return the mark before a section's name."""
        return self._mark if self._coloured else _LETTERS.get(section.name, "?")


def _bar(window: ContextWindow, width: int, glyphs: _Glyphs) -> Iterator[Segment]:
    """Draw the sections' shares; each section with tokens gets at least one column while columns remain."""
    whole = max(window.receipt.input_tokens, window.total_tokens, 1)
    drawn = spent = 0
    for section in window.sections:
        spent += section.tokens
        columns = max(round(width * spent / whole), drawn + (section.tokens > 0)) - drawn
        columns = max(min(columns, width - drawn), 0)
        yield Segment(glyphs.block(section) * columns, _style(section))
        drawn += columns
    yield Segment(glyphs.free * (width - drawn), Style(dim=True))
    yield Segment.line()


def _style(section: Section) -> Style:
    return Style.parse(_STYLES.get(section.name, "default"))


def _headline(section: Section, glyphs: _Glyphs) -> Table:
    line = Table.grid(padding=(0, 2, 0, 0))
    line.add_column(width=21, no_wrap=True)
    line.add_column(width=8, justify="right", no_wrap=True)
    line.add_column(no_wrap=True, style="dim")
    name = Text.assemble((glyphs.mark(section), _style(section)), " ", (display.title(section), "bold"))
    items = display.counted(len(section.items), "item")
    line.add_row(name, f"{section.tokens:,}", f"of {section.limit:,}, {items}")
    return line


def _contents(section: Section, messages: Mapping[int, Message], *, full: bool) -> Iterator[RenderableType]:
    """Render a section's items: the first words of some, or the whole text of all."""
    shown, others = display.shown_items(section, len(section.items) if full else _PREVIEWED)
    if others and not display.best_first(section):
        yield Text(f"  {others:,} more, then", "dim")
    for item in shown:
        yield from _whole(item, messages) if full else _preview(item, messages)
    if others and display.best_first(section):
        yield Text(f"  and {others:,} more", "dim")


def _preview(item: Item, messages: Mapping[int, Message]) -> Iterator[RenderableType]:
    message = messages.get(id(item))
    text = " ".join(display.excerpt(display.said(item, message), _LINE_CHARACTERS).split())
    who = message.role.value if message else display.excerpt(item.id or "", 40) if not text else ""
    if who or text:
        gap = "  " if who and text else ""
        yield Text.assemble("  ", (who, "dim"), gap, text, no_wrap=True, overflow="ellipsis")


def _whole(item: Item, messages: Mapping[int, Message]) -> Iterator[RenderableType]:
    message = messages.get(id(item))
    tokens = "" if item.tokens is None else f" · {display.counted(item.tokens, 'token')}"
    yield _hanging(Text(display.about(item, message) + tokens, "dim"), 2)
    text = display.excerpt(display.said(item, message), _ITEM_CHARACTERS)
    if text:
        yield _hanging(Text(text), 4)


def _hanging(text: Text, indent: int) -> Padding:
    text.overflow = "fold"
    return Padding(text, (0, 0, 0, indent), expand=False)


def _omissions(window: ContextWindow, *, most: int) -> Iterator[RenderableType]:
    count, tokens = display.left_out(window)
    if not count:
        yield Text("nothing left out", "dim")
        return
    what = f"{display.counted(count, 'item')}, {display.counted(tokens, 'token')}"
    yield Text.assemble("\n", ("left out or shortened", "bold"), (f"  {what}", "dim"))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False, pad_edge=False)
    table.add_column("what", overflow="fold")
    table.add_column("why", overflow="fold")
    table.add_column("tokens", justify="right", no_wrap=True)
    for omission in window.receipt.nearest[:most]:
        reason = display.excerpt(omission.reason, _NOTE_CHARACTERS)
        table.add_row(Text(display.about(omission)), Text(reason), f"{omission.tokens:,}")
    for reason, left in list(display.rest(window, named=most).items())[:_ROWS]:
        table.add_row(Text(f"{left.count:,} more"), Text(display.excerpt(reason, _NOTE_CHARACTERS)), f"{left.tokens:,}")
    yield Padding(table, (0, 0, 0, 2), expand=False)
