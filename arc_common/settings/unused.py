"""The settings that nothing reads yet. `arc settings` says so; who makes one act takes it from the list."""

__all__ = ["NOT_USED_YET"]

NOT_USED_YET = frozenset(
    {
        "archive.idle_days",
        "archive.s3_bucket",
        "archive.url",
        "aws.access_key_id",
        "aws.endpoint_url",
        "aws.region",
        "aws.secret_access_key",
        "aws.session_token",
        "conversation.ttl_hours",
        "embeddings.device",
        "redis.key_prefix",
        "redis.timeout_seconds",
    }
)
