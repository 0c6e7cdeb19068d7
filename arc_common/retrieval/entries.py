"""What an index stores of documents, and gives back. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

from arc_common.documents import Document
from arc_common.exceptions import InvalidInputError
from arc_common.indexing import EntryKind, IndexEntry
from arc_common.text import analyze, han_characters

__all__ = ["document_of", "entry_of", "one_embedding"]


def entry_of(item: Document | IndexEntry, kind: EntryKind) -> IndexEntry:
    """What is stored of an item, with its terms; of a document without an id, under one that is made from it."""
    if isinstance(item, IndexEntry):
        return item if item.terms else replace(item, terms=_terms(item.text, kind))
    entry_id = item.id
    if entry_id is None:
        entry_id = sha256(f"{item.source or ''}\x00{item.text}".encode(errors="surrogatepass")).hexdigest()[:32]
    return IndexEntry(entry_id, item.text, _terms(item.text, kind), item.metadata, item.source)


def _terms(text: str, kind: EntryKind) -> dict[str, float]:
    characters = han_characters(text) if kind == "document" else []
    return dict(Counter(analyze(text)) | Counter(characters))


def one_embedding(entries: Sequence[IndexEntry], embedding: tuple[str, int] | None) -> tuple[str, int] | None:
    """Embedder and dimension of the entries' vectors and of those that are there.

    Raises:
        InvalidInputError: They are of more than one.
    """
    for entry in entries:
        if entry.vector is None or entry.embedder is None:
            continue
        own = entry.embedder, len(entry.vector)
        embedding = embedding or own
        if own[0] != embedding[0]:
            expected = f"{embedding[0]!r}, which made the other vectors (`re_embed` replaces those that are stored)"
            raise InvalidInputError("embedder", own[0], expected)
        if own != embedding:
            raise InvalidInputError("vector", f"{own[1]} numbers", f"{embedding[1]}, as in the others of {own[0]!r}")
    return embedding


def document_of(entry: IndexEntry) -> Document:
    """What is shown of an entry."""
    return Document(entry.text, entry.id, entry.source, entry.metadata)
