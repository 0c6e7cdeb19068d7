"""A cross-encoder small enough for a test to write, and its LangChain interface.

Sentence Transformers would need gigabytes of torch. This model has the form in which cross-encoders are deployed
without torch: an ONNX graph and a tokenizer, as FlashRank and Sentence Transformers' ONNX backend load them.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from langchain_core.cross_encoders import BaseCrossEncoder
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

MODEL = "model.onnx"

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
_DIMENSION = 32


def save_cross_encoder(folder: Path, vocabulary: Sequence[str]) -> None:
    """Write a model that reads question and text as one sequence and scores how well their words match.

    - Each word has a fixed random vector; markers and unknown words have none.
    - The score is the sum, over the question's words, of the largest product with a word of the text.
    """
    folder.mkdir(parents=True)
    words = [*_SPECIAL, *dict.fromkeys(vocabulary)]
    _tokenizer(words).save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 128, "pad_token": "[PAD]"}))
    (folder / "special_tokens_map.json").write_text(json.dumps({"pad_token": "[PAD]", "sep_token": "[SEP]"}))
    onnx.save(_graph(len(words)), folder / MODEL)


class OnnxCrossEncoder(BaseCrossEncoder):
    """A cross-encoder that `save_cross_encoder` wrote, with LangChain's interface."""

    def __init__(self, folder: Path) -> None:
        self._session = onnxruntime.InferenceSession(folder / MODEL)
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")

    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        """Return the probability that each text answers its question."""
        encoded = self._tokenizer.encode_batch(text_pairs)
        inputs = {
            "input_ids": [one.ids for one in encoded],
            "attention_mask": [one.attention_mask for one in encoded],
            "token_type_ids": [one.type_ids for one in encoded],
        }
        arrays = {name: np.array(rows, dtype=np.int64) for name, rows in inputs.items()}
        (logits,) = self._session.run(None, arrays)
        return [float(probability) for probability in 1 / (1 + np.exp(-logits[:, 0]))]


def _tokenizer(words: Sequence[str]) -> Tokenizer:
    ids = {word: place for place, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )
    return tokenizer


def _graph(size: int) -> onnx.ModelProto:
    """Return a graph with BERT's int64 inputs of shape (pairs, length) and float32 logits of shape (pairs, 1)."""
    vectors = np.random.default_rng(5).normal(size=(size, _DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[: len(_SPECIAL)] = 0
    nodes = [
        helper.make_node("Gather", ["vectors", "input_ids"], ["words"]),
        helper.make_node("Cast", ["attention_mask"], ["there"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["token_type_ids"], ["second"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["there", "second"], ["of_text"]),
        helper.make_node("Sub", ["there", "of_text"], ["of_question"]),
        helper.make_node("Unsqueeze", ["of_text", "last"], ["text_mask"]),
        helper.make_node("Unsqueeze", ["of_question", "last"], ["question_mask"]),
        helper.make_node("Mul", ["words", "text_mask"], ["text"]),
        helper.make_node("Mul", ["words", "question_mask"], ["question"]),
        helper.make_node("Transpose", ["text"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["question", "turned"], ["products"]),
        helper.make_node("ReduceMax", ["products", "last"], ["best"], keepdims=0),
        helper.make_node("ReduceSum", ["best", "one"], ["logits"], keepdims=1),
    ]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["pairs", "length"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["pairs", 1])
    constants = {"vectors": vectors, "last": np.array([2], dtype=np.int64), "one": np.array([1], dtype=np.int64)}
    weights = [numpy_helper.from_array(values, name) for name, values in constants.items()]
    graph = helper.make_graph(nodes, "cross_encoder", inputs, [output], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model)
    return model
