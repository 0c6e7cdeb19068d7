"""Summarisers: one by rules, and one that calls a model once per segment and links facts to their messages."""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel
from rapidfuzz import fuzz

from arc_common.concurrency import give_way
from arc_common.context.repetition import Said, without_lead_in
from arc_common.exceptions import InvalidInputError, ModelCallError, SummaryFailedError
from arc_common.facts import IN_REPLY, Fact
from arc_common.memory.facts.fidelity import has_values
from arc_common.memory.own_words import learnable
from arc_common.memory.services import Services
from arc_common.memory.summaries.open_points import QUESTION_MARKS, Dialogue, Place, asks, is_telling, terms_of
from arc_common.messages import Message, Role
from arc_common.model_calls import GuardedChatModel
from arc_common.prompts.context import named_parts, speaker_of, spoken
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
from arc_common.text.analyzer import words_of
from arc_common.text.languages.registry import ADDRESSED, CONCRETE, DATES, NAMES, detect
from arc_common.text.sentences import rough_tokens, sentences_of

MAX_SENTENCES = 240
"""The most sentences that are compared with each other; each message contributes its share."""

_TOO_SIMILAR = 0.5
"""The cosine above which two sentences say the same."""

_ROLE_WEIGHT = {Role.USER: 1.0, Role.ASSISTANT: 0.7}
_ASKED = 0.4
_OWN, _GENERAL = 0.6, 0.3
"""The weights of a sentence without a value, date, name or decision: with a word for its speaker, and without one."""
_LEAST = 0.2
"""The least centrality of a sentence, as a share of the best: room that is left is no reason to fill it. So 46 % of a
summary's lines were evidence for one of LoCoMo's questions, not 39 %, and it took 1 to 11 % fewer tokens."""
_NEW = 1
"""The most further specific words of a reply that only confirms what it answers."""
_STATED = 0.2
"""The weight of a sentence that a fact repeats; not 0, because few of the facts may fit the prompt."""
_EXCERPT = re.compile(r"- ((?:\d{4}-\d\d-\d\d, )?[^:\n]{1,80}): (.+?)((?: \((?:image|audio|file)(?:: [^()\n]+)?\))*)")
_ASIDE = re.compile(r"\s*\[[^\[\]\n]*\s[^\[\]\n]*\]\s*$", re.MULTILINE)
"""A remark in brackets at a line's end ("[shares a photo of a dog]") is not part of anybody's words."""
_READ = 4
"""The most sentences of a message that are read for each one that is compared."""
_SKIPPED = " … "
_STOPS = ".。!！"
_MOST_MISSES = 16
"""Stop after this many sentences in a row that do not fit."""


@dataclass(frozen=True, slots=True)
class _Said:
    """The words that somebody said at once; the head of its excerpt is `""` for prose."""

    head: str
    role: Role | None
    text: str
    things: str = ""  # names of its images and files


@dataclass(frozen=True, slots=True)
class _Sentence:
    at: Place
    said: _Said
    text: str
    terms: Counter[str]
    is_specific: bool
    is_said: bool
    needs: "_Sentence | None" = None
    """An earlier sentence, without which this one says nothing."""
    is_kept: bool = False
    """An agreement, or a question or decision that is left open: nothing else in the prompt may tell it."""

    @property
    def parts(self) -> "list[_Sentence]":
        """Return the sentence, behind the one that it needs from the same message."""
        return [self.needs, self] if self.needs and self.needs.at[0] == self.at[0] else [self]


class RuleBasedSummarizer:
    """Selects excerpts by rules: deterministic, without a model or network."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter

    def narrative(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        facts: Sequence[str] = (),
        following: Sequence[Message] = (),
    ) -> str:
        """Return the most central sentences in conversation order, as lines: `- 2026-11-20, user: …`.

        - A line holds the chosen sentences of one message, whole; "…" stands for skipped ones.
        - Agreements, and questions and decisions that are still open after the `following` messages, are chosen first,
          and other topics before more of the same.
        - Sentences that repeat facts, other questions and courtesies are chosen last; remarks in brackets are left out.
        - A sentence that says nothing alone ("It's 180.") comes with the one before it, or not at all.
        - Images and files of a message are named behind its sentences.
        """
        said, later = map(_said_in, (messages, following))
        return self._central([line for line in said if line.role in _ROLE_WEIGHT] or said, max_tokens, facts, later)

    def retold(self, narratives: Sequence[str], *, max_tokens: int) -> str:
        """Return the most central sentences of narratives, unchanged and in order."""
        return self._central([_spoken(line) for text in narratives for line in text.splitlines()], max_tokens)

    def _central(
        self, said: Sequence[_Said], max_tokens: int, facts: Sequence[str] = (), later: Sequence[_Said] = ()
    ) -> str:
        if max_tokens < 1:
            raise InvalidInputError("max_tokens", max_tokens, "a number from 1 up")
        sentences = self._sentences(said, facts, later)
        if not sentences:
            return ""
        vectors = self._vectors(sentences)
        similar, prior = vectors @ vectors.T, self._priors(sentences)
        centrality = prior * (similar @ prior)  # a random walk over the graph would leave an isolated one its weight
        left = centrality >= _LEAST * centrality.max()
        left |= np.array([one.is_said or one.is_kept for one in sentences])
        covered = np.zeros(len(sentences))
        shown: dict[Place, _Sentence] = {}
        text, misses, best = "", 0, -1
        while left.any() and misses < _MOST_MISSES:
            give_way()
            gains = np.round(prior * (np.maximum(similar - covered, 0.0) @ prior), 12)  # other topics than told so far
            index = max(np.flatnonzero(left).tolist(), key=lambda i: (sentences[i].is_kept, gains[i]))
            left[index] = False
            best = index if best < 0 else best
            longer = shown | {part.at: part for part in sentences[index].parts}
            told = _rendered(longer)
            if rough_tokens(told) > 2 * max_tokens or self._counter.count(told) > max_tokens:
                misses += 1
                continue
            text, shown, misses = told, longer, 0
            covered = np.maximum(covered, similar[index])
            left &= similar[index] <= _TOO_SIMILAR
        return text or cut_to_tokens(_rendered({(0, 0): sentences[best]}), max_tokens, self._counter.count)

    def _sentences(self, said: Sequence[_Said], facts: Sequence[str], later: Sequence[_Said]) -> list[_Sentence]:
        if not said:
            return []
        each = max(1, MAX_SENTENCES // len(said))
        known = Said([one.text for one in said] if facts else [])
        for fact in facts:
            known.add("fact", fact)
        speakers = {word.casefold() for one in said for word in words_of(one.head)}
        said = said[:MAX_SENTENCES]
        parts = [sentences_of(one.text[: each * 2_000])[: _READ * each] for one in (*said, *later)]
        dialogue = Dialogue([one.head.rpartition(", ")[2] for one in (*said, *later)], parts)
        kept = dialogue.kept() if said[0].role else ()

        def made(at: Place) -> _Sentence:
            one, text = said[at[0]], parts[at[0]][at[1]]
            is_specific = _is_specific(text, one.role, speakers)
            return _Sentence(at, one, text, terms_of(text, speakers), is_specific, bool(known.says(text)))

        found: list[_Sentence] = []
        for of, one in enumerate(said):
            give_way()
            whole = range(len(parts[of]))
            telling = [place for place in whole if is_telling(parts[of][place]) or (of, place) in kept]
            if of and [said[of - 1].role, one.role] == [Role.USER, Role.ASSISTANT]:
                before = said[of - 1].text[: each * 2_000]
                heard = terms_of(before).keys()
                telling = [place for place in telling if not _echoes(parts[of][place], before, heard)]
            found += [made((of, place)) for place in (telling or whole)[:each]]
        found = [one for one in found if is_telling(one.text) or one.at in kept] or found
        again = asked_again([(str(one.said.role), one.text) for one in found])
        found = [one for place, one in enumerate(found) if place not in again]
        clear = []
        for sentence in found:
            at = sentence.at
            needed = dialogue.needed(at) if sentence.said.role else at
            if needed or at in kept:
                needs = made(needed) if needed and needed != at else None
                clear.append(replace(sentence, needs=needs, is_kept=at in kept and not sentence.is_said))
        return clear or found

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

    def _priors(self, sentences: Sequence[_Sentence]) -> NDArray[np.float64]:
        """Return the sentences' weights on their own: shape (sentences,), float64."""
        weights = []
        spoken = Counter(sentence.at[0] for sentence in sentences)
        for sentence in sentences:
            give_way()
            weights.append(_prior(sentence) / math.sqrt(spoken[sentence.at[0]]))  # a pasted page is not the topic
        return np.array(weights)


def asked_again(lines: Sequence[tuple[str, str]]) -> set[int]:
    """Return the places of questions that the same speaker asks again later, perhaps about another number or name."""
    later, again = set[tuple[str, frozenset[str]]](), set[int]()
    for place in range(len(lines) - 1, -1, -1):
        speaker, text = lines[place]
        if text.endswith(QUESTION_MARKS):
            found = () if detect(text).capitalises_nouns else NAMES.findall(text)
            names = {name.casefold() for name in found}
            asked = speaker, frozenset(terms_of(re.sub(r"\d+", "", text), names).keys() - names)
            again |= {place} if asked in later else set()
            later |= {asked} if len(asked[1]) > 1 else set()  # "What about Rome?"
    return again


def _echoes(sentence: str, before: str, terms: Set[str]) -> bool:
    """Return whether a reply only confirms values of the text before, which has these terms: "Noted: at 9:30."."""
    if not any(form.search(sentence) for form in (CONCRETE, DATES)):
        return False
    return len(terms_of(sentence).keys() - terms) <= _NEW and has_values(before, sentence)


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
    is_asked = asks(sentence.text) if role is not Role.USER else sentence.text.endswith(QUESTION_MARKS)
    if is_asked and role and not sentence.is_kept:
        weight *= _ASKED  # a question without its answer tells little
    if not sentence.is_specific:
        weight *= _OWN if language.oneself.search(sentence.text) else _GENERAL
    return weight * (_STATED if sentence.is_said else 1.0)


def _rendered(shown: Mapping[Place, _Sentence]) -> str:
    lines: list[str] = []
    things: list[str] = []
    before: _Sentence | None = None
    for _, one in sorted(shown.items()):
        text = one.text
        if one.needs and one.needs.at not in shown:
            text = f"{text.rstrip(_STOPS)}{IN_REPLY}{one.needs.text})"
        if before is not None and one.at[0] == before.at[0]:
            lines[-1] += (" " if one.at[1] == before.at[1] + 1 else _SKIPPED) + text
        else:
            lines.append(f"- {one.said.head}: {text}" if one.said.head else text)
            things.append(one.said.things)
        before = one
    return "\n".join(line + named for line, named in zip(lines, things, strict=True))


def _said_in(messages: Sequence[Message]) -> list[_Said]:
    spoken = [message for message in messages if message.text.strip() and not message.made_by_arc]
    return [
        _Said(
            _head(message),
            message.role,
            _ASIDE.sub("", message.text),
            "".join(f" {name}" for name in named_parts(message)),
        )
        for message in spoken
    ]


def _head(message: Message) -> str:
    """Return the day and speaker of a message's excerpt."""
    who = speaker_of(message)
    return f"{message.created_at:%Y-%m-%d}, {who}" if message.created_at else who


def _spoken(line: str) -> _Said:
    """Read a line of a narrative: an excerpt of somebody's words, or prose."""
    found = _EXCERPT.fullmatch(line)
    return _Said(found[1], None, found[2].replace(_SKIPPED, " "), found[3]) if found else _Said("", None, line)


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
