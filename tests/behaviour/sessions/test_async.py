"""Async forms: the same behaviour, no loop that owns anything, saves that outlive cancellation."""

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
    without_io = {"stream_turn"}  # collects in memory; saves through both forms
    assert public - without_io == {function.__name__ for pair in twins for function in pair}


async def test_the_async_forms_do_what_the_sync_ones_do(tmp_path):
    async with ContextEngine.open(sqlite_url(tmp_path)) as engine:
        session = engine.session("s")
        await session.asave_turn("hi", "hello")
        stored = await session.aappend(Message("user", "more"))
        assert [message.text for message in await session.amessages(limit=2)] == ["hello", "more"]
        assert (await session.acontext("now")).messages == session.context("now").messages
        assert await session.aexists()
        assert len((await engine.admin.asessions()).conversations) == 1
        assert await session.aremove([stored[0].id]) == 1
        assert await session.aclear() == 2
        assert await session.adelete()


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
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # what the test is about
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
