"""The index of messages equals the conversation after any changes, without removed messages."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.concurrency import as_background
from arc_common.exceptions import BranchNotFoundError
from arc_common.memory.recall.index import MessageIndex
from arc_common.memory.recall.indexing import MessageIndexer
from arc_common.protocols import ConversationStore, Embedder, SessionKey
from arc_common.protocols.search_index import IndexEntry, IndexStore
from arc_common.settings import ArchiveSettings, ArcSettings
from arc_common.stores import SqlIndexStore
from arc_common.stores.conversations import SqlStore
from arc_common.testing.conversation_store_contract import counted
from tests.support.services import services

KEY = SessionKey("s", user_id="u")
WORDS = ("harbour", "lantern", "orchard", "velvet", "gravel", "부산", "", "meadow copper thimble walnut")


class Letters:
    """Embeds a text by its letters; counts the texts; fails while told to."""

    name = "letters"

    def __init__(self) -> None:
        self.embedded: list[str] = []
        self.fails = False

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self.fails:
            raise ConnectionError("away")
        self.embedded += texts
        return [[1.0 + text.count(chr(97 + i)) for i in range(26)] for text in texts]


class Beside:
    """A store of conversations with another index."""

    def __init__(self, conversations: ConversationStore, index: IndexStore) -> None:
        self._conversations, self.index = conversations, index

    def __getattr__(self, name: str) -> Any:
        return getattr(self._conversations, name)


def indexer_of(
    conversations: ConversationStore,
    store: IndexStore,
    *,
    embedder: Embedder | None = None,
    user_wide: bool = False,
    window_terms: int = 6,
) -> MessageIndexer:
    recall = {"window_terms": window_terms, "scope": "user" if user_wide else "session"}
    parts = services(Beside(conversations, store), settings=ArcSettings(recall=recall), embedder=embedder)
    return MessageIndexer(parts, MessageIndex(parts))


def entries(index: MessageIndex, key: SessionKey = KEY) -> list[tuple[Any, ...]]:
    found = index.store.scan(index.scope(key), "message", limit=10_000)
    return [(entry.id, entry.text, dict(entry.terms), dict(entry.metadata)) for entry in found]


def found(index: MessageIndex, question: str, key: SessionKey = KEY) -> list[tuple[str, int]]:
    """Return session and place of lexical matches, best first."""
    said = index.search(key, question, limit=50).said
    return [(place.session_id, place.seq) for place in sorted(said, key=lambda place: -said[place])]


@pytest.fixture
def stores() -> Iterator[tuple[ConversationStore, IndexStore]]:
    """Yield a store of messages and its index."""
    store = SqlStore()
    yield store, store.index
    store.close()


STEPS = st.one_of(
    st.tuples(st.just("append"), st.lists(st.sampled_from(WORDS), min_size=1, max_size=4)),
    st.tuples(st.just("edit"), st.integers(0, 30), st.sampled_from(WORDS)),
    st.tuples(st.just("remove"), st.integers(0, 30)),
    st.tuples(st.just("catch up")),
    st.tuples(st.just("restart")),
)


@given(steps=st.lists(STEPS, max_size=14), user_wide=st.booleans())
def test_whatever_happens_the_index_ends_as_one_made_at_once(steps: list[tuple[Any, ...]], user_wide: bool) -> None:
    """After any additions, edits and removals, it equals a newly built index."""
    conversations = SqlStore()
    store = conversations.index
    indexer = indexer_of(conversations, store, user_wide=user_wide)
    names: list[str] = []
    for kind, *what in steps:
        if kind == "append":
            new = [f"m{len(names) + i}" for i in range(len(what[0]))]
            conversations.append(KEY, [counted(name, text) for name, text in zip(new, what[0], strict=True)])
            names += new
        elif kind == "edit" and names:
            name = names[what[0] % len(names)]
            if conversations.read(KEY, ids=[name]):
                conversations.append(KEY, [counted(name, what[1])])
        elif kind == "remove" and names:
            conversations.remove(KEY, [names[what[0] % len(names)]])
        elif kind == "catch up":
            indexer.catch_up(KEY)
        elif kind == "restart":
            indexer = indexer_of(conversations, store, user_wide=user_wide)
    indexer.catch_up(KEY)
    anew = indexer_of(conversations, SqlIndexStore.open(), user_wide=user_wide)
    anew.catch_up(KEY)
    assert entries(indexer.index) == entries(anew.index)


def test_messages_are_found_with_their_neighbours(stores: tuple[ConversationStore, IndexStore]) -> None:
    """An answer that shares no word with a question follows a message that does, and is found with it."""
    conversations, store = stores
    said = ["where is the harbour", "right behind you", *["gravel and nothing else at all here"] * 9, "velvet"]
    conversations.append(KEY, [counted(f"m{n}", text) for n, text in enumerate(said)])
    indexer = indexer_of(conversations, store)
    assert indexer.catch_up(KEY) == len(said)
    places = [stored.seq for stored in conversations.read(KEY)]
    assert found(indexer.index, "harbour?") == [("s", places[0]), ("s", places[1])]
    alone = indexer_of(conversations, SqlIndexStore.open(), window_terms=0)
    alone.catch_up(KEY)
    assert found(alone.index, "harbour?") == [("s", places[0])]


def test_speaker_and_date_take_part(stores: tuple[ConversationStore, IndexStore]) -> None:
    conversations, store = stores
    conversations.append(KEY, [counted("a", "gravel", name="Mina"), counted("b", "gravel", name="Jun", minute=1)])
    indexer = indexer_of(conversations, store, window_terms=0)
    indexer.catch_up(KEY)
    first, second = conversations.read(KEY)
    assert found(indexer.index, "what did Mina say?")[0] == ("s", first.seq)
    assert second.message.created_at is not None
    assert len(found(indexer.index, f"in {second.message.created_at:%B %Y}?")) == 2


def test_what_is_indexed_is_not_written_again(stores: tuple[ConversationStore, IndexStore]) -> None:
    conversations, store = stores
    conversations.append(KEY, [counted(f"m{n}", f"word{n} gravel") for n in range(200)])
    assert indexer_of(conversations, store).catch_up(KEY) >= 200
    later = indexer_of(conversations, store)
    assert later.catch_up(KEY) == 0
    conversations.append(KEY, [counted("new", "harbour")])
    assert 1 <= later.catch_up(KEY) <= 4  # the message, and the three whose windows include it


def test_changes_in_a_row_are_followed_together(stores: tuple[ConversationStore, IndexStore]) -> None:
    """A hundred removed messages take a few reads, not two each."""
    conversations, store = stores
    conversations.append(KEY, [counted(f"m{n}", f"word{n} gravel") for n in range(200)])
    reads = []

    class Counting(Beside):
        def read(self, *given: Any, **options: Any) -> Any:
            reads.append(options)
            return conversations.read(*given, **options)

    parts = services(Counting(conversations, store))
    indexer = MessageIndexer(parts, MessageIndex(parts))
    assert indexer.catch_up(KEY) >= 200
    conversations.append(KEY, [counted(f"n{n}", f"word{n} harbour") for n in range(100)])
    conversations.remove(KEY, [f"m{n}" for n in range(50, 150)])
    conversations.append(KEY, [counted(f"n{n}", f"word{n} velvet") for n in range(50, 100)])
    reads.clear()
    indexer.refresh(KEY)
    assert len(reads) < 12
    indexer.catch_up(KEY)
    anew = indexer_of(conversations, SqlIndexStore.open(), window_terms=60)
    anew.catch_up(KEY)
    assert entries(indexer.index) == entries(anew.index)


def test_a_stop_loses_nothing(stores: tuple[ConversationStore, IndexStore]) -> None:
    conversations, store = stores
    conversations.append(KEY, [counted(f"m{n}", f"word{n}") for n in range(150)])
    indexer = indexer_of(conversations, store)
    asked = iter([False, True])
    assert indexer.catch_up(KEY, stop=lambda: next(asked)) == 64
    assert len(entries(indexer.index)) == 64
    indexer_of(conversations, store).catch_up(KEY)
    assert len(entries(indexer.index)) == 150


class Late:
    """An index whose entries are written after something has happened to their messages."""

    def __init__(self, store: IndexStore, happens: Callable[[], object]) -> None:
        self._store, self._happens = store, happens

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put(self, *arguments: Any) -> int:
        happens, self._happens = self._happens, lambda: None
        happens()
        return self._store.put(*arguments)


@pytest.mark.parametrize("change", ["remove", "clear", "delete", "made anew", "another", "archive"])
@pytest.mark.parametrize("branch", [None, 1])
def test_what_is_removed_while_it_is_indexed_does_not_come_back(
    tmp_path: Path, change: str, branch: int | None
) -> None:
    """The entry is written and then removed, although the removal came in between; a branch's, too."""
    conversations = SqlStore(archive=ArchiveSettings(url=tmp_path.as_uri()))
    messages = [counted("a", "harbour"), *(counted(f"m{n}", f"velvet {n}") for n in range(9))]
    conversations.append(KEY, messages)
    conversations.branch(KEY, "fork", at="m7")

    def happens() -> None:
        if change == "remove":
            conversations.remove(KEY, ["a"])
        elif change == "archive":
            conversations.remove(KEY, ["a"])
            assert conversations.archive(KEY)
        else:
            conversations.delete(KEY, keep_session=change == "clear")
        if change == "made anew":
            conversations.append(KEY, [counted("a", "lantern"), *messages[1:]])
            conversations.branch(KEY, "fork", at="m7")
        elif change == "another":
            conversations.append(KEY, [counted("a", "lantern"), *messages[1:4]])
            conversations.branch(KEY, "fork", at="m0")
            conversations.append(replace(KEY, branch=1), [counted("n", "orchard")])

    indexer = indexer_of(conversations, Late(conversations.index, happens))  # type: ignore[arg-type]
    with as_background(), suppress(BranchNotFoundError):
        indexer.catch_up(replace(KEY, branch=branch))
    left = conversations.index.scan(indexer.index.scope(KEY), "message", limit=100)
    assert not [entry for entry in left if "harbour" in entry.terms]
    if change in ("remove", "archive"):
        assert len(left) == (9 if branch is None else 8)
    conversations.close()


class TestVectors:
    def test_each_message_is_embedded_once(self, stores: tuple[ConversationStore, IndexStore]) -> None:
        conversations, store = stores
        letters = Letters()
        indexer = indexer_of(conversations, store, embedder=letters)
        for n in range(20):
            conversations.append(KEY, [counted(f"m{n}", f"text number {n}")])
            indexer.catch_up(KEY)
            indexer.embed(KEY)
        assert sorted(letters.embedded) == sorted(f"text number {n}" for n in range(20))
        assert len(indexer.index.search(KEY, "text number 3", limit=50).near) == 20

    def test_a_failing_embedder_costs_vectors_and_nothing_else(
        self, stores: tuple[ConversationStore, IndexStore]
    ) -> None:
        conversations, store = stores
        letters = Letters()
        letters.fails = True
        indexer = indexer_of(conversations, store, embedder=letters)
        conversations.append(KEY, [counted("a", "harbour"), counted("b", "velvet")])
        indexer.catch_up(KEY)
        assert indexer.embed(KEY) == 0
        assert found(indexer.index, "harbour")
        letters.fails = False
        assert indexer.embed(KEY) == 2
        assert indexer.embed(KEY) == 0
        letters.fails = True
        searched = indexer.index.search(KEY, "harbour", limit=5)
        assert searched.said
        assert not searched.near
        assert searched.notes

    def test_another_embedder_makes_all_vectors_anew(self, stores: tuple[ConversationStore, IndexStore]) -> None:
        conversations, store = stores
        indexer = indexer_of(conversations, store, embedder=Letters())
        conversations.append(KEY, [counted("a", "harbour"), counted("b", "velvet")])
        indexer.catch_up(KEY)
        indexer.embed(KEY)

        class Others(Letters):
            name = "others"

        later = indexer_of(conversations, store, embedder=Others())
        assert not later.index.search(KEY, "harbour", limit=5).near
        assert later.embed(KEY) == 0
        assert later.re_embed(later.index.scope(KEY)) == 2
        assert len(later.index.search(KEY, "harbour", limit=5).near) == 2

    def test_an_edit_changes_the_vector(self, stores: tuple[ConversationStore, IndexStore]) -> None:
        conversations, store = stores
        indexer = indexer_of(conversations, store, embedder=Letters(), window_terms=0)
        conversations.append(KEY, [counted("a", "aaaa"), counted("b", "bbbb")])
        indexer.catch_up(KEY)
        indexer.embed(KEY)
        conversations.append(KEY, [counted("a", "zzzz")])
        indexer.catch_up(KEY)
        indexer.embed(KEY)
        near = indexer.index.search(KEY, "zzzz", limit=5).near
        best = max(near, key=lambda place: near[place])
        assert best.seq == conversations.read(KEY, ids=["a"])[0].seq
        assert near[best] > 0.999


def test_a_word_beside_long_messages_has_few_different_frequencies(
    stores: tuple[ConversationStore, IndexStore],
) -> None:
    conversations, store = stores
    indexer = indexer_of(conversations, store, window_terms=60)
    texts = [" ".join(["harbour", *(f"w{n}x{i}" for i in range(7 * n % 90))]) for n in range(90)]
    conversations.append(KEY, [counted(f"m{n}", text) for n, text in enumerate(texts)])
    indexer.catch_up(KEY)

    frequencies = [terms["harbour"] for _, _, terms, _ in entries(indexer.index)]
    assert min(frequencies) >= 1
    assert 3 <= len(set(frequencies)) <= 9  # 4, and four each from 1 and from 2


def test_entries_hold_no_text(stores: tuple[ConversationStore, IndexStore]) -> None:
    conversations, store = stores
    conversations.append(KEY, [counted("a", "the harbour is closed")])
    indexer = indexer_of(conversations, store)
    indexer.catch_up(KEY)
    (entry,) = store.scan(indexer.index.scope(KEY), "message", limit=5)
    assert isinstance(entry, IndexEntry)
    assert "harbour" not in entry.text
    assert "harbour" not in str(entry.metadata)
