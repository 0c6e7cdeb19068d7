"""What a reranker remembers of the texts that it has analysed."""

import copy
import pickle

import pytest

from arc_common.rerankers.base import Analyses, query_terms
from arc_common.text import analyze


def test_terms_are_the_analyzers():
    """Of short texts and long ones, remembered or not."""
    analyses = Analyses()
    for text in ("The harbours' lanterns", "사과는 빨갛다", "", "harbours " * 1_000):
        assert list(analyses.terms(text)) == list(analyses.terms(text)) == list(analyze(text))
    assert query_terms("where is the harbour, the harbour lantern?") == list(analyze("harbour lantern"))


def test_the_last_texts_are_remembered_and_no_more():
    """1,024 of them: what is remembered is given as the same object, what was forgotten is made anew."""
    analyses = Analyses()
    first = analyses.terms("harbour 0")
    for number in range(1, 1_024):
        analyses.terms(f"harbour {number}")
    assert analyses.terms("harbour 0") is first
    for number in range(1_024, 2_048):
        analyses.terms(f"harbour {number}")
    assert analyses.terms("harbour 0") is not first


def test_long_texts_are_not_remembered():
    """Those up to 4,000 characters are; together, that bounds what is held."""
    analyses = Analyses()
    longest, longer = "harbour " * 500, "harbour " * 500 + "s"
    assert len(longest) == 4_000
    assert analyses.terms(longest) is analyses.terms(longest)
    assert analyses.terms(longer) is not analyses.terms(longer)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])  # noqa: S301 - our own
def test_each_remembers_its_own(again):
    """Nothing is shared with another reranker or a copy: what was erased stays behind nowhere."""
    analyses = Analyses()
    first = analyses.terms("harbour")
    assert analyses.terms("harbour") is first
    assert Analyses().terms("harbour") is not first
    assert again(analyses).terms("harbour") is not first
