"""What Korean statements claim about things that have one value at a time."""

import re
import unicodedata
from collections.abc import Iterator

from arc_common.memory.rules.claims import Claim, plain, polar, value_of
from arc_common.memory.rules.claims_korean_patterns import (
    AFFINITY,
    AMOUNT,
    ATTRIBUTE,
    CARRIED,
    CHANGED,
    COUNT,
    DOES,
    DONE,
    ENDING,
    FRAME,
    GIVEN_AWAY,
    HAS,
    HEADS,
    IDENTITY,
    IN_LANGUAGE,
    INTENDED,
    LOCATED,
    MANNERS,
    MANY,
    MARRIED,
    MOST_WORDS,
    NEGATION,
    NO_EMPLOYER,
    NUMBER,
    PAST,
    PEOPLE,
    RATHER,
    SAME,
    SLOTS,
    SPEAKER,
    STATE,
    SUPERLATIVE,
    TIMES,
    TOPIC,
    USER,
    WORD,
)
from arc_common.memory.rules.vocabulary import strip_particles

__all__ = ["claims_of", "is_negated"]


def is_negated(text: str) -> bool:
    """Whether the text denies something."""
    return any("가" <= character <= "힣" for character in text) and NEGATION.search(plain(text)) is not None


def claims_of(sentence: str) -> Iterator[Claim]:
    """What a Korean sentence claims."""
    text = SPEAKER.sub("", plain(sentence))
    if PAST.search(text):
        return
    negated = NEGATION.search(text) is not None
    owner, rest = _topic(text)
    rest = " ".join(TIMES.sub(" ", rest).split())
    if not negated:
        yield from _slots(owner, rest)
        yield from _attributes(" ".join(TIMES.sub(" ", text).split()))
        yield from _choices(owner, rest)
    yield from _polarity(owner, rest, negated=negated)


def _topic(text: str) -> tuple[str, str]:
    """Whom a sentence is about, "user" if it names nobody else, and what it says."""
    match = TOPIC.match(text)
    if match is None:
        return "user", text
    words = [re.sub(r"의$", "", word) for word in match["owner"].split() if word not in USER]
    is_thing = bool(words) and match["particle"] in ("이", "가") and not PEOPLE.search(words[-1])
    if is_thing or (re.search(rf"(?:{HEADS})$", match["owner"]) and not (words and PEOPLE.search(words[-1]))):
        return "user", text
    return " ".join(words) or "user", match["rest"]


def _slots(owner: str, rest: str) -> Iterator[Claim]:
    intended = INTENDED.search(rest) is not None
    for slot, pattern in SLOTS:
        if (intended and slot in MANNERS) or not (match := pattern.search(rest)):
            continue
        value = _value(match["value"])
        if not value or (slot == "employer" and any(map(NO_EMPLOYER.search, value))):
            continue
        yield Claim(f"{owner}|{slot}", value)
    if not intended:
        for state, pattern in MARRIED:
            if pattern.search(rest):
                yield Claim(f"{owner}|marital", value_of([state]))
                break


def _attributes(text: str) -> Iterator[Claim]:
    """What something that there is one of is said to be, and where it is."""
    if (match := LOCATED.match(text) or CARRIED.match(text)) and match["what"].split()[-1] not in USER:
        what = " ".join(word for word in match["what"].split() if word not in USER)
        yield Claim(f"{strip_particles(what)}|residence", _value(match["value"]))
    if (match := IDENTITY.match(text)) and not MANY.search(match["topic"]):
        yield Claim(f"{strip_particles(match['topic'])}|identity", _value(match["value"]))
    if (match := FRAME.match(text)) and not DONE.search(text) and match["topic"].split()[-1] not in USER:
        frame = sorted(_words(AMOUNT.sub("", match["rest"])))
        yield Claim(f"amount {match['topic']} {' '.join(frame)}", value_of(AMOUNT.findall(match["rest"])))
    if match := ATTRIBUTE.match(text) or CHANGED.match(text):
        about = [re.sub(r"(?:의|가|이|은|는|을|를)$", "", word) for word in match["about"].split() if word not in USER]
        about = [word for word in about if word and word not in USER]
        value = _value(match["value"])
        if 0 < len(value) <= MOST_WORDS:
            yield Claim(f"user|{' '.join(sorted([*about, SAME.get(match['head'], match['head'])]))}", value)


def _choices(owner: str, rest: str) -> Iterator[Claim]:
    """Which of several that exclude each other somebody prefers, and how many of something there are."""
    if match := RATHER.match(rest):
        both = " ".join(sorted(map(strip_particles, f"{match['other']} {match['value']}".split())))
        yield Claim(f"{owner}|rather {both}", _value(match["value"]))
    if match := IN_LANGUAGE.match(rest):
        yield Claim(f"{owner}|language of {strip_particles(match['what'].split()[-1])}", value_of([match["value"]]))
    if match := COUNT.match(rest):
        number = NUMBER.get(match["value"], match["value"])
        yield Claim(f"{owner}|count of {strip_particles(match['what'])}", value_of([number]))


def _polarity(owner: str, rest: str, *, negated: bool) -> Iterator[Claim]:
    """That something is so, or that it isn't."""
    if SUPERLATIVE not in rest and (match := AFFINITY.match(rest)):
        words = _words(match["object"])
        yield from polar(f"{owner}|takes to", words[::-1] if negated else words, denied=negated)
        if GIVEN_AWAY.search(rest):
            yield Claim(f"{owner}|is {' '.join(sorted(words))}", frozenset(words), denied=True)
    elif (match := DOES.match(rest)) and not DONE.search(match["verb"]) and not INTENDED.search(rest):
        words = _words(match["object"])
        begins = unicodedata.normalize("NFD", match["verb"])[:2]  # its stem changes, but not how it begins
        yield from polar(f"{owner}|does {begins}", words[::-1] if negated else words, denied=negated)
    if match := HAS.match(rest) or STATE.match(rest):
        words = _words(match["what"])
        yield Claim(f"{owner}|is {' '.join(sorted(words))}", frozenset(words), denied=negated)


def _words(text: str) -> list[str]:
    return [strip_particles(word) for word in WORD.findall(text)]


def _value(text: str) -> frozenset[str]:
    words = [word.rstrip(".:/-") for word in WORD.findall(text)]
    return value_of(_bare(word) for word in words if word not in USER)


def _bare(word: str) -> str:
    shorter = ENDING.sub("", word)
    return shorter if len(shorter) > 1 else word
