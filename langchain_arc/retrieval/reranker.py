"""Arc's rerankers and token budget as a LangChain compressor, and LangChain's compressors as arc's rerankers."""

from collections.abc import Iterable, Mapping, Sequence, Set
from copy import deepcopy
from dataclasses import replace
from itertools import accumulate
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import BaseDocumentCompressor
from langchain_core.documents import Document as LangChainDocument
from pydantic import Field

from arc_common.documents import Document, ScoredDocument, checked_items, finite_score
from arc_common.exceptions import InvalidInputError, check_whole
from arc_common.protocols import Reranker, TokenCounter
from arc_common.rerankers import SimpleScoreReranker
from arc_common.rerankers.base import (
    DEFAULT_TOP_K,
    BaseReranker,
    best_first,
    reranked_if_possible,
    rescored,
)
from arc_common.tokens.budget import usable_tokens
from arc_common.tokens.counters import default_token_counter
from langchain_arc.retrieval.documents import (
    SCORE,
    document_from_arc,
    document_to_arc,
    known_parts,
    known_score,
    score_metadata,
    scored_from_arc,
)

_SEPARATOR = "\n\n"
"""The separator that LangChain's chains put between documents."""

_DOUBT = 8
"""The most tokens that joining two texts may save: a text over the budget by more is not counted exactly."""

_PLACE = "arc_place"
"""The metadata key that identifies the document from which a compressor's copy was made."""


class ArcDocumentCompressor(BaseDocumentCompressor):
    """Re-ranks documents with one of arc's rerankers, then keeps the best that fit a token budget.

        compressor = ArcDocumentCompressor(BM25Reranker(), max_tokens=2_000)
        retriever = ContextualCompressionRetriever(base_compressor=compressor, base_retriever=base)

    - The result holds copies of the documents, ids kept, with `relevance_score` (and `score_parts`, if there are any)
      in their metadata; the documents given stay unchanged.
    - The documents given count as ranked. Their scores are read from `relevance_score`; if only some have one, or the
      order contradicts them, scores are derived from the order, from 1 for the first in equal steps towards 0.
    - With `max_tokens`, the kept texts, joined by empty lines as LangChain's chains join them, have no more tokens than
      that, less the error that the counter states. A document that is too large is skipped.
    - If the reranker fails, the order stays the same; documents that the reranker was not given are left out. Both
      cases log a warning.

    Args:
        reranker: Ranks the documents; without one, they keep their order.
        top_n: The most documents kept; by default the reranker's own number, and all of them without a reranker.
        max_tokens: The budget, in tokens.
        token_counter: Counts the texts; by default the counter that arc's engine uses.

    Raises:
        InvalidInputError: There is neither a reranker nor a limit, or a value is invalid.
    """

    reranker: Any = Field(repr=False)
    top_n: int | None
    max_tokens: int | None
    token_counter: Any = Field(repr=False)

    def __init__(
        self,
        reranker: Reranker | None = None,
        *,
        top_n: int | None = None,
        max_tokens: int | None = None,
        token_counter: TokenCounter | None = None,
    ) -> None:
        if reranker is None and top_n is None and max_tokens is None:
            raise InvalidInputError("reranker", reranker, "a reranker, top_n or max_tokens")
        if reranker is not None and not isinstance(reranker, Reranker):
            raise InvalidInputError("reranker", reranker, "an arc Reranker")
        for name, value in (("top_n", top_n), ("max_tokens", max_tokens)):
            if value is not None:
                check_whole(name, value)
        if token_counter is not None and not isinstance(token_counter, TokenCounter):
            raise InvalidInputError("token_counter", token_counter, "an object with name, count and count_batch")
        fields: dict[str, Any] = {
            "reranker": reranker,
            "top_n": top_n,
            "max_tokens": max_tokens,
            "token_counter": token_counter or default_token_counter(),
        }
        super().__init__(**fields)

    def compress_documents(
        self,
        documents: Sequence[LangChainDocument],
        query: str,
        callbacks: Callbacks | None = None,  # noqa: ARG002 - a compressor is not a run of its own
    ) -> list[LangChainDocument]:
        """Return the best of the documents, best first, as copies. `acompress_documents` is its async form."""
        documents = checked_items("documents", documents, LangChainDocument, expected="LangChain documents")
        if not documents:
            return []
        given = _candidates(documents)
        reranker = self.reranker or SimpleScoreReranker(top_k=len(given))
        ranked = reranked_if_possible(reranker, query, given, top_k=self.top_n)
        if self.max_tokens is not None:
            most = usable_tokens(self.max_tokens, self.token_counter)
            places = _best_within(most, [found.document.text for found in ranked], self.token_counter)
            ranked = [ranked[place] for place in places]
        originals = {id(found.document): document for found, document in zip(given, documents, strict=True)}
        return [_copy(found, originals.get(id(found.document))) for found in ranked]


class LangChainReranker(BaseReranker):
    """A LangChain compressor or cross-encoder as arc's `Reranker`.

    - A compressor's order is kept. Its scores (`relevance_score`) are kept too, lowered where they would contradict the
      order. If it scores none or only some, scores are derived from the order, from 1 for the first in equal steps
      towards 0, because documents are later packed by score.
    - A document that a compressor shortened or rewrote has its new text, and keeps the id and source of the original.
      If a compressor returns a document twice with the same text, it appears once.
    - A document's previous score is kept under "retrieval" in its parts, the new one under "compressor" or
      "cross_encoder".
    - The documents given are not changed: a compressor works on copies. An error of the model is raised.

    Args:
        model: A `BaseDocumentCompressor` (a pipeline of them, too) or a `BaseCrossEncoder`.
        top_k: The most documents returned.
        min_score: The lowest score, on the model's scale, that is kept; `None` keeps all.

    Raises:
        InvalidInputError: The model is of the wrong kind, or a value is invalid. In use: a cross-encoder does not
            return exactly one finite number for each document, or a compressor something other than documents.
    """

    def __init__(
        self,
        model: BaseDocumentCompressor | BaseCrossEncoder,
        *,
        top_k: int = DEFAULT_TOP_K,
        min_score: float | None = None,
    ) -> None:
        if not isinstance(model, BaseDocumentCompressor | BaseCrossEncoder):
            raise InvalidInputError("model", model, "a LangChain BaseDocumentCompressor or BaseCrossEncoder")
        super().__init__(top_k=top_k, min_score=min_score)
        self._model = model

    def _ranked(self, query: str, candidates: Sequence[ScoredDocument], most: int) -> list[ScoredDocument]:
        if isinstance(self._model, BaseCrossEncoder):
            return self._by_cross_encoder(self._model, query, candidates, most)
        return self._by_compressor(self._model, query, candidates, most)

    def _by_cross_encoder(
        self, model: BaseCrossEncoder, query: str, documents: Sequence[ScoredDocument], most: int
    ) -> list[ScoredDocument]:
        scores = _scores(model.score([(query, found.document.text) for found in documents]), len(documents))
        places = best_first(scores, top_k=most, min_score=self.min_score)
        return [rescored(documents[place], scores[place], {"cross_encoder": scores[place]}) for place in places]

    def _by_compressor(
        self, model: BaseDocumentCompressor, query: str, documents: Sequence[ScoredDocument], most: int
    ) -> list[ScoredDocument]:
        compressed = model.compress_documents(
            [_marked(found.document, place) for place, found in enumerate(documents)], query
        )
        distinct: dict[tuple[int | None, str | None, str], LangChainDocument] = {}
        for document in checked_items("compressed", compressed, LangChainDocument, expected="LangChain documents"):
            distinct.setdefault((_place(document, len(documents)), document.id, document.page_content), document)
        scored = [
            (_rewritten(documents, place, document), known_score(document.metadata))
            for (place, _, _), document in distinct.items()
        ]
        lowest = self.min_score
        kept = [pair for pair in scored if lowest is None or (pair[1] is not None and pair[1] >= lowest)][:most]
        told = [score for _, score in kept if score is not None]
        if len(told) < len(kept):
            return [
                rescored(found, 1 - place / len(kept), {} if score is None else {"compressor": score})
                for place, (found, score) in enumerate(kept)
            ]
        return [
            rescored(found, least, {"compressor": score})
            for (found, _), score, least in zip(kept, told, accumulate(told, min), strict=True)
        ]


def _candidates(documents: Sequence[LangChainDocument]) -> list[ScoredDocument]:
    """Return the documents with their own scores, or with scores by order if those contradict it."""
    scores = [known_score(document.metadata) for document in documents]
    told = [score for score in scores if score is not None]
    if told and (len(told) < len(scores) or told != sorted(told, reverse=True)):
        scores = [1 - place / len(scores) for place in range(len(scores))]
    return [
        ScoredDocument(document_to_arc(document), score, known_parts(document.metadata))
        for document, score in zip(documents, scores, strict=True)
    ]


def _copy(found: ScoredDocument, original: LangChainDocument | None) -> LangChainDocument:
    """Return a copy of the original with the new score, or a new document if the reranker made one."""
    if original is None:
        return scored_from_arc(found)
    return original.model_copy(update={"metadata": deepcopy(original.metadata) | score_metadata(found)})


def _best_within(budget: int, texts: Sequence[str], counter: TokenCounter) -> list[int]:
    """Return the places, ascending, of the first texts that fit together, counted as they would be joined."""
    kept: list[int] = []
    total = 0
    for place, cost in enumerate(counter.count_batch(texts)):
        if total + cost > budget + _DOUBT:
            continue
        together = counter.count(_SEPARATOR.join(texts[at] for at in (*kept, place)))
        if together <= budget:
            kept.append(place)
            total = together
    return kept


def _scores(given: object, count: int) -> list[float]:
    """Return a cross-encoder's scores, one number for each document."""
    answers = list(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping | Set) else []
    scores = [score for answer in answers if (score := finite_score(answer)) is not None]
    if len(scores) != len(answers) or len(scores) != count:
        raise InvalidInputError("scores", given, f"{count} finite numbers: one for each document")
    return scores


def _marked(document: Document, place: int) -> LangChainDocument:
    """Return the document for a compressor, without an old score and with its place."""
    marked = document_from_arc(document)
    marked.metadata.pop(SCORE, None)
    marked.metadata[_PLACE] = place
    return marked


def _place(document: LangChainDocument, count: int) -> int | None:
    """Return the place of the document from which a compressor's copy was made; `None` if unknown."""
    place = document.metadata.get(_PLACE)
    return place if isinstance(place, int) and 0 <= place < count else None


def _rewritten(documents: Sequence[ScoredDocument], place: int | None, document: LangChainDocument) -> ScoredDocument:
    """Return the original document with the text of a compressor's copy; a new document if there is none."""
    if place is None:
        new = document_to_arc(document)
        return ScoredDocument(replace(new, metadata={key: new.metadata[key] for key in new.metadata if key != _PLACE}))
    found = documents[place]
    if document.page_content == found.document.text:
        return found
    return ScoredDocument(
        Document(document.page_content, found.document.id, found.document.source, found.document.metadata),
        found.score,
        found.score_parts,
    )
