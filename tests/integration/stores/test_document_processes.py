"""A document is replaced as a whole, whatever happens to the processes that do it."""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from arc_common import ContextEngine, Document
from tests.support.processes import SMALL_CHUNKS, Helper, replace, replace_and_die

OLD = "The old warranty lasts three years. " * 9
NEW = "The new warranty lasts one year only. " * 7


@pytest.fixture
def engine(database: str) -> Iterator[ContextEngine]:
    """On the database that the processes write to."""
    with ContextEngine.open(database, settings=SMALL_CHUNKS) as opened:
        yield opened


def found(engine: ContextEngine) -> Counter[str]:
    """How many chunks of the document have each text, by what a search finds."""
    return Counter(one.document.text for one in engine.documents.search("warranty version", top_k=1_000))


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.torture)])
def test_a_process_killed_at_any_statement_leaves_one_whole_version(
    engine: ContextEngine, database: str, helper: Helper, tmp_path: Path, step: int
) -> None:
    """The old document until the new one is there, never parts of either, and never both."""
    old, new = Counter({OLD[:35]: 9}), Counter({NEW[:37]: 7})
    engine.documents.add(Document(OLD, id="d"), chunk=True)
    seen, at, code = [], 1 - step, -9
    while code == -9:
        at += step
        code = helper.wait(helper.start(replace_and_die, tmp_path / "log", url=database, text=NEW, at=at))
        seen.append(found(engine))
    assert (code, seen[-1]) == (0, new)
    assert at > 5
    assert all(each in (old, new) for each in seen), [sum(each.values()) for each in seen]
    assert old in seen


def test_processes_that_replace_one_document_leave_one_whole_version(
    engine: ContextEngine, database: str, helper: Helper, tmp_path: Path
) -> None:
    found(engine)
    each = [{"url": database, "name": name, "count": 8, "at": time.time() + 0.5} for name in ("a", "b", "c")]
    pids = [helper.start(replace, tmp_path / f"{one['name']}.log", **one) for one in each]
    versions = [found(engine) for _ in range(40)]
    assert [helper.wait(pid) for pid in pids] == [0, 0, 0]
    versions.append(found(engine))
    assert [version for version in versions if len(version) > 1 or sum(version.values()) not in (0, 5, 9)] == []


def test_an_embedder_that_is_interrupted_leaves_the_old_document(database: str) -> None:
    class Interrupted:
        name = "interrupted"
        left = 3

        def embed(self, texts: list[str]) -> list[list[float]]:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
            return [[1.0, 0.0] for _ in texts]

    with ContextEngine.open(database, settings=SMALL_CHUNKS, embedder=Interrupted()) as engine:
        engine.documents.add(Document(OLD[:35], id="d"), chunk=True)
        with pytest.raises(KeyboardInterrupt):
            engine.documents.add(Document(NEW, id="d"), chunk=True)
        assert found(engine) == {OLD[:35]: 1}
