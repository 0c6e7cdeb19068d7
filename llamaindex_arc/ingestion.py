"""ArcIngestionEventHandler: captures the answered questions of query engines for a review."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from threading import Lock
from typing import Any

from arc_common.engine.context_engine import ContextEngine, checked_engine
from arc_common.exceptions import MissingDependencyError
from arc_common.messages import check_identifier

try:
    from llama_index.core.base.response.schema import PydanticResponse, Response
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.instrumentation.event_handlers import BaseEventHandler
    from llama_index.core.instrumentation.events import BaseEvent
    from llama_index.core.instrumentation.events.query import QueryEndEvent
except ImportError as error:
    raise MissingDependencyError("ArcIngestionEventHandler", package="llama-index-core", extra="llamaindex") from error


class ArcIngestionEventHandler(BaseEventHandler):
    """Captures the question and the answer of each query engine's run for `engine.ingestion`.

        get_dispatcher().add_event_handler(ArcIngestionEventHandler(engine))

    - The tags `session_id`, `user_id` and `channel` of LlamaIndex's `instrument_tags` say where an answer is from.
    - The same question with the same answer is captured once per session, also by a query engine within another one.
    - Streamed answers are not captured: the event comes before their text. Chat engines and agents send no such event.
    - The policy decides what is captured. A failure is logged and counted (`ingestion.errors`), never raised. On an
      event loop, the store is written on a thread; `flush` waits for it.

    Args:
        engine: The engine whose queue is filled.
        caller_id: The caller to whose queue the answers go.
        channel: Where they were asked, without a tag.
    """

    _ingestion: Any = PrivateAttr()
    _channel: str = PrivateAttr()
    _lock: Any = PrivateAttr(default_factory=Lock)
    _pool: ThreadPoolExecutor | None = PrivateAttr(default=None)

    def __init__(self, engine: ContextEngine, *, caller_id: str = "default", channel: str = "chat") -> None:
        super().__init__()
        self._ingestion = checked_engine(engine).ingestion_of(caller_id)
        self._channel = check_identifier("channel", channel)

    @classmethod
    def class_name(cls) -> str:
        """Return the handler's name."""
        return "ArcIngestionEventHandler"

    def handle(self, event: BaseEvent, **_: Any) -> None:
        """Capture the answer of a query."""
        if not isinstance(event, QueryEndEvent) or not isinstance(event.response, Response | PydanticResponse):
            return
        query = event.query if isinstance(event.query, str) else event.query.query_str
        answer = str(event.response)
        if not answer.strip() or answer == "None":  # what LlamaIndex says for no answer
            return
        capture = partial(self._capture, query, answer, dict(event.tags))
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            capture()
            return
        with self._lock:
            self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="arc-ingestion")
            self._pool.submit(capture)

    def flush(self) -> None:
        """Wait until everything is captured."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True)

    def _capture(self, query: str, answer: str, tags: dict[str, Any]) -> None:
        names = {name: None if tags.get(name) is None else str(tags[name]) for name in ("session_id", "user_id")}
        try:
            self._ingestion.capture(
                query,
                answer,
                run_id=sha256(f"{query}\x00{answer}".encode(errors="replace")).hexdigest(),
                channel=str(tags.get("channel") or self._channel),
                **names,
            )
        except Exception as error:  # noqa: BLE001 - the answer is there; a failing store must not take it away
            self._ingestion.report_capture_error(error)
