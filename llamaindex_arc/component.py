"""The base of arc's LlamaIndex components."""

from copy import copy
from typing import Any, Self


class Component:
    """A component that is serialised under its class's name, and whose copies work on the same engine or models."""

    @classmethod
    def class_name(cls) -> str:
        """Return the name in serialised form."""
        return cls.__name__

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return copy(self)
