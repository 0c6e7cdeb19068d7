"""What `import llamaindex_arc` gives, and what it costs."""

import subprocess
import sys

import llamaindex_arc


def test_hands_on_these_names() -> None:
    """A name that comes or goes is a decision."""
    assert llamaindex_arc.__all__ == [
        "ArcChatMemoryBuffer",
        "ArcChatStore",
        "ArcConversationTransform",
        "ArcFactsBlock",
        "ArcFusionRetriever",
        "ArcHyDETransform",
        "ArcLLM",
        "ArcLongTermBlock",
        "ArcNodePostprocessor",
        "ArcRecallBlock",
        "ArcRetriever",
        "ArcSummaryBlock",
        "ArcTokenBudgetPostprocessor",
        "LlamaIndexChatModel",
        "LlamaIndexEmbedder",
        "LlamaIndexReranker",
        "LlamaIndexRetriever",
        "from_arc",
        "open_engine",
        "to_arc",
        "to_document",
        "to_node",
    ]
    assert all(hasattr(llamaindex_arc, name) for name in llamaindex_arc.__all__)


def test_imports_neither_the_other_framework_nor_what_it_may_not_need() -> None:
    """LangChain, the settings and the database layer come when they are used."""
    code = (
        "import sys, llama_index.core.memory; before = set(sys.modules); import llamaindex_arc;"
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}"
        " | {name for name in sys.modules if name.startswith('arc_common.')}))"
    )
    output = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    loaded = set(output.stdout.split())
    assert not {"langchain_core", "langchain", "langgraph", "langchain_arc", "pydantic_settings", "alembic"} & loaded
    assert not {name for name in loaded if name.startswith("arc_common.settings")}
    assert "arc_common.stores.conversations" not in loaded
    assert "arc_common.engine.session" in loaded


def test_an_import_that_fails_says_why() -> None:
    """A release that lacks a name is installed, so "not installed" would send its user the wrong way."""
    code = (
        "import llama_index.core.base.llms.types as types; del types.BaseContentBlock\n"
        "try:\n"
        "    import llamaindex_arc\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    printed = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert "cannot import name 'BaseContentBlock'" in printed.stdout
    assert "not installed" not in printed.stdout
    assert "pip install -U 'arc-context-engine[llamaindex]'" in printed.stdout
