"""Summarisers: one by rules, and one that calls a model once per segment and links facts to their messages."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz

from arc_common.concurrency import give_way
from arc_common.exceptions import InvalidInputError, ModelCallError, SummaryFailedError
from arc_common.facts import Fact, ProposedFact
from arc_common.memory.services import Services
from arc_common.messages import Message, Role
from arc_common.model_calls import GuardedChatModel
from arc_common.prompts.summary import (
    ParsedSummary,
    SummaryFormatError,
    parse_narrative,
    parse_summary,
    render_block_request,
    render_correction,
    render_era_request,
    render_leaf_request,
)
from arc_common.protocols import ChatModel, TokenCounter
from arc_common.text import analyze
from arc_common.text.analyzer import content_words
from arc_common.text.languages.korean import strip_particles
from arc_common.text.languages.registry import detect
from arc_common.text.sentences import rough_tokens, sentences_of

MAX_SENTENCES = 240
"""The most sentences that are compared with each other; each message contributes its share."""

_TERMS = 60
_TOO_SIMILAR = 0.5
"""The cosine above which two sentences say the same."""

_ROLE_WEIGHT = {Role.USER: 1.0, Role.ASSISTANT: 0.7}
_LABEL = {Role.USER: "User", Role.ASSISTANT: "Assistant", Role.TOOL: "Tool", Role.SYSTEM: "System"}
_SPOKEN_BY = {label: role for role, label in _LABEL.items()}
_SPEAKER = re.compile(rf"(?:^|(?<=\s))({'|'.join(_SPOKEN_BY)}): ")
_MOST_MISSES = 16
"""Stop after this many sentences in a row that do not fit."""
_SHORTEST = 4
"""The least (approximate) tokens of a sentence; a shorter one ("Yes, please.") says nothing alone."""


@dataclass(frozen=True, slots=True)
class _Sentence:
    role: Role | None
    text: str
    terms: Counter[str]


class RuleBasedSummarizer:
    """Summarises by rules: deterministic, without a model or network."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter

    def narrative(self, messages: Sequence[Message], *, max_tokens: int) -> str:
        """Return the most central sentences in conversation order, labelled "User:" or "Assistant:"."""
        spoken = [message for message in messages if message.text.strip() and not message.made_by_arc]
        said = [(message.role, message.text) for message in spoken]
        return self._central([line for line in said if line[0] in _ROLE_WEIGHT] or said, max_tokens)

    def retold(self, narratives: Sequence[str], *, max_tokens: int) -> str:
        """Return the most central sentences of narratives, unchanged and in order."""
        return self._central([line for text in narratives for line in _spoken(text)], max_tokens)

    def _central(self, said: Sequence[tuple[Role | None, str]], max_tokens: int) -> str:
        if max_tokens < 1:
            raise InvalidInputError("max_tokens", max_tokens, "a number from 1 up")
        sentences = self._sentences(said)
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
        return text or self._cut(sentences[ranked[0]].text, max_tokens)

    def _sentences(self, said: Sequence[tuple[Role | None, str]]) -> list[_Sentence]:
        if not said:
            return []
        each = max(1, MAX_SENTENCES // len(said))
        found = []
        for role, text in said[:MAX_SENTENCES]:
            give_way()
            whole = sentences_of(text[: each * 2_000])
            telling = [sentence for sentence in whole if rough_tokens(sentence) >= _SHORTEST] or whole
            found += [_Sentence(role, sentence, _terms(sentence)) for sentence in telling[:each]]
        return found

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
        """Rank the sentences' places, the most central first; ties by place."""
        weights = []
        for sentence in sentences:
            give_way()
            weights.append(_prior(sentence))
        prior = np.array(weights)
        similar = vectors @ (vectors.T @ prior)  # the sum of the cosines with all sentences, weighted
        centrality = prior * similar  # a random walk over the graph would leave an isolated sentence all its weight
        return [int(i) for i in np.argsort(-np.round(centrality, 12), kind="stable")]

    def _cut(self, sentence: str, max_tokens: int) -> str:
        """Return as many of the sentence's first words as fit, or as many characters of a first word that does not."""
        words = sentence.split()
        for pieces, joint in ((words, " "), (list(words[0]), "")):
            fitting, too_many = 0, len(pieces) + 1
            while too_many - fitting > 1:
                middle = (fitting + too_many) // 2
                if self._counter.count(joint.join(pieces[:middle])) <= max_tokens:
                    fitting = middle
                else:
                    too_many = middle
            if fitting:
                return joint.join(pieces[:fitting])
        return ""


def _terms(sentence: str) -> Counter[str]:
    """Return a sentence's specific words, with words of scripts without spaces as character pairs."""
    terms: Counter[str] = Counter()
    for word in content_words(sentence)[:_TERMS]:
        folded = strip_particles(word.casefold())
        if "\u3040" <= folded[0] <= "\u9fff" and len(folded) > 1:
            terms.update(folded[i : i + 2] for i in range(len(folded) - 1))
        else:
            terms[folded] += 1
    return terms


def _prior(sentence: _Sentence) -> float:
    """Return a sentence's weight on its own, by role, specific words and kind."""
    language = detect(sentence.text)
    weight = (_ROLE_WEIGHT.get(sentence.role, 0.5) if sentence.role else 1.0) * (0.3 + min(len(sentence.terms), 8) / 8)
    if language.chit_chat.search(sentence.text.lower()):
        weight *= 0.4
    if language.question.search(sentence.text):
        weight *= 0.6
    return weight


def _rendered(sentences: Sequence[_Sentence]) -> str:
    said = groupby(sentences, key=lambda sentence: sentence.role)
    return " ".join(_labelled(role, " ".join(sentence.text for sentence in group)) for role, group in said)


def _labelled(role: Role | None, text: str) -> str:
    return text if role is None else f"{_LABEL[role]}: {text}"


def _spoken(narrative: str) -> Iterator[tuple[Role | None, str]]:
    """Split a narrative into texts with their speakers; `None` for text without a label."""
    parts = _SPEAKER.split(narrative)
    if parts[0].strip():
        yield None, parts[0].strip()
    for label, text in zip(parts[1::2], parts[2::2], strict=True):
        yield _SPOKEN_BY[label], text.strip()


_MAX_SOURCES = 3

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """A summariser's result for a segment."""

    narrative: str
    facts: tuple[ProposedFact, ...] = ()
    removed_keys: tuple[str, ...] = ()


class Summarizer(Protocol):
    """Summarises segments. Called from any thread; takes as long as it takes."""

    def leaf(self, messages: Sequence[Message], *, related: Sequence[Fact]) -> SegmentSummary:
        """Summarise new messages as facts and a narrative; `related` are known facts that they may change."""

    def block(self, messages: Sequence[Message]) -> SegmentSummary:
        """Return the narrative of four leaves, from their original messages. Raises as `leaf`."""

    def era(self, narratives: Sequence[str]) -> SegmentSummary:
        """Return one narrative that replaces several. Raises as `leaf`."""


class ModelSummarizer:
    """Has a chat model write summaries."""

    def __init__(self, services: Services, chat_model: ChatModel, *, pause_seconds: float = 0.5) -> None:
        self._observer = services.observer
        self._model = GuardedChatModel(
            chat_model,
            settings=services.settings,
            observer=self._observer,
            name="summary",
            pause_seconds=pause_seconds,
        )
        self._settings = services.settings.summary
        self._count = services.token_counter.count

    def leaf(self, messages: Sequence[Message], *, related: Sequence[Fact] = ()) -> SegmentSummary:
        """Summarise new messages as facts and a narrative in one call."""
        most = self._settings.leaf_narrative_tokens
        parsed = self._ask(render_leaf_request(messages, related=related, max_tokens=most), _whole_summary)
        return SegmentSummary(
            narrative=self._cut(parsed.narrative, most),
            facts=tuple(with_sources(parsed.facts, messages)),
            removed_keys=parsed.removed_keys,
        )

    def block(self, messages: Sequence[Message]) -> SegmentSummary:
        """Return the narrative of four leaves, from their original messages. Raises as `leaf`."""
        most = self._settings.block_narrative_tokens
        return self._narrative(render_block_request(messages, max_tokens=most), most)

    def era(self, narratives: Sequence[str]) -> SegmentSummary:
        """Return one narrative that replaces several. Raises as `leaf`."""
        most = self._settings.era_narrative_tokens
        return self._narrative(render_era_request(narratives, max_tokens=most), most)

    def _narrative(self, request: list[Message], most: int) -> SegmentSummary:
        return SegmentSummary(self._cut(self._ask(request, parse_narrative), most))

    def _ask(self, request: list[Message], parse: Callable[[str], T]) -> T:
        """Return the parsed answer, after at most one correction."""
        try:
            answer = self._model.complete(request)
            try:
                return parse(answer)
            except SummaryFormatError as error:
                self._observer.count("summary.reasks")
                again = render_correction(request, answer, str(error))
            return parse(self._model.complete(again))
        except (ModelCallError, SummaryFormatError) as error:
            raise SummaryFailedError(f"no summary: {error}") from error

    def _cut(self, narrative: str, most: int) -> str:
        if cut := cut_to_tokens(narrative, most, self._count):
            return cut
        raise SummaryFailedError(f"no summary: none fits {most} tokens")


def _whole_summary(answer: str) -> ParsedSummary:
    parsed = parse_summary(answer)
    if not parsed.narrative:
        raise SummaryFormatError('"narrative" is missing or empty')
    return parsed


def with_sources(facts: Sequence[ProposedFact], messages: Sequence[Message]) -> list[ProposedFact]:
    """Return the facts, each with the ids of the messages that state it."""
    known = [message for message in messages if message.id is not None]
    terms_of = [frozenset(analyze(message.text)) for message in known]
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
            near = {i: _nearness(text, known[i].text) if len(equal) > 1 else 0.0 for i in equal}
            best = max(equal, key=lambda i: (known[i].role is Role.USER, near[i], -i))
            if chosen and gains[best] < enough:
                break
            chosen.append(best)
            wanted -= terms_of[best]
        return tuple(message_id for i in sorted(chosen) if (message_id := known[i].id) is not None)

    return [replace(fact, sources=said_by(fact.value) or said_by(fact.key) or anybody) for fact in facts]


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
