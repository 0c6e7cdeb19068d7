"""The short form of the benchmark of poisoned texts."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / "poisoning.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_no_poisoned_text_is_learned_or_comes_back_bare() -> None:
    """The benchmark exits with 0 for at least two texts per way of arrival."""
    found = run("--texts", "10")
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.count("true statements ended: 0 facts, 0 memories") == 3
