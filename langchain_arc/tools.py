"""Long-term memory as tools of an agent: search, save and forget, within one scope only."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from arc_common.engine.context_engine import ContextEngine, checked_engine
from arc_common.engine.session import Session
from arc_common.exceptions import ArcError, InvalidInputError, MissingDependencyError, NotFoundError
from arc_common.memories import MAX_MEMORY_CHARACTERS, Memory, MemoryType
from arc_common.messages import Role
from arc_common.prompts.context import render_choices
from arc_common.sources import speaker_name

try:
    from langchain_core.tools import BaseTool, StructuredTool, ToolException
except ImportError as error:
    raise MissingDependencyError("memory_tools", package="langchain-core", extra="langchain") from error

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

    from arc_common.engine.memories import Memories

_log = logging.getLogger("arc.tools")

_MOST_FOUND = 20
_LONGEST_QUERY = 1_000
_LONGEST_ID = 255
_LOOK_BACK = 64
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


def memory_tools(
    engine: ContextEngine,
    *,
    user_id: "str | Callable[[Runtime[Any]], str | None] | None" = None,
    session_id: "str | Callable[[Runtime[Any]], str | None] | None" = None,
    caller_id: str = "default",
) -> list[BaseTool]:
    """Return the tools `search_memory`, `save_memory` and `forget_memory`, for `create_agent` or any other agent.

        agent = create_agent(model, [*tools, *memory_tools(engine, user_id="ann")])

    - The scope of the memories is fixed here, or by the run; no argument from a model changes it.
    - An error becomes the tool's answer, with the status "error", so that the agent can continue.
    - A memory's text is data: it is shown on one line, after its id.
    - A saved memory names the user's newest message as its source if the run's conversation (`session_id`, else its
      thread) is in the engine; it is removed along with that message.
    - Sync and async; the async form never blocks the event loop.

    Args:
        engine: Stores the memories.
        user_id: The user to whom the memories belong, or a function of the run's `Runtime` (`lambda runtime:
            runtime.context.user_id`). If it returns `None`, the tools answer that there is no memory.
        session_id: The conversation to which the memories belong, or such a function; `None` for memories that outlast
            it.
        caller_id: The caller. With `settings.memory.scope` "caller", and without a user and a session, all of its users
            share the memories.

    Raises:
        InvalidInputError: An argument is invalid, or neither user nor session is given although sessions don't read
            memories shared by a caller's users.
    """
    checked_engine(engine)
    for name, value in (("user_id", user_id), ("session_id", session_id)):
        if value is not None and not isinstance(value, str) and not callable(value):
            raise InvalidInputError(name, value, "text, a function of the runtime, or None")
    if user_id is None and session_id is None and engine.settings.memory.scope != "caller":
        raise InvalidInputError("user_id", None, "a user_id or a session_id: no session reads a caller's memories")
    fixed_user, fixed_session = (one if isinstance(one, str) else None for one in (user_id, session_id))
    engine.memories(user_id=fixed_user, session_id=fixed_session, caller_id=caller_id)  # checks the ids early

    def memories() -> "Memories":
        user, session = _of_run("user", user_id), _of_run("session", session_id)
        return engine.memories(user_id=user, session_id=session, caller_id=caller_id)

    def search(query: str, limit: int = 5) -> str:
        found = memories().search(query, limit)
        return "\n".join(_line(one.memory) for one in found) or "No memories about that."

    def save(
        content: str,
        type: str = "fact",  # noqa: A002 - the schema's name
        importance: float = 0.5,
    ) -> str:
        user, session = _of_run("user", user_id), _of_run("session", session_id) or _thread()
        source = (
            None if session is None else _newest_question(engine.session(session, user_id=user, caller_id=caller_id))
        )
        sources = [(session, source)] if session is not None and source is not None else []
        return f"Saved:\n{_line(memories().add(content, type=type, importance=importance, sources=sources))}"

    def forget(memory_id: str) -> str:
        memories().delete(memory_id)
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
            "Remember something about the user for later conversations. What says the same as a memory is merged "
            "with it; what contradicts one takes its place.",
            SaveMemory,
        ),
        _tool(
            forget,
            "forget_memory",
            "Forget one memory for good, by the id that search_memory or save_memory gave. Only if the user wants it.",
            ForgetMemory,
        ),
    ]


def _tool(call: Callable[..., str], name: str, description: str, schema: type[BaseModel]) -> BaseTool:
    def answer(**arguments: Any) -> str:
        try:
            return call(**arguments)
        except (InvalidInputError, NotFoundError) as error:
            raise ToolException(f"Not done: {error}.") from error
        except ArcError as error:
            _log.exception("%s failed", name)
            raise ToolException("The memory can't be reached now. Go on without it.") from error

    async def aanswer(**arguments: Any) -> str:
        return await asyncio.to_thread(answer, **arguments)

    return StructuredTool(
        name=name,
        description=description,
        args_schema=schema,
        func=answer,
        coroutine=aanswer,
        handle_tool_error=True,
        handle_validation_error=_explained,
    )


def _of_run(name: str, value: "str | Callable[[Runtime[Any]], str | None] | None") -> str | None:
    """Return an id as given, or as the run determines it."""
    if not callable(value):
        return value
    from langgraph.runtime import get_runtime  # noqa: PLC0415 - optional, as agents are

    found = value(get_runtime())
    if found is None:
        raise ToolException(f"There is no memory here: this run has no {name}.")
    return found


def _thread() -> str | None:
    """Return the run's thread id, if there is a run: the conversation's id in `ArcMemoryMiddleware`."""
    try:
        from langgraph.config import get_config  # noqa: PLC0415 - optional, as agents are

        thread_id = get_config().get("configurable", {}).get("thread_id")
    except (ImportError, RuntimeError):  # outside of a run
        return None
    return str(thread_id) if thread_id and len(str(thread_id)) <= _LONGEST_ID else None


def _newest_question(session: Session) -> str | None:
    """Return the id of the user's newest message, if it is among the last stored messages."""
    with suppress(NotFoundError):  # another user's conversation
        said = session.messages(limit=_LOOK_BACK)
        return next((message.id for message in reversed(said) if message.role is Role.USER), None)
    return None


def _line(memory: Memory) -> str:
    """Return a memory as one line, whatever its text contains."""
    about = f"{memory.type.value}, importance {memory.importance:.1f}, {memory.valid_from:%Y-%m-%d}"
    about += f", {speaker_name(memory.speaker)}" if memory.speaker else ""
    return f"- [{memory.id}] ({about}) {' '.join(memory.text.split())}"


def _explained(error: Any) -> str:
    """Return the errors in a call's arguments, without the model's own input."""
    wrong = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
    return f"Not done: {'; '.join(wrong)}."
