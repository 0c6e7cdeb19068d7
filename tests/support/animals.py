"""Documents about animals and vehicles, and an embedder that knows them."""

from collections.abc import Sequence
from typing import Any

from arc_common.documents import Document


class WordEmbedder:
    """Embeds the animals and vehicles that a text names; "kitten" is near "cat", and a text without any gets NaN.

    Raises an error as often as it is told to.
    """

    def __init__(self, name: str = "words") -> None:
        self.name = name
        self.fails = False
        self.asked: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked.append(list(texts))
        if self.fails:
            raise ConnectionError("no network")
        return [self._one(text) for text in texts]

    @staticmethod
    def _one(text: str) -> list[float]:
        cat = sum(text.count(word) for word in ("cat", "kitten", "고양이"))
        dog = sum(text.count(word) for word in ("dog", "puppy"))
        car = sum(text.count(word) for word in ("car", "truck"))
        return [cat + 0.1, dog + 0.1, car + 0.1] if cat + dog + car else [float("nan")] * 3


DOCUMENTS = [
    Document("The cat sleeps all day.", "cat", "Animals", {"year": 2020, "tags": ["pet"]}),
    Document("A kitten is small.", "kitten", "Animals", {"year": 2024}),
    Document("A dog and a puppy bark.", "dog", metadata={"year": 2021}),
    Document("Trucks: a truck is a large car.", "truck", metadata={"year": 2024}),
    Document("고양이가 잔다", "ko", metadata={"lang": "ko"}),
    Document("Nothing of the kind.", "nothing"),
]


def ids(found: Sequence[Any]) -> list[str]:
    return [one.document.id for one in found]
