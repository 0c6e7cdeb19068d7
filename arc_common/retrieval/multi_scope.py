"""Reads several scopes of an index as if they were one."""

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arc_common.documents import best_places
from arc_common.filters import Filter
from arc_common.protocols.search_index import EntryKind, IndexEntry, IndexReader, LexicalCandidates, Scope
from arc_common.retrieval.bm25 import inverse_document_frequencies

if TYPE_CHECKING:  # numpy takes a tenth of a second, which importing arc must not cost
    import numpy as np
    from numpy.typing import NDArray

_SAME = 0.2
"""The largest difference between a term's relative idf in one scope and in all scopes that needs no second query. In
scopes of thousands of texts with their own words, .05, .1, .2 and .3 each kept all of the ten best among the candidates
(.987 to 1 of them without a second query); of scopes with shared words, one in a hundred is queried twice."""


@dataclass(frozen=True, slots=True)
class MultiScopeReader:
    """An `IndexReader` that reads several scopes as if they were one, with the statistics of all of them.

    - An entry's joint id consists of its scope's position and its own id (see `apart`).
    - If a scope has more candidates than wanted, the best by the idf of all scopes are chosen: a term that is common in
      one user's notes may be rare in the others'.
    - The scope passed to a method is ignored in favour of the scopes in `parts`.
    - Vectors are read from the `embedded` scopes only, whose embedder and dimension are `stored`.
    """

    parts: Sequence[tuple[IndexReader, Scope]]
    stored: tuple[str, int] | None = None
    embedded: frozenset[int] = frozenset()

    @staticmethod
    def apart(joint_id: str) -> tuple[int, str]:
        """Split a joint id into the scope's position and the entry's id there."""
        place, _, entry_id = joint_id.partition(" ")
        return int(place), entry_id

    def embedding(self, scope: Scope, kind: EntryKind) -> tuple[str, int] | None:  # noqa: ARG002 - the protocol's
        """See `IndexReader`."""
        return self.stored

    def lexical(
        self,
        scope: Scope,  # noqa: ARG002 - the protocol's
        kind: EntryKind,
        terms: Mapping[str, float],
        *,
        filters: Filter | None = None,
        ids: Collection[str] | None = None,
        limit: int,
    ) -> LexicalCandidates:
        """See `IndexReader`."""
        import numpy as np  # noqa: PLC0415 - see above

        named = self._named(ids)

        def of_part(place: int, weights: Mapping[str, float]) -> LexicalCandidates:
            reader, own = self.parts[place]
            chosen = None if ids is None else named[place]
            return reader.lexical(own, kind, weights, filters=filters, ids=chosen, limit=limit)

        found = [of_part(place, terms) for place in range(len(self.parts))]
        count, total_length = sum(part.count for part in found), sum(part.total_length for part in found)
        frequencies = np.sum([part.document_frequencies for part in found], axis=0)
        rarity = inverse_document_frequencies(frequencies, count)
        for place, part in enumerate(found):
            if limit and len(part.ids) >= limit:
                own = inverse_document_frequencies(part.document_frequencies, part.count)
                occurs = part.document_frequencies > 0
                if _differ(own[occurs], rarity[occurs]):
                    weights = zip(terms.items(), (rarity / own).tolist(), strict=True)
                    found[place] = of_part(place, {term: weight * rise for (term, weight), rise in weights})
        return LexicalCandidates(
            ids=tuple(f"{place} {one}" for place, part in enumerate(found) for one in part.ids),
            frequencies=np.concatenate([part.frequencies for part in found]),
            lengths=np.concatenate([part.lengths for part in found]),
            document_frequencies=frequencies,
            count=count,
            total_length=total_length,
        )

    def dense(
        self,
        scope: Scope,  # noqa: ARG002 - the protocol's
        kind: EntryKind,
        vector: "NDArray[np.float32]",
        *,
        embedder: str,
        filters: Filter | None = None,
        ids: Collection[str] | None = None,
        limit: int,
        exact: bool = False,
    ) -> list[tuple[str, float]]:
        """See `IndexReader`."""
        import numpy as np  # noqa: PLC0415 - see above

        named = self._named(ids)
        found: list[tuple[str, float]] = []
        for place in sorted(self.embedded):
            reader, own = self.parts[place]
            chosen = None if ids is None else named[place]
            near = reader.dense(
                own, kind, vector, embedder=embedder, filters=filters, ids=chosen, limit=limit, exact=exact
            )
            found += [(f"{place} {one}", cosine) for one, cosine in near]
        best = best_places([one for one, _ in found], np.array([cosine for _, cosine in found]), limit)
        return [found[place] for place in best]

    def vectors(
        self,
        scope: Scope,  # noqa: ARG002 - the protocol's
        kind: EntryKind,
        ids: Collection[str],
    ) -> "dict[str, NDArray[np.float32]]":
        """See `IndexReader`."""
        return {
            f"{place} {one}": vector
            for place, named in self._named(ids).items()
            if place in self.embedded
            for one, vector in self.parts[place][0].vectors(self.parts[place][1], kind, named).items()
        }

    def fetch(self, scope: Scope, kind: EntryKind, ids: Sequence[str]) -> list[IndexEntry]:  # noqa: ARG002 - as above
        """See `IndexReader`."""
        entries = {
            f"{place} {entry.id}": entry
            for place, named in self._named(ids).items()
            for entry in self.parts[place][0].fetch(self.parts[place][1], kind, named)
        }
        return [_under(one, entries[one]) for one in ids if one in entries]

    def _named(self, ids: Collection[str] | None) -> dict[int, list[str]]:
        """Group joint ids by scope."""
        named: dict[int, list[str]] = {place: [] for place in range(len(self.parts))}
        for one in ids or ():
            place, entry_id = self.apart(one)
            named[place].append(entry_id)
        return named


def _differ(own: "NDArray[np.float64]", joint: "NDArray[np.float64]") -> bool:
    """Return whether relative idfs differ so much that other candidates may rank first."""
    return len(own) > 1 and bool(abs(own / own.max() - joint / joint.max()).max() > _SAME)


def _under(joint_id: str, entry: IndexEntry) -> IndexEntry:
    """Return the entry under its joint id, which may exceed the length that `replace` would accept."""
    joint = copy(entry)
    object.__setattr__(joint, "id", joint_id)
    return joint
