"""DemoRun: plays the conversation turn by turn over a database, and resumes where it stopped."""

import json
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby

from arc_common.cli.demo.actor import PARTS, Actor, View
from arc_common.cli.demo.frameworks import Half, Stage
from arc_common.cli.demo.script import Script, ScriptTurn
from arc_common.engine.context_engine import ContextEngine
from arc_common.exceptions import ConfigurationError
from arc_common.messages import Message, Role
from arc_common.protocols import ChatModel
from arc_common.settings import ArcSettings
from arc_common.settings.groups import BudgetSettings, ConversationSettings, RecallSettings, SummarySettings
from arc_common.settings.services import BackgroundSettings
from arc_common.tokens.cached import CachedTokenCounter
from arc_common.tokens.message_tokens import REQUEST_OVERHEAD, message_tokens_batch

__all__ = ["CONTEXT_WINDOW", "SESSION", "DemoRun", "TurnRecord", "demo_settings"]

SESSION = "arc-demo"
"""The conversation."""

RECORDS = "arc-demo-records"
"""The session with one message per finished turn, which records the requests."""

CONTEXT_WINDOW = 4_096
"""Tokens: a small model's, input and output."""

_LEASE_SECONDS = 0.5
"""A killed process can hold the right to summarise for this long."""


def demo_settings() -> ArcSettings:
    """The defaults, whatever the environment says, for a model of few tokens."""
    return ArcSettings(
        require_scope=False,
        budget=BudgetSettings(context_window=CONTEXT_WINDOW),
        conversation=ConversationSettings(),
        summary=SummarySettings(),
        background=BackgroundSettings(lease_seconds=_LEASE_SECONDS),
        recall=RecallSettings(),
        storage={"max_messages_per_session": None},
    )


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """What happened on one turn.

    Args:
        number: The turn's.
        framework: Which half played it.
        model: Who answered.
        arc: The request made through the framework and arc.
        newest: The request with a sliding window: as many of the newest turns as fit the same limit.
        whole: The tokens of a request with the whole conversation so far.
        whole_answer: The model's answer to that request, even if that exceeds the limit.
    """

    number: int
    framework: str
    model: str
    arc: View
    newest: View
    whole: int
    whole_answer: str


class DemoRun:
    """The demo over one database.

    - A turn counts as done once its record is stored. What a killed process left behind it is removed and the turn is
      played again, so that a resumed conversation is the one that a run without interruption makes.
    - The first half plays up to the script's handover, the second one the rest; a single half plays all.

    Args:
        url: The database.
        script: The conversation.
        halves: The frameworks.
        model: Answers what the script asks.
        model_name: The model's name, as it is shown.
    """

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
        self._notes = self._engine.session(RECORDS)
        self._counter = CachedTokenCounter(self._engine.token_counter)  # each turn counts the whole conversation

    @property
    def limit(self) -> int:
        """The most tokens in a request, the same for all three ways."""
        return self._engine.budget.input_limit

    def restart(self) -> None:
        """Remove the demo's conversation from the database, and nothing else."""
        self._session.delete()
        self._notes.delete()

    def done(self) -> list[TurnRecord]:
        """The finished turns.

        Raises:
            ConfigurationError: The database holds another conversation under the demo's name.
            StoreError: The database can't be read.
        """
        records = [_read(message.text) for message in self._notes.messages()]
        spoken = [text for user, record in self._spoken(records) for text in (user, record.arc.answer)]
        stored = [message.text for message in self._session.messages()]
        if stored[: len(spoken)] != spoken:
            raise ConfigurationError(
                "this database holds a demo of another version, or a changed one; start over: arc demo --restart"
            )
        return records

    def stored(self) -> list[Message]:
        """The conversation as the database has it."""
        return self._session.messages()

    def play(self) -> Generator[TurnRecord, None, None]:
        """Play the turns that are left, each stored before it is handed out."""
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
        """The half that plays a turn."""
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
        """The system prompt, messages (the first is the user's), and what the user says now."""
        said = [Message(Role.ASSISTANT if i % 2 else Role.USER, text) for i, text in enumerate(conversation)]
        return [Message(Role.SYSTEM, self.script.system), *said, Message(Role.USER, turn.user)]

    def _spoken(self, records: Sequence[TurnRecord]) -> Iterator[tuple[str, TurnRecord]]:
        """Return the user's message of each finished turn, with its record."""
        return ((self._turn(record).user, record) for record in records)

    def _actor(self) -> Actor:
        return Actor(self._model, self._model_name, replies=self.script.replies, counter=self._counter)

    def _remove_unfinished(self, done: int) -> None:
        left = self._session.messages()[2 * done :]
        if left:
            self._session.remove([message.id for message in left if message.id])

    def _turn(self, record: TurnRecord) -> ScriptTurn:
        return self.script.turns[record.number - 1]


def _read(text: str) -> TurnRecord:
    try:
        data = json.loads(text)
        arc, newest = (_view(**data.pop(side)) for side in ("arc", "newest"))
        return TurnRecord(**data, arc=arc, newest=newest)
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigurationError("this database holds a demo of another version; start over: --restart") from error


def _view(*, seen: Sequence[int], noted: Sequence[int], parts: Mapping[str, int], answer: str) -> View:
    return View(tuple(seen), tuple(noted), {part: parts[part] for part in PARTS}, answer)
