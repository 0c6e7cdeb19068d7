"""Actor: stands in for the model, and writes down what it was given."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from arc_common.exceptions import ConfigurationError
from arc_common.messages import Message, Role
from arc_common.prompts import parse_fences, parse_memory, render_fence
from arc_common.protocols import ChatModel, TokenCounter
from arc_common.tokens.message_tokens import REQUEST_OVERHEAD, message_tokens_batch

__all__ = ["PARTS", "Actor", "View"]

PARTS = ("system", "facts", "summary", "recalled", "history", "question")
"""The parts of a request, in this order."""

_SENTENCE = re.compile(r"(?<=[.!?。？！])\s+|\n+")
_SPEAKER = re.compile(r"^(?:User|Assistant): ")


@dataclass(frozen=True, slots=True)
class View:
    """One request as the model got it, and the answer.

    Args:
        seen: The numbers of the conversation's messages in it, from 1, in its order.
        noted: The numbers of the messages that arc's blocks (facts, summary, recalled messages) quote.
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
        """Answer the last message, and record the request's parts.

        Raises:
            ConfigurationError: The other model failed.
        """
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
        """Return the written reply to the last message, or the other model's answer, without recording it.

        Raises:
            ConfigurationError: The other model failed.
        """
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
            place = next((i for i in reversed(range(behind)) if self.conversation[i] == message.text), None)
            if place is not None:
                behind = place
                numbers.append(place + 1)
        return tuple(reversed(numbers))


def _folded(text: str) -> str:
    return " ".join(text.split())
