"""SessionPins: the texts that every request of a session shows word for word."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import tzinfo
from hashlib import sha256

from arc_common.exceptions import InvalidInputError, MemoryNotFoundError
from arc_common.facts import Fact, FactCategory, ProposedFact
from arc_common.memories import Pin
from arc_common.memory.facts.extraction import extract_facts
from arc_common.memory.services import Services
from arc_common.memory.summaries.reader import HierarchicalMemory
from arc_common.messages import MAX_ID_LENGTH, Role, check_text, local
from arc_common.prompts.context import pin_words
from arc_common.protocols import SessionKey
from arc_common.protocols.records import RecordChange
from arc_common.protocols.search_index import Scope

_READ_AGAIN = 64
"""The newest messages in which rules look for conditions that no summary has read yet."""


class SessionPins:
    """Pins texts and messages of sessions. Pinned memories are shown beside them, and kept by their own scope."""

    def __init__(self, services: Services, *, ledger: HierarchicalMemory | None) -> None:
        self._store = services.store
        self._clock = services.clock
        self._ledger = ledger

    def pin(self, key: SessionKey, text: str) -> Pin:
        """Pin a message of the session, named by its id, or a text; return the pin, old or new."""
        if not isinstance(text, str):
            raise InvalidInputError("text", text, "a text, or a message's id")
        pinned = self.pins(key)  # refuses another user's session
        found = self._store.read(key, ids=[text]) if 0 < len(text) <= MAX_ID_LENGTH and text.isprintable() else []
        said = found[0].message if found else None
        shown = check_text("text", text if said is None else said.text)
        if not shown.strip():
            raise InvalidInputError("text", text, "text that is not empty, or the id of a message with text")
        pin = Pin(_id_of(text, of_message=said is not None), shown, self._clock())
        if said is not None:
            text, who = pin_words(said)
            pin = replace(pin, text=text, message_id=said.id, said_by=who, said_at=said.created_at)
        known = next((one for one in pinned if one.id == pin.id), None)
        if known is not None:
            return known
        points = {} if said is not None else {pin.id: key}  # the pin of a message is where the message is
        self._store.records.commit(_own(key), RecordChange(pins=(pin,), points=points), version=None)
        return pin

    def pins(self, key: SessionKey) -> list[Pin]:
        """Return the session's pins and the pinned memories of its scopes, the oldest first."""
        return list(with_local_days(self._store.summaries.state(key, limit=0, view=False).pins, self._clock().tzinfo))

    def unpin(self, key: SessionKey, pin_id: str) -> None:
        """Remove a pin of the session; raise `MemoryNotFoundError` if it has none with that id."""
        if pin_id not in [pin.id for pin in self.pins(key)] or not pin_id.startswith(_PREFIX):
            raise MemoryNotFoundError(pin_id)
        self._store.records.commit(_own(key), RecordChange(removed=(pin_id,)), version=None)

    def suggested(self, key: SessionKey) -> list[Pin]:
        """Return the user's conditions and prohibitions that are not pinned yet, oldest first."""
        newest = [stored.message for stored in self._store.read(key, limit=_READ_AGAIN)]
        ledger = self._ledger.facts(key) if self._ledger else []
        known: list[Fact | ProposedFact] = [*ledger, *extract_facts(newest)]
        found = [(fact.value, fact.sources) for fact in known if fact.category is FactCategory.CONDITION]
        ids = list(dict.fromkeys(name for _, sources in found for name in sources))
        said = {stored.message.id: stored.message for stored in self._store.read(key, ids=ids)} if ids else {}
        pinned = self.pins(key)
        offered: dict[str, Pin] = {}
        for text, sources in found:
            message = next(
                (one for one in map(said.get, reversed(sources)) if one is not None and one.role is Role.USER), None
            )
            is_pinned = any(pin.text == text or (message and pin.message_id == message.id) for pin in pinned)
            if message is not None and not is_pinned:
                at = message.created_at or self._clock()
                offered.setdefault(text, Pin(_id_of(text), text, at, message.id, message.name or "user", at))
        return list(offered.values())


def with_local_days(pins: Iterable[Pin], zone: tzinfo | None) -> tuple[Pin, ...]:
    """Return pins whose lines show the days of a zone."""
    return tuple(replace(one, said_at=local(one.said_at, zone)) if one.said_at else one for one in pins)


_PREFIX = "pin_"


def _id_of(text: str, *, of_message: bool = False) -> str:
    """Return the id of the pin of a text or a message, which is the same each time."""
    return f"{_PREFIX}{sha256(f'{of_message}:{text}'.encode()).hexdigest()[:32]}"


def _own(key: SessionKey) -> Scope:
    return Scope(key.caller_id, key.user_id, key.session_id)
