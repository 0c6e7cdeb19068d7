"""Adapts LlamaIndex's models for arc's engine, and arc's for LlamaIndex."""
# ruff: noqa: ARG002 - LlamaIndex calls every model with arguments that this one ignores

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from functools import partial
from threading import Lock
from typing import Any, TypeVar

from cachetools import cached
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    LLMMetadata,
    MessageRole,
)
from llama_index.core.bridge.pydantic import BaseModel, Field, PrivateAttr
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.llm import LLM
from llama_index.core.prompts import ChatPromptTemplate

from arc_common.caches import LRUCache
from arc_common.exceptions import InvalidInputError, check_whole, or_converted
from arc_common.messages import Message, Role, check_identifier
from arc_common.protocols import ChatModel, TokenCounter
from llamaindex_arc.component import Component
from llamaindex_arc.messages import from_arc, to_arc

_log = logging.getLogger("arc.llamaindex")

Said = TypeVar("Said", ChatResponse, CompletionResponse)

_WORD = re.compile(r"\s*\S+(?:\s+$)?|\s+")


class LlamaIndexChatModel:
    """A LlamaIndex LLM as arc's `ChatModel`.

    - Answers by a schema if the model calls functions or has a `structured_predict` of its own.
    """

    def __init__(self, llm: BaseLLM) -> None:
        self._llm = checked_llm(llm)

    @property
    def name(self) -> str:
        """The model's name, as it states it."""
        return self._llm.metadata.model_name

    def complete(self, messages: Sequence[Message]) -> str:
        """Return the answer's content as text. Raises whatever the model's client raises."""
        return self._llm.chat([from_arc(message) for message in messages]).message.content or ""

    def complete_structured(self, messages: Sequence[Message], schema: type[BaseModel]) -> BaseModel:
        """Return an instance of the schema, by `structured_predict`.

        Raises:
            NotImplementedError: LlamaIndex would parse the model's text, as arc does itself.
        """
        llm = self._llm
        own = isinstance(llm, LLM) and type(llm).structured_predict is not LLM.structured_predict
        if not isinstance(llm, LLM) or not (own or llm.metadata.is_function_calling_model):
            raise NotImplementedError(f"{type(llm).__name__} has no structured output")
        answer: BaseModel = llm.structured_predict(
            schema, ChatPromptTemplate([from_arc(message) for message in messages])
        )
        return answer


def checked_llm(llm: object, name: str = "llm") -> BaseLLM:
    """Return a LlamaIndex LLM; raise `InvalidInputError` for anything else."""
    if not isinstance(llm, BaseLLM):
        raise InvalidInputError(name, llm, or_converted("a LlamaIndex LLM", llm))
    return llm


def chat_model_of(llm: BaseLLM | ChatModel, name: str = "llm") -> ChatModel:
    """Return arc's chat model for a LlamaIndex LLM, which the protocol alone can't tell from arc's own kind."""
    if isinstance(llm, BaseLLM) or not isinstance(llm, ChatModel):
        return LlamaIndexChatModel(checked_llm(llm, name))
    return llm


class LlamaIndexEmbedder:
    """A LlamaIndex embedding model as arc's `QueryEmbedder`.

    - Vectors of different names are never mixed; vectors of the same name are. A model that doesn't identify itself
      (its `model_name` is "unknown") gets the full name of its class, and a warning is logged: if two such models share
      a class, give each its own `name`.

    Args:
        name: Identifies the model; by default the names of the class and of the model.
    """

    def __init__(self, embed_model: BaseEmbedding, *, name: str | None = None) -> None:
        if not isinstance(embed_model, BaseEmbedding):
            raise InvalidInputError(
                "embed_model", embed_model, or_converted("a LlamaIndex embedding model", embed_model)
            )
        self._embed_model = embed_model
        self.name = _name_of(embed_model) if name is None else check_identifier("name", name)

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector for each text, in the order of the texts."""
        return [list(map(float, vector)) for vector in self._embed_model.get_text_embedding_batch(list(texts))]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question, which some models embed differently from a text."""
        return list(map(float, self._embed_model.get_query_embedding(text)))


def _name_of(embed_model: BaseEmbedding) -> str:
    kind, model = embed_model.class_name(), embed_model.model_name
    has_model = bool(model) and model != BaseEmbedding.model_fields["model_name"].default
    if not has_model or kind == BaseEmbedding.class_name():  # the inherited name, shared by every class without its own
        kind = f"{type(embed_model).__module__}.{type(embed_model).__qualname__}"
    if has_model:
        return f"{kind}/{model}"
    _log.warning("%s has no model_name: use LlamaIndexEmbedder(…, name=…) to tell two such models apart", kind)
    return kind


class ArcLLM(Component, LLM):
    """An arc `ChatModel` as a LlamaIndex LLM; it streams word by word.

    - Its async methods run the model on a thread, so that no event loop is blocked.
    - `context_window` and `num_output` are what LlamaIndex assumes of the model, in tokens.
    """

    context_window: int = Field(default=128_000, ge=1)
    num_output: int = Field(default=4_096, ge=1)
    model_name: str = Field(default="arc")
    _chat_model: ChatModel = PrivateAttr()

    def __init__(
        self,
        chat_model: ChatModel,
        *,
        context_window: int = 128_000,
        num_output: int = 4_096,
        model_name: str = "arc",
        callback_manager: CallbackManager | None = None,
    ) -> None:
        given: object = chat_model  # an LLM has a `complete` too
        if isinstance(given, BaseLLM) or not isinstance(given, ChatModel):
            raise InvalidInputError("chat_model", chat_model, "an object that completes arc messages")
        fields: dict[str, Any] = {
            "context_window": check_whole("context_window", context_window),
            "num_output": check_whole("num_output", num_output),
            "model_name": check_identifier("model_name", model_name),
            "callback_manager": callback_manager or CallbackManager(),
        }
        super().__init__(**fields)
        self._chat_model = chat_model

    @property
    def metadata(self) -> LLMMetadata:
        """The model's properties, as LlamaIndex reads them."""
        return LLMMetadata(
            context_window=self.context_window,
            num_output=self.num_output,
            is_chat_model=True,
            model_name=self.model_name,
        )

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answer the messages."""
        return _said(self._answer(messages))

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Async form of `chat`."""
        return _said(await asyncio.to_thread(self._answer, messages))

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        """Answer the messages word by word."""
        return _words(partial(self._answer, messages), _said)

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseAsyncGen:
        """Async form of `stream_chat`."""
        return _awords(partial(self._answer, messages), _said)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Answer the prompt as a user's message."""
        return _completed(self._answer_prompt(prompt))

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Async form of `complete`."""
        return _completed(await asyncio.to_thread(self._answer_prompt, prompt))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        """Answer the prompt word by word."""
        return _words(partial(self._answer_prompt, prompt), _completed)

    @llm_completion_callback()
    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseAsyncGen:
        """Async form of `stream_complete`."""
        return _awords(partial(self._answer_prompt, prompt), _completed)

    def _answer(self, messages: Sequence[ChatMessage]) -> str:
        return self._chat_model.complete([to_arc(message) for message in messages])

    def _answer_prompt(self, prompt: str) -> str:
        return self._chat_model.complete([Message(Role.USER, prompt)])


def _said(text: str, delta: str | None = None) -> ChatResponse:
    return ChatResponse(message=ChatMessage(role=MessageRole.ASSISTANT, content=text), delta=delta)


def _completed(text: str, delta: str | None = None) -> CompletionResponse:
    return CompletionResponse(text=text, delta=delta)


def _words(ask: Callable[[], str], said: Callable[[str, str], Said]) -> Generator[Said, None, None]:
    """Yield an answer word by word, in a form of LlamaIndex's."""
    for text, word in _growing(ask()):
        yield said(text, word)


async def _awords(ask: Callable[[], str], said: Callable[[str, str], Said]) -> AsyncGenerator[Said, None]:
    """Async form of `_words`."""
    for text, word in _growing(await asyncio.to_thread(ask)):
        yield said(text, word)


def _growing(text: str) -> Iterator[tuple[str, str]]:
    """Yield the text so far and the added word, word by word; an empty text yields one empty piece."""
    so_far = ""
    for word in _WORD.findall(text) or [""]:
        so_far += word
        yield so_far, word


_REMEMBERED = 2_048
"""The number of texts whose counts are kept: several windows of a few hundred messages."""


class CounterAsTokenizer:
    """A token counter as a tokenizer function: chat engines only take the length of its result."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter

    def __call__(self, text: str) -> list[int]:
        """Return a list with one item for each token of the text."""
        return [0] * self._counter.count(text)


class TokenizerAsCounter:
    """A tokenizer function as a token counter that tokenizes each of the last 2,048 texts once."""

    name = "tokenizer_fn"

    def __init__(self, tokenizer_fn: Callable[[str], Sequence[Any]]) -> None:
        cache: LRUCache[Any, int] = LRUCache(_REMEMBERED)
        # keyed by hashes: the cache must not keep deleted texts
        self._count = cached(cache, key=hash, lock=Lock())(lambda text: len(tokenizer_fn(text)))

    def count(self, text: str) -> int:
        """Return the tokens of one text."""
        return self._count(text) if text else 0

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, in the order of the texts."""
        return list(map(self.count, texts))
