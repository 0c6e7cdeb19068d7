"""Random histories with branches: each path behaves like a conversation of its own, modelled by plain lists."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import pytest

from arc_common.exceptions import BranchNotFoundError
from arc_common.facts import Fact
from arc_common.memory.facts.ledger import folded
from arc_common.protocols import SessionKey, StoredMessage
from arc_common.protocols.summaries import Commit, Segment
from arc_common.stores.conversations import SqlStore
from arc_common.testing.conversation_store_contract import counted
from tests.contracts.summary_store_contract import a_fact, a_view
from tests.support.databases import planned_once

LEAF = 4
NAMES = ("email", "city", "budget")


@dataclass
class Line:
    """The expected content of a branch: its messages, and the ids of the summarised ones."""

    messages: list[tuple[str, str]] = field(default_factory=list)
    covered: set[str | None] = field(default_factory=set)
    name: str | None = None
    live: bool = True


class History:
    """Applies the same steps to a store and to plain lists; every read is equal after each step."""

    def __init__(self, store: SqlStore, seed: int) -> None:
        self.store = store
        self.random = random.Random(seed)
        self.key = SessionKey(f"session-{uuid4()}", user_id="user")
        self.lines = {0: Line()}
        self.current = 0
        self.made = 0
        self.said = 0
        self.append()

    def on(self, branch: int) -> SessionKey:
        """Return a key of this branch; for the current branch half of the time without its number."""
        if branch == self.current and self.random.random() < 0.5:
            return self.key
        return replace(self.key, branch=branch)

    def any(self) -> int:
        return self.random.choice(list(self.lines))

    def step(self) -> None:
        chances = {self.append: 6, self.leaf: 6, self.fork: 2, self.rewind: 1, self.edit: 2, self.remove: 1}
        chances |= {self.switch: 1, self.delete: 1, self.view: 2}
        self.random.choices(list(chances), list(chances.values()))[0]()
        self.check([self.any()])

    def append(self) -> None:
        branch = self.any()
        new = [(f"m{self.said + n}", f"text {self.said + n}") for n in range(self.random.randint(1, 4))]
        self.said += len(new)
        stored = self.store.append(self.on(branch), [counted(name, text) for name, text in new])
        assert {one.branch for one in stored} == {branch}
        self.lines[branch].messages += new

    def fork(self) -> None:
        self._forked("fork", self.random.choice([None, f"named {self.made}"]))

    def rewind(self) -> None:
        self._forked("rewind", None)

    def _forked(self, action: Any, name: str | None) -> None:
        parent = self.any()
        line = self.lines[parent]
        if not line.messages:
            return
        at = self.random.randrange(len(line.messages))
        (made,) = self.store.branch(self.on(parent), action, at=line.messages[at][0], name=name)
        if action == "rewind" and at + 1 == len(line.messages):
            assert made.id == parent
            return
        self.made += 1
        assert (made.id, made.parent, made.message_count) == (self.made, parent, at + 1)
        assert made.forked_at == line.messages[at][0]
        self.lines[made.id] = self._copy(parent, at + 1, name)
        if action == "rewind":
            self._leave(line, self.lines[made.id])
            self.current = made.id if parent == self.current else self.current

    def _leave(self, line: Line, fork: Line) -> None:
        fork.name, line.name, line.live = line.name, None, False

    def _copy(self, parent: int, count: int, name: str | None = None) -> Line:
        kept = self.lines[parent].messages[:count]
        stored = self.store.read(replace(self.key, branch=parent))[:count]
        if not stored or stored[-1].branch != parent:  # a leaf of the parent alone is read again
            return Line(kept, set(), name)
        last = stored[-1].seq
        leaves = [leaf for leaf in self.store.summaries.segments(replace(self.key, branch=parent)) if leaf.end <= last]
        return Line(kept, _covered(stored, leaves[:-1]), name)  # the leaf at the fork may be read again

    def edit(self) -> None:
        branch = self.any()
        line = self.lines[branch]
        if not line.messages:
            return
        at = self.random.randrange(len(line.messages))
        name, _ = line.messages[at]
        self.said += 1
        new = (name, f"edited {self.said}")
        fork = self._copy(branch, at)
        (stored,) = self.store.append(self.on(branch), [counted(*new)])
        if stored.branch > self.made:
            self.made += 1
            assert stored.branch == self.made
            fork.messages = [*line.messages[:at], new, *line.messages[at + 1 :]]
            self.lines[self.made] = fork
            self._leave(line, fork)
            if branch == self.current:
                self.current = self.made
            return
        line.messages[at] = new

    def remove(self) -> None:
        line = self.lines[self.any()]
        if len(line.messages) < 2:
            return
        name, _ = self.random.choice(line.messages)
        assert self.store.remove(self.on(self.any()), [name]) == 1
        for other in self.lines.values():
            other.messages = [one for one in other.messages if one[0] != name]

    def switch(self) -> None:
        branch = self.any()
        (chosen,) = self.store.branch(replace(self.key, branch=branch), "switch")
        assert chosen.is_current
        self.current = branch
        self.lines[branch].live = True

    def delete(self) -> None:
        branch = self.any()
        if branch == self.current:
            return
        self.store.branch(replace(self.key, branch=branch), "delete")
        del self.lines[branch]
        with pytest.raises(BranchNotFoundError):
            self.store.read(replace(self.key, branch=branch))

    def leaf(self) -> None:
        """Summarise the oldest messages of a branch without a leaf, or an emptied leaf."""
        branch = self.any()
        key = self.on(branch)
        cover = self.store.summaries.segments(key)
        empty = [one for one in cover if one.stale]
        after = cover[-1].end if cover else 0
        if empty and self.random.random() < 0.5:
            start, end = empty[0].start, empty[0].end
        else:
            read = self.store.read(key, after=after, limit=self.random.randint(2, LEAF))
            if not read or (cover and read[0].seq <= after):
                return
            start, end = read[0].seq, read[-1].seq
        sources = self.store.read(key, after=start - 1, before=end + 1)
        if not sources:
            return
        ids = tuple(one.message.id or "" for one in sources)
        facts, ends = [], []
        for name in self.random.sample(NAMES, self.random.randint(0, 2)):
            fact = replace(a_fact(f"{name} {uuid4().hex}", start), id=uuid4().hex, key=name, sources=(ids[-1],))
            known = self.store.summaries.facts(key, keys=[name], leaf=start)
            facts.append(fact)
            ends += [(one.id, fact.id) if one.segment < start else (fact.id, one.id) for one in known]
        told = " ".join(f"{one.message.id}:{one.message.text}" for one in sources)
        segment = Segment(0, start, end, told, 5, "model", tuple((one, "") for one in ids))
        before = {one: self.read(one, end) for one in self.lines}
        epoch = self.store.summaries.state(key, limit=0).epoch
        assert self.store.summaries.commit(key, Commit(segment, tuple(facts), tuple(ends)), lease=None, epoch=epoch)
        own = before.pop(branch)
        after_same = [one for one, (messages, _) in before.items() if messages == own[0]]
        if all(before[one] == own for one in after_same):
            for one in (one for one in after_same if self.share(one, branch, end + 1)):
                assert self.read(one, end) == self.read(branch, end), "a shared leaf would be written again"

    def share(self, one: int, other: int, seq: int) -> bool:
        """Return whether two branches share a place; a leaf that ends at or after their fork may be read twice."""
        paths = [self.store.path(replace(self.key, branch=branch)) for branch in (one, other)]
        return paths[0].branch_at(seq) == paths[1].branch_at(seq)

    def read(self, branch: int, end: int) -> tuple[Any, Any]:
        """Return the places of a branch's messages up to `end`, and the leaves that begin there."""
        key = replace(self.key, branch=branch)
        stored = self.store.read(key, before=end + 1)
        leaves = [leaf for leaf in self.store.summaries.segments(key) if leaf.start <= end]
        return [(one.branch, one.seq) for one in stored], [(one.start, one.end, one.narrative) for one in leaves]

    def view(self) -> None:
        branch = self.any()
        key = self.on(branch)
        state = self.store.summaries.state(key, limit=1)
        told = [one for one in self.store.summaries.segments(key) if not one.stale]
        if not told or not state.messages:
            return
        boundary = told[-1].end
        if state.messages[-1].seq <= boundary:
            return
        version = state.view.version + 1 if state.view else 1
        shown = " ".join(f"{one.message.id}:{one.message.text}" for one in self.store.read(key, before=boundary + 1))
        view = replace(a_view(version, boundary), narrative=shown, facts=(), fact_ids=())
        assert self.store.summaries.adopt(key, view, epoch=state.epoch)
        assert self.store.summaries.state(key, limit=0).view == view

    def check(self, some: Iterable[int]) -> None:
        """Compare the content of some branches, and the list of all."""
        listed = {one.id: one for one in self.store.branch(self.key, "list")}
        assert set(listed) == set(self.lines)
        for branch in some:
            stored = self.check_messages(branch, self.lines[branch])
            self.check_summaries(replace(self.key, branch=branch), self.lines[branch], stored)
        for branch, line in self.lines.items():
            found = listed[branch]
            assert (found.message_count, found.is_current) == (len(line.messages), branch == self.current)
            assert (found.is_live, found.name) == (line.live, line.name)

    def check_messages(self, branch: int, line: Line) -> list[StoredMessage]:
        """Compare the messages with the list's, and one kind of partial read with its part."""
        key = self.on(branch)
        stored = self.store.read(key)
        assert [(one.message.id, one.message.text) for one in stored] == line.messages
        seqs = [one.seq for one in stored]
        assert seqs == sorted(set(seqs))
        record = self.store.get(key)
        assert record is not None
        assert (record.message_count, record.total_tokens) == (len(stored), sum(one.tokens for one in stored))
        some = sorted(self.random.sample(stored, min(3, len(stored))), key=lambda one: one.seq)
        way = self.random.choice(["newest", "oldest", "ids", "seqs"])
        if way == "newest":
            assert self.store.read(key, limit=3) == stored[-3:]
        elif way == "oldest":
            assert self.store.read(key, after=0, limit=3) == stored[:3]
        elif way == "ids" and some:
            assert self.store.read(key, ids=[one.message.id or "" for one in reversed(some)]) == some
        elif some:
            assert self.store.read(key, seqs=[one.seq for one in reversed(some)]) == some
        return stored

    def check_summaries(self, key: SessionKey, line: Line, stored: list[StoredMessage]) -> None:
        texts = {one.message.id: one.message.text for one in stored}
        leaves = self.store.summaries.segments(key)
        after = 0
        for leaf in leaves:
            assert leaf.start > after
            after = leaf.end
            within = [one for one in stored if leaf.start <= one.seq <= leaf.end]
            told = " ".join(f"{one.message.id}:{one.message.text}" for one in within)
            assert leaf.stale or leaf.narrative == told
        covered = _covered(stored, leaves)
        assert covered == {one.message.id for one in stored if one.seq <= after}
        assert line.covered & set(texts) <= covered, "a leaf was lost"
        line.covered = covered
        self.check_facts(key, leaves, texts)
        state = self.store.summaries.state(key, limit=100, view=self.random.random() < 0.7)
        assert state.message_count == len(stored)
        if state.view is not None:
            behind = [one for one in stored if one.seq <= state.view.boundary]
            shown = " ".join(f"{one.message.id}:{one.message.text}" for one in behind)
            assert state.view.stale or state.view.narrative == shown
            assert [one.seq for one in state.messages] == [one.seq for one in stored if one.seq > state.view.boundary]

    def check_facts(self, key: SessionKey, leaves: list[Segment], texts: dict[str | None, str]) -> None:
        every = self.store.summaries.facts(key, include_superseded=True)
        written = {leaf.start for leaf in leaves if not leaf.stale}
        assert {fact.segment for fact in every} <= written
        assert all(source in texts for fact in every for source in fact.sources)
        newest: dict[str, Fact] = {}
        for fact in sorted(every, key=lambda fact: fact.segment):
            newest[folded(fact.slot)] = fact
        assert {fact.id for fact in self.store.summaries.facts(key)} == {fact.id for fact in newest.values()}


def _covered(stored: list[StoredMessage], leaves: list[Segment]) -> set[str | None]:
    return {one.message.id for one in stored if any(leaf.start <= one.seq <= leaf.end for leaf in leaves)}


def live(url: str, seeds: range, steps: int) -> None:
    store = SqlStore(url)
    try:
        for seed in seeds:
            history = History(store, seed)
            for step in range(steps):
                try:
                    history.step()
                except Exception as error:
                    raise AssertionError(f"history {seed}, step {step}") from error
            history.check(history.lines)
            assert store.delete(history.key) is not None
    finally:
        store.close()


@pytest.mark.parametrize("histories", [24, pytest.param(10_000, marks=pytest.mark.torture)])
def test_each_path_is_a_conversation_of_its_own(histories: int) -> None:
    """Each branch shows what its own list says, after any appends, forks, edits, removals and summaries."""
    live("sqlite://", range(histories), 30)


@pytest.mark.parametrize("histories", [3, pytest.param(10_000, marks=pytest.mark.torture)])
def test_it_is_so_on_postgres(postgres_database: Callable[[], str], histories: int) -> None:
    """The same holds on PostgreSQL."""
    live(planned_once(postgres_database()), range(histories), 30)
