"""Summarisers: one by rules, and one that calls a model once per segment and links facts to their messages."""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel
from rapidfuzz import fuzz

from arc_common.concurrency import give_way
from arc_common.context.repetition import Said, without_lead_in
from arc_common.exceptions import InvalidInputError, ModelCallError, SummaryFailedError
from arc_common.facts import Fact
from arc_common.memory.facts.fidelity import has_values
from arc_common.memory.own_words import learnable
from arc_common.memory.services import Services
from arc_common.messages import Message, Role
from arc_common.model_calls import GuardedChatModel
from arc_common.prompts.context import speaker_of, spoken
from arc_common.prompts.summary import (
    NarrativeAnswer,
    ParsedSummary,
    SummaryAnswer,
    SummaryFormatError,
    parse_narrative,
    parse_summary,
    render_correction,
    render_era_request,
    render_leaf_request,
)
from arc_common.protocols import ChatModel, TokenCounter
from arc_common.text import analyze
from arc_common.text.analyzer import content_words, words_of
from arc_common.text.languages.korean import strip_particles
from arc_common.text.languages.registry import ADDRESSED, CONCRETE, DATES, NAMES, detect
from arc_common.text.sentences import announces, rough_tokens, sentences_of

MAX_SENTENCES = 240
"""The most sentences that are compared with each other; each message contributes its share."""

_TERMS = 60
_TOO_SIMILAR = 0.5
"""The cosine above which two sentences say the same."""

_ROLE_WEIGHT = {Role.USER: 1.0, Role.ASSISTANT: 0.7}
_ASKED = 0.4
_OWN, _GENERAL = 0.6, 0.3
"""The weights of a sentence without a value, date, name or decision: with a word for its speaker, and without one."""
_LEAST = 0.2
"""The least centrality of a sentence, as a share of the best: room that is left is no reason to fill it. So 46 % of a
summary's lines are evidence for one of LoCoMo's questions, not 39 %, and it takes 1 to 11 % fewer tokens."""
_NEW = 1
"""The most further specific words of a reply that only confirms what it answers."""
_STATED = 0.2
"""The weight of a sentence that a fact repeats; not 0, because few of the facts may fit the prompt."""
_QUESTION_MARKS = ("?", "？")
_EXCERPT = re.compile(r"- ((?:\d{4}-\d\d-\d\d, )?[^:\n]{1,80}): (.+)")
_ASIDE = re.compile(r"\s*\[[^\[\]\n]*\s[^\[\]\n]*\]\s*$", re.MULTILINE)
"""A remark in brackets at a line's end ("[shares a photo of a dog]") is not part of anybody's words."""
_SKIPPED = " … "
_MOST_MISSES = 16
"""Stop after this many sentences in a row that do not fit."""
_SHORTEST = 4
"""The least (approximate) tokens of a telling sentence, unlike "Yes, please." or "Hey Ann!"."""


@dataclass(frozen=True, slots=True)
class _Said:
    """The words that somebody said at once; the head of its excerpt is `""` for prose."""

    head: str
    role: Role | None
    text: str


@dataclass(frozen=True, slots=True)
class _Sentence:
    of: int
    place: int
    said: _Said
    text: str
    terms: Counter[str]
    is_specific: bool
    is_said: bool


class RuleBasedSummarizer:
    """Selects excerpts by rules: deterministic, without a model or network."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter

    def narrative(self, messages: Sequence[Message], *, max_tokens: int, facts: Sequence[str] = ()) -> str:
        """Return the most central sentences in conversation order, as lines: `- 2026-11-20, user: …`.

        - A line holds the chosen sentences of one message, whole; "…" stands for skipped ones.
        - Sentences that repeat facts, questions and courtesies are chosen last; remarks in brackets are left out.
        """
        spoken = [message for message in messages if message.text.strip() and not message.made_by_arc]
        said = [_Said(_head(message), message.role, _ASIDE.sub("", message.text)) for message in spoken]
        return self._central([line for line in said if line.role in _ROLE_WEIGHT] or said, max_tokens, facts)

    def retold(self, narratives: Sequence[str], *, max_tokens: int) -> str:
        """Return the most central sentences of narratives, unchanged and in order."""
        return self._central([_spoken(line) for text in narratives for line in text.splitlines()], max_tokens)

    def _central(self, said: Sequence[_Said], max_tokens: int, facts: Sequence[str] = ()) -> str:
        if max_tokens < 1:
            raise InvalidInputError("max_tokens", max_tokens, "a number from 1 up")
        sentences = self._sentences(said, facts)
        if not sentences:
            return ""
        chosen: list[int] = []
        vectors = self._vectors(sentences)
        ranked = self._ranked(sentences, vectors)
        text, misses = "", 0
        for index in ranked:
            give_way()
            if chosen and (vectors[chosen] @ vectors[index]).max() > _TOO_SIMILAR:
                continue
            longer = _rendered([sentences[i] for i in sorted([*chosen, index])])
            if rough_tokens(longer) > 2 * max_tokens or self._counter.count(longer) > max_tokens:
                misses += 1
                if misses == _MOST_MISSES:
                    break
                continue
            chosen.append(index)
            text, misses = longer, 0
        return text or cut_to_tokens(_rendered([sentences[ranked[0]]]), max_tokens, self._counter.count)

    def _sentences(self, said: Sequence[_Said], facts: Sequence[str]) -> list[_Sentence]:
        if not said:
            return []
        each = max(1, MAX_SENTENCES // len(said))
        known = Said([one.text for one in said] if facts else [])
        for fact in facts:
            known.add("fact", fact)
        found = []
        speakers = {word.casefold() for one in said for word in words_of(one.head)}
        for of, one in enumerate(said[:MAX_SENTENCES]):
            give_way()
            whole = list(enumerate(sentences_of(one.text[: each * 2_000])))
            telling = [one for one in whole if _is_telling(one[1])]
            if of and [said[of - 1].role, one.role] == [Role.USER, Role.ASSISTANT]:
                before = said[of - 1].text[: each * 2_000]
                heard = _terms(before, frozenset()).keys()
                telling = [one for one in telling if not _echoes(one[1], before, heard)]
            found += [
                _Sentence(
                    of,
                    place,
                    one,
                    sentence,
                    _terms(sentence, speakers),
                    _is_specific(sentence, one.role, speakers),
                    bool(known.says(sentence)),
                )
                for place, sentence in (telling or whole)[:each]
            ]
        found = [one for one in found if _is_telling(one.text)] or found
        again = asked_again([(str(one.said.role), one.text) for one in found])
        return [one for place, one in enumerate(found) if place not in again]

    def _vectors(self, sentences: Sequence[_Sentence]) -> NDArray[np.float64]:
        """Return the sentences' TF-IDF vectors, normalised to length 1: shape (sentences, terms), float64."""
        frequency = Counter(term for sentence in sentences for term in sentence.terms)
        place = {term: i for i, term in enumerate(frequency)}
        rarity = 1.0 + np.log(len(sentences) / np.array(list(frequency.values()) or [1]))
        vectors = np.zeros((len(sentences), len(rarity)))
        for row, sentence in enumerate(sentences):
            give_way()
            vectors[row, [place[term] for term in sentence.terms]] = list(sentence.terms.values())
        vectors *= rarity
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.where(lengths > 0.0, lengths, 1.0)
        return vectors

    def _ranked(self, sentences: Sequence[_Sentence], vectors: NDArray[np.float64]) -> list[int]:
        """Rank the places of the sentences that are central enough, the most central first; ties by place."""
        weights = []
        spoken = Counter(sentence.of for sentence in sentences)
        for sentence in sentences:
            give_way()
            weights.append(_prior(sentence) / math.sqrt(spoken[sentence.of]))  # a pasted page is not the topic
        prior = np.array(weights)
        similar = vectors @ (vectors.T @ prior)  # the sum of the cosines with all sentences, weighted
        centrality = prior * similar  # a random walk over the graph would leave an isolated sentence all its weight
        least = _LEAST * centrality.max()
        order = np.argsort(-np.round(centrality, 12), kind="stable")
        return [int(i) for i in order if centrality[i] >= least or sentences[i].is_said]


def _terms(sentence: str, speakers: Set[str]) -> Counter[str]:
    """Return a sentence's specific words; of scripts without spaces, as character pairs."""
    words = [strip_particles(word.casefold()) for word in content_words(sentence)[:_TERMS]]
    named = {word for word in words if word in speakers}
    terms: Counter[str] = Counter()
    for word in words:
        if word in named and len(named) == 1:  # one name may be the listener's
            continue
        if "\u3040" <= word[0] <= "\u9fff" and len(word) > 1:
            terms.update(word[i : i + 2] for i in range(len(word) - 1))
        else:
            terms[word] += 1
    return terms


def asked_again(lines: Sequence[tuple[str, str]]) -> set[int]:
    """Return the places of questions that the same speaker asks again later, perhaps about another number or name."""
    later, again = set[tuple[str, frozenset[str]]](), set[int]()
    for place in range(len(lines) - 1, -1, -1):
        speaker, text = lines[place]
        if text.endswith(_QUESTION_MARKS):
            found = () if detect(text).capitalises_nouns else NAMES.findall(text)
            names = {name.casefold() for name in found}
            asked = speaker, frozenset(_terms(re.sub(r"\d+", "", text), names).keys() - names)
            again |= {place} if asked in later else set()
            later |= {asked} if len(asked[1]) > 1 else set()  # "What about Rome?"
    return again


def _is_telling(sentence: str) -> bool:
    """Return whether a sentence says something alone."""
    return rough_tokens(without_lead_in(sentence)) >= _SHORTEST and not announces(sentence)


def _echoes(sentence: str, before: str, terms: Set[str]) -> bool:
    """Return whether a reply only confirms values of the text before, which has these terms: "Noted: at 9:30."."""
    if not any(form.search(sentence) for form in (CONCRETE, DATES)):
        return False
    return len(_terms(sentence, frozenset()).keys() - terms) <= _NEW and has_values(before, sentence)


def _is_specific(sentence: str, role: Role | None, speakers: Set[str]) -> bool:
    """Return whether a sentence has a value, a date, a decision, or names; assistants name many things."""
    sentence = without_lead_in(sentence)
    language = detect(sentence)
    names = {name.casefold() for name in NAMES.findall(ADDRESSED.sub("", sentence))}
    if role is Role.ASSISTANT or language.capitalises_nouns:
        names.clear()
    named = len(names) > 1 or not names <= speakers  # one name may be the listener's
    return named or any(form.search(sentence) for form in (CONCRETE, DATES, language.deciding))


def _prior(sentence: _Sentence) -> float:
    """Return a sentence's weight on its own, by role, specific words and kind."""
    language = detect(sentence.text)
    role = sentence.said.role
    weight = (_ROLE_WEIGHT.get(role, 0.5) if role else 1.0) * (0.3 + min(len(sentence.terms), 8) / 8)
    if language.chit_chat.search(sentence.text.lower()):
        weight *= 0.4
    if sentence.text.rstrip(")）”\"' ").endswith(_QUESTION_MARKS) or (
        role is not Role.USER and language.seeking.search(sentence.text)
    ):
        weight *= _ASKED  # a question without its answer tells little
    if not sentence.is_specific:
        weight *= _OWN if language.oneself.search(sentence.text) else _GENERAL
    return weight * (_STATED if sentence.is_said else 1.0)


def _rendered(sentences: Sequence[_Sentence]) -> str:
    lines: list[str] = []
    before: _Sentence | None = None
    for one in sentences:
        if before is not None and one.of == before.of:
            lines[-1] += (" " if one.place == before.place + 1 else _SKIPPED) + one.text
        else:
            lines.append(f"- {one.said.head}: {one.text}" if one.said.head else one.text)
        before = one
    return "\n".join(lines)


def _head(message: Message) -> str:
    """Return the day and speaker of a message's excerpt."""
    who = speaker_of(message)
    return f"{message.created_at:%Y-%m-%d}, {who}" if message.created_at else who


def _spoken(line: str) -> _Said:
    """Read a line of a narrative: an excerpt of somebody's words, or prose."""
    found = _EXCERPT.fullmatch(line)
    return _Said(found[1], None, found[2].replace(_SKIPPED, " ")) if found else _Said("", None, line)


_MAX_SOURCES = 3

T = TypeVar("T")


class ModelSummarizer:
    """Has a chat model write summaries. Called from any thread; takes as long as it takes."""

    def __init__(self, services: Services, chat_model: ChatModel, *, pause_seconds: float = 0.5) -> None:
        self._observer = services.observer
        self._model = GuardedChatModel(
            chat_model,
            settings=services.settings,
            observer=self._observer,
            name="summary",
            pause_seconds=pause_seconds,
            health=services.models,
            count=services.token_counter.count,
        )
        self._settings = services.settings.summary
        self._count = services.token_counter.count

    def leaf(self, messages: Sequence[Message], *, related: Sequence[Fact] = ()) -> ParsedSummary:
        """Summarise new messages as facts and a narrative; `related` are known facts that they may change."""
        most = self._settings.leaf_narrative_tokens
        parsed = self._ask(
            render_leaf_request(messages, related=related, max_tokens=most), SummaryAnswer, _whole_summary
        )
        sources_of = sources_in(learnable(messages))
        facts = tuple(replace(fact, sources=sources_of(fact.value, fact.key)) for fact in parsed.facts)
        return replace(parsed, facts=facts, narrative=self._cut(parsed.narrative, most))

    def era(self, narratives: Sequence[str]) -> str:
        """Return one narrative that replaces several. Raises as `leaf`."""
        most = self._settings.era_narrative_tokens
        told = self._ask(render_era_request(narratives, max_tokens=most), NarrativeAnswer, parse_narrative)
        return self._cut(told, most)

    def _ask(self, request: list[Message], schema: type[BaseModel], parse: Callable[[str], T]) -> T:
        """Return the parsed answer, after at most one correction."""
        try:
            answer = self._model.complete(request, schema=schema)
            try:
                return parse(answer)
            except SummaryFormatError as error:
                self._observer.count("summary.reasks")
                again = render_correction(request, answer, str(error))
            return parse(self._model.complete(again, schema=schema))
        except (ModelCallError, SummaryFormatError) as error:
            raise SummaryFailedError(f"no summary: {error}") from error

    def _cut(self, narrative: str, most: int) -> str:
        if cut := cut_to_tokens(narrative, most, self._count):
            return cut
        raise SummaryFailedError(f"no summary: none fits {most} tokens")


def _whole_summary(answer: str) -> ParsedSummary:
    parsed = parse_summary(answer)
    if not parsed.narrative:
        raise SummaryFormatError('"narrative" is missing, empty or a copy of the request')
    return parsed


def sources_in(messages: Sequence[Message]) -> Callable[..., tuple[str, ...]]:
    """Return a function that takes texts and returns the ids of the messages that state the first one stated."""
    known = [message for message in messages if message.id is not None]
    said = [spoken([message]) for message in known]
    terms_of = [frozenset(analyze(text)) for text in said]
    spread = Counter(term for terms in terms_of for term in terms)
    weight = {term: math.log(1 + len(known) / count) for term, count in spread.items()}
    users = [message for message in known if message.role is Role.USER]
    anybody = tuple(message.id for message in users or known if message.id is not None)

    def said_by(text: str) -> tuple[str, ...]:
        wanted = set(analyze(text)) & weight.keys()
        chosen: list[int] = []
        enough = 0.2 * sum(weight[term] for term in wanted)
        while wanted and len(chosen) < _MAX_SOURCES:
            gains = [sum(weight[term] for term in sorted(wanted & terms)) for terms in terms_of]
            most = max(gains)
            equal = [i for i in range(len(known)) if gains[i] == most]
            near = {i: _nearness(text, said[i]) if len(equal) > 1 else 0.0 for i in equal}
            best = max(equal, key=lambda i: (known[i].role is Role.USER, near[i], -i))
            if chosen and gains[best] < enough:
                break
            chosen.append(best)
            wanted -= terms_of[best]
        return tuple(message_id for i in sorted(chosen) if (message_id := known[i].id) is not None)

    return lambda *texts: next(filter(None, map(said_by, texts)), anybody)


def _nearness(text: str, message: str) -> float:
    """Return the best similarity of a text and a part of a message, from 0 to 100 (identical)."""
    return fuzz.partial_ratio(" ".join(text.casefold().split()), " ".join(message.casefold().split()))


def cut_to_tokens(text: str, most: int, count: Callable[[str], int]) -> str:
    """Return the text up to the last sentence that fits, or as much of the first as fits, with "…"."""
    if count(text) <= most:
        return text
    kept = ""
    for sentence in sentences_of(text):
        longer = f"{kept} {sentence}".lstrip()
        if count(longer) > most:
            break
        kept = longer
    if kept:
        return kept
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(f"{text[:middle].rstrip()}…") <= most else (low, middle - 1)
    cut = text[:low].rstrip()
    return f"{cut[: cut.rfind(' ')] if ' ' in cut else cut}…" if cut else ""
