"""What is remembered of a conversation besides the messages that are shown."""

from dataclasses import dataclass
from typing import NamedTuple

from arc_common.context_window import LeftOut

__all__ = ["NOTHING", "NO_LAYERS", "Layers", "RecalledFact"]

NOTHING = LeftOut(0, 0)


class RecalledFact(NamedTuple):
    """A fact for this question: its id, its line, and that line's tokens as counted, without correction."""

    id: str
    line: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Layers:
    """What is remembered of a conversation besides the messages shown.

    Args:
        facts: The pinned facts' lines.
        fact_ids: Their ids.
        narrative: The summary.
        instructions: System messages that summaries stand for.
        recalled: Further facts for this question, best first.
        not_recalled: The facts that are neither pinned nor recalled.
        not_narrated: The summary's parts that its ceiling left no room for.
        idle_note: A word on how long ago the conversation was last active, if that is to be said.
    """

    facts: tuple[str, ...] = ()
    fact_ids: tuple[str, ...] = ()
    narrative: str = ""
    instructions: tuple[str, ...] = ()
    recalled: tuple[RecalledFact, ...] = ()
    not_recalled: LeftOut = NOTHING
    not_narrated: LeftOut = NOTHING
    idle_note: str = ""

    @property
    def narrative_lines(self) -> tuple[str, ...]:
        """The summary's lines, the oldest time first."""
        return tuple(self.narrative.splitlines())


NO_LAYERS = Layers()
