"""Leases on a session's summaries: `summarize` with other writers, and inspection."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from arc_common.context import Costs, HistoryRoom
from arc_common.memory.summaries.reader import HierarchicalMemory
from arc_common.messages import Role
from arc_common.protocols import SessionKey
from arc_common.protocols.summaries import Segment
from arc_common.stores import SqlStore
from arc_common.testing import CountingObserver
from arc_common.testing.conversation_store_contract import START, counted
from arc_common.tokens.budget import TokenBudget
from arc_common.tokens.counters import HeuristicTokenCounter
from tests.contracts.summary_store_contract import Clock
from tests.support.services import services
from tests.support.summaries import settings_with

KEY = SessionKey("session", user_id="user")
ROOM = HistoryRoom(TokenBudget(10_000, 0), 10_000, Costs(HeuristicTokenCounter(), {}), 1.0)


class Bench:
    """A memory over a store in memory, whose clock moves only while `summarize` waits."""

    def __init__(self, during: Callable[["Bench"], None] = lambda _: None) -> None:
        self.clock = Clock()
        self.store = SqlStore(clock=self.clock)
        self.counts = CountingObserver()
        self._during = during
        self.memory = HierarchicalMemory(
            services(self.store, settings=settings_with(), observer=self.counts, clock=self.clock),
            None,
            pause=self.wait,
        )

    @property
    def waited(self) -> float:
        return (self.clock.now - START).total_seconds()

    def wait(self, seconds: float) -> None:
        """Advance the clock and run the test's callback."""
        self.clock.pass_by(seconds)
        self._during(self)

    def say(self, messages: int) -> None:
        """Append alternating user and assistant messages."""
        roles = (Role.ASSISTANT, Role.USER)
        self.store.append(KEY, [counted(f"m{n}", f"I am {n}.", role=roles[n % 2]) for n in range(1, messages + 1)])

    def somebody_takes_the_lease(self) -> Any:
        lease = self.store.summaries.claim(KEY, owner="somebody", seconds=60)
        assert lease is not None
        return lease


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(*getattr(request, "param", ()))
    yield made
    made.memory.close()


def test_a_process_that_died_is_taken_over(bench: Bench) -> None:
    """`summarize` waits for its lease to expire and then does all due work."""
    bench.say(30)
    bench.somebody_takes_the_lease()
    bench.memory.queues.finish(KEY)
    summary = bench.memory.summary(KEY)
    assert summary is not None
    assert summary.summarized_up_to == 26
    assert 60 <= bench.waited < 61
    assert "summary.lease_held" not in bench.counts.counts


@pytest.mark.parametrize("bench", [(lambda bench: bench.store.summaries.claim(KEY, owner="somebody", seconds=60),)],
                         indirect=True)  # fmt: skip
def test_a_living_process_is_not_waited_for_for_ever(bench: Bench) -> None:
    """If it renews its lease, `summarize` waits as long as a lease lasts and reports that it is still at work."""
    bench.say(30)
    bench.somebody_takes_the_lease()
    bench.memory.queues.finish(KEY)
    assert bench.memory.summary(KEY) is None
    assert 60 <= bench.waited < 61
    assert bench.counts.counts["summary.lease_held"] == 1


def test_a_process_that_finishes_is_waited_for_no_longer() -> None:
    def give_back(bench: Bench) -> None:
        if bench.waited >= 2:
            bench.store.summaries.release(KEY, lease)

    bench = Bench(give_back)
    bench.say(30)
    lease = bench.somebody_takes_the_lease()
    bench.memory.queues.finish(KEY)
    assert bench.memory.summary(KEY) is not None
    assert 2 <= bench.waited < 3
    bench.memory.close()


@pytest.mark.parametrize("messages", [0, 4, 30], ids=["no session", "nothing due yet", "all done"])
def test_nothing_due_is_nothing_to_wait_for(bench: Bench, messages: int) -> None:
    if messages:
        bench.say(messages)
        bench.memory.queues.finish(KEY)
        bench.somebody_takes_the_lease()
    bench.memory.queues.finish(KEY)
    assert bench.waited == 0


def test_inspect_lists_segments_view_and_unsummarised_messages(bench: Bench) -> None:
    """`inspect` lists segments with author and staleness, the view, and the number of unsummarised messages."""
    assert bench.memory.inspect(KEY).segments == ()
    bench.say(30)
    bench.memory.queues.finish(KEY)
    seen = bench.memory.inspect(KEY)
    assert [(one.level, one.start, one.end, one.made_by, one.stale) for one in seen.segments] == [
        (0, 1, 10, "rules", False),
        (0, 11, 26, "rules", False),
    ]
    assert (seen.view, seen.message_count, seen.pending, seen.is_busy) == (None, 30, 4, False)
    state = bench.memory.read(KEY, ROOM).state
    assert state is not None
    assert state.view is not None
    assert bench.memory.inspect(KEY).view == state.view
    bench.store.append(KEY, [counted("m2", "changed", role="assistant")])
    stale = bench.memory.inspect(KEY)
    assert [one.stale for one in stale.segments] == [True, False]
    assert stale.segments[0] == Segment(0, 1, 10, "", 0, None)
    assert stale.view is not None
    assert stale.view.stale
    assert stale.pending == 4


def test_what_was_adopted_is_stored_at_the_end(bench: Bench) -> None:
    bench.say(30)
    bench.memory.queues.finish(KEY)
    state = bench.memory.read(KEY, ROOM).state
    bench.memory.close()
    assert state is not None
    assert state.view is not None
    assert bench.store.summaries.state(KEY, limit=0).view == state.view
