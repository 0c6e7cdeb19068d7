"""Branches through the public API: fork, rewind, switch, delete, and sessions on branches."""

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from time import sleep
from typing import Any

import pytest
from sqlalchemy import inspect

from arc_common import (
    ArcSettings,
    BranchNotFoundError,
    ContextEngine,
    InvalidInputError,
    Message,
    SessionNotFoundError,
)
from arc_common.engine.session import Session
from arc_common.protocols.search_index import Scope
from arc_common.stores.conversations import SqlStore
from tests.support.databases import on_sqlite


@pytest.fixture
def engine(database: str) -> Iterator[ContextEngine]:
    with ContextEngine.open(database) as engine:
        yield engine


@pytest.fixture
def session(engine: ContextEngine) -> Session:
    session = engine.session("s", user_id="ann")
    session.append([Message("user", "Plan a trip to Rome", id="m1"), Message("assistant", "In May?", id="m2")])
    session.append([Message("user", "No, in June", id="m3"), Message("assistant", "June it is", id="m4")])
    return session


def texts(session: Session) -> list[str]:
    return [message.text for message in session.messages()]


@on_sqlite
def test_a_plain_session_follows_a_rewind(engine: ContextEngine, session: Session) -> None:
    """The rewound part stays on a branch that is not live and can be made current again."""
    other = engine.session("s", user_id="ann")
    assert session.rewind(to="m2") is None
    session.append([Message("user", "Yes, in May", id="m5")])
    assert texts(session) == texts(other) == ["Plan a trip to Rome", "In May?", "Yes, in May"]
    old, new = session.branches()
    assert (old.is_live, new.is_live, new.is_current, new.forked_at, new.message_count) == (False, True, True, "m2", 3)
    assert new.last_message_at == session.messages()[-1].created_at
    session.switch(to=old.id)
    assert texts(other)[-1] == "June it is"
    assert session.branch is None


@on_sqlite
def test_a_rewind_that_nothing_follows_makes_no_branch(session: Session) -> None:
    """A repeated rewind leaves nothing behind, even if the newest messages were removed."""
    session.rewind(to="m4")
    assert [branch.id for branch in session.branches()] == [0]
    session.remove(["m4"])
    session.rewind(to="m3")
    assert [(branch.id, branch.is_live) for branch in session.branches()] == [(0, True)]


@on_sqlite
def test_a_deleted_branch_is_no_ones_parent(session: Session) -> None:
    """A child names the nearest existing ancestor, or none."""
    middle = session.fork(at="m3", name="middle")
    middle.append([Message("user", "By train?", id="m5")])
    last = middle.fork(name="last")
    session.delete_branch("middle")
    assert [(branch.name, branch.parent) for branch in session.branches()] == [(None, None), ("last", 0)]
    session.switch(to="last")
    session.delete_branch(0)
    assert [(branch.name, branch.parent) for branch in last.branches()] == [("last", None)]


@on_sqlite
def test_a_session_on_a_branch_moves_with_its_rewinds_and_edits(engine: ContextEngine, session: Session) -> None:
    """It follows a rewind or an edit under the same name; the branch's other readers keep the old text."""
    idea = session.fork(name="idea")
    first = session.branches()[-1]
    idea.append([Message("user", "No, in July", id="m3")])
    assert (idea.branch, first.name) == ("idea", "idea")
    assert session.branches()[-1].id != first.id
    named = engine.session("s", user_id="ann", branch="idea")
    assert texts(idea) == texts(named) == ["Plan a trip to Rome", "In May?", "No, in July", "June it is"]
    assert texts(session)[2] == "No, in June"
    named.rewind(to="m1")
    assert texts(session)[3] == "June it is"  # a rewind moves only sessions on its branch
    assert (texts(named), named.branch) == (["Plan a trip to Rome"], "idea")
    assert texts(engine.session("s", user_id="ann", branch="idea")) == ["Plan a trip to Rome"]


def test_a_deleted_branch_leaves_no_row_of_its_own(engine: ContextEngine, session: Session, database: str) -> None:
    """This covers messages, summaries, facts, memories, index, pins and artifacts; shared ones stay."""

    def say(on: Session, place: str) -> None:
        for n in range(30):
            on.append([Message("user", f"Hotel {n} in {place} costs {100 + n} EUR"), Message("assistant", "Noted")])
        on.append([Message("user", f"I love {place}."), Message("assistant", "I see.")])
        on.pin(f"Answer in the language of {place}")
        on.add_artifact(f"The tour of {place} starts at 9 am.", source="web")
        on.summarize()
        on.context("What does a hotel cost?")
        engine.flush()

    say(session, "Rome")
    before = _counts(database)
    facts = [fact.text for fact in session.facts()]
    idea = session.fork(name="idea")
    say(idea, "Oslo")
    say(idea.fork(at=session.messages()[-3].id, name="other"), "Riga")
    grown = {name for name, rows in _counts(database).items() if rows > before[name]}
    assert grown >= {"arc_messages", "arc_segments", "arc_facts", "arc_records", "arc_views", "arc_index_entries"}
    session.delete_branch("idea")
    session.delete_branch("other")
    engine.flush()
    assert _counts(database) == before
    assert [fact.text for fact in session.facts()] == facts


@on_sqlite
def test_a_session_on_a_deleted_branch_says_so(session: Session, caplog: pytest.LogCaptureFixture) -> None:
    """A session object that outlives its branch raises one error and logs no failed summary."""
    idea, reader = session.fork(at="m2", name="idea"), session.fork(at="m2", name="other")
    reader.messages()
    session.delete_branch(idea.branch)
    session.delete_branch(reader.branch)
    for handle in (idea, reader):
        with pytest.raises(BranchNotFoundError):
            handle.context("When?")
    assert not caplog.records


@on_sqlite
def test_a_fork_writes_one_row(session: Session, database: str) -> None:
    """This holds with any messages, summaries, facts, index and pins."""
    for n in range(40):
        session.append([Message("user", f"Item {n} costs {100 + n} EUR", id=f"i{n}"), Message("assistant", "Noted")])
    session.pin("Be brief")
    session.summarize()
    before = _counts(database)
    session.fork(at="i20")
    assert {name: many - before[name] for name, many in _counts(database).items() if many != before[name]} == {
        "arc_branches": 1
    }


def _counts(database: str) -> dict[str, int]:
    with closing(SqlStore(database)) as store, store.engine.connect() as connection:
        every = inspect(connection).get_table_names()
        names = [
            name for name in every if name.startswith("arc_") and not name.startswith("arc_index_words_")
        ]  # FTS5's
        return {name: connection.exec_driver_sql(f"SELECT count(*) FROM {name}").scalar_one() for name in names}


@on_sqlite
def test_what_is_wrong_is_said(engine: ContextEngine, session: Session) -> None:
    """Each error names the field, the value and the remedy; nothing is written."""
    with pytest.raises(InvalidInputError, match="at: got 'm9', expected the id of a message"):
        session.fork(at="m9")
    with pytest.raises(InvalidInputError, match="to: got 'm9', expected the id of a message"):
        session.rewind(to="m9")
    for wrong in (None, 3):
        with pytest.raises(InvalidInputError, match="to: got"):
            session.rewind(to=wrong)  # type: ignore[arg-type]
    session.fork(name="idea")
    with pytest.raises(InvalidInputError, match="name: got 'idea', expected a name that no other branch"):
        session.fork(name="idea")
    for branch in (-1, True, "", 1.5):
        with pytest.raises(InvalidInputError, match="branch: got"):
            engine.session("s", branch=branch)  # type: ignore[arg-type]
    for to in (7, "nowhere"):
        with pytest.raises(BranchNotFoundError, match=r"has no branch .*branches"):
            session.switch(to=to)
    with pytest.raises(SessionNotFoundError):
        engine.session("other", user_id="ann").fork()
    with pytest.raises(SessionNotFoundError):
        engine.session("s", user_id="bob").branches()
    assert engine.session("other").branches() == engine.session(None).branches() == []
    with pytest.raises(InvalidInputError, match="session_id"):
        engine.session(None).fork()
    assert len(session.branches()) == 2


@on_sqlite
def test_async_forms(engine: ContextEngine, session: Session) -> None:
    """They are equivalent."""

    async def live() -> None:
        idea = await session.afork(at="m2", name="idea")
        await session.arewind(to="m3")
        await session.aswitch("idea")
        assert [one.name for one in await session.abranches() if one.is_current] == [idea.branch]
        await session.adelete_branch(0)
        assert len(await session.abranches()) == 2

    asyncio.run(live())


class TestRecall:
    def test_finds_what_its_branch_says(self, engine: ContextEngine, session: Session) -> None:
        """Another branch's messages are not found, however many there are."""
        session.append([Message("user", "The depot is in Busan", id="m5"), Message("assistant", "Noted", id="m6")])
        session.append(
            [Message("user", f"The depot, the depot {n}!") for n in range(130)]
        )  # more than a search's candidates
        session.summarize()
        session.rewind(to="m6")
        session.append([Message("user", f"Something else {n}") for n in range(150)])
        other = session.fork(at="m4")
        other.append([Message("user", "The depot is in Oslo")])
        for branch, place in ((session, "Busan"), (other, "Oslo")):
            found = branch.recall("Where is the depot?", top_k=3)
            assert found[0].message.text == f"The depot is in {place}"
            assert not any("Something else 99" in one.message.text for one in found)

    @on_sqlite
    def test_shares_the_index_before_a_fork(self, engine: ContextEngine, database: str) -> None:
        """At most three messages at the fork are indexed again; deleting the branch restores the index."""
        session = engine.session("s", user_id="ann")
        session.append([Message("user", f"The weather of day {n}", id=f"m{n}") for n in range(40)])
        session.summarize()
        before = _entries(database)
        for at in (39, 20):
            fork = session.fork(at=f"m{at}", name="idea")
            fork.summarize()
            assert len(_entries(database)) == len(before) + 3
            fork.append([Message("user", "It rains", id=f"f{n}") for n in range(5)])
            fork.summarize()
            assert len(_entries(database)) == len(before) + 8
            session.delete_branch("idea")
            assert _entries(database) == before

    def test_keeps_nothing_of_a_branch_that_is_deleted_while_it_is_indexed(
        self, engine: ContextEngine, database: str
    ) -> None:
        """Either may come first; the test repeats until both have run."""
        session = engine.session("s", user_id="ann")
        session.append([Message("user", f"The weather of day {n}", id=f"m{n}") for n in range(12)])
        session.summarize()
        before = _entries(database)
        with ThreadPoolExecutor() as pool:
            for n in range(12):
                idea = session.fork(at="m6")
                idea.append([Message("user", f"It rains on day {n} {place}.") for place in range(40)])
                working = pool.submit(idea.summarize)
                sleep(0.002 * n)
                session.delete_branch(idea.branch or 0)
                with suppress(BranchNotFoundError):
                    working.result(60)
        engine.flush()
        assert _entries(database) == before

    @on_sqlite
    def test_forgets_a_removed_message_on_every_branch(self, session: Session) -> None:
        """Its neighbours' entries lose it, too."""
        session.append([Message("user", "My codeword is Zanzibar", id="m5"), Message("assistant", "I see", id="m6")])
        branches = [session, *(session.fork(at=at) for at in ("m5", "m6"))]
        for branch in branches:
            branch.append([Message("user", "Next, please")])
            branch.summarize()
            assert _said(branch, "Zanzibar")
        branches[1].remove(["m5"])
        for branch in branches:
            assert _said(branch, "Zanzibar") == []

    @on_sqlite
    def test_of_a_users_sessions_reads_their_current_branches(self, database: str) -> None:
        """Rewound messages of another session are not found."""
        with ContextEngine.open(database, settings=ArcSettings(recall={"scope": "user"})) as engine:
            other = engine.session("other", user_id="ann")
            other.append(
                [Message("user", "The depot is in Busan", id="m1"), Message("user", "The depot is closed", id="m2")]
            )
            other.rewind(to="m1")
            other.append([Message("user", "The depot is large")])
            session = engine.session("s", user_id="ann")
            session.append([Message("user", "Hello")])
            engine.flush()
            found = ["The depot is in Busan", "The depot is large"]
            assert _said(session, "depot") == found
        with ContextEngine.open(database, settings=ArcSettings(recall={"scope": "user"})) as engine:
            session = engine.session("s", user_id="ann")
            assert _said(session, "depot") == found


def _said(session: Session, word: str) -> list[str]:
    """Return the messages with a word among the results of a search for it, which include neighbours."""
    found = session.recall(f"Where is the {word}?", top_k=50)
    return sorted(one.message.text for one in found if word in one.message.text)


def _entries(database: str) -> list[str]:
    with closing(SqlStore(database)) as store:
        return [one.id for one in store.index.scan(Scope("default", "ann", "s"), "message", limit=1_000)]


@on_sqlite
class TestPinsAndArtifacts:
    def test_what_was_pinned_later_is_not_on_an_earlier_path(self, session: Session) -> None:
        """A text's pin comes after the newest message; a message's pin follows the message and its edits."""
        session.pin("Answer in verse")
        session.pin("m3")
        early, late = session.fork(at="m2"), session.fork()
        late.append([Message("user", "No, in July", id="m3")])
        late.pin("Be brief")
        assert _pinned(session) == ["Answer in verse", "No, in June"]
        assert _pinned(late) == ["Answer in verse", "No, in July", "Be brief"]
        assert _pinned(early) == []
        assert "Be brief" not in _shown(session)
        late.remove(["m3"])
        assert (_pinned(session), _pinned(late)) == (["Answer in verse"], ["Answer in verse", "Be brief"])

    def test_a_tools_output_is_shown_on_its_branch(self, session: Session) -> None:
        """Equal outputs of two branches are one artifact, and an edit keeps those of its path."""
        for n in range(12):
            session.add_artifact(f"Tour {n} of Rome is nice, Rome is nice.", source="web")
        idea = session.fork(at="m2")
        assert "Tour" not in _shown(idea, "Which tour of Rome is nice?")
        idea.append([Message("user", "I like Rome", id="i1")])
        idea.add_artifact("Tour 5 of Rome is nice, Rome is nice.", source="web")
        question = "Which tour of Rome is nice?"
        assert "Tour 5" in _shown(idea, question)
        assert "Tour" in _shown(session, question)
        other = idea.fork()
        other.append([Message("user", "I love Rome", id="i1")])
        assert "Tour 5" in _shown(other, question)
        idea.rewind(to="m2")
        assert "Tour" not in _shown(idea, question)


def _pinned(session: Session) -> list[str]:
    return [pin.text for pin in session.pins()]


def _shown(session: Session, question: str = "What now?") -> str:
    return "\n".join(message.text for message in session.context(question).messages)


class TestMemories:
    @pytest.fixture
    def engine(self, database: str) -> Iterator[ContextEngine]:
        with ContextEngine.open(database, settings=ArcSettings(memory={"enabled": True})) as engine:
            yield engine

    @staticmethod
    def say(session: Session, text: str, name: str | None = None) -> None:
        session.append([Message("user", text, id=name), Message("assistant", "I see.")])

    def test_count_where_their_source_is_seen(self, engine: ContextEngine) -> None:
        """The source may be on the session's path or on a live branch of another session."""
        session, other = engine.session("s", user_id="ann"), engine.session("t", user_id="ann")
        self.say(session, "I love hiking in the mountains.", "m1")
        engine.flush()
        idea = session.fork(at="m1")
        self.say(idea, "I love sailing on the sea.", "m2")
        engine.flush()
        self.say(other, "Hello.")
        assert _memories(engine) == ["I love hiking in the mountains", "I love sailing on the sea"]
        assert _about(engine, session) == {"hiking"}
        assert _about(engine, idea) == _about(engine, other) == {"hiking", "sailing"}
        idea.rewind(to="m1")
        assert _about(engine, idea) == _about(engine, other) == {"hiking"}
        assert _memories(engine) == ["I love hiking in the mountains"]
        session.switch(to=1)
        assert _about(engine, session) == _about(engine, other) == {"hiking", "sailing"}
        session.switch(to=0)
        session.delete_branch(2)
        session.delete_branch(1)
        assert _memories(engine) == ["I love hiking in the mountains"]

    def test_hold_where_nothing_seen_supersedes_them(self, engine: ContextEngine) -> None:
        """A contradiction on one branch, or in a rewound conversation, does not affect the other."""
        session = engine.session("s", user_id="ann")
        self.say(session, "I live in Busan.", "m1")
        engine.flush()
        idea = session.fork(at="m1")
        self.say(idea, "I live in Seoul.", "m2")
        engine.flush()
        assert (_about(engine, session), _about(engine, idea)) == ({"Busan"}, {"Seoul"})
        self.say(session, "I live in Jeju.", "m3")
        engine.flush()
        assert (_about(engine, session), _about(engine, idea)) == ({"Jeju"}, {"Seoul"})
        session.rewind(to="m1")
        assert (_about(engine, session), _about(engine, idea)) == ({"Busan"}, {"Seoul"})

    @on_sqlite
    def test_an_edit_that_forks_keeps_what_it_does_not_change(self, engine: ContextEngine) -> None:
        """The old branch keeps its memories, and the new one those of messages after the edit."""
        session = engine.session("s", user_id="ann")
        self.say(session, "I love hiking in the mountains.", "m1")
        self.say(session, "I love sailing on the sea.", "m2")
        engine.flush()
        idea = session.fork()
        idea.append([Message("user", "I love skiing in the mountains.", id="m1")])
        engine.flush()
        assert (_about(engine, session), _about(engine, idea)) == ({"hiking", "sailing"}, {"skiing", "sailing"})
        idea.append([Message("user", "Never mind.", id="m2")])
        engine.flush()
        assert (_about(engine, session), _about(engine, idea)) == ({"hiking", "sailing"}, {"skiing"})

    @on_sqlite
    @pytest.mark.parametrize("meanwhile", ["deleted", "switched"])
    def test_are_of_the_branch_that_was_read(self, database: str, meanwhile: str) -> None:
        """This holds even if that branch is deleted, or another becomes current, just before they are stored."""
        with ContextEngine.open(database) as other:
            there = other.session("s", user_id="ann")

            class Meanwhile:
                """An embedder that acts after the branch is read and before the memory is stored."""

                name = "meanwhile"

                def embed(self, texts: Sequence[str]) -> list[list[float]]:
                    if "I love sailing on the sea" in texts and len(there.branches()) > 1:  # the memory's own text
                        if meanwhile == "deleted":
                            there.delete_branch(1)
                        else:
                            there.switch(to=0)
                            engine.session("s", user_id="ann").messages()  # notices the change
                    return [[float("sailing" not in text), float("hiking" not in text)] for text in texts]

            with ContextEngine.open(database, embedder=Meanwhile()) as engine:
                session = engine.session("s", user_id="ann")
                self.say(session, "I love hiking in the mountains.", "m1")
                engine.flush()
                idea = session.fork(at="m1")
                if meanwhile != "deleted":
                    session.switch(to=1)
                self.say(idea if meanwhile == "deleted" else session, "I love sailing on the sea.", "m2")
                engine.flush()
                main = engine.session("s", user_id="ann", branch=0)
                assert _about(engine, main) == {"hiking"}
                live = [] if meanwhile == "deleted" else ["I love sailing on the sea"]
                assert _memories(engine) == ["I love hiking in the mountains", *live]
                if live:
                    assert _about(engine, engine.session("s", user_id="ann", branch=1)) == {"hiking", "sailing"}


_WORDS = ("hiking", "sailing", "skiing", "Busan", "Seoul", "Jeju")


def _memories(engine: ContextEngine) -> list[str]:
    return sorted(memory.text for memory in engine.memories(user_id="ann").list())


def _about(engine: ContextEngine, session: Session) -> set[str]:
    """Return the topics of the memories in a request without history, which would mention them, too."""
    window = session.context("Where do I live, what do I love?", history=[])
    return {word for word in _WORDS if any(word in message.text for message in window.messages)}


@on_sqlite
class TestAdministration:
    def test_a_receipt_is_of_its_branch(self, engine: ContextEngine, session: Session) -> None:
        """An abandoned branch's request is not shown for the branch that replaced it, nor updated."""
        idea = session.fork(at="m2")
        session.context("A question")
        assert _receipt(engine, None) == _receipt(engine, 0) is not None
        assert _receipt(engine, idea.branch) is None
        idea.note("seen")
        idea.context("Another question")
        idea.note("seen")
        assert ("seen" in _receipt(engine, idea.branch).notes, "seen" in _receipt(engine, 0).notes) == (True, False)
        engine.session("s", user_id="ann").switch(to=idea.branch)
        session.context("A third question")
        assert engine.admin.debug("s", user_id="ann").conversation.message_count == 2
        with pytest.raises(BranchNotFoundError):
            _receipt(engine, 7)

    def test_a_replay_is_of_its_branch(self, engine: ContextEngine, session: Session) -> None:
        """The default is the current branch."""
        session.rewind(to="m2")
        session.append([Message("user", "Yes, in May"), Message("assistant", "May it is")])
        for branch, word in ((None, "May it is"), (0, "June"), (1, "May")):
            window = engine.admin.replay("s", user_id="ann", branch=branch).window
            assert ("No, in June" in str(window.messages)) == (branch == 0), word

    def test_an_answer_names_the_sources_of_its_branch(self, session: Session) -> None:
        """Another branch's documents are not an answer's sources."""
        idea = session.fork(at="m3")
        session.add_artifact("The tour of Rome costs 45 EUR.", source="prices.example")
        idea.append([Message("assistant", "The tour of Rome costs 45 EUR.", id="a1")])
        session.append([Message("assistant", "The tour of Rome costs 45 EUR.", id="a2")])
        assert "prices.example" in str(session.find(["a2"])[0].metadata)
        assert "prices.example" not in str(idea.find(["a1"])[0].metadata)


def _receipt(engine: ContextEngine, branch: int | None) -> Any:
    return engine.admin.debug("s", user_id="ann", branch=branch).receipt


def test_a_deleted_branch_is_gone(engine: ContextEngine, session: Session) -> None:
    """The shared messages stay; the current branch can't be deleted."""
    idea = session.fork(at="m2", name="idea")
    idea.append([Message("user", "Yes, in May")])
    with pytest.raises(InvalidInputError, match=r"branch: got 0, expected .* not current"):
        session.delete_branch(0)
    session.delete_branch("idea")
    assert len(session.branches()) == 1
    assert len(texts(session)) == 4
    for read in (idea.messages, engine.session("s", user_id="ann", branch="idea").messages):
        with pytest.raises(BranchNotFoundError, match="has no branch"):
            read()
