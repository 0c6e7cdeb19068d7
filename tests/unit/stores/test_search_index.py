"""The labels, words and copies that the SQL search index is made of."""

import os

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from arc_common.filters import Filter, matches
from arc_common.protocols.search_index import IndexEntry
from arc_common.retrieval.bm25 import BM25
from arc_common.stores.search_index.filters import (
    All,
    Either,
    HasLabel,
    Neither,
    Ordered,
    Tokens,
    Wanted,
    canonical_number,
    new_salt,
    number_of,
    wanted_for,
)
from arc_common.stores.search_index.sqlite_reader import (
    Copies,
    Posting,
    ScopeCopy,
    best_by,
    frequencies_at,
    posted,
    scores_of,
    words_of,
)
from arc_common.testing.search_index_contract import filters, metadata

TOKENS = Tokens(b"salt")

terms = st.text(st.characters())


def says(wanted: Wanted, labels: set[bytes], held: dict[str, object]) -> bool:
    """What a filter's form answers for an entry."""
    match wanted:
        case HasLabel(some):
            return bool(labels.intersection(some))
        case Ordered(condition, label):
            answer = matches(condition, held)
            assert not answer or label in labels
            return answer
        case All(parts):
            return all(says(part, labels, held) for part in parts)
        case Either(parts):
            return any(says(part, labels, held) for part in parts)
        case Neither(part):
            return not says(part, labels, held)


@given(metadata, filters)
def test_labels_answer_filters(held: dict[str, object], asked: Filter) -> None:
    assert says(wanted_for(asked, TOKENS), set(TOKENS.labels(held)), held) == matches(asked, held)


@example("\ud800", "\ud801", b"salt", b"salt")
@given(terms, terms, st.binary(min_size=1, max_size=64), st.binary(min_size=1, max_size=64))
def test_a_token_tells_its_term_and_its_scope(one: str, other: str, salt: bytes, another: bytes) -> None:
    """Equal for equal terms and salts only, and of 8 bytes whatever the term, half a character too."""
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


def rows(*numbers: int) -> NDArray[np.int64]:
    return np.array(numbers, dtype=np.int64)


changes = st.lists(st.tuples(st.sets(st.integers(1, 12)), st.integers(0, 4)), max_size=8)


@given(changes)
def test_it_holds_what_is_there(steps: list[tuple[set[int], int]]) -> None:
    """Rows come with growing numbers, change, and go: places, lengths and masks follow."""
    copy, lengths, last = ScopeCopy(), {}, 0
    for n, (touched, new) in enumerate(steps):
        going = {row for row in touched if row in lengths and row % 2}
        changing = [row for row in touched if row in lengths and row not in going]
        added = [*changing, *range(last + 1, last + 1 + new)]
        last += new
        lengths = {row: length for row, length in lengths.items() if row not in going}
        lengths |= dict.fromkeys(added, float(n))
        copy.take(rows(*reversed(added)), np.full(len(added), float(n)))
        copy.keep_only(rows(*lengths))
        assert copy.count == len(lengths)
        places = copy.places(rows(*lengths))
        assert copy.lengths[places].tolist() == list(lengths.values())
        asked = rows(0, 1, 2, 5, 99)
        assert set(copy.rows[copy.mask(asked)].tolist()) == set(lengths) & set(asked.tolist())


def test_the_longest_unused_are_forgotten() -> None:
    copies = Copies(3 * 2**20)
    for name in "abcd":
        with copies.of((name,)) as copy:
            copy.version = 1
    with copies.of(("b",)) as copy:
        assert copy.version == 1
    with copies.of(("a",)) as copy:
        assert copy.version == 0
        copy.version = 2
        copy.rows = np.arange(10**6)
    with copies.of(("b",)) as copy:
        assert copy.version == 0
    with copies.of(("a",)) as copy:
        assert copy.version == 0


def test_a_forked_child_begins_with_none() -> None:
    copies = Copies(2**30)
    with copies.of(("a",)) as copy:
        copy.version = 1
        child = os.fork()
        if not child:
            with copies.of(("a",)) as fresh:
                os._exit(fresh.version)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
