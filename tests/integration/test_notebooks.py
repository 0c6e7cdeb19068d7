"""The notebooks show what runs."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.notebooks import FOLDER, PATHS, executed, read


async def test_the_outputs_are_those_of_a_run() -> None:
    """Executed from top to bottom without a key or a network, each notebook shows what is committed.

    After a change on purpose, `python -m tests.support.notebooks` writes them anew: look at them, then commit.
    """
    run = [(shown(committed), shown(fresh)) async for committed, fresh in executed(PATHS)]
    for path, (committed, fresh) in zip(PATHS, run, strict=True):
        assert committed == fresh, path.name


@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_the_outputs_are_the_same_everywhere(path: Path) -> None:
    """No warning, no error, no path, no minted id and no Python version is committed."""
    notebook = read(path)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert {output.output_type for output in outputs} <= {"stream", "display_data", "execute_result"}
    assert {output.name for output in outputs if output.output_type == "stream"} == {"stdout"}
    told = str([{**output.get("data", {}), "image/png": ""} if "data" in output else output.text for output in outputs])
    assert not re.search(r"/\w+/|[A-Z]:\\|msg_|[0-9a-f]{8}-[0-9a-f]{4}|0x[0-9a-f]{6}", told)
    assert notebook.metadata.language_info == {"name": "python"}
    assert notebook.metadata.kernelspec.name == "python3"


def test_both_frameworks_have_one() -> None:
    """The first two are the main jobs, and no notebook is passed over by the tests."""
    names = [path.name for path in PATHS]
    assert names[:2] == ["01_langchain_chain.ipynb", "02_llamaindex_query_engine.ipynb"]
    assert sorted(path.name for path in FOLDER.glob("*.ipynb")) == names


def test_no_notebook_is_heavy() -> None:
    """A clone and a review stay quick: a picture is of some ten kilobytes."""
    assert all(path.stat().st_size < 200_000 for path in PATHS)


def shown(notebook: Any) -> list[tuple[str, int, list[str]]]:
    """What a reader sees below each code cell; of a picture only that there is one: versions of matplotlib differ."""
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
