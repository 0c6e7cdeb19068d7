"""What the index keeps of words and metadata instead of them: tokens, which only a scope's salt gives a meaning. Pure.

- A token says to which scope it belongs: a search reads no posting of another tenant, however many there are.
- It is as long as any other, whatever the term, and no search engine takes it for an operator.
- What a full-text index keeps of deleted rows (FTS5 until it merges) means nothing without the scope's salt.
"""

from collections.abc import Mapping
from hashlib import blake2b
from secrets import token_bytes
from typing import Any

from arc_common.filters import Scalar

__all__ = ["Tokens", "canonical_number", "new_salt", "number_of"]

_BYTES = 8
"""Of a token: among a million terms, two share one with a probability of 3 in 100 million."""


def new_salt() -> bytes:
    """The salt of a new scope."""
    return token_bytes(16)


class Tokens:
    """Makes a scope's tokens, each once: what is stored together shares most of its terms.

    Args:
        salt: The scope's.
    """

    __slots__ = ("_made", "_salt")

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        self._made: dict[str, bytes] = {}

    def of(self, term: str) -> bytes:
        """A term's token."""
        token = self._made.get(term)
        if token is None:
            spelt = term.encode(errors="surrogatepass")  # no entry has half a character, but a query may
            token = self._made[term] = blake2b(spelt, digest_size=_BYTES, key=self._salt).digest()
        return token

    def key(self, key: str) -> bytes:
        """The label of entries whose metadata have the key, with another value than null."""
        return self.of(f"\0{key}")  # no term has a NUL character

    def value(self, key: str, value: Scalar) -> bytes:
        """The label of entries whose metadata have the value under the key, by itself or in a list."""
        return self.of(f"\0{key}\0{_canonical(value)}")

    def labels(self, metadata: Mapping[str, Any]) -> list[bytes]:
        """All labels of metadata, each once."""
        labels: dict[bytes, None] = {}
        for key, held in metadata.items():
            if held is not None:
                labels[self.key(key)] = None
            for value in held if isinstance(held, list) else (held,):
                if value is None or isinstance(value, str | int | float):
                    labels[self.value(key, value)] = None
        return list(labels)


def number_of(token: bytes) -> int:
    """A token as a whole number of 64 bits."""
    return int.from_bytes(token, "big", signed=True)


def canonical_number(number: float) -> str:
    """The number as JSON; equal numbers have the same text, as `1` and `1.0`."""
    return str(int(number)) if isinstance(number, int) or number.is_integer() else repr(number)


def _canonical(value: Scalar) -> str:
    """Text that two values share only if a filter takes them for equal."""
    if isinstance(value, str):
        return f"s{value}"
    if value is None or isinstance(value, bool):
        return f"{value}"
    return f"n{canonical_number(value)}"
