"""The correction is learned slowly, bounded, and changes only when it is adopted."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.exceptions import InvalidInputError
from arc_common.tokens.calibration import CalibratedTokenCounter, Correcting, Correction, UsageCorrection, corrected
from arc_common.tokens.counters import HeuristicTokenCounter


def test_counts_never_change_and_the_factor_only_when_adopted() -> None:
    """Observing moves nothing; adopting moves the correction, and never a count."""
    counter = CalibratedTokenCounter()
    before = counter.count("a stored message")
    counter.observe(10_000, 13_000)
    assert counter.correction == Correction(0, 1.0)
    assert corrected(counter, 1_000) == 1_000
    assert counter.adopt_correction() == counter.correction == Correction(1, 1.25)
    assert corrected(counter, 1_000) == 1_250
    assert counter.count("a stored message") == before


def test_the_version_tells_whether_the_factor_changed() -> None:
    """Adopting what is in use already is no new version."""
    usage = UsageCorrection()
    assert usage.adopt() == Correction(0, 1.0)
    usage.observe(8_000, 10_000)
    assert usage.adopt() is usage.adopt()
    usage.observe(8_000, 6_000)
    assert usage.adopt() == Correction(2, 1.0)


def test_one_short_request_moves_little() -> None:
    """A single small report is drawn towards 1."""
    usage = UsageCorrection()
    usage.observe(100, 200)
    assert usage.adopt().factor == pytest.approx(1.048)


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), max_size=8))
def test_the_factor_stays_within_its_bounds(pairs: list[tuple[int, int]]) -> None:
    """No report can push the factor out of 0.5 to 2."""
    usage = UsageCorrection()
    for estimated, reported in pairs:
        usage.observe(estimated, reported)
    assert 0.5 <= usage.adopt().factor <= 2


@pytest.mark.parametrize("pair", [(5_000, 0), (0, 5_000)], ids=["nothing reported", "nothing estimated"])
def test_a_zero_says_nothing(pair: tuple[int, int]) -> None:
    """A provider that reports 0 (or an empty request) is passed over."""
    usage = UsageCorrection()
    usage.observe(*pair)
    assert usage.adopt() == Correction()


def test_bad_figures_are_refused() -> None:
    """What is no count is refused by its name, and nothing is learned."""
    for value in [-1, 1.5, None, True]:
        usage = UsageCorrection()
        with pytest.raises(InvalidInputError, match="reported_tokens"):
            usage.observe(10_000, value)  # type: ignore[arg-type]  # that is the test
        assert usage.adopt() == Correction()


def test_corrected_rounds_up_and_leaves_other_counters_alone() -> None:
    """Sums are rounded up (exact products stay); a counter without a correction has factor 1."""
    counter = CalibratedTokenCounter()
    counter.observe(8_000, 9_000)
    assert counter.adopt_correction().factor == 1.1
    assert corrected(counter, 10) == 11
    assert corrected(counter, 11) == 13
    assert corrected(counter, 0) == 0
    assert corrected(HeuristicTokenCounter(), 7) == 7


def test_threads_lose_no_observation() -> None:
    """Observations from many threads all count."""
    usage = UsageCorrection()
    with ThreadPoolExecutor(8) as pool:
        for _ in range(800):
            pool.submit(usage.observe, 10, 15)
    assert usage.adopt().factor == round((2_000 + 12_000) / (2_000 + 8_000), 3)


def test_the_calibrated_counter_is_correcting() -> None:
    """The protocol is what `corrected` looks for."""
    assert isinstance(CalibratedTokenCounter(), Correcting)
    assert not isinstance(HeuristicTokenCounter(), Correcting)
