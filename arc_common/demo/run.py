"""DemoRun: plays the conversation turn by turn over a database, and goes on where it was left."""

import json
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby

from arc_common.demo.actor import Actor, View
from arc_common.demo.halves import Half, Stage
from arc_common.demo.script import Script, ScriptTurn
from arc_common.engine import ContextEngine
from arc_common.exceptions import ConfigurationError
from arc_common.messages import Message, Role
from arc_common.protocols import ChatModel
from arc_common.settings import ArcSettings
from arc_common.tokens.budget import TokenBudget

__all__ = ["SESSION", "WINDOW", "DemoRun", "TurnRecord", "demo_settings"]

SESSION = "arc-demo"
"""The conversation."""

RECORDS = "arc-demo-records"
"""One message for each finished turn, with what both models received."""

WINDOW = 20
"""Messages in the sliding window beside it: the usual default."""


def demo_settings() -> ArcSettings:
    """As for a model of 8,192 tokens; the history is bounded by tokens alone."""
    return ArcSettings(
        require_scope=False,
        conversation={"window": "tokens", "max_context_tokens": None},
        budget={"context_window": 8_192, "output_reserve": 1_024},
        storage={"max_messages_per_session": None},
    )


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """What happened on one turn.

    Args:
        number: The turn's.
        framework: Which half played it.
        model: Who answered.
        arc: What the model got through the framework and arc.
        window: What the same model got from a sliding window over the same conversation.
    """

    number: int
    framework: str
    model: str
    arc: View
    window: View


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
        self._engine = ContextEngine.open(url, settings=self.settings)
        self._session = self._engine.session(SESSION)
        self._notes = self._engine.session(RECORDS)

    @property
    def budget(self) -> int:
        """The most tokens that arc may put in a request."""
        budget = self.settings.budget
        return TokenBudget(budget.context_window, budget.output_reserve).input_tokens

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
        spoken = [text for record in records for text in (self._turn(record).user, record.arc.answer)]
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
        rest = self.script.turns[len(records) :]
        for half, turns in groupby(rest, key=self.half_of):
            actor = self._actor()
            stage = Stage(self._url, SESSION, self.settings, self.script.system, actor)
            with half.play(stage) as ask:
                for turn in turns:
                    actor.conversation = _texts(self.script, records, "arc")
                    ask(turn.user)
                    arc, window = actor.views[-1], self._window(turn, records)
                    record = TurnRecord(turn.number, half.name, self._model_name, arc, window)
                    self._notes.append(Message(Role.SYSTEM, json.dumps(asdict(record)), id=f"turn-{turn.number}"))
                    records.append(record)
                    yield record

    def half_of(self, turn: ScriptTurn) -> Half:
        """The half that plays a turn."""
        return self._halves[0 if turn.number <= self.script.handover else -1]

    def close(self) -> None:
        """Close the database."""
        self._engine.close()

    def _window(self, turn: ScriptTurn, records: Sequence[TurnRecord]) -> View:
        """Ask the same of a model that sees the last messages; its conversation has its own answers in it."""
        actor = self._actor()
        actor.conversation = _texts(self.script, records, "window")
        said = [Message(Role.ASSISTANT if i % 2 else Role.USER, text) for i, text in enumerate(actor.conversation)]
        actor.complete([Message(Role.SYSTEM, self.script.system), *said[-WINDOW:], Message(Role.USER, turn.user)])
        return actor.views[-1]

    def _actor(self) -> Actor:
        return Actor(self._model, self._model_name, replies=self.script.replies, counter=self._engine.token_counter)

    def _remove_unfinished(self, done: int) -> None:
        left = self._session.messages()[2 * done :]
        if left:
            self._session.remove([message.id for message in left if message.id])

    def _turn(self, record: TurnRecord) -> ScriptTurn:
        return self.script.turns[record.number - 1]


def _texts(script: Script, records: Sequence[TurnRecord], side: str) -> list[str]:
    """The conversation's texts as one side has them."""
    turns = zip(script.turns, records, strict=False)
    return [text for turn, record in turns for text in (turn.user, getattr(record, side).answer)]


def _read(text: str) -> TurnRecord:
    try:
        data = json.loads(text)
        arc, window = (
            View(tuple(view["seen"]), view["parts"], view["answer"]) for view in (data.pop("arc"), data.pop("window"))
        )
        return TurnRecord(**data, arc=arc, window=window)
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigurationError("this database holds a demo of another version; start over: --restart") from error
