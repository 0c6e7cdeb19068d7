"""Rule-based fact extraction: finds facts in messages by patterns of their language, without a model."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from arc_common.facts import FactCategory, ProposedFact
from arc_common.messages import Message, Role
from arc_common.text.analyzer import content_words
from arc_common.text.languages.korean import strip_particles
from arc_common.text.languages.language import NEVER, Found, Language, Signal, find
from arc_common.text.languages.registry import ANCHORS, LANGUAGES, detect
from arc_common.text.sentences import Mood, Part, clauses_of, parts_of, rough_tokens, sentence_spans, sentences_of

_CODE_BLOCK = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_QUOTATION = re.compile(
    r"(?P<said>\b(?:says?|said|told \w{1,12}|wrote|writes|texted|announced|reads?)[,:]?\s)?"
    r"(?<![\w\"])[“\"](?=\S)[^\"“”\n]{60,2000}(?<=\S)[”\"](?!\w)"
)
"""A long quotation is somebody else's text (titles are short), unless a verb of saying introduces it."""

_ONESELF = f"(?={'|'.join(language.oneself for language in LANGUAGES)})"
_QUOTED = re.compile(
    rf"(?<!\w)(?:[“\"]{_ONESELF}[^\"“”\n]{{3,400}}[”\"]|「{_ONESELF}[^「」\n]{{3,400}}」|『{_ONESELF}[^『』\n]{{3,400}}』"
    rf"|['‘]{_ONESELF}[^\n]{{3,300}}?['’](?=[\s.,!?;:)]|[가-힣]|$))"
)
"""A quoted sentence in which the speaker talks about themselves."""

_QUOTE_PAIRS = {'"': '"', "“": "”", "‘": "’", "'": "'", "「": "」", "『": "』"}


def own_words(text: str) -> str:
    """Return a text without code, quotations, given tasks and requests to forget, which its writer does not state."""
    text = _QUOTATION.sub(_unless_said, _CODE_BLOCK.sub("\n", text))
    return without_forgotten(_without_tasks(text))


def without_quoted(text: str) -> str:
    """Return a text with each quotation in which somebody speaks of themselves replaced by a line break."""
    return _QUOTED.sub("\n", text)


def without_forgotten(text: str) -> str:
    """Return a text without requests to forget something and the content to be forgotten."""
    kept, rest = [], 0
    for start, end in sentence_spans(text):
        sentence = text[start:end]
        if (stated := _stated_instead(sentence)) is not None:
            kept += [text[rest:start], stated]
            rest = end
    return "".join([*kept, text[rest:]])


def _stated_instead(sentence: str) -> str | None:
    """Return the statement after a request to forget; `None` if the sentence contains no such request."""
    for language in LANGUAGES:
        if request := language.forget.search(sentence):
            instead = language.said_instead.match(sentence, request.end())
            return sentence[instead.end() :] if instead else ""
    return None


def _without_tasks(text: str) -> str:
    """Remove texts that the writer hands over as a task: up to the closing quotation mark or the next empty line."""
    for language in LANGUAGES:
        kept, rest = [], 0
        for task in language.text_task.finditer(text):
            if task.end() < rest:
                continue
            closing = _QUOTE_PAIRS.get(text[task.end() : task.end() + 1])
            end = text.find(closing, task.end() + 1) + 1 if closing else text.find("\n\n", task.end())
            kept += [text[rest : task.end()], "\n"]
            rest = end if end > 0 else len(text)
        text = language.text_in_task.sub("\n", "".join([*kept, text[rest:]]))
    return text


def _unless_said(quotation: re.Match[str]) -> str:
    return quotation.group() if quotation["said"] else "\n"


THRESHOLD = 0.3
"""The lowest score at which a clause counts as a fact."""

SURE = 0.4
"""A message contributes only its best clause among those that score below this."""

MAX_VALUE_TOKENS = 18
"""Cut a longer clause to the part around its strongest match."""

SHORT_SENTENCE_TOKENS = 15
"""A sentence no longer than this stays one clause: splitting it would save nothing and lose its meaning."""

_READ_CHARACTERS = 50_000
"""Read a longer message (a pasted document) only at its start and its end, half of these characters each."""

_KEPT_TEXTS = 4_096
_KEPT_CHARACTERS = 4_000
"""Cache the parse of a text, because most are read twice (facts and memories); longer texts are not cached."""

_CALLS = 4
"""A clause of at most this many words that matches only as a name addresses somebody ("Wow, Caroline!")."""

_FACTS_PER_MESSAGE = 4
_TOKENS_PER_FURTHER_FACT = 30
_LONG_REPLY = 1_500

_MAY_ANCHOR = re.compile(r"[\d@/“\"「『《‘]|www", re.IGNORECASE)
_QUOTES = str.maketrans("’‘＇", "'''")
_NAME = Signal("name", FactCategory.ENTITY, 0.35, NEVER, anchor=True)
"""The signal for a name in any language."""


@dataclass(frozen=True, slots=True)
class _Clause:
    text: str
    score: float
    specific: float
    found: tuple[Found, ...]
    language: Language


def extract_facts(messages: Sequence[Message]) -> list[ProposedFact]:
    """Extract the facts that the messages state, in the speakers' own words and in order."""
    facts: dict[str, ProposedFact] = {}
    for message in messages:
        if message.role in (Role.USER, Role.ASSISTANT) and not message.made_by_arc:
            for fact in _facts_of(message):
                same = " ".join(fact.value.casefold().split())
                known = facts.pop(same, None)
                if known is not None:
                    sources = tuple(dict.fromkeys(known.sources + fact.sources))
                    fact = replace(fact, sources=sources, importance=max(fact.importance, known.importance))  # noqa: PLW2901
                facts[same] = fact
    return list(facts.values())


def parts_said(text: str) -> Sequence[Sequence[tuple[Part, Language]]]:
    """Split a text's own words into sentences, and each sentence into parts with its language."""
    return (_parts_said if len(text) <= _KEPT_CHARACTERS else _parts_said.__wrapped__)(text)


@lru_cache(_KEPT_TEXTS)
def _parts_said(text: str) -> Sequence[Sequence[tuple[Part, Language]]]:
    sentences = sentences_of(own_words(text))
    return [
        [(part, language) for part in parts_of(sentence, language)]
        for sentence, language in zip(sentences, map(detect, sentences), strict=True)
        if not (sentence.startswith("[") and sentence.endswith("]"))  # a stage direction: "[shares a photo]"
    ]


def _facts_of(message: Message) -> list[ProposedFact]:
    text = message.text
    if len(text) > _READ_CHARACTERS:
        text = f"{text[: _READ_CHARACTERS // 2]}\n{text[-_READ_CHARACTERS // 2 :]}"
    stated = (_stated if len(text) <= _KEPT_CHARACTERS else _stated.__wrapped__)(text, message.role)
    return [replace(fact, sources=(message.id,)) for fact in stated] if message.id else list(stated)


@lru_cache(_KEPT_TEXTS)
def _stated(text: str, role: Role) -> Sequence[ProposedFact]:
    """Return the facts that a text states, without sources."""
    long = len(text) > _LONG_REPLY
    clauses: list[_Clause] = []
    for parts in parts_said(text):
        for part, language in parts:
            clauses += _clauses_of(part, language, role, long=long)
    doubtful = [clause for clause in clauses if clause.score < SURE]
    if len(doubtful) > 1:
        best_doubtful = max(doubtful, key=lambda clause: clause.score)
        clauses = [clause for clause in clauses if clause.score >= SURE or clause is best_doubtful]
    allowed = _FACTS_PER_MESSAGE + rough_tokens(text) // _TOKENS_PER_FURTHER_FACT // 4
    if role is Role.ASSISTANT:
        allowed = 2
    if len(clauses) > allowed:
        best = sorted(range(len(clauses)), key=lambda i: -clauses[i].score)[:allowed]
        clauses = [clauses[i] for i in sorted(best)]
    return [_fact(clause) for clause in clauses]


def _clauses_of(part: Part, language: Language, role: Role, *, long: bool) -> list[_Clause]:
    clauses: list[_Clause] = []
    body = _without_lead_ins(part.text, language)
    joinable = False
    for start, end in _units(body, language):
        clause = _weighed(body[start:end], language, role, mood=part.mood, long=long)
        if clause is not None and joinable:
            before = clauses[-1]
            both = body[body.index(before.text) : end]
            if rough_tokens(both) <= MAX_VALUE_TOKENS:
                clauses[-1] = _Clause(
                    _ended(both),
                    max(before.score, clause.score),
                    before.specific,
                    before.found + clause.found,
                    language,
                )
                continue
        joinable = clause is not None
        if clause is not None:
            clauses.append(clause)
    return clauses


def _ended(text: str) -> str:
    """Strip the punctuation around a text, because a value is not a sentence."""
    return text.strip(" \t,;:.!。，、") or text


def _without_lead_ins(sentence: str, language: Language) -> str:
    for _ in range(4):
        shorter = language.lead_ins.sub("", sentence, count=1)
        if shorter == sentence or not shorter.strip():
            break
        sentence = shorter
    return sentence.strip()


def _units(sentence: str, language: Language) -> list[tuple[int, int]]:
    """Split a sentence into spans that can stand alone."""
    if rough_tokens(sentence) <= SHORT_SENTENCE_TOKENS:
        return [(0, len(sentence))]
    units: list[tuple[int, int]] = []
    open_ended = False
    for start, end in clauses_of(sentence):
        piece = sentence[start:end]
        short = len(piece.split()) <= 3 if language.script == "latin" else rough_tokens(piece) <= 4
        joins = bool(units) and (open_ended or (short and language.joins_short) or language.continues.match(piece))
        if joins and rough_tokens(sentence[units[-1][0] : end]) <= MAX_VALUE_TOKENS + 6:
            units[-1] = (units[-1][0], end)
        else:
            units.append((start, end))
        alone = units[-1] == (start, end)
        open_ended = short or (alone and language.subordinate.match(piece) is not None)
    return units


def _weighed(piece: str, language: Language, role: Role, *, mood: Mood, long: bool) -> _Clause | None:
    plain = piece.translate(_QUOTES)
    anchors = find(ANCHORS, plain) if _MAY_ANCHOR.search(plain) else []
    names = _names(plain, language)
    if role is Role.ASSISTANT:
        found = _assistant_found(plain, anchors, names, language, long=long)
        if not found or mood is not Mood.STATED:
            return None
    else:
        found = anchors + names + find(language.signals, plain)
    if not found or (len(names) == len(found) and len(piece.split()) <= _CALLS):
        return None
    doubt = 1.0
    for one in found:
        doubt *= 1.0 - one.signal.weight
    anchored = bool(anchors)
    counted = any(one.signal.category is FactCategory.NUMERIC and not one.signal.anchor for one in found)
    specific = _specificity(piece) + (1.5 if anchored else 0.0) + len(names) + counted
    specific = 0.45 + 0.55 * min(specific, 3.0) / 3.0
    score = (1.0 - doubt) * specific
    if mood is Mood.REQUESTED and not anchored:
        return None
    if mood is Mood.CONFIRMED:
        score *= 0.75 if anchored else 0.5
    if language.chit_chat.search(plain):
        score *= 0.85 if anchored else 0.4
    if not anchored and language.listener.search(plain):
        score *= 0.75
    if score < THRESHOLD:
        return None
    start, end = _window(piece, found, language)
    return _Clause(_ended(piece[start:end]), score, specific, tuple(found), language)


def _names(plain: str, language: Language) -> list[Found]:
    """Return the first name in a clause, if its language tells names from other words."""
    if match := language.names.search(f" {plain}"):
        return [Found(_NAME, match.start() - 1, match.end() - 1)]
    match = language.first_name.search(plain)
    return [Found(_NAME, match.start(), match.end())] if match else []


def _assistant_found(
    plain: str, anchors: list[Found], names: list[Found], language: Language, *, long: bool
) -> list[Found]:
    """Find a labelled id, a commitment or a specific statement to the listener; in a long reply only the first."""
    code = [one for one in anchors if one.signal.name in ("number", "phone")]
    found = find(language.assistant, plain)
    if any(one.signal.category is FactCategory.NUMERIC for one in found) and code:
        return found + code
    if long:
        return []
    committed = [one for one in found if one.signal.category is FactCategory.DECISION]
    definite = anchors + names
    return committed + definite if committed else found + definite if found and definite else []


def _specificity(piece: str) -> float:
    """Count the words that are specific to this conversation; long runs of Chinese count by their length."""
    return sum(
        max(1.0, len(word) / 4) if not word.isascii() and "一" <= word[0] <= "鿿" else 1.0
        for word in content_words(piece)
    )


def _window(piece: str, found: Sequence[Found], language: Language) -> tuple[int, int]:
    """Return the span of a clause to keep: all of it, or as much around the strongest match as fits."""
    if rough_tokens(piece) <= MAX_VALUE_TOKENS + 4:
        return 0, len(piece)
    centre = max(found, key=lambda one: (one.signal.weight, -one.start))
    borders = [0, *(match.end() for match in language.joiner.finditer(piece)), len(piece)]
    start = max(border for border in borders if border <= centre.start)
    end = min((border for border in borders if border >= centre.end), default=len(piece))
    if rough_tokens(piece[start:end]) > MAX_VALUE_TOKENS + 4:
        return _words_around(piece, start, end, centre)
    for border in borders:
        if border > end and rough_tokens(piece[start:border]) <= MAX_VALUE_TOKENS:
            end = border
    return start, end


def _words_around(piece: str, start: int, end: int, centre: Found) -> tuple[int, int]:
    """Return the span of whole words around the match that fits, preferring the words after it."""
    spaces = [start, *(start + match.end() for match in re.finditer(r"\s", piece[start:end])), end]
    left = max(border for border in spaces if border <= centre.start)
    right = min((border for border in spaces if border >= centre.end), default=end)
    while rough_tokens(piece[left:right]) < MAX_VALUE_TOKENS:
        grown = False
        following = next((border for border in spaces if border > right), None)
        if following is not None:
            right, grown = following, True
        preceding = max((border for border in spaces if border < left), default=None)
        if preceding is not None and rough_tokens(piece[preceding:right]) <= MAX_VALUE_TOKENS:
            left, grown = preceding, True
        if not grown:
            break
    if rough_tokens(piece[left:right]) > 2 * MAX_VALUE_TOKENS:  # one long word
        right = min(right, max(centre.end, left + 60))
    return left, right


def _fact(clause: _Clause) -> ProposedFact:
    strongest = max(clause.found, key=lambda one: one.signal.weight).signal
    consequence = strongest.category.consequence * min(1.0, strongest.weight / 0.6) * clause.specific
    importance = round(min(1.0, (clause.score + consequence) / 2), 2)
    return ProposedFact(_key(clause, strongest), clause.text, strongest.category, (), importance)


_WIDE_KEY = 6


def _key(clause: _Clause, strongest: Signal) -> str:
    """Return the topic of a clause: the subject of its copula, else its first specific words."""
    plain = clause.text.translate(_QUOTES)
    match = clause.language.topic.search(plain)
    words = match.group(1).split() if match else []
    if not content_words(" ".join(words)):
        words = [word for word in content_words(plain) if not any(character.isdigit() for character in word)]
    words = [strip_particles(word) for word in words]
    if not clause.language.is_spaced:
        words = [word[:_WIDE_KEY] for word in words[:1]]
    return " ".join(dict.fromkeys(words[:2])) or " ".join(plain.split()[:2])[:40] or strongest.name
