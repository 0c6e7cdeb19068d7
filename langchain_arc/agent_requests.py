"""Converts an agent's request for arc's engine, and the engine's messages back into a request. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from arc_common.exceptions import MissingDependencyError
from arc_common.messages import Message, Role
from arc_common.protocols import TokenCounter
from arc_common.tokens.budget import TokenBudget
from arc_common.tokens.calibration import corrected
from arc_common.tokens.message_tokens import schema_tokens, tools_tokens
from langchain_arc.fitting import fitted_to
from langchain_arc.messages import from_arc
from langchain_arc.states import split_instructions

try:
    from langchain.agents.middleware import ModelRequest
    from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage, SystemMessage
    from langchain_core.tools import BaseTool
    from langchain_core.utils.function_calling import convert_to_openai_tool
except ImportError as error:
    raise MissingDependencyError("ArcMemoryMiddleware", package="langchain", extra="agents") from error


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a request that a model sees."""

    instructions: SystemMessage | None
    messages: list[BaseMessage]
    tools: list[Mapping[str, Any]]
    response_format: Mapping[str, Any] | None


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
        tools += [_answer_tool(spec.name, spec.description, spec.json_schema) for spec in strategy.schema_specs]
    return Parts(_joined(instructions), messages, tools, response_format)


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


def fitted(
    request: ModelRequest[Any], parts: Parts, *, budget: TokenBudget, counter: TokenCounter
) -> ModelRequest[Any]:
    """Return the request with as many of its own messages as fit; its instructions stay unchanged."""
    schemas = tools_tokens(counter, parts.tools) + schema_tokens(counter, parts.response_format)
    room = max(budget.counted_by(counter).input_tokens - corrected(counter, schemas), 0)
    first = [parts.instructions] if parts.instructions else []
    kept: list[Any] = fitted_to(room, [*first, *parts.messages], counter=counter)
    return request.override(system_message=parts.instructions, messages=kept[len(first) :])


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


def _answer_tool(name: str, description: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def _text_block(text: str) -> list[str | dict[str, Any]]:
    return [{"type": "text", "text": text}] if text else []
