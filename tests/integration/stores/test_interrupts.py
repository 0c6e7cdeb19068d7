"""An interrupt at any line of an operation leaves nothing locked, half written or lost."""

import contextlib
import dis
import gc
import os
import random
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import cache
from pathlib import Path
from time import perf_counter
from types import CodeType, FrameType
from typing import Any

import pytest
import sqlalchemy

import arc_common
from arc_common import ArcSettings, ContextEngine, Document, Message, concurrency
from arc_common.messages import Role
from arc_common.stores.database import connection, drivers
from tests.support.databases import sqlite_url

ARC = str(Path(arc_common.__file__).parent)
BELOW = (ARC, str(Path(sqlalchemy.__file__).parent), contextlib.__file__)
"""The folders interrupted with SQLite; with PostgreSQL only arc's, since SQLAlchemy's queue loses connections."""
HOLDERS = (concurrency.__file__, connection.__file__, drivers.__file__)
"""Files that take and release connections and locks; each of their lines is interrupted, also in the short form."""
MEMORY = (f"{ARC}{os.sep}memory",)
"""The folder interrupted in `add_memory`; the other operations reach the lines below it."""
OFF = {"enabled": False}
Operation = Callable[[ContextEngine, int], object]


def append(engine: ContextEngine, number: int) -> list[Message]:
    """Append a turn of two messages that belong together."""
    turn = [Message(Role.USER, f"My order number is {number}.", id=f"u{number}"), Message(Role.ASSISTANT, "Noted.")]
    return engine.session("s").append(turn)


def context(engine: ContextEngine, number: int) -> object:
    return engine.session("s").context("What is my order number?")


def summarize(engine: ContextEngine, number: int) -> object:
    append(engine, number)
    return engine.session("s").summarize()


def add_documents(engine: ContextEngine, number: int) -> object:
    return engine.documents.add([Document(f"Boats, edition {number}", id="boats"), f"Trains {number}"])


def add_memory(engine: ContextEngine, number: int) -> object:
    """Add a memory that replaces the previous one."""
    return engine.memories(user_id="ann").add(f"Ann has {number} bees.")


def interrupted_once(
    run: Callable[[], object], done: set[tuple[object, ...]], folders: tuple[str, ...], every: int
) -> KeyboardInterrupt | None:
    """Run it, and interrupt it at a line below the folders that is not in `done`: one of `every`, or any in `HOLDERS`.

    Return the interrupt, which holds the interrupted frames as a notebook's last traceback does.
    """
    hit: list[tuple[object, ...]] = []

    def lines_of(called: object) -> Callable[[FrameType, str, object], Any]:
        def lines(frame: FrameType, event: str, _: object) -> Any:
            if event == "line" and not hit:
                line = (frame.f_code.co_filename, frame.f_lineno, called)
                if line not in done and not is_safe(frame.f_code, frame.f_lasti):
                    done.add(line)
                    if len(done) % every == 0 or line[0] in HOLDERS:
                        hit.append(line)
                        raise KeyboardInterrupt
            return lines

        return lines

    def calls(frame: FrameType, event: str, _: object) -> Any:
        if hit or not is_below(frame.f_code.co_filename, folders):
            return None
        finalizes = {"__del__", "_collection_gced"} & {
            one.f_code.co_name for one in (frame, frame.f_back) if one is not None
        }  # Python drops exceptions raised there
        return None if finalizes else lines_of(caller(frame))

    before = sys.gettrace()
    sys.settrace(calls)
    try:
        run()
    except KeyboardInterrupt as interrupt:
        return interrupt
    finally:
        sys.settrace(before)
    assert not hit, f"the interrupt at {hit} got lost"
    return None


@cache
def is_below(file: str, folders: tuple[str, ...]) -> bool:
    return file.startswith(folders)


def caller(frame: FrameType) -> object:
    """Return the line of arc that called a library."""
    inner: FrameType | None = frame
    while inner is not None and not is_below(inner.f_code.co_filename, (ARC,)):
        inner = inner.f_back
    return None if inner is frame or inner is None else (inner.f_code.co_filename, inner.f_lineno)


@cache
def is_safe(code: CodeType, at: int) -> bool:
    """Return whether Python reports a line where no interrupt can occur: `try:`, or a `with` before it is left."""
    leaves_with = bytes([dis.opmap["LOAD_CONST"]]) * 3
    steps = code.co_code[at : at + 8 : 2]
    return leaves_with in (steps[:3], steps[1:]) or code.co_code[at] == dis.opmap["NOP"]


@pytest.fixture(autouse=True)
def nothing_is_collected() -> Iterator[None]:
    """Turn off garbage collection, during which Python drops exceptions."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("postgres_database")()  # type: ignore[no-any-return]  # a fixture of ours
    return sqlite_url(tmp_path) if request.param == "file" else "sqlite://"


@pytest.fixture
def stranger(url: str) -> Iterator[Callable[[], None]]:
    """Return a function that writes to the file on its own connection, as another process would."""
    if not url.startswith("sqlite:///"):
        yield lambda: None
        return
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, timeout=1)) as connection:

        def write() -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")

        yield write


SHORT = [
    ("file", append), ("file", context), ("file", add_documents), ("memory", summarize), ("memory", add_memory),
    ("postgres", append),
]  # fmt: skip
LONG = [*SHORT, ("file", summarize), ("memory", append), ("memory", add_documents)]


@pytest.mark.parametrize(
    ("url", "operation", "every"),
    [(*one, 25 if one[1] is context else 9) for one in SHORT]
    + [pytest.param(*one, 1, marks=pytest.mark.torture) for one in LONG],
    indirect=["url"],
)
def test_an_interrupt_at_any_line_leaves_the_engine_at_work(
    url: str, stranger: Callable[[], None], operation: Operation, every: int
) -> None:
    """After each interrupt, another thread and connection and a fork work; a turn is stored whole or not at all."""
    summaries = {} if operation in (context, summarize) else {"summary": OFF}
    settings = ArcSettings(recall=OFF, memory=OFF, **summaries)
    with ContextEngine.open(url, settings=settings) as engine, ThreadPoolExecutor(1) as other:
        acknowledged = [message for number in range(24) for message in append(engine, -1 - number)]
        for number in range(3):
            operation(engine, -100 - number)
        done: set[tuple[object, ...]] = set()
        number = 0

        def once() -> None:
            stored = operation(engine, number)
            if operation is append:
                acknowledged.extend(stored)  # type: ignore[arg-type]  # an append returns messages

        folders = MEMORY if operation is add_memory else BELOW if url.startswith("sqlite") else (ARC,)
        while held := interrupted_once(once, done, folders, every):
            number += 1
            stranger()
            revised = Message(Role.USER, f"Revision {number}", id="m")
            other.submit(engine.session("other").append, revised).result(timeout=5)
            assert held.__traceback__
        assert len(done) > (100 if operation is summarize else 200)
        stored = engine.session("s").messages()
        assert {message.id for message in acknowledged} <= {message.id for message in stored}
        assert [message.role for message in stored] == [Role.USER, Role.ASSISTANT] * (len(stored) // 2)
        pid = os.fork()
        if pid == 0:  # pragma: no cover - in the child
            os._exit(0)
        os.waitpid(pid, 0)
        append(engine, number + 1)


@pytest.mark.parametrize("signals", [300, pytest.param(20_000, marks=pytest.mark.torture)])
@pytest.mark.parametrize("url", ["file", "memory"], indirect=True)
def test_signals_at_random_moments_leave_nothing_locked(url: str, stranger: Callable[[], None], signals: int) -> None:
    """After each signal in an append, whose traceback is kept, another connection and thread can write at once."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    randomness = random.Random(1)
    with (
        ContextEngine.open(url, settings=ArcSettings(summary=OFF, recall=OFF, memory=OFF)) as engine,
        ThreadPoolExecutor(1) as other,
        handled(signal.SIGALRM, interrupt),
    ):
        append(engine, -1)
        begin = perf_counter()
        for number in range(50):
            append(engine, -2 - number)
        one = (perf_counter() - begin) / 50
        interrupts = 0
        for number in range(signals):
            held = None
            try:
                signal.setitimer(signal.ITIMER_REAL, max(randomness.random() * one, 1e-6))
                append(engine, number)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt as interrupted:
                held = interrupted
            if held:
                interrupts += 1
                stranger()
                revised = Message(Role.USER, f"Revision {number}", id="m")
                other.submit(engine.session("other").append, revised).result(timeout=5)
        assert interrupts > signals / 10


@contextlib.contextmanager
def handled(number: signal.Signals, handler: Callable[..., None]) -> Iterator[None]:
    """Handle a signal within the block."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(number, before)


def test_control_c_while_an_append_waits_for_another_writer(tmp_path: Path) -> None:
    """SQLite gets the lock just before the interrupt arrives, and arc releases it at once."""
    path = tmp_path / "arc.db"
    with (
        ContextEngine.open(f"sqlite:///{path}", settings=ArcSettings(summary=OFF, recall=OFF, memory=OFF)) as engine,
        closing(sqlite3.connect(path, isolation_level=None, timeout=1, check_same_thread=False)) as writer,
        handled(signal.SIGINT, signal.default_int_handler),  # other tests in this process may have changed it
    ):
        append(engine, 0)
        writer.execute("BEGIN IMMEDIATE")

        def interrupt_then_end() -> None:
            os.kill(os.getpid(), signal.SIGINT)
            writer.execute("COMMIT")

        timer = threading.Timer(0.2, interrupt_then_end)
        timer.start()
        with pytest.raises(KeyboardInterrupt) as held:  # keeps the traceback with its frames
            append(engine, 1)
        timer.join()
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("COMMIT")
        append(engine, 2)
        assert [message.text for message in engine.session("s").messages()][::2] == [
            "My order number is 0.",
            "My order number is 2.",
        ]
        assert held
