"""The API's requests and responses. Names are camelCase in JSON; unknown fields are refused."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import AliasPath, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from arc_common.context import Receipt
from arc_common.documents import Document
from arc_common.memories import MAX_MEMORY_CHARACTERS, Memory
from arc_common.messages import ContentPart, Message, Role, ToolCall
from arc_common.protocols.review import CandidateStatus

Identifier = Annotated[str, StringConstraints(min_length=1, max_length=255)]
Text = Annotated[str, StringConstraints(min_length=1)]


class Camel(BaseModel):
    """The base of all models."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, from_attributes=True, extra="forbid")

    @classmethod
    def of(cls, one: Any) -> Self:
        """Return one of the engine's values for the API."""
        return cls.model_validate(one)


class ToolCallBody(Camel):
    """A tool call of an assistant's message."""

    id: Identifier
    name: Identifier
    arguments: dict[str, Any] | str = {}


class MessageIn(Camel):
    """A message to store."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    id: Identifier | None = None
    name: Identifier | None = None
    tool_calls: list[ToolCallBody] = []
    tool_call_id: Identifier | None = None
    metadata: dict[str, Any] = {}

    def message(self) -> Message:
        """Return it as the engine's message."""
        return Message(
            Role(self.role),
            self.content,
            tuple(ToolCall(one.name, one.arguments, one.id) for one in self.tool_calls),
            tool_call_id=self.tool_call_id,
            name=self.name,
            id=self.id,
            metadata=self.metadata,
        )


def _content(content: str | Sequence[ContentPart] | None) -> object:
    if content is None or isinstance(content, str):
        return content
    names = ("type", "text", "url", "mime_type")
    return [{name: value for name in names if (value := getattr(part, name)) is not None} for part in content]


def _calls(calls: Sequence[ToolCall]) -> object:
    return [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls]


class MessageOut(Camel):
    """A message."""

    role: str
    content: Annotated[str | list[dict[str, Any]] | None, BeforeValidator(_content)]
    id: str | None
    name: str | None
    tool_calls: Annotated[list[dict[str, Any]], BeforeValidator(_calls)]
    tool_call_id: str | None
    created_at: datetime | None


class AppendIn(Camel):
    """Messages to append, the oldest first."""

    messages: list[MessageIn] = Field(min_length=1, max_length=1_000)


class MessagesOut(Camel):
    """Messages, the oldest first."""

    messages: list[MessageOut]


class DocumentIn(Camel):
    """A document."""

    text: Text
    id: Identifier | None = None
    source: str | None = None
    metadata: dict[str, Any] = {}

    def document(self) -> Document:
        """Return it as the engine's document."""
        return Document(self.text, self.id, self.source, self.metadata)


class ContextIn(Camel):
    """A request for a context window. Without `query`, the newest stored user message is the question."""

    query: Text | None = None
    system_prompt: str | None = None
    documents: list[DocumentIn] | None = Field(default=None, description="Instead of the engine's own, best first.")
    tools: list[dict[str, Any]] | None = Field(default=None, description="The tools' schemas in OpenAI's form.")
    response_format: dict[str, Any] | None = None
    context_window: int | None = Field(default=None, ge=1, le=10_000_000, description="Tokens.")
    output_reserve: int | None = Field(default=None, ge=0, le=10_000_000, description="Tokens.")
    memory_tags: list[Identifier] | None = Field(default=None, min_length=1)


class ContextOut(Camel):
    """A request for a model, and the account of it."""

    messages: list[MessageOut]
    total_tokens: int
    receipt: dict[str, Any]


class RecallIn(Camel):
    """A question for earlier messages."""

    query: Text
    top_k: int = Field(default=10, ge=1, le=100)
    scope: Literal["session", "user"] | None = None


class RecalledOut(Camel):
    """A recalled message."""

    message: MessageOut
    score: float
    score_parts: dict[str, float]


class FactOut(Camel):
    """A fact of a conversation."""

    id: str
    value: str
    category: str
    importance: float
    sources: list[str]


class MemoryIn(Camel):
    """A memory to add."""

    content: Annotated[str, StringConstraints(min_length=1, max_length=MAX_MEMORY_CHARACTERS)]
    type: Annotated[str, StringConstraints(min_length=1, max_length=32)] = "fact"
    importance: float = Field(default=0.5, ge=0, le=1, allow_inf_nan=False)


class MemoryOut(Camel):
    """A long-term memory."""

    id: str
    session_id: str
    memory_content: str
    memory_type: str
    importance: float
    created_at: datetime
    last_accessed_at: datetime

    @classmethod
    def in_session(cls, one: Memory, session_id: str) -> Self:
        """Return it for the API."""
        return cls(
            id=one.id,
            session_id=session_id,
            memory_content=one.text,
            memory_type=one.type.value,
            importance=one.importance,
            created_at=one.created_at,
            last_accessed_at=one.last_accessed_at or one.created_at,
        )


class PinIn(Camel):
    """A text, or the id of a message, that every request shows."""

    text: Text


class PinOut(Camel):
    """A pin."""

    id: str
    text: str
    created_at: datetime
    message_id: str | None


class ForkIn(Camel):
    """The message `at` after which a branch begins, by default the newest."""

    at: Identifier | None = None
    name: Identifier | None = None


class RewindIn(Camel):
    """The message that becomes the newest."""

    to: Identifier


class BranchOut(Camel):
    """A branch of a conversation."""

    id: int
    name: str | None
    parent: int | None
    forked_at: str | None
    message_count: int
    created_at: datetime
    last_message_at: datetime | None
    is_current: bool
    is_live: bool


class SessionOut(Camel):
    """A session."""

    session_id: str = Field(validation_alias=AliasPath("key", "session_id"))
    user_id: str | None = Field(validation_alias=AliasPath("key", "user_id"))
    status: str
    created_at: datetime
    updated_at: datetime
    last_message_at: datetime | None
    message_count: int
    tool_calls_count: int
    total_tokens: int


class SessionPage(Camel):
    """A page of sessions, the newest first."""

    sessions: list[SessionOut]
    next_cursor: str | None


class DebugOut(Camel):
    """A conversation's figures, and the receipt of its last request."""

    conversation_id: str
    total_messages: int
    messages_in_context: int
    total_tokens: int
    compression_needed: bool
    last_receipt: dict[str, Any] | None


class RequestOut(Camel):
    """A request as it was sent."""

    id: str
    created_at: datetime
    branch: int
    messages: list[MessageOut] = Field(validation_alias=AliasPath("window", "messages"))
    receipt: Annotated[dict[str, Any], BeforeValidator(partial(Receipt.to_dict, texts=True))] = Field(
        validation_alias=AliasPath("window", "receipt")
    )


class DocumentsIn(Camel):
    """Documents to store; those with the same ids are replaced."""

    documents: list[DocumentIn] = Field(min_length=1, max_length=1_000)
    chunk: bool = Field(default=False, description="Split long documents at sentences.")


class IdsOut(Camel):
    """The ids of the stored documents or chunks."""

    ids: list[str]


class SearchIn(Camel):
    """A question for documents."""

    query: Text
    top_k: int = Field(default=10, ge=1, le=100)
    filters: dict[str, Any] | None = Field(default=None, description="Conditions on the metadata.")


class DocumentOut(Camel):
    """A document that was found."""

    id: str | None = Field(validation_alias=AliasPath("document", "id"))
    text: str = Field(validation_alias=AliasPath("document", "text"))
    source: str | None = Field(validation_alias=AliasPath("document", "source"))
    metadata: dict[str, Any] = Field(validation_alias=AliasPath("document", "metadata"))
    score: float | None = None
    score_parts: dict[str, float] = {}


class PolicyIn(Camel):
    """Changes to the review queue's policy; values that are not given stay as they are."""

    enabled: bool | None = None
    require_review: bool | None = None
    allowed_channels: list[Identifier] | None = Field(default=None, max_length=1_000)
    min_query_chars: int | None = Field(default=None, ge=0, le=1_000_000)
    min_response_chars: int | None = Field(default=None, ge=0, le=1_000_000)
    blocked_patterns: list[str] | None = Field(default=None, max_length=100)


class PolicyOut(Camel):
    """The policy in force."""

    enabled: bool
    require_review: bool
    allowed_channels: list[str]
    min_query_chars: int
    min_response_chars: int
    blocked_patterns: list[str]


class CaptureIn(Camel):
    """An answered question."""

    query: Text
    response: Text
    run_id: Identifier
    session_id: Identifier | None = None
    channel: Identifier = "api"


class CandidateOut(Camel):
    """A candidate for the knowledge base."""

    id: str
    kind: Literal["answer", "memory"]
    status: CandidateStatus
    query: str
    response: str
    captured_at: datetime
    run_id: str
    session_id: str | None
    user_id: str | None
    channel: str
    document_id: str | None
    reviewer: str | None
    comment: str
    reviewed_at: datetime | None


class CapturedOut(Camel):
    """The candidate; `null` if the policy refused the answer."""

    candidate: CandidateOut | None


class CandidatePage(Camel):
    """A page of candidates, the oldest first."""

    candidates: list[CandidateOut]
    next_cursor: str | None


class ReviewIn(Camel):
    """A reviewer's comment."""

    comment: Annotated[str, StringConstraints(max_length=4_000)] = ""


class HealthOut(Camel):
    """The server works."""

    status: Literal["ok"]
