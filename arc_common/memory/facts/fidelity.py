"""Checks whether one text supports another's statements: by numbers, codes, names and specific words."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise

from arc_common.caches import cached_text
from arc_common.concurrency import giving_way
from arc_common.facts import Fact, ProposedFact
from arc_common.memory.long_term.contradictions import contradicts, is_changed, is_negated
from arc_common.text import analyze_query
from arc_common.text.analyzer import is_common, stem, words_of
from arc_common.text.languages.korean import noun_of, stem_of_verb, strip_particles
from arc_common.text.languages.registry import DATES, LANGUAGES, detect
from arc_common.text.sentences import is_question, sentences_of

GROUNDED_WORDS = 0.6
"""The share of a value's specific words that its source must contain; summarisers rephrase the others."""

COVERED_WORDS = 0.8
"""The share of a fact's specific words that a text must contain to say the same."""

_OWN_WORDS = 2
_OWN_SHARE = 0.7
"""The most specific words that a model may add to a sentence that retells or concludes (tone, flow and topics): this
many, or this share if that is more."""

_MAX_WORDS = 64
"""The most words of a value that are compared; a fact is a line, not a page."""

_LABELS = frozenset().union(*(language.labels for language in LANGUAGES))
_NUMBER_WORDS = {word: number for language in LANGUAGES for word, number in language.numbers.items()}

_HARD = re.compile(
    r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}"
    r"|(?:https?://|www\.)[^\s<>\"']{3,300}"
    r"|(?=[A-Za-z\d./:-]{0,24}\d)[A-Za-z\d]{1,24}(?:[-./:,][A-Za-z\d]{1,24}){0,8}",
)
_ZERO_CENTS = re.compile(r"(?<=\d)\.0{1,2}(?![\d.])")
_DIGITS = re.compile(r"\d{1,20}(?:\.\d{1,6})?")
_ENDS = tuple(".!?。！？")
_LONG_NUMBER = 6
_NOT_WORD = re.compile(r"[\W_]+")
_SUFFIX = re.compile(r"(?:'s|’s|ies|ing|ed|es|s|ly|e|y)$")
_POSSESSIVE = re.compile(r"['’]s$")
_NAME = re.compile(r"(?<=[^\s.!?:;] )[A-ZÀ-ÖØ-ÞĀ-Ž][\w'’&-]{1,30}")
_VERB = re.compile(r"^[가-힣]{1,10}(?:다|요|고|음|까|죠)$")


@dataclass(frozen=True, slots=True)
class _Text:
    """A text prepared for search: its folded words, the same without separators, and its values."""

    spaced: str
    solid: str
    values: frozenset[str]

    @classmethod
    def of(cls, text: str) -> "_Text":
        folded = _folded(text)
        spaced = f" {_NOT_WORD.sub(' ', folded)} "
        values = {_NUMBER_WORDS[word] for word in spaced.split() if word in _NUMBER_WORDS}
        values.update(_DIGITS.findall(folded))
        values.update(_bare(match.group()) for match in _HARD.finditer(folded))
        return cls(spaced, spaced.replace(" ", ""), frozenset(values))

    def has_value(self, value: str) -> bool:
        """Return whether the text has a number, code or address, ignoring separators; part of a code never matches."""
        if value in self.values or _bare(value) in self.values:
            return True
        if "@" in value or "/" in value or (value.isdigit() and len(value) > _LONG_NUMBER):
            return _bare(value) in self.solid
        return False

    def has_word(self, word: str) -> bool:
        """Return whether the text contains a word in any form: ASCII words by stem, others by their beginning."""
        if _NUMBER_WORDS.get(word) in self.values:
            return True
        if _VERB.search(word):
            return stem_of_verb(word) in _verbs_of(self.spaced)
        stem = _NOT_WORD.sub(" ", _stem(word))
        if stem.isascii():
            return f" {stem}" in self.spaced
        return _bare(word) in self.solid or (len(stem) > 1 and _bare(stem) in self.solid)


@cached_text(16)
def _verbs_of(spaced: str) -> frozenset[str]:
    return frozenset(stem_of_verb(word) for word in spaced.split() if _VERB.search(word))


def _bare(value: str) -> str:
    return _NOT_WORD.sub("", value)


def _folded(text: str) -> str:
    text = unicodedata.normalize("NFKC", text).casefold()
    return _ZERO_CENTS.sub("", text)


def _stem(word: str) -> str:
    word = strip_particles(word)
    if not word.isascii() or len(word) <= 3:
        return word
    for _ in range(2):
        shorter = _SUFFIX.sub("", word)
        if len(shorter) < 3:
            break
        word = shorter
    return word


def _essentials(text: str) -> tuple[list[str], list[str], list[str]]:
    """Return the values (numbers, codes, addresses), the names and the other specific words of a text, folded."""
    values = [match.group().rstrip(".,:-/") for match in _HARD.finditer(_folded(text))]
    names = [match.group().casefold() for match in _NAME.finditer(text)]
    names = [name for name in names if not any(character.isdigit() for character in name)]
    inside = "\x00".join(values)
    words = []
    for word in map(noun_of, words_of(_folded(text))[:_MAX_WORDS]):
        if any(character.isdigit() for character in word) or word in inside or is_common(word):
            continue
        if word not in _LABELS and strip_particles(_POSSESSIVE.sub("", word)) not in _LABELS:
            words.append(word)
    return values, names, words


def _has_values(text: _Text, values: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a text contains all of these values and names."""
    return all(text.has_value(value) for value in values) and all(
        text.has_word(part) for name in names if not is_common(name) for part in words_of(name) if part not in _LABELS
    )


def _says(text: _Text, statement: str, share: float) -> bool:
    values, names, words = _essentials(statement)
    if not _has_values(text, values, names):
        return False
    if not words and (values or names):
        return True
    if not any(not _VERB.match(word) for word in words):
        said = words_of(_folded(statement))[:_MAX_WORDS]
        words = [word for word in said if strip_particles(word) not in _LABELS] or said
    return sum(text.has_word(word) for word in words) >= max(1.0, share * len(words)) if words else False


def has_values(text: str, statement: str) -> bool:
    """Return whether a text has all numbers, codes, addresses, dates and names of a statement."""
    values, names, _ = _essentials(statement)
    prepared = _prepared(text)
    return _has_values(prepared, values, names) and all(map(prepared.has_word, DATES.findall(_folded(statement))))


def invents(statement: str, source_text: str) -> bool:
    """Return whether a statement contains a number, code, address or name that its source text does not."""
    values, names, _ = _essentials(statement)
    return not _has_values(_Text.of(source_text), values, names)


def without_inventions(narrative: str, source_text: str, *, untrusted: str = "") -> str:
    """Return the sentences of a narrative that its source supports without untrusted text; `""` for none.

    A heading alone ("The facts") is none: it does not end as a sentence, and has nothing specific of the source.
    """
    source = _Text.of(source_text)
    told = [
        sentence.strip()
        for sentence in sentences_of(narrative)
        if _retells(source, sentence) and not rests_on(sentence, untrusted, source_text)
    ]
    is_told = any(sentence.endswith(_ENDS) or _shares(source, sentence) for sentence in told)
    return " ".join(told) if is_told else ""


def rests_on(statement: str, untrusted: str, trusted: str) -> bool:
    """Return whether a statement takes anything from untrusted text that trusted text does not say."""
    if not untrusted:
        return False
    values, names, words = _essentials(statement)
    own, others = _prepared(trusted), _prepared(untrusted)
    parts = [part for name in names for part in words_of(name) if part not in _LABELS and not is_common(part)]
    return any(others.has_value(value) and not own.has_value(value) for value in values) or any(
        others.has_word(word) and not own.has_word(word) for word in (*parts, *words)
    )


@cached_text(8)
def _prepared(text: str) -> _Text:
    return _Text.of(text)


def is_revoked(fact: Fact, source_text: str, contradicts: Callable[[str, str], bool] = contradicts) -> bool:
    """Return whether a text revokes a fact: a sentence about it denies, ends, changes or contradicts something."""
    key, value = set(analyze_query(fact.slot)), set(analyze_query(fact.value))

    def is_about(terms: AbstractSet[str]) -> bool:
        return key <= terms or 2 * len(value & terms) >= len(value)

    return any(
        is_about(set(analyze_query(sentence)))
        and (is_negated(sentence) or is_changed(sentence) or contradicts(sentence, fact.value))
        for sentence in sentences_of(source_text)
    )


def _retells(text: _Text, sentence: str) -> bool:
    values, names, words = _essentials(sentence)
    own = sum(not text.has_word(word) for word in words)
    return (
        bool(words_of(sentence))
        and own <= max(_OWN_WORDS, _OWN_SHARE * len(words))
        and _has_values(text, values, names)
    )


def is_concluded(statement: str, source_text: str) -> bool:
    """Return whether a statement may be concluded from a text: it has the numbers, names and some of the words."""
    source = _Text.of(source_text)
    return all(_retells(source, sentence) for sentence in sentences_of(statement))


def is_in_own_words(statement: str, source_text: str) -> bool:
    """Return whether a text contains none of a statement's specific words and values."""
    return bool(_essentials(statement)[2]) and not _shares(_Text.of(source_text), statement)


def _shares(text: _Text, statement: str) -> bool:
    values, _, words = _essentials(statement)
    return any(map(text.has_word, words)) or any(map(text.has_value, values))


def is_grounded(statement: str, source_text: str, *, share: float = GROUNDED_WORDS) -> bool:
    """Return whether a source text contains this share of the specific words of each of a statement's sentences."""
    source = _Text.of(source_text)
    return all(_says(source, sentence, share) for sentence in sentences_of(statement) or [statement])


def is_stated(statement: str, source_text: str, *, share: float = GROUNDED_WORDS) -> bool:
    """Return whether a text states a statement; a question about it, or its denial, does not count."""
    told = [sentence for sentence in sentences_of(source_text) if not is_question(sentence)]
    return all(
        is_grounded(sentence, "\n".join(one for one in told if is_negated(one) == is_negated(sentence)), share=share)
        for sentence in sentences_of(statement) or [statement]
    )


def names_only(request: str, statement: str) -> bool:
    """Return whether a statement contains all that a user names in a request, and they name something."""
    language, text = detect(request), _Text.of(statement)
    dropped = language.stop_words | language.speaker | language.forgetting
    words = [word for word in words_of(_folded(request)) if not {word, strip_particles(word)} & dropped]
    words = [word for word in words if not is_common(word, language)] or words
    return bool(words) and all(text.has_value(word) or text.has_word(word) for word in words)


_SIGN = re.compile(r"[$€£¥₩%°+#@/<>=~*_−-]")


def is_retold(statement: str, texts: Iterable[str]) -> bool:
    """Return whether each of a statement's sentences has the words of one whole statement of these texts, in order.

    Stricter than `is_stated`, for what somebody else may have worded: words of several sentences, a part of one, or
    further words say something else. Only the words for the speaker, their forms and an introduction may differ: "my
    bank" is the user's, "his bank" is not.
    """
    told = {
        _retelling(unit, is_told=True)
        for text in texts
        for sentence in sentences_of(text)
        if not is_question(sentence)
        for unit in _units(sentence)
    }
    retold = list(map(_retelling, sentences_of(statement) or [statement]))
    return all(one in told and one[-1] for one in retold)


def _units(sentence: str) -> list[str]:
    """Return a sentence without its introduction, and each statement that it joins; `[]` if it asks or supposes."""
    language = detect(sentence)
    sentence = language.lead_outs.sub("", sentence, count=1)
    for _ in range(4):
        sentence = language.lead_ins.sub("", sentence, count=1).strip()
    plain = sentence.replace("’", "'")
    if any(form.search(plain) for form in (language.seeking, language.supposition, language.condition)):
        return []
    joints = [(0, 0), *(joint.span() for joint in language.joining.finditer(plain)), (len(plain),) * 2]
    parts = [plain[before[1] : after[0]].strip() for before, after in pairwise(joints)]
    is_own = all(map(language.oneself.match, parts))  # "My bank is X, so the page says" takes it back
    return [plain, *(parts if is_own else ())]


@cached_text(4_096)
def _retelling(text: str, *, is_told: bool = False) -> tuple[bool, tuple[str, ...], tuple[str, ...]]:
    """Return whether a text denies something, its values and signs, and the stems of its words, in order."""
    language, folded = detect(text), _folded(text)
    dropped = language.restated | language.speaker
    dropped = dropped - language.others if is_told else dropped | language.others
    values = [match.group().rstrip(".,:-/") for match in _HARD.finditer(folded)]
    plain = folded.replace("’", "'")
    words = ["not" if word in language.negations else word.removesuffix("'s") for word in words_of(plain)]
    stems = [stem(word, language) for word in words if not {word, strip_particles(word)} & dropped]
    return (
        is_negated(text),
        (*values, *_SIGN.findall(folded)),
        tuple(language.verb_ending.sub("", one) for one in stems),
    )


def missing_facts(extracted: Sequence[ProposedFact], *, facts: Sequence[ProposedFact]) -> list[ProposedFact]:
    """Return the extracted facts that the given facts don't say, in their order."""
    kept = [f"{fact.key} {fact.value}".strip() for fact in facts]
    prepared = [(_Text.of(text), _is_denied(text)) for text in kept if text]

    def is_said(fact: ProposedFact) -> bool:
        needs_denial = is_negated(fact.value)
        if any(_covers(text, fact.value) for text, denies in prepared if denies or not needs_denial):
            return True
        taken = "\n".join(  # "How long is the visa valid: 90 days" was taken from "The visa is good for 90 days"
            text
            for text, one in zip(kept, facts, strict=True)
            if set(one.sources) & set(fact.sources) and is_grounded(one.value, fact.value)
        )
        return bool(taken) and has_values(taken, fact.value) and (_is_denied(taken) or not needs_denial)

    return [fact for fact in giving_way(extracted) if not is_said(fact)]


def _is_denied(text: str) -> bool:
    return is_negated(text) or any(language.forbidding.search(text) for language in LANGUAGES)


def _covers(text: _Text, value: str) -> bool:
    return _bare(_folded(value)) in text.solid or _says(text, value, COVERED_WORDS)
