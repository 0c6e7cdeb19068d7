"""The errors that arc raises: one tree, so that `except ArcError` catches all of them.

ArcError
├── InvalidInputError (ValueError)        an argument is not acceptable; nothing was written
├── ConfigurationError                    a setting, an address or an installation is wrong
│   └── MissingDependencyError (ImportError)   an optional package could not be imported
├── BudgetExceededError                   the mandatory parts do not fit the model's context window
├── NotFoundError (LookupError)           this scope has no object with that id
│   ├── SessionNotFoundError              the caller and user have no such session
│   │   └── ConversationDeletedError      it was deleted, but can be restored
│   ├── BranchNotFoundError               the session has no such branch
│   ├── MemoryNotFoundError               this scope has no such memory or pin
│   └── CandidateNotFoundError            the caller has no such candidate for a review
├── MemoryConflictError                   somebody else edited the memory meanwhile
├── ReviewConflictError                   the candidate was reviewed already
├── StoreError                            a store operation failed
│   ├── ArchiveError                      the archive can't be reached, or an object is missing or damaged
│   └── StoreUnavailableError             the store can't be reached, opened or read
├── ModelCallError                        a model call was refused, failed, or timed out
│   └── SummaryFailedError                a model returned no usable summary
└── EngineClosedError                     the engine was closed before this call
"""

import re
from datetime import datetime
from shlex import quote
from typing import Any

HIDDEN = "**********"

_SECRET_WORDS = re.compile(r"pass|pwd|secret|token(?!s)|key|credential|auth|signature", re.IGNORECASE)  # tokens: a unit
_LOGIN = re.compile(r"^([^:]+://[^:]*:)(.*)@", re.DOTALL)  # to the last @: passwords with @ or / come unescaped
_PARAMETER = re.compile(r"([?&;])([^=&;]+)=([^&;]*)")


def sounds_secret(name: str) -> bool:
    """Return whether a name suggests a password, token or key."""
    return _SECRET_WORDS.search(name) is not None


def hide_password(url: str) -> str:
    """Return the URL with its password, and each query parameter named like a secret, replaced by `***`."""
    if "://" not in url:
        return HIDDEN if "@" in url or sounds_secret(url) else url
    shown = _LOGIN.sub(r"\1***@", url, count=1)
    return _PARAMETER.sub(lambda match: f"{match[1]}{match[2]}=***" if sounds_secret(match[2]) else match[0], shown)


def scrubbed(text: str, url: str) -> str:
    """Remove a URL's secrets from a driver's message, even parts of a password that the driver mistook for a host."""
    login = _LOGIN.match(url)
    secrets = [login[2]] if login else []
    secrets += [match[3] for match in _PARAMETER.finditer(url) if sounds_secret(match[2])]
    pieces = {piece for secret in secrets for piece in (secret, *secret.split("@"), *secret.split("/"))}
    for piece in sorted((piece for piece in pieces if len(piece) > 2), key=len, reverse=True):
        text = text.replace(piece, "***")
    return text


_KEYS = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|ghp|pplx)[-_][\w*.-]{6,}|\b(?:AIza|AKIA)[\w*-]{8,}"
    r"|(?<=Bearer )\S{6,}|(?i:(?<=api key provided: )|(?<=api key: )|(?<=api_key=)|(?<=api-key: ))[^\s'\",;]{6,}"
)


def without_keys(text: str) -> str:
    """Mask anything that looks like a provider's key in an error's text: some providers repeat the refused key."""
    return _KEYS.sub("***", text)


_SHOWN = 120


def shown(value: object) -> str:
    """Return the value's repr for a message, truncated to a line's length; for a framework's object, only its class."""
    if converter_of(value):  # the repr of a LlamaIndex model shows its key
        return f"a {type(value).__module__}.{type(value).__qualname__}"
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - a broken __repr__ must not hide the error being reported
        text = f"<{type(value).__name__} whose repr failed: {type(error).__name__}>"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


class ArcError(Exception):
    """The base class of all errors that arc raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args), vars(self)  # not by `__init__`, which takes other arguments


def _restored(kind: type[ArcError], args: tuple[Any, ...]) -> ArcError:
    return kind.__new__(kind, *args)


class InvalidInputError(ArcError, ValueError):
    """An argument is not acceptable. Nothing was written.

    Args:
        field: The name of the offending parameter or field, as the caller knows it.
        value: The value received; its repr is shown, shortened.
        expected: A description of the acceptable values.
    """

    def __init__(self, field: str, value: object, expected: str) -> None:
        self.field = field
        self.value = value
        self.expected = expected
        super().__init__(f"{field}: got {shown(value)}, expected {expected}")


_CONVERTERS = {
    ("langchain_core", "BaseMessage"): "langchain_arc.to_arc",
    ("langchain_core", "Document"): "langchain_arc.document_to_arc",
    ("langchain_core", "BaseLanguageModel"): "langchain_arc.LangChainChatModel",
    ("langchain_core", "Embeddings"): "langchain_arc.LangChainEmbedder",
    ("langchain_core", "BaseRetriever"): "langchain_arc.LangChainRetriever",
    ("langchain_core", "BaseDocumentCompressor"): "langchain_arc.LangChainReranker",
    ("llama_index", "ChatMessage"): "llamaindex_arc.to_arc",
    ("llama_index", "BaseNode"): "llamaindex_arc.node_to_arc",
    ("llama_index", "BaseLLM"): "llamaindex_arc.LlamaIndexChatModel",
    ("llama_index", "BaseEmbedding"): "llamaindex_arc.LlamaIndexEmbedder",
    ("llama_index", "BaseRetriever"): "llamaindex_arc.LlamaIndexRetriever",
    ("llama_index", "BaseNodePostprocessor"): "llamaindex_arc.LlamaIndexReranker",
}
"""The adapters' converters by package and base class of the objects that they convert."""


def converter_of(value: object) -> str | None:
    """Return the name of the adapters' converter for a framework's object; `None` for any other object."""
    bases = ((kind.__module__.partition(".")[0], kind.__name__) for kind in type(value).__mro__)
    return next((_CONVERTERS[base] for base in bases if base in _CONVERTERS), None)


def or_converted(expected: str, value: object) -> str:
    """Return a description of what was expected; for a framework's object, it names the converter."""
    converter = converter_of(value)
    return expected if converter is None else f"{expected}: convert it with {converter}"


def check_whole(field: str, value: object, *, least: int = 1) -> int:
    """Return the value if it is a whole number of at least `least`; raise `InvalidInputError` otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidInputError(field, value, f"a whole number of at least {least}")
    return value


def check_moment(field: str, value: object) -> datetime | None:
    """Return a time with zone, or `None`; raise `InvalidInputError` for anything else."""
    if value is None or (isinstance(value, datetime) and value.tzinfo is not None):
        return value
    raise InvalidInputError(field, value, "a time with zone, or None")


def check_calls(progress: object, stop: object = None) -> None:
    """Check the arguments `progress` and `stop` of a long job; either may be `None`."""
    if progress is not None and not callable(progress):
        raise InvalidInputError("progress", progress, "a function that takes a number, or None")
    if stop is not None and not callable(getattr(stop, "is_set", None)):
        raise InvalidInputError("stop", stop, "a threading.Event, or None")


class ConfigurationError(ArcError):
    """A setting, an address or an installation is wrong; the message names it and the allowed values."""


class MissingDependencyError(ConfigurationError, ImportError):
    """An optional package could not be imported: it is missing or too old, as the error's cause says.

    Args:
        feature: The class or function that needs it.
        package: The package that could not be imported.
        extra: The extra of `arc-context-engine` that installs it; `None` if none does.
    """

    def __init__(self, feature: str, *, package: str, extra: str | None) -> None:
        self.feature = feature
        self.package = package
        self.extra = extra
        super().__init__(feature, package, extra)

    def __str__(self) -> str:
        reason = f" ({self.__cause__})" if self.__cause__ else ""
        wanted = self.package if self.extra is None else f"arc-context-engine[{self.extra}]"
        return (
            f"{self.feature} needs the package {self.package!r}, which could not be imported{reason}: "
            f"pip install -U {quote(wanted)}"
        )


class BudgetExceededError(ArcError):
    """The mandatory parts of a request do not fit the model's context window.

    Args:
        what: The parts that don't fit ("system prompt and user message").
        needed: The tokens the parts need.
        available: The tokens available for them.
    """

    def __init__(self, what: str, *, needed: int, available: int) -> None:
        self.what = what
        self.needed = needed
        self.available = available
        remedy = "unpin something, shorten the message" if "pins" in what else "shorten it"
        super().__init__(
            f"{what}: {needed:,} tokens needed, {available:,} available; {remedy}, "
            "raise the context window or lower the output reserve"
        )


class NotFoundError(ArcError, LookupError):
    """This scope has no object with that id."""


class SessionNotFoundError(NotFoundError):
    """The caller and user have no session with that id; another user's session counts as missing."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"no session {shown(session_id)} for this caller and user")


class ConversationDeletedError(SessionNotFoundError):
    """The session was deleted with `soft=True`; until it is purged, `admin.restore` brings it back."""

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        what = f"session {shown(session_id)} was deleted: `engine.admin.restore` brings it back, `engine.admin.purge` "
        self.args = (f"{what}removes it, and then its id can be used again",)


class BranchNotFoundError(NotFoundError):
    """The session has no branch with that number or name: it never had, or the branch was deleted."""

    def __init__(self, session_id: str, branch: int | str) -> None:
        self.session_id = session_id
        self.branch = branch
        super().__init__(f"session {shown(session_id)} has no branch {shown(branch)}; `session.branches()` lists them")


class MemoryNotFoundError(NotFoundError):
    """This scope has no memory or pin with that id; another scope's counts as missing."""

    def __init__(self, memory_id: str) -> None:
        self.memory_id = memory_id
        super().__init__(f"no memory {shown(memory_id)} in this scope")


class CandidateNotFoundError(NotFoundError):
    """The caller's review queue has no candidate with that id; another caller's counts as missing."""

    def __init__(self, candidate_id: str) -> None:
        self.candidate_id = candidate_id
        super().__init__(f"no candidate {shown(candidate_id)} in this caller's review queue")


class ReviewConflictError(ArcError):
    """A candidate was reviewed already; each is approved or rejected once."""

    def __init__(self, candidate_id: str, status: str) -> None:
        self.candidate_id = candidate_id
        self.status = status
        super().__init__(f"candidate {shown(candidate_id)} is {status} already: only a PENDING one can be reviewed")


class MemoryConflictError(ArcError):
    """Somebody else edited the memory meanwhile: read it again, and decide again."""

    def __init__(self, memory_id: str, *, expected: int, found: int) -> None:
        self.memory_id = memory_id
        self.expected = expected
        self.found = found
        super().__init__(
            f"memory {shown(memory_id)} is at revision {found}, not {expected}: it was edited meanwhile; get it again "
            "and repeat the edit on its current text"
        )


class StoreError(ArcError):
    """A store operation failed; the driver's error is the cause."""


class StoreUnavailableError(StoreError):
    """The store can't be reached, opened or read; the driver's error is the cause."""


class ArchiveError(StoreError):
    """The archive can't be reached, or the object of a conversation is missing or damaged."""


class ModelCallError(ArcError):
    """A model call was refused, failed, or timed out; the client's error is the cause."""


class SummaryFailedError(ModelCallError):
    """A model returned no usable summary; the cause gives the reason."""


class EngineClosedError(ArcError):
    """The engine was closed before this call."""
