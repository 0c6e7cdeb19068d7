"""English sentences as clauses, and clauses as words and values."""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from arc_common.memory.long_term.claims_english_phrases import CONTRACTIONS, PHRASES, TAIL
from arc_common.memory.long_term.claims_english_words import (
    ATTRIBUTES,
    AUXILIARIES,
    FILLERS,
    MONTHS,
    PRONOUNS,
    SUBJECTS,
    VERBS,
)
from arc_common.memory.long_term.claims_kinds import KIND_OF_WORD, NUMBER_WORDS, UNITS, amount, clock
from arc_common.text import analyze
from arc_common.text.languages.english import BASE_FORMS
from arc_common.text.languages.language import word_set

__all__ = ["Word", "clauses_of", "words_of"]


@dataclass(frozen=True, slots=True)
class Word:
    """A word or a value of several words.

    Args:
        low: As it stands, folded, without space.
        stem: Its stem.
        value: For a value its kind and what it is ("clock=9:00").
        is_name: Whether it is written like a name.
    """

    low: str
    stem: str
    value: str = ""
    is_name: bool = False


_SAME = {
    "called": "named", "due": "deadline", "eater": "eat",
    "colour": "color", "favourite": "favorite", "preferred": "favorite", "email": "e-mail", "mail": "e-mail",
    "cell": "phone", "surname": "name", "begins": "start", "begin": "start",
    "departs": "leave", "depart": "leave",
    "flatmate": "roommate", "flatmates": "roommates", "flat": "apartment", "flats": "apartment",
    "tv": "television", "colours": "colors", "neighbour": "neighbor",
    "lives": "live", "goes": "go", "leaves": "leave", "gave": "give", "given": "give", "went": "go",
    "got": "get", "gotten": "get",
    "smoke": "cigarette", "smokes": "cigarette", "smoking": "cigarette", "smoker": "cigarette",
    "smoked": "cigarette", "left": "leave",
}  # fmt: skip
"""One spelling or form for what has several."""


_SPEAKER = re.compile(r"^(?:user|assistant)\s*:\s*", re.IGNORECASE)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_BREAK = re.compile(r"[,;:()–—]\s+(?:so\s|but\s|and\s)?|\s(?:so|but|because|although|while|whereas)\s|\s-\s")
_AND = re.compile(
    r"\sand\s(?=(?:now\s|then\s|also\s)?(?P<next>[a-zA-Z']+))(?P<subject>(?=[A-Z][a-z]+\s(?:is|are|has|will)\b|the\s(?:[\w-]+\s){1,3}(?:is|are|has|will)\b))?"
)
_SPELLED = "|".join(sorted((word for word in NUMBER_WORDS if word.isascii()), key=len, reverse=True))
_UNIT = "|".join(sorted((re.escape(unit) for unit in UNITS if unit.isascii() and unit != "%"), key=len, reverse=True))
_MONTH = (
    "|".join(sorted(set(MONTHS) - {"may", "march", "mar", "dec"}, key=len, reverse=True)) + "|(?-i:May|March|Mar|Dec)"
)
_NUMBER = rf"\d+(?:\.\d+)?|(?:{_SPELLED})(?![\w-])"
_TOKEN = re.compile(
    rf"""
    (?P<money>[$€£₩]\s?(?P<sum>\d+(?:\.\d+)?)(?P<k>k?)\b)
    | (?P<iso>\d{{4}}-\d\d-\d\d)
    | (?P<year>(?<=\bin\s)(?:19|20)\d\d\b|(?<=\buntil\s)(?:19|20)\d\d\b)
    | (?P<clock>\b(?P<hour>\d{{1,2}})(?::(?P<minute>\d\d))?\s?(?P<half>[ap]\.?m\b\.?)
        |\b(?P<hour2>\d{{1,2}}):(?P<minute2>\d\d)\b
        |\bnoon\b|\bmidnight\b)
    | (?P<date>\b(?:(?P<month>{_MONTH})\b\.?(?:\s(?:the\s)?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b(?!:))?
            (?:\s(?P<of_year>(?:19|20)\d\d)\b)?
        |(?P<day2>\d{{1,2}})(?:st|nd|rd|th)?\s(?:of\s)?(?P<month2>{_MONTH})\b))
    | (?P<code>\+?\d+(?:-\d+)+\b|\d{{7,}})
    | (?P<per>\b(?:an?|per|each|every)\s(?P<period>minute|hour|day|night|week|month|year|quarter)\b
        |(?<=\d)/\s?(?P<period2>month|mo|week|day|year|yr))
    | (?P<amount>(?P<rough>\b(?:about|around|roughly|almost|nearly|some|over|approximately)\s)?(?P<number>{_NUMBER})
        (?:st|nd|rd|th)?(?:(?:\s|-)?(?P<unit>{_UNIT})\b(?:\sold\b|\sof\sage\b|-old\b)?|\s?(?P<percent>%))?)
    | (?P<name>(?-i:(?<!^)\b[a-z]?[A-Z][\w'’&.+-]*(?:\s(?:[A-Z][\w'’&+-]*|\d+\b(?!\s[a-z])))*))
    | (?P<word>\w[\w'’.&+/@-]*)
    """,
    re.VERBOSE | re.IGNORECASE,
)


def clauses_of(sentence: str) -> list[str]:
    """The clauses of a sentence, contractions written out, without what says only when something happened."""
    text = unicodedata.normalize("NFKC", sentence).replace("’", "'").replace("‘", "'")
    text = _THOUSANDS.sub("", _SPEAKER.sub("", " ".join(text.split()))).strip(" .!;,")
    for pattern, full in CONTRACTIONS:
        text = pattern.sub(full, text)
    for pattern, short in PHRASES:
        text = pattern.sub(short, text)
    text = TAIL.sub(" ", text)
    clauses = []
    for part in _BREAK.split(text):
        start = 0
        for match in _AND.finditer(part):
            follower = match["next"].casefold()
            is_list = not any(map(_is_verb, part[start : match.start()].split()))
            if not is_list and (match["subject"] is not None or follower in _BEGINS or _is_finite(follower)):
                clauses.append(part[start : match.start()])
                start = match.end()
        clauses.append(part[start:])
    return [clause.strip() for clause in clauses if clause.strip()]


_BEGINS = word_set("i we he she they it my our now am is are was were have has do does will no want")


def _is_verb(word: str) -> bool:
    low = word.casefold()
    return low in AUXILIARIES or low in SUBJECTS or _is_finite(low)


def _is_finite(word: str) -> bool:
    stem = stem_of(word)
    return stem in VERBS and (word.endswith(("s", "ed")) or word in BASE_FORMS or word in _SAME or word == stem)


def words_of(clause: str, *, is_first: bool) -> list[Word]:
    """The words and values of a clause, in order."""
    words: list[Word] = []
    for match in _TOKEN.finditer(clause):
        words += _of(match, words, starts=is_first and match.start() == 0)
    return words


def _of(match: re.Match[str], before: list[Word], *, starts: bool) -> list[Word]:
    low = match[0].casefold().replace(" ", "")
    if match["money"]:
        number = float(match["sum"]) * (1000 if match["k"] else 1)
        return [Word(low, "", amount(number, "dollar" if low[0] == "$" else low[0]))]
    if match["year"]:
        return [Word(low, "", f"date=year {low}")]
    if match["iso"]:
        return [Word(low, "", f"date={match['iso']}")]
    if match["clock"]:
        if low in ("noon", "midnight"):
            return [Word(low, "", clock(12 if low == "noon" else 0, 0, "pm" if low == "noon" else "am"))]
        half = (match["half"] or "")[:1].casefold()
        hour, minute = match["hour"] or match["hour2"], match["minute"] or match["minute2"] or 0
        return [Word(low, "", clock(int(hour), int(minute), f"{half}m" if half else ""))]
    if match["date"]:
        month, day = match["month"] or match["month2"], match["day"] or match["day2"]
        value = f"date={MONTHS[month.casefold()]}"
        year = [Word(match["of_year"], "", f"date=year {match['of_year']}")] if match["of_year"] else []
        return [Word(low, "", value), *([Word(day, "", f"date=day {day}")] if day else []), *year]
    if match["code"]:
        return [Word(low, "", f"code={low}")]
    if match["per"]:
        return [Word(low, "", f"often=per {match['period'] or match['period2']}")]
    if match["amount"]:
        return [_amount(match, low, before)]
    if match["name"]:
        return _name(match["name"])
    word = low.rstrip(".'")
    if starts and word not in PRONOUNS and match["word"][0].isupper():
        return [Word(word, stem_of(word))]
    return [Word(word, stem_of(word), KIND_OF_WORD.get(word, ""))]


def _amount(match: re.Match[str], low: str, before: list[Word]) -> Word:
    spelled = match["number"].casefold()
    number = NUMBER_WORDS[spelled] if spelled in NUMBER_WORDS else float(spelled)
    unit = (match["unit"] or match["percent"] or "").casefold()
    if "old" in low or "ofage" in low or "year-" in low:
        unit = ""
    if spelled in ("once", "twice") or unit in ("time", "times"):
        return Word(low, "", f"often={number:g} times")
    last = before[-1].low if before else ""
    if not unit and last in ("at", "until", "by", "till", "around") and number in range(1, 25):
        return Word(low, "", clock(int(number)))
    moment = {"to": ("push", "mov", "postpon", "resched", "delay", "shift"), "for": ("set", "alarm", "schedul")}.get(
        last
    )
    if not unit and moment and number in range(1, 25) and any(w.low.startswith(moment) for w in before):
        return Word(low, "", clock(int(number)))
    if not unit and low.isdigit() and before and _is_numbered(before[-1]):
        return Word(low, low)
    return Word(low, "", amount(number, unit, rough=match["rough"] is not None))


def _is_numbered(word: Word) -> bool:
    """Whether a number behind the word is one of its names: "order 12", but "size 9"."""
    is_thing = bool(word.stem) and not word.value and word.stem not in VERBS
    return is_thing and word.low not in FILLERS | PRONOUNS | AUXILIARIES | ATTRIBUTES


def _name(text: str) -> list[Word]:
    words = []
    for part in text.split():
        low = part.casefold().rstrip(".,'")
        low = low.removesuffix("'s") if low.endswith("'s") else low
        if low in PRONOUNS or low == "i":
            words.append(Word(low, low))
        elif " " not in text and (value := KIND_OF_WORD.get(low, "")):
            words.append(Word(low, stem_of(low), value))
        else:
            words.append(Word(part.casefold().rstrip(".,"), stem_of(low), is_name=True))
    return words


@lru_cache(4096)
def stem_of(word: str) -> str:
    """The stem of a word, spelled in one way; an e-mail address has none shorter than itself."""
    return word if "@" in word else "".join(analyze(_SAME.get(word, word))[-1:])
