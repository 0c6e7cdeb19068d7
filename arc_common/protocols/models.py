"""Protocols of the models and tools that users supply."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from arc_common.documents import ScoredDocument
from arc_common.filters import Filter
from arc_common.messages import Message

if TYPE_CHECKING:
    from pydantic import BaseModel


@runtime_checkable
class ChatModel(Protocol):
    """A language model that answers messages with text."""

    def complete(self, messages: Sequence[Message]) -> str:
        """Return the answer's text. Exceptions of the model's client pass through."""


@runtime_checkable
class StructuredChatModel(ChatModel, Protocol):
    """A chat model that can also answer by a schema, as providers offer it under "structured output"."""

    def complete_structured(self, messages: Sequence[Message], schema: "type[BaseModel]") -> "BaseModel":
        """Return an instance of the schema.

        If the call raises, or returns anything else, arc asks for a text answer in its place.

        Raises:
            NotImplementedError: The model has no structured output; arc does not ask for it again.
        """


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


@runtime_checkable
class Cipher(Protocol):
    """Encrypts the stores' data: rows, index texts, cache values, archive objects. `Fernet` and `MultiFernet` fit."""

    def encrypt(self, data: bytes) -> bytes:
        """Return the data encrypted and authenticated, as ASCII; never the same twice."""

    def decrypt(self, token: bytes) -> bytes:
        """Return the data that `encrypt` was given.

        Raises:
            Exception: The token was made under another key, or changed.
        """
