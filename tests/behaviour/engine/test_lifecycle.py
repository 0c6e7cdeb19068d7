"""Sessions are deleted softly or permanently, purged, cleared and listed, and nothing else is deleted."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from arc_common import ArcSettings, ContextEngine, ConversationDeletedError, ConversationStatus, InvalidInputError
from arc_common.messages import Message
from arc_common.protocols import SessionKey
from arc_common.protocols.conversations import Idle
from arc_common.stores.conversations import SqlStore
from tests.support.clocks import START, Clock
from tests.support.databases import on_sqlite, rows

HOUR = timedelta(hours=1)


@pytest.fixture
def engine(database: str, opened: Callable[..., ContextEngine], clock: Clock) -> ContextEngine:
    settings = ArcSettings(recall={"scope": "user"}, memory={"enabled": False})
    return opened(database, clock=clock, settings=settings)


def ids(engine: ContextEngine, **which: Any) -> list[str]:
    return sorted(one.key.session_id for one in engine.admin.sessions(**which).conversations)


USES: dict[str, Callable[[Any], Any]] = {
    "append": lambda session: session.append(Message("user", "More.")),
    "messages": lambda session: session.messages(),
    "context": lambda session: session.context("What of the boat?"),
    "window": lambda session: session.window(),
    "facts": lambda session: session.facts(),
    "summary": lambda session: session.summary(),
    "summarize": lambda session: session.summarize(),
    "recall": lambda session: session.recall("boat"),
    "find": lambda session: session.find(["m"]),
    "remove": lambda session: session.remove(["m"]),
    "clear": lambda session: session.clear(),
    "fork": lambda session: session.fork(),
    "branches": lambda session: session.branches(),
    "switch": lambda session: session.switch(0),
    "compact": lambda session: session.compact(),
}


@pytest.mark.parametrize("forked", [False, True], ids=["one branch", "forked"])
def test_a_softly_deleted_session_can_not_be_used(engine: ContextEngine, *, forked: bool) -> None:
    """Each use raises, listings omit it, replies don't break, and restoring brings everything back."""
    session = engine.session("s", user_id="ann")
    session.save_turn("My boat is called Seagull 77.", "A fine name.")
    if forked:
        session.fork(name="idea").save_turn("It is red.", "So it is.")
        session.switch("idea")
    before = [session.messages(), session.facts(), session.branches()]
    assert session.delete(soft=True)
    assert not session.delete(soft=True)
    for use in USES.values():
        with pytest.raises(ConversationDeletedError, match=r"'s' was deleted.*restore"):
            use(session)
    with pytest.raises(ConversationDeletedError):
        engine.admin.debug("s", user_id="ann")
    assert not session.exists()
    session.save_turn("Are you there?", "Yes.")
    assert (ids(engine), ids(engine, status="deleted")) == ([], ["s"])
    assert engine.admin.restore("s", user_id="ann")
    assert not engine.admin.restore("s", user_id="ann")
    assert [session.messages(), session.facts(), session.branches()] == before
    assert session.delete(soft=True)
    assert session.delete()
    with pytest.raises(LookupError):
        engine.admin.restore("s", user_id="ann")
    session.save_turn("A new start.", "Yes.")
    assert len(session.messages()) == 2


@on_sqlite
def test_deleting_a_session_with_work_in_the_queue_warns_of_nothing(
    engine: ContextEngine, caplog: pytest.LogCaptureFixture
) -> None:
    session = engine.session("s", user_id="ann")
    session.append([Message("user", f"My order number is HN-{n:05}.") for n in range(30)])
    session.delete(soft=True)
    assert engine.flush(60)
    assert caplog.messages == []
    assert engine.admin.restore("s", user_id="ann")
    session.save_turn("And my boat is called Seagull.", "Noted.")
    assert engine.flush(60)
    assert session.summary() is not None


@on_sqlite
def test_another_user_learns_nothing_of_a_deleted_session(engine: ContextEngine) -> None:
    """For others it does not exist, and they can't restore it."""
    engine.session("s", user_id="ann").save_turn("My code is 4711.", "Noted.")
    engine.session("s", user_id="ann").delete(soft=True)
    for attempt in (lambda: engine.session("s", user_id="ben").messages(), lambda: engine.admin.restore("s")):
        with pytest.raises(LookupError) as found:
            attempt()
        assert not isinstance(found.value, ConversationDeletedError)


@on_sqlite
def test_a_deleted_session_is_not_recalled_elsewhere(engine: ContextEngine) -> None:
    """The user's other sessions don't recall or show it until it is restored."""
    engine.session("s", user_id="ann").save_turn("My boat is called Seagull.", "A fine name for a boat.")
    other = engine.session("other", user_id="ann")
    other.save_turn("Hello.", "Hello.")
    engine.flush(60)

    def recalled() -> bool:
        found = [one.message.text for one in other.recall("How is my boat called?", scope="user")]
        shown = other.context("How is my boat called?").messages
        return any("Seagull" in text for text in [*found, *(message.text for message in shown)])

    assert recalled()
    engine.session("s", user_id="ann").delete(soft=True)
    assert not recalled()
    engine.admin.restore("s", user_id="ann")
    assert recalled()


def test_purge_removes_what_was_deleted_long_ago(database: str, engine: ContextEngine, clock: Clock) -> None:
    """Sessions of all callers deleted before the time are purged; used and restored ones stay."""
    for number, name in enumerate(("old", "new", "used", "back")):
        session = engine.session(name, caller_id=f"caller {number % 2}")
        session.save_turn("One.", "Two.")
        if name != "used":
            clock.now = START + number * HOUR
            session.delete(soft=True)
    engine.admin.restore("back", caller_id="caller 1")
    seen: list[int] = []
    clock.now = START + 3 * HOUR
    assert engine.admin.purge(older_than=3 * HOUR, progress=seen.append) == 1
    assert seen == [1]
    assert {row[0] for row in rows(database, "SELECT session_id FROM arc_conversations")} == {"new", "used", "back"}
    engine.session("older").save_turn("One.", "Two.")
    engine.session("older").delete(soft=True)
    assert engine.admin.purge(progress=lambda _: engine.admin.restore("older")) == 1  # listed before it was restored
    engine.session("older").delete()
    assert {row[0] for row in rows(database, "SELECT session_id FROM arc_conversations")} == {"used", "back"}
    for wrong in (timedelta(days=-1), 5, None, timedelta.max):
        with pytest.raises(InvalidInputError, match="older_than"):
            engine.admin.purge(older_than=wrong)  # type: ignore[arg-type]


@on_sqlite
def test_clear_deletes_the_sessions_of_a_caller(engine: ContextEngine) -> None:
    """It deletes all, or those of one user, whatever their status; memories and other callers' sessions stay."""
    for caller_id in ("shop", "blog"):
        for user_id in ("ann", "ben"):
            for name in ("a", "b"):
                session = engine.session(f"{user_id}-{name}", caller_id=caller_id, user_id=user_id)
                session.save_turn("One.", "Two.")
            session.delete(soft=True)
    engine.memories(caller_id="shop", user_id="ann").add("Lives in Seoul.", importance=0.9)
    assert engine.admin.clear(caller_id="shop", user_id="ann") == 2
    assert len(engine.memories(caller_id="shop", user_id="ann").list()) == 1
    assert ids(engine, caller_id="shop") == ["ben-a"]
    assert engine.admin.clear(caller_id="shop") == 2
    assert ids(engine, caller_id="shop") == ids(engine, caller_id="shop", status="deleted") == []
    assert len(ids(engine, caller_id="blog")) == 2
    assert engine.admin.clear(caller_id="shop") == 0


def test_sessions_are_listed_by_status_activity_age_and_size(engine: ContextEngine, clock: Clock) -> None:
    """Conditions are combined, and later pages keep them."""
    for number in range(6):
        clock.now = START + number * HOUR
        session = engine.session(f"s{number}")
        for _ in range(number + 1):
            session.append(Message("user", "Hello."))
    engine.session("s5").delete(soft=True)
    clock.now = START + 9 * HOUR
    engine.session("s0").append(Message("user", "Again."))
    assert ids(engine) == ["s0", "s1", "s2", "s3", "s4"]
    assert ids(engine, status=ConversationStatus.ACTIVE) == ids(engine, status=" Active ") == ids(engine)
    assert ids(engine, status="archived") == []
    assert ids(engine, active_since=START + 4 * HOUR) == ["s0", "s4"]
    assert ids(engine, idle_since=START + 2 * HOUR) == ["s1", "s2"]
    assert ids(engine, created_since=START + 3 * HOUR) == ["s3", "s4"]
    assert ids(engine, created_before=START + HOUR) == ["s0", "s1"]
    assert ids(engine, min_messages=3, max_messages=4) == ["s2", "s3"]
    assert ids(engine, max_messages=2, created_before=START) == ["s0"]
    page = engine.admin.sessions(limit=2, min_messages=2)
    rest = engine.admin.sessions(limit=2, min_messages=2, cursor=page.next_cursor)
    found = [one.key.session_id for one in (*page.conversations, *rest.conversations)]
    assert found == ["s4", "s3", "s2", "s1"]
    for wrong in (
        {"status": "gone"}, {"active_since": "yesterday"}, {"idle_since": datetime(2026, 1, 1)},  # noqa: DTZ001
        {"min_messages": -1}, {"max_messages": True},
    ):  # fmt: skip
        with pytest.raises(InvalidInputError, match=next(iter(wrong))):
            engine.admin.sessions(**wrong)


def test_a_session_that_is_used_is_never_idle(database: str, engine: ContextEngine, clock: Clock) -> None:
    """Neither a clock set back, nor old or late message dates, nor a use just before the deletion makes it idle."""
    store = SqlStore(database, clock=clock)
    clock.now = START
    engine.session("s").append(Message("user", "Hello."))
    engine.session("ahead").append(Message("user", "From a machine whose clock is fast.", created_at=START + HOUR))
    clock.now = datetime(1970, 1, 2, tzinfo=UTC)
    engine.session("s").append(Message("user", "The clock was set back."))
    clock.now = START + HOUR
    engine.session("import").append(Message("user", "Long ago.", created_at=START - 900 * HOUR))
    long_ago = Idle(ConversationStatus.ACTIVE, START - HOUR)
    assert list(store.idle(long_ago)) == []
    assert store.delete(SessionKey("s"), idle=long_ago) is None
    assert [key.session_id for key in store.idle(Idle(ConversationStatus.ACTIVE, START))] == ["s"]
    assert store.delete(SessionKey("s"), idle=Idle(ConversationStatus.ACTIVE, START)) == 2
    assert sorted(rows(database, "SELECT session_id FROM arc_conversations")) == [("ahead",), ("import",)]
    store.close()


@on_sqlite
@pytest.mark.parametrize("forked", [False, True], ids=["one branch", "a fork deleted"])
def test_a_cap_waits_for_the_summary(database: str, opened: Callable[..., ContextEngine], *, forked: bool) -> None:
    """Messages beyond the cap stay until their facts are extracted; then the oldest whole turns leave."""
    summary = {"leaf_messages": 4, "recent_message_count": 2, "trigger_message_count": 4, "high_water_tokens": 0}
    settings = ArcSettings(storage={"max_messages_per_session": 14}, summary=summary)
    with ContextEngine.open(database, settings=settings) as engine:
        session = engine.session("s")
        if forked:
            session.append([Message("system", "Be kind."), Message("user", "Hello."), Message("assistant", "Hello.")])
            engine.session("s").fork(name="idea")
            session.delete_branch("idea")
        told = [f"The code of locker {number} is QX-{1000 + number}." for number in range(20)]
        turns = [(Message("user", text), Message("assistant", "Noted.")) for text in told]
        session.append([message for turn in turns for message in turn])
        assert [one.text for one in session.messages() if "QX" in one.text] == told
        session.summarize()
        session.append(Message("user", "And now?"))
        left = session.messages()
        assert len(left) <= 14
        assert left[0].role == ("system" if forked else "user")
        assert left[1 if forked else 0].text in told
        known = " ".join([*(fact.text for fact in session.facts(include_excerpts=True)), *(one.text for one in left)])
        assert all(f"QX-{1000 + number}" in known for number in range(20))
