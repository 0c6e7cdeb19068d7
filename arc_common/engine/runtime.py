"""The state and services that an engine's sessions share."""

import logging
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, partial
from threading import Lock
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from cachetools import TTLCache

from arc_common.caches import LRUCache, cached_text, drop_session, drop_texts, forget_texts, reading_texts
from arc_common.concurrency import Workers, as_background
from arc_common.context import Receipt, Request
from arc_common.context.receipt import holds_untrusted
from arc_common.context.repetition import body
from arc_common.engine.receipts import ReceiptLog
from arc_common.engine.reembedding import VectorRenewal
from arc_common.exceptions import ConfigurationError, EngineClosedError, InvalidInputError
from arc_common.memories import MEMORY_TOOLS
from arc_common.memory.answer_sources import AnswerSources, Shown
from arc_common.memory.artifacts import SessionArtifacts
from arc_common.memory.long_term.service import LongTermMemory
from arc_common.memory.pins import SessionPins
from arc_common.memory.recall.service import SessionRecall
from arc_common.memory.services import Services
from arc_common.memory.summaries.background import HeldLease
from arc_common.memory.summaries.reader import HierarchicalMemory
from arc_common.memory.summaries.summarizers import ModelSummarizer
from arc_common.messages import Message
from arc_common.observability import Health, Observer, guarded_observer
from arc_common.protocols import ChatModel, ConversationStatus, Retriever, SessionKey, TokenCounter
from arc_common.protocols.conversations import Degradable, Idle, Store
from arc_common.protocols.search_index import Scope
from arc_common.rag import RagPipeline
from arc_common.settings import ArcSettings
from arc_common.stores.branch_paths import ArchivedConversationError
from arc_common.tokens.budget import DEFAULT_SECTIONS, TokenBudget, stated_error
from arc_common.tokens.compression import Chain, CompressionStrategy, strategy
from arc_common.tokens.counters import CachedTokenCounter, HeuristicTokenCounter, TiktokenCounter, default_token_counter
from arc_common.trust import Trust

if TYPE_CHECKING:
    from arc_common.engine.maintenance import MaintenanceTimer

_log = logging.getLogger("arc.engine")

SaveErrorHandler = Callable[[Exception, Sequence[Message]], None]
"""Called with the error and the messages of a turn that could not be saved."""

_RECEIPTS = 64
"""Each receipt refers to its request's texts: up to half a megabyte with a window of 128,000 tokens."""
_WARNED = 10_000
_TURN = 32
"""The number of newest messages that are read for a running turn's sources, if another process began it."""
_SHOWN = ("facts", "summary", "recalled", "documents")
"""The sections of a request whose texts are compared with the answer to find its sources."""
_LOOK_AGAIN = 60.0
"""Seconds for which the result of a check for documents is cached."""


class LastReceipts:
    """Caches the newest receipt of each recently used branch. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._receipts: LRUCache[SessionKey, Receipt] = LRUCache(_RECEIPTS)
        self._warned: LRUCache[tuple[str, str], bool] = LRUCache(_WARNED)

    def keep(self, key: SessionKey, receipt: Receipt) -> None:
        """Store a branch's newest receipt."""
        with self._lock:
            self._receipts[key] = receipt

    def newest(self, key: SessionKey) -> Receipt | None:
        """Return a branch's newest receipt, or `None` if it is no longer cached."""
        with self._lock:
            return self._receipts.get(key)

    def forget(self, key: SessionKey) -> None:
        """Drop a session's entries, because deleted text must not remain in a receipt."""
        with self._lock:
            drop_session(self._receipts, key)
            self._warned.pop((key.caller_id, key.session_id), None)

    def is_first_warning(self, key: SessionKey) -> bool:
        """Return whether this is the first call for the session."""
        with self._lock:
            known = self._warned.get((key.caller_id, key.session_id), False)
            self._warned[key.caller_id, key.session_id] = True
            return not known


class Runtime:
    """The services and the state behind every session of one engine."""

    def __init__(
        self,
        services: Services,
        *,
        summary_model: ChatModel | None,
        workers: Workers,
        compression: CompressionStrategy | None,
        retriever: Retriever | RagPipeline | None,
        on_save_error: SaveErrorHandler | None,
    ) -> None:
        self.services = services
        self.settings = services.settings
        self.token_counter = services.token_counter
        self.context_counter = CachedTokenCounter(services.token_counter)
        self.embedder = services.embedder
        self.observer = services.observer
        self.clock = services.clock
        self.workers = workers
        self.compression = compression
        self.retriever = retriever
        self.on_save_error = on_save_error
        self.closed = False
        self.timer: MaintenanceTimer | None = None
        self.window_is_set = self.settings.conversation.window_is_set
        self._counted: tuple[float, TokenBudget] | None = None
        self.receipts = LastReceipts()
        self.receipt_log = ReceiptLog(services)
        self.answer_sources = AnswerSources()
        self.has_documents: MutableMapping[Scope, bool] = TTLCache(_WARNED, ttl=_LOOK_AGAIN)
        self.artifacts = SessionArtifacts(services)
        self._summaries: HierarchicalMemory | None = None
        if self.settings.summary.enabled:
            summarizer = None if summary_model is None else ModelSummarizer(services, summary_model)
            self._summaries = HierarchicalMemory(services, summarizer)
        facts = self._summaries.facts_about if self._summaries else lambda *_: []
        self._recall = SessionRecall(services, facts=facts)
        self._long_term = LongTermMemory(services)
        self.vectors = VectorRenewal(self)
        self._pins = SessionPins(services, ledger=self._summaries)

    @property
    def store(self) -> Store:
        """The store of conversations and everything derived from them."""
        self.check_open()
        return self.services.store

    @property
    def recall(self) -> SessionRecall:
        """The service that recalls messages for a question."""
        self.check_open()
        return self._recall

    @property
    def pins(self) -> SessionPins:
        """The service that pins texts and messages of sessions."""
        self.check_open()
        return self._pins

    @property
    def long_term(self) -> LongTermMemory:
        """The service that extracts, stores and finds long-term memories."""
        self.check_open()
        return self._long_term

    def on_branch(self, key: SessionKey) -> SessionKey:
        """Return the key with the number of the branch that the session was last read on."""
        return _on_branch(key, self.services.store.path(key, known=True).branch)

    def keep(self, key: SessionKey, receipt: Receipt) -> None:
        """Store a session's newest receipt, and record the request's texts with their trust."""
        key = self.on_branch(key)
        self.receipts.keep(key, receipt)
        shown = [section.items for section in receipt.sections if section.name in _SHOWN]
        if not any(map(holds_untrusted, shown)):
            return
        items = [item for section in shown for item in section]
        untrusted = [(item.source, body(item.text)) for item in items if item.trust is Trust.UNTRUSTED]
        self.answer_sources.show(
            key, untrusted, trusted=[one.text for one in items if one.trust is not Trust.UNTRUSTED]
        )

    def with_sources(self, key: SessionKey, messages: Sequence[Message]) -> list[Message]:
        """Return messages to be stored; answers that rest on documents, tools or pasted text name these."""
        return self.answer_sources.named(
            self.on_branch(key), messages, stored=lambda: [one.message for one in self.store.read(key, limit=_TURN)]
        )

    def shown(self, key: SessionKey, text: str) -> Shown:
        """Return the untrusted text that the running turn shows, and whether a model's text takes anything from it."""
        return self.answer_sources.shown(self.on_branch(key), text, but={f"tool {name}" for name in MEMORY_TOOLS})

    def saved(self, key: SessionKey, messages: Sequence[Message], *, edited: Sequence[str] = ()) -> None:
        """Schedule summaries, recall indexing and memory extraction for newly stored messages."""
        self.receipt_log.saved(key)
        if self.memory is not None:
            self.memory.queues.schedule(key)
        here = self.settings.background.in_process
        if self.settings.recall.enabled and here and not self.closed:
            self.recall.schedule(key, len(messages), at_once=bool(edited))
        if self.embedder is not None:
            self.vectors.schedule()
        if edited:
            self.long_term.edited(key, edited)
        if self.gathers(key) and here:
            newest = self.receipts.newest(self.on_branch(key))
            with_documents = newest is not None and any(
                section.name == "documents" and section.tokens for section in newest.sections
            )
            self.long_term.schedule(key, messages, with_documents=with_documents, is_edit=bool(edited))

    @reading_texts()
    def work(self, key: SessionKey, held: HeldLease, *, stop: Callable[[], bool]) -> None:
        """Do a session's due work under a lease on it: summaries, recall index and long-term memories."""
        if self.memory is not None:
            self.memory.queues.work(key, held, stop=stop)
        if self.settings.recall.enabled:
            self.recall.work(key, stop=stop)
        if self.gathers(key):
            self.long_term.work(key, stop=stop)

    def gathers(self, key: SessionKey) -> bool:
        """Return whether memories are extracted from the messages that a session saves."""
        wanted = self.settings.memory
        return wanted.enabled and (key.user_id is not None or wanted.scope != "user")

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until no background work is queued or running; return whether it ended within `timeout` seconds."""
        until = None if timeout is None else time.monotonic() + timeout

        def wait_for_each() -> bool:
            left = None if until is None else max(until - time.monotonic(), 0)
            parts = (
                self._summaries and self._summaries.queues,
                self._recall,
                self._long_term,
                self.receipt_log.queue,
                self.vectors.queue,
            )
            return all(part.wait(left) for part in parts if part)

        return wait_for_each() and wait_for_each()  # the second pass waits for work that the first one scheduled

    def forget(self, key: SessionKey) -> None:
        """Drop this process's cached state of a session whose messages were removed."""
        forget_texts()
        drop_texts(partial(self._drop, key))

    def _drop(self, key: SessionKey) -> None:
        self.receipts.forget(key)
        self.answer_sources.forget(key)
        self._recall.forget(key)
        if self._summaries is not None:
            self._summaries.forget(key)

    def delete_session(self, key: SessionKey, *, soft: bool = False, idle: Idle | None = None) -> bool:
        """Delete a session, with `idle` only if it still is; return whether it was deleted."""
        removed = self.store.delete(key, soft=soft, idle=idle)
        if soft:
            self.forget(key)
        elif removed is not None or idle is None:
            self.forget_derived(key, existed=removed is not None)
        return removed is not None

    def archive_session(self, key: SessionKey, *, idle: Idle | None = None) -> bool:
        """Archive a session, and index its newest messages before, so that other sessions still find them."""
        if self.settings.recall.enabled:
            record = self.store.get(key)
            if record is not None and record.status is ConversationStatus.ACTIVE:
                try:
                    with as_background():
                        self.recall.catch_up(key)
                except ArchivedConversationError:  # another machine was faster
                    return False
        return self.store.archive(key, idle=idle)

    def forget_derived(self, key: SessionKey, *, existed: bool) -> None:
        """Remove derived data that the store did not remove together with all messages of a session."""
        self.forget(key)
        self.artifacts.forget(key)
        self.recall.forget_session(key)
        forgotten = self.long_term.forget(key)
        if existed or forgotten:  # otherwise nobody's requests quote it
            self.receipt_log.forget(Scope(key.caller_id, key.user_id))

    def close(self) -> None:
        """Stop background work and close the store. Safe to call twice."""
        if self.closed:
            return
        self.vectors.queue.close()
        if self.timer is not None:
            self.timer.close()
        self._recall.close()
        self._long_term.close()
        self.receipt_log.close()
        self.closed = True
        if self._summaries is not None:
            self._summaries.close()
        self.services.store.close()

    def health(self) -> Health:
        """Return which parts don't work. Never raises."""
        problems = self.services.models.problems()
        try:
            self.store.page("default", limit=1)
            self.store.check()
        except EngineClosedError as error:
            problems["engine"] = str(error)
        except Exception as error:  # noqa: BLE001 - whatever a driver raises is the answer
            problems["store"] = f"{type(error).__name__}: {error}"
        if isinstance(self.services.store, Degradable) and not self.closed:
            problems.update(self.services.store.problems())
        return Health(problems, self.services.models.spent())

    def check_open(self) -> None:
        """Raise `EngineClosedError` if the engine is closed."""
        if self.closed:
            raise EngineClosedError("the engine is closed")

    def check_caller(self, caller_id: str) -> None:
        """Raise `InvalidInputError` for the default caller if `require_scope` is set."""
        if self.settings.require_scope and caller_id == "default":
            raise InvalidInputError("caller_id", caller_id, "a caller's own id, because require_scope is set")

    @property
    def memory(self) -> HierarchicalMemory | None:
        """The service that summarises conversations; `None` if summaries are off or the engine is closed."""
        return None if self.closed else self._summaries

    def request(self, budget: TokenBudget | None = None, **given: Any) -> Request:
        """Return a request with the settings' budget, limits and layout, and the caller's input."""
        if not isinstance(budget, TokenBudget | None):
            raise InvalidInputError("budget", budget, "a TokenBudget or None")
        return Request(
            budget=budget.counted_by(self.token_counter) if budget else self.default_budget(), **self._layout, **given
        )

    @cached_property
    def _layout(self) -> Mapping[str, Any]:
        settings = self.settings
        max_turns, max_messages = settings.conversation.window_limits
        return {
            "max_turns": max_turns,
            "max_messages": max_messages,
            "placement": settings.context.placement,
            "facts_role": settings.context.facts_role,
            "nearest": settings.context.receipt_misses,
            "compression": self.compression,
            "compress_from": settings.conversation.compression_threshold,
        }

    def default_budget(self) -> TokenBudget:
        """Return the settings' budget, less the counter's error."""
        error = stated_error(self.token_counter)
        if self._counted is None or self._counted[0] != error:
            self._counted = error, self._budget.counted_by(self.token_counter)
        return self._counted[1]

    @cached_property
    def _budget(self) -> TokenBudget:
        settings = self.settings
        shares = settings.budget
        sections = {
            "facts": replace(DEFAULT_SECTIONS["facts"], max_tokens=shares.facts, share=shares.facts_share),
            "summary": replace(DEFAULT_SECTIONS["summary"], max_tokens=settings.summary.max_tokens),
            "recalled": replace(DEFAULT_SECTIONS["recalled"], max_tokens=shares.recalled),
            "documents": replace(DEFAULT_SECTIONS["documents"], max_tokens=shares.documents),
        }
        budget = TokenBudget(settings.budget.context_window, settings.budget.output_reserve, sections)
        most = settings.conversation.max_context_tokens
        if most is not None and most < budget.input_limit:
            budget = TokenBudget(most, 0, sections)
        return budget


@cached_text(1_024)
def _on_branch(key: SessionKey, branch: int) -> SessionKey:
    return replace(key, account_id=None, branch=branch)


def compression_of(settings: ArcSettings) -> CompressionStrategy | None:
    """Return the chain of the strategies that the settings name."""
    try:
        chosen = [strategy(name) for name in settings.context.compression]
    except InvalidInputError as error:
        raise ConfigurationError(f"context.compression: {error}") from error
    return Chain(chosen) if chosen else None


def token_counter_of(settings: ArcSettings) -> TokenCounter:
    """Return the counter that the settings name."""
    if settings.tokens.counter == "heuristic":
        return HeuristicTokenCounter()
    if settings.tokens.counter == "tiktoken":
        return TiktokenCounter(settings.tokens.encoding, cache_dir=settings.tokens.vocabulary_directory)
    return default_token_counter()


def observer_of(observer: Observer | None, *, otel: bool) -> Observer:
    """Return the observer, guarded; with `otel`, in one that makes OpenTelemetry's spans and metrics."""
    if not otel:
        return guarded_observer(observer)
    from arc_common.otel import OpenTelemetryObserver  # noqa: PLC0415 - an optional dependency

    return guarded_observer(OpenTelemetryObserver(observer))


def clock_of(clock: Callable[[], datetime] | None) -> Callable[[], datetime]:
    """Return the clock; a user's is wrapped to refuse times without a zone."""
    if clock is None:
        return partial(datetime.now, UTC)

    def now() -> datetime:
        time = clock()
        if not isinstance(time, datetime) or time.tzinfo is None:
            raise InvalidInputError("clock", time, "a function that returns a datetime with a time zone")
        return time

    return now


def random_id() -> str:
    """Return a new unique id."""
    return uuid4().hex
