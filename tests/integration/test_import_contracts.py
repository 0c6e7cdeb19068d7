"""The import contracts reject wrong imports; `make lint` checks the packages themselves."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("arc_common", "langchain_arc", "llamaindex_arc")


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """Copy the packages and their contracts."""
    folder = tmp_path_factory.mktemp("contracts")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def lint(folder):
    """Run import-linter on a folder's packages."""
    code = (
        "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command; lint_imports_command()"
    )
    return subprocess.run(
        [sys.executable, "-c", code, "--no-cache"], cwd=folder, capture_output=True, text=True, check=False
    )


WRONG = [
    ("arc_common/messages.py", "arc_common.engine.session"),
    ("arc_common/stores/statements/conversations.py", "arc_common.memory.conversation"),
    ("arc_common/tokens/selection.py", "arc_common.stores"),
    ("arc_common/engine/context_engine.py", "langchain_core"),
    ("arc_common/prompts/context.py", "llama_index.core"),
    ("arc_common/engine/context_engine.py", "langchain_arc"),
    ("langchain_arc/engine.py", "llama_index.core"),
    ("langchain_arc/engine.py", "llamaindex_arc"),
    ("llamaindex_arc/engine.py", "langchain_core"),
]


def test_wrong_imports_fail(copy):
    """Each is reported: a lower module's import of a higher one, and a wrong framework in the engine or an adapter."""
    before = {file: (copy / file).read_text("utf-8") for file, _ in WRONG}
    try:
        for file, imported in WRONG:
            (copy / file).write_text(f"{(copy / file).read_text('utf-8')}\nimport {imported}\n", "utf-8")
        verdict = lint(copy)
    finally:
        for file, text in before.items():
            (copy / file).write_text(text, "utf-8")
    assert verdict.returncode != 0
    for file, imported in WRONG:
        module = file.removesuffix(".py").replace("/", ".")
        told = f"{module} -> {imported.removesuffix('.core')}"
        assert told in verdict.stdout, f"{told}\n{verdict.stdout}"


def test_a_module_without_a_place_fails(copy):
    """A new module must be assigned to a layer."""
    path = copy / "arc_common" / "unplaced.py"
    path.write_text("import arc_common.engine.session\n", "utf-8")
    try:
        verdict = lint(copy)
    finally:
        path.unlink()
    assert verdict.returncode != 0, verdict.stdout
