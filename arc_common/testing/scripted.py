"""ScriptedChatModel: a chat model that can say only what it was shown."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from arc_common.messages import Message, Role

__all__ = ["ScriptedChatModel"]

UNKNOWN = "I do not know."

_SENTENCE = re.compile(r"(?<=[.!?。？！])\s+|\n+")
_WORD = re.compile(r"[^\W_]+(?:[-.,:/'][^\W_]+)*")
_KOREAN = re.compile(r"[가-힣]{2,}")
_QUESTION_MARKS = ("?", "？")
_STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a an and are as at be been before but by can could did do does for from get go had has have he her him his
        how i if in is it its last let many may me mine more much must my no not now of off on one or our out please
        shall she should so tell thanks that the their them then there they this to too us was we were what when
        where which who whom whose why will with would yes you your
        그리고 뭐였 뭘로 뭔가 무엇 어떻 어떤 언제 어디 하죠 해야 해주 주세 했죠 있어 있죠 제가""",
    )
)


@dataclass(frozen=True, slots=True)
class _Statement:
    role: Role
    text: str
    words: frozenset[str]


class ScriptedChatModel:
    """A chat model for tests and demos: no key, no network, no weights, and the same answer every time.

    - It knows nothing of its own. It quotes the one sentence, among the messages given, that speaks of most of what
      the last user message asks for; if none speaks of more than half of it, it says that it does not know.
    - Like a real model it takes the next best sentence when the right one was not shown to it: a wrong answer then
      looks as sure as a right one.
    - Rare words weigh more than common ones; of equally good sentences the one with fewer other words is taken, then
      the later one. Questions state nothing, and neither do system messages.
    - It reads English and Korean.
    """

    def complete(self, messages: Sequence[Message]) -> str:
        """The quoted sentence, or that it does not know."""
        question = next((i for i in reversed(range(len(messages))) if messages[i].role is Role.USER), None)
        if question is None:
            return UNKNOWN
        found = _best(_asked(messages[question].text), _statements(messages[:question]))
        if found is None:
            return UNKNOWN
        return f"{'You said' if found.role is Role.USER else 'I said'}: “{found.text}”"


def _best(asked: frozenset[str], statements: Sequence[_Statement]) -> _Statement | None:
    """The statement that covers most of what is asked, if it covers more than half of it by weight."""
    spread = Counter(word for statement in statements for word in statement.words)
    weight = {word: math.log(1 + (len(statements) + 1) / (count + 1)) for word, count in spread.items()}
    unheard = math.log(len(statements) + 2)
    wanted = sum(weight.get(word, unheard) for word in asked)
    best: _Statement | None = None
    best_rank = (0.5, 0.0)
    for statement in statements:
        shared = sum(weight[word] for word in asked & statement.words)
        rank = (shared / wanted if wanted else 0.0, shared / sum(weight[word] for word in statement.words))
        if rank[0] > 0.5 and rank >= best_rank:
            best, best_rank = statement, rank
    return best


def _asked(text: str) -> frozenset[str]:
    """The words of its questions; of its last sentence, if it asks none."""
    sentences = _SENTENCE.split(text.strip())
    questions = [sentence for sentence in sentences if sentence.endswith(_QUESTION_MARKS)]
    return _words(" ".join(questions) or sentences[-1])


def _statements(messages: Iterable[Message]) -> list[_Statement]:
    sentences = (
        (message.role, sentence.strip())
        for message in messages
        if message.role is not Role.SYSTEM
        for sentence in _SENTENCE.split(message.text)
    )
    found = [_Statement(role, text, _words(text)) for role, text in sentences if not text.endswith(_QUESTION_MARKS)]
    return [statement for statement in found if statement.words]


def _words(text: str) -> frozenset[str]:
    """What a text speaks of. A Korean word stands under its first two syllables: particles come behind them."""
    words = (_KOREAN.sub(lambda match: match[0][:2], word) for word in _WORD.findall(text.casefold()))
    return frozenset(words) - _STOP_WORDS
