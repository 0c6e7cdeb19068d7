"""The adapters' arguments are checked at once, by InvalidInputError that names the argument."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.documents import Document as LangChainDocument
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from llama_index.core import MockEmbedding
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode

import langchain_arc as langchain
import llamaindex_arc as llamaindex
from arc_common import ContextEngine, Document, InvalidInputError, Message
from arc_common.rerankers import BM25Reranker
from arc_common.retrieval import HybridIndex
from arc_common.stores import SqlIndexStore
from tests.behaviour.engine.test_wrong_values import WRONG
from tests.support.llamaindex_helpers import NO_SUMMARIES
from tests.support.llamaindex_retrieval import Fixed

ENGINE: Any = object()
"""A placeholder for the engine."""
CHAT, LLM, INDEX = FakeListChatModel(responses=["Hello."]), MockLLM(), HybridIndex(SqlIndexStore.open())
COMPRESSOR, POSTPROCESSOR = langchain.ArcDocumentCompressor(BM25Reranker()), llamaindex.ArcTokenBudgetPostprocessor(9)
WITH_AN_ENGINE: list[Callable[..., Any]] = [
    langchain.ArcChatMessageHistory.factory, langchain.ArcIngestionHandler, langchain.ArcIngestionMiddleware,
    langchain.ArcMemoryMiddleware, langchain.ArcStore, langchain.ArcVectorStore, langchain.memory_tools,
    llamaindex.ArcChatStore, llamaindex.ArcFactsBlock, llamaindex.ArcIngestionEventHandler,
    llamaindex.ArcLongTermBlock, llamaindex.ArcRecallBlock, llamaindex.ArcSummaryBlock,
]  # fmt: skip
CALLS: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    *((call, {"engine": ENGINE}) for call in WITH_AN_ENGINE),
    (langchain.ArcChatMessageHistory, {"session_id": "s", "engine": ENGINE}),
    (langchain.ArcContext, {"engine": ENGINE, "session_id": "s"}),
    (langchain.ArcDocumentCompressor, {"reranker": BM25Reranker()}),
    (langchain.ArcRetriever, {"source": INDEX}),
    (langchain.LangChainChatModel, {"llm": CHAT}),
    (langchain.LangChainEmbedder, {"embeddings": DeterministicFakeEmbedding(size=2)}),
    (langchain.LangChainReranker, {"model": COMPRESSOR}),
    (langchain.LangChainRetriever, {"source": langchain.ArcRetriever(INDEX)}),
    (langchain.delete_thread, {"engine": ENGINE, "checkpointer": InMemorySaver(), "thread_id": "t"}),
    (langchain.document_from_arc, {"document": Document("a")}),
    (langchain.document_to_arc, {"document": LangChainDocument("a")}),
    (langchain.fit_messages, {"messages": [HumanMessage("hi")], "max_tokens": 99, "token_counter": len}),
    (langchain.from_arc, {"message": Message("user", "hi")}),
    (langchain.open_engine, {}),
    (langchain.to_arc, {"message": HumanMessage("hi")}),
    (langchain.with_arc_memory, {"runnable": CHAT, "engine": ENGINE, "session_id": "s"}),
    (llamaindex.ArcChatMemoryBuffer.from_defaults, {"engine": ENGINE, "session_id": "s"}),
    (llamaindex.ArcConversationTransform, {"llm": LLM}),
    (llamaindex.ArcFusionRetriever, {"retrievers": [Fixed([])], "llm": LLM, "num_queries": 2}),
    (llamaindex.ArcHyDETransform, {"llm": LLM}),
    (llamaindex.ArcLLM, {"chat_model": llamaindex.LlamaIndexChatModel(LLM)}),
    (llamaindex.ArcMemory.from_defaults, {"engine": ENGINE, "session_id": "s"}),
    (llamaindex.ArcNodePostprocessor, {"reranker": BM25Reranker()}),
    (llamaindex.ArcRetriever, {"index": INDEX}),
    (llamaindex.ArcTokenBudgetPostprocessor, {"max_tokens": 9}),
    (llamaindex.LlamaIndexChatModel, {"llm": LLM}),
    (llamaindex.LlamaIndexEmbedder, {"embed_model": MockEmbedding(embed_dim=2)}),
    (llamaindex.LlamaIndexReranker, {"postprocessor": POSTPROCESSOR}),
    (llamaindex.LlamaIndexRetriever, {"source": Fixed([])}),
    (llamaindex.from_arc, {"message": Message("user", "hi")}),
    (llamaindex.open_engine, {}),
    (llamaindex.to_arc, {"message": ChatMessage("hi")}),
    (llamaindex.node_to_arc, {"node": TextNode(text="a")}),
    (llamaindex.node_from_arc, {"document": Document("a")}),
    (llamaindex.with_overflow_recovery, {"llm": LLM, "memory": llamaindex.ArcMemory.from_defaults(session_id="s")}),
]
IDS = "session_id user_id caller_id account_id thread_id channel name model_name"
COUNTS = ("context_window", "k", "num_output", "num_queries", "similarity_top_k", "token_limit", "top_k", "top_n")
LIMITS = "max_history_turns max_messages max_tokens max_turns"
FLAGS = "accept_short_term_memory compact_tool include_summary prune_state remember"
OTHERS = (
    "budget chat_model chat_store checkpointer document embed_model embedding embeddings engine facts_role "
    "filter_style get_session index llm memory memory_tags message mode model node on_error on_store_error output "
    "postprocessor reranker retrievers settings source summary_llm token_counter tokenizer_fn transformer"
)
LISTS = "chat_history history_factory_config messages"
RIGHT: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(IDS.split(), ("x",)),
    **dict.fromkeys(COUNTS, ("5", "huge")),
    **dict.fromkeys(LIMITS.split(), ("5", "huge")),
    **dict.fromkeys(FLAGS.split(), ("True",)),
    **dict.fromkeys(OTHERS.split(), ()),
    **dict.fromkeys(LISTS.split(), ("[]",)),
    "branch": ("5", "x"),
    "min_score": ("5", "-1", "1.5", "huge"),
    "priority": ("5", "-1", "True", "huge"),
    "runnable": ("{}",),
    "ttl": ("{}", "deep mapping"),
}
"""What is right among the wrong values for an argument of that name, beside None."""
OWN = {(langchain.ArcStore, "index"): ("{}", "deep mapping")}
"""What is right for one call, in place of `RIGHT`."""
LATER = {
    (langchain.ArcRetriever, "caller_id"),
    (langchain.ArcRetriever, "user_id"),
    (langchain.ArcRetriever, "engine"),
    (langchain.ArcRetriever, "name"),
    (langchain.ArcMemoryMiddleware, "user_id"),
    (llamaindex.ArcRetriever, "engine"),
}
"""Arguments that another one makes meaningless, or that are checked later or by another name."""


@pytest.fixture(scope="module")
def engine() -> Iterator[ContextEngine]:
    with ContextEngine.open("sqlite://", settings=NO_SUMMARIES) as opened:
        yield opened


@pytest.mark.parametrize(("call", "given"), CALLS, ids=[f"{it.__module__}.{it.__qualname__}" for it, _ in CALLS])
def test_a_wrong_argument_is_named(engine: ContextEngine, call: Callable[..., Any], given: dict[str, Any]) -> None:
    usual = {name: engine if value is ENGINE else value for name, value in given.items()}
    found = []
    for name, parameter in inspect.signature(call).parameters.items():
        if name not in RIGHT or (call, name) in LATER:
            continue
        right = OWN.get((call, name), RIGHT[name])
        needed = parameter.default is parameter.empty and "None" not in str(parameter.annotation) and not right
        for label, value in {**WRONG, "blank": " ", **({"0": 0} if name in COUNTS else {})}.items():
            if label == "None" and not needed:
                continue
            try:
                made = call(**{**usual, name: value})
                said = "taken"
                if isinstance(made, ContextEngine):
                    made.close()
            except InvalidInputError as error:
                said = "refused" if name in error.field else f"refused as {error.field}"
            except Exception as error:  # noqa: BLE001 - the test looks for foreign errors
                said = f"{type(error).__name__}: {str(error)[:60]}"
            if said != ("taken" if label in right else "refused"):
                found.append(f"{name}={label}: {said}")
    assert "\n".join(found) == ""
