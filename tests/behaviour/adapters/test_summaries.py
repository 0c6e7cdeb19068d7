"""Facts and summary lead a framework's memory, are never stored, and work in both frameworks."""

import copy
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda

from arc_common import ArcSettings, ContextEngine, Message, Role
from arc_common.exceptions import InvalidInputError
from llamaindex_arc import ArcLLM
from tests.support.databases import sqlite_url
from tests.support.faces import FACES, LANGCHAIN, Face, faces, orders, texts
from tests.support.forks import Fork

BY_COUNT = ArcSettings(summary={"high_water_tokens": 0})


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    """Open an engine that adopts summaries by the number of messages."""
    with LANGCHAIN.open_engine(settings=BY_COUNT) as opened:
        yield opened


def fill(engine: ContextEngine, face: Face, messages: list[Message] | None = None) -> list[Message]:
    """Store a conversation and wait for its due summaries."""
    given = orders(25) if messages is None else messages
    face.put(engine, given)
    assert engine.flush(30)
    return given


@faces
@pytest.mark.parametrize("way", ["read", "aread"])
def test_one_system_message_leads(engine: ContextEngine, face: Face, way: str) -> None:
    """Labelled and fenced facts and summary replace the older messages, in front of the newest."""
    told = fill(engine, face)
    leading, *verbatim = map(face.to_arc, getattr(face, way)(face.memory(engine)))
    assert leading.role is Role.SYSTEM
    assert leading.text.startswith("<arc:memory>\n")
    assert leading.text.endswith("\n</arc:memory>")
    assert "\nFacts:\n[20" in leading.text
    assert "\nSummary:\n" in leading.text
    assert "A-1001" in leading.text
    assert texts(verbatim) == texts(told)[-len(verbatim) :]
    assert 10 <= len(verbatim) < 50


@faces
def test_instructions_that_were_stored_stand_in_it_too(engine: ContextEngine, face: Face) -> None:
    """A system message at the start survives when messages are summarised."""
    fill(engine, face, [Message(Role.SYSTEM, "Be kind."), *orders(25)])
    leading, *verbatim = face.shown(engine)
    assert leading.text.startswith("Be kind.\n\n<arc:memory>\n")
    assert Role.SYSTEM not in {message.role for message in verbatim}


@faces
def test_without_summaries_the_newest_turns_are_shown(engine: ContextEngine, face: Face) -> None:
    """Whole turns are shown within the limit."""
    told = fill(engine, face)
    shown = texts(face.shown(engine, include_summary=False, **{face.limit: 400}))
    assert 0 < len(shown) < 50
    assert shown == texts(told)[-len(shown) :]


@faces
@pytest.mark.parametrize("value", ["facts", None, 1])
def test_only_true_and_false_are_taken(engine: ContextEngine, face: Face, value: Any) -> None:
    """The argument is checked before anything is read."""
    with pytest.raises(InvalidInputError, match=r"include_summary: .*True or False"):
        face.memory(engine, include_summary=value)


@faces
def test_the_limit_holds_for_all_of_it(engine: ContextEngine, face: Face) -> None:
    """Facts, summary and messages together stay within it."""
    fill(engine, face)
    for limit in (2_000, 600, 200, 100):
        shown = face.shown(engine, **{face.limit: limit})
        assert sum(map(engine.token_counter.count, texts(shown))) <= limit


@faces
@pytest.mark.parametrize("through", [list, copy.deepcopy, lambda shown: shown[:1]], ids=["same", "copies", "alone"])
def test_it_is_not_stored_when_it_is_handed_back(
    engine: ContextEngine, face: Face, through: Callable[[list[Any]], list[Any]]
) -> None:
    """Arc recognises its own message."""
    fill(engine, face)
    before = texts(engine.session("s").messages())
    shown = through(face.read(face.memory(engine)))[:1]
    face.write(face.memory(engine), shown)
    assert texts(engine.session("s").messages()) == before


@pytest.mark.parametrize("begin", FACES)
def test_the_same_facts_and_summary_lead_it_in_the_other_framework(tmp_path: Path, begin: str) -> None:
    """Both frameworks see one conversation, across a restart and without a model."""
    (first,) = [face for name, face in FACES.items() if name == begin]
    (other,) = [face for name, face in FACES.items() if name != begin]
    url = sqlite_url(tmp_path)
    told = orders(48)

    def talk(engine: ContextEngine, face: Face, turns: range) -> None:
        for n in turns:
            assert face.shown(engine, **{face.limit: 1_500}) is not None
            face.put(engine, told[2 * n : 2 * n + 2])
            assert engine.flush(30)  # as in practice, each summary is written before the next turn

    with first.open_engine(url) as engine:
        talk(engine, first, range(24))
        before = texts(first.shown(engine, **{first.limit: 1_500}))
    with other.open_engine(url) as engine:
        after = texts(other.shown(engine, **{other.limit: 1_500}))
        assert after == before
        assert "A-1003" in after[0]
        assert "\nSummary:\n" in after[0]
        talk(engine, other, range(24, 48))
        both = [texts(face.shown(engine, **{face.limit: 1_500})) for face in (first, other)]
        assert both[0] == both[1]
        assert "A-1030" in both[0][0]
        assert texts(engine.session("s").messages()) == texts(told)


class Model:
    """A model that answers with a summary and records its calls."""

    def __init__(self) -> None:
        self.asked = 0

    def complete(self, messages: Any) -> str:
        self.asked += 1
        return '{"facts": [], "narrative": "The user gave order numbers."}'


FOREIGN: dict[str, Callable[[Model], Any]] = {
    "LangChain": lambda model: RunnableLambda(lambda _: AIMessage(model.complete([]))),
    "LlamaIndex": lambda model: ArcLLM(chat_model=model),
}


@pytest.mark.parametrize("foreign", [False, True], ids=["arc's", "the framework's"])
@pytest.mark.parametrize("name", FACES)
def test_a_model_of_its_own_summarises(name: str, foreign: bool) -> None:
    """`summary_llm` replaces `llm`, and a model named by the settings."""
    talks, cheap = Model(), Model()
    settings = ArcSettings(summary={"llm_model": "openai:no-such-model"})
    model = FOREIGN[name](cheap) if foreign else cheap
    with FACES[name].open_engine(llm=talks, summary_llm=model, settings=settings) as engine:
        fill(engine, FACES[name])
        summary = engine.session("s").summary()
    assert summary is not None
    assert "The user gave order numbers." in summary.narrative
    assert cheap.asked
    assert not talks.asked


PACKAGES = {
    "LangChain": (
        "langchain_arc",
        "openai:gpt-cheap",
        {
            "langchain_openai.py": """
from langchain_core.language_models.fake_chat_models import FakeListChatModel
print("imported")
class ChatOpenAI(FakeListChatModel):
    responses: list = ['{"facts": [], "narrative": "Written by its name."}']
    model: str
"""
        },
    ),
    "LlamaIndex": (
        "llamaindex_arc",
        "default",
        {
            "llama_index/llms/openai/__init__.py": """
from llama_index.core.llms.mock import MockLLM
print("imported")
class OpenAI(MockLLM):
    api_key: str = "none"
    def complete(self, prompt, formatted=False, **kwargs):
        from llama_index.core.base.llms.types import CompletionResponse
        return CompletionResponse(text='{"facts": [], "narrative": "Written by its name."}')
""",
            "llama_index/llms/openai/utils.py": "def validate_openai_api_key(key): pass\n",
        },
    ),
}


def summarise_by_name(folder: Path, package: str, model: str) -> None:
    """Open an engine with a model's name in the settings, and print the summary."""
    sys.path.insert(0, str(folder))
    for name in [name for name in sys.modules if name.startswith(("langchain_openai", "llama_index.llms.openai"))]:
        del sys.modules[name]  # the real packages, if an earlier test has imported them
    importlib.invalidate_caches()
    with importlib.import_module(package).open_engine(settings=ArcSettings(summary={"llm_model": model})) as engine:
        sys.stdout.write("opened\n")
        session = engine.session("s")
        session.append([Message(role, f"{role} says {n}") for n in range(15) for role in ("user", "assistant")])
        engine.flush(30)
        sys.stdout.write(session.summary().narrative)


@pytest.mark.parametrize(("package", "model", "files"), PACKAGES.values(), ids=PACKAGES)
def test_a_model_is_made_by_its_name_when_it_is_needed(
    tmp_path: Path, package: str, model: str, files: dict[str, str]
) -> None:
    """The framework's own factory creates it at first use, not when the engine is opened."""
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    with Fork(tmp_path, [], {"PATH": ""}, run=lambda: summarise_by_name(tmp_path, package, model)) as process:
        printed, errors = process.stdout.read(), process.stderr.read()
    assert not errors
    assert printed.split("\n")[:2] == ["opened", "imported"]
    assert "Written by its name." in printed
