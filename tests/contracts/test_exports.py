"""The public names, and the cost of importing them."""

import subprocess
import sys

import pytest

import arc_common
import langchain_arc
import llamaindex_arc

NAMES = {
    arc_common: """
        ArcError ArcSettings ArchiveError Branch BranchNotFoundError BudgetExceededError CalibratedTokenCounter
        Candidate CandidateNotFoundError CandidatePage CandidateStatus Compaction ConfigurationError ContentPart
        ContextEngine ContextWindow Conversation ConversationDeletedError ConversationPage ConversationStatus
        ConversationSummary Document EngineClosedError Fact FactCategory Health HeuristicTokenCounter
        IngestionPolicy InvalidInputError Item LeftOut Memory MemoryConflictError MemoryNotFoundError
        MemoryStatus MemoryType Message MissingDependencyError ModelCallError NotFoundError Omission Origin
        Receipt ReviewConflictError Role ScoredDocument ScoredMemory ScoredMessage Section SectionBudget
        SentRequest SerialChatModel Session SessionDebug SessionNotFoundError StoreError StoreUnavailableError
        SummaryFailedError TiktokenCounter TokenBudget ToolCall __version__ with_receipt
    """,
    langchain_arc: """
        ArcChatMessageHistory ArcChatModel ArcContext ArcDocumentCompressor ArcIngestionHandler
        ArcIngestionMiddleware ArcMemoryMiddleware ArcRetriever ArcStore ArcVectorStore LangChainChatModel
        LangChainEmbedder LangChainReranker LangChainRetriever adelete_thread delete_thread document_from_arc
        document_to_arc fit_messages from_arc memory_tools open_engine to_arc with_arc_memory
    """,
    llamaindex_arc: """
        ArcChatMemoryBuffer ArcChatStore ArcConversationTransform ArcFactsBlock ArcFusionRetriever
        ArcHyDETransform ArcIngestionEventHandler ArcLLM ArcLongTermBlock ArcMemory ArcNodePostprocessor
        ArcRecallBlock ArcRetriever ArcSummaryBlock ArcTokenBudgetPostprocessor LlamaIndexChatModel
        LlamaIndexEmbedder LlamaIndexReranker LlamaIndexRetriever from_arc node_from_arc node_to_arc
        open_engine to_arc with_overflow_recovery
    """,
}  # fmt: skip


@pytest.mark.parametrize("package", NAMES, ids=lambda package: package.__name__)
def test_the_public_names_are_these(package):
    assert package.__all__ == NAMES[package].split()


@pytest.mark.parametrize("package", [arc_common, langchain_arc, llamaindex_arc], ids=lambda package: package.__name__)
def test_every_exported_name_is_there_and_sorted(package):
    names = package.__all__
    assert names == sorted(names)
    for name in names:
        assert getattr(package, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        _ = arc_common.nonsense


AT_START = ("__main__", "_distutils_hack", "_virtualenv", "sitecustomize")
"""Modules that an environment may load before any program."""


def loaded_by(package):
    code = f"import sys, {package}; print(*sys.modules)"
    command = [sys.executable, "-W", "ignore", "-c", code]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


@pytest.mark.parametrize(
    ("package", "allowed"),
    [("langchain_arc", {"langchain_core"}), ("llamaindex_arc", {"llama_index"})],
)
def test_each_adapter_imports_its_own_framework_and_neither_settings_nor_stores(package, allowed):
    loaded = loaded_by(package)
    roots = {name.partition(".")[0] for name in loaded}
    others = {"langchain", "langchain_core", "langgraph", "llama_index", "langchain_arc", "llamaindex_arc"}
    assert roots & others == {package, *allowed}
    assert not roots & {"alembic", "pydantic_settings"}
    assert "arc_common.engine.session" in loaded
    assert not loaded & {"arc_common.settings", "arc_common.stores.conversations"}


def test_importing_the_engine_loads_two_small_libraries():
    """SQLAlchemy, pydantic, numpy and others are imported on first use."""
    roots = {name.partition(".")[0] for name in loaded_by("arc_common")} - sys.stdlib_module_names
    assert {name for name in roots if "cython" not in name} <= {"arc_common", "cachetools", "rapidfuzz", *AT_START}
