"""All settings of arc, with their units, defaults, bounds and environment variables."""

from arc_common.settings.base import SecretUrl, SettingDescription
from arc_common.settings.groups import (
    ArcSettings,
    ArtifactSettings,
    BackgroundSettings,
    BudgetSettings,
    ContextSettings,
    ConversationSettings,
    EmbeddingSettings,
    FactSettings,
    MemorySettings,
    ModelCallSettings,
    RagSettings,
    RecallSettings,
    StorageMode,
    StorageSettings,
    SummarySettings,
    TokenSettings,
    describe_settings,
)

__all__ = [
    "ArcSettings",
    "ArtifactSettings",
    "BackgroundSettings",
    "BudgetSettings",
    "ContextSettings",
    "ConversationSettings",
    "EmbeddingSettings",
    "FactSettings",
    "MemorySettings",
    "ModelCallSettings",
    "RagSettings",
    "RecallSettings",
    "SecretUrl",
    "SettingDescription",
    "StorageMode",
    "StorageSettings",
    "SummarySettings",
    "TokenSettings",
    "describe_settings",
]
