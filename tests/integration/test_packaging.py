"""The wheel contains the three packages with their data files, and no tests."""

import subprocess
import sys
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("arc_common", "langchain_arc", "llamaindex_arc")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build the wheel offline with the backend that `pyproject.toml` names."""
    pytest.importorskip("hatchling", reason="hatchling builds the wheel")
    folder = tmp_path_factory.mktemp("wheel")
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    name = subprocess.run(
        [sys.executable, "-c", build, str(folder)], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()[-1]
    return zipfile.ZipFile(folder / name)


def test_it_holds_the_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    """It contains every source file, and no tests, benchmarks or notebooks."""
    names = set(wheel.namelist())
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == set(PACKAGES)
    sources = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert sources <= names
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    assert "arc_common/cli/demo.toml" in names
    assert "arc_common/stores/database/migrations/env.py" in names
    migrations = [name for name in names if name.startswith("arc_common/stores/database/migrations/versions/0")]
    assert migrations
    assert not [name for name in names if "test_" in name or name.endswith((".pyc", ".ipynb"))]


def test_its_metadata_name_licence_commands_and_extras(wheel: zipfile.ZipFile) -> None:
    """Installed by pip, the wheel has arc's licence, the `arc` command, its plugins and its extras."""
    names = {name.partition(".dist-info/")[2]: name for name in wheel.namelist() if ".dist-info/" in name}
    assert "MIT" in wheel.read(names["licenses/LICENSE"]).decode()
    entry_points = ConfigParser()
    entry_points.read_string(wheel.read(names["entry_points.txt"]).decode())
    assert entry_points["console_scripts"]["arc"] == "arc_common.cli.commands:main"
    assert set(entry_points["arc.commands"]) == {"langchain", "llamaindex"}
    metadata = wheel.read(names["METADATA"]).decode()
    assert "Name: arc-context-engine\n" in metadata
    assert "License-Expression: MIT\n" in metadata
    for extra in ("langchain", "llamaindex", "postgres"):
        assert f"Provides-Extra: {extra}\n" in metadata
