"""Measure the speed of arc's index in memory, compared with bm25s, a bare matrix product and the frameworks' stores.

    python benchmarks/index_speed.py [--texts 100000] [--dimension 384] [--queries 50]

All contestants get the same generated texts (terms by Zipf's law) and random vectors. Prints the median ms of a query,
its ratio to arc's, and the bytes that each store holds per vector. Needs the extras `langchain`, `llamaindex` and
`bench`.
"""

import argparse
import gc
import tracemalloc
from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arc_common.protocols.search_index import IndexEntry, Scope
from arc_common.retrieval import BM25
from arc_common.retrieval.bm25 import best_places
from arc_common.stores import SqlIndexStore
from tests.contracts.index_queries import dense, lexical

SCOPE = Scope()
TOP_K = 10
SLOW_QUERIES = 5
"""Queries to the frameworks' stores, which take seconds for each."""
TRACED_VECTORS = 20_000
"""Vectors whose memory is measured; tracing the allocations of more would take longer than the rest of the run."""


def main() -> None:
    """Measure lexical and vector search and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--queries", type=int, default=50)
    arguments = parser.parse_args()
    rng = np.random.default_rng(7)
    words(rng, arguments.texts, arguments.queries)
    table = rng.standard_normal((arguments.texts, arguments.dimension), dtype=np.float32)
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    vectors(table, rng.standard_normal((arguments.queries, arguments.dimension), dtype=np.float32))


def words(rng: np.random.Generator, texts: int, queries: int) -> None:
    """Measure lexical search with arc and bm25s: texts of 40 terms, queries of up to 6."""
    import bm25s

    vocabulary = 50_000
    chances = 1 / np.arange(1, vocabulary + 1)
    chances /= chances.sum()
    corpus = [[f"t{n}" for n in row] for row in rng.choice(vocabulary, size=(texts, 40), p=chances).tolist()]
    asked = [sorted({f"t{n}" for n in row}) for row in rng.choice(vocabulary, size=(queries, 6), p=chances).tolist()]
    store, formula = SqlIndexStore.open(), BM25()
    ids = [f"{n:07}" for n in range(texts)]
    start = perf_counter()
    for i in range(0, texts, 1_000):
        batch = zip(ids[i : i + 1_000], corpus[i : i + 1_000], strict=True)
        store.put(SCOPE, "document", [IndexEntry(name, "", _counted(terms)) for name, terms in batch])
    ours_built = perf_counter() - start
    theirs = bm25s.BM25(k1=formula.k1, b=formula.b, method="lucene")
    start = perf_counter()
    theirs.index(corpus, show_progress=False)
    theirs_built = perf_counter() - start

    def ours(terms: list[str]) -> list[float]:
        weights = dict.fromkeys(terms, 1.0)
        found = lexical(store, SCOPE, "document", weights, limit=TOP_K)
        scores = formula.scores(found, list(weights.values()))
        return [float(scores[place]) for place in best_places(found.ids, scores, TOP_K)]

    def peers(terms: list[str]) -> list[float]:
        _, scores = theirs.retrieve([terms], k=TOP_K, show_progress=False, n_threads=0)
        return [float(score) for score in scores[0]]

    for terms in asked:
        if not np.allclose(ours(terms), peers(terms)[: len(ours(terms))], rtol=1e-3):
            raise SystemExit(f"arc and bm25s score {terms} differently")
    print(f"{texts:,} texts, built in: arc {ours_built:.1f} s, bm25s {theirs_built:.1f} s")
    _report("lexical search", _medians({"arc": ours, "bm25s": peers}, asked))


def vectors(table: NDArray[np.float32], asked: NDArray[np.float32]) -> None:
    """Measure vector search with arc, the bare product, LangChain and LlamaIndex."""
    asked /= np.linalg.norm(asked, axis=1, keepdims=True)
    queries = list(asked)
    store = _arc_store(table)
    times = _medians({"arc": _arc_search(store), "product": lambda vector: table @ vector}, queries)
    nearest = _arc_search(store)(queries[0])
    del store
    held = {"arc": _bytes_per_vector(lambda: _arc_store(table[:TRACED_VECTORS]))}
    for name, make in (("LangChain", _langchain_store), ("LlamaIndex", _llamaindex_store)):
        held[name] = _bytes_per_vector(lambda make=make: make(table[:TRACED_VECTORS]))  # type: ignore[misc]
        search, kept = make(table)
        if search(queries[0]) != nearest:
            raise SystemExit(f"{name} returns other vectors than arc")
        times |= _medians({name: search}, queries[:SLOW_QUERIES])
        del search, kept
    _report(f"{len(table):,} × {table.shape[1]} vectors", times)
    sizes = (f"{name} {size:,.0f} ({size / held['arc']:.2f}×)" for name, size in held.items())
    print("bytes per vector:  " + "  ".join(sizes))


def _arc_search(store: SqlIndexStore) -> Callable[[NDArray[np.float32]], list[str]]:
    def search(vector: NDArray[np.float32]) -> list[str]:
        return [name for name, _ in dense(store, SCOPE, "document", vector, embedder="e", limit=TOP_K)]

    return search


def _arc_store(table: NDArray[np.float32]) -> SqlIndexStore:
    store = SqlIndexStore.open()
    for start in range(0, len(table), 1_000):
        rows = range(start, min(start + 1_000, len(table)))
        store.put(SCOPE, "document", [IndexEntry(f"{n:07}", "", {}, {}, None, table[n], "e") for n in rows])
    return store


def _langchain_store(table: NDArray[np.float32]) -> tuple[Callable[[NDArray[np.float32]], list[str]], Any]:
    from langchain_core.embeddings import FakeEmbeddings
    from langchain_core.vectorstores import InMemoryVectorStore

    store = InMemoryVectorStore(FakeEmbeddings(size=table.shape[1]))
    for n, row in enumerate(table):  # the form in which `add_documents` stores them
        name = f"{n:07}"
        store.store[name] = {"id": name, "vector": row.tolist(), "text": "", "metadata": {}}

    def search(vector: NDArray[np.float32]) -> list[str]:
        found = store.similarity_search_by_vector(vector.tolist(), k=TOP_K)
        return [document.id or "" for document in found]

    return search, store


def _llamaindex_store(table: NDArray[np.float32]) -> tuple[Callable[[NDArray[np.float32]], list[str]], Any]:
    from llama_index.core.vector_stores import SimpleVectorStore
    from llama_index.core.vector_stores.types import VectorStoreQuery

    store = SimpleVectorStore()
    for n, row in enumerate(table):
        store.data.embedding_dict[f"{n:07}"] = row.tolist()

    def search(vector: NDArray[np.float32]) -> list[str]:
        found = store.query(VectorStoreQuery(query_embedding=vector.tolist(), similarity_top_k=TOP_K))
        return list(found.ids or [])

    return search, store


def _bytes_per_vector(make: Callable[[], Any]) -> float:
    """Return the bytes per vector that a new store holds."""
    gc.collect()
    tracemalloc.start()
    kept = make()
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return held / TRACED_VECTORS


def _counted(terms: Sequence[str]) -> dict[str, float]:
    counts: dict[str, float] = {}
    for term in terms:
        counts[term] = counts.get(term, 0) + 1
    return counts


def _medians(searches: dict[str, Callable[[Any], object]], queries: Sequence[Any]) -> dict[str, float]:
    """Return the median ms of each search; they alternate, so that other load affects all of them."""
    times: dict[str, list[float]] = {name: [] for name in searches}
    for query in (*queries[:1], *queries):
        for name, search in searches.items():
            start = perf_counter()
            search(query)
            times[name].append(perf_counter() - start)
    return {name: 1_000 * median(taken[1:]) for name, taken in times.items()}


def _report(what: str, times: dict[str, float]) -> None:
    print(what + ":  " + "  ".join(f"{name} {ms:.2f} ms ({ms / times['arc']:.2f}×)" for name, ms in times.items()))


if __name__ == "__main__":
    main()
