"""No request is ever broken: random conversations and budgets, three providers' rules, three message formats."""

import os
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context

import pytest

from tests.support.window_cases import case_of, told
from tests.support.window_rules import Outcome, check_case, shrunk

IN_THE_SUITE = 500
IN_TORTURE = 300_000
SHARD = 2_000


def check(seed: int) -> Outcome:
    """Check the window of a seed against every rule; a failure shows the smallest failing conversation."""
    case = case_of(seed)
    try:
        return check_case(case)
    except Exception as error:
        error.add_note(told(shrunk(case)))
        raise


def check_all(start: int, number: int) -> None:
    """Check the seeds from `start` on, and that none leaves a tenth of its budget unused although more would fit."""
    wasteful = [seed for seed in range(start, start + number) if check(seed).is_wasteful]
    assert not wasteful, f"less than 90 % of the budget is used with seeds {wasteful[:20]}"


def test_no_request_is_broken():
    """The suite checks five hundred conversations."""
    check_all(0, IN_THE_SUITE)


@pytest.mark.torture
@pytest.mark.timeout(36_000)
def test_no_request_is_broken_in_hundreds_of_thousands_of_conversations():
    """The long form checks other seeds on all processors."""
    starts = range(IN_THE_SUITE, IN_THE_SUITE + IN_TORTURE, SHARD)
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as processes:
        for _ in processes.map(check_all, starts, repeat(SHARD)):
            pass
