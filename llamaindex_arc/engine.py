"""Opens arc's engine with LlamaIndex's models."""

from threading import Lock
from typing import TYPE_CHECKING, Unpack
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakValueDictionary

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.llms.utils import resolve_llm

from arc_common.engine.context_engine import ContextEngine, EngineOptions, check_options
from arc_common.exceptions import ConfigurationError
from arc_common.model_calls import NamedChatModel
from arc_common.protocols import ChatModel, Embedder
from llamaindex_arc.models import LlamaIndexChatModel, LlamaIndexEmbedder, chat_model_of

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from arc_common.settings import ArcSettings


def open_engine(
    url: "str | Engine | None" = None,
    *,
    llm: BaseLLM | ChatModel | None = None,
    summary_llm: BaseLLM | ChatModel | None = None,
    embed_model: BaseEmbedding | Embedder | None = None,
    settings: "ArcSettings | None" = None,
    **options: Unpack[EngineOptions],
) -> ContextEngine:
    """Open an engine with LlamaIndex's models. Does no I/O. Takes the other arguments of `ContextEngine.open`, too.

        engine = open_engine("sqlite:///chat.db", llm=Settings.llm)
        memory = ArcMemory.from_defaults(engine=engine, session_id="ann")

    - `llm` is a LlamaIndex LLM, or an arc `ChatModel` (`SerialChatModel(LlamaIndexChatModel(llm))` for one that is not
      thread-safe), and `embed_model` a LlamaIndex embedding model, or an arc `Embedder`.
    - `summary_llm` writes summaries in place of `llm`; by default it is the model that `settings.summary.llm_model`
      names ("default" or "local:PATH"), created by LlamaIndex's `resolve_llm` when the first summary is due.

    Raises:
        ConfigurationError: The database URL or a setting is invalid.
        InvalidInputError: An argument is of the wrong kind.
    """
    from arc_common.settings import checked_settings  # noqa: PLC0415 - pydantic-settings takes 0.2 s to import

    check_options(options, embedder="embed_model")
    settings = checked_settings(settings)
    if summary_llm is None and settings.summary.llm_model is not None:
        summary_llm = _named(settings.summary.llm_model)
    return ContextEngine.open(
        url,
        chat_model=None if llm is None else chat_model_of(llm),
        summary_model=None if summary_llm is None else chat_model_of(summary_llm, "summary_llm"),
        embedder=None if embed_model is None else _embedder(embed_model),
        settings=settings,
        **options,
    )


def _named(name: str) -> ChatModel:
    if name != "default" and not name.startswith("local:"):
        raise ConfigurationError(
            f'summary.llm_model is {name!r}, but LlamaIndex makes models by the names "default" and "local:PATH" '
            "only; give the model itself instead: open_engine(..., summary_llm=...)"
        )
    return NamedChatModel(name, lambda name: LlamaIndexChatModel(resolve_llm(name)))


def _embedder(embed_model: BaseEmbedding | Embedder) -> Embedder:
    if isinstance(embed_model, BaseEmbedding) or not isinstance(embed_model, Embedder):
        return LlamaIndexEmbedder(embed_model)
    return embed_model


_lock = Lock()
_names: "WeakKeyDictionary[ContextEngine, str]" = WeakKeyDictionary()
_engines: "WeakValueDictionary[str, ContextEngine]" = WeakValueDictionary()


def name_of(engine: ContextEngine) -> str:
    """Return a name unique to the engine while it lives, in this process and in those forked from it."""
    with _lock:
        name = _names.setdefault(engine, uuid4().hex)
        _engines[name] = engine
        return name


def engine_named(name: object) -> ContextEngine | None:
    """Return the engine of that name, possibly closed; `None` if it does not live in this process."""
    with _lock:
        return _engines.get(name) if isinstance(name, str) else None
