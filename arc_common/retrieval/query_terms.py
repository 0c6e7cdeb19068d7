"""A question's words against texts that are read in windows: one measure for every index of what was said."""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rapidfuzz import fuzz, process

from arc_common.text import Alternative, alternatives, analyze, analyze_query, is_general

if TYPE_CHECKING:  # numpy takes a tenth of a second, which importing arc must not cost
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Counts", "QueryTerms", "terms_of", "window_norms"]

# Measured with benchmarks/session_recall.py. Okapi's usual constants: others gained less than two points.
_K1 = 1.5
_B = 0.75
_STOP_WORD_WEIGHT = 0.15
_MOST_ALTERNATIVES = 2
"""Of the words that may stand for one of the question's, so many count in a text: all of them favour long texts."""
_SIMILAR = 84.0
"""Per cent of characters in common (normalised Indel similarity) from which a word is taken for another, mistyped."""
_MOST_SIMILAR = 3
_SHORTEST_SIMILAR = 5
_MISTYPED_WEIGHT = 0.5
_SPEAKERS = re.compile(
    r"\b(?:user|assistant)s?\b(?:['’]s)?|(?:사용자|어시스턴트)[가-힣]?|用户|助手|ユーザー", re.IGNORECASE
)
"""Questions about a conversation name who spoke; the conversation itself seldom does."""

Likely = Sequence[tuple[Alternative, ...]]
"""For each word of a question, what may stand in its place."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What BM25 needs of some terms in n windows.

    Args:
        size: How many windows there are in all, n or more.
        norm: Float64 of shape (n,): of each window its length's norm (`window_norms`).
        frequencies: Of each term float64 of shape (n,): how often each window has it.
        texts: Of each term, how many of all windows have it.
    """

    size: int
    norm: "NDArray[np.float64]"
    frequencies: "Mapping[str, NDArray[np.float64]]"
    texts: Mapping[str, int]

    def idf(self, terms: Sequence[str]) -> float:
        """Of a word that no text has, as if one had it."""
        # rank-bm25's BM25Plus has this idf: above zero also for a term that every text has
        return math.log((self.size + 1) / max(min(self.texts.get(term, 1) for term in terms), 1))

    def scores(self, terms: Sequence[str]) -> "NDArray[np.float64]":
        """What a word of these terms, all of which must be there, gives each window."""
        frequency = self.frequencies[terms[0]]
        for term in terms[1:]:
            frequency = frequency.clip(max=self.frequencies[term])
        scores: NDArray[np.float64] = self.idf(terms) * frequency * (_K1 + 1) / (frequency + self.norm)
        return scores


def window_norms(lengths: "NDArray[np.float64]", *, mean: float) -> "NDArray[np.float64]":
    """What a term's frequency is measured against in windows of these lengths."""
    return _K1 * (1 - _B + _B * lengths / (mean or 1.0))


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """A question taken apart.

    Args:
        weights: What each term weighs: stop words little.
        terms: The terms that ask for something.
        alternatives: For each word, what an answer may use in its place ("nurse" for "job").
    """

    weights: Mapping[str, float]
    terms: tuple[str, ...]
    alternatives: Likely

    @classmethod
    def of(cls, question: str, *, kin: bool = True) -> "QueryTerms":
        """Take a question apart, with what may stand for its words or without."""
        about = _SPEAKERS.sub(" ", question)
        every = analyze(about)
        if not every:
            about, every = question, analyze(question)
        terms = dict.fromkeys(every if is_general(about) else analyze_query(about))
        weights = dict.fromkeys(every, _STOP_WORD_WEIGHT) | dict.fromkeys(terms, 1.0)
        return cls(weights, tuple(terms), alternatives(about) if kin else ())

    def mistyped(self, known: Collection[str]) -> Likely:
        """For each term that is not known, the known ones that it may be a misspelling of."""
        return [_similar(term, known) for term in self.terms]

    def sought(self, likely: Likely | None = None) -> dict[str, float]:
        """The terms by which texts are found, and what each weighs; without stop words, unless there is nothing else.

        Args:
            likely: What may stand in a word's place; by default the alternatives.
        """
        found = dict.fromkeys(self.terms, 1.0)
        for words in self.alternatives if likely is None else likely:
            for word in words:
                for term in word.terms:
                    found[term] = max(word.weight, found.get(term, 0.0))
        return found

    def scores(self, counts: Counts, likely: Likely) -> "tuple[NDArray[np.float64], NDArray[np.bool_]]":
        """What each window scores, and whether anything but a stop word is in it.

        - Words that an answer may use instead of the question's count a little, at most two for each word, and stop
          words only among texts that match otherwise.
        - Scores are positive, however common a term is.
        """
        import numpy as np  # noqa: PLC0415 - see above

        scores = np.zeros(counts.norm.size)
        matches = np.zeros(counts.norm.size, dtype=bool)
        for term, weight in self.weights.items():
            if term in counts.frequencies:
                scores += weight * counts.scores((term,))
                if weight > _STOP_WORD_WEIGHT:
                    matches |= counts.frequencies[term] > 0
        for words in likely:
            best = np.zeros((_MOST_ALTERNATIVES, counts.norm.size))
            for word in words:
                if all(term in counts.frequencies for term in word.terms):
                    score = word.weight * counts.scores(word.terms)
                    for rank in range(_MOST_ALTERNATIVES):
                        best[rank], score = np.maximum(best[rank], score), np.minimum(best[rank], score)
            scores += best.sum(axis=0)
            matches |= best[0] > 0
        return scores, matches

    def ideal(self, counts: Counts) -> float:
        """What a text would score that has each word of the question once or twice.

        By it the scores of two indexes can be compared: their best texts may be good ones or poor ones.
        """
        return sum(counts.idf((term,)) for term in self.terms) * (_K1 + 1) / 2


def terms_of(likely: Likely) -> Iterable[str]:
    """All terms of what may stand in a word's place."""
    return (term for words in likely for word in words for term in word.terms)


def _similar(term: str, known: Collection[str]) -> tuple[Alternative, ...]:
    """The known terms that a term may be a misspelling of, if it is none of them."""
    if term in known or len(term) < _SHORTEST_SIMILAR or not term.isalpha():
        return ()
    alike = [other for other in known if other[0] == term[0]]
    found = process.extract(term, alike, scorer=fuzz.ratio, score_cutoff=_SIMILAR, limit=_MOST_SIMILAR)
    return tuple(Alternative((other,), _MISTYPED_WEIGHT) for other, _, _ in found)
