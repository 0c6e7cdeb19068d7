"""Agents with a scripted model whose requests can be checked."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.tools import FunctionTool

from llamaindex_arc import ArcChatMemoryBuffer, to_arc
from tests.support.llamaindex_helpers import assistant
from tests.support.providers import anthropic, gemini, openai

WARNINGS = [
    # Agents search all of their attributes for workflow steps, including pydantic's deprecated ones.
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning"),
    # LlamaIndex's agents call a deprecated method.
    pytest.mark.filterwarnings("ignore:is_running called from within a step:DeprecationWarning"),
]


class Script:
    """A model that gives scripted answers and records its requests."""

    def __init__(self, *answers: ChatMessage | str) -> None:
        self._answers = [assistant(one) if isinstance(one, str) else one for one in answers]
        self.seen: list[list[ChatMessage]] = []

    def __call__(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatMessage:
        self.seen.append([message.model_copy(deep=True) for message in messages])
        return self._answers[min(len(self.seen), len(self._answers)) - 1].model_copy(deep=True)

    @property
    def llm(self) -> MockFunctionCallingLLM:
        return MockFunctionCallingLLM(response_generator=self, is_chat_model=True)

    def check(self, *places: int) -> None:
        """Check that every provider accepts all requests, or those at the given places."""
        assert self.seen
        for request in [self.seen[place] for place in places] if places else self.seen:
            messages = list(map(to_arc, request))
            for provider in (openai, anthropic, gemini):
                found = [one for one in provider.violations(provider.render(messages)) if one.rule != "last"]
                assert found == [], (provider.__name__, messages)


def calls(*requests: tuple[str, dict[str, Any]], first: int = 1) -> ChatMessage:
    """Return an assistant message with these calls, numbered from `first`."""
    blocks = [
        ToolCallBlock(tool_call_id=f"call_{number}", tool_name=name, tool_kwargs=arguments)
        for number, (name, arguments) in enumerate(requests, first)
    ]
    return ChatMessage(role=MessageRole.ASSISTANT, blocks=[TextBlock(text="let me see"), *blocks])


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def fail(reason: str) -> str:
    """Fail with this reason."""
    raise ValueError(reason)


def agent_of(script: Script, *tools: Any, **given: Any) -> FunctionAgent:
    given = {"name": "agent", "description": "test", "system_prompt": "Be kind.", **given}
    return FunctionAgent(llm=script.llm, tools=list(tools), **given)


def workflow_of(script: Script, *tools: Any, **given: Any) -> AgentWorkflow:
    return AgentWorkflow(agents=[agent_of(script, *tools)], root_agent="agent", **given)


def roles(memory: ArcChatMemoryBuffer) -> list[str]:
    return [message.role.value for message in memory.get_all()]


MakeAgent = Callable[..., FunctionAgent | AgentWorkflow]
agents = pytest.mark.parametrize("make", [agent_of, workflow_of], ids=["FunctionAgent", "AgentWorkflow"])
ADD = ("add", {"a": 5, "b": 3})


def calculator(*answers: str) -> tuple[ReActAgent, Script]:
    script = Script(*answers)
    tools = [FunctionTool.from_defaults(add)]
    prompt = "You are a calculator assistant."
    agent = ReActAgent(name="calculator", description="Counts.", system_prompt=prompt, tools=tools, llm=script.llm)
    return agent, script


THOUGHT = 'Thought: I need to add these numbers\nAction: add\nAction Input: {"a": 5, "b": 3}\n'
ANSWER = "Thought: The result is 8\nAnswer: The sum is 8"
