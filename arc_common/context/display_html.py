"""A context window as HTML: for notebooks and for pages."""

from collections.abc import Mapping
from html import escape

from arc_common.context import shares
from arc_common.context.context_window import ContextWindow, Item, Omission, Section
from arc_common.context.style import COLORS, STYLE
from arc_common.messages import Message

__all__ = ["render_html"]

_MOST_ITEMS = 200
_ITEM_CHARACTERS = 4_000
_SECTION_CHARACTERS = 60_000
_ROWS = 200
_NOTE_CHARACTERS = 1_000
_ENLARGED_BELOW = 0.5


def render_html(window: ContextWindow) -> str:
    """A page's part that shows the budget as a bar, each section to be unfolded, and what was left out with reasons.

    - Complete in itself: no script, nothing loaded; follows the reader's light or dark scheme, and those of JupyterLab
      and VS Code.
    - All text is data: escaped, control characters made visible, and its direction kept within it.
    - Bounded: of a section at most 200 items and 60,000 characters are shown, of one text at most 4,000; what is more
      is counted.
    - The same window gives the same text.
    """
    receipt = window.receipt
    sections = shares.shown_sections(window)
    limit = max(receipt.input_tokens, window.total_tokens, 1)
    tokens = f"{window.total_tokens:,} of {receipt.input_tokens:,} tokens"
    used = f"{shares.share_used(window)} used"
    free = filter(None, [f"{shares.free_tokens(window):,} free", shares.error_note(window)])
    details = " · ".join([used, *free, shares.counted(len(window.messages), "message")])
    bars = _bar(sections, limit, label=f"{tokens}, {used}")
    if 0 < window.total_tokens < _ENLARGED_BELOW * limit:
        bars += '<div class="arc-dim arc-small">enlarged: what is used</div>'
        bars += _bar(sections, window.total_tokens, label="what is used, enlarged")
    messages = shares.messages_by_item(window)
    parts = [
        f"<style>{STYLE}</style>",
        '<div class="arc-window"><div class="arc-head">',
        f'<strong>{tokens}</strong><span class="arc-dim">{details}</span></div>',
        bars,
        *(_section(section, messages) for section in sections),
        _omissions(window),
        _notes(window),
        "</div>",
    ]
    return "".join(parts)


def _bar(sections: list[Section], whole: int, *, label: str) -> str:
    segments = "".join(
        f'<span class="{_class(section)}" style="width:{100 * section.tokens / whole:.3f}%" '
        f'title="{escape(shares.title(section))}: {section.tokens:,} tokens"></span>'
        for section in sections
        if section.tokens
    )
    return f'<div class="arc-bar" role="img" aria-label="{label}">{segments}</div>'


def _class(section: Section) -> str:
    return f"arc-of-{section.name}" if section.name in COLORS else "arc-of-other"


def _section(section: Section, messages: Mapping[int, Message]) -> str:
    shown, others = shares.shown_items(section, _MOST_ITEMS)
    texts = [shares.said(item, messages.get(id(item))) for item in shown]
    most = min(shares.even_share(list(map(len, texts)), _SECTION_CHARACTERS), _ITEM_CHARACTERS)
    items = "".join(
        _item(item, messages.get(id(item)), shares.excerpt(text, most)) for item, text in zip(shown, texts, strict=True)
    )
    more = f'<div class="arc-item arc-dim">{others:,} more, not shown here</div>' if others else ""
    return (
        f'<details class="{_class(section)}"><summary><span class="arc-key"></span>'
        f"<span>{escape(shares.title(section))}</span> "
        f'<span class="arc-dim">{shares.counted(len(section.items), "item")}</span>'
        f'<span class="arc-tokens">{section.tokens:,} <span class="arc-dim">of {section.allotted:,}</span></span>'
        f"</summary>{items + more if shares.best_first(section) else more + items}</details>"
    )


def _item(item: Item, message: Message | None, text: str) -> str:
    tokens = "" if item.tokens is None else f" · {shares.counted(item.tokens, 'token')}"
    said = f'<pre dir="auto">{escape(text)}</pre>' if text else ""
    return (
        f'<div class="arc-item"><span class="arc-dim"><bdi>{escape(shares.about(item, message))}</bdi>{tokens}</span>'
        f"{said}</div>"
    )


def _omissions(window: ContextWindow) -> str:
    count, tokens = shares.left_out(window)
    if not count:
        return '<div class="arc-nothing arc-dim">nothing left out</div>'
    rest = shares.rest(window, named=_ROWS)
    rows = "".join(map(_omission, window.receipt.nearest[:_ROWS]))
    rows += "".join(
        f"<tr><td>{left.count:,} more</td><td>{escape(shares.excerpt(reason, _NOTE_CHARACTERS))}</td>"
        f'<td class="arc-number">{left.tokens:,}</td></tr>'
        for reason, left in list(rest.items())[:_ROWS]
    )
    return (
        '<details class="arc-omissions"><summary><span class="arc-key"></span><span>left out or shortened</span> '
        f'<span class="arc-dim">{shares.counted(count, "item")}</span><span class="arc-tokens">{tokens:,}</span>'
        '</summary><div class="arc-scroll"><table><thead><tr><th>what</th><th>why</th>'
        f'<th class="arc-number">tokens</th></tr></thead><tbody>{rows}</tbody></table></div></details>'
    )


def _omission(omission: Omission) -> str:
    reason = shares.excerpt(omission.reason, _NOTE_CHARACTERS)
    return (
        f"<tr><td><bdi>{escape(shares.about(omission))}</bdi></td><td>{escape(reason)}</td>"
        f'<td class="arc-number">{omission.tokens:,}</td></tr>'
    )


def _notes(window: ContextWindow) -> str:
    notes = window.receipt.notes[:_ROWS]
    if not notes:
        return ""
    lines = "".join(
        f'<div class="arc-item" dir="auto">{escape(shares.excerpt(note, _NOTE_CHARACTERS))}</div>' for note in notes
    )
    head = '<summary><span class="arc-key"></span><span>notes</span></summary>'
    return f'<details class="arc-notes" open>{head}{lines}</details>'
