"""Services: the parts of an engine that everything about its memory uses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from arc_common.messages import local
from arc_common.model_calls import ModelHealth
from arc_common.observability import Observer
from arc_common.protocols import ChatModel, Embedder, Reranker, TokenCounter
from arc_common.protocols.search_index import EntryKind, Scope
from arc_common.retrieval import HybridIndex
from arc_common.retrieval.vectors import GuardedEmbedder

if TYPE_CHECKING:
    from arc_common.memory.long_term.contradictions import Contradictions
    from arc_common.protocols.conversations import Store
    from arc_common.settings import ArcSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The parts of an engine: built once, and passed whole."""

    store: "Store"
    settings: "ArcSettings"
    token_counter: TokenCounter
    observer: Observer
    clock: Callable[[], datetime]
    new_id: Callable[[], str]
    contradictions: "Contradictions"
    chat_model: ChatModel | None = None
    embedder: Embedder | None = None
    reranker: Reranker | None = None
    models: ModelHealth = field(default_factory=ModelHealth)

    def index(
        self, scope: Scope, kind: EntryKind, *, others: Sequence[Scope] = (), embedder: Embedder | None = None
    ) -> HybridIndex:
        """Return the hybrid index of a scope and kind, with the engine's embedder unless another is given."""
        return HybridIndex(
            self.store.index,
            scope=scope,
            others=others,
            kind=kind,
            embedder=embedder or self.embedder,
            drop_stop_words=kind != "document" or self.settings.rag.drop_stop_words,
            batch_size=self.settings.embeddings.batch_size,
            observer=self.observer,
            models=self.models,
        )

    def guarded_embedder(self) -> GuardedEmbedder | None:
        """Return the engine's embedder, whose failures only cost vectors; `None` without one."""
        return None if self.embedder is None else GuardedEmbedder(self.embedder, self.observer, self.models)

    def local(self, moment: datetime) -> datetime:
        """Return a time in the clock's zone, whose days prompts show."""
        return local(moment, self.clock().tzinfo)
