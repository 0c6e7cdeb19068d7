"""An index of a few documents, its embedder, and its observer."""

import pytest

from arc_common.retrieval import HybridIndex
from arc_common.stores import SqlIndexStore
from arc_common.testing import CountingObserver
from tests.support.animals import DOCUMENTS, WordEmbedder


@pytest.fixture
def embedder() -> WordEmbedder:
    return WordEmbedder()


@pytest.fixture
def observer() -> CountingObserver:
    return CountingObserver()


@pytest.fixture
def index(embedder: WordEmbedder, observer: CountingObserver) -> HybridIndex:
    index = HybridIndex(SqlIndexStore.open(), embedder=embedder, observer=observer, batch_size=4)
    index.add(DOCUMENTS)
    return index
