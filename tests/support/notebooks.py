"""Executes the notebooks; `python -m tests.support.notebooks` writes their outputs anew."""

import asyncio
import os
import subprocess
import sys
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "notebooks"
PATHS = sorted(FOLDER.glob("[0-9]*.ipynb"))

_DEAD_END = "http://127.0.0.1:9"
"""Nothing listens on the discard port: what asks the network for something fails at once."""


class _ThisPython(AsyncKernelManager):
    """Starts the Python that runs the tests, whatever a user's own Jupyter calls `python3`."""

    @property
    def kernel_spec(self) -> KernelSpec:
        return KernelSpec(argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"])


def read(path: Path) -> Any:
    """A notebook as it is committed."""
    return nbformat.read(path, as_version=4)


async def executed(notebook: Any, folder: Path) -> Any:
    """The notebook with fresh outputs, and with nothing in it that differs from run to run or from machine to machine.

    It runs in the folder, with no key and no network.

    Raises:
        CellExecutionError: A cell failed.
    """
    fresh = deepcopy(notebook)
    if "import matplotlib" in str(fresh.cells):
        _find_fonts()
    client = NotebookClient(
        fresh,
        kernel_manager_class=_ThisPython,
        resources={"metadata": {"path": str(folder)}},
        timeout=60,
        record_timing=False,
        coalesce_streams=True,
    )
    await client.async_execute(env=_environment())
    fresh.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in fresh.cells:
        cell.metadata = {}
        for output in cell.get("outputs", ()):
            if "text/html" in output.get("data", {}):
                del output.data["text/plain"]  # what Python says of a window is as long as the window
    return fresh


@cache
def _find_fonts() -> None:
    """Have matplotlib's list of fonts made here: where it takes long, a notebook would say so."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", "import matplotlib.font_manager"], check=True)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    return kept | dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _DEAD_END)


def main() -> None:
    """Write the outputs of all notebooks anew."""
    for path in PATHS:
        nbformat.write(asyncio.run(executed(read(path), path.parent)), path)


if __name__ == "__main__":
    main()
