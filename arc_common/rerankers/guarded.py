"""Guards against rerankers that fail, or answer with documents that they were not given."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence

from arc_common.documents import ScoredDocument, checked_documents
from arc_common.exceptions import InvalidInputError
from arc_common.protocols import Reranker

__all__ = ["reranked", "reranked_if_possible"]

_log = logging.getLogger("arc.rag")


def reranked(
    reranker: Reranker,
    query: str,
    documents: Sequence[ScoredDocument],
    *,
    top_k: int | None,
    on_bad: Callable[[str], None],
) -> list[ScoredDocument]:
    """Rerank documents; report and leave out those that the reranker was not given, or gives twice.

    A document counts as given if it has the id or the text of one that was, or, without an id, its source and metadata.

    Raises:
        InvalidInputError: The answer is not documents, or has none of those given. The reranker's own exceptions pass
            through.
    """
    answer = checked_documents("reranked", reranker.rerank(query, list(documents), top_k=top_k))
    ids = {one.document.id for one in documents} - {None}
    texts = {one.document.text for one in documents}
    marks = [(one.document.source, one.document.metadata) for one in documents if one.document.id is None]

    def was_given(found: ScoredDocument) -> bool:
        document = found.document
        if (document.id is not None and document.id in ids) or document.text in texts:
            return True
        is_marked = document.id is None and bool(document.source or document.metadata)
        return is_marked and (document.source, document.metadata) in marks

    # as often as it was given: documents without ids may have the same text
    room = Counter(map(_name, documents))
    kept = []
    for found in answer:
        name = _name(found)
        if was_given(found) and room.setdefault(name, 1):
            room[name] -= 1
            kept.append(found)
    if answer and not kept:
        raise InvalidInputError("reranked", answer[0], "documents that the reranker was given")
    if len(kept) < len(answer):
        on_bad(f"rerank: {len(answer) - len(kept)} of {len(answer)} documents were left out: they were not given to it")
    return kept


def reranked_if_possible(
    reranker: Reranker, query: str, documents: Sequence[ScoredDocument], *, top_k: int | None
) -> list[ScoredDocument]:
    """Rerank documents as `reranked` does; if that fails, log it and return as many in the order given."""
    try:
        return reranked(reranker, query, documents, top_k=top_k, on_bad=_log.warning)
    except Exception as error:  # noqa: BLE001 - a query goes on, whatever a reranker raises
        _log.warning("documents keep their order: the reranker failed: %s", error, exc_info=True)
        most = getattr(reranker, "top_k", None) if top_k is None else top_k
        return list(documents[: most if isinstance(most, int) else None])


def _name(found: ScoredDocument) -> tuple[str | None, str | None, str]:
    return found.document.id, found.document.source, found.document.text
