"""Names, on each answer that is stored, the sources of the untrusted text from which it takes something."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from threading import Lock
from typing import NamedTuple

from arc_common.caches import LRUCache, drop_session
from arc_common.memory.facts.fidelity import rests_on
from arc_common.memory.own_words import foreign_spans, own_words
from arc_common.messages import Message, Role
from arc_common.prompts.context import source_name, storable_line, without_fences
from arc_common.protocols import SessionKey
from arc_common.text.languages.registry import detect
from arc_common.trust import SOURCE

_LONGEST = 200
_MOST_COMPARED = 20_000
"""Characters of one text that are compared with an answer; any answer counts as taken from a longer one."""
_MOST_KEPT = 64_000_000
"""Characters kept for all sessions together; a turn that is not kept is read again from the store."""


class Shown(NamedTuple):
    """The untrusted texts that a turn shows, and whether a model's text takes anything from them."""

    texts: Sequence[str] = ()
    is_used: bool = False


class AnswerSources:
    """Keeps the texts of each branch's running turn, so that answers are stored with their sources. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: LRUCache[SessionKey, _Turn] = LRUCache(_MOST_KEPT, getsizeof=_size)
        self._shown: LRUCache[SessionKey, _Turn] = LRUCache(_MOST_KEPT, getsizeof=_size)

    def show(self, key: SessionKey, untrusted: Iterable[tuple[str, str]], *, trusted: Iterable[str] = ()) -> None:
        """Record the texts of a request: untrusted ones with their sources, and those of users and assistants."""
        with self._lock:
            before = self._shown.get(key, _Turn())
            _keep(self._shown, key, before.showing(untrusted, trusted))

    def named(
        self,
        key: SessionKey,
        messages: Sequence[Message],
        *,
        stored: Callable[[], Sequence[Message]],
    ) -> list[Message]:
        """Return the messages; answers that take anything from untrusted text name its source (`SOURCE`).

        Args:
            key: The session.
            messages: The messages to be stored, oldest first.
            stored: Returns the session's newest messages, oldest first; only called if the running turn is not known.
        """
        with self._lock:
            turn = self._running.get(key)
            shown = self._shown.pop(key) if key in self._shown else None
        if turn is None:
            turn = _Turn()
            opens = bool(messages) and messages[0].role is Role.USER
            for message in [] if opens else stored():
                turn = turn.after(message)
        named = []
        for message in messages:
            turn = turn.after(message, shown)
            source = ""
            if message.role is Role.ASSISTANT and turn.untrusted and message.text.strip():
                source = storable_line(", ".join(turn.sources_of(message.text)), _LONGEST)
            elif message.role is Role.TOOL and not message.name:
                source = turn.tool_of(message)
            if source and SOURCE not in message.metadata:
                message = replace(message, metadata={**message.metadata, SOURCE: source})  # noqa: PLW2901 - the same
            named.append(message)
        with self._lock:
            _keep(self._running, key, turn)
        return named

    def shown(self, key: SessionKey, answer: str, *, but: Collection[str] = ()) -> "Shown":
        """Return the untrusted texts of the running turn, except from some sources, and whether an answer uses one."""
        with self._lock:
            turn, shown = self._running.get(key, _Turn()), self._shown.get(key, _Turn())
        turn = turn.showing(shown.untrusted, shown.trusted)
        turn = replace(turn, untrusted=tuple(one for one in turn.untrusted if one[0] not in but))
        return Shown([text for _, text in turn.untrusted], bool(turn.sources_of(answer)))

    def forget(self, key: SessionKey) -> None:
        """Drop the sources of a session's branches."""
        with self._lock:
            drop_session(self._running, key)
            drop_session(self._shown, key)


@dataclass(frozen=True, slots=True)
class _Turn:
    """A running turn's contents: untrusted texts with their sources, trusted texts, and tools' names by call id.

    `said` is the user's message; their own words in it are trusted, and extracted only when they are needed.
    """

    said: str = ""
    untrusted: tuple[tuple[str, str], ...] = ()
    trusted: tuple[str, ...] = ()
    calls: Mapping[str | None, str] = field(default_factory=dict)

    def showing(self, untrusted: Iterable[tuple[str, str]], trusted: Iterable[str] = ()) -> "_Turn":
        """Return the turn with these texts added to its own."""
        cut = ((source, text[: _MOST_COMPARED + 1]) for source, text in untrusted)
        texts = tuple(dict.fromkeys((*self.untrusted, *cut)))
        return replace(self, untrusted=texts, trusted=tuple(dict.fromkeys((*self.trusted, *trusted))))

    def after(self, message: Message, shown: "_Turn | None" = None) -> "_Turn":
        """Return the turn with a message and its request's texts, or the turn that the message opens."""
        turn = self
        if message.role is Role.USER and message.text.strip():
            turn = _opened(message)
        elif message.role is Role.TOOL:
            turn = self.showing([(self.tool_of(message) or source_name(message), message.text)])
        if message.tool_calls:
            turn = replace(turn, calls={**turn.calls, **{call.id: call.name for call in message.tool_calls}})
        return turn.showing(shown.untrusted, shown.trusted) if shown is not None else turn

    def sources_of(self, answer: str) -> list[str]:
        """Return the sources of the untrusted texts from which an answer takes something that no trusted text says.

        Texts in different languages can't be compared: then the answer counts as taken.
        """
        language, trusted = detect(answer), "\n".join((own_words(self.said), *self.trusted))
        return list(
            dict.fromkeys(
                source
                for source, text in self.untrusted
                if len(text) > _MOST_COMPARED or detect(text) is not language or rests_on(answer, text, trusted)
            )
        )

    def tool_of(self, message: Message) -> str:
        """Return the name of the tool whose result this is, by its call; `""` if it names itself, or is unknown."""
        name = None if message.name or SOURCE in message.metadata else self.calls.get(message.tool_call_id)
        return f"tool {storable_line(name, _LONGEST)}" if name else ""


def _opened(message: Message) -> _Turn:
    """Return the turn that a user's message opens."""
    text = without_fences(message.text)
    if SOURCE in message.metadata:
        return _Turn().showing([(source_name(message), text)])
    foreign = [text[start:end] for start, end in foreign_spans(text)]
    return _Turn(text).showing([(source_name(message), "\n".join(foreign))]) if foreign else _Turn(text)


def _size(turn: _Turn) -> int:
    return 100 + len(turn.said) + sum(map(len, chain(turn.trusted, *turn.untrusted)))


def _keep(turns: LRUCache[SessionKey, _Turn], key: SessionKey, turn: _Turn) -> None:
    try:
        turns[key] = turn
    except ValueError:  # too large
        turns.pop(key, None)
