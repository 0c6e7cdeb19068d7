"""Reads text as models write it: in fences and quotation marks, under labels, and as a refusal."""

import json
import re
from collections.abc import Iterator
from typing import Any

_MAX_CHARACTERS = 200_000
"""The most characters read of an answer; no request asks for more."""

_MAX_DEPTH = 32
_MAX_STARTS = 16
"""The most brackets tried as the beginning of a value; each costs at most one pass."""

_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\Z|\\\Z)|[{}\[\],:]|[^\s"{}\[\],:]++', re.DOTALL)
_START = re.compile(r"[{\[]")
_CLOSER = {"{": "}", "[": "]"}
_BRACKETS = frozenset("{}[]")


def json_values(text: str) -> Iterator[dict[str, Any] | list[Any]]:
    """Yield the JSON objects and arrays in a text, in order; anything else is skipped."""
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
    """Return the value that begins at `start`, repaired where its meaning is clear, and its end."""
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


_MAX_LINE_CHARACTERS = 20_000
"""The most characters read of an answer; no request asks for more."""

_REFUSAL = re.compile(
    r"\W{0,3}(?:(?:i['’]m |i am )?(?:so |very )?(?:sorry\b|unable to\b|not able to\b)"
    r"|i (?:can['’]?t|can ?not|won['’]t|do(?:n['’]t| not) (?:know|have))\b|as an ai\b|unfortunately,? i\b"
    r"|죄송|미안하지만|제가 알 수 없|很?抱歉|对不起|我不能|申し訳)",
    re.IGNORECASE,
)
_FENCED = re.compile(r"\A```[^\n]*\n(.*?)\n?```\Z", re.DOTALL)
_THINKING = re.compile(r"\A\s*<(think(?:ing)?)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_LABEL = re.compile(
    r"\A(?:\*\*|#+ )?(?:sure[,!.] |here(?: is|['’]s) )?(?:the )?"
    r"(?:(?:rewritten|stand-?alone|rephrased|reformulated|hypothetical|final) ){0,2}"
    r"(?:question|query|passage|answer|document|(?:독립(?:적인)? )?질문|답변|문서|问题|回答)"
    r"(?:\*\*)? ?[:：](?:\*\*)?\s*",
    re.IGNORECASE,
)
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "「": "」", "『": "』", "«": "»", "`": "`"}
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_MARKER = re.compile(r"</?arc:[\w-]*>?", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？]")


def bare_text(answer: str) -> str:
    """Return an answer as one line, without the thoughts, fence, label and quotation marks around it."""
    text = _THINKING.sub("", answer[:_MAX_LINE_CHARACTERS]).strip()
    if fenced := _FENCED.match(text):
        text = fenced[1]
    text = text.encode(errors="ignore").decode().replace("\x00", "")
    text = _LABEL.sub("", " ".join(_MARKER.sub(" ", text).split()))
    if not any(map(str.isalnum, text)):
        return ""
    inside = text[1:-1]
    is_quoted = len(text) > 2 and _QUOTES.get(text[0]) == text[-1] and not {text[0], text[-1]} & set(inside)
    return inside.strip() if is_quoted else text


def bare_lines(answer: str) -> list[str]:
    """Return the nonempty lines of an answer, each as `bare_text` leaves it, without list numbers and bullets."""
    lines = _THINKING.sub("", answer[:_MAX_LINE_CHARACTERS]).splitlines()
    bare = (bare_text(_BULLET.sub("", line)) for line in lines if not line.lstrip().startswith("```"))
    return [line for line in bare if line]


def is_refusal(text: str) -> bool:
    """Return whether a model says that it can't or won't, in English, Korean, Chinese or Japanese."""
    return _REFUSAL.match(text) is not None


def cut_text(text: str, most: int) -> str:
    """Cut the text to `most` characters, at the end of a sentence or else of a word."""
    if len(text) <= most:
        return text
    ends = [match.end() for match in _SENTENCE_END.finditer(text, 0, most)]
    return text[: ends[-1]] if ends else text[: max(text.rfind(" ", 0, most), 0)] or text[:most]
