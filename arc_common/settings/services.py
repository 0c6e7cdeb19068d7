"""The knobs of stores, models and services, group by group.

A number's description begins with its unit ("Tokens: …"). Defaults are the design's. Where services that use an alias
are known by another default, the comment at the knob says why arc's stands.
"""

from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field, SecretStr

from arc_common.settings.base import Group, Url
from arc_common.settings.declaration import EnvironmentAlias

__all__ = [
    "ArchiveSettings",
    "AwsSettings",
    "BackgroundSettings",
    "EmbeddingSettings",
    "ModelCallSettings",
    "RedisSettings",
    "StorageMode",
    "StorageSettings",
    "TokenSettings",
]

StorageMode: TypeAlias = Literal["in-memory", "sql", "redis"]


def _mode_name(value: object) -> object:
    if not isinstance(value, str):
        return value
    name = value.strip().lower()
    return "in-memory" if name == "memory" else name


_Mode: TypeAlias = Annotated[StorageMode | None, BeforeValidator(_mode_name)]


class StorageSettings(Group):
    """Where conversations are kept."""

    mode: Annotated[_Mode, EnvironmentAlias("CONVERSATION_STORAGE_MODE")] = Field(
        default=None, description='The store ("memory" is "in-memory"). None: sql with a database_url, else in-memory.'
    )
    auto_migrate: bool = Field(default=True, description="Whether the tables are made and migrated on first use.")
    pool_size: int = Field(
        default=16, ge=1, description="Connections: to PostgreSQL, and threads that serve async calls there."
    )
    pool_timeout_seconds: float = Field(
        default=30.0,
        gt=0,
        description="Seconds: the longest wait for a free PostgreSQL connection. SQLite files have no limit of "
        "connections.",
    )
    connect_timeout_seconds: float = Field(
        default=10.0, gt=0, description="Seconds: the longest wait for a database server."
    )
    busy_timeout_seconds: float = Field(
        default=30.0, ge=0, description="Seconds: the longest wait for another SQLite writer."
    )
    synchronous: Literal["full", "normal"] = Field(
        default="full", description="SQLite's synchronous mode: normal may lose the last commits when the power fails."
    )
    secure_delete: bool = Field(default=True, description="Whether SQLite overwrites what is deleted with zeros.")
    index_cache_bytes: int = Field(
        default=2**30,
        ge=0,
        description="Bytes: of vectors and lengths that the index over SQLite keeps in memory, of all scopes together.",
    )
    index_graph_from: int = Field(
        default=5_000,
        ge=1,
        description="Vectors: PostgreSQL compares up to so many one by one; for more it walks pgvector's HNSW graph.",
    )
    max_sessions_in_memory: int = Field(
        default=1_000, ge=1, description="Sessions: kept by the in-memory store; the least recently used one leaves."
    )
    max_messages_per_session: int | None = Field(
        default=None,
        ge=1,
        description="Messages: kept per session; the oldest turns are removed. None: all. With summaries at least "
        "2 * summary.leaf_messages + recent_message_count + trigger_message_count, so that no facts are lost.",
    )


class RedisSettings(Group):
    """The hot windows that a fleet shares."""

    url: Url | None = Field(default=None, description="The Redis server. None: no shared hot windows.")
    key_prefix: str = Field(default="arc:", min_length=1, description="What every key begins with.")
    timeout_seconds: float = Field(default=1.0, gt=0, description="Seconds: the longest wait, before SQL serves.")


class ArchiveSettings(Group):
    """Where idle conversations go."""

    url: Url | None = Field(
        default=None, description="Any fsspec URL (file:///…, s3://bucket/path). None: see s3_bucket."
    )
    s3_bucket: Annotated[str | None, EnvironmentAlias("ARCHIVE_S3_BUCKET")] = Field(
        default=None, min_length=3, max_length=63, description="An S3 bucket, where no url is given. None: no archive."
    )
    idle_days: float = Field(
        default=7.0, gt=0, description="Days: after its last message a conversation may be archived."
    )


class AwsSettings(Group):
    """How S3 is reached, where the usual AWS configuration files are not used."""

    access_key_id: Annotated[SecretStr | None, EnvironmentAlias("AWS_ACCESS_KEY_ID")] = Field(
        default=None, description="The access key's id. None: boto's own search."
    )
    secret_access_key: Annotated[SecretStr | None, EnvironmentAlias("AWS_SECRET_ACCESS_KEY")] = Field(
        default=None, description="The access key's secret. None: boto's own search."
    )
    session_token: Annotated[SecretStr | None, EnvironmentAlias("AWS_SESSION_TOKEN")] = Field(
        default=None, description="The token of temporary credentials. None: none."
    )
    region: Annotated[str | None, EnvironmentAlias("AWS_REGION"), EnvironmentAlias("AWS_DEFAULT_REGION")] = Field(
        default=None, min_length=1, description="The region. None: boto's own search."
    )
    endpoint_url: Annotated[Url | None, EnvironmentAlias("AWS_ENDPOINT_URL")] = Field(
        default=None, description="An S3-compatible server's address. None: AWS."
    )


class EmbeddingSettings(Group):
    """How texts are embedded."""

    device: Annotated[str, EnvironmentAlias("EMBEDDINGS_DEVICE")] = Field(
        default="cpu", min_length=1, description='Where a local model runs ("cpu", "cuda", "cuda:1", "mps").'
    )
    batch_size: int = Field(default=64, ge=1, description="Texts: embedded by one call.")


class ModelCallSettings(Group):
    """Calls to chat models and embedders."""

    timeout_seconds: float = Field(default=30.0, gt=0, description="Seconds: the longest wait for one call.")
    attempts: int = Field(default=3, ge=1, description="Calls: made at most until one succeeds; 1 is no retry.")
    breaker_failures: int = Field(default=5, ge=1, description="Failures: in a row, after which a model is left alone.")
    breaker_reset_seconds: float = Field(default=60.0, gt=0, description="Seconds: until it is tried again.")


class TokenSettings(Group):
    """How tokens are counted, where the engine is not given a counter."""

    counter: Literal["calibrated", "heuristic", "tiktoken"] = Field(default="calibrated", description="The counter.")
    encoding: str = Field(default="o200k_base", min_length=1, description="tiktoken's encoding, or a model's name.")
    vocabulary_directory: str | None = Field(
        default=None, min_length=1, description="Where tiktoken's vocabularies are kept. None: wherever one is found."
    )
    vocabulary_timeout_seconds: float = Field(
        default=5.0,
        gt=0,
        description="Seconds: the longest wait for a vocabulary, before the calibrated counter serves.",
    )


class BackgroundSettings(Group):
    """Work that no reply waits for."""

    threads: int = Field(default=4, ge=1, description="Threads: for models, embedders and background work together.")
    lease_seconds: float = Field(
        default=5.0,
        gt=0,
        description="Seconds: how long a lease lasts. A running process renews it three times in that time; if it "
        "dies, another process takes over its work after that.",
    )
