"""Requests of agents say which part of them a provider may cache; receipts say what should be and what was read."""

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langchain_core.outputs import ChatResult
from pydantic import PrivateAttr

from arc_common import ArcSettings, ContextEngine
from langchain_arc import ArcMemoryMiddleware, open_engine
from tests.support.langchain_agents import ScriptedToolModel

MARK = {"type": "ephemeral"}
MARKED = ArcSettings(context={"cache_markers": True})


class ChatAnthropic(ScriptedToolModel):
    """Named as the class of langchain-anthropic, which the marks are for."""


class BaseChatOpenAI(ScriptedToolModel):
    """Named as the base class of langchain-openai's models; keeps what a request was sent with."""

    _given: list[dict[str, Any]] = PrivateAttr(default_factory=list)

    @property
    def given(self) -> list[dict[str, Any]]:
        return self._given

    def bind(self, **kwargs: Any) -> Any:
        return super().bind(**kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self._given.append(kwargs)
        return super()._generate(messages, stop, run_manager, **kwargs)


def ask(engine: ContextEngine, model: ScriptedToolModel, *texts: str, session_id: str = "s", **given: Any) -> None:
    agent: Any = create_agent(model, middleware=[ArcMemoryMiddleware(engine, session_id=session_id)], **given)
    for text in texts:
        agent.invoke({"messages": [("user", text)]})


def marks(messages: list[BaseMessage]) -> list[int]:
    """The places of messages whose last block is marked; no other block is."""
    places = []
    for place, message in enumerate(messages):
        blocks = message.content if isinstance(message.content, list) else []
        found = [isinstance(block, dict) and block.get("cache_control") == MARK for block in blocks]
        assert not any(found[:-1])
        places += [place] if any(found) else []
    return places


def notes(engine: ContextEngine, session_id: str = "s") -> list[str]:
    return [note for note in engine.admin.debug(session_id).receipt.notes if note.startswith("prompt cache")]


def test_an_anthropic_model_s_request_is_marked_where_it_stays_the_same() -> None:
    """After the system message and before the question: the next request begins with the same texts."""
    model = ChatAnthropic()
    with open_engine("sqlite://", settings=MARKED) as engine:
        ask(engine, model, "Hello.", "My order is ORD-7.", "Where is it?", system_prompt="Be kind.")
        assert [marks(request) for request in model.requests] == [[0], [0, 2], [0, 4]]
        assert notes(engine) == [
            "prompt cache: the system message and the 4 messages before the question should be read from it"
        ]
        for before, after in zip(model.requests, model.requests[1:], strict=False):
            prefix = before[: marks(before)[-1] + 1]
            assert [message.text for message in prefix] == [message.text for message in after[: len(prefix)]]
        assert all(not isinstance(message.content, list) for message in engine.session("s").messages())


def test_marks_of_the_agent_s_own_count() -> None:
    """Anthropic takes four: with three there already none is added."""
    block = {"type": "text", "text": "Be kind.", "cache_control": MARK}
    model = ChatAnthropic()
    with open_engine("sqlite://", settings=MARKED) as engine:
        ask(engine, model, "Hello.", "And?", system_prompt=SystemMessage([block, block, block]))
        blocks: Any = model.requests[-1][0].content
        assert sum("cache_control" in one for one in blocks) == 3
        assert len(marks(model.requests[-1][1:])) == 0


@pytest.mark.parametrize(
    ("model", "settings"),
    [(ChatAnthropic(), ArcSettings()), (ScriptedToolModel(), MARKED)],
    ids=["not asked for", "another model"],
)
def test_nothing_is_marked(model: ScriptedToolModel, settings: ArcSettings) -> None:
    with open_engine("sqlite://", settings=settings) as engine:
        ask(engine, model, "Hello.", "And?", system_prompt="Be kind.")
        assert all(marks(request) == [] for request in model.requests)
        assert notes(engine) == []


def test_an_openai_model_gets_one_key_for_each_conversation() -> None:
    """A hash: neither the caller nor the session can be read from it."""
    model = BaseChatOpenAI()
    with open_engine("sqlite://", settings=MARKED) as engine:
        ask(engine, model, "Hello.", "And?")
        ask(engine, model, "Hello.", session_id="another")
        first, second, other = [given["prompt_cache_key"] for given in model.given]
        assert first == second != other
        assert len(first) == 32
        assert notes(engine) == ["prompt cache: the 2 messages before the question should be read from it"]


def test_what_was_read_from_a_cache_is_on_the_receipt() -> None:
    """As the model reports it, whoever asked for the cache."""
    usage: Any = {
        "input_tokens": 2_000,
        "output_tokens": 3,
        "total_tokens": 2_003,
        "input_token_details": {"cache_read": 1_500},
    }
    model = ScriptedToolModel(script=[AIMessage("Hi.", usage_metadata=usage), AIMessage("Hi.")])
    with open_engine("sqlite://") as engine:
        ask(engine, model, "Hello.")
        assert notes(engine) == ["prompt cache: 1,500 of 2,000 tokens were read from it"]
        ask(engine, model, "And?")
        assert notes(engine) == []
