"""The contract of every `ConversationStore`, as tests that a backend inherits."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from arc_common.exceptions import BranchNotFoundError, InvalidInputError, SessionNotFoundError
from arc_common.messages import ContentPart, Message, Origin, Role, ToolCall
from arc_common.protocols import Conversation, ConversationStore, CountedMessage, SessionKey, StoredMessage
from arc_common.protocols.conversations import After

START = datetime(2026, 1, 1, tzinfo=UTC)


def counted(
    message_id: str | None,
    content: Any = "hello",
    *,
    role: str = "user",
    tokens: int = 10,
    minute: int = 0,
    **fields: Any,
) -> CountedMessage:
    """Create a message to store."""
    fields.setdefault("created_at", START + timedelta(minutes=minute))
    return CountedMessage(Message(Role(role), content, id=message_id, **fields), tokens, "test/1")


def ids(stored: Iterable[StoredMessage]) -> list[str | None]:
    """Return the messages' ids."""
    return [one.message.id for one in stored]


def _named(store: ConversationStore, key: SessionKey) -> dict[str, int]:
    return {one.name: one.id for one in store.branch(key, "list") if one.name is not None}


def record_of(store: ConversationStore, key: SessionKey) -> Conversation:
    """Return the record of a session that exists."""
    record = store.get(key)
    assert record is not None
    return record


def sums(store: ConversationStore, key: SessionKey) -> tuple[int, int]:
    """Return a session's number of messages and of tokens, as its record states them."""
    record = record_of(store, key)
    return record.message_count, record.total_tokens


def is_refused(error: type[Exception], call: Callable[..., object], *arguments: object) -> bool:
    """Return whether a call raises the error."""
    try:
        call(*arguments)
    except error:
        return True
    return False


_CAPS = [
    ("uauaua", 4, "uaua"), ("uauaua", 5, "uaua"), ("uauaua", 3, "ua"), ("uaaaua", 4, "ua"),
    ("uauaaaa", 2, "uaaaa"), ("suauaua", 5, "suaua"), ("suauaua", 4, "sua"), ("suauaua", 1, "sua"),
    ("uasuasua", 4, "ssua"), ("aaaa", 2, "aaaa"), ("aaua", 2, "ua"), ("uatau", 4, "u"), ("ssss", 2, "ssss"),
    ("uaua", 4, "uaua"), ("uu", 1, "u"),
]  # fmt: skip
"""The roles of messages, a cap, and the roles of the messages that remain under it."""

_READS: list[tuple[dict[str, int], slice]] = [
    ({}, slice(0, 10)), ({"limit": 3}, slice(7, 10)), ({"limit": 99}, slice(0, 10)), ({"limit": 0}, slice(0)),
    ({"before": 7}, slice(0, 7)), ({"before": 7, "limit": 2}, slice(5, 7)), ({"before": 0}, slice(0)),
    ({"after": 3}, slice(4, 10)), ({"after": 3, "limit": 2}, slice(4, 6)), ({"after": 9}, slice(0)),
    ({"after": 3, "before": 7}, slice(4, 7)), ({"after": 3, "before": 7, "limit": 2}, slice(5, 7)),
    ({"after": 7, "before": 3}, slice(0)),
]  # fmt: skip
"""Arguments of reads of ten numbered messages, and the numbers that each returns."""

_CALLS: list[Callable[[ConversationStore, SessionKey], object]] = [
    lambda store, key: store.append(key, [counted("mine")]),
    lambda store, key: store.append(key, []),
    lambda store, key: store.read(key),
    lambda store, key: store.read(key, limit=0),
    lambda store, key: store.read(key, ids=["m1"]),
    lambda store, key: store.read(key, seqs=[1]),
    lambda store, key: store.remove(key, ["m1"]),
    lambda store, key: store.delete(key, keep_session=True),
    lambda store, key: store.delete(key),
    lambda store, key: store.get(key),
]
"""The calls that another user may try."""

_WRONG: list[Callable[[Any, Any], object]] = [
    lambda store, key: store.read(key, limit=-1),
    lambda store, key: store.read(key, limit=True),
    lambda store, key: store.read(key, limit=1.5),
    lambda store, key: store.read(key, limit=2**70),
    lambda store, key: store.read(key, before="x"),
    lambda store, key: store.read(key, before=True),
    lambda store, key: store.read(key, after=2**70),
    lambda store, key: store.read(key, seqs=["m1"]),
    lambda store, key: store.read(key, ids=["a\x00b"]),
    lambda store, key: store.read(key, ids="abc"),
    lambda store, key: store.read(key, ids=[None]),
    lambda store, key: store.remove(key, ["x" * 256]),
    lambda store, key: store.remove(key, [""]),
    lambda store, key: store.append(key, [counted("a")], max_messages=0),
    lambda store, key: store.append(key, [counted("a")], max_messages=True),
    lambda store, key: store.append(key, [counted(None)]),
    lambda store, key: store.append(key, [counted("a", created_at=None)]),
    lambda store, key: store.append(key, [counted("a", tokens=-1)]),
    lambda store, key: store.append(key, [counted("a", tokens=True)]),
    lambda store, key: store.append(key, [CountedMessage(counted("a").message, 1, "")]),
    lambda store, key: store.append(key, [CountedMessage(counted("a").message, 1, "x" * 65)]),
    lambda store, key: store.append(key, [counted("a").message]),
    lambda store, key: store.append(key, [counted("a", metadata={"x": object()})]),
    lambda store, key: store.append(key, [counted("a", origin=Origin("x" * 33, "{}"))]),
    lambda store, key: store.append(key, [counted("a", origin=Origin("x", "\x00"))]),
    lambda store, key: store.page(key.caller_id, limit=0),
    lambda store, key: store.page(key.caller_id, limit=None),
    lambda store, key: store.page(key.caller_id, limit=True),
    lambda store, key: store.page(key.caller_id, cursor="garbage"),
    lambda store, key: store.page(key.caller_id, cursor="MTIz"),
    lambda store, key: store.page(key.caller_id, cursor="MTo5OTk5OTk5OTk5OTk5OTk5OTk5OTk5"),
    lambda store, key: store.page(key.caller_id, cursor=5),
    lambda store, _: store.page(""),
    lambda store, key: store.page(key.caller_id, user_id="a\x00"),
]
"""Calls with a bad argument each."""


class ConversationStoreContract:
    """Inherit from this class and provide the fixture `store`."""

    @pytest.fixture
    def store(self) -> ConversationStore:
        """Return the store to test."""
        raise NotImplementedError

    @pytest.fixture
    def key(self) -> SessionKey:
        """Return a session that no other test uses."""
        return SessionKey("session", caller_id=f"caller-{uuid4()}", user_id="user", account_id="account")

    # Append

    def test_append_returns_what_is_stored(self, store: ConversationStore, key: SessionKey) -> None:
        """An append returns each message with its place, and reading returns the same."""
        given = [counted("a", "one", tokens=3), counted("b", "two", role="assistant", tokens=4)]
        stored = store.append(key, given)
        assert [(one.message, one.tokens, one.counter, one.revision) for one in stored] == [
            (one.message, one.tokens, one.counter, 1) for one in given
        ]
        assert stored[0].seq < stored[1].seq
        assert store.read(key) == stored == store.read(key, ids=["a", "b"])

    def test_append_is_idempotent_by_id(self, store: ConversationStore, key: SessionKey) -> None:
        """Storing a message again changes nothing, even with another count, time and metadata."""
        (first,) = store.append(key, [counted("a", metadata={"n": 1})])
        before = store.get(key)
        assert store.append(key, [counted("a", tokens=99, minute=5, metadata={"n": 2})]) == [first]
        assert store.read(key) == [first]
        assert store.get(key) == before

    def test_other_content_is_a_new_revision_in_the_old_place(self, store: ConversationStore, key: SessionKey) -> None:
        """A message stored again with other content keeps its place and time, and its revision increases."""
        first, second = store.append(key, [counted("a", "one", tokens=3), counted("b")])
        (revised,) = store.append(key, [counted("a", "other", tokens=7, minute=9, name="Ann", metadata={"x": 1})])
        assert (revised.seq, revised.revision, revised.tokens) == (first.seq, 2, 7)
        assert revised.message == Message(Role.USER, "other", id="a", created_at=START, name="Ann", metadata={"x": 1})
        assert store.read(key) == [revised, second]
        (third,) = store.append(key, [counted("a", "one")])
        assert third.revision == 3
        assert sums(store, key) == (2, 20)

    def test_what_makes_a_revision(self, store: ConversationStore, key: SessionKey) -> None:
        """A change of any field of a message's content makes a new revision."""
        changes: list[dict[str, Any]] = [
            {"role": "system"}, {"content": "other"}, {"name": "Ann"}, {"tool_call_id": "t"},
            {"tool_calls": (ToolCall("f", {}, "c"),)},
            {"content": (ContentPart("text", text="hello"), ContentPart("image", url="http://x/y.png"))},
        ]  # fmt: skip
        store.append(key, [counted(f"m{n}") for n in range(len(changes))])
        revised = [store.append(key, [counted(f"m{n}", **change)])[0] for n, change in enumerate(changes)]
        assert [one.revision for one in revised] == [2] * len(changes)
        assert store.read(key) == revised

    def test_revisions_and_new_messages_together(self, store: ConversationStore, key: SessionKey) -> None:
        """One call may hold known, changed and new messages; the results are in its order."""
        a, b = store.append(key, [counted("a"), counted("b")])
        answers = store.append(key, [counted("c"), counted("b", "changed"), counted("a"), counted("d")])
        assert ids(answers) == ["c", "b", "a", "d"]
        assert answers[2] == a
        assert (answers[1].seq, answers[1].revision) == (b.seq, 2)
        assert ids(store.read(key)) == ["a", "b", "c", "d"]

    def test_a_message_given_twice_comes_back_twice(self, store: ConversationStore, key: SessionKey) -> None:
        """Duplicates in one call are stored once, as the first of them."""
        answers = store.append(key, [counted("a", metadata={"n": 1}), counted("b"), counted("a", metadata={"n": 2})])
        assert ids(answers) == ["a", "b", "a"]
        assert answers[0] == answers[2]
        assert answers[0].message.metadata == {"n": 1}
        assert store.read(key) == answers[:2]

    def test_two_contents_of_one_id_in_one_call(self, store: ConversationStore, key: SessionKey) -> None:
        """The last content wins, as a revision with the first one's time."""
        answers = store.append(key, [counted("a", "one", tokens=1), counted("a", "two", tokens=5, minute=3)])
        assert answers[0] == answers[1]
        assert (answers[0].message.content, answers[0].revision, answers[0].tokens) == ("two", 2, 5)
        assert answers[0].message.created_at == START
        assert store.read(key) == answers[:1]
        assert sums(store, key) == (1, 5)

    def test_a_bad_message_stops_the_whole_call(self, store: ConversationStore, key: SessionKey) -> None:
        """A call with an invalid message stores nothing, not even the conversation."""
        with pytest.raises(InvalidInputError, match=r"message\.metadata\.x"):
            store.append(key, [counted("a"), counted("b", metadata={"x": object()})])
        assert store.get(key) is None
        store.append(key, [counted("a")])
        with pytest.raises(InvalidInputError):
            store.append(key, [counted("a", "changed"), counted("b", metadata={"x": object()})])
        assert [one.message.content for one in store.read(key)] == ["hello"]

    def test_later_changes_to_a_given_mapping_are_not_seen(self, store: ConversationStore, key: SessionKey) -> None:
        """The store keeps a copy of its input, and hands out copies."""
        metadata = {"tags": ["a"]}
        store.append(key, [counted("a", metadata=metadata)])
        metadata["tags"].append("b")
        (stored,) = store.read(key)
        assert stored.message.metadata == {"tags": ["a"]}
        stored.message.metadata["tags"].append("c")
        assert store.read(key, ids=["a"])[0].message.metadata == {"tags": ["a"]}

    def test_threads_append_to_one_session(self, store: ConversationStore, key: SessionKey) -> None:
        """Concurrent writers lose and duplicate nothing, and the messages of each stay in order."""

        def write(writer: int) -> None:
            for number in range(15):
                store.append(key, [counted(f"{writer}-{number}", str(number))])

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(4)))
        stored = store.read(key)
        assert len({one.seq for one in stored}) == 60
        for writer in range(4):
            mine = [name for name in ids(stored) if name and name.startswith(f"{writer}-")]
            assert mine == [f"{writer}-{number}" for number in range(15)]
        assert sums(store, key) == (60, 600)

    def test_threads_append_the_same_messages(self, store: ConversationStore, key: SessionKey) -> None:
        """Writers that store the same messages at once agree on their places, and store each once."""
        given = [[counted(f"{number}-{part}") for part in range(2)] for number in range(12)]
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _: [store.append(key, batch) for batch in given], range(4)))
        assert all(answer == answers[0] for answer in answers)
        assert store.read(key) == [stored for batch in answers[0] for stored in batch]

    # The cap

    def test_a_cap_drops_whole_turns(self, store: ConversationStore, key: SessionKey) -> None:
        """The oldest whole turns are dropped; the newest turn and system messages stay; the record shows it."""
        names = {"u": "user", "a": "assistant", "s": "system", "t": "tool"}
        for roles, cap, left in _CAPS:
            of_roles = replace(key, session_id=f"{roles} {cap}")
            given = [counted(f"m{n}", role=names[role], tokens=n) for n, role in enumerate(roles)]
            store.append(of_roles, given[:-1])
            store.append(of_roles, given[-1:], max_messages=cap)
            stored = store.read(of_roles)
            assert "".join(one.message.role.value[0] for one in stored) == left, (roles, cap)
            assert sums(store, of_roles) == (len(left), sum(one.tokens for one in stored))
            (next_one,) = store.append(of_roles, [counted("next")])
            assert next_one.seq > stored[-1].seq

    def test_a_dropped_message_may_come_again(self, store: ConversationStore, key: SessionKey) -> None:
        """A dropped message counts as new when it is stored again."""
        store.append(key, [counted("a"), counted("b")])
        store.append(key, [counted("c")], max_messages=2)
        (again,) = store.append(key, [counted("a", "other")])
        assert again.revision == 1
        assert ids(store.read(key)) == ["b", "c", "a"]

    # Reading

    @pytest.fixture
    def ten(self, store: ConversationStore, key: SessionKey) -> list[StoredMessage]:
        """Store ten messages m0 … m9 of 0 … 9 tokens."""
        return store.append(key, [counted(f"m{n}", str(n), tokens=n) for n in range(10)])

    def test_read(self, store: ConversationStore, key: SessionKey, ten: list[StoredMessage]) -> None:
        """A read returns the newest messages, or the oldest after a place, and excludes the places it names."""
        for arguments, part in _READS:
            named: dict[str, Any] = {
                name: value if name == "limit" else ten[value].seq for name, value in arguments.items()
            }
            assert store.read(key, **named) == ten[part], arguments

    def test_read_far_away(self, store: ConversationStore, key: SessionKey, ten: list[StoredMessage]) -> None:
        """Places outside the session are accepted; `limit` does not count removed messages."""
        assert store.read(key, before=-5) == []
        assert store.read(key, after=-5) == ten
        store.remove(key, ["m0", "m1"])
        assert store.read(key, after=0, limit=2) == ten[2:4]

    def test_read_single_messages(self, store: ConversationStore, key: SessionKey, ten: list[StoredMessage]) -> None:
        """Reading by id or place returns the existing messages, in conversation order, each once."""
        assert store.read(key, ids=["m7", "nowhere", "m2", "m7"]) == [ten[2], ten[7]]
        places = [stored.seq for stored in ten]
        store.remove(key, ["m3"])
        assert store.read(key, seqs=[places[7], places[3], 2**40, places[2], places[7]]) == [ten[2], ten[7]]
        assert store.read(key, ids=[]) == store.read(key, seqs=[]) == []

    def test_nothing_there(self, store: ConversationStore, key: SessionKey) -> None:
        """A conversation that does not exist is empty, and reading does not make it."""
        assert store.read(key) == store.read(key, ids=["a"]) == []
        assert store.remove(key, ["a"]) == 0
        assert store.append(key, []) == []
        assert store.delete(key, keep_session=True) is store.delete(key) is None
        assert store.get(key) is None
        assert store.page(key.caller_id).conversations == ()

    # The record

    def test_record(self, store: ConversationStore, key: SessionKey) -> None:
        """The record holds the conversation's owner, times and sums."""
        begin = datetime.now(UTC)
        calls = (ToolCall("f", {"x": 1}, "c1"), ToolCall("g", {}, "c2"))
        store.append(key, [counted("a", tokens=3, minute=1)])
        store.append(key, [counted("b", None, role="assistant", tokens=4, minute=2, tool_calls=calls)])
        record = record_of(store, key)
        assert record.key == key
        assert (record.message_count, record.tool_calls_count, record.total_tokens) == (2, 2, 7)
        assert record.status == "active"
        assert begin - timedelta(seconds=5) < record.created_at < record.updated_at <= datetime.now(UTC)
        assert record.last_message_at == START + timedelta(minutes=2)
        store.append(key, [counted("b", "done", role="assistant", tokens=1, tool_calls=calls[:1])])
        store.remove(key, ["a"])
        record = record_of(store, key)
        assert (record.message_count, record.tool_calls_count, record.total_tokens) == (1, 1, 1)

    # Removing

    def test_remove(self, store: ConversationStore, key: SessionKey, ten: list[StoredMessage]) -> None:
        """Single messages are removed and counted; not even the newest one's place is used again."""
        assert store.remove(key, ["m3", "nowhere", "m3", "m8"]) == 2
        assert store.remove(key, ["m3"]) == 0 == store.remove(key, [])
        assert store.read(key) == ten[:3] + ten[4:8] + ten[9:]
        store.remove(key, ["m9"])
        (new,) = store.append(key, [counted("new")])
        assert new.seq > ten[9].seq

    def test_clear_keeps_the_session(self, store: ConversationStore, key: SessionKey, ten: list[StoredMessage]) -> None:
        """After a clear, the record exists and is empty, and places continue."""
        before = record_of(store, key)
        assert store.delete(key, keep_session=True) == 10
        assert store.delete(key, keep_session=True) == 0
        record = record_of(store, key)
        assert (record.message_count, record.tool_calls_count, record.total_tokens) == (0, 0, 0)
        assert record.created_at == before.created_at
        (again,) = store.append(key, [counted("m0")])
        assert again.seq > ten[-1].seq
        assert again.revision == 1

    def test_delete(self, store: ConversationStore, key: SessionKey, ten: list[StoredMessage]) -> None:
        """A deleted session leaves nothing; one with the same id is new, and may be another user's."""
        assert store.read(key) == ten
        assert store.delete(key) == 10
        assert store.delete(key) is None
        assert store.get(key) is None
        assert store.read(key) == store.read(key, ids=["m1"]) == []
        other = SessionKey(key.session_id, key.caller_id, "somebody else")
        (new,) = store.append(other, [counted("m1", "mine")])
        assert new.revision == 1
        assert store.read(other) == [new]
        assert sums(store, other) == (1, 10)

    # Listing

    def test_listing_pages(self, store: ConversationStore, key: SessionKey) -> None:
        """Pages are newest first, complete, and unaffected by sessions created in between."""
        keys = [SessionKey(f"s{n}", key.caller_id) for n in range(7)]
        for one in keys:
            store.append(one, [counted("a")])
        page = store.page(key.caller_id, limit=3)
        seen = [record.key for record in page.conversations]
        while page.next_cursor is not None:
            store.append(SessionKey(f"new{len(seen)}", key.caller_id), [counted("a")])
            store.append(keys[0], [counted(f"more{len(seen)}")])
            page = store.page(key.caller_id, limit=3, cursor=page.next_cursor)
            assert 1 <= len(page.conversations) <= 3
            seen += [record.key for record in page.conversations]
        assert seen == keys[::-1]

    def test_listing_goes_on_when_the_last_one_is_deleted(self, store: ConversationStore, key: SessionKey) -> None:
        """A cursor stays valid after its conversation is deleted."""
        for number in range(4):
            store.append(SessionKey(f"s{number}", key.caller_id), [counted("a")])
        page = store.page(key.caller_id, limit=2)
        store.delete(page.conversations[-1].key)
        rest = store.page(key.caller_id, limit=2, cursor=page.next_cursor)
        assert [record.key.session_id for record in rest.conversations] == ["s1", "s0"]
        assert rest.next_cursor is None

    def test_listing_by_user(self, store: ConversationStore, key: SessionKey) -> None:
        """A user's listing holds that user's sessions of that caller only."""
        for number in range(6):
            store.append(SessionKey(f"s{number}", key.caller_id, "even" if number % 2 == 0 else None), [counted("a")])
        store.append(SessionKey("s0", f"{key.caller_id}-other", "even"), [counted("a")])
        page = store.page(key.caller_id, user_id="even", limit=2)
        rest = store.page(key.caller_id, user_id="even", limit=2, cursor=page.next_cursor)
        found = [record.key for record in page.conversations + rest.conversations]
        assert found == [SessionKey(f"s{n}", key.caller_id, "even") for n in (4, 2, 0)]
        assert store.page(key.caller_id, user_id="nobody").conversations == ()
        assert len(store.page(key.caller_id).conversations) == 6

    # Whose it is

    def test_another_user_finds_nothing(
        self, store: ConversationStore, key: SessionKey, ten: list[StoredMessage]
    ) -> None:
        """The first write binds the session to its user; another user can neither find nor change it."""
        before = store.get(key)
        for other in ("somebody else", None):
            theirs = SessionKey(key.session_id, key.caller_id, other)
            for number, call in enumerate(_CALLS):
                assert is_refused(SessionNotFoundError, call, store, theirs), (other, number)
                assert store.read(key) == ten, (other, number)
                assert store.get(key) == before, (other, number)

    def test_another_caller_has_another_session(
        self, store: ConversationStore, key: SessionKey, ten: list[StoredMessage]
    ) -> None:
        """The same session id under another caller is another conversation."""
        other = SessionKey(key.session_id, f"{key.caller_id}-other", key.user_id)
        assert store.read(other) == []
        assert store.get(other) is None
        assert store.delete(other) is None
        (mine,) = store.append(other, [counted("m1", "other")])
        assert mine.revision == 1
        assert store.delete(other, keep_session=True) == 1
        assert store.read(key) == ten
        assert len(store.page(other.caller_id).conversations) == 1

    # Bad input

    def test_bad_input(self, store: ConversationStore, key: SessionKey) -> None:
        """Invalid input is refused by name, and nothing is written."""
        taken = [n for n, call in enumerate(_WRONG) if not is_refused(InvalidInputError, call, store, key)]
        assert taken == []
        assert store.get(key) is None

    def test_hostile_identifiers(self, store: ConversationStore, key: SessionKey) -> None:
        """Ids are data: quotes, wildcards and any script are kept apart."""
        names = [
            "'; DROP TABLE arc_sessions; --",
            "%",
            "_",
            "A",
            "a",
            "\u00e9",
            "e\u0301",
            "안녕",
            "🎉",
            ":x",
            "%(x)s",
            "x" * 255,
        ]
        for name in names:
            one = SessionKey(name, key.caller_id, user_id=name)
            store.append(one, [counted(name, name)])
            store.append(one, [counted(other, other) for other in names])
        for name in names:
            one = SessionKey(name, key.caller_id, user_id=name)
            assert set(ids(store.read(one))) == set(names)
            assert ids(store.read(one, ids=[name])) == [name]
            assert len(store.page(key.caller_id, user_id=name).conversations) == 1

    # Branches

    def test_a_fork_shares_what_came_before(self, store: ConversationStore, key: SessionKey) -> None:
        """A fork shows the messages up to its point and then its own; the branch it came from shows none of these."""
        store.append(key, [counted("a"), counted("b"), counted("c")])
        (fork,) = store.branch(key, "fork", at="b", name="idea")
        there = replace(key, branch=fork.id)
        assert (fork.name, fork.parent, fork.message_count, fork.is_current) == ("idea", 0, 2, False)
        store.append(there, [counted("d", tokens=5)])
        store.append(key, [counted("e")])
        assert (ids(store.read(there)), ids(store.read(key))) == (["a", "b", "d"], ["a", "b", "c", "e"])
        assert ids(store.read(there, limit=2)) == ["b", "d"]
        assert ids(store.read(there, ids=["a", "c", "d", "e"])) == ["a", "d"]
        assert sums(store, there) == (3, 25)
        assert [one.message_count for one in store.branch(key, "list")] == [4, 3]

    def test_a_rewind_moves_the_session(self, store: ConversationStore, key: SessionKey) -> None:
        """After a rewind, a key without a branch is on the fork, and the old branch is kept but not live."""
        store.append(key, [counted("a"), counted("b"), counted("c")])
        (back,) = store.branch(key, "rewind", at="a")
        assert store.append(key, [counted("d")])[0].branch == back.id
        assert ids(store.read(key)) == ["a", "d"]
        assert ids(store.read(replace(key, branch=0))) == ["a", "b", "c"]
        assert [(one.is_current, one.is_live) for one in store.branch(key, "list")] == [(False, False), (True, True)]
        store.branch(replace(key, branch=0), "switch")
        assert ids(store.read(key)) == ["a", "b", "c"]

    def test_an_edit_of_a_shared_message_forks_before_it(self, store: ConversationStore, key: SessionKey) -> None:
        """Other branches keep the old text; the edited one shows the new text and all that followed."""
        store.append(key, [counted("a", "one"), counted("b"), counted("c")])
        (fork,) = store.branch(key, "fork", at="b")
        (edited,) = store.append(key, [counted("a", "other")])
        assert (edited.revision, edited.branch) == (2, fork.id + 1)
        assert [(one.message.id, one.message.text) for one in store.read(key)] == [
            ("a", "other"), ("b", "hello"), ("c", "hello"),
        ]  # fmt: skip
        assert [one.message.text for one in store.read(replace(key, branch=fork.id))] == ["one", "hello"]
        (own,) = store.append(key, [counted("c", "changed")])
        assert own.branch == edited.branch  # nobody else shows it

    def test_a_message_is_removed_on_every_branch(self, store: ConversationStore, key: SessionKey) -> None:
        """People remove messages for privacy: copies and shared messages go too."""
        store.append(key, [counted("a"), counted("b"), counted("c")])
        (fork,) = store.branch(key, "fork", at="b")
        store.append(key, [counted("a", "edited")])
        assert store.remove(key, ["b"]) == 1
        found = [ids(store.read(replace(key, branch=branch))) for branch in (0, fork.id, fork.id + 1)]
        assert found == [["a", "c"], ["a"], ["a", "c"]]
        assert [one.message_count for one in store.branch(key, "list")] == [2, 1, 2]

    def test_a_deleted_branch_takes_only_its_own(self, store: ConversationStore, key: SessionKey) -> None:
        """Deleting a branch leaves the messages that others show; the current one, and unknown ones, are refused."""
        store.append(key, [counted("a"), counted("b")])
        (fork,) = store.branch(key, "rewind", at="a")
        store.append(key, [counted("c")])
        with pytest.raises(InvalidInputError, match="current"):
            store.branch(replace(key, branch=fork.id), "delete")
        store.branch(replace(key, branch=0), "delete")
        assert ids(store.read(key)) == ["a", "c"]
        for call in (store.read, store.get, lambda gone: store.append(gone, [counted("d")])):
            with pytest.raises(BranchNotFoundError):
                call(replace(key, branch=0))
            with pytest.raises(BranchNotFoundError):
                call(replace(key, session_id="another", branch=1))
        store.append(key, [counted("a", "edited")])
        assert [one.message.text for one in store.read(key)] == ["edited", "hello"]
        assert store.delete(key, keep_session=True) == 2
        assert [one.id for one in store.branch(key, "list")] == [0]

    def test_a_name_names_one_branch(self, store: ConversationStore, key: SessionKey) -> None:
        """A second branch with a name is refused; a rewind, or an edit that forks, passes the name on."""
        store.append(key, [counted("a"), counted("b"), counted("c")])
        (fork,) = store.branch(key, "fork", at="b", name="idea")
        assert fork.forked_at == "b"
        with pytest.raises(InvalidInputError, match=r"'idea'.*no other branch"):
            store.branch(key, "fork", name="idea")
        (edited,) = store.append(replace(key, branch=fork.id), [counted("a", "other")])
        assert _named(store, key) == {"idea": edited.branch}
        (back,) = store.branch(replace(key, branch=edited.branch), "rewind", at="a")
        assert (back.name, back.forked_at) == ("idea", "a")
        assert _named(store, key) == {"idea": back.id}
        assert [one.is_live for one in store.branch(key, "list")] == [True, False, False, True]
        assert [one.forked_at for one in store.branch(key, "list")] == [None, "b", None, "a"]

    def test_a_cap_removes_nothing_while_branches_share(self, store: ConversationStore, key: SessionKey) -> None:
        """Messages that another branch shows are not dropped; once there is one branch again, the cap applies."""
        store.append(key, [counted("a"), counted("b")])
        (fork,) = store.branch(key, "fork")
        store.append(key, [counted("c")], max_messages=2)
        assert ids(store.read(key)) == ["a", "b", "c"]
        store.branch(replace(key, branch=fork.id), "delete")
        store.append(key, [counted("d")], max_messages=2)
        assert ids(store.read(key)) == ["c", "d"]
        store.branch(key, "rewind", at="c")
        store.append(key, [counted("e")])
        store.branch(replace(key, branch=0), "delete")
        store.append(key, [counted("f")], max_messages=2)
        assert ids(store.read(key)) == ["e", "f"]
        assert record_of(store, key).message_count == 2

    def test_branches_belong_to_their_user(self, store: ConversationStore, key: SessionKey) -> None:
        """Another user can neither list nor make branches, and a fork needs a stored message."""
        store.append(key, [counted("a")])
        for action in ("list", "fork", "rewind"):
            with pytest.raises(SessionNotFoundError):
                store.branch(replace(key, user_id="stranger"), action)
        with pytest.raises(InvalidInputError, match="at"):
            store.branch(key, "fork", at="other")
        with pytest.raises(InvalidInputError, match="branch"):
            store.branch(key, "switch")
        missing = replace(key, session_id="missing")
        assert store.branch(missing, "list") == []
        with pytest.raises(SessionNotFoundError):
            store.branch(missing, "fork")

    # Runs that start from checkpoints

    def test_a_run_follows_its_own_newest_message(self, store: ConversationStore, key: SessionKey) -> None:
        """Messages that other writers and threads stored meanwhile stay before it; nothing forks."""
        (first,) = store.append(key, [counted("a")], after=After("thread"))
        assert (first.branch, first.thread) == (0, "thread")
        main = replace(key, branch=0)
        store.append(key, [counted("other")])
        store.append(main, [counted("b")], after=After("another", first.seq))
        (second,) = store.append(main, [counted("c")], after=After("thread", first.seq))
        assert store.append(main, [counted("d")], after=After("thread", second.seq))[0].branch == 0
        assert ids(store.read(key)) == ["a", "other", "b", "c", "d"]
        assert [one.thread for one in store.read(key)] == ["thread", None, "another", "thread", "thread"]

    def test_a_run_from_an_earlier_place_goes_on_on_a_fork(self, store: ConversationStore, key: SessionKey) -> None:
        """The fork is current and shows the messages that the run saw; ids may repeat; the old branch can continue."""
        a, b, c = store.append(key, [counted("a"), counted("b", tokens=5), counted("c")], after=After("thread"))
        main = replace(key, branch=0)
        again = store.append(main, [counted("b"), counted("c", "new", tokens=7)], after=After("thread", b.seq))
        fork = replace(key, branch=again[1].branch)
        assert [(one.branch, one.revision) for one in again] == [(1, 1), (1, 1)]
        assert [one.message.text for one in store.read(key)] == ["hello", "hello", "new"]
        assert ids(store.read(main)) == ["a", "b", "c"]
        record = record_of(store, key)
        assert (record.message_count, record.total_tokens, record.last_seq) == (3, 22, c.seq)
        store.append(main, [counted("d")], after=After("thread", c.seq))
        assert ids(store.read(key)) == ["a", "b", "c", "d"]
        assert [(one.is_current, one.is_live) for one in store.branch(key, "list")] == [(True, True), (False, False)]
        store.append(fork, [counted("e")], after=After("thread", again[1].seq))
        assert ids(store.read(key)) == ["a", "b", "c", "e"]
        assert ids(store.read(fork, after=a.seq, before=c.seq)) == ["b"]

    def test_a_run_that_is_tried_again_finds_its_fork(self, store: ConversationStore, key: SessionKey) -> None:
        """The same first messages from the same place make no second fork; others do."""
        a, _ = store.append(key, [counted("a"), counted("b")], after=After("thread"))
        main, after = replace(key, branch=0), After("thread", a.seq)
        branches = [store.append(main, [counted("a")], after=after)[0].branch for _ in range(2)]
        branches += [store.append(main, [counted("c")], after=after)[0].branch for _ in range(2)]
        branches += [store.append(main, [counted("c"), counted("d")], after=after)[0].branch]
        branches += [store.append(main, [counted("e")], after=after)[0].branch]
        assert branches == [1, 1, 1, 1, 1, 2]
        assert ids(store.read(replace(key, branch=1))) == ["a", "c", "d"]

    def test_a_run_without_messages_that_were_removed(self, store: ConversationStore, key: SessionKey) -> None:
        """It continues on a fork before the first of them, with the messages that follow, edits included."""
        stored = store.append(key, [counted(name) for name in "abcd"], after=After("thread"))
        main, places = replace(key, branch=0), [one.seq for one in stored]
        after = After("thread", places[3], without=(places[1],))
        kept = store.append(main, [counted("c", "edited"), counted("e")], after=after)
        fork = replace(key, branch=kept[0].branch)
        assert [(one.message.id, one.message.text) for one in store.read(fork)] == [
            ("a", "hello"), ("c", "edited"), ("d", "hello"), ("e", "hello"),
        ]  # fmt: skip
        assert [one.seq for one in kept] == [places[2], places[3] + 1]
        assert ids(store.read(main)) == ["a", "b", "c", "d"]
        assert [one.message_count for one in store.branch(key, "list")] == [4, 4]
        everything = After("thread", kept[1].seq, without=(places[0], *places[2:], kept[1].seq))
        (alone,) = store.append(fork, [counted("f")], after=everything)
        assert ids(store.read(replace(key, branch=alone.branch))) == ids(store.read(key)) == ["f"]

    def test_a_run_leaves_named_branches_live(self, store: ConversationStore, key: SessionKey) -> None:
        """It makes its own branch current; a named branch stays live."""
        (stored,) = store.append(key, [counted("a")], after=After("thread"))
        (fork,) = store.branch(key, "fork", name="idea")
        store.branch(replace(key, branch=fork.id), "switch")
        store.append(replace(key, branch=0), [counted("b")], after=After("thread", stored.seq))
        assert [(one.is_current, one.is_live) for one in store.branch(key, "list")] == [(True, True), (False, True)]

    def test_runs_of_a_thread_at_once(self, store: ConversationStore, key: SessionKey) -> None:
        """The first of several runs from one place continues there, and each other one on a fork of its own."""
        (first,) = store.append(key, [counted("a")], after=After("thread"))

        def run(name: str) -> list[str | None]:
            (question,) = store.append(replace(key, branch=0), [counted(f"{name}?")], after=After("thread", first.seq))
            mine = replace(key, branch=question.branch)
            (answer,) = store.append(mine, [counted(f"{name}!")], after=After("thread", question.seq))
            assert answer.branch == question.branch
            return ids(store.read(mine))

        with ThreadPoolExecutor(4) as pool:
            seen = list(pool.map(run, "bcdefghi"))
        assert seen == [["a", f"{name}?", f"{name}!"] for name in "bcdefghi"]
        assert len(store.branch(key, "list")) == 8
        assert [one.is_live for one in store.branch(key, "list")].count(True) == 1

    def test_a_place_that_is_none(self, store: ConversationStore, key: SessionKey) -> None:
        """Nothing is stored."""
        wrong: list[Any] = [("",), ("x" * 33,), ("thread", "1"), ("thread", 1, (None,))]
        for after in wrong:
            with pytest.raises(InvalidInputError, match=r"after\.thread|after\.seq|seqs"):
                store.append(key, [counted("a")], after=After(*after))
        assert store.get(key) is None
