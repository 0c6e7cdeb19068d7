"""Statistics of several scopes: those of one that holds all of it."""

from arc_common import Document
from arc_common.protocols.search_index import Scope
from arc_common.rerankers.bm25 import JointStatistics
from arc_common.retrieval import HybridIndex
from arc_common.stores import SqlIndexStore

TEXTS = ["a cat sat on the mat", "cats and dogs", "the warranty", "a long text about the warranty of a cat flap"]


def test_scopes_count_together():
    """As if their documents were in one."""
    store = SqlIndexStore.open()
    parts = [HybridIndex(store, scope=Scope("one")), HybridIndex(store, scope=Scope("one", "ann"))]
    whole = HybridIndex(store, scope=Scope("two"))
    for place, text in enumerate(TEXTS):
        parts[place > 0].add([Document(text)])
        whole.add([Document(text)])
    joint, terms = JointStatistics(parts), ["cat", "warranti", "zebra"]
    assert joint.document_count == whole.document_count == 4
    assert joint.average_length == whole.average_length
    assert joint.document_frequencies(terms) == whole.document_frequencies(terms)
    assert max(joint.document_frequencies(["cat"])) == 3


def test_no_documents_have_no_length():
    """And no term."""
    joint = JointStatistics([HybridIndex(SqlIndexStore.open())])
    assert (joint.document_count, joint.average_length, joint.document_frequencies(["cat"])) == (0, 0.0, [0])
