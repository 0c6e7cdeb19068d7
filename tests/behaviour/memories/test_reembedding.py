"""After a change of the embedder, new vectors are made next to the old ones and replace them when complete."""

import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from arc_common import ArcSettings, ConfigurationError, ContextEngine, Document
from arc_common.protocols.search_index import IndexQuery, OutdatedVectors, Scope
from arc_common.stores.conversations import SqlStore
from arc_common.testing.conversation_store_contract import START
from tests.support.databases import copied_database, rows, sqlite_url

NO_BACKGROUND = ArcSettings(background={"in_process": False}, embeddings={"batch_size": 4}, memory={"enabled": True})
TEXTS = [f"Text number {number} says {'harbour' if number % 2 else 'velvet'}." for number in range(20)]


class Embedder:
    """Counts letters; another name has another order and dimension. Can fail from a certain text on."""

    def __init__(self, name: str, letters: str) -> None:
        self.name = name
        self.letters = letters
        self.embedded: list[str] = []
        self.most: int | None = None
        self.before: Callable[[], None] = lambda: None

    def embed(self, texts: list[str]) -> list[list[float]]:
        self.before()
        if self.most is not None and len(self.embedded) + len(texts) > self.most:
            raise ConnectionError("no network")
        self.embedded += texts
        return [self.one(text) for text in texts]

    def one(self, text: str) -> list[float]:
        return [text.count(letter) + 0.1 for letter in self.letters]


def old() -> Embedder:
    return Embedder("old", "abcdefghijklmnop")


def new() -> Embedder:
    return Embedder("new", "zyxwvutsrqponmlkjihgfedcba0123456789")


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a database with documents, messages on two branches, memories, an artifact and an item."""
    if request.param == "sqlite":
        url = sqlite_url(tmp_path_factory.mktemp("filled"))
    else:
        make: Callable[[], str] = request.getfixturevalue("postgres_database")
        url = make()
    with ContextEngine.open(url, settings=NO_BACKGROUND, embedder=old()) as engine:
        engine.documents.add([Document(text, id=f"d{number}") for number, text in enumerate(TEXTS)])
        session = engine.session("s", user_id="ann")
        for number, text in enumerate(TEXTS):
            session.save_turn(f"I say: {text}", f"Answer {number}.")
        fork = session.fork(at=session.messages()[9].id)
        fork.save_turn("On the fork, the harbour is closed.", "Is it?")
        session.add_artifact("The harbour has twelve berths.", source="search")
        engine.memories(user_id="ann").add("Ann keeps bees in Ulm.")
        engine.items_of("default").add([Document("An item.", id="i")])
        engine.admin.work()
    return url


@pytest.fixture
def url(filled: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a copy of it."""
    if filled.startswith("sqlite"):
        shutil.copy(filled.removeprefix("sqlite:///"), tmp_path / "arc.db")
        return sqlite_url(tmp_path)
    return copied_database(request.getfixturevalue("postgres"), filled)


def embedders(url: str) -> dict[str, set[tuple[str, bool]]]:
    """Return by kind each scope's embedder, and whether every entry has a vector."""
    found: dict[str, set[tuple[str, bool]]] = {}
    for kind, name, is_whole in rows(url, "SELECT kind, embedder, vectors = entries FROM arc_index_scopes"):
        found.setdefault(kind, set()).add((name, bool(is_whole)))
    return found


def assert_vectors_fit(engine: ContextEngine, url: str, embedder: Embedder) -> None:
    """Check that each document has the vector of its present text, and that no other vectors are left."""
    documents = list(engine.documents.index.scan())
    vectors = engine.documents.index.vectors([one.id or "" for one in documents])
    assert len(vectors) == len(documents)
    for one in documents:
        expected = np.array(embedder.one(one.text))
        assert vectors[one.id or ""] @ (expected / np.linalg.norm(expected)) > 0.9999
    assert rows(url, "SELECT count(*) FROM arc_index_next_vectors") == [(0,)]
    assert rows(url, "SELECT sum(vectors) FROM arc_index_scopes") == rows(url, "SELECT count(*) FROM arc_index_vectors")


ALL_NEW = {kind: {("new", True)} for kind in ("document", "message", "memory", "artifact")} | {"item": {("old", True)}}


def test_everything_gets_new_vectors(url: str) -> None:
    """Documents, messages of all branches, memories and artifacts do; items have their own embedder."""
    embedder = new()
    with ContextEngine.open(url, settings=NO_BACKGROUND, embedder=embedder) as engine:
        seen: list[int] = []
        done = engine.admin.reembed(progress=seen.append)
        assert (done.scopes, done.unfinished, seen[-1]) == (4, 0, done.vectors)
        assert embedders(url) == ALL_NEW
        assert_vectors_fit(engine, url, embedder)
        assert "vector" in engine.documents.search("harbour")[0].score_parts
        embedder.embedded.clear()
        assert engine.admin.reembed().vectors == 0
        assert embedder.embedded == []


@pytest.mark.parametrize("how", ["the embedder fails", "it is stopped"])
def test_what_is_interrupted_goes_on_from_there(url: str, how: str) -> None:
    """Meanwhile an engine with the old embedder uses its vectors, one with the new embedder words."""
    embedder = new()
    stop = Event()
    if how == "it is stopped":
        embedder.before = lambda: stop.set() if len(embedder.embedded) >= 8 else None
    else:
        embedder.most = 10
    with ContextEngine.open(url, settings=NO_BACKGROUND, embedder=embedder) as engine:
        assert engine.admin.reembed(stop=stop).unfinished == 1
        assert engine.documents.search("number 7 harbour")[0].document.id == "d7"
    before = list(embedder.embedded)
    assert 8 <= len(before) < 20
    with ContextEngine.open(url, settings=NO_BACKGROUND, embedder=old()) as engine:
        assert set(engine.documents.search("number 7 harbour")[0].score_parts) == {"bm25", "vector"}
    embedder.most, embedder.before = None, lambda: None
    with ContextEngine.open(url, settings=NO_BACKGROUND, embedder=embedder) as engine:
        assert engine.admin.reembed().unfinished == 0
        assert_vectors_fit(engine, url, embedder)
    assert not set(before) & set(embedder.embedded[len(before) :])
    assert embedders(url) == ALL_NEW


def test_what_is_written_meanwhile_ends_up_right(url: str) -> None:
    """Engines with either embedder write and remove entries before and after the job's position."""
    embedder = new()
    with (
        ContextEngine.open(url, settings=NO_BACKGROUND, embedder=embedder) as engine,
        ContextEngine.open(url, settings=NO_BACKGROUND, embedder=old()) as other,
    ):
        writes: Iterator[Callable[[], object]] = iter(
            [
                lambda: other.documents.add([Document("A velvet hat.", id="d0"), Document("A hat.", id="e")]),
                lambda: engine.documents.add([Document("A harbour wall.", id="d1"), Document("A wall.", id="z")]),
                lambda: other.documents.add(Document("A late hat.", id="d19")),
                lambda: engine.documents.delete(["d2", "d18"]),
            ]
        )

        def write() -> None:
            embedder.before = lambda: None  # writing embeds, too
            if len(embedder.embedded) >= 4 and (change := next(writes, None)) is not None:
                change()
            embedder.before = write

        embedder.before = write
        assert engine.admin.reembed().unfinished == 0
        assert next(writes, None) is None
        assert_vectors_fit(engine, url, embedder)
        found = {one.id: one.text for one in engine.documents.get(["d0", "d1", "d2", "d19", "e", "z"])}
        assert found == {
            "d0": "A velvet hat.", "d1": "A harbour wall.", "d19": "A late hat.", "e": "A hat.", "z": "A wall.",
        }  # fmt: skip


def test_the_background_changes_over_and_does_not_go_back(url: str) -> None:
    """The first saved turn starts it. A process with the old embedder leaves the new vectors alone."""
    settings = ArcSettings(memory={"enabled": True})
    with ContextEngine.open(url, settings=settings, embedder=new()) as engine:
        engine.session("s", user_id="ann").save_turn("And now?", "Now it is new.")
        assert engine.flush(60)
        assert embedders(url) == ALL_NEW
    with ContextEngine.open(url, settings=settings, embedder=old()) as engine:
        engine.session("s", user_id="ann").save_turn("Any velvet?", "Lots of velvet.")
        engine.session("s", user_id="ann").summarize()
        assert engine.flush(60)
        assert {kind: {name for name, _ in each} for kind, each in embedders(url).items()}["message"] == {"new"}
        assert engine.session("s", user_id="ann").recall("lots of velvet")
        assert engine.admin.reembed().unfinished == 0  # an explicit request does go back
        assert {name for each in embedders(url).values() for name, _ in each} == {"old"}


def test_a_worker_changes_over(url: str) -> None:
    """With `background.in_process` off, nobody else does."""
    with ContextEngine.open(url, settings=NO_BACKGROUND, embedder=new()) as engine:
        engine.session("s", user_id="ann").save_turn("And now?", "Now it is new.")
        assert engine.flush(60)
        assert ("new", True) not in embedders(url)["document"]
        engine.admin.work()
        assert embedders(url) == ALL_NEW


def test_two_processes_never_make_the_same_vectors(url: str) -> None:
    """A claim reserves a scope until it ends, or its owner has been dead long enough."""
    store = SqlStore(url)
    index = store.index
    assert isinstance(index, OutdatedVectors)
    claim = {"embedder": "new", "now": START, "seconds": 60.0}
    claimed = [index.claim_outdated(owner=owner, **claim) for owner in "abab"]
    scopes = [one for one in claimed if one is not None]
    assert sorted(kind for _, kind in scopes) == ["artifact", "document", "memory", "message"]
    assert (Scope("default"), "document") in scopes
    assert index.claim_outdated(owner="c", **claim) is None
    assert not index.keep_outdated(*scopes[0], owner="c", now=START, seconds=60.0)
    assert index.keep_outdated(*scopes[0], owner="a", now=START, seconds=0)
    assert index.claim_outdated(owner="c", **claim) == scopes[0]
    late = {**claim, "now": START + timedelta(seconds=60)}
    assert [index.claim_outdated(owner="d", **late) is None for _ in range(5)] == [False] * 4 + [True]
    store.close()


def test_an_engine_without_embedder_can_t(url: str) -> None:
    with (
        ContextEngine.open(url, settings=NO_BACKGROUND) as engine,
        pytest.raises(ConfigurationError, match="embedder: got None"),
    ):
        engine.admin.reembed()


def test_vectors_beside_are_found_by_nobody(url: str) -> None:
    """They are not counted, either: the index reports the old embedder."""
    embedder = new()
    embedder.most = 10
    with ContextEngine.open(url, settings=NO_BACKGROUND, embedder=embedder) as engine:
        engine.admin.reembed()
    store = SqlStore(url)
    scope = Scope("default")
    assert store.index.candidates(IndexQuery(scope, "document"))[0].embedding == ("old", 16)
    vector = np.array(old().one(TEXTS[3]), dtype=np.float32)
    query = IndexQuery(scope, "document", vector=vector / np.linalg.norm(vector), embedder="old", limit=3)
    assert len(store.index.candidates(query)[0].near) == 3
    store.close()


async def test_the_async_form(url: str) -> None:
    async with ContextEngine.open(url, settings=NO_BACKGROUND, embedder=new()) as engine:
        assert (await engine.admin.areembed()).unfinished == 0
    assert embedders(url) == ALL_NEW
