"""Where tiktoken's vocabularies come from: files on this machine, or a download that nobody has to wait for."""

import base64
import hashlib
import importlib
import importlib.util
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiktoken import Encoding

__all__ = ["Download", "encoding_names", "local_encoding", "shared_download"]


class _NotOnThisMachineError(Exception):
    pass


@lru_cache(maxsize=8)  # an encoding takes 0.3 s to build and tens of megabytes
def local_encoding(name: str, cache_dir: Path | None) -> "Encoding | None":
    """One of OpenAI's encodings, built from a vocabulary file in `cache_dir` or in llama-index-core's folder.

    - Reads neither network nor environment, and imports nothing of llama-index-core.
    - The file must have the hash that tiktoken expects, so the encoding equals the one that tiktoken would load.

    Returns:
        The encoding, or `None` if there is no such file or the encoding is not one of OpenAI's.
    """
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
    """The encodings that tiktoken defines."""
    return sorted(_openai().ENCODING_CONSTRUCTORS)


def _openai() -> Any:
    return importlib.import_module("tiktoken_ext.openai_public")  # it has no types


def _constructors(load: Callable[..., dict[bytes, int]]) -> dict[str, Callable[[], dict[str, Any]]]:
    """The definitions that tiktoken has (pattern, special tokens, file, hash), reading their files by `load`.

    tiktoken offers no way to name a file: it reads its folder from the environment, and fetches what is not there.
    So its functions are run over a copy of their module's names in which the loader is ours; the module stays as it is.
    """
    openai_public = _openai()
    names = vars(openai_public) | {"load_tiktoken_bpe": load, "data_gym_to_mergeable_bpe_ranks": _no_such_file}
    for name, value in vars(openai_public).items():
        if isinstance(value, FunctionType) and value.__module__ == openai_public.__name__:
            names[name] = FunctionType(value.__code__, names, name)
    return {name: names[function.__name__] for name, function in openai_public.ENCODING_CONSTRUCTORS.items()}


def _no_such_file(**_: object) -> dict[bytes, int]:
    raise _NotOnThisMachineError  # gpt2 has another file format; tiktoken loads that one itself


def _shipped_folder() -> Path | None:
    """The vocabularies inside llama-index-core, if it is installed; finding them imports only its empty namespace."""
    try:
        spec = importlib.util.find_spec("llama_index.core")
    except ModuleNotFoundError:
        return None
    return Path(spec.origin).parent / "_static" / "tiktoken_cache" if spec and spec.origin else None


class Download:
    """tiktoken's own loading of an encoding (its cache folder, then the network), in a thread that may hang for ever.

    `requests` is called by tiktoken without a timeout, so a network that swallows packets blocks it without end: the
    thread is a daemon, and callers wait only as long as they like.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._done = Event()
        self._started = monotonic()
        self._encoding: Encoding | None = None
        self._error: Exception | None = None
        self._reported = False
        self._lock = Lock()
        Thread(target=self._run, name=f"arc-vocabulary-{name}", daemon=True).start()

    def _run(self) -> None:
        from tiktoken import Encoding  # noqa: PLC0415 - not needed to import arc

        try:  # not tiktoken.get_encoding: it holds a lock of the whole process while it downloads
            self._encoding = Encoding(**_openai().ENCODING_CONSTRUCTORS[self._name]())
        except Exception as error:  # noqa: BLE001 - requests, OS and hash errors all mean: no vocabulary
            self._error = error
        finally:
            self._done.set()

    def result(self, timeout: float) -> "Encoding | None":
        """The encoding if it is there within `timeout` seconds of the download's start."""
        self._done.wait(max(0.0, self._started + timeout - monotonic()))
        return self._encoding

    @property
    def problem(self) -> str:
        """Why there is no encoding, for a log line."""
        return f"{type(self._error).__name__}: {self._error}" if self._error else "not answered in time"

    def first_to_report(self) -> bool:
        """True once: for the caller who should log the problem."""
        with self._lock:
            first, self._reported = not self._reported, True
            return first


@lru_cache(maxsize=32)
def shared_download(name: str) -> Download:
    """The process's one download of this encoding, started by the first call."""
    return Download(name)
