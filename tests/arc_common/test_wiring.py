"""Settings act where they say they do."""

import pytest
from sqlalchemy import text

from arc_common import ArcSettings, ContextEngine, Document, TiktokenCounter


@pytest.mark.parametrize(
    ("storage", "pragma", "value"),
    [
        ({}, "synchronous", 2),
        ({"synchronous": "normal"}, "synchronous", 1),
        ({}, "secure_delete", 1),
        ({"secure_delete": False}, "secure_delete", 0),
        ({}, "busy_timeout", 30_000),
        ({"busy_timeout_seconds": 1.5}, "busy_timeout", 1_500),
    ],
    ids=str,
)
def test_sqlite_is_treated_as_the_settings_say(tmp_path, storage, pragma, value):
    """On the very connections that the store uses."""
    with ContextEngine.open(f"sqlite:///{tmp_path}/arc.db", settings=ArcSettings(storage=storage)) as engine:
        engine.session("s").save_turn("hi", "hello")
        with engine._runtime.conversations.engine.connect() as connection:
            assert connection.execute(text(f"PRAGMA {pragma}")).scalar() == value


def test_the_pool_is_as_large_as_the_settings_say():
    """And a server is not waited for longer."""
    settings = ArcSettings(storage={"pool_size": 3, "pool_timeout_seconds": 2, "connect_timeout_seconds": 1.2})
    with ContextEngine.open("postgresql://nobody@127.0.0.1:1/none", settings=settings) as engine:
        pool = engine._runtime.conversations.engine.pool
        assert (pool.size(), pool.timeout()) == (3, 2)


def test_the_counter_is_the_one_that_the_settings_name(tmp_path):
    """By name, with its vocabulary's place."""
    names = {}
    for counter in ("calibrated", "heuristic"):
        with ContextEngine.open(settings=ArcSettings(tokens={"counter": counter})) as engine:
            names[counter] = engine.token_counter.name.partition("/")[0]
    assert names == {"calibrated": "calibrated", "heuristic": "heuristic"}
    tokens = {"counter": "tiktoken", "encoding": "cl100k_base", "vocabulary_timeout_seconds": 0.5}
    with ContextEngine.open(settings=ArcSettings(tokens=tokens)) as engine:
        assert isinstance(engine.token_counter, TiktokenCounter)


@pytest.mark.parametrize(("placement", "role"), [("user", "user"), ("system", "system")])
def test_documents_go_where_the_settings_say(placement, role):
    """Behind the user's text, or into the system message."""
    settings = ArcSettings(context={"placement": placement, "receipt_misses": 0})
    with ContextEngine.open(settings=settings) as engine:
        window = engine.session("s").context("where?", system_prompt="Be kind.", documents=[Document("on the shelf")])
    (holder,) = [message for message in window.messages if "on the shelf" in message.text]
    assert holder.role == role


@pytest.mark.parametrize(("placement", "role"), [("system", "system"), ("user", "user")])
def test_facts_go_where_the_settings_say(placement, role):
    """Into the system message, or kept out of it altogether."""
    with ContextEngine.open(settings=ArcSettings(context={"facts_placement": placement})) as engine:
        session = engine.session("s")
        session.save_turn("My order number is HN-48213.", "Noted.")
        for n in range(12):
            session.save_turn(f"Question {n}?", f"Answer {n}.")
        session.summarize()
        window = session.context("And now?", system_prompt="Be kind.")
    (holder,) = [message for message in window.messages if "HN-48213" in message.text]
    assert holder.role == role
