"""What an engine's sessions share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from arc_common.exceptions import EngineClosedError
from arc_common.messages import Message
from arc_common.observability import Observer
from arc_common.protocols import ChatModel, ConversationStore, Embedder, TokenCounter
from arc_common.tokens.budget import DEFAULT_SECTIONS, TokenBudget
from arc_common.tokens.cached import CachedTokenCounter
from arc_common.workers import Workers

if TYPE_CHECKING:
    from arc_common.memory.hierarchy import HierarchicalMemory
    from arc_common.settings import ArcSettings

__all__ = ["Runtime", "SaveErrorHandler"]

SaveErrorHandler = Callable[[Exception, Sequence[Message]], None]
"""Called with the error and the messages of a turn that could not be saved."""


@dataclass(slots=True)
class Runtime:
    """The store, the counter, the models and the clock behind every session of one engine."""

    conversations: ConversationStore
    settings: "ArcSettings"
    token_counter: TokenCounter
    chat_model: ChatModel | None
    embedder: Embedder | None
    observer: Observer
    on_save_error: SaveErrorHandler | None
    clock: Callable[[], datetime]
    new_id: Callable[[], str]
    workers: Workers
    hierarchy: "HierarchicalMemory | None" = None
    closed: bool = False
    context_counter: CachedTokenCounter = field(init=False)

    def __post_init__(self) -> None:
        self.context_counter = CachedTokenCounter(self.token_counter)

    @property
    def store(self) -> ConversationStore:
        """Where conversations are kept.

        Raises:
            EngineClosedError: The engine was closed.
        """
        if self.closed:
            raise EngineClosedError("the engine is closed")
        return self.conversations

    @property
    def memory(self) -> "HierarchicalMemory | None":
        """What summarises its conversations, if summaries are on."""
        return None if self.closed else self.hierarchy

    @property
    def layers_ceiling(self) -> int:
        """The most tokens that facts, summary and recalled facts take together."""
        return self.settings.budget.facts + self.settings.summary.max_narrative_tokens + self.settings.budget.memory

    def default_budget(self) -> TokenBudget:
        """The settings' budget."""
        settings = self.settings
        shares = settings.budget
        sections = {
            "facts": replace(DEFAULT_SECTIONS["facts"], ceiling=shares.facts, share=shares.facts_share),
            "narrative": replace(DEFAULT_SECTIONS["narrative"], ceiling=settings.summary.max_narrative_tokens),
            "memory": replace(DEFAULT_SECTIONS["memory"], ceiling=shares.memory),
            "documents": replace(DEFAULT_SECTIONS["documents"], ceiling=shares.documents),
        }
        budget = TokenBudget(settings.budget.context_window, settings.budget.output_reserve, sections)
        most = settings.conversation.max_context_tokens
        if most is None or most >= budget.input_tokens:
            return budget
        return TokenBudget(most, 0, sections)
