"""Keeps stores usable on both sides of `os.fork`."""

import os
from collections.abc import Callable
from threading import Condition
from types import TracebackType
from weakref import WeakSet

__all__ = ["ForkGate"]

_LONGEST_WAIT = 60.0
"""Seconds a fork waits for operations under way; longer than any of them waits for a lock."""


class ForkGate:
    """Surrounds a store's operations (`with gate:`), so that a fork happens between them and not within.

    - A fork in any thread waits for the operations under way; later ones wait for the fork. No lock is held by a
      thread that the child does not have.
    - `before` runs when nothing is under way, in the parent; `in_child` runs in the child, before anything else.

    Args:
        before: Gives up what must not be there at the fork.
        in_child: Gives up what the child must not share with its parent.
    """

    def __init__(self, *, before: Callable[[], None], in_child: Callable[[], None]) -> None:
        self._before = before
        self._in_child = in_child
        self._changed = Condition()
        self._inside = 0
        self._forking = False
        _gates.add(self)

    def __enter__(self) -> None:
        with self._changed:
            while self._forking:
                self._changed.wait()
            self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._inside -= 1
            if self._forking:
                self._changed.notify_all()

    def shut(self) -> None:
        """Wait until nothing is under way, and keep it so."""
        self._changed.acquire()
        self._forking = True
        self._changed.wait_for(lambda: not self._inside, timeout=_LONGEST_WAIT)
        self._before()

    def open(self, *, in_child: bool) -> None:
        """Let operations go on."""
        if in_child:
            self._inside = 0
            self._in_child()
        self._forking = False
        self._changed.notify_all()
        self._changed.release()


# A fork concerns the whole process and its hooks can't be taken back: hence one registration and weak references.
_gates: WeakSet[ForkGate] = WeakSet()
_shut: list[ForkGate] = []


def _before_fork() -> None:
    for gate in list(_gates):
        gate.shut()
        _shut.append(gate)


def _after_fork(*, in_child: bool) -> None:
    while _shut:
        _shut.pop().open(in_child=in_child)


os.register_at_fork(
    before=_before_fork,
    after_in_parent=lambda: _after_fork(in_child=False),
    after_in_child=lambda: _after_fork(in_child=True),
)
