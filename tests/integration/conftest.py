"""A provider's package, for the tests of the demo."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.demo_runs import module


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Installs a provider's package, for as long as the test lasts."""

    def install(text: str) -> None:
        module(tmp_path, "langchain_openai", text)
        monkeypatch.syspath_prepend(str(tmp_path))

    yield install
    sys.modules.pop("langchain_openai", None)
