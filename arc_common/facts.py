"""Facts: short statements that a conversation established, with the ids of the messages that state them."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self

from arc_common.exceptions import InvalidInputError


class FactCategory(StrEnum):
    """The kind of statement of a fact, with all that differs between kinds.

    - `hint` describes it to a model that extracts facts.
    - `importance`, from 0 to 1, is that of a fact that a model extracted.
    - `consequence`, from 0 to 1, is the cost of losing such a fact: half of a rule's importance for it.
    """

    hint: str
    importance: float
    consequence: float

    def __new__(cls, name: str, hint: str = "", importance: float = 0.5, consequence: float = 0.5) -> Self:
        """Create a category from its row: name, hint, importance and consequence."""
        category = str.__new__(cls, name)
        category._value_ = name
        category.hint, category.importance, category.consequence = hint, importance, consequence
        return category

    ENTITY = "ENTITY", "who or what somebody or something is", 0.75, 0.8
    """The identity of a person or thing: names, roles, relations, contact details."""
    DECISION = "DECISION", "chosen or agreed", 0.8, 0.85
    """Choices, promises and agreements."""
    CONDITION = "CONDITION", "must, must not, only if", 0.9, 1.0
    """Requirements and their conditions: prohibitions, constraints, allergies, "only if"."""
    STATE = "STATE", "how something is now", 0.65, 0.65
    """Current states and changes."""
    NUMERIC = "NUMERIC", "amounts, dates, codes", 0.85, 0.95
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
