"""If an optional package is missing or too old, the error says what to install."""

import os
import re
import sys
from pathlib import Path

import pytest

from tests.support.forks import Fork


def hiding(package: str, *statements: str) -> str:
    """Return a program without a package that prints why it could not do what is asked."""
    tried = "".join(f"try:\n    {it}\nexcept ImportError as error:\n    print(error)\n" for it in statements)
    return f'import sys\nsys.modules["{package}"] = None\n{tried}'


INSTALL = "pip install -U 'arc-context-engine[{}]'"
PROGRAMS = {
    "no langchain-core": (
        hiding(
            "langchain_core",
            *("import langchain_arc", "import langchain_arc.memory", "import langchain_arc.models"),
        ),
        {INSTALL.format("langchain"): 3},
    ),
    "no llama-index-core": (
        hiding(
            "llama_index",
            *("import llamaindex_arc", "import llamaindex_arc.memory", "import llamaindex_arc.placement"),
        ),
        {INSTALL.format("llamaindex"): 3},
    ),
    "no langchain": (
        hiding(
            "langchain",
            "import langchain_arc; langchain_arc.with_arc_memory; langchain_arc.ArcMemoryMiddleware",
            "from arc_common import ArcSettings;"
            "langchain_arc.open_engine(settings=ArcSettings(summary={'llm_model': 'gpt-cheap'}))",
        ),
        {
            "ArcMemoryMiddleware needs the package 'langchain'": 1,
            INSTALL.format("agents"): 2,
            "summary.llm_model": 1,
        },
    ),
    "another release of LlamaIndex": (
        "import llama_index.core.base.llms.types as types\ndel types.BaseContentBlock\n"
        + hiding("nothing", "import llamaindex_arc"),
        {"cannot import name 'BaseContentBlock'": 1, "not installed": 0, INSTALL.format("llamaindex"): 1},
    ),
    "no mcp": (
        hiding("mcp", "import arc_common.server; sys.modules['mcp_types'] = None; import arc_common.server.mcp"),
        {"arc_common.server.mcp needs the package 'mcp'": 1, INSTALL.format("mcp"): 1},
    ),
    "no jinja2": (
        hiding("jinja2", "import arc_common.server"),
        {"inspector needs the package 'jinja2'": 1, INSTALL.format("server"): 1},
    ),
}


def run(program: str) -> None:
    """Run a program that imports arc, and the packages that it hides, anew."""
    roots = {"arc_common", "langchain_arc", "llamaindex_arc", *re.findall(r'sys\.modules\["(\w+)"\]', program)}
    for name in [name for name in sys.modules if name.partition(".")[0] in roots]:
        del sys.modules[name]
    exec(program, {"__name__": "__main__"})  # noqa: S102 - a program above


@pytest.mark.parametrize(("program", "said"), PROGRAMS.values(), ids=PROGRAMS)
def test_the_error_names_what_to_install(tmp_path: Path, program: str, said: dict[str, int]) -> None:
    """Everything else works; a release without a required name is not called "not installed"."""
    with Fork(tmp_path, [], os.environ, run=lambda: run(program)) as process:
        printed, errors = process.stdout.read(), process.stderr.read()
        assert process.wait() == 0, errors
    assert {text: printed.count(text) for text in said} == said
