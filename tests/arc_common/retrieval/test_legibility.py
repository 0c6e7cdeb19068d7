"""How well an embedder reads what is stored: seen by the words that a text shares with its nearest ones."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arc_common.documents import Document
from arc_common.indexing import EntryKind, IndexEntry, Scope
from arc_common.retrieval import HybridIndex, InMemoryIndexStore
from arc_common.retrieval.legibility import KnownLegibility, legibility

SCOPE = Scope("caller")


class Reading:
    """How often each word occurs: what shares words is near."""

    name = "reading"

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        rows = np.zeros((len(texts), 1_024))
        for row, text in zip(rows, texts, strict=True):
            np.add.at(row, [crc32(word.encode()) % 1_024 for word in text.split()], 1)
        return [list(row) for row in rows.tolist()]


class Guessing:
    """A vector for each text that has nothing to do with those of others."""

    name = "guessing"

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [np.random.default_rng(list(text.encode())).standard_normal(1_024).tolist() for text in texts]


WORDS = sorted({"".join(random.Random(n).choices("bdfgklmnprt", k=5)) for n in range(300)})


def texts(count: int, *, words: int = 24) -> list[str]:
    """Of as many different words, most of which a few other texts have."""
    chance = random.Random(count)
    return [" ".join(chance.sample(WORDS, words)) for _ in range(count)]


def entries(given_texts: Sequence[str], *, reads: bool) -> list[IndexEntry]:
    """The texts as they would be stored."""
    vectors = (Reading() if reads else Guessing()).embed(given_texts)
    return [
        IndexEntry(f"{n:03}", text, dict.fromkeys(text.split(), 1.0), vector=np.array(vector), embedder="e")
        for n, (text, vector) in enumerate(zip(given_texts, vectors, strict=True))
    ]


def test_who_reads_puts_texts_that_share_words_nearest() -> None:
    """And counts twice; who can't read puts any nearest, and counts next to nothing."""
    assert legibility(entries(texts(100), reads=True)) == 2
    assert 0 < legibility(entries(texts(100), reads=False)) < 0.3


def test_what_nobody_else_finds_comes_last_but_it_comes() -> None:
    """However little cosines count, they count."""
    assert min(legibility(entries(texts(n, words=60), reads=False)) for n in range(40, 60)) == pytest.approx(0.01)
    index = HybridIndex(InMemoryIndexStore(), scope=SCOPE, embedder=Guessing())
    index.add([Document(text, f"{n:03}") for n, text in enumerate(texts(90))])
    lexical = index.search(WORDS[0], top_k=90, mode="lexical")
    found = index.search(WORDS[0], top_k=90)
    assert 0 < len(lexical) < len(found) == 90
    assert {one.document.id for one in found[: len(lexical)]} == {one.document.id for one in lexical}


def test_few_texts_and_few_words_in_common_tell_nothing() -> None:
    """Nor do texts that have no vector."""
    guessed = entries(texts(100), reads=False)
    assert legibility(guessed[:31]) == 1
    assert legibility([]) == 1
    assert legibility([*guessed[:31], *(replace(one, vector=None, embedder=None) for one in guessed[31:])]) == 1
    titles = [f"name{n} title{n}" for n in range(100)]
    assert legibility(entries(titles, reads=False)) == 1


def test_copies_prove_nothing() -> None:
    """Any embedder puts a text next to itself, and a chunk next to one that it overlaps."""
    once = texts(60)
    overlapping = [part for text in once for part in (text[:80], text[40:])]
    for twice in (once + once, overlapping):
        assert legibility(entries(twice, reads=False)) < 0.5


@settings(max_examples=20)
@given(reads=st.booleans(), words=st.integers(1, 12), chance=st.randoms(use_true_random=False))
def test_the_order_does_not_matter(chance: random.Random, words: int, *, reads: bool) -> None:
    """Whatever the texts, it is above 0 and at most 2."""
    given_entries = entries(texts(40, words=words), reads=reads)
    found = legibility(given_entries)
    chance.shuffle(given_entries)
    assert legibility(given_entries) == found
    assert 0 < found <= 2


@pytest.fixture
def known() -> Callable[..., float]:
    """Asks one `KnownLegibility` about the documents of a store."""
    asked = KnownLegibility()

    def weight(store: InMemoryIndexStore, *, count: int, embedder: str = "e") -> float:
        return asked.of(store, SCOPE, "document", embedder=embedder, count=count)

    return weight


def test_it_is_looked_up_again_when_much_has_changed(known: Callable[..., float]) -> None:
    """With twice or half as many texts, and another embedder."""
    store = InMemoryIndexStore()
    store.put(SCOPE, "document", entries(texts(100), reads=False))
    guessed = known(store, count=100)
    assert guessed < 0.3
    store.put(SCOPE, "document", entries(texts(100), reads=True))
    assert known(store, count=199) == known(store, count=51) == guessed
    assert known(store, count=100, embedder="other") == 2
    store.put(SCOPE, "document", entries(texts(100), reads=False))
    assert known(store, count=100, embedder="other") == 2
    assert known(store, count=200, embedder="other") == guessed
    store.put(SCOPE, "document", entries(texts(100), reads=True))
    assert known(store, count=100, embedder="other") == 2


def test_what_is_not_embedded_yet_is_looked_at_again(known: Callable[..., float]) -> None:
    """As long as most of it is not."""
    store = InMemoryIndexStore()
    later = entries(texts(100), reads=True)
    store.put(SCOPE, "document", [replace(one, vector=None, embedder=None) for one in later])
    store.attach(SCOPE, "document", later[:31])
    assert known(store, count=100) == 1
    store.attach(SCOPE, "document", later)
    assert known(store, count=100) == 2


@pytest.mark.parametrize(("kind", "most"), [("document", 2 / 3), ("artifact", 1 / 2)])
def test_cosines_with_documents_that_are_read_count_twice(kind: EntryKind, most: float) -> None:
    """Of what has nothing but a cosine of 1: two thirds of the score, else a half."""
    index = HybridIndex(InMemoryIndexStore(), scope=SCOPE, kind=kind, embedder=Reading())
    asked, *others = texts(100)
    index.add([Document(text, f"{n:03}") for n, text in enumerate(others)])
    (vector,) = Reading().embed([asked])
    index.add([IndexEntry("meant", "meant", vector=np.array(vector), embedder="reading")])
    found = {one.document.id: one for one in index.search(asked)}["meant"]
    assert found.score_parts == {"vector": pytest.approx(1)}
    assert most - 0.05 < (found.score or 0) <= most
