"""A clock that stands still."""

import pytest

from tests.support.clocks import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()
