"""DemoRun: plays the conversation turn by turn over a database, and resumes where it stopped."""

import importlib
import json
import re
import time
import tomllib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.resources import files
from itertools import groupby
from typing import Any

from pydantic import TypeAdapter, ValidationError

from arc_common.engine.context_engine import ContextEngine
from arc_common.exceptions import ConfigurationError
from arc_common.messages import Message, Role
from arc_common.prompts.context import parse_fences, parse_memory, render_fence
from arc_common.protocols import ChatModel, TokenCounter
from arc_common.settings import ArcSettings
from arc_common.settings.groups import (
    BackgroundSettings,
    BudgetSettings,
    ContextSettings,
    ConversationSettings,
    RecallSettings,
    SummarySettings,
)
from arc_common.tokens.counters import REQUEST_OVERHEAD, CachedTokenCounter, message_tokens_batch

PARTS = ("system", "facts", "summary", "recalled", "history", "question")
"""The parts of a request, in this order."""

_SENTENCE = re.compile(r"(?<=[.!?。？！])\s+|\n+")
_SPEAKER = re.compile(r"^- [^:\n]{1,100}: ")


@dataclass(frozen=True, slots=True)
class View:
    """One request as sent to the model, and the answer."""

    seen: tuple[int, ...]
    noted: tuple[int, ...]
    parts: Mapping[str, int]
    answer: str

    @property
    def tokens(self) -> int:
        """The request's tokens, including framing."""
        return sum(self.parts.values()) + REQUEST_OVERHEAD


class Actor:
    """A chat model that gives the scripted replies, and passes all other messages to another model."""

    def __init__(self, model: ChatModel, name: str, *, replies: Mapping[str, str], counter: TokenCounter) -> None:
        self._model = model
        self._name = name
        self._replies = replies
        self._counter = counter
        self.conversation: list[str] = []
        self.views: list[View] = []

    def complete(self, messages: Sequence[Message]) -> str:
        """Answer the last message, and record the request's parts."""
        *before, question = messages
        answer = self.answer(messages)
        parts = dict.fromkeys(PARTS, 0)
        notes: list[str] = []
        for message, tokens in zip(messages, message_tokens_batch(self._counter, messages), strict=True):
            blocks = self._blocks(message.text, notes)
            own = "question" if message is question else "system" if message.role is Role.SYSTEM else "history"
            if blocks and not parse_fences(message.text)[0]:
                own = next(iter(blocks))  # the framing of a message of blocks alone belongs to them
            parts[own] += tokens - sum(blocks.values())
            for part, cost in blocks.items():
                parts[part] += cost
        self.views.append(View(self._numbers(before), self._quoted(notes), parts, answer))
        return answer

    def answer(self, messages: Sequence[Message]) -> str:
        """Return the scripted reply to the last message, or the other model's answer, without recording it."""
        said = parse_fences(messages[-1].text)[0]
        return self._replies.get(said.strip()) or self._ask(messages)

    def _blocks(self, text: str, notes: list[str]) -> dict[str, int]:
        """Count the tokens of arc's blocks in a text, by part and with their fences; add their lines to `notes`."""
        costs: dict[str, int] = {}
        for name, inside in parse_fences(text)[1]:
            tokens = self._counter.count(render_fence(name, inside))
            if name != "memory":
                costs["recalled"] = costs.get("recalled", 0) + tokens
                notes += (line.partition(": ")[2] for line in inside.splitlines())
                continue
            lines, narrative = parse_memory(inside)
            told = self._counter.count(narrative) if narrative else 0
            costs["facts"] = costs.get("facts", 0) + max(tokens - told, 0)
            costs["summary"] = costs.get("summary", 0) + told
            notes += (line.partition(": ")[2] for line in lines)
            notes += (_SPEAKER.sub("", sentence) for sentence in _SENTENCE.split(narrative))
        return costs

    def _ask(self, messages: Sequence[Message]) -> str:
        try:
            return self._model.complete(messages)
        except Exception as error:
            # A client's message may contain the key or a part of it, so only the kind of failure is repeated.
            status = getattr(error, "status_code", None)
            kind = type(error).__name__ + (f", status {status}" if isinstance(status, int) else "")
            raise ConfigurationError(
                f"the model {self._name} failed ({kind}): check its key and its name, or use arc demo --local"
            ) from error

    def _quoted(self, notes: Sequence[str]) -> tuple[int, ...]:
        """Return the numbers of the conversation's messages that are quoted, at least in part."""
        said = [_folded(text) for text in self.conversation]
        folded = [_folded(note) for note in notes]
        return tuple(i for i, text in enumerate(said, 1) if any(note and note in text for note in folded))

    def _numbers(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Return the numbers of these messages in the conversation, matched from the newest backwards."""
        numbers: list[int] = []
        behind = len(self.conversation)
        for message in reversed(messages):
            place = next((i for i in reversed(range(behind)) if self.conversation[i] == message.text), None)
            if place is not None:
                behind = place
                numbers.append(place + 1)
        return tuple(reversed(numbers))


def _folded(text: str) -> str:
    return " ".join(text.split())


GROUP = "arc.commands"
"""The entry point group: an entry's name is the extra that it needs, its value a function `register(halves)`."""

Ask = Callable[[str], str]
"""Sends one user message through a framework and returns the answer's text."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The database, session, settings and model of a framework's half."""

    url: str
    session_id: str
    settings: "ArcSettings"
    system_prompt: str
    model: ChatModel


@dataclass(frozen=True, slots=True)
class Half:
    """A framework's part in the demo."""

    name: str
    recipe: str
    play: Callable[[Stage], AbstractContextManager[Ask]]
    model: Callable[[str, str], ChatModel]


@dataclass(frozen=True, slots=True)
class Missing:
    """An adapter that could not be imported: the extra that it is in, and why."""

    extra: str
    reason: str


def find_halves() -> tuple[Sequence[Half], Sequence[Missing]]:
    """Return the halves of all importable adapters, and the missing adapters, both in order of name."""
    halves: list[Half] = []
    missing = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            entry.load()(halves)
        except ImportError as error:
            missing.append(Missing(entry.name, str(error)))
    return halves, missing


def model_class(module: str, name: str, package: str) -> Any:
    """Import a provider's model class."""
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise ConfigurationError(f"{name} needs the package {package!r}: pip install {package}") from error


@dataclass(frozen=True, slots=True)
class Question:
    """The value that a turn asks for: a label, the accepted forms, and the turn that stated it."""

    about: str
    accepts: Sequence[str]
    stated: int

    def value_in(self, answer: str) -> str | None:
        """Return the accepted form that the answer contains; `None` if the answer is wrong."""
        return next((form for form in self.accepts if form.casefold() in answer.casefold()), None)


@dataclass(frozen=True, slots=True)
class ScriptTurn:
    """One turn: the user's message, and either the scripted reply or the question."""

    number: int
    user: str
    reply: str | None
    question: Question | None


@dataclass(frozen=True, slots=True)
class Script:
    """A conversation, turn by turn; turns are numbered from 1, and turn n holds the messages 2n - 1 and 2n."""

    system: str
    handover: int
    turns: tuple[ScriptTurn, ...]

    @property
    def replies(self) -> dict[str, str]:
        """The scripted replies by user message."""
        return {turn.user: turn.reply for turn in self.turns if turn.reply is not None}

    @property
    def questions(self) -> list[tuple[ScriptTurn, Question]]:
        """The turns with questions, and their questions."""
        return [(turn, turn.question) for turn in self.turns if turn.question is not None]


@cache
def support_script() -> Script:
    """Load the conversation with a furniture shop's support."""
    data = tomllib.loads(files("arc_common.cli").joinpath("demo.toml").read_text("utf-8"))
    turns = tuple(
        ScriptTurn(number, turn.pop("user"), turn.pop("assistant", None), Question(**turn) if turn else None)
        for number, turn in enumerate(data["turns"], 1)
    )
    return Script(data["system"].strip(), data["handover"], turns)


SESSION = "arc-demo"
"""The session with the conversation."""

RECORDS = "arc-demo-records"
"""The session with one message per finished turn, which records the requests; a caller of its own keeps it apart."""

CONTEXT_WINDOW = 4_096
"""The context window in tokens of a small model, input and output."""

_LEASE_SECONDS = 0.5
"""A killed process can hold the right to summarise for this long."""


def demo_settings() -> ArcSettings:
    """Return the default settings for a small context window, ignoring the environment."""
    return ArcSettings(
        require_scope=False,
        budget=BudgetSettings(context_window=CONTEXT_WINDOW),
        context=ContextSettings(store_receipts="all"),  # for the inspector
        conversation=ConversationSettings(),
        summary=SummarySettings(),
        background=BackgroundSettings(lease_seconds=_LEASE_SECONDS),
        recall=RecallSettings(),
        storage={"max_messages_per_session": None},
    )


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """The requests and answers of one turn."""

    number: int
    framework: str
    model: str
    arc: View
    newest: View
    whole: int
    whole_answer: str

    @property
    def answers(self) -> tuple[str, str, str]:
        """The answers of the three strategies."""
        return self.arc.answer, self.newest.answer, self.whole_answer

    @property
    def tokens(self) -> tuple[int, int, int]:
        """The tokens of the three strategies' requests."""
        return self.arc.tokens, self.newest.tokens, self.whole


class DemoRun:
    """Plays the demo over one database."""

    def __init__(self, url: str, script: Script, halves: Sequence[Half], model: ChatModel, model_name: str) -> None:
        self.script = script
        self.settings = demo_settings()
        self._url = url
        self._halves = halves
        self._model = model
        self._model_name = model_name
        plain = self.settings.model_copy(update={"summary": SummarySettings(enabled=False)})
        self._engine = ContextEngine.open(url, settings=plain)  # the halves' engines summarise
        self._session = self._engine.session(SESSION)
        self._notes = self._engine.session(RECORDS, caller_id=RECORDS)
        self._counter = CachedTokenCounter(self._engine.token_counter)  # each turn counts the whole conversation

    @property
    def limit(self) -> int:
        """The most tokens in a request, the same for all three strategies."""
        return self._engine.budget.input_limit

    def restart(self) -> None:
        """Remove the demo's conversation from the database, and nothing else."""
        self._session.delete()
        self._notes.delete()

    def done(self) -> list[TurnRecord]:
        """Return the records of the finished turns."""
        records = [_read(message.text) for message in self._notes.messages()]
        spoken = [text for user, record in self._spoken(records) for text in (user, record.arc.answer)]
        stored = [message.text for message in self._session.messages()]
        if stored[: len(spoken)] != spoken:
            raise ConfigurationError(
                "this database holds a demo of another version, or a changed one; start over: arc demo --restart"
            )
        return records

    def stored(self) -> list[Message]:
        """Return the stored conversation."""
        return self._session.messages()

    def play(self) -> Generator[TurnRecord, None, None]:
        """Play the remaining turns, storing each before yielding it."""
        records = self.done()
        self._remove_unfinished(len(records))
        if records:
            time.sleep(_LEASE_SECONDS)
        rest = self.script.turns[len(records) :]
        for half, turns in groupby(rest, key=self.half_of):
            actor = self._actor()
            stage = Stage(self._url, SESSION, self.settings, self.script.system, actor)
            with half.play(stage) as ask:
                for turn in turns:
                    actor.conversation = [
                        text for user, said in self._spoken(records) for text in (user, said.arc.answer)
                    ]
                    ask(turn.user)
                    record = TurnRecord(
                        turn.number,
                        half.name,
                        self._model_name,
                        actor.views[-1],
                        self._newest(turn, records),
                        *self._whole(turn, records),
                    )
                    self._notes.append(Message(Role.SYSTEM, json.dumps(asdict(record)), id=f"turn-{turn.number}"))
                    records.append(record)
                    yield record

    def half_of(self, turn: ScriptTurn) -> Half:
        """Return the half that plays a turn."""
        return self._halves[0 if turn.number <= self.script.handover else -1]

    def close(self) -> None:
        """Close the database."""
        self._engine.close()

    def _newest(self, turn: ScriptTurn, records: Sequence[TurnRecord]) -> View:
        """Ask a model that sees the newest turns; its conversation contains its own answers."""
        actor = self._actor()
        actor.conversation = [text for user, record in self._spoken(records) for text in (user, record.newest.answer)]
        bare = self._request([], turn)
        room = self.limit - self._tokens(bare)
        said = self._request(actor.conversation, turn)[1:-1]
        start, costs = len(said), message_tokens_batch(self._counter, said)
        while start and (room := room - sum(costs[start - 2 : start])) >= 0:
            start -= 2
        actor.complete([bare[0], *said[start:], bare[-1]])
        return actor.views[-1]

    def _whole(self, turn: ScriptTurn, records: Sequence[TurnRecord]) -> tuple[int, str]:
        """Return the tokens and the answer of a request with the whole conversation before the turn."""
        said = [text for user, record in self._spoken(records) for text in (user, record.whole_answer)]
        request = self._request(said, turn)
        return self._tokens(request), self._actor().answer(request)

    def _tokens(self, request: Sequence[Message]) -> int:
        return sum(message_tokens_batch(self._counter, request)) + REQUEST_OVERHEAD

    def _request(self, conversation: Sequence[str], turn: ScriptTurn) -> list[Message]:
        """Build a request from the system prompt, the conversation (the user first) and the turn's user message."""
        said = [Message(Role.ASSISTANT if i % 2 else Role.USER, text) for i, text in enumerate(conversation)]
        return [Message(Role.SYSTEM, self.script.system), *said, Message(Role.USER, turn.user)]

    def _spoken(self, records: Sequence[TurnRecord]) -> Iterator[tuple[str, TurnRecord]]:
        """Return the user's message of each finished turn, with its record."""
        return ((self.script.turns[record.number - 1].user, record) for record in records)

    def _actor(self) -> Actor:
        return Actor(self._model, self._model_name, replies=self.script.replies, counter=self._counter)

    def _remove_unfinished(self, done: int) -> None:
        left = self._session.messages()[2 * done :]
        if left:
            self._session.remove([message.id for message in left if message.id])


def _read(text: str) -> TurnRecord:
    try:
        return _records().validate_json(text)
    except ValidationError as error:
        raise ConfigurationError("this database holds a demo of another version; start over: --restart") from error


@cache
def _records() -> TypeAdapter[TurnRecord]:
    return TypeAdapter(TurnRecord)  # 3 ms each, and a finished demo has two hundred records
