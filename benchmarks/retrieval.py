"""Measure the quality and time of arc's lexical, dense and hybrid search, its rerankers, and their peers.

    python benchmarks/retrieval.py --data PATH… [--queries N] [--keep FOLDER]

Each file is a collection as gzipped JSON: {documents: {id: text}, queries: {id: text}, qrels: {query: {document:
grade}}}. Each contestant returns the first 100 documents, with the same vectors of all-MiniLM-L6-v2 (see minilm.py),
which are computed beforehand and not timed.

- "nDCG@10": of all queries, and of the "odd" and "even" ones, so that a choice made on one half can be checked on the
  other.
- "recall@100", and "ms": the median time of a query, with its ratio to arc's hybrid search.
- "arc hybrid less …": the difference in nDCG@10 between hybrid search and the better of its two parts, with a 95 %
  confidence interval. An interval that contains 0 shows no difference.

The peers: rank-bm25 on whitespace tokens and bm25s, each as its manual begins; LangChain's EnsembleRetriever of its
BM25Retriever and its in-memory vector store; LlamaIndex's QueryFusionRetriever of its BM25Retriever and its in-memory
vector index, by reciprocal ranks and by relative scores. Needs the extras `langchain`, `llamaindex` and `bench`; peers
that are not installed are listed as omitted. LlamaIndex's BM25Retriever asks for PyStemmer 2, whose stems differ from
arc's, but works with 3: pip install --no-deps llama-index-retrievers-bm25
"""

import argparse
import gzip
import json
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any, Protocol

# On a busy machine, two threads are slower than one. Numpy reads these variables when it is imported.
os.environ.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"})

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent))

from ranking_quality import ndcg, recall

from arc_common.documents import Document, ScoredDocument
from arc_common.protocols import Reranker
from arc_common.rerankers import BM25Reranker, DiversityReranker, KeywordWeightedReranker, RerankerChain
from arc_common.retrieval import HybridIndex
from arc_common.stores import SqlIndexStore

DEPTH = 100
FUSED = "arc hybrid"
PARTS = ("arc words", "arc vectors")

Search = Callable[[str], list[str]]


class _Embedder(Protocol):
    name: str

    def embed(self, texts: Sequence[str]) -> Any:
        """Return one vector for each text."""


@dataclass(frozen=True, slots=True)
class Collection:
    """Documents, queries, and the grades of documents for queries."""

    name: str
    documents: Mapping[str, str]
    queries: Mapping[str, str]
    grades: Mapping[str, Mapping[str, float]]

    @classmethod
    def read(cls, path: Path, queries: int | None = None) -> "Collection":
        """Read a collection, and of its queries the first ones with a relevant document."""
        with gzip.open(path, "rt", encoding="utf-8") as file:
            data = json.load(file)
        there = data["documents"].keys()
        grades = {
            asked: {name: grade for name, grade in judged.items() if name in there}
            for asked, judged in data["qrels"].items()
        }
        answered = [name for name in data["queries"] if any(grade > 0 for grade in grades.get(name, {}).values())]
        kept = {name: data["queries"][name] for name in answered[:queries]}
        return cls(path.name.split(".")[0], data["documents"], kept, grades)


@dataclass(slots=True)
class Remembered:
    """An embedder whose texts were all embedded beforehand.

    Args:
        embedder: Computes the vectors.
        folder: Keeps the vectors between runs; `None` keeps none.
    """

    embedder: _Embedder
    folder: Path | None = None
    vectors: dict[str, list[float]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The embedder's name."""
        return self.embedder.name

    def learn(self, texts: Sequence[str]) -> None:
        """Embed the texts, or read their vectors from an earlier run."""
        digest = sha256("\0".join([self.name, *texts]).encode()).hexdigest()[:24]
        kept = self.folder / f"{digest}.npy" if self.folder else None
        if kept is not None and kept.exists():
            made = np.load(kept)
        else:
            made = np.asarray(self.embedder.embed(texts), dtype=np.float32)
            if kept is not None:
                kept.parent.mkdir(parents=True, exist_ok=True)
                np.save(kept, made)
        self.vectors |= dict(zip(texts, made.tolist(), strict=True))

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of learned texts."""
        return [self.vectors[text] for text in texts]


@dataclass(frozen=True, slots=True)
class Row:
    """One contestant's figures for each query."""

    ndcg: list[float]
    recall: list[float]
    milliseconds: list[float]


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare the contestants on each collection and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="collections")
    parser.add_argument("--queries", type=int, help="at most, of each collection")
    parser.add_argument("--keep", type=Path, help="folder that keeps the vectors for the next run")
    options = parser.parse_args(arguments)
    from minilm import MiniLM

    embedder, console = Remembered(MiniLM(), options.keep), Console()
    for path in options.data:
        collection = Collection.read(path, options.queries)
        show(collection, compare(collection, embedder), console)


def compare(collection: Collection, embedder: Remembered) -> dict[str, Row]:
    """Return the figures of each contestant."""
    embedder.learn(list(dict.fromkeys(collection.documents.values())))
    embedder.learn(list(dict.fromkeys(collection.queries.values())))
    contestants = {**_arc(collection, embedder), **_peers(collection, embedder)}
    return {name: _row(collection, search) for name, search in contestants.items()}


def show(collection: Collection, rows: Mapping[str, Row], console: Console) -> None:
    """Print a collection's table, and the difference between hybrid search and the better of its parts."""
    size = f"{len(collection.documents):,} documents, {len(collection.queries):,} queries"
    table = Table("", title=f"{collection.name}: {size}")
    for heading in ("nDCG@10", "odd", "even", "recall@100", "ms", "ratio"):
        table.add_column(heading, justify="right")
    own = median(rows[FUSED].milliseconds)
    for name, row in rows.items():
        took = median(row.milliseconds)
        qualities = (mean(row.ndcg), mean(row.ndcg[::2]), mean(row.ndcg[1::2] or row.ndcg), mean(row.recall))
        table.add_row(name, *(f"{one:.4f}" for one in qualities), f"{took:.2f}", f"{took / own:.2f}×")
    console.print(table)
    for queries, chosen in {"all": slice(None), "odd": slice(None, None, 2), "even": slice(1, None, 2)}.items():
        if compared := rows[FUSED].ndcg[chosen]:
            better = max(PARTS, key=lambda part: mean(rows[part].ndcg[chosen]))
            gains = np.subtract(compared, rows[better].ndcg[chosen])
            low, high = _interval(gains)
            console.print(f"{queries}: {FUSED} less {better} {gains.mean():+.4f} (95 %: {low:+.4f} to {high:+.4f})")
    for name, package in _PEERS.items():
        if not _is_installed(package):
            console.print(f"omitted: {name} ({package} is not installed)")


def _interval(gains: NDArray[np.float64]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the mean, by paired bootstrap (Sakai 2006)."""
    drawn = np.random.default_rng(0).integers(len(gains), size=(2_000, len(gains)))
    low, high = np.percentile(gains[drawn].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def _row(collection: Collection, search: Search) -> Row:
    row = Row([], [], [])
    search(next(iter(collection.queries.values())))  # warm-up
    for query_id, query in collection.queries.items():
        start = perf_counter()
        found = search(query)
        row.milliseconds.append(1_000 * (perf_counter() - start))
        grades = collection.grades[query_id]
        row.ndcg.append(ndcg(found, grades))
        row.recall.append(recall(found, grades, depth=DEPTH))
    return row


def _arc(collection: Collection, embedder: Remembered) -> dict[str, Search]:
    index = HybridIndex(SqlIndexStore.open(), embedder=embedder)
    index.add([Document(text, id=name) for name, text in collection.documents.items()])

    def searching(mode: Any, reranker: Reranker | None = None) -> Search:
        def search(query: str) -> list[str]:
            found: Sequence[ScoredDocument] = index.search(query, top_k=DEPTH, mode=mode)
            if reranker is not None:
                found = reranker.rerank(query, found, top_k=DEPTH)
            return [scored.document.id or "" for scored in found]

        return search

    rerankers: dict[str, Reranker] = {
        "keyword": KeywordWeightedReranker(),
        "bm25": BM25Reranker(),
        "diversity": DiversityReranker(embedder=embedder),
        "diversity, λ .9": DiversityReranker(embedder=embedder, trade_off=0.9),
        "both": RerankerChain([KeywordWeightedReranker(), DiversityReranker(embedder=embedder, trade_off=0.9)]),
    }
    searches = {PARTS[0]: searching("lexical"), PARTS[1]: searching("dense"), FUSED: searching("hybrid")}
    return searches | {f"  + {name}": searching("hybrid", reranker) for name, reranker in rerankers.items()}


def _peers(collection: Collection, embedder: Remembered) -> dict[str, Search]:
    ids, texts = list(collection.documents), list(collection.documents.values())
    peers = {}
    for name, package in _PEERS.items():
        if _is_installed(package):
            peers |= _MAKERS[name](ids, texts, embedder)
    return peers


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False


def _rank_bm25(ids: Sequence[str], texts: Sequence[str], _: Remembered) -> dict[str, Search]:
    from rank_bm25 import BM25Okapi

    index = BM25Okapi([text.split() for text in texts])

    def search(query: str) -> list[str]:
        best = np.argsort(-index.get_scores(query.split()), kind="stable")[:DEPTH]
        return [ids[place] for place in best.tolist()]

    return {"rank-bm25, split()": search}


def _bm25s(ids: Sequence[str], texts: Sequence[str], _: Remembered) -> dict[str, Search]:
    import bm25s

    index = bm25s.BM25()
    index.index(bm25s.tokenize(list(texts), show_progress=False), show_progress=False)
    depth = min(DEPTH, len(ids))

    def search(query: str) -> list[str]:
        asked = bm25s.tokenize([query], show_progress=False, return_ids=False)
        places, _ = index.retrieve(asked, k=depth, show_progress=False)
        return [ids[place] for place in places[0].tolist()]

    return {"bm25s": search}


def _langchain(ids: Sequence[str], texts: Sequence[str], embedder: Remembered) -> dict[str, Search]:
    from langchain_classic.retrievers import EnsembleRetriever
    from langchain_core.documents import Document as LangChainDocument
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package warns at import that it is unmaintained
        from langchain_community.retrievers import BM25Retriever

    class Vectors(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return embedder.embed(texts)

        def embed_query(self, text: str) -> list[float]:
            return embedder.embed([text])[0]

    documents = [
        LangChainDocument(id=name, page_content=text, metadata={"id": name})
        for name, text in zip(ids, texts, strict=True)
    ]
    store = InMemoryVectorStore(Vectors())
    store.add_documents(documents)
    words = BM25Retriever.from_documents(documents, k=DEPTH)
    both = EnsembleRetriever(retrievers=[words, store.as_retriever(search_kwargs={"k": DEPTH})], id_key="id")
    return {"LangChain ensemble": lambda query: [document.metadata["id"] for document in both.invoke(query)]}


def _llamaindex(ids: Sequence[str], texts: Sequence[str], embedder: Remembered) -> dict[str, Search]:
    from llama_index.core import VectorStoreIndex
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.llms import MockLLM
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.core.schema import TextNode
    from llama_index.retrievers.bm25 import BM25Retriever

    class Vectors(BaseEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            return embedder.embed([text])[0]

        def _get_query_embedding(self, query: str) -> list[float]:
            return embedder.embed([query])[0]

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_query_embedding(query)

    nodes = [
        TextNode(id_=name, text=text, embedding=embedder.vectors[text]) for name, text in zip(ids, texts, strict=True)
    ]
    depth = min(DEPTH, len(ids))
    words = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=depth)
    vectors = VectorStoreIndex(nodes, embed_model=Vectors()).as_retriever(similarity_top_k=depth)

    def fusing(mode: Any) -> Search:
        both = QueryFusionRetriever(
            [words, vectors], llm=MockLLM(), mode=mode, similarity_top_k=depth, num_queries=1, use_async=False
        )
        return lambda query: [found.node.node_id for found in both.retrieve(query)]

    return {
        "LlamaIndex, ranks": fusing("reciprocal_rerank"),
        "LlamaIndex, scores": fusing("relative_score"),
    }


_MAKERS = {
    "rank-bm25": _rank_bm25,
    "bm25s": _bm25s,
    "LangChain's ensemble": _langchain,
    "LlamaIndex's fusion": _llamaindex,
}

_PEERS = {
    "rank-bm25": "rank_bm25",
    "bm25s": "bm25s",
    "LangChain's ensemble": "langchain_community",
    "LlamaIndex's fusion": "llama_index.retrievers.bm25",
}
"""Each peer's name, and the package that it needs."""

if __name__ == "__main__":
    main()
