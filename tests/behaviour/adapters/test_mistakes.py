"""Newcomers' mistakes raise an error that says what to do, or just work."""

from collections.abc import Callable
from typing import Any, get_args, get_type_hints

import pytest
from langchain_core.documents import Document as LangChainDocument
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import ChatMessage, MockLLM
from llama_index.core.schema import NodeWithScore, TextNode

import langchain_arc
import llamaindex_arc
from arc_common import ContextEngine, InvalidInputError
from langchain_arc import with_arc_memory
from llamaindex_arc import ArcNodePostprocessor

CHAIN_MODEL = FakeListChatModel(responses=["Hello."])


@pytest.mark.parametrize(
    ("open_engine", "word"), [(langchain_arc.open_engine, "embeddings"), (llamaindex_arc.open_engine, "embed_model")]
)
def test_arcs_word_for_a_model_is_answered_with_the_frameworks(open_engine: Any, word: str) -> None:
    """`ContextEngine.open` and the adapters call models by different names."""
    for given, called in {"embedder": word, "chat_model": "llm", "summary_model": "summary_llm"}.items():
        with pytest.raises(InvalidInputError, match=rf"{given}.*open_engine calls it {called}"):
            open_engine(**{given: object()})


@pytest.mark.parametrize(
    ("call", "field", "converter"),
    [
        (lambda: langchain_arc.open_engine(llm=MockLLM()), "llm", "llamaindex_arc.LlamaIndexChatModel"),
        (lambda: llamaindex_arc.open_engine(llm=CHAIN_MODEL), "llm", "langchain_arc.LangChainChatModel"),
        (lambda: ContextEngine.open(chat_model=MockLLM()), "chat_model", "llamaindex_arc.LlamaIndexChatModel"),
        (lambda: ContextEngine.open(chat_model=CHAIN_MODEL), "chat_model", "langchain_arc.LangChainChatModel"),
        (lambda: ContextEngine.open(summary_model=MockLLM()), "summary_model", "llamaindex_arc.LlamaIndexChatModel"),
        (
            lambda: langchain_arc.open_engine(embeddings=MockEmbedding(embed_dim=2)),
            "embeddings",
            "llamaindex_arc.LlamaIndexEmbedder",
        ),
        (
            lambda: llamaindex_arc.open_engine(embed_model=DeterministicFakeEmbedding(size=2)),
            "embed_model",
            "langchain_arc.LangChainEmbedder",
        ),
    ],
    ids=["langchain", "llamaindex", "engine-llama", "engine-lang", "summaries", "embeddings", "embed_model"],
)
def test_another_framework_s_model_is_refused_by_name(call: Callable[[], object], field: str, converter: str) -> None:
    """LlamaIndex's models have a `complete` of their own, which would fail in each call."""
    with pytest.raises(InvalidInputError) as caught:
        call()
    assert caught.value.field == field
    assert str(caught.value).endswith(f": convert it with {converter}")


def test_a_refused_model_shows_no_key() -> None:
    class Keyed(MockLLM):
        api_key: str = "sk-secret"

    with pytest.raises(InvalidInputError) as caught:
        langchain_arc.open_engine(llm=Keyed())  # type: ignore[arg-type]
    assert "Keyed" in str(caught.value)
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "converter"),
    [
        (lambda engine: engine.documents.add(LangChainDocument("x")), "langchain_arc.document_to_arc"),
        (lambda engine: engine.documents.add([LangChainDocument("x")]), "langchain_arc.document_to_arc"),
        (lambda engine: engine.documents.add(TextNode(text="x")), "llamaindex_arc.node_to_arc"),
        (lambda engine: engine.documents.add(["y", TextNode(text="x")]), "llamaindex_arc.node_to_arc"),
        (lambda engine: engine.session("s").append(HumanMessage("x")), "langchain_arc.to_arc"),
        (lambda engine: engine.session("s").append([HumanMessage("x")]), "langchain_arc.to_arc"),
        (lambda engine: engine.session("s").append(ChatMessage("x")), "llamaindex_arc.to_arc"),
        (lambda engine: engine.session("s").append([ChatMessage("x")]), "llamaindex_arc.to_arc"),
        (lambda engine: engine.session("s").context(HumanMessage("x")), "langchain_arc.to_arc"),
        (
            lambda engine: engine.session("s").context("x", documents=[LangChainDocument("x")]),
            "langchain_arc.document_to_arc",
        ),
        (lambda engine: engine.memories().extract(ChatMessage("x")), "llamaindex_arc.to_arc"),
    ],
)
def test_frameworks_objects_are_refused_with_their_converter(
    call: Callable[[ContextEngine], object], converter: str
) -> None:
    with ContextEngine.open("sqlite://") as engine:
        with pytest.raises(InvalidInputError, match=f"convert it with {converter}$"):
            call(engine)
        assert not engine.documents.count()
        assert not engine.session("s").exists()


@pytest.mark.parametrize("wrong", ["Hello.", {"role": "user", "content": "Hello."}, ("user", "Hello."), None], ids=str)
def test_what_other_libraries_take_for_a_message_is_named_whole(wrong: Any) -> None:
    """The error shows the whole value and the form of a message."""
    with ContextEngine.open("sqlite://") as engine:
        for given in (wrong, [wrong]):
            with pytest.raises(InvalidInputError, match=r'expected a Message\("user", "…"\) or an iterable') as caught:
                engine.session("s").append(given)
            assert repr(wrong)[:7] in str(caught.value) or isinstance(wrong, tuple)
        assert not engine.session("s").exists()


def test_the_converters_that_errors_name_convert() -> None:
    """Each is exported under the name in the error."""
    with ContextEngine.open("sqlite://", chat_model=langchain_arc.LangChainChatModel(CHAIN_MODEL)) as engine:
        engine.documents.add(langchain_arc.document_to_arc(LangChainDocument("Returns are free.")))
        engine.documents.add(llamaindex_arc.node_to_arc(TextNode(text="Shipping is free.")))
        assert engine.documents.count() == 2
        engine.session("s").append([langchain_arc.to_arc(HumanMessage("Hi."))])
        engine.session("s").append(llamaindex_arc.to_arc(ChatMessage("Hello.")))
        assert [message.text for message in engine.session("s").messages()] == ["Hi.", "Hello."]


def test_a_postprocessor_without_a_reranker_keeps_the_first_nodes() -> None:
    nodes = [NodeWithScore(node=TextNode(text=str(place)), score=place / 10) for place in range(8)]
    kept = ArcNodePostprocessor(top_n=5).postprocess_nodes(nodes)
    assert [(item.text, item.score) for item in kept] == [(str(place), place / 10) for place in range(5)]
    with pytest.raises(InvalidInputError, match="a reranker or top_n"):
        ArcNodePostprocessor()


@pytest.mark.parametrize("adapter", [langchain_arc, llamaindex_arc], ids=["langchain", "llamaindex"])
def test_a_retriever_of_an_engine_by_position_is_told_the_name(adapter: Any) -> None:
    with ContextEngine.open("sqlite://") as engine, pytest.raises(InvalidInputError, match=r"ArcRetriever\(engine=…\)"):
        adapter.ArcRetriever(engine)


def test_what_an_engine_gives_says_whose_it_is() -> None:
    """The repr is readable in a notebook or a debugger, hides passwords, and reads nothing."""
    with ContextEngine.open("postgresql://arc:SECRET@127.0.0.1:1/db") as engine:
        assert "127.0.0.1:1/db" in repr(engine)
        assert "SECRET" not in repr(engine)
        assert "session_id='s'" in repr(engine.session("s", user_id="ann"))
        assert "user_id='ann'" in repr(engine.session("s", user_id="ann"))
        assert repr(engine.session(None)) == "<Session without an id>"
        assert "user_id='ann'" in repr(engine.memories(user_id="ann"))
        assert "caller_id='shop'" in repr(engine.documents_of("shop"))


def test_a_chain_with_memory_has_the_output_type_of_the_chain() -> None:
    hints = get_type_hints(with_arc_memory)
    (output,) = [kind for kind in get_args(hints["return"]) if kind is not Any]
    assert output in get_args(get_args(hints["runnable"])[0])
