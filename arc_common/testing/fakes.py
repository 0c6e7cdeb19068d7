"""Fakes for tests: chat models that answer, fail, wait or quote, and an observer that counts."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Event, Lock
from time import sleep
from typing import TYPE_CHECKING, Any

from arc_common.messages import Message, Role
from arc_common.prompts.context import parse_fences, parse_memory
from arc_common.text import analyze_query

if TYPE_CHECKING:
    from pydantic import BaseModel


class ReplyingChatModel:
    """Returns the replies in order and then repeats the last one; an exception among them is raised.

    - `requests` holds the messages of each call, in order.
    - Safe to share between threads.
    """

    def __init__(self, replies: Iterable[str | Exception]) -> None:
        self._replies = list(replies)
        self._lock = Lock()
        self.requests: list[tuple[Message, ...]] = []

    def complete(self, messages: Sequence[Message]) -> str:
        """Return or raise the next reply."""
        with self._lock:
            reply = self._replies[min(len(self.requests), len(self._replies) - 1)]
            self.requests.append(tuple(messages))
        if isinstance(reply, Exception):
            raise reply
        return reply


class FailingChatModel(ReplyingChatModel):
    """Raises the same error each time; `requests` holds the messages of each call."""

    def __init__(self, error: Exception) -> None:
        super().__init__([error])


class StructuredReplyingChatModel(ReplyingChatModel):
    """Answers by a schema too: with the fields given, in order; an exception among them is raised.

    - Text calls get the `replies`, as in `ReplyingChatModel`. The last answer is repeated, too.
    - `schemas` holds the schema of each structured call; `requests` the messages of the text calls.
    """

    def __init__(
        self, answers: Iterable[Mapping[str, Any] | Exception], replies: Iterable[str | Exception] = ("",)
    ) -> None:
        super().__init__(replies)
        self._answers = list(answers)
        self.schemas: list[type[BaseModel]] = []

    def complete_structured(self, messages: Sequence[Message], schema: "type[BaseModel]") -> "BaseModel":  # noqa: ARG002
        """Return the next answer as an instance of the schema, or raise it."""
        with self._lock:
            answer = self._answers[min(len(self.schemas), len(self._answers) - 1)]
            self.schemas.append(schema)
        if isinstance(answer, Exception):
            raise answer
        return schema.model_validate(answer)


class SlowChatModel:
    """Returns another model's answer, but only once it is allowed to.

    - Each call sets `asked`, then waits for `may_answer`; afterwards it sets `answered`.
    """

    def __init__(self, model: ReplyingChatModel) -> None:
        self._model = model
        self.asked = Event()
        self.may_answer = Event()
        self.answered = Event()

    def complete(self, messages: Sequence[Message]) -> str:
        """Return the other model's answer, once `may_answer` is set."""
        self.asked.set()
        self.may_answer.wait()
        try:
            return self._model.complete(messages)
        finally:
            self.answered.set()


class OneThreadChatModel:
    """Returns another model's answer, and raises `RuntimeError` while another thread waits for one.

    - Each answer takes some `seconds`.
    - `clashes` counts the calls that were refused; a local model might crash the process at each.
    """

    def __init__(self, model: ReplyingChatModel, *, seconds: float = 0.02) -> None:
        self._model = model
        self._seconds = seconds
        self._inside = Lock()
        self.clashes = 0

    def complete(self, messages: Sequence[Message]) -> str:
        """Return the other model's answer."""
        if not self._inside.acquire(blocking=False):
            self.clashes += 1
            raise RuntimeError("two threads call a model that serves one")
        try:
            sleep(self._seconds)
            return self._model.complete(messages)
        finally:
            self._inside.release()


UNKNOWN = "I do not know."

_SENTENCE = re.compile(r"(?<=[.!?。？！])\s+|\n+")
_QUESTION_MARKS = ("?", "？")
_SPEAKER = re.compile(r"^- [^:\n]{1,100}: ")
_FACT = re.compile(r"- (?P<key>.+?): (?P<value>.+)")
_BY = {Role.USER: "You said", Role.ASSISTANT: "I said"}
_NOTED = "Noted"


@dataclass(frozen=True, slots=True)
class _Statement:
    by: str
    text: str
    words: frozenset[str]


class ScriptedChatModel:
    """A chat model for tests and demos: no key, no network, no weights, and the same answer every time.

    - It has no knowledge of its own. It quotes the one sentence or fact in its input that covers most of the last user
      message's question; if none covers more than half of it, it says that it does not know.
    - It reads messages, and the blocks that arc puts before and after them: facts (it quotes their values), summaries,
      recalled facts, documents. It ignores instructions around those blocks, and questions.
    - Like a real model, it quotes the next best sentence if the right one was not shown: a wrong answer then looks as
      certain as a right one.
    - Rare words weigh more than common ones; among equally good sentences it prefers the one with fewer other words,
      then the later one. Words are those of `arc_common.text`.
    """

    def complete(self, messages: Sequence[Message]) -> str:
        """Return the quoted sentence, or the answer that it does not know."""
        last = next((i for i in reversed(range(len(messages))) if messages[i].role is Role.USER), None)
        if last is None:
            return UNKNOWN
        question, blocks = parse_fences(messages[last].text)
        told = [*_told(messages[:last]), *_noted(blocks)]
        found = _best(_asked(question), [statement for statement in told if statement.words])
        return UNKNOWN if found is None else f"{found.by}: “{found.text}”"


def _best(asked: frozenset[str], statements: Sequence[_Statement]) -> _Statement | None:
    """Return the statement that covers most of the question, if it covers more than half of it by weight."""
    spread = Counter(word for statement in statements for word in statement.words)
    weight = {word: math.log(1 + (len(statements) + 1) / (count + 1)) for word, count in spread.items()}
    unheard = math.log(len(statements) + 2)
    wanted = sum(weight.get(word, unheard) for word in sorted(asked))
    best: _Statement | None = None
    best_rank = (0.5, 0.0)
    for statement in statements:
        shared = sum(weight[word] for word in sorted(asked & statement.words))
        rank = (shared / wanted if wanted else 0.0, shared / sum(weight[word] for word in sorted(statement.words)))
        if rank[0] > 0.5 and rank >= best_rank:
            best, best_rank = statement, rank
    return best


def _asked(text: str) -> frozenset[str]:
    """Return the words of the text's questions, or of its last sentence if it asks none."""
    sentences = _SENTENCE.split(text.strip())
    questions = [sentence for sentence in sentences if sentence.endswith(_QUESTION_MARKS)]
    return _words(" ".join(questions) or sentences[-1])


def _told(messages: Iterable[Message]) -> Iterator[_Statement]:
    for message in messages:
        said, blocks = parse_fences(message.text)
        if message.role is not Role.SYSTEM:
            yield from _sentences(said, _BY.get(message.role, _NOTED))
        yield from _noted(blocks)


def _noted(blocks: Iterable[tuple[str, str]]) -> Iterator[_Statement]:
    """Yield the statements in arc's blocks."""
    for name, inside in blocks:
        lines, text = parse_memory(inside) if name == "memory" else (inside.splitlines(), "")
        for line in [*lines, *text.splitlines()]:
            if fact := _FACT.fullmatch(line):
                yield from _statement(fact["value"], _NOTED, about=f"{fact['key']} {fact['value']}")
            else:
                yield from _sentences(line, _NOTED)


def _sentences(text: str, by: str) -> Iterator[_Statement]:
    for sentence in _SENTENCE.split(text):
        said = _SPEAKER.sub("", sentence, count=1) if by == _NOTED else sentence
        yield from _statement(said.strip(), by, about=said)


def _statement(text: str, by: str, *, about: str) -> Iterator[_Statement]:
    if text and not text.endswith(_QUESTION_MARKS):
        yield _Statement(by, text, _words(about))


def _words(text: str) -> frozenset[str]:
    """Return the words that a text is about."""
    return frozenset(analyze_query(text))


class CountingObserver:
    """Adds up counts by name, and lists the names of timings in the order in which they ended; tags are not kept.

    Any number of threads may report to the same observer.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.timings: list[str] = []
        self._lock = Lock()

    def count(self, name: str, value: int = 1, **tags: str) -> None:  # noqa: ARG002 - the protocol's
        """See `Observer.count`."""
        with self._lock:
            self.counts[name] += value

    def timing(self, name: str, seconds: float, **tags: str) -> None:  # noqa: ARG002 - the same
        """See `Observer.timing`."""
        with self._lock:
            self.timings.append(name)
