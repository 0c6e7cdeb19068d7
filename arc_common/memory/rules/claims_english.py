"""What English statements claim about things that have one value at a time."""

import re
from collections.abc import Iterator
from functools import lru_cache

from arc_common.memory.rules.claims import Claim, plain, polar, value_of
from arc_common.memory.rules.claims_english_patterns import (
    AFFINITY,
    AMOUNT,
    ATTRIBUTE,
    AUXILIARY,
    CHANGED,
    COUNT,
    FRAME,
    FUNCTION_WORDS,
    HAS,
    HEADS,
    IDENTITY,
    IN_LANGUAGE,
    INTENDED,
    KIND,
    LOCATED,
    MANNERS,
    MANY,
    MOST_WORDS,
    NAMED,
    NEGATION,
    NO_EMPLOYERS,
    NUMBER_WORDS,
    PAST,
    PAYS,
    PLACE,
    RATHER,
    SAME,
    SLOTS,
    SPEAKER,
    STOP_WORDS,
    SWITCHED,
    TIMES,
    USER,
    WORD,
)
from arc_common.text import analyze

__all__ = ["claims_of", "is_negated"]


def is_negated(text: str) -> bool:
    """Whether the text denies something."""
    return NEGATION.search(plain(text)) is not None


def claims_of(sentence: str) -> Iterator[Claim]:
    """What an English sentence claims."""
    text = SPEAKER.sub("", plain(sentence))
    if PAST.search(text):
        return
    negated = NEGATION.search(text) is not None
    if not negated:
        yield from _slots(text)
        yield from _attributes(text)
        yield from _identity(sentence)
        yield from _choices(text)
    yield from _polarity(text, negated=negated)


def _slots(text: str) -> Iterator[Claim]:
    intended = INTENDED.search(text) is not None
    if not intended and (match := PLACE.match(text)) and not _is_event(match["subject"]):
        yield Claim(f"{_owner(match['subject'])}|residence", _value(match["value"]))
    for slot, pattern in SLOTS:
        if (intended and slot in MANNERS) or not (match := pattern.match(text)):
            continue
        value = _value(match["value"])
        if slot == "employer" and (not value or value & NO_EMPLOYERS or match["value"][0].isdigit()):
            continue
        yield Claim(f"{_owner(match['subject'])}|{slot}", value)


def _attributes(text: str) -> Iterator[Claim]:
    """What something that there is one of is said to be."""
    if match := ATTRIBUTE.match(text) or CHANGED.match(text):
        named = match.groupdict()
        words = f"{named['modifier']} {named['head']} {named['of'] or ''}".split()
        about = sorted({_stem(word) for word in words if word not in STOP_WORDS and word not in USER})
        value = _value(match["value"])
        if 0 < len(value) <= MOST_WORDS and about:
            yield Claim(f"{_owner(named.get('owner') or '')}|{' '.join(about)}", value)
    if (match := LOCATED.match(text)) and (owner := _owner(match["subject"])) != "user":
        yield Claim(f"{owner}|residence", _value(match["value"]))
    if (match := FRAME.match(_with_digits(TIMES.sub("", text)))) and not match["rest"].startswith("a "):
        frame = _stems_of(f"{match['subject']} {match['verb']} {AMOUNT.sub(' ', match['rest'])}")
        yield Claim(f"amount {frame}", value_of(AMOUNT.findall(match["rest"])))
    if match := NAMED.match(text):
        yield Claim(f"{_owner(match['owner'])}|name of {_stem(match['what'])}", _value(match["value"]))
    if match := COUNT.match(text):
        yield Claim(f"{_owner(match['subject'])}|count of {_stems_of(match['what'])}", _value(match["value"]))
    if match := PAYS.match(text):
        yield Claim(f"{_owner(match['subject'])}|pays {_stems_of(match['what'])}", _value(match["value"]))


def _identity(sentence: str) -> Iterator[Claim]:
    """Who or what something that there is one of is: "User's dentist is Dr. Kim"."""
    match = IDENTITY.match(sentence.strip())
    if match and match["what"].split()[-1] not in MANY:
        yield Claim(f"user|{_stems_of(match['what'])}", _value(plain(match["value"])))


def _with_digits(text: str) -> str:
    """The text with its numbers in figures."""
    return " ".join(NUMBER_WORDS.get(word, word) for word in text.split())


def _choices(text: str) -> Iterator[Claim]:
    """Which of several that exclude each other somebody prefers."""
    if match := RATHER.match(text):
        both = _stems_of(f"{match['value']} {match['other']}")
        yield Claim(f"{_owner(match['subject'])}|rather {both}", _value(match["value"]))
    if match := IN_LANGUAGE.match(text):
        yield Claim(f"{_owner(match['subject'])}|language of {_stems_of(match['what'])}", _value(match["value"]))
    if match := KIND.match(text):
        slot = f"kind of {_stem(match['what'])} {_stems_of(match['rest'])}"
        yield Claim(f"{_owner(match['subject'])}|{slot}", _value(match["value"]))


def _polarity(text: str, *, negated: bool) -> Iterator[Claim]:
    """That something is so, or that it isn't."""
    if match := SWITCHED.match(text):
        owner = _owner(match["subject"])
        yield from polar(f"{owner}|takes to", _stems(match["value"]), denied=True)
        yield from polar(f"{owner}|takes to", _stems(match["other"]), denied=False)
        return
    for name, pattern in (("takes to", AFFINITY), ("has", HAS)):
        if match := pattern.match(text):
            yield from polar(f"{_owner(match['subject'])}|{name}", _stems(match["object"]), denied=negated)
    words = _stems_of(FUNCTION_WORDS.sub(" ", TIMES.sub(" ", text)))
    if 0 < len(words.split()) <= MOST_WORDS:
        yield Claim(f"says {words}", value_of(["no" if negated else "yes"]))


def _is_event(subject: str) -> bool:
    """Whether what moves is an appointment rather than somebody."""
    return re.search(rf"\b(?:{HEADS})\s*(?:was|has been|is|got|has)?\s*$", subject.strip()) is not None


def _owner(subject: str) -> str:
    """Whose: "user" for all who can be the user, else the words that name somebody or something else."""
    words = [re.sub(r"'s?$", "", word) for word in re.findall(r"[\w'-]+", subject)]
    return " ".join(word for word in words if word not in USER and word not in AUXILIARY) or "user"


def _value(text: str) -> frozenset[str]:
    words = (found.rstrip(".:/-") for found in WORD.findall(text))
    return value_of(NUMBER_WORDS.get(word, SAME.get(word, word)) for word in words if word and word not in STOP_WORDS)


def _stems(text: str) -> list[str]:
    """The stems of the words that say something, in their order."""
    words = (found.rstrip(".:/-") for found in WORD.findall(text))
    return [_stem(word) for word in words if word and word not in STOP_WORDS]


def _stems_of(text: str) -> str:
    """The stems of the words that say something, in order of the alphabet."""
    return " ".join(sorted(_stems(text)))


@lru_cache(4096)
def _stem(word: str) -> str:
    return "".join(analyze(SAME.get(word, word)))
