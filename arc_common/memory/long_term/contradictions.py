"""Decides which statements end others: by another value of a single-valued attribute, or by words of change."""

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from threading import Lock

from arc_common.caches import LRUCache, cached_text, text_hash
from arc_common.facts import IN_REPLY
from arc_common.observability import Observer, guarded_observer
from arc_common.protocols import ContradictionDetector
from arc_common.text.analyzer import is_common, stem
from arc_common.text.languages.language import Language
from arc_common.text.languages.registry import CONCRETE, detect, with_other_scripts
from arc_common.text.sentences import sentences_of

_log = logging.getLogger("arc.memory")

_SENTENCES = 4
"""The most sentences of a text that are read; a memory has one or two."""

_LONGEST = 300
"""The most characters of a sentence that is read; longer ones vary too much to be compared."""

_VERDICTS = 4_096

_VALUE = re.compile(
    r"(?P<email>[\w.+-]+@[\w.-]+\w)|(?P<money>[$€£¥₩]\s?\d[\d,.]*\d?|\d[\d,.]*\s?(?:(?:[천만억千万億]\s?)?[$€£¥₩원円元]|(?i:dollar|euro|pound)s?\b))"
    r"|(?P<time>\d{1,2}:\d\d(?:\s?[ap]\.?m\b)?|\d{1,2}\s?[ap]\.?m\b|\d{1,2}\s?[시時点](?!간))"
    r"|(?P<code>(?=[\w-]*\d)(?=[\w-]*[A-Za-z]{2}|[\w-]*\d-\d)[A-Za-z]*\s?[\w-]{3,})|(?P<date>\d{1,2}(?:st|nd|rd|th)\b|\d{1,2}\s?[일日号])"
    r"|(?P<number>\d+(?:[.,]\d+)*)"
)
_SPECIFIC = 3
"""The fewest digits of a number that is replaced and tells by itself what is meant."""
_DAYS = frozenset({"month", "date"})
_WORD = re.compile(r"[^\W\d_]+(?:[-'][^\W\d_]+)*")
_TWELVE = re.compile(r"(\d+)(?::(\d\d))?\s?([ap])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The content of a sentence, for comparison."""

    slots: dict[str, frozenset[str]]  # the value of each single-valued attribute, by its name, owner and kind of value
    about: frozenset[str]  # the stems of its words, without values and words of change
    values: dict[str, frozenset[str]]  # by kind: times, dates, money, codes, other numbers
    changes: bool  # it has words of change
    ends: bool  # it denies or ends something
    is_past: bool  # it puts something into the past or beside another
    owner: str  # the stem of the speaker's relation or belonging it begins with: "brother" of "My brother plays"
    held: tuple[frozenset[str], ...]  # the stems of each relation's value: "bosch" of "I work at Bosch as a nurse"
    named: tuple[frozenset[str], frozenset[str]] | None  # "boss" and "anna" of "My boss is Anna"
    replaced: tuple[dict[str, frozenset[str]], frozenset[str]] | None  # values and words behind "instead of"
    leaves: bool  # it ends something by a verb: "quit", "cancelled"
    is_part: bool = False  # it is only a part of a sentence: "I now work at Siemens"


class Contradictions:
    """Decides whether statements contradict each other, for facts and memories alike."""

    def __init__(self, detector: ContradictionDetector | None = None, *, observer: Observer | None = None) -> None:
        self.detector = detector
        self._observer = guarded_observer(observer)
        self._verdicts: LRUCache[tuple[int, int], bool] = LRUCache(_VERDICTS)  # keyed by hashes: it must not keep texts
        self._lock = Lock()

    def contradicts(self, statement: str, earlier: str) -> bool:
        """Return whether a statement ends an earlier one."""
        return self.contradicted(statement, [earlier])[0]

    def contradicted(self, statement: str, earlier: Sequence[str]) -> list[bool]:
        """Return for each earlier statement whether a statement ends it."""
        if self.detector is None:
            return [contradicts(statement, one) for one in earlier]
        with self._lock:
            known = {one: self._verdicts[pair] for one in earlier if (pair := _pair(statement, one)) in self._verdicts}
        if asked := [one for one in dict.fromkeys(earlier) if one not in known]:
            verdicts = self._asked(self.detector, statement, asked)
            known |= zip(asked, verdicts, strict=True)
            with self._lock:
                self._verdicts.update((_pair(statement, one), said) for one, said in zip(asked, verdicts, strict=True))
        return [known[one] for one in earlier]

    def may_end(self, statement: str) -> bool:
        """Return whether a statement can contradict an earlier one."""
        return self.detector is not None or may_end(statement)

    def _asked(self, detector: ContradictionDetector, statement: str, earlier: Sequence[str]) -> list[bool]:
        try:
            verdicts = [bool(verdict) for verdict in detector.contradicts(statement, earlier)]
            if len(verdicts) != len(earlier):
                raise ValueError(f"{len(verdicts)} verdicts for {len(earlier)} statements")  # noqa: TRY301 - one way to fail
        except Exception:  # noqa: BLE001 - a user's detector may raise anything
            _log.warning("the contradiction detector failed: rules decide in its place", exc_info=True)
            self._observer.count("memory.contradictions.errors")
            return [contradicts(statement, one) for one in earlier]
        return verdicts


def _pair(statement: str, earlier: str) -> tuple[int, int]:
    return text_hash(statement), text_hash(earlier)


def contradicts(later: str, earlier: str) -> bool:
    """Return whether the words of a later text end an earlier one."""
    return conflict(readings_of(later), readings_of(earlier))


def conflict(later: Sequence[Reading], earlier: Sequence[Reading]) -> bool:
    """Return whether a later text, as read, ends an earlier one; a part of a sentence can end one, but not be ended."""
    return any(_ends(ours, theirs) for theirs in earlier if not theirs.is_part for ours in later)


def may_end(text: str) -> bool:
    """Return whether a text can end an earlier one: by an attribute's value, words of change, or a denial."""
    return any(one.slots or one.changes or one.ends for one in readings_of(text))


def slot_of(text: str) -> str:
    """Return the name of the first attribute with one value that a text gives; `""` if it gives none."""
    return next((slot for one in readings_of(text) for slot in one.slots), "")


def is_negated(text: str) -> bool:
    """Return whether the words of a text deny or end something."""
    plain = _plain(text)
    return any(language.denying.search(plain) for language in with_other_scripts(detect(text)))


def is_changed(text: str) -> bool:
    """Return whether the words of a text say that something has changed."""
    return detect(text).changing.search(_plain(text)) is not None


def follows_up(later: str, earlier: str) -> bool:
    """Return whether a later text changes a value without naming its attribute: "We changed it to 10 August"."""
    return any(
        ours.changes and not ours.about and not ours.slots and ours.values.keys() & theirs.values.keys()
        for ours in readings_of(later)
        for theirs in readings_of(earlier)
    )


def _ends(later: Reading, earlier: Reading) -> bool:
    for slot, value in later.slots.items():
        held = earlier.slots.get(slot)
        if held is not None and not (value <= held or held <= value):
            return True
    if later.replaced is not None and _replaces(later, later.replaced, earlier):
        return True
    if later.changes and later.named and earlier.named and later.named[0] == earlier.named[0]:
        return not (later.named[1] <= earlier.named[1] or earlier.named[1] <= later.named[1])
    if not later.about or not earlier.about or (later.ends and earlier.ends):
        return False
    if later.ends != earlier.ends:
        over, said = (later, earlier) if later.ends else (earlier, later)
        is_others = said.owner and said.owner != over.owner and said.owner not in over.about
        if earlier.is_past or (over is earlier and not later.changes) or is_others:
            return False
        is_about = over.about <= said.about if len(over.about) > 1 else over.about == said.about
        is_left = over.leaves and over.about in said.held
        left = _DAYS if over.leaves else frozenset()  # "I quit Bosch in May": the day may be that of leaving
        return (is_about or is_left) and all(
            value <= said.values.get(kind, value if kind in left else frozenset())
            for kind, value in over.values.items()
        )
    is_same = later.about == earlier.about if later.is_part else later.about <= earlier.about
    if later.changes and (is_same or earlier.about <= later.about):
        return any(later.values[kind] != earlier.values[kind] for kind in later.values.keys() & earlier.values.keys())
    return False


def _replaces(later: Reading, replaced: tuple[dict[str, frozenset[str]], frozenset[str]], earlier: Reading) -> bool:
    """Return whether an earlier statement says the same of what a later one replaces, or gives it as a value."""
    values, words = replaced
    if not (words or values) or not words <= earlier.about or earlier.is_past:
        return False
    if not frozenset().union(*values.values()) <= frozenset().union(*earlier.values.values()):
        return False
    rest = earlier.about - words
    if not words:  # "We can go up to 5,500 instead of 4,000" after "Our budget is 4,000"
        old = [value for kind, value in values.items() if kind != "number" or max(map(len, value)) >= _SPECIFIC]
        return any(value <= given for value in old for given in earlier.slots.values())
    return bool(rest or later.leaves) and rest <= later.about


@cached_text(2_048)
def readings_of(text: str) -> tuple[Reading, ...]:
    """Read the sentences of a text for comparison. Deterministic, in time linear in the text."""
    found = []
    for sentence in sentences_of(text.partition(IN_REPLY)[0])[:_SENTENCES]:
        language = detect(sentence)
        plain = _plain(sentence).strip(" .!。")
        is_wish = language.wanting.search(plain) and not language.forbidding.search(plain)
        is_unreal = language.supposition.search(plain) or is_wish
        if len(sentence) <= _LONGEST and "?" not in sentence and not is_unreal:
            whole = _read(plain, language)
            parts = [replace(_read(part, language), is_part=True) for part in _parts(plain, language)]
            found += [whole, *(replace(part, slots={}) if whole.is_past else part for part in parts)]
    return tuple(found)


def _parts(plain: str, language: Language) -> list[str]:
    """Return the statements about the speaker that a sentence joins: "I quit Bosch", "I now work at Siemens"."""
    speaker = language.oneself.match(plain)
    is_own = speaker is not None and _is_pronoun(speaker[0], language)
    if not is_own and (speaker is not None or language.script == "latin" or language.subject.match(plain)):
        return []
    parts = [part.strip() for part in language.parting.split(plain)]
    if len(parts) == 1 or language.condition.search(plain):
        return []
    return [part for part in parts if part and not language.chit_chat.search(part)]  # "I'm not sure about the budget"


def _plain(text: str) -> str:
    return text.replace("’", "'")


def _read(plain: str, language: Language) -> Reading:
    replaced = language.replacing.search(plain)
    said = plain if replaced is None else f"{plain[: replaced.start()]} {plain[replaced.end() :]}"
    changes = language.changing.search(said) is not None
    old = None if replaced is None else _values(next(filter(None, replaced.groups()), ""), language)
    without = language.denying.sub(" ", language.changing.sub(" ", said))
    values, about = _values(without, language)
    is_past = language.adding.search(plain) is not None and not changes
    is_unsure = is_past or language.condition.search(plain) is not None
    slots, held = ({}, ()) if is_unsure else _slots(said, language)
    if named := _named(plain, language):
        held += (named[1],)
    if having := language.having.match(plain):
        _, thing = _values(having[1], language)
        held += (thing, _values(having[1].rpartition(" ")[2], language)[1])
    if not language.subject.match(plain):  # "담배를 피워요": the object, without the verb
        held += (frozenset(word for word in about if not word.startswith("~")),)
    return Reading(
        slots=slots,
        about=about,
        values=values,
        changes=changes,
        ends=language.denying.search(said) is not None,
        is_past=is_past,
        owner=_owner(without, language),
        held=held,
        named=named,
        replaced=old,
        leaves=language.leaving.search(plain) is not None,
    )


def _is_pronoun(word: str, language: Language) -> bool:
    return stem(re.split(r"['\s]", word.casefold())[0], language) in language.pronouns


def _owner(plain: str, language: Language) -> str:
    """Return the stem of the noun in "My brother plays"; `""` for any other sentence."""
    if relative := language.relatives.search(plain):
        return str(relative[0])
    speaker = language.oneself.match(plain)
    if speaker is None or _is_pronoun(speaker[0], language):
        return ""
    words = _WORD.findall(plain[speaker.end() :].casefold())
    return next((stem(word, language) for word in words if not is_common(word, language)), "")


def _named(plain: str, language: Language) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return the stems of a subject and of its name: "boss" and "anna" of "My boss is Anna" or "Anna is my boss".

    "@" is among a subject's stems if its name is that of a place, as in "Our office is in Berlin".
    """
    match = language.naming.search(plain)
    if match is None:
        return None
    groups = {name.rstrip("2"): group for name, group in match.groupdict().items() if group}
    (_, subject), (values, name) = (_values(groups[part], language) for part in ("name", "value"))
    if values or not name or subject <= language.speaker:
        return None
    return (subject | {"@"} if "place" in groups else subject), name


def _slots(plain: str, language: Language) -> tuple[dict[str, frozenset[str]], tuple[frozenset[str], ...]]:
    """Return the values of single-valued attributes, and the stems of those that relations have."""
    slots: dict[str, frozenset[str]] = {}
    held: list[frozenset[str]] = []
    for attribute, pattern in language.relations.items():
        if match := pattern.search(plain):
            *named, value = filter(None, match.groups())
            before = language.changing.sub(" ", language.oneself.sub(" ", plain[: match.start()]))
            _, owner = _values(" ".join([before, *named]), language)
            is_others = plain[:1].isupper() and not language.oneself.match(plain)
            if not owner or named or is_others:  # one may have several sisters
                slots[f"{attribute} of {' '.join(sorted(owner))}"] = frozenset(value.casefold().split())
                held.append(_values(value, language)[1])
    slots.update(_attribute(plain, language))
    return slots, tuple(held)


def _attribute(plain: str, language: Language) -> Iterator[tuple[str, frozenset[str]]]:
    if match := language.attribute.search(plain):
        groups = [group for group in match.groups() if group]
        _, name = _values(language.changing.sub(" ", groups[0]), language)
        values, words = _values(language.changing.sub(" ", groups[-1]), language)
        about = " ".join(sorted(name))
        is_word = bool(about and words) and not values and not language.denying.search(groups[-1])
        if is_word and _is_name(groups[-1], language):
            yield f"{about}: word", words
        for kind, value in values.items():
            yield f"{about}: {kind}", value


def _is_name(value: str, language: Language) -> bool:
    """Return whether a value is a name or concrete, not an adjective ("my budget is tight") or a whole clause."""
    return value[:1].isupper() or not language.is_spaced or CONCRETE.search(value) is not None


def _values(text: str, language: Language) -> tuple[dict[str, frozenset[str]], frozenset[str]]:
    """Return the values of a text by kind, and the stems of its other words."""
    values: dict[str, set[str]] = {}
    for match in _VALUE.finditer(text):
        kind = match.lastgroup or ""
        values.setdefault(kind, set()).add(_normal(match[0], kind))
    rest = _VALUE.sub(" ", text).casefold()
    dates = _dates(language)
    for name in dates.findall(rest):
        kind, _, value = language.dates[name].partition("=")
        if kind == "month" and (days := values.pop("number", None)):  # "9 August"
            values.setdefault("date", set()).update(days)
        values.setdefault(kind, set()).add(value)
    rest = dates.sub(" ", rest)
    if not language.is_spaced:
        runs = language.particles.split(rest)
        pairs = frozenset(run[place : place + 2] for run in runs for place in range(max(1, len(run) - 1)) if run)
        return {kind: frozenset(found) for kind, found in values.items()}, pairs
    words = (word.removesuffix("'s") for word in _WORD.findall(rest))
    stems = frozenset(stem(word, language) for word in words if not is_common(word, language))
    return {kind: frozenset(found) for kind, found in values.items()}, stems


@cache
def _dates(language: Language) -> re.Pattern[str]:
    names = "|".join(sorted(map(re.escape, language.dates), key=len, reverse=True)) or "(?!)"
    return re.compile(rf"\b(?:{names})\b" if language.script == "latin" else names)


def _normal(value: str, kind: str) -> str:
    """Return a value as it is compared: "3 pm" and "3:00pm" are one time."""
    value = value.casefold().replace(" ", "").replace(",", "")
    if kind == "money":
        return re.sub(r"[^\d.천만억千万億]", "", value)
    if kind == "time" and (clock := _TWELVE.match(value)):
        return f"{int(clock[1]) % 12}:{clock[2] or '00'}"
    return re.sub(r"(?<=\d)(?:st|nd|rd|th|일|日|号)$", "", value) if kind == "date" else value
