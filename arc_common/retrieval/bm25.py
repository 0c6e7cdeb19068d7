"""BM25, the scores of a question's words, and an index of texts in memory."""

import math
import re
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from itertools import islice, zip_longest
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz, process

from arc_common.caches import cached_text
from arc_common.exceptions import InvalidInputError
from arc_common.protocols.search_index import Candidates, EntryKind
from arc_common.text import Alternative, alternatives, analyze, analyze_query, han_characters, is_general


@dataclass(frozen=True, slots=True)
class BM25:
    """Computes BM25: the sum over the query's terms of weight × idf × tf / (tf + k1 × (1 − b + b × length / mean)).

    The defaults are the lower ends of the ranges that the source above finds good (1.2 < k1 < 2, 0.5 < b < 0.8): a
    longer chunk or message usually says more. Over 1.5 and 0.75, nDCG@10 gains .02 to .03 for chats and changes by at
    most .004 for paragraphs and abstracts.

    Args:
        k1: The effect of a term's repeated occurrences, from 0 (only the first one counts) to 100.
        b: The penalty for a text's length, from 0 (none) to 1 (proportional).
        smoothing: Added to the number of texts that contain a term, from 0 to 1.
    """

    k1: float = 1.2
    b: float = 0.5
    smoothing: float = 0.5

    def __post_init__(self) -> None:
        for name, value, most in (("k1", self.k1, 100), ("b", self.b, 1), ("smoothing", self.smoothing, 1)):
            if not (isinstance(value, int | float) and 0 <= value <= most):
                raise InvalidInputError(name, value, f"a number from 0 to {most}")

    def scores(self, candidates: Candidates, weights: Sequence[float]) -> NDArray[np.float64]:
        """Return each candidate's score as float64 of shape (n,), above zero if a term occurs in it.

        A candidate's score depends only on its own row and the statistics, not on the other candidates.
        """
        total = np.zeros(len(candidates.ids))
        for weight, scores in zip(weights, self.term_scores(candidates), strict=True):
            total += weight * scores
        return total

    def term_scores(self, candidates: Candidates) -> list[NDArray[np.float64]]:
        """Return, for each term alone with weight 1, the candidates' scores as float64 of shape (n,)."""
        mean = candidates.total_length / candidates.count if candidates.count else 0.0
        norms = self.norms(candidates.lengths, mean=mean)
        idf = self.idf(candidates.document_frequencies, candidates.count)
        return list((idf * _saturated(candidates.frequencies, norms[:, None])).T)

    def full_score(self, candidates: Candidates, weights: Sequence[float]) -> float:
        """Return the score of a text of mean length with each weighted term once, including terms no candidate has."""
        idf = self.idf(candidates.document_frequencies, candidates.count)
        return math.fsum(weight * rarity for weight, rarity in zip(weights, idf.tolist(), strict=True)) / (1 + self.k1)

    def idf(self, frequencies: NDArray[Any], count: float) -> NDArray[np.float64]:
        """Return the inverse document frequencies of terms, given the number of texts that contain each."""
        return inverse_document_frequencies(frequencies, count, smoothing=self.smoothing)

    def norms(self, lengths: NDArray[Any], *, mean: float) -> NDArray[Any]:
        """Return the length normalisation of texts with these lengths: k1 × (1 − b + b × length / mean)."""
        return self.k1 * (1 - self.b + self.b * lengths / mean) if mean else lengths * 0.0 + self.k1


def inverse_document_frequencies(
    frequencies: NDArray[Any], count: float, *, smoothing: float = 0.5
) -> NDArray[np.float64]:
    """Return ln((N + 1) / (df + smoothing)) for each term, which is above zero even if every text contains the term.

    With smoothing ½ this is Lucene's ln(1 + (N − df + ½) / (df + ½)); with 0 it is BM25+'s (Lv & Zhai 2011), where a
    df of 0 counts as 1.
    """
    held = np.maximum(frequencies + smoothing, smoothing or 1)
    rarity: NDArray[np.float64] = np.log1p((count + 1 - held) / held)
    return rarity


def _saturated(frequencies: NDArray[np.float64], norms: NDArray[np.float64]) -> NDArray[np.float64]:
    saturated = np.zeros(frequencies.shape)  # an absent term adds 0, even at k1 = 0
    return np.divide(frequencies, frequencies + norms, out=saturated, where=frequencies > 0)


CANDIDATES = 100
"""The least number of candidates from each part: 50, 100 and 200 gave equally good fused orders (nDCG@10 within
.003)."""

_CHARACTER = 0.5
"""The weight of a document's Han character relative to the pairs that contain it. With 0, ½ and 1, nDCG@10 of Chinese
paragraphs is .964, .970 and .971 by words; fused with the vectors of two embedders, it is .964, .969 and .969 for one
and .965, .968 and .968 for the other."""

_MAX_TERMS = 256
"""The maximum number of distinct terms of a query: of a pasted page, only the first 256 are searched for."""


def search_terms(query: str, kind: EntryKind, *, drop_stop_words: bool = True) -> dict[str, float]:
    """Return the weighted terms to search an index for."""
    terms = dict.fromkeys(analyze_query(query, drop_stop_words=drop_stop_words), 1.0)
    if kind == "document":
        terms |= {one: _CHARACTER for one in han_characters(" ".join(terms)) if one not in terms}
    return dict(islice(terms.items(), _MAX_TERMS)) if len(terms) > _MAX_TERMS else terms


def best_places(ids: Sequence[str], scores: NDArray[Any], limit: int) -> list[int]:
    """Return the positions of the best scores, best first; at equal scores the smaller id (by code points) first."""
    if limit < 1 or not len(scores):
        return []
    if limit < len(scores):
        last = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        better = np.flatnonzero(scores > last).tolist()
        # A thousand greetings may all score the same, so only the best of the tied ones are sorted.
        tied = nsmallest(limit - len(better), np.flatnonzero(scores == last).tolist(), key=lambda place: ids[place])
    else:
        better, tied = list(range(len(scores))), []
    values = scores.tolist() if limit >= len(scores) else {place: float(scores[place]) for place in better}
    return [place for *_, place in sorted([(-values[place], ids[place], place) for place in better])] + tied


_BM25 = BM25(k1=1.5, b=0.75, smoothing=0)
"""Okapi's usual constants, measured with benchmarks/session_recall.py: others gained less than two points."""
_STOP_WORD_WEIGHT = 0.15
_MOST_ALTERNATIVES = 2
"""The maximum number of alternatives for one word that count in a text: counting all would favour long texts."""
_SIMILAR = 84.0
"""The least normalised Indel similarity, in per cent, at which a word is taken for a misspelling of another."""
_MOST_SIMILAR = 3
_SHORTEST_SIMILAR = 5
_MISTYPED_WEIGHT = 0.5
_SPEAKERS = re.compile(
    r"\b(?:user|assistant)s?\b(?:['’]s)?|(?:사용자|어시스턴트)[가-힣]?|用户|助手|ユーザー", re.IGNORECASE
)
"""Names of speakers, which questions about a conversation contain but the conversation itself seldom does."""

Likely = Sequence[tuple[Alternative, ...]]
"""For each word of a question, the alternatives that may replace it."""


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """A parsed question: the weight of each term, its content terms, and alternatives for its words."""

    weights: Mapping[str, float]
    terms: tuple[str, ...]
    alternatives: Likely

    @classmethod
    @cached_text(64)  # a turn asks one question of messages, facts and artifacts
    def of(cls, question: str) -> "QueryTerms":
        """Parse a question."""
        about = _SPEAKERS.sub(" ", question)
        every = analyze(about)
        if not every:
            about, every = question, analyze(question)
        terms = dict.fromkeys(every if is_general(about) else analyze_query(about))
        weights = dict.fromkeys(every, _STOP_WORD_WEIGHT) | dict.fromkeys(terms, 1.0)
        return cls(weights, tuple(terms), alternatives(about))

    def mistyped(self, known: Mapping[str, Collection[str]]) -> Likely:
        """Return, for each unknown term, the terms of which it may be a misspelling; `known` is by first character."""
        return [_similar(term, known.get(term[0], ())) for term in self.terms]

    def sought(self, most: int) -> dict[str, float]:
        """Return at most so many weighted terms to search for, without stop words unless there are no other terms.

        Terms of the question come first, then the closest alternative of each word, then the next one of each. Each
        term leaves one alternative out: a long statement meets some in every conversation, by chance.
        """
        found = dict.fromkeys(self.terms, 1.0)
        for words in zip_longest(*self.alternatives):
            for word in filter(None, words):
                for term in word.terms:
                    found[term] = max(word.weight, found.get(term, 0.0))
        return dict(islice(found.items(), max(most - len(self.terms), min(most, len(self.terms)))))

    def scores(
        self, found: Candidates, columns: Sequence[str], likely: Likely
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return each candidate's score and whether it contains more than stop words; `columns` are its terms.

        - Alternatives that an answer may use instead of a word count a little, at most two for each word. Stop words
          only affect the order of texts that match otherwise.
        - Scores are positive, however common a term is.
        """
        size = len(found.ids)
        scores, matches = np.zeros(size), np.zeros(size, dtype=bool)
        by_terms = _scores_by_terms(found, columns, likely)
        for term, weight in self.weights.items():
            if (own := by_terms.get((term,))) is not None:
                scores += weight * own
                if weight > _STOP_WORD_WEIGHT:
                    matches |= own > 0
        for words in likely:
            if alike := [word.weight * by_terms[word.terms] for word in words if word.terms in by_terms]:
                if len(alike) > 1:
                    best = np.sort(alike, axis=0)[-_MOST_ALTERNATIVES:]
                    alike = [best.sum(axis=0), best[-1]]
                scores += alike[0]
                matches |= alike[-1] > 0
        return scores, matches

    def ideal(self, found: Candidates, columns: Sequence[str]) -> float:
        """Return the score of a text that has each term once or twice; an absent term counts as if one text had it.

        It makes the scores of two indexes comparable, since the best texts of an index may be good or poor.
        """
        held = dict(zip(columns, found.document_frequencies.tolist(), strict=True))
        return float(_BM25.idf(np.array([held.get(term, 0) for term in self.terms]), found.count).sum()) / 2


def _scores_by_terms(
    found: Candidates, columns: Sequence[str], likely: Likely
) -> dict[tuple[str, ...], NDArray[np.float64]]:
    """Score the candidates by each term that any text has, and by each alternative of several such terms."""
    held = found.document_frequencies
    place = {term: i for i, term in enumerate(columns) if held[i]}
    phrases = dict.fromkeys([word.terms for words in likely for word in words if len(word.terms) > 1])
    known = {terms: [place[term] for term in terms] for terms in phrases if place.keys() >= set(terms)}
    single = list(place.values())
    frequencies = [found.frequencies[:, places].min(axis=1) for places in known.values()]
    found = replace(
        found,
        frequencies=np.column_stack([found.frequencies[:, single], *frequencies]),
        document_frequencies=np.array([*held[single], *[held[places].min() for places in known.values()]]),
    )
    return dict(zip([*zip(place, strict=True), *known], _BM25.term_scores(found), strict=True))


def _similar(term: str, known: Collection[str]) -> tuple[Alternative, ...]:
    """Return the known terms of which an unknown term may be a misspelling."""
    if term in known or len(term) < _SHORTEST_SIMILAR or not term.isalpha():
        return ()
    found = process.extract(term, list(known), scorer=fuzz.ratio, score_cutoff=_SIMILAR, limit=_MOST_SIMILAR)
    return tuple([Alternative((other,), _MISTYPED_WEIGHT) for other, _, _ in found])


@dataclass(frozen=True, slots=True)
class RankedTexts:
    """The places and scores of the texts that match a question, best first; ties put the later text first."""

    places: Sequence[int]
    scores: Sequence[float]
    ideal: float

    @property
    def shares(self) -> dict[int, float]:
        """Each score as a share of a perfect match's, by place."""
        return {place: score / self.ideal for place, score in zip(self.places, self.scores, strict=True)}


class TextIndex:
    """Indexes texts in memory, oldest first, for repeated searches. Thread-safe."""

    def __init__(self, items: Iterable[tuple[str, str]] = ()) -> None:
        self._lock = Lock()
        self._ids: list[str] = []
        self._lengths = array("d")
        self._postings: dict[str, tuple[array[int], array[float]]] = {}
        self._terms: dict[str, dict[str, None]] = {}  # by their first characters
        self._read: tuple[tuple[str, ...], NDArray[np.float64], float] | None = None
        self.extend(items)

    @property
    def ids(self) -> Sequence[str]:
        """The texts' ids, in order of place."""
        return self._ids

    def extend(self, items: Iterable[tuple[str, str]]) -> None:
        """Append texts, given with their ids."""
        analysed = [(item_id, Counter(analyze(text))) for item_id, text in items]
        with self._lock:
            for item_id, frequencies in analysed:
                for term, frequency in frequencies.items():
                    if term not in self._postings:
                        self._terms.setdefault(term[0], {})[term] = None
                    texts, counts = self._postings.setdefault(term, (array("q"), array("d")))
                    texts.append(len(self._ids))
                    counts.append(frequency)
                self._ids.append(item_id)
                self._lengths.append(frequencies.total())
            self._read = None

    def ranked(self, query: str, *, top_k: int | None = None) -> RankedTexts:
        """Return the places of the texts that match; all of them without `top_k`."""
        asked = QueryTerms.of(query)
        with self._lock:
            likely = [*asked.alternatives, *asked.mistyped(self._terms)]
            near = [term for words in likely for word in words for term in word.terms]
            terms = [term for term in {*asked.weights, *near} if term in self._postings]
            frequencies = np.zeros((len(terms), len(self._ids)))
            for frequency, term in zip(frequencies, terms, strict=True):
                texts, counts = self._postings[term]
                frequency[texts] = counts
            held = np.array([len(self._postings[term][0]) for term in terms], dtype=np.int64)
            if self._read is None:
                lengths = np.array(self._lengths)
                self._read = tuple(self._ids), lengths, float(lengths.sum())
            ids, lengths, total = self._read
        telling = [asked.weights.get(term, 1.0) > _STOP_WORD_WEIGHT or term in near for term in terms]
        places = np.flatnonzero(frequencies[telling].any(axis=0))  # the other texts have nothing but stop words
        some = tuple([ids[place] for place in places.tolist()])
        found = Candidates(some, frequencies.T[places], lengths[places], held, len(ids), total)
        scores, matches = asked.scores(found, terms, likely)
        order = np.lexsort((-places, -scores))
        order = order[matches[order]][:top_k]
        return RankedTexts(places[order].tolist(), scores[order].tolist(), asked.ideal(found, terms))
