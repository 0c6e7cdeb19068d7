"""Encrypts columns of text, between the stores and the drivers."""

from collections.abc import Mapping
from hashlib import blake2b
from secrets import token_bytes
from typing import Any

from arc_common.exceptions import ConfigurationError, MissingDependencyError, StoreError
from arc_common.protocols import Cipher
from arc_common.settings import StorageSettings
from arc_common.stores.database.drivers import Call, Row, Transaction
from arc_common.stores.statements.compiler import Statement

_KEY = 32
"""The bytes of the key under which terms are hashed. Each database has one, which is stored encrypted."""


def cipher_of(settings: StorageSettings) -> Cipher | None:
    """Return the cipher of the settings' keys, of which the first encrypts and each decrypts; `None` without any."""
    if settings.encryption_keys is None:
        return None
    try:
        from cryptography.fernet import Fernet, MultiFernet  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise MissingDependencyError("storage.encryption_keys", package="cryptography", extra="encryption") from error
    given = map(str.strip, settings.encryption_keys.get_secret_value().split(","))
    try:
        ciphers = [Fernet(key) for key in given if key]
    except ValueError:
        ciphers = []
    if not ciphers:  # without the key in the message, or behind it
        raise ConfigurationError(
            "storage.encryption_keys (ARC_STORAGE__ENCRYPTION_KEYS): expected keys that `Fernet.generate_key()` makes, "
            "separated by commas: 32 bytes each in URL-safe base64"
        )
    return MultiFernet(ciphers)


class Seal:
    """Encrypts texts, and hashes under a key of the database; without a cipher, texts stay as they are."""

    def __init__(self, cipher: Cipher | None = None) -> None:
        self.cipher = cipher
        self._key = b""
        self.is_on = cipher is not None

    def closed(self, text: str) -> str:
        """Return a text as it is stored."""
        cipher = self.cipher
        return text if cipher is None else cipher.encrypt(text.encode(errors="surrogatepass")).decode("ascii")

    def opened(self, stored: str) -> str:
        """Return a stored text."""
        if self.cipher is None:
            return stored
        try:
            return str(self.cipher.decrypt(stored.encode()), "utf-8", "surrogatepass")
        except Exception as error:  # the cipher's own kind
            raise StoreError(
                f"a stored text can't be decrypted: it was changed, or a key is missing ({type(error).__name__})"
            ) from error

    def closed_call(self, call: Call) -> Call:
        """Return a call with its texts encrypted."""
        statement, given = call
        if not statement.sealed:
            return call
        if isinstance(given, Mapping):
            return statement, self._closed_row(statement, given)
        return statement, (self._closed_row(statement, row) for row in given)

    def _closed_row(self, statement: Statement, given: Mapping[str, Any]) -> Mapping[str, Any]:
        texts = {name: given.get(name, statement.defaults.get(name)) for name in statement.sealed}
        return {**given, **{name: text and self.closed(text) for name, text in texts.items()}}

    def opened_rows(self, statement: Statement, rows: list[Row]) -> list[Row]:
        """Return a statement's rows with their texts decrypted."""
        if not statement.opened:
            return rows
        return [
            [self.opened(value) if value and place in statement.opened else value for place, value in enumerate(row)]
            for row in rows
        ]

    @property
    def hash_key(self) -> bytes:
        """The key under which this database hashes the values that it compares; empty without a cipher."""
        return self._key

    def hashed(self, value: bytes) -> bytes:
        """Return 16 bytes that stand for a value in this database; without a cipher, the value itself."""
        return blake2b(value, key=self._key, digest_size=16).digest() if self._key else value

    def new_key(self) -> str:
        """Make the key of a new database; return it as it is stored."""
        self._key = token_bytes(_KEY)
        return self.stored_key()

    def stored_key(self) -> str:
        """Return the database's key as it is stored."""
        return self.closed(self._key.hex())

    def use_key(self, stored: str) -> bool:
        """Take the key of a database; return whether the cipher can read it."""
        try:
            self._key = bytes.fromhex(self.opened(stored))
        except (StoreError, ValueError):
            return False
        return True


class SealedTransaction:
    """A transaction of a database with a cipher."""

    __slots__ = ("_seal", "_transaction")

    def __init__(self, transaction: Transaction, seal: Seal) -> None:
        self._transaction = transaction
        self._seal = seal

    def run(self, *calls: Call) -> list[list[Row]]:
        """Run the calls; return the rows of each."""
        return self._opened(calls, self._transaction.run(*map(self._seal.closed_call, calls)))

    def commit(self, *calls: Call) -> list[list[Row]]:
        """Run the last calls and commit; return the rows of each."""
        return self._opened(calls, self._transaction.commit(*map(self._seal.closed_call, calls)))

    def _opened(self, calls: tuple[Call, ...], rows: list[list[Row]]) -> list[list[Row]]:
        return [self._seal.opened_rows(call[0], found) for call, found in zip(calls, rows, strict=True)]
