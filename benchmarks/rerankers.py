"""Measure arc's rerankers and their peers side by side: median CPU times, their ratios, and ranking quality.

    python benchmarks/rerankers.py [--repeat 15] [--data PATH]

- "MMR, vectors": 10 of 1,000 candidates with 384 dimensions; against LangChain's `maximal_marginal_relevance` and
  LlamaIndex's `get_top_k_mmr_embeddings` on the same arrays.
- "MMR, terms": 10 of 1,000 texts; against the naive algorithm, which compares each candidate with all chosen ones.
- "BM25 of 100 texts": raw texts; against LangChain's `BM25Retriever` built on them (omitted unless langchain-community
  is installed) and against its algorithm alone: texts split at white space, rank-bm25's BM25Okapi, the best four.
  Arc's cache of analysed words is warm, since all runs use the same texts.

With --data (the folder of the shared data), also nDCG@10 of reranking the first 100 results of a lexical search.
"""

import argparse
import gzip
import json
import os
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median
from time import process_time
from typing import Any

# CPU time would count two threads twice. Numpy reads these variables when it is imported.
os.environ.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"})

import numpy as np
from langchain_core.documents import Document as LangChainDocument
from langchain_core.vectorstores.utils import maximal_marginal_relevance
from llama_index.core.indices.query.embedding_utils import get_top_k_mmr_embeddings
from rank_bm25 import BM25Okapi
from ranking_quality import ndcg

from arc_common.documents import Document, ScoredDocument
from arc_common.rerankers import (
    BM25Reranker,
    DiversityReranker,
    KeywordWeightedReranker,
    RerankerChain,
    SimpleScoreReranker,
    jaccard_mmr,
    query_mmr,
)
from arc_common.text import analyze

CANDIDATES, DIMENSIONS, TAKEN = 1_000, 384, 10


def main() -> None:
    """Measure the times, and the quality if --data is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=15, help="runs of each contestant")
    parser.add_argument("--data", type=Path, help="folder of the shared data")
    arguments = parser.parse_args()
    _vectors(arguments.repeat)
    _terms(arguments.repeat)
    _bm25(arguments.repeat)
    if arguments.data:
        for name in ("ir_cranfield", "ir_korquad", "ir_xquad_zh", "ir_xquad_en"):
            _quality(arguments.data, name)


def _vectors(repeat: int) -> None:
    generator = np.random.default_rng(0)
    rows, query = generator.normal(size=(CANDIDATES, DIMENSIONS)), generator.normal(size=DIMENSIONS)
    lists = rows.tolist()
    for dtype in (np.float64, np.float32):
        own, asked = rows.astype(dtype), query.astype(dtype)
        runs = {
            "arc": lambda own=own, asked=asked: [place for place, _ in query_mmr(asked, own, top_k=TAKEN)],
            "LangChain": lambda own=own, asked=asked: maximal_marginal_relevance(asked, own, k=TAKEN),
        }
        _print(f"MMR, vectors ({np.dtype(dtype).name})", *_timed(runs, repeat))
    runs = {
        "arc (lists)": lambda: [place for place, _ in query_mmr(query.tolist(), lists, top_k=TAKEN)],
        "LlamaIndex": lambda: get_top_k_mmr_embeddings(query.tolist(), lists, similarity_top_k=TAKEN)[1],
    }
    times, _ = _timed(runs, max(1, repeat // 5))  # LlamaIndex compares with the last pick only, so its picks differ
    _print("MMR, vectors", times, {})


def _terms(repeat: int) -> None:
    texts = _texts(CANDIDATES)
    generator = random.Random(0)
    relevance = [generator.random() for _ in texts]
    sets = [frozenset(analyze(text)) for text in texts]

    def naive() -> list[int]:
        taken: list[int] = []
        while len(taken) < TAKEN:
            values = {
                place: 0.5 * relevance[place]
                - 0.5 * max((len(own & sets[one]) / len(own | sets[one]) for one in taken), default=0.0)
                for place, own in enumerate(sets)
                if place not in taken
            }
            taken.append(max(values, key=lambda place: (values[place], -place)))
        return taken

    runs = {"arc": lambda: [place for place, _ in jaccard_mmr(relevance, sets, top_k=TAKEN)], "naive": naive}
    _print("MMR, terms", *_timed(runs, repeat))


def _bm25(repeat: int) -> None:
    texts, question = _texts(100), "which vessels may moor beside the northern quay at night"
    reranker = BM25Reranker(top_k=4)

    def arc() -> list[str]:
        found = reranker.rerank(question, [ScoredDocument(Document(text)) for text in texts])
        return [ranked.document.text for ranked in found]

    def langchain() -> list[str]:
        documents = [LangChainDocument(page_content=text, metadata={}) for text in texts]
        index = BM25Okapi([text.split() for text in texts])
        return [document.page_content for document in index.get_top_n(question.split(), documents, n=4)]

    runs = {"arc": arc}
    for name, peer in {"LangChain": _langchain_bm25(texts, question), "LangChain's algorithm": langchain}.items():
        if peer is not None:
            times, _ = _timed({**runs, name: peer}, repeat)
            _print("BM25 of 100 texts", times, {})


def _langchain_bm25(texts: list[str], question: str) -> Callable[[], list[str]] | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package warns at import that it is unmaintained
        try:
            from langchain_community.retrievers import BM25Retriever
        except ModuleNotFoundError:
            return None
    return lambda: [document.page_content for document in BM25Retriever.from_texts(texts, k=4).invoke(question)]


def _timed(runs: dict[str, Callable[[], Any]], repeat: int) -> tuple[dict[str, float], dict[str, Any]]:
    """Run the contestants alternately; return the median ms and the answer of each."""
    answers = {name: run() for name, run in runs.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeat):
        for name, run in runs.items():
            start = process_time()
            run()
            times[name].append(1_000 * (process_time() - start))
    return {name: median(taken) for name, taken in times.items()}, answers


def _print(title: str, times: dict[str, float], answers: dict[str, Any]) -> None:
    slowest = times[list(times)[-1]]
    shown = ", ".join(f"{name} {time:.2f} ms ({slowest / time:.1f}×)" for name, time in times.items())
    same = (
        {True: "; same picks", False: "; DIFFERENT PICKS"}[len({str(a) for a in answers.values()}) == 1]
        if answers
        else ""
    )
    print(f"{title}: {shown}{same}", flush=True)


def _texts(count: int) -> list[str]:
    """Return texts of 120 words with a Zipf-like distribution."""
    generator = random.Random(1)
    syllables = ["har", "bour", "lan", "tern", "qua", "y", "ves", "sel", "moor", "night", "nor", "thern", "be", "ing"]
    words = sorted({"".join(generator.choices(syllables, k=generator.randint(1, 4))) for _ in range(6_000)})
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    generator.shuffle(words)
    return [" ".join(generator.choices(words, weights, k=120)) for _ in range(count)]


def _quality(folder: Path, name: str) -> None:
    """Print the nDCG@10 of each reranker over the first 100 results of a whitespace BM25, and of those results."""
    with gzip.open(folder / f"{name}.json.gz", "rt", encoding="utf-8") as file:
        collection = json.load(file)
    ids, texts = list(collection["documents"]), list(collection["documents"].values())
    index = BM25Okapi([text.lower().split() for text in texts])
    rerankers = {
        "first stage": SimpleScoreReranker(),
        "keyword": KeywordWeightedReranker(),
        "bm25": BM25Reranker(),
        "diversity": DiversityReranker(),
        "bm25 + diversity": RerankerChain([BM25Reranker(), DiversityReranker(trade_off=0.9)]),
    }
    qualities: dict[str, list[float]] = {reranker: [] for reranker in rerankers}
    for query_id, query in list(collection["queries"].items())[:200]:
        grades = collection["qrels"].get(query_id, {})
        if not any(grade > 0 for grade in grades.values()):
            continue
        scores = index.get_scores(query.lower().split())
        first = np.argsort(-scores, kind="stable")[:100]
        found = [ScoredDocument(Document(texts[place], id=ids[place]), float(scores[place])) for place in first]
        for reranker_name, reranker in rerankers.items():
            ranked = reranker.rerank(query, found, top_k=10)
            qualities[reranker_name].append(ndcg([str(entry.document.id) for entry in ranked], grades))
    print(
        f"{name}: " + ", ".join(f"{reranker} {mean(values):.3f}" for reranker, values in qualities.items()), flush=True
    )


if __name__ == "__main__":
    main()
