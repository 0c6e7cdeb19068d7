"""All settings, group by group, and ArcSettings that holds them.

A number's description begins with its unit ("Tokens: …"). If services that use an alias have a different default, a
comment at the setting gives the reason for arc's.
"""

import json
from contextlib import suppress
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from arc_common.exceptions import ConfigurationError, InvalidInputError
from arc_common.memories import MemoryType
from arc_common.settings.base import (
    PREFIX,
    EnvironmentAlias,
    EnvironmentSource,
    Group,
    Immutable,
    SecretText,
    SecretUrl,
    SettingDescription,
    Url,
    configuration_error,
    settings_of,
)

StorageMode: TypeAlias = Literal["in-memory", "sql", "redis"]


def _mode_name(value: object) -> object:
    if not isinstance(value, str):
        return value
    name = value.strip().lower()
    return "in-memory" if name == "memory" else name


class StorageSettings(Group):
    """Storage of conversations."""

    mode: Annotated[StorageMode | None, BeforeValidator(_mode_name), EnvironmentAlias("CONVERSATION_STORAGE_MODE")] = (
        Field(
            default=None,
            description='The store ("memory" is "in-memory"; "redis" is sql with the cache of redis.url). None: the '
            "URLs that are set decide: redis with both, sql with a database_url, else in-memory.",
        )
    )
    encryption_keys: SecretText | None = Field(
        default=None,
        description="Fernet keys, separated by commas: the first encrypts all stored text, each decrypts. None: plain.",
    )
    auto_migrate: bool = Field(default=True, description="Create and migrate the tables on first use.")
    pool_size: int = Field(
        default=16, ge=1, description="Connections: the most to PostgreSQL, and as many threads for async calls."
    )
    pool_timeout_seconds: float = Field(
        default=30.0, gt=0, description="Seconds: the longest wait for a PostgreSQL connection."
    )
    connect_timeout_seconds: float = Field(default=10.0, gt=0, description="Seconds: the longest wait for a database.")
    statement_timeout_seconds: float | None = Field(
        default=None,
        gt=0,
        description="Seconds: the longest a PostgreSQL statement may take. None: the server's limit.",
    )
    transaction_pooling: bool = Field(
        default=False,
        description="Work with a pooler in transaction mode, such as PgBouncer: no prepared statements.",
    )
    synchronous: Literal["full", "normal"] = Field(
        default="full", description="SQLite's synchronous mode: normal may lose the last commits when the power fails."
    )
    secure_delete: bool = Field(default=True, description="Let SQLite overwrite deleted data with zeros.")
    # 1 GiB holds 700,000 vectors of 384 numbers, of all scopes.
    index_cache_bytes: int = Field(
        default=2**30, ge=0, description="Bytes: the most vectors that the index over SQLite keeps in memory."
    )
    # Comparing 5,000 vectors takes 6 ms, a walk of the graph 1 to 2 ms. With 120 candidates (more for a selective
    # filter) a walk found 99.3 % of the ten nearest among 100,000 sentences for questions about them, 97 % for others.
    index_graph_from: int = Field(
        default=5_000, ge=1, description="Vectors: above this number, pgvector's HNSW graph is searched."
    )
    index_ef_search: int = Field(
        default=120,
        ge=1,
        le=1_000,
        description="Vectors: candidates in pgvector's HNSW graph (hnsw.ef_search); 120 take 1 to 2 ms.",
    )
    max_sessions_in_memory: int = Field(
        default=1_000,
        ge=1,
        description="Sessions: the most kept without a database URL; one more deletes the one written longest ago.",
    )
    max_messages_per_session: int | None = Field(
        default=None,
        ge=1,
        description="Messages: the most kept per session; the oldest turns are deleted once they are summarised. None: "
        "all. With summaries at least 2 * summary.leaf_messages + recent_message_count + trigger_message_count.",
    )


class RedisSettings(Group):
    """The cache of conversations' newest messages on a Redis or Valkey server, which all processes share."""

    url: Url | None = Field(default=None, description="The server, or one node of a cluster. None: no cache.")
    enabled: bool = Field(default=True, description="Use the cache once there is a url and a database.")
    ttl_minutes: float = Field(
        default=60.0, gt=0, description="Minutes: a conversation stays cached this long after its last message."
    )
    list_ttl_hours: float = Field(
        default=24.0,
        gt=0,
        description="Hours: the list of a user's cached conversations is kept this long, for erasures.",
    )
    max_sessions: int = Field(
        default=10_000, ge=1, description="Sessions: the most cached; one more removes the one cached longest ago."
    )
    fallback_to_sql: bool = Field(
        default=True, description="Read from the database while Redis does not answer. Off: such reads fail."
    )
    key_prefix: str = Field(default="arc:", min_length=1, description="The beginning of every key.")
    timeout_seconds: float = Field(default=0.25, gt=0, description="Seconds: the longest wait for an answer.")
    retry_seconds: float = Field(
        default=10.0, gt=0, description="Seconds: until Redis is asked again after three failures in a row."
    )


class EmbeddingSettings(Group):
    """Embedding of texts."""

    batch_size: int = Field(default=64, ge=1, description="Texts: the most embedded by one call.")


class ModelCallSettings(Group):
    """Calls to chat models and embedders."""

    timeout_seconds: float = Field(default=30.0, gt=0, description="Seconds: the longest wait for one call.")
    attempts: int = Field(default=3, ge=1, description="Calls: the most made until one succeeds; 1 means no retry.")
    breaker_failures: int = Field(
        default=5, ge=1, description="Failures: after this many in a row, a model is not called for a while."
    )
    breaker_reset_seconds: float = Field(default=60.0, gt=0, description="Seconds: until the model is called again.")
    input_price: float | None = Field(
        default=None, ge=0, description="Price: of a million tokens sent to the chat model, as telemetry reports it."
    )
    output_price: float | None = Field(
        default=None, ge=0, description="Price: of a million tokens of the chat model's answers."
    )


class ObservabilitySettings(Group):
    """Spans and metrics of arc's work."""

    otel: bool = Field(default=False, description="Make OpenTelemetry's spans and metrics.")


class TokenSettings(Group):
    """The token counter, if the engine is opened without one."""

    counter: Literal["calibrated", "heuristic", "tiktoken"] = Field(default="calibrated", description="The counter.")
    encoding: str = Field(default="o200k_base", min_length=1, description="tiktoken's encoding, or a model's name.")
    vocabulary_directory: str | None = Field(
        default=None, min_length=1, description="The folder of tiktoken's vocabularies. None: any that is found."
    )


class BackgroundSettings(Group):
    """Background work, which no reply waits for."""

    threads: int = Field(default=4, ge=1, description="Threads: for models, embedders and background work together.")
    lease_seconds: float = Field(
        default=5.0, gt=0, description="Seconds: how long a dead process keeps its work from others."
    )
    max_tokens_per_hour: int | None = Field(
        default=None,
        ge=1,
        description="Tokens: the most of a process's background calls to chat models; then they wait. None: no limit.",
    )
    in_process: bool = Field(
        default=True, description="Let each process do its own sessions' work. Off: `arc worker` does it."
    )


def _split(value: object) -> object:
    return [word.strip() for word in value.split(",") if word.strip()] if isinstance(value, str) else value


class ConversationSettings(Group):
    """The part of a conversation that is shown."""

    window: Literal["turns", "messages", "tokens"] | None = Field(
        default=None,
        description="The limit of the history in addition to the budget: max_turns, rolling_window_size, or none. "
        "None: messages if rolling_window_size is set, else turns.",
    )
    max_turns: int = Field(
        default=10, ge=1, description="Turns: the newest to show; the default applies until there is a summary."
    )
    rolling_window_size: Annotated[int, EnvironmentAlias("CONVERSATION_ROLLING_WINDOW_SIZE")] = Field(
        default=20, ge=1, description="Messages: the newest to show if the window counts messages."
    )
    # Services that read this name default to 100,000. Arc sets no cap, because history gets the tokens that other
    # sections leave; a fixed cap would leave a fifth of 128,000 unused and most of a larger context window.
    max_context_tokens: Annotated[int | None, EnvironmentAlias("CONVERSATION_MAX_CONTEXT_TOKENS")] = Field(
        default=None, ge=1, description="Tokens: the most in a request. None: all that the context window leaves."
    )
    # Services that read this name default to 80,000, which is 80 % of their 100,000; arc uses the share.
    compression_threshold: Annotated[float, EnvironmentAlias("CONVERSATION_COMPRESSION_THRESHOLD")] = Field(
        default=0.8,
        gt=0,
        description="Share: compression begins once this much of the limit is filled; above 1, tokens.",
    )
    ttl_hours: Annotated[float | None, EnvironmentAlias("CONVERSATION_TTL_HOURS")] = Field(
        default=None,
        gt=0,
        description="Hours: maintenance deletes (or archives) a conversation that was not used for this long.",
    )
    resume_note_days: float | None = Field(
        default=7.0, gt=0, description="Days: after a silence of this length, a note says so. None: no note."
    )

    @property
    def window_is_set(self) -> bool:
        """Return whether the limits were set explicitly; such limits also apply beside a summary."""
        return not self.model_fields_set.isdisjoint({"window", "max_turns", "rolling_window_size"})

    @property
    def window_limits(self) -> tuple[int | None, int | None]:
        """The most turns and the most messages of history that a request shows; `None` for as many as fit."""
        window = self.window or ("messages" if "rolling_window_size" in self.model_fields_set else "turns")
        return (
            self.max_turns if window == "turns" else None,
            self.rolling_window_size if window == "messages" else None,
        )


class ArchiveSettings(Group):
    """The archive, where the messages of idle conversations are kept as compressed objects."""

    enabled: bool = Field(default=False, description="Let maintenance archive idle conversations.")
    url: SecretUrl | None = Field(
        default=None,
        description="A folder, s3://bucket/folder or another address that fsspec knows. None: s3_bucket.",
    )
    s3_bucket: Annotated[str | None, EnvironmentAlias("ARCHIVE_S3_BUCKET")] = Field(
        default=None,
        min_length=3,
        description="The bucket on S3, if no url is set; AWS_… variables say how to reach it.",
    )
    after_days: float = Field(
        default=90.0, gt=0, description="Days: a conversation that was not used for this long is archived."
    )
    cleanup_after_archive: bool = Field(
        default=True, description="Remove archived messages from the database. Off: the object is a second copy."
    )

    @property
    def location(self) -> str | None:
        """The archive's full address; `None` without an archive."""
        if self.url is not None:
            return self.url.get_secret_value()
        return None if self.s3_bucket is None else f"s3://{self.s3_bucket}"


class MaintenanceSettings(Group):
    """When `engine.admin.maintain` runs by itself."""

    interval_minutes: float | None = Field(
        default=None, gt=0, description="Minutes: between two runs in this process. None: only when called."
    )


class BudgetSettings(Group):
    """The allocation of a request's tokens. Unused tokens of a section are lent to others; history gets the rest.

    The summary's limit is `summary.max_tokens`.
    """

    context_window: int = Field(
        default=128_000, ge=1, description="Tokens: the model's context window, input and output."
    )
    output_reserve: int | None = Field(
        default=None,
        ge=0,
        description="Tokens: kept free for the answer. None: 4,096 or a quarter of the window, whichever is less.",
    )
    documents: int = Field(default=4_000, ge=0, description="Tokens: at most for the retrieved documents.")
    recalled: Annotated[int, EnvironmentAlias("RAG_PER_TURN_MEMORY_BUDGET_TOKENS")] = Field(
        default=800, ge=0, description="Tokens: at most for memories, artifacts and recalled messages together."
    )
    facts: int = Field(default=1_000, ge=0, description="Tokens: at most for the adopted facts.")
    facts_share: float = Field(
        default=0.15, ge=0, le=1, description="Share: the most of the input that adopted facts take."
    )

    @field_validator("output_reserve")
    @classmethod
    def _within_window(cls, reserve: int | None, info: ValidationInfo) -> int | None:
        window = info.data.get("context_window")
        if reserve is not None and window is not None and reserve >= window:
            raise ValueError(f"fewer tokens than budget.context_window ({window:,})")
        return reserve


class ContextSettings(Group):
    """The layout of the context window and its receipt."""

    placement: Literal["user", "system"] = Field(
        default="user",
        description="Where memories, recalled messages and documents go: after the user's text, or system.",
    )
    facts_role: Literal["system", "user"] = Field(
        default="system", description="Where facts and summary go: into the system message, or with the user's text."
    )
    compression: Annotated[tuple[str, ...], BeforeValidator(_split)] = Field(
        default=(),
        description="Strategies: names from arc_common.tokens.compression.STRATEGIES, tried in this order on a history "
        "beyond conversation.compression_threshold, before turns leave at the limit itself.",
    )
    cache_markers: bool = Field(
        default=False,
        description="Mark the stable beginning of LangChain agents' requests for the caches of Anthropic and OpenAI.",
    )
    store_receipts: Literal["off", "sampled", "all"] = Field(
        default="off",
        description="Store each request's receipt and messages, the newest 50 of a session: none, one in ten, or all.",
    )
    debug: Annotated[bool, EnvironmentAlias("MEMORY_DEBUG")] = Field(
        default=False, description="Log each request's receipt, and add it to streams by with_receipt."
    )
    receipt_misses: int = Field(
        default=20, ge=0, description="Items: the nearest omissions that a receipt lists one by one."
    )


class SummarySettings(Group):
    """When and how a conversation is summarised, and how much of the summary is shown."""

    enabled: bool = Field(default=True, description="Summarise older messages. Off: show the last turns alone.")
    trigger_message_count: int = Field(
        default=20, ge=1, description="Messages: a session with more gets a summary in place of the older ones."
    )
    trigger_tokens: int | None = Field(
        default=None,
        ge=1,
        description="Tokens: more verbatim ones trigger a summary, too. None: history's share of the budget.",
    )
    recent_message_count: int = Field(
        default=10, ge=0, description="Messages: at least this many stay verbatim, as whole turns."
    )
    high_water_mark: int = Field(
        default=34, ge=1, description="Messages: with more verbatim ones, the next summary is adopted."
    )
    # An adoption invalidates the provider's cached prefix; a longer verbatim part costs a tenth of its tokens. Over 500
    # turns at 16,000 both cost the same (924 and 915 thousand), but 98.5 % of the stable layers repeat, not 88.4 %.
    high_water_tokens: int = Field(
        default=8_000, ge=0, description="Tokens: high_water_mark applies only above this many."
    )
    # Services that read this name default to 400 for one summary text; arc's 500 hold eras, blocks and leaves.
    max_tokens: Annotated[int, EnvironmentAlias("CONVO_SUMMARY_MAX_TOKENS")] = Field(
        default=500, ge=0, description="Tokens: at most for the summary in the prompt."
    )
    # With leaves of 16 messages and re-read blocks, 500 turns at 4,000 tokens cost 513 thousand; the summariser
    # takes 195 of them. With the defaults, 387 and 111 (benchmarks/prompt_cache.py). Small leaves repeat instructions
    # and known facts, and move the boundary of the cached prefix more often.
    leaf_tokens: int = Field(
        default=2_200,
        ge=1,
        description="Tokens: unsummarised messages that have this many become a leaf; fewer if a request has little "
        "room.",
    )
    leaf_messages: Annotated[int, EnvironmentAlias("CONVO_SUMMARY_EVERY_N_MESSAGES")] = Field(
        default=64,
        ge=2,
        description="Messages: about the most in one leaf; 16 if high_water_tokens is less than leaf_tokens.",
    )
    leaf_narrative_tokens: int = Field(default=60, ge=1, description="Tokens: at most for the narrative of one leaf.")
    block_narrative_tokens: int = Field(
        default=80, ge=1, description="Tokens: at most for the narrative of four leaves."
    )
    era_narrative_tokens: int = Field(default=120, ge=1, description="Tokens: at most for an era's line, from blocks.")
    eras_enabled: bool = Field(default=True, description="Write eras, the only text made from narratives.")
    llm_model: str | None = Field(
        default=None,
        min_length=1,
        description="The model that summarises, by the framework's name. None: the engine's.",
    )
    synchronous_timeout_seconds: float = Field(
        default=10.0,
        gt=0,
        description="Seconds: the most that a reply waits for a summary, and `recall` for its index.",
    )


def _parsed(value: object) -> object:
    """Return what the JSON text of an environment says."""
    return json.loads(value) if isinstance(value, str) else value


def _named_types(types: dict[str, str]) -> dict[str, str]:
    return {MemoryType(name).value: hint for name, hint in types.items()}


class MemorySettings(Group):
    """Long-term memories, across sessions."""

    enabled: bool = Field(default=True, description="Extract and show memories.")
    scope: Literal["session", "user", "caller"] = Field(
        default="user", description="The owner of the memories that a session reads."
    )
    top_k: int = Field(default=5, ge=1, description="Memories: the most shown in a request.")
    min_importance: float = Field(default=0.3, ge=0, le=1, description="Share: importance below which nothing is kept.")
    merge_similarity: float = Field(
        default=0.8, ge=0, le=1, description="Share: normalised edit similarity above which two memories are merged."
    )
    # Small embedders rate "lives in Seoul" and "lives in Busan" as similar as 0.8, so only near-copies are merged.
    merge_cosine: float = Field(
        default=0.92, ge=-1, le=1, description="Cosine: similarity above which two memories that agree are merged."
    )
    types: Annotated[dict[str, str], BeforeValidator(_parsed), AfterValidator(_named_types)] = Field(
        default={}, description="Types: further ones for memories, by name, each described for the model."
    )
    instructions: str = Field(default="", description="More instructions for the model that extracts memories.")
    max_per_scope: int = Field(
        default=50, ge=1, description="Memories: the most valid ones in one scope; the weakest are removed."
    )
    require_review: bool = Field(
        default=False, description="Hold extracted memories back until a reviewer approves them."
    )


class RecallSettings(Group):
    """Past messages recalled for a question."""

    enabled: bool = Field(default=True, description="Recall past messages into the context window.")
    scope: Literal["session", "user"] = Field(
        default="session",
        description="Search this session, or all of the user's; those from before a change of it once they are used.",
    )
    window_terms: int = Field(
        default=60, ge=0, description="Terms: a message is indexed with neighbours until it has these."
    )


class ArtifactSettings(Group):
    """Summaries, facts and tool snippets of a session, retrieved for a question."""

    # Services set the RAG_ names below for this layer: 5 found, 20 re-ranked, 3 shown, 800 tokens.
    enabled: bool = Field(default=True, description="Show artifacts.")
    top_k: Annotated[int, EnvironmentAlias("RAG_TOP_K_MAX")] = Field(
        default=5, ge=1, description="Artifacts: the most found for one question."
    )
    rerank_top_n: Annotated[int, EnvironmentAlias("RAG_RE_RANK_TOP_N")] = Field(
        default=20, ge=1, description="Artifacts: the candidates that are re-ranked."
    )
    final_top_k: Annotated[int, EnvironmentAlias("RAG_FINAL_TOP_K")] = Field(
        default=3, ge=0, description="Artifacts: the most shown in a request."
    )
    max_facts: int = Field(default=3, ge=0, description="Bullets: the most of facts that are shown.")
    max_tool_snippets: int = Field(default=2, ge=0, description="Snippets: the most of tool results that are shown.")
    recency_cues: Annotated[tuple[str, ...], BeforeValidator(_split)] = Field(
        default=("today", "latest", "now", "current", "오늘", "최신", "지금", "현재"),
        description="Words in a question that let tool snippets in.",
    )
    tool_relevance: float = Field(
        default=0.6, ge=0, le=1, description="Share: relevance above which tool snippets are shown without such a word."
    )


def _patterns(value: object) -> object:
    """Return an environment's patterns: a JSON array if one contains a comma, otherwise separated by commas."""
    with suppress(ValueError):
        if isinstance(value, str) and isinstance(listed := json.loads(value), list):
            return listed
    return _split(value)


class IngestionPolicy(Group):
    """Which answered questions are captured for the knowledge base, and whether a reviewer must approve them."""

    enabled: bool = Field(default=False, description="Capture answered questions for the knowledge base.")
    require_review: bool = Field(default=True, description="Index an answer only once a reviewer approves it.")
    allowed_channels: Annotated[tuple[str, ...], BeforeValidator(_split)] = Field(
        default=(), description="Channels: whose answers are captured. None named: all."
    )
    min_query_chars: int = Field(default=10, ge=0, description="Characters: a shorter question is not captured.")
    min_response_chars: int = Field(default=20, ge=0, description="Characters: a shorter answer is not captured.")
    blocked_patterns: Annotated[tuple[str, ...], BeforeValidator(_patterns)] = Field(
        default=(),
        description="Regular expressions (RE2): a question or an answer with one is not captured. In the environment, "
        "a JSON array of those with commas.",
    )


class IngestionSettings(IngestionPolicy):
    """The policy of the review queue."""

    dynamic_enabled: bool = Field(
        default=False, description="Let callers store a policy of their own, which then applies instead of this one."
    )


class RagSettings(Group):
    """Retrieval of documents."""

    enabled: bool | None = Field(default=None, description="Retrieve documents. None: once there are any.")
    # The RAG_ names without a prefix limit both artifacts and documents.
    top_k: Annotated[int, EnvironmentAlias("RAG_TOP_K_MAX")] = Field(
        default=10, ge=1, description="Documents: retrieved for a query."
    )
    # Services that read this name default to 0.25. Arc's default is off: embedders' scores are not comparable.
    similarity_threshold: Annotated[float | None, EnvironmentAlias("RAG_SIMILARITY_THRESHOLD")] = Field(
        default=None, ge=-1, le=1, description="Cosine: the lowest at which a document is shown. None: any."
    )
    rerank_enabled: bool = Field(default=True, description="Re-rank the retrieved documents.")
    reranker: str = Field(default="score", description="The default reranker, from arc_common.rerankers.RERANKERS.")
    rerank_top_k: Annotated[int, EnvironmentAlias("RAG_FINAL_TOP_K")] = Field(
        default=5, ge=1, description="Documents: the most that a reranker keeps."
    )
    max_context_tokens: int = Field(default=4_000, ge=0, description="Tokens: at most for the documents' context.")
    chunk_size: Annotated[int, EnvironmentAlias("RAG_CHUNK_SIZE")] = Field(
        default=300, ge=1, description="Tokens: at most for one chunk."
    )
    chunk_overlap: Annotated[int, EnvironmentAlias("RAG_CHUNK_OVERLAP")] = Field(
        default=50, ge=0, validate_default=True, description="Tokens: shared by neighbours; fewer than chunk_size."
    )
    max_history_turns: int = Field(default=5, ge=0, description="Turns: read to make a question stand alone.")
    drop_stop_words: bool = Field(default=True, description="Drop stop words and question words from lexical queries.")
    fusion: Literal["scores", "rrf"] = Field(
        default="scores",
        description="Merges the rankings of a pipeline's sources: by normalised scores or by ranks.",
    )
    document_order: Literal["score", "source", "lost-in-the-middle"] = Field(
        default="score", description="The documents' order."
    )
    skip_oversized: bool = Field(default=True, description="Skip a document that does not fit. Off: stop there.")
    truncate_documents: bool = Field(default=False, description="Cut a document that does not fit at a sentence's end.")
    ingestion: IngestionSettings = IngestionSettings()

    @field_validator("chunk_overlap")
    @classmethod
    def _below_chunk_size(cls, overlap: int, info: ValidationInfo) -> int:
        size = info.data.get("chunk_size")
        if size is not None and overlap >= size:
            raise ValueError(f"fewer tokens than rag.chunk_size ({size:,})")
        return overlap


class ServerSettings(Group):
    """The REST API and the MCP server."""

    tokens_file: str | None = Field(
        default=None, min_length=1, description="The JSON file of the tokens that are admitted. None: no token is."
    )
    mcp_token: SecretText | None = Field(
        default=None, description="The token of the file with which the client of `arc mcp` acts."
    )
    max_body_bytes: int = Field(default=8 * 2**20, ge=1, description="Bytes: at most in the body of a request.")


class ArcSettings(Immutable, BaseSettings):
    """All settings of arc, read on construction and immutable afterwards.

    - Precedence: constructor argument, `ARC_…` variable, alias, default. A group given as a mapping is merged setting
      by setting; a group object replaces the whole group.
    - In the environment `summary.enabled` is `ARC_SUMMARY__ENABLED`; `ARC_SUMMARY` may hold the group as a JSON
      object. `none` is None. An empty variable counts as not set.
    - A `.env` file is read only when asked for: `ArcSettings(_env_file=".env")`; the environment wins over it.
    - Passwords and keys never appear in the `repr`, in JSON or in errors.

    Raises:
        ConfigurationError: A name or a value is wrong; the message has one line per error with the name, the value
            received and the values allowed.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    database_url: Url | None = Field(
        default=None,
        description="Any SQLAlchemy URL. None: conversations are kept in memory only.",
    )
    require_scope: bool = Field(
        default=False, description="Refuse the default caller, so that every call names its own."
    )
    storage: StorageSettings = StorageSettings()
    redis: RedisSettings = RedisSettings()
    conversation: ConversationSettings = ConversationSettings()
    archive: ArchiveSettings = ArchiveSettings()
    maintenance: MaintenanceSettings = MaintenanceSettings()
    budget: BudgetSettings = BudgetSettings()
    context: ContextSettings = ContextSettings()
    summary: SummarySettings = SummarySettings()
    memory: MemorySettings = MemorySettings()
    recall: RecallSettings = RecallSettings()
    artifacts: ArtifactSettings = ArtifactSettings()
    rag: RagSettings = RagSettings()
    embeddings: EmbeddingSettings = EmbeddingSettings()
    model_calls: ModelCallSettings = ModelCallSettings()
    background: BackgroundSettings = BackgroundSettings()
    tokens: TokenSettings = TokenSettings()
    server: ServerSettings = ServerSettings()
    observability: ObservabilitySettings = ObservabilitySettings()

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            # from None: pydantic's error holds the values, and one of them may be a secret
            raise configuration_error(error, type(self)) from None
        except UnicodeDecodeError as error:  # from None: it holds the file
            expected = f"a file in UTF-8 ({error.reason} at byte {error.start})"
            raise ConfigurationError(f"_env_file: got {values.get('_env_file')!s}, expected {expected}") from None
        self._check_message_cap()
        self._check_redis()

    def _check_message_cap(self) -> None:
        """Refuse a message cap per session that would remove messages before they are summarised."""
        cap, summary = self.storage.max_messages_per_session, self.summary
        least = 2 * summary.leaf_messages + summary.recent_message_count + summary.trigger_message_count
        if cap is not None and cap < least and summary.enabled:
            raise ConfigurationError(
                f"storage.max_messages_per_session: got {cap}, expected at least {least} "
                "(2 * summary.leaf_messages + summary.recent_message_count + summary.trigger_message_count) or None: "
                "a smaller cap removes messages before their facts are read; raise the cap, lower these settings, or "
                "set summary.enabled to false"
            )

    def _check_redis(self) -> None:
        """Refuse the storage mode "redis" without a server."""
        missing = "redis.url (ARC_REDIS__URL)" if self.redis.url is None else "redis.enabled (ARC_REDIS__ENABLED)"
        if self.storage.mode == "redis" and (self.redis.url is None or not self.redis.enabled):
            raise ConfigurationError(
                f"storage.mode (ARC_STORAGE__MODE, CONVERSATION_STORAGE_MODE): got 'redis', which needs {missing}, and "
                "that is not set; set it, or choose 'sql'"
            )

    @property
    def caches_in_redis(self) -> bool:
        """Return whether a database's conversations are cached in Redis."""
        return self.storage.mode in (None, "redis") and self.redis.enabled and self.redis.url is not None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic-settings passes it by name
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources: the constructor, then `EnvironmentSource` for the environment and a `.env` file."""
        return init_settings, EnvironmentSource(settings_cls, dotenv_settings, env_settings)

    @property
    def resolved_database_url(self) -> str | None:
        """The database's full URL, including the password; `None` if no database is used.

        With `storage.mode` "in-memory", a database URL is ignored. The mode is checked here, not on construction,
        because an engine may be opened with its own URL.

        Raises:
            ConfigurationError: `storage.mode` is "sql" or "redis", or a `redis.url` is set, but no database's URL.
        """
        mode = self.storage.mode
        if mode == "in-memory" or (self.database_url is None and mode is None and not self.caches_in_redis):
            return None
        if self.database_url is None:
            named = "storage.mode (ARC_STORAGE__MODE, CONVERSATION_STORAGE_MODE)"
            what = f"{named}: got {mode!r}" if mode else "redis.url (ARC_REDIS__URL): got a server for a cache"
            raise ConfigurationError(
                f"{what}, which needs database_url (ARC_DATABASE_URL), and that is not set; set it, or set {named} to "
                "'in-memory'"
            )
        return self.database_url.get_secret_value()


def checked_settings(settings: object) -> ArcSettings:
    """Return the settings, or the environment's for `None`; raise `InvalidInputError` for anything else."""
    if settings is not None and not isinstance(settings, ArcSettings):
        raise InvalidInputError("settings", settings, "ArcSettings, or None")
    return settings or ArcSettings()


def describe_settings() -> list[SettingDescription]:
    """Describe all settings in the model's order, without reading the environment."""
    return list(settings_of(ArcSettings).values())
