"""Renders a message that comes back as one line: its speaker's words, and quotations with their sources."""

from collections.abc import Sequence

from arc_common.memory.artifacts import excerpts_of
from arc_common.memory.own_words import foreign_spans
from arc_common.messages import Message, Role
from arc_common.prompts.context import named_parts, quoted_from, speaker_of
from arc_common.sources import Trust, quoted

_LONG = 1_200
"""Characters above which a recalled message is excerpted: a one-page reply would leave no room for other items."""
_LEAST = 300
"""The characters of quotations that are shown even beside many of the speaker's own."""
_SHORT = 60
"""Characters of a quotation that its sentence introduces well enough: 'She said “I live in Seoul.”'."""
_QUOTES = '"“”„«»「」『』'


def message_line(message: Message, question: str) -> str:
    """Render a recalled message as one line.

    - A speaker's own words follow the speaker. Text of anybody else is a quotation behind its source, also within the
      speaker's own message ("Ann: Is this true? (pasted: “…”)").
    - Nothing in the text, in a name or in a source begins a line, ends a quotation, or passes for another speaker.
    - Long text is excerpted for the question; images and files are named.
    """
    if message.trust is Trust.UNTRUSTED:
        shown = [f"{quoted_from(message)}:", quoted(_excerpt(message.text, question, _LONG))]
    else:
        shown = [f"{speaker_of(message)}:", _own_and_pasted(message, question)]
    return " ".join([*shown, *named_parts(message)])


def holds_untrusted(message: Message) -> bool:
    """Return whether a recalled message is untrusted, or has a part that its speaker only pasted."""
    return message.trust is Trust.UNTRUSTED or bool(_pasted(message))


def _pasted(message: Message) -> Sequence[tuple[int, int]]:
    return foreign_spans(message.text) if message.role is Role.USER else ()


def _own_and_pasted(message: Message, question: str) -> str:
    text, spans = message.text, _pasted(message)
    if not spans:
        return " ".join(_excerpt(text, question, _LONG).split())
    own = len(text) - sum(end - start for start, end in spans)
    room = max(_LONG - own, _LEAST) // len(spans)
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
    return " ".join("".join([*words, text[rest:]]).split())


def _excerpt(text: str, question: str, most: int) -> str:
    return text if len(text) <= most else " … ".join(excerpts_of(text, question))[:most]
