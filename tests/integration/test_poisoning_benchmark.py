"""The short form of the benchmark of poisoned texts."""

import os
import runpy
from pathlib import Path

from tests.support.forks import Fork

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "poisoning.py"


def program() -> None:
    runpy.run_path(str(BENCHMARK), run_name="__main__")


def test_no_poisoned_text_is_learned_or_comes_back_bare(tmp_path: Path) -> None:
    """The benchmark exits with 0 for at least two texts per way of arrival."""
    with Fork(tmp_path, ["--texts", "10"], os.environ, run=program) as process:
        printed, errors = process.stdout.read(), process.stderr.read()
        assert process.wait() == 0, printed + errors
    assert printed.count("true statements ended: 0 facts, 0 memories") == 3
