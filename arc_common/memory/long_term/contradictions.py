"""Decides which statements end others: a second value of a single-valued attribute, or a statement that is over."""

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache
from threading import Lock
from typing import NamedTuple

from cachetools import LRUCache

from arc_common.observability import Observer, SilentObserver
from arc_common.protocols import ContradictionDetector
from arc_common.text.analyzer import stem
from arc_common.text.languages.language import Language
from arc_common.text.languages.registry import detect, with_other_scripts
from arc_common.text.sentences import sentences_of

_log = logging.getLogger("arc.memory")

_SENTENCES = 4
"""The most sentences of a text that are read; a memory has one or two."""

_LONGEST = 300
"""The most characters of a sentence that is read; longer ones vary too much to be compared."""

_OWNER_WORDS = 3
"""The most words of an owner; a longer subject does not name a person."""

_VERDICTS = 4_096

_WORD = re.compile(r"[\w.+-]+@[\w.-]+\w|\d+(?:[.,:/-]\d+)*|[^\W\d_]+(?:[-'’][^\W\d_]+)*")
_CLOCK = re.compile(
    r"(?<![\d:.])(?P<hour>\d{1,2})(?::(?P<minute>[0-5]\d))?"
    r"(?:\s?(?:[ap]\.?m\b\.?|o['’]clock\b|uhr\b)|시(?!간)(?P<half>\s?반)?)"
    r"|(?<![\d:.])(?P<only_hour>\d{1,2}):(?P<only_minute>[0-5]\d)(?![\d:])"
)
_KOREAN_DATE = re.compile(r"(?P<month>\d{1,2})월(?:\s?(?P<day>\d{1,2})일)?")
_VALUE_LIKE = re.compile(r"[A-Z0-9@가-힣]")
"""Characters of names, numbers and addresses; "my budget is tight" gives no value."""

_THOUSANDS = re.compile(r"(?<=\d)[.,](?=\d{3}(?!\d))")
_SCALES = {"k": 1_000, "천": 1_000, "만": 10_000, "억": 100_000_000}

_OF_THINGS = frozenset({"weekday", "daypart", "season", "often", "colour", "number"})
"""Kinds of values of which a thing may have several, unless it is known to have one or the text states a change."""


class Mark(Enum):
    """The type of a claim: it gives a value, says that something holds, or says that it is over."""

    VALUE = "value"
    SAID = "said"
    OVER = "over"


class Certainty(Enum):
    """The certainty that a value is the only one."""

    DOUBTFUL = 0
    SURE = 1
    CHANGED = 2


@dataclass(frozen=True, slots=True)
class Claim:
    """A part of a statement that another can contradict; only claims in the same slot conflict."""

    slot: str
    value: frozenset[str]
    mark: Mark = Mark.SAID
    certainty: Certainty = Certainty.SURE


class _Read(NamedTuple):
    """A text's values by kind, the stems of its other words, and these words."""

    values: dict[str, set[str]]
    stems: frozenset[str]
    words: list[str]

    @property
    def all_values(self) -> frozenset[str]:
        return frozenset(f"{kind}={value}" for kind, found in self.values.items() for value in found)


class Contradictions:
    """Decides whether statements contradict each other, for facts and memories alike."""

    def __init__(self, detector: ContradictionDetector | None = None, *, observer: Observer | None = None) -> None:
        self.detector = detector
        self._observer = observer or SilentObserver()
        self._verdicts: LRUCache[tuple[str, str], bool] = LRUCache(_VERDICTS)
        self._lock = Lock()

    def contradicts(self, statement: str, earlier: str) -> bool:
        """Return whether a statement ends an earlier one."""
        return self.contradicted(statement, [earlier])[0]

    def contradicted(self, statement: str, earlier: Sequence[str]) -> list[bool]:
        """Return for each earlier statement whether a statement ends it."""
        if self.detector is None:
            return [contradicts(statement, one) for one in earlier]
        with self._lock:
            known = {one: self._verdicts[statement, one] for one in earlier if (statement, one) in self._verdicts}
        if asked := [one for one in dict.fromkeys(earlier) if one not in known]:
            verdicts = self._asked(self.detector, statement, asked)
            known |= zip(asked, verdicts, strict=True)
            with self._lock:
                self._verdicts.update(((statement, one), verdict) for one, verdict in zip(asked, verdicts, strict=True))
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


def contradicts(one: str, other: str) -> bool:
    """Return whether two texts cannot both hold at the same time, as far as their words show."""
    return conflict(claims_of(one), claims_of(other))


def conflict(one: Iterable[Claim], other: Iterable[Claim]) -> bool:
    """Return whether two texts' claims exclude each other."""
    held = {claim.slot: claim for claim in other}
    return any(claim.slot in held and not _are_compatible(claim, held[claim.slot]) for claim in one)


def may_end(text: str) -> bool:
    """Return whether a text can contradict an earlier one: it gives a certain value, or says that something is over."""
    return any(
        claim.mark is Mark.OVER or (claim.mark is Mark.VALUE and claim.certainty is not Certainty.DOUBTFUL)
        for claim in claims_of(text)
    )


@lru_cache(4_096)
def is_negated(text: str) -> bool:
    """Return whether a text denies or ends something, as far as its words show."""
    for language in with_other_scripts(detect(text)):
        table, rewritten = language.statements, _rewritten(text, language)
        if table.negated.search(rewritten) or table.ended.search(rewritten):
            return True
    return False


def is_changed(text: str) -> bool:
    """Return whether a text says that something has changed, as far as its words show."""
    language = detect(text)
    return language.statements.changed.search(_rewritten(text, language)) is not None


@lru_cache(1_024)
def claims_of(text: str) -> tuple[Claim, ...]:
    """Return the claims of a text, one per slot. Deterministic, in time linear in the text."""
    claims: dict[str, Claim] = {}
    torn = set()
    for sentence in sentences_of(text)[:_SENTENCES]:
        if len(sentence) > _LONGEST or "?" in sentence:
            continue
        language = detect(sentence)
        if language.supposition.search(sentence) or language.condition.search(sentence):
            continue
        for claim in _claims(sentence, language):
            if claim.slot in claims and not _are_compatible(claim, claims[claim.slot]):
                torn.add(claim.slot)
            claims.setdefault(claim.slot, claim)
    return tuple(claim for slot, claim in claims.items() if slot not in torn)


def _are_compatible(one: Claim, other: Claim) -> bool:
    if one.mark is Mark.VALUE:
        certainties = {one.certainty, other.certainty}
        if Certainty.DOUBTFUL in certainties and Certainty.CHANGED not in certainties:
            return True
        return one.value <= other.value or other.value <= one.value
    if one.mark is other.mark:
        return True
    said, over = (one, other) if one.mark is Mark.SAID else (other, one)
    return not over.value <= said.value  # "no tennis" ends "tennis on Saturdays", not the other way round


def _rewritten(text: str, language: Language) -> str:
    for pattern, words in language.statements.rewrites:
        text = pattern.sub(words, text)
    return text


def _claims(sentence: str, language: Language) -> Iterator[Claim]:
    table = language.statements
    for clause in table.breaks.split(_rewritten(sentence, language)):
        clause = clause.strip(" .!,~;:。")  # noqa: PLW2901 - the same clause
        if clause and not table.vague.match(clause) and not table.unsure.search(clause):
            for claim in _of_clause(clause, language):
                yield Claim(f"{language.name}: {claim.slot}", claim.value, claim.mark, claim.certainty)


def _of_clause(clause: str, language: Language) -> Iterator[Claim]:
    table = language.statements
    if swapped := table.swapped.search(clause):
        yield from _over(next(filter(None, swapped.groups())), language, is_ended=True)
        return
    ended = table.ended.search(clause)
    if over := ended or table.negated.search(clause):
        subject = table.subject.match(clause[: over.start()])
        who = subject[0] if subject else ""
        if _certainty(who, _read(who, language).words, language) is not Certainty.DOUBTFUL:
            rest = table.negated.sub(" ", table.ended.sub(" ", clause))
            yield from _over(rest, language, is_ended=ended is not None)
        return
    is_change = table.changed.search(clause) is not None
    yield from _related(clause, language, is_change=is_change)
    yield from _named(clause, language, is_change=is_change)
    read = _read(table.changed.sub(" ", clause), language)
    has_several = any(map(table.several.fullmatch, read.words))
    has_one = any(map(table.attributes.fullmatch, read.words))
    is_new = table.added.search(clause) is not None
    for kind, found in read.values.items():
        others = {f"{other}={value}" for other, values in read.values.items() if other != kind for value in values}
        if is_change or (is_new and has_one and not has_several):
            certainty = Certainty.CHANGED
        elif has_several or is_new or table.indefinite.search(clause) or (kind in _OF_THINGS and not has_one):
            certainty = Certainty.DOUBTFUL
        else:
            certainty = Certainty.SURE
        yield Claim(f"{kind} of {_joined(read.stems | others)}", frozenset(found), Mark.VALUE, certainty)
    if read.stems:
        yield Claim(f"all {_joined(read.stems)}", read.all_values)
    if core := read.stems - _engaging(language):
        yield Claim(f"core {_joined(core)}", read.all_values)


def _over(text: str, language: Language, *, is_ended: bool) -> Iterator[Claim]:
    """Yield claims that the content is over; if it was given up, also the claim without its verb of engagement."""
    read = _read(text, language)
    for name in ("all", "core") if is_ended else ("all",):
        if read.stems:
            yield Claim(f"{name} {_joined(read.stems)}", read.all_values, Mark.OVER)


def _related(clause: str, language: Language, *, is_change: bool) -> Iterator[Claim]:
    table = language.statements
    for relation in table.relations:
        if not (match := relation.pattern.search(clause)):
            continue
        before = table.changed.sub(" ", clause[: match.start()])
        owner, value = _read(before, language), _read(match["value"], language)
        found = value.stems | value.all_values
        other: frozenset[str] = frozenset()
        if match.re.groups > 1:
            compared = _read(match["other"], language)
            other = found | compared.stems | compared.all_values
        if not value.stems or len(owner.stems) > _OWNER_WORDS or owner.values:
            continue
        about = relation.attribute
        if regions := {table.regions[word] for word in value.words if word in table.regions}:
            about, found = f"{about} (country)", frozenset(regions)
            if "" in regions:
                continue
        changed = is_change or relation.is_change
        certainty = _certainty(before, owner.words, language, is_change=changed)
        yield Claim(f"{about} {_joined(other)} of {_joined(owner.stems)}", found, Mark.VALUE, certainty)


def _named(clause: str, language: Language, *, is_change: bool) -> Iterator[Claim]:
    """Yield the value that a statement gives to an attribute explicitly: "my email is ..."."""
    table = language.statements
    for pattern in table.named:
        if not (match := pattern.search(clause)):
            continue
        left, value = _read(match["left"], language), _read(match["value"], language)
        is_value = _VALUE_LIKE.search(match["value"]) or table.chosen.search(match["left"])
        if value.stems and is_value and any(map(table.attributes.fullmatch, left.words)) and not left.values:
            changed = bool(is_change or match["changed"] or table.added.search(match["left"]))
            certainty = _certainty(match["left"], left.words, language, is_change=changed)
            yield Claim(f"value of {_joined(left.stems)}", value.stems | value.all_values, Mark.VALUE, certainty)
        return


def _certainty(text: str, words: Sequence[str], language: Language, *, is_change: bool = False) -> Certainty:
    if is_change:
        return Certainty.CHANGED
    is_of_several = any(map(language.statements.several.fullmatch, words))
    return Certainty.DOUBTFUL if is_of_several and not language.names.search(f" {text}") else Certainty.SURE


def _joined(words: Iterable[str]) -> str:
    return " ".join(sorted(words))


@cache
def _engaging(language: Language) -> frozenset[str]:
    return frozenset(stem(word, language) for word in language.statements.engaging)


@cache
def _patterns(language: Language) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of an amount and a date in a language."""
    table = language.statements
    units, months = (
        "|".join(sorted(map(re.escape, words), key=len, reverse=True)) or "(?!)"
        for words in (table.units, table.months)
    )
    amount = (
        r"(?<![\w.,])(?P<sign>[$€£¥₩])?\s?(?P<number>\d+(?:[.,]\d+)*)\s?(?P<scale>[k천만억](?![a-z]))?\s?"
        rf"(?P<unit>{units})?(?![a-z\d])"
    )
    date = (
        rf"(?<!\d)(?P<day>\d{{1,2}})(?:st|nd|rd|th|\.)?\s(?:of\s)?(?P<month>{months})\b"
        rf"|\b(?P<month2>{months})\.?\s(?P<day2>\d{{1,2}})(?:st|nd|rd|th)?(?![\d:.])"
    )
    return re.compile(amount), re.compile(date)


def _read(text: str, language: Language) -> _Read:
    table, values = language.statements, dict[str, set[str]]()
    amount, date = _patterns(language)

    def take_clock(match: re.Match[str]) -> str:
        hour, minute = int(match["hour"] or match["only_hour"]), int(match["minute"] or match["only_minute"] or 0)
        values.setdefault("clock", set()).add(f"{hour % 12}:{30 if match['half'] else minute:02}")
        return " "

    def take_date(match: re.Match[str]) -> str:
        groups = match.groupdict()
        month, day = groups["month"] or groups["month2"], groups["day"] or groups.get("day2")
        number = int(month) if month.isdigit() else table.months[month]
        values.setdefault("date", set()).update([f"month {number}", *([f"day {int(day)}"] if day else [])])
        return " "

    def take_amount(match: re.Match[str]) -> str:
        unit = table.units.get(match["unit"] or match["sign"] or "", match["sign"] or "")
        number = _THOUSANDS.sub("", match["number"]).replace(",", ".")
        if number.count(".") > 1 or not (unit or match["scale"]):
            return match[0]
        scaled = float(number) * _SCALES.get(match["scale"] or "", 1)
        values.setdefault(f"amount {unit}", set()).add(f"{scaled:.10g}")
        return " "

    rest = _KOREAN_DATE.sub(take_date, date.sub(take_date, _CLOCK.sub(take_clock, text.casefold())))
    words = []
    for word in _WORD.findall(amount.sub(take_amount, rest)):
        bare = word.removesuffix("'s").removesuffix("’s").removesuffix("'")
        if kind := table.kinds.get(bare) or table.kinds.get(stem(bare, language)):
            name, _, value = kind.partition("=")
            values.setdefault(name, set()).add(value)
        elif bare not in table.light:
            words.append(bare)
    stems = frozenset(stem(word, language) for word in words) - table.light
    return _Read(values, stems, words)
