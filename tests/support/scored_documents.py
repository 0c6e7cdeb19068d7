"""Short constructors of scored documents."""

from hypothesis import strategies as st

from arc_common import Document, ScoredDocument

words = st.sampled_from(["harbour", "lantern", "quartz", "the", "주문번호를", "사과", "东京塔", "x-1", "1,240", ""])
texts = st.lists(words, max_size=8).map(" ".join)
scores = st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, 0.5, 0.5, 1.0])


def scored(*pairs: tuple[str, float | None]) -> list[ScoredDocument]:
    """Return documents "d0", "d1", … with these texts and scores."""
    return [
        ScoredDocument(Document(text, id=f"d{place}"), score, {"vector": 0.25})
        for place, (text, score) in enumerate(pairs)
    ]


def ids(documents: list[ScoredDocument]) -> list[str | None]:
    """Return the ids in order."""
    return [found.document.id for found in documents]


candidates = st.lists(st.tuples(texts, scores), max_size=12).map(lambda pairs: scored(*pairs))
