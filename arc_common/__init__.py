"""Arc's engine selects what a language model sees on each turn within a token budget. Independent of frameworks."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from arc_common.documents import Document, ScoredDocument
from arc_common.engine.context_engine import ContextEngine
from arc_common.exceptions import (
    ArcError,
    ArchiveError,
    BranchNotFoundError,
    BudgetExceededError,
    CandidateNotFoundError,
    ConfigurationError,
    ConversationDeletedError,
    EngineClosedError,
    InvalidInputError,
    MemoryConflictError,
    MemoryNotFoundError,
    MissingDependencyError,
    ModelCallError,
    NotFoundError,
    ReviewConflictError,
    SessionNotFoundError,
    StoreError,
    StoreUnavailableError,
    SummaryFailedError,
)
from arc_common.facts import Fact, FactCategory
from arc_common.memories import Memory, MemoryStatus, MemoryType, ScoredMemory
from arc_common.messages import ContentPart, Message, Origin, Role, ToolCall
from arc_common.observability import Health
from arc_common.protocols import Branch, Conversation, ConversationPage, ConversationStatus
from arc_common.protocols.summaries import Compaction, ConversationSummary, ScoredMessage
from arc_common.tokens.budget import SectionBudget, TokenBudget

if TYPE_CHECKING:
    from arc_common.context import ContextWindow, Item, LeftOut, Omission, Receipt, Section
    from arc_common.engine.admin import SessionDebug
    from arc_common.engine.receipts import SentRequest, with_receipt
    from arc_common.engine.session import Session
    from arc_common.model_calls import SerialChatModel
    from arc_common.protocols.review import Candidate, CandidatePage, CandidateStatus
    from arc_common.settings import ArcSettings, IngestionPolicy
    from arc_common.tokens.calibration import CalibratedTokenCounter
    from arc_common.tokens.counters import HeuristicTokenCounter, TiktokenCounter

__version__ = "0.1.0"

__all__ = [
    "ArcError",
    "ArcSettings",
    "ArchiveError",
    "Branch",
    "BranchNotFoundError",
    "BudgetExceededError",
    "CalibratedTokenCounter",
    "Candidate",
    "CandidateNotFoundError",
    "CandidatePage",
    "CandidateStatus",
    "Compaction",
    "ConfigurationError",
    "ContentPart",
    "ContextEngine",
    "ContextWindow",
    "Conversation",
    "ConversationDeletedError",
    "ConversationPage",
    "ConversationStatus",
    "ConversationSummary",
    "Document",
    "EngineClosedError",
    "Fact",
    "FactCategory",
    "Health",
    "HeuristicTokenCounter",
    "IngestionPolicy",
    "InvalidInputError",
    "Item",
    "LeftOut",
    "Memory",
    "MemoryConflictError",
    "MemoryNotFoundError",
    "MemoryStatus",
    "MemoryType",
    "Message",
    "MissingDependencyError",
    "ModelCallError",
    "NotFoundError",
    "Omission",
    "Origin",
    "Receipt",
    "ReviewConflictError",
    "Role",
    "ScoredDocument",
    "ScoredMemory",
    "ScoredMessage",
    "Section",
    "SectionBudget",
    "SentRequest",
    "SerialChatModel",
    "Session",
    "SessionDebug",
    "SessionNotFoundError",
    "StoreError",
    "StoreUnavailableError",
    "SummaryFailedError",
    "TiktokenCounter",
    "TokenBudget",
    "ToolCall",
    "__version__",
    "with_receipt",
]


_LAZY = {
    "ArcSettings": "settings",
    "CalibratedTokenCounter": "tokens.calibration",
    "Candidate": "protocols.review",
    "CandidatePage": "protocols.review",
    "CandidateStatus": "protocols.review",
    "ContextWindow": "context",
    "HeuristicTokenCounter": "tokens.counters",
    "IngestionPolicy": "settings",
    "Item": "context",
    "LeftOut": "context",
    "Omission": "context",
    "Receipt": "context",
    "Section": "context",
    "SentRequest": "engine.receipts",
    "SerialChatModel": "model_calls",
    "Session": "engine.session",
    "SessionDebug": "engine.admin",
    "TiktokenCounter": "tokens.counters",
    "with_receipt": "engine.receipts",
}
"""The submodules of the names that are imported on first use."""


def __getattr__(name: str) -> Any:
    """Import a name on first use: settings and the building of a context take half a second to import."""
    if name in _LAZY:
        return getattr(import_module(f"arc_common.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
