"""LlamaIndex nodes as arc's documents, and back."""

from collections.abc import Mapping
from copy import deepcopy
from hashlib import sha256
from typing import Any

from pydantic_core import to_jsonable_python

from arc_common.documents import Document
from arc_common.exceptions import InvalidInputError, MissingDependencyError
from arc_common.objects import OBJECTS
from arc_common.serialization import dumps, loads

try:
    from llama_index.core.schema import (
        BaseNode,
        IndexNode,
        MetadataMode,
        NodeRelationship,
        RelatedNodeInfo,
        RelatedNodeType,
        TextNode,
    )
except ImportError as error:
    raise MissingDependencyError("llamaindex_arc.documents", package="llama-index-core", extra="llamaindex") from error

_NODE = "_arc_node"
"""The metadata key under which a document keeps the node that it was made of."""

_SOURCES = ("source", "title", "file_name", "url", "file_path")
"""Metadata that say where a text comes from, the most readable first; LlamaIndex's readers write the last three."""


def to_document(node: BaseNode, *, metadata_mode: MetadataMode = MetadataMode.EMBED) -> Document:
    """A node as a document, from which `to_node` makes an equal node: same class, text, relationships and hash.

    - The id is the node's. The node's metadata are the document's, as JSON values, so that filters find them; the node
      itself goes along exactly, under one more key.
    - The source is the first of the metadata "source", "title", "file_name", "url" and "file_path" that is text.
    - Two things stay behind: the embedding, because an index makes its own, and an index node's `obj` that is no node,
      which LlamaIndex's retrievers look up in their `object_map`.

    Args:
        node: The node; it is not changed.
        metadata_mode: Which metadata belong to the document's text; by default those that LlamaIndex would embed.

    Raises:
        InvalidInputError: It is no node, or its metadata hold something that has no reversible form.
    """
    if not isinstance(node, BaseNode):
        raise InvalidInputError("node", node, "a LlamaIndex node")
    text = node.get_content(metadata_mode=metadata_mode)
    left_out: dict[str, Any] = {"embedding": None}
    if isinstance(node, TextNode) and node.text == text:
        left_out["text"] = None  # the document has it
    if isinstance(node, IndexNode) and not isinstance(node.obj, BaseNode):
        left_out["obj"] = None
    exact = dumps([metadata_mode.value, node.model_copy(update=left_out)], field="node", extensions=OBJECTS)
    metadata = to_jsonable_python(node.metadata, inf_nan_mode="null", bytes_mode="base64", serialize_unknown=True)
    return Document(text, node.node_id, source_of(node.metadata), {**metadata, _NODE: exact})


def to_node(document: Document) -> BaseNode:
    """A fresh node: the one that the document was made of, or a text node.

    - Of a document whose text has been rewritten since, it is the node with that text. A chunk that was cut from the
      document (it has an id of its own) is a text node with the node as its source.
    - A text node has the document's id (without one, an id that its text and source determine), text and metadata; its
      source is the metadata "source", unless there is one already. It is embedded and ranked by its text alone, and
      a model is shown its source and its text, as in arc's own contexts.
    """
    mode, node = _exact_node(document.metadata.get(_NODE))
    if node is None:
        return _text_node(document)
    if node.node_id != document.id:
        related = RelatedNodeInfo(node_id=node.node_id, node_type=node.get_type(), metadata=node.metadata)
        return _text_node(document, {NodeRelationship.SOURCE: related})
    has_left_text = node.__dict__.get("text", "") is None
    if has_left_text or node.get_content(metadata_mode=mode) != document.text:
        node.set_content(document.text)
    return node


def source_of(metadata: Mapping[str, Any]) -> str | None:
    """Where a node's text comes from, as far as its metadata say."""
    values = (metadata.get(key) for key in _SOURCES)
    return next((value for value in values if isinstance(value, str) and value.strip()), None)


def _exact_node(exact: object) -> tuple[MetadataMode, BaseNode | None]:
    """The node and which of its metadata its document's text has."""
    try:
        mode, node = loads(exact, extensions=OBJECTS) if isinstance(exact, str) else ("none", None)
        return MetadataMode(mode), node if isinstance(node, BaseNode) else None
    except (LookupError, TypeError, ValueError):
        return MetadataMode.NONE, None


def _text_node(document: Document, relationships: dict[NodeRelationship, RelatedNodeType] | None = None) -> TextNode:
    metadata = {key: deepcopy(value) for key, value in document.metadata.items() if key != _NODE}
    if document.source is not None:
        metadata.setdefault("source", document.source)
    node_id = document.id
    if node_id is None:
        seed = f"{document.source or ''}\x00{document.text}"
        node_id = sha256(seed.encode(errors="surrogatepass")).hexdigest()[:32]
    return TextNode(
        id_=node_id,
        text=document.text,
        metadata=metadata,
        excluded_embed_metadata_keys=list(metadata),
        excluded_llm_metadata_keys=[key for key in metadata if key != "source"],
        relationships=relationships or {},
    )
