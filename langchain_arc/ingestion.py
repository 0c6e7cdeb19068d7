"""ArcIngestionHandler: a callback handler that captures the answered questions of chains for a review."""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from arc_common.caches import LRUCache
from arc_common.engine.context_engine import ContextEngine, checked_engine
from arc_common.messages import check_identifier

_RUNNING = 10_000
"""The most runs whose questions are kept until they end."""
_QUESTIONS = ("input", "question", "query", "messages")
_ANSWERS = ("output", "answer", "result", "messages")


class ArcIngestionHandler(BaseCallbackHandler):
    """Captures the question and the answer of each successful run for `engine.ingestion`.

        chain.invoke("How long can I return it?", {"callbacks": [ArcIngestionHandler(engine)]})

    - Captures whole runs, not the steps within them; failed runs and those that end in a tool call are left out.
    - The policy decides what is captured. A failure is logged and counted (`ingestion.errors`), never raised.
    - Async runs call it on a thread, as LangChain does with every handler that is not async.

    Args:
        caller_id: The caller to whose queue the answers go.
        session_id: The session that they are from; by default the run's metadata `session_id` or `thread_id`.
        user_id: The user that they are from; by default the run's metadata `user_id`.
        channel: Where they were asked.
    """

    def __init__(
        self,
        engine: ContextEngine,
        *,
        caller_id: str = "default",
        session_id: str | None = None,
        user_id: str | None = None,
        channel: str = "chat",
    ) -> None:
        self._ingestion = checked_engine(engine).ingestion_of(caller_id)
        self._names = {"session_id": session_id, "user_id": user_id}
        for field, value in (*self._names.items(), ("channel", channel)):
            if value is not None:
                check_identifier(field, value)
        self._channel = channel
        self._lock = Lock()
        self._asked: LRUCache[UUID, tuple[str, dict[str, Any]]] = LRUCache(_RUNNING)

    def on_chain_start(
        self,
        serialized: dict[str, Any],  # noqa: ARG002 - LangChain passes it by name or by position
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Keep the question of a run; a stream's inputs are known at its end."""
        if parent_run_id is None:
            with self._lock:
                self._asked[run_id] = question_of(inputs), metadata or {}

    def on_chain_end(
        self, outputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, inputs: Any = None, **_: Any
    ) -> None:
        """Capture the answer of a run."""
        if parent_run_id is not None:
            return
        with self._lock:
            question, metadata = self._asked.pop(run_id, ("", {}))
        question = question_of(inputs) or question
        answer = answer_of(outputs) if question else ""
        if not answer:
            return
        try:
            self._ingestion.capture(
                question,
                answer,
                run_id=str(run_id),
                session_id=self._names["session_id"] or _named(metadata, "session_id", "thread_id"),
                user_id=self._names["user_id"] or _named(metadata, "user_id"),
                channel=self._channel,
            )
        except Exception as error:  # noqa: BLE001 - the answer is there; a failing store must not take it away
            self._ingestion.report_capture_error(error)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:  # noqa: ARG002 - by name
        """Drop the question of a failed run."""
        with self._lock:
            self._asked.pop(run_id, None)


def question_of(value: Any) -> str:
    """Return the text of the newest question in a run's input; `""` if there is none."""
    value = _part(value, _QUESTIONS)
    if isinstance(value, str):
        return value
    messages = [value] if isinstance(value, BaseMessage) else value if isinstance(value, Sequence) else []
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            return message.text
        if isinstance(message, str):
            return message
        if isinstance(message, Mapping) and message.get("role") in ("user", "human"):
            content = message.get("content")
            return content if isinstance(content, str) else ""
        if isinstance(message, tuple) and len(message) == 2 and message[0] in ("user", "human"):
            return str(message[1])
    return ""


def answer_of(value: Any) -> str:
    """Return the text of the final answer in a run's output; `""` if there is none, or it calls tools."""
    value = _part(value, _ANSWERS)
    if isinstance(value, str):
        return value
    last = value if isinstance(value, BaseMessage) else value[-1] if isinstance(value, Sequence) and value else None
    return last.text if isinstance(last, AIMessage) and not last.tool_calls else ""


def _part(value: Any, usual: Sequence[str]) -> Any:
    """Return a mapping's value under a usual key; other values unchanged."""
    return next((value[key] for key in usual if key in value), None) if isinstance(value, Mapping) else value


def _named(metadata: Mapping[str, Any], *keys: str) -> str | None:
    return next((str(metadata[key]) for key in keys if metadata.get(key)), None)
