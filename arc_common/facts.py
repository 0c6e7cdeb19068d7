"""Facts: short statements that a conversation established, with the ids of the messages that state them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from enum import StrEnum
from typing import Self

from arc_common.exceptions import InvalidInputError
from arc_common.messages import local
from arc_common.trust import Trust

IN_REPLY = " (in reply to: "
"""Separates a value from the sentence that it answers: `HB-447 (in reply to: Which number do you have?)`."""


class FactCategory(StrEnum):
    """The kind of statement of a fact, with its hint to a model that extracts facts, and its importance from 0 to 1."""

    hint: str
    importance: float

    def __new__(cls, name: str, hint: str = "", importance: float = 0.5) -> Self:
        """Create a category from its row: name, hint and importance."""
        category = str.__new__(cls, name)
        category._value_ = name
        category.hint, category.importance = hint, importance
        return category

    ENTITY = "ENTITY", "who or what somebody or something is", 0.75
    """The identity of a person or thing: names, roles, relations, contact details."""
    DECISION = "DECISION", "chosen or agreed", 0.8
    """Choices, promises and agreements."""
    CONDITION = "CONDITION", "must, must not, only if", 0.9
    """Requirements and their conditions: prohibitions, constraints, allergies, "only if"."""
    STATE = "STATE", "how something is now", 0.65
    """Current states and changes."""
    NUMERIC = "NUMERIC", "amounts, dates, codes", 0.85
    """Amounts, money, dates, times, codes and ids."""
    GENERAL = "GENERAL"
    """Anything else worth keeping: preferences, reasons, plans."""


@dataclass(frozen=True, slots=True)
class ProposedFact:
    """A fact proposed by a summariser or the rules, before it is added to the ledger."""

    key: str  # the subject, for matching only; by rules the attribute that has one value ("email"), else empty
    value: str  # a sentence
    category: FactCategory
    sources: tuple[str, ...] = ()  # the ids of the messages that state it, if they have ids yet
    importance: float = 0.5  # from 0 to 1: how much its absence from the prompt would matter

    def __post_init__(self) -> None:
        if not self.value.strip():
            raise InvalidInputError("fact.value", self.value, "text that is not empty")
        if not 0.0 <= self.importance <= 1.0:
            raise InvalidInputError("fact.importance", self.importance, "a number from 0 to 1")

    @property
    def slot(self) -> str:
        """The name under which the fact is matched: its key, or else its value."""
        return self.key if self.key.strip() else self.value


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact in the ledger.

    Args:
        id: The fact's id, unique within the session.
        key: The subject in a few words, for matching only; may be empty.
        value: The statement: a sentence.
        category: The kind of statement.
        sources: The ids of the messages that state it.
        importance: From 0 to 1.
        segment: The first position (`seq`) of the leaf it was extracted from; redoing the leaf redoes its facts.
        made_by: The extractor: "model" or "rules"; "guard" for an excerpt that keeps values which no fact says.
        valid_from: The time of the newest message that states it (UTC).
        said_by: The speaker of that message: a name, or its role; empty if unknown.
        trust: The lowest trust among its sources.
        superseded_by: The id of the superseding fact; `None` if there is none.
        removed: True if a later leaf withdrew the fact without a replacement.
        grounded: True if the sources support it. Unsupported facts are kept for inspection, and never shown to a model.
        place: Its place among the facts of its leaf, in the order in which they were said, as stored.
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
    said_by: str = ""
    superseded_by: str | None = None
    removed: bool = False
    grounded: bool = True
    trust: Trust = Trust.USER
    place: int = field(default=0, compare=False)

    @property
    def is_excerpt(self) -> bool:
        """Return whether this only quotes values that no fact says; summaries show it, `session.facts()` does not."""
        return self.made_by == "guard"

    @property
    def is_current(self) -> bool:
        """Return whether the fact is grounded, and neither superseded nor removed."""
        return self.grounded and self.superseded_by is None and not self.removed

    @property
    def slot(self) -> str:
        """The name under which the fact is matched: its key, or else its value."""
        return self.key if self.key.strip() else self.value

    @property
    def user(self) -> str:
        """The name of the user who said it, as in a group chat; `""` for any other speaker."""
        return self.said_by if self.trust is Trust.USER and self.said_by != "user" else ""

    @property
    def text(self) -> str:
        """The statement on one line; a model's value that does not name its subject follows its key."""
        value, key = " ".join(self.value.split()), " ".join(self.key.split())
        if not key or self.made_by != "model":
            return value
        words = set(re.findall(r"\w+", value.casefold()))
        return f"{key}: {value}" if words.isdisjoint(re.findall(r"\w{3,}", key.casefold())) else value

    @property
    def line(self) -> str:
        """The fact as a line of the prompt: `- 2026-11-23, user: Our flight is TP 1234`."""
        day = f"{self.valid_from:%Y-%m-%d}" if self.valid_from.year > 1970 else ""  # undated
        source = ", ".join(filter(None, (day, " ".join(self.said_by.split()))))
        return f"- {source}: {self.text}" if source else f"- {self.text}"


def with_local_days(facts: Iterable[Fact], zone: tzinfo | None) -> list[Fact]:
    """Return facts whose lines show the days of a zone."""
    return [
        one if one.valid_from.tzinfo is zone else replace(one, valid_from=local(one.valid_from, zone)) for one in facts
    ]


def facts_at(facts: Iterable[Fact], moment: datetime) -> list[Fact]:
    """Return the facts that were valid at a given time, given all that were ever stated, in their order.

    A fact that was withdrawn without a successor is left out, because the time of its withdrawal is not kept.
    """
    every = list(facts)
    starts = {fact.id: fact.valid_from for fact in every}
    return [
        replace(fact, superseded_by=None)
        for fact in every
        if fact.grounded
        and not fact.removed
        and fact.valid_from <= moment
        and (fact.superseded_by is None or starts.get(fact.superseded_by, fact.valid_from) > moment)
    ]
