"""Query engines and chat engines add their answered questions to the review queue."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document, SummaryIndex
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.llms import MockLLM

from arc_common import ArcSettings, ContextEngine
from llamaindex_arc import ArcIngestionEventHandler, ArcMemory, open_engine
from tests.support.databases import sqlite_url

QUESTION = "How long can I return my order?"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[ContextEngine]:
    settings = ArcSettings(rag={"ingestion": {"enabled": True}})
    with open_engine(sqlite_url(tmp_path), settings=settings) as engine:
        yield engine


@pytest.fixture
def handler(engine: ContextEngine) -> Iterator[ArcIngestionEventHandler]:
    handler = ArcIngestionEventHandler(engine, channel="web")
    dispatcher = get_dispatcher()
    dispatcher.add_event_handler(handler)
    dispatcher.add_span_handler(handler)
    yield handler
    dispatcher.event_handlers.remove(handler)
    dispatcher.span_handlers.remove(handler)


@pytest.fixture
def index() -> SummaryIndex:
    return SummaryIndex.from_documents([Document(text="Returns are free for 30 days.")])


def captured(engine: ContextEngine, handler: ArcIngestionEventHandler) -> list[tuple[str, str, str | None, str]]:
    handler.flush()
    found = engine.ingestion.candidates().candidates
    return [(one.query, one.response, one.session_id, one.channel) for one in found]


async def test_a_query_is_captured_once(
    engine: ContextEngine, handler: ArcIngestionEventHandler, index: SummaryIndex, caplog: pytest.LogCaptureFixture
) -> None:
    """Sync or async, it has its context's tags; a repeated answer is no second candidate."""
    queries = index.as_query_engine(llm=MockLLM())
    with instrument_tags({"session_id": "s", "user_id": "ann"}):
        answer = str(queries.query(QUESTION))
        assert str(await queries.aquery(QUESTION)) == answer
    await queries.aquery(QUESTION)
    assert sorted(captured(engine, handler), key=str) == [
        (QUESTION, answer.strip(), "s", "web"),
        (QUESTION, answer.strip(), None, "web"),
    ]
    engine.close()
    assert str(queries.query(f"{QUESTION} Really?"))
    handler.flush()
    assert "an answer was not captured" in caplog.text


async def test_a_streamed_answer_is_captured_at_its_end(
    engine: ContextEngine, handler: ArcIngestionEventHandler, index: SummaryIndex
) -> None:
    """It is whole, with the tags of its start; a stream that is not read to the end is not captured."""
    queries = index.as_query_engine(llm=MockLLM(), streaming=True)
    with instrument_tags({"session_id": "s", "channel": "phone"}):
        streamed: Any = queries.query(QUESTION)
    assert captured(engine, handler) == []
    text = "".join(streamed.response_gen)
    assert captured(engine, handler) == [(QUESTION, text.strip(), "s", "phone")]
    asked: Any = await queries.aquery(f"{QUESTION} Really?")
    texts: AsyncIterator[str] = asked.async_response_gen()
    text = "".join([part async for part in texts])
    assert captured(engine, handler)[1:] == [(f"{QUESTION} Really?", text.strip(), None, "web")]
    left: Any = queries.query(f"{QUESTION} And for how much?")
    next(left.response_gen)
    left.response_gen.close()
    assert len(captured(engine, handler)) == 2


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        *(("simple", way) for way in ("chat", "achat", "stream_chat", "astream_chat")),
        *(("context", way) for way in ("achat", "stream_chat")),
        *(("condense_plus_context", way) for way in ("chat", "astream_chat")),
    ],
)
async def test_a_chat_is_captured_once(
    engine: ContextEngine, handler: ArcIngestionEventHandler, index: SummaryIndex, way: str, kind: Any
) -> None:
    """The user's own text and the whole answer are captured, for any way of asking and any memory."""
    memory = ArcMemory.from_defaults(engine=engine, session_id="s")
    if kind == "simple":
        chat: Any = SimpleChatEngine.from_defaults(llm=MockLLM(), memory=memory)
    else:
        chat = index.as_chat_engine(kind, llm=MockLLM(), memory=memory)
    with instrument_tags({"session_id": "s", "user_id": "ann"}):
        answer = getattr(chat, way)(QUESTION)
        answer = await answer if way.startswith("a") else answer
    text = str(answer)
    if way == "stream_chat":
        text = "".join(answer.response_gen)
    elif way == "astream_chat":
        text = "".join([part async for part in answer.async_response_gen()])
    own = [one for one in captured(engine, handler) if one[0] == QUESTION]
    assert own == [(QUESTION, text.strip(), "s", "web")]


class Broken(MockLLM):
    """A model whose answer breaks off."""

    def stream_chat(self, messages: Any, **_: Any) -> Any:
        yield from list(super().stream_chat(messages))[:3]
        raise ConnectionError("lost")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # raised in LlamaIndex's thread
def test_an_answer_that_breaks_off_is_left_out(engine: ContextEngine, handler: ArcIngestionEventHandler) -> None:
    memory = ArcMemory.from_defaults(engine=engine, session_id="s")
    chat = SimpleChatEngine.from_defaults(llm=Broken(), memory=memory)
    with pytest.raises(ConnectionError):
        list(chat.stream_chat(QUESTION).response_gen)
    assert captured(engine, handler) == []
