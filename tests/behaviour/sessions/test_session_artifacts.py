"""A session's artifacts: stored, found in its turns, deleted with it, and never another's."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import create_engine, event

from arc_common import ArcSettings, ContextEngine, InvalidInputError, SessionNotFoundError
from arc_common.prompts.context import parse_fences
from arc_common.testing import CountingObserver
from tests.support.databases import indexed, rows, unreadable

METADATA = """
    SELECT entries.metadata FROM arc_index_entries entries
    JOIN arc_index_scopes scopes ON scopes.scope = entries.scope WHERE scopes.kind = 'artifact'
"""
WEATHER = "Cookies. Seoul is sunny. The high in Seoul is 21 degrees. Subscribe. Busan has rain."


@pytest.fixture
def clock():
    now = [datetime(2026, 3, 1, tzinfo=UTC)]

    def tell():
        now[0] += timedelta(seconds=1)
        return now[0]

    return tell


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/arc.db"


@pytest.fixture
def engine(url, clock):
    with ContextEngine.open(url, settings=ArcSettings(), clock=clock) as opened:
        yield opened


def of_turn(session, query):
    """Return the lines of artifacts in a turn."""
    shown = dict(parse_fences(session.context(query).messages[-1].text)[1])
    return [line for line in shown.get("artifacts", "").splitlines() if line.startswith("- [")]


def test_what_was_looked_up_comes_back_when_it_is_asked_for(engine, url):
    session = engine.session("s", user_id="ann")
    artifact_id = session.add_artifact(WEATHER, source="weather.example", metadata={"tool": "web_search"})
    (found,) = of_turn(session, "How sunny is Seoul, how many degrees?")
    assert found == "- [weather.example, 2026-03-01] “Seoul is sunny. The high in Seoul is 21 degrees.”"
    ((text,),) = rows(url, METADATA)
    metadata = json.loads(text)
    assert metadata.pop("created_at").startswith("2026-03-01T")
    assert metadata == {
        "tool": "web_search",
        "session_id": "s",
        "memory_type": "tools",
        "chunk_index": 0,
        "artifact_id": artifact_id,
    }
    assert of_turn(session, "Who founded the bakery?") == []


def test_the_same_again_is_the_same(engine, url):
    session = engine.session("s")
    first = session.add_artifact(WEATHER, source="a")
    ((before,),) = rows(url, METADATA)
    assert session.add_artifact(WEATHER, source=" a\n") == first
    assert len(of_turn(session, "degrees in Seoul")) == 1
    ((after,),) = rows(url, METADATA)
    assert json.loads(after)["created_at"] > json.loads(before)["created_at"]
    assert session.add_artifact(WEATHER, source="b") != first


def test_long_content_is_cut_and_each_part_is_found(engine, url):
    text = " ".join(f"Room {n} of the hotel is painted in colour c{n}." for n in range(400))
    session = engine.session("s")
    session.add_artifact(text, source="hotel.example")
    (found, *_) = of_turn(session, "In which colour is room 377 painted?")
    assert "colour c377." in found
    parts = indexed(url, "artifact", session_id="s")
    assert len(parts) > 5
    assert all(engine.token_counter.count(part) <= engine.settings.rag.chunk_size for part in parts)
    assert " ".join(parts) == text  # without repetition


def test_another_users_session_takes_nothing(engine):
    engine.session("s", user_id="ann").save_turn("hi", "hello")
    with pytest.raises(SessionNotFoundError):
        engine.session("s", user_id="eve").add_artifact("text", source="web")


@pytest.mark.parametrize("how", ["delete", "clear"])
@pytest.mark.parametrize("said", [True, False], ids=["with messages", "nothing said"])
def test_they_go_with_the_session(engine, how, said):
    session, other = engine.session("s"), engine.session("t")
    for one in (session, other):
        one.add_artifact(WEATHER, source="web")
    if said:
        session.save_turn("hi", "hello")
    getattr(session, how)()
    assert of_turn(session, "degrees in Seoul") == []
    assert len(of_turn(other, "degrees in Seoul")) == 1


def test_settings_switch_them_off_and_bound_them(clock):
    for artifacts, expected in (
        ({"enabled": False}, 0),
        ({"final_top_k": 0}, 0),
        ({"max_tool_snippets": 0}, 0),
        ({"final_top_k": 1}, 1),
        ({}, 2),
        ({"max_tool_snippets": 5, "final_top_k": 9, "top_k": 4}, 4),
        ({"max_tool_snippets": 5, "final_top_k": 9, "rerank_top_n": 3}, 3),
        ({"tool_relevance": 1.0}, 0),
        ({"tool_relevance": 1.0, "recency_cues": ["degrees"]}, 2),
    ):
        with ContextEngine.open(settings=ArcSettings(artifacts=artifacts), clock=clock) as engine:
            session = engine.session("s")
            for n in range(6):
                session.add_artifact(f"Station {n}: Seoul has {n} degrees.", source="web")
            assert len(of_turn(session, "How many degrees does Seoul have, in Fahrenheit?")) == expected, artifacts


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"content": " \n"}, "content"),
        ({"content": "x" * 1_000_001}, "content"),
        ({"source": "x" * 2_001}, "source"),
        ({"kind": "facts"}, "kind"),
        ({"kind": "summary"}, "kind"),
        ({"metadata": {"chunk_index": 3}}, "metadata"),
        ({"metadata": {"x": len}}, "metadata"),
    ],
    ids=str,
)
def test_what_can_not_be_kept_is_refused(engine, url, given, field):
    session = engine.session("s")
    arguments = {"content": "Long text. " * 2_000, "source": "web", **given}
    with pytest.raises(InvalidInputError, match=field):
        session.add_artifact(arguments.pop("content"), **arguments)
    assert of_turn(session, "long text") == []
    assert indexed(url, "artifact", session_id="s") == []


def test_an_index_that_fails_leaves_the_turn_without_them(url):
    observer = CountingObserver()
    with ContextEngine.open(url, settings=ArcSettings(), observer=observer) as engine:
        session = engine.session("s")
        session.add_artifact(WEATHER, source="web")
        with unreadable(url, "arc_index_entries"):
            assert of_turn(session, "degrees in Seoul") == []
    assert observer.counts["artifacts.errors"] == 1


def test_a_session_without_artifacts_is_looked_up_once(url):
    statements = []
    database = create_engine(url)
    event.listen(database, "connect", lambda connection, _: connection.set_trace_callback(statements.append))
    with ContextEngine.open(database, settings=ArcSettings()) as engine:
        session = engine.session("s")
        for _ in range(5):
            assert of_turn(session, "degrees in Seoul") == []
        assert sum('"artifact"' in sql for sql in statements) == 1
        session.add_artifact(WEATHER, source="web")
        assert len(of_turn(session, "degrees in Seoul")) == 1
    database.dispose()
