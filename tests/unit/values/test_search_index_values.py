"""Scopes and entries: validation and normalisation. The contract tests their storage."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.exceptions import InvalidInputError
from arc_common.protocols.search_index import IndexEntry, Scope, unit_vector


@pytest.mark.parametrize("wrong", ["", " ", "x" * 256, "a\x00b", "\ud800", 7])
def test_ids_that_no_store_can_hold_are_refused(wrong: object) -> None:
    for make in (
        lambda: Scope(wrong),  # type: ignore[arg-type]
        lambda: Scope("c", wrong),  # type: ignore[arg-type]
        lambda: Scope("c", None, wrong),  # type: ignore[arg-type]
        lambda: IndexEntry(wrong, "text"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidInputError):
            make()


def test_what_can_t_be_stored_is_refused() -> None:
    cases = [
        ({"text": "a\x00"}, "entry.text"),
        ({"text": None}, "entry.text"),
        ({"source": "\ud800"}, "entry.source"),
        ({"terms": None}, "entry.terms: got None"),
        ({"terms": ["a"]}, "entry.terms"),
        ({"terms": {"a": "1"}}, r"entry.terms\['a'\]: got '1'"),
        ({"terms": {"a": None}}, r"entry.terms\['a'\]: got None"),
        ({"terms": {"a": 10**400}}, "entry.terms.*sum"),
        ({"terms": {"a": 1e308, "b": 1e308}}, "entry.terms.*sum"),
        ({"terms": {"a": 0}}, "above zero"),
        ({"terms": {"a": float("nan")}}, "above zero"),
        ({"terms": {"a": float("inf")}}, "above zero"),
        ({"terms": {"a\x00": 1}}, "NUL"),
        ({"metadata": None}, "entry.metadata: got None"),
        ({"metadata": "text"}, "entry.metadata: got 'text'"),
        ({"metadata": {"a": float("nan")}}, r"entry.metadata\['a'\].*finite"),
        ({"metadata": {"a": [{"b": {1, 2}}]}}, r"entry.metadata\['a'\]\[0\]\['b'\]"),
        ({"metadata": {"a": 2**63}}, "64 bits"),
        ({"metadata": {7: 1}}, "entry.metadata key"),
        ({"metadata": {"a": "\x00"}}, "NUL"),
        ({"vector": [1.0]}, "entry.embedder"),
        ({"embedder": "e"}, "entry.embedder"),
        ({"vector": [], "embedder": "e"}, "1 to 16,000"),
        ({"vector": [[1.0]], "embedder": "e"}, "one row"),
        ({"vector": [0.0, 0.0], "embedder": "e"}, "not all zero"),
        ({"vector": [1.0, float("nan")], "embedder": "e"}, "finite"),
        ({"vector": [1.0, float("inf")], "embedder": "e"}, "finite"),
        ({"vector": ["1"], "embedder": "e"}, "numbers"),
        ({"vector": [[1.0], [1.0, 2.0]], "embedder": "e"}, "numbers"),
        ({"vector": [1j], "embedder": "e"}, "numbers"),
        ({"vector": [1.0], "embedder": ""}, "entry.embedder"),
    ]
    for fields, message in cases:
        with pytest.raises(InvalidInputError, match=message):
            IndexEntry(**({"id": "a", "text": "text"} | fields))  # type: ignore[arg-type]


def test_metadata_become_plain_values() -> None:
    given_metadata = {"t": (1, (2,)), "f": np.float64(0.5), "d": {"x": None}}
    entry = IndexEntry("a", "", metadata=given_metadata)
    assert entry.metadata == {"t": [1, [2]], "f": 0.5, "d": {"x": None}}
    assert type(entry.metadata["f"]) is float
    assert given_metadata["t"] == (1, (2,))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8).filter(any))
def test_any_finite_vector_has_a_direction(values: list[float]) -> None:
    """For the smallest to the largest numbers, length is 1, signs are kept, and normalising again changes nothing."""
    unit = unit_vector("v", values)
    assert unit.dtype == np.float32
    assert np.linalg.norm(unit.astype(np.float64)) == pytest.approx(1, abs=1e-6)
    assert all(a * np.sign(b) >= 0 for a, b in zip(unit, values, strict=True))
    assert unit_vector("v", unit) is unit


def test_a_given_vector_stays_as_it_is() -> None:
    values = np.array([3, 4], dtype=np.float32)
    entry = IndexEntry("a", "", vector=values, embedder="e")
    assert values.tolist() == [3, 4]
    assert entry.vector is not None
    assert entry.vector.tolist() == pytest.approx([0.6, 0.8])
