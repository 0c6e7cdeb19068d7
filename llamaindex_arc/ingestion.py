"""ArcIngestionEventHandler: captures the answered questions of query engines and chat engines for a review."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from inspect import BoundArguments
from threading import Lock
from typing import Any

from llama_index.core.base.response.schema import (
    AsyncStreamingResponse,
    PydanticResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.chat_engine.types import AgentChatResponse, BaseChatEngine, StreamingAgentChatResponse
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.events.query import QueryEndEvent
from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index_instrumentation.dispatcher import active_instrument_tags

from arc_common.caches import LRUCache
from arc_common.engine.context_engine import ContextEngine, checked_engine
from arc_common.messages import check_identifier
from llamaindex_arc.component import Component

_STREAMS = 1_000
"""The most streamed chats whose questions are kept until they end."""
Captured = Callable[[str], None]


class ArcIngestionEventHandler(Component, BaseEventHandler, BaseSpanHandler[BaseSpan]):
    """Captures the question and the answer of each run of a query engine or chat engine for `engine.ingestion`.

        handler = ArcIngestionEventHandler(engine)
        get_dispatcher().add_event_handler(handler)  # query engines
        get_dispatcher().add_span_handler(handler)  # chat engines, which send no event with their answer

    - The tags `session_id`, `user_id` and `channel` of LlamaIndex's `instrument_tags` say where an answer is from.
    - The same question with the same answer is captured once per session, also by a query engine within another one.
      Where a chat engine rephrases the question for a query engine, both questions are captured.
    - A streamed answer is captured once its stream has ended; one that fails or is left unread is not. Agents are
      workflows, and not captured.
    - The policy decides what is captured. A failure is logged and counted (`ingestion.errors`), never raised. On an
      event loop, the store is written on a thread; `flush` waits for it.

    Args:
        caller_id: The caller to whose queue the answers go.
        channel: Where they were asked, without a tag.
    """

    _ingestion: Any = PrivateAttr()
    _channel: str = PrivateAttr()
    _guard: Any = PrivateAttr(default_factory=Lock)
    _pool: ThreadPoolExecutor | None = PrivateAttr(default=None)
    _streams: LRUCache[int, tuple[StreamingAgentChatResponse, Captured | None]] = PrivateAttr(
        default_factory=lambda: LRUCache(_STREAMS)
    )

    def __init__(self, engine: ContextEngine, *, caller_id: str = "default", channel: str = "chat") -> None:
        super().__init__()
        self._ingestion = checked_engine(engine).ingestion_of(caller_id)
        self._channel = check_identifier("channel", channel)

    def handle(self, event: BaseEvent, **_: Any) -> None:
        """Capture the answer of a query engine."""
        if not isinstance(event, QueryEndEvent):
            return
        query = event.query if isinstance(event.query, str) else event.query.query_str
        capture, response = partial(self._soon, query, dict(event.tags)), event.response
        if isinstance(response, Response | PydanticResponse):
            capture(str(response))
        elif isinstance(response, StreamingResponse):
            response.response_gen = _heard(response.response_gen, capture)
        elif isinstance(response, AsyncStreamingResponse):
            response.response_gen = _aheard(response.response_gen, capture)

    def new_span(self, *_: Any, **__: Any) -> None:
        """Record nothing: the end of a span has everything."""

    def prepare_to_exit_span(  # type: ignore[override]  # LlamaIndex passes everything by name
        self, *, bound_args: BoundArguments, instance: Any = None, result: Any = None, **_: Any
    ) -> None:
        """Capture the answer of a chat engine, or the end of its stream."""
        if isinstance(instance, StreamingAgentChatResponse):  # its method has written all of the answer to the memory
            self._meet(instance, None)
            return
        question = bound_args.arguments.get("message") if isinstance(instance, BaseChatEngine) else None
        if not isinstance(question, str):
            return
        capture = partial(self._soon, question, dict(active_instrument_tags.get()))
        if isinstance(result, AgentChatResponse):
            capture(str(result))
        elif isinstance(result, StreamingAgentChatResponse):
            self._meet(result, capture)

    def prepare_to_drop_span(self, *, instance: Any = None, **_: Any) -> None:  # type: ignore[override]  # the same
        """Forget a stream that failed."""
        if isinstance(instance, StreamingAgentChatResponse):
            with self._guard:
                self._streams.pop(id(instance), None)

    def flush(self) -> None:
        """Wait until everything is captured."""
        with self._guard:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True)

    def _meet(self, response: StreamingAgentChatResponse, capture: Captured | None) -> None:
        """Capture a streamed answer once both its question and its end are known, whichever comes first."""
        with self._guard:
            known = self._streams.pop(id(response), None)
            if known is None:
                self._streams[id(response)] = response, capture
                return
        if (told := capture or known[1]) is not None:
            told(response.response)

    def _soon(self, query: str, tags: dict[str, Any], answer: str) -> None:
        """Capture an answer: at once, or on a thread if this is an event loop's."""
        if not answer.strip() or answer == "None":  # LlamaIndex's text for no answer
            return
        capture = partial(self._capture, query, answer, tags)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            capture()
            return
        with self._guard:
            self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="arc-ingestion")
            self._pool.submit(capture)

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


def _heard(texts: Generator[str, None, None], capture: Captured) -> Generator[str, None, None]:
    """Return a stream unchanged, and capture its text at its end."""
    parts = []
    for text in texts:
        parts.append(text)
        yield text
    capture("".join(parts))


async def _aheard(texts: AsyncGenerator[str, None], capture: Captured) -> AsyncGenerator[str, None]:
    """Async form of `_heard`."""
    parts = []
    async for text in texts:
        parts.append(text)
        yield text
    capture("".join(parts))
