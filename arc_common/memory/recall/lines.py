"""Renders a message that comes back as one line: its speaker's words, and quotations with their sources."""

from collections.abc import Sequence
from typing import NamedTuple

from arc_common.memory.artifacts import excerpts_of
from arc_common.memory.own_words import foreign_spans
from arc_common.messages import Message, Role
from arc_common.prompts.context import (
    FENCE,
    named_parts,
    quoted_from,
    source_name,
    speaker_of,
    user_name,
    without_blocks,
)
from arc_common.trust import Trust, quoted

_LONG = 1_200
"""Characters of a long message, which is shown by excerpts: a one-page reply would leave no room for other items."""
_IN_FULL = 1 / 3
"""The share of the room for long messages in full. In 4,000 tokens, 90 % of an answer that a question is about is shown
so, and 16 % by excerpts alone; with half of the room, fewer short messages are found."""
_LEAST = 300
"""The characters of quotations that are shown even beside many of the speaker's own."""
_SHORT = 60
"""Characters of a quotation that its sentence introduces well enough: 'She said “I live in Seoul.”'."""
_QUOTES = '"“”„«»「」『』'


class MessageLine(NamedTuple):
    """A recalled message as a line; untrusted, with its source, if it or a part that its speaker pasted is."""

    text: str
    trust: Trust
    source: str
    user: str | None  # the name of the user who said it, if any


def message_lines(
    messages: Sequence[Message], question: str, *, tokens: Sequence[int], room: float
) -> list[MessageLine]:
    """Render recalled messages, best first: the best long ones in full if they fit into a third of `room` tokens."""
    left, lines = room * _IN_FULL, list[MessageLine]()
    for message, size in zip(messages, tokens, strict=True):
        in_full = len(message.text) > _LONG and size <= left
        left -= size if in_full else 0
        lines.append(message_line(message, question, in_full=in_full))
    return lines


def message_line(message: Message, question: str, *, in_full: bool = False) -> MessageLine:
    """Render a recalled message as one line.

    - A speaker's own words follow the speaker. Text of anybody else is a quotation behind its source, also within the
      speaker's own message ("Ann: Is this true? (pasted: “…”)").
    - Nothing in the text, in a name or in a source begins a line, ends a quotation, or passes for another speaker.
    - Long text is excerpted for the question, unless it is shown `in_full`; images and files are named.
    - Blocks that arc put into a request, and that came back in a message, are left out.
    """
    text, trust = message.text, message.trust
    if FENCE in text:
        text = without_blocks(text)
    most = len(text) if in_full else _LONG
    speaker = speaker_of(message) if message.name else message.role
    is_users = message.role is Role.USER
    pasted = foreign_spans(text) if is_users else ()
    if trust is Trust.UNTRUSTED:
        line = f"{quoted_from(message)}: {quoted(_excerpt(text, question, most))}"
    else:
        said = _own_and_pasted(text, pasted, question, most) if pasted else text
        said = said if pasted or len(said) <= most else _excerpt(said, question, most)
        line = f"{speaker}: {' '.join(said.split())}"
    if type(message.content) is not str and (parts := named_parts(message)):
        line = " ".join([line, *parts])
    if pasted:
        trust = Trust.UNTRUSTED
    source = source_name(message) if trust is Trust.UNTRUSTED else ""
    return MessageLine(line, trust, source, user_name(message) if is_users and message.name else None)


def _own_and_pasted(text: str, spans: Sequence[tuple[int, int]], question: str, most: int) -> str:
    own = len(text) - sum([end - start for start, end in spans])
    room = most if len(text) <= most else max(most - own, _LEAST) // len(spans)
    words, rest = [], 0
    for start, end in spans:
        part = text[start:end].strip()
        pasted = quoted(_excerpt(part.strip(_QUOTES), question, room))
        is_quoted = part[:1] in _QUOTES
        if not is_quoted or len(part) > _SHORT:
            pasted = f"({'quoted' if is_quoted else 'pasted'}: {pasted})"
        before, after = (" " * text[place].isspace() for place in (start, end - 1))
        words += [text[rest:start], before, pasted, after]
        rest = end
    return "".join([*words, text[rest:]])


def _excerpt(text: str, question: str, most: int) -> str:
    return text if len(text) <= most else " … ".join(excerpts_of(text, question))[:most]
