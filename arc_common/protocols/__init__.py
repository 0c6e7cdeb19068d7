"""Protocols that users and backends implement, and the values that they exchange with the engine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from arc_common.documents import ScoredDocument
from arc_common.filters import Filter
from arc_common.messages import Message, check_identifier

__all__ = [
    "ChatModel",
    "ContradictionDetector",
    "Conversation",
    "ConversationPage",
    "ConversationStore",
    "CountedMessage",
    "Embedder",
    "QueryEmbedder",
    "QueryTransformer",
    "Reranker",
    "Retriever",
    "SessionKey",
    "StoredMessage",
    "TokenCounter",
]


@runtime_checkable
class ChatModel(Protocol):
    """A language model that answers messages with text."""

    def complete(self, messages: Sequence[Message]) -> str:
        """Return the answer's text. Exceptions of the model's client pass through."""


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors of one fixed dimension."""

    @property
    def name(self) -> str:
        """The model's name. Vectors made under different names are never compared."""

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector for each text, in the order of the texts."""


@runtime_checkable
class QueryEmbedder(Embedder, Protocol):
    """An embedder that embeds queries differently from passages, as the models of E5 and Cohere do."""

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query, to be compared with the vectors that `embed` returns."""


@runtime_checkable
class TokenCounter(Protocol):
    """Counts a text's tokens as a model would see them.

    A counter that estimates may state its error in the attribute `relative_error`: in 999 of 1,000 requests the real
    tokens are at most the counted tokens times `1 + relative_error`. Code that fills a limit keeps that much free.
    """

    @property
    def name(self) -> str:
        """The name of the method and its version. A stored count is valid only for the name stored beside it."""

    def count(self, text: str) -> int:
        """Return the number of tokens in one text; 0 for `""`."""

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens in each text, in the order of the texts."""


@runtime_checkable
class Retriever(Protocol):
    """Finds documents that answer a query, in an index or in any other source."""

    def retrieve(
        self, query: str, *, top_k: int, filters: Mapping[str, Any] | Filter | None = None
    ) -> Sequence[ScoredDocument]:
        """Return the documents that answer the query best, best first: at most `top_k`, all matching `filters`."""


@runtime_checkable
class Reranker(Protocol):
    """Puts retrieved documents in a better order and leaves out irrelevant ones."""

    def rerank(
        self, query: str, documents: Sequence[ScoredDocument], *, top_k: int | None = None
    ) -> list[ScoredDocument]:
        """Return the best documents, best first, as new values; an empty list if none is relevant.

        Args:
            query: The query.
            documents: The candidates; they are not changed.
            top_k: The maximum number of documents; the reranker's own if `None`.
        """


@runtime_checkable
class ContradictionDetector(Protocol):
    """Detects which earlier statements a new one contradicts, for example with an entailment model."""

    def contradicts(self, statement: str, earlier: Sequence[str]) -> Sequence[bool]:
        """Return whether the new statement ends each earlier one, in the order of the earlier ones.

        arc passes at most 32 earlier statements. If the call raises, arc logs and counts the exception and decides by
        its own rules.
        """


@runtime_checkable
class QueryTransformer(Protocol):
    """Turns a question into search queries."""

    def transform(self, query: str, *, history: Sequence[Message] = ()) -> list[str]:
        """Return at least one query to search for, the most important first.

        Args:
            query: The question as the user asked it.
            history: The conversation before the question, oldest first.
        """


@dataclass(frozen=True, slots=True)
class SessionKey:
    """Identifies a conversation and its owner; every read and write of a store requires one.

    A session id belongs to its caller: two callers may use the same id for different conversations. Within a caller,
    the first write binds the conversation to its user; a key with another user finds nothing.
    """

    session_id: str
    caller_id: str = "default"
    user_id: str | None = None
    account_id: str | None = None

    def __post_init__(self) -> None:
        check_identifier("session_id", self.session_id)
        check_identifier("caller_id", self.caller_id)
        for name in ("user_id", "account_id"):
            value = getattr(self, name)
            if value is not None:
                check_identifier(name, value)


@dataclass(frozen=True, slots=True)
class CountedMessage:
    """A message ready to be stored (it has an id and a time), with its token count by the counter named `counter`."""

    message: Message
    tokens: int
    counter: str


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as the store holds it.

    Args:
        message: The message, with its id and time.
        seq: Its position in the session: larger is later. Unique and never reused, but not always consecutive.
        tokens: Its token count, taken by the counter named `counter` when the message was stored.
        counter: The name of the token counter.
        revision: 1 at first; increases by one each time other content is stored under the same id.
        edited: Whether the append that returned this value created the revision; always false for a message that was
            read.
    """

    message: Message
    seq: int
    tokens: int
    counter: str
    revision: int = 1
    edited: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Conversation:
    """The record of a session. Counts and sums cover the messages stored now; times are UTC."""

    key: SessionKey
    created_at: datetime
    updated_at: datetime
    last_message_at: datetime | None
    message_count: int
    tool_calls_count: int
    total_tokens: int
    status: str
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ConversationPage:
    """A page of conversations, newest first, and the cursor of the next page (`None` on the last page)."""

    conversations: tuple[Conversation, ...]
    next_cursor: str | None


class ConversationStore(Protocol):
    """Stores conversations. Thread-safe; every method is atomic, and durable when it returns.

    A method that takes a session's key accesses only that session. It raises `SessionNotFoundError` if the caller's
    conversation belongs to another user, and treats a conversation that does not exist as empty.
    """

    def append(
        self, key: SessionKey, messages: Sequence[CountedMessage], *, max_messages: int | None = None
    ) -> list[StoredMessage]:
        """Append messages to a conversation, and create the conversation if it does not exist.

        - Idempotent: a message whose id is already stored with the same content is left as it is; with other content,
          it becomes a new revision at its old position.
        - Stores all of the messages or none, in the order of the calls, across processes.
        - With `max_messages`, removes the oldest whole turns until no more messages than that are left; the newest
          turn always stays.

        Returns:
            Each message as it is stored now, in the order given (a message given twice is returned twice).
        """

    def tail(
        self,
        key: SessionKey,
        *,
        limit: int | None = None,
        max_tokens: int | None = None,
        before: int | None = None,
        after: int | None = None,
    ) -> list[StoredMessage]:
        """Return the newest messages, oldest first.

        Reads as many rows as it returns (with `max_tokens`, at most twice as many plus 32), however long the
        conversation is.

        Args:
            key: The session.
            limit: The maximum number of messages.
            max_tokens: The maximum sum of their stored token counts.
            before: Return only messages with a smaller `seq`.
            after: Return only messages with a larger `seq`.
        """

    def head(self, key: SessionKey, *, limit: int) -> list[StoredMessage]:
        """Return the oldest `limit` messages, oldest first. Reads as many rows as it returns."""

    def find(self, key: SessionKey, message_ids: Sequence[str]) -> list[StoredMessage]:
        """Return the messages with these ids that are stored, oldest first."""

    def at(self, key: SessionKey, places: Sequence[int]) -> list[StoredMessage]:
        """Return the messages with these `seq`s that are stored, oldest first, each once."""

    def remove(self, key: SessionKey, message_ids: Sequence[str]) -> int:
        """Remove single messages and the memories derived from them alone; return the number of messages removed."""

    def conversation(self, key: SessionKey) -> Conversation | None:
        """Return the session's record, or `None` if nothing was ever stored or the session was deleted."""

    def clear(self, key: SessionKey) -> int:
        """Remove all messages and everything derived from them, but keep the session; return the number of messages."""

    def delete(self, key: SessionKey) -> bool:
        """Remove the session, its content and everything derived from it; return whether it existed."""

    def conversations(
        self, caller_id: str, *, user_id: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> ConversationPage:
        """Return a page of a caller's conversations, or of one user's with `user_id`, newest first by creation."""

    def close(self) -> None:
        """Release the store's resources. Safe to call twice."""
