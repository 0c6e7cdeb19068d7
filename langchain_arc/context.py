"""ArcContext: arc's memory as a variable of a prompt."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.utils import ConfigurableFieldSpec

from arc_common.context import ContextWindow, Item
from arc_common.engine.context_engine import ContextEngine
from arc_common.exceptions import InvalidInputError
from arc_common.memories import checked_memory_tags
from arc_common.messages import Role
from arc_common.prompts.context import (
    render_artifacts,
    render_memory,
    render_memory_lines,
    render_pins,
    render_recalled,
)
from arc_common.tokens.budget import TokenBudget
from langchain_arc.chains import SessionSource, messages_of, picked
from langchain_arc.messages import from_arc

_QUESTIONS = ("question", "input", "query", "messages")


class ArcContext(Runnable[Any, Any]):
    """Returns memory for a question, as text for a prompt: facts, summary, memories and recalled messages.

        chain = RunnablePassthrough.assign(memory=ArcContext(engine)) | prompt | model  # {memory} in the prompt
        chain = ArcContext(engine, output="variables") | prompt | model  # {memory} and {history}

    - Takes the question as text, a message, a list of messages (the newest human one counts) or a dictionary with it.
    - Facts and summary, memories, artifacts, recalled facts and messages are fenced, each within its share of the
      budget; a new session gives `""`.
    - Only reads; `with_arc_memory` saves.

    Args:
        session_id, user_id, caller_id, account_id: As in `ContextEngine.session`;
            `config["configurable"]["session_id"]` takes precedence.
        input_key: The question's key in a dictionary; by default its only key, or `question`, `input`, `query` or
            `messages`.
        output: "text" returns the memory; "variables" returns the input's dictionary with two more keys: `memory`, and
            `history` with the newest messages that fit the budget beside it. Other input is put under `input`.
        budget: The token budget of the request; by default the engine's.
        memory_tags: As in `Session.context`.

    Raises:
        InvalidInputError: An argument is invalid. In a run: nothing names the session, or the input holds no question.
        StoreError: In a run: the store failed. Use `.with_fallbacks` to handle it.
    """

    def __init__(
        self,
        engine: ContextEngine,
        *,
        session_id: str | None = None,
        user_id: str | None = None,
        caller_id: str = "default",
        account_id: str | None = None,
        input_key: str | None = None,
        output: Literal["text", "variables"] = "text",
        budget: TokenBudget | None = None,
        memory_tags: Sequence[str] | None = None,
    ) -> None:
        if output not in ("text", "variables"):
            raise InvalidInputError("output", output, '"text" or "variables"')
        if not isinstance(budget, TokenBudget | None):
            raise InvalidInputError("budget", budget, "a TokenBudget or None")
        self._source = SessionSource(engine, session_id, user_id, caller_id, account_id)
        self._input_key = input_key
        self._variables = output == "variables"
        self._options: dict[str, Any] = {"budget": budget, "memory_tags": checked_memory_tags(memory_tags) or None}

    @property
    def InputType(self) -> Any:  # noqa: N802 - LangChain's name
        """Anything that holds a question."""
        return Any

    @property
    def OutputType(self) -> Any:  # noqa: N802 - LangChain's name
        """Text, or a dictionary."""
        return dict[str, Any] if self._variables else str

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """The key that names the session."""
        return self._source.fields

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002, ARG002 - LangChain's
        """Return the memory for a question."""
        return self._call_with_config(self._read, input, config, run_type="retriever")

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002, ARG002 - LangChain's
        """Async form of `invoke`."""
        return await self._acall_with_config(self._aread, input, config, run_type="retriever")

    def _read(self, value: Any, run_manager: object, config: RunnableConfig) -> Any:  # noqa: ARG002 - LangChain's form
        session = self._source.session(config)
        return self._shown(value, session.context(self._question(value), **self._options))

    async def _aread(self, value: Any, run_manager: object, config: RunnableConfig) -> Any:  # noqa: ARG002 - the same
        session = self._source.session(config)
        return self._shown(value, await session.acontext(self._question(value), **self._options))

    def _question(self, value: Any) -> str:
        given = picked(value, self._input_key, field="input", usual=_QUESTIONS)
        asked = messages_of(given, "input", HumanMessage)
        question = next((message.text for message in reversed(asked) if isinstance(message, HumanMessage)), "")
        if not question.strip():
            raise InvalidInputError("input", value, "a question: text, or messages that include a human one")
        return question

    def _shown(self, value: Any, window: ContextWindow) -> Any:
        memory = _memory(window)
        if not self._variables:
            return memory
        given = dict(value) if isinstance(value, Mapping) else {"input": value}
        return {**given, "memory": memory, "history": _history(window)}


def _memory(window: ContextWindow) -> str:
    """Return the window's pins, facts, summary and recalled items, each in its fence."""
    said = {section.name: section.items for section in window.sections}
    pins = [item.text for item in said.get("facts", ()) if item.kind == "pin"]
    facts = [item.text for item in said.get("facts", ()) if item.kind == "fact"]
    summary = "\n".join(item.text for item in said.get("summary", ()) if item.kind == "summary")
    found: dict[str, list[Item]] = {kind: [] for kind in ("note", "memory", "artifact", "fact", "recalled")}
    for item in said.get("recalled", ()):
        found[item.kind].append(item)
    texts = {kind: [item.text for item in items] for kind, items in found.items()}
    messages = [(item.day, item.text) for item in found["recalled"]]
    blocks = (
        render_pins(pins),
        render_memory(facts, summary),
        *texts["note"],
        render_memory_lines(texts["memory"]),
        render_artifacts(texts["artifact"]),
        render_recalled(texts["fact"], messages),
    )
    return "\n\n".join(block for block in blocks if block)


def _history(window: ContextWindow) -> list[BaseMessage]:
    """Return the window's messages before the question, preceded by stored instructions."""
    stored = next((section.items for section in window.sections if section.name == "system"), ())
    instructions = [SystemMessage("\n\n".join(item.text for item in stored))] if stored else []
    *earlier, question = [message for message in window.messages if message.role is not Role.SYSTEM]
    if earlier and earlier[-1].role is Role.USER and question.text.startswith(earlier[-1].text):
        del earlier[-1]
    return [*instructions, *map(from_arc, earlier)]
