"""ArcChatStore: LlamaIndex's chat store over an engine, with a session for each key."""

from collections.abc import Sequence
from typing import Any, NoReturn, Self

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.memory.types import DEFAULT_CHAT_STORE_KEY
from llama_index.core.storage.chat_store import BaseChatStore

from arc_common.engine.context_engine import ContextEngine, checked_engine
from arc_common.engine.session import Session
from arc_common.exceptions import InvalidInputError
from arc_common.messages import Message, same_content
from llamaindex_arc.component import Component
from llamaindex_arc.engine import open_engine
from llamaindex_arc.messages import from_arc, to_arc
from llamaindex_arc.placement import without_memory

_PAGE = 500


class ArcChatStore(Component, BaseChatStore):
    """Keeps chat messages in an engine's sessions, with the session's id as the key.

        store = ArcChatStore(engine, user_id="ann")
        store.add_message("s", ChatMessage("Hello"))

    - As durable, shared and ordered as the engine's store; each method has an async form that blocks no event loop.
    - Only the sessions of its caller and user are visible.
    - Messages come back exactly as they were given, as new objects.
    - LlamaIndex's default key is refused, because all memories created without a key would share it.
    - A copy, even a deep one, works on the same engine. The store can't be pickled, because its engine holds
      connections.

    Args:
        engine: The engine that keeps the sessions; by default a new one, as the settings say.
        caller_id, user_id: As in `ContextEngine.session`.
    """

    caller_id: str = Field(default="default", description="Whose sessions.")
    user_id: str | None = Field(default=None, description="Which user's sessions.")
    _engine: ContextEngine = PrivateAttr()

    def __init__(
        self, engine: ContextEngine | None = None, *, caller_id: str = "default", user_id: str | None = None
    ) -> None:
        opened = open_engine() if engine is None else checked_engine(engine)
        opened.session("any", caller_id=caller_id, user_id=user_id)
        fields: dict[str, Any] = {"caller_id": caller_id, "user_id": user_id}
        super().__init__(**fields)
        self._engine = opened

    @property
    def engine(self) -> ContextEngine:
        """The engine that keeps the sessions."""
        return self._engine

    def session(self, key: str, *, branch: int | str | None = None) -> Session:
        """Return the session with this key as its id, on its current branch or the one given. Does no I/O.

        Raises:
            InvalidInputError: The key can't be a session's id, or is LlamaIndex's default key.
        """
        if key == DEFAULT_CHAT_STORE_KEY:
            raise InvalidInputError(
                "session_id",
                key,
                "an id of its own: pass session_id=… (all conversations would share the default)",
            )
        return self._engine.session(key, caller_id=self.caller_id, user_id=self.user_id, branch=branch)

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Replace the key's messages with these.

        - Messages at the start that are already stored stay, with their ids and times.
        - New messages are stored before old ones are removed: a crash in between loses nothing.
        - A message that shows arc's facts and summary stands for all messages before the next one given: these
          stay.
        - If the conversation has branches, old messages after one that stays are left on a branch of their own, as by
          `Session.rewind`; otherwise they are removed.
        """
        replace_messages(self.session(key), messages)

    def get_messages(self, key: str) -> list[ChatMessage]:
        """Return all messages of a key, oldest first; an empty list if there is no such key."""
        return list(map(from_arc, self.session(key).messages()))

    def add_message(self, key: str, message: ChatMessage) -> None:
        """Append a message."""
        self.session(key).append(to_arc(message))

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        """Delete a key, its session and all derived data; return its messages, or `None` if there is no such key."""
        session = self.session(key)
        messages = session.messages()
        return list(map(from_arc, messages)) if session.delete() else None

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Delete and return the message at a list index; `None` if there is none."""
        session = self.session(key)
        message = _at(session.messages(), idx)
        return from_arc(message) if message and session.remove([_id(message)]) else None

    def delete_last_message(self, key: str) -> ChatMessage | None:
        """Delete and return the newest message; `None` if there is none."""
        session = self.session(key)
        message = _at(session.messages(limit=1), -1)
        return from_arc(message) if message and session.remove([_id(message)]) else None

    def get_keys(self) -> list[str]:
        """Return the keys of this caller and user, newest first."""
        keys: list[str] = []
        cursor = None
        while True:
            page = self._engine.admin.sessions(self.caller_id, self.user_id, _PAGE, cursor)
            keys += [found.key.session_id for found in page.conversations if found.key.user_id == self.user_id]
            cursor = page.next_cursor
            if cursor is None:
                return keys

    def __copy__(self) -> Self:
        return type(self)(self._engine, caller_id=self.caller_id, user_id=self.user_id)

    def __getstate__(self) -> NoReturn:
        raise TypeError(
            "an ArcChatStore can't be pickled, because its engine holds connections; open a new one instead"
        )


def replace_messages(session: Session, messages: Sequence[ChatMessage]) -> None:
    """Replace a session's messages: see `ArcChatStore.set_messages`."""
    stored = session.messages()
    new, obsolete = _difference(stored, messages)
    kept = stored[: len(stored) - len(obsolete)]
    if kept and obsolete and len(session.branches()) > 1:
        session.rewind(to=_id(kept[-1]))
        obsolete = []
    session.append(new)
    session.remove(obsolete)


def _difference(stored: Sequence[Message], messages: Sequence[ChatMessage]) -> tuple[list[Message], list[str]]:
    """Return the messages to append and the ids to remove, so that the stored messages are the given ones."""
    rest, has_memory = without_memory(messages)
    given = [(message, to_arc(message)) for message in rest]
    own = [(message, as_arc) for message, as_arc in given if not as_arc.made_by_arc]
    summarised = 0
    if has_memory or len(own) < len(given):
        summarised = _summarised(stored, [as_arc for _, as_arc in own])
    same = 0
    for there, (wanted, _) in zip(stored[summarised:], own, strict=False):
        if from_arc(there) != wanted:
            break
        same += 1
    return [as_arc for _, as_arc in own[same:]], [_id(message) for message in stored[summarised + same :]]


def _summarised(stored: Sequence[Message], following: Sequence[Message]) -> int:
    """Return how many stored messages precede those after a summary, judged by the last longest match."""
    longest, place = 0, len(stored)
    for start in range(len(stored)):
        length = 0
        while length < min(len(following), len(stored) - start) and same_content(
            stored[start + length], following[length]
        ):
            length += 1
        if length and length >= longest:
            longest, place = length, start
    return place


def _at(messages: Sequence[Message], index: int) -> Message | None:
    if type(index) is not int:
        raise InvalidInputError("idx", index, "a whole number")
    return messages[index] if -len(messages) <= index < len(messages) else None


def _id(message: Message) -> str:
    return message.id or ""
