"""A session's facts, ready for questions: those that are not always shown come back when a question is about them."""

from collections.abc import Callable, Collection, Sequence

from arc_common.assembly import RecalledFact
from arc_common.facts import Fact
from arc_common.memory.recall import SessionIndex

__all__ = ["FactIndex"]

_IMPORTANT = 0.25
"""From this importance on a fact is shown also when the question is about something else, if there is room."""
_MOST_GONE = 1_000


class FactIndex:
    """The facts that hold, each analysed and counted once. Never changes; safe to share between threads.

    Args:
        facts: The facts, the most important first.
        count: Counts a line's tokens.
        earlier: An index of some of them, whose work is taken over.
    """

    def __init__(
        self, facts: Sequence[Fact], *, count: Callable[[str], int], earlier: "FactIndex | None" = None
    ) -> None:
        self._lines: dict[str, RecalledFact] = {}
        if earlier is None or len(earlier._lines) > len(facts) + _MOST_GONE:  # noqa: SLF001 - its own kind
            self._index = SessionIndex(window_terms=0)
        else:
            self._index, self._lines = earlier._index, dict(earlier._lines)  # noqa: SLF001 - its own kind
        new = [fact for fact in facts if fact.id not in self._lines]
        self._lines.update((fact.id, RecalledFact(fact.id, fact.line, count(fact.line))) for fact in new)
        self._index.extend((fact.id, f"{fact.key} {fact.value}") for fact in new)
        self._facts = tuple(facts)

    def search(
        self, query: str, *, top_k: int, boundary: int, pinned: Collection[str]
    ) -> tuple[list[RecalledFact], int]:
        """Those that the question is about, best first, and behind them the most important others; how many more.

        Args:
            query: The question.
            top_k: At most so many.
            boundary: Only facts of leaves up to there: what lies behind it is shown as it was said.
            pinned: The ids of those that are shown anyway.
        """
        shown = set(pinned)
        asked = {fact.id: fact for fact in self._facts if fact.segment <= boundary and fact.id not in shown}
        if not asked:
            return [], 0
        # texts of facts that are not in question are in the index too: they must not take the places
        found = self._index.search(query, top_k=top_k + len(self._lines) - len(asked)) if query else []
        about = [fact_id for fact_id, _ in found if fact_id in asked]
        important = (fact.id for fact in asked.values() if fact.importance >= _IMPORTANT)
        best = list(dict.fromkeys([*about, *important]))[:top_k]
        return [self._lines[fact_id] for fact_id in best], len(asked) - len(best)
