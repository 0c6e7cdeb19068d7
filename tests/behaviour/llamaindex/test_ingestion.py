"""Query engines fill the review queue with their answered questions."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from llama_index.core import Document, SummaryIndex
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.llms import MockLLM

from arc_common import ArcSettings, ContextEngine
from llamaindex_arc import ArcIngestionEventHandler, open_engine
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
    yield handler
    dispatcher.event_handlers.remove(handler)


async def test_a_query_is_captured_once(
    engine: ContextEngine, handler: ArcIngestionEventHandler, caplog: pytest.LogCaptureFixture
) -> None:
    """Sync or async, with the tags of its context; the same answer again is no second candidate."""
    index = SummaryIndex.from_documents([Document(text="Returns are free for 30 days.")])
    queries = index.as_query_engine(llm=MockLLM())
    with instrument_tags({"session_id": "s", "user_id": "ann"}):
        answer = str(queries.query(QUESTION))
        assert str(await queries.aquery(QUESTION)) == answer
    await queries.aquery(QUESTION)
    handler.flush()
    found = engine.ingestion.candidates().candidates
    assert {(one.query, one.response, one.channel) for one in found} == {(QUESTION, answer.strip(), "web")}
    assert sorted((one.session_id, one.user_id) for one in found if one.session_id) == [("s", "ann")]
    assert len(found) == 2
    index.as_query_engine(llm=MockLLM(), streaming=True).query("What of streamed answers, then?")
    assert len(engine.ingestion.candidates().candidates) == 2
    engine.close()
    assert str(queries.query(f"{QUESTION} Really?"))
    handler.flush()
    assert "an answer was not captured" in caplog.text
