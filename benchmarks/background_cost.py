"""Measure the CPU of background work per message, and the latency of appends and contexts while it runs.

    python benchmarks/background_cost.py /data/recall_locomo.json.gz [--messages 300]

Each conversation is appended to its own session of a SQLite file, two messages at a time and without a model. CPU is
that of all threads of the process (`time.process_time`) until the background is drained, less the CPU of appending
alone. Latencies are measured with all kinds of background work enabled.
"""

import argparse
import gzip
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from arc_common import ArcSettings, ContextEngine, Message
from arc_common.messages import Role

KINDS = {"summaries": "summary", "recall index": "recall", "memories": "memory"}


def conversations(path: Path, limit: int) -> list[list[Message]]:
    """Read the conversations; the first speaker is the user, everyone else the assistant."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        loaded = json.load(file)
    found = []
    for conversation in loaded:
        turns = [turn for turn in conversation["turns"] if turn["text"].strip()][:limit]
        user = turns[0]["speaker"]
        found.append([Message(Role.USER if t["speaker"] == user else Role.ASSISTANT, t["text"]) for t in turns])
    return found


def cpu_seconds(conversations: Sequence[Sequence[Message]], enabled: Sequence[str]) -> float:
    """Return the CPU of appending the conversations and draining the enabled background work, in seconds."""
    settings = ArcSettings(**{group: {"enabled": group in enabled} for group in KINDS.values()})
    with (
        tempfile.TemporaryDirectory() as directory,
        ContextEngine.open(f"sqlite:///{directory}/arc.db", settings=settings) as engine,
    ):
        engine.session("first", user_id="first").append(Message(Role.USER, "Create the tables."))
        begin = time.process_time()
        for number, messages in enumerate(conversations):
            session = engine.session(f"s{number}", user_id=f"u{number}")
            for place in range(0, len(messages), 2):
                session.append(messages[place : place + 2])
            session.summarize()
            engine.flush()
        return time.process_time() - begin


def latencies(conversations: Sequence[Sequence[Message]]) -> dict[str, list[float]]:
    """Return the latencies of appends and contexts in ms while all background work runs."""
    took: dict[str, list[float]] = {"append": [], "context": []}
    with tempfile.TemporaryDirectory() as directory, ContextEngine.open(f"sqlite:///{directory}/arc.db") as engine:
        for number, messages in enumerate(conversations):
            session = engine.session(f"s{number}", user_id=f"u{number}")
            for place in range(0, len(messages), 2):
                begin = time.perf_counter()
                session.append(messages[place : place + 2])
                between = time.perf_counter()
                session.context("What did we say about that?")
                took["append"].append((between - begin) * 1_000)
                took["context"].append((time.perf_counter() - between) * 1_000)
    return took


def main() -> None:
    """Print the CPU of each kind of work per message, and the latencies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="recall_locomo.json.gz")
    parser.add_argument("--messages", type=int, default=300, help="at most, of each conversation (default 300)")
    arguments = parser.parse_args()
    data = conversations(arguments.data, arguments.messages)
    messages = sum(map(len, data))
    cpu_seconds(data[:1], list(KINDS.values()))  # warm-up: the first use imports and compiles
    alone = cpu_seconds(data, ())
    print(f"{messages} messages; appending alone takes {alone / messages * 1_000:.2f} ms of CPU per message")
    kinds = {**{name: [group] for name, group in KINDS.items()}, "all together": list(KINDS.values())}
    for name, enabled in kinds.items():
        cost = cpu_seconds(data, enabled) - alone
        print(f"{name:14} {cost / messages * 1_000:6.2f} ms of CPU per message")
    for name, took in latencies(data).items():
        p50, p95 = statistics.median(took), statistics.quantiles(took, n=20)[-1]
        print(f"{name:14} p50 {p50:.2f} ms, p95 {p95:.2f} ms ({p95 / p50:.1f} times)")


if __name__ == "__main__":
    main()
