"""How well the embedder of stored texts can read them, by these texts alone.

Texts that belong together share telling words and lie near each other (the cluster hypothesis: Jardine & van Rijsbergen
1971; tested by nearest neighbours: Voorhees 1985). An embedder puts the texts of a language that it can't read in an
order too, but in one that has little to do with their words.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from cachetools import LRUCache

from arc_common.retrieval.agreement import agreement

if TYPE_CHECKING:
    from arc_common.indexing import EntryKind, IndexEntry, IndexStore, Scope

__all__ = ["KnownLegibility", "legibility"]

_SAMPLE = 128
_FEWEST = 32
"""Texts. The agreement of one of them with its neighbours is known to about .2, that of 32 to .04, of 128 to .02."""

_NEIGHBOURS = 10

_USUAL = 0.35
"""The agreement with which a cosine counts as it is: about that of MiniLM on chats (.25 to .40), where twice the weight
makes it worse. On abstracts and paragraphs it is .46 to .73, on Chinese .25, on Korean .05 to .16; that of multilingual
embedders (E5, USE) on the same Chinese and Korean texts is .58 to .76."""

_MOST = 2.0
"""Measured against 1, the best cosines of a question come to about a half, where the best by words is worth 1: twice
the weight makes them equals. With 1, 2 and 3 the nDCG@10 of abstracts is .409, .418 and .419, that of paragraphs .977,
.979 and .980."""

_LEAST = 0.01
"""What nothing but such cosines find comes last, but it comes."""

_COPY = 0.3
"""From this similarity of words on, two texts are taken for one twice, or for chunks that overlap: any embedder puts
them next to each other. Of texts that are only about the same thing, hardly any are so similar."""

_REMEMBERED = 10_000


def legibility(entries: Sequence["IndexEntry"]) -> float:
    """What cosines with such texts should count beside words: 1 as a rule, next to nothing at least, 2 at most.

    - By how far the cosines of each text with its nearest ones agree with the words that they share; the square of
      that correlation is what the two have in common.
    - As far as words say anything: 1 where no neighbours share one, as in lists of titles, and of fewer than 32 texts.
    - The same in whatever order the entries come.

    Args:
        entries: A sample of texts; those without a vector don't count.
    """
    read = sorted((entry for entry in entries if entry.vector is not None), key=lambda entry: entry.id)
    if len(read) < _FEWEST:
        return 1.0
    words = _term_vectors([entry.terms for entry in read])
    agreements, sharing = [], 0
    for place, cosines in enumerate(_cosines(read)):
        near: dict[str, float] = {}
        shared: dict[str, float] = {}
        for other in sorted(range(len(read)), key=lambda row: -cosines[row]):
            if len(near) == _NEIGHBOURS:
                break
            similarity = _product(words[place], words[other])
            if other != place and similarity < _COPY:
                near[str(other)], shared[str(other)] = cosines[other], similarity
        agreements.append(agreement(near, shared))
        sharing += sum(similarity > 0 for similarity in shared.values())
    agreed = max(0.0, math.fsum(agreements) / len(read))
    telling = sharing / (len(read) * _NEIGHBOURS)
    return 1 + telling * (min(_MOST, max(_LEAST, (agreed / _USUAL) ** 2)) - 1)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was seen of a scope, and how many texts it had then."""

    embedder: str
    count: int
    weight: float


class KnownLegibility:
    """The legibility of scopes, by the first of their texts; looked up seldom. Thread-safe.

    It is looked up again when a scope has twice or half as many texts as it had, and when another embedder has made the
    vectors; not kept as long as most of the sample has none.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._seen: LRUCache[tuple[Scope, EntryKind], _Seen] = LRUCache(_REMEMBERED)

    def of(self, store: "IndexStore", scope: "Scope", kind: "EntryKind", *, embedder: str, count: int) -> float:
        """What cosines with the texts of a scope should count (see `legibility`).

        Args:
            store: Where they are.
            scope: Whose.
            kind: Of what.
            embedder: The name of the one that made the vectors.
            count: How many texts there are.
        """
        with self._lock:
            seen = self._seen.get((scope, kind))
        if seen is not None and seen.embedder == embedder and seen.count < 2 * count < 4 * seen.count:
            return seen.weight
        sample = store.scan(scope, kind, limit=_SAMPLE)
        weight = legibility(sample)
        if 2 * sum(entry.vector is not None for entry in sample) >= len(sample):
            with self._lock:
                self._seen[scope, kind] = _Seen(embedder, count, weight)
        return weight


def _cosines(entries: Sequence["IndexEntry"]) -> list[list[float]]:
    import numpy as np  # noqa: PLC0415 - it takes a tenth of a second, which importing arc must not cost

    vectors = np.array([entry.vector for entry in entries], dtype=np.float64)
    cosines: list[list[float]] = (vectors @ vectors.T).tolist()
    return cosines


def _term_vectors(texts: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    """Each text's terms by how telling they are, of length 1: ln(1 + frequency) × idf (Salton & Buckley 1988)."""
    held = Counter(term for terms in texts for term in terms)
    idf = {term: math.log1p((len(texts) - count + 0.5) / (count + 0.5)) for term, count in held.items()}
    vectors = []
    for terms in texts:
        weights = {term: math.log1p(frequency) * idf[term] for term, frequency in terms.items()}
        length = math.sqrt(math.fsum(weight * weight for weight in weights.values())) or 1.0
        vectors.append({term: weight / length for term, weight in weights.items()})
    return vectors


def _product(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    return math.fsum(one[term] * other[term] for term in one.keys() & other.keys())
