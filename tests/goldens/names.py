"""Names in recorded receipts that have changed since."""

from typing import Any

__all__ = ["RENAMED", "renamed"]

RENAMED: dict[str, str] = {}
"""Old name -> new name, for keys and for whole values such as a section's name. Prompts are compared unchanged."""


def renamed(receipt: Any) -> Any:
    """Return a recorded receipt with the current names."""
    if isinstance(receipt, dict):
        return {RENAMED.get(key, key): renamed(value) for key, value in receipt.items()}
    if isinstance(receipt, list):
        return [renamed(value) for value in receipt]
    return RENAMED.get(receipt, receipt) if isinstance(receipt, str) else receipt
