"""Finds messages in the index by a question's words and meaning."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arc_common.memory.recall.index import MessageIndex, MessagePlace
from arc_common.protocols import SessionKey
from arc_common.protocols.search_index import LexicalCandidates
from arc_common.ranking import best_places
from arc_common.retrieval.query_terms import Counts, QueryTerms, window_norms

if TYPE_CHECKING:  # numpy takes a tenth of a second, which importing arc must not cost
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["FoundMessages", "find_messages"]

_MOST_TERMS = 64
"""Of a question. Of a pasted page, the first so many different ones."""


@dataclass(frozen=True, slots=True)
class FoundMessages:
    """What the index says to a question.

    Args:
        said: For each message that matches by words, the share of what a perfect match would have.
        near: For each message that is near in meaning, the cosine.
        notes: What the search had to do without, in words.
    """

    said: Mapping[MessagePlace, float]
    near: Mapping[MessagePlace, float]
    notes: tuple[str, ...] = ()


def find_messages(
    index: MessageIndex, key: SessionKey, question: str, *, limit: int, kin: bool = True
) -> FoundMessages:
    """The messages that a question is about, as far as they are indexed: the best so many of each part.

    Args:
        index: Where they are.
        key: The session that asks.
        question: In any words.
        limit: How many of each part.
        kin: Whether words that an answer may use instead of the question's count too: ninety terms to look up in
            place of five. With them 1.7 of a hundred pieces of evidence more are among the first ten of LoCoMo, and 3
            fewer of LongMemEval.

    Raises:
        StoreError: The store failed.
    """
    scope = index.scope(key)
    asked = QueryTerms.of(question, kin=kin)
    sought = dict(list(asked.sought().items())[:_MOST_TERMS])
    said: dict[str, float] = {}
    if sought:
        said = _lexical_shares(asked, index.store.lexical(scope, "message", sought, limit=limit), list(sought), limit)
    near, notes = _near(index, key, question, limit)
    ids = list({**said, **near})
    places = index.places(key, ids)
    return FoundMessages(
        {places[entry_id]: score for entry_id, score in said.items() if entry_id in places},
        {places[entry_id]: score for entry_id, score in near.items() if entry_id in places},
        notes,
    )


def _lexical_shares(asked: QueryTerms, found: LexicalCandidates, terms: Sequence[str], limit: int) -> dict[str, float]:
    if not found.ids:
        return {}
    mean = found.total_length / max(found.count, 1)
    frequencies: dict[str, NDArray[np.float64]] = {t: found.frequencies[:, i] for i, t in enumerate(terms)}
    texts = dict(zip(terms, found.document_frequencies.tolist(), strict=True))
    counts = Counts(found.count, window_norms(found.lengths, mean=mean), frequencies, texts)
    scores, matches = asked.scores(counts, asked.alternatives)
    ideal = asked.ideal(counts) or 1.0
    best = best_places(found.ids, scores, limit)
    return {found.ids[place]: float(scores[place]) / ideal for place in best if matches[place]}


def _near(index: MessageIndex, key: SessionKey, question: str, limit: int) -> tuple[dict[str, float], tuple[str, ...]]:
    if index.embedder is None:
        return {}, ()
    scope = index.scope(key)
    stored = index.store.embedding(scope, "message")
    if stored is None or stored[0] != index.embedder.name:
        return {}, ()
    vector = index.embedder.of_query(question, stored[1])
    if vector is None:
        return {}, ("no vector for the question: messages were recalled by their words",)
    return dict(index.store.dense(scope, "message", vector, embedder=stored[0], limit=limit)), ()
