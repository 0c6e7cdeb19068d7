"""Arc's rerankers as LlamaIndex node postprocessors, and the other way round."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self, TypeAlias, TypeVar

from arc_common.documents import Document, ScoredDocument, checked_items, finite_score
from arc_common.exceptions import InvalidInputError, MissingDependencyError
from arc_common.protocols import Reranker
from arc_common.rerankers.base import (
    DEFAULT_TOP_K,
    check_min_score,
    check_top_k,
    checked_request,
    reranked_if_possible,
    rescored,
)
from arc_common.rerankers.mmr import DiversityReranker
from arc_common.rerankers.score import SimpleScoreReranker
from llamaindex_arc.documents import source_of, to_document, to_node

try:
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
    from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
    from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle
    from llama_index_instrumentation import get_dispatcher
except ImportError as error:
    raise MissingDependencyError("llamaindex_arc.reranker", package="llama-index-core", extra="llamaindex") from error

_dispatcher = get_dispatcher(__name__)

_T = TypeVar("_T")
_Given: TypeAlias = defaultdict[str | None, list[tuple[str, _T]]]
"""What a reranker was given, by id: the content that it had, and what it stands for."""


class ArcNodePostprocessor(BaseNodePostprocessor):
    """Any arc `Reranker` as a node postprocessor.

    - A node is ranked by the text that LlamaIndex would embed. What comes back are new scored nodes around the same
      nodes, best first: no node, metadata, score or list given is changed.
    - Scores may be missing, NaN or infinite; such a node counts as one without a score.
    - A reranker that rewrites a document's text gets a copy of the node with that text.
    - If the reranker fails, the order stays as it was; documents that it was not given are left out. A warning is
      logged for both.
    - Its async form works on a thread.

    Args:
        reranker: The reranker: one of arc's, a chain of them, or any other framework's behind arc's protocol.
        top_n: Nodes left at most; by default as many as the reranker leaves.
        callback_manager: Where the reranking event is reported; engines set their own.

    Raises:
        InvalidInputError: `reranker` can't rerank, `top_n` is no whole number above 0; or, when it is used, the
            reranker needs a query and there is none.
    """

    top_n: int | None = Field(default=None, description="Nodes left at most; None: as the reranker says.", gt=0)
    _reranker: Reranker = PrivateAttr()

    def __init__(
        self, reranker: Reranker, *, top_n: int | None = None, callback_manager: CallbackManager | None = None
    ) -> None:
        if not isinstance(reranker, Reranker):
            raise InvalidInputError("reranker", reranker, "an object with a method rerank(query, documents, top_k=…)")
        if top_n is not None and (type(top_n) is not int or top_n < 1):
            raise InvalidInputError("top_n", top_n, "a whole number above 0, or None")
        fields: dict[str, Any] = {"top_n": top_n, "callback_manager": callback_manager or CallbackManager()}
        super().__init__(**fields)
        self._reranker = reranker

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """A copy with the same reranker."""
        return self.__copy__()

    @classmethod
    def class_name(cls) -> str:
        """The name under which LlamaIndex serializes it; reading it back takes `from_dict(data, reranker=…)`."""
        return "ArcNodePostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        nodes = checked_items("nodes", nodes, NodeWithScore, expected="scored nodes")
        if not nodes:
            return []
        if query_bundle is None and _needs_query(self._reranker, nodes):
            raise InvalidInputError("query_bundle", None, f"a query, which {type(self._reranker).__name__} ranks by")
        top_n, name = self._top_n(len(nodes)), type(self._reranker).__name__
        _dispatcher.event(ReRankStartEvent(query=query_bundle, nodes=nodes, top_n=top_n, model_name=name))
        payload: dict[str, Any] = {
            EventPayload.NODES: nodes,
            EventPayload.MODEL_NAME: name,
            EventPayload.TOP_K: top_n,
        }
        if query_bundle is not None:
            payload[EventPayload.QUERY_STR] = query_bundle.query_str
        with self.callback_manager.event(CBEventType.RERANKING, payload=payload) as event:
            query = "" if query_bundle is None else query_bundle.query_str
            documents = [_candidate(item) for item in nodes]
            answer = reranked_if_possible(self._reranker, query, documents, top_k=self.top_n)
            ranked = _nodes_of(answer, documents, nodes)
            event.on_end(payload={EventPayload.NODES: ranked})
        _dispatcher.event(ReRankEndEvent(nodes=ranked))
        return ranked

    def _top_n(self, count: int) -> int:
        """How many nodes will be left at most, as far as one can say."""
        own = getattr(self._reranker, "top_k", count) if self.top_n is None else self.top_n
        return min(own, count) if isinstance(own, int) else count


class LlamaIndexReranker:
    """Any LlamaIndex node postprocessor as an arc `Reranker`: a cross-encoder, an LLM, a filter.

    - It works on fresh nodes made by `to_node`, so that documents stay as they are whatever it does to its nodes.
    - The order is the postprocessor's. So are the scores, as long as each node has one and they fall from first to
      last; otherwise they are made from the order, from 1 for the first in equal steps towards 0.
    - What it rewrites or adds comes back as a new document; what it gives twice comes once.

    Args:
        postprocessor: The postprocessor, with a number of its own (`top_n`) or none.
        top_k: Documents left at most; more than the postprocessor leaves there can't be.
        min_score: The lowest score of the postprocessor that is let through; what it gives none is left out then.
            `None` lets all through.

    Raises:
        InvalidInputError: It is none, or a value is not acceptable.
    """

    def __init__(
        self, postprocessor: BaseNodePostprocessor, *, top_k: int = DEFAULT_TOP_K, min_score: float | None = None
    ) -> None:
        if not isinstance(postprocessor, BaseNodePostprocessor):
            raise InvalidInputError("postprocessor", postprocessor, "a LlamaIndex node postprocessor")
        self._postprocessor = postprocessor
        self.top_k = check_top_k(top_k)
        self.min_score = check_min_score(min_score)

    def rerank(
        self, query: str, documents: Sequence[ScoredDocument], *, top_k: int | None = None
    ) -> list[ScoredDocument]:
        """The best of what the postprocessor leaves, in its order (see `Reranker`). Raises whatever it raises.

        Raises:
            InvalidInputError: It leaves something else than scored nodes, or what is asked is not acceptable.
        """
        candidates, most = checked_request(query, documents, top_k, usual=self.top_k)
        if not candidates:
            return []
        nodes = [NodeWithScore(node=to_node(found.document), score=found.score) for found in candidates]
        given: _Given[ScoredDocument] = defaultdict(list)
        for item, found in zip(nodes, candidates, strict=True):
            given[item.node.node_id].append((item.node.hash, found))
        room = Counter((item.node.node_id, item.node.hash) for item in nodes)
        left = _each_once(self._postprocessor.postprocess_nodes(nodes, query_bundle=QueryBundle(query)), room)
        told = [(item, score) for item in left if self._lets_through(score := finite_score(item.score))]
        ranked = []
        for (item, _), score in zip(told, _falling([score for _, score in told]), strict=True):
            same = _taken(given, item.node.node_id, item.node.hash)
            if same is None:
                ranked.append(ScoredDocument(to_document(item.node), score))
                continue
            digest, found = same
            document = found.document if digest == item.node.hash else to_document(item.node)
            ranked.append(rescored(replace(found, document=document), score, {}))
        return ranked[:most]

    def _lets_through(self, score: float | None) -> bool:
        return self.min_score is None or (score is not None and score >= self.min_score)


def _each_once(left: object, room: Counter[tuple[str, str]]) -> list[NodeWithScore]:
    """What a postprocessor leaves, none more often than it was given."""
    kept = []
    seen: Counter[tuple[str, str]] = Counter()
    for item in checked_items("postprocessed", left, NodeWithScore, expected="scored nodes"):
        name = item.node.node_id, item.node.hash
        if seen[name] < max(1, room[name]):
            kept.append(item)
        seen[name] += 1
    return kept


def _candidate(item: NodeWithScore) -> ScoredDocument:
    node = item.node
    text = node.get_content(metadata_mode=MetadataMode.EMBED)
    return ScoredDocument(
        Document(text, node.node_id, source_of(node.metadata), dict(node.metadata)), finite_score(item.score)
    )


def _nodes_of(
    ranked: Sequence[ScoredDocument], candidates: Sequence[ScoredDocument], nodes: Sequence[NodeWithScore]
) -> list[NodeWithScore]:
    """New scored nodes in the order of the ranked documents, around the nodes that these were made of."""
    given: _Given[BaseNode] = defaultdict(list)
    for candidate, item in zip(candidates, nodes, strict=True):
        given[candidate.document.id].append((candidate.document.text, item.node))
    found = []
    for scored in ranked:
        document = scored.document
        same = _taken(given, document.id, document.text)
        if same is None:
            found.append(NodeWithScore(node=to_node(document), score=scored.score))
            continue
        text, node = same
        if document.text != text:
            node = node.model_copy()
            node.set_content(document.text)
        found.append(NodeWithScore(node=node, score=scored.score))
    return found


def _taken(given: "_Given[_T]", item_id: str | None, content: str) -> tuple[str, _T] | None:
    """What was given under the id, each once: rather the one with this content than another."""
    waiting = given[item_id]
    place = next((place for place, (was, _) in enumerate(waiting) if was == content), 0)
    return waiting.pop(place) if waiting else None


def _needs_query(reranker: Reranker, nodes: Sequence[NodeWithScore]) -> bool:
    """Whether it can't rank these nodes without a question; of a reranker that arc doesn't know, always."""
    if isinstance(reranker, DiversityReranker):
        return all(finite_score(item.score) is None for item in nodes)
    return not isinstance(reranker, SimpleScoreReranker)


def _falling(scores: Sequence[float | None]) -> list[float]:
    """The scores, if all are there and none is above the one before it; else scores by place."""
    known = [score for score in scores if score is not None]
    if len(known) == len(scores) and known == sorted(known, reverse=True):
        return known
    return [1 - place / len(scores) for place in range(len(scores))]
