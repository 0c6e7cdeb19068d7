"""How much fits, by few counts."""

from hypothesis import given
from hypothesis import strategies as st

from arc_common.rag.context_builder import furthest


@given(st.integers(0, 50), st.integers(0, 200), st.integers(-20, 300), st.integers(-1, 250))
def test_the_last_place_that_fits_is_found(first, length, guess, last):
    """Whatever is guessed; `None` if not even the first fits."""
    stop = first + length
    expected = min(last, stop - 1)
    assert furthest(first, stop, guess, fits=lambda place: place <= last) == (expected if expected >= first else None)


@given(st.lists(st.booleans(), max_size=60), st.integers(0, 60))
def test_what_is_found_fits(fits, guess):
    """Also where what fits is not in one piece, as with counters of tokens."""
    found = furthest(0, len(fits), guess, fits=fits.__getitem__)
    assert found is None or fits[found]


def test_few_places_are_tried():
    """A good guess takes two; a bad one twice the logarithm."""
    tried = []
    furthest(0, 1_000_000, 500, fits=lambda place: tried.append(place) or place <= 500)
    assert len(tried) == 2
    tried.clear()
    furthest(0, 1_000_000, 0, fits=lambda place: tried.append(place) or place <= 700_000)
    assert len(tried) < 45
