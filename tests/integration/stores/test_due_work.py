"""Due work: the changes that cause it, the worker that gets it, and its completion."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest

from arc_common.protocols import SessionKey
from arc_common.protocols.summaries import Commit, Lease
from arc_common.stores.conversations import SqlStore
from arc_common.testing.conversation_store_contract import counted
from tests.contracts.summary_store_contract import Clock, a_fact, a_leaf

KEY = SessionKey("s", "app", "ann", "account")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(database: str, clock: Clock) -> Iterator[SqlStore]:
    store = SqlStore(database, clock=clock)
    yield store
    store.close()


def say(store: SqlStore, key: SessionKey = KEY, text: str = "hello") -> None:
    store.append(key, [counted(text, text)])


def due(store: SqlStore, owner: str = "a") -> Lease | None:
    """Take the lease of the session whose work has been due longest, for a minute."""
    return store.summaries.claim(None, owner=owner, seconds=60)


def done(store: SqlStore, lease: Lease | None) -> None:
    assert lease is not None
    assert lease.key is not None
    store.summaries.release(lease.key, lease, worked=True)


def test_the_session_that_has_waited_longest_comes_first(store: SqlStore, clock: Clock) -> None:
    """Each session of any caller comes once, with its owner; a second message does not move it to the end."""
    assert due(store) is None
    others = [SessionKey(f"t{number}") for number in range(2)]
    for key in (KEY, *others):
        say(store, key)
        clock.pass_by(1)
    say(store, KEY, "again")
    taken = [due(store, owner) for owner in "aab"]
    assert [lease and lease.key for lease in taken] == [KEY, *others]
    assert due(store) is None
    for lease in taken:
        done(store, lease)
    assert due(store) is None


CHANGES: dict[str, Callable[[SqlStore], object]] = {
    "a message": lambda store: say(store, KEY, "more"),
    "an edit": lambda store: store.append(KEY, [counted("hello", "changed")]),
    "a removal": lambda store: store.remove(KEY, ["hello"]),
    "a message on another branch": lambda store: say(store, SessionKey("s", "app", "ann", "account", 1), "there"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("while_working", [True, False], ids=["while it is done", "afterwards"])
def test_what_changes_a_session_makes_its_work_due_again(
    store: SqlStore, clock: Clock, change: Callable[[SqlStore], object], while_working: bool
) -> None:
    """This holds even if the worker's clock is slow, so that its lease seems to have expired."""
    say(store)
    store.branch(KEY, "fork")
    lease = due(store)
    clock.pass_by(100)
    if while_working:
        change(store)
        done(store, lease)
    else:
        done(store, lease)
        assert due(store) is None
        change(store)
    again = due(store, "b")
    assert again is not None
    assert again.key == KEY


def test_work_that_failed_is_due_again_later(store: SqlStore, clock: Clock) -> None:
    say(store)
    lease = due(store)
    assert lease is not None
    store.summaries.release(KEY, lease, worked=True, due_again=clock() + timedelta(seconds=30))
    clock.pass_by(29)
    assert due(store) is None
    clock.pass_by(1)
    assert due(store) is not None


@pytest.mark.parametrize("taker", ["b", "a"], ids=["another worker", "another thread of it"])
def test_work_of_a_dead_worker_is_taken_over(store: SqlStore, clock: Clock, taker: str) -> None:
    """Another one takes over when the lease expires, not before, and the first one's late result is ignored."""
    say(store)
    dead = due(store)
    assert dead is not None
    clock.pass_by(30)
    assert store.summaries.claim(KEY, owner="a", seconds=60) == dead  # the lease is renewed
    clock.pass_by(59)
    assert due(store, "b") is None
    clock.pass_by(1)
    taken = due(store, taker)
    assert taken is not None
    done(store, dead)
    clock.pass_by(60)
    done(store, due(store, "c"))
    assert due(store) is None


def test_work_under_way_in_a_process_of_its_own_is_left_alone(store: SqlStore) -> None:
    """A process that works on its own session holds the same lease, and the work stays due."""
    say(store)
    own = store.summaries.claim(KEY, owner="own", seconds=60)
    assert own is not None
    assert due(store) is None
    store.summaries.release(KEY, own)
    assert due(store) is not None


def test_a_deleted_session_is_not_due(store: SqlStore) -> None:
    say(store)
    lease = due(store)
    store.delete(KEY)
    assert lease is not None
    store.summaries.release(KEY, lease, worked=True)
    say(store, SessionKey("s", "app", "bob"))
    again = due(store)
    assert again is not None
    assert again.key == SessionKey("s", "app", "bob")


def test_a_session_that_is_being_written_is_passed_over(postgres_database: Callable[[], str]) -> None:
    """A worker does not wait for it on PostgreSQL, where a process may hold its row for long; SQLite has one writer."""
    url = postgres_database()
    store = SqlStore(f"{url}?options=-c%20lock_timeout%3D2s")
    for name in ("first", "second"):
        say(store, SessionKey(name))
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        connection.execute("SELECT 1 FROM arc_conversations WHERE session_id = 'first' FOR UPDATE")
        lease = due(store)
        assert lease is not None
        assert lease.key == SessionKey("second")
    assert due(store) is not None
    store.close()


@pytest.mark.parametrize("sessions", [40, pytest.param(2_000, marks=pytest.mark.torture)], ids=["short", "long"])
def test_two_workers_never_get_one_session(database: str, sessions: int) -> None:
    """Eight connections compete, and each session is claimed once."""
    stores = [SqlStore(database) for _ in range(8)]
    for number in range(sessions):
        say(stores[0], SessionKey(f"s{number}"))

    def race(store: SqlStore) -> list[str]:
        taken = []
        while (lease := due(store, str(id(store)))) is not None:
            assert lease.key is not None
            taken.append(lease.key.session_id)
        return taken

    with ThreadPoolExecutor(8) as pool:
        claimed = [name for names in pool.map(race, stores) for name in names]
    assert sorted(claimed) == sorted(f"s{number}" for number in range(sessions))
    for store in stores:
        store.close()


def test_two_writers_store_each_leaf_once(database: str) -> None:
    """Each has its own connections, as a separate process has, and writes under the lease."""
    stores = [SqlStore(database) for _ in range(2)]
    stores[0].append(KEY, [counted(f"m{n}") for n in range(1, 81)])

    def race(store: SqlStore) -> list[int]:
        stored = []
        while len(there := store.summaries.segments(KEY)) < 20:
            lease = store.summaries.claim(KEY, owner=str(id(store)), seconds=60)
            if lease is None:
                continue
            start = len(there) * 4 + 1
            leaf = Commit(a_leaf(start, start + 3), (a_fact(f"{id(store)}-{start}", start),))
            if store.summaries.commit(KEY, leaf, lease=lease, epoch=lease.epoch):
                stored.append(start)
            store.summaries.release(KEY, lease)
        return stored

    with ThreadPoolExecutor(2) as pool:
        stored = sorted(start for starts in pool.map(race, stores) for start in starts)
    assert stored == list(range(1, 81, 4)) == [segment.start for segment in stores[0].summaries.segments(KEY)]
    assert len(stores[0].summaries.facts(KEY)) == 20
    for store in stores:
        store.close()
