"""Data isolation: every public way to read, by owners and by others, on every store."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

import langchain_arc
import llamaindex_arc
from arc_common import ArcError, ContextEngine, Session
from arc_common.engine.admin import Admin
from arc_common.engine.documents import DocumentIndex
from arc_common.engine.memories import Memories
from arc_common.rag import RagPipeline
from arc_common.retrieval import HybridIndex
from tests.support.leak_cases import EVERY, NO_READS, READS
from tests.support.leak_world import (
    ABANDONED,
    FORKED,
    PARTIES,
    SETTINGS,
    Ids,
    Letters,
    Party,
    fill,
    intruders,
    marker,
    markers_in,
)

FACES = (ContextEngine, Session, Admin, DocumentIndex, HybridIndex, RagPipeline, Memories)
ASKING = [PARTIES[n] for n in (0, 1, 3, 7)]
"""Each differs from the one before in one more respect: session, user, caller."""
ADAPTERS = (langchain_arc, llamaindex_arc)
CASES = list({read.run: name for name, read in reversed(READS.items())}.values())[::-1]
"""Each reading function once, by the first of its names."""
PACKAGES = ("arc_common", "langchain_arc", "llamaindex_arc")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def engines(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ContextEngine]]:
    """Open the engine that stored everything, and one that must read it from the store."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('leaks') / 'arc.db'}"
    else:
        make: Callable[[], str] = request.getfixturevalue("postgres_database")
        url = make()
    ids = Ids()
    with ContextEngine.open(url, settings=SETTINGS, embedder=Letters(), new_id=ids) as warm:
        fill(warm, ids)
        with ContextEngine.open(url, settings=SETTINGS, embedder=Letters()) as cold:
            yield [warm, cold]


@pytest.fixture
def asking(request: pytest.FixtureRequest) -> list[Party]:
    """Return the parties that ask one engine in turn, so that its caches could show one party's data to the next.

    The caches do not depend on the database, so only one party asks on PostgreSQL.
    """
    return ASKING if request.node.callspec.params["engines"] == "sqlite" else ASKING[:1]


def test_everybody_reads_their_own_and_nothing_else(engines: list[ContextEngine], asking: list[Party]) -> None:
    for name in CASES:
        read = READS[name]
        for engine in engines:
            for party in asking if engine is engines[0] else ASKING[-1:]:
                found = markers_in(read.run(engine, party))
                allowed = {marker(party, level) for level in read.reaches}
                assert found <= allowed, f"{name}: {party} sees what is not theirs"
                assert {marker(party, level) for level in read.finds} <= found, f"{name}: {party} lacks their own"


def test_who_only_knows_a_sessions_name_reads_nothing_of_it(engines: list[ContextEngine], asking: list[Party]) -> None:
    """The caller's other user and a request without a user get an error or only their own data."""
    for name in CASES:
        read = READS[name]
        for party in asking[::2]:
            for intruder in intruders(party):
                allowed = {marker(intruder, level) for level in read.reaches} - {None}
                try:
                    found = markers_in(read.run(engines[0], intruder))
                except ArcError as error:
                    found = markers_in([str(error), error.__dict__])
                assert found <= allowed, f"{name}: {intruder} sees what is not theirs"


def test_a_branch_reads_its_own_and_what_came_before(engines: list[ContextEngine]) -> None:
    """On the abandoned branch, each method finds that branch's markers and those before the fork, and no others."""
    for name in CASES:
        if not name.startswith(("Session.", "Admin.debug", "Admin.replay", "llamaindex_arc.ArcMemory.")):
            continue  # these read the current branch, or no session
        read = READS[name]
        for engine, party in zip(engines, FORKED, strict=True):
            abandoned = replace(party, branch=ABANDONED)
            found = markers_in(read.run(engine, abandoned))
            allowed = {marker(abandoned, level) for level in read.reaches}
            if {"user", "caller"} & set(read.reaches):
                allowed.add(marker(party, "session"))  # a memory entered by hand belongs to all branches
            assert found <= allowed, f"{name}: {abandoned} sees what is not on its branch"
            assert {marker(abandoned, level) for level in read.finds} <= found, f"{name}: {abandoned} lacks its own"


def test_an_unknown_caller_reads_nothing(engines: list[ContextEngine]) -> None:
    """Under the same names of user and session."""
    for name in CASES:
        if not READS[name].reaches:
            continue  # these count the known callers' data
        for party in ASKING[:1]:
            try:
                found = markers_in(READS[name].run(engines[0], Party("nobody", party.user, party.session)))
            except ArcError as error:
                found = markers_in(str(error))
            assert not found, name


@pytest.fixture(
    scope="module",
    params=[{"recall": {"scope": "user"}, "memory": {"scope": "caller"}}, {"memory": {"scope": "session"}}],
    ids=str,
)
def other_scopes(request: pytest.FixtureRequest) -> Iterator[ContextEngine]:
    """Open an engine whose sessions recall or remember across other boundaries."""
    changed = {name: getattr(SETTINGS, name).model_copy(update=settings) for name, settings in request.param.items()}
    ids = Ids()
    with ContextEngine.open(settings=SETTINGS.model_copy(update=changed), embedder=Letters(), new_id=ids) as engine:
        fill(engine, ids)
        yield engine


def test_other_scopes_reach_no_other_user(other_scopes: ContextEngine) -> None:
    """Sessions share data only within their user or caller; another user who knows a session's name gets none."""
    for name in CASES:
        for party in ASKING[:1]:
            for asking in (party, *intruders(party)):
                same = [one for one in PARTIES if (one.caller, one.user) == (asking.caller, asking.user)]
                allowed = {marker(one, level) for one in same for level in EVERY} | {marker(asking, "caller")}
                try:
                    found = markers_in(READS[name].run(other_scopes, asking))
                except ArcError as error:
                    found = markers_in([str(error), error.__dict__])
                assert found <= allowed, f"{name}: {asking} sees what is not theirs"


def test_sessions_recall_and_remember_as_the_settings_say(other_scopes: ContextEngine) -> None:
    """Recall and memory follow the scopes; otherwise the test above would prove nothing."""
    settings = other_scopes.settings
    party, other = PARTIES[0], PARTIES[1]
    shown = markers_in(READS["Session.context"].run(other_scopes, party))
    if settings.recall.scope == "user":
        found = markers_in(READS["Session.recall"].run(other_scopes, party))
        assert {marker(party, "session"), marker(other, "session")} <= found
    else:
        assert marker(party, "session") in shown
        assert marker(other, "session") not in shown


# --- every public name has a case ------------------------------------------------------------------------------------


def own_names(face: type) -> set[str]:
    """Return the public names that arc defines on a class; an async form counts as its blocking one."""
    names = {
        name
        for kind in face.__mro__
        if kind.__module__.partition(".")[0] in PACKAGES
        for name, member in vars(kind).items()
        if not name.startswith("_") and (callable(member) or isinstance(member, property | classmethod | staticmethod))
    }
    return {name for name in names if not (name.startswith("a") and name[1:] in names)}


def public_names() -> Iterator[str]:
    """Yield everything that an application can call: the engine's classes and the adapters' exports."""
    for face in FACES:
        yield from (f"{face.__name__}.{name}" for name in own_names(face))
    for package in ADAPTERS:
        yield from _exported(package)


def _exported(package: ModuleType) -> Iterator[str]:
    for name in package.__all__:
        exported: Any = getattr(package, name)
        whole = f"{package.__name__}.{name}"
        if inspect.isclass(exported) and whole not in NO_READS:
            yield whole
            yield from (f"{whole}.{method}" for method in own_names(exported))
        else:
            yield whole


def has_case(name: str) -> bool:
    """Return whether a case reads through this name; a class has one if one of its methods does."""
    cases = {case.partition(" ")[0] for case in READS}
    return name in cases or any(case.startswith(f"{name}.") for case in cases)


def test_every_public_name_is_a_case_or_no_way_to_read() -> None:
    """A new method, property or class needs a case or a reason in `NO_READS`."""
    missing = sorted(name for name in public_names() if not has_case(name) and name not in NO_READS)
    assert not missing, f"add a case to READS in leak_cases.py, or say in NO_READS why it reads nothing: {missing}"


def test_every_case_is_of_something_that_is_there() -> None:
    """`NO_READS` lists only existing names, and none that has a case."""
    known = set(public_names())
    stale = sorted(name for name in NO_READS if name not in known)
    assert not stale, f"not there any more: {stale}"
    assert not {name for name in NO_READS if name in READS}


def test_the_world_tells_its_texts_apart() -> None:
    """Eight sessions, four users and two callers have different markers."""
    marks = {(level, marker(party, level)) for party in PARTIES for level in ("session", "user", "caller")}
    assert len(marks) == len({mark for _, mark in marks}) == 8 + 4 + 2
    assert marker(Party("acme", "eve", "ann-1"), "session") is None
    assert markers_in({"a": [PARTIES, (b"ZQ-12345",)], "b": Exception("ZQ-54321")}) == {"ZQ-12345", "ZQ-54321"}
