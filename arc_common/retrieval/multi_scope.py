"""Reads several scopes of an index as if they were one."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from arc_common.protocols.search_index import Candidates, EntryKind, IndexEntry, IndexQuery, IndexReader, Scope
from arc_common.retrieval.bm25 import best_places, inverse_document_frequencies

_SAME = 0.2
"""The largest difference between a term's relative idf in one scope and in all scopes that needs no second query. In
scopes of thousands of texts with their own words, .05, .1, .2 and .3 each kept all of the ten best among the candidates
(.987 to 1 of them without a second query); of scopes with shared words, one in a hundred is queried twice."""


@dataclass(frozen=True, slots=True)
class MultiScopeReader:
    """An `IndexReader` over several scopes as if they were one; a query's own scope is ignored."""

    store: IndexReader
    scopes: Sequence[Scope]
    embedder: str | None = None

    @staticmethod
    def apart(joint_id: str) -> tuple[int, str]:
        """Split an entry's joint id into its scope's position and its id there."""
        place, _, entry_id = joint_id.partition(" ")
        return int(place), entry_id

    def candidates(self, *queries: IndexQuery) -> list[Candidates]:
        """See `IndexReader`."""
        return [self._joint(query) for query in queries]

    def fetch(
        self,
        scope: Scope,  # noqa: ARG002 - the protocol's
        kind: EntryKind,
        ids: Sequence[str],
        *,
        vectors: bool = False,
    ) -> list[IndexEntry]:
        """See `IndexReader`."""
        entries = {
            f"{place} {entry.id}": entry
            for place, own in enumerate(self._named(ids))
            if own
            for entry in self.store.fetch(self.scopes[place], kind, own, vectors=vectors)
        }
        return [_under(one, entries[one]) for one in ids if one in entries]

    def _joint(self, query: IndexQuery) -> Candidates:
        named = None if query.ids is None else self._named(list(query.ids))
        own = [
            replace(query, scope=scope, vector=None, ids=None if named is None else named[place])
            for place, scope in enumerate(self.scopes)
        ]
        found = self.store.candidates(*own)
        count, total_length = sum(part.count for part in found), sum(part.total_length for part in found)
        frequencies = np.sum([part.document_frequencies for part in found], axis=0)
        rarity = inverse_document_frequencies(frequencies, count)
        anew = {}  # a term that is common in one user's notes may be rare in the others'
        for place, part in enumerate(found):
            if query.limit and len(part.ids) >= query.limit:
                alone = inverse_document_frequencies(part.document_frequencies, part.count)
                occurs = part.document_frequencies > 0
                if _differ(alone[occurs], rarity[occurs]):
                    weights = zip(query.terms.items(), (rarity / alone).tolist(), strict=True)
                    anew[place] = replace(own[place], terms={term: weight * rise for (term, weight), rise in weights})
        if anew:
            for place, part in zip(anew, self.store.candidates(*anew.values()), strict=True):
                found[place] = part
        embedding = self._embedding(found)
        return Candidates(
            ids=tuple(f"{place} {one}" for place, part in enumerate(found) for one in part.ids),
            frequencies=np.concatenate([part.frequencies for part in found]),
            lengths=np.concatenate([part.lengths for part in found]),
            document_frequencies=frequencies,
            count=count,
            total_length=total_length,
            embedding=embedding,
            near=self._near(query, own, [part.embedding == embedding for part in found]),
        )

    def _embedding(self, found: Sequence[Candidates]) -> tuple[str, int] | None:
        """Return the embedding that is searched: the embedder's own if a scope has it, else the first."""
        known = [part.embedding for part in found if part.embedding is not None]
        return next((one for one in known if one[0] == self.embedder), known[0] if known else None)

    def _near(
        self, query: IndexQuery, own: Sequence[IndexQuery], comparable: Sequence[bool]
    ) -> list[tuple[str, float]]:
        if query.vector is None:
            return []
        places = [place for place, fits in enumerate(comparable) if fits]
        asked = [replace(own[place], terms={}, vector=query.vector) for place in places]
        found = [
            (f"{place} {one}", cosine)
            for place, part in zip(places, self.store.candidates(*asked), strict=True)
            for one, cosine in part.near
        ]
        best = best_places([one for one, _ in found], np.array([cosine for _, cosine in found]), query.limit)
        return [found[place] for place in best]

    def _named(self, ids: Sequence[str]) -> list[list[str]]:
        """Group joint ids by scope."""
        named: list[list[str]] = [[] for _ in self.scopes]
        for one in ids:
            place, entry_id = self.apart(one)
            named[place].append(entry_id)
        return named


def _differ(own: NDArray[np.float64], joint: NDArray[np.float64]) -> bool:
    """Return whether relative idfs differ so much that other candidates may rank first."""
    return len(own) > 1 and bool(abs(own / own.max() - joint / joint.max()).max() > _SAME)


def _under(joint_id: str, entry: IndexEntry) -> IndexEntry:
    """Return the entry under its joint id, which may exceed the length that `replace` would accept."""
    joint = copy(entry)
    object.__setattr__(joint, "id", joint_id)
    return joint
