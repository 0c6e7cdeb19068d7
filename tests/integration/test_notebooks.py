"""The notebooks run, and their committed outputs are current."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.notebooks import FOLDER, PATHS, executed, read


async def test_the_outputs_are_those_of_a_run() -> None:
    """Executed in order without a key or a network, each notebook produces its committed outputs.

    After an intended change, run `python -m tests.support.notebooks`, read the new outputs, and commit them.
    """
    run = [(shown(committed), shown(fresh)) async for committed, fresh in executed(PATHS)]
    for path, (committed, fresh) in zip(PATHS, run, strict=True):
        assert committed == fresh, path.name


@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_the_outputs_are_the_same_everywhere(path: Path) -> None:
    """The committed outputs have no warning, error, path, generated id or Python version."""
    notebook = read(path)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert {output.output_type for output in outputs} <= {"stream", "display_data", "execute_result"}
    assert {output.name for output in outputs if output.output_type == "stream"} == {"stdout"}
    told = str([{**output.get("data", {}), "image/png": ""} if "data" in output else output.text for output in outputs])
    assert not re.search(r"/\w+/|[A-Z]:\\|msg_|[0-9a-f]{8}-[0-9a-f]{4}|0x[0-9a-f]{6}", told)
    assert notebook.metadata.language_info == {"name": "python"}
    assert notebook.metadata.kernelspec.name == "python3"


def test_both_frameworks_have_one() -> None:
    """The first two notebooks cover the two frameworks, and the tests run every notebook."""
    names = [path.name for path in PATHS]
    assert names[:2] == ["01_langchain_chain.ipynb", "02_llamaindex_query_engine.ipynb"]
    assert sorted(path.name for path in FOLDER.glob("*.ipynb")) == names


def test_no_notebook_is_heavy() -> None:
    """Each has less than 200 kB, so that clones and reviews stay fast; a picture has some 10 kB."""
    assert all(path.stat().st_size < 200_000 for path in PATHS)


def shown(notebook: Any) -> list[tuple[str, int, list[str]]]:
    """Return each code cell's outputs as a reader sees them; pictures by type, since matplotlib versions differ."""
    return [
        (cell.id, cell.execution_count, list(map(_shown, cell.outputs)))
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def _shown(output: Any) -> str:
    if "data" not in output:
        return str(output.text)
    kinds = ("text/markdown", "text/html")
    return next((output.data[kind] for kind in kinds if kind in output.data), str(sorted(output.data)))
