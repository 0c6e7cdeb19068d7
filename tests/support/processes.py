"""Processes that use a store, forked from one warm helper in 5 ms each instead of the start of a Python.

Run as a module, it is the helper: it has imported everything, has one thread, reads jobs as JSON lines from standard
input, forks a process for each, and answers with its process id.
"""

import gc
import hashlib
import importlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import IO, Any

import numpy as np
import psycopg
import sqlalchemy

from arc_common import ArcSettings, ContextEngine, Document, Session
from arc_common.exceptions import ArcError, StoreError
from arc_common.messages import Message, Role
from arc_common.protocols import CountedMessage, SessionKey
from arc_common.protocols.search_index import IndexEntry, Scope
from arc_common.protocols.summaries import Commit, Segment
from arc_common.settings import StorageSettings
from arc_common.stores.conversations import SqlStore
from tests.contracts.index_queries import lexical
from tests.support.archives import calling
from tests.support.databases import observed
from tests.support.servers import NOBODY, free_port, postgres_server

ROOT = Path(__file__).parents[2]

SQLALCHEMY = str(Path(sqlalchemy.__file__).parent)
SMALL_CHUNKS = ArcSettings(rag={"chunk_size": 12, "chunk_overlap": 0}, embeddings={"batch_size": 4})
"""Chunks of one sentence each, in batches of four."""


class Helper:
    """Starts jobs in new processes."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._requests: IO[str] = process.stdin
        self._answers: IO[str] = process.stdout

    def start(self, job: Callable[..., None], log: Path, **arguments: Any) -> int:
        """Fork a process that runs the job and writes its reports to `log`; return its id."""
        return int(self._ask({"job": job.__name__, "log": str(log), "arguments": arguments}))

    def wait(self, pid: int) -> int:
        """Wait for the process and return its exit code."""
        return os.waitstatus_to_exitcode(int(self._ask({"wait": pid})))

    def run(self, job: Callable[..., None], folder: Path, each: list[dict[str, Any]]) -> list[list[str]]:
        """Run the job once for each of the arguments, concurrently, and return the reports of each."""
        logs = [folder / f"{job.__name__}-{number}.log" for number in range(len(each))]
        pids = [self.start(job, log, **arguments) for log, arguments in zip(logs, each, strict=True)]
        codes = [self.wait(pid) for pid in pids]
        assert codes == [0] * len(each), "\n".join(log.read_text()[-2000:] for log in logs)
        return [log.read_text().splitlines() for log in logs]

    def _ask(self, request: dict[str, Any]) -> str:
        self._requests.write(json.dumps(request) + "\n")
        self._requests.flush()
        return self._answers.readline()


@contextmanager
def helper() -> Iterator[Helper]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.processes"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    with process:
        yield Helper(process)
        assert process.stdin is not None
        process.stdin.close()


def append(report: Callable[[str], None], *, url: str, name: str, count: int, at: float = 0.0) -> None:
    """Append messages one by one to the session `shared`, and report each id once it is stored."""
    store = SqlStore(url)
    key = SessionKey("shared")
    time.sleep(max(0.0, at - time.time()))
    for number in range(count):
        message = Message(Role.USER, f"{name} says {number}", id=f"{name}-{number}", created_at=datetime.now(UTC))
        store.append(key, [CountedMessage(message, 7, "test/1")])
        report(f"{name}-{number}")
    store.close()


TALKING = ArcSettings(background={"lease_seconds": 0.5}, summary={"leaf_messages": 16})


def converse(report: Callable[[str], None], *, url: str, name: str, stop: str, pooled: bool = False) -> None:
    """Append, edit and remove messages of a session at random, retrying failures like an application.

    Each change is reported before it begins, as texts by id (`null` for a removed message), and again once it is
    stored. Ends when the file `stop` exists.
    """
    settings = TALKING.model_copy(update={"storage": StorageSettings(transaction_pooling=pooled)})
    with ContextEngine.open(url, settings=settings) as engine:
        session = engine.session("shared", user_id="ann")
        changes(session, name, lambda change: report(json.dumps(change)), Path(stop).exists)


def changes(
    session: Session, name: str, report: Callable[[dict[str, str | None] | str], None], stop: Callable[[], bool]
) -> None:
    """Do the work of `converse` in this process."""
    chance = random.Random(name)
    mine: list[str] = []
    for number in count():
        if stop():
            return
        what = chance.random() if len(mine) > 2 else 0.0
        if what < 0.7:
            ids = [f"{name}-{number}-{place}" for place in range(chance.choice([1, 1, 2]))]
            mine += ids
            change: dict[str, str | None] = dict.fromkeys(ids, f"{name} likes place {number}.")
        elif what < 0.9:
            change = {chance.choice(mine): f"{name} likes town {number} better."}
        else:
            change = {mine.pop(chance.randrange(len(mine))): None}
        report(change)
        deadline = time.monotonic() + 60
        while True:
            try:
                if None in change.values():
                    session.remove(list(change))
                else:
                    session.append([Message(Role.USER, text or "", id=one) for one, text in change.items()])
                break
            except StoreError as error:
                report(type(error).__name__)
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        report("stored")


def told(lines: Iterable[str]) -> tuple[dict[str, str], dict[str, str], int]:
    """Return the stored messages by `converse`'s reports, the same after its last change, and the count of failures."""
    acknowledged: dict[str, str] = {}
    begun = acknowledged
    failures = 0
    for line in map(json.loads, lines):
        if line == "stored":
            acknowledged = begun
        elif isinstance(line, str):
            failures += 1
        else:
            begun = {one: text for one, text in {**acknowledged, **line}.items() if text is not None}
    return acknowledged, begun, failures


def revise(report: Callable[[str], None], *, url: str, name: str, count: int, at: float = 0.0) -> None:
    """Revise the messages m1 … m8 of the session `shared`, one or two at a time, each time with a new text."""
    store = SqlStore(url)
    chance = random.Random(name)
    time.sleep(max(0.0, at - time.time()))
    done = 0
    while done < count:
        which = chance.sample(range(1, 9), min(2, count - done) if chance.random() < 0.3 else 1)
        given = [
            CountedMessage(
                Message(Role.USER, f"{name} {done} {n}", id=f"m{n}", created_at=datetime.now(UTC)),
                chance.randint(1, 9),
                "test/1",
            )
            for n in which
        ]
        store.append(SessionKey("shared"), given)
        done += len(given)
    report("done")
    store.close()


def archive_and_restore(report: Callable[[str], None], *, url: str, folder: str, at: int) -> None:
    """Archive the session `s` and use it again; be killed before the step with this number, if there is one."""
    steps = 0

    def step(_: str) -> None:
        nonlocal steps
        steps += 1
        if steps == at:
            os.kill(os.getpid(), signal.SIGKILL)

    settings = ArcSettings(archive={"url": f"calling://{folder}"}, recall={"enabled": False})
    with ContextEngine.open(observed(url, step), settings=settings) as engine, calling(step):
        engine.session("s").archive()
        engine.session("s").messages()
    report("done")


def archive_and_die(report: Callable[[str], None], *, url: str, folder: str, change: str) -> None:
    """Archive Ann's session `s` while it is changed, and be killed when the object is written."""
    settings = ArcSettings(archive={"url": f"file://{folder}"}, recall={"enabled": False})

    def step(name: str) -> None:
        if name == "write":
            later = datetime.now(UTC) + timedelta(hours=1)
            with ContextEngine.open(url, settings=settings, clock=lambda: later) as other:
                session = other.session("s", user_id="ann")
                session.remove(["m1"]) if change == "remove" else getattr(session, change)()
        elif name == "read":
            os.kill(os.getpid(), signal.SIGKILL)

    slow = ArcSettings(archive={"url": f"calling://{folder}"}, recall={"enabled": False})
    with ContextEngine.open(url, settings=slow) as engine, calling(step):
        engine.session("s", user_id="ann").archive()
    report("done")


def die_while_writing(report: Callable[[str], None], *, url: str, folder: str) -> None:
    """Archive Ann's session `s` into a folder, and be killed when part of the object is on the disk."""
    os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
    settings = ArcSettings(archive={"url": folder}, recall={"enabled": False})
    with ContextEngine.open(url, settings=settings) as engine:
        engine.session("s", user_id="ann").archive()
    report("done")


def edit_and_die(report: Callable[[str], None], *, url: str, text: str) -> None:
    """Change the text of the message `m` of Ann's session `s`, and be killed before anything follows from it."""
    message = Message(Role.USER, text, id="m", created_at=datetime.now(UTC))
    SqlStore(url).append(SessionKey("s", "default", "ann"), [CountedMessage(message, 1, "test/1")])
    report("stored")
    os.kill(os.getpid(), signal.SIGKILL)


INDEXED = Scope("shared", "user")
WORDS = ["red", "green", "blue", "grey"]


def churn(report: Callable[[str], None], *, url: str, seed: int, rounds: int) -> None:
    """Change a shared scope of the index at random: mostly put, sometimes remove, attach, detach and erase."""
    store, chance = SqlStore(url), random.Random(seed)

    def an_entry() -> IndexEntry:
        terms = {word: float(chance.randint(1, 3)) for word in chance.sample(WORDS, chance.randint(1, 3))}
        vector = np.array([chance.randint(1, 9), chance.randint(1, 9)]) if chance.random() < 0.6 else None
        name = None if vector is None else "test"
        return IndexEntry(f"d{chance.randrange(40)}", "text", terms, {"n": chance.randrange(4)}, None, vector, name)

    for n in range(rounds):
        what = chance.random()
        entries = [an_entry() for _ in range(chance.randint(1, 6))]
        if what < 0.6:
            store.index.put(INDEXED, "memory", entries)
        elif what < 0.8:
            store.index.remove(INDEXED, "memory", [entry.id for entry in entries])
        elif what < 0.9:
            store.index.put(INDEXED, "memory", entries, only_vectors=True)
        elif what < 0.95:
            store.index.remove(INDEXED, "memory", None, only_vectors=True)
        elif what < 0.97 and n < rounds / 2:  # later, an erase would hide earlier errors
            store.index.remove(INDEXED, None, None)
        else:
            lexical(store.index, INDEXED, "memory", {"red": 1.0}, limit=5)
    report("done")
    store.close()


def replace_and_die(report: Callable[[str], None], *, url: str, text: str, at: int) -> None:
    """Replace the document `d` by this text in chunks, and be killed just before the statement number `at`."""
    with ContextEngine.open(url, settings=SMALL_CHUNKS) as engine:
        engine.documents.count()
        left = at

        def count_down(frame: Any, event: str, called: Any) -> None:
            nonlocal left
            if event == "c_call":
                name = getattr(called, "__name__", "")
            elif event == "call" and not frame.f_code.co_filename.startswith(SQLALCHEMY):
                name = frame.f_code.co_name  # the driver's function; SQLAlchemy's is called just before
            else:
                return
            if name in ("execute", "executemany"):
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(count_down)
        engine.documents.add(Document(text, id="d"), chunk=True)
        sys.setprofile(None)
        report("added")


def replace(report: Callable[[str], None], *, url: str, name: str, count: int, at: float = 0.0) -> None:
    """Replace the document `d` alternately by a long and a short one, in chunks, and delete it sometimes."""
    with ContextEngine.open(url, settings=SMALL_CHUNKS) as engine:
        engine.documents.count()
        time.sleep(max(0.0, at - time.time()))
        for number in range(count):
            text = f"Version {name}-{number} is what is said here. " * (9 if number % 2 else 5)
            engine.documents.add(Document(text, id="d"), chunk=True)
            if number % 5 == 4:
                engine.documents.delete(["d"])
        report("done")


def summarise(report: Callable[[str], None], *, url: str, stop: str) -> None:
    """Write leaves and a block with the texts of m1 … m8, repeatedly; report the number of accepted ones."""
    store = SqlStore(url)
    key = SessionKey("shared")
    taken = 0
    while not Path(stop).exists():
        for level, start, end in ((0, 1, 4), (0, 5, 8), (1, 1, 8)):
            state = store.summaries.state(key, limit=100)
            texts = [stored.message.text for stored in state.messages[start - 1 : end]]
            segment = Segment(level, start, end, "|".join(texts), 1, "model", created_at=datetime.now(UTC))
            taken += store.summaries.commit(key, Commit(segment), lease=None, epoch=state.epoch)
    report(str(taken))
    store.close()


WORKED = ArcSettings(
    background={"in_process": False, "lease_seconds": 0.3}, memory={"enabled": True}, summary={"leaf_messages": 16}
)
"""Leaves of few messages, and leases short enough for a test to wait for."""
LONG_LEASES = WORKED.background.model_copy(update={"lease_seconds": 60.0})


class Reporting:
    """A model that reports its requests."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report

    def complete(self, messages: list[Message]) -> str:
        time.sleep(0.005)
        self._report(hashlib.sha256("".join(one.text for one in messages).encode()).hexdigest())
        return '{"facts": [], "narrative": "It was told."}'


def work(report: Callable[[str], None], *, url: str, asks: bool = False) -> None:
    """Do all due work, by rules, or with a model, long leases and a report of its requests."""
    model = Reporting(report) if asks else None
    settings = WORKED.model_copy(update={"background": LONG_LEASES}) if asks else WORKED
    with ContextEngine.open(url, settings=settings, summary_model=model) as engine:
        engine.admin.work(threads=2, progress=lambda _: asks or report("worked"))


def first_use(report: Callable[[str], None], *, url: str, at: float = 0.0) -> None:
    """Open a new database."""
    store = SqlStore(url)
    time.sleep(max(0.0, at - time.time()))
    assert store.get(SessionKey("nothing")) is None
    report("opened")
    store.close()


def _say(store: SqlStore, *names: str) -> None:
    for name in names:
        message = Message(Role.USER, name, id=name, created_at=datetime.now(UTC))
        store.append(SessionKey("shared"), [CountedMessage(message, 7, "test/1")])


def fork(report: Callable[[str], None], *, url: str) -> None:
    """Use one store on both sides of a fork; the parent closes it first."""
    store = SqlStore(url)
    _say(store, "before")
    ready, closed = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        _say(store, "child 1")
        os.write(ready[1], b".")
        os.read(closed[0], 1)
        _say(store, "child 2")
        os._exit(0)
    os.read(ready[0], 1)
    _say(store, "parent")
    store.close()
    os.write(closed[1], b".")
    report(f"child ended {os.waitpid(child, 0)[1]}")
    report(", ".join(stored.message.text for stored in store.read(SessionKey("shared"))))
    store.close()


def fork_while_writing(report: Callable[[str], None], *, url: str, forks: int) -> None:
    """Fork repeatedly while another thread writes; each child writes, too."""
    store = SqlStore(url)
    _say(store, "first")
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            _say(store, f"thread {number}")
            report(f"thread {number}")
            number += 1
            time.sleep(0.005)  # SQLite has no lock queue: a thread that never pauses starves the others

    writer = threading.Thread(target=write)
    writer.start()
    for number in range(forks):
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # ends a child that waits for a thread it did not inherit
            _say(store, f"child {number}")
            report(f"child {number}")
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        assert status == 0, f"child {number} ended with {status}"
    stop.set()
    writer.join()
    store.close()


def unprivileged(report: Callable[[str], None], *, url: str) -> None:
    """Read and write as an ordinary user, and report the errors."""
    _become_ordinary()
    store = SqlStore(url)
    for call in (lambda: store.read(SessionKey("shared")), lambda: _say(store, "new")):
        try:
            call()
        except ArcError as error:
            report(f"{type(error).__name__}: {error}")
        else:
            report("fine")


def read_all(report: Callable[[str], None], *, url: str, again: str) -> None:
    """As an ordinary user, read everything of Ann's session `s`, then write; report the result of each step.

    Reads the messages once more as soon as the file `again` exists.
    """
    with ContextEngine.open("sqlite://", settings=ArcSettings()) as engine:
        engine.documents.add("imports what an ordinary user may not read")
        for call in _calls(engine):
            call()
    _become_ordinary()
    with ContextEngine.open(url, settings=ArcSettings()) as engine:
        for call in _calls(engine):
            try:
                report(repr(call()))
            except ArcError as error:
                report(f"{type(error).__name__}: {error}")
        report("read")
        deadline = time.monotonic() + 60
        while not Path(again).exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        report(repr(_calls(engine)[0]()))


def _calls(engine: ContextEngine) -> list[Callable[[], object]]:
    session = engine.session("s", user_id="ann")
    return [
        lambda: [message.text for message in session.messages()],
        lambda: [one.message.text for one in session.recall("locker code")],
        lambda: session.context("Where is the locker?").messages[-1].text,
        lambda: [one.memory.text for one in engine.memories(user_id="ann").search("bees")],
        lambda: [one.document.id for one in engine.documents.search("warranty")],
        session.facts,
        lambda: session.append([Message(Role.USER, "new")]),
        lambda: engine.documents.add("new"),
    ]


def serve_postgres(report: Callable[[str], None], *, packages: str) -> None:
    """As an ordinary user, start a server from packages that this user may read; report its answer and user."""
    sys.path.insert(0, packages)
    _become_ordinary()
    with postgres_server() as server, psycopg.connect(server.dsn()) as connection:
        report(f"{connection.execute('SELECT 40 + 2').fetchall()} {Path(f'/proc/{server.pid}').stat().st_uid}")


def _become_ordinary() -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


_JOBS: dict[str, Callable[..., None]] = {
    job.__name__: job
    for job in (
        append, churn, converse, revise, edit_and_die, replace_and_die, replace, summarise, first_use, fork,
        fork_while_writing, archive_and_restore, archive_and_die, die_while_writing,
        unprivileged, read_all, serve_postgres, work,
    )
}  # fmt: skip


def _run(request: dict[str, Any]) -> None:
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        _JOBS[request["job"]](lambda text: os.write(log, f"{text}\n".encode()), **request["arguments"])
    except BaseException:  # noqa: BLE001 - the process ends here with the error in its log
        os.write(log, traceback.format_exc().encode())
        os._exit(1)
    os._exit(0)


def _warm_up() -> None:
    """Import, compile and read what each process would at its first turn, which takes it 0.4 s of CPU."""
    for name in ("alembic.context", "alembic.command", "psycopg"):
        importlib.import_module(name)
    for url in ("sqlite://", f"postgresql+psycopg://127.0.0.1:{free_port()}/nobody_listens"):
        with suppress(StoreError), ContextEngine.open(url) as engine:
            session = engine.session("warm")
            session.append([Message(Role.USER, "My cat is called Miso.")])
            session.recall("What is the cat called?")
            session.context("What is the cat called?")
    gc.collect()
    gc.freeze()  # a collection in a child would copy every page


def _serve() -> None:
    _warm_up()
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer = os.waitpid(request["wait"], 0)[1]
        else:
            answer = os.fork()
            if answer == 0:
                _run(request)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
