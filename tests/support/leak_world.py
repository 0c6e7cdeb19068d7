"""Two callers with two users each and two sessions each; a marker in each text tells who may see it."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import product
from typing import Any, Literal
from uuid import uuid4

from pydantic import BaseModel

from arc_common import ArcSettings, ContextEngine, Document, Message, Session
from arc_common.engine.memories import Memories
from langchain_arc import ArcStore

Level = Literal["session", "user", "caller"]
"""The owner of a text: a session, its user, or all of a caller's users."""

_LEVELS: tuple[Level, ...] = ("session", "user", "caller")

QUESTION = "What is the secret codeword, and where is the depot?"
"""A question that matches every marked text, so that everything a filter admits is found."""

SETTINGS = ArcSettings(
    summary={"high_water_tokens": 0},
    budget={"facts": 60},
    rag={"top_k": 50},
    artifacts={"tool_relevance": 0.1},
    memory={"min_importance": 1.0},
)
"""Summaries are adopted by the number of messages, and everything that may be shown is. Only memories added by hand
exist, since extracted ones are meant to reach the user's other sessions.
"""

_MARKER = re.compile(r"ZQ-\d{5}")
_TURNS = 13
_THINGS = ("order", "locker", "flight", "badge", "parcel")
"""Subjects of the marked facts, some of which are pinned and the others recalled."""


@dataclass(frozen=True, slots=True)
class Party:
    """A caller, user, session and branch; the branch `None` is the current one."""

    caller: str
    user: str | None
    session: str
    branch: int | None = None

    def __str__(self) -> str:
        return f"{self.caller}/{self.user}/{self.session}"


PARTIES = [Party(caller, user, f"{user}-{n}") for caller, user, n in product(("acme", "bolt"), ("ann", "eve"), (1, 2))]
"""All parties. Both callers have the same session ids, and all parties the same message, document and memory ids."""


ABANDONED = 0
"""The branch on which the sessions of `FORKED` began and which they left."""
FORKED = (PARTIES[0], PARTIES[-1])


def intruders(party: Party) -> list[Party]:
    """Return parties that name this party's session as another user of the caller and as nobody."""
    other = {"ann": "eve", "eve": "ann"}[party.user or "ann"]
    return [Party(party.caller, user, party.session) for user in (other, None)]


def _place(party: Party, level: Level) -> tuple[str | None, ...]:
    return {
        "session": (party.caller, party.user, party.session),
        "user": (party.caller, party.user),
        "caller": (party.caller,),
    }[level]


_NUMBERS = {
    place: f"ZQ-{10_000 + 7 * n}"
    for n, place in enumerate(
        dict.fromkeys(_place(party, level) for party in PARTIES for level in ("session", "user", "caller"))
    )
}


def marker(party: Party, level: Level) -> str | None:
    """Return the marker of a party's texts at a level, or `None` if it has none there.

    Texts that only an abandoned branch contains have their own marker.
    """
    found = _NUMBERS.get(_place(party, level))
    return f"ZQ-9{found[4:]}" if found and level == "session" and party.branch == ABANDONED else found


class Letters:
    """Embeds a text as its letter counts, so that all marked texts are near each other."""

    name = "letters"

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0 + text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]


class Ids:
    """Returns new ids, or the same one while `fill` adds memories, one per scope."""

    def __init__(self) -> None:
        self.fixed: str | None = None

    def __call__(self) -> str:
        return self.fixed or uuid4().hex


def fill(engine: ContextEngine, ids: Ids) -> None:
    """Store something of every kind for every party under equal ids."""
    for party in PARTIES:
        session = engine.session(party.session, user_id=party.user, caller_id=party.caller)
        if party in FORKED:
            session.append(Message("system", "Be brief.", id="first"))
            _talk(session, replace(party, branch=ABANDONED))
            session.context(QUESTION)
            session.rewind(to="first")
        _talk(session, party)
        handbook = f"Handbook: the secret codeword is {marker(party, 'caller')}, the depot is far."
        engine.documents_of(party.caller).add(Document(handbook, id="h", source="s"))
        notes = f"Private notes. Codeword, secret: {marker(party, 'user')}; my depot!"
        engine.documents_of(party.caller, user_id=party.user).add(Document(notes, id="d", source="s"))
        items = ArcStore(engine, caller_id=party.caller, user_id=party.user)
        items.put(("notes",), "k", {"text": f"The secret codeword in the depot is {marker(party, 'user')}."})
        ids.fixed = "m"
        for level in _LEVELS:
            memories_of(engine, party, level).add(
                f"The secret codeword of the depot: {marker(party, level)}.", importance=1
            )
        ids.fixed = None


def _talk(session: Session, party: Party) -> None:
    own = marker(party, "session")
    for n in range(_TURNS):
        thing = _THINGS[n] if n < len(_THINGS) else None
        text = f"Question {n} about the weather, the codeword {own}, the depot and the harbour?"
        if thing or n == _TURNS - 1:
            text = f"My {thing or 'order'} number is {own}, it is the secret codeword. It must not leave the depot."
        session.append([Message("user", text, id=f"m{2 * n}"), Message("assistant", "Noted.", id=f"m{2 * n + 1}")])
    session.summarize()
    session.pin("m0")
    session.pin(f"Pinned: the codeword {own}.")
    session.add_artifact(f"The secret codeword is {own}. The depot is in Busan.", source="web")


def memories_of(engine: ContextEngine, party: Party, level: Level) -> Memories:
    """Return a party's memories at a level."""
    place = {
        "session": {"user_id": party.user, "session_id": party.session},
        "user": {"user_id": party.user or "nobody"},
        "caller": {},
    }[level]
    return engine.memories(caller_id=party.caller, **place)


def markers_in(value: object) -> set[str]:
    """Return the markers in all texts inside a value."""
    return {found for text in _texts(value, set()) for found in _MARKER.findall(text)}


def _texts(value: object, seen: set[int]) -> Iterable[str]:
    if isinstance(value, str):
        yield value
        return
    if isinstance(value, bytes):
        yield value.decode(errors="replace")
        return
    if value is None or isinstance(value, bool | int | float) or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Mapping):
        parts: Collection[Any] = [*value.keys(), *value.values()]
    elif isinstance(value, BaseModel):
        parts = [value.__dict__, value.model_extra]
    elif is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, field.name) for field in fields(value)]
    elif isinstance(value, list | tuple | set | frozenset):
        parts = value
    else:
        parts = [str(value), getattr(value, "__dict__", None)]
    for part in parts:
        yield from _texts(part, seen)
