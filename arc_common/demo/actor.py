"""Actor: stands in for the model, and writes down what it was given."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from arc_common.exceptions import ConfigurationError
from arc_common.messages import Message, Role
from arc_common.prompts import parse_fences, parse_memory, render_fence
from arc_common.protocols import ChatModel, TokenCounter
from arc_common.tokens.counting import REQUEST_OVERHEAD, message_tokens_batch

__all__ = ["PARTS", "Actor", "View"]

PARTS = ("system", "facts", "summary", "history", "question")
"""What a request is made of, in this order."""

_SENTENCE = re.compile(r"(?<=[.!?。？！])\s+|\n+")
_SPEAKER = re.compile(r"^(?:User|Assistant): ")


@dataclass(frozen=True, slots=True)
class View:
    """One request as the model got it, and the answer.

    Args:
        seen: The numbers of the conversation's messages in it, from 1, in its order.
        noted: The numbers of the messages that its facts and its summary quote.
        parts: The tokens of its parts, by their names in `PARTS`.
        answer: What the model said.
    """

    seen: tuple[int, ...]
    noted: tuple[int, ...]
    parts: Mapping[str, int]
    answer: str

    @property
    def tokens(self) -> int:
        """What the request cost, framing included."""
        return sum(self.parts.values()) + REQUEST_OVERHEAD


class Actor:
    """A chat model that speaks the replies that are written out, and leaves every other answer to another model.

    Args:
        model: The other model.
        name: Its name, for errors.
        replies: The replies that are written out, by what they answer.
        counter: Counts what a request costs.

    Attributes:
        conversation: The texts of the conversation so far; set before each request.
        views: What each request was made of, measured at the model, whatever framework stands before it.
    """

    def __init__(self, model: ChatModel, name: str, *, replies: Mapping[str, str], counter: TokenCounter) -> None:
        self._model = model
        self._name = name
        self._replies = replies
        self._counter = counter
        self.conversation: list[str] = []
        self.views: list[View] = []

    def complete(self, messages: Sequence[Message]) -> str:
        """The written reply to the last message, or the other model's answer.

        Raises:
            ConfigurationError: The other model failed.
        """
        *before, question = messages
        written = (reply for said, reply in self._replies.items() if question.text.startswith(said))
        answer = next(written, None) or self._ask(messages)
        parts = dict.fromkeys(PARTS, 0)
        notes: list[str] = []
        for message, tokens in zip(messages, message_tokens_batch(self._counter, messages), strict=True):
            facts, summary = self._memory(message.text, notes)
            own = "question" if message is question else "system" if message.role is Role.SYSTEM else "history"
            if parse_fences(message.text)[0]:
                parts[own] += tokens - facts - summary
            else:
                facts = tokens - summary
            parts["facts"] += facts
            parts["summary"] += summary
        self.views.append(View(self._numbers(before), self._quoted(notes), parts, answer))
        return answer

    def _memory(self, text: str, notes: list[str]) -> tuple[int, int]:
        """What arc's blocks in a text cost, facts (with heading and fence) and summary apart; adds what they say."""
        facts = summary = 0
        for name, inside in parse_fences(text)[1]:
            lines, narrative = parse_memory(inside) if name == "memory" else (inside.splitlines(), "")
            told = self._counter.count(narrative) if narrative else 0
            summary += told
            facts += max(self._counter.count(render_fence(name, inside)) - told, 0)
            notes += (line.partition(": ")[2] for line in lines)
            notes += (_SPEAKER.sub("", sentence) for sentence in _SENTENCE.split(narrative))
        return facts, summary

    def _ask(self, messages: Sequence[Message]) -> str:
        try:
            return self._model.complete(messages)
        except Exception as error:
            # A client's own words may show the key, or half of it: only what kind of failure it was is repeated.
            status = getattr(error, "status_code", None)
            kind = type(error).__name__ + (f", status {status}" if isinstance(status, int) else "")
            raise ConfigurationError(
                f"the model {self._name} failed ({kind}): check its key and its name, or use arc demo --local"
            ) from error

    def _quoted(self, notes: Sequence[str]) -> tuple[int, ...]:
        """Which of the conversation's messages are quoted, in part at least."""
        said = [_folded(text) for text in self.conversation]
        folded = [_folded(note) for note in notes]
        return tuple(i for i, text in enumerate(said, 1) if any(note and note in text for note in folded))

    def _numbers(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Which of the conversation's messages these are, matched from the newest on."""
        numbers: list[int] = []
        behind = len(self.conversation)
        for message in reversed(messages):
            places = [i for i in range(behind) if self.conversation[i] == message.text]
            if places:
                behind = places[-1]
                numbers.insert(0, behind + 1)
        return tuple(numbers)


def _folded(text: str) -> str:
    return " ".join(text.split())
