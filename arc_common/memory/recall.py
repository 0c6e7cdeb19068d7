"""Finds what was said by a question's words: messages and the facts read from them, by one measure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from arc_common.exceptions import InvalidInputError
from arc_common.memory.answer_types import AnswerType, answer_types
from arc_common.memory.extraction import extract_facts
from arc_common.memory.session_index import Ranked, SessionIndex
from arc_common.messages import Message, Role

__all__ = ["Recalled", "SessionIndex", "rank", "recall"]

# Measured on five sets of 60 planted facts and on the shared conversations (benchmarks/session_recall.py): up to
# twice as much makes little difference, four times as much puts the kind of an answer before what it is about.
_MESSAGE_TYPE = 0.05
_FACT_TYPE = 0.15
_COMMON_TYPE = 2.0
"""Of a kind of answer that more than one text in e² has, the weight is less, as idf is."""
_MOST_READ_ANEW = 40
_TYPED_MESSAGES = 50
"""Only the best of the messages are looked at for the kind of answer; the facts, which are short, all are."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """A message that a question is about.

    Args:
        place: Which of the messages.
        score: Comparable within one answer only.
        parts: What it got as a message, and by the best of its facts.
    """

    place: int
    score: float
    parts: Mapping[str, float] = field(default_factory=dict)


def recall(
    question: str,
    messages: Sequence[str],
    facts: Sequence[tuple[str, Sequence[int]]] = (),
    *,
    top_k: int = 5,
    window_terms: int = 60,
) -> list[Recalled]:
    """The messages that a question is about, best first; a fact finds the messages that say it.

    - By words: BM25 over each message with its neighbours, and over each fact alone, words of the same concept and
      likely misspellings included (see `SessionIndex`).
    - By the kind of answer: what holds a date or a name weighs a little more where "when" or "who" is asked, and comes
      last when no word matches.
    - Both are measured against what a perfect match would have, so that neither outweighs the other by having nothing
      better; each message counts the best of its facts.
    - Deterministic; of equal messages the later first. Linear in the texts.

    Args:
        question: In any words.
        messages: The texts of a conversation, oldest first.
        facts: The text of each fact, and the places of the messages that say it.
        top_k: At most so many.
        window_terms: Terms: a message is read with its neighbours until it has these.

    Raises:
        InvalidInputError: `top_k` is less than 1, or `window_terms` less than 0.
    """
    if top_k < 1:
        raise InvalidInputError("top_k", top_k, "1 or more")
    kinds = answer_types(question)
    facts = [*facts, *_read_anew(messages, facts)]
    index = SessionIndex((("", text) for text in messages), window_terms=window_terms)
    lines = SessionIndex((("", text) for text, _ in facts), window_terms=0)
    said = _scores(index.ranked(question))
    best = sorted(said, key=lambda place: (-said[place], -place))[:_TYPED_MESSAGES]
    _add_types(said, kinds, {place: messages[place] for place in best}, weight=_MESSAGE_TYPE)
    stated = _scores(lines.ranked(question))
    _add_types(stated, kinds, {place: text for place, (text, _) in enumerate(facts)}, weight=_FACT_TYPE)
    by_fact: dict[int, float] = {}
    for place, score in stated.items():
        for source in facts[place][1]:
            by_fact[source] = max(score, by_fact.get(source, 0.0))
    found = []
    for place in {**said, **by_fact}:
        parts = {name: part[place] for name, part in (("message", said), ("fact", by_fact)) if place in part}
        found.append(Recalled(place, sum(parts.values()), parts))
    return sorted(found, key=lambda one: (-one.score, -one.place))[:top_k]


def _read_anew(messages: Sequence[str], facts: Sequence[tuple[str, Sequence[int]]]) -> list[tuple[str, tuple[int]]]:
    """The facts of the last messages, from which none are known yet: else what was said last would count for less."""
    known = max((place for _, sources in facts for place in sources), default=-1)
    last = range(max(known + 1, len(messages) - _MOST_READ_ANEW), len(messages))
    return [
        (f"{fact.key} {fact.value}", (place,))
        for place in last
        for fact in extract_facts([Message(Role.USER, messages[place])])
    ]


def rank(query: str, texts: Sequence[str], *, top_k: int = 5, window_terms: int = 60) -> list[tuple[int, float]]:
    """The texts of a conversation that match a query best, best first: the place and score of each.

    As `SessionIndex`, for one question: at most `top_k`, none without a matching term in it or in its window, the
    later first where scores are equal.
    """
    index = SessionIndex(((str(place), text) for place, text in enumerate(texts)), window_terms=window_terms)
    return [(int(place), score) for place, score in index.search(query, top_k=top_k)]


def _scores(ranked: Ranked) -> dict[int, float]:
    """By place, as a share of what a perfect match would have."""
    return {place: score / ranked.ideal for place, score in zip(ranked.places, ranked.scores, strict=True)}


def _add_types(
    scores: dict[int, float], kinds: Sequence[AnswerType], texts: Mapping[int, str], *, weight: float
) -> None:
    """Add the weight, or less of a common kind, to what holds an answer of a kind that is asked for."""
    best: dict[int, float] = {}
    for kind in kinds:
        holding = [place for place, text in texts.items() if kind.answers.search(text)]
        telling = math.log((len(texts) + 1) / len(holding)) / _COMMON_TYPE if holding else 0.0
        for place in holding:
            best[place] = max(best.get(place, 0.0), min(1.0, telling))
    for place, telling in best.items():
        scores[place] = scores.get(place, 0.0) + weight * telling
