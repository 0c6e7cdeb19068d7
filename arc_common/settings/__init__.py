"""Every knob of arc: its unit, its default, its bounds and its environment names."""

from arc_common.settings.groups import (
    ArtifactSettings,
    BudgetSettings,
    ContextSettings,
    ConversationSettings,
    FactSettings,
    MemorySettings,
    RagSettings,
    RecallSettings,
    SummarySettings,
)
from arc_common.settings.model import ArcSettings, SettingDescription, describe_settings
from arc_common.settings.secret import SecretUrl, hide_password
from arc_common.settings.services import (
    ArchiveSettings,
    AwsSettings,
    BackgroundSettings,
    EmbeddingSettings,
    ModelCallSettings,
    RedisSettings,
    StorageMode,
    StorageSettings,
    TokenSettings,
)

__all__ = [
    "ArcSettings",
    "ArchiveSettings",
    "ArtifactSettings",
    "AwsSettings",
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
    "RedisSettings",
    "SecretUrl",
    "SettingDescription",
    "StorageMode",
    "StorageSettings",
    "SummarySettings",
    "TokenSettings",
    "describe_settings",
    "hide_password",
]
