"""Execute the notebooks; `python -m tests.support.notebooks` rewrites their outputs."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
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
"""The discard port, on which nothing listens, so that network requests fail at once."""


class _ThisPython(AsyncKernelManager):
    """Starts the Python that runs the tests instead of the user's Jupyter kernel `python3`."""

    @property
    def kernel_spec(self) -> KernelSpec:
        return KernelSpec(argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"])


def read(path: Path) -> Any:
    """Read a committed notebook."""
    return nbformat.read(path, as_version=4)


async def executed(paths: Sequence[Path]) -> AsyncIterator[tuple[Any, Any]]:
    """Yield each notebook as committed and with fresh outputs, without anything that varies by run or machine.

    Notebooks run in their folder without a key or a network, one after the other in one kernel, which imports the
    frameworks once; each notebook's names are removed before the next.
    """
    _find_fonts()
    manager = _ThisPython()
    await manager.start_kernel(cwd=str(FOLDER), env=_environment())
    try:
        for path in paths:
            committed = read(path)
            fresh = deepcopy(committed)
            client = NotebookClient(fresh, km=manager, timeout=60, record_timing=False, coalesce_streams=True)
            async with client.async_setup_kernel():
                assert client.kc is not None
                await client.kc.execute_interactive("get_ipython().reset(new_session=True)", silent=True)
                await client.async_execute(reset_kc=False)
                client.kc.stop_channels()
            yield committed, _without_traces(fresh)
    finally:
        await manager.shutdown_kernel(now=True)


def _without_traces(fresh: Any) -> Any:
    fresh.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in fresh.cells:
        cell.metadata = {}
        for output in cell.get("outputs", ()):
            if "text/html" in output.get("data", {}):
                del output.data["text/plain"]  # the repr of a window is as long as the window
    return fresh


@cache
def _find_fonts() -> None:
    """Build matplotlib's font list now, since a slow build would print a warning in a notebook."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", "import matplotlib.font_manager"], check=True)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    return kept | dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _DEAD_END)


async def main() -> None:
    """Rewrite the outputs of all notebooks."""
    made = [fresh async for _, fresh in executed(PATHS)]
    for path, fresh in zip(PATHS, made, strict=True):
        nbformat.write(fresh, path)


if __name__ == "__main__":
    asyncio.run(main())
