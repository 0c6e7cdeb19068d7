"""A caching counter has the same counts with fewer calls."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common import ArcSettings, CalibratedTokenCounter, ContextEngine, HeuristicTokenCounter, Message, Session
from arc_common.tokens.counters import CachedTokenCounter
from tests.support.databases import sqlite_url


class Watched(HeuristicTokenCounter):
    """Records the texts that it counts."""

    def __init__(self):
        self.counted = []

    def count(self, text):
        self.counted.append(text)
        return super().count(text)


@given(st.lists(st.text(max_size=20)), st.integers(1, 50))
def test_counts_are_the_others(texts, most):
    cached = CachedTokenCounter(HeuristicTokenCounter(), most=most)
    for _ in range(2):
        assert cached.count_batch(texts) == HeuristicTokenCounter().count_batch(texts)
        assert [cached.count(text) for text in texts] == HeuristicTokenCounter().count_batch(texts)


def test_each_text_is_counted_once():
    watched = Watched()
    cached = CachedTokenCounter(watched, most=2)
    cached.count_batch(["one", "two", "one"])
    cached.count_batch(["two", "one"])
    assert watched.counted == ["one", "two"]
    cached.count_batch(["three"])
    assert cached.count_batch(["three", "two"]) == [2, 1]
    assert watched.counted == ["one", "two", "three", "two"]


def test_its_correction_is_the_others():
    counter = CalibratedTokenCounter()
    cached = CachedTokenCounter(counter)
    counter.observe(100_000, 150_000)
    counter.adopt_correction()
    assert cached.correction == counter.correction
    assert cached.correction.factor > 1
    assert cached.name == counter.name


def test_threads_may_share_it():
    cached = CachedTokenCounter(HeuristicTokenCounter(), most=100)
    texts = [f"text {n}" for n in range(200)]
    with ThreadPoolExecutor(4) as pool:
        for counts in pool.map(lambda _: cached.count_batch(texts), range(20)):
            assert counts == HeuristicTokenCounter().count_batch(texts)


def long_session(engine: ContextEngine) -> Session:
    """Return a session of 600 messages with a fact in every fiftieth."""
    session = engine.session("s")
    session.append(
        [
            Message("user" if n % 2 == 0 else "assistant", f"word {n}" + (f" of ORD-{n:05}" if n % 50 == 8 else ""))
            for n in range(600)
        ]
    )
    session.summarize()
    return session


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the read-only file of such a session after a turn."""
    folder = tmp_path_factory.mktemp("filled")
    with ContextEngine.open(sqlite_url(folder), token_counter=Watched()) as engine:
        long_session(engine).context("a first question")
    return folder / "arc.db"


def test_in_a_long_session_only_new_text_is_counted(filled, tmp_path):
    """A turn counts only its own words, however long the conversation is."""
    watched = Watched()
    url = f"sqlite:///{shutil.copy(filled, tmp_path)}"
    with ContextEngine.open(url, token_counter=watched, settings=ArcSettings()) as engine:
        session = engine.session("s")
        prompt = "You are kind. " * 20
        tools = [{"type": "function", "function": {"name": "look_up", "parameters": {}}}]
        session.context("a first question", system_prompt=prompt, tools=tools)
        session.summarize()
        session.context("a second question", system_prompt=prompt, tools=tools)
        watched.counted.clear()
        window = session.context("a third question about ORD-00008", system_prompt=prompt, tools=tools)
        assert len(window.messages) > 10
        new = {text for text in watched.counted if "a third question" not in text}
        assert sum(map(len, new)) <= 2 * 800 * 4  # lines of twice the recalled section
        assert not any(message.text in watched.counted for message in window.messages[:-1])


def test_an_engine_that_has_just_started_counts_no_stored_message(filled, tmp_path):
    """Messages are stored with their counts; only rendered blocks and recalled lines are counted."""
    watched = Watched()
    with ContextEngine.open(f"sqlite:///{shutil.copy(filled, tmp_path)}", token_counter=watched) as engine:
        window = engine.session("s").context("a second question about ORD-00008")
    assert len(window.messages) > 10
    assert window.messages[0].text.count("\n- ") > 10
    assert not any(message.text in watched.counted for message in window.messages[1:-1])
