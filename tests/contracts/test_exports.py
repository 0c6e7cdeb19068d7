"""The public names, and what importing them costs."""

import subprocess
import sys

import pytest

import arc_common
import langchain_arc
import llamaindex_arc

NAMES = {
    arc_common: """
        ArcError ArcSettings BudgetExceededError CalibratedTokenCounter ConfigurationError ContentPart
        ContextEngine ContextWindow Conversation ConversationPage ConversationSummary Document
        EngineClosedError Fact FactCategory HeuristicTokenCounter InvalidInputError Item LeftOut Memory
        MemoryNotFoundError MemoryStatus MemoryType Message MissingDependencyError ModelCallError NotFoundError Omission
        Origin Receipt Role ScoredDocument ScoredMemory ScoredMessage Section SectionBudget Session SessionDebug
        SessionNotFoundError StoreError StoreUnavailableError SummaryFailedError TiktokenCounter
        TokenBudget ToolCall __version__
    """,
    langchain_arc: """
        ArcChatMessageHistory ArcChatModel ArcContext ArcDocumentCompressor ArcMemoryMiddleware ArcRetriever
        ArcVectorStore LangChainChatModel LangChainEmbedder LangChainReranker LangChainRetriever fit_messages from_arc
        memory_tools open_engine to_arc with_arc_memory
    """,
    llamaindex_arc: """
        ArcChatMemoryBuffer ArcChatStore ArcConversationTransform ArcFactsBlock ArcFusionRetriever
        ArcHyDETransform ArcLLM ArcLongTermBlock ArcNodePostprocessor ArcRecallBlock ArcRetriever ArcSummaryBlock
        ArcTokenBudgetPostprocessor LlamaIndexChatModel LlamaIndexEmbedder LlamaIndexReranker
        LlamaIndexRetriever from_arc open_engine to_arc to_document to_node
    """,
}  # fmt: skip


@pytest.mark.parametrize("package", NAMES, ids=lambda package: package.__name__)
def test_the_public_names_are_these(package):
    """A name comes or goes on purpose, and the changelog says so."""
    assert package.__all__ == NAMES[package].split()


@pytest.mark.parametrize("package", [arc_common, langchain_arc, llamaindex_arc], ids=lambda package: package.__name__)
def test_every_exported_name_is_there_and_sorted(package):
    """`__all__` is the face: sorted, complete and importable."""
    names = package.__all__
    assert names == sorted(names)
    for name in names:
        assert getattr(package, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    """Also beside the one lazy name."""
    with pytest.raises(AttributeError, match="nonsense"):
        _ = arc_common.nonsense


LOADED = """
import sys, {package}
roots = {{name.partition(".")[0] for name in sys.modules}}
print(*sorted(roots & {{"langchain", "langchain_core", "langgraph", "llama_index", "langchain_arc", "llamaindex_arc"}}))
"""


@pytest.mark.parametrize(
    ("package", "allowed"),
    [
        ("arc_common", set()),
        ("langchain_arc", {"langchain_arc", "langchain_core"}),
        ("llamaindex_arc", {"llamaindex_arc", "llama_index"}),
    ],
)
def test_each_package_imports_its_own_framework_only(package, allowed):
    """The engine imports neither."""
    code = LOADED.format(package=package)
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert set(loaded) == allowed


def test_importing_the_engine_is_quick():
    """At most 0.3 s of work (0.1 is usual), the best of several; processor time, because other tests run beside it."""
    code = "import time; start = time.process_time(); import arc_common; print(time.process_time() - start)"
    times = [
        float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
        for _ in range(5)
    ]
    assert min(times) <= 0.3


def test_importing_the_engine_leaves_the_heavy_libraries_out():
    """They are imported when they are used."""
    code = "import sys, arc_common; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert not {"sqlalchemy", "alembic", "tiktoken", "numpy", "pydantic_settings", "rich"} & set(loaded)
