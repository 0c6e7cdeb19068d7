"""Finds repetitions in a request, so that it shows each sentence only once.

Two sentences are compared by their shingles: every four of the analyser's terms in a row (Broder 1997).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from arc_common.caches import cached_by_hash, cached_text
from arc_common.context.receipt import Omission
from arc_common.context.request import Layers, RecalledLine
from arc_common.facts import IN_REPLY
from arc_common.messages import Message
from arc_common.text import analyze, analyze_query
from arc_common.text.languages.registry import detect
from arc_common.text.sentences import is_question, sentence_spans, sentences_of
from arc_common.trust import Trust

VERBATIM = "message"
"""The name of the request's verbatim messages."""
_MERGED = "merged into another item"
"""The reason of an omission that has a carrier."""
_TERMS = 4
_SHARE = 0.5
"""The least share of a sentence's shingles that a near-copy of it has."""
_LEAD_INS = 4
"""The most introductory words in a row that are left out."""
_LONGEST = 16_000
"""The most characters of one text that are compared; memory never repeats a whole pasted book."""

_HEAD = re.compile(r"[^“”\n]{1,300}: (?=“)|- \[[^\]\n]{1,160}\] |(?:- )?(?:\d{4}-\d\d-\d\d, )?[^:\n]{1,80}: ")
"""The head of a line of the prompt: its source, or day, speaker or key."""


class Said:
    """Tracks the sentences of a request's parts, in time linear in their length.

    - A sentence is repeated if all its shingles were said, or if at least half were and the nearest sentence has all of
      its specific words; and if both are negated, or neither is.
    - A text of fewer than four terms has no shingle: it is repeated only as a whole.
    - A sentence that only a quotation of untrusted text has is left out of other quotations, and of nothing else.
    - Only text of the `lines` that may be added to the request is tracked.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._wanted = frozenset().union(*[_read(line)[1] for line in lines])
        self._carriers: dict[int, tuple[str, str]] = {}
        self._quoted: dict[int, tuple[str, str]] = {}

    def add(self, name: str, text: str, *, trust: Trust | None = None) -> None:
        """Add a part of the request by its name ("fact f1"); a sentence belongs to the first part that has it."""
        self._add(name, text, _shingles(text), trust)

    def show(self, name: str, line: str, *, trust: Trust | None = None) -> None:
        """Add a line of the prompt."""
        start, shingles = _read(line)
        self._add(name, line[start:], shingles, trust)

    def _add(self, name: str, text: str, shingles: frozenset[int], trust: Trust | None) -> None:
        if shared := shingles & self._wanted:
            carriers, part = self._quoted if trust is Trust.UNTRUSTED else self._carriers, (name, text)
            for one in shared:
                carriers.setdefault(one, part)

    def add_fixed(self, messages: Iterable[Message], shown: Layers) -> None:
        """Add the parts that are shown whole: verbatim messages, pins, facts and summary."""
        for message in messages:
            if not self._wanted.isdisjoint(_shingles(message.text)):
                self.add(f"{VERBATIM} {message.id or ''}".rstrip(), message.text, trust=message.trust)
        for pin in shown.pins:
            self.show(f"pin {pin.id}", pin.line)
        remembered = _remembered(shown.facts, shown.fact_ids, shown.narrative)
        for one in self._wanted & remembered.keys():
            self._carriers.setdefault(one, remembered[one])

    def unsaid(self, line: str, *, trust: Trust | None = None) -> tuple[str, str]:
        """Return the line without repeated sentences (`""` if none is left), and the name of the part that has them."""
        if trust is not Trust.UNTRUSTED:
            return self._unsaid(line, self._carriers)
        left, name = self._unsaid(line, {**self._carriers, **self._quoted})
        return (line, "") if left else ("", name)

    def says(self, sentence: str) -> str:
        """Return the name of the part that has this sentence already; `""` if none does."""
        return _carrier(self._carriers, sentence, _shingles(sentence))

    def _unsaid(self, line: str, carriers: Mapping[int, tuple[str, str]]) -> tuple[str, str]:
        start, shingles = _read(line)
        if carriers.keys().isdisjoint(shingles):
            return line, ""
        head, text = line[:start], line[start:]
        sentences = _sentences(text)
        if len(sentences) < 2:
            name = _carrier(carriers, text, shingles)
            return ("", name) if name else (line, "")
        names = [
            _carrier(carriers, text[one.start : one.end], one.shingles) if one.is_long else "" for one in sentences
        ]
        first = next(filter(None, names), "")
        if not first:
            return line, ""
        left = [one for name, one in zip(names, sentences, strict=True) if not name]
        if not any(one.is_long and not text.endswith(("?", "？"), one.start, one.end) for one in left):
            return "", first
        pieces: list[str] = []
        for name, one in zip(names, sentences, strict=True):
            if not name:
                pieces.append(text[one.start : one.end])
            elif pieces and pieces[-1] != "…":
                pieces.append("…")
        unsaid = " ".join(pieces[:-1] if pieces[-1] == "…" else pieces)
        return head + unsaid.replace("… …", "…"), first


@cached_text(32)  # facts and summary stay the same between adoptions
def _remembered(facts: Sequence[str], fact_ids: Sequence[str], narrative: str) -> Mapping[int, tuple[str, str]]:
    """Return the fact or line of the summary, by name and text, that has each shingle first."""
    parts: list[tuple[str, str]] = []
    for line, fact_id in zip_longest(facts, fact_ids, fillvalue=""):
        text = body(line)
        parts.append((f"fact {fact_id}", text))
        if IN_REPLY in text:
            parts.append((f"fact {fact_id}", text.partition(IN_REPLY)[0]))
    parts += [("the summary", body(line)) for line in narrative.splitlines()]
    return {one: part for part in reversed(parts) for one in _shingles(part[1])}


def _carrier(carriers: Mapping[int, tuple[str, str]], sentence: str, shingles: frozenset[int]) -> str:
    """Return the name of the part that has this sentence already; `""` for none."""
    shared = shingles & carriers.keys()
    if not shared or len(shared) < _SHARE * len(shingles):
        return ""
    found = list(map(carriers.__getitem__, shared))
    said = set(found)  # the texts' hashes differ between processes, so they decide nothing
    name, text = found[0] if len(said) == 1 else min([(-found.count(one), one) for one in said])[1]
    at = max(_sentences(text), key=lambda other: len(other.shingles & shingles))
    nearest = text[at.start : at.end]
    is_copy = len(shared) == len(shingles) or _content_words(without_lead_in(sentence)) <= _words(nearest)
    return name if is_copy and _is_negated(nearest) == _is_negated(sentence) else ""


def each_once(
    lines: Sequence[RecalledLine], kind: str, said: Said, *, corrected: Callable[[int], int], room: int
) -> tuple[list[RecalledLine], list[Omission]]:
    """Return the lines, best first, without repeated sentences, and the omissions; record the lines that fit."""
    left: list[RecalledLine] = []
    merged: list[Omission] = []
    gone: dict[tuple[str, int], tuple[str, str]] = {}
    speakers = {f"{kind} {line.id}": line.speaker for line in lines}
    for line in lines:
        text, name = said.unsaid(line.line, trust=line.trust)
        shorter, tokens = line, corrected(line.tokens)
        if name and speakers.get(name, line.speaker) == line.speaker:  # both may say "I'm allergic to nuts"
            shorter = line.shortened(text)
            saved, tokens = tokens, corrected(shorter.tokens)
            merged.append(Omission(kind, line.id, saved - tokens, _MERGED, line.score_parts, name))
            if not text:
                if line.order and not name.startswith(VERBATIM):
                    gone[line.order[1:]] = name, line.line
                continue
        left.append(shorter)
        if tokens <= room:
            room -= tokens
            said.show(f"{kind} {line.id}", shorter.line, trust=line.trust)
    if not gone:
        return left, merged
    alone = {line.id: name for line in left if (name := _reply_to(line, gone))}
    merged += [
        Omission(kind, line.id, corrected(line.tokens), _MERGED, carrier=alone[line.id])
        for line in left
        if line.id in alone
    ]
    return [line for line in left if line.id not in alone], merged


def _reply_to(line: RecalledLine, gone: Mapping[tuple[str, int], tuple[str, str]]) -> str:
    """Return the name of what shows the message beside a line, if the line is of no use alone; else `""`.

    A short line is of no use, nor is a reply to a statement without a word of the question: "Noted, we'll avoid hills."
    """
    if line.order is None:
        return ""
    _, session_id, seq = line.order
    before = gone.get((session_id, seq - 1))
    name, _ = before or gone.get((session_id, seq + 1), ("", ""))
    terms = analyze(body(line.line)) if name else ()
    if len(terms) < _TERMS:
        return name
    if before is None or not line.asked or not line.asked.isdisjoint(terms):
        return ""
    asking = " ".join(filter(is_question, sentences_of(body(before[1]))))
    return name if line.asked.isdisjoint(analyze(asking)) else ""


def body(line: str) -> str:
    """Return a line of the prompt without its head."""
    found = _HEAD.match(line)
    return line[found.end() :] if found else line


def without_lead_in(text: str) -> str:
    """Return a text without its introductory words ("ok", "oh, and by the way"); if it has no others, the text."""
    lead_ins = detect(text).lead_ins
    for _ in range(_LEAD_INS):
        shorter = lead_ins.sub("", text, count=1).strip()
        if shorter in ("", text):
            break
        text = shorter
    return text


class _Sentence(NamedTuple):
    """A sentence's place in its text, and the hashes by which it is compared."""

    start: int
    end: int
    shingles: frozenset[int]
    is_long: bool


@cached_by_hash(4_096)
def _sentences(text: str) -> Sequence[_Sentence]:
    found: list[_Sentence] = []
    for start, end in sentence_spans(text):
        terms = analyze(without_lead_in(text[start:end]))
        found.append(_Sentence(start, end, _shingles_of(terms), len(terms) >= _TERMS))
    return tuple(found)


@cached_by_hash(4_096)
def _read(line: str) -> tuple[int, frozenset[int]]:
    """Return the start of a line's body, and the hashes by which the body is compared."""
    text = body(line)
    return len(line) - len(text), _shingles(text)


@cached_by_hash(4_096)
def _shingles(text: str) -> frozenset[int]:
    return _shingles_of(analyze(text[:_LONGEST]))


def _shingles_of(terms: Sequence[str]) -> frozenset[int]:
    """Return the hashes of a text's shingles; of a text with fewer terms, that of all of them."""
    if len(terms) < _TERMS:
        return frozenset([hash(tuple(terms))] if terms else [])
    return frozenset(map(hash, zip(terms, terms[1:], terms[2:], terms[3:], strict=False)))


@cached_by_hash(4_096)
def _words(sentence: str) -> frozenset[int]:
    return frozenset(map(hash, analyze(sentence)))


@cached_by_hash(4_096)
def _content_words(sentence: str) -> frozenset[int]:
    return frozenset(map(hash, analyze_query(sentence)))


@cached_by_hash(4_096)
def _is_negated(sentence: str) -> bool:
    return detect(sentence).denying.search(sentence.replace("’", "'")) is not None
