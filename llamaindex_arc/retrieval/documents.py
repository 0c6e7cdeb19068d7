"""Converts LlamaIndex's nodes to arc's documents, and back."""

from collections.abc import Mapping
from copy import deepcopy
from hashlib import sha256
from typing import Any

from llama_index.core.schema import (
    BaseNode,
    IndexNode,
    MetadataMode,
    NodeRelationship,
    RelatedNodeInfo,
    RelatedNodeType,
    TextNode,
)
from pydantic_core import to_jsonable_python

from arc_common.documents import Document
from arc_common.exceptions import InvalidInputError, or_converted
from arc_common.serialization import OBJECTS, dumps, loads

_NODE = "_arc_node"
"""The metadata key under which a document keeps its original node."""

_SOURCES = ("source", "title", "file_name", "url", "file_path")
"""Metadata keys that name a text's source, most readable first; LlamaIndex's readers write the last three."""


def node_to_arc(node: BaseNode) -> Document:
    """Convert a node to a document; `node_from_arc` restores an equal node: same class, text, relationships and hash.

    - The document's text is the one that LlamaIndex would embed; the id is the node's. The node's metadata become the
      document's, as JSON values, so that filters find them; the exact node is kept under one additional key.
    - The source is the first of the metadata "source", "title", "file_name", "url" and "file_path" that is text.
    - Two things are left out: the embedding, because an index creates its own, and an index node's `obj` if it is not a
      node, because LlamaIndex's retrievers look it up in their `object_map`.
    - The node is not changed.

    Raises:
        InvalidInputError: It is not a node, or its metadata hold a value without a reversible form.
    """
    if not isinstance(node, BaseNode):
        raise InvalidInputError("node", node, "a LlamaIndex node")
    text = embedded_text(node)
    left_out: dict[str, Any] = {"embedding": None}
    if isinstance(node, TextNode) and node.text == text:
        left_out["text"] = None  # the document has it
    if isinstance(node, IndexNode) and not isinstance(node.obj, BaseNode):
        left_out["obj"] = None
    exact = dumps(node.model_copy(update=left_out), field="node", extensions=OBJECTS)
    metadata = to_jsonable_python(node.metadata, inf_nan_mode="null", bytes_mode="base64", serialize_unknown=True)
    return Document(text, node.node_id, source_of(node.metadata), {**metadata, _NODE: exact})


def node_from_arc(document: Document) -> BaseNode:
    """Convert a document to a new node: its original node if it has one, else a text node.

    - If the document's text was rewritten, the original node has the new text. A chunk that was cut from the document
      (it has an id of its own) becomes a text node with the original node as its source.
    - A text node has the document's id (or one derived from its text and source), text and metadata; its source becomes
      the metadata "source", unless there is one already. It is embedded and ranked by its text alone, and a model sees
      its source and text, as in arc's own contexts.

    Raises:
        InvalidInputError: It is not an arc document.
    """
    if not isinstance(document, Document):
        raise InvalidInputError("document", document, or_converted("an arc Document", document))
    node = _exact_node(document.metadata.get(_NODE))
    if node is None:
        return _text_node(document)
    if node.node_id != document.id:
        related = RelatedNodeInfo(node_id=node.node_id, node_type=node.get_type(), metadata=node.metadata)
        return _text_node(document, {NodeRelationship.SOURCE: related})
    has_left_text = node.__dict__.get("text", "") is None
    if has_left_text or embedded_text(node) != document.text:
        node.set_content(document.text)
    return node


def source_of(metadata: Mapping[str, Any]) -> str | None:
    """Return the source of a node's text, as its metadata state it; `None` if they don't."""
    values = (metadata.get(key) for key in _SOURCES)
    return next((value for value in values if isinstance(value, str) and value.strip()), None)


def embedded_text(node: BaseNode) -> str:
    """Return a node's text as LlamaIndex would embed it."""
    return node.get_content(metadata_mode=MetadataMode.EMBED)


def _exact_node(exact: object) -> BaseNode | None:
    """Return the original node of a document."""
    try:
        node = loads(exact, extensions=OBJECTS) if isinstance(exact, str) else None
    except (LookupError, TypeError, ValueError):
        return None
    return node if isinstance(node, BaseNode) else None


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
