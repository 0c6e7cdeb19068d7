"""What a process keeps of a scope between searches."""

import os

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from arc_common.stores.search_index.sqlite_reader import Copies, ScopeCopy


def rows(*numbers: int) -> NDArray[np.int64]:
    return np.array(numbers, dtype=np.int64)


changes = st.lists(st.tuples(st.sets(st.integers(1, 12)), st.integers(0, 4)), max_size=8)


@given(changes)
def test_it_holds_what_is_there(steps: list[tuple[set[int], int]]) -> None:
    """Rows come with growing numbers, change, and go: places, lengths and masks follow."""
    copy, lengths, last = ScopeCopy(), {}, 0
    for n, (touched, new) in enumerate(steps):
        going = {row for row in touched if row in lengths and row % 2}
        changing = [row for row in touched if row in lengths and row not in going]
        added = [*changing, *range(last + 1, last + 1 + new)]
        last += new
        lengths = {row: length for row, length in lengths.items() if row not in going}
        lengths |= dict.fromkeys(added, float(n))
        copy.take(rows(*reversed(added)), np.full(len(added), float(n)))
        copy.keep_only(rows(*lengths))
        assert copy.count == len(lengths)
        places = copy.places(rows(*lengths))
        assert copy.lengths[places].tolist() == list(lengths.values())
        asked = rows(0, 1, 2, 5, 99)
        assert set(copy.rows[copy.mask(asked)].tolist()) == set(lengths) & set(asked.tolist())


def test_the_longest_unused_are_forgotten() -> None:
    """Beyond the bytes allowed; the one in use stays, however large."""
    copies = Copies(3 * 2**20)
    for name in "abcd":
        with copies.of((name,)) as copy:
            copy.version = 1
    with copies.of(("b",)) as copy:
        assert copy.version == 1
    with copies.of(("a",)) as copy:
        assert copy.version == 0
        copy.version = 2
        copy.rows = np.arange(10**6)
    with copies.of(("b",)) as copy:
        assert copy.version == 0
    with copies.of(("a",)) as copy:
        assert copy.version == 0


def test_a_forked_child_begins_with_none() -> None:
    """Also when another thread of the parent was changing one at that moment."""
    copies = Copies(2**30)
    with copies.of(("a",)) as copy:
        copy.version = 1
        child = os.fork()
        if not child:
            with copies.of(("a",)) as fresh:
                os._exit(fresh.version)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
