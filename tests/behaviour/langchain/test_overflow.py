"""A request that the model rejects as too long is sent once more, smaller, and later ones fit at once."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from pydantic import PrivateAttr

from arc_common import ContextEngine, Message, TokenBudget
from langchain_arc import ArcMemoryMiddleware, open_engine, with_arc_memory


class Narrow(BaseChatModel):
    """A model with a limit in characters, each a token, that rejects longer requests like Anthropic."""

    limit: int
    says_figures: bool = True
    _asked: list[int] = PrivateAttr(default_factory=list)

    @property
    def asked(self) -> list[int]:
        """Return the tokens of each request by the model's count."""
        return self._asked

    @property
    def _llm_type(self) -> str:
        return "narrow"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self._check(messages)
        return ChatResult(generations=[ChatGeneration(message=AIMessage("Fine."))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        self._check(messages)
        for word in ("Fine", "."):
            yield ChatGenerationChunk(message=AIMessageChunk(word))

    def _check(self, messages: Sequence[BaseMessage]) -> None:
        tokens = sum(len(message.text) for message in messages)
        self._asked.append(tokens)
        if tokens > self.limit:
            figures = f": {tokens} tokens > {self.limit} maximum"
            raise ContextOverflowError(f"prompt is too long{figures if self.says_figures else ''}")


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    with open_engine("sqlite://") as opened:
        opened.session("s").append(
            [
                Message(role, f"The {place}th order has the number {place}. " * 6)
                for place in range(40)
                for role in ("user", "assistant")
            ]
        )
        yield opened


def config() -> Any:
    return {"configurable": {"thread_id": "s", "session_id": "s"}}


async def ask_agent(engine: ContextEngine, model: Narrow, way: str, *, times: int = 1) -> None:
    agent: Any = create_agent(model, middleware=[ArcMemoryMiddleware(engine, budget=TokenBudget(4_000, 0))])
    for turn in range(times):
        value = {"messages": [("user", f"And order {turn}?")]}
        if way == "invoke":
            await asyncio.to_thread(agent.invoke, value, config())
        else:
            await agent.ainvoke(value, config())


async def ask_chain(engine: ContextEngine, model: Narrow, way: str, *, times: int = 1) -> None:
    prompt = ChatPromptTemplate.from_messages([("system", "You are brief. " * 40), ("placeholder", "{input}")])
    chain = with_arc_memory(prompt | model, engine, input_messages_key="input", max_tokens=4_000)
    for turn in range(times):
        value = {"input": [("user", f"And order {turn}?")]}
        if way == "invoke":
            answer: Any = await asyncio.to_thread(chain.invoke, value, config())
        elif way == "ainvoke":
            answer = await chain.ainvoke(value, config())
        elif way == "stream":
            answer = sum(await asyncio.to_thread(lambda: list(chain.stream(value, config()))), AIMessageChunk(""))  # noqa: B023
        else:
            chunks = [chunk async for chunk in chain.astream(value, config())]
            answer = sum(chunks, AIMessageChunk(""))
        assert answer.text == "Fine."


WAYS = [
    pytest.param(ask_agent, "invoke", id="agent"),
    pytest.param(ask_agent, "ainvoke", id="agent async"),
    *(pytest.param(ask_chain, way, id=f"chain {way}") for way in ("invoke", "ainvoke", "stream", "astream")),
]


@pytest.mark.parametrize(("ask", "way"), WAYS)
@pytest.mark.parametrize("says_figures", [True, False], ids=["figures", "no figures"])
async def test_a_refused_request_is_sent_once_more_smaller(
    engine: ContextEngine, ask: Any, way: str, says_figures: bool
) -> None:
    """The receipt says so, the turn is stored once, and later turns fit at once."""
    model = Narrow(limit=4_000, says_figures=says_figures)
    if not says_figures:
        model.limit = 9_000
    before = len(engine.session("s").messages())
    await ask(engine, model, way)
    first, second = model.asked
    assert first > model.limit >= second > model.limit / 5
    notes = engine.admin.debug("s").receipt.notes
    assert any(f"the model {first:,} of at most {model.limit:,}" in note for note in notes) == says_figures
    assert any(note.startswith("the first request was too long: arc counted") for note in notes)
    stored = engine.session("s").messages()[before:]
    assert [(message.role.value, message.text) for message in stored] == [
        ("user", "And order 0?"),
        ("assistant", "Fine."),
    ]


@pytest.mark.parametrize(("ask", "way"), [WAYS[0], WAYS[2]])
async def test_what_was_learned_holds_for_the_next_requests(engine: ContextEngine, ask: Any, way: str) -> None:
    model = Narrow(limit=4_000)
    await ask(engine, model, way, times=4)
    assert len(model.asked) == 5
    assert max(model.asked[1:]) <= model.limit


@pytest.mark.parametrize(("ask", "way"), WAYS)
async def test_the_second_refusal_is_raised_with_both_figures(engine: ContextEngine, ask: Any, way: str) -> None:
    """It is the provider's own error, so that other middleware recognises it; there is no third request."""

    class Stubborn(Narrow):
        def _check(self, messages: Sequence[BaseMessage]) -> None:
            self._asked.append(sum(len(message.text) for message in messages))
            raise ContextOverflowError(f"prompt is too long: {self._asked[-1]} tokens > {self.limit} maximum")

    model = Stubborn(limit=4_000)
    with pytest.raises(ContextOverflowError) as caught:
        await ask(engine, model, way)
    _, second = model.asked
    note = caught.value.__notes__[0]  # LangGraph adds another note
    assert note.startswith("the second request was also too long: arc counted")
    assert f"the model {second:,} of at most 4,000" in note


@pytest.mark.parametrize(("ask", "way"), [WAYS[0], WAYS[2]])
async def test_a_limit_below_what_must_be_sent_is_the_models_to_refuse(
    engine: ContextEngine, ask: Any, way: str
) -> None:
    """The question alone is tried, and the model's error is raised with both figures in each turn."""
    model = Narrow(limit=5)
    for turn in (1, 2):
        with pytest.raises(ContextOverflowError) as refused:
            await ask(engine, model, way)
        assert "of at most 5" in refused.value.__notes__[0]
        assert model.asked[-1] <= len("And order 0?") * turn + len("You are brief. " * 40)
        assert len(model.asked) == 2 * turn


@pytest.mark.parametrize(("ask", "way"), [WAYS[0], WAYS[-1]])
async def test_another_error_is_raised_at_once(engine: ContextEngine, ask: Any, way: str) -> None:
    class Broken(Narrow):
        def _check(self, messages: Sequence[BaseMessage]) -> None:
            self._asked.append(0)
            raise ConnectionError("down")

    model = Broken(limit=1)
    with pytest.raises(ConnectionError, match="down"):
        await ask(engine, model, way)
    assert len(model.asked) == 1
