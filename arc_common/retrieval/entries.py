"""Converts documents to index entries and back. Pure."""

import json
from collections import Counter
from collections.abc import ItemsView, Iterator, Mapping, Sequence, ValuesView
from dataclasses import replace
from hashlib import sha256

from arc_common.documents import Document
from arc_common.exceptions import InvalidInputError
from arc_common.protocols.search_index import EntryKind, IndexEntry
from arc_common.text import analyze, han_characters


def entry_of(item: Document | IndexEntry) -> IndexEntry:
    """Return an item's entry without terms; a document without an id gets one made from its source and text."""
    if isinstance(item, IndexEntry):
        return item
    entry_id = item.id
    if entry_id is None:
        entry_id = sha256(f"{item.source or ''}\x00{item.text}".encode(errors="surrogatepass")).hexdigest()[:32]
    return IndexEntry(entry_id, item.text, {}, item.metadata, item.source)


def with_terms(entry: IndexEntry, kind: EntryKind) -> IndexEntry:
    """Return the entry with its text's terms, unless it has terms already."""
    if entry.terms:
        return entry
    characters = han_characters(entry.text) if kind == "document" else []
    return replace(entry, terms=_PackedTerms(Counter(analyze(entry.text)) | Counter(characters)))


class _PackedTerms(Mapping[str, float]):
    """Terms as one JSON text, in a third of a dictionary's memory: a large document has many."""

    __slots__ = ("_count", "_packed")

    def __init__(self, terms: Mapping[str, float]) -> None:
        self._packed = json.dumps(terms, ensure_ascii=False, separators=(",", ":"))
        self._count = len(terms)

    def __getitem__(self, term: str) -> float:
        return self._terms()[term]

    def __iter__(self) -> Iterator[str]:
        return iter(self._terms())

    def __len__(self) -> int:
        return self._count

    def items(self) -> ItemsView[str, float]:
        return self._terms().items()

    def values(self) -> ValuesView[float]:
        return self._terms().values()

    def _terms(self) -> dict[str, float]:
        terms: dict[str, float] = json.loads(self._packed)
        return terms


def one_embedding(entries: Sequence[IndexEntry], embedding: tuple[str, int] | None) -> tuple[str, int] | None:
    """Return the one embedder and dimension of the entries' vectors and the stored ones; refuse different ones."""
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
    """Return an entry as a document for display."""
    return Document(entry.text, entry.id, entry.source, entry.metadata)
