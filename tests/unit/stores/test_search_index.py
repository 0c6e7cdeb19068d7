"""Labels, words and copies in the SQL search index."""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from time import sleep
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from arc_common.filters import parse_filter
from arc_common.protocols.search_index import IndexEntry, IndexQuery, Scope
from arc_common.retrieval.bm25 import BM25, inverse_document_frequencies
from arc_common.stores import SqlIndexStore
from arc_common.stores.search_index.filters import Tokens, canonical_number, new_salt, number_of
from arc_common.stores.search_index.sqlite_reader import (
    Copies,
    Posting,
    ScopeCopy,
    best_by,
    posted,
    words_of,
)

TOKENS = Tokens(b"salt")

terms = st.text(st.characters())


@example("\ud800", "\ud801", b"salt", b"salt")
@given(terms, terms, st.binary(min_size=1, max_size=64), st.binary(min_size=1, max_size=64))
def test_a_token_tells_its_term_and_its_scope(one: str, other: str, salt: bytes, another: bytes) -> None:
    """Tokens are equal only for equal terms and salts, and have 8 bytes for any term, even with half a character."""
    tokens = Tokens(salt)
    assert (tokens.of(one) == tokens.of(other)) == (one == other)
    assert (tokens.of(one) == Tokens(another).of(one)) == (salt.ljust(64, b"\0") == another.ljust(64, b"\0"))
    assert len(tokens.of(one)) == 8
    assert -(2**63) <= number_of(tokens.of(one)) < 2**63


def test_a_term_is_no_label() -> None:
    assert not {TOKENS.of(term) for term in ("k", "kv", "ksv", "k v", "sv")} & set(TOKENS.labels({"k": "v"}))


def test_equal_numbers_are_written_alike() -> None:
    assert canonical_number(1.0) == canonical_number(1) == "1"
    assert canonical_number(-0.0) == "0"
    assert canonical_number(1e22) == "1" + "0" * 22
    assert canonical_number(2**53 + 1) != canonical_number(float(2**53))
    assert canonical_number(0.1) != canonical_number(0.1 + 2**-55)


def test_salts_differ() -> None:
    assert len({new_salt() for _ in range(100)}) == 100


WIDTH = len(TOKENS.of("any term").hex())

frequencies = st.one_of(
    st.sampled_from([1.0, 2.0, 0.35]), st.integers(1, 10**18).map(float), st.floats(min_value=5e-324, max_value=1e300)
)


@given(st.lists(st.dictionaries(st.sampled_from(["a", "b", "\U0001f600"]), frequencies), max_size=8))
def test_frequencies_come_back(texts: list[dict[str, float]]) -> None:
    """They are exact for any term, with the row that has it; only letters and digits are stored."""
    rows = {n: words_of(IndexEntry("a", "", terms, {"key": ["value", 1]}), TOKENS) for n, terms in enumerate(texts, 1)}
    for term in ("a", "b", "\U0001f600"):
        expected = {n: terms[term] for n, terms in enumerate(texts, 1) if term in terms}
        assert _read(rows, TOKENS.of(term).hex()) == expected
    assert all(words.replace(" ", "").isalnum() for words in rows.values())


def _read(rows: dict[int, str], token: str) -> dict[int, float]:
    """Return a token's rows as the table would store them, parsed back."""
    forms: dict[str, list[int]] = {}
    for row, words in rows.items():
        for word in words.split():
            if word.startswith(token):
                forms.setdefault(word[WIDTH:], []).append(row)
    counts = ",".join(str(len(having)) for having in forms.values())
    having = ",".join(str(row) for each in forms.values() for row in each)
    numbers, often = posted(f"{','.join(forms)};{counts};{having}" if forms else "")
    return dict(zip(numbers.tolist(), often.tolist(), strict=True))


corpora = st.lists(
    st.dictionaries(st.sampled_from("abc"), st.sampled_from([0.35, 1.0, 2.0, 3.5, 7.0]), max_size=3), max_size=30
)


@given(corpus=corpora, limit=st.integers(1, 12), allowed=st.lists(st.booleans(), min_size=30, max_size=30))
def test_the_best_are_never_missed(corpus: list[dict[str, float]], limit: int, allowed: list[bool]) -> None:
    """The candidates contain the best by BM25, and beyond them only entries that tie with the last."""
    lengths = np.array([sum(text.values()) for text in corpus])
    weights = {"a": 1.0, "b": 2.0, "c": 0.3}
    postings = {term: _posting(corpus, term) for term in weights}
    mean = float(lengths.mean()) if len(corpus) else 0.0
    exact = [sum(_score(corpus, n, term, weight, mean) for term, weight in weights.items()) for n in range(len(corpus))]
    mask = np.array(allowed[: len(corpus)], dtype=np.bool_)
    norms = partial(BM25().norms, mean=mean)
    sure, maybe = best_by(postings, weights, lengths, limit, norms=norms, count=len(corpus), allowed=mask)
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
    chosen = [place for place in places if place < len(corpus)]
    for term in "abc":
        found = _posting(corpus, term).at(np.array(chosen, dtype=np.intp))
        assert found.tolist() == [corpus[place].get(term, 0.0) for place in chosen]


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


def rows(*numbers: int) -> NDArray[np.int64]:
    return np.array(numbers, dtype=np.int64)


changes = st.lists(st.tuples(st.sets(st.integers(1, 12)), st.integers(0, 4)), max_size=8)


@given(changes)
def test_it_holds_what_is_there(steps: list[tuple[set[int], int]]) -> None:
    """Places, lengths and masks follow as rows are added, changed and removed."""
    copy, lengths, last = ScopeCopy(), {}, 0
    for n, (touched, new) in enumerate(steps):
        going = {row for row in touched if row in lengths and row % 2}
        changing = [row for row in touched if row in lengths and row not in going]
        added = [*changing, *range(last + 1, last + 1 + new)]
        last += new
        lengths = {row: length for row, length in lengths.items() if row not in going}
        lengths |= dict.fromkeys(added, float(n))
        names = [f"row {row}" for row in reversed(added)]
        copy.take(rows(*reversed(added)), np.full(len(added), float(n)), names, [None] * len(added))
        copy.keep_only(rows(*lengths))
        assert copy.count == len(lengths)
        places = copy.places(rows(*lengths))
        assert copy.lengths[places].tolist() == list(lengths.values())
        assert [copy.names[place] for place in places.tolist()] == [f"row {row}" for row in lengths]
        asked = rows(0, 1, 2, 5, 99)
        assert set(copy.rows[copy.mask(asked)].tolist()) == set(lengths) & set(asked.tolist())


def test_the_longest_unused_are_forgotten() -> None:
    copies = Copies(3 * 2**20)

    def mark(held: dict[tuple[str, ...], ScopeCopy]) -> None:
        for copy in held.values():
            copy.version = 1

    def fill(held: dict[tuple[str, ...], ScopeCopy]) -> None:
        held["a",].rows = np.arange(10**6)

    def version(name: str) -> int:
        return copies.use([(name,)], lambda held: held[name,].version)

    for name in "abcd":
        copies.use([(name,)], mark)
    assert version("b") == 1
    assert version("a") == 0
    copies.use([("a",)], mark)
    copies.use([("a",)], fill)
    assert version("b") == 0
    assert version("a") == 0


def test_a_forked_child_begins_with_none() -> None:
    copies = Copies(2**30)

    def fork(held: dict[tuple[str, ...], ScopeCopy]) -> int:
        held["a",].version = 1
        child = os.fork()
        if not child:
            os._exit(copies.use([("a",)], lambda fresh: fresh["a",].version))
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert copies.use([("a",)], fork) == 0


def test_two_searches_of_the_same_scopes_in_other_orders_both_end() -> None:
    copies, both = Copies(2**30), [("a",), ("b",)]
    with ThreadPoolExecutor(2) as threads:
        asked = [
            threads.submit(copies.use, keys, lambda _: sleep(0.001)) for _ in range(50) for keys in (both, both[::-1])
        ]
        for one in asked:
            one.result(timeout=10)


SIZE = 20_000
LIMIT = 100


def a_posting(random: np.random.Generator, share: float) -> Posting:
    places = np.flatnonzero(random.random(SIZE) < share)
    return Posting(places, random.choice([0.5, 1.0, 1.5, 3.0], len(places)))


def exhaustive(
    postings: dict[str, Posting], weights: dict[str, float], norms: NDArray[np.float64], allowed: NDArray[np.bool_]
) -> list[int]:
    """Return the best places by scoring all entries."""
    scores = np.zeros(SIZE)
    for term, one in postings.items():
        rarity = inverse_document_frequencies(np.array([len(one.places)]), SIZE)[0]
        scores[one.places] += weights[term] * rarity * one.frequencies / (one.frequencies + norms[one.places])
    return sorted(np.argsort(-(scores * allowed), kind="stable")[:LIMIT].tolist())


@pytest.mark.parametrize("rare", [(0.001, 0.003), (0.01, 0.02), (), (0.002,)])
@pytest.mark.parametrize("only", [1.0, 0.05])
def test_the_best_are_those_of_scoring_everything(rare: tuple[float, ...], only: float) -> None:
    """This holds with rare terms, without them, and for filtered entries."""
    random = np.random.default_rng(7)
    shares = (*rare, 0.12, 0.3, 0.55, 0.9)
    postings = {f"t{share}": a_posting(random, share) for share in shares}
    weights = {term: float(random.choice([0.3, 1.0])) for term in postings}
    lengths = random.integers(20, 90, SIZE) + random.random(SIZE)
    norms = partial(BM25().norms, mean=55.0)
    allowed = random.random(SIZE) < only
    sure, maybe = best_by(postings, weights, lengths, LIMIT, norms=norms, count=SIZE, allowed=allowed)
    assert len(sure) <= LIMIT <= len(sure) + len(maybe)
    best = set(exhaustive(postings, weights, norms(lengths), allowed))
    assert set(sure.tolist()) <= best <= {*sure.tolist(), *maybe.tolist()}


@pytest.mark.parametrize("filters", [None, {"colour": "red"}], ids=["all", "some"])
@pytest.mark.parametrize("holders", [1_900, 2_100])
def test_alternatives_are_left_out_where_many_entries_have_the_words(
    holders: int, filters: dict[str, Any] | None
) -> None:
    """A filter may let none of these entries through."""
    scope = Scope("caller", session_id="s")
    entries = [IndexEntry(f"{place:04}", "", {"job" if place < holders else "nurse": 1.0}) for place in range(2_200)]
    entries[-1] = replace(entries[-1], metadata={"colour": "red"})
    with closing(SqlIndexStore.open()) as index:
        for start in range(0, len(entries), 500):
            index.put(scope, "message", entries[start : start + 500])
        query = IndexQuery(scope, "message", {"job": 1.0, "nurse": 0.3}, filters=parse_filter(filters), limit=2_200)
        (found,) = index.candidates(query)
    if filters:
        assert found.ids == ("2199",)
    else:
        assert len(found.ids) == (2_200 if holders == 1_900 else 2_100)
