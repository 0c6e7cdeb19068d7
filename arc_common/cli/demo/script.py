"""The demo's conversation, read from its data file."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

__all__ = ["Question", "Script", "ScriptTurn", "support_script"]


@dataclass(frozen=True, slots=True)
class Question:
    """What a turn asks for.

    Args:
        about: The fact, in a word or two.
        accepts: The forms of the right value; an answer that holds one of them is right.
        stated: The number of the turn in which the user states it.
    """

    about: str
    accepts: tuple[str, ...]
    stated: int

    def value_in(self, answer: str) -> str | None:
        """The accepted form that the answer holds, if it is right."""
        return next((form for form in self.accepts if form.casefold() in answer.casefold()), None)


@dataclass(frozen=True, slots=True)
class ScriptTurn:
    """One turn: what the user says, and either the reply that is written out or what is asked."""

    number: int
    user: str
    reply: str | None
    question: Question | None


@dataclass(frozen=True, slots=True)
class Script:
    """A conversation, turn by turn; turns are numbered from 1, and turn n holds the messages 2n - 1 and 2n.

    Args:
        system: The model's instructions.
        handover: The turn after which the conversation goes on in another framework.
        turns: Its turns.
    """

    system: str
    handover: int
    turns: tuple[ScriptTurn, ...]

    @property
    def replies(self) -> dict[str, str]:
        """The replies that are written out, by what the user says."""
        return {turn.user: turn.reply for turn in self.turns if turn.reply is not None}

    @property
    def questions(self) -> list[tuple[ScriptTurn, Question]]:
        """The turns that ask, with what they ask for."""
        return [(turn, turn.question) for turn in self.turns if turn.question is not None]


@cache
def support_script() -> Script:
    """The conversation with a furniture shop's support."""
    data = tomllib.loads(files("arc_common.cli.demo").joinpath("support.toml").read_text("utf-8"))
    turns = tuple(_turn(i, **turn) for i, turn in enumerate(data["turns"], 1))
    return Script(data["system"].strip(), data["handover"], turns)


def _turn(
    number: int,
    user: str,
    *,
    assistant: str | None = None,
    about: str = "",
    accepts: tuple[str, ...] = (),
    stated: int = 0,
) -> ScriptTurn:
    question = Question(about, tuple(accepts), stated) if assistant is None else None
    return ScriptTurn(number, user, assistant, question)
