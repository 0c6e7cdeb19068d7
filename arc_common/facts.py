"""Facts: short statements that a conversation established, with the ids of the messages that state them."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from arc_common.exceptions import InvalidInputError

__all__ = ["Fact", "FactCategory", "ProposedFact"]


class FactCategory(StrEnum):
    """The kind of statement of a fact."""

    ENTITY = "ENTITY"
    """The identity of a person or thing: names, roles, relations, contact details."""
    DECISION = "DECISION"
    """Choices, promises and agreements."""
    CONDITION = "CONDITION"
    """Requirements and their conditions: prohibitions, constraints, allergies, "only if"."""
    STATE = "STATE"
    """Current states and changes."""
    NUMERIC = "NUMERIC"
    """Amounts, money, dates, times, codes and ids."""
    GENERAL = "GENERAL"
    """Anything else worth keeping: preferences, reasons, plans."""


@dataclass(frozen=True, slots=True)
class ProposedFact:
    """A fact proposed by a summariser or the rules, before it is added to the ledger.

    Args:
        key: The subject in a few words; a later fact with the same key supersedes this one.
        value: The statement about the subject.
        category: The kind of statement.
        sources: The ids of the messages that state it; empty if they have no ids yet.
        importance: From 0 to 1: how much its absence from the prompt would matter.
    """

    key: str
    value: str
    category: FactCategory
    sources: tuple[str, ...] = ()
    importance: float = 0.5

    def __post_init__(self) -> None:
        if not self.key.strip():
            raise InvalidInputError("fact.key", self.key, "text that is not empty")
        if not self.value.strip():
            raise InvalidInputError("fact.value", self.value, "text that is not empty")
        if not 0.0 <= self.importance <= 1.0:
            raise InvalidInputError("fact.importance", self.importance, "a number from 0 to 1")


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact in the ledger.

    Args:
        id: The fact's id, unique within the session.
        key: The subject in a few words.
        value: The statement about the subject.
        category: The kind of statement.
        sources: The ids of the messages that state it.
        importance: From 0 to 1.
        segment: The first position (`seq`) of the leaf it was extracted from; redoing the leaf redoes its facts.
        made_by: The extractor: "model" or "rules".
        valid_from: The time of the newest message that states it (UTC).
        superseded_by: The id of the superseding fact; `None` if there is none.
        removed: Whether a later leaf withdrew the fact without a replacement.
        grounded: Whether the sources support it. Unsupported facts are kept for inspection, and never shown to a model.
    """

    id: str
    key: str
    value: str
    category: FactCategory
    sources: tuple[str, ...]
    importance: float
    segment: int
    made_by: str
    valid_from: datetime
    superseded_by: str | None = None
    removed: bool = False
    grounded: bool = True

    @property
    def holds(self) -> bool:
        """Return whether the fact is grounded, and neither superseded nor removed."""
        return self.grounded and self.superseded_by is None and not self.removed

    @property
    def line(self) -> str:
        """The fact as a line of the prompt: `- key: value`."""
        return f"- {' '.join(self.key.split())}: {' '.join(self.value.split())}"
