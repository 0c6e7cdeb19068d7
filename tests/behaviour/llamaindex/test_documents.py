"""Nodes become documents and come back equal; filters mean the same on both sides."""

import copy
import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core import Document as LlamaDocument
from llama_index.core.schema import (
    BaseNode,
    ImageNode,
    IndexNode,
    MediaResource,
    MetadataMode,
    Node,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores.types import FilterCondition, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.utils import build_metadata_filter_fn

from arc_common.documents import Document
from arc_common.exceptions import InvalidInputError
from arc_common.filters import matches, parse_filter
from arc_common.retrieval import HybridIndex
from arc_common.stores import SqlIndexStore
from llamaindex_arc import node_from_arc, node_to_arc
from llamaindex_arc.retrieval.filters import from_filter, to_filter

RELATED = RelatedNodeInfo(node_id="other", hash="h", metadata={"a": 1})
NODES: dict[str, BaseNode] = {
    "text": TextNode(id_="n", text="a", relationships={NodeRelationship.SOURCE: RELATED}),
    "related": TextNode(id_="n", relationships={NodeRelationship.CHILD: [RELATED], NodeRelationship.NEXT: RELATED}),
    "templates": TextNode(
        id_="n",
        text="a",
        metadata={"x": 1, "y": "hidden"},
        excluded_embed_metadata_keys=["y"],
        text_template="{content} ({metadata_str})",
    ),
    "odd metadata": TextNode(
        id_="n", metadata={"d": datetime(2026, 1, 2, tzinfo=UTC), "nan": math.nan, "t": (1, 2), "b": b"\xff"}
    ),
    "document": LlamaDocument(id_="n", text="a", metadata={"x": [1, 2]}),
    "image": ImageNode(id_="n", text="a", image="aGk=", image_path="/no/such.png"),
    "media": Node(id_="n", text_resource=MediaResource(text="a"), image_resource=MediaResource(data=b"\x89PNG")),
    "link": IndexNode(id_="n", text="a", index_id="i", obj=TextNode(id_="m", text="b")),
    "offsets": TextNode(id_="n", text="한국어", start_char_idx=3, end_char_idx=6),
}


def through_an_index(document: Document) -> Document:
    """Store the document in an index and return it."""
    index = HybridIndex(SqlIndexStore.open())
    index.add([document])
    assert document.id is not None
    return index.get([document.id])[0]


@pytest.mark.parametrize("node", NODES.values(), ids=NODES)
def test_a_node_comes_back_as_it_was(node: BaseNode) -> None:
    """Class, content, relationships and hash are equal, also from an index, in a new object."""
    before = str(node.__dict__), node.hash
    again = node_from_arc(through_an_index(node_to_arc(node)))
    assert type(again) is type(node)
    assert again is not node
    assert (again.hash, str(again.metadata)) == (node.hash, str(node.metadata))
    assert again.relationships == node.relationships
    assert str(again.__dict__) == str(node.__dict__)
    assert (str(node.__dict__), node.hash) == before


metadata = st.dictionaries(
    st.text("abc_한", min_size=1, max_size=4),
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats() | st.text("ab {}\n글", max_size=8),
    max_size=4,
)


@given(
    text=st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=30),
    values=metadata,
)
def test_any_text_node_comes_back(text: str, values: dict[str, Any]) -> None:
    """The document has the text to embed; the given node keeps its hash and metadata."""
    node = TextNode(id_="n", text=text, metadata=values, metadata_template="{key}={value}")
    kept, digest = copy.deepcopy(values), node.hash
    document = node_to_arc(node)
    again = node_from_arc(through_an_index(document))
    assert document.text == node.get_content(metadata_mode=MetadataMode.EMBED)
    assert isinstance(again, TextNode)
    assert (again.text, again.hash) == (text, digest)
    assert (node.hash, str(node.metadata)) == (digest, str(kept))


def test_a_document_says_what_the_node_says() -> None:
    """It has the id, embedded text, filterable metadata and a readable source."""
    node = TextNode(
        id_="n", text="body", metadata={"file_path": "/a/b.md", "file_name": "b.md", "year": 2024}, embedding=[1.0]
    )
    node.excluded_embed_metadata_keys = ["file_path", "file_name"]
    document = node_to_arc(node)
    assert (document.id, document.text, document.source) == ("n", "year: 2024\n\nbody", "b.md")
    assert matches(parse_filter({"year": {"$gte": 2020}}), document.metadata)
    assert node_from_arc(document).embedding is None


def test_what_an_index_node_stands_for_stays_in_the_object_map() -> None:
    """An engine or function can't be stored; the node can."""
    node = IndexNode(id_="n", text="a", index_id="i", obj=print)
    again = node_from_arc(node_to_arc(node))
    assert isinstance(again, IndexNode)
    assert (again.index_id, again.obj) == ("i", None)
    assert node.obj is print


def test_a_document_of_another_origin_is_a_text_node() -> None:
    """It is embedded and ranked by its text alone; a model sees its source, too. Equal documents give equal nodes."""
    document = Document("body", source="A book", metadata={"page": 3})
    node = node_from_arc(document)
    assert node.node_id == node_from_arc(document).node_id
    assert node.metadata == {"page": 3, "source": "A book"}
    assert node.get_content(MetadataMode.EMBED) == "body"
    assert node.get_content(MetadataMode.LLM) == "source: A book\n\nbody"
    assert node_from_arc(Document("x", id="7")).node_id == "7"
    assert document.metadata == {"page": 3}


def test_a_node_shares_nothing_with_its_document() -> None:
    """A postprocessor's changes don't affect the document."""
    document = Document("Text.", "a", metadata={"tags": ["one"]})
    node_from_arc(document).metadata["tags"].append("two")
    assert document.metadata == {"tags": ["one"]}


def test_what_another_program_wrote_there_is_no_node() -> None:
    """Nothing is imported, and nothing fails."""
    cases = [
        "not json",
        "{}",
        "[]",
        '["embed",3]',
        '["odd",null]',
        '{"__arc__":"model","value":{"class":"no.such:Class"}}',
        3,
    ]
    for kept in cases:
        assert node_from_arc(Document("body", id="7", metadata={"_arc_node": kept})).get_content() == "body"


def test_a_rewritten_document_is_the_node_with_that_text() -> None:
    """This is how other frameworks' compressors return it."""
    for name in ["text", "templates", "document", "media"]:
        node = node_from_arc(replace(node_to_arc(NODES[name]), text="rewritten"))
        assert (node.get_content(MetadataMode.NONE), node.metadata) == ("rewritten", NODES[name].metadata)


def test_what_is_no_node_is_refused() -> None:
    """The error names the argument."""
    with pytest.raises(InvalidInputError, match="node"):
        node_to_arc("text")  # type: ignore[arg-type]  # the point


# --- filters --------------------------------------------------------------------------------------------------------

keys = st.sampled_from(["a", "b"])
numbers = st.integers(-2, 2)
letters = st.sampled_from(["x", "y", ""])
comparisons = st.one_of(
    st.builds(lambda key, op, value: {key: {op: value}}, keys, st.sampled_from(["$eq", "$ne"]), numbers | letters),
    st.builds(lambda key, op, n: {key: {op: n}}, keys, st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), numbers),
    st.builds(
        lambda key, op, some: {key: {op: some}},
        keys,
        st.sampled_from(["$in", "$nin"]),
        st.lists(numbers, max_size=3) | st.lists(letters, max_size=3),
    ),
)
nested = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds(
            lambda op, some: {op: some}, st.sampled_from(["$and", "$or"]), st.lists(inner, min_size=1, max_size=3)
        ),
        st.builds(lambda one: {"$not": one}, inner),
    ),
    max_leaves=5,
)
stored = st.dictionaries(keys, numbers | letters)


@given(nested, stored)
def test_filters_mean_the_same_there_and_back(plain: dict[str, Any], values: dict[str, Any]) -> None:
    """This holds for any nesting."""
    assert matches(to_filter(from_filter(plain)), values) == matches(parse_filter(plain), values)


@given(st.lists(comparisons, min_size=1, max_size=3), st.sampled_from(["$and", "$or"]), stored)
def test_llama_index_understands_them_alike(parts: list[Any], group: str, values: dict[str, Any]) -> None:
    """LlamaIndex's own filter admits the same metadata (it can't compare text with numbers)."""
    plain = {group: parts}
    said = from_filter(plain)
    try:
        theirs = build_metadata_filter_fn(lambda _: values, said)("n")
    except TypeError:
        return
    assert theirs == matches(parse_filter(plain), values)


@pytest.mark.parametrize(
    ("plain", "nested"),
    [
        ({"a": 1, "b": {"$gte": 1, "$lt": 3}}, 0),
        ({"$or": [{"a": 1}, {"$or": [{"b": 1}, {"b": 2}]}]}, 0),
        ({"$not": {"$or": [{"a": 1}, {"$or": [{"b": 1}, {"b": 2}]}]}}, 0),
        ({"$not": {"$or": [{"a": 1}, {"$not": {"$or": [{"b": 1}, {"b": 2}]}}]}}, 1),
    ],
    ids=["and", "or", "none of", "none of none of"],
)
def test_filters_are_as_flat_as_they_can_be(plain: dict[str, Any], nested: int) -> None:
    """Few of LlamaIndex's stores accept nested filters; the meaning is kept."""
    said = from_filter(plain)
    assert said is not None
    assert sum(isinstance(part, MetadataFilters) for part in said.filters) == nested
    for values in ({"a": a, "b": b} for a in range(3) for b in range(4)):
        assert matches(to_filter(said), values) == matches(parse_filter(plain), values)


def test_operators_on_lists_and_missing_keys() -> None:
    """They follow LlamaIndex's documentation."""
    cases = [
        ("contains", "x", {"a": ["x", "y"]}, True),
        ("any", ["x", "z"], {"a": ["y", "z"]}, True),
        ("all", ["x", "y"], {"a": ["y", "z", "x"]}, True),
        ("all", ["x", "y"], {"a": ["x"]}, False),
        ("nin", ["x"], {}, True),
        ("!=", "x", {}, True),
    ]
    for operator, value, metadata, expected in cases:
        asked = MetadataFilters(filters=[MetadataFilter(key="a", value=value, operator=operator)])
        assert matches(to_filter(asked), metadata) is expected


def test_none_of_several_and_empty_groups() -> None:
    """The condition "not" admits what no filter matches; an empty group admits everything."""
    none_of = MetadataFilters(
        filters=[MetadataFilter(key="a", value=1), MetadataFilter(key="b", value=2)], condition=FilterCondition.NOT
    )
    assert [matches(to_filter(none_of), {"a": a, "b": 2 * a}) for a in (1, 0)] == [False, True]
    assert to_filter(MetadataFilters(filters=[])) is None
    assert matches(to_filter(MetadataFilters(filters=[MetadataFilters(filters=[])], condition="or")), {})
    assert from_filter(None) is from_filter({}) is None


def test_what_arc_cannot_say_is_refused() -> None:
    """It is never translated to another meaning."""
    cases = [("text_match", "x"), ("is_empty", None), ("in", "x"), ("==", ["x"]), (">", ["x"])]
    for operator, value in cases:
        with pytest.raises(InvalidInputError, match="'a'"):
            to_filter(MetadataFilters(filters=[MetadataFilter(key="a", value=value, operator=operator)]))


def test_what_llama_index_cannot_say_is_refused() -> None:
    """It is never translated to another meaning."""
    cases = [{"a": None}, {"a": True}, {"a": {"$exists": True}}, {"a": {"$in": [1, "x"]}}, {"$or": [{}]}, {"$not": {}}]
    for plain in cases:
        with pytest.raises(InvalidInputError, match="filters"):
            from_filter(plain)
