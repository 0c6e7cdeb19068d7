"""What a search looks through: one scope of an index store, or several as if they were one."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from arc_common.exceptions import InvalidInputError
from arc_common.filters import Filter
from arc_common.indexing import EntryKind, IndexEntry, IndexStore, LexicalCandidates, Scope
from arc_common.ranking import best_places

if TYPE_CHECKING:  # numpy takes a tenth of a second, which importing arc must not cost
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["OneScope", "Searched", "SeveralScopes"]


class Searched(Protocol):
    """The half of an `IndexStore` that a search needs, for the scopes that it is about."""

    def embedding(self) -> tuple[str, int] | None:
        """The embedder of the vectors that are there, and their dimension."""

    def lexical(self, terms: Mapping[str, float], *, filters: Filter | None, limit: int) -> LexicalCandidates:
        """See `IndexStore.lexical`."""

    def dense(
        self,
        vector: "NDArray[np.float32]",
        *,
        embedder: str,
        filters: Filter | None = None,
        ids: Collection[str] | None = None,
        limit: int,
        exact: bool = False,
    ) -> list[tuple[str, float]]:
        """See `IndexStore.dense`."""

    def vectors(self, ids: Collection[str]) -> "dict[str, NDArray[np.float32]]":
        """See `IndexStore.vectors`."""

    def fetch(self, ids: Sequence[str]) -> list[IndexEntry]:
        """See `IndexStore.fetch`."""


@dataclass(frozen=True, slots=True)
class OneScope:
    """One scope and kind of a store."""

    store: IndexStore
    scope: Scope
    kind: EntryKind

    def embedding(self) -> tuple[str, int] | None:
        """See `Searched`."""
        return self.store.embedding(self.scope, self.kind)

    def lexical(self, terms: Mapping[str, float], *, filters: Filter | None, limit: int) -> LexicalCandidates:
        """See `Searched`."""
        return self.store.lexical(self.scope, self.kind, terms, filters=filters, limit=limit)

    def dense(
        self,
        vector: "NDArray[np.float32]",
        *,
        embedder: str,
        filters: Filter | None = None,
        ids: Collection[str] | None = None,
        limit: int,
        exact: bool = False,
    ) -> list[tuple[str, float]]:
        """See `Searched`."""
        where = self.scope, self.kind
        return self.store.dense(*where, vector, embedder=embedder, filters=filters, ids=ids, limit=limit, exact=exact)

    def vectors(self, ids: Collection[str]) -> "dict[str, NDArray[np.float32]]":
        """See `Searched`."""
        return self.store.vectors(self.scope, self.kind, ids)

    def fetch(self, ids: Sequence[str]) -> list[IndexEntry]:
        """See `Searched`."""
        return self.store.fetch(self.scope, self.kind, ids)


@dataclass(frozen=True, slots=True)
class SeveralScopes:
    """Several, with the statistics of all of them; an entry's id is its scope's place and its own (see `apart`)."""

    parts: Sequence[Searched]

    @staticmethod
    def apart(joint_id: str) -> tuple[int, str]:
        """The place of the scope, and the entry's id there."""
        place, _, entry_id = joint_id.partition(" ")
        return int(place), entry_id

    def embedding(self) -> tuple[str, int] | None:
        """See `Searched`.

        Raises:
            InvalidInputError: The scopes' vectors are of different embedders.
        """
        different = sorted({embedding for part in self.parts if (embedding := part.embedding()) is not None})
        if len(different) > 1:
            raise InvalidInputError("embedder", different[1], f"that of the other vectors, {different[0]}")
        return different[0] if different else None

    def lexical(self, terms: Mapping[str, float], *, filters: Filter | None, limit: int) -> LexicalCandidates:
        """See `Searched`."""
        import numpy as np  # noqa: PLC0415 - see above

        found = [part.lexical(terms, filters=filters, limit=limit) for part in self.parts]
        return LexicalCandidates(
            ids=tuple(f"{place} {one}" for place, part in enumerate(found) for one in part.ids),
            frequencies=np.concatenate([part.frequencies for part in found]),
            lengths=np.concatenate([part.lengths for part in found]),
            document_frequencies=np.sum([part.document_frequencies for part in found], axis=0),
            count=sum(part.count for part in found),
            total_length=sum(part.total_length for part in found),
        )

    def dense(
        self,
        vector: "NDArray[np.float32]",
        *,
        embedder: str,
        filters: Filter | None = None,
        ids: Collection[str] | None = None,
        limit: int,
        exact: bool = False,
    ) -> list[tuple[str, float]]:
        """See `Searched`."""
        import numpy as np  # noqa: PLC0415 - see above

        named = self._named(ids)
        found: list[tuple[str, float]] = []
        for place, part in enumerate(self.parts):
            own = None if ids is None else named[place]
            if own is None or own:
                near = part.dense(vector, embedder=embedder, filters=filters, ids=own, limit=limit, exact=exact)
                found += [(f"{place} {one}", cosine) for one, cosine in near]
        best = best_places([one for one, _ in found], np.array([cosine for _, cosine in found]), limit)
        return [found[place] for place in best]

    def vectors(self, ids: Collection[str]) -> "dict[str, NDArray[np.float32]]":
        """See `Searched`."""
        return {
            f"{place} {one}": vector
            for place, named in self._named(ids).items()
            for one, vector in self.parts[place].vectors(named).items()
        }

    def fetch(self, ids: Sequence[str]) -> list[IndexEntry]:
        """See `Searched`."""
        entries = {
            f"{place} {entry.id}": entry
            for place, named in self._named(ids).items()
            for entry in self.parts[place].fetch(named)
        }
        return [replace(entries[one], id=one) for one in ids if one in entries]

    def _named(self, ids: Collection[str] | None) -> dict[int, list[str]]:
        """The ids in each of the scopes."""
        named: dict[int, list[str]] = {place: [] for place in range(len(self.parts))}
        for one in ids or ():
            place, entry_id = self.apart(one)
            named[place].append(entry_id)
        return named
