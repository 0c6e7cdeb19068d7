"""What cosines count by how far an embedder reads the texts themselves."""

import random
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from arc_common.retrieval.legibility import legibility

Terms = dict[str, Mapping[str, float]]
Vectors = dict[str, NDArray[np.float32]]

some_terms = st.dictionaries(st.sampled_from(["ab", "cd", "ef", "gh", "i"]), st.floats(0.1, 9), max_size=4)
some_vectors = st.none() | st.tuples(*[st.floats(-1, 1)] * 3)
some_texts = st.dictionaries(st.sampled_from("tuvwxyz"), st.tuples(some_terms, some_vectors))


def unit(numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    length = float(np.linalg.norm(numbers))
    return (numbers / length if length > 1e-3 else np.eye(len(numbers))[0]).astype(np.float32)


def texts_of_topics() -> Terms:
    """Thirty texts of six topics: each has two of its topic's words, and one of its own."""
    return {f"{n:02}": {f"topic{n % 6}": 1.0, f"other{n % 6}": 1.0, f"own{n}": 1.0} for n in range(30)}


def vectors_of(terms: Terms, *, reads: bool) -> Vectors:
    chance = np.random.default_rng(0)
    topics = chance.normal(size=(6, 16))
    noise = chance.normal(size=(len(terms), 16))
    return {name: unit(topics[n % 6] * reads + 0.5 * noise[n]) for n, name in enumerate(sorted(terms))}


def test_who_puts_texts_together_that_share_words_can_read_them() -> None:
    """Its cosines count more than usual; those of one that puts them anywhere less than half."""
    terms = texts_of_topics()
    assert legibility(terms, vectors_of(terms, reads=True)) > 2
    assert legibility(terms, vectors_of(terms, reads=False)) < 1 / 2
    assert legibility(terms, dict.fromkeys(terms, unit(np.ones(3)))) < 0.2


def test_what_nothing_is_known_of_counts_as_usual() -> None:
    """Few texts, texts without vectors, and texts that no words tell apart."""
    terms = texts_of_topics()
    vectors = vectors_of(terms, reads=False)
    assert legibility(terms, {}) == 1
    assert legibility(terms, dict(list(vectors.items())[:3])) == 1
    assert legibility({}, vectors) == 1
    assert legibility({name: {"same": 1.0} for name in terms}, vectors) == 1
    assert legibility({name: {name: 1.0} for name in terms}, vectors) == 1
    assert legibility({name: {} for name in terms}, vectors) == 1


def test_few_texts_prove_little() -> None:
    """Of the same kind, the fewer there are, the nearer to 1."""
    terms = texts_of_topics()
    for reads in (True, False):
        vectors = vectors_of(terms, reads=reads)
        few = {name: vectors[name] for name in sorted(terms)[:8]}
        assert abs(legibility(terms, few) - 1) < abs(legibility(terms, vectors) - 1)


def test_a_word_that_all_texts_have_tells_nothing() -> None:
    """As the words of the query, by which they were found: it is rarity that tells."""
    terms = texts_of_topics()
    asked = {name: {**held, "asked": 1.0} for name, held in terms.items()}
    vectors = vectors_of(terms, reads=True)
    assert legibility(asked, vectors) == pytest.approx(legibility(terms, vectors), abs=0.01)


def test_single_characters_tell_nothing() -> None:
    """A Chinese document is found by each of its characters, too, most of which stand in words of all kinds."""
    terms = texts_of_topics()
    vectors = vectors_of(terms, reads=True)
    chance = random.Random(0)
    characters = {
        name: {**held, **dict.fromkeys(chance.sample("一二三四五六", 3), 4.0)} for name, held in terms.items()
    }
    assert legibility(characters, vectors) == legibility(terms, vectors)
    assert legibility({name: dict.fromkeys(name, 1.0) for name in terms}, vectors) == 1


@given(some_texts, st.randoms())
def test_any_texts_in_any_order(
    texts: dict[str, tuple[dict[str, float], tuple[float, float, float] | None]], chance: random.Random
) -> None:
    """Above 0, never beyond what full agreement is worth, to the last bit the same in another order."""
    terms: Terms = {name: held for name, (held, _) in texts.items()}
    vectors = {name: unit(np.array(vector)) for name, (_, vector) in texts.items() if vector is not None}
    counts = legibility(terms, vectors)
    assert 0 < counts < 1 / 0.3
    mixed = chance.sample(sorted(texts), len(texts))
    again = {name: dict(reversed(terms[name].items())) for name in mixed}
    assert legibility(again, {name: vectors[name] for name in mixed if name in vectors}) == counts
