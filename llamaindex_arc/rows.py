"""Converts messages to JSON values, with their ids and times, for a serialised memory."""

from collections.abc import Mapping
from typing import Any

from arc_common.messages import Message
from arc_common.protocols import CountedMessage
from arc_common.stores.codec import MESSAGE_COLUMNS, message_row, stored_from_row


def as_row(message: Message) -> dict[str, Any]:
    """Return the message as a store's columns hold it."""
    return message_row(CountedMessage(message, 0, ""))


def from_row(row: Mapping[str, Any]) -> Message:
    """Restore the message given to `as_row`."""
    full = {**row, "seq": 0, "revision": 1}
    return stored_from_row([full[name] for name in MESSAGE_COLUMNS]).message
