"""The contract of every `Records` store, as tests that a backend inherits."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from arc_common.exceptions import InvalidInputError
from arc_common.memories import Memory, MemoryStatus, MemoryType, Pin, Wording
from arc_common.messages import Message, Role
from arc_common.protocols import CountedMessage, SessionKey
from arc_common.protocols.conversations import Store
from arc_common.protocols.records import MOST_REVISIONS, Progress, RecordChange, Records
from arc_common.protocols.search_index import Scope
from arc_common.testing.conversation_store_contract import is_refused

START = datetime(2026, 1, 1, tzinfo=UTC)

ODD = [
    "a' OR '1'='1",
    'a"; DROP TABLE arc_records; --',
    "a%_\\",
    "한국어",
    "🎉👩‍👩‍👧",
    "e\u0301",
    "é",
    "tab\tand\nline",
]


def a_memory(memory_id: str, text: str = "", *, minutes: int = 0, **values: Any) -> Memory:
    """Create a memory said `minutes` after the start."""
    moment = START + timedelta(minutes=minutes)
    return Memory(memory_id, text or f"text of {memory_id}", moment, moment, **values)


def said(memory_id: str, *sources: str, **values: Any) -> Memory:
    """Create a memory stated by messages, each named by its session and its own id, as in "s m1"."""
    pairs = tuple((session, message) for session, message in map(str.split, sources))
    return a_memory(memory_id, sources=pairs, **values)


def names(memories: Sequence[Memory]) -> list[str]:
    """Return the memories' ids."""
    return [memory.id for memory in memories]


class RecordsContract:
    """Inherit from this class and provide the fixtures `store` and `conversations`."""

    @pytest.fixture
    def conversations(self) -> Store:
        """Return the store that the records belong to."""
        raise NotImplementedError

    @pytest.fixture
    def store(self) -> Records:
        """Return the store to test."""
        raise NotImplementedError

    @pytest.fixture
    def scope(self) -> Scope:
        """Return a user's scope that no other test uses."""
        return Scope(f"caller-{uuid4()}", "user")

    @pytest.fixture
    def key(self, scope: Scope) -> SessionKey:
        """Return a session of the scope's user."""
        return SessionKey("s", scope.caller_id, scope.user_id)

    def put(self, store: Records, scope: Scope, *memories: Memory, removed: Sequence[str] = ()) -> int:
        """Put memories at the current version; return the new version."""
        version = store.changes(scope).version
        new = store.commit(scope, RecordChange(memories, tuple(removed)), version=version)
        assert new is not None
        return new

    # Put, get, list

    def test_what_is_put_comes_back(self, store: Records, scope: Scope) -> None:
        """A memory comes back with all its fields; times are the same instants, in UTC."""
        memory = a_memory(
            "a",
            "Lives in Seoul.",
            type=MemoryType.PREFERENCE,
            importance=0.9,
            status=MemoryStatus.PENDING,
            sources=(("s1", "m1"), ("s2", "m2")),
            superseded_by="b",
            last_accessed_at=START + timedelta(days=1, microseconds=3),
            metadata={"n": 1, "list": [1, "한"], "deep": {"none": None}, "tuple": (1, 2)},
            speaker="Mina",
        )
        self.put(store, scope, memory)
        assert store.find(scope, ["a"]) == [memory]
        assert store.changes(scope).memories == (memory,)

    def test_any_text_comes_back(self, store: Records, scope: Scope) -> None:
        """Text that looks like SQL, or like another normal form, is only text."""
        memories = [a_memory(odd, odd, sources=((odd, odd),), superseded_by=odd, metadata={odd: odd}) for odd in ODD]
        self.put(store, scope, *memories)
        assert store.find(scope, ODD) == memories

    def test_metadata_are_the_store_s_own(self, store: Records, scope: Scope) -> None:
        """Changing the metadata given or returned does not change what is stored."""
        given = {"tags": ["a"]}
        self.put(store, scope, a_memory("a", metadata=given))
        given["tags"].append("b")
        (first,) = store.find(scope, ["a"])
        first.metadata["tags"].append("c")
        assert store.find(scope, ["a"])[0].metadata == {"tags": ["a"]}

    def test_a_memory_takes_the_place_of_the_one_with_its_id(self, store: Records, scope: Scope) -> None:
        """Nothing of the replaced memory remains."""
        self.put(store, scope, a_memory("a", "old", sources=(("s", "m"),), metadata={"v": 1}), a_memory("b"))
        self.put(store, scope, a_memory("a", "new"))
        assert store.find(scope, ["b", "a", "b", "none"]) == [a_memory("b"), a_memory("a", "new")]
        assert store.forget(SessionKey("s", scope.caller_id, "user")) == 0

    def test_the_newest_come_first(self, store: Records, scope: Scope) -> None:
        """Memories are ordered by time, newest first, then by id in code point order."""
        self.put(
            store, scope, a_memory("old"), a_memory("b", minutes=1), a_memory("B", minutes=1), a_memory("é", minutes=1)
        )
        assert names(store.find(scope)) == ["B", "b", "é", "old"]
        assert names(store.find(scope, limit=2)) == ["B", "b"]
        assert store.find(scope, limit=0) == []

    def test_listing_by_status_type_and_history(self, store: Records, scope: Scope) -> None:
        """Pending, rejected and superseded memories are listed on request."""
        self.put(
            store,
            scope,
            a_memory("fact"),
            a_memory("insight", type=MemoryType.INSIGHT),
            a_memory("waits", status=MemoryStatus.PENDING),
            a_memory("no", status=MemoryStatus.REJECTED),
            a_memory("was", superseded_by="fact"),
        )
        assert names(store.find(scope)) == ["fact", "insight"]
        assert names(store.find(scope, type=MemoryType.INSIGHT)) == ["insight"]
        assert names(store.find(scope, status=MemoryStatus.PENDING)) == ["waits"]
        assert names(store.find(scope, include_superseded=True)) == ["fact", "insight", "was"]
        assert len(store.find(scope, status=None, include_superseded=True)) == 5

    def test_an_earlier_revision_stays_as_history(self, store: Records, scope: Scope, key: SessionKey) -> None:
        """Only the newest revision is listed; all go with the memory, and the earlier ones with a lost source."""
        first = said("a", "s m", "t n", tags=("x", "한"), valid_until=START + timedelta(days=1))
        second = replace(first, text="later", revision=2, revised_at=START, tags=(), valid_until=None)
        self.put(store, scope, first)
        self.put(store, scope, second, a_memory("b"))
        assert store.find(scope, ["a"]) == [second]
        assert store.find(scope, ["a"], history=True) == [first, second]
        assert store.find(scope, history=True) == [first, second, a_memory("b")]
        assert names(store.find(scope, status=None, include_superseded=True)) == ["a", "b"]
        assert store.changes(scope).memories == (second, a_memory("b"))
        store.forget(key, ["m"])
        assert store.find(scope, ["a"], history=True) == [replace(second, sources=(("t", "n"),))]
        self.put(store, scope, replace(second, revision=3), removed=["b"])
        assert store.erase(scope) == 1
        assert store.find(scope, history=True) == []

    def test_the_oldest_revisions_leave(self, store: Records, scope: Scope) -> None:
        """Only revisions of the same memory count, and the newest ones are kept."""
        self.put(store, scope, a_memory("a"), a_memory("b"))
        for number in range(2, MOST_REVISIONS + 4):
            self.put(store, scope, replace(a_memory("a"), text=f"text {number}", revision=number, revised_at=START))
        kept = store.find(scope, ["a"], history=True)
        assert [one.revision for one in kept] == list(range(4, MOST_REVISIONS + 4))
        assert store.find(scope, ["a", "b"]) == [kept[-1], a_memory("b")]
        assert store.find(scope, ["b"], history=True) == [a_memory("b")]

    def test_what_is_no_longer_valid_is_listed_on_request(self, store: Records, scope: Scope) -> None:
        """A memory whose validity has ended is listed like a superseded one."""
        self.put(store, scope, a_memory("was", valid_until=START), a_memory("is", valid_until=START.replace(year=9999)))
        assert names(store.find(scope)) == ["is"]
        assert names(store.find(scope, include_superseded=True)) == ["is", "was"]

    # Pins

    def test_pins_of_a_session(self, conversations: Store, store: Records, scope: Scope, key: SessionKey) -> None:
        """A session's pins and its scopes' pinned memories are read, oldest first; a pin needs no version."""

        def pins(of: SessionKey) -> list[Pin]:
            return list(conversations.summaries.state(of, limit=0).pins)

        own, caller = Scope(key.caller_id, key.user_id, key.session_id), Scope(scope.caller_id)
        pin = Pin("p", "한 줄\n<arc:pins>", START + timedelta(hours=1), "m", "Ann", START)
        said = Message(Role.USER, pin.text, id="m", name="Ann", created_at=START)
        conversations.append(key, [CountedMessage(said, 5, "words")])
        assert store.commit(own, RecordChange(pins=(pin,)), version=None)
        self.put(
            store, scope, a_memory("u", pinned=True), a_memory("not"), a_memory("no", pinned=True, status="REJECTED")
        )
        self.put(store, caller, a_memory("c", minutes=90, pinned=True), a_memory("was", pinned=True, valid_until=START))
        expected = [Pin("u", "text of u", START), pin, Pin("c", "text of c", START + timedelta(minutes=90))]
        assert pins(key) == expected
        assert pins(SessionKey("other", key.caller_id, key.user_id)) == [expected[0], expected[2]]
        assert pins(SessionKey("of bob", key.caller_id, "bob")) == [expected[2]]
        assert store.find(own, status=None) == []
        assert store.commit(own, RecordChange(removed=("p",)), version=None)
        assert pins(key) == [expected[0], expected[2]]
        store.commit(own, RecordChange(pins=(pin,)), version=None)
        store.forget(key)
        assert pins(key) == [expected[0], expected[2]]

    # Versions

    def test_a_commit_needs_the_version(self, store: Records, scope: Scope) -> None:
        """A commit against an older version is refused, and nothing is written."""
        first = store.commit(scope, RecordChange((a_memory("a"),)), version=0)
        assert first is not None
        for stale in (0, first + 1, first - 1):
            assert store.commit(scope, RecordChange((a_memory("b"),)), version=stale) is None
        assert names(store.find(scope)) == ["a"]
        second = store.commit(scope, RecordChange((a_memory("b"),)), version=first)
        assert second is not None
        assert second > first

    def test_of_two_writers_one_commits(self, store: Records, scope: Scope) -> None:
        """Only one of two concurrent writers commits, even in an empty scope."""
        for _ in range(3):
            version = store.changes(scope).version
            with ThreadPoolExecutor(4) as pool:
                made = list(
                    pool.map(
                        lambda n, version=version: store.commit(
                            scope, RecordChange((a_memory(f"{version}-{n}"),)), version=version
                        ),
                        range(4),
                    )
                )
            assert sum(one is not None for one in made) == 1
        assert len(store.find(scope)) == 3

    def test_updates_are_what_changed(self, store: Records, scope: Scope) -> None:
        """A reader with a version gets the later changes, and everything after a removal."""
        assert store.changes(scope).version == 0
        assert store.changes(scope).is_whole
        first = self.put(store, scope, a_memory("a"), a_memory("b"))
        assert store.changes(scope, after=first).memories == ()
        second = self.put(store, scope, a_memory("a", "changed"), a_memory("c"))
        news = store.changes(scope, after=first)
        assert (news.version, sorted(names(news.memories)), news.is_whole) == (second, ["a", "c"], False)
        self.put(store, scope, removed=["b"])
        news = store.changes(scope, after=second)
        assert (sorted(names(news.memories)), news.is_whole) == (["a", "c"], True)

    def test_a_scope_that_was_emptied_is_not_taken_for_what_it_was(self, store: Records, scope: Scope) -> None:
        """An old version is invalid after the scope was removed and recreated."""
        first = self.put(store, scope, a_memory("a"))
        assert store.erase(scope) == 1
        assert store.changes(scope, after=first) == store.changes(scope)
        assert store.commit(scope, RecordChange((a_memory("b"),)), version=first) is None
        self.put(store, scope, a_memory("c"))
        assert names(store.changes(scope).memories) == ["c"]

    def test_removing(self, store: Records, scope: Scope) -> None:
        """Removing an unknown memory is allowed."""
        self.put(store, scope, said("a", "s m"), a_memory("b"))
        self.put(store, scope, removed=["a", "none"])
        assert names(store.find(scope)) == ["b"]
        assert store.forget(SessionKey("s", scope.caller_id, "user")) == 0

    def test_touching(self, store: Records, scope: Scope) -> None:
        """Access changes only the named memories, and keeps the version; neither it nor a put moves a time back."""
        version = self.put(store, scope, a_memory("a"), a_memory("b"))
        later, earlier = START + timedelta(hours=2), START + timedelta(hours=1)
        for accessed in ({"a": later, "none": later}, {"a": earlier}, {}):
            assert store.commit(scope, RecordChange(accessed=accessed), version=None) == 0
        assert [memory.last_accessed_at for memory in store.find(scope, ["a", "b"])] == [later, None]
        assert store.changes(scope).version == version
        for stale in (a_memory("a", last_accessed_at=earlier), a_memory("a"), a_memory("b", last_accessed_at=later)):
            self.put(store, scope, stale)
        assert [memory.last_accessed_at for memory in store.find(scope, ["a", "b"])] == [later, later]

    # Scopes

    def test_each_scope_sees_its_own(self, store: Records, scope: Scope) -> None:
        """The same id in another caller's, user's or session's scope is another memory."""
        caller = scope.caller_id
        places = [
            scope, Scope(caller), Scope(caller, "other"), Scope(caller, "user", "s"), Scope(caller, None, "s"),
            Scope(f"{caller}-other", "user"),
        ]  # fmt: skip
        for number, place in enumerate(places):
            self.put(store, place, a_memory("a", f"text {number}"))
        for number, place in enumerate(places):
            assert [memory.text for memory in store.find(place)] == [f"text {number}"]
            assert [memory.text for memory in store.find(place, ["a"])] == [f"text {number}"]
            assert [memory.text for memory in store.changes(place).memories] == [f"text {number}"]
        self.put(store, scope, removed=["a"])
        store.commit(Scope(caller), RecordChange(accessed={"a": START}), version=None)
        assert [len(store.find(place)) for place in places] == [0, 1, 1, 1, 1, 1]
        assert store.find(Scope(caller, "other"), ["a"])[0].last_accessed_at is None

    def test_erasing_looks_inside(self, store: Records, scope: Scope) -> None:
        """Erasing a user's memories includes those of the user's sessions; another user's stay."""
        caller = scope.caller_id
        places = [scope, Scope(caller, "user", "s"), Scope(caller, "other"), Scope(caller)]
        for place in places:
            self.put(store, place, said("a", "s m"))
        assert store.erase(scope) == 2
        assert [len(store.find(place)) for place in places] == [0, 0, 1, 1]
        assert store.erase(Scope(caller)) == 2
        assert store.erase(Scope(caller)) == 0

    # Forgetting

    def test_a_session_takes_what_rests_on_it_alone(self, store: Records, scope: Scope, key: SessionKey) -> None:
        """A memory with other sources stays, without this session's; one entered by hand stays."""
        self.put(
            store,
            scope,
            said("only", "s m1", "s m2"),
            said("both", "s m1", "t m1", metadata={"k": 1}),
            a_memory("hand"),
        )
        assert store.forget(key) == 1
        assert names(store.find(scope)) == ["both", "hand"]
        (both,) = store.find(scope, ["both"])
        assert (both.sources, both.metadata) == ((("t", "m1"),), {"k": 1})
        assert store.forget(key) == 0

    def test_a_session_takes_its_own_scope_along(self, store: Records, scope: Scope, key: SessionKey) -> None:
        """The session's whole scope is removed, even memories entered by hand; other scopes stay."""
        own = Scope(scope.caller_id, "user", "s")
        others = [Scope(scope.caller_id, "user", "t"), Scope(scope.caller_id, "other", "s"), Scope(scope.caller_id)]
        for place in (own, *others):
            self.put(store, place, a_memory("hand"), said("said", "t m"))
        store.forget(key)
        assert [len(store.find(place)) for place in (own, *others)] == [0, 2, 2, 2]

    def test_messages_take_what_rests_on_them_alone(self, store: Records, scope: Scope, key: SessionKey) -> None:
        """Memories are removed in the user's, the caller's and the session's own scope."""
        own, caller = Scope(scope.caller_id, "user", "s"), Scope(scope.caller_id)
        for place in (own, scope, caller):
            self.put(
                store,
                place,
                said("one", "s m1"),
                said("two", "s m1", "s m2"),
                a_memory("hand"),
                said("elsewhere", "t m1"),
            )
        assert store.forget(key, ["m1", "m9"]) == 3
        for place in (own, scope, caller):
            assert names(store.find(place)) == ["elsewhere", "hand", "two"]
            assert store.find(place, ["two"])[0].sources == (("s", "m2"),)

    def test_another_user_s_session_of_the_same_name(self, store: Records, scope: Scope) -> None:
        """Another user, another caller or no user removes nothing."""
        self.put(store, scope, said("a", "s m"))
        for other in (
            SessionKey("s", scope.caller_id, "other"),
            SessionKey("s", f"{scope.caller_id}-other", "user"),
            SessionKey("s", scope.caller_id),
        ):
            assert store.forget(other) == 0
        assert len(store.find(scope)) == 1

    def test_what_was_superseded_holds_again(self, store: Records, scope: Scope, key: SessionKey) -> None:
        """A memory holds again when its successor loses all sources, along a whole chain."""
        self.put(
            store,
            scope,
            said("first", "t m1", superseded_by="second"),
            said("second", "s m2", superseded_by="third"),
            said("third", "t m3"),
            said("was", "t m1", superseded_by="is"),
            said("is", "s m1"),
        )
        assert store.forget(key) == 2
        held = {memory.id: memory.superseded_by for memory in store.find(scope, include_superseded=True)}
        assert held == {"first": "third", "third": None, "was": None}

    def test_an_edited_memory_holds_again_as_last_edited(self, store: Records, scope: Scope, key: SessionKey) -> None:
        """A superseded memory that was edited holds in its newest revision once its successor is gone."""
        was = said("was", "t m1", superseded_by="is")
        self.put(store, scope, was, said("is", "s m1"))
        self.put(store, scope, replace(was, text="edited", revision=2))
        store.forget(key)
        (memory,) = store.find(scope, status=None, include_superseded=True)
        assert (memory.text, memory.revision, memory.superseded_by) == ("edited", 2, None)
        assert [one.revision for one in store.find(scope, ["was"], history=True)] == [1, 2]

    def test_a_memory_that_loses_a_source_and_its_successor_at_once(
        self, store: Records, scope: Scope, key: SessionKey
    ) -> None:
        """Both changes are stored."""
        self.put(store, scope, said("was", "s m1", "t m1", superseded_by="is"), said("is", "s m2"))
        store.forget(key)
        assert store.find(scope) == [said("was", "t m1")]

    def test_an_edit_takes_what_rests_on_the_words_before(
        self, conversations: Store, store: Records, scope: Scope, key: SessionKey
    ) -> None:
        """The append itself removes dependent memories, whatever happens next; the same words remove none."""
        self.say(conversations, key, "m1", "m2")
        version = self.put(
            store,
            scope,
            said("only", "s m1"),
            said("both", "s m1", "s m2"),
            said("other", "t m1"),
            a_memory("before", superseded_by="only"),
        )
        self.say(conversations, key, "m1", "m3")
        assert store.changes(scope).version == version
        other_words = Message(Role.USER, "other words", id="m1", created_at=START)
        conversations.append(key, [CountedMessage(other_words, 1, "words")])
        there = {memory.id: memory for memory in store.find(scope)}
        assert sorted(there) == ["before", "both", "other"]
        assert there["both"].sources == (("s", "m2"),)
        assert there["before"].is_current

    @pytest.mark.parametrize("how", ["remove", "clear", "delete"])
    def test_what_is_removed_takes_what_rests_on_it_along(
        self, conversations: Store, store: Records, scope: Scope, key: SessionKey, how: str
    ) -> None:
        """Memories are removed along with the messages, even if the process ends right after."""
        own = Scope(scope.caller_id, scope.user_id, "s")
        self.say(conversations, key, "m1", "m2")
        self.put(store, own, a_memory("hand"), said("own", "s m1"))
        self.put(store, scope, said("only", "s m1"), said("other", "t m1"), a_memory("before", superseded_by="only"))
        if how == "remove":
            assert conversations.remove(key, ["m1"]) == 1
        else:
            assert conversations.delete(key, keep_session=how == "clear")
        assert names(store.find(scope)) == ["before", "other"]
        assert names(store.find(own)) == (["hand"] if how == "remove" else [])

    def test_words_last_as_long_as_what_says_them(self, store: Records, scope: Scope, key: SessionKey) -> None:
        """A remaining memory keeps only the words of its remaining sources, and is found by these."""
        longest = Wording("the longest words of all", (("s", "m1"),))
        both = Wording("words of two", (("s", "m1"), ("t", "m1")), "user")
        by_hand = Wording("short")
        many = a_memory("many", metadata={"k": 1}).worded([longest, both])
        entered = a_memory("entered").worded([longest, by_hand])
        gone = a_memory("gone").worded([longest, replace(longest, text="other")])
        self.put(store, scope, many, entered, gone)
        assert store.find(scope, ["many", "gone", "entered"]) == [many, gone, entered]
        assert store.forget(key) == 1
        (left,) = store.find(scope, ["many"])
        assert (left.text, left.sources, left.wordings) == ("words of two", (("t", "m1"),), ())
        assert left.metadata == {"k": 1, "said_by": "user"}
        assert store.find(scope, ["entered"]) == [replace(entered, text="short", sources=(), wordings=())]

    def test_forgetting_tells_those_who_know_an_older_version(
        self, store: Records, scope: Scope, key: SessionKey
    ) -> None:
        """A reader of an older version sees the removal, and a commit against that version is refused."""
        version = self.put(store, scope, said("a", "s m"), a_memory("b"))
        store.forget(key)
        assert store.commit(scope, RecordChange((a_memory("c"),)), version=version) is None
        news = store.changes(scope, after=version)
        assert (names(news.memories), news.is_whole) == (["b"], True)

    # Bad input

    def test_bad_input(self, store: Records, scope: Scope) -> None:
        """Invalid input is refused by name, and nothing is written."""
        wrong: list[Callable[[], object]] = [
            lambda: store.commit(scope, RecordChange((a_memory("a", metadata={"x": object()}),)), version=0),
            lambda: store.find(scope, "a"),
            lambda: store.find(scope, [""]),
            lambda: store.find(scope, limit=-1),
            lambda: store.commit(scope, RecordChange(accessed={"": START}), version=None),
            lambda: store.forget(SessionKey("s", scope.caller_id), "m"),
            lambda: store.forget(SessionKey("s", scope.caller_id), [""]),
        ]
        assert [n for n, call in enumerate(wrong) if not is_refused(InvalidInputError, call)] == []
        assert store.changes(scope).version == 0
        assert replace(store.changes(scope), version=0).memories == ()

    # Progress of reading sessions

    def say(self, conversations: Store, key: SessionKey, *ids: str) -> int:
        """Append messages; return the place of the last."""
        counted = [CountedMessage(Message(Role.USER, one, id=one, created_at=START), 1, "words") for one in ids]
        return conversations.append(key, counted)[-1].seq

    def read_on(self, store: Records, key: SessionKey, after: int, to: int, *more: Memory) -> bool:
        """Record that a session was read, with the memories found; return whether that was still right."""
        change = RecordChange(more, progress=Progress(key, after, to))
        return store.commit(Scope(key.caller_id, key.user_id), change, version=None) is not None

    def read_to(self, conversations: Store, key: SessionKey) -> tuple[int, int]:
        """Return the place up to which a session was read, and the place of its last message."""
        found = conversations.get(key)
        return (found.remembered_seq, found.last_seq) if found else (0, 0)

    def test_how_far_a_session_was_read(self, conversations: Store, store: Records, scope: Scope) -> None:
        """A late writer changes nothing, not even memories; a stranger, or no session, has read nothing."""
        key = SessionKey("s", scope.caller_id, "user")
        assert not self.read_on(store, key, 0, 3)
        end = self.say(conversations, key, "a", "b")
        assert self.read_to(conversations, key) == (0, end)
        assert self.read_on(store, key, 0, end, a_memory("a"))
        assert self.read_to(conversations, key) == (end, end)
        version = store.changes(scope).version
        assert not self.read_on(store, key, 0, end + 1, a_memory("late"))
        assert not self.read_on(store, SessionKey("s", scope.caller_id, "stranger"), end, end + 1)
        assert self.read_to(conversations, key) == (end, end)
        assert (names(store.find(scope)), store.changes(scope).version) == (["a"], version)

    def test_a_session_that_begins_anew_was_not_read(self, conversations: Store, store: Records, scope: Scope) -> None:
        """A deleted session's position is removed with it; a cleared session continues after it."""
        key = SessionKey("s", scope.caller_id, "user")
        end = self.say(conversations, key, "a", "b")
        assert self.read_on(store, key, 0, end)
        conversations.delete(key, keep_session=True)
        further = self.say(conversations, key, "c")
        assert self.read_to(conversations, key) == (end, further)
        assert further > end
        conversations.delete(key)
        self.say(conversations, key, "a")
        assert self.read_to(conversations, key)[0] == 0

    def test_a_page_tells_which_sessions_were_read(self, conversations: Store, store: Records, scope: Scope) -> None:
        """Each conversation of a page comes with both places."""
        keys = [SessionKey(name, scope.caller_id, "user") for name in ("s1", "s2", "s3")]
        ends = [self.say(conversations, key, "a", "b") for key in keys]
        assert self.read_on(store, keys[1], 0, ends[1])
        assert self.read_on(store, keys[2], 0, ends[2] - 1)
        page = conversations.page(scope.caller_id, user_id="user").conversations
        unread = [one.key.session_id for one in page if one.last_seq > one.remembered_seq]
        assert unread == ["s3", "s1"]
