"""The texts of a session, ready to be asked: BM25 over each text read with its neighbours, and the words' kin."""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from threading import Lock

from arc_common.exceptions import InvalidInputError
from arc_common.memory.recall.neighbours import NEIGHBOURS, neighbour_weights
from arc_common.retrieval.query_terms import Asked, Counts, terms_of, window_norms
from arc_common.text import analyze

__all__ = ["Ranked", "SessionIndex"]


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
        # what a text's neighbour at each distance counts in its window, by distance from -NEIGHBOURS on
        self._weights = tuple(array("d") for _ in range(2 * NEIGHBOURS + 1))
        self._postings: dict[str, tuple[array[int], array[float]]] = {}
        self.extend(items)

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def ids(self) -> Sequence[str]:
        """The texts' ids, by their places."""
        return self._ids

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
            for i in range(max(0, first - NEIGHBOURS), len(self._ids)):
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

        asked = Asked.of(query)
        with self._lock:
            likely = [*asked.alternatives, *asked.mistyped(self._postings)]
            counts = self._counts({*asked.weights, *terms_of(likely)})
        scores, matches = asked.scores(counts, likely)
        candidates = np.flatnonzero(matches)
        order = candidates[np.lexsort((-candidates, -scores[candidates]))[:top_k]]
        return Ranked(order.tolist(), scores[order].tolist(), asked.ideal(counts))

    def _counts(self, terms: Iterable[str]) -> Counts:
        """How often each window has each of the terms that there are."""
        import numpy as np  # noqa: PLC0415 - see above

        size = len(self._ids)
        weights = np.array(self._weights)
        lengths = np.array(self._window_lengths)
        frequencies, texts_with = {}, {}
        reach = NEIGHBOURS if self._window_terms else 0
        for term in terms:
            if (posting := self._postings.get(term)) is None:
                continue
            texts, counts = np.array(posting[0]), np.array(posting[1])
            frequency = np.zeros(size)
            for distance in range(-reach, reach + 1):
                column = weights[NEIGHBOURS + distance]
                window_of = texts - distance
                inside = (window_of >= 0) & (window_of < size)
                window_of = window_of[inside]
                frequency[window_of] += column[window_of] * counts[inside]
            frequencies[term], texts_with[term] = frequency, len(texts)
        mean = float(lengths.sum()) / max(size, 1)
        return Counts(size, window_norms(lengths, mean=mean), frequencies, texts_with)

    def _open_window(self, index: int) -> None:
        near = range(max(index - NEIGHBOURS, 0), min(index + NEIGHBOURS + 1, len(self._ids)))
        lengths = [self._lengths[place] for place in near]
        weights = neighbour_weights(lengths, index - near.start, window_terms=self._window_terms)
        for column in self._weights:
            column[index] = 0.0
        self._weights[NEIGHBOURS][index] = 1.0
        length = self._lengths[index]
        for place, weight in weights.items():
            self._weights[NEIGHBOURS + near[place] - index][index] = weight
            length += weight * lengths[place]
        self._window_lengths[index] = length
