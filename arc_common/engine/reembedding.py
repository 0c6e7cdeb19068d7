"""Replaces all vectors after a change of the embedder, scope by scope."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING
from uuid import uuid4

from arc_common.concurrency import BackgroundQueue
from arc_common.engine.user_data import Progress
from arc_common.exceptions import InvalidInputError
from arc_common.model_calls import EMBEDDER
from arc_common.protocols import Embedder
from arc_common.protocols.search_index import EntryKind, IndexQuery, OutdatedVectors, Scope

if TYPE_CHECKING:
    from arc_common.engine.runtime import Runtime

_log = logging.getLogger("arc.background")

_LEASE_SECONDS = 120.0
"""Longer than an embedder may take for one batch, with all attempts."""
_LOOK_SECONDS = 600.0
"""The wait between two looks for vectors of another embedder."""


@dataclass(frozen=True, slots=True)
class VectorsMade:
    """The number of scopes whose vectors were replaced, of vectors made, and of scopes that are not complete yet."""

    scopes: int = 0
    vectors: int = 0
    unfinished: int = 0


class VectorRenewal:
    """Finds scopes whose vectors are from another embedder than the engine's, and replaces these."""

    def __init__(self, runtime: "Runtime") -> None:
        self._runtime = runtime
        self._owner = uuid4().hex
        self._next_look = 0.0
        self.queue: BackgroundQueue[str] = BackgroundQueue(self._in_background, threads=1, on_error=self._count_error)

    @property
    def is_due(self) -> bool:
        """Return whether it is time to look for vectors of another embedder."""
        return self._runtime.embedder is not None and monotonic() >= self._next_look

    def schedule(self) -> None:
        """Schedule a check for such vectors, at most every ten minutes; `arc worker` checks by itself."""
        if self.is_due and self._runtime.settings.background.in_process:
            self._next_look = monotonic() + _LOOK_SECONDS
            self.queue.schedule("vectors")

    def run(
        self, *, everything: bool = False, stop: Callable[[], bool] = bool, progress: Progress | None = None
    ) -> VectorsMade:
        """Replace all vectors of other embedders; with `everything`, also make missing ones: see `OutdatedVectors`."""
        runtime, index = self._runtime, self._runtime.store.index
        self._next_look = monotonic() + _LOOK_SECONDS
        scopes = vectors = unfinished = 0
        place: tuple[Scope, EntryKind] | None = None
        embedder = runtime.embedder
        if embedder is None or not isinstance(index, OutdatedVectors):
            return VectorsMade()
        while not stop() and EMBEDDER not in runtime.services.models.problems():
            place = index.claim_outdated(
                embedder.name,
                owner=self._owner,
                now=runtime.clock(),
                seconds=_LEASE_SECONDS,
                after=place,
                everything=everything,
            )
            if place is None:
                break
            try:
                vectors += self._renew(embedder, *place, partial(self._should_stop, index, place, stop))
            except InvalidInputError as error:  # the embedder's vectors have another dimension than before
                _log.warning("vectors of %s (%s) were not replaced: %s", *place, error)
                self._count_error(error)
            finally:
                index.keep_outdated(*place, owner=self._owner, now=runtime.clock(), seconds=0)
            is_complete = not self._is_outdated(embedder, *place)
            scopes, unfinished = scopes + is_complete, unfinished + (not is_complete)
            if progress is not None:
                progress(vectors)
        return VectorsMade(scopes, vectors, unfinished)

    def _in_background(self, _: str) -> None:
        self.run(stop=lambda: self.queue.stopping)

    def _should_stop(self, index: OutdatedVectors, place: tuple[Scope, EntryKind], stop: Callable[[], bool]) -> bool:
        """Renew the claim; return whether to stop, as another process has taken it over or `stop` says so."""
        now = self._runtime.clock()
        return stop() or not index.keep_outdated(*place, owner=self._owner, now=now, seconds=_LEASE_SECONDS)

    def _renew(self, embedder: Embedder, scope: Scope, kind: EntryKind, stop: Callable[[], bool]) -> int:
        if kind == "message":
            return self._runtime.recall.re_embed(scope, stop=stop)
        own = self._runtime.services.index(scope, kind)
        return own.re_embed(stop=stop) if self._is_outdated(embedder, scope, kind) else own.embed_pending()

    def _is_outdated(self, embedder: Embedder, scope: Scope, kind: EntryKind) -> bool:
        stored = self._runtime.store.index.candidates(IndexQuery(scope, kind))[0].embedding
        return stored is not None and stored[0] != embedder.name

    def _count_error(self, error: Exception) -> None:
        self._runtime.observer.count("background.errors", error=type(error).__name__)
