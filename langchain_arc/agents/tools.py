"""Long-term memory as tools of an agent: search, save and forget, within one scope only."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool, ToolException
from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from arc_common.engine.context_engine import ContextEngine, checked_engine
from arc_common.engine.session import Session
from arc_common.exceptions import ArcError, InvalidInputError, NotFoundError
from arc_common.memories import MAX_MEMORY_CHARACTERS, Memory, MemoryStatus, MemoryType
from arc_common.messages import Message
from arc_common.prompts.context import render_choices
from arc_common.trust import speaker_name
from langchain_arc.stored_messages import said as said_in
from langchain_arc.stored_messages import stored_batch

if TYPE_CHECKING:
    from langgraph.prebuilt import ToolRuntime

    from arc_common.engine.memories import Memories

    Named = str | Callable[[ToolRuntime[Any, Any]], str | None] | None

_log = logging.getLogger("arc.tools")

_MOST_FOUND = 20
_LONGEST_QUERY = 1_000
_LONGEST_ID = 255
_MEMORY_TYPE = {"enum": [kind.value for kind in MemoryType], "title": "Type", "type": "string"}
"""The schema that a model sees: a plain choice, without the definition of an enumeration."""


def _built_in(value: object) -> str:
    """Return the name of a built-in type: a model may not invent types."""
    name = value.strip().lower() if isinstance(value, str) else value
    if name not in list(MemoryType):
        raise ValueError(f"expected one of {', '.join(MemoryType)}")
    return str(name)


class SearchMemory(BaseModel):
    """The arguments of `search_memory`."""

    query: str = Field(min_length=1, max_length=_LONGEST_QUERY, description="What to look for, in a few words.")
    limit: int = Field(default=5, ge=1, le=_MOST_FOUND, description="How many memories at most.")


class SaveMemory(BaseModel):
    """The arguments of `save_memory`."""

    content: str = Field(
        min_length=1,
        max_length=MAX_MEMORY_CHARACTERS,
        description="One or two sentences that can be understood without this conversation.",
    )
    type: Annotated[str, BeforeValidator(_built_in), WithJsonSchema(_MEMORY_TYPE)] = Field(
        default="fact", description=f"{render_choices(MemoryType)}."
    )
    importance: float = Field(default=0.5, ge=0, le=1, description="From 0 to 1 (a mistake if forgotten).")


class ForgetMemory(BaseModel):
    """The arguments of `forget_memory`."""

    memory_id: str = Field(
        min_length=1, max_length=_LONGEST_ID, description="The id that search_memory gave, without the brackets."
    )


class CompactConversation(BaseModel):
    """The arguments of `compact_conversation`: none that a model sees."""

    runtime: Annotated[Any, InjectedToolArg] = None  # tools without any field are called without their run


def memory_tools(
    engine: ContextEngine,
    *,
    user_id: "Named" = None,
    session_id: "Named" = None,
    caller_id: str = "default",
) -> list[BaseTool]:
    """Return the tools `search_memory`, `save_memory` and `forget_memory`, for `create_agent` or any other agent.

        agent = create_agent(model, [*tools, *memory_tools(engine)], context_schema=Context)
        agent.invoke({"messages": ["Hello"]}, context=Context(user_id="ann"))

    - The scope of the memories is fixed here, or by the run; no argument from a model changes it.
    - An error becomes the tool's answer, with the status "error", so that the agent can continue.
    - A memory's text is data: it is shown on one line, after its id.
    - With `settings.memory.require_review`, a memory that a model saves waits for a review, as extracted ones do.
    - A memory that the user stated in this conversation is saved as theirs. One that takes anything from a tool's
      result, a document or a pasted text waits for a review unless the user states it. Any other is saved as the
      assistant's: it ends and replaces nothing that a user said.
    - A memory of the user's is forgotten only if they ask for it in their own words, or if nothing else in the
      conversation, such as a tool's result, can have asked.
    - A saved memory names the user's message that states it, or the newest, as its source if the run's conversation is
      in the engine; it is removed along with that message. In a temporary turn (`ArcMemoryMiddleware(remember=…)`)
      nothing is saved.
    - Sync and async; the async form never blocks the event loop.

    Args:
        engine: Stores the memories.
        user_id: The user to whom the memories belong, or a function of the run's `ToolRuntime`. If it returns `None`,
            the tools answer that there is no memory.
        session_id: The conversation to which the memories belong, or such a function; `None` for memories that outlast
            it. Without both, the run's context (`context_schema`) names them: the memories are those of its `user_id`,
            or, if it has none, those of its `session_id` or of the run's thread.
        caller_id: The caller. With `settings.memory.scope` "caller", and without a user and a session, all of its users
            share the memories.

    Raises:
        InvalidInputError: An argument is invalid.
    """
    checked_engine(engine)
    check_named(user_id=user_id, session_id=session_id)
    by_run = user_id is None and session_id is None and engine.settings.memory.scope != "caller"
    fixed_user, fixed_session = (one if isinstance(one, str) else None for one in (user_id, session_id))
    engine.memories(user_id=fixed_user, session_id=fixed_session, caller_id=caller_id)  # checks the ids early

    def scope(run: "_Run") -> tuple[str | None, str | None]:
        if by_run:
            user = run.from_context("user_id")
            session = None if user else run.conversation
            if user is None and session is None:
                raise ToolException("There is no memory here: this run has neither a user nor a conversation.")
        else:
            user, session = run.named("user", user_id), run.named("session", session_id)
        return user, session

    def memories(run: "_Run") -> "Memories":
        user, session = scope(run)
        return engine.memories(user_id=user, session_id=session, caller_id=caller_id)

    def search(run: "_Run", query: str, limit: int = 5) -> str:
        found = memories(run).search(query, limit)
        return "\n".join(_line(one.memory) for one in found) or "No memories about that."

    def save(
        run: "_Run",
        content: str,
        type: str = "fact",  # noqa: A002 - the schema's name
        importance: float = 0.5,
    ) -> str:
        if run.is_temporary:
            raise ToolException("Not saved: this conversation is temporary.")
        session = scope(run)[1] or run.conversation
        saved = memories(run).propose(
            content,
            type=type,
            importance=importance,
            session_id=session,
            branch=run.branch(session),
            messages=run.messages,
        )
        return f"{_said_of(saved)}:\n{_line(saved)}"

    def forget(run: "_Run", memory_id: str) -> str:
        session = scope(run)[1] or run.conversation
        memories(run).forget(memory_id, session_id=session, branch=run.branch(session), messages=run.messages)
        return "Forgotten."

    return [
        _tool(
            search,
            "search_memory",
            "Search what is remembered of the user from earlier conversations. Gives an id and a statement a line.",
            SearchMemory,
        ),
        _tool(
            save,
            "save_memory",
            "Remember something about the user for later conversations. If the user stated it, it is merged with a "
            "memory that says the same, and replaces one that it contradicts.",
            SaveMemory,
        ),
        _tool(
            forget,
            "forget_memory",
            "Forget one memory for good, by the id that search_memory or save_memory gave. Only if the user wants it.",
            ForgetMemory,
        ),
    ]


def check_named(**given: object) -> None:
    """Refuse values that are neither an id nor a function that returns one."""
    for name, value in given.items():
        if value is not None and not isinstance(value, str) and not callable(value):
            raise InvalidInputError(name, value, "text, a function of the runtime, or None")


def compact_conversation(session_of: Callable[[Any], Session]) -> BaseTool:
    """Return the tool `compact_conversation`, which compacts a run's session."""

    def compact(run: "_Run") -> str:
        done = session_of(run.runtime).compact()
        if not done.messages:
            return "There is nothing to compact: the conversation is short, or was compacted just now."
        tokens = f"{done.tokens_before:,} -> {done.tokens_after:,} tokens"
        return f"Compacted: a summary stands for {done.messages} messages now ({tokens})."

    return _tool(
        compact,
        "compact_conversation",
        "Put a summary in place of this conversation's older messages, to make room. Use it before a long task that "
        "has little to do with them. The newest messages stay.",
        CompactConversation,
    )


def _tool(call: Callable[..., str], name: str, description: str, schema: type[BaseModel]) -> BaseTool:
    # `ToolNode` gives a `ToolRuntime` to the argument with this name; the model's schema does not have it.
    def answer(*, runtime: Annotated[Any, InjectedToolArg] = None, **arguments: Any) -> str:
        try:
            return call(_Run(runtime), **arguments)
        except (InvalidInputError, NotFoundError) as error:
            raise ToolException(f"Not done: {error}.") from error
        except ArcError as error:
            _log.exception("%s failed", name)
            raise ToolException("The memory can't be reached now. Continue without it.") from error

    async def aanswer(*, runtime: Annotated[Any, InjectedToolArg] = None, **arguments: Any) -> str:
        return await asyncio.to_thread(answer, runtime=runtime, **arguments)

    return StructuredTool(
        name=name,
        description=description,
        args_schema=schema,
        func=answer,
        coroutine=aanswer,
        handle_tool_error=True,
        handle_validation_error=_explained,
    )


class _Run:
    """The run that calls a tool: that of its `ToolRuntime`, or else the run around the call, if any."""

    def __init__(self, runtime: object) -> None:
        self.runtime: Any = runtime
        if not hasattr(runtime, "context"):  # `None`, or what a model passed in
            self.runtime = None
            with suppress(ImportError, RuntimeError):  # outside of a run
                from langgraph.runtime import get_runtime  # noqa: PLC0415 - optional, as agents are

                self.runtime = get_runtime()

    def named(self, name: str, value: "Named") -> str | None:
        """Return an id, from the run if it is a function."""
        if not callable(value):
            return value
        found = value(self.runtime)
        if found is None:
            raise ToolException(f"There is no memory here: this run has no {name}.")
        return found

    def from_context(self, name: str) -> str | None:
        """Return an id of the run's context."""
        context = getattr(self.runtime, "context", None)
        # The engine refuses an id of another type.
        return context.get(name) if isinstance(context, Mapping) else getattr(context, name, None)

    @property
    def conversation(self) -> str | None:
        """The context's session id, or the run's thread id: the conversation's id in `ArcMemoryMiddleware`."""
        thread_id = self.from_context("session_id") or self._configurable.get("thread_id")
        return str(thread_id) if thread_id and len(str(thread_id)) <= _LONGEST_ID else None

    def branch(self, session_id: str | None) -> int | None:
        """Return the branch of a conversation that the run is on; `None` for the current one."""
        if "arc_point" not in self._state:
            return None
        from langchain_arc.agents.checkpoints import Point  # noqa: PLC0415 - optional, as agents are

        point = Point.from_state(self._state["arc_point"], session_id)
        return point.branch if point else None

    @property
    def messages(self) -> list[Message]:
        """The messages of the run's state."""
        said = self._state.get("messages", ())
        return stored_batch(said_in([one for one in said if isinstance(one, BaseMessage)]))

    @property
    def is_temporary(self) -> bool:
        """True in a turn that `ArcMemoryMiddleware` does not remember."""
        asked = (message.id for message in reversed(self._state.get("messages", ())) if message.type == "human")
        return next(asked, None) in (self._state.get("arc_temporary") or ())

    @property
    def _state(self) -> Mapping[str, Any]:
        state = getattr(self.runtime, "state", None)
        return state if isinstance(state, Mapping) else {}

    @property
    def _configurable(self) -> Mapping[str, Any]:
        config = getattr(self.runtime, "config", None)
        if config is None:
            with suppress(ImportError, RuntimeError):
                from langgraph.config import get_config  # noqa: PLC0415 - optional, as agents are

                config = get_config()
        return (config or {}).get("configurable", {})


def _said_of(saved: Memory) -> str:
    """Return the outcome of saving a memory, for the model."""
    if saved.status is MemoryStatus.PENDING:
        return "Held for a review; once the user says it in their own words, save it again"
    if saved.status is MemoryStatus.REJECTED:
        return "Not saved, because a review has rejected it"
    return "Saved" if saved.superseded_by is None else "Not used, because the user has said otherwise"


def _line(memory: Memory) -> str:
    """Return a memory as one line, whatever its text contains."""
    about = f"{memory.type.value}, importance {memory.importance:.1f}, {memory.valid_from:%Y-%m-%d}"
    about += f", {speaker_name(memory.speaker)}" if memory.speaker else ""
    return f"- [{memory.id}] ({about}) {' '.join(memory.text.split())}"


def _explained(error: Any) -> str:
    """Return the errors in a call's arguments, without the model's own input."""
    wrong = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
    return f"Not done: {'; '.join(wrong)}."
