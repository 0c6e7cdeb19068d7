"""An embedder, a collection, models and an event listener for tests of retrieval."""

import asyncio
import hashlib
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hypothesis import strategies as st
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.schema import BaseNode, NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode

from arc_common.messages import Message
from arc_common.retrieval import HybridIndex
from arc_common.settings import ArcSettings
from arc_common.settings.groups import ModelCallSettings
from arc_common.stores import SqlIndexStore
from llamaindex_arc import LlamaIndexEmbedder, node_to_arc

ONE_ATTEMPT = ArcSettings(model_calls=ModelCallSettings(attempts=1))

TEXTS = {
    "warranty": "The warranty of the vacuum cleaner lasts 24 months.",
    "returns": "Goods can be returned within 30 days, with the receipt.",
    "busan": "Parcels to Busan take two days.",
    "seoul": "Parcels to Seoul take one day.",
    "배송": "제주도 배송은 사흘이 걸립니다.",
}


class Words(BaseEmbedding):
    """Embeds each word as a direction, so that shared words bring texts together."""

    dimension: int = 512

    def _get_text_embedding(self, text: str) -> list[float]:
        vector = [1e-3] * self.dimension
        for word in re.findall(r"\w+", text.lower()):
            vector[int.from_bytes(hashlib.sha256(word.encode()).digest()[:4]) % self.dimension] += 1.0
        length = math.sqrt(sum(value * value for value in vector))
        return [value / length for value in vector]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


class Scripted:
    """An arc chat model that gives scripted answers; exceptions among them are raised."""

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.seen: list[list[Message]] = []

    def complete(self, messages: Sequence[Message]) -> str:
        """Return the next answer."""
        self.seen.append(list(messages))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Fixed(BaseRetriever):
    """Always finds the same nodes; records its queries and modifies them."""

    def __init__(self, nodes: Sequence[NodeWithScore]) -> None:
        self.nodes = list(nodes)
        self.asked: list[QueryBundle] = []
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        self.asked.append(query_bundle)
        query_bundle.embedding = [1.0]  # like VectorIndexRetriever
        return self.nodes

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        await asyncio.sleep(0)
        return self._retrieve(query_bundle)


def collection() -> list[TextNode]:
    """Return the texts as nodes of one source document."""
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="shop", hash="h")}
    return [
        TextNode(
            id_=name,
            text=text,
            metadata={"place": place, "file_name": f"{name}.md"},
            excluded_embed_metadata_keys=["place", "file_name"],
            relationships=source,
        )
        for place, (name, text) in enumerate(TEXTS.items())
    ]


def index_of(nodes: Sequence[BaseNode], *, embedder: BaseEmbedding | None = None) -> HybridIndex:
    index = HybridIndex(SqlIndexStore.open(), embedder=None if embedder is None else LlamaIndexEmbedder(embedder))
    index.add([node_to_arc(node) for node in nodes])
    return index


def scored(*texts_and_scores: tuple[str, float | None]) -> list[NodeWithScore]:
    return [NodeWithScore(node=TextNode(text=text, id_=text), score=score) for text, score in texts_and_scores]


def ids_of(nodes: Sequence[NodeWithScore]) -> list[str]:
    return [item.node.node_id for item in nodes]


def frozen(nodes: Sequence[NodeWithScore]) -> list[tuple[str, str]]:
    """Return the full content of the nodes and their hashes."""
    return [(item.model_dump_json(), item.node.hash) for item in nodes]


@contextmanager
def events() -> Iterator[list[Any]]:
    """Collect the events that LlamaIndex's instrumentation reports within the block."""
    heard: list[Any] = []

    class Listener(BaseEventHandler):
        def handle(self, event: Any, **kwargs: Any) -> None:
            heard.append(event)

    root, listener = get_dispatcher(), Listener()
    root.add_event_handler(listener)
    try:
        yield heard
    finally:
        root.event_handlers.remove(listener)


words = st.sampled_from(["parcel", "Busan", "warranty", "receipt", "배송", "제주도", "days", "the"])
sentences = st.lists(words, max_size=6).map(" ".join)
any_scores = st.none() | st.floats(allow_nan=True, allow_infinity=True)
node_lists = st.lists(st.tuples(st.integers(0, 5), sentences, any_scores), max_size=6).map(
    lambda items: [
        NodeWithScore(node=TextNode(id_=str(name), text=text, metadata={"n": name}), score=score)
        for name, text, score in items
    ]
)
"""Nodes with any scores, possibly with repeated ids and texts."""
