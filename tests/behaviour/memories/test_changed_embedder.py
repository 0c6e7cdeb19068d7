"""Data stored with another embedder, or none, is found by its words."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from arc_common import ArcSettings, ContextEngine, Document
from arc_common.testing import CountingObserver
from tests.support.databases import sqlite_url


class Embedder:
    """Embeds every text alike, so that vectors alone find nothing."""

    def __init__(self, name: str, dimension: int) -> None:
        self.name = name
        self.dimension = dimension

    def embed(self, texts: list[str]) -> list[list[float]]:
        return [[1.0] * self.dimension for _ in texts]


FIRST = Embedder("first", 3)
CHANGES = {
    "another": (FIRST, Embedder("second", 3)),
    "of another dimension": (FIRST, Embedder("first", 5)),
    "none any more": (FIRST, None),
    "one at last": (None, FIRST),
}


@pytest.fixture(params=CHANGES.values(), ids=CHANGES)
def change(request: pytest.FixtureRequest) -> tuple[Embedder | None, Embedder | None]:
    return request.param


def shown(window, section: str) -> list[str]:
    return [item.id for one in window.sections if one.name == section for item in one.items]


def test_documents_are_found_and_shown(url, change) -> None:
    """Searches and turns find the caller's and the user's, and new ones, too."""
    before, after = change
    with ContextEngine.open(url, settings=ArcSettings(), embedder=before) as engine:
        engine.documents.add([Document("The warranty lasts three years.", id="a"), Document("Milk.", id="b")])
    with ContextEngine.open(url, settings=ArcSettings(), embedder=after) as engine:
        assert [one.document.id for one in engine.documents.search("warranty")][:1] == ["a"]
        assert "a" in shown(engine.session("s").context("How long is the warranty?"), "documents")
        engine.documents_of("default", user_id="ann").add(Document("Ann's warranty ended.", id="hers"))
        found = shown(engine.session("t", user_id="ann").context("How long is the warranty?"), "documents")
        assert {"a", "hers"} <= set(found)
        engine.documents.add(Document("The warranty of phones lasts one year.", id="c"))
        assert {one.document.id for one in engine.documents.search("warranty")} >= {"a", "c"}


def test_a_turn_says_that_vectors_were_left_out(url) -> None:
    """Receipt, log and counter say so until `re_embed` has made new ones."""
    observer = CountingObserver()
    with ContextEngine.open(url, settings=ArcSettings(), embedder=FIRST) as engine:
        engine.documents.add([Document("The warranty lasts three years.", id="a")])
    after = Embedder("second", 5)
    with ContextEngine.open(url, settings=ArcSettings(), embedder=after, observer=observer) as engine:
        session = engine.session("s")
        note = "the stored vectors are of another embedder: their texts were searched by words only"
        assert note in session.context("warranty").receipt.notes
        assert observer.counts["index.other_embedder"] > 0
        assert engine.documents.index.re_embed() == 1
        assert note not in session.context("warranty").receipt.notes
        assert set(engine.documents.search("warranty")[0].score_parts) == {"bm25", "vector"}


@pytest.fixture(scope="module")
def talked(tmp_path_factory) -> Callable[[Embedder | None], Path]:
    """Return a read-only file of a conversation indexed with this embedder."""
    folder = tmp_path_factory.mktemp("talked")

    def file(embedder: Embedder | None) -> Path:
        name = f"{embedder and embedder.name}.db"
        if (folder / name).exists():
            return folder / name
        with ContextEngine.open(sqlite_url(folder, name), settings=ArcSettings(), embedder=embedder) as engine:
            session = engine.session("s")
            session.save_turn("My locker code is 4711.", "Noted.")
            for number in range(30):
                session.save_turn(f"Tell me about garden number {number}.", "It is green. " * 20)
            session.recall("locker code")
            engine.session("s").context("What is my locker code?")
        return folder / name

    return file


def test_messages_are_recalled(talked, tmp_path, change) -> None:
    before, after = change
    url = f"sqlite:///{shutil.copy(talked(before), tmp_path)}"
    with ContextEngine.open(url, settings=ArcSettings(), embedder=after) as engine:
        session = engine.session("s")
        assert "4711" in session.recall("locker code", top_k=1)[0].message.text
        session.save_turn("One more thing.", "Yes?")
        assert "4711" in session.recall("locker code", top_k=1)[0].message.text


def test_memories_and_artifacts_are_found(tmp_path, change) -> None:
    """Those added after the change are found, too."""
    before, after = change
    url = sqlite_url(tmp_path)
    with ContextEngine.open(url, settings=ArcSettings(), embedder=before) as engine:
        engine.memories(user_id="ann").add("Ann keeps bees in Ulm.")
        engine.session("s", user_id="ann").add_artifact("The harbour has twelve berths.", source="search")
    with ContextEngine.open(url, settings=ArcSettings(), embedder=after) as engine:
        memories, session = engine.memories(user_id="ann"), engine.session("s", user_id="ann")
        assert [one.memory.text for one in memories.search("bees")] == ["Ann keeps bees in Ulm."]
        memories.add("Ann has a boat in the harbour of Bremen.")
        assert memories.search("boat in Bremen")[0].memory.text == "Ann has a boat in the harbour of Bremen."
        session.add_artifact("The harbour master is Ms. Lund.", source="search")
        shown_text = session.context("Who is the harbour master, and how many berths are there?").messages[-1].text
        assert "Lund" in shown_text
        assert "twelve berths" in shown_text
