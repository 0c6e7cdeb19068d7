"""Artifacts: what a session gathered besides its messages, and how a model gets to see it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

__all__ = ["Artifact", "ArtifactKind", "ScoredArtifact"]

ArtifactKind = Literal["tools", "facts", "summary"]
"""What tools and searches brought; and what the conversation's own memory keeps: its facts, and its summary."""

_SHOWN_SOURCE = 120
"""Characters. An address with all its parameters would cost more than what was found there."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A piece of what a session gathered.

    Args:
        id: Its identity within session and kind.
        kind: What it is.
        text: What it says.
        source: Where it comes from, in one line: a tool's name, an address.
        created_at: When it was gathered; `None` where that is not known.
        metadata: JSON values. Of tool snippets also `session_id`, `memory_type` (the kind) and `chunk_index` (from 0).
    """

    id: str
    kind: ArtifactKind
    text: str
    source: str = ""
    created_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScoredArtifact:
    """An artifact that is shown for a question.

    Args:
        artifact: The artifact.
        score: How much of the question it answers, from 0 to 1.
        excerpts: What is shown of it, in its order: verbatim sentences, but for white space.
        score_parts: What the score was made from, and what found it.
    """

    artifact: Artifact
    score: float
    excerpts: tuple[str, ...] = ()
    score_parts: Mapping[str, float] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """How it is shown: a list's item in one line, whatever stands in it; a tool's with source and day."""
        text = " … ".join(" ".join(excerpt.split()) for excerpt in self.excerpts)
        if self.artifact.kind != "tools":
            return f"- {text}"
        when = f", {self.artifact.created_at:%Y-%m-%d}" if self.artifact.created_at else ""
        source = " ".join(self.artifact.source.split())
        shown = source if len(source) <= _SHOWN_SOURCE else f"{source[:_SHOWN_SOURCE]}…"
        return f"- [{shown}{when}] {text}"
