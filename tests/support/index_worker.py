"""A process that changes a shared scope of the index at random, for as many rounds as it is told."""

import random
import sys

import numpy as np

from arc_common.protocols.search_index import IndexEntry, Scope
from arc_common.stores.conversations import SqlStore

SHARED = Scope("shared", "user")
WORDS = ["red", "green", "blue", "grey"]


def an_entry(chance: random.Random) -> IndexEntry:
    """One of forty, with some words and perhaps a vector."""
    terms = {word: float(chance.randint(1, 3)) for word in chance.sample(WORDS, chance.randint(1, 3))}
    vector = np.array([chance.randint(1, 9), chance.randint(1, 9)]) if chance.random() < 0.6 else None
    name = None if vector is None else "test"
    return IndexEntry(f"d{chance.randrange(40)}", "text", terms, {"n": chance.randrange(4)}, None, vector, name)


def main(url: str, seed: str, rounds: int) -> None:
    """Put mostly; remove, attach and forget vectors now and then."""
    store, chance = SqlStore(url), random.Random(seed)
    for n in range(rounds):
        what = chance.random()
        entries = [an_entry(chance) for _ in range(chance.randint(1, 6))]
        if what < 0.6:
            store.index.put(SHARED, "memory", entries)
        elif what < 0.8:
            store.index.remove(SHARED, "memory", [entry.id for entry in entries])
        elif what < 0.9:
            store.index.attach(SHARED, "memory", entries)
        elif what < 0.95:
            store.index.detach(SHARED, "memory")
        elif what < 0.97 and n < rounds / 2:  # what went wrong before would be forgotten with it
            store.index.erase(SHARED)
        else:
            store.index.lexical(SHARED, "memory", {"red": 1.0}, limit=5)
    store.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
