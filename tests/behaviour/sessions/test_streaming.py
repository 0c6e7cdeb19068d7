"""Streamed turns are saved when a stream ends, is closed, is cancelled or fails."""

import asyncio

import pytest

from arc_common import ContextEngine


@pytest.fixture
def session():
    with ContextEngine.open() as engine:
        yield engine.session("s")


def saved(session):
    return [(message.text, message.metadata.get("cut_short", False)) for message in session.messages()]


def stream(session, *pieces, fail=None):
    with session.stream_turn("question") as turn:
        for piece in pieces:
            turn.write(piece)
            yield piece
        if fail:
            raise fail


def test_only_the_last_iteration_is_saved(session):
    with session.stream_turn("question") as turn:
        turn.write("let me look that up")
        turn.next_iteration()
        turn.write("it is ")
        turn.write("42")
        assert turn.text == "it is 42"
    assert saved(session) == [("question", False), ("it is 42", False)]


def test_a_closed_stream_is_saved_as_far_as_it_came(session):
    pieces = stream(session, "one ", "two ", "three")
    next(pieces)
    next(pieces)
    pieces.close()
    assert saved(session) == [("question", False), ("one two ", True)]


def test_a_stream_closed_before_its_first_piece_is_not_saved(session):
    with pytest.raises(GeneratorExit), session.stream_turn("question"):
        raise GeneratorExit
    assert saved(session) == []


def test_a_failed_stream_is_not_saved_and_the_error_goes_on(session):
    with pytest.raises(RuntimeError, match="model"):
        list(stream(session, "one", fail=RuntimeError("model")))
    assert saved(session) == []


async def test_an_async_stream_that_is_cancelled_or_closed_is_saved_as_far_as_it_came(session):
    started = asyncio.Event()

    async def pieces():
        async with session.stream_turn("question") as turn:
            turn.write("half")
            yield "half"
            await asyncio.sleep(60)

    async def consume():
        async for _ in pieces():
            started.set()

    task = asyncio.create_task(consume())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    closed = pieces()
    await anext(closed)
    await closed.aclose()
    assert saved(session) == [("question", False), ("half", True)] * 2
