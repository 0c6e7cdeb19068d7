"""A fake model provider's package, for the tests of the demo."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.demo_runs import module


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Return a function that installs a fake provider's package until the test ends."""

    def install(text: str) -> None:
        module(tmp_path, "langchain_openai", text)
        monkeypatch.syspath_prepend(str(tmp_path))

    real = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "langchain_openai"}
    yield install
    sys.modules.pop("langchain_openai", None)
    sys.modules.update(real)
