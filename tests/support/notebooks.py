"""Execute the notebooks; `python -m tests.support.notebooks` rewrites their outputs."""

import asyncio
import importlib
import os
import warnings
from collections.abc import AsyncIterator, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
from ipykernel.kernelapp import IPKernelApp
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from tests.support.forks import Fork

FOLDER = Path(__file__).parents[2] / "notebooks"
PATHS = sorted(FOLDER.glob("[0-9]*.ipynb"))

_DEAD_END = "http://127.0.0.1:9"
"""The discard port, on which nothing listens, so that network requests fail at once."""


class _ForkedKernel(AsyncKernelManager):
    """Connects to a kernel in a fork of this process."""

    process: Fork

    @property
    def has_kernel(self) -> bool:
        return True

    async def is_alive(self, **_: Any) -> bool:
        return self.process.is_running


def read(path: Path) -> Any:
    """Read a committed notebook."""
    return nbformat.read(path, as_version=4)


async def executed(paths: Sequence[Path]) -> AsyncIterator[tuple[Any, Any]]:
    """Yield each notebook as committed and with fresh outputs, without anything that varies by run or machine.

    Notebooks run in their folder without a key or a network, one after the other in one kernel, a fork, which need not
    import the frameworks again; each notebook's names are removed before the next.
    """
    manager = _ForkedKernel()
    manager.write_connection_file()
    with Fork(FOLDER, [], _environment(), run=partial(_serve, manager.connection_file)) as manager.process:
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
    manager.cleanup_connection_file()


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


def _serve(connection_file: str) -> None:
    """Run a kernel with the state of a new process, as far as notebooks show it."""
    warnings.resetwarnings()
    for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", kind)
    importlib.import_module("matplotlib.font_manager")  # builds its list of fonts, which would print a warning
    asyncio.set_event_loop(asyncio.new_event_loop())
    IPKernelApp.launch_instance(["-f", connection_file])


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    kept["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    return kept | dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _DEAD_END)


async def main() -> None:
    """Rewrite the outputs of all notebooks."""
    made = [fresh async for _, fresh in executed(PATHS)]
    for path, fresh in zip(PATHS, made, strict=True):
        nbformat.write(fresh, path)


if __name__ == "__main__":
    asyncio.run(main())
