"""Agents' requests mark the part that a provider may cache; receipts report the expected and the actual cache reads.

The providers' own packages send the requests to a local server. They are imported inside tests, since each process of a
run collects this file and only one runs it; the imports take three seconds.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.tools import tool

from arc_common import ArcSettings, ContextEngine
from langchain_arc import ArcMemoryMiddleware, open_engine
from tests.support.langchain_agents import ScriptedToolModel, multiply
from tests.support.model_servers import ModelServer, model_server

MARK = {"type": "ephemeral"}
MARKED = ArcSettings(context={"cache_markers": True})


@pytest.fixture
def provider() -> Iterator[ModelServer]:
    with model_server() as server:
        yield server


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    with open_engine("sqlite://", settings=MARKED) as engine:
        yield engine


def claude(provider: ModelServer) -> Any:
    from langchain_anthropic import ChatAnthropic

    return ChatAnthropic(model="claude-test", api_key="none", base_url=provider.url, max_retries=0)  # type: ignore[call-arg]


def gpt(provider: ModelServer, **given: Any) -> Any:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="gpt-test", api_key="none", base_url=f"{provider.url}/v1", max_retries=0, **given)


def ask(engine: ContextEngine, model: Any, *texts: str, session_id: str = "s", **given: Any) -> list[list[str]]:
    """Ask each text; return the receipts' cache entries."""
    middleware = [ArcMemoryMiddleware(engine, session_id=session_id), *given.pop("behind", [])]
    agent: Any = create_agent(model, middleware=middleware, **given)
    told = []
    for text in texts:
        agent.invoke({"messages": [("user", text)]})
        told.append(notes(engine, session_id))
        engine.flush()
    return told


def marks(body: dict[str, Any]) -> list[str]:
    """Return the places of Anthropic's cache marks, such as "system 0" for the first block of the system message."""
    found = ["request"] if "cache_control" in body else []
    found += [f"tool {place}" for place, one in enumerate(body.get("tools", [])) if "cache_control" in one]
    system = body.get("system", [])
    places = [("system", place, block) for place, block in enumerate(system) if isinstance(block, dict)]
    for message, said in enumerate(body["messages"]):
        blocks = said["content"] if isinstance(said["content"], list) else []
        places += [(f"message {message}", place, block) for place, block in enumerate(blocks)]
    return found + [f"{name} {place}" for name, place, block in places if "cache_control" in block]


def texts(body: dict[str, Any]) -> list[str]:
    """Return each message's texts without marks."""
    said = [{"content": body.get("system", "")}, *body["messages"]]
    blocks = [one["content"] if isinstance(one["content"], list) else [{"text": one["content"]}] for one in said]
    return ["".join(str(block.get("text", block.get("content"))) for block in own) for own in blocks]


def notes(engine: ContextEngine, session_id: str = "s") -> list[str]:
    return [note for note in engine.admin.debug(session_id).receipt.notes if note.startswith("prompt cache")]


READ = "prompt cache: 1,500 of 2,000 tokens were read from it"


def test_an_anthropic_request_is_marked_where_it_stays_the_same(engine: ContextEngine, provider: ModelServer) -> None:
    """Marks follow the system message and precede the question: the next request begins with both parts."""
    provider.answers.extend(["Hello!", ("multiply", {"a": 2, "b": 3}), "It is 6."])
    ask(engine, claude(provider), "Hello.", "2 x 3?", "And?", tools=[multiply], system_prompt="Be kind.")
    assert [marks(body) for body in provider.bodies] == [
        ["system 0"],
        ["system 0", "message 1 0"],
        ["system 0", "message 1 0"],  # after the tool call, still before the question
        ["system 0", "message 5 0"],
    ]
    for before, after in zip(provider.bodies, provider.bodies[1:], strict=False):
        stable = [] if len(marks(before)) < 2 else texts(before)[: 2 + int(marks(before)[-1].split()[1])]
        assert texts(after)[: len(stable)] == stable
    assert "cache_control" not in repr(engine.session("s").messages())


def test_marks_stay_behind_an_adopted_summary(provider: ModelServer) -> None:
    """An adoption changes the system message, so one request misses the cache and the next hits it."""
    settings = ArcSettings(
        context={"cache_markers": True},
        summary={"trigger_message_count": 4, "recent_message_count": 2, "high_water_tokens": 0},
    )
    with open_engine("sqlite://", settings=settings) as engine:
        dogs = [f"My dog number {place} is called Rex{place}." for place in range(9)]
        told = ask(engine, claude(provider), *dogs, system_prompt="Be kind.")
    systems = [texts(body)[0] for body in provider.bodies]
    assert all(len(marks(body)) <= 2 and marks(body)[0] == "system 0" for body in provider.bodies)
    (changed,) = [place for place in range(1, 9) if systems[place] != systems[place - 1]]
    assert "Rex0" in systems[-1]
    assert told[0] == [READ]
    should = [note[0].removeprefix("prompt cache: ").removesuffix(" should be read from it") for note in told[1:]]
    assert should[:changed] == [
        "the system message",
        *(f"the system message and the first {2 * place} messages" for place in range(1, changed - 1)),
        "nothing",
    ]
    assert should[-1].startswith("the system message and the first ")


@tool(extras={"cache_control": MARK})
def divide(a: int, b: int) -> float:
    """Divide two numbers."""
    return a / b


BLOCK = {"type": "text", "text": "Be kind.", "cache_control": MARK}


@pytest.mark.parametrize(
    ("given", "own"),
    [
        ({"system_prompt": SystemMessage([BLOCK, BLOCK, BLOCK])}, 3),
        ({"system_prompt": SystemMessage([BLOCK, BLOCK]), "tools": [divide]}, 3),
        ({"system_prompt": SystemMessage([BLOCK, BLOCK, "And brief."])}, 4),
        ({"behind": [], "tools": [multiply]}, 4),
    ],
    ids=["no room", "a tool's", "room", "LangChain's middleware"],
)
def test_marks_of_the_agent_s_own_count(
    engine: ContextEngine, provider: ModelServer, given: dict[str, Any], own: int
) -> None:
    """Anthropic accepts four per request; with three already there, none is added."""
    if "behind" in given:
        from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware

        given = {**given, "behind": [AnthropicPromptCachingMiddleware()]}
    ask(engine, claude(provider), "Hello.", "And?", **{"system_prompt": "Be kind.", **given})
    assert len(marks(provider.bodies[-1])) == own


@pytest.mark.parametrize(
    "settings", [ArcSettings(), ArcSettings(context={"cache_markers": True, "placement": "system"})]
)
def test_nothing_is_marked_that_is_not_asked_for_or_changes(provider: ModelServer, settings: ArcSettings) -> None:
    with open_engine("sqlite://", settings=settings) as engine:
        ask(engine, claude(provider), "Hello.", "And?", system_prompt="Be kind.")
        assert all(marks(body) == [] for body in provider.bodies)
        assert notes(engine) == [READ]


def test_another_provider_s_request_is_unchanged(engine: ContextEngine) -> None:
    model = ScriptedToolModel()
    ask(engine, model, "Hello.", "And?", system_prompt="Be kind.")
    assert all(isinstance(message.content, str) for request in model.requests for message in request)
    assert notes(engine) == []


@pytest.mark.parametrize("responses", [False, True], ids=["chat completions", "responses"])
def test_an_openai_model_gets_one_key_for_each_conversation(
    engine: ContextEngine, provider: ModelServer, responses: bool
) -> None:
    """It is a hash that reveals neither caller nor session."""
    model = gpt(provider, use_responses_api=responses)
    told = ask(engine, model, "Hello.", "And?", "Well?", session_id="ann's chat")
    ask(engine, model, "Hello.", session_id="another")
    theirs = ArcMemoryMiddleware(engine, session_id="ann's chat", caller_id="shop")
    create_agent(model, middleware=[theirs]).invoke({"messages": [("user", "Hello.")]})
    *same, other, of_shop = [body["prompt_cache_key"] for body in provider.bodies]
    assert same == [same[0]] * 3
    assert len({same[0], other, of_shop}) == 3
    assert len(same[0]) == 32
    should = [f"prompt cache: {what} should be read from it" for what in ("the first message", "the first 3 messages")]
    assert told == [[READ], [should[0], READ], [should[1], READ]]


@pytest.mark.parametrize(
    ("name", "way"),
    [
        *(("anthropic", way) for way in ("invoke", "astream")),
        *(("chat completions", way) for way in ("ainvoke", "stream")),
        *(("responses", way) for way in ("invoke", "astream")),
    ],
)
async def test_what_was_read_from_a_cache_is_on_the_receipt(provider: ModelServer, name: str, way: str) -> None:
    """The receipt has the provider's report, streamed or not, whoever requested caching."""
    model = claude(provider) if name == "anthropic" else gpt(provider, use_responses_api=name == "responses")
    with open_engine("sqlite://") as engine:
        agent: Any = create_agent(model, middleware=[ArcMemoryMiddleware(engine, session_id="s")])
        value = {"messages": [("user", "Hello.")]}
        if way == "astream":
            assert [step async for step in agent.astream(value, stream_mode="messages")]
        elif way == "stream":
            assert list(agent.stream(value, stream_mode="messages"))
        else:
            await agent.ainvoke(value) if way == "ainvoke" else agent.invoke(value)
        assert notes(engine) == [READ]
        assert provider.bodies[0].get("stream", False) == way.endswith("stream")
        assert engine.session("s").messages()[-1].text == "Fine."


def test_a_model_that_reports_nothing_leaves_no_note() -> None:
    model = ScriptedToolModel(script=[AIMessage("Hi.")])
    with open_engine("sqlite://") as engine:
        ask(engine, model, "Hello.")
        assert notes(engine) == []
