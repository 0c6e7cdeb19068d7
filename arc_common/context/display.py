"""Displays a context window: as HTML for notebooks and web pages, and through rich on a terminal."""

import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from arc_common.context.receipt import ContextWindow, Item, Omission, Section, receipt_of
from arc_common.messages import Message, Role
from arc_common.prompts.context import longest_share


class Look(NamedTuple):
    """A section's name, its colour in HTML, its style on a terminal, and its letter on a terminal without colour."""

    title: str
    color: str
    style: str
    letter: str


# The colours have a contrast of at least 3 on the light and dark backgrounds (WCAG 2.2, 1.4.11); the styles are the
# terminal's own, which are legible on both.
LOOKS = {
    "system": Look("system prompt", "#6272d9", "bright_black", "s"),
    "tools": Look("tools and schemas", "#957442", "blue", "t"),
    "facts": Look("facts", "#0f8b8d", "cyan", "f"),
    "summary": Look("summary", "#b84fa5", "magenta", "n"),
    "history": Look("conversation", "#36894f", "green", "h"),
    "user_message": Look("user message", "#c27000", "yellow", "q"),
    "recalled": Look("recalled", "#2e86c1", "bright_blue", "r"),
    "documents": Look("documents", "#cb513d", "red", "d"),
    "current_turn": Look("current turn", "#7a8500", "bright_magenta", "a"),
}
_UNKNOWN = Look("", "", "default", "?")

_BEST_FIRST = frozenset({"documents", "recalled", "tools"})
_SPOKEN = ("history", "user_message", "current_turn")
_NAME_CHARACTERS = 120
_NOTE_CHARACTERS = 1_000
_SCORES = 6
_ROWS = 200

_INVISIBLE: dict[int, str | int] = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"},
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
    **dict.fromkeys((0x2028, 0x2029), "\n"),
    **dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD),
    **dict.fromkeys(range(0xD800, 0xE000), 0xFFFD),
    **dict.fromkeys(range(0xE0000, 0xE0080), 0xFFFD),
}


def visible(text: str) -> str:
    """Replace control characters, so that every character of the text is displayed rather than interpreted."""
    return text.replace("\r\n", "\n").translate(_INVISIBLE)


def excerpt(text: str, most: int) -> str:
    """Return the first `most` characters of the text, made `visible`."""
    return visible(text if len(text) <= most else f"{text[: most - 1].rstrip()}…")


def title(section: Section) -> str:
    """Return a section's display name."""
    return LOOKS.get(section.name, _UNKNOWN).title or excerpt(section.name, _NAME_CHARACTERS)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 item`, `1,200 items`."""
    return f"{number:,} {noun if number == 1 else f'{noun}s'}"


def shown_sections(window: ContextWindow) -> list[Section]:
    """Return the sections that are not empty."""
    return [section for section in window.sections if section.tokens or section.items]


def best_first(section: Section) -> bool:
    """Return whether a section's items are ordered best first; the others are ordered by time, newest last."""
    return section.name in _BEST_FIRST


def shown_items(section: Section, most: int) -> tuple[tuple[Item, ...], int]:
    """Return a section's `most` most important items, and the number of its other items."""
    items = section.items
    others = max(len(items) - most, 0)
    return tuple(items[:most] if best_first(section) else items[others:]), others


def usage(window: ContextWindow) -> list[str]:
    """Say how much of the budget is used, is free and is kept free, and how many messages there are."""
    limit, reserve = window.receipt.input_tokens, window.receipt.error_reserve
    percent = 100 * window.total_tokens // limit if limit else 0  # 100 only for a full budget, 0 only for no request
    return [
        f"{percent}% used" if percent or not window.total_tokens else "under 1% used",
        f"{max(limit - reserve - window.total_tokens, 0):,} free",
        *([f"{reserve:,} kept free because tokens are estimated"] if reserve else []),
        counted(len(window.messages), "message"),
    ]


def left_out(window: ContextWindow) -> tuple[int, int]:
    """Return the number of omitted or shortened items, and their tokens."""
    receipt = window.receipt
    count = len(receipt.nearest) + sum(left.count for left in receipt.rest.values())
    tokens = sum(omission.tokens for omission in receipt.nearest) + sum(left.tokens for left in receipt.rest.values())
    return count, tokens


def omission_rows(window: ContextWindow, *, named: int) -> list[tuple[str, str, int]]:
    """Return the omissions with their reasons and tokens: the first `named` one by one, the others by reason."""
    receipt = window.receipt
    others = receipt_of((), receipt.nearest[named:], rest=receipt.rest, nearest=0).rest
    return [
        *((about(one), excerpt(_reason(one), _NOTE_CHARACTERS), one.tokens) for one in receipt.nearest[:named]),
        *(
            (f"{left.count:,} more", excerpt(reason, _NOTE_CHARACTERS), left.tokens)
            for reason, left in list(others.items())[:_ROWS]
        ),
    ]


def _reason(omission: Omission) -> str:
    return f"merged into {omission.carrier}" if omission.carrier else omission.reason


def messages_by_item(window: ContextWindow) -> Mapping[int, Message]:
    """Map `id(item)` to the message each item represents; empty for a window that arc did not build."""
    items = [item for name in _SPOKEN for section in window.sections if section.name == name for item in section.items]
    messages = [message for message in window.messages if message.role is not Role.SYSTEM]
    return dict(zip(map(id, items), messages, strict=True)) if len(items) == len(messages) else {}


def about(item: Item | Omission, message: Message | None = None) -> str:
    """Return an item's kind (a message's role), name, id and scores as one short line."""
    return " · ".join(_labels(item, message).values())


def _labels(item: Item | Omission, message: Message | None) -> dict[str, str]:
    kind = item.kind if message is None else message.role.value
    labels = {"kind": kind, "name": message.name if message else None, "id": item.id}
    labels |= {f"score {part}": f"{part} {score:.3g}" for part, score in list(item.score_parts.items())[:_SCORES]}
    return {name: excerpt(label, _NAME_CHARACTERS) for name, label in labels.items() if label}


def said(item: Item, message: Message | None = None) -> str:
    """Return an item's text as a model reads it; for a message, also its tool calls and non-text parts."""
    lines = [item.text] if item.text else []
    if message is not None:
        if not isinstance(message.content, str):
            lines += [f"[{part.type}]" for part in message.content or () if part.type != "text"]
        lines += [f"→ {call.name}({_arguments(call.arguments)})" for call in message.tool_calls]
    return "\n".join(lines)


def _arguments(arguments: Mapping[str, object] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(dict(arguments), ensure_ascii=False, default=str)


_LIGHT = "--ink:#1f2328;--dim:#57606a;--line:#d5d9e0;--free:#e4e8ee;--paper:#ffffff;color-scheme:light"
_DARK = "--ink:#e6e9ee;--dim:#9da7b5;--line:#3a414c;--free:#272d35;--paper:#15181d;color-scheme:dark"

_LIGHT_PAGES = ('[data-jp-theme-light="true"]', '[data-theme="light"]', ".vscode-light", ".vscode-high-contrast-light")
_DARK_PAGES = ('[data-jp-theme-light="false"]', '[data-theme="dark"]', ".vscode-dark", ".vscode-high-contrast")
"""The selectors by which JupyterLab, documentation themes and VS Code mark a scheme other than the system's.

VS Code gives `vscode-high-contrast` to its light variant too, so the light rules come last.
"""


def _inside(pages: tuple[str, ...]) -> str:
    return ",".join(f"{page} .arc-window" for page in pages)


_OF_SECTIONS = "".join(f".arc-window .arc-of-{name}{{--own:{look.color}}}" for name, look in LOOKS.items())

STYLE = f"""
.arc-window{{{_LIGHT}}}
@media (prefers-color-scheme:dark){{.arc-window{{{_DARK}}}}}
{_inside(_DARK_PAGES)}{{{_DARK}}}
{_inside(_LIGHT_PAGES)}{{{_LIGHT}}}
{_OF_SECTIONS}
.arc-window{{--own:#7c8490;color:var(--ink);background:var(--paper);border:1px solid var(--line);border-radius:8px;
padding:12px 14px 10px;max-width:960px;box-sizing:border-box;text-align:left;
font:14px/1.45 system-ui,-apple-system,"Segoe UI",sans-serif}}
.arc-window .arc-head{{display:flex;justify-content:space-between;gap:2px 12px;flex-wrap:wrap;margin-bottom:8px}}
.arc-window .arc-dim{{color:var(--dim)}}
.arc-window .arc-small{{font-size:12px;margin:6px 0 2px}}
.arc-window .arc-bar{{display:flex;gap:1px;height:18px;border-radius:4px;overflow:hidden;background:var(--free);
forced-color-adjust:none}}
.arc-window .arc-bar span{{display:block;min-width:3px;background:var(--own)}}
.arc-window .arc-bar+details{{margin-top:10px}}
.arc-window details{{border-top:1px solid var(--line)}}
.arc-window summary{{cursor:pointer;padding:4px 0;display:flex;flex-wrap:wrap;gap:0 8px;align-items:baseline}}
.arc-window summary::-webkit-details-marker{{display:none}}
.arc-window summary::before{{content:"▸";color:var(--dim);width:.8em;flex:none}}
.arc-window details[open]>summary::before{{content:"▾"}}
.arc-window .arc-key{{width:10px;height:10px;border-radius:2px;flex:none;background:var(--own);
forced-color-adjust:none}}
.arc-window .arc-omissions .arc-key,.arc-window .arc-notes .arc-key{{background:none;border:1px solid var(--dim);
box-sizing:border-box}}
.arc-window .arc-tokens{{margin-left:auto;font-variant-numeric:tabular-nums;white-space:nowrap}}
.arc-window .arc-nothing{{border-top:1px solid var(--line);padding:4px 0}}
.arc-window .arc-item{{margin:4px 0 8px 1.4em;padding-left:8px;border-left:3px solid var(--own);
overflow-wrap:anywhere}}
.arc-window .arc-id{{display:inline-block;max-width:12ch;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;
vertical-align:bottom}}
.arc-window pre{{margin:2px 0 0;padding:0;white-space:pre-wrap;overflow-wrap:anywhere;background:none;color:inherit;
border:0;font:13px/1.45 ui-monospace,Menlo,Consolas,monospace;max-height:20em;overflow:auto}}
.arc-window .arc-scroll{{margin:2px 0 8px 1.4em;overflow-x:auto}}
.arc-window table{{border-collapse:collapse;margin:0;width:100%;font-size:13px;color:inherit;border:0}}
.arc-window .arc-scroll thead,.arc-window .arc-scroll tr{{background:none!important;border:0}}
.arc-window .arc-scroll table th,.arc-window .arc-scroll table td{{text-align:left;padding:2px 14px 2px 0;
vertical-align:top;border:0;color:inherit;overflow-wrap:anywhere;white-space:normal;max-width:none}}
.arc-window .arc-scroll table th{{color:var(--dim);font-weight:normal}}
.arc-window .arc-scroll table .arc-number{{text-align:right;padding-right:0;font-variant-numeric:tabular-nums;
white-space:nowrap}}
"""


_MOST_ITEMS = 200
_ITEM_CHARACTERS = 4_000
_SECTION_CHARACTERS = 60_000
_ENLARGED_BELOW = 0.5


def render_html(window: ContextWindow) -> str:
    """Return an HTML fragment with the budget as a bar, expandable sections, and the omissions with their reasons."""
    receipt = window.receipt
    sections = shown_sections(window)
    limit = max(receipt.input_tokens, window.total_tokens, 1)
    tokens = f"{window.total_tokens:,} of {receipt.input_tokens:,} tokens"
    used = usage(window)
    bars = _bar(sections, limit, label=f"{tokens}, {used[0]}")
    if 0 < window.total_tokens < _ENLARGED_BELOW * limit:
        bars += '<div class="arc-dim arc-small">enlarged: what is used</div>'
        bars += _bar(sections, window.total_tokens, label="what is used, enlarged")
    parts = [
        f"<style>{STYLE}</style>",
        '<div class="arc-window"><div class="arc-head">',
        f'<strong>{tokens}</strong><span class="arc-dim">{" · ".join(used)}</span></div>',
        bars,
        render_details(window),
        "</div>",
    ]
    return "".join(parts)


def render_details(window: ContextWindow) -> str:
    """Return the sections, omissions and notes as HTML without inline styles, for an element of class `arc-window`."""
    messages = messages_by_item(window)
    sections = [_section(section, messages) for section in shown_sections(window)]
    return "".join([*sections, _omissions(window), _notes(window)])


def _bar(sections: list[Section], whole: int, *, label: str) -> str:
    segments = "".join(
        f'<span class="{_class(section)}" style="width:{100 * section.tokens / whole:.3f}%" '
        f'title="{escape(title(section))}: {section.tokens:,} tokens"></span>'
        for section in sections
        if section.tokens
    )
    return f'<div class="arc-bar" role="img" aria-label="{label}">{segments}</div>'


def _class(section: Section) -> str:
    return f"arc-of-{section.name}" if section.name in LOOKS else "arc-of-other"


def _section(section: Section, messages: Mapping[int, Message]) -> str:
    shown, others = shown_items(section, _MOST_ITEMS)
    texts = [said(item, messages.get(id(item))) for item in shown]
    most = min(longest_share([len(text) for text in texts], _SECTION_CHARACTERS), _ITEM_CHARACTERS)
    items = "".join(
        _item(item, messages.get(id(item)), excerpt(text, most)) for item, text in zip(shown, texts, strict=True)
    )
    more = f'<div class="arc-item arc-dim">{others:,} more, not shown here</div>' if others else ""
    return (
        f'<details class="{_class(section)}"><summary><span class="arc-key"></span>'
        f"<span>{escape(title(section))}</span> "
        f'<span class="arc-dim">{counted(len(section.items), "item")}</span>'
        f'<span class="arc-tokens">{section.tokens:,} <span class="arc-dim">of {section.limit:,}</span></span>'
        f"</summary>{items + more if best_first(section) else more + items}</details>"
    )


def _item(item: Item, message: Message | None, text: str) -> str:
    tokens = "" if item.tokens is None else f" · {counted(item.tokens, 'token')}"
    body = f'<pre dir="auto">{escape(text)}</pre>' if text else ""
    labels = {name: escape(label) for name, label in _labels(item, message).items()}
    if "id" in labels:  # the style cuts a long one
        labels["id"] = f'<span class="arc-id" title="{labels["id"]}">{labels["id"]}</span>'
    told = " · ".join(labels.values())
    return f'<div class="arc-item"><span class="arc-dim"><bdi>{told}</bdi>{tokens}</span>{body}</div>'


def _omissions(window: ContextWindow) -> str:
    count, tokens = left_out(window)
    if not count:
        return '<div class="arc-nothing arc-dim">nothing left out</div>'
    rows = "".join(
        f'<tr><td><bdi>{escape(what)}</bdi></td><td>{escape(why)}</td><td class="arc-number">{missed:,}</td></tr>'
        for what, why, missed in omission_rows(window, named=_ROWS)
    )
    return (
        '<details class="arc-omissions"><summary><span class="arc-key"></span><span>left out or shortened</span> '
        f'<span class="arc-dim">{counted(count, "item")}</span><span class="arc-tokens">{tokens:,}</span>'
        '</summary><div class="arc-scroll"><table><thead><tr><th>what</th><th>why</th>'
        f'<th class="arc-number">tokens</th></tr></thead><tbody>{rows}</tbody></table></div></details>'
    )


def _notes(window: ContextWindow) -> str:
    notes = window.receipt.notes[:_ROWS]
    if not notes:
        return ""
    lines = "".join(
        f'<div class="arc-item" dir="auto">{escape(excerpt(note, _NOTE_CHARACTERS))}</div>' for note in notes
    )
    head = '<summary><span class="arc-key"></span><span>notes</span></summary>'
    return f'<details class="arc-notes" open>{head}{lines}</details>'


_WIDEST_BAR = 100
_PREVIEWED = 3
_LINE_CHARACTERS = 400
_FULL_CHARACTERS = 20_000
_NAMED = 5
_LONG_ID = re.compile(r"\b([\w-]{12})[\w-]{12,}\b")


class _TerminalView:
    """Renders a window when rich passes the terminal's options."""

    def __init__(self, window: ContextWindow, *, full: bool) -> None:
        self._window, self._full = window, full
        self._messages = messages_by_item(window)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        receipt = self._window.receipt
        coloured = console.color_system is not None and not console.no_color
        block, mark, free = ("#", "#", ".") if options.ascii_only else ("█", "■", "░")
        tokens = f"{self._window.total_tokens:,} of {receipt.input_tokens:,} tokens"
        yield Text.assemble((tokens, "bold"), (f"  {', '.join(usage(self._window))}", "dim"))
        yield from self._bar(min(options.max_width, _WIDEST_BAR), block if coloured else None, free)
        for section in shown_sections(self._window):
            yield _headline(section, mark if coloured else None)
            yield from self._contents(section)
        yield from self._left_out()
        for note in receipt.notes[:_ROWS]:
            yield _hanging(Text.assemble(("note  ", "yellow"), excerpt(note, _NOTE_CHARACTERS)), 0)

    def _bar(self, width: int, block: str | None, free: str) -> Iterator[Segment]:
        """Draw the sections' shares; each section with tokens gets at least one column while columns remain."""
        whole = max(self._window.receipt.input_tokens, self._window.total_tokens, 1)
        drawn = spent = 0
        for section in self._window.sections:
            spent += section.tokens
            columns = max(round(width * spent / whole), drawn + (section.tokens > 0)) - drawn
            columns = max(min(columns, width - drawn), 0)
            look = LOOKS.get(section.name, _UNKNOWN)
            yield Segment((block or look.letter) * columns, Style.parse(look.style))
            drawn += columns
        yield Segment(free * (width - drawn), Style(dim=True))
        yield Segment.line()

    def _contents(self, section: Section) -> Iterator[RenderableType]:
        """Render a section's items: the first words of some, or the whole text of all."""
        shown, others = shown_items(section, len(section.items) if self._full else _PREVIEWED)
        if others and not best_first(section):
            yield Text(f"  {others:,} more, then", "dim")
        for item in shown:
            yield from self._whole(item) if self._full else self._preview(item)
        if others and best_first(section):
            yield Text(f"  and {others:,} more", "dim")

    def _preview(self, item: Item) -> Iterator[RenderableType]:
        message = self._messages.get(id(item))
        text = " ".join(excerpt(said(item, message), _LINE_CHARACTERS).split())
        who = message.role.value if message else excerpt(item.id or "", 40) if not text else ""
        if who or text:
            gap = "  " if who and text else ""
            yield Text.assemble("  ", (who, "dim"), gap, text, no_wrap=True, overflow="ellipsis")

    def _whole(self, item: Item) -> Iterator[RenderableType]:
        message = self._messages.get(id(item))
        tokens = "" if item.tokens is None else f" · {counted(item.tokens, 'token')}"
        yield _hanging(Text(about(item, message) + tokens, "dim"), 2)
        text = excerpt(said(item, message), _FULL_CHARACTERS)
        if text:
            yield _hanging(Text(text), 4)

    def _left_out(self) -> Iterator[RenderableType]:
        count, tokens = left_out(self._window)
        if not count:
            yield Text("nothing left out", "dim")
            return
        total = f"  {counted(count, 'item')}, {counted(tokens, 'token')}"
        yield Text.assemble("\n", ("left out or shortened", "bold"), (total, "dim"))
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False, pad_edge=False)
        table.add_column("what", overflow="fold")
        table.add_column("why", overflow="fold")
        table.add_column("tokens", justify="right", no_wrap=True)
        for what, why, missed in omission_rows(self._window, named=_ROWS if self._full else _NAMED):
            cells = (what, why) if self._full else (_LONG_ID.sub(r"\1…", what), _LONG_ID.sub(r"\1…", why))
            table.add_row(*map(Text, cells), f"{missed:,}")
        yield Padding(table, (0, 0, 0, 2), expand=False)


def render_terminal(window: ContextWindow, *, full: bool = False) -> RenderableType:
    """Render the budget as a bar, each section with the first words of its items, and the omissions."""
    return _TerminalView(window, full=full)


def _headline(section: Section, mark: str | None) -> Table:
    look = LOOKS.get(section.name, _UNKNOWN)
    line = Table.grid(padding=(0, 2, 0, 0))
    line.add_column(width=21, no_wrap=True)
    line.add_column(width=8, justify="right", no_wrap=True)
    line.add_column(no_wrap=True, style="dim")
    name = Text.assemble((mark or look.letter, look.style), " ", (title(section), "bold"))
    line.add_row(name, f"{section.tokens:,}", f"of {section.limit:,}, {counted(len(section.items), 'item')}")
    return line


def _hanging(text: Text, indent: int) -> Padding:
    text.overflow = "fold"
    return Padding(text, (0, 0, 0, indent), expand=False)
