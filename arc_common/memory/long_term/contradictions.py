"""Decides which statements end others: by another value of a single-valued attribute, or by words of change."""

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
    r"(?P<email>[\w.+-]+@[\w.-]+\w)|(?P<money>[$€£¥₩]\s?\d[\d,.]*\d?|\d[\d,.]*\s?(?:[$€£¥₩원円元]|[만억]\s?원))"
    r"|(?P<time>\d{1,2}:\d\d(?:\s?[ap]\.?m\b)?|\d{1,2}\s?[ap]\.?m\b|\d{1,2}\s?[시時点](?!간))"
    r"|(?P<code>(?=[\w-]*\d)(?=[\w-]*[A-Za-z]{2}|[\w-]*\d-\d)[A-Za-z]*\s?[\w-]{3,})|(?P<date>\d{1,2}(?:st|nd|rd|th)\b|\d{1,2}\s?[일日号])"
    r"|(?P<number>\d+(?:[.,]\d+)*)"
)
_WORD = re.compile(r"[^\W\d_]+(?:[-'][^\W\d_]+)*")
_TWELVE = re.compile(r"(\d+)(?::(\d\d))?\s?([ap])?")


@dataclass(frozen=True, slots=True)
class Reading:
    """The content of a sentence, for comparison."""

    slots: dict[str, frozenset[str]]  # the value of each single-valued attribute, by its name, owner and kind of value
    about: frozenset[str]  # the stems of its words, without values and words of change
    values: dict[str, frozenset[str]]  # by kind: times, dates, money, codes, other numbers
    changes: bool  # it has words of change
    ends: bool  # it denies or ends something
    is_past: bool  # it puts something into the past or beside another
    owner: str  # the stem of the speaker's relation or belonging it begins with: "brother" of "My brother plays"


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
    """Return whether a later text, as read, ends an earlier one."""
    return any(_ends(ours, theirs) for ours in later for theirs in earlier)


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
    if not later.about or not earlier.about or (later.ends and earlier.ends):
        return False
    if later.ends != earlier.ends:
        over, said = (later, earlier) if later.ends else (earlier, later)
        if earlier.is_past or (over is earlier and not later.changes) or (said.owner and said.owner not in over.about):
            return False
        is_about = over.about <= said.about if len(over.about) > 1 else over.about == said.about
        return is_about and all(value <= said.values.get(kind, frozenset()) for kind, value in over.values.items())
    if later.changes and (later.about <= earlier.about or earlier.about <= later.about):
        return any(later.values[kind] != earlier.values[kind] for kind in later.values.keys() & earlier.values.keys())
    return False


@cached_text(2_048)
def readings_of(text: str) -> tuple[Reading, ...]:
    """Read the sentences of a text for comparison. Deterministic, in time linear in the text."""
    found = []
    for sentence in sentences_of(text.partition(IN_REPLY)[0])[:_SENTENCES]:
        language = detect(sentence)
        plain = _plain(sentence).strip(" .!。")
        is_unreal = language.supposition.search(plain) or language.wanting.search(plain)
        if len(sentence) <= _LONGEST and "?" not in sentence and not is_unreal:
            found.append(_read(plain, language))
    return tuple(found)


def _plain(text: str) -> str:
    return text.replace("’", "'")


def _read(plain: str, language: Language) -> Reading:
    changes = language.changing.search(plain) is not None
    ends = language.denying.search(plain) is not None
    without = language.denying.sub(" ", language.changing.sub(" ", plain))
    values, about = _values(without, language)
    is_past = language.adding.search(plain) is not None and not changes
    slots = {} if is_past or language.condition.search(plain) else dict(_slots(plain, language))
    return Reading(slots, about, values, changes, ends, is_past, _owner(without, language))


def _owner(plain: str, language: Language) -> str:
    """Return the stem of the noun in "My brother plays"; `""` for any other sentence."""
    speaker = language.oneself.match(plain)
    if speaker is None or stem(speaker[0].casefold(), language) in language.speaker:
        return ""
    words = _WORD.findall(plain[speaker.end() :].casefold())
    return next((stem(word, language) for word in words if not is_common(word, language)), "")


def _slots(plain: str, language: Language) -> Iterator[tuple[str, frozenset[str]]]:
    for attribute, pattern in language.relations.items():
        if match := pattern.search(plain):
            *named, value = filter(None, match.groups())
            before = language.changing.sub(" ", language.oneself.sub(" ", plain[: match.start()]))
            _, owner = _values(" ".join([before, *named]), language)
            is_others = plain[:1].isupper() and not language.oneself.match(plain)
            if not owner or named or is_others:  # one may have several sisters
                yield f"{attribute} of {' '.join(sorted(owner))}", frozenset(value.casefold().split())
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
    words = (word.removesuffix("'s") for word in _WORD.findall(dates.sub(" ", rest)))
    stems = frozenset(stem(word, language) for word in words if not is_common(word, language))
    return {kind: frozenset(found) for kind, found in values.items()}, stems


@cache
def _dates(language: Language) -> re.Pattern[str]:
    names = "|".join(sorted(map(re.escape, language.dates), key=len, reverse=True)) or "(?!)"
    return re.compile(rf"\b(?:{names})\b" if language.script == "latin" else names)


def _normal(value: str, kind: str) -> str:
    """Return a value as it is compared: "3 pm" and "3:00pm" are one time."""
    value = value.casefold().replace(" ", "").replace(",", "")
    if kind == "time" and (clock := _TWELVE.match(value)):
        return f"{int(clock[1]) % 12}:{clock[2] or '00'}"
    return re.sub(r"(?<=\d)(?:st|nd|rd|th|일|日|号)$", "", value) if kind == "date" else value
