"""Background work gives way to replies: of a process's threads only one computes in Python at a time."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import TypeVar, overload

__all__ = ["Courtesy"]

T = TypeVar("T")

_PATIENCE = 0.02
_PAUSE = 0.001


class Courtesy:
    """Knows which threads are at a reply, and lets others wait between two steps of their work.

    A thread that computes keeps the interpreter for 5 ms, and each statement of a reply gives it away: beside one that
    computes, reading the state of a session took 15 ms in place of 0.2 (p90). Steps of about a millisecond bound that.

    - It takes no locks and changes nothing of the interpreter.
    - Between two steps, work waits for the replies under way, 20 ms at most. It does not wait for replies that begin
      meanwhile, so that replies one after another don't stop it.
    - A forked child begins with no replies.

    Args:
        sleep: Waits so many seconds.
    """

    def __init__(self, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep
        self._process = os.getpid()
        self._replying: dict[int, int] = {}  # how many replies deep each thread is
        self._numbers: dict[int, int] = {}  # how many replies each thread has begun

    @contextmanager
    def reply(self) -> Iterator[None]:
        """Mark the time of a reply, or of a part of it; may be nested."""
        me = get_ident()
        if me not in self._replying:
            self._numbers[me] = self._numbers.get(me, 0) + 1
        self._replying[me] = self._replying.get(me, 0) + 1
        try:
            yield
        finally:
            if depth := self._replying.pop(me, 1) - 1:
                self._replying[me] = depth

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Within a reply: for the time in which it waits for the work that gives way to it."""
        depth = self._replying.pop(get_ident(), 0)
        try:
            yield
        finally:
            if depth:
                self._replying[get_ident()] = depth

    def give_way(self) -> None:
        """Between two steps of background work: wait while others reply. Does nothing in a reply itself."""
        if not self._replying or get_ident() in self._replying:
            return
        if self._process != os.getpid():
            self._process = os.getpid()
            self._replying.clear()
        waited = 0.0
        under_way = {thread: self._numbers.get(thread) for thread in list(self._replying)}
        while waited < _PATIENCE and any(
            thread in self._replying and self._numbers.get(thread) == number for thread, number in under_way.items()
        ):
            self._sleep(_PAUSE)
            waited += _PAUSE

    def between(self, items: Sequence[T]) -> Sequence[T]:
        """Return the items as a sequence whose iteration gives way before each."""
        return _Unhurried(items, self.give_way)


class _Unhurried(Sequence[T]):
    __slots__ = ("_give_way", "_items")

    def __init__(self, items: Sequence[T], give_way: Callable[[], None]) -> None:
        self._items = items
        self._give_way = give_way

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...

    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self._items[index]

    def __iter__(self) -> Iterator[T]:
        for item in self._items:
            self._give_way()
            yield item
