"""What an append does, decided without a database. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from arc_common.messages import same_content
from arc_common.protocols import CountedMessage, StoredMessage

__all__ = ["AppendPlan", "plan_append"]


@dataclass(frozen=True, slots=True)
class AppendPlan:
    """The rows to write, and how the session's sums change.

    Args:
        results: For each message given, as it will be stored, in the order given.
        inserted: New rows, in order.
        revised: Rows that replace the one with their `seq`.
        tokens: What to add to the session's token sum.
        tool_calls: What to add to its tool call count.
    """

    results: list[StoredMessage]
    inserted: list[StoredMessage]
    revised: list[StoredMessage]
    tokens: int
    tool_calls: int


def plan_append(
    incoming: Sequence[CountedMessage], *, existing: Mapping[str, StoredMessage], next_seq: int
) -> AppendPlan:
    """Decide for each message whether it is new, known, or a new revision of a known one.

    Args:
        incoming: The messages given; one may come twice.
        existing: Those that the store has already, by id.
        next_seq: The first free place.
    """
    current: dict[str, StoredMessage] = {}
    first: dict[str, StoredMessage | None] = {}
    ids: list[str] = []
    for counted in incoming:
        message = counted.message
        message_id = message.id or ""
        ids.append(message_id)
        if message_id not in first:
            first[message_id] = existing.get(message_id)
        known = current.get(message_id) or first[message_id]
        if known is None:
            current[message_id] = StoredMessage(message, next_seq, counted.tokens, counted.counter)
            next_seq += 1
        elif same_content(known.message, message):
            current[message_id] = known
        else:
            current[message_id] = StoredMessage(
                replace(message, created_at=known.message.created_at),
                known.seq,
                counted.tokens,
                counted.counter,
                known.revision + 1,
                edited=True,
            )
    changed = [(first[message_id], stored) for message_id, stored in current.items() if first[message_id] is not stored]
    return AppendPlan(
        results=[current[message_id] for message_id in ids],
        inserted=[stored for before, stored in changed if before is None],
        revised=[stored for before, stored in changed if before is not None],
        tokens=sum(after.tokens - (before.tokens if before else 0) for before, after in changed),
        tool_calls=sum(
            len(after.message.tool_calls) - (len(before.message.tool_calls) if before else 0)
            for before, after in changed
        ),
    )
