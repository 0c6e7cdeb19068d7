"""Async forms are equivalent, no loop owns a resource, saves survive cancellation, background work can be awaited."""

import asyncio
import contextvars
import inspect
import os
import threading

import pytest

from arc_common import ContextEngine, EngineClosedError, Message
from arc_common.concurrency import Workers
from arc_common.engine.admin import Admin
from arc_common.engine.memories import Memories
from arc_common.engine.session import Session
from arc_common.testing import CountingObserver, ReplyingChatModel, SlowChatModel
from tests.support.databases import sqlite_url

FACES = (Session, Admin, Memories)


def pairs(face):
    return [
        (getattr(face, name[1:]), function)
        for name, function in vars(face).items()
        if inspect.iscoroutinefunction(function) and not name.startswith("_")
    ]


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_every_method_that_blocks_has_an_async_form_of_the_same_signature(face):
    twins = pairs(face)
    assert twins
    for sync, twin in twins:
        assert inspect.signature(sync).parameters == inspect.signature(twin).parameters, twin.__name__
        assert inspect.signature(sync).return_annotation == inspect.signature(twin).return_annotation, twin.__name__
        assert twin.__doc__.startswith(f"Async form of `{sync.__name__}`"), twin.__name__
    public = {name for name, member in vars(face).items() if inspect.isfunction(member) and not name.startswith("_")}
    without_io = {"stream_turn"}  # only collects in memory; its saves have both forms
    assert public - without_io == {function.__name__ for pair in twins for function in pair}


def test_an_engine_serves_several_event_loops(tmp_path):
    with ContextEngine.open(sqlite_url(tmp_path)) as engine:
        for n in range(3):
            asyncio.run(engine.session("s").asave_turn(f"q{n}", "a"))
        loops = [
            threading.Thread(target=lambda n=n: asyncio.run(engine.session("s").asave_turn(f"t{n}", "a")))
            for n in range(3)
        ]
        for loop in loops:
            loop.start()
        for loop in loops:
            loop.join()
        assert len(engine.session("s").messages()) == 12


async def test_a_cancelled_save_still_saves(tmp_path):
    async with ContextEngine.open(sqlite_url(tmp_path)) as engine:
        session = engine.session("s")
        tasks = [asyncio.create_task(session.asave_turn(f"q{n}", "a")) for n in range(20)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert all(task.cancelled() for task in tasks)
    with ContextEngine.open(sqlite_url(tmp_path)) as engine:
        assert len(engine.session("s").messages()) == 40


async def test_context_variables_are_the_callers():
    variable = contextvars.ContextVar("variable", default="unset")
    workers = Workers(1, name="test")
    variable.set("mine")
    assert await workers.run(variable.get) == "mine"
    workers.close()


async def test_a_closed_engine_says_so():
    engine = ContextEngine.open()
    await engine.aclose()
    await engine.aclose()
    with pytest.raises(EngineClosedError):
        engine.session("s").messages()
    with pytest.raises(EngineClosedError):
        await engine.session("s").amessages()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # the test's subject
def test_an_engine_survives_a_fork(tmp_path):
    with ContextEngine.open(sqlite_url(tmp_path)) as engine:
        asyncio.run(engine.session("s").asave_turn("parent", "before"))
        child = os.fork()
        if child == 0:
            try:
                asyncio.run(asyncio.wait_for(engine.session("s").asave_turn("child", "after"), 20))
                engine.session("s").save_turn("child", "sync")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        engine.session("s").save_turn("parent", "after")
        texts = [message.text for message in engine.session("s").messages()]
    assert texts == ["parent", "before", "child", "after", "child", "sync", "parent", "after"]


LONG = 30.0
"""Seconds that no step of a test takes."""


def talk(count):
    """Return alternating messages, the first of which is worth a memory."""
    said = [Message(("user", "assistant")[n % 2], f"We spoke about part {n} of the plan.") for n in range(count)]
    return [Message("user", "I live in Lisbon and I prefer window seats."), said[1], *said[2:]]


def test_all_background_work_has_ended_after_it():
    observer = CountingObserver()
    with ContextEngine.open(observer=observer) as engine:
        session = engine.session("s", user_id="ann")
        session.append(talk(60))
        assert engine.flush(LONG)
        assert session.summary().summarized_up_to > 0
        assert any("Lisbon" in memory.text for memory in engine.memories(user_id="ann").list())
        before = observer.counts.copy()
        assert engine.flush(0)
        assert observer.counts == before


def test_it_tells_when_the_time_was_too_short():
    """A slow model delays it for as long as the caller allows."""
    model = SlowChatModel(ReplyingChatModel(["[]"]))
    with ContextEngine.open(chat_model=model) as engine:
        engine.session("s", user_id="ann").append(talk(2))
        assert model.asked.wait(LONG)
        assert not engine.flush(0.01)
        model.may_answer.set()
        assert engine.flush()
        assert model.answered.is_set()


async def test_an_engine_without_work_returns_at_once():
    engine = ContextEngine.open()
    assert await engine.aflush(0)
    await engine.aclose()
    assert engine.flush(0)


def test_times_of_access_are_written(tmp_path):
    url = f"sqlite:///{tmp_path}/arc.db"
    with ContextEngine.open(url) as engine, ContextEngine.open(url) as other:
        engine.memories(user_id="ann").add("I live in Lisbon.")
        engine.memories(user_id="ann").search("Lisbon")
        assert engine.flush(LONG)
        (memory,) = other.memories(user_id="ann").list()
        assert memory.last_accessed_at is not None
