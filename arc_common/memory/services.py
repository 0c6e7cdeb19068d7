"""Services: the parts of an engine that everything about its memory uses."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from arc_common.facts import local
from arc_common.model_calls import ModelHealth
from arc_common.observability import Observer
from arc_common.protocols import ChatModel, Embedder, Reranker, TokenCounter

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

    def local(self, moment: datetime) -> datetime:
        """Return a time in the clock's zone, whose days prompts show."""
        return local(moment, self.clock().tzinfo)
