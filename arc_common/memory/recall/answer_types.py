"""What kind of answer a question asks for, and which texts have one of that kind.

"Who" asks for a person, "by when" for a date, "why" for a reason (Li & Roth, "Learning question classifiers", 2002):
a text that holds none is unlikely to hold the answer, whatever words it shares with the question. How each kind is
asked for and given stands with the languages.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from arc_common.text.languages.language import Language
from arc_common.text.languages.registry import detect, with_other_scripts

_NAMES = [
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
"""The most telling first."""

_CASED = frozenset({"code", "person", "name"})
"""Kinds of answers in which capitals matter; in a question they never do."""

_MOST_TYPES = 3


@dataclass(frozen=True, slots=True)
class AnswerType:
    """A kind of answer.

    Args:
        name: What it is.
        asked: Matches a question for it.
        answers: Matches a text that may hold one. Linear in the text: every repetition in it is bounded.
    """

    name: str
    asked: re.Pattern[str]
    answers: re.Pattern[str]


def answer_types(question: str) -> Sequence[AnswerType]:
    """Return the kinds of answer that a question may ask for, the most telling first; at most three, often none."""
    return [kind for kind in _types(detect(question)) if kind.asked.search(question)][:_MOST_TYPES]


@cache
def _types(language: Language) -> Sequence[AnswerType]:
    """Return the kinds of answers to a question in a language; a text may be in a language of another script."""
    types = []
    for name in _NAMES:
        forms = [one.answers[name] for one in with_other_scripts(language) if name in one.answers]
        asked, answers = ("|".join(getattr(form, side) for form in forms) for side in ("asked", "answers"))
        types.append(
            AnswerType(
                name, re.compile(asked, re.IGNORECASE), re.compile(answers, 0 if name in _CASED else re.IGNORECASE)
            )
        )
    return types
