"""Moved to `arc_common.facts`, below the stores; this name goes when its users have."""

from arc_common.facts import FactCategory, ProposedFact

__all__ = ["FactCategory", "ProposedFact"]
