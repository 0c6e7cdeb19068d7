"""Opens arc's engine with LangChain's models."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from arc_common.engine.context_engine import ContextEngine
from arc_common.engine.runtime import SaveErrorHandler
from arc_common.exceptions import InvalidInputError, MissingDependencyError
from arc_common.messages import Message
from arc_common.observability import Observer
from arc_common.protocols import ChatModel, Embedder, TokenCounter
from langchain_arc.models import LangChainChatModel, LangChainEmbedder

try:
    from langchain_core.embeddings import Embeddings
    from langchain_core.runnables import Runnable
except ImportError as error:
    raise MissingDependencyError("langchain_arc.open_engine", package="langchain-core", extra="langchain") from error

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from arc_common.settings import ArcSettings


def open_engine(
    url: "str | Engine | None" = None,
    *,
    llm: Runnable[Any, Any] | ChatModel | None = None,
    summary_llm: Runnable[Any, Any] | ChatModel | None = None,
    embeddings: Embeddings | Embedder | None = None,
    token_counter: TokenCounter | None = None,
    settings: "ArcSettings | None" = None,
    observer: Observer | None = None,
    on_save_error: SaveErrorHandler | None = None,
    clock: Callable[[], datetime] | None = None,
    new_id: Callable[[], str] | None = None,
) -> ContextEngine:
    """Open an engine with LangChain's models; everything else is as in `ContextEngine.open`. Does no I/O.

    Args:
        url: The database for conversations; without it and without a setting, they are kept in memory.
        llm: A LangChain chat model, or an arc `ChatModel`; optional.
        summary_llm: The model that writes summaries in place of `llm`; by default the one that
            `settings.summary.llm_model` names ("openai:gpt-4o-mini"), created by LangChain's `init_chat_model` when the
            first summary is due.
        embeddings: LangChain embeddings, or an arc `Embedder`; optional.
        token_counter: Counts tokens; by default the counter that `settings.tokens` names.
        settings: The settings; by default those of the environment.
        observer: Receives counts and times.
        on_save_error: Called when a turn could not be saved.
        clock: Returns the current time, with its time zone.
        new_id: Creates message ids.

    Raises:
        ConfigurationError: The database URL or a setting is invalid.
        InvalidInputError: A model is of the wrong kind.
        MissingDependencyError: `settings.summary.llm_model` is set, and `langchain` is not installed.
    """
    from arc_common.settings import ArcSettings  # noqa: PLC0415 - pydantic-settings takes 0.2 s to import

    settings = settings or ArcSettings()
    if summary_llm is None and settings.summary.llm_model is not None:
        summary_llm = _NamedChatModel(settings.summary.llm_model)
    return ContextEngine.open(
        url,
        chat_model=None if llm is None else _chat_model(llm),
        summary_model=None if summary_llm is None else _chat_model(summary_llm),
        embedder=None if embeddings is None else _embedder(embeddings),
        token_counter=token_counter,
        settings=settings,
        observer=observer,
        on_save_error=on_save_error,
        clock=clock,
        new_id=new_id,
    )


def checked_engine(engine: object) -> ContextEngine:
    """Return the engine; raise if it is not one."""
    if not isinstance(engine, ContextEngine):
        raise InvalidInputError("engine", engine, "a ContextEngine: langchain_arc.open_engine() makes one")
    return engine


class _NamedChatModel:
    """A chat model created from its name at the first call, which imports its package and reads its keys."""

    def __init__(self, name: str) -> None:
        if find_spec("langchain") is None:
            raise MissingDependencyError("settings.summary.llm_model", package="langchain", extra="agents")
        self._name = name

    def complete(self, messages: Sequence[Message]) -> str:
        """Return the answer's content as text. Raises whatever creating or calling the model raises."""
        return self._model.complete(messages)

    @cached_property
    def _model(self) -> LangChainChatModel:
        from langchain.chat_models import init_chat_model  # noqa: PLC0415 - optional, and 0.5 s to import

        return LangChainChatModel(init_chat_model(self._name))


def _chat_model(llm: Runnable[Any, Any] | ChatModel) -> ChatModel:
    """Wrap a LangChain model; the protocol alone can't tell, since such a model may have a `complete` too."""
    return LangChainChatModel(llm) if isinstance(llm, Runnable) or not isinstance(llm, ChatModel) else llm


def _embedder(embeddings: Embeddings | Embedder) -> Embedder:
    if isinstance(embeddings, Embeddings) or not isinstance(embeddings, Embedder):
        return LangChainEmbedder(embeddings)
    return embeddings
