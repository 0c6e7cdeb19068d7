"""What forgetting does to memories, decided without a store. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from arc_common.exceptions import InvalidInputError
from arc_common.memories import Memory, MemorySource
from arc_common.messages import check_identifier
from arc_common.protocols import SessionKey
from arc_common.protocols.memories import MemoryChange
from arc_common.protocols.search_index import Scope
from arc_common.serialization import dumps

__all__ = [
    "NEWEST_SESSIONS", "Loss", "checked_change", "checked_memory_ids", "heir", "is_within_reach", "loss",
]  # fmt: skip

NEWEST_SESSIONS = 64
"""So many sessions of a scope are looked at for messages that nobody has read."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What a scope loses with some sources.

    Args:
        removed: Memories that go, by id, each with what had taken its place.
        changed: Memories that stay, with the sources and the words that they have left.
        reworded: The ids of those of them that have another text.
    """

    removed: Mapping[str, str | None]
    changed: tuple[Memory, ...]
    reworded: frozenset[str] = frozenset()


def is_within_reach(scope: Scope, key: SessionKey) -> bool:
    """Whether memories of this scope may come from the session: it is the session's own, its user's or its caller's."""
    return (
        scope.caller_id == key.caller_id
        and scope.user_id in (None, key.user_id)
        and scope.session_id in (None, key.session_id)
    )


def loss(
    memories: Iterable[Memory], key: SessionKey, message_ids: Collection[str] | None, *, is_own: bool = False
) -> Loss:
    """What happens to memories when a session, or some of its messages, are gone.

    Args:
        memories: Those of one scope that have a source in it; of its own scope, all.
        key: The session.
        message_ids: The messages; `None` for all of the session.
        is_own: Whether the scope is the session's own: with the session all of it goes.
    """
    removed: dict[str, str | None] = {}
    changed = []
    reworded = set()

    def is_gone(source: MemorySource) -> bool:
        return source[0] == key.session_id and (message_ids is None or source[1] in message_ids)

    for memory in memories:
        left = None if is_own and message_ids is None else memory.without(is_gone)
        if left is None:
            removed[memory.id] = memory.superseded_by
        elif left is not memory:
            changed.append(left)
            reworded |= {left.id} if left.text != memory.text else set()
    return Loss(removed, tuple(changed), frozenset(reworded))


def heir(superseded_by: str | None, removed: Mapping[str, str | None]) -> str | None:
    """What stands in a memory's place when some of those that did are removed; `None` if it holds again."""
    seen: set[str] = set()
    while superseded_by is not None and superseded_by in removed and superseded_by not in seen:
        seen.add(superseded_by)
        superseded_by = removed[superseded_by]
    return None if superseded_by in seen else superseded_by


def checked_change(change: MemoryChange) -> list[str | None]:
    """The metadata of the memories that are put, as text, if all of the change can be stored.

    Raises:
        InvalidInputError: It can't, or two memories have one id, or one is put and removed.
    """
    ids = [memory.id for memory in change.put]
    for memory_id in change.removed:
        check_identifier("memory.id", memory_id)
    twice = {memory_id for memory_id in ids if ids.count(memory_id) > 1} if len(set(ids)) < len(ids) else set()
    if both := twice | (set(ids) & set(change.removed)):
        raise InvalidInputError("memory.id", min(both), "an id that occurs once in a change")
    return [dumps(dict(memory.metadata), field="memory.metadata") if memory.metadata else None for memory in change.put]


def checked_memory_ids(ids: Sequence[str]) -> list[str]:
    """Each of the ids once, in their order.

    Raises:
        InvalidInputError: One could not be a memory's, or they are one text instead of several.
    """
    if isinstance(ids, str):
        raise InvalidInputError("ids", ids, "a sequence of ids")
    return list(dict.fromkeys(check_identifier("ids", memory_id) for memory_id in ids))
