"""ScriptedChatModel: a chat model that only quotes what it was shown."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from arc_common.messages import Message, Role
from arc_common.prompts import parse_fences, parse_memory
from arc_common.text import analyze_query

UNKNOWN = "I do not know."

_SENTENCE = re.compile(r"(?<=[.!?。？！])\s+|\n+")
_QUESTION_MARKS = ("?", "？")
_SPEAKER = re.compile(r"^(?:User|Assistant): ")
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

    - It has no knowledge of its own. It quotes the one sentence or fact in its input that covers most of what the last
      user message asks for; if none covers more than half of it, it says that it does not know.
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
    """Return the statement that covers most of what is asked, if it covers more than half of it by weight."""
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
