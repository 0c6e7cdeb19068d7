"""What is said of settings that are refused."""

from typing import Any

import pytest

from arc_common.exceptions import ArcError, ConfigurationError
from arc_common.settings import ArcSettings


def refused(**values: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        ArcSettings(**values)
    assert isinstance(caught.value, ArcError)
    return str(caught.value)
