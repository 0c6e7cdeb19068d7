"""Ranks messages and the facts extracted from them against a question by one measure. Pure."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Generic, TypeVar

from arc_common.memory.facts.extraction import extract_facts
from arc_common.memory.recall.index import SessionIndex
from arc_common.messages import Message
from arc_common.retrieval.fusion import Ranking, credibility, fused_scores
from arc_common.text.languages.language import Language
from arc_common.text.languages.registry import detect, with_other_scripts

# Measured on five sets of 60 planted facts and on the shared conversations (benchmarks/session_recall.py): weights up
# to twice as high make little difference; four times as high ranks the kind of answer above its topic.
_MESSAGE_TYPE = 0.05
_FACT_TYPE = 0.15
_COMMON_TYPE = 2.0
"""Reduce the weight of an answer type, as IDF does, if more than one text in e² contains it."""
MOST_READ_ANEW = 40
"""The most recent messages whose facts are extracted at question time, if they have not been extracted yet."""
_TYPED_MESSAGES = 50
"""Only the best messages are checked for the answer type; facts are short, so all of them are."""

_ANSWER_TYPES = [
    "requirement",
    "reason",
    "occupation",
    "money",
    "count",
    "measure",
    "time",
    "contact",
    "code",
    "place",
    "person",
    "name",
    "condition",
    "prohibition",
    "preference",
    "decision",
    "plan",
    "state",
]
"""The types of answer (Li & Roth 2002, "Learning question classifiers"), the most specific first."""

_CASED = frozenset({"code", "person", "name"})
"""Answer types whose texts are matched case-sensitively; questions never are."""

_MOST_TYPES = 3

P = TypeVar("P")
"""The type of a message's place: its index in a list, or its place in a session."""


@dataclass(frozen=True, slots=True)
class Recalled(Generic[P]):
    """A message relevant to a question, with a score that is comparable only within one result."""

    place: P
    score: float
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stated(Generic[P]):
    """A fact, the messages that state it, and its match by words as a share of a perfect match."""

    text: str
    places: Sequence[P]
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class AnswerType:
    """A type of answer, with linear-time patterns for questions that ask for it and texts that may contain it."""

    name: str
    asked: re.Pattern[str]
    answers: re.Pattern[str]


def rank_found(
    question: str,
    said: Mapping[P, float],
    *,
    texts: Mapping[P, str],
    stated: Sequence[Stated[P]] = (),
    near: Mapping[P, float] | None = None,
) -> list[Recalled[P]]:
    """Combine the matches by words, facts and vectors into one scored list, in no particular order."""
    kinds = answer_types(question)
    words = dict(said)
    best = sorted(words, key=lambda place: (-words[place], repr(place)))[:_TYPED_MESSAGES]
    _add_types(words, kinds, {place: texts[place] for place in best if place in texts}, weight=_MESSAGE_TYPE)
    shares = {i: fact.share for i, fact in enumerate(stated) if fact.share > 0}
    _add_types(shares, kinds, {i: fact.text for i, fact in enumerate(stated)}, weight=_FACT_TYPE)
    by_fact: dict[P, float] = {}
    for i, share in shares.items():
        for place in stated[i].places:
            by_fact[place] = max(share, by_fact.get(place, 0.0))
    lexical = {place: words.get(place, 0.0) + by_fact.get(place, 0.0) for place in {**words, **by_fact}}
    parts = {"message": words, "fact": by_fact, "vector": near or {}}
    total = lexical if near is None else _fused(lexical, near)
    return [
        Recalled(place, score, {name: part[place] for name, part in parts.items() if place in part})
        for place, score in total.items()
    ]


def _fused(words: Mapping[P, float], near: Mapping[P, float]) -> dict[P, float]:
    names = {str(i): place for i, place in enumerate({**words, **near})}
    said = {name: words[place] for name, place in names.items() if place in words}
    cosines = {name: near[place] for name, place in names.items() if place in near}
    best = max(said.values(), default=0.0)
    rankings = (
        Ranking(said, floor=0.0, ideal=max(1.0, best)),
        Ranking(
            cosines,
            weight=credibility(cosines, said, answered=min(1.0, best)),
            floor=min(cosines.values(), default=0.0),
            ideal=1.0,
        ),
    )
    return {names[name]: score for name, score in fused_scores([r for r in rankings if r.scores]).items()}


def said_by_words(question: str, messages: Sequence[str], *, window_terms: int) -> dict[int, float]:
    """Return the matching messages' shares of a perfect match, neighbours included, by place."""
    return SessionIndex((("", text) for text in messages), window_terms=window_terms).ranked(question).shares


def stated_anew(question: str, messages: Sequence[Message]) -> list[Stated[int]]:
    """Extract and score the facts of messages not extracted yet; otherwise the newest messages would rank too low."""
    read = [
        (f"{fact.key} {fact.value}", place)
        for place, message in enumerate(messages)
        for fact in extract_facts([message])
    ]
    shares = SessionIndex((("", text) for text, _ in read), window_terms=0).ranked(question).shares
    return [Stated(text, (place,), shares.get(i, 0.0)) for i, (text, place) in enumerate(read)]


def _add_types(scores: dict[P, float], kinds: Sequence[AnswerType], texts: Mapping[P, str], *, weight: float) -> None:
    """Add the weight, reduced for common types, to the scores of texts that contain an answer of a requested type."""
    best: dict[P, float] = {}
    for kind in kinds:
        holding = [place for place, text in texts.items() if kind.answers.search(text)]
        telling = math.log((len(texts) + 1) / len(holding)) / _COMMON_TYPE if holding else 0.0
        for place in holding:
            best[place] = max(best.get(place, 0.0), min(1.0, telling))
    for place, telling in best.items():
        scores[place] = scores.get(place, 0.0) + weight * telling


def answer_types(question: str) -> Sequence[AnswerType]:
    """Return the answer types that a question may ask for, the most specific first; at most three, often none."""
    return [kind for kind in _answer_types(detect(question)) if kind.asked.search(question)][:_MOST_TYPES]


@cache
def _answer_types(language: Language) -> Sequence[AnswerType]:
    """Return the answer types for a language, including the forms of languages in other scripts."""
    types = []
    for name in _ANSWER_TYPES:
        forms = [one.answers[name] for one in with_other_scripts(language) if name in one.answers]
        asked, answers = ("|".join(getattr(form, side) for form in forms) for side in ("asked", "answers"))
        types.append(
            AnswerType(
                name, re.compile(asked, re.IGNORECASE), re.compile(answers, 0 if name in _CASED else re.IGNORECASE)
            )
        )
    return types
