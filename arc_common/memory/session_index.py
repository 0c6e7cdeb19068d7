"""The texts of a session, ready to be asked: BM25 over each text read with its neighbours, and the words' kin."""

import math
import re
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from rapidfuzz import fuzz, process

from arc_common.exceptions import InvalidInputError
from arc_common.text import Alternative, alternatives, analyze, analyze_query

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Ranked", "SessionIndex"]

# Measured with benchmarks/session_recall.py. Okapi's usual constants: others gained less than two points.
_K1 = 1.5
_B = 0.75
_NEIGHBOURS = 3  # on each side at most; a window of 60 terms seldom holds more
_NEIGHBOUR_WEIGHT = 0.5
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


@dataclass(frozen=True, slots=True)
class Ranked:
    """What an index says to a question.

    Args:
        places: Of the texts that match, the best first; of equal ones the later first.
        scores: Of each, above zero.
        ideal: What a text would score that has each word of the question once or twice, so that the scores of two
            indexes can be compared: their best texts may be good ones or poor ones.
    """

    places: Sequence[int]
    scores: Sequence[float]
    ideal: float


class SessionIndex:
    """The texts of a session, oldest first, ready to be asked many times.

    - A text is scored together with its neighbours' (at a lower weight, until the window is full): an answer often
      shares no word with its question, but stands behind a message that does.
    - Words that an answer may use instead of the question's ("nurse" for "job") count a little, and stop words only
      among texts that match otherwise. A word that no text has stands for the ones most like it ("recieved").
    - Scores are positive, however common a term is; equal ones are ordered by recency, later first.
    - Texts are only ever added, at a cost that does not grow with the index. Safe to share between threads.

    Args:
        items: Id and text of each.
        window_terms: Terms: a text is read with its neighbours until it has these; 0 is each text by itself.
    """

    def __init__(self, items: Iterable[tuple[str, str]] = (), *, window_terms: int = 60) -> None:
        if window_terms < 0:
            raise InvalidInputError("window_terms", window_terms, "0 or more")
        self._window_terms = window_terms
        self._lock = Lock()
        self._ids: list[str] = []
        self._lengths = array("d")
        self._window_lengths = array("d")
        # what a text's neighbour at each distance counts in its window, by distance from -_NEIGHBOURS on
        self._weights = tuple(array("d") for _ in range(2 * _NEIGHBOURS + 1))
        self._postings: dict[str, tuple[array[int], array[float]]] = {}
        self.extend(items)

    def __len__(self) -> int:
        return len(self._ids)

    def extend(self, items: Iterable[tuple[str, str]]) -> None:
        """Add texts behind those that are there."""
        analysed = [(item_id, Counter(analyze(text))) for item_id, text in items]
        with self._lock:
            first = len(self._ids)
            for item_id, frequencies in analysed:
                for term, frequency in frequencies.items():
                    texts, counts = self._postings.setdefault(term, (array("q"), array("d")))
                    texts.append(len(self._ids))
                    counts.append(frequency)
                self._ids.append(item_id)
                self._lengths.append(frequencies.total())
                for column in (*self._weights, self._window_lengths):
                    column.append(0.0)
            for i in range(max(0, first - _NEIGHBOURS), len(self._ids)):
                self._open_window(i)

    def search(self, query: str, *, top_k: int = 5) -> list[tuple[str, float]]:
        """The texts that match best, best first: the id and score of each; at most `top_k`, none that don't match."""
        if top_k < 1:
            raise InvalidInputError("top_k", top_k, "1 or more")
        found = self.ranked(query, top_k=top_k)
        return [(self._ids[place], score) for place, score in zip(found.places, found.scores, strict=True)]

    def ranked(self, query: str, *, top_k: int | None = None) -> Ranked:
        """The texts that match, by their places; all of them without `top_k`."""
        import numpy as np  # noqa: PLC0415 - a tenth of a second that importing arc must not cost

        asked = _Asked.of(query)
        with self._lock:
            likely = [*asked.alternatives, *(_similar(term, self._postings) for term in asked.terms)]
            counts = self._counts(
                {*asked.weights, *(term for words in likely for word in words for term in word.terms)}
            )
        scores = np.zeros(counts.size)
        matches = np.zeros(counts.size, dtype=bool)
        for term, weight in asked.weights.items():
            if term in counts.texts:
                scores += weight * counts.scores((term,))
                if weight > _STOP_WORD_WEIGHT:
                    matches |= counts.frequencies[term] > 0
        for words in likely:
            best = np.zeros((_MOST_ALTERNATIVES, counts.size))
            for word in words:
                if all(term in counts.texts for term in word.terms):
                    score = word.weight * counts.scores(word.terms)
                    for rank in range(_MOST_ALTERNATIVES):
                        best[rank], score = np.maximum(best[rank], score), np.minimum(best[rank], score)
            scores += best.sum(axis=0)
            matches |= best[0] > 0
        candidates = np.flatnonzero(matches)
        order = candidates[np.lexsort((-candidates, -scores[candidates]))[:top_k]]
        ideal = sum(counts.idf((term,)) for term in asked.terms) * (_K1 + 1) / 2
        return Ranked(order.tolist(), scores[order].tolist(), ideal)

    def _counts(self, terms: Iterable[str]) -> "_Counts":
        """How often each window has each of the terms that there are."""
        import numpy as np  # noqa: PLC0415 - see above

        size = len(self._ids)
        weights = np.array(self._weights)
        lengths = np.array(self._window_lengths)
        frequencies, texts_with = {}, {}
        for term in terms:
            if (posting := self._postings.get(term)) is None:
                continue
            texts, counts = np.array(posting[0]), np.array(posting[1])
            frequency = np.zeros(size)
            for distance, column in zip(range(-_NEIGHBOURS, _NEIGHBOURS + 1), weights, strict=True):
                window_of = texts - distance
                inside = (window_of >= 0) & (window_of < size)
                window_of = window_of[inside]
                frequency[window_of] += column[window_of] * counts[inside]
            frequencies[term], texts_with[term] = frequency, len(texts)
        mean = lengths.sum() / max(size, 1) or 1.0
        return _Counts(size, _K1 * (1 - _B + _B * lengths / mean), frequencies, texts_with)

    def _open_window(self, index: int) -> None:
        """Let in neighbours, the nearest first, the earlier before the later; the last one as far as there is room."""
        for column in self._weights:
            column[index] = 0.0
        self._weights[_NEIGHBOURS][index] = 1.0
        length = self._lengths[index]
        room = self._window_terms - length
        for distance in (d for near in range(1, _NEIGHBOURS + 1) for d in (-near, near)):
            if room <= 0:
                break
            if 0 <= index + distance < len(self._ids) and (terms := self._lengths[index + distance]):
                weight = _NEIGHBOUR_WEIGHT * min(1.0, room / terms)
                self._weights[_NEIGHBOURS + distance][index] = weight
                length += weight * terms
                room -= terms
        self._window_lengths[index] = length


@dataclass(frozen=True, slots=True)
class _Counts:
    """What BM25 needs of some terms: of each window its length's norm, of each term how often the windows have it."""

    size: int
    norm: "NDArray[np.float64]"
    frequencies: "dict[str, NDArray[np.float64]]"
    texts: dict[str, int]

    def idf(self, terms: Sequence[str]) -> float:
        """Of a word that no text has, as if one had it."""
        # rank-bm25's BM25Plus has this idf: above zero also for a term that every text has
        return math.log((self.size + 1) / min(self.texts.get(term, 1) for term in terms))

    def scores(self, terms: Sequence[str]) -> "NDArray[np.float64]":
        """What a word of these terms, all of which must be there, gives each window."""
        frequency = self.frequencies[terms[0]]
        for term in terms[1:]:
            frequency = frequency.clip(max=self.frequencies[term])
        scores: NDArray[np.float64] = self.idf(terms) * frequency * (_K1 + 1) / (frequency + self.norm)
        return scores


@dataclass(frozen=True, slots=True)
class _Asked:
    """A query taken apart: what each term weighs, those that ask for something, and what may stand in their place."""

    weights: dict[str, float]
    terms: list[str]
    alternatives: list[tuple[Alternative, ...]]

    @classmethod
    def of(cls, query: str) -> "_Asked":
        about = _SPEAKERS.sub(" ", query)
        every = analyze(about)
        if not every:
            about, every = query, analyze(query)
        terms = list(dict.fromkeys(analyze_query(about)))
        weights = dict.fromkeys(every, _STOP_WORD_WEIGHT) | dict.fromkeys(terms, 1.0)
        return cls(weights, terms, alternatives(about))


def _similar(term: str, known: Collection[str]) -> tuple[Alternative, ...]:
    """The known terms that a term may be a misspelling of, if it is none of them."""
    if term in known or len(term) < _SHORTEST_SIMILAR or not term.isalpha():
        return ()
    alike = [other for other in known if other[0] == term[0]]
    found = process.extract(term, alike, scorer=fuzz.ratio, score_cutoff=_SIMILAR, limit=_MOST_SIMILAR)
    return tuple(Alternative((other,), _MISTYPED_WEIGHT) for other, _, _ in found)
