"""JSON as models write it: in fences and prose, with commas too many, cut off at the end."""

import json
import re
from collections.abc import Iterator
from typing import Any

__all__ = ["json_values"]

_MAX_CHARACTERS = 200_000
"""What is longer was not asked for."""

_MAX_DEPTH = 32
_MAX_STARTS = 16
"""Brackets that are tried as the beginning of a value; each costs one pass at most."""

_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\Z|\\\Z)|[{}\[\],:]|[^\s"{}\[\],:]++', re.DOTALL)
_START = re.compile(r"[{\[]")
_CLOSER = {"{": "}", "[": "]"}
_BRACKETS = frozenset("{}[]")


def json_values(text: str) -> Iterator[dict[str, Any] | list[Any]]:
    """The JSON objects and arrays in a text, in order; what is none is passed over.

    - A comma before a closing bracket is left out; strings and brackets still open at the end are closed.
    - NaN and infinities are `""`, which is no value of anything.
    - Linear in the text.
    """
    text = text[:_MAX_CHARACTERS]
    position = 0
    for _ in range(_MAX_STARTS):
        start = _START.search(text, position)
        if start is None:
            return
        repaired, end = _repaired(text, start.start())
        try:
            value = json.loads(repaired, strict=False, parse_constant=lambda _: "")
        except (ValueError, RecursionError):
            position = start.end()
            continue
        if isinstance(value, dict | list):
            yield value
        position = end


def _repaired(text: str, start: int) -> tuple[str, int]:
    """The value that begins at `start`, made valid where that is clear, and where it ends."""
    written: list[str] = []
    open_brackets: list[str] = []
    end = len(text)
    for match in _TOKEN.finditer(text, start):
        token = match[0]
        if token in _CLOSER:
            open_brackets.append(token)
            if len(open_brackets) > _MAX_DEPTH:
                return "", match.end()
        elif token in ("}", "]"):
            if written[-1] == ",":
                written.pop()
            if _CLOSER[open_brackets.pop()] != token:
                return "", match.end()
        elif token[0] == '"' and match.end() == len(text) and not _is_closed(token):
            token = (token[:-1] if _ends_in_escape(token) else token) + '"'
        written.append(token)
        if not open_brackets:
            end = match.end()
            break
    while open_brackets:  # cut off: a key without its value is left out
        last, before = written[-1], written[-2] if len(written) > 1 else ""
        is_key = open_brackets[-1] == "{" and before in ("{", ",") and last not in _BRACKETS
        if is_key or last in (",", ":"):
            written.pop()
        else:
            written.append(_CLOSER[open_brackets.pop()])
    return " ".join(written), end


def _is_closed(token: str) -> bool:
    return len(token) > 1 and token[-1] == '"' and not _ends_in_escape(token[:-1])


def _ends_in_escape(token: str) -> bool:
    return (len(token) - len(token.rstrip("\\"))) % 2 == 1
