"""ArcFusionRetriever: several LlamaIndex retrievers combined into one."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.callbacks import CallbackManager
from llama_index.core.retrievers.fusion_retriever import QUERY_GEN_PROMPT
from llama_index.core.schema import BaseNode, IndexNode, NodeWithScore, QueryBundle

from arc_common.documents import checked_items, finite_score
from arc_common.exceptions import InvalidInputError, check_whole
from arc_common.messages import Message, Role
from arc_common.model_calls import guarded
from arc_common.observability import Observer, guarded_observer
from arc_common.prompts.retrieval import parse_queries
from arc_common.protocols import ChatModel, QueryTransformer
from arc_common.retrieval.fusion import Ranking, fused_scores, reciprocal_ranks
from llamaindex_arc.models import chat_model_of

if TYPE_CHECKING:
    from arc_common.settings import ArcSettings

_log = logging.getLogger("arc.llamaindex")

FusionMode = Literal["relative_score", "reciprocal_rerank"]


class ArcFusionRetriever(BaseRetriever):
    """Sends one or several queries to several retrievers and fuses the results; replaces `QueryFusionRetriever`.

        retriever = ArcFusionRetriever([index.as_retriever(), ArcRetriever(engine=engine)], similarity_top_k=5)

    - Each node appears once: nodes with the same id, or with the same content (hash), count as one.
    - A missing score is not zero: among scores it ranks worst, and if no node has a score, ranks count.
    - The result does not depend on the order of retrievers, nodes or ties. Nodes, scores and bundles given are not
      changed; each retriever gets a bundle of its own.
    - By default there is one query and no model call. If further queries can't be written, the original query, or the
      transformer's version of it, is still searched for.
    - The async form queries all retrievers at once. A retriever that fails is left out, logged and counted
      (`rag.retrieve.errors`); if all fail, the first exception is raised.

    Args:
        retrievers: At least one.
        retriever_weights: The weight of each, 0 or more; equal by default.
        mode: "relative_score" takes the weighted mean of the scores, each ranking scaled from its worst (0) to its best
            (1); "reciprocal_rerank" is weighted reciprocal rank fusion with k = 60 (Cormack, Clarke & Büttcher 2009),
            for scores that can't be compared.
        transformer: Writes the queries: HyDE, or any arc `QueryTransformer`.
        llm: Writes `num_queries` − 1 further queries, in place of a transformer: a LlamaIndex LLM, or an arc
            `ChatModel`.
        num_queries: The number of queries, including those that `llm` writes.
        callback_manager, object_map, objects, verbose: As in LlamaIndex's retrievers.

    Raises:
        InvalidInputError: An argument is invalid; the error names it.
    """

    def __init__(
        self,
        retrievers: Sequence[BaseRetriever],
        *,
        retriever_weights: Sequence[float] | None = None,
        mode: FusionMode = "relative_score",
        similarity_top_k: int = 10,
        transformer: QueryTransformer | None = None,
        llm: BaseLLM | ChatModel | None = None,
        num_queries: int = 1,
        settings: "ArcSettings | None" = None,
        observer: Observer | None = None,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        objects: list[IndexNode] | None = None,
        verbose: bool = False,
    ) -> None:
        self._retrievers = _checked_retrievers(retrievers)
        self._weights = _checked_weights(retriever_weights, len(self._retrievers))
        if mode not in ("relative_score", "reciprocal_rerank"):
            raise InvalidInputError("mode", mode, '"relative_score" or "reciprocal_rerank"')
        for name, value in (("similarity_top_k", similarity_top_k), ("num_queries", num_queries)):
            check_whole(name, value)
        if transformer is not None and (llm is not None or not isinstance(transformer, QueryTransformer)):
            raise InvalidInputError("transformer", transformer, "a QueryTransformer, or None beside an llm")
        if num_queries > 1 and llm is None:
            raise InvalidInputError("num_queries", num_queries, "1, or an llm that writes the others")
        self._observer = observer = guarded_observer(observer)
        if llm is not None and num_queries > 1:
            transformer = _QueryWriter(chat_model_of(llm), num_queries - 1, settings=settings, observer=observer)
        if objects is not None:
            objects = checked_items("objects", objects, IndexNode, expected="index nodes, or None")
        self.mode: FusionMode = "relative_score" if mode == "relative_score" else "reciprocal_rerank"
        self.similarity_top_k = similarity_top_k
        self._transformer = transformer
        super().__init__(callback_manager=callback_manager, object_map=object_map, objects=objects, verbose=verbose)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found: list[list[NodeWithScore] | BaseException] = []
        queries = self._queries(query_bundle)
        for query in queries:
            for retriever in self._retrievers:
                try:
                    found.append(retriever.retrieve(replace(query)))
                except Exception as error:  # noqa: BLE001 - the other retrievers' answers suffice
                    found.append(error)
        return self._fused(self._answered(found))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        queries = [query_bundle]
        if self._transformer is not None:
            queries = await asyncio.to_thread(self._queries, query_bundle)
        found = await asyncio.gather(
            *(retriever.aretrieve(replace(query)) for query in queries for retriever in self._retrievers),
            return_exceptions=True,
        )
        return self._fused(self._answered(found))

    def _answered(
        self, found: Sequence[list[NodeWithScore] | BaseException]
    ) -> list[tuple[float, list[NodeWithScore]]]:
        """Return the answers with their weights; log and count failures, or raise the first if all failed."""
        answers = []
        for place, answer in enumerate(found):
            if not isinstance(answer, BaseException):
                answers.append((self._weights[place % len(self._weights)], answer))
                continue
            if not isinstance(answer, Exception) or all(isinstance(other, BaseException) for other in found):
                raise answer
            self._observer.count("rag.retrieve.errors")
            _log.warning("A retriever failed, and its nodes are missing: %s", answer, exc_info=answer)
        return answers

    def _queries(self, asked: QueryBundle) -> list[QueryBundle]:
        if self._transformer is None:
            return [asked]
        try:
            texts = checked_items(
                "queries", self._transformer.transform(asked.query_str), str, expected="a list of texts"
            )
        except Exception as error:  # noqa: BLE001 - a transformer may raise anything; the original query remains
            self._observer.count("queries.fallbacks")
            _log.warning("Only the original query is searched for: %s", error, exc_info=True)
            return [asked]
        made = dict.fromkeys(text for text in texts if text.strip())
        return [asked if text == asked.query_str else QueryBundle(text) for text in made] or [asked]

    def _fused(self, found: Sequence[tuple[float, Sequence[NodeWithScore]]]) -> list[NodeWithScore]:
        kept = _distinct([item.node for _, items in found for item in items])
        rankings = []
        for weight, items in found:
            scores: dict[str, float | None] = {}
            for item in items:
                key, score = kept[item.node.node_id].node_id, finite_score(item.score)
                best = scores.setdefault(key, score)
                if score is not None and (best is None or score > best):
                    scores[key] = score
            rankings.append(Ranking(scores, weight=weight))
        fused = fused_scores(rankings) if self.mode == "relative_score" else reciprocal_ranks(rankings)
        best_first = sorted(fused, key=lambda key: (-fused[key], key))[: self.similarity_top_k]
        return [NodeWithScore(node=kept[key], score=fused[key]) for key in best_first]


class _QueryWriter:
    """Lets a model write further queries; returns only the question if the model fails."""

    def __init__(
        self, chat_model: ChatModel, count: int, *, settings: "ArcSettings | None", observer: Observer
    ) -> None:
        self._count = count
        self._observer = observer
        self._model = guarded(chat_model, "queries", settings, self._observer)

    def transform(self, query: str, *, history: Sequence[Message] = ()) -> list[str]:  # noqa: ARG002 - the protocol's
        """Return the question and the queries that the model writes (see `QueryTransformer`)."""
        if not query.strip():
            return [query]
        request = QUERY_GEN_PROMPT.format(num_queries=self._count, query=query)
        try:
            written = parse_queries(self._model.complete([Message(Role.USER, request)]))
        except Exception:  # noqa: BLE001 - the question is searched for whatever the model raises
            self._observer.count("queries.fallbacks")
            return [query]
        return [query, *[further for further in written if further != query][: self._count]]


def _checked_retrievers(retrievers: Sequence[BaseRetriever]) -> list[BaseRetriever]:
    checked = checked_items("retrievers", retrievers, BaseRetriever, expected="LlamaIndex retrievers, at least one")
    if not checked:
        raise InvalidInputError("retrievers", retrievers, "at least one retriever")
    return checked


def _checked_weights(weights: Sequence[float] | None, count: int) -> list[float]:
    if weights is None:
        return [1.0] * count
    expected = f"{count} numbers from 0 on, one of them above 0"
    numbers = [
        finite_score(weight) for weight in checked_items("retriever_weights", weights, object, expected=expected)
    ]
    known = [number for number in numbers if number is not None and number >= 0]
    if len(numbers) != count or len(known) != count or not any(known):
        raise InvalidInputError("retriever_weights", weights, expected)
    return known


def _distinct(nodes: Sequence[BaseNode]) -> dict[str, BaseNode]:
    """Map each node's id to the node with the smallest id among all that share its id or its hash."""
    above: dict[tuple[str, str], tuple[str, str]] = {}

    def top(name: tuple[str, str]) -> tuple[str, str]:
        while (upper := above.setdefault(name, name)) != name:
            above[name] = name = above.setdefault(upper, upper)
        return name

    by_name = sorted(((node.node_id, node.hash, node) for node in nodes), key=lambda named: named[:2])
    for node_id, digest, _ in by_name:
        above[top(("id", node_id))] = top(("hash", digest))
    kept: dict[tuple[str, str], BaseNode] = {}
    for node_id, _, node in by_name:
        kept.setdefault(top(("id", node_id)), node)
    return {node_id: kept[top(("id", node_id))] for node_id, _, _ in by_name}
