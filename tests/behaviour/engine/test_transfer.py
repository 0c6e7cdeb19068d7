"""Exports are lossless, work between both kinds of database, and can be repeated."""

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arc_common import ContextEngine, InvalidInputError
from tests.behaviour.engine.test_erase import DAY, talk
from tests.support.databases import sqlite_url
from tests.support.leak_world import Letters


def shown(engine: ContextEngine, caller_id: str, user_id: str, secret: str) -> list[Any]:
    """Return everything that a user sees: each branch's conversation, memories, documents, pins and artifacts."""
    session = engine.session(f"{user_id}-1", caller_id=caller_id, user_id=user_id)
    memories = engine.memories(user_id=user_id, caller_id=caller_id)
    documents = engine.documents_of(caller_id, user_id=user_id)
    found: list[Any] = [memories.list(), [memories.history(one.id) for one in memories.list()]]
    found += [[(one.document, round(one.score or 0, 6)) for one in documents.search(secret)], session.branches()]
    for branch in session.branches():
        path = engine.session(f"{user_id}-1", caller_id=caller_id, user_id=user_id, branch=branch.id)
        found += [path.messages(), path.facts(include_excerpts=True), path.summary(), path.pins()]
        found.append({one.message.id: round(one.score, 2) for one in path.recall(secret, top_k=50)})
        found.append([message.text for message in path.context(f"What about {secret}?").messages])
    return found


@pytest.fixture
def other(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> str:
    """Return a database of the other kind."""
    if database.startswith("sqlite"):
        make: Callable[[], str] = request.getfixturevalue("postgres_database")
        return make()
    return sqlite_url(tmp_path, "other.db")


def test_what_is_imported_shows_what_was_exported(database: str, other: str, tmp_path: Path) -> None:
    """Every public view is equal on each branch; a second import stores nothing; others' data is not exported."""
    name = "ann.jsonl.gz" if database.startswith("sqlite") else "ann.jsonl"
    with (
        ContextEngine.open(database, embedder=Letters(), clock=lambda: DAY) as source,
        ContextEngine.open(other, embedder=Letters(), clock=lambda: DAY) as target,
    ):
        talk(source, "shop", "ann", "S3CRET-ANN-한국")
        talk(source, "shop", "ben", "S3CRET-BEN")
        steps: list[int] = []
        lines = source.admin.export(tmp_path / name, caller_id="shop", user_id="ann", progress=steps.append)
        assert steps == list(range(1, lines + 1))
        content = (tmp_path / name).read_bytes()
        assert b"BEN" not in (gzip.decompress(content) if name.endswith(".gz") else content)
        assert target.admin.import_(tmp_path / name) > 3
        target.flush(60)
        for _ in range(2):
            assert shown(target, "shop", "ann", "S3CRET-ANN-한국") == shown(source, "shop", "ann", "S3CRET-ANN-한국")
            assert target.admin.import_(tmp_path / name) == 0
        assert not target.session("ben-1", caller_id="shop", user_id="ben").exists()
        target.session("ann-1", caller_id="shop", user_id="ann").save_turn("It goes on.", "Yes.")
        assert len(target.session("ann-1", caller_id="shop", user_id="ann").messages()) == 28


def test_an_interrupted_export_leaves_no_file_of_that_name(
    opened: Callable[..., ContextEngine], tmp_path: Path
) -> None:
    """An earlier export of that name stays whole."""
    engine, path = opened(), tmp_path / "a.jsonl"
    engine.session("s").save_turn("One.", "Two.")

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    for before in (None, "earlier"):
        if before:
            path.write_text(before)
        with pytest.raises(KeyboardInterrupt):
            engine.admin.export(path, caller_id="default", user_id=None, progress=interrupt)
        assert (path.read_text() if path.exists() else None) == before


def test_a_conversation_that_is_there_is_not_overwritten(opened: Callable[..., ContextEngine], tmp_path: Path) -> None:
    """A different conversation with the same id is rejected by name and keeps its messages."""
    source, target = opened(), opened()
    source.session("s").save_turn("One.", "Two.")
    target.session("s").save_turn("Mine.", "Yours.")
    source.admin.export(tmp_path / "a.jsonl", caller_id="default", user_id=None)
    with pytest.raises(InvalidInputError, match="'s'"):
        target.admin.import_(tmp_path / "a.jsonl")
    assert [one.text for one in target.session("s").messages()] == ["Mine.", "Yours."]


@pytest.mark.parametrize(
    "line",
    [
        "not json", "[]", '"text"', "{}", '{"arc": "0000"}', '{"arc_messages": [{"x": 1}]}', '{"entries": 5}',
        '{"arc_nothing": [{"conversation": 1}]}', '{"arc_messages; DROP TABLE arc_messages": [{}]}',
    ],
)  # fmt: skip
def test_a_wrong_file_is_a_clear_error(opened: Callable[..., ContextEngine], tmp_path: Path, line: str) -> None:
    """The error names the line or table; a missing file is named, too; nothing of the line is stored."""
    engine = opened()
    engine.session("s").save_turn("One.", "Two.")
    engine.admin.export(tmp_path / "a.jsonl", caller_id="default", user_id=None)
    head, *rest = (tmp_path / "a.jsonl").read_text("utf-8").splitlines()
    for lines in ([line, *rest], [head, line, *rest]):
        if lines[1] == "{}":
            continue
        (tmp_path / "b.jsonl").write_text("\n".join(lines), "utf-8")
        with pytest.raises(InvalidInputError):
            opened().admin.import_(tmp_path / "b.jsonl")
    with pytest.raises(InvalidInputError, match=r"nowhere\.jsonl"):
        engine.admin.import_(tmp_path / "nowhere.jsonl")
    packed = bytearray(gzip.compress(head.encode() * 50))
    packed[10] = 7  # an invalid deflate block type
    nested = f"{head}\n{'[' * 100_000}\n".encode()
    for name, content in (
        ("broken.jsonl.gz", b"no archive"),
        ("b.jsonl.gz", packed),
        ("b.jsonl", b"\xff"),
        ("c.jsonl", nested),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidInputError, match=re.escape(name)):
            engine.admin.import_(tmp_path / name)
    with pytest.raises(InvalidInputError, match="No such file"):
        engine.admin.export(tmp_path / "no folder" / "a.jsonl", caller_id="default", user_id=None)
    assert json.loads(head)["arc"]


@pytest.mark.parametrize(
    ("column", "wrong"),
    [("body", 5), ("created_at", "today"), ("created_at", 1 << 63), ("caller_id", None), ("conversation", "s")],
)
def test_a_value_that_its_column_can_not_hold_is_refused(tmp_path: Path, column: str, wrong: object) -> None:
    """SQLite would store it, and each later read of the session would fail."""
    path = tmp_path / "a.jsonl"
    with ContextEngine.open() as engine:
        engine.session("s").save_turn("One.", "Two.")
        engine.admin.export(path, caller_id="default", user_id=None)
    head, *rest = path.read_text("utf-8").splitlines()
    lines = [json.loads(line) for line in rest]
    for message in lines[0]["arc_messages"]:
        message[column] = wrong
    path.write_text("\n".join([head, *map(json.dumps, lines)]), "utf-8")
    with ContextEngine.open() as other:
        with pytest.raises(InvalidInputError, match=f"arc_messages.{column}: got {wrong!r}, expected a value of type"):
            other.admin.import_(path)
        assert not other.session("s").exists()
