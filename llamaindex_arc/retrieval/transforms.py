"""Arc's query transformers as LlamaIndex query transforms."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.indices.query.query_transform.base import BaseQueryTransform
from llama_index.core.memory.types import BaseMemory
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.core.schema import QueryBundle, QueryType

from arc_common.documents import checked_items
from arc_common.exceptions import InvalidInputError
from arc_common.messages import Message, Role
from arc_common.observability import Observer, guarded_observer
from arc_common.protocols import ChatModel, QueryTransformer
from arc_common.retrieval.query_transformers import (
    ConversationAwareQueryTransformer,
    HyDEQueryTransformer,
    RuleBasedConversationTransformer,
)
from llamaindex_arc.messages import to_arc
from llamaindex_arc.models import chat_model_of

if TYPE_CHECKING:
    from arc_common.settings import ArcSettings

_log = logging.getLogger("arc.llamaindex")

HISTORY = "chat_history"
"""The key of a transform's metadata under which a conversation may be passed."""


class _ArcTransform(BaseQueryTransform):
    """The base of both transforms: an async form of `run`, and no LlamaIndex prompts."""

    async def arun(self, query_bundle_or_str: QueryType, metadata: dict[str, Any] | None = None) -> QueryBundle:
        """Async form of `run`."""
        query_bundle = query_bundle_or_str
        if isinstance(query_bundle, str):
            query_bundle = QueryBundle(query_bundle, custom_embedding_strs=[query_bundle])
        return await self._arun(query_bundle, metadata or {})

    async def _arun(self, query_bundle: QueryBundle, metadata: dict[str, Any]) -> QueryBundle:
        return await asyncio.to_thread(self._run, query_bundle, metadata)

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        """Ignore prompts: arc's instructions to models are not templates."""


class ArcHyDETransform(_ArcTransform):
    """Adds a hypothetical answer to the search (HyDE, Gao et al. 2022; see `HyDEQueryTransformer`).

    - The query stays unchanged; the hypothetical answer follows it among the embedding strings.
    - If the model fails, refuses or returns nothing, the original bundle is returned. The bundle given is never
      changed.

    Args:
        llm: Writes the answer: a LlamaIndex LLM, or an arc `ChatModel`.

    Raises:
        InvalidInputError: `llm` is not a model.
    """

    def __init__(
        self, llm: BaseLLM | ChatModel, *, settings: "ArcSettings | None" = None, observer: Observer | None = None
    ) -> None:
        super().__init__()
        self._transformer = HyDEQueryTransformer(chat_model_of(llm), settings=settings, observer=observer)

    def _run(self, query_bundle: QueryBundle, metadata: dict[str, Any]) -> QueryBundle:  # noqa: ARG002 - LlamaIndex's
        _, *answers = self._transformer.transform(query_bundle.query_str)
        if not answers:
            return query_bundle
        return replace(query_bundle, custom_embedding_strs=[*query_bundle.embedding_strs, *answers], embedding=None)


class ArcConversationTransform(_ArcTransform):
    """Rewrites a follow-up question so that it stands alone, as LlamaIndex's condensing chat engines do.

    - A model rewrites the question (see `ConversationAwareQueryTransformer`); without a model, rules add the topic
      words that it leaves out (see `RuleBasedConversationTransformer`). If the question already stands alone, or the
      model fails, the original bundle is returned.
    - The standalone question becomes the new bundle's query and replaces the old one among the embedding strings, so
      that retrieval, reranking and the answer all use it. The bundle given is never changed.
    - The conversation is the memory's, or `metadata["chat_history"]` of a run: chat messages, oldest first. If its last
      message is the question itself, that message is ignored.
    - If the memory fails, or the conversation is invalid, the bundle stays unchanged; this is counted as
      `standalone.unread_conversations`, and logged.

    Args:
        llm: Rewrites questions: a LlamaIndex LLM, or an arc `ChatModel`; `None` uses rules.
        memory: Any LlamaIndex memory; it is read in each run.
        max_history_turns: The number of newest turns that are read.

    Raises:
        InvalidInputError: `llm` is not a model, or `memory` is not a memory.
    """

    def __init__(
        self,
        llm: BaseLLM | ChatModel | None = None,
        *,
        memory: BaseMemory | None = None,
        max_history_turns: int = 5,
        settings: "ArcSettings | None" = None,
        observer: Observer | None = None,
    ) -> None:
        super().__init__()
        if memory is not None and not isinstance(memory, BaseMemory):
            raise InvalidInputError("memory", memory, "a LlamaIndex memory, or None")
        self._memory = memory
        self._observer = observer = guarded_observer(observer)
        self._transformer: QueryTransformer = (
            RuleBasedConversationTransformer(max_history_turns=max_history_turns)
            if llm is None
            else ConversationAwareQueryTransformer(
                chat_model_of(llm), max_history_turns=max_history_turns, settings=settings, observer=observer
            )
        )

    def _run(self, query_bundle: QueryBundle, metadata: dict[str, Any]) -> QueryBundle:
        history: list[Message] = []
        with self._reading():
            said = metadata.get(HISTORY)
            if said is None and self._memory is not None:
                said = self._memory.get()
            history = _history(said, query_bundle.query_str)
        return self._standing_alone(query_bundle, history)

    async def _arun(self, query_bundle: QueryBundle, metadata: dict[str, Any]) -> QueryBundle:
        history: list[Message] = []
        with self._reading():
            said = metadata.get(HISTORY)
            if said is None and self._memory is not None:
                said = await self._memory.aget()
            history = _history(said, query_bundle.query_str)
        return await asyncio.to_thread(self._standing_alone, query_bundle, history)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Suppress, count and log errors of reading the conversation, so that the question still runs."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - a user's memory may raise anything, or return something else than messages
            self._observer.count("standalone.unread_conversations")
            _log.warning("The question is unchanged, because no conversation could be read: %s", error, exc_info=True)

    def _standing_alone(self, query_bundle: QueryBundle, history: list[Message]) -> QueryBundle:
        asked = query_bundle.query_str
        (rewritten,) = self._transformer.transform(asked, history=history)
        if rewritten == asked:
            return query_bundle
        others = [text for text in query_bundle.embedding_strs if text != asked]
        return replace(query_bundle, query_str=rewritten, custom_embedding_strs=[rewritten, *others], embedding=None)


def _history(said: object, asked: str) -> list[Message]:
    messages = [] if said is None else checked_items(HISTORY, said, ChatMessage, expected="chat messages")
    history = [to_arc(message) for message in messages]
    if history and history[-1].role is Role.USER and history[-1].text == asked:
        history.pop()
    return history
