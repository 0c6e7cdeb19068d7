"""Finds how much fits, by few counts."""

from collections.abc import Callable

__all__ = ["furthest"]


def furthest(first: int, stop: int, guess: int, *, fits: Callable[[int], bool]) -> int | None:
    """The last place from `first` on, before `stop`, that fits, where what fits comes before what doesn't.

    Looks near the guess first. The place found always fits, also where a few before it don't.
    """
    low, high = first - 1, stop  # low fits, high doesn't
    step, place = 1, min(max(guess, first), stop - 1)
    while high - low > 1:
        if fits(place):
            low, place = place, place + step
        else:
            high, place = place, place - step
        step *= 2
        if not low < place < high:
            place = (low + high) // 2
    return low if low >= first else None
