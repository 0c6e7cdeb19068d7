"""Finds what was said by the words of a question: BM25 over a session's texts, each read with its neighbours."""

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from threading import Lock

from arc_common.exceptions import InvalidInputError
from arc_common.text import analyze, analyze_query, related_terms

__all__ = ["SessionIndex", "fused", "rank"]

# Measured with benchmarks/session_recall.py. Okapi's usual constants: others gained less than two points.
_K1 = 1.5
_B = 0.75
_NEIGHBOURS = 3  # on each side at most; a window of 60 terms seldom holds more
_NEIGHBOUR_WEIGHT = 0.5
_RELATED_WEIGHT = 0.25
_STOP_WORD_WEIGHT = 0.15
_SPEAKERS = re.compile(
    r"\b(?:user|assistant)s?\b(?:['’]s)?|(?:사용자|어시스턴트)[가-힣]?|用户|助手|ユーザー", re.IGNORECASE
)
"""Questions about a conversation name who spoke; the conversation itself seldom does."""


class SessionIndex:
    """The texts of a session, oldest first, ready to be asked many times.

    - A text is scored together with its neighbours' (at a lower weight, until the window is full): an answer often
      shares no word with its question, but stands behind a message that does.
    - Words that an answer may use instead of the question's ("nurse" for "job") count a little, and stop words only
      among texts that match otherwise.
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
        return [(self._ids[i], score) for i, score in self._best(query, top_k)]

    def _best(self, query: str, top_k: int) -> list[tuple[int, float]]:
        import numpy as np  # noqa: PLC0415 - a tenth of a second that importing arc must not cost

        if top_k < 1:
            raise InvalidInputError("top_k", top_k, "1 or more")
        asked = _query_terms(query)
        with self._lock:
            size = len(self._ids)
            weights = np.array(self._weights)
            lengths = np.array(self._window_lengths)
            found = {
                term: (np.array(posting[0]), np.array(posting[1]))
                for term in asked
                if (posting := self._postings.get(term)) is not None
            }
        if not found:
            return []
        norm = _K1 * (1 - _B + _B * lengths / lengths.mean())
        scores = np.zeros(size)
        matches = np.zeros(size, dtype=bool)
        for term, (texts, counts) in found.items():
            frequency = np.zeros(size)
            for distance, column in zip(range(-_NEIGHBOURS, _NEIGHBOURS + 1), weights, strict=True):
                window_of = texts - distance
                inside = (window_of >= 0) & (window_of < size)
                window_of = window_of[inside]
                frequency[window_of] += column[window_of] * counts[inside]
            # rank-bm25's BM25Plus has this idf: above zero also for a term that every text has
            idf = math.log((size + 1) / len(texts))
            scores += asked[term] * idf * frequency * (_K1 + 1) / (frequency + norm)
            if asked[term] > _STOP_WORD_WEIGHT:
                matches |= frequency > 0
        candidates = np.flatnonzero(matches)
        order = np.lexsort((-candidates, -scores[candidates]))[:top_k]
        return [(int(i), float(scores[i])) for i in candidates[order]]

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


def rank(query: str, texts: Sequence[str], *, top_k: int = 5, window_terms: int = 60) -> list[tuple[int, float]]:
    """The texts of a conversation that match a query best, best first: the place and score of each.

    As `SessionIndex`, for one question: at most `top_k`, none without a matching term in it or in its window, the
    later first where scores are equal.
    """
    index = SessionIndex(((str(place), text) for place, text in enumerate(texts)), window_terms=window_terms)
    return [(int(place), score) for place, score in index.search(query, top_k=top_k)]


def fused(*rankings: Sequence[tuple[str, float]], top_k: int = 5) -> list[tuple[str, float]]:
    """One ranking from several: each id's scores summed, after dividing each ranking by its best score.

    For messages, and for the facts read from them under the ids of their sources: of 300 planted facts 7 were not among
    the first five by their messages' words alone, and 3 by both.

    Args:
        rankings: Ids and positive scores, the best first. Of an id that is in one twice, the best counts.
        top_k: How many at most; of equal ones, those seen first.
    """
    scores: dict[str, float] = {}
    for ranking in rankings:
        best = dict(sorted(ranking, key=lambda item: item[1]))
        for item_id in dict.fromkeys(item_id for item_id, _ in ranking):
            scores[item_id] = scores.get(item_id, 0.0) + best[item_id] / ranking[0][1]
    return sorted(scores.items(), key=lambda item: -item[1])[:top_k]


def _query_terms(query: str) -> dict[str, float]:
    """What each term of a query weighs."""
    without_speakers = _SPEAKERS.sub(" ", query)
    every = analyze(without_speakers)
    if not every:
        without_speakers, every = query, analyze(query)
    terms = analyze_query(without_speakers)
    related = dict.fromkeys(related_terms(terms), _RELATED_WEIGHT)
    return dict.fromkeys(every, _STOP_WORD_WEIGHT) | related | dict.fromkeys(terms, 1.0)
