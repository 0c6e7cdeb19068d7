"""The protocol of stores for receipts, and the values that it exchanges."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from arc_common.messages import Message
from arc_common.protocols.conversations import SessionKey

MOST_RECEIPTS = 50
"""The newest receipts that a conversation keeps; a request of 128,000 tokens takes half a megabyte."""


@dataclass(frozen=True, slots=True)
class KeptReceipt:
    """A request as it was sent.

    Args:
        at_seq: The newest stored message at that time, 0 for none; `None` for the newest one when it is kept.
        receipt: `Receipt.to_dict`, with the items' texts.
        messages: The request's messages; empty if they are too large to be kept.
        branch: The branch on which it was built.
    """

    run_id: str
    created_at: datetime
    at_seq: int | None
    receipt: dict[str, object]
    messages: tuple[Message, ...]
    branch: int = 0


class ReceiptStore(Protocol):
    """Keeps the newest receipts of each conversation. Thread-safe; every method is atomic.

    Deleting or clearing a session, and removing one of its messages, also removes its receipts.
    """

    def keep(self, key: SessionKey, receipts: Sequence[KeptReceipt]) -> bool:
        """Keep receipts, of which the oldest beyond the limit leave; return whether the conversation is there.

        Receipts made with stored messages, before the conversation was created, are of an earlier one, and not kept.
        """

    def find(self, key: SessionKey, *, limit: int) -> list[KeptReceipt]:
        """Return the newest receipts of the key's branch, the newest first; of all branches without one."""

    def forget(self, caller_id: str, *, user_id: str | None, whole: bool = False) -> None:
        """Remove the receipts of a user's conversations, or with `whole` of all of the caller's."""
