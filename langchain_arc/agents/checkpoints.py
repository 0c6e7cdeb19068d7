"""Follows an agent's checkpoints: a run continues on the branch and at the message that its checkpoint lies on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, NotRequired, TypeVar
from uuid import NAMESPACE_OID, uuid5

from langchain.agents.middleware import AgentState
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.config import get_config
from langgraph.constants import CONFIG_KEY_CHECKPOINTER

from arc_common.engine.context_engine import ContextEngine, checked_engine
from arc_common.engine.session import Session
from arc_common.exceptions import BranchNotFoundError, InvalidInputError
from arc_common.messages import Message, check_identifier
from arc_common.protocols import StoredMessage
from arc_common.protocols.conversations import After
from langchain_arc.stored_messages import behind, is_stored_as, is_summary, named, names_of, said, stored_form

T = TypeVar("T")

_REPLAYED = "__pregel_replay_state"
"""LangGraph's key for a run from a given checkpoint; without it, a thread's first message can't be said again."""


def _joined(points: Any, more: Any) -> Any:
    """Return the points of all sessions: an agent can have this middleware twice, for two sessions."""
    return {**points, **more} if isinstance(points, dict) and isinstance(more, dict) else more


class ArcState(AgentState[Any]):
    """An agent's state with arc's private channels, which inputs and outputs omit."""

    arc_point: NotRequired[Annotated[dict[str, Any], PrivateStateAttr, _joined]]
    """By session, the place of the newest stored message."""
    arc_temporary: NotRequired[Annotated[list[str], PrivateStateAttr]]
    """The ids of the user's messages that open temporary turns."""


@dataclass(frozen=True, slots=True)
class Point:
    """The newest stored message of a state: its branch, place and id."""

    branch: int
    seq: int
    id: str
    held: int
    """The number of the state's messages up to this one."""
    pruned_to: int = 0
    """The place of the newest message that was pruned from the state."""

    @classmethod
    def from_state(cls, value: Any, session_id: str | None) -> "Point | None":
        """Read a session's point from a state's `arc_point`; return `None` if there is no valid one."""
        try:
            point = cls(**value[session_id])
        except (KeyError, TypeError):
            return None
        numbers = point.branch, point.seq, point.held, point.pruned_to
        return point if isinstance(point.id, str) and all(type(it) is int and it >= 0 for it in numbers) else None


class Run:
    """A run of an agent: its session, on the run's branch, and with checkpoints also its thread and newest point."""

    def __init__(
        self, opened: Callable[..., Session], thread_id: str | None, point: Point | None, *, remembers: bool = True
    ) -> None:
        self._opened = opened
        self.remembers = remembers
        self.thread = None if thread_id is None else uuid5(NAMESPACE_OID, thread_id).hex
        self.point = None if thread_id is None else point
        self.session: Session = opened(branch=self.point.branch) if self.point else opened()

    @property
    def change(self) -> dict[str, Any]:
        """The change of the state that keeps the run's point."""
        return {"arc_point": {self.session.id: asdict(self.point)}} if self.point else {}

    def save(
        self, messages: Sequence[BaseMessage], answer: Sequence[BaseMessage] = (), *, asks: bool = False
    ) -> str | None:
        """Store new messages, on a fork if the state is not the thread's newest; return the newest one's stored id."""
        return self._there(lambda: self._saved(messages, answer, asks=asks))

    def _saved(self, messages: Sequence[BaseMessage], answer: Sequence[BaseMessage], *, asks: bool) -> str | None:
        known = self._known(messages, answer)
        gone, pruned_to = self._gone(messages, known)
        batch = [*known.edits, *known.new, *known.answers]
        if not batch:
            if known.newest is None or not (asks or gone):
                return known.newest.message.id if known.newest else None
            batch = [known.newest.message]
        without = tuple(stored.seq for stored in gone)
        self.session, kept = self.session.resume(batch, After(self.thread or "", known.seq, without))
        newest = kept[-1] if known.new or known.answers or known.newest is None else known.newest
        id_ = newest.message.id or ""
        self.point = Point(kept[-1].branch, newest.seq, id_, known.held, pruned_to)
        return id_

    def unsaved(self, messages: Sequence[BaseMessage]) -> tuple[list[Message], StoredMessage | None]:
        """Return the state's messages that are not stored, and the one before them if the state is not the newest."""
        known = self._there(lambda: self._known(messages, ()))
        later = () if known.seq is None else self.session.stored(after=known.seq)
        return known.new, known.newest if any(one.thread == self.thread for one in later) else None

    def prune(self, messages: Sequence[BaseMessage]) -> list[str]:
        """Return the ids of the messages before the state's last turn if all are stored, and move the point."""
        last = max((place for place, it in enumerate(messages) if isinstance(it, HumanMessage)), default=0)
        names = names_of(messages)[:last]
        stored = {one.message.id: one for one in self.session.stored([name for own in names for name in own])}
        ids = [message.id for message in messages[:last] if message.id]
        if not ids or len(ids) < last or not all(any(name in stored for name in own) for own in names):
            return []
        if self.point is not None:
            held = self.point.held - len(said(messages[:last]))
            self.point = replace(self.point, held=held, pruned_to=max(one.seq for one in stored.values()))
        return ids

    def _there(self, work: Callable[[], T]) -> T:
        """Do the work on the run's branch, or on the current one if that was deleted."""
        try:
            return work()
        except BranchNotFoundError:
            self.session, self.point = self._opened(), None
            return work()

    def _known(self, messages: Sequence[BaseMessage], answer: Sequence[BaseMessage]) -> "_Known":
        """Compare the state with the messages stored on the run's branch."""
        own = said(messages)
        point = self.point
        also = [message.id for message in answer if message.id]
        state, names, stored = looked_up(self.session, own, also, until=point.id if point else None)
        if point is not None and ((there := stored.get(point.id)) is None or there.seq != point.seq):
            point = self.point = None  # another session with this id, or its message was removed
        converted = [stored_form(message) for message in state]
        places = [next((stored[name] for name in own_names if name in stored), None) for own_names in names]
        same = [
            place is not None and is_stored_as(message, place.message)
            for message, place in zip(converted, places, strict=True)
        ]
        if point is not None:
            seq: int | None = point.seq
        else:
            seq = _place_of(places, same)
            if seq is None and configurable().get(_REPLAYED) is not None:
                seq = 0
        newest: StoredMessage | None
        if seq is None:
            tail = self.session.stored(limit=len(converted)) if converted else []
            new, last_id = behind([one.message for one in tail], converted, names)
            newest, edits = (tail[-1] if last_id else None), []
        else:
            last = max((i for i, it in enumerate(places) if it is not None and it.seq <= seq), default=-1)
            # by place: a message that was pruned, and is sent again under its id, is the state's last one
            newest = max((it for it in places[: last + 1] if it is not None), key=lambda it: it.seq, default=None)
            edits = [
                replace(converted[i], id=place.message.id)
                for i, place in enumerate(places[: last + 1])
                if place is not None and not same[i]
            ]
            first = last + 1
            while first < len(state) and same[first] and (place := places[first]) is not None and place.seq > seq:
                seq, newest, first = place.seq, place, first + 1
            new = named(converted[first:], names[first:])
        reached = -1 if seq is None else seq
        answers = [
            replace(stored_form(it), id=None) if it.id in stored and stored[it.id].seq <= reached else stored_form(it)
            for it in answer
            if it.id
        ]
        held = len(own)
        if answers:
            held += 1 + max(i for i, it in enumerate(answer) if it.id)
        elif not new and newest is not None:
            held -= next((i for i, place in enumerate(reversed(places)) if place is newest), 0)
        place_of_point = next((i for i, it in enumerate(names) if point is not None and point.id in it), None)
        is_whole = point is None or (
            place_of_point is not None and len(own) - len(state) + place_of_point + 1 == point.held
        )
        return _Known(seq, newest, edits, new, answers, held, is_whole)

    def _gone(self, messages: Sequence[BaseMessage], known: "_Known") -> tuple[list[StoredMessage], int]:
        """Return the messages that a person removed from the state, and the place up to which it lacks messages."""
        point = self.point
        if point is None or known.is_whole:
            return [], point.pruned_to if point else 0
        names = {name for own in names_of(said(messages)) for name in own}
        stored = [one for one in self.session.stored(after=point.pruned_to) if one.seq <= point.seq]
        gone = [one for one in stored if one.thread == self.thread and one.message.id not in names]
        summary = max((i for i, message in enumerate(messages) if is_summary(message)), default=None)
        if summary is None:
            return gone, point.pruned_to
        after = {name for own in names_of(said(messages[summary:])) for name in own}
        first = next((one.seq for one in stored if one.message.id in after), point.seq + 1)
        return [one for one in gone if one.seq >= first], first - 1  # the summary replaces the missing ones


@dataclass(frozen=True, slots=True)
class _Known:
    """A state compared with the store: the place up to which it is stored, and the messages to store."""

    seq: int | None
    newest: StoredMessage | None
    edits: list[Message]
    new: list[Message]
    answers: list[Message]
    held: int
    is_whole: bool


def delete_thread(
    engine: ContextEngine,
    checkpointer: BaseCheckpointSaver[Any],
    thread_id: str,
    *,
    session_id: str | None = None,
    user_id: str | None = None,
    caller_id: str = "default",
) -> bool:
    """Delete a LangGraph thread's checkpoints and its session, with everything derived from it.

        delete_thread(engine, agent.checkpointer, "s", user_id="ann")

    - Returns whether the session existed; `session_id` is its id, if it is not the thread's.
    - If either deletion fails, its error is raised: call again. Deleting a thread that does not exist does nothing.

    Raises:
        InvalidInputError: An argument is invalid. Nothing was deleted.
        SessionNotFoundError: The session belongs to another user. Nothing was deleted.
    """
    _check_thread(checkpointer, thread_id)
    session = checked_engine(engine).session(
        thread_id if session_id is None else session_id, user_id=user_id, caller_id=caller_id
    )
    session.messages(limit=1)  # raises if it is another user's
    checkpointer.delete_thread(thread_id)
    return session.delete()


async def adelete_thread(
    engine: ContextEngine,
    checkpointer: BaseCheckpointSaver[Any],
    thread_id: str,
    *,
    session_id: str | None = None,
    user_id: str | None = None,
    caller_id: str = "default",
) -> bool:
    """Async form of `delete_thread`."""
    _check_thread(checkpointer, thread_id)
    session = checked_engine(engine).session(
        thread_id if session_id is None else session_id, user_id=user_id, caller_id=caller_id
    )
    await session.amessages(limit=1)
    await checkpointer.adelete_thread(thread_id)
    return await session.adelete()


def _check_thread(checkpointer: object, thread_id: str) -> None:
    check_identifier("thread_id", thread_id)
    if not isinstance(checkpointer, BaseCheckpointSaver):
        raise InvalidInputError("checkpointer", checkpointer, "a LangGraph checkpointer, as given to create_agent")


def has_checkpoints() -> bool:
    """Return whether the state of the current run is kept in checkpoints."""
    return configurable().get(CONFIG_KEY_CHECKPOINTER) is not None


def merged(state: Sequence[BaseMessage], request: list[BaseMessage]) -> list[BaseMessage]:
    """Return a request's messages; if middleware left some of the state's out, the state's, as the request has them."""
    shown = {message.id: message for message in request if message.id}
    is_whole = all(message.id in shown for message in state)
    return request if is_whole else [shown.get(message.id or "", message) for message in state]


def configurable() -> Mapping[str, Any]:
    """Return the configurable values of the current run; none outside of a graph."""
    try:
        return get_config().get("configurable", {})
    except RuntimeError:
        return {}


def _place_of(places: Sequence[StoredMessage | None], same: Sequence[bool]) -> int | None:
    """Return the place of the newest message that is stored as it is, or the one before all if each was edited."""
    found = [place.seq for place in places if place is not None]
    kept = [place.seq for place, is_same in zip(places, same, strict=True) if place is not None and is_same]
    return max(kept) if kept else min(found) - 1 if found else None


_CHUNK = 32
"""Number of newest messages looked up first; older ones are looked up only if none of these is stored."""


def looked_up(
    session: Session, messages: Sequence[BaseMessage], also: Sequence[str], *, until: str | None = None
) -> tuple[Sequence[BaseMessage], list[tuple[str, ...]], dict[str, StoredMessage]]:
    """Return the messages back to one with a given id or to any stored one, the ids of each, and the stored ones."""
    size = _CHUNK
    while True:
        state = messages[-size:]
        names = names_of(state)
        known = session.stored([*(name for own in names for name in own), *also, *([until] if until else [])])
        stored = {one.message.id: one for one in known if one.message.id}
        is_enough = any(until in own if until else any(name in stored for name in own) for own in names)
        if size >= len(messages) or is_enough:
            return state, names, stored
        size *= 4
