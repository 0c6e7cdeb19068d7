"""Costs of turns, background work and memories: statements, SQLite steps, round trips and analysed texts."""

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median_low
from types import FrameType
from typing import Any

import pytest
from sqlalchemy import create_engine, event

import arc_common
from arc_common.context import ContextWindow
from arc_common.engine.context_engine import ContextEngine
from arc_common.engine.session import Session
from arc_common.memories import ProposedMemory
from arc_common.memory.long_term.policy import Outcome
from arc_common.memory.long_term.service import MemoryKeeper
from arc_common.messages import Message, Role
from arc_common.protocols import SessionKey
from arc_common.protocols.search_index import Scope
from arc_common.protocols.summaries import Commit
from arc_common.settings import ArcSettings, StorageSettings
from arc_common.stores.conversations import SqlStore
from arc_common.testing.conversation_store_contract import counted
from arc_common.text import analyze
from arc_common.text.sentences import clauses_of
from arc_common.tokens.counters import HeuristicTokenCounter
from tests.contracts.summary_store_contract import a_fact, a_leaf
from tests.support.databases import new_database, rows, sqlite_url
from tests.support.probes import OwnThread, Wire, wire
from tests.support.servers import PostgresServer
from tests.support.services import services

KEY = SessionKey("s")
LEAF = 16


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> dict[int, bytes]:
    """Create files with conversations of 100 and 1,000 messages."""
    files = {}
    for messages in (100, 1_000):
        path = tmp_path_factory.mktemp("filled") / "arc.db"
        fill(f"sqlite:///{path}", messages)
        files[messages] = path.read_bytes()
    return files


def fill(url: str, messages: int) -> None:
    """Store a conversation of this length with its leaves and facts."""
    store = SqlStore(url, settings=StorageSettings(synchronous="normal"))
    for first in range(1, messages + 1, 1_000):
        last = min(first + 999, messages)
        roles = ("assistant", "user")
        store.append(KEY, [counted(f"m{n}", f"I am {n}.", role=roles[n % 2]) for n in range(first, last + 1)])
    epoch = store.summaries.state(KEY, limit=0).epoch
    for start in range(1, messages - 20, LEAF):
        fact = a_fact(f"f{start}", start, sources=(f"m{start}",), value=f"order {start}")
        leaf = a_leaf(start, start + LEAF - 1, made_by="rules")
        assert store.summaries.commit(KEY, Commit(leaf, (fact,)), lease=None, epoch=epoch)
    store.close()


def lived(session: Session, own: OwnThread, turns: int) -> list[tuple[int, int]]:
    """Run turns with the background kept up, and return each one's statements and steps."""
    costs = []
    for number in range(turns):
        session.append(
            [
                Message(Role.USER, f"My order is ORD-{number}.", id=f"q{number}"),
                Message(Role.ASSISTANT, "Noted.", id=f"a{number}"),
            ]
        )
        session.summarize()
        own.statements.clear()
        own.steps = 0
        window = session.context("And what of order 17?")
        assert len(window.messages) < 40
        costs.append((len(own.statements), own.steps))
    return costs


@pytest.mark.parametrize("recalls", [False, True], ids=["alone", "with recall"])
def test_statements_and_rows_of_a_turn_do_not_depend_on_the_length(
    filled: dict[int, bytes], tmp_path: Path, *, recalls: bool
) -> None:
    """At message 1,000, a turn runs as many statements as at 100, and at most 1.2 times the steps (3 with recall)."""
    seen: dict[int, list[tuple[int, int]]] = {}
    for messages, file in filled.items():
        path = tmp_path / f"{messages}.db"
        path.write_bytes(file)
        url = f"sqlite:///{path}"
        own = OwnThread(url)
        settings = ArcSettings(
            storage={"synchronous": "normal"}, summary={"high_water_tokens": 0}, recall={"enabled": recalls}
        )
        with ContextEngine.open(own.database, token_counter=HeuristicTokenCounter(), settings=settings) as engine:
            session = engine.session(KEY.session_id)
            own.connect(5)
            session.recall("Hello?")  # indexes all messages
            session.context("Hello?")  # the first turn has no caches yet
            (before,) = rows(url, "SELECT boundary FROM arc_views ORDER BY version DESC LIMIT 1")
            seen[messages] = lived(session, own, 16)
            (after,) = rows(url, "SELECT boundary FROM arc_views ORDER BY version DESC LIMIT 1")
        own.database.dispose()
        assert after > before  # turns adopted new views
    counts = {messages: max(statements for statements, _ in costs) for messages, costs in seen.items()}
    assert set(counts.values()) == {3 if recalls else 2}, counts
    most = {messages: max(steps for _, steps in costs) for messages, costs in seen.items()}
    assert most[1_000] <= (3 if recalls else 1.2) * most[100] + 2


def remembered(engine: ContextEngine) -> Session:
    """Tell two sessions of a user much, add a memory, and return the first session, of which a turn ran already."""
    for name in ("s", "other"):
        session = engine.session(name, user_id="ann")
        session.append([message for number in range(30) for message in chat(number)])
        session.append([Message(Role.USER, f"The yawl in harbour {name} is called Marabou."), *told(7)[1:]])
        session.append([message for number in range(30) for message in chat(number)])
        session.summarize()
    engine.memories(user_id="ann").add("The yawl Marabou was painted in Kilchberg")
    assert engine.flush(60)
    session = engine.session("s", user_id="ann")
    session.context(YAWL)
    assert engine.flush(60)
    return session


YAWL = "Where is the yawl Marabou, and who painted it in Kilchberg?"
"""A question that a memory, and a message in each session, answer."""
MOST = {"session": 4, "user": 5}
"""A turn reads the index, the session with its newest messages, the memories, and recalled messages of each session."""


@pytest.mark.parametrize("scope", MOST)
def test_a_turn_with_memories_is_few_statements(tmp_path: Path, scope: str) -> None:
    own = OwnThread(sqlite_url(tmp_path))
    settings = ArcSettings(storage={"synchronous": "normal"}, recall={"scope": scope})
    with ContextEngine.open(own.database, settings=settings) as engine:
        session = remembered(engine)
        own.connect(5)
        own.statements.clear()
        window = session.context(YAWL)
        statements = own.statements.copy()
    check_recalled(window, scope)
    assert len(statements) == MOST[scope], statements
    own.database.dispose()


@pytest.mark.parametrize("scope", MOST)
def test_a_turn_with_memories_is_few_round_trips(postgres: PostgresServer, scope: str) -> None:
    settings = ArcSettings(recall={"scope": scope})
    with wire(postgres.port) as proxy:
        url = new_database(PostgresServer(postgres.port)).replace(f":{postgres.port}/", f":{proxy.port}/")
        with ContextEngine.open(url, settings=settings) as engine:
            session, trips = remembered(engine), []
            for _ in range(8):  # the background writes when memories were last read, and two answers may arrive as one
                before = proxy.round_trips
                window = session.context(YAWL)
                trips.append(proxy.round_trips - before)
                assert engine.flush(60)
            check_recalled(window, scope)
    assert median_low(trips) == MOST[scope], trips


def check_recalled(window: ContextWindow, scope: str) -> None:
    text = "\n".join(message.text for message in window.messages)
    assert "Kilchberg\n" in text
    assert "harbour s " in text
    assert ("harbour other" in text) == (scope == "user")


MOST_CALLS = 4_100
MOST_FILES = 45
PACKAGE = str(Path(arc_common.__file__).parent)


TURNS = 40
"""Fewer than a scope's limit of memories, beyond which each new one replaces another."""


def told(number: int) -> list[Message]:
    """Return a statement that yields a fact and a memory, and its answer."""
    return [
        Message(Role.USER, f"My locker at the {number}th station has the code LK-{1000 + 7 * number}."),
        Message(Role.ASSISTANT, f"Noted, and your reference number is RF-{number}, valid from now on."),
    ]


WORDS = ["amber", "anchor", "apple", "autumn", "bakery", "balcony", "basket", "beacon", "bicycle", "blanket", "bottle"]
WORDS += ["bridge", "butter", "candle", "canyon", "castle", "cellar", "cherry", "circus", "cobalt", "copper", "cotton"]
WORDS += ["desert", "dragon", "engine", "feather", "ferry", "forest", "fountain", "garden", "ginger", "glacier"]
WORDS += ["guitar", "hammer", "harvest", "helmet"]


def chat(number: int) -> list[Message]:
    """Return small talk about boats in varied words, without any fact."""
    words = [WORDS[number * prime % len(WORDS)] for prime in (1, 7, 11, 13, 17, 23)]
    return [
        Message(Role.USER, "Shall the boats bring {} or {}, and why would a {} want either?".format(*words)),
        Message(Role.ASSISTANT, "Who could say? Would {} beside the boats suit a {} or {} better?".format(*words[3:])),
    ]


@pytest.mark.parametrize("messages", [200, 1_000])
def test_a_turn_makes_few_calls_in_few_files(tmp_path: Path, messages: int) -> None:
    """A turn with a new question and recall stays within its counted calls and files, plus a tenth."""
    calls, files = 0, set[str]()

    def note(frame: FrameType, happened: str, _: object) -> None:
        nonlocal calls
        if happened == "call":
            calls += 1
            if (name := frame.f_code.co_filename).startswith(PACKAGE):
                files.add(name)

    settings = ArcSettings(storage={"synchronous": "normal"}, summary={"high_water_tokens": 0})
    with ContextEngine.open(sqlite_url(tmp_path), settings=settings) as engine:
        session = engine.session("s")
        session.append([message for number in range(messages // 2) for message in chat(number)])
        session.summarize()
        assert engine.flush(60)
        for number in range(5, 36, 3):
            session.context(f"Do boats with {WORDS[number]} suit you?")
        sys.setprofile(note)
        window = session.context("Would an anchor or apple suit a beacon?")
        sys.setprofile(None)
    section = next(section for section in window.sections if section.name == "recalled")
    assert section.tokens > 50
    assert calls <= MOST_CALLS, calls
    assert len(files) <= MOST_FILES, sorted(files)


@pytest.fixture(scope="module")
def background(tmp_path_factory: pytest.TempPathFactory) -> tuple[Counter[str], Counter[str]]:
    """Summarise a conversation; return the background's statements by first words, and its readings of each text.

    Two threads may read a text at the same moment; without a shared reading all texts would be read twice.
    """
    database = create_engine(sqlite_url(tmp_path_factory.mktemp("background")))
    statements, read = Counter[str](), Counter[str]()
    me = threading.get_ident()

    def note(sql: str) -> None:
        if threading.get_ident() != me:
            statements[" ".join(sql.split()[:3])] += 1

    def count(frame: FrameType, happened: str, _: object) -> None:
        if happened == "call" and frame.f_code is clauses_of.__code__:
            read[frame.f_locals["sentence"]] += 1

    event.listen(database, "connect", lambda connection, _: connection.set_trace_callback(note))
    threading.setprofile(count)
    try:
        with ContextEngine.open(database, settings=ArcSettings(storage={"synchronous": "normal"})) as engine:
            session = engine.session("s", user_id="ann")
            session.append([message for number in range(TURNS) for message in told(number)])
            session.summarize()
            assert engine.flush(60)
            assert len(session.facts()) > TURNS / 2
            assert len(engine.memories(user_id="ann").list()) > TURNS / 2
    finally:
        threading.setprofile(None)
    database.dispose()
    return statements, read


def test_facts_and_memories_share_one_reading_of_a_text(background: tuple[Counter[str], Counter[str]]) -> None:
    _, read = background
    assert len(read) >= TURNS
    assert read.total() < 1.3 * len(read), read.most_common(3)
    assert max(read.values()) <= 2


def test_there_are_few_transactions_and_queries(background: tuple[Counter[str], Counter[str]]) -> None:
    """For 80 messages with 80 facts and 40 memories, there is one write per five messages and five queries per four."""
    (statements, _), messages = background, 2 * TURNS
    assert statements["BEGIN IMMEDIATE"] <= messages / 5, statements
    assert sum(number for sql, number in statements.items() if sql.startswith("SELECT")) <= 5 * messages / 4, statements


def test_what_another_process_has_indexed_is_not_analysed_again(tmp_path: Path) -> None:
    """Another engine saves and indexes 200 messages; the first engine then analyses only the newest ones."""
    url = sqlite_url(tmp_path)
    with ContextEngine.open(url) as one, ContextEngine.open(url) as other:
        one.session("s").append(told(0))
        one.session("s").summarize()
        other.session("s").append([message for number in range(100) for message in told(number)])
        other.session("s").summarize()
        one.session("s").append(told(100))
        analysed = 0

        def count(frame: FrameType, happened: str, _: object) -> None:
            nonlocal analysed
            analysed += happened == "call" and frame.f_code is analyze.__code__ and _is_indexing(frame)

        sys.setprofile(count)
        try:
            one.session("s").summarize()
        finally:
            sys.setprofile(None)
    assert 0 < analysed < 100


def _is_indexing(frame: FrameType) -> bool:
    return frame.f_back is not None and frame.f_back.f_code.co_filename.endswith("memory/recall/indexing.py")


SCOPE = Scope("caller", "user")
PLACES = ("Seoul", "Busan", "Incheon", "Daegu")


def a_keeper(store: SqlStore) -> MemoryKeeper:
    """Return a keeper that has already added memories to its scope."""
    keeper = MemoryKeeper(services(store))
    for text in ("The user keeps bees", "The user speaks Welsh", "The user plays the harp in an orchestra"):
        keeper.add(SCOPE, ProposedMemory(text))
    return keeper


@pytest.fixture(scope="module")
def on_the_wire(postgres: PostgresServer) -> Iterator[tuple[MemoryKeeper, Wire]]:
    """Yield a keeper on a server, and the proxy that counts its round trips."""
    with wire(postgres.port) as proxy:
        url = new_database(PostgresServer(postgres.port)).replace(f":{postgres.port}/", f":{proxy.port}/")
        store = SqlStore(url)
        keeper = a_keeper(store)
        keeper.search(SCOPE, "bees", limit=5)
        yield keeper, proxy
        keeper.access_times.close()
        store.close()


def added(keeper: MemoryKeeper, text: str) -> Outcome:
    return keeper.add(SCOPE, ProposedMemory(text, sources=[("s", "m")])).outcome


def found(keeper: MemoryKeeper, query: str) -> int:
    """Return the number of memories found, once the search's own writes are done."""
    memories = keeper.search(SCOPE, query, limit=5)
    keeper.access_times.flush(SCOPE)
    return len(memories)


CALLS: dict[str, tuple[Callable[[MemoryKeeper, int], object], object, int]] = {
    "new": (lambda keeper, n: added(keeper, f"{'abcdef'[n] * 9} is the user's {'ghijkl'[n] * 9}"), Outcome.NEW, 2),
    "a contradiction": (lambda keeper, n: added(keeper, f"The user lives in {PLACES[n]}"), Outcome.NEW, 2),
    "known": (lambda keeper, n: added(keeper, "The user keeps bees"), Outcome.KNOWN, 1),
    "search": (lambda keeper, n: found(keeper, "Who plays the harp?"), 1, 3),
    "search for nothing": (lambda keeper, n: found(keeper, "zebra"), 0, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_round_trips(on_the_wire: tuple[MemoryKeeper, Wire], name: str) -> None:
    """An addition takes two round trips, one to lock and read and one to write; a search takes at most three."""
    (keeper, proxy), (call, result, trips) = on_the_wire, CALLS[name]
    call(keeper, 0)
    taken = []
    for number in range(1, 4):  # a process that is paused in the middle of a batch seems to make another round trip
        before = proxy.round_trips
        assert call(keeper, number) == result
        taken.append(proxy.round_trips - before)
    assert min(taken) == trips


def test_statements(tmp_path: Path) -> None:
    """An addition reads no stored texts, writes each row once, and commits once."""
    store = SqlStore(create_engine(sqlite_url(tmp_path), pool_size=1))
    keeper = a_keeper(store)
    sent: list[str] = []
    with store.engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
    driver.set_trace_callback(lambda sql: sent.append(" ".join(sql.split()[:3])))
    added(keeper, "The user owns a kayak")
    driver.set_trace_callback(None)
    sent = [statement for statement in sent if not statement.startswith("--")]
    assert len(set(sent)) == len(sent) <= 14, sent
    assert (sent[0], sent[-1]) == ("BEGIN IMMEDIATE", "COMMIT")
    assert sum(statement.startswith("SELECT") for statement in sent) == 2
    keeper.access_times.close()
    store.close()
