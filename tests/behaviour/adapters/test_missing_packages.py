"""If an optional package is missing or too old, the error says what to install."""

import os
import re
import sys
from pathlib import Path

import pytest

from tests.support.forks import Fork

WITHOUT_LANGCHAIN_CORE = """
import sys
sys.modules["langchain_core"] = None
for module in ("langchain_arc", "langchain_arc.memory", "langchain_arc.models"):
    try:
        __import__(module)
    except ImportError as error:
        print(error)
"""
WITHOUT_LLAMA_INDEX = """
import sys
sys.modules["llama_index"] = None
for module in ("llamaindex_arc", "llamaindex_arc.memory", "llamaindex_arc.placement"):
    try:
        __import__(module)
    except ImportError as error:
        print(error)
"""
WITHOUT_LANGCHAIN = """
import sys
sys.modules["langchain"] = None
import langchain_arc
from arc_common import ArcSettings, MissingDependencyError
langchain_arc.with_arc_memory
try:
    langchain_arc.ArcMemoryMiddleware
except ImportError as error:
    print(error)
try:
    langchain_arc.open_engine(settings=ArcSettings(summary={"llm_model": "gpt-cheap"}))
except MissingDependencyError as error:
    print(error)
"""
WITH_ANOTHER_LLAMA_INDEX = """
import llama_index.core.base.llms.types as types
del types.BaseContentBlock
try:
    import llamaindex_arc
except ImportError as error:
    print(error)
"""
WITHOUT_MCP = """
import sys
sys.modules["mcp"] = sys.modules["mcp_types"] = None
import arc_common.server
try:
    import arc_common.server.mcp
except ImportError as error:
    print(error)
"""
WITHOUT_JINJA = """
import sys
sys.modules["jinja2"] = None
try:
    import arc_common.server
except ImportError as error:
    print(error)
"""


def run(program: str) -> None:
    """Run a program that imports arc, and the packages that it hides, anew."""
    roots = {"arc_common", "langchain_arc", "llamaindex_arc", *re.findall(r'sys\.modules\["(\w+)"\]', program)}
    for name in [name for name in sys.modules if name.partition(".")[0] in roots]:
        del sys.modules[name]
    exec(program, {"__name__": "__main__"})  # noqa: S102 - a program above


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (WITHOUT_LANGCHAIN_CORE, {"pip install -U 'arc-context-engine[langchain]'": 3}),
        (WITHOUT_LLAMA_INDEX, {"pip install -U 'arc-context-engine[llamaindex]'": 3}),
        (
            WITHOUT_LANGCHAIN,
            {
                "ArcMemoryMiddleware needs the package 'langchain'": 1,
                "pip install -U 'arc-context-engine[agents]'": 2,
                "summary.llm_model": 1,
            },
        ),
        (
            WITH_ANOTHER_LLAMA_INDEX,
            {
                "cannot import name 'BaseContentBlock'": 1,
                "not installed": 0,
                "pip install -U 'arc-context-engine[llamaindex]'": 1,
            },
        ),
        (
            WITHOUT_MCP,
            {"arc_common.server.mcp needs the package 'mcp'": 1, "pip install -U 'arc-context-engine[mcp]'": 1},
        ),
        (
            WITHOUT_JINJA,
            {"inspector needs the package 'jinja2'": 1, "pip install -U 'arc-context-engine[server]'": 1},
        ),
    ],
    ids=[
        "no langchain-core",
        "no llama-index-core",
        "no langchain",
        "another release of LlamaIndex",
        "no mcp",
        "no jinja2",
    ],
)
def test_the_error_names_what_to_install(tmp_path: Path, program: str, said: dict[str, int]) -> None:
    """Everything else works; a release without a required name is not called "not installed"."""
    with Fork(tmp_path, [], os.environ, run=lambda: run(program)) as process:
        printed, errors = process.stdout.read(), process.stderr.read()
        assert process.wait() == 0, errors
    assert {text: printed.count(text) for text in said} == said
