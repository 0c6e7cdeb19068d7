"""The index in several processes at once, and in one that forks."""

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import create_engine, text

from arc_common.exceptions import InvalidInputError
from arc_common.filters import Condition
from arc_common.protocols.search_index import IndexEntry, Scope
from arc_common.stores.conversations import SqlStore
from tests.contracts.index_queries import count, dense, embedding, lexical
from tests.contracts.search_index_contract import an_entry, matching
from tests.support.processes import INDEXED, WORDS, Helper, churn

SCOPE = Scope("caller")


@pytest.mark.parametrize("rounds", [20, pytest.param(200, marks=pytest.mark.torture)])
def test_statistics_stay_exact(helper: Helper, database: str, sql_store: SqlStore, tmp_path: Path, rounds: int) -> None:
    """Three processes store, replace, remove and embed the same entries: what is counted is what is there."""
    count(sql_store.index, INDEXED, "memory")
    helper.run(churn, tmp_path, [{"url": database, "seed": seed, "rounds": rounds} for seed in range(3)])
    entries = sql_store.index.scan(INDEXED, "memory", limit=1_000)
    found = lexical(sql_store.index, INDEXED, "memory", dict.fromkeys(WORDS, 1.0), limit=1_000)
    holders = Counter(word for entry in entries for word in entry.terms)
    assert entries
    assert found.count == len(entries) == len(found.ids)
    assert found.total_length == sum(entry.length for entry in entries)
    assert found.document_frequencies.tolist() == [holders[word] for word in WORDS]
    embedded = {entry.id for entry in entries if entry.vector is not None}
    near = dense(sql_store.index, INDEXED, "memory", np.array([1, 0], np.float32), embedder="test", limit=1_000)
    assert {name for name, _ in near} == embedded
    assert (embedding(sql_store.index, INDEXED, "memory") is None) == (not embedded)
    engine = create_engine(database)
    with engine.connect() as connection:
        counted = connection.execute(text("SELECT entries, vectors FROM arc_index_scopes")).one()
        texts = connection.execute(text("SELECT count(*) FROM arc_index_texts")).scalar_one()
    engine.dispose()
    assert tuple(counted) == (len(entries), len(embedded))
    assert texts == len(entries)


def test_what_another_process_changed_is_found(database: str, sql_store: SqlStore) -> None:
    store = SqlStore(database)
    other, index = store.index, sql_store.index

    def near() -> list[str]:
        found = dense(index, SCOPE, "document", np.array([1, 0], np.float32), embedder="test", limit=9)
        return [name for name, _ in found]

    other.put(SCOPE, "document", [an_entry("a", "red", vector=[1, 0]), an_entry("b", "blue", vector=[0, 1])])
    assert (matching(index, SCOPE, "red"), near()) == (["a"], ["a", "b"])
    other.put(SCOPE, "document", [an_entry("c", "red", vector=[3, 1]), an_entry("a", "blue", vector=[-1, 0])])
    assert (matching(index, SCOPE, "red"), near()) == (["c"], ["c", "b", "a"])
    other.remove(SCOPE, "document", ["c"])
    other.put(SCOPE, "document", [an_entry("d", "red")])
    assert (matching(index, SCOPE, "red"), near()) == (["d"], ["b", "a"])
    other.remove(SCOPE, "document", None, only_vectors=True)
    other.put(SCOPE, "document", [an_entry("d", "red", vector=[1, 1])], only_vectors=True)
    assert (matching(index, SCOPE, "red"), near()) == (["d"], ["d"])
    other.remove(SCOPE, None, None)
    assert (matching(index, SCOPE, "red"), near()) == ([], [])
    other.put(SCOPE, "document", [an_entry("e", "red", vector=[1, 0])])
    assert (matching(index, SCOPE, "red"), near()) == (["e"], ["e"])
    store.close()


def test_vectors_alone_are_asked_for(database: str, sql_store: SqlStore) -> None:
    """What was learned of a scope by its vectors is no longer so when it was made anew, or by another embedder."""
    store, vector = SqlStore(database), np.array([1, 0], np.float32)
    other, index = store.index, sql_store.index
    other.put(SCOPE, "document", [an_entry("a", vector=[1, 0])])
    assert dense(index, SCOPE, "document", vector, embedder="test", limit=9) == [("a", 1.0)]
    other.remove(SCOPE, None, None)
    other.put(SCOPE, "document", [an_entry("b", vector=[1, 0])])
    assert dense(index, SCOPE, "document", vector, embedder="test", limit=9) == [("b", 1.0)]
    other.remove(SCOPE, None, None)
    other.put(SCOPE, "document", [an_entry("c", vector=[1, 0], embedder="new")])
    assert dense(index, SCOPE, "document", vector, embedder="new", limit=9) == [("c", 1.0)]
    with pytest.raises(InvalidInputError, match="new"):
        dense(index, SCOPE, "document", vector, embedder="test", limit=9)
    other.remove(SCOPE, None, None)
    assert dense(index, SCOPE, "document", vector, embedder="test", limit=9) == []
    store.close()


def test_long_texts_are_compared_to_their_ends(sql_store: SqlStore) -> None:
    index, start = sql_store.index, "한" * 100
    held = {name: start + name for name in "abc"} | {"0": start, "z": "z"}
    index.put(SCOPE, "document", [IndexEntry(key, "", {}, {"t": text}) for key, text in held.items()])
    for comparison, expected in {"gt": "c", "gte": "bc", "lt": "0az", "lte": "0abz"}.items():
        asked = Condition("t", comparison, start + "b")  # type: ignore[arg-type]
        assert "".join(entry.id for entry in index.scan(SCOPE, "document", filters=asked, limit=9)) == expected
        assert count(index, SCOPE, "document", filters=asked) == len(expected)


def test_an_index_goes_on_in_a_forked_child(sql_store: SqlStore) -> None:
    index = sql_store.index
    index.put(SCOPE, "document", [an_entry("a", "red", vector=[1, 0])])
    assert matching(index, SCOPE, "red") == ["a"]
    child = os.fork()
    if not child:
        index.put(SCOPE, "document", [an_entry("child", "red", vector=[0, 1])])
        os._exit(len(matching(index, SCOPE, "red")))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    index.put(SCOPE, "document", [an_entry("b", "red")])
    assert matching(index, SCOPE, "red") == ["a", "b", "child"]


def test_late_vectors_leave_metadata_alone(sql_store: SqlStore) -> None:
    """An entry that is given for its vector may lack the metadata: filters go by what is stored."""
    index = sql_store.index
    index.put(SCOPE, "document", [IndexEntry("a", "text", {}, {"n": 1}), IndexEntry("b", "text", {}, {"n": 2})])
    vector = np.array([1, 0], np.float32)
    late = [IndexEntry(name, "text", vector=vector, embedder="test") for name in "ab"]
    assert index.put(SCOPE, "document", late, only_vectors=True) == 2
    for asked in (Condition("n", "eq", 2), Condition("n", "gt", 1)):
        assert [
            name for name, _ in dense(index, SCOPE, "document", vector, embedder="test", filters=asked, limit=9)
        ] == ["b"]
