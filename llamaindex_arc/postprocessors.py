"""Node postprocessors for LlamaIndex query and chat engines."""

import logging
import math
from collections.abc import Sequence
from typing import Any, Self

from arc_common.documents import checked_items
from arc_common.exceptions import InvalidInputError, MissingDependencyError
from arc_common.protocols import TokenCounter
from arc_common.tokens.budget import usable_tokens
from arc_common.tokens.counters import default_token_counter

try:
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
    from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
    from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
    from llama_index_instrumentation import get_dispatcher
except ImportError as error:
    raise MissingDependencyError("llamaindex_arc", package="llama-index-core", extra="llamaindex") from error

_logger = logging.getLogger(__name__)
_dispatcher = get_dispatcher(__name__)

_SEPARATOR = "\n\n"
"""The separator that LlamaIndex's compact synthesizers put between two nodes' texts."""


class ArcTokenBudgetPostprocessor(BaseNodePostprocessor):
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
        callback_manager: Receives the reranking event; engines set their own.

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
        if type(max_tokens) is not int or max_tokens <= 0:
            raise InvalidInputError("max_tokens", max_tokens, "a whole number of tokens above 0")
        if token_counter is not None and not isinstance(token_counter, TokenCounter):
            raise InvalidInputError("token_counter", token_counter, "an object with name, count and count_batch")
        fields: dict[str, Any] = {"max_tokens": max_tokens, "callback_manager": callback_manager or CallbackManager()}
        super().__init__(**fields)
        self._token_counter = token_counter or default_token_counter()

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return a copy that shares the counter."""
        return self.__copy__()

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex serialises it."""
        return "ArcTokenBudgetPostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        nodes = checked_items("nodes", nodes, NodeWithScore, expected="scored nodes")
        if not nodes:
            return []
        counter = self._token_counter
        start = ReRankStartEvent(query=query_bundle, nodes=nodes, top_n=len(nodes), model_name=counter.name)
        _dispatcher.event(start)
        payload: dict[str, Any] = {
            EventPayload.NODES: nodes,
            EventPayload.MODEL_NAME: counter.name,
            EventPayload.TOP_K: len(nodes),
        }
        if query_bundle is not None:
            payload[EventPayload.QUERY_STR] = query_bundle.query_str
        with self.callback_manager.event(CBEventType.RERANKING, payload=payload) as event:
            texts = [node.node.get_content(metadata_mode=MetadataMode.LLM) for node in nodes]
            costs = counter.count_batch(texts)
            most = usable_tokens(self.max_tokens, counter)
            best = _best_within(most, costs, [node.score for node in nodes], separator=counter.count(_SEPARATOR))
            while best and _together([texts[place] for place in sorted(best)], counter) > most:
                best.pop()  # counts aren't additive: joining two texts may add a token
            places = sorted(best)
            kept = [NodeWithScore(node=nodes[place].node, score=nodes[place].score) for place in places]
            event.on_end(payload={EventPayload.NODES: kept})
        if not kept:
            _logger.warning(
                "None of %d nodes fits into %d tokens; the smallest has %d.", len(nodes), self.max_tokens, min(costs)
            )
        _dispatcher.event(ReRankEndEvent(nodes=kept))
        return kept


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
