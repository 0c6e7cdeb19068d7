"""What names on receipts were called when the goldens were recorded."""

from typing import Any

__all__ = ["RENAMED", "renamed"]

RENAMED: dict[str, str] = {}
"""Old name -> new name, of keys and of whole values such as a section's name. Prompts are compared as they are."""


def renamed(receipt: Any) -> Any:
    """Return a recorded receipt with today's names."""
    if isinstance(receipt, dict):
        return {RENAMED.get(key, key): renamed(value) for key, value in receipt.items()}
    if isinstance(receipt, list):
        return [renamed(value) for value in receipt]
    return RENAMED.get(receipt, receipt) if isinstance(receipt, str) else receipt
