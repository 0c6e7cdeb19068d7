"""The contract of filters in every `IndexStore`, as tests that the index's contract inherits."""

from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arc_common.exceptions import InvalidInputError
from arc_common.filters import AllOf, AnyOf, Condition, Exists, Filter, Not, OneOf, matches, parse_filter
from arc_common.protocols.search_index import IndexEntry, IndexStore, Scope
from arc_common.stores.search_index.filters import ordered_text
from tests.contracts.index_queries import count, dense, lexical

KEYS = ["a", "b", "a.b", "a'b", 'a"b', "$.a"[1:], "a[0]", "한국어", "0", "a b", "\\", "null"]

_EXACT = 2**53  # the largest integer that databases' JSON stores exactly

scalars: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 2, 10, 0.0, 1.0, 0.5, -0.5, 1e-9, 1e300, _EXACT, -_EXACT]),
    st.integers(-_EXACT, _EXACT),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        ["", "a", "b", "A", "ab", "1", "true", "null", "é", "e\u0301", "한", "🎉", "%", "_", "'", '"', "\\"]
    ),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5),
)

values: st.SearchStrategy[Any] = st.one_of(
    scalars, st.lists(scalars, max_size=3), st.just({"a": 1}), st.just([[1], {"a": 1}, "a"])
)

metadata: st.SearchStrategy[dict[str, Any]] = st.dictionaries(st.sampled_from(KEYS), values, max_size=3)

_ordered = st.one_of(
    st.integers(-_EXACT, _EXACT),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "a", "b", "é", "한"]),
    st.sampled_from([0, 1, 0.5]),
)
_keys = st.sampled_from(KEYS)
_simple: st.SearchStrategy[Filter] = st.one_of(
    st.builds(Condition, _keys, st.just("eq"), scalars),
    st.builds(Condition, _keys, st.sampled_from(["gt", "gte", "lt", "lte"]), _ordered),
    st.builds(OneOf, _keys, st.lists(scalars, max_size=3).map(tuple)),
    st.builds(Exists, _keys),
)

filters: st.SearchStrategy[Filter] = st.recursive(
    _simple,
    lambda inner: st.one_of(
        st.builds(AllOf, st.lists(inner, max_size=3).map(tuple)),
        st.builds(AnyOf, st.lists(inner, max_size=3).map(tuple)),
        st.builds(Not, inner),
    ),
    max_leaves=6,
)


class IndexFiltersContract:
    """Every filter agrees with `matches` in every method that takes one."""

    @given(stored=st.lists(metadata, min_size=1, max_size=8), asked=filters)
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_filters_mean_what_matches_says(
        self, store: IndexStore, compares_texts: bool, stored: list[dict[str, Any]], asked: Filter
    ) -> None:
        """Any filter on any metadata agrees with `matches`, in every method that takes one."""
        self._compare(store, compares_texts, stored, asked)

    @pytest.mark.torture
    @given(stored=st.lists(metadata, min_size=1, max_size=8), asked=filters)
    @settings(max_examples=1_000, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_many_filters_mean_what_matches_says(
        self, store: IndexStore, compares_texts: bool, stored: list[dict[str, Any]], asked: Filter
    ) -> None:
        """The long form of the test above."""
        self._compare(store, compares_texts, stored, asked)

    def _compare(self, store: IndexStore, compares_texts: bool, stored: list[dict[str, Any]], asked: Filter) -> None:
        scope = Scope(f"caller-{uuid4()}")
        held = {f"d{n}": one for n, one in enumerate(stored)}
        vector = np.array([1, 0], dtype=np.float32)
        store.put(
            scope, "document", [IndexEntry(key, "", {"t": 1.0}, one, None, vector, "e") for key, one in held.items()]
        )
        expected = {key for key, one in held.items() if matches(asked, one)}
        if not compares_texts and ordered_text(asked):
            with pytest.raises(InvalidInputError, match="filters"):
                self._kept(store, scope, asked)
            with pytest.raises(InvalidInputError, match="filters"):
                store.scan(scope, "document", filters=asked, limit=99)
            return
        assert self._kept(store, scope, asked) == expected
        assert count(store, scope, "document", filters=asked) == len(expected)
        assert {entry.id for entry in store.scan(scope, "document", filters=asked, limit=99)} == expected
        near = dense(store, scope, "document", vector, embedder="e", filters=asked, limit=99)
        assert {key for key, _ in near} == expected

    def test_keys_are_only_keys(self, store: IndexStore, scope: Scope) -> None:
        """SQL and JSON paths in a key are only a key, and have no effect."""
        keys = [*KEYS, "a') OR 1=1 --", "*", "**", "a,b", "{a}", "@.a", '"a"', "k" * 255]
        store.put(scope, "document", [IndexEntry(str(n), "", {"t": 1.0}, {key: n}) for n, key in enumerate(keys)])
        for n, key in enumerate(keys):
            assert self._kept(store, scope, Condition(key, "eq", n)) == {str(n)}
            assert self._kept(store, scope, Exists(key)) == {str(n)}
            assert self._kept(store, scope, OneOf(key, (n, -1))) == {str(n)}
        assert count(store, scope, "document") == len(keys)

    def test_a_filter_may_name_many_values(self, store: IndexStore, scope: Scope) -> None:
        """The store accepts as many values as a filter does."""
        store.put(scope, "document", [IndexEntry(str(n), "", {"t": 1.0}, {"n": n, "s": str(n)}) for n in range(20)])
        assert self._kept(store, scope, OneOf("n", tuple(range(10, 10_000)))) == {str(n) for n in range(10, 20)}
        assert self._kept(store, scope, OneOf("s", tuple(map(str, range(10, 10_000))))) == {
            str(n) for n in range(10, 20)
        }
        wide = parse_filter({"$or": [{"n": n} for n in range(200)]})
        assert wide is not None
        assert len(self._kept(store, scope, wide)) == 20

    @staticmethod
    def _kept(store: IndexStore, scope: Scope, asked: Filter) -> set[str]:
        return set(lexical(store, scope, "document", {"t": 1.0}, filters=asked, limit=99).ids)
