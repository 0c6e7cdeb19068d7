"""Opens arc's engine with LangChain's models."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Unpack

from langchain_core.embeddings import Embeddings
from langchain_core.runnables import Runnable

from arc_common.engine.context_engine import ContextEngine, EngineOptions, check_options
from arc_common.exceptions import MissingDependencyError, converter_of
from arc_common.model_calls import NamedChatModel
from arc_common.protocols import ChatModel, Embedder
from langchain_arc.models import LangChainChatModel, LangChainEmbedder, checked_llm

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from arc_common.settings import ArcSettings


def open_engine(
    url: "str | Engine | None" = None,
    *,
    llm: Runnable[Any, Any] | ChatModel | None = None,
    summary_llm: Runnable[Any, Any] | ChatModel | None = None,
    embeddings: Embeddings | Embedder | None = None,
    settings: "ArcSettings | None" = None,
    **options: Unpack[EngineOptions],
) -> ContextEngine:
    """Open an engine with LangChain's models. Does no I/O. Takes the other arguments of `ContextEngine.open`, too.

        engine = open_engine("sqlite:///chat.db", llm=ChatOpenAI(model="gpt-5-mini"))
        chain = with_arc_memory(prompt | model, engine)

    - `llm` is a LangChain chat model, or an arc `ChatModel` (`SerialChatModel(LangChainChatModel(llm))` for one that is
      not thread-safe), and `embeddings` LangChain's, or an arc `Embedder`.
    - `summary_llm` writes summaries in place of `llm`; by default it is the model that `settings.summary.llm_model`
      names ("openai:gpt-5-mini"), created by LangChain's `init_chat_model` when the first summary is due.

    Raises:
        ConfigurationError: The database URL or a setting is invalid.
        InvalidInputError: An argument is of the wrong kind.
        MissingDependencyError: `settings.summary.llm_model` is set, and `langchain` is not installed.
    """
    from arc_common.settings import checked_settings  # noqa: PLC0415 - pydantic-settings takes 0.2 s to import

    check_options(options, embedder="embeddings")
    settings = checked_settings(settings)
    if summary_llm is None and settings.summary.llm_model is not None:
        summary_llm = _named(settings.summary.llm_model)
    return ContextEngine.open(
        url,
        chat_model=None if llm is None else _chat_model(llm),
        summary_model=None if summary_llm is None else _chat_model(summary_llm, "summary_llm"),
        embedder=None if embeddings is None else _embedder(embeddings),
        settings=settings,
        **options,
    )


def _named(name: str) -> ChatModel:
    if find_spec("langchain") is None:
        raise MissingDependencyError("settings.summary.llm_model", package="langchain", extra="agents")

    def make(name: str) -> LangChainChatModel:
        from langchain.chat_models import init_chat_model  # noqa: PLC0415 - optional, and 0.5 s to import

        return LangChainChatModel(init_chat_model(name))

    return NamedChatModel(name, make)


def _chat_model(llm: Runnable[Any, Any] | ChatModel, name: str = "llm") -> ChatModel:
    """Wrap a LangChain model; the protocol alone can't tell it from arc's own kind."""
    if isinstance(llm, Runnable) or converter_of(llm) or not isinstance(llm, ChatModel):
        return LangChainChatModel(checked_llm(llm, name))  # which refuses other frameworks' models
    return llm


def _embedder(embeddings: Embeddings | Embedder) -> Embedder:
    if isinstance(embeddings, Embeddings) or not isinstance(embeddings, Embedder):
        return LangChainEmbedder(embeddings)
    return embeddings
