"""ArcIngestionMiddleware: captures the answered questions of agents for a review."""

import asyncio
from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState
from langgraph.config import get_config
from langgraph.runtime import Runtime

from arc_common.engine.context_engine import ContextEngine, checked_engine
from arc_common.messages import check_identifier
from langchain_arc.ingestion import answer_of, question_of


class ArcIngestionMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Captures the question and the final answer of each successful run of an agent for `engine.ingestion`.

        agent = create_agent(model, tools, middleware=[ArcMemoryMiddleware(engine), ArcIngestionMiddleware(engine)])

    - The run's thread id names the session. Each answer is captured once, also if a run is resumed or retried.
    - The policy decides which answers are captured. A failure is logged and counted (`ingestion.errors`), never raised.

    Args:
        caller_id: The caller to whose queue the answers go.
        user_id: The user that they are from; by default the run's configuration `user_id`.
        channel: Where they were asked.
    """

    def __init__(
        self, engine: ContextEngine, *, caller_id: str = "default", user_id: str | None = None, channel: str = "chat"
    ) -> None:
        super().__init__()
        self._ingestion = checked_engine(engine).ingestion_of(caller_id)
        for field, value in (("user_id", user_id), ("channel", channel)):
            if value is not None:
                check_identifier(field, value)
        self._user_id = user_id
        self._channel = channel

    def after_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:  # noqa: ARG002 - LangGraph's form
        """Capture the run's answer."""
        try:
            messages = state["messages"]
            question, answer = question_of(messages), answer_of(messages)
            if not question or not answer:
                return
            known = get_config().get("configurable") or {}
            thread, user = known.get("thread_id"), self._user_id or known.get("user_id")
            self._ingestion.capture(
                question,
                answer,
                run_id=str(messages[-1].id),
                session_id=None if thread is None else str(thread),
                user_id=None if user is None else str(user),
                channel=self._channel,
            )
        except Exception as error:  # noqa: BLE001 - the answer is there; a failing store must not take it away
            self._ingestion.report_capture_error(error)

    async def aafter_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Async form of `after_agent`."""
        await asyncio.to_thread(self.after_agent, state, runtime)
