"""A process that works on a session's summaries, one order at a time: who runs it decides what happens in between.

It reads orders as JSON lines from its standard input and answers each with one.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from arc_common.protocols import SessionKey
from arc_common.protocols.summaries import Commit, Lease
from arc_common.stores.conversations import SqlStore
from arc_common.testing.summary_store_contract import Clock, a_fact, a_leaf
from tests.support.processes import ROOT

KEY = SessionKey("shared", user_id="user")


class Worker:
    """The process, seen from the test."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def send(self, order: str, **arguments: Any) -> None:
        """Give an order without waiting for it."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": order, **arguments}) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """What it answered."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, order: str, **arguments: Any) -> Any:
        """Give an order and wait for it."""
        self.send(order, **arguments)
        return self.answer()


@contextmanager
def worker(url: str, name: str) -> Iterator[Worker]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.summary_worker", url, name],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    with process:
        yield Worker(process)
        if process.poll() is None:
            assert process.stdin is not None
            process.stdin.close()


class _Orders:
    def __init__(self, url: str, name: str) -> None:
        self.clock = Clock()
        self.store = SqlStore(url, clock=self.clock)
        self.name = name
        self.lease: Lease | None = None

    def acquire(self) -> int | None:
        """Take the lease for a minute; its fence."""
        self.lease = self.store.summaries.claim(KEY, owner=self.name, seconds=60)
        return self.lease.fence if self.lease else None

    def wait(self, *, seconds: float) -> None:
        """Let the time of this process pass."""
        self.clock.pass_by(seconds)

    def commit(self, *, start: int, text: str = "") -> bool:
        """Store a leaf of four messages under the lease."""
        assert self.lease is not None
        leaf = a_leaf(start, start + 3, narrative=f"{self.name} {text}")
        fact = a_fact(f"{self.name}-{start}", start, value=f"{self.name} {text}")
        return self.store.summaries.commit(KEY, Commit(leaf, (fact,)), lease=self.lease, epoch=self.lease.epoch)

    def race(self, *, leaves: int) -> list[int]:
        """Store leaf after leaf as soon as the lease can be had, until all are there; those that it stored."""
        stored = []
        while len(there := self.store.summaries.segments(KEY)) < leaves:
            if self.acquire() is None:
                continue
            start = len(there) * 4 + 1
            if self.commit(start=start):
                stored.append(start)
            assert self.lease is not None
            self.store.summaries.release(KEY, self.lease)
        return stored


def _serve(url: str, name: str) -> None:
    orders = _Orders(url, name)
    for line in sys.stdin:
        order = json.loads(line)
        sys.stdout.write(json.dumps(getattr(orders, order.pop("do"))(**order)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve(*sys.argv[1:])
