"""What FTS5 holds of an entry, and the candidates that are chosen by it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.protocols.search_index import IndexEntry
from arc_common.retrieval.bm25 import BM25
from arc_common.stores.search_index.filters import Tokens
from arc_common.stores.search_index.sqlite_reader import Posting, best_by, frequencies_at, posted, scores_of, words_of

TOKENS = Tokens(b"salt")
WIDTH = len(TOKENS.of("any term").hex())

frequencies = st.one_of(
    st.sampled_from([1.0, 2.0, 0.35]), st.integers(1, 10**18).map(float), st.floats(min_value=5e-324, max_value=1e300)
)


@given(st.lists(st.dictionaries(st.sampled_from(["a", "b", "\U0001f600"]), frequencies), max_size=8))
def test_frequencies_come_back(texts: list[dict[str, float]]) -> None:
    """Exactly, of any term, each with the row that has it; and only letters and digits are stored."""
    rows = {n: words_of(IndexEntry("a", "", terms, {"key": ["value", 1]}), TOKENS) for n, terms in enumerate(texts, 1)}
    for term in ("a", "b", "\U0001f600"):
        expected = {n: terms[term] for n, terms in enumerate(texts, 1) if term in terms}
        assert _read(rows, TOKENS.of(term).hex()) == expected
    assert all(words.replace(" ", "").isalnum() for words in rows.values())


def _read(rows: dict[int, str], token: str) -> dict[int, float]:
    """What the table would say of a token, read back."""
    forms: dict[str, list[int]] = {}
    for row, words in rows.items():
        for word in words.split():
            if word.startswith(token):
                forms.setdefault(word[WIDTH:], []).append(row)
    plain = ",".join(map(str, forms.pop("", []))) or None
    counted = ",".join(f"{suffix}:{len(having)}" for suffix, having in forms.items())
    having = ",".join(str(row) for each in forms.values() for row in each)
    numbers, often = posted(plain, f"{counted};{having}" if forms else None)
    return dict(zip(numbers.tolist(), often.tolist(), strict=True))


corpora = st.lists(
    st.dictionaries(st.sampled_from("abc"), st.sampled_from([0.35, 1.0, 2.0, 3.5, 7.0]), max_size=3), max_size=30
)


@given(corpus=corpora, limit=st.integers(1, 12), allowed=st.lists(st.booleans(), min_size=30, max_size=30))
def test_the_best_are_never_missed(corpus: list[dict[str, float]], limit: int, allowed: list[bool]) -> None:
    """What BM25 puts first is among the chosen, and besides it only what scores as the last of them does."""
    lengths = np.array([sum(text.values()) for text in corpus])
    weights = {"a": 1.0, "b": 2.0, "c": 0.3}
    postings = {term: _posting(corpus, term) for term in weights}
    mean = float(lengths.mean()) if len(corpus) else 0.0
    scores = scores_of(postings, weights, lengths, bm25=BM25(), count=len(corpus), mean=mean)
    exact = [sum(_score(corpus, n, term, weight, mean) for term, weight in weights.items()) for n in range(len(corpus))]
    assert scores.tolist() == pytest.approx(exact)
    mask = np.array(allowed[: len(corpus)], dtype=np.bool_)
    sure, maybe = best_by(scores, limit, mask)
    chosen = {*sure.tolist(), *maybe.tolist()}
    found = sorted((n for n in range(len(corpus)) if exact[n] and mask[n]), key=lambda n: -exact[n])
    worst = exact[found[:limit][-1]] if found else 0.0
    assert chosen <= set(found)
    assert {n for n in found if exact[n] > worst * (1 + 1e-6)} <= chosen
    assert len(chosen) >= min(limit, len(found))
    assert len(sure) <= limit
    assert all(exact[n] >= worst * (1 - 1e-6) for n in chosen)


@given(corpus=corpora, places=st.lists(st.integers(0, 29), unique=True))
def test_frequencies_of_some_entries(corpus: list[dict[str, float]], places: list[int]) -> None:
    """Of each of the terms, in the order asked for; zero where one does not occur."""
    chosen = [place for place in places if place < len(corpus)]
    table = frequencies_at(np.array(chosen, dtype=np.intp), [_posting(corpus, term) for term in "abc"], len(corpus))
    assert table.tolist() == [[corpus[place].get(term, 0.0) for term in "abc"] for place in chosen]


def _posting(corpus: list[dict[str, float]], term: str) -> Posting:
    having = [n for n, text in enumerate(corpus) if term in text]
    return Posting(np.array(having, dtype=np.intp), np.array([corpus[n][term] for n in having], dtype=np.float64))


def _score(corpus: list[dict[str, float]], n: int, term: str, weight: float, mean: float) -> float:
    frequency = corpus[n].get(term, 0.0)
    if not frequency:
        return 0.0
    holders = sum(term in text for text in corpus)
    rarity = np.log1p((len(corpus) - holders + 0.5) / (holders + 0.5))
    norm = 1.2 * (0.5 + 0.5 * sum(corpus[n].values()) / mean)
    return float(weight * rarity * frequency / (frequency + norm))
