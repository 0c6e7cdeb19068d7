"""LangChain's stores and retrievers as arc's sources, with filters in their own syntax."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from arc_common.exceptions import InvalidInputError
from arc_common.filters import AllOf, AnyOf, Condition, Exists, Filter, Not, OneOf, matches
from arc_common.protocols import Retriever
from langchain_arc import ArcRetriever, ArcVectorStore, LangChainRetriever
from langchain_arc.retrieval.documents import document_from_arc
from langchain_arc.retrieval.filters import translator_of
from tests.support.langchain_retrieval import DOCUMENTS, WordEmbedder, an_index

QUESTION = "What turns light into current?"


class Words(Embeddings):
    """The tests' embedder as LangChain embeddings."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return WordEmbedder().embed(texts)

    def embed_query(self, text: str) -> list[float]:
        return WordEmbedder().embed([text])[0]


def ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Compare texts with texts and numbers with numbers."""
    return lambda own, value: own is not None and isinstance(own, str) is isinstance(value, str) and compare(own, value)


MEANINGS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": ordered(operator.gt),
    "$gte": ordered(operator.ge),
    "$lt": ordered(operator.lt),
    "$lte": ordered(operator.le),
    "$in": lambda own, value: own in value,
    "$nin": lambda own, value: own not in value,
    "$exists": lambda own, value: (own is not None) is value,
}


def holds(asked: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    """Evaluate `$`-operators as services do; a missing key is unequal to everything."""
    ((key, told),) = asked.items()
    if key in {"$and", "$or"}:
        assert len(told) > 1  # some services refuse one
        return (all if key == "$and" else any)(holds(part, metadata) for part in told)
    ((name, value),) = told.items()
    return MEANINGS[name](metadata.get(key), value)


class Chroma(VectorStore):
    """A store with a known name and its operators; its scores are distances."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    @classmethod
    def from_texts(cls, *args: Any, **kwargs: Any) -> "Chroma":
        raise NotImplementedError

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:
        told = kwargs.get("filter")
        self.asked.append(told)
        best = in_memory().similarity_search(query, 100)
        matching = [document for document in best if told is None or self.lets_through(told, document)]
        return [(document, 0.25 * place) for place, document in enumerate(matching[:k])]

    def lets_through(self, told: Any, document: Document) -> bool:
        return holds(told, document.metadata)

    def _select_relevance_score_fn(self) -> Any:
        return self._cosine_relevance_score_fn


class Careless(Chroma):
    """A store that accepts any filter and ignores it."""

    def lets_through(self, told: Any, document: Document) -> bool:
        return True


class Fixed(BaseRetriever):
    """A retriever that accepts only a question."""

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return [document_from_arc(document) for document in DOCUMENTS]


def in_memory() -> InMemoryVectorStore:
    store = InMemoryVectorStore(Words())
    store.add_documents([document_from_arc(document) for document in DOCUMENTS])
    return store


SOURCES: dict[str, Any] = {
    "in memory": in_memory,
    "operators": Chroma,
    "arc's": lambda: ArcVectorStore(index=an_index()),
    "arc's retriever": lambda: ArcRetriever(an_index()),
    "a store's retriever": lambda: in_memory().as_retriever(search_kwargs={"k": 1}),
    "an arc store's retriever": lambda: ArcVectorStore(index=an_index()).as_retriever(search_type="mmr"),
}


def test_a_source_finds_what_filters_let_through() -> None:
    """It returns the requested number, whatever its own default."""
    for make in SOURCES.values():
        source = LangChainRetriever(make())
        assert isinstance(source, Retriever)
        found = source.retrieve(QUESTION, top_k=3)
        assert len(found) == 3
        assert found[0].document.id == "solar"
        assert found[0].document.source == "energy.md"
        filtered = source.retrieve(QUESTION, top_k=4, filters={"lang": "en", "year": {"$gt": 2019, "$lte": 2023}})
        assert sorted(str(one.document.id) for one in filtered) == ["solar", "wind"]
        several = source.retrieve(
            QUESTION, top_k=4, filters={"$or": [{"lang": "ko"}, {"year": {"$nin": [2021, 2023]}}]}
        )
        assert sorted(str(one.document.id) for one in several) == ["bread", "solar-ko"]


def test_scores_are_likenesses_or_none() -> None:
    """Cosines and relevance scores are used; distances, of which the smallest is best, are not."""
    cosines = LangChainRetriever(in_memory()).retrieve(QUESTION, top_k=2)
    assert cosines[0].score > cosines[1].score  # type: ignore[operator]
    relevant = LangChainRetriever(Chroma()).retrieve(QUESTION, top_k=2)
    assert [one.score for one in relevant] == [1, 0.75]
    assert [one.score for one in LangChainRetriever(Fixed()).retrieve(QUESTION, top_k=2)] == [None, None]
    told = LangChainRetriever(ArcRetriever(an_index())).retrieve(QUESTION, top_k=2)
    assert [one.score for one in told] == [one.score for one in an_index().search(QUESTION, top_k=2)]


class Odd(BaseRetriever):
    """A retriever with the given result."""

    found: Any

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> Any:
        return self.found


@pytest.mark.parametrize("found", [None, "text", [None], ["text"], {}], ids=repr)
def test_a_source_that_finds_something_else_is_an_error(found: Any) -> None:
    """This covers arc's retriever over an arc source, too."""
    with pytest.raises(InvalidInputError, match="retrieved"):
        LangChainRetriever(Odd(found=found)).retrieve("q", top_k=1)

    class Source:
        def retrieve(self, query: str, *, top_k: int, filters: Any = None) -> Any:
            return found

    with pytest.raises(InvalidInputError, match="retrieved"):
        ArcRetriever(Source()).invoke("q")


def test_a_score_that_is_none_is_no_score() -> None:
    """A NaN from one vector affects neither its document nor the others."""

    class Scoring(InMemoryVectorStore):
        def similarity_search_with_score(self, query: str, k: int = 4, **_: Any) -> Any:
            return [(Document("a"), float("nan")), (Document("b"), "high"), (Document("c"), 0.5)]

    found = LangChainRetriever(Scoring(Words())).retrieve("q", top_k=3)
    assert [(one.document.text, one.score) for one in found] == [("a", None), ("b", None), ("c", 0.5)]


@pytest.mark.parametrize(("query", "top_k", "field"), [(None, 1, "query"), ("q", 0, "top_k"), ("q", True, "top_k")])
def test_what_is_asked_is_checked(query: Any, top_k: Any, field: str) -> None:
    """The error names the argument."""
    with pytest.raises(InvalidInputError, match=field):
        LangChainRetriever(ArcRetriever(an_index())).retrieve(query, top_k=top_k)


def test_what_a_source_passes_over_is_caught() -> None:
    """Documents that the filter excludes are dropped even if the store ignores it."""
    source = LangChainRetriever(Careless(), filter_style="equality")
    assert [one.document.id for one in source.retrieve(QUESTION, top_k=4, filters={"lang": "ko"})] == ["solar-ko"]


def test_a_filter_that_cant_be_said_is_an_error() -> None:
    """A filter is never dropped; a pipeline finds nothing in the source and reports it."""
    cases = [
        (Fixed, {}, {"lang": "ko"}),
        (Fixed, {"filter_style": "equality"}, {"lang": "ko"}),
        (lambda: in_memory().as_retriever(search_kwargs={"filter": len}), {}, {"lang": "ko"}),
        (Chroma, {}, {"lang": {"$exists": True}}),
        (Chroma, {}, {"lang": None}),
        (Chroma, {}, {"$not": {"year": {"$gt": 2020}}}),
        (Chroma, {"filter_style": "equality"}, {"year": {"$gt": 2020}}),
        (Chroma, {"filter_style": "equality"}, {"$and": [{"lang": "ko"}, {"lang": "en"}]}),
        (Chroma, {}, {"year": {"$regex": "2.*"}}),
    ]
    for source, options, filters in cases:
        retriever = LangChainRetriever(source(), **options)
        with pytest.raises(InvalidInputError, match="filter"):
            retriever.retrieve(QUESTION, top_k=3, filters=filters)


def test_a_store_that_is_not_known_is_told_how() -> None:
    """It takes a style, or a function that translates filters."""

    class Milvus(VectorStore):
        asked: str = ""

        @classmethod
        def from_texts(cls, *args: Any, **kwargs: Any) -> "Milvus":
            raise NotImplementedError

        def similarity_search(self, query: str, k: int = 4, expr: str = "", **kwargs: Any) -> list[Document]:
            self.asked = expr
            return [document_from_arc(DOCUMENTS[3])]

        def similarity_search_with_score(self, *args: Any, **kwargs: Any) -> list[tuple[Document, float]]:
            raise NotImplementedError

    with pytest.raises(InvalidInputError, match="filter_style tells it"):
        LangChainRetriever(Milvus()).retrieve("q", top_k=1, filters={"lang": "ko"})
    store = Milvus()
    source = LangChainRetriever(
        store, filter_style=lambda told: f'{told.key} == "{told.value}"', filter_argument="expr"
    )
    assert len(source.retrieve("q", top_k=1, filters={"lang": "ko"})) == 1
    assert store.asked == 'lang == "ko"'


def test_an_impossible_filter_does_not_call_the_source() -> None:
    """The source is not called; an empty filter is no filter."""
    store = Chroma()
    source = LangChainRetriever(store)
    assert source.retrieve(QUESTION, top_k=1, filters=AnyOf(())) == []
    assert source.retrieve("  ", top_k=1) == []
    assert store.asked == []
    assert len(source.retrieve(QUESTION, top_k=1, filters={})) == 1
    assert store.asked == [None]


# --- what filters mean ----------------------------------------------------------------------------------------------

keys = st.sampled_from(["a", "b"])
values = st.sampled_from(["x", "y", 1, 2, 3])
leaves = (
    st.builds(Condition, keys, st.sampled_from(["eq", "gt", "gte", "lt", "lte"]), values)
    | st.builds(Not, st.builds(Condition, keys, st.just("eq"), values))
    | st.builds(OneOf, keys, st.lists(values, min_size=1, max_size=3).map(tuple))
    | st.builds(Not, st.builds(OneOf, keys, st.lists(values, min_size=1, max_size=3).map(tuple)))
    | st.builds(Exists, keys)
)


def joined(inner: Any) -> Any:
    several = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return st.builds(AllOf, several) | st.builds(AnyOf, several)


sayable = st.recursive(leaves, joined, max_leaves=6)
anything = st.recursive(leaves, lambda inner: joined(inner) | st.builds(Not, inner), max_leaves=6)
metadatas = st.dictionaries(keys, values, max_size=2)


@given(sayable.map(lambda it: (it, True)) | anything.map(lambda it: (it, False)), metadatas)
def test_operators_mean_what_the_filter_means(case: tuple[Filter, bool], metadata: dict[str, Any]) -> None:
    """Every translation has the same meaning, and every filter without a negated order has one."""
    filters, is_sayable = case
    try:
        told = translator_of("operators with $exists")(filters)
    except InvalidInputError:
        assert not is_sayable
    else:
        assert holds(told, metadata) is matches(filters, metadata)


@given(anything, metadatas)
def test_a_function_takes_every_filter(filters: Filter, metadata: dict[str, Any]) -> None:
    """It gets LangChain's documents."""
    assert translator_of("function")(filters)(Document("", metadata=metadata)) is matches(filters, metadata)


def test_negations_are_moved_inwards() -> None:
    """A negated AND is an OR of negations, and the reverse; a document passes if it passes the filter."""
    one, other = Condition("a", "eq", "x"), Exists("b")
    for filters in (
        Not(AllOf((one, other))),
        Not(AnyOf((one, other))),
        Not(Not(AllOf((one, other)))),
        Not(other),
        Not(OneOf("a", ("x", "y"))),
        AllOf((Not(one), other)),
    ):
        told = translator_of("operators with $exists")(filters)
        for metadata in ({}, {"a": "x"}, {"b": 1}, {"a": "x", "b": 1}, {"a": "z"}):
            assert holds(told, metadata) is matches(filters, metadata), filters
