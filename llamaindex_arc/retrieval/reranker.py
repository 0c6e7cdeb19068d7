"""Arc's rerankers as LlamaIndex node postprocessors, and node postprocessors as arc's rerankers."""

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle
from llama_index_instrumentation import get_dispatcher

from arc_common.documents import Document, ScoredDocument, checked_items, finite_score
from arc_common.exceptions import InvalidInputError, check_whole
from arc_common.protocols import Reranker, TokenCounter
from arc_common.rerankers.base import DEFAULT_TOP_K, BaseReranker, reranked_if_possible, rescored
from arc_common.rerankers.mmr import DiversityReranker
from arc_common.rerankers.score import SimpleScoreReranker
from arc_common.tokens.budget import usable_tokens
from arc_common.tokens.counters import default_token_counter
from llamaindex_arc.component import Component
from llamaindex_arc.retrieval.documents import embedded_text, node_from_arc, node_to_arc, source_of

_T = TypeVar("_T")
_Given: TypeAlias = defaultdict[str | None, list[tuple[str, _T]]]
"""A reranker's input by id: each item's content at that time, and the item itself."""


class ArcNodePostprocessor(Component, BaseNodePostprocessor):
    """Any arc `Reranker` as a node postprocessor.

    - A node is ranked by the text that LlamaIndex would embed. The result holds new scored nodes around the same nodes,
      best first: no node, metadata, score or list given is changed.
    - A missing, NaN or infinite score counts as no score.
    - A node whose text the reranker rewrites comes back as a copy with the new text.
    - If the reranker fails, the order stays the same; documents that the reranker was not given are left out. Both
      cases log a warning.
    - Its async form runs on a thread. `from_dict(data, reranker=…)` restores it.

    Args:
        reranker: One of arc's rerankers, a chain of them, or another framework's behind arc's protocol; without one,
            the nodes keep their order.
        top_n: The most nodes kept; by default the reranker's own number. Required without a reranker.

    Raises:
        InvalidInputError: There is neither a reranker nor `top_n`, or one of them is invalid; or, in use, the reranker
            needs a query and there is none.
    """

    top_n: int | None = Field(default=None, description="Nodes left at most; None: as the reranker says.", gt=0)
    _reranker: Reranker | None = PrivateAttr()

    def __init__(
        self,
        reranker: Reranker | None = None,
        *,
        top_n: int | None = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        if reranker is None and top_n is None:
            raise InvalidInputError("reranker", reranker, "a reranker or top_n")
        if top_n is not None:
            check_whole("top_n", top_n)
        if reranker is not None and not isinstance(reranker, Reranker):
            raise InvalidInputError("reranker", reranker, "an object with a method rerank(query, documents, top_k=…)")
        fields: dict[str, Any] = {"top_n": top_n, "callback_manager": callback_manager or CallbackManager()}
        super().__init__(**fields)
        self._reranker = reranker

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        nodes = checked_items("nodes", nodes, NodeWithScore, expected="scored nodes")
        if not nodes:
            return []
        if self._reranker is None:
            return [NodeWithScore(node=item.node, score=item.score) for item in nodes[: self.top_n]]
        if query_bundle is None and _needs_query(self._reranker, nodes):
            raise InvalidInputError("query_bundle", None, f"a query, which {type(self._reranker).__name__} ranks by")
        name = type(self._reranker).__name__
        with _events(self.callback_manager, query_bundle, nodes, top_n=self._top_n(len(nodes)), name=name) as kept:
            query = "" if query_bundle is None else query_bundle.query_str
            documents = [_candidate(item) for item in nodes]
            answer = reranked_if_possible(self._reranker, query, documents, top_k=self.top_n)
            kept.extend(_nodes_of(answer, documents, nodes))
        return kept

    def _top_n(self, count: int) -> int:
        """Return the most nodes that will be kept, if that is known in advance."""
        own = getattr(self._reranker, "top_k", count) if self.top_n is None else self.top_n
        return min(own, count) if isinstance(own, int) else count


class LlamaIndexReranker(BaseReranker):
    """Any LlamaIndex node postprocessor as an arc `Reranker`: a cross-encoder, an LLM, a filter.

    - It works on new nodes made by `node_from_arc`, so that documents stay unchanged whatever it does to its nodes.
    - The order is the postprocessor's. Its scores are kept if each node has one and they never rise from first to last;
      otherwise scores are derived from the order, from 1 for the first in equal steps towards 0.
    - A node that it rewrites or adds becomes a new document; a node that it returns twice appears once. An error of
      its own is raised.

    Args:
        postprocessor: The postprocessor, with or without a limit of its own (`top_n`).
        top_k: The most documents returned; never more than the postprocessor keeps.
        min_score: The lowest score, on the postprocessor's scale, that is kept; documents without a score are then left
            out. `None` keeps all.

    Raises:
        InvalidInputError: It is not a postprocessor, or a value is invalid. In use: it returns something other than
            scored nodes.
    """

    def __init__(
        self, postprocessor: BaseNodePostprocessor, *, top_k: int = DEFAULT_TOP_K, min_score: float | None = None
    ) -> None:
        if not isinstance(postprocessor, BaseNodePostprocessor):
            raise InvalidInputError("postprocessor", postprocessor, "a LlamaIndex node postprocessor")
        super().__init__(top_k=top_k, min_score=min_score)
        self._postprocessor = postprocessor

    def _ranked(self, query: str, candidates: Sequence[ScoredDocument], most: int) -> list[ScoredDocument]:
        nodes = [NodeWithScore(node=node_from_arc(found.document), score=found.score) for found in candidates]
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
                ranked.append(ScoredDocument(node_to_arc(item.node), score))
                continue
            digest, found = same
            document = found.document if digest == item.node.hash else node_to_arc(item.node)
            ranked.append(rescored(replace(found, document=document), score, {}))
        return ranked[:most]

    def _lets_through(self, score: float | None) -> bool:
        return self.min_score is None or (score is not None and score >= self.min_score)


def _each_once(left: object, room: Counter[tuple[str, str]]) -> list[NodeWithScore]:
    """Return the nodes that a postprocessor keeps, each no more often than it was given."""
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
    document = Document(embedded_text(node), node.node_id, source_of(node.metadata), dict(node.metadata))
    return ScoredDocument(document, finite_score(item.score))


def _nodes_of(
    ranked: Sequence[ScoredDocument], candidates: Sequence[ScoredDocument], nodes: Sequence[NodeWithScore]
) -> list[NodeWithScore]:
    """Return new scored nodes in the order of the ranked documents, around the original nodes."""
    given: _Given[BaseNode] = defaultdict(list)
    for candidate, item in zip(candidates, nodes, strict=True):
        given[candidate.document.id].append((candidate.document.text, item.node))
    found = []
    for scored in ranked:
        document = scored.document
        same = _taken(given, document.id, document.text)
        if same is None:
            found.append(NodeWithScore(node=node_from_arc(document), score=scored.score))
            continue
        text, node = same
        if document.text != text:
            node = node.model_copy()
            node.set_content(document.text)
        found.append(NodeWithScore(node=node, score=scored.score))
    return found


def _taken(given: "_Given[_T]", item_id: str | None, content: str) -> tuple[str, _T] | None:
    """Take an item given under the id, preferably the one with this content; `None` if all are taken."""
    waiting = given[item_id]
    place = next((place for place, (was, _) in enumerate(waiting) if was == content), 0)
    return waiting.pop(place) if waiting else None


def _needs_query(reranker: Reranker, nodes: Sequence[NodeWithScore]) -> bool:
    """Return whether the reranker needs a query for these nodes; an unknown reranker always does."""
    if isinstance(reranker, DiversityReranker):
        return all(finite_score(item.score) is None for item in nodes)
    return not isinstance(reranker, SimpleScoreReranker)


def _falling(scores: Sequence[float | None]) -> list[float]:
    """Return the scores if all are present and none exceeds the one before it; else scores by place."""
    known = [score for score in scores if score is not None]
    if len(known) == len(scores) and known == sorted(known, reverse=True):
        return known
    return [1 - place / len(scores) for place in range(len(scores))]


_logger = logging.getLogger(__name__)
_dispatcher = get_dispatcher(__name__)

_SEPARATOR = "\n\n"
"""The separator that LlamaIndex's compact synthesizers put between two nodes' texts."""


class ArcTokenBudgetPostprocessor(Component, BaseNodePostprocessor):
    """Keeps the best nodes whose texts together fit a token budget. Put it last among the postprocessors.

    - A node is counted as the model reads it: its text with the metadata meant for the model. Images and other media
      are not counted. The texts are counted as LlamaIndex's synthesizers join them, with and without the surrounding
      whitespace of each: neither exceeds the budget, less the error that the counter states.
    - Nodes are chosen by score, best first, those without a score last; a node that is too large is skipped, so that
      smaller ones after it still get in. The kept nodes stay in their original order.
    - Nodes, metadata, scores and the list given are not changed.

    Args:
        max_tokens: The budget, in tokens; more than 0.
        token_counter: Counts the texts; by default the counter that arc's engine uses.

    Raises:
        InvalidInputError: `max_tokens` is not a whole number above 0, or `token_counter` can't count; or, in use, the
            nodes are not scored nodes.
    """

    max_tokens: int = Field(description="The tokens that the texts of all kept nodes may have together.", gt=0)
    _token_counter: TokenCounter = PrivateAttr()

    def __init__(
        self,
        max_tokens: int,
        *,
        token_counter: TokenCounter | None = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        check_whole("max_tokens", max_tokens)
        if token_counter is not None and not isinstance(token_counter, TokenCounter):
            raise InvalidInputError("token_counter", token_counter, "an object with name, count and count_batch")
        fields: dict[str, Any] = {"max_tokens": max_tokens, "callback_manager": callback_manager or CallbackManager()}
        super().__init__(**fields)
        self._token_counter = token_counter or default_token_counter()

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        nodes = checked_items("nodes", nodes, NodeWithScore, expected="scored nodes")
        if not nodes:
            return []
        counter = self._token_counter
        with _events(self.callback_manager, query_bundle, nodes, top_n=len(nodes), name=counter.name) as kept:
            texts = [node.node.get_content(metadata_mode=MetadataMode.LLM) for node in nodes]
            costs = counter.count_batch(texts)
            most = usable_tokens(self.max_tokens, counter)
            best = _best_within(most, costs, [node.score for node in nodes], separator=counter.count(_SEPARATOR))
            while best and _together([texts[place] for place in sorted(best)], counter) > most:
                best.pop()  # counts aren't additive: joining two texts may add a token
            kept.extend(NodeWithScore(node=nodes[place].node, score=nodes[place].score) for place in sorted(best))
        if not kept:
            _logger.warning(
                "None of %d nodes fits into %d tokens; the smallest has %d.", len(nodes), self.max_tokens, min(costs)
            )
        return kept


@contextmanager
def _events(
    manager: CallbackManager, query: QueryBundle | None, nodes: list[NodeWithScore], *, top_n: int, name: str
) -> Iterator[list[NodeWithScore]]:
    """Report a reranking to LlamaIndex; yields the list to which the block adds the nodes that it keeps."""
    kept: list[NodeWithScore] = []
    _dispatcher.event(ReRankStartEvent(query=query, nodes=nodes, top_n=top_n, model_name=name))
    payload: dict[str, Any] = {EventPayload.NODES: nodes, EventPayload.MODEL_NAME: name, EventPayload.TOP_K: top_n}
    if query is not None:
        payload[EventPayload.QUERY_STR] = query.query_str
    with manager.event(CBEventType.RERANKING, payload=payload) as event:
        yield kept
        event.on_end(payload={EventPayload.NODES: kept})
    _dispatcher.event(ReRankEndEvent(nodes=kept))


def _best_within(budget: int, costs: Sequence[int], scores: Sequence[float | None], *, separator: int) -> list[int]:
    """Return the places of the best items that fit together, best first; each after the first costs a separator."""
    kept: list[int] = []
    for place in sorted(range(len(costs)), key=lambda place: _rank(scores[place])):
        cost = costs[place] + (separator if kept else 0)
        if cost <= budget:
            kept.append(place)
            budget -= cost
    return kept


def _together(texts: Sequence[str], counter: TokenCounter) -> int:
    """Return the tokens of the texts as a synthesizer joins them, as they are or stripped, whichever is more."""
    stripped = [text.strip() for text in texts]
    joined = {_SEPARATOR.join(texts), _SEPARATOR.join(text for text in stripped if text)}
    return max(counter.count_batch(sorted(joined)))


def _rank(score: float | None) -> float:
    return math.inf if score is None or math.isnan(score) else -score
