"""A setting that is an address with a password in it."""

from pydantic import Secret

from arc_common.addresses import HIDDEN, hide_password, sounds_secret

__all__ = ["HIDDEN", "SecretUrl", "hide_password", "sounds_secret"]


class SecretUrl(Secret[str]):
    """A URL whose password shows nowhere: not in `repr`, `str`, JSON or an f-string.

    `get_secret_value()` gives the whole URL.
    """

    def _display(self) -> str:
        return hide_password(self.get_secret_value())
