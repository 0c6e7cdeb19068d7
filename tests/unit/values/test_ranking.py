"""The order of results."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from arc_common.documents import best_places, cosines

scored = st.dictionaries(st.text("abcé한", min_size=1, max_size=3), st.sampled_from([0.0, 0.5, 1.0, 2.0]), max_size=20)


@given(scored, st.integers(-1, 25))
def test_the_best_come_first_and_ids_decide_between_equals(scores: dict[str, float], limit: int) -> None:
    """As sorting all of them would have it."""
    ids = list(scores)
    places = best_places(ids, np.array(list(scores.values())), limit)
    assert [ids[place] for place in places] == sorted(ids, key=lambda key: (-scores[key], key))[: max(limit, 0)]


def test_equal_vectors_have_equal_cosines_wherever_they_stand() -> None:
    """To the last bit: ids decide then."""
    rng = np.random.default_rng(1)
    one, query = rng.standard_normal((2, 100)).astype(np.float32)
    one, query = one / np.linalg.norm(one), query / np.linalg.norm(query)
    table = np.vstack([rng.standard_normal((7, 100)), one[None], rng.standard_normal((4, 100)), one[None]])
    found = cosines(table.astype(np.float32), query)
    assert found[7] == found[12] == cosines(one[None], query)[0]


def test_a_cosine_is_never_above_one() -> None:
    """Rounding would have it so."""
    vector = np.full(3, 1 / 3**0.5, dtype=np.float32)
    assert cosines(vector[None], vector)[0] <= 1
