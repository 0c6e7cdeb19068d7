"""Query transformers: turn the user's question into search queries."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from arc_common.documents import checked_items
from arc_common.exceptions import InvalidInputError, check_whole
from arc_common.messages import Message, Role
from arc_common.model_calls import guarded
from arc_common.observability import Observer, guarded_observer
from arc_common.prompts.retrieval import (
    parse_hypothetical_answer,
    parse_standalone_question,
    render_hypothetical_answer_request,
    render_standalone_question_request,
)
from arc_common.protocols import ChatModel
from arc_common.text import analyze, analyze_query
from arc_common.text.languages.language import Language
from arc_common.text.languages.registry import LANGUAGES, detect, with_other_scripts

if TYPE_CHECKING:
    from arc_common.settings import ArcSettings


class HyDEQueryTransformer:
    """Adds a hypothetical answer to the question as a second query (HyDE, Gao et al. 2022).

    - A model writes the answer. The answer need not be true: it only serves to find real passages and is never shown.
    - Returns the question alone if the model fails, refuses or returns nothing (counted as `hyde.fallbacks`).
    - Makes one model call per question, none for an empty one. A `GuardedChatModel` is used as it is, so that several
      users share its breaker.
    """

    def __init__(
        self, chat_model: ChatModel, *, settings: "ArcSettings | None" = None, observer: Observer | None = None
    ) -> None:
        self._observer = guarded_observer(observer)
        self._model = guarded(chat_model, "hyde", settings, self._observer)

    def transform(self, query: str, *, history: Sequence[Message] = ()) -> list[str]:  # noqa: ARG002 - the protocol's
        """Return the question and a hypothetical answer, or the question alone (see `QueryTransformer`)."""
        if _is_blank(query):
            return [query]
        try:
            answer = parse_hypothetical_answer(self._model.complete(render_hypothetical_answer_request(query)))
        except Exception:  # noqa: BLE001 - nothing that a model does may keep the question from being searched for
            answer = None
        if answer is None:
            self._observer.count("hyde.fallbacks")
            return [query]
        return [query, answer]


class ConversationAwareQueryTransformer:
    """Has a model rewrite a follow-up question so that it stands alone.

    - Does not call the model without a conversation or for a question that stands alone (see `is_standalone`).
    - Passes the last `max_history_turns` turns to the model as data.
    - Returns the question unchanged if the model fails, refuses or writes no question (counted as
      `standalone.fallbacks`).
    - A `GuardedChatModel` is used as it is, so that several users share its breaker.
    """

    def __init__(
        self,
        chat_model: ChatModel,
        *,
        max_history_turns: int = 5,
        settings: "ArcSettings | None" = None,
        observer: Observer | None = None,
    ) -> None:
        self._turns = check_whole("max_history_turns", max_history_turns, least=0)
        self._observer = guarded_observer(observer)
        self._model = guarded(chat_model, "standalone", settings, self._observer)

    def transform(self, query: str, *, history: Sequence[Message] = ()) -> list[str]:
        """Return the standalone question (see `QueryTransformer`)."""
        said = last_turns(_messages(history), self._turns)
        if _is_blank(query) or not said or is_standalone(query):
            return [query]
        try:
            answer = self._model.complete(render_standalone_question_request(query, said))
            rewritten = parse_standalone_question(answer, question=query)
        except Exception:  # noqa: BLE001 - nothing that a model does may keep the question from being searched for
            rewritten = None
        if rewritten is None:
            self._observer.count("standalone.fallbacks")
            return [query]
        return [rewritten]


class RuleBasedConversationTransformer:
    """Adds the missing topic words to a follow-up question, without a model.

    - Finds them by rules (see `is_standalone` and `topic_words`) for English and Korean, and for the commonest forms
      of Chinese and Japanese.
    - Searches the last `max_history_turns` turns, and adds at most `max_words` words.
    - Returns a question unchanged if it stands alone or has no conversation before it.
    - Deterministic; takes microseconds to a few milliseconds.
    """

    def __init__(self, *, max_history_turns: int = 5, max_words: int = 8) -> None:
        self._turns = check_whole("max_history_turns", max_history_turns, least=0)
        self._words = check_whole("max_words", max_words)

    def transform(self, query: str, *, history: Sequence[Message] = ()) -> list[str]:
        """Return the question with its missing topic words (see `QueryTransformer`)."""
        said = last_turns(_messages(history), self._turns)
        if _is_blank(query) or not said or is_standalone(query):
            return [query]
        return [" ".join([query.strip(), *topic_words(query, said, max_words=self._words)])]


def _is_blank(query: str) -> bool:
    if not isinstance(query, str):
        raise InvalidInputError("query", query, "text")
    return not query.strip()


def _messages(history: Sequence[Message]) -> list[Message]:
    return checked_items("history", history, Message, expected="messages")


_MAX_READ = 2_000
"""The most characters read of a question or a message."""

_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]")
_WORD = re.compile(r"[^\s,;:!?…()\[\]{}<>\"“”„«»「」『』、。，！？；：]+")
_EDGES = ".'’‘-–—*_`~/"
_PROBE = "zyzzyva"
_NAME = re.compile(r"(?<=[\s(\"'“])(?!I\b)[A-Z][\w'’-]*|\b\w*[0-9]\w*\b|\b[a-z]+[A-Z]\w*\b")
"""A word that looks like a name or a code; not the first of a sentence, which is always capitalised."""

_ASKING = frozenset().union(*(language.asking_words for language in LANGUAGES))

_Kind = Literal["name", "code", "number", "word"]


@dataclass(frozen=True, slots=True)
class _Word:
    """A topic word: its terms, and whether it looks like a name, a code or a number."""

    text: str
    terms: frozenset[str]
    kind: _Kind


def is_standalone(question: str) -> bool:
    """Return whether a question states its own topic."""
    text = question[:_MAX_READ].strip()
    languages = with_other_scripts(detect(text))
    if not _topic_terms(text) or any(one.follow_up.match(text) or _points_back(text, one) for one in languages):
        return False
    if _UNSPACED.search(text):
        return True
    own = sum(1 for _ in _topic_words_of(text))
    is_definition = any(one.defining.search(text) for one in languages)
    return not any(one.ellipsis.fullmatch(text) for one in languages) and (own > 1 or (own == 1 and is_definition))


def topic_words(question: str, history: Sequence[Message], *, max_words: int = 8) -> list[str]:
    """Return the words that a follow-up question leaves out, as written, in conversation order."""
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
    """Return the user's and assistant's messages of the last turns, oldest first."""
    said = [message for message in history if message.role in (Role.USER, Role.ASSISTANT) and message.text.strip()]
    starts = [place for place, message in enumerate(said) if message.role is Role.USER]
    if max_turns < 1 or not said:
        return []
    return said[starts[-max_turns] :] if len(starts) >= max_turns else said


def _sources(history: Sequence[Message]) -> Iterator[tuple[int, str, bool]]:
    """Yield the texts to search for topics, most likely first: place, text, and whether it is an answer."""
    asked = [(place, message.text[:_MAX_READ]) for place, message in enumerate(history) if message.role is Role.USER]
    for place, text in reversed(asked):
        yield place, text, False
        if is_standalone(text):
            break
    for place in reversed(range(len(history))):
        if history[place].role is Role.ASSISTANT and history[place].text.strip():
            yield place, history[place].text[:_MAX_READ], True
            break


def _points_back(text: str, language: Language) -> bool:
    text = language.expletive.sub(" ", text)
    return any(
        pointer.lastgroup != "personal" or _NAME.search(text, 0, pointer.start()) is None
        for pointer in language.pointer.finditer(text)
    )


def _replaced_kinds(question: str) -> set[str]:
    """Return the kinds of words that a question replaces when it only names another thing."""
    kinds: set[str] = {word.kind for word in _topic_words_of(question)}
    return set() if "word" in kinds else kinds


def _topic_words_of(text: str) -> Iterator[_Word]:
    for match in _WORD.finditer(text):
        word = match[0].strip(_EDGES)
        if not word or word.lower() in _ASKING:
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
    """Return the terms of a text without stop words, even if none remain (the analyzer would keep all)."""
    return [term for term in analyze_query(f"{text} {_PROBE}") if term != _PROBE]
