"""The token counters, and the tokens of messages, tool definitions and response schemas."""

import base64
import hashlib
import importlib
import importlib.util
import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import cached_property, lru_cache
from itertools import accumulate, islice, pairwise
from pathlib import Path
from threading import Lock
from time import monotonic
from types import FunctionType
from typing import TYPE_CHECKING, Any

from arc_common.concurrency import started
from arc_common.exceptions import InvalidInputError
from arc_common.messages import ContentPart, Message
from arc_common.protocols import TokenCounter
from arc_common.serialization import dumps
from arc_common.tokens.budget import stated_error
from arc_common.tokens.calibration import CalibratedTokenCounter, Correcting, Correction

if TYPE_CHECKING:
    from tiktoken import Encoding


class CachedTokenCounter:
    """Caches the counts of another counter for up to `most` texts, by the texts' hashes: it keeps no text."""

    def __init__(self, counter: TokenCounter, *, most: int = 32_768) -> None:
        self._counter = counter
        self._most = most
        self._counts: dict[int, int] = {}

    @property
    def name(self) -> str:
        """The wrapped counter's name."""
        return self._counter.name

    @property
    def correction(self) -> Correction:
        """The wrapped counter's correction; a neutral one if it has none."""
        return self._counter.correction if isinstance(self._counter, Correcting) else Correction()

    @property
    def relative_error(self) -> float:
        """The wrapped counter's error; 0.0 if it states none."""
        return stated_error(self._counter)

    def count(self, text: str) -> int:
        """Return the tokens of one text; 0 for `""`."""
        known = self._counts.get(hash(text) + len(text))
        return self.count_batch((text,))[0] if known is None else known

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, in order."""
        keys = [hash(text) + len(text) for text in texts]  # as in `cached_by_hash`
        counts = list(map(self._counts.get, keys))
        if None in counts:
            new = {key: text for key, text, count in zip(keys, texts, counts, strict=True) if count is None}
            counted = dict(zip(new, _counted(self._counter, list(new.values())), strict=True))
            if len(self._counts) + len(counted) > self._most:
                self._counts.clear()
            self._counts.update(islice(counted.items(), self._most))
            counts = [counted[key] if count is None else count for key, count in zip(keys, counts, strict=True)]
            return [count for count in counts if count is not None]
        return counts  # type: ignore[return-value]  # none is missing


def _counted(counter: TokenCounter, texts: Sequence[str]) -> list[int]:
    """Return the tokens of each text; raise if a user's counter returned anything else."""
    counts = counter.count_batch(texts)
    is_whole = isinstance(counts, Sequence) and all(isinstance(count, int) and count >= 0 for count in counts)
    if not is_whole or len(counts) != len(texts):
        expected = "a counter whose count_batch returns a whole number of at least 0 for each text"
        raise InvalidInputError("token_counter", counts, expected)
    return counts


_ALPHANUMERIC_ASCII = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

_LATIN = re.compile(
    "["
    "0-9A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af"  # ASCII, Latin-1, Extended-A and -B, IPA
    "\u1e00-\u1eff\u2c60-\u2c7f\ua722-\ua787\ua78b-\ua7ff\uab30-\uab5a"  # Extended Additional, -C, -D, -E
    "]+"
)
_CJK = re.compile(
    "["
    "\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\U00020000-\U000323af"  # Han, extensions A to H, compatibility forms
    "\uac00-\ud7af\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\ud7b0-\ud7ff"  # Hangul syllables and letters
    "\u3040-\u309f\u30a0-\u30ff\u31f0-\u31ff\U0001aff0-\U0001b16f"  # kana and their extensions
    "\u2e80-\u2fdf\u3100-\u312f\u31a0-\u31ef"  # radicals, Bopomofo, strokes
    "\u2ff0-\u2fff\u3000-\u303f\u3190-\u319f\u3200-\u33ff\ufe30-\ufe4f\uff00-\uffef"  # punctuation, full width
    "]+"
)
_EMOJI = re.compile("[\U0001f300-\U0001faff\u2600-\u27bf]+")


class HeuristicTokenCounter:
    """Estimates tokens by character class: the simplest rule that does not treat Korean like English.

    - Latin letters and the digits 0–9 cost 1/4 token each, CJK characters (with their punctuation and full-width forms)
      2/3, emoji 1, and everything else (punctuation, white space, other scripts) 1/3; the sum is rounded up, once.
    - It has no `relative_error`, so no part of a limit is kept free. For other scripts, codes and emoji, the actual
      tokens can be five times the estimate.
    - Any text is accepted, lone surrogates and NUL included. Time is linear in the length.
    """

    @property
    def name(self) -> str:
        """`heuristic/1`."""
        return "heuristic/1"

    def count(self, text: str) -> int:
        """Return the tokens of one text; 0 for `""`."""
        if text.isascii():
            other = len(text.encode().translate(None, delete=_ALPHANUMERIC_ASCII))
            twelfths = 3 * (len(text) - other) + 4 * other
        else:
            latin, cjk, emoji = (sum(map(len, chars.findall(text))) for chars in (_LATIN, _CJK, _EMOJI))
            twelfths = 3 * latin + 8 * cjk + 12 * emoji + 4 * (len(text) - latin - cjk - emoji)
        return -(-twelfths // 12)

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, in order."""
        return [self.count(text) for text in texts]


class _NotOnThisMachineError(Exception):
    pass


@lru_cache(maxsize=8)  # an encoding takes 0.3 s to build and tens of megabytes
def local_encoding(name: str, cache_dir: Path | None) -> "Encoding | None":
    """Build an OpenAI encoding from a vocabulary file in `cache_dir` or in llama-index-core's folder."""
    from tiktoken import Encoding  # noqa: PLC0415 - not needed to import arc

    folders = [folder for folder in (cache_dir, _shipped_folder()) if folder is not None]

    def load(url: str, expected_hash: str | None = None) -> dict[bytes, int]:
        file_name = hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()  # as tiktoken names its cache files
        for folder in folders:
            try:
                data = (folder / file_name).read_bytes()
            except OSError:
                continue
            if hashlib.sha256(data).hexdigest() == expected_hash:
                return {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, data.splitlines())}
        raise _NotOnThisMachineError

    constructor = _constructors(load).get(name)
    if constructor is None:
        return None
    try:
        return Encoding(**constructor())
    except _NotOnThisMachineError:
        return None


def encoding_names() -> list[str]:
    """Return the names of tiktoken's encodings."""
    return sorted(_openai().ENCODING_CONSTRUCTORS)


def _openai() -> Any:
    return importlib.import_module("tiktoken_ext.openai_public")  # it has no types


def _constructors(load: Callable[..., dict[bytes, int]]) -> dict[str, Callable[[], dict[str, Any]]]:
    """Return tiktoken's encoding constructors by name, reading vocabulary files with `load`."""
    openai_public = _openai()
    names = vars(openai_public) | {"load_tiktoken_bpe": load, "data_gym_to_mergeable_bpe_ranks": _no_such_file}
    for name, value in vars(openai_public).items():
        if isinstance(value, FunctionType) and value.__module__ == openai_public.__name__:
            names[name] = FunctionType(value.__code__, names, name)
    return {name: names[function.__name__] for name, function in openai_public.ENCODING_CONSTRUCTORS.items()}


def _no_such_file(**_: object) -> dict[bytes, int]:
    raise _NotOnThisMachineError  # gpt2 has another file format; tiktoken loads that one itself


def _shipped_folder() -> Path | None:
    """Return llama-index-core's vocabulary folder, if installed; only its empty namespace package is imported."""
    try:
        spec = importlib.util.find_spec("llama_index.core")
    except ModuleNotFoundError:
        return None
    return Path(spec.origin).parent / "_static" / "tiktoken_cache" if spec and spec.origin else None


@lru_cache(maxsize=32)
def _download(name: str) -> "tuple[Future[Encoding], float]":
    """Start the process's only download of an encoding, which may hang; return it with the time of its start."""

    def load() -> "Encoding":
        from tiktoken import Encoding  # noqa: PLC0415 - not needed to import arc

        # Not tiktoken.get_encoding: it holds a lock of the whole process while it downloads.
        return Encoding(**_openai().ENCODING_CONSTRUCTORS[name]())

    return started(load, name=f"arc-vocabulary-{name}"), monotonic()


@lru_cache(maxsize=32)
def _report(name: str, problem: str, fallback: str) -> None:
    """Log, once per process and problem, that an encoding has no vocabulary."""
    _log.warning(
        "No vocabulary for %s (%s): counting with %s instead. Put the file into tiktoken's cache folder "
        "(TIKTOKEN_CACHE_DIR), or install llama-index-core, which ships it.",
        name,
        problem,
        fallback,
    )


_log = logging.getLogger("arc.tokens")

_LONG = 65_536
_PIECE = re.compile(rf".{{0,{_LONG}}}\S(?= )|.{{1,{_LONG}}}", re.DOTALL)
"""Splits a long text. No token spans a character and the space after it, so counting the pieces is exact."""


class TiktokenCounter:
    """Counts with one of tiktoken's encodings; falls back to an estimate if its vocabulary is unavailable.

    - Nothing is read or downloaded before the first use of `name` or of a count. Encoding or fallback is chosen then,
      once, so `name` always identifies the actual counter: `tiktoken/o200k_base` or the fallback's name.
    - The vocabulary is searched in `cache_dir` and in llama-index-core's folder, then loaded by tiktoken: from its own
      cache folder, or by a download limited to `timeout` seconds. The fallback is logged as a warning once per process
      and encoding. Counters created after a late download use its result.
    - Text that looks like a special token ("<|endoftext|>") is counted as ordinary text; lone surrogates are counted as
      replacement characters.
    - Texts of more than 65,536 characters are counted in pieces, because tiktoken panics on a million spaces; without
      spaces the count may be a few tokens higher.

    Args:
        name: An encoding ("o200k_base") or an OpenAI model ("gpt-4o").
        cache_dir: A folder with the layout of tiktoken's own cache, searched first.
        timeout: The longest wait for a download, in seconds.
    """

    def __init__(self, name: str = "o200k_base", *, cache_dir: str | Path | None = None, timeout: float = 5.0) -> None:
        if not timeout >= 0:
            raise InvalidInputError("timeout", timeout, "seconds, 0 or more")
        self._encoding_name = _encoding_name(name)
        self._cache_dir = None if cache_dir is None else Path(cache_dir)
        self._timeout = timeout
        self._fallback = CalibratedTokenCounter()
        self._lock = Lock()

    @property
    def name(self) -> str:
        """`tiktoken/` and the encoding, or the fallback's name."""
        return f"tiktoken/{self._encoding_name}" if self._encoding else self._fallback.name

    def count(self, text: str) -> int:
        """Return the tokens of one text; 0 for `""`."""
        return self.count_batch((text,))[0]

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, in order. Sequential: tiktoken's threaded batch is slower on two cores."""
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
        """0.0 for exact counts; the fallback's error while the fallback is in use."""
        return 0.0 if self._encoding else self._fallback.relative_error

    @property
    def correction(self) -> Correction:
        """The fallback's correction while it is in use; a neutral one for exact counts."""
        return Correction() if self._encoding else self._fallback.correction

    def observe(self, estimated_tokens: int, reported_tokens: int) -> None:
        """Report a request's usage to the fallback while it is in use."""
        if self._encoding is None:
            self._fallback.observe(estimated_tokens, reported_tokens)

    def adopt_correction(self) -> Correction:
        """Adopt the fallback's learned correction while it is in use."""
        return Correction() if self._encoding else self._fallback.adopt_correction()

    @cached_property
    def _encoding(self) -> "Encoding | None":
        with self._lock:
            if "_encoding" in self.__dict__:  # another thread decided first: both must use one decision
                return self.__dict__["_encoding"]  # type: ignore[no-any-return]  # the dict that cached_property fills
            found = local_encoding(self._encoding_name, self._cache_dir)
            if found is None:
                future, begun = _download(self._encoding_name)
                wait([future], max(0.0, begun + self._timeout - monotonic()))
                error = future.exception() if future.done() else None
                if future.done() and error is None:
                    found = future.result()
                else:
                    problem = f"{type(error).__name__}: {error}" if error else "not answered in time"
                    _report(self._encoding_name, problem, self._fallback.name)
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


def default_token_counter() -> TokenCounter:
    """Return a new `CalibratedTokenCounter`."""
    return CalibratedTokenCounter()


REQUEST_OVERHEAD = 3
"""Tokens once per request: each reply is primed with <|start|>assistant<|message|> (OpenAI cookbook)."""

_MESSAGE = 4
"""Per message: three of framing, one for the role's name (OpenAI cookbook, "How to count tokens")."""
_NAME = 1
"""Per message with a name, in addition to the name itself (same source)."""
_TOOL_CALL = 3
"""Per tool call, in addition to its name, id and arguments: it is framed like a message."""

_IMAGE, _IMAGE_LOW = 765, 85
"""An image without `detail: low` is taken as 1,024 × 1,024: 85 + 4 tiles × 170 (OpenAI, "Images and vision")."""
_AUDIO = 600
"""Audio whose size is unknown is taken as one minute: 10 tokens a second (OpenAI, audio input)."""
_AUDIO_BYTES_PER_TOKEN = 1_600
"""128 kbit/s, as MP3; uncompressed audio is over-counted."""
_FILE = 2_000
"""A file whose size is unknown is taken as one dense page (Anthropic: 1,500 to 3,000 tokens per PDF page)."""
_FILE_BYTES_PER_TOKEN = 32
"""A page of a PDF takes about 64 kB."""
_TEXT_BYTES_PER_TOKEN = 4
"""For attached files that are text."""

_TEXT_TYPES = re.compile(r"text/|application/(json|xml|x-yaml|yaml|javascript|toml)\b|.*\+(json|xml)\b")
_BINARY = re.compile(r"[A-Za-z0-9+/_-]{512,}={0,2}")
"""Long base64 text inside a foreign block, which the model receives as an image or audio, not as text."""


def message_tokens(counter: TokenCounter, message: Message) -> int:
    """Return the raw tokens that one message adds to a request: see `message_tokens_batch`."""
    return message_tokens_batch(counter, (message,))[0]


def message_tokens_batch(counter: TokenCounter, messages: Sequence[Message]) -> list[int]:
    """Return the raw tokens (without correction) that each message adds to a request, in order."""
    texts: list[str] = []
    fixed: list[int] = []
    ends = [0]
    for message in messages:
        tokens = _MESSAGE
        for piece in _pieces(message):
            if isinstance(piece, str):
                texts.append(piece)
            else:
                tokens += piece
        fixed.append(tokens)
        ends.append(len(texts))
    is_checked = isinstance(counter, CachedTokenCounter)
    counts = counter.count_batch(texts) if is_checked else _counted(counter, texts)
    sums = list(accumulate(counts, initial=0))
    return [tokens + sums[end] - sums[start] for tokens, (start, end) in zip(fixed, pairwise(ends), strict=True)]


def tools_tokens(counter: TokenCounter, tools: Sequence[Mapping[str, Any]] | None) -> int:
    """Return the raw tokens that tool definitions add to a request, as compact JSON."""
    if not tools:
        return 0
    return sum(counter.count_batch([_json(tool, "tools") for tool in tools]))


def schema_tokens(counter: TokenCounter, response_format: Mapping[str, Any] | None) -> int:
    """Return the raw tokens that a response format (a JSON schema) adds to a request, as compact JSON."""
    return counter.count(_json(response_format, "response_format")) if response_format else 0


def _pieces(message: Message) -> list[str | int]:
    """Return a message's texts to count, and the token counts of its other parts."""
    content = message.content
    pieces: list[str | int] = []
    if isinstance(content, str):
        pieces.append(content)
    else:
        for part in content or ():
            pieces += _part_pieces(part)
    for call in message.tool_calls:
        arguments = call.arguments if isinstance(call.arguments, str) else _arguments(call.arguments)
        pieces += [_TOOL_CALL, call.name, arguments]
        if call.id is not None:
            pieces.append(call.id)
    if message.tool_call_id is not None:
        pieces.append(message.tool_call_id)
    if message.name is not None:
        pieces += [message.name, _NAME]
    return pieces


def _part_pieces(part: ContentPart) -> Iterator[str | int]:
    if part.text is not None:
        yield part.text
    if part.type == "image":
        yield _IMAGE_LOW if part.extra.get("detail") == "low" else _IMAGE
    elif part.type == "audio":
        yield _AUDIO if part.data is None else _size(part.data) // _AUDIO_BYTES_PER_TOKEN + 1
    elif part.type == "file":
        if part.name is not None:
            yield part.name
        if part.data is not None:
            is_text = part.mime_type is not None and _TEXT_TYPES.match(part.mime_type)
            yield _size(part.data) // (_TEXT_BYTES_PER_TOKEN if is_text else _FILE_BYTES_PER_TOKEN) + 1
        elif part.text is None:
            yield _FILE
    elif part.type == "opaque":
        text = dumps(dict(part.extra), field="content.extra")
        yield _BINARY.sub("", text)
        yield sum(_size(found) // _FILE_BYTES_PER_TOKEN + 1 for found in _BINARY.findall(text))


def _size(base64_text: str) -> int:
    """Return the number of bytes that a base64 text encodes."""
    return len(base64_text) * 3 // 4


def _arguments(arguments: Mapping[str, Any]) -> str:
    """Return a call's arguments as the JSON text that frameworks send."""
    try:
        return json.dumps(dict(arguments), ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):  # a key that JSON can't represent, or a circular value
        return dumps(dict(arguments), field="message.tool_calls.arguments")


def _json(value: object, field: str) -> str:
    if not isinstance(value, Mapping):
        raise InvalidInputError(field, value, "a JSON schema as a mapping")
    try:
        return json.dumps(dict(value), ensure_ascii=False, separators=(",", ":"), default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(field, value, "a value that JSON can represent") from error
