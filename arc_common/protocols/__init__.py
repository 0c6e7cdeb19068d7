"""What users supply and backends implement, and the values that pass between them and the engine."""

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
        """The answer's text. Raises whatever the model's client raises."""


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors of one fixed dimension."""

    @property
    def name(self) -> str:
        """Identifies the model: vectors of different names are never compared."""

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text, in their order."""


@runtime_checkable
class QueryEmbedder(Embedder, Protocol):
    """An embedder that embeds questions otherwise than the texts that answer them, as E5's and Cohere's models do."""

    def embed_query(self, text: str) -> list[float]:
        """The vector of a question; it is compared with those that `embed` makes of texts."""


@runtime_checkable
class TokenCounter(Protocol):
    """Counts a text's tokens as a model would see them.

    A counter that estimates may state its error in the attribute `relative_error`: in 999 of 1,000 requests the real
    tokens are at most the counted tokens times `1 + relative_error`. Code that fills a limit keeps that much free.
    """

    @property
    def name(self) -> str:
        """Identifies the method and its version: a stored count is valid while the name beside it is the same."""

    def count(self, text: str) -> int:
        """The tokens of one text; 0 for `""`."""

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text, in their order."""


@runtime_checkable
class Retriever(Protocol):
    """Finds documents: an index, or any source that can be asked."""

    def retrieve(
        self, query: str, *, top_k: int, filters: Mapping[str, Any] | Filter | None = None
    ) -> Sequence[ScoredDocument]:
        """The documents that answer the query best, best first; at most `top_k`, none that the filters leave out."""


@runtime_checkable
class Reranker(Protocol):
    """Puts retrieved documents in a better order, and leaves out what is not worth showing."""

    def rerank(
        self, query: str, documents: Sequence[ScoredDocument], *, top_k: int | None = None
    ) -> list[ScoredDocument]:
        """The best of the documents, best first, as new values; an empty list where nothing is relevant.

        Args:
            query: What is asked.
            documents: The candidates; they are not changed.
            top_k: How many at most; the reranker's own number where it is `None`.
        """


@runtime_checkable
class ContradictionDetector(Protocol):
    """Tells which earlier statements cannot hold beside a new one: an entailment model, for example."""

    def contradicts(self, statement: str, earlier: Sequence[str]) -> Sequence[bool]:
        """Return for each earlier statement, in their order, whether the new one ends it.

        Called with 32 earlier statements at most. Whatever it raises is logged and counted, and arc's rules decide.
        """


@runtime_checkable
class QueryTransformer(Protocol):
    """Turns a question into what is searched for."""

    def transform(self, query: str, *, history: Sequence[Message] = ()) -> list[str]:
        """The queries to search for, the most important first; never none.

        Args:
            query: The question as it was asked.
            history: The conversation before it, oldest first.
        """


@dataclass(frozen=True, slots=True)
class SessionKey:
    """Which conversation, and whose: no store reads or writes without one.

    A session id belongs to its caller: two callers may use the same one for different conversations. Within a caller
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
    """A message ready to be stored (it has an id and a time), with its tokens under the counter of that name."""

    message: Message
    tokens: int
    counter: str


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as the store holds it.

    Args:
        message: The message, with its id and time.
        seq: Its place in the session: larger is later. Unique and never used again; not always consecutive.
        tokens: Its tokens, as counted when it was stored by the counter named `counter`.
        revision: 1 at first, one more each time it is stored again under its id with other content.
        edited: Whether the append that gave it has made this revision; never so for a message that was read.
    """

    message: Message
    seq: int
    tokens: int
    counter: str
    revision: int = 1
    edited: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A session's own record. Counts and sums are of the messages that are there now; times are UTC."""

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
    """Some conversations, newest first, and the cursor that continues behind them (`None` at the end)."""

    conversations: tuple[Conversation, ...]
    next_cursor: str | None


class ConversationStore(Protocol):
    """Where conversations are kept. Thread-safe; every method is atomic, and durable when it returns.

    Every method takes the session's key and sees that session only. A conversation that exists for this caller but
    belongs to another user raises `SessionNotFoundError`; one that does not exist is empty.
    """

    def append(
        self, key: SessionKey, messages: Sequence[CountedMessage], *, max_messages: int | None = None
    ) -> list[StoredMessage]:
        """Store messages behind those that are there, and create the conversation if need be.

        - Idempotent: a message whose id is there with the same content is left as it is; with other content it
          becomes a new revision in its old place.
        - All of them or none; the order is that of the call, across processes.
        - With `max_messages`, whole turns leave at the old end until no more than that are left, as long as the
          newest turn stays.

        Returns:
            Each message as it is stored now, in the order given (a message given twice comes back twice).
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
        """The newest messages, oldest first.

        Reads as many rows as it returns (by tokens: at most twice as many, and 32), however long the conversation is.

        Args:
            key: The session.
            limit: At most so many messages.
            max_tokens: Only as long as their stored counts sum to no more than this.
            before: Only those with a smaller `seq`.
            after: Only those with a larger `seq`.
        """

    def head(self, key: SessionKey, *, limit: int) -> list[StoredMessage]:
        """The oldest messages, oldest first. Reads as many rows as it returns."""

    def find(self, key: SessionKey, message_ids: Sequence[str]) -> list[StoredMessage]:
        """Those of the messages that are there, oldest first."""

    def at(self, key: SessionKey, places: Sequence[int]) -> list[StoredMessage]:
        """The messages with these `seq`s that are there, oldest first, each once."""

    def remove(self, key: SessionKey, message_ids: Sequence[str]) -> int:
        """Remove single messages, with the memories that rest on these alone; how many were there."""

    def conversation(self, key: SessionKey) -> Conversation | None:
        """The session's record, or `None` if nothing was ever stored (or it was deleted)."""

    def clear(self, key: SessionKey) -> int:
        """Remove all messages and everything made from them, but keep the session; how many there were."""

    def delete(self, key: SessionKey) -> bool:
        """Remove the session, everything in it and everything made from it; whether there was one."""

    def conversations(
        self, caller_id: str, *, user_id: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> ConversationPage:
        """A caller's conversations (with `user_id`, that user's), newest first by creation."""

    def close(self) -> None:
        """Give back what the store holds. Safe to call twice."""
