"""Follow-up questions: which ones lean on the conversation, and the words that they leave out. By rules.

A rule sees forms, not meaning. These rather take a question for a follow-up than miss one: words carried over without
need cost little, but a question that is searched for without its topic finds nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from re import compile as pattern
from typing import Literal

from arc_common.messages import Message, Role
from arc_common.text.analyzer import analyze, analyze_query
from arc_common.text.languages.pointers import (
    ASKING,
    AT_HOME_BESIDE_A_NAME,
    DEFINING,
    DEFINITE,
    EXPLETIVE,
    KOREAN_ELLIPSIS,
    NAME,
    OPENING,
    POINTER,
)

__all__ = ["is_standalone", "last_turns", "topic_words"]

_MAX_READ = 2_000
"""Characters of a question, or a message, that are read."""

_HANGUL = pattern(r"[가-힣]")
_UNSPACED = pattern(r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]")
_WORD = pattern(r"[^\s,;:!?…()\[\]{}<>\"“”„«»「」『』、。，！？；：]+")
_EDGES = ".'’‘-–—*_`~/"
_PROBE = "zyzzyva"


_Kind = Literal["name", "code", "number", "word"]


@dataclass(frozen=True, slots=True)
class _Word:
    """A word that says what a text is about; its terms; and whether it looks like a name, a code or a number."""

    text: str
    terms: frozenset[str]
    kind: _Kind


def is_standalone(question: str) -> bool:
    """Whether a question says itself what it is about.

    - It leans on the conversation if it points back ("it", "those", "the second one", "그건", "거기"), continues
      ("and", "what about", "그럼", "부산은요?"), or has hardly a word of its own ("why?", "how much is the fee?",
      "얼마예요?").
    - "Is it possible to" and "the book that I bought" point at nothing, and personal pronouns are at home beside a name
      ("Does Samsung make its own chips?").
    - Of Chinese and Japanese the commonest forms are known.
    """
    text = question[:_MAX_READ].strip()
    if not _topic_terms(text) or OPENING.match(text) or _points_back(text):
        return False
    if _UNSPACED.search(text):
        return True
    own = sum(1 for _ in _topic_words_of(text))
    if _HANGUL.search(text):
        return not KOREAN_ELLIPSIS.fullmatch(text) and (own > 1 or (own == 1 and DEFINING.search(text) is not None))
    return own > 1 or (own == 1 and DEFINING.search(text) is not None and DEFINITE.search(text) is None)


def topic_words(question: str, history: Sequence[Message], *, max_words: int = 8) -> list[str]:
    """The words that a follow-up question leaves out, as they were written, in the order in which they were said.

    - From the user's last question, and from those before it as long as each leans on another itself; then, if there
      is room, from the last answer what looks like a name or a code.
    - Nothing that the question has in another form, and nothing that it replaces: a name that it brings ("what about
      Busan?") takes the place of names, a number that of numbers.

    Args:
        question: The question.
        history: The conversation before it, oldest first.
        max_words: Words at most; of a longer list the last ones.
    """
    known = set(analyze(question[:_MAX_READ]))
    replaced = _replaced_kinds(question[:_MAX_READ])
    chosen: list[tuple[int, int, str]] = []
    for place, text, is_answer in _sources(history):
        words = []
        for rank, word in enumerate(_topic_words_of(text)):
            if word.terms <= known or word.kind in replaced or (is_answer and word.kind in ("word", "number")):
                continue
            known |= word.terms
            words.append((place, rank, word.text))
        room = max_words - len(chosen)
        chosen += words[-room:] if room > 0 else []
    return [word for _, _, word in sorted(chosen)]


def last_turns(history: Sequence[Message], max_turns: int) -> list[Message]:
    """What user and assistant said in the last turns, oldest first."""
    said = [message for message in history if message.role in (Role.USER, Role.ASSISTANT) and message.text.strip()]
    starts = [place for place, message in enumerate(said) if message.role is Role.USER]
    if max_turns < 1 or not said:
        return []
    return said[starts[-max_turns] :] if len(starts) >= max_turns else said


def _sources(history: Sequence[Message]) -> Iterator[tuple[int, str, bool]]:
    """Where topics are looked for, the likeliest first: the place, the text, and whether it is an answer."""
    asked = [(place, message.text[:_MAX_READ]) for place, message in enumerate(history) if message.role is Role.USER]
    for place, text in reversed(asked):
        yield place, text, False
        if is_standalone(text):
            break
    for place in reversed(range(len(history))):
        if history[place].role is Role.ASSISTANT and history[place].text.strip():
            yield place, history[place].text[:_MAX_READ], True
            break


def _points_back(text: str) -> bool:
    without_expletives = EXPLETIVE.sub(" ", text)
    return any(
        pointer[0].lower() not in AT_HOME_BESIDE_A_NAME or NAME.search(without_expletives, 0, pointer.start()) is None
        for pointer in POINTER.finditer(without_expletives)
    )


def _replaced_kinds(question: str) -> set[str]:
    """What a question that only names another thing puts in the place of what was asked for before."""
    kinds: set[str] = {word.kind for word in _topic_words_of(question)}
    return set() if "word" in kinds else kinds


def _topic_words_of(text: str) -> Iterator[_Word]:
    for match in _WORD.finditer(text):
        word = match[0].strip(_EDGES)
        if not word or word.lower() in ASKING:
            continue
        terms = _topic_terms(word)
        coded = [term for term in terms if any(map(str.isdigit, term))]  # a code with a particle is the same code
        if terms:
            before = text[: match.start()].rstrip().rstrip("\"'“(")
            is_first = not before or before[-1] in ".!?\n"
            yield _Word(word, frozenset(coded or terms), _kind(word, is_first=is_first))


def _kind(word: str, *, is_first: bool) -> _Kind:
    if any(map(str.isdigit, word)):
        return "code" if any(character.isalpha() and character.isascii() for character in word) else "number"
    is_name = any(map(str.isupper, word[1:])) or (word[0].isupper() and not is_first)
    return "name" if is_name else "word"


def _topic_terms(text: str) -> list[str]:
    """The terms of a text without stop words, also where nothing is left: the analyzer keeps all of such a query."""
    return [term for term in analyze_query(f"{text} {_PROBE}") if term != _PROBE]
