"""Names, on each answer that is stored, what its turn rested on besides what user and assistant said themselves."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

from cachetools import LRUCache

from arc_common.memory.own_words import foreign_spans
from arc_common.messages import Message, Role
from arc_common.prompts.context import source_name, storable_line, without_insertions
from arc_common.protocols import SessionKey
from arc_common.sources import SOURCE

_SESSIONS = 10_000
_LONGEST = 200


class TurnSources:
    """Keeps the untrusted sources of each session's running turn, so that answers are stored with them. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: LRUCache[tuple[str, str], _Turn] = LRUCache(_SESSIONS)
        self._shown: LRUCache[tuple[str, str], tuple[str, ...]] = LRUCache(_SESSIONS)

    def show(self, key: SessionKey, sources: Iterable[str]) -> None:
        """Note that a request shows text from these untrusted sources; the next messages stored rest on them."""
        with self._lock:
            before = self._shown.get(_place(key), ())
            self._shown[_place(key)] = tuple(dict.fromkeys((*before, *sources)))

    def named(
        self,
        key: SessionKey,
        messages: Sequence[Message],
        *,
        stored: Callable[[], Sequence[Message]],
    ) -> list[Message]:
        """Return the messages; answers that rest on anything untrusted name it in their metadata (`SOURCE`).

        Args:
            key: The session.
            messages: The messages to be stored, oldest first.
            stored: Returns the session's newest messages, oldest first; only called if the running turn is not known.
        """
        with self._lock:
            turn = self._running.get(_place(key))
            shown = self._shown.pop(_place(key), ())
        if turn is None:
            turn = _Turn()
            opens = bool(messages) and messages[0].role is Role.USER
            for message in [] if opens else stored():
                turn = turn.after(message)
        named = []
        for message in messages:
            turn = turn.after(message, shown)
            source = ""
            if message.role is Role.ASSISTANT and message.text.strip():
                source = storable_line(", ".join(turn.sources), _LONGEST)
            elif message.role is Role.TOOL and not message.name:
                source = turn.tool_of(message)
            if source and SOURCE not in message.metadata:
                message = replace(message, metadata={**message.metadata, SOURCE: source})  # noqa: PLW2901 - the same
            named.append(message)
        with self._lock:
            self._running[_place(key)] = turn
        return named

    def forget(self, key: SessionKey) -> None:
        """Drop what is kept of a session."""
        with self._lock:
            self._running.pop(_place(key), None)
            self._shown.pop(_place(key), None)


def _place(key: SessionKey) -> tuple[str, str]:
    return key.caller_id, key.session_id


@dataclass(frozen=True, slots=True)
class _Turn:
    """The untrusted sources of a running turn, and its calls: the tools' names by call id."""

    sources: tuple[str, ...] = ()
    calls: Mapping[str | None, str] = field(default_factory=dict)

    def after(self, message: Message, shown: Sequence[str] = ()) -> "_Turn":
        """Return the turn after a message of it, or the turn that the message opens; its request shows sources."""
        sources, calls = self.sources, self.calls
        if message.role is Role.USER and message.text.strip():
            is_foreign = SOURCE in message.metadata or foreign_spans(without_insertions(message.text))
            sources, calls = ((source_name(message),) if is_foreign else ()), {}
        elif message.role is Role.TOOL:
            sources = (*sources, self.tool_of(message) or source_name(message))
        if message.tool_calls:
            calls = {**calls, **{call.id: call.name for call in message.tool_calls}}
        return _Turn(tuple(dict.fromkeys((*sources, *shown))), calls)

    def tool_of(self, message: Message) -> str:
        """Return the name of the tool whose result this is, by its call; `""` if it names itself, or is unknown."""
        name = None if message.name or SOURCE in message.metadata else self.calls.get(message.tool_call_id)
        return f"tool {storable_line(name, _LONGEST)}" if name else ""
