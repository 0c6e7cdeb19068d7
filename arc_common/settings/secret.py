"""A setting that is an address with a password in it."""

from typing import Any, Self

from pydantic import Secret

from arc_common.addresses import HIDDEN, hide_password, sounds_secret
from arc_common.exceptions import ConfigurationError

__all__ = ["ANEW", "HIDDEN", "SecretUrl", "hide_password", "sounds_secret"]


ANEW = "make the settings anew where they are needed, from the environment"
"""What to do in place of a pickle."""


class SecretUrl(Secret[str]):
    """A URL whose password shows nowhere: not in `repr`, `str`, JSON or an f-string.

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
