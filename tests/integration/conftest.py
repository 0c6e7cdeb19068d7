"""One run of the demo, for all tests that only look at it."""

import pytest

from arc_common.cli.demo.run import TurnRecord
from tests.support.demo_runs import opened, played


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The database of a run without interruption; not to be written to."""
    url = f"sqlite:///{tmp_path_factory.mktemp('whole')}/demo.db"
    played(url)
    return url


@pytest.fixture(scope="session")
def records(whole: str) -> list[TurnRecord]:
    with opened(whole) as run:
        return run.done()
