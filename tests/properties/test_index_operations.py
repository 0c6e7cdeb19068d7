"""Equal operations have equal results through two alternating stores of a database and on SQLite in memory."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arc_common.exceptions import InvalidInputError
from arc_common.filters import Condition, Exists, Filter, Not
from arc_common.protocols.search_index import IndexEntry, IndexStore, Scope
from arc_common.stores import SqlIndexStore, SqlStore
from tests.contracts.index_queries import count, dense, embedding, lexical
from tests.contracts.search_index_contract import scored

IDS = ["a", "é", "한"]
TERMS = {"red": 1.0, "blue": 2.0, "없음": 0.5}
VECTOR = np.array([3, 4], dtype=np.float32) / np.float32(5)


def an_entry(
    entry_id: str, text: str, terms: dict[str, float], n: object, vector: tuple[int, ...] | None, embedder: str = "test"
) -> IndexEntry:
    metadata = {} if n == "none" else {"n": n}
    array = None if vector is None else np.array(vector, dtype=np.float32)
    return IndexEntry(entry_id, text, terms, metadata, None, array, None if vector is None else embedder)


fields = (
    st.sampled_from(IDS),
    st.sampled_from(["one", "two"]),
    st.dictionaries(st.sampled_from(list(TERMS)), st.sampled_from([1, 2.0, 0.35]), max_size=2),
    st.sampled_from([1, 2.5, "x", "none", None, [1, "y"], True]),
)
some = st.lists(
    st.builds(an_entry, *fields, st.sampled_from([None, (1, 0), (0, 1), (1, 1), (-1, 2)])), min_size=1, max_size=3
)
others = st.builds(an_entry, *fields, st.sampled_from([(1, 0), (1, 0, 0)]), st.just("other")).map(lambda one: [one])
names = st.lists(st.sampled_from(IDS), max_size=2)
operations: st.SearchStrategy[Callable[[IndexStore, Scope], Any]] = st.one_of(
    *[some.map(lambda given: lambda store, scope: store.put(scope, "fact", given))] * 4,
    some.map(lambda given: lambda store, scope: store.put(scope, "fact", given, only_vectors=True)),
    others.map(lambda given: lambda store, scope: store.put(scope, "fact", given)),
    names.map(lambda given: lambda store, scope: store.remove(scope, "fact", given)),
    st.just(lambda store, scope: store.remove(scope, "fact", None, only_vectors=True)),
    st.just(lambda store, scope: store.remove(scope, "fact", None)),
)
FILTERS: list[Filter | None] = [
    None, Condition("n", "eq", 1), Condition("n", "gte", 1), Condition("n", "lt", "z"), Not(Condition("n", "gt", 1)),
    Exists("n"),
]  # fmt: skip


def answer(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except InvalidInputError as error:
        return error.field


def seen(store: IndexStore, scope: Scope) -> list[Any]:
    """Return the answers to all possible queries."""
    answers: list[Any] = [embedding(store, scope, "fact"), store.fetch(scope, "fact", IDS)]
    answers.append([
        (one, None if one.vector is None else [round(float(x), 5) for x in one.vector])
        for one in store.scan(scope, "fact", limit=99)
    ])  # fmt: skip
    for asked in FILTERS:
        answers += [
            count(store, scope, "fact", filters=asked),
            [entry.id for entry in store.scan(scope, "fact", filters=asked, unembedded=True, limit=3)],
            answer(partial(near, store, scope, asked)),
        ]
        found = lexical(store, scope, "fact", TERMS, filters=asked, limit=99)
        answers += [
            (found.count, round(found.total_length, 6), found.document_frequencies.tolist()),
            [(name, round(score, 9)) for name, score in scored(found, TERMS, 99)],
        ]
    return answers


def near(store: IndexStore, scope: Scope, asked: Filter | None) -> list[tuple[str, float]]:
    found = dense(store, scope, "fact", VECTOR, embedder="test", filters=asked, limit=9)
    return [(name, round(cosine, 5)) for name, cosine in found]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[SqlStore]]:
    url = f"sqlite:///{tmp_path_factory.mktemp('sqlite') / 'arc.db'}"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_database")()
    both = [SqlStore(url), SqlStore(url)]
    yield both
    for store in both:
        store.close()


@pytest.mark.parametrize("examples", [5, pytest.param(200, marks=pytest.mark.torture)])
def test_two_stores_answer_as_one_in_memory_does(stores: list[SqlStore], examples: int) -> None:
    """Both stores see each other's operations and answer every query like a store in memory."""

    @given(steps=st.lists(operations, min_size=3, max_size=8))
    @settings(max_examples=examples)
    def check(steps: list[Callable[[IndexStore, Scope], Any]]) -> None:
        scope, memory = Scope(f"caller-{uuid4()}", "user"), SqlIndexStore.open()
        for n, step in enumerate(steps):
            one, other = stores[n % 2].index, stores[(n + 1) % 2].index
            assert answer(partial(step, one, scope)) == answer(partial(step, memory, scope))
            expected = seen(memory, scope)
            assert seen(other, scope) == seen(one, scope) == expected

    check()
