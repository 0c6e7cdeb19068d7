"""ContextEngine: opens a store and provides sessions."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from threading import TIMEOUT_MAX
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypedDict

from arc_common.concurrency import Workers, started
from arc_common.exceptions import ConfigurationError, InvalidInputError, converter_of, or_converted
from arc_common.observability import Health, Observer
from arc_common.protocols import (
    ChatModel,
    Cipher,
    ContradictionDetector,
    Embedder,
    Reranker,
    Retriever,
    SessionKey,
    TokenCounter,
)
from arc_common.tokens.budget import TokenBudget

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from arc_common.engine.admin import Admin
    from arc_common.engine.documents import DocumentIndex
    from arc_common.engine.ingestion import Ingestion
    from arc_common.engine.memories import Memories
    from arc_common.engine.runtime import Runtime, SaveErrorHandler
    from arc_common.engine.session import Session
    from arc_common.protocols import QueryTransformer
    from arc_common.rag import RagPipeline
    from arc_common.retrieval import HybridIndex
    from arc_common.settings import ArcSettings
    from arc_common.tokens.compression import CompressionStrategy


class EngineOptions(TypedDict, total=False):
    """The options of `ContextEngine.open` that no framework has a word for."""

    token_counter: TokenCounter | None
    retriever: "Retriever | RagPipeline | None"
    compression: "CompressionStrategy | None"
    contradiction_detector: ContradictionDetector | None
    observer: Observer | None
    on_save_error: "SaveErrorHandler | None"
    clock: Callable[[], datetime] | None
    new_id: Callable[[], str] | None
    cipher: Cipher | None


def check_options(options: Mapping[str, object], *, embedder: str) -> None:
    """Raise if an adapter's `open_engine` is given `ContextEngine.open`'s word for a model; name the framework's."""
    for name, word in {"chat_model": "llm", "summary_model": "summary_llm", "embedder": embedder}.items():
        if name in options:
            raise InvalidInputError(name, options[name], f"None: open_engine calls it {word}")


class ContextEngine:
    """Provides sessions over one store, with one token counter and one set of settings.

        with ContextEngine.open("sqlite:///chat.db") as engine:
            window = engine.session("s", user_id="ann").context("Hello")

    - Safe to share between threads, event loops and forked processes.
    - Opening does no I/O; the first use does.
    - A sync and async context manager that closes the engine on exit.
    """

    def __init__(self, runtime: "Runtime") -> None:
        self._runtime = runtime

    @classmethod
    def open(
        cls,
        url: "str | Engine | None" = None,
        *,
        chat_model: ChatModel | None = None,
        summary_model: ChatModel | None = None,
        embedder: Embedder | None = None,
        token_counter: TokenCounter | None = None,
        retriever: "Retriever | RagPipeline | None" = None,
        compression: "CompressionStrategy | None" = None,
        contradiction_detector: ContradictionDetector | None = None,
        reranker: Reranker | None = None,
        settings: "ArcSettings | None" = None,
        observer: Observer | None = None,
        on_save_error: "SaveErrorHandler | None" = None,
        clock: Callable[[], datetime] | None = None,
        new_id: Callable[[], str] | None = None,
        cipher: Cipher | None = None,
    ) -> "ContextEngine":
        """Open an engine over a store. Does no I/O.

        Args:
            url: A SQLAlchemy URL of SQLite or PostgreSQL, or an `Engine`; by default `settings.database_url`. If that
                is not set either, SQLite in memory: conversations are lost when the process ends, which is logged.
            chat_model: Writes summaries and extracts memories; optional, because rules can do both.
            summary_model: Writes summaries instead of `chat_model`, and may be a cheaper model. Required if
                `settings.summary.llm_model` names a model: only the adapters' `open_engine` creates one from its name.
            embedder: Embeds texts for search by meaning; optional.
            token_counter: Counts tokens; by default the counter named by `settings.tokens`.
            retriever: Retrieves documents for each turn instead of `engine.documents`.
            compression: The strategy applied to a history near its limit before turns are dropped; by default the
                strategies named by `settings.context.compression`.
            contradiction_detector: Decides which facts and memories a new one contradicts, for example by an entailment
                model; rules decide by default, and whenever the detector fails.
            reranker: Reorders the best 30 recalled messages, for example a cross-encoder; optional. Each turn waits
                for it. `engine.rag` takes one for documents.
            settings: The settings; by default they are read from the environment.
            observer: Receives counts and timings.
            on_save_error: Called with the error and the messages when `save_turn` fails to save.
            clock: Returns the current time with a time zone.
            new_id: Returns a new unique id for a message, a fact or a memory.
            cipher: Encrypts all text that is stored; by default that of `storage.encryption_keys`, if there are any.

        Raises:
            ConfigurationError: The URL or a setting is wrong.
            InvalidInputError: An argument is of the wrong type.
        """
        # Database, settings and memory take half a second to import, which only an open engine pays.
        from arc_common.engine.runtime import (  # noqa: PLC0415
            Runtime,
            clock_of,
            compression_of,
            observer_of,
            random_id,
            token_counter_of,
        )
        from arc_common.memory.long_term.contradictions import Contradictions  # noqa: PLC0415
        from arc_common.memory.services import Services  # noqa: PLC0415
        from arc_common.model_calls import ModelHealth  # noqa: PLC0415
        from arc_common.rerankers import RERANKERS  # noqa: PLC0415
        from arc_common.settings import checked_settings  # noqa: PLC0415
        from arc_common.stores.registry import open_store  # noqa: PLC0415
        from arc_common.tokens.compression import CompressionStrategy  # noqa: PLC0415

        settings = checked_settings(settings)
        for name, value, kind in (
            ("token_counter", token_counter, TokenCounter),
            ("chat_model", chat_model, ChatModel),
            ("summary_model", summary_model, ChatModel),
            ("embedder", embedder, Embedder),
            ("compression", compression, CompressionStrategy),
            ("contradiction_detector", contradiction_detector, ContradictionDetector),
            ("reranker", reranker, Reranker),
            ("retriever", retriever, Retriever),
            ("cipher", cipher, Cipher),
            ("observer", observer, Observer),
        ):
            foreign = name in ("chat_model", "summary_model") and converter_of(value)  # LlamaIndex's have a `complete`
            if value is not None and (foreign or isinstance(value, type) or not isinstance(value, kind)):
                members = ", ".join(member for member in vars(kind) if not member.startswith("_"))
                expected = f"None, or an object with {members} ({kind.__name__})"
                raise InvalidInputError(name, value, or_converted(expected, value))
        for name, function in (("on_save_error", on_save_error), ("clock", clock), ("new_id", new_id)):
            if function is not None and not callable(function):
                raise InvalidInputError(name, function, "a function, or None")
        named = settings.summary.llm_model
        if named is not None and summary_model is None and settings.summary.enabled:
            raise ConfigurationError(
                f"summary.llm_model: got {named!r}, but this engine can't make a model from its name; use open_engine "
                "of langchain_arc or llamaindex_arc, or pass the model as summary_model"
            )
        if settings.rag.reranker not in RERANKERS:
            raise ConfigurationError(
                f"rag.reranker: got {settings.rag.reranker!r}, expected one of {', '.join(RERANKERS)}"
            )
        if patterns := settings.rag.ingestion.blocked_patterns:
            from arc_common.rag.ingestion import check_patterns  # noqa: PLC0415 - only for those who use it

            try:
                check_patterns(patterns)
            except InvalidInputError as error:
                raise ConfigurationError(f"rag.ingestion.{error}") from error
        clock = clock_of(clock)
        observer = observer_of(observer, otel=settings.observability.otel)
        store, threads = open_store(url, settings, clock, observer, cipher)
        services = Services(
            store=store,
            settings=settings,
            token_counter=token_counter or token_counter_of(settings),
            observer=observer,
            models=ModelHealth(max_tokens_per_hour=settings.background.max_tokens_per_hour, clock=clock),
            clock=clock,
            new_id=new_id or random_id,
            contradictions=Contradictions(contradiction_detector, observer=observer),
            chat_model=chat_model,
            embedder=embedder,
            reranker=reranker,
        )
        runtime = Runtime(
            services,
            summary_model=summary_model or chat_model,
            workers=Workers(threads, name="arc"),
            compression=compression or compression_of(settings),
            retriever=retriever,
            on_save_error=on_save_error,
        )
        minutes = settings.maintenance.interval_minutes
        if minutes is not None:
            from arc_common.engine.maintenance import MaintenanceTimer, maintain  # noqa: PLC0415 - seldom used

            runtime.timer = MaintenanceTimer(lambda: maintain(runtime, None), minutes)
        return cls(runtime)

    @property
    def settings(self) -> "ArcSettings":
        """The engine's settings."""
        return self._runtime.settings

    @property
    def token_counter(self) -> TokenCounter:
        """The engine's token counter."""
        return self._runtime.token_counter

    @property
    def budget(self) -> TokenBudget:
        """The default token budget of a request, from the settings."""
        return self._runtime.default_budget()

    @property
    def clock(self) -> Callable[[], datetime]:
        """The function that tells the engine's time, with a time zone."""
        return self._runtime.clock

    @property
    def observer(self) -> Observer:
        """The observer of the engine's and the adapters' counts and timings."""
        return self._runtime.observer

    def session(
        self,
        session_id: str | None,
        *,
        user_id: str | None = None,
        caller_id: str = "default",
        account_id: str | None = None,
        branch: int | str | None = None,
    ) -> "Session":
        """Return a handle on one conversation. Does no I/O; the first write creates the conversation.

        Args:
            session_id: The conversation's id; with `None` there is no history, and nothing is saved.
            user_id: The user that the conversation is bound to.
            caller_id: The application that owns the conversation.
            account_id: The account that the conversation is stored with.
            branch: The number or the name of a branch to stay on; by default the session follows the current branch.

        Raises:
            InvalidInputError: An id is empty, longer than 255 characters or not storable, or `require_scope` is set
                and no caller is named.
        """
        from arc_common.engine.session import Session, on_branch  # noqa: PLC0415 - loaded with the first session

        self._runtime.check_caller(caller_id)
        if session_id is None:
            return Session(self._runtime, None)
        return Session(self._runtime, *on_branch(SessionKey(session_id, caller_id, user_id, account_id), branch))

    @property
    def documents(self) -> "DocumentIndex":
        """The default caller's documents; `documents_of(caller_id)` returns another caller's. Does no I/O.

        Once documents are stored, `session.context` retrieves the relevant ones (see `settings.rag.enabled`).

        Raises:
            InvalidInputError: `require_scope` is set: use `engine.documents_of(caller_id)`.
        """
        return self.documents_of("default")

    def documents_of(self, caller_id: str, *, user_id: str | None = None, shared: bool = False) -> "DocumentIndex":
        """Return the documents of a caller, or of one of its users alone. Does no I/O.

        With `shared`, searches for a user also find the caller's documents, which all of its users' turns show.

        Raises:
            InvalidInputError: An id is empty or too long, or `require_scope` is set and no caller is named.
        """
        from arc_common.engine.documents import DocumentIndex  # noqa: PLC0415 - the index takes a while to import
        from arc_common.protocols.search_index import Scope  # noqa: PLC0415 - the same

        self._runtime.check_caller(caller_id)
        others = [Scope(caller_id)] if shared and user_id is not None else []
        return DocumentIndex(self._runtime, Scope(caller_id, user_id), *others)

    @property
    def ingestion(self) -> "Ingestion":
        """The default caller's review queue; `ingestion_of(caller_id)` returns another caller's. Does no I/O.

        Raises:
            InvalidInputError: `require_scope` is set: use `engine.ingestion_of(caller_id)`.
        """
        return self.ingestion_of("default")

    def ingestion_of(self, caller_id: str) -> "Ingestion":
        """Return the review queue of a caller. Does no I/O.

        Raises:
            InvalidInputError: The id is empty or too long, or `require_scope` is set and no caller is named.
        """
        from arc_common.engine.ingestion import Ingestion  # noqa: PLC0415 - loaded with the first use

        self._runtime.check_caller(caller_id)
        return Ingestion(self._runtime, caller_id)

    def items_of(
        self, caller_id: str, *, user_id: str | None = None, embedder: Embedder | None = None
    ) -> "HybridIndex":
        """Return an index of an application's own items, which no turn shows. Does no I/O.

        An `embedder` makes the items' vectors instead of the engine's.

        Raises:
            InvalidInputError: An id is empty or too long, or `require_scope` is set and no caller is named.
        """
        from arc_common.protocols.search_index import Scope  # noqa: PLC0415 - the index takes a while to import

        self._runtime.check_open()
        self._runtime.check_caller(caller_id)
        return self._runtime.services.index(Scope(caller_id, user_id), "item", embedder=embedder)

    def memories(
        self, *, user_id: str | None = None, session_id: str | None = None, caller_id: str = "default"
    ) -> "Memories":
        """Return the long-term memories of a caller, of one of its users, or of one conversation. Does no I/O.

        The scopes are separate: a caller's memories don't include its users'. `settings.memory.scope` decides which
        scope a session reads and writes: with "user", the default, `engine.memories(user_id=…)`, or
        `engine.memories(session_id=…)` for a session without a user.

        Raises:
            InvalidInputError: An id is empty or too long, or `require_scope` is set and no caller is named.
        """
        from arc_common.engine.memories import Memories  # noqa: PLC0415 - the index takes a while to import
        from arc_common.protocols.search_index import Scope  # noqa: PLC0415 - the same

        self._runtime.check_caller(caller_id)
        return Memories(self._runtime, Scope(caller_id, user_id, session_id))

    def rag(
        self,
        sources: "Retriever | Mapping[str, Retriever] | None" = None,
        *,
        transformers: "Sequence[QueryTransformer] | None" = None,
        reranker: Reranker | None = None,
        citations: bool = False,
    ) -> "RagPipeline":
        """Return a retrieval pipeline configured by `settings.rag`.

        Args:
            sources: A retriever, or several by name; by default `engine.documents`.
            transformers: Turn the question into queries; by default rules complete follow-up questions.
            reranker: Reorders the retrieved documents; by default the reranker named by `settings.rag.reranker`.
            citations: Number the documents in the context.
        """
        from arc_common.engine.documents import rag_pipeline  # noqa: PLC0415 - the index takes a while to import

        return rag_pipeline(
            self._runtime,
            self.documents if sources is None else sources,
            transformers=transformers,
            reranker=reranker,
            citations=citations,
        )

    @property
    def admin(self) -> "Admin":
        """Operations for administrators: list, inspect and replay sessions."""
        from arc_common.engine.admin import Admin  # noqa: PLC0415 - loaded with the first use

        return Admin(self._runtime)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait for this process's background work: summaries, recall indexing and long-term memories.

        `close` drops work that has not begun, and the next process that uses the session catches up on it. Call `flush`
        before `close` if the work must be done now, for example in a script.

        Returns:
            True if all work ended within `timeout` seconds. Failed work counts as ended; it was logged and counted.

        Raises:
            InvalidInputError: `timeout` is not a valid number of seconds.
        """
        if timeout is not None and (
            isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 <= timeout <= TIMEOUT_MAX
        ):
            raise InvalidInputError("timeout", timeout, "seconds, 0 or more, or None to wait for all work")
        return self._runtime.wait(timeout)

    async def aflush(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - the same parameters as `flush`
        """Async form of `flush`."""
        return await asyncio.wrap_future(started(lambda: self.flush(timeout), name="arc-flush"))

    def __repr__(self) -> str:
        """Name the engine's store, without the password of its address."""
        return f"<ContextEngine over {self._runtime.services.store!r}>"

    def health(self) -> Health:
        """Return which parts don't work: the store, which is read once, and models whose newest call failed.

        Never raises, and calls no model.
        """
        return self._runtime.health()

    async def ahealth(self) -> Health:
        """Async form of `health`."""
        return await asyncio.wrap_future(started(self.health, name="arc-health"))

    def close(self) -> None:
        """Finish running work, without waiting for chat models, and release all resources. Safe to call twice.

        A call that waits for a model's answer raises `EngineClosedError`.
        """
        self._runtime.services.models.close()
        self._runtime.workers.close()
        self._runtime.close()

    async def aclose(self) -> None:
        """Async form of `close`."""
        await asyncio.wrap_future(started(self.close, name="arc-close"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def checked_engine(engine: object) -> ContextEngine:
    """Return the engine; raise `InvalidInputError` if it is not one."""
    if not isinstance(engine, ContextEngine):
        raise InvalidInputError("engine", engine, "a ContextEngine, such as open_engine() returns")
    return engine
