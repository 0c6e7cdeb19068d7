"""What a scope holds, ready to be compared with a new memory: by its words, its letters and its claims."""

from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise

from arc_common.memories import Memory, MemoryOutline, MemoryStatus
from arc_common.memory.long_term.claims import Claim
from arc_common.memory.long_term.contradictions import claims_of, conflict
from arc_common.memory.long_term.deduplication import folded
from arc_common.memory.long_term.similar_texts import SimilarTexts
from arc_common.protocols.memories import MemoryUpdates

__all__ = ["Holdings"]

_MOST_SIMILAR = 5
_STATUSES = (MemoryStatus.ACTIVE, MemoryStatus.PENDING, MemoryStatus.REJECTED)


class Holdings:
    """The memories of one scope at one version, without what no comparison needs.

    - Changed in place by `apply`; whoever shares it takes turns.
    - Looking for similar texts compares only those that can be similar.
    - Claims are read from a text when it comes, so that a contradiction is looked up and not searched for.
    """

    def __init__(self) -> None:
        self.version = 0
        self._outlines: dict[str, MemoryOutline] = {}
        self._folded: dict[str, str] = {}  # of those that are compared: they hold, wait or were rejected
        self._by_text: dict[str, dict[str, None]] = {}
        self._texts = SimilarTexts()
        self._claims: dict[str, tuple[Claim, ...]] = {}
        self._by_slot: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._outlines)

    def __iter__(self) -> Iterator[MemoryOutline]:
        return iter(list(self._outlines.values()))

    def __getitem__(self, memory_id: str) -> MemoryOutline:
        return self._outlines[memory_id]

    def get(self, memory_id: str) -> MemoryOutline | None:
        """The outline of a memory, if it is there."""
        return self._outlines.get(memory_id)

    @property
    def outlines(self) -> Collection[MemoryOutline]:
        """All of them."""
        return self._outlines.values()

    def apply(self, updates: MemoryUpdates) -> None:
        """Take over what has changed."""
        if updates.is_whole:
            named = {outline.id for outline in updates.outlines}
            self._drop([memory_id for memory_id in self._outlines if memory_id not in named])
        changed = [outline for outline in updates.outlines if self._outlines.get(outline.id) != outline]
        self._drop([outline.id for outline in changed])
        self._add(changed)
        self.version = updates.version

    def change(self, version: int, *, put: Iterable[MemoryOutline], removed: Iterable[str]) -> None:
        """Take over what was committed at this version."""
        outlines = list(put)
        self._drop([*(outline.id for outline in outlines), *removed])
        self._add(outlines)
        self.version = version

    def expect(self, memory: Memory) -> None:
        """Add a memory that is about to be stored."""
        self._add([MemoryOutline.of(memory)])

    def forget(self, ids: Iterable[str]) -> None:
        """Drop memories that were not stored."""
        self._drop(list(ids))

    def same_text(self, text: str) -> str | None:
        """The id of a memory with the same words: one that holds before one that waits, then one that was rejected."""
        ids = self._by_text.get(folded(text))
        if not ids:
            return None
        return min(ids, key=lambda memory_id: (_STATUSES.index(self[memory_id].status), memory_id))

    def similar(self, text: str, *, cutoff: float) -> list[str]:
        """The ids of the memories whose texts are more similar than the cutoff, the most similar first; at most five.

        By normalised Levenshtein similarity.
        """
        return self._texts.nearest(folded(text), above=cutoff, limit=_MOST_SIMILAR)

    def contradicted(self, text: str) -> list[str]:
        """The ids of the memories that hold and that the text contradicts."""
        claims = claims_of(text)
        candidates = {
            memory_id for claim in claims for slot in claim.opposed for memory_id in self._by_slot.get(slot, ())
        }
        return sorted(memory_id for memory_id in candidates if conflict(claims, self._claims[memory_id]))

    def at_odds(self) -> list[tuple[str, str]]:
        """The pairs of memories that hold and of which one contradicts the other, or has the same words."""
        pairs = set()
        for memory_id, claims in self._claims.items():
            opposed = {other for claim in claims for slot in claim.opposed for other in self._by_slot.get(slot, ())}
            for other in opposed - {memory_id}:
                if conflict(claims, self._claims[other]):
                    pairs.add((min(memory_id, other), max(memory_id, other)))
        for ids in self._by_text.values():
            pairs.update(pairwise(sorted(memory_id for memory_id in ids if self[memory_id].holds)))
        return sorted(pairs)

    def _add(self, outlines: list[MemoryOutline]) -> None:
        compared: dict[str, str] = {}
        for outline in outlines:
            self._outlines[outline.id] = outline
            if outline.superseded_by is not None:
                continue
            text = self._folded[outline.id] = compared[outline.id] = folded(outline.text)
            self._by_text.setdefault(text, {})[outline.id] = None
            if outline.holds and (claims := claims_of(outline.text)):
                self._claims[outline.id] = claims
                for claim in claims:
                    self._by_slot.setdefault(claim.slot, {})[outline.id] = None
        self._texts.add(compared)

    def _drop(self, ids: list[str]) -> None:
        for memory_id in ids:
            if self._outlines.pop(memory_id, None) is None:
                continue
            text = self._folded.pop(memory_id, None)
            if text is None:
                continue
            _discard(self._by_text, text, memory_id)
            self._texts.remove(memory_id)
            for claim in self._claims.pop(memory_id, ()):
                _discard(self._by_slot, claim.slot, memory_id)


def _discard(groups: dict[str, dict[str, None]], name: str, memory_id: str) -> None:
    group = groups[name]
    group.pop(memory_id, None)
    if not group:
        del groups[name]
