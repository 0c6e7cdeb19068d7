"""Facts: what a conversation established, in short statements that point at the messages they come from."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from arc_common.exceptions import InvalidInputError

__all__ = ["Fact", "FactCategory", "ProposedFact"]


class FactCategory(StrEnum):
    """What kind of statement a fact is."""

    ENTITY = "ENTITY"
    """Who or what somebody or something is: names, roles, relations, contact details."""
    DECISION = "DECISION"
    """What was chosen, promised or agreed."""
    CONDITION = "CONDITION"
    """What must or must not be, and when: prohibitions, constraints, allergies, "only if"."""
    STATE = "STATE"
    """How something is now, or what has changed."""
    NUMERIC = "NUMERIC"
    """Amounts, money, dates, times, codes and ids."""
    GENERAL = "GENERAL"
    """Anything else worth keeping: preferences, reasons, plans."""


@dataclass(frozen=True, slots=True)
class ProposedFact:
    """A fact as a summariser or the rules propose it, before it is in the ledger.

    Args:
        key: What it is about, in a few words; a later fact with the same key supersedes.
        value: What holds.
        category: Its kind.
        sources: The ids of the messages that say it; empty when they have no ids yet.
        importance: From 0 to 1: how much is lost when it is not in the prompt.
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
        id: Unique in its session.
        key: What it is about.
        value: What holds.
        category: Its kind.
        sources: The ids of the messages that say it.
        importance: From 0 to 1.
        segment: The first place (`seq`) of the leaf that it was read from; redoing the leaf redoes its facts.
        made_by: "model" or "rules".
        valid_from: When the newest message that says it was written (UTC).
        superseded_by: The id of the fact that took its place; `None` while it holds.
        removed: Whether a later leaf said that it no longer holds, with nothing in its place.
        grounded: Whether its sources say it. What a model made up is kept for inspection, and never shown to a model.
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
        """Whether it is so, and still is."""
        return self.grounded and self.superseded_by is None and not self.removed

    @property
    def line(self) -> str:
        """How it is shown: `- key: value`."""
        return f"- {' '.join(self.key.split())}: {' '.join(self.value.split())}"
