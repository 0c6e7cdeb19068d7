"""The import contracts hold, and would fail."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("arc_common", "langchain_arc", "llamaindex_arc")


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the packages and their contracts."""
    folder = tmp_path_factory.mktemp("contracts")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def lint(folder):
    """Import-linter's verdict on a folder's packages."""
    code = (
        "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command; lint_imports_command()"
    )
    return subprocess.run(
        [sys.executable, "-c", code, "--no-cache"], cwd=folder, capture_output=True, text=True, check=False
    )


def test_the_contracts_hold(copy):
    """As they are."""
    verdict = lint(copy)
    assert verdict.returncode == 0, verdict.stdout


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("arc_common/messages.py", "import arc_common.engine.session"),
        ("arc_common/stores/conversations_statements.py", "import arc_common.memory.conversation"),
        ("arc_common/tokens/selection.py", "import arc_common.stores"),
        ("arc_common/engine/context_engine.py", "import langchain_core"),
        ("arc_common/prompts/context.py", "import llama_index.core"),
        ("arc_common/engine/context_engine.py", "import langchain_arc"),
        ("langchain_arc/engine.py", "import llama_index.core"),
        ("langchain_arc/engine.py", "import llamaindex_arc"),
        ("llamaindex_arc/engine.py", "import langchain_core"),
        ("arc_common/unplaced.py", "import arc_common.engine.session"),
    ],
    ids=lambda value: value,
)
def test_a_wrong_import_fails(copy, file, line):
    """A lower module that imports a higher one, a framework in the engine, a module without a place."""
    path = copy / file
    before = path.read_text("utf-8") if path.exists() else None
    path.write_text(f"{before or ''}\n{line}\n", "utf-8")
    try:
        verdict = lint(copy)
    finally:
        if before is None:
            path.unlink()
        else:
            path.write_text(before, "utf-8")
    assert verdict.returncode != 0, verdict.stdout
