"""ArcMemoryMiddleware: memory for LangChain's agents (`create_agent`)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from langchain.agents.middleware import (
    AgentMiddleware,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
)
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.runtime import Runtime
from langgraph.types import Command

from arc_common.context import ContextWindow
from arc_common.engine.context_engine import ContextEngine, checked_engine
from arc_common.engine.session import Session
from arc_common.exceptions import BudgetExceededError, InvalidInputError, StoreError
from arc_common.memories import checked_memory_tags
from arc_common.messages import Message, Role, check_identifier
from arc_common.protocols import StoredMessage, TokenCounter
from arc_common.tokens.budget import TokenBudget
from arc_common.tokens.calibration import corrected
from arc_common.tokens.counters import schema_tokens, tools_tokens
from arc_common.tokens.overflow import LearnedLimits, aanswered, answered
from langchain_arc.agents.checkpoints import ArcState, Point, Run, configurable, has_checkpoints, looked_up, merged
from langchain_arc.agents.prompt_cache import PromptCaches, read_from_cache
from langchain_arc.agents.tools import check_named, compact_conversation
from langchain_arc.messages import from_arc
from langchain_arc.stored_messages import behind, said, split_instructions, stored_form, unsaved
from langchain_arc.token_limit import arc_tokens, fitted_to

_log = logging.getLogger("arc.middleware")

_NESTED = "|"
"""Separates the parts of a checkpoint namespace: one for the node, and one more for each enclosing graph."""

Named = str | Callable[[Runtime[Any]], str | None] | None
"""An id, or a function of the run that returns it."""


class ArcMemoryMiddleware(AgentMiddleware[ArcState, Any, Any]):
    """Stores an agent's conversation, and shows its model a window of it that always fits.

        agent = create_agent(model, tools, middleware=[ArcMemoryMiddleware(engine)])
        agent.invoke({"messages": ["Hello"]}, {"configurable": {"thread_id": "s"}})

    The run's thread id names the conversation, with a checkpointer or without. List this middleware first: it does not
    see changes that middleware before it makes to a request's messages, and middleware after it sees the finished
    request.

    - The user's turn is stored before the model is called, the answer when it arrives, and tool results before the next
      call and at the end. Each is stored once, however often a run is resumed, retried or handed over again; a message
      that was edited (by a reviewer, or to redact it) becomes a new revision.
    - A run continues from its checkpoint: after time travel, `update_state` or a regenerated answer, and when messages
      were removed from the state, the conversation continues on a fork. Messages that other writers stored meanwhile
      are shown.
    - The request holds the agent's own instructions, then facts and summary, and the newest turns within the budget,
      with every call next to its results. Only `prune_state` changes the agent's state.
    - The agent's system message keeps its content blocks, including marks for prompt caches. System messages at the
      start of an agent's messages are instructions of the run: shown, never stored.
    - An agent inside another one (a tool that asks a sub-agent) shares its thread id but not its conversation: unless
      `session_id` is given, its requests are fitted and none of its messages are stored. The same holds if `session_id`
      is a function and returns `None`.
    - A request that the model refuses as too long is sent once more, smaller: arc learns the model's limit from the
      refusal, for this and the following requests, and adds a note to the receipt. A second refusal is raised with both
      token counts as a note.
    - When the store fails, the agent continues with its own state, cut to the budget; the failure is logged and counted
      (`context.errors`, `save.errors`). After the model has answered, no failure is raised.

    Args:
        session_id: The conversation's id, or a function of the run's `Runtime` that returns it; by default the thread
            id.
        user_id: The user to whom it belongs, or such a function (`lambda runtime: runtime.context.user_id`).
        caller_id, account_id: As in `ContextEngine.session`.
        budget: The token budget of a request; by default the engine's, or less if the model's profile says so.
        memory_tags: As in `Session.context`.
        name: The middleware's name among an agent's others: "SummarizationMiddleware" takes the place of the summaries
            of `create_deep_agent`. By default, the class's.
        remember: False for temporary chats, or a function of the run's `Runtime` that returns True or False. Nothing of
            a temporary turn is stored, learned or indexed, not even by later runs of its thread; messages stored before
            are shown, and so is the agent's state. LangGraph's checkpoints keep the state as always.
        compact_tool: Give the agent a tool `compact_conversation`, which calls `Session.compact`.
        prune_state: At the end of a run, remove earlier turns from the agent's state once all of them are stored, so
            that its checkpoints don't grow. The model is shown them as before; code that reads the state, and the
            agent itself while the store fails, sees the last turn only.

    Raises:
        InvalidInputError: An argument is invalid. In a run: there is neither a thread id nor a `session_id`.
        BudgetExceededError: In a run: instructions, tools and the user's message alone don't fit. No model was called.
        SessionNotFoundError: In a run: the conversation belongs to another user.
    """

    state_schema = ArcState

    def __init__(
        self,
        engine: ContextEngine,
        *,
        session_id: Named = None,
        user_id: Named = None,
        caller_id: str = "default",
        account_id: str | None = None,
        budget: TokenBudget | None = None,
        memory_tags: Sequence[str] | None = None,
        name: str | None = None,
        remember: bool | Callable[[Runtime[Any]], bool] = True,
        compact_tool: bool = False,
        prune_state: bool = False,
    ) -> None:
        super().__init__()
        if remember is not True:  # a hook before each run costs a checkpoint, and is looked for in the class
            own = type(self)
            bases = (_TemporaryRuns,) if own is ArcMemoryMiddleware else (own, _TemporaryRuns)
            self.__class__ = type(own.__name__, bases, {})
        for field, flag in (("compact_tool", compact_tool), ("prune_state", prune_state)):
            if not isinstance(flag, bool):
                raise InvalidInputError(field, flag, "True or False")
        if not isinstance(remember, bool) and not callable(remember):
            raise InvalidInputError("remember", remember, "True, False or a function of the runtime")
        self._remember = remember
        if name is not None:
            check_identifier("name", name)
        self._name = name
        self._prune_state = prune_state
        session_of = lambda runtime: self._run(runtime, runtime.state).session  # noqa: E731
        self.tools = [compact_conversation(session_of)] if compact_tool else []
        self._memory_tags = checked_memory_tags(memory_tags) or None
        self._engine = checked_engine(engine)
        check_named(session_id=session_id, user_id=user_id)
        if not isinstance(budget, TokenBudget | None):
            raise InvalidInputError("budget", budget, "a TokenBudget or None")
        self._session_id = session_id
        self._user_id = user_id
        self._caller_id = caller_id
        self._account_id = account_id
        self._budget = budget
        self._limits = LearnedLimits(engine.observer)
        self._caches = PromptCaches()
        fixed = session_id if isinstance(session_id, str) else "any"
        engine.session(fixed, caller_id=caller_id, account_id=account_id)  # checks the ids early

    @property
    def name(self) -> str:
        """The middleware's name, unique among an agent's."""
        return self._name or super().name

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Store the new messages, show the model its window, and store the answer."""
        run = self._run(request.runtime, request.state)
        window = self._shown(run, request)
        response = answered(handler, window.request, partial(self._shown_again, run, request, window.tokens))
        self._save_answer(run, request, response)
        return _with_change(response, run.change)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Async form of `wrap_model_call`."""
        run = self._run(request.runtime, request.state)
        window = await asyncio.to_thread(self._shown, run, request)
        response = await aanswered(handler, window.request, partial(self._shown_again, run, request, window.tokens))
        await asyncio.to_thread(self._save_answer, run, request, response)
        return _with_change(response, run.change)

    def after_agent(self, state: ArcState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Store the last step's messages: final tool results, and answers changed after the model call.

        With `prune_state`, then remove the turns before the one that ends from the agent's state.
        """
        try:
            run = self._run(runtime, state)
        except Exception:  # noqa: BLE001 - the answer is there; a function of the user's must not take it away
            _log.exception("the end of a run could not be saved: its session is unknown")
            return None
        if not run.remembers:
            return None
        messages = _remembered(split_instructions(state["messages"])[1], state)
        before = run.point
        removed: list[str] = []
        if self._save(run, messages) is not None and self._prune_state:
            try:
                removed = run.prune(messages)
            except StoreError as error:
                _log.error("the state of session %r was not pruned: %s", run.session.id, error, exc_info=error)
        change = run.change if run.point != before else {}
        if removed:
            change["messages"] = [RemoveMessage(id=name) for name in removed]
        return change or None

    async def aafter_agent(self, state: ArcState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Async form of `after_agent`."""
        return await asyncio.to_thread(self.after_agent, state, runtime)

    def _remembers(self, runtime: Runtime[Any] | None) -> bool:
        given: object = self._remember(runtime) if callable(self._remember) else self._remember  # type: ignore[arg-type]
        if not isinstance(given, bool):
            raise InvalidInputError("remember", given, "True or False")
        return given

    def _run(self, runtime: Runtime[Any] | None, state: Mapping[str, Any]) -> Run:
        """Return the run, with its session; one without an id if nothing is to be stored."""
        thread_id, nested = _run_of(runtime)
        session_id = thread_id
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
        opened = partial(
            self._engine.session,
            session_id,
            user_id=_named(self._user_id, runtime),
            caller_id=self._caller_id,
            account_id=self._account_id,
        )
        follows = session_id is not None and not nested and has_checkpoints()
        point = Point.from_state(state.get("arc_point"), session_id)
        return Run(opened, thread_id if follows else None, point, remembers=self._remembers(runtime))

    def _shown(self, run: Run, request: ModelRequest[Any]) -> "Shown":
        """Return the request with the session's window in place of its messages, or with its own fitted.

        If the mandatory parts exceed the limit that the model stated, they are sent alone, and the model refuses them.
        """
        own = self._budget or budget_of(request.model, self._engine.budget)
        budget = self._limits.limited(own, name_of(request.model))
        try:
            return self._within(budget, run, request)
        except BudgetExceededError as error:
            if budget is own:
                raise
            inaccuracy = budget.counted_by(self._engine.token_counter).relative_error
            return self._within(replace(budget, context_window=int(error.needed * (1 + inaccuracy)) + 2), run, request)

    def _within(self, budget: TokenBudget, run: Run, request: ModelRequest[Any]) -> "Shown":
        parts = parts_of(request)
        built = partial(
            Session.context,
            system_prompt=parts.instructions.text if parts.instructions else None,
            tools=parts.tools,
            response_format=parts.response_format,
            budget=budget,
            memory_tags=self._memory_tags,
        )
        window = None
        try:
            if not run.remembers:
                window = window_with(run, _own_messages(run, request, whole=True), built)
            elif (newest := self._save(run, _own_messages(run, request), asks=True)) is not None:
                window = window_until(newest, run.session, built)
        except StoreError as error:
            _log.error("session %r could not be read: %s", run.session.id, error, exc_info=error)
            self._engine.observer.count("context.errors")
        if window is not None:
            return Shown(self._marked(run.session, shown(request, parts, window.messages)), window.total_tokens)
        return fitted(request, parts, budget=budget, counter=self._engine.token_counter)

    def _marked(self, session: Session, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """Return the request with marks for the provider's prompt cache, if the settings want them."""
        context = self._engine.settings.context
        if not context.cache_markers:
            return request
        scope = f"{self._caller_id}\n{session.id}"
        request, note = self._caches.marked(request, scope=scope, system=context.placement == "user")
        if note:
            session.note(note)
        return request

    def _shown_again(
        self, run: Run, request: ModelRequest[Any], tokens: int, error: Exception
    ) -> tuple[ModelRequest[Any], AbstractContextManager[None]]:
        """Return a smaller request in place of one that the model refused as too long; raise any other error."""
        note = self._limits.learn(error, tokens, name_of(request.model))
        again = self._shown(run, request)
        run.session.note(note)
        return again.request, self._limits.last_try(again.tokens)

    def _save_answer(self, run: Run, request: ModelRequest[Any], response: object) -> None:
        """Store a model's answer after the state that it answers; never raises."""
        answer = [response] if isinstance(response, BaseMessage) else getattr(response, "result", [])
        if note := read_from_cache(answer):
            run.session.note(note)
        named = any(message.id for message in answer)  # the others get their ids in the state
        if named and run.remembers:
            self._save(run, _own_messages(run, request), answer)

    def _save(
        self,
        run: Run,
        messages: Sequence[BaseMessage],
        answer: Sequence[BaseMessage] = (),
        *,
        asks: bool = False,
    ) -> str | None:
        """Store new messages; return the newest one's stored id, or `None` if it is not stored."""
        if run.session.id is None or not (messages or answer):
            return None
        try:
            if run.thread is None:
                return save_state(run.session, messages, [message for message in answer if message.id])
            return run.save(messages, answer, asks=asks)
        except Exception as error:
            if asks and not isinstance(error, StoreError | InvalidInputError):
                raise
            run.session.report_save_error(error, [])
            return None


def _run_of(runtime: Runtime[Any] | None) -> tuple[str | None, bool]:
    """Return a run's thread id, and whether the run is nested in another graph's (by its namespace)."""
    info = getattr(runtime, "execution_info", None)
    if info is not None:
        thread_id, namespace = info.thread_id, info.checkpoint_ns
    else:
        own = configurable()
        thread_id, namespace = own.get("thread_id"), own.get("checkpoint_ns")
    return None if thread_id is None else str(thread_id), _NESTED in (namespace or "")


def _with_change(
    response: ModelResponse[Any], change: Mapping[str, Any]
) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
    """Return the response with a change of the agent's state, if there is one."""
    if not change:
        return response
    whole = ModelResponse(result=[response]) if isinstance(response, AIMessage) else response
    return ExtendedModelResponse(model_response=whole, command=Command(update=dict(change)))


def _own_messages(run: Run, request: ModelRequest[Any], *, whole: bool = False) -> list[BaseMessage]:
    """Return the conversation's messages in a request; with checkpoints, also those that middleware left out of it.

    Temporary turns are left out unless `whole` is set.
    """
    own = _of_state(split_instructions(request.messages)[1], request.state)
    own = own if run.thread is None else merged(split_instructions(request.state["messages"])[1], own)
    return own if whole else _remembered(own, request.state)


def _remembered(messages: Sequence[BaseMessage], state: Mapping[str, Any]) -> list[BaseMessage]:
    """Return the messages that are not in a temporary turn."""
    temporary = set(state.get("arc_temporary") or ())
    kept: list[BaseMessage] = []
    is_kept = True
    for message in messages:
        if isinstance(message, HumanMessage):
            is_kept = message.id not in temporary
        kept += [message] if is_kept else []
    return kept


def _of_state(messages: Sequence[BaseMessage], state: Mapping[str, Any]) -> list[BaseMessage]:
    """Return the messages without those that other middleware added to this one request."""
    ids = {message.id for message in state.get("messages", ()) if message.id}
    return [it for it in messages if it.id in ids or (it.id is None and isinstance(it, ToolMessage)) or not ids]


def _named(value: Named, runtime: Runtime[Any] | None) -> str | None:
    return value(runtime) if callable(value) else value  # type: ignore[arg-type]  # outside of a graph there is none


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a request that a model sees."""

    instructions: SystemMessage | None
    messages: list[BaseMessage]
    tools: list[Mapping[str, Any]]
    response_format: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Shown:
    """A request as its model sees it, and the tokens that arc counted in it."""

    request: ModelRequest[Any]
    tokens: int


def parts_of(request: ModelRequest[Any]) -> Parts:
    """Split a request into its parts."""
    others, messages = split_instructions(request.messages)
    own = [request.system_message] if request.system_message else []
    instructions = [message for message in (*own, *others) if _says_something(message)]
    tools: list[Mapping[str, Any]] = [
        convert_to_openai_tool(tool) if isinstance(tool, BaseTool) else tool for tool in request.tools
    ]
    strategy: Any = request.response_format
    response_format = None
    if isinstance(strategy, ProviderStrategy):
        response_format = strategy.to_model_kwargs()["response_format"]
    elif strategy is not None:
        if not isinstance(strategy, ToolStrategy):  # both strategies show the model the same schema
            strategy = ToolStrategy(getattr(strategy, "schema", strategy))
        for spec in strategy.schema_specs:
            described = {"name": spec.name, "description": spec.description, "parameters": spec.json_schema}
            tools.append({"type": "function", "function": described})
    return Parts(_joined(instructions), messages, tools, response_format)


def name_of(model: BaseChatModel) -> str:
    """Return the name under which a model's limit is learned."""
    return next(
        (str(name) for key in ("model_name", "model") if (name := getattr(model, key, None))), type(model).__name__
    )


def budget_of(model: BaseChatModel, default: TokenBudget) -> TokenBudget:
    """Return the budget, or a smaller one if the model's profile states a lower input limit."""
    most = (getattr(model, "profile", None) or {}).get("max_input_tokens")
    if isinstance(most, bool) or not isinstance(most, int) or not 0 < most < default.context_window:
        return default
    return TokenBudget(most, sections=default.sections, relative_error=default.relative_error)


def shown(request: ModelRequest[Any], parts: Parts, messages: Sequence[Message]) -> ModelRequest[Any]:
    """Return the request with these messages; the system text goes around the agent's own content blocks."""
    system = messages[0] if messages and messages[0].role is Role.SYSTEM else None
    rest: list[Any] = [from_arc(message) for message in (messages[1:] if system else messages)]
    return request.override(system_message=_system(parts.instructions, system), messages=rest)


def fitted(request: ModelRequest[Any], parts: Parts, *, budget: TokenBudget, counter: TokenCounter) -> Shown:
    """Return the request with as many of its own messages as fit; its instructions stay unchanged."""
    schemas = tools_tokens(counter, parts.tools) + schema_tokens(counter, parts.response_format)
    schemas = corrected(counter, schemas)
    room = max(budget.counted_by(counter).input_tokens - schemas, 0)
    first = [parts.instructions] if parts.instructions else []
    kept: list[Any] = fitted_to(room, [*first, *parts.messages], counter=counter)
    own = request.override(system_message=parts.instructions, messages=kept[len(first) :])
    return Shown(own, schemas + arc_tokens(counter, kept))


def _system(instructions: SystemMessage | None, system: Message | None) -> SystemMessage | None:
    """Put arc's text around the agent's instructions; their blocks stay unchanged, cache marks included."""
    if system is None:
        return instructions
    if instructions is None:
        return SystemMessage(system.text)
    if isinstance(instructions.content, str):
        return instructions.model_copy(update={"content": system.text})
    before, _, after = system.text.partition(instructions.text)
    content = [*_text_block(before.strip()), *instructions.content, *_text_block(after.strip())]
    return instructions.model_copy(update={"content": content})


def _says_something(message: SystemMessage) -> bool:
    """Return whether a system message has more than blank text, which providers refuse."""
    blocks = message.content if isinstance(message.content, list) else ()
    return bool(message.text.strip()) or any(isinstance(it, dict) and it.get("type") != "text" for it in blocks)


def _joined(messages: Sequence[SystemMessage]) -> SystemMessage | None:
    if len(messages) < 2:
        return messages[0] if messages else None
    texts = [message.content for message in messages if isinstance(message.content, str)]
    if len(texts) == len(messages):
        return messages[0].model_copy(update={"content": "\n\n".join(texts)})
    blocks: list[str | dict[str, Any]] = []
    for message in messages:
        blocks += _text_block(message.content) if isinstance(message.content, str) else message.content
    return messages[0].model_copy(update={"content": blocks})


def _text_block(text: str) -> list[str | dict[str, Any]]:
    return [{"type": "text", "text": text}] if text else []


_LOOK_BACK = 256
"""Number of messages before the newest one that are fitted when other writers have appended after it."""


def save_state(session: Session, messages: Sequence[BaseMessage], answer: Sequence[BaseMessage] = ()) -> str | None:
    """Store the state's new messages and the model's answer; return the newest message's stored id."""
    new, newest, stored = _unsaved(session, messages, answer)
    answers = [stored_form(message) for message in answer]
    new += [replace(message, id=None) if message.id in stored else message for message in answers]
    kept = session.append(new) if new else []
    return kept[-1].id if kept and (newest is None or answer) else newest


def _unsaved(
    session: Session, messages: Sequence[BaseMessage], answer: Sequence[BaseMessage]
) -> tuple[list[Message], str | None, Mapping[str, Message]]:
    """Return the state's messages that are not stored, the id of its newest if that is, and the stored ones by id."""
    own = said(messages)
    state, names, found = looked_up(session, own, [message.id for message in answer if message.id])
    stored = {name: one.message for name, one in found.items()}
    converted = [stored_form(message) for message in state]
    newest = next((name for name in (names[-1] if names else ()) if name in stored), None)
    new = unsaved(converted, names, stored)
    if new is None:
        tail = session.messages(limit=len(converted)) if converted else []
        new, newest = behind(tail, converted, names)
    return new, newest, stored


def window_until(newest: str, session: Session, built: Callable[..., ContextWindow]) -> ContextWindow | None:
    """Return the request's window, ending with the state's newest message; `None` without a user message."""
    try:
        window = built(session)
    except InvalidInputError as error:
        if error.field != "query":  # the messages read of a very long turn don't reach back to its question
            raise
    else:
        if window.messages and window.messages[-1].id == newest:
            return window
    history = [*session.messages(limit=_LOOK_BACK, before=newest), *session.find([newest])]
    if not any(message.role is Role.USER for message in history):
        return None
    return built(session, history=history)


def window_with(run: Run, messages: Sequence[BaseMessage], built: Callable[..., ContextWindow]) -> ContextWindow | None:
    """Return a window of the stored messages and the state's other ones; `None` without a session or user message."""
    if run.session.id is None:
        return None
    following, place = _following(run, messages)
    history = None
    if place is not None:
        history = [*run.session.messages(limit=_LOOK_BACK, before=place.message.id), place.message]
    try:
        return built(run.session, history=history, following=following)
    except InvalidInputError as error:
        if error.field != "query":
            raise
        return None


def _following(run: Run, messages: Sequence[BaseMessage]) -> tuple[list[Message], StoredMessage | None]:
    """Return the messages that are not stored, and the one before them if the run starts from an earlier checkpoint."""
    return run.unsaved(messages) if run.thread else (_unsaved(run.session, messages, ())[0], None)


class _TemporaryRuns(ArcMemoryMiddleware):
    """Names the user's messages of temporary runs in the agent's state before anything can fail."""

    def before_agent(self, state: ArcState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Name the user's messages that are not stored, so that no later run stores their turns."""
        run = self._run(runtime, state)
        if run.remembers:
            return None
        messages = split_instructions(state["messages"])[1]
        asked = [message.id for message in messages if isinstance(message, HumanMessage)]
        try:
            ids = {message.id for message in _following(run, messages)[0]}.intersection(asked)
        except StoreError as error:
            _log.error("session %r could not be read: %s", run.session.id, error, exc_info=error)
            ids = set(asked[-1:])
        return {"arc_temporary": sorted({*state.get("arc_temporary", ()), *filter(None, ids)})}

    async def abefore_agent(self, state: ArcState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Async form of `before_agent`."""
        return await asyncio.to_thread(self.before_agent, state, runtime)
