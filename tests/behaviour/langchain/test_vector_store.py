"""ArcVectorStore: LangChain's standard suite, and cases beyond it."""

import copy
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.vectorstores.utils import maximal_marginal_relevance
from langchain_tests.integration_tests import VectorStoreIntegrationTests

from arc_common import ContextEngine
from arc_common.exceptions import InvalidInputError
from langchain_arc import ArcVectorStore, LangChainEmbedder, open_engine
from langchain_arc.retrieval.documents import document_from_arc
from tests.support.langchain_retrieval import DOCUMENTS, an_index

EMBEDDING = DeterministicFakeEmbedding(size=16)


@pytest.fixture
def engine(database: str) -> Iterator[ContextEngine]:
    with open_engine(database, embeddings=VectorStoreIntegrationTests.get_embeddings()) as opened:
        yield opened


class TestStandards(VectorStoreIntegrationTests):
    """LangChain's unmodified suite over an engine's store."""

    @pytest.fixture
    def vectorstore(self) -> Iterator[ArcVectorStore]:
        with open_engine(embeddings=self.get_embeddings()) as engine:
            yield ArcVectorStore(engine=engine)


def test_what_it_stores_is_the_engines(engine: ContextEngine) -> None:
    """Only the caller and user that it was stored for see it."""
    asked = "What do solar panels cost?"

    assert not engine.documents_of("shop", user_id="ann").search(asked)
    store = ArcVectorStore(engine=engine, caller_id="shop", user_id="ann")
    store.add_texts(["Solar panels cost 90 euros."], ids=["price"])
    assert ids(store.similarity_search(asked)) == ["price"]
    assert [found.document.id for found in engine.documents_of("shop", user_id="ann").search(asked)] == ["price"]
    assert not ArcVectorStore(engine=engine, caller_id="shop", user_id="bob").similarity_search(asked)
    assert not ArcVectorStore(engine=engine, caller_id="shop").get_by_ids(["price"])


def test_filters_and_mmr_hold_in_every_store(engine: ContextEngine) -> None:
    """An engine's store finds the same as one in memory."""
    store = ArcVectorStore(engine=engine, caller_id="shop")
    store.add_documents([document_from_arc(document) for document in DOCUMENTS])
    in_memory = ArcVectorStore(VectorStoreIntegrationTests.get_embeddings())
    in_memory.add_documents([document_from_arc(document) for document in DOCUMENTS])
    for options in ({}, {"filter": {"year": {"$gte": 2022}}}, {"filter": {"lang": "en"}, "mode": "dense"}):
        for search in ("similarity_search", "max_marginal_relevance_search"):
            found = getattr(store, search)("wind current", k=3, **options)
            assert found == getattr(in_memory, search)("wind current", k=3, **options)
            assert found


def filled(**given: Any) -> ArcVectorStore:
    """Return a store with the tests' documents."""
    return ArcVectorStore(index=an_index(), **given)


def ids(documents: list[Document]) -> list[str | None]:
    return [document.id for document in documents]


# --- ids ------------------------------------------------------------------------------------------------------------


def test_ids_are_kept_made_and_replaced() -> None:
    """A given id is kept; a generated one depends on text and metadata only."""
    store = ArcVectorStore(EMBEDDING)
    pages = [Document("Header", metadata={"page": 1}), Document("Header", metadata={"page": 2})]
    first = store.add_documents([*pages, Document("x", id="x")])
    assert len(set(first)) == 3
    assert first[2] == "x"
    assert store.add_documents(pages) == first[:2]
    assert store.index.count() == 3
    store.add_texts(["y"], [{"new": True}], ids=["x"])
    assert store.get_by_ids(["x"]) == [Document("y", id="x", metadata={"new": True})]


def test_texts_and_metadata_may_be_any_kind_of_several() -> None:
    """Iterators, tuples and non-dict mappings are accepted."""
    store = ArcVectorStore(EMBEDDING)
    assert store.add_texts(iter("ab"), [MappingProxyType({"page": 1}), None], ids=("a", "b")) == ["a", "b"]  # type: ignore[arg-type, list-item]
    assert store.add_documents(iter([Document("c", id="c")])) == ["c"]  # type: ignore[arg-type]
    assert [document.metadata for document in store.get_by_ids(["a", "b", "c"])] == [{"page": 1}, {}, {}]


storable = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=9)
metadatas = st.dictionaries(storable, st.integers(-9, 9) | st.lists(storable, max_size=2), max_size=3)


@given(st.lists(st.tuples(storable, metadatas, st.booleans()), max_size=5))
def test_documents_handed_in_stay_as_they_are(told: list[tuple[str, dict[str, Any], bool]]) -> None:
    """They are not modified and come back equal."""
    documents = [
        Document(text, metadata=metadata, id=f"d{place}" if has_id else None)
        for place, (text, metadata, has_id) in enumerate(told)
    ]
    before = copy.deepcopy(documents)
    store = ArcVectorStore()
    made = store.add_documents(documents)
    assert documents == before
    for document, made_id in zip(documents, made, strict=True):
        assert store.get_by_ids([made_id]) == [document.model_copy(update={"id": made_id})]


def test_what_cant_be_written_is_refused() -> None:
    """The error names the argument, and nothing is written or removed."""
    cases = [
        (lambda store: store.add_texts(None), "texts"),
        (lambda store: store.add_texts(["a", 7]), "texts"),
        (lambda store: store.add_texts(["a", None]), "texts"),
        (lambda store: store.add_texts(["a"], 7), "metadatas"),
        (lambda store: store.add_texts(["a"], ["b"]), "metadatas"),
        (lambda store: store.add_texts(["a"], ids=7), "ids"),
        (lambda store: store.add_texts(["a"], ids=[7]), "ids"),
        (lambda store: store.add_documents(None), "documents"),
        (lambda store: store.add_documents([Document("a"), None]), "documents"),
        (lambda store: store.add_documents(["a"]), "documents"),
        (lambda store: store.add_documents(Document("a")), "documents"),
        (lambda store: store.add_texts(["a", "b"], ids=["one"]), "ids"),
        (lambda store: store.add_texts(["a"], [{}, {}]), "metadatas"),
        (lambda store: store.add_texts("abc"), "texts"),
        (lambda store: store.add_texts(["a", "b"], [{}, {"when": object()}]), r"metadata\['when'\]"),
        (lambda store: store.add_texts(["a"], namespace="x"), "namespace"),
        (lambda store: store.delete(), "ids"),
        (lambda store: store.delete("abc"), "ids"),
    ]
    for write, field in cases:
        store = filled()
        with pytest.raises(InvalidInputError, match=field):
            write(store)
        assert store.index.count() == 4


def test_langchains_indexing_works() -> None:
    """It skips existing documents and removes missing ones."""
    store = ArcVectorStore(EMBEDDING)
    records = InMemoryRecordManager("test")
    records.create_schema()
    first = [Document("a", metadata={"source": "1"}), Document("b", metadata={"source": "1"})]
    made = index(first, records, store, cleanup="full", key_encoder="sha256")
    assert made["num_added"] == 2
    made = index(first[:1], records, store, cleanup="full", key_encoder="sha256")
    assert (made["num_skipped"], made["num_deleted"]) == (1, 1)
    assert store.index.count() == 1


# --- searching ------------------------------------------------------------------------------------------------------


def test_without_an_embedding_words_are_enough() -> None:
    """Every search type works."""
    store = ArcVectorStore.from_documents([Document("alpha beta"), Document("gamma")], None)
    for options in (
        {"search_type": "similarity"},
        {"search_type": "mmr"},
        {"search_type": "similarity_score_threshold", "search_kwargs": {"score_threshold": 0.5}},
    ):
        found = store.as_retriever(**options).invoke("gamma")
        assert [document.page_content for document in found] == ["gamma"]


async def test_filters_hold_in_every_search_type() -> None:
    """They work in the retriever's arguments and in the call's."""
    for way in ["sync", "async"]:
        for search_type in ["similarity", "similarity_score_threshold", "mmr"]:
            options: dict[str, Any] = {"filter": {"lang": "ko"}}
            if search_type == "similarity_score_threshold":
                options["score_threshold"] = 0.0
            retriever = filled().as_retriever(search_type=search_type, search_kwargs=options)
            found = retriever.invoke("current") if way == "sync" else await retriever.ainvoke("current")
            assert ids(found) == ["solar-ko"]
            assert ids(retriever.invoke("current", filter={"year": {"$lt": 2020}})) == ["bread"]


async def test_async_forms_find_the_same() -> None:
    """This covers every search and every write."""
    store = filled()
    vector = [float(value) for value in store.index.vectors(["wind"])["wind"]]
    query = "wind into current"
    assert await store.asimilarity_search(query, k=2) == store.similarity_search(query, k=2)
    assert await store.asimilarity_search_with_score(query, k=2) == store.similarity_search_with_score(query, k=2)
    assert await store.asimilarity_search_by_vector(vector, k=2) == store.similarity_search_by_vector(vector, k=2)
    assert await store.amax_marginal_relevance_search(query, k=2) == store.max_marginal_relevance_search(query, k=2)
    assert await store.amax_marginal_relevance_search_by_vector(
        vector, k=2
    ) == store.max_marginal_relevance_search_by_vector(vector, k=2)
    assert await store.asimilarity_search_with_relevance_scores(
        query, k=2
    ) == store.similarity_search_with_relevance_scores(query, k=2)
    assert await store.aadd_texts(["t"], [{"a": 1}], ids=["t"]) == ["t"]
    assert await store.aadd_documents([Document("u", id="u")]) == ["u"]
    assert ids(await store.aget_by_ids(["u", "t"])) == ["u", "t"]
    assert await store.adelete(["u"])
    made = await ArcVectorStore.afrom_texts(["t"], EMBEDDING, [{"a": 1}], ids=["t"])
    assert made.get_by_ids(["t"]) == store.get_by_ids(["t"])
    assert made.embeddings is EMBEDDING


def test_relevance_is_between_0_and_1() -> None:
    """A threshold omits lower scores; BM25 sums have no such scale."""
    store = filled()
    scored = store.similarity_search_with_relevance_scores("wind turbines", k=4, mode="dense")
    assert all(0 <= score <= 1 for _, score in scored)
    least = scored[1][1]
    assert (
        store.similarity_search_with_relevance_scores("wind turbines", k=4, mode="dense", score_threshold=least)
        == scored[:2]
    )
    with pytest.raises(InvalidInputError, match="lexical"):
        store.similarity_search_with_relevance_scores("wind", mode="lexical")


@pytest.mark.parametrize("trade_off", [0.1, 0.5, 0.9])
def test_mmr_picks_are_langchains(trade_off: float) -> None:
    """For vectors alone, the picks equal LangChain's, with its parameter names."""
    places = {"near": [1.0, 0.1], "nearly the same": [1.0, 0.12], "aside": [0.7, -0.7], "away": [0.0, 1.0]}

    class Placed(DeterministicFakeEmbedding):
        size: int = 2

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [places[text] for text in texts]

    store = ArcVectorStore.from_texts(list(places), Placed(), ids=list(places))
    found = store.max_marginal_relevance_search_by_vector([1.0, 0.0], k=2, fetch_k=4, lambda_mult=trade_off)
    expected = maximal_marginal_relevance(np.array([1.0, 0.0]), list(places.values()), lambda_mult=trade_off, k=2)
    assert ids(found) == [list(places)[place] for place in expected]


def test_fetch_k_smaller_than_k_is_no_limit() -> None:
    """The requested number is returned."""
    assert len(filled().max_marginal_relevance_search("current", k=4, fetch_k=1)) == 4


def test_fetch_k_is_a_number_of_documents() -> None:
    """It is validated like k."""
    for wrong in [None, "3", 0, True, 2.5]:
        store = filled()
        with pytest.raises(InvalidInputError, match="fetch_k: got"):
            store.max_marginal_relevance_search("current", fetch_k=wrong)
        with pytest.raises(InvalidInputError, match="fetch_k: got"):
            store.max_marginal_relevance_search_by_vector(EMBEDDING.embed_query("current"), fetch_k=wrong)


def test_what_is_no_vector_is_refused() -> None:
    """The alternative would be an empty result."""
    all_ways = [
        "similarity_search_by_vector",
        "similarity_search_with_score_by_vector",
        "max_marginal_relevance_search_by_vector",
    ]
    for wrong in [None, [], "text", [None], ["1"], [0.0, 0.0], [float("nan")]]:
        for way in all_ways:
            with pytest.raises(InvalidInputError, match="embedding: got"):
                getattr(filled(), way)(wrong)


def test_an_unknown_option_is_refused() -> None:
    """A misspelt filter must not match everything."""
    store = filled()
    for search in (store.similarity_search, store.max_marginal_relevance_search):
        with pytest.raises(InvalidInputError, match="fliter"):
            search("wind", fliter={"lang": "ko"})
    with pytest.raises(InvalidInputError, match="filters"):
        store.similarity_search("wind", filter={"lang": {"$regex": "k"}})
    with pytest.raises(InvalidInputError, match="k: got 0"):
        store.similarity_search("wind", k=0)


def test_an_index_has_its_own_embedder() -> None:
    """Another one is rejected; an embedder of arc's kind is accepted when an index is created."""
    with pytest.raises(InvalidInputError, match="embedding"):
        ArcVectorStore(EMBEDDING, index=an_index())
    store = ArcVectorStore(LangChainEmbedder(EMBEDDING))
    store.add_texts(["a"])
    assert store.embeddings is None
    assert len(store.similarity_search("b", mode="dense")) == 1


def test_wrong_constructor_arguments_are_refused() -> None:
    """The constructor rejects it by name."""
    for field in ["embedding", "engine", "index"]:
        for wrong in [5, 0, "x"]:
            with pytest.raises(InvalidInputError, match=f"{field}: got"):
                ArcVectorStore(**{field: wrong})
