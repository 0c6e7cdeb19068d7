"""Measure how fast one and several `arc worker` processes drain a backlog on PostgreSQL.

    python benchmarks/workers.py [--sessions 1000] [--messages 24] [--processes 1 4] [--model-seconds 0] [--rounds 1]

Each session belongs to its own user and has only unprocessed messages. With `--model-seconds`, a model that takes so
long writes the leaves. Without, rules write them, and the cores are the limit. Prints seconds, sessions per second and
the CPU seconds of all workers.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from arc_common import ArcSettings, ContextEngine, Message
from arc_common.messages import Role

ROOT = Path(__file__).parents[1]
SETTINGS = ArcSettings(background={"in_process": False}, memory={"enabled": True})
_SECONDS = "BENCHMARK_MODEL_SECONDS"
THINGS = ("tea", "rice", "chess", "jazz", "Rome", "bread", "wool", "roses", "rain", "owls")


class SlowModel:
    """A model that waits before it answers."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def complete(self, messages: Sequence[Message]) -> str:  # noqa: ARG002 - the answer is constant
        """Return a short summary after the delay."""
        time.sleep(self._seconds)
        return '{"facts": [], "narrative": "They talked about orders."}'


def open_engine() -> ContextEngine:
    """Open the workers' engine; `arc worker` calls this."""
    seconds = float(os.environ.get(_SECONDS, "0"))
    return ContextEngine.open(settings=SETTINGS, summary_model=SlowModel(seconds) if seconds else None)


def fill(url: str, *, sessions: int, messages: int) -> None:
    """Store the sessions."""
    with ContextEngine.open(url, settings=SETTINGS) as engine:
        for number in range(sessions):
            said = []
            for turn in range(messages // 2):
                thing = THINGS[(number + turn) % len(THINGS)]
                text = (
                    f"Order {turn} is ORD-{100 * number + turn}. I like {thing} number {turn}, and it cost {turn} EUR."
                )
                said += [Message(Role.USER, text), Message(Role.ASSISTANT, f"Order {turn} is noted.")]
            engine.session(f"s{number}", user_id=f"u{number}").append(said)


def drain(url: str, *, processes: int, model_seconds: float) -> tuple[float, float]:
    """Run the workers until nothing is due; return the seconds and the CPU seconds of all of them."""
    command = [sys.executable, "-c", "from arc_common.cli.commands import main; main()"]
    command += ["worker", "--engine", "workers:open_engine", "--until-idle"]
    environment = {**os.environ, "ARC_DATABASE_URL": url, _SECONDS: str(model_seconds), "PYTHONPATH": str(ROOT)}
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    running = [
        subprocess.Popen(command, cwd=ROOT / "benchmarks", env=environment, stdout=subprocess.DEVNULL)
        for _ in range(processes)
    ]
    for one in running:
        if one.wait():
            raise RuntimeError(f"a worker exited with code {one.returncode}")
    after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - begin
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Fill a database for each run, drain it, and print the figures."""
    sys.path.insert(0, str(ROOT))
    from tests.support.databases import new_database
    from tests.support.servers import postgres_server

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=1_000)
    parser.add_argument("--messages", type=int, default=24)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--model-seconds", type=float, default=0.0)
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    print(f"{arguments.sessions:,} sessions of {arguments.messages} messages, {os.cpu_count()} cores")
    with postgres_server(durable=True) as server:
        for _ in range(arguments.rounds):
            for processes in arguments.processes:
                url = new_database(server)
                fill(url, sessions=arguments.sessions, messages=arguments.messages)
                seconds, cpu = drain(url, processes=processes, model_seconds=arguments.model_seconds)
                rate = arguments.sessions / seconds
                print(f"{processes} workers: {seconds:.1f} s, {rate:.1f} sessions/s, CPU {cpu:.1f} s", flush=True)


if __name__ == "__main__":
    main()
