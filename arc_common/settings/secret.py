"""A setting that is an address with a password in it."""

from typing import Any, Self

from pydantic import Secret

from arc_common.addresses import HIDDEN, hide_password, sounds_secret
from arc_common.exceptions import ConfigurationError

__all__ = ["ANEW", "HIDDEN", "SecretUrl", "hide_password", "sounds_secret"]


ANEW = "load the settings from the environment again where they are needed"
"""The advice in errors about pickling."""


class SecretUrl(Secret[str]):
    """A URL whose password is never shown: not in `repr`, `str`, JSON or an f-string.

    `get_secret_value()` gives the whole URL. One with a password can't be pickled.
    """

    def _display(self) -> str:
        return hide_password(self.get_secret_value())

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        url = self.get_secret_value()
        if hide_password(url) != url:
            raise ConfigurationError(f"{self}: an address with a password can't be pickled; {ANEW}")
        return type(self), (url,)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self
