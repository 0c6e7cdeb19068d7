"""Ranks messages and the facts extracted from them against a question by one measure. Pure."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from arc_common.caches import cached_by_hash, cached_text
from arc_common.memory.facts.extraction import extract_facts
from arc_common.memory.recall.index import FoundMessages, MessagePlace
from arc_common.messages import Message
from arc_common.protocols import SessionKey
from arc_common.retrieval.bm25 import TextIndex
from arc_common.retrieval.fusion import credibility
from arc_common.text.analyzer import analyze, apart, content_words, han_characters
from arc_common.text.languages.registry import ADDRESSED, CONCRETE, DATES, detect
from arc_common.text.sentences import is_question, sentences_of

MOST_READ_ANEW = 40
"""The most recent messages whose facts are extracted at question time, if they have not been extracted yet."""

_PASSAGE = 10
"""Messages on each side that a message's passage reaches to: about a session of the shared conversations."""
_BEST = 3
_PASSAGE_WEIGHT = 0.3
"""The weight of the mean of a passage's best three scores, which count half at `_PASSAGE` messages. Where all count in
full, a fifth is the most that chats with long answers allow, and LoCoMo's best ten are half a point worse."""
_FADES = np.array([*(0.5 ** (distance / _PASSAGE) for distance in range(_PASSAGE + 1)), 0.0])
_APART = 1 << 40
"""The distance between two sessions, as if their messages were one session's."""
_ANSWERED = 1 / 3
"""Words count in full beside vectors once one message has this share of a question's; a long statement shares few, by
chance. More of LoCoMo-Plus's cues are found so than if words always counted in full; LoCoMo's questions find the same.
"""
_FALL = 5
"""The power of that share by which words, and good passages, count. From 4 to 6, with words from 1.25 to 1.5, recall
differs by less than a point, and LoCoMo-Plus's by up to 1.3."""
_WORDS = 1.25
"""The weight of words that answer a question, relative to vectors, when both stand out as far."""
_ROUNDING = 1e-6
"""The least standard deviation that makes a difference: cosines of the same text differ by the rounding of floats."""
_GOOD = 0.35
"""The score, with its passage, from which matches may fill all the room. A lower one lets turns about something else
recall more. When a match half as good filled half of the room, such turns recalled a quarter more tokens, and LoCoMo's
questions found only 0.1 points more of their evidence."""
_WINDOW = 60
"""Terms of a short message with its neighbours. A longer one shares more words by chance. Measured by the root of its
length, turns about something else recall 11 % less in chats with long answers, and everything else finds the same.
"""
_SATURATION = 1.5
"""BM25's k1: a word that occurs twice counts less than two words."""
_ENOUGH = 0.5
"""The share of a question's words, by their rarity, that can't be shared by chance, however common they are."""
_CHANCE = 0.03
"""The chance that words which prove nothing bring messages back. Of 250 statements of random words, 10 do so; if the
best message need only be better than the average best by chance, 32 do. Questions find the same."""
_PROOF = 0.7
"""The rarity of the words that one message has of a question, as a share of that of a word which no other has. Set on
LoCoMo: 1 of 100 of its questions has less, 25 of those about another conversation, 40 of SGD's requests, 46 of small
talk (5, 5 and 8 without this)."""
_NUMBER = 3
"""The fewest digits of a number that is specific beside other words: "16:30" is not about a fuse of 16 amps."""


class Recalled(NamedTuple):
    """A message relevant to a question, with a score that is comparable only within one result."""

    place: MessagePlace
    score: float
    parts: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class Stated:
    """A fact, the messages that state it, and its match by words as a share of a perfect match."""

    text: str
    places: Sequence[MessagePlace]
    share: float = 0.0


def rank_found(found: FoundMessages, *, stated: Sequence[Stated] = (), key: SessionKey | None = None) -> list[Recalled]:
    """Combine the matches by words, facts and vectors into one list, best first.

    A message gains from a good passage around it. At ties this session comes first, then the later message.
    """
    shares = {i: fact.share for i, fact in enumerate(stated) if fact.share > 0}
    by_fact: dict[MessagePlace, float] = {}
    for i, share in shares.items():
        for place in stated[i].places:
            by_fact[place] = max(share, by_fact.get(place, 0.0))
    lexical = {place: found.said.get(place, 0.0) + by_fact.get(place, 0.0) for place in {**found.said, **by_fact}}
    by_words = min(1.0, max(lexical.values(), default=0.0) / _ANSWERED) ** _FALL if found.near else 1.0
    # what a statement in other words needs was often said once, in passing, between other subjects
    total = _with_passages(_fused(lexical, found.near, by_words) if found.near else lexical, weight=by_words)
    parts: dict[MessagePlace, dict[str, float]] = {place: {} for place in total}
    for name, part in (("message", found.said), ("fact", by_fact), ("vector", found.near)):
        for place, score in part.items():
            parts[place][name] = score
    own = key.session_id if key else None
    order = sorted([(-score, at.session_id != own, at.session_id, -at.seq, at) for at, score in total.items()])
    return [Recalled(place, total[place], parts[place]) for *_, place in order]


def relevant(
    question: str, ranked: Sequence[Recalled], found: FoundMessages, *, seen: Collection[MessagePlace]
) -> list[Recalled]:
    """Return the messages that match better than a random one, best first; none if the best may match by chance.

    The best, by words or by meaning, must be better than the best of as many random messages would be: a long statement
    shares some words with every conversation. By words it must also have some that few messages have together, or half
    of a question with specific words. Messages in sight (`seen`) are not counted: the question itself, if it is stored
    already, would match best of all.
    """
    specific = specific_terms(question)
    shares, mean, most, rarest = _shares_of_words(ranked, found, seen, specific)
    best = max(shares.values(), default=0.0)
    cosines = [cosine for place, cosine in found.near.items() if place not in seen]
    usual, nearest = _by_chance(cosines, count=max(found.count - len(seen), len(cosines)))
    by_words = best > 0 and best >= min(most, _ENOUGH)
    by_words = by_words and (rarest >= _PROOF or (best >= _ENOUGH and bool(specific)))
    if not by_words and not any(one.parts.get("vector", -1.0) > nearest for one in ranked):
        return []
    if len(found.near) < found.count:  # only the nearest were found
        usual = -1.0
    mean = min(mean, best / 2)  # in a short conversation, every message is beside the one that matches
    return [one for one in ranked if shares.get(one.place, 0.0) > mean or one.parts.get("vector", -1.0) > usual]


@cached_by_hash(4_096)
def is_small_talk(text: str) -> bool:
    """Return whether a message has only courtesies; a search may still find it, by its neighbours' words."""
    return all(map(_is_courtesy, sentences_of(text)))


def _is_courtesy(sentence: str) -> bool:
    language, bare = detect(sentence), ADDRESSED.sub("", sentence)
    polite = language.chit_chat
    if is_question(sentence) or not polite.search(sentence) or CONCRETE.search(sentence) or DATES.search(sentence):
        return False
    rest = set(content_words(polite.sub(" ", bare)))
    return not (rest & set(content_words(bare)) if language.is_spaced else rest)  # "감사합니다" leaves "니다"


def share_of_room(relevant: Sequence[Recalled], found: FoundMessages) -> float:
    """Return the share of the room that relevant messages may fill: all of it if the best is a good match by words.

    Of two messages with the same score, the shorter is the better match. If the best is half as good as a good match,
    they fill a quarter. With vectors, they may fill all of it: a message that says the same in other words is hardly
    nearer to the question than one about something else.
    """
    if not relevant or found.near or found.lengths is None:
        return float(bool(relevant))
    lengths = found.lengths[[found.rows[one.place] for one in relevant]]
    good = np.array([one.score for one in relevant]) * np.sqrt(_WINDOW / np.maximum(lengths, _WINDOW))
    return min(1.0, float(good.max()) / _GOOD) ** 2


@cached_text(64)  # a turn asks one question
def specific_terms(question: str) -> Mapping[str, float]:
    """Return the terms of a question's specific words, each with its share of its word."""
    # A word that most conversations have proves nothing, however rare it is in this one.
    found: dict[str, float] = {}
    words = content_words(question if detect(question).is_spaced else apart(question))
    for word in [word for word in words if not (word.isdigit() and len(word) < _NUMBER)] or words:
        terms = analyze(word)
        # most Chinese words have two characters, so each pair between common ones may be a whole word
        share = 1.0 if han_characters(word) else 1 / max(len(terms), 1)
        found |= {term: max(found.get(term, 0.0), share) for term in terms}
    return found


def _shares_of_words(
    ranked: Sequence[Recalled],
    found: FoundMessages,
    seen: Collection[MessagePlace],
    specific: Mapping[str, float],
) -> tuple[dict[MessagePlace, float], float, float, float]:
    """Return each message's match by words; a random one's, and the most of all by chance; and its rarest words."""
    # A message that has each word once scores 1, however long it is. By chance, words occur independently, each in as
    # many of the messages that are not in sight as it does.
    if found.often is None:
        return {}, 0.0, 0.0, 0.0
    rows = [found.rows[place] for place in seen if place in found.rows]
    count = max(found.count - len(rows), 1)
    places = [one.place for one in ranked if one.place in found.rows]
    often = found.often[[found.rows[place] for place in places]]
    saturated = often * (1 + _SATURATION) / (often + _SATURATION)
    in_sight = np.count_nonzero(found.often[rows], axis=0).tolist()
    held = [min(max(every - near, 0), count) for every, near in zip(found.held, in_sight, strict=True)]
    rarity = [
        weight * math.log((count + 1) / max(many, 1)) for weight, many in zip(found.words.values(), held, strict=True)
    ]
    asked = [at for at, weight in enumerate(found.words.values()) if weight == 1.0]  # the others are their alternatives
    whole = math.fsum(rarity[at] for at in asked) or 1.0
    shares = np.zeros(len(places))
    for weight, column in zip(rarity, saturated.T, strict=True):
        shares += weight * column / whole
    mean = variance = 0.0
    for at in asked:
        if counts := [value for value in saturated[:, at].tolist() if value]:
            chance = min(held[at] / count * math.fsum(counts) / len(counts), 1.0)
            mean += chance * rarity[at] / whole
            variance += chance * (1 - chance) * (rarity[at] / whole) ** 2
    by_place = dict(zip(places, shares.tolist(), strict=True))
    own = often[:, asked] >= 1  # a word beside a message counts half
    alone = np.maximum(np.array(held)[asked] * own.sum(axis=0) / np.maximum((often[:, asked] > 0).sum(axis=0), 1), 1)
    names = list(found.words)
    parts = np.array([specific.get(names[at], 0.0) for at in asked])
    rarest = (np.minimum(often[:, asked], 1) @ (parts * np.log((count + 1) / alone))).max(initial=0.0)
    rarest /= math.log(count + 1)
    most = NormalDist().inv_cdf(1 - _CHANCE / count)
    return by_place, mean, mean + math.sqrt(variance) * most, float(rarest)


def _by_chance(cosines: Sequence[float], *, count: int) -> tuple[float, float]:
    """Return the mean of cosines, and what the largest of `count` would be if they were normal."""
    if not cosines:
        return -1.0, math.inf
    mean, spread = _spread(cosines)
    return mean, mean + spread * _expected_maximum(count)


def _spread(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean of values and their standard deviation."""
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))


def _expected_maximum(count: int) -> float:
    """Return about how many standard deviations the largest of `count` normal values is above their mean."""
    return math.sqrt(2 * math.log(max(count, 1)))


def _with_passages(scores: Mapping[MessagePlace, float], *, weight: float) -> dict[MessagePlace, float]:
    """Raise each score by the best three nearby, the nearer the more, as far as `weight` (0 to 1) allows."""
    places = sorted(scores)
    ends = np.zeros(_PASSAGE, np.int64)
    values = np.array([scores[place] for place in places])
    sessions = {name: number * _APART for number, name in enumerate({place.session_id for place in places})}
    seqs = np.array([sessions[place.session_id] + place.seq for place in places], np.int64)
    # at most `_PASSAGE` messages on each side are within reach
    beside = np.arange(len(places))[:, None] + np.arange(2 * _PASSAGE + 1)
    distances = np.abs(np.concatenate((ends, seqs, ends))[beside] - seqs[:, None])
    fades = _FADES[np.minimum(distances, _PASSAGE + 1)]
    near = np.partition(np.concatenate((ends, values, ends))[beside] * fades, range(-_BEST, 0), axis=1)
    gained = weight * _PASSAGE_WEIGHT * near[:, : -_BEST - 1 : -1].sum(axis=1) / _BEST
    return dict(zip(places, (values + gained).tolist(), strict=True))


def _fused(
    words: Mapping[MessagePlace, float], near: Mapping[MessagePlace, float], by_words: float
) -> dict[MessagePlace, float]:
    """Sum shares and cosines in standard deviations above the mean of all found, so that the outlier comes first."""
    said = {place: words.get(place, 0.0) for place in {**words, **near}}
    credible = credibility(near, said, answered=min(1.0, max(said.values())))
    total = dict.fromkeys(said, 0.0)
    for scores, weight in ((said, _WORDS * by_words), (near, credible)):
        mean, spread = _spread(list(scores.values()))
        for place, score in scores.items():
            if spread > _ROUNDING and score > mean:
                total[place] += weight * (score - mean) / spread
    return total


def stated_anew(question: str, messages: Mapping[MessagePlace, Message]) -> list[Stated]:
    """Extract and score the facts of messages not extracted yet; otherwise the newest messages would rank too low."""
    read = [(fact.value, place) for place, message in messages.items() for fact in extract_facts([message])]
    shares = TextIndex(("", text) for text, _ in read).ranked(question).shares
    return [Stated(text, (place,), shares.get(i, 0.0)) for i, (text, place) in enumerate(read)]
