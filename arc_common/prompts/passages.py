"""Documents as a model reads them, so that none can pass for another."""

import re
from collections.abc import Sequence

from arc_common.documents import Document

__all__ = ["DOCUMENT_SEPARATOR", "defused_markers", "render_passage", "render_passages"]

DOCUMENT_SEPARATOR = "\n\n---\n\n"
"""Stands between two documents."""

_MARKER = re.compile(r"<(/?arc:)", re.IGNORECASE)

_BREAKS = "\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_BREAK = f"(?>\r\n|[{_BREAKS}])"
_BLANK = f"(?:[^\\S{_BREAKS}]|[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff])*"
"""What a reader does not see: white space within a line, and signs without width."""

_SEPARATOR_LINE = re.compile(
    f"(\\A|{_BREAK}{_BLANK}{_BREAK})({_BLANK})(?=---{_BLANK}(?:{_BREAK}{_BLANK}(?:{_BREAK}|\\Z)|\\Z))"
)
_SOURCE = f"[\\[［]{_BLANK}source{_BLANK}[:：]"
_SOURCE_LINE = re.compile(f"(?:\\A|(?<=[{_BREAKS}]))(?={_BLANK}(?:\\[[0-9]+\\]{_BLANK})?{_SOURCE})", re.IGNORECASE)
_SOURCE_WITHIN = re.compile(f"(?={_SOURCE})", re.IGNORECASE)


def defused_markers(text: str) -> str:
    """The text, in which nothing begins or ends one of arc's fences."""
    return _MARKER.sub(r"&lt;\1", text)


def render_passage(document: Document, *, number: int | None = None) -> str:
    """One document as a model reads it: its number and source, if it has them, and its text.

    - The source is one line: `[Source: …]`, behind `[1]` where there is a number.
    - Arc's own markers in it are defused, and lines of the text that look like another document's beginning (a source
      line, the separator) get a backslash in front, whatever kind of line break or white space makes them look so; so
      does what looks like another source in the source.
    - Time is linear in the text.
    """
    text = _SEPARATOR_LINE.sub(r"\1\2\\", defused_markers(document.text.strip()))
    text = _SOURCE_LINE.sub(r"\\", text)
    source = _SOURCE_WITHIN.sub(r"\\", defused_markers(" ".join((document.source or "").split())))
    head = " ".join([*([f"[{number}]"] if number is not None else []), *([f"[Source: {source}]"] if source else [])])
    return f"{head}\n{text}" if head else text


def render_passages(passages: Sequence[str]) -> str:
    """Rendered documents, one behind the other."""
    return DOCUMENT_SEPARATOR.join(passages)
