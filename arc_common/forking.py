"""Keeps stores usable on both sides of `os.fork`."""

import os
from collections.abc import Callable
from threading import Lock
from time import monotonic, sleep
from types import TracebackType
from weakref import WeakSet, ref

__all__ = ["ForkGate"]

_LONGEST_WAIT = 60.0
"""Seconds a fork waits for operations under way; longer than any of them waits for a lock."""
_POLL_SECONDS = 0.001


class ForkGate:
    """Surrounds a store's operations (`with gate.operation():`), so that a fork happens between them and not within.

    - A fork in any thread waits for the operations under way; later ones wait for the fork. No lock is held by a
      thread that the child does not have.
    - `before` runs when nothing is under way, in the parent; `in_child` runs in the child, before anything else.
    - Entering and leaving hold no lock, so an interrupt leaves none behind.

    Args:
        before: Gives up what must not be there at the fork.
        in_child: Gives up what the child must not share with its parent.
    """

    def __init__(self, *, before: Callable[[], None], in_child: Callable[[], None]) -> None:
        self._before = before
        self._in_child = in_child
        self.under_way: set[ref[_Operation]] = set()
        self.fork = Lock()
        _gates.add(self)

    def operation(self) -> "_Operation":
        """Return an operation, for a `with` block."""
        return _Operation(self)

    def shut(self) -> None:
        """Wait until nothing is under way, and keep it so."""
        self.fork.acquire()
        deadline = monotonic() + _LONGEST_WAIT
        while self.under_way and monotonic() < deadline:
            sleep(_POLL_SECONDS)
        self._before()

    def open(self, *, in_child: bool) -> None:
        """Let operations go on."""
        if in_child:
            self.under_way.clear()
            self._in_child()
        self.fork.release()


class _Operation:
    """An operation under way; it ends when its block is left or, after an interrupt there, when it is dropped."""

    __slots__ = ("__weakref__", "_gate")

    def __init__(self, gate: ForkGate) -> None:
        self._gate = gate

    def __enter__(self) -> None:
        gate = self._gate
        gate.under_way.add(
            ref(self, gate.under_way.discard)
        )  # added before the check, so that a fork that begins now waits for it
        while gate.fork.locked():
            gate.under_way.discard(ref(self))
            with gate.fork:
                gate.under_way.add(ref(self, gate.under_way.discard))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._gate.under_way.discard(ref(self))


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
