"""ArcMemoryMiddleware: memory for LangChain's agents (`create_agent`)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from arc_common.engine.context_engine import ContextEngine
from arc_common.engine.session import Session
from arc_common.exceptions import InvalidInputError, MissingDependencyError, StoreError
from arc_common.tokens.budget import TokenBudget
from langchain_arc.agent_requests import budget_of, fitted, parts_of, shown
from langchain_arc.agent_sessions import save_state, window_until
from langchain_arc.engine import checked_engine
from langchain_arc.states import split_instructions

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
    from langchain_core.messages import BaseMessage, ToolMessage
    from langgraph.config import get_config
    from langgraph.runtime import Runtime
except ImportError as error:
    raise MissingDependencyError("ArcMemoryMiddleware", package="langchain", extra="agents") from error

_log = logging.getLogger("arc.middleware")

_NESTED = "|"
"""Separates the parts of a checkpoint namespace: one for the node, and one more for each enclosing graph."""

Named = str | Callable[[Runtime[Any]], str | None] | None
"""An id, or a function of the run that returns it."""


class ArcMemoryMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Stores an agent's conversation, and shows its model a window of it that always fits.

    Use it as `create_agent(model, tools, middleware=[ArcMemoryMiddleware(engine)])`; the run's thread id names the
    conversation, with a checkpointer or without. List it first: it does not see changes that middleware before it makes
    to a request's messages, and middleware after it sees the finished request.

    - The user's turn is stored before the model is called, the answer when it arrives, and tool results before the next
      call and at the end. Each is stored once, however often a run is resumed, retried or handed over again; a message
      that was edited (by a reviewer, or to redact it) becomes a new revision.
    - The request holds the agent's own instructions, then facts and summary, and the newest turns within the budget,
      with every call next to its results. The agent's state is never changed.
    - The agent's system message keeps its content blocks, including marks for prompt caches.
    - System messages at the start of an agent's messages are instructions of the run: shown, never stored.
    - An agent that runs inside another one (a tool that asks a sub-agent) shares its thread id but not its
      conversation: unless `session_id` is given, its requests are fitted and none of its messages are stored. The same
          holds if
      `session_id` is a function and returns `None`.
    - When the store fails, the agent continues with its own state, cut to the budget; the failure is logged and counted
      (`context.errors`, `save.errors`). After the model has answered, no failure is raised.

    Args:
        engine: Stores the conversations.
        session_id: The conversation's id, or a function of the run's `Runtime` that returns it; by default the thread
            id.
        user_id: The user to whom it belongs, or such a function (`lambda runtime: runtime.context.user_id`).
        caller_id: The application to which it belongs.
        account_id: The account recorded with it.
        budget: The token budget of a request; by default the engine's, or less if the model's profile says so.

    Raises:
        InvalidInputError: An argument is invalid. In a run: there is neither a thread id nor a `session_id`.
        BudgetExceededError: In a run: instructions, tools and the user's message alone don't fit. No model was called.
        SessionNotFoundError: In a run: the conversation belongs to another user.
    """

    def __init__(
        self,
        engine: ContextEngine,
        *,
        session_id: Named = None,
        user_id: Named = None,
        caller_id: str = "default",
        account_id: str | None = None,
        budget: TokenBudget | None = None,
    ) -> None:
        super().__init__()
        self._engine = checked_engine(engine)
        for name, value in (("session_id", session_id), ("user_id", user_id)):
            if value is not None and not isinstance(value, str) and not callable(value):
                raise InvalidInputError(name, value, "text, a function of the runtime, or None")
        if not isinstance(budget, TokenBudget | None):
            raise InvalidInputError("budget", budget, "a TokenBudget or None")
        self._session_id = session_id
        self._user_id = user_id
        self._caller_id = caller_id
        self._account_id = account_id
        self._budget = budget
        fixed = session_id if isinstance(session_id, str) else "any"
        engine.session(fixed, caller_id=caller_id, account_id=account_id)  # checks the ids early

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Store the new messages, show the model its window, and store the answer."""
        session = self._session(request.runtime)
        window = self._shown(session, request)
        response = handler(window)
        self._save_answer(session, request, response)
        return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Async form of `wrap_model_call`."""
        session = self._session(request.runtime)
        window = await asyncio.to_thread(self._shown, session, request)
        response = await handler(window)
        await asyncio.to_thread(self._save_answer, session, request, response)
        return response

    def after_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Store what the last step added: final tool results, and answers changed after the model call."""
        try:
            session = self._session(runtime)
        except Exception:  # noqa: BLE001 - the answer is there; a function of the user's must not take it away
            _log.exception("the end of a run could not be saved: its session is unknown")
            return
        self._save(session, split_instructions(state["messages"])[1])

    async def aafter_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Async form of `after_agent`."""
        await asyncio.to_thread(self.after_agent, state, runtime)

    def _session(self, runtime: Runtime[Any] | None) -> Session:
        """Return the run's session; one without an id if nothing is to be stored."""
        session_id, nested = _run_of(runtime)
        if self._session_id is not None:
            session_id = _named(self._session_id, runtime)
        elif nested:
            session_id = None
        elif session_id is None:
            raise InvalidInputError(
                "session_id",
                None,
                'the conversation\'s id: run the agent with config={"configurable": {"thread_id": …}}, or give '
                "ArcMemoryMiddleware a session_id",
            )
        return self._engine.session(
            session_id,
            user_id=_named(self._user_id, runtime),
            caller_id=self._caller_id,
            account_id=self._account_id,
        )

    def _shown(self, session: Session, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """Return the request with the session's window in place of its messages, or with its own fitted."""
        parts = parts_of(request)
        budget = self._budget or budget_of(request.model, self._engine.budget)
        newest = self._save(session, _of_state(parts.messages, request.state), raising=True)
        if newest is not None:
            try:
                window = window_until(
                    newest,
                    session,
                    system_prompt=parts.instructions.text if parts.instructions else None,
                    tools=parts.tools,
                    response_format=parts.response_format,
                    budget=budget,
                )
            except StoreError as error:
                _log.error("session %r could not be read: %s", session.id, error, exc_info=error)
                self._engine.observer.count("context.errors")
            else:
                if window is not None:
                    return shown(request, parts, window.messages)
        return fitted(request, parts, budget=budget, counter=self._engine.token_counter)

    def _save_answer(self, session: Session, request: ModelRequest[Any], response: object) -> None:
        """Store a model's answer after the state that it answers; never raises."""
        answer = [response] if isinstance(response, BaseMessage) else getattr(response, "result", [])
        named = [message for message in answer if message.id]  # the others get their ids in the state
        if named:
            self._save(session, _of_state(split_instructions(request.messages)[1], request.state), named)

    def _save(
        self,
        session: Session,
        messages: Sequence[BaseMessage],
        answer: Sequence[BaseMessage] = (),
        *,
        raising: bool = False,
    ) -> str | None:
        """Store new messages; return the newest one's stored id, or `None` if it is not stored."""
        if session.id is None or not (messages or answer):
            return None
        try:
            return save_state(session, messages, answer)
        except Exception as error:
            if raising and not isinstance(error, StoreError | InvalidInputError):
                raise
            session.report_save_error(error, [])
            return None


def _run_of(runtime: Runtime[Any] | None) -> tuple[str | None, bool]:
    """Return a run's thread id, and whether the run is nested in another graph's (by its namespace)."""
    info = getattr(runtime, "execution_info", None)
    if info is not None:
        thread_id, namespace = info.thread_id, info.checkpoint_ns
    else:
        try:
            configurable = get_config().get("configurable", {})
        except RuntimeError:  # outside of a graph
            configurable = {}
        thread_id, namespace = configurable.get("thread_id"), configurable.get("checkpoint_ns")
    return None if thread_id is None else str(thread_id), _NESTED in (namespace or "")


def _of_state(messages: Sequence[BaseMessage], state: Mapping[str, Any]) -> list[BaseMessage]:
    """Return the messages without those that other middleware added to this one request."""
    ids = {message.id for message in state.get("messages", ()) if message.id}
    return [it for it in messages if it.id in ids or (it.id is None and isinstance(it, ToolMessage)) or not ids]


def _named(value: Named, runtime: Runtime[Any] | None) -> str | None:
    return value(runtime) if callable(value) else value  # type: ignore[arg-type]  # outside of a graph there is none
