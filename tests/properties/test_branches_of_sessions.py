"""Random histories through the public API: each branch behaves like a session without other branches."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from arc_common import ArcSettings, ContextEngine, Message, Role
from arc_common.engine.session import Session
from arc_common.memory.recall.index import is_on_path
from arc_common.protocols import SessionKey
from arc_common.protocols.search_index import Scope
from arc_common.settings import MemorySettings
from arc_common.stores.conversations import SqlStore
from tests.support.databases import planned_once

STEPS = 12
FOLLOWING = 12
"""Final messages of each branch, after which all earlier ones are summarised."""
COMPARED = 2
"""Branches of each history that are compared with sessions of their own, which takes most of the time."""
SETTINGS = ArcSettings(
    summary={
        "leaf_messages": 4,
        "leaf_tokens": 60,
        "recent_message_count": 2,
        "trigger_message_count": 4,
        "high_water_mark": 4,
        "high_water_tokens": 0,
        "max_tokens": 4_000,
        "leaf_narrative_tokens": 1_000,
        "block_narrative_tokens": 4_000,
        "eras_enabled": False,
    },
    budget={"facts": 2_000, "facts_share": 0.5},
)
SAID = ("I live in {}ville.", "My email is {}@example.com.", "The {} budget is 40{} EUR.", "Tell me about {}.")


@dataclass
class Told:
    """The expected content of a branch: its messages, some removed, and its pins, each after a number of messages."""

    messages: list[list[Any]] = field(default_factory=list)  # id, text, still there
    pins: list[tuple[str, int]] = field(default_factory=list)

    def cut(self, length: int) -> "Told":
        """Return the content after so many messages."""
        return Told([list(one) for one in self.messages[:length]], [one for one in self.pins if one[1] <= length])

    @property
    def there(self) -> list[int]:
        """Return the places of the messages that were not removed."""
        return [place for place, one in enumerate(self.messages) if one[2]]


class Lives:
    """Applies the same steps to a session and to plain lists."""

    def __init__(self, branched: "Opened", linear: "Opened", seed: int) -> None:
        self.store, self.engine = branched
        self.beside = linear
        self.random = random.Random(seed)
        self.id = f"session-{uuid4()}"
        self.lines = {0: Told()}
        self.current, self.made, self.said = 0, 0, 0
        self.has_removed = False
        self.alike = 0
        self.append()

    def on(self, branch: int) -> Session:
        if branch == self.current and self.random.random() < 0.5:
            return self.engine.session(self.id, user_id="ann")
        return self.engine.session(self.id, user_id="ann", branch=branch)

    def any(self) -> int:
        return self.random.choice(list(self.lines))

    def step(self) -> None:
        chances = {self.append: 6, self.fork: 2, self.rewind: 2, self.edit: 2, self.pin: 1, self.work: 3}
        chances |= {self.switch: 1, self.delete: 1, self.remove: 0.3}
        self.random.choices(list(chances), list(chances.values()))[0]()

    def append(self) -> None:
        branch = self.any()
        new = []
        for _ in range(self.random.randint(1, 3)):
            self.said += 2
            text = self.random.choice(SAID).format(f"w{self.said}x", self.said)
            new += [[f"m{self.said}", text, True], [f"m{self.said + 1}", f"Noted w{self.said + 1}x.", True]]
        roles = (Role.USER, Role.ASSISTANT)
        self.on(branch).append([Message(roles[n % 2], text, id=name) for n, (name, text, _) in enumerate(new)])
        self.lines[branch].messages += new

    def fork(self) -> None:
        branch = self.any()
        line = self.lines[branch]
        if line.there:
            at = self.random.choice(line.there)
            made = self.on(branch).fork(at=line.messages[at][0])
            self.made += 1
            assert made.branch == self.made
            self.lines[self.made] = line.cut(at + 1)

    def rewind(self) -> None:
        branch = self.any()
        line = self.lines[branch]
        if line.there:
            at = self.random.choice(line.there)
            self.on(branch).rewind(to=line.messages[at][0])
            if at == line.there[-1]:
                return
            self.made += 1
            self.current = self.made if branch == self.current else self.current
            self.lines[self.made] = line.cut(at + 1)

    def edit(self) -> None:
        branch = self.any()
        line = self.lines[branch]
        if not line.there:
            return
        at = self.random.choice(line.there)
        name = line.messages[at][0]
        self.said += 2
        text = self.random.choice(SAID).format(f"w{self.said}x", self.said)
        role = self.on(branch).find([name])[0].role
        session = self.engine.session(self.id, user_id="ann", branch=branch)
        session.append([Message(role, text, id=name)])
        if session.branch != branch:
            self.made += 1
            assert session.branch == self.made
            line = self.lines[self.made] = line.cut(len(line.messages))
            self.current = self.made if branch == self.current else self.current
        line.messages[at][1] = text

    def pin(self) -> None:
        branch = self.any()
        line = self.lines[branch]
        self.said += 1
        self.on(branch).pin(f"pinned {self.said}")
        length = max((place + 1 for place in range(len(line.messages))), default=0)
        line.pins.append((f"pinned {self.said}", length))

    def remove(self) -> None:
        line = self.lines[self.any()]
        if len(line.there) < 3:
            return
        name = line.messages[self.random.choice(line.there)][0]
        assert self.on(self.any()).remove([name]) == 1
        self.has_removed = True
        for other in self.lines.values():
            for one in other.messages:
                one[2] = one[2] and one[0] != name

    def switch(self) -> None:
        self.current = self.any()
        self.engine.session(self.id, user_id="ann").switch(to=self.current)

    def delete(self) -> None:
        branch = self.any()
        if branch != self.current:
            self.engine.session(self.id, user_id="ann").delete_branch(branch)
            del self.lines[branch]

    def work(self) -> None:
        self.on(self.any()).summarize()

    def check(self) -> None:
        """Compare each branch with its list, and two of them with sessions of their own."""
        self.engine.flush()
        compared = self.random.sample(list(self.lines), min(COMPARED, len(self.lines)))
        for branch, line in self.lines.items():
            session = self.engine.session(self.id, user_id="ann", branch=branch)
            if branch in compared and not self.has_removed:
                self.said += 1_000
                numbers = range(self.said, self.said + FOLLOWING)
                more = [Message(Role.USER, f"And w{n}x?", id=f"m{n}") for n in numbers]
                session.append(more)
                line.messages += [[one.id, one.text, True] for one in more]
            messages = session.messages()
            assert [(one.id, one.text) for one in messages] == [tuple(one[:2]) for one in line.messages if one[2]]
            assert [pin.text for pin in session.pins()] == [text for text, _ in line.pins]
            if branch in compared:
                self.compare(session, line, messages)

    def compare(self, session: Session, line: Told, messages: Sequence[Message]) -> None:
        """Compare a branch with a session in which the same was said and nothing else."""
        linear = self.beside.engine.session(f"{self.id} {session.branch}", user_id="ann")
        known = {one.id: one for one in messages}
        times = (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=n) for n in count())
        linear.append(
            known.get(name) or Message(Role.USER, text, id=name, created_at=next(times))
            for name, text, _ in line.messages
        )
        linear.remove([name for name, _, is_there in line.messages if not is_there])  # removals leave gaps
        for text, _ in line.pins:
            linear.pin(text)
        session.summarize()
        linear.summarize()
        self.engine.flush()
        self.beside.engine.flush()
        assert _entries(self.store, session) == _entries(self.beside.store, linear)
        if not self.has_removed:
            self.compare_summaries(session, linear)
        linear.delete()

    def compare_summaries(self, session: Session, linear: Session) -> None:
        assert _facts(session) == _facts(linear)
        segments, linearly = _segments(self.store, session), _segments(self.beside.store, linear)
        same = segments.keys() & linearly.keys()  # a fork may share a leaf that is not yet due otherwise
        assert {one: segments[one] for one in same} == {one: linearly[one] for one in same}
        if segments.keys() == linearly.keys():
            self.alike += 1
            assert _window(session) == _window(linear)


class Opened(NamedTuple):
    """An engine and its store."""

    store: SqlStore
    engine: ContextEngine


def _key(session: Session) -> SessionKey:
    branch = session.branch if isinstance(session.branch, int) else None
    return SessionKey(session.id or "", user_id="ann", branch=branch)


def _segments(store: SqlStore, session: Session) -> dict[tuple[int, str | None, str | None], str]:
    """Return the narratives of segments by level, first and last message, checking that there is no gap."""
    key = _key(session)
    ids = {one.seq: one.message.id for one in store.read(key)}
    found = store.summaries.segments(key, part="all")
    leaves = [one for one in found if one.level == 0]
    assert all(before.end < after.start for before, after in pairwise(leaves))
    assert {seq for one in leaves for seq in range(one.start, one.end + 1)} >= {
        seq for seq in ids if seq <= leaves[-1].end
    }
    assert len(leaves) > 2
    return {(one.level, ids[one.start], ids[one.end]): one.narrative for one in found}


def _entries(store: SqlStore, session: Session) -> list[str]:
    """Return the index entries of the messages on the session's branch: digests of them and their neighbours."""
    path = store.path(_key(session))
    found = store.index.scan(Scope("default", "ann", session.id), "message", limit=1_000)
    return sorted(one.text for one in found if is_on_path(path, one.id))


def _facts(session: Session) -> Any:
    found = session.facts(include_superseded=True, include_excerpts=True)
    return sorted((one.text, one.sources, one.is_current) for one in found if not one.text.startswith("And w"))


def _window(session: Session) -> Any:
    window = session.context("Hello?")
    recalled = {item.id for section in window.sections if section.name == "recalled" for item in section.items}
    assert not recalled
    return [(message.role, message.text) for message in window.messages]


@contextmanager
def opened(url: str, settings: ArcSettings) -> Iterator[Opened]:
    """Open an engine whose clock advances at each reading."""
    store = SqlStore(url)
    seconds = count()
    begin = datetime(2026, 3, 1, tzinfo=UTC)

    def clock() -> datetime:
        return begin + timedelta(seconds=next(seconds))

    try:
        with ContextEngine.open(store.engine, settings=settings, clock=clock) as engine:
            yield Opened(store, engine)
    finally:
        store.close()


def live(url: str, seeds: range) -> None:
    """Run the histories; the sessions to compare are on SQLite, which takes a third of the time."""
    alike = 0
    settings = SETTINGS.model_copy(update={"memory": MemorySettings(enabled=seeds.start % 400 == 0)})
    with opened(url, settings) as branched, opened("sqlite://", settings) as linear:
        for seed in seeds:
            lives = Lives(branched, linear, seed)
            try:
                for _ in range(STEPS):
                    lives.step()
                lives.check()
            except Exception as error:
                raise AssertionError(f"history {seed}") from error
            assert branched.engine.session(lives.id, user_id="ann").delete()
            alike += lives.alike
        assert alike > len(seeds) / 2  # most windows were compared


@pytest.mark.parametrize("histories", [10, pytest.param(10_000, marks=pytest.mark.torture)])
def test_each_branch_is_like_a_conversation_of_its_own(histories: int) -> None:
    """This holds after any appends, forks, rewinds, edits, removals and deletions, in any order of background work."""
    for start in range(0, histories, 100):
        live("sqlite://", range(start, min(start + 100, histories)))


@pytest.mark.parametrize("histories", [2, pytest.param(10_000, marks=pytest.mark.torture)])
def test_it_is_so_on_postgres(postgres_database: Callable[[], str], histories: int) -> None:
    """The same holds on PostgreSQL."""
    url = planned_once(postgres_database())
    for start in range(0, histories, 100):
        live(url, range(start, min(start + 100, histories)))
