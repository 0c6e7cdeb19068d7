"""Exact counts by tiktoken, from a vocabulary on this machine if there is one, and never waiting long for a network."""

import logging
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from arc_common.exceptions import InvalidInputError
from arc_common.protocols import TokenCounter
from arc_common.tokens.budget import stated_error
from arc_common.tokens.calibration import CalibratedTokenCounter
from arc_common.tokens.correction import Correcting, Correction
from arc_common.tokens.encodings import encoding_names, local_encoding, shared_download

if TYPE_CHECKING:
    from tiktoken import Encoding

__all__ = ["TiktokenCounter"]

_log = logging.getLogger("arc.tokens")

_LONG = 65_536
_PIECE = re.compile(rf".{{0,{_LONG}}}\S(?= )|.{{1,{_LONG}}}", re.DOTALL)
"""A long text in pieces. No token reaches from a character into the space behind it, so cutting there is exact."""


class TiktokenCounter:
    """Counts with one of tiktoken's encodings; falls back to an estimate when its vocabulary can't be had.

    - Nothing is read or fetched before the first use of `name` or of a count; which of the two ways counts is
      decided then, once, so `name` always names what really counted: `tiktoken/o200k_base` or the fallback's name.
    - The vocabulary is looked for in `cache_dir` and in the folder that llama-index-core ships, then in the way
      tiktoken has: its own cache folder, then a download that is waited for at most `timeout` seconds. The fallback is
      logged as a warning once per process and encoding. A download that ends later serves counters made after it.
    - Text that looks like a special token ("<|endoftext|>") is counted as the text it is; lone surrogates are counted
      as replacement characters.
    - Texts of more than 65,536 characters are counted in pieces cut before a space, which changes nothing; a run of
      that many characters without a space may count a few tokens more. (tiktoken panics on a million spaces; a million
      times "a" takes it 0.5 s.)

    Args:
        name: An encoding ("o200k_base") or an OpenAI model ("gpt-4o").
        cache_dir: A folder laid out like tiktoken's own cache, looked into first.
        timeout: The longest wait for a download, in seconds.
        fallback: What counts without a vocabulary; a `CalibratedTokenCounter` if not given.

    Raises:
        InvalidInputError: tiktoken knows neither an encoding nor a model of this name, or `timeout` is negative.
    """

    def __init__(
        self,
        name: str = "o200k_base",
        *,
        cache_dir: str | Path | None = None,
        timeout: float = 5.0,
        fallback: TokenCounter | None = None,
    ) -> None:
        if not timeout >= 0:
            raise InvalidInputError("timeout", timeout, "seconds, 0 or more")
        self._encoding_name = _encoding_name(name)
        self._cache_dir = None if cache_dir is None else Path(cache_dir)
        self._timeout = timeout
        self._fallback = fallback or CalibratedTokenCounter()
        self._lock = Lock()

    @property
    def name(self) -> str:
        """`tiktoken/` and the encoding, or the fallback's name."""
        return f"tiktoken/{self._encoding_name}" if self._encoding else self._fallback.name

    def count(self, text: str) -> int:
        """The tokens of one text; 0 for `""`."""
        return self.count_batch((text,))[0]

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text, in their order. Sequential: tiktoken's threaded batch is slower on two cores."""
        encoding = self._encoding
        if encoding is None:
            return self._fallback.count_batch(texts)
        encode = encoding.encode_ordinary
        return [
            len(encode(text)) if len(text) <= _LONG else sum(len(encode(piece)) for piece in _PIECE.findall(text))
            for text in texts
        ]

    @property
    def relative_error(self) -> float:
        """0.0 for exact counts; the fallback's error while the fallback counts."""
        return 0.0 if self._encoding else stated_error(self._fallback)

    @property
    def correction(self) -> Correction:
        """The fallback's correction while it counts; none for exact counts."""
        estimator = self._estimator
        return estimator.correction if estimator else Correction()

    def observe(self, estimated_tokens: int, reported_tokens: int) -> None:
        """Let the fallback learn from reported usage while it counts."""
        if estimator := self._estimator:
            estimator.observe(estimated_tokens, reported_tokens)

    def adopt_correction(self) -> Correction:
        """Put what the fallback learned to use while it counts."""
        estimator = self._estimator
        return estimator.adopt_correction() if estimator else Correction()

    @property
    def _estimator(self) -> Correcting | None:
        if self._encoding is None and isinstance(self._fallback, Correcting):
            return self._fallback
        return None

    @cached_property
    def _encoding(self) -> "Encoding | None":
        with self._lock:
            if "_encoding" in self.__dict__:  # another thread was here first: both must see one decision
                return self.__dict__["_encoding"]  # type: ignore[no-any-return]  # the dict that cached_property fills
            found = local_encoding(self._encoding_name, self._cache_dir)
            if found is None:
                download = shared_download(self._encoding_name)
                found = download.result(self._timeout)
                if found is None and download.first_to_report():
                    _log.warning(
                        "No vocabulary for %s (%s): counting by %s instead. Put the file into tiktoken's cache folder "
                        "(TIKTOKEN_CACHE_DIR), or install llama-index-core, which ships it.",
                        self._encoding_name,
                        download.problem,
                        self._fallback.name,
                    )
            self.__dict__["_encoding"] = found
            return found


def _encoding_name(name: object) -> str:
    from tiktoken.model import MODEL_TO_ENCODING, encoding_name_for_model  # noqa: PLC0415 - not needed to import arc

    if isinstance(name, str):
        if name in encoding_names():
            return name
        try:
            return encoding_name_for_model(name)
        except KeyError:
            pass
    encodings, models = ", ".join(encoding_names()), ", ".join(MODEL_TO_ENCODING)
    raise InvalidInputError("name", name, f"an encoding ({encodings}) or a model that tiktoken knows ({models})")
