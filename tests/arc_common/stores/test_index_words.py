"""What FTS5 holds of an entry, and the candidates that are chosen by it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.indexing import IndexEntry
from arc_common.retrieval.lexical import BM25
from arc_common.stores.index_tokens import Tokens
from arc_common.stores.index_words import Posting, bounds_of, frequencies_in, frequency_of, grouped, words_of

TOKENS = Tokens(b"salt")

frequencies = st.one_of(
    st.sampled_from([1.0, 2.0, 0.35]), st.integers(1, 10**18).map(float), st.floats(min_value=5e-324, max_value=1e308)
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), frequencies))
def test_frequencies_come_back(terms: dict[str, float]) -> None:
    """Exactly, of any term; of those that are not there zero; and only letters and digits are stored."""
    words = words_of(IndexEntry("a", "", terms, {"key": ["value", 1]}), TOKENS)
    asked = [TOKENS.of(term).hex() for term in [*terms, "\0never a term"]]
    assert frequencies_in(words, asked) == [*terms.values(), 0.0]
    assert words.replace(" ", "").isalnum()


@given(st.lists(frequencies, min_size=1, unique=True))
def test_groups_are_few_and_in_order(values: list[float]) -> None:
    """All forms of a token are in them, the neighbours together."""
    words = [words_of(IndexEntry("a", "", {"t": value}), TOKENS) for value in values]
    groups = grouped(words)
    assert len(groups) <= 16
    assert [frequency_of(word) for group in groups for word in group] == sorted(values)
    if len(values) <= 16:
        assert all(len(group) == 1 for group in groups)


texts = st.lists(
    st.dictionaries(st.sampled_from("abc"), st.sampled_from([0.35, 1.0, 2.0, 3.5, 7.0]), max_size=3), max_size=30
)


@pytest.mark.parametrize("groups", [1, 2, 99], ids=["coarse", "halves", "exact"])
@given(corpus=texts, limit=st.integers(1, 12), allowed=st.lists(st.booleans(), min_size=30, max_size=30))
def test_the_best_are_never_missed(
    corpus: list[dict[str, float]], limit: int, allowed: list[bool], groups: int
) -> None:
    """However coarsely frequencies are known, what BM25 puts first is among the chosen; known exactly, little else."""
    lengths = np.array([sum(text.values()) for text in corpus])
    weights = {"a": 1.0, "b": 2.0, "c": 0.3}
    postings = {}
    for term in weights:
        values = sorted({text[term] for text in corpus if term in text})
        size = -(-len(values) // groups) or 1
        postings[term] = [
            Posting(
                np.array([n for n, text in enumerate(corpus) if text.get(term) in some], dtype=np.intp),
                some[0],
                some[-1],
            )
            for some in (values[start : start + size] for start in range(0, len(values), size))
        ]
    mean = float(lengths.mean()) if len(corpus) else 0.0
    bounds = bounds_of(postings, weights, lengths, bm25=BM25(), count=len(corpus), mean=mean)
    mask = np.array(allowed[: len(corpus)], dtype=np.bool_)
    sure, maybe = bounds.best(limit, mask)
    chosen = {*sure.tolist(), *maybe.tolist()}
    exact = {
        n: sum(_score(corpus, n, term, weight, mean) for term, weight in weights.items()) for n in range(len(corpus))
    }
    found = sorted((n for n in exact if exact[n] and mask[n]), key=lambda n: -exact[n])
    worst = exact[found[:limit][-1]] if found else 0.0
    assert chosen <= set(found)
    assert {n for n in found if exact[n] > worst * (1 + 1e-6)} <= chosen
    assert len(chosen) >= min(limit, len(found))
    assert len(sure) <= limit
    if groups == 99:
        assert all(exact[n] >= worst * (1 - 1e-6) for n in chosen)


def _score(corpus: list[dict[str, float]], n: int, term: str, weight: float, mean: float) -> float:
    frequency = corpus[n].get(term, 0.0)
    if not frequency:
        return 0.0
    holders = sum(term in text for text in corpus)
    rarity = np.log1p((len(corpus) - holders + 0.5) / (holders + 0.5))
    norm = 1.2 * (0.5 + 0.5 * sum(corpus[n].values()) / mean)
    return float(weight * rarity * frequency / (frequency + norm))
