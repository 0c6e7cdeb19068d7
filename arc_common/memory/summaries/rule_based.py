"""A summary with no model: the facts that rules find, and the sentences that say most of what was said."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from arc_common.exceptions import InvalidInputError
from arc_common.facts import ProposedFact
from arc_common.memory.facts.extraction import extract_facts
from arc_common.messages import Message, Role
from arc_common.protocols import TokenCounter
from arc_common.text.languages.registry import rules_for
from arc_common.text.languages.vocabulary import content_words, strip_particles
from arc_common.text.sentences import rough_tokens, sentences_of

__all__ = ["RuleBasedSummarizer", "RuleBasedSummary"]

MAX_SENTENCES = 240
"""Sentences that are compared with each other; each message contributes its share."""

_TERMS = 60
_TOO_SIMILAR = 0.5
"""Cosine from which two sentences say the same."""

_ROLE_WEIGHT = {Role.USER: 1.0, Role.ASSISTANT: 0.7}
_LABEL = {Role.USER: "User", Role.ASSISTANT: "Assistant", Role.TOOL: "Tool", Role.SYSTEM: "System"}
_SPOKEN_BY = {label: role for role, label in _LABEL.items()}
_SPEAKER = re.compile(rf"(?:^|(?<=\s))({'|'.join(_SPOKEN_BY)}): ")
_MOST_MISSES = 16
"""After so many sentences in a row that don't fit, no more are tried."""
_SHORTEST = 4
"""Tokens, roughly: what is shorter ("Yes, please.") says nothing alone."""


@dataclass(frozen=True, slots=True)
class RuleBasedSummary:
    """What the rules make of some messages: facts in the order said, and a narrative of whole sentences."""

    facts: list[ProposedFact]
    narrative: str


@dataclass(frozen=True, slots=True)
class _Sentence:
    role: Role | None
    text: str
    terms: Counter[str]


class RuleBasedSummarizer:
    """Summarises by rules: no model, no network, the same result each time.

    Args:
        counter: Counts the narrative's tokens.
        give_way: Called between two steps of about a millisecond; may wait.
    """

    def __init__(self, counter: TokenCounter, *, give_way: Callable[[], None] | None = None) -> None:
        self._counter = counter
        self._give_way = give_way or _nothing

    def summarize(self, messages: Sequence[Message], *, max_tokens: int) -> RuleBasedSummary:
        """The facts and the narrative of some messages; `max_tokens` bounds the narrative."""
        return RuleBasedSummary(extract_facts(messages), self.narrative(messages, max_tokens=max_tokens))

    def narrative(self, messages: Sequence[Message], *, max_tokens: int) -> str:
        """The most central sentences, in conversation order, each said by "User:" or "Assistant:".

        - Never more than `max_tokens` tokens, and never empty when a message has text and one word of it fits.
        - Sentences are central when much of what others say is in them too (weighted degree centrality: Erkan & Radev
          2004); courtesies and questions count less, and a sentence much like one that is there already is left out.
        - What tools and system messages say is used only when nobody else says anything.

        Args:
            messages: In conversation order; some dozens. At most quadratic in their sentences, of which no more than
                240 are looked at.
            max_tokens: At least 1.

        Raises:
            InvalidInputError: `max_tokens` is less than 1.
        """
        spoken = [message for message in messages if message.text.strip() and not message.made_by_arc]
        said = [(message.role, message.text) for message in spoken]
        return self._central([line for line in said if line[0] in _ROLE_WEIGHT] or said, max_tokens)

    def retold(self, narratives: Sequence[str], *, max_tokens: int) -> str:
        """The most central sentences of narratives, in their order and as they stand there.

        As `narrative` in all else; what such a narrative says somebody said, that one still says.
        """
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
            self._give_way()
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
            self._give_way()
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
            self._give_way()
            vectors[row, [place[term] for term in sentence.terms]] = list(sentence.terms.values())
        vectors *= rarity
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.where(lengths > 0.0, lengths, 1.0)
        return vectors

    def _ranked(self, sentences: Sequence[_Sentence], vectors: NDArray[np.float64]) -> list[int]:
        """Rank the sentences' places, the most central first; ties by place."""
        weights = []
        for sentence in sentences:
            self._give_way()
            weights.append(_prior(sentence))
        prior = np.array(weights)
        similar = vectors @ (vectors.T @ prior)  # the sum of the cosines with all sentences, weighted
        centrality = prior * similar  # a walk over the graph would leave a lonely sentence all its weight
        return [int(i) for i in np.argsort(-np.round(centrality, 12), kind="stable")]

    def _cut(self, sentence: str, max_tokens: int) -> str:
        """As many of the sentence's first words as fit; of a first word that does not, as many characters."""
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
    """What a sentence is about: its specific words, and pairs of characters where there are no spaces."""
    terms: Counter[str] = Counter()
    for word in content_words(sentence)[:_TERMS]:
        folded = strip_particles(word.casefold())
        if "\u3040" <= folded[0] <= "\u9fff" and len(folded) > 1:
            terms.update(folded[i : i + 2] for i in range(len(folded) - 1))
        else:
            terms[folded] += 1
    return terms


def _prior(sentence: _Sentence) -> float:
    """How much a sentence tells by itself."""
    rules = rules_for(sentence.text)
    weight = (_ROLE_WEIGHT.get(sentence.role, 0.5) if sentence.role else 1.0) * (0.3 + min(len(sentence.terms), 8) / 8)
    if rules.chit_chat.search(sentence.text.lower()):
        weight *= 0.4
    if rules.question.search(sentence.text):
        weight *= 0.6
    return weight


def _nothing() -> None:
    """Nobody is in a hurry."""


def _rendered(sentences: Sequence[_Sentence]) -> str:
    said = groupby(sentences, key=lambda sentence: sentence.role)
    return " ".join(_labelled(role, " ".join(sentence.text for sentence in group)) for role, group in said)


def _labelled(role: Role | None, text: str) -> str:
    return text if role is None else f"{_LABEL[role]}: {text}"


def _spoken(narrative: str) -> Iterator[tuple[Role | None, str]]:
    """What a narrative tells, and who it says said it: nobody, unless it was made by rules."""
    parts = _SPEAKER.split(narrative)
    if parts[0].strip():
        yield None, parts[0].strip()
    for label, text in zip(parts[1::2], parts[2::2], strict=True):
        yield _SPOKEN_BY[label], text.strip()
