"""An embedder, documents and indexes for tests of retrieval."""

from collections.abc import Sequence
from hashlib import sha256

from arc_common import Document
from arc_common.retrieval import HybridIndex
from arc_common.stores import SqlIndexStore

DOCUMENTS = (
    Document("Solar panels turn light into current.", "solar", "energy.md", {"lang": "en", "year": 2021}),
    Document("Wind turbines turn wind into current.", "wind", "energy.md", {"lang": "en", "year": 2023}),
    Document("A bakery turns flour into bread.", "bread", "food.md", {"lang": "en", "year": 2019}),
    Document("태양광 패널은 빛을 전기로 바꾼다.", "solar-ko", "energy.md", {"lang": "ko", "year": 2022}),
)


class WordEmbedder:
    """Embeds a text as the sum of a fixed direction for each word, so that shared words bring texts together."""

    name = "words"

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector of 16 numbers for each text."""
        return [self._vector(text) for text in texts]

    @staticmethod
    def _vector(text: str) -> list[float]:
        total = [0.01] * 16
        for word in text.casefold().strip(".").split():
            digest = sha256(word.encode()).digest()[:16]
            total = [one + (byte - 127.5) / 127.5 for one, byte in zip(total, digest, strict=True)]
        return total


def an_index(*, embedded: bool = True, documents: Sequence[Document] = DOCUMENTS) -> HybridIndex:
    """Return an index in memory with these documents."""
    index = HybridIndex(SqlIndexStore.open(), embedder=WordEmbedder() if embedded else None)
    index.add(documents)
    return index
