"""Adapts LangChain's models for arc's engine, and arc's for LangChain."""
# ruff: noqa: ARG002 - LangChain calls every model with arguments that this one ignores

import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase
from pydantic import BaseModel

from arc_common.exceptions import InvalidInputError, or_converted
from arc_common.messages import Message, check_identifier
from arc_common.protocols import ChatModel
from langchain_arc.messages import from_arc, to_arc

_HIDDEN_FROM_STREAMS: RunnableConfig = {"run_name": "arc", "tags": ["nostream"]}
"""LangGraph streams the tokens of every model call inside a node, except those of runs with this tag."""

_MODEL_FIELDS = ("model", "model_name", "model_id")
_WORD = re.compile(r"\S+\s*|\s+")


class LangChainChatModel:
    """A LangChain chat model as arc's `ChatModel`.

    - Answers by a schema if the model has `with_structured_output`.
    - Inside a LangGraph run, its output does not appear in the stream of messages that the run's user sees.

    Args:
        llm: The model, optionally with bindings (`.bind`, `.with_retry`, `.with_fallbacks`).
    """

    def __init__(self, llm: Runnable[Any, Any]) -> None:
        self._llm = checked_llm(llm)

    @property
    def name(self) -> str:
        """The model's name, as it states it, or else that of its class."""
        llm = self._llm
        while isinstance(llm, RunnableBindingBase):
            llm = llm.bound
        return _model_of(llm) or type(llm).__name__

    def complete(self, messages: Sequence[Message]) -> str:
        """Return the answer's text, its text blocks joined. Raises whatever the model's client raises."""
        answer = self._llm.invoke([from_arc(message) for message in messages], _HIDDEN_FROM_STREAMS)
        return str(answer.text if isinstance(answer, BaseMessage) else answer)

    def complete_structured(self, messages: Sequence[Message], schema: type[BaseModel]) -> BaseModel:
        """Return an instance of the schema, by `with_structured_output`.

        Raises:
            NotImplementedError: The model has no structured output.
        """
        answer = _structured(self._llm, schema).invoke(
            [from_arc(message) for message in messages], _HIDDEN_FROM_STREAMS
        )
        return cast("BaseModel", answer)


def checked_llm(llm: object, name: str = "llm") -> Runnable[Any, Any]:
    """Return a LangChain model; raise `InvalidInputError` for anything else."""
    if not isinstance(llm, Runnable):
        raise InvalidInputError(name, llm, or_converted("a LangChain chat model", llm))
    return llm


def _structured(llm: Runnable[Any, Any], schema: type[BaseModel]) -> Runnable[Any, Any]:
    """Return the model with structured output; its bindings stay."""
    if isinstance(llm, RunnableBindingBase):
        return llm.model_copy(update={"bound": _structured(llm.bound, schema)})
    if not hasattr(llm, "with_structured_output"):
        raise NotImplementedError(f"{type(llm).__name__} has no structured output")
    return cast("Runnable[Any, Any]", llm.with_structured_output(schema))


class LangChainEmbedder:
    """LangChain embeddings as arc's `QueryEmbedder`.

    Args:
        name: Identifies the model: vectors of different names are never compared. By default the names of the class
            and of the model, as the embeddings state it. For a cache of another model's vectors
            (`CacheBackedEmbeddings`), pass that model's name.
    """

    def __init__(self, embeddings: Embeddings, *, name: str | None = None) -> None:
        if not isinstance(embeddings, Embeddings):
            raise InvalidInputError("embeddings", embeddings, or_converted("LangChain embeddings", embeddings))
        self._embeddings = embeddings
        self.name = _name_of(embeddings) if name is None else check_identifier("name", name)

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector for each text, in the order of the texts."""
        return [list(map(float, vector)) for vector in self._embeddings.embed_documents(list(texts))]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question, which some models embed differently from a text."""
        return list(map(float, self._embeddings.embed_query(text)))


class ArcChatModel(BaseChatModel):
    """An arc `ChatModel` as a LangChain chat model; it streams word by word."""

    chat_model: ChatModel

    @property
    def _llm_type(self) -> str:
        return "arc"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(self._answer(messages, stop)))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for word in _WORD.findall(self._answer(messages, stop)) or [""]:
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))

    def _answer(self, messages: Sequence[BaseMessage], stop: Sequence[str] | None) -> str:
        text = self.chat_model.complete([to_arc(message) for message in messages])
        return re.split("|".join(map(re.escape, stop)), text, maxsplit=1)[0] if stop else text


def _name_of(embeddings: Embeddings) -> str:
    cached = getattr(embeddings, "underlying_embeddings", None)
    if isinstance(cached, Embeddings):
        return _name_of(cached)
    model, kind = _model_of(embeddings), type(embeddings).__name__
    return f"{kind}/{model}" if model else kind


def _model_of(made_for: object) -> str | None:
    """Return the name of the model that an object calls, as it states it."""
    names = (getattr(made_for, field, None) for field in _MODEL_FIELDS)
    return next((name for name in names if isinstance(name, str) and name), None)
