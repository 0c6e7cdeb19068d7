"""Documents on the way between LangChain and arc."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document as LangChainDocument

from arc_common import Document, ScoredDocument
from arc_common.exceptions import InvalidInputError
from langchain_arc.documents import document_from_arc, document_to_arc, known_score, scored_from_arc

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)
metadatas = st.dictionaries(st.text(max_size=8) | st.just("source"), values, max_size=4)


@given(st.text(), st.none() | st.text(min_size=1), metadatas)
def test_a_document_comes_back_exactly(text: str, document_id: str | None, metadata: dict[str, Any]) -> None:
    """Text, id and metadata, whatever "source" is among them; the one given stays as it is."""
    document = LangChainDocument(text, id=document_id, metadata=metadata)
    before = copy.deepcopy(document)
    assert document_from_arc(document_to_arc(document)) == before == document


def test_the_source_is_what_the_metadata_name() -> None:
    """Text only; it stays in the metadata."""
    cases = [({"source": "guide.md"}, "guide.md"), ({"source": ""}, None), ({"source": 7}, None), ({}, None)]
    for metadata, source in cases:
        found = document_to_arc(LangChainDocument("x", metadata=metadata))
        assert found.source == source
        assert dict(found.metadata) == metadata


def test_a_source_beside_the_metadata_is_shown_in_them() -> None:
    """LangChain has no other place for it."""
    assert document_from_arc(Document("x", source="guide.md")).metadata == {"source": "guide.md"}


def test_what_comes_out_is_nobody_elses() -> None:
    """Changing it, deep down too, changes nothing of arc's."""
    document = Document("x", metadata={"tags": ["a"]})
    made = document_from_arc(document)
    made.metadata["tags"].append("b")
    assert document.metadata == {"tags": ["a"]}


def test_scores_stand_in_the_metadata() -> None:
    """As a copy; what has no score says none."""
    found = ScoredDocument(Document("x"), 0.5, {"bm25": 1.5})
    assert scored_from_arc(found).metadata == {"relevance_score": 0.5, "score_parts": {"bm25": 1.5}}
    assert scored_from_arc(ScoredDocument(Document("x"))).metadata == {}


def test_what_is_no_number_is_no_score() -> None:
    """Metadata may hold anything under that name."""
    for value in [None, True, "0.5", float("nan"), float("inf"), [1], {}]:
        assert known_score({"relevance_score": value}) is None


def test_another_kind_of_document_is_refused() -> None:
    """Arc's own, for one."""
    with pytest.raises(InvalidInputError, match="LangChain Document"):
        document_to_arc(Document("x"))  # type: ignore[arg-type]
