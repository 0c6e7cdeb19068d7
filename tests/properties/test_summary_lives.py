"""Random histories of a session's summaries: SQLite and PostgreSQL never differ."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from arc_common.facts import Fact
from arc_common.protocols import SessionKey
from arc_common.protocols.summaries import Commit, Lease, Segment
from arc_common.stores.conversations import SqlStore
from arc_common.testing.conversation_store_contract import counted
from tests.contracts.summary_store_contract import Clock, Store, a_fact, a_leaf, a_view

LEAF = 3
MOST = 24
makers = st.sampled_from(["model", "rules"])
numbers = st.integers(0, MOST)
some = st.sets(numbers, max_size=3)


class Life(RuleBasedStateMachine):
    """Applies the same steps to both stores; every read is equal after each step."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.clock = Clock()
        self.stores: list[Store] = [SqlStore("sqlite://", clock=self.clock), SqlStore(url, clock=self.clock)]
        self.key = SessionKey("session", user_id="user")
        for store in self.stores:
            store.delete(self.key)
        self.facts = 0
        self.version = 1
        self.leases: list[list[Lease | None]] = [[None, None]]
        self.epochs: list[list[int]] = [[0, 0]]

    def teardown(self) -> None:
        for store in self.stores:
            store.close()

    def both(self, call: Callable[..., Any], *each: list[Any]) -> list[Any]:
        """Call both stores; return their answers, which are equal except for session names."""
        answers = [call(store, *(values[number] for values in each)) for number, store in enumerate(self.stores)]
        assert _nameless(answers[0]) == _nameless(answers[1])
        return answers

    @rule(count=st.integers(1, 6))
    def append(self, count: int) -> None:
        self.facts += 1
        batch = [counted(f"m{self.facts}-{n}", "hello", role="user" if n % 2 else "assistant") for n in range(count)]
        self.both(lambda store: store.append(self.key, batch))

    @rule(which=some, text=st.sampled_from(["one", "two"]), cap=st.sampled_from([None, None, None, 5]))
    def edit(self, which: set[int], text: str, cap: int | None) -> None:
        names = self._names(which)
        batch = [counted(name, text) for name in names] + [counted("always", text)]
        self.both(lambda store: store.append(self.key, batch, max_messages=cap))

    @rule(which=some)
    def remove(self, which: set[int]) -> None:
        names = self._names(which)
        self.both(lambda store: store.remove(self.key, names))

    @rule(whole=st.booleans(), really=st.integers(0, 3))
    def wipe(self, whole: bool, really: int) -> None:
        if not really:
            self.both(lambda store: store.delete(self.key) if whole else store.delete(self.key, keep_session=True))

    @rule()
    def note_epoch(self) -> None:
        self.epochs.append([store.summaries.state(self.key, limit=0).epoch for store in self.stores])

    @rule(owner=st.sampled_from("ab"), seconds=st.sampled_from([10, 60]))
    def acquire(self, owner: str, seconds: int) -> None:
        self.leases.append(self.both(lambda store: store.summaries.claim(self.key, owner=owner, seconds=seconds)))

    @rule(which=numbers)
    def release(self, which: int) -> None:
        leases = self.leases[-1 - which % len(self.leases)]
        if None not in leases:
            self.both(lambda store, lease: store.summaries.release(self.key, lease), leases)

    @rule(seconds=st.sampled_from([5, 30]))
    def wait(self, seconds: int) -> None:
        self.clock.pass_by(seconds)

    @rule(place=numbers, maker=makers, count=st.integers(0, 2), victims=some, gone=some, cited=some, old=st.booleans())
    def commit_leaf(
        self, place: int, maker: str, count: int, victims: set[int], gone: set[int], cited: set[int], old: bool
    ) -> None:
        start = place // LEAF * LEAF + 1
        sources = tuple(self._names(cited))
        facts = [self._fact(start, n, sources) for n in range(count)]
        every = self.stores[0].summaries.facts(self.key, include_superseded=True, include_ungrounded=True)
        known = [fact.id for fact in every]
        ends = [(known[n % len(known)], fact.id) for n in sorted(victims) for fact in facts[-1:] if known]
        ends += [(known[n % len(known)], None) for n in sorted(gone) if known]
        leaf = a_leaf(start, start + LEAF - 1, made_by=maker, sources=())
        self._commit(Commit(leaf, tuple(facts), tuple(ends)), old=old)

    @rule(level=st.integers(1, 3), place=st.integers(0, 2), size=st.integers(1, 2), maker=makers)
    def commit_higher(self, level: int, place: int, size: int, maker: str) -> None:
        start = place * 2 * LEAF + 1
        higher = a_leaf(start, start + size * 2 * LEAF - 1, level=level, made_by=maker, sources=(), parts=size)
        self._commit(Commit(higher), old=False)

    @rule(boundary=numbers, which=some, old=st.booleans())
    def adopt(self, boundary: int, which: set[int], old: bool) -> None:
        state = self.stores[0].summaries.state(self.key, limit=0)
        version = (state.view.version if state.view else 0) + 1
        facts = self.stores[0].summaries.facts(self.key)
        shown = tuple({facts[n % len(facts)].id for n in which if facts})
        view = a_view(version, boundary, fact_ids=tuple(sorted(shown)))
        self.both(lambda store, epoch: store.summaries.adopt(self.key, view, epoch=epoch), self._epochs(old))

    @precondition(lambda self: self.facts)
    @rule(place=numbers)
    def keys_without_a_leaf(self, place: int) -> None:
        start = place // LEAF * LEAF + 1
        self.both(lambda store: store.summaries.facts(self.key, keys=["even", "ODD "], leaf=start))
        self.both(lambda store: store.summaries.facts(self.key, keys=["Even"]))

    @invariant()
    def nothing_differs(self) -> None:
        summaries = [store.summaries for store in self.stores]
        for limit in (2, 99):
            states = [one.state(self.key, limit=limit, after=7 if limit == 2 else 0) for one in summaries]
            edits = [state.epoch % 2**32 for state in states]
            assert replace(states[0], epoch=0) == replace(states[1], epoch=0)
            assert edits[0] == edits[1]
        cover = self.both(lambda store: store.summaries.segments(self.key))[0]
        for segment in cover:
            self.both(lambda store, segment=segment: store.summaries.segments(self.key, within=segment))
        self.both(lambda store: store.summaries.segments(self.key, part="unfinished", limit=99))
        for old, invented in product((False, True), repeat=2):
            self.both(
                lambda store, old=old, invented=invented: store.summaries.facts(
                    self.key, include_superseded=old, include_ungrounded=invented
                )
            )
        self.both(lambda store: store.summaries.facts(self.key, limit=2))
        self.both(lambda store: store.summaries.segments(self.key, part="all"))
        assert_covers_do_not_overlap(cover)

    def _commit(self, commit: Commit, *, old: bool) -> None:
        self.both(
            lambda store, epoch, lease: store.summaries.commit(self.key, commit, lease=lease, epoch=epoch),
            self._epochs(old),
            self.leases[-1],
        )

    def _epochs(self, old: bool) -> list[int]:
        if old:
            return self.epochs[-1]
        return [store.summaries.state(self.key, limit=0).epoch for store in self.stores]

    def _fact(self, leaf: int, number: int, sources: tuple[str, ...]) -> Fact:
        self.facts += 1
        return a_fact(
            f"f{self.facts:04}",
            leaf,
            key="odd" if number else "even",
            sources=sources,
            minute=self.facts % 3,
            grounded=self.facts % 5 > 0,
        )

    def _names(self, which: set[int]) -> list[str]:
        there = [stored.message.id or "" for stored in self.stores[0].read(self.key)]
        return sorted({there[n % len(there)] for n in which}) if there else []


def assert_covers_do_not_overlap(cover: list[Segment]) -> None:
    """Check that segments of one level don't overlap."""
    for level in {segment.level for segment in cover}:
        mine = [segment for segment in cover if segment.level == level]
        assert all(before.end < after.start for before, after in pairwise(mine))


def _nameless(answer: object) -> object:
    return (answer.owner, answer.fence) if isinstance(answer, Lease) else answer


@pytest.mark.parametrize("examples", [6, pytest.param(1_000, marks=pytest.mark.torture)])
def test_both_databases_have_the_same_history(examples: int, postgres_database: Callable[[], str]) -> None:
    url = postgres_database()
    run_state_machine_as_test(
        partial(Life, url),  # type: ignore[arg-type]  # any factory will do, its documentation says
        settings=settings(
            max_examples=examples, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
