"""Wraps an embedder so that its failures only cost vectors."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from arc_common.exceptions import InvalidInputError
from arc_common.observability import Observer
from arc_common.protocols import Embedder, QueryEmbedder
from arc_common.protocols.search_index import IndexEntry, unit_vector

if TYPE_CHECKING:  # numpy takes a tenth of a second, which importing arc must not cost
    import numpy as np
    from numpy.typing import NDArray

_log = logging.getLogger("arc.retrieval")


class GuardedEmbedder:
    """Makes vectors of length 1; counts, logs and omits those that it can't make."""

    def __init__(self, embedder: Embedder, observer: Observer) -> None:
        if not isinstance(embedder, Embedder):
            raise InvalidInputError("embedder", embedder, "an Embedder: a name, and embed(texts)")
        self._embedder = embedder
        self._observer = observer

    @property
    def name(self) -> str:
        """The embedder's name."""
        return self._embedder.name

    def accepts(self, stored: tuple[str, int] | None) -> bool:
        """Return whether the stored vectors are from the embedder of this name; log a warning if not."""
        if stored is None or stored[0] == self.name:
            return True
        _log.warning(
            "the stored vectors are from %s, not from %s: only words are used until `re_embed`", stored[0], self.name
        )
        self._observer.count("index.other_embedder", embedder=self.name)
        return False

    def check(self, stored: tuple[str, int] | None) -> None:
        """Raise `InvalidInputError` if the stored vectors are from another embedder."""
        if stored is not None and stored[0] != self.name:
            expected = f"{stored[0]!r}, which made the stored vectors (`re_embed` replaces them)"
            raise InvalidInputError("embedder", self.name, expected)

    def of_query(self, text: str, dimension: int | None = None) -> "NDArray[np.float32] | None":
        """Embed a query; return `None` if that fails or gives another dimension."""
        made = self._vectors([text], embed=self._embed_queries, dimension=dimension)
        return None if made is None else made[0]

    def of_entries(
        self, entries: Sequence[IndexEntry], stored: tuple[str, int] | None = None
    ) -> tuple[list[IndexEntry], bool]:
        """Return the entries with vectors of the stored dimension added, and whether the embedder works."""
        # Some services refuse a whole batch for one empty text.
        places = [place for place, entry in enumerate(entries) if entry.vector is None and entry.text.strip()]
        texts = [entries[place].text for place in places]
        dimension = stored[1] if stored else None
        made = self._vectors(texts, embed=self._embedder.embed, dimension=dimension) if places else []
        embedded = list(entries)
        for place, vector in zip(places, made or (), strict=False):
            if vector is not None:
                embedded[place] = replace(entries[place], vector=vector, embedder=self.name)
        return embedded, made is not None

    def _embed_queries(self, texts: Sequence[str]) -> list[list[float]]:
        embedder = self._embedder
        if isinstance(embedder, QueryEmbedder):
            return [embedder.embed_query(text) for text in texts]
        return embedder.embed(texts)

    def _vectors(
        self, texts: Sequence[str], *, embed: Callable[[Sequence[str]], list[list[float]]], dimension: int | None
    ) -> "list[NDArray[np.float32] | None] | None":
        """Embed texts; return `None` for each unusable vector (models may give NaN), or for the call if it failed."""
        try:
            made = list(embed(texts))
            if len(made) != len(texts):
                raise ValueError(f"{len(made)} vectors for {len(texts)} texts")  # noqa: TRY301 - a failure like others
        except Exception as error:  # noqa: BLE001 - whatever a model's client raises: words must still be found
            _log.warning("the embedder %s failed: %s", self.name, type(error).__name__, exc_info=True)
            self._observer.count("index.embedder_errors", embedder=self.name)
            return None
        vectors = [_usable(vector) for vector in made]
        dimension = dimension or next((len(vector) for vector in vectors if vector is not None), None)
        vectors = [None if vector is None or len(vector) != dimension else vector for vector in vectors]
        if unusable := sum(vector is None for vector in vectors):
            self._observer.count("index.unusable_vectors", unusable, embedder=self.name)
        return vectors


def _usable(vector: Sequence[float]) -> "NDArray[np.float32] | None":
    try:
        return unit_vector("vector", vector)
    except InvalidInputError:
        return None
