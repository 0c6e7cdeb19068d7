"""DiversityReranker."""

import numpy as np
import pytest

from arc_common.exceptions import InvalidInputError
from arc_common.rerankers import DiversityReranker
from tests.support.scored_documents import ids, scored

DOCUMENTS = scored(
    ("harbour lantern quartz", 1.0), ("harbour lantern quartz too", 0.9), ("apples and pears", 0.6), ("nothing", 0.0)
)


def test_what_says_the_same_gives_way():
    """The near copy of the best comes after what is new; what is irrelevant stays last."""
    assert ids(DiversityReranker().rerank("q", DOCUMENTS)) == ["d0", "d2", "d1", "d3"]
    assert ids(DiversityReranker(trade_off=1).rerank("q", DOCUMENTS)) == ["d0", "d1", "d2", "d3"]


def test_vectors_may_be_given():
    """By id; what has none is similar to none."""
    near = {"d0": [1.0, 0.0], "d2": np.array([1.0, 0.1]), "d3": [0.0, 1.0]}
    assert ids(DiversityReranker(vectors=near).rerank("q", DOCUMENTS)) == ["d0", "d1", "d3", "d2"]
    assert ids(DiversityReranker(vectors={}).rerank("q", DOCUMENTS)) == ["d0", "d1", "d2", "d3"]


class Embedder:
    """Knows two directions: fruit, and everything else."""

    name = "fruit"

    def __init__(self):
        self.asked = []

    def embed(self, texts):
        self.asked.append(list(texts))
        return [[1.0, 0.2] if "apple" in text else [0.2, 1.0] for text in texts]


def test_without_scores_the_query_is_embedded():
    """And relevance is the cosine to it."""
    embedder = Embedder()
    unscored = scored(*((found.document.text, None) for found in DOCUMENTS))
    assert ids(DiversityReranker(embedder=embedder, top_k=1).rerank("apples?", unscored)) == ["d2"]
    assert embedder.asked[0] == ["apples?"]
    embedder.asked.clear()
    DiversityReranker(embedder=embedder).rerank("apples?", DOCUMENTS)
    assert embedder.asked == [[found.document.text for found in DOCUMENTS]]


def test_without_scores_and_embedder_the_terms_decide():
    """Relevance is Jaccard's similarity to the query."""
    unscored = scored(*((found.document.text, None) for found in DOCUMENTS))
    assert ids(DiversityReranker(top_k=1).rerank("which pears are there?", unscored)) == ["d2"]


def test_the_threshold_is_for_the_score_before():
    """Diversity is no reason to show what is irrelevant."""
    assert ids(DiversityReranker(min_score=0.6).rerank("q", DOCUMENTS)) == ["d0", "d2", "d1"]


def test_the_score_never_rises():
    """Opposite vectors gain by their difference; the order still is the order of the scores."""
    opposite = {"d0": [1.0, 0.0], "d1": [-1.0, 0.0], "d2": [0.0, 1.0], "d3": [0.0, -1.0]}
    ranked = DiversityReranker(vectors=opposite).rerank("q", DOCUMENTS)
    scores = [found.score for found in ranked]
    assert scores == sorted(scores, reverse=True)
    assert ranked[1].score_parts["mmr"] > ranked[0].score_parts["mmr"]


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(None, id="None"),
        pytest.param([], id="none"),
        pytest.param([[1.0, 0.0]] * 3, id="too few"),
        pytest.param([[1.0, 0.0]] * 5, id="too many"),
        pytest.param([[float("nan"), 0.0]] * 4, id="NaN"),
        pytest.param(["a vector"] * 4, id="text"),
        pytest.param([[[1.0]]] * 4, id="too deep"),
    ],
)
def test_an_embedder_that_gives_something_else_is_an_error(made):
    """Vectors of other documents would be compared, or none."""

    class Odd:
        name = "odd"

        def embed(self, texts):
            return made

    for documents in (DOCUMENTS, scored(*((found.document.text, None) for found in DOCUMENTS))):
        with pytest.raises(InvalidInputError, match="vector"):
            DiversityReranker(embedder=Odd()).rerank("q", documents)


def test_what_is_no_vector_is_refused():
    """When documents are ranked by it."""
    for made in [3, "a vector", [float("nan"), 0.0], [[1.0, 0.0]]]:
        with pytest.raises(InvalidInputError, match="vectors"):
            DiversityReranker(vectors={"d0": made}).rerank("q", DOCUMENTS)


@pytest.mark.parametrize(("field", "value"), [("embedder", len), ("vectors", [[1.0, 0.0]])])
def test_where_vectors_come_from_is_checked(field, value):
    """When it is made."""
    with pytest.raises(InvalidInputError, match=field):
        DiversityReranker(**{field: value})
