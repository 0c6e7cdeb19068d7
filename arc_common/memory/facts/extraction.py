"""Facts by rules: the sentences of messages that state something worth knowing later, in their speaker's own words."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from arc_common.concurrency import giving_way
from arc_common.facts import FactCategory, ProposedFact
from arc_common.memory.long_term.contradictions import slot_of
from arc_common.memory.own_words import learnable
from arc_common.messages import Message, Role
from arc_common.prompts.context import user_name
from arc_common.text.analyzer import content_words
from arc_common.text.languages.language import Language
from arc_common.text.languages.registry import CONCRETE, DATES, NAMES, detect
from arc_common.text.sentences import clauses_of, sentences_of

_BORDER = re.compile(r"[.!。！]\s{0,2}")

IDENTIFIER = re.compile(
    r"[\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]{2,63}"
    r"|(?<![\w/.-])(?=[A-Z\d-]{0,12}[A-Z])(?=[A-Z-]{0,12}\d[A-Z-]{0,12}\d)[A-Z\d]{1,12}(?:-[A-Z\d]{1,12}){1,4}(?![a-z-])"
)
"""An e-mail address, or a code of capitals and digits in parts: a user who states one means it to be kept."""

QUOTES = str.maketrans("’‘＇", "'''")

_READ_CHARACTERS = 50_000
"""Read a longer message (a pasted document) only at its start and its end, half of these characters each."""

_KEPT_TEXTS = 4_096
_KEPT_CHARACTERS = 4_000
"""Cache what a text states, because most are read twice (facts and memories); longer texts are not cached."""

_LONGEST = 240
"""Cut a longer sentence at the last border of a clause before this many characters."""

_SHORT = 30
"""A statement of more characters needs two specific words."""
_NAMED = 2
"""The fewest specific words, such as a verb and its object, before a pronoun that refers to them."""

_FACTS_PER_MESSAGE = 4
_CHARACTERS_PER_FURTHER_FACT = 400
LONG_REPLY = 1_500


def extract_facts(messages: Sequence[Message]) -> list[ProposedFact]:
    """Extract the facts that the messages state: whole sentences, in their order, each once.

    - A user's fact says something about themselves, their people, things, plans or conditions, or gives a value.
    - An assistant's fact is a decision, an id or a date.
    - Questions, requests, suppositions, courtesies and comments on the conversation are none.
    - Deterministic; linear in the length of the text.
    """
    facts: dict[tuple[str | None, str], ProposedFact] = {}
    for message in giving_way(learnable(messages)):
        for fact in _facts_of(message):
            same = user_name(message), " ".join(fact.value.casefold().split())
            known = facts.pop(same, None)
            if known is not None:
                fact = replace(fact, sources=tuple(dict.fromkeys(known.sources + fact.sources)))  # noqa: PLW2901
            facts[same] = fact
    return list(facts.values())


def _facts_of(message: Message) -> list[ProposedFact]:
    text = message.text
    if len(text) > _READ_CHARACTERS:
        text = f"{text[: _READ_CHARACTERS // 2]}\n{text[-_READ_CHARACTERS // 2 :]}"
    stated = (_stated if len(text) <= _KEPT_CHARACTERS else _stated.__wrapped__)(text, message.role)
    return [replace(fact, sources=(message.id,)) for fact in stated] if message.id else list(stated)


@lru_cache(_KEPT_TEXTS)
def _stated(text: str, role: Role) -> Sequence[ProposedFact]:
    """Return the facts that a text states, without sources; of many, the most important."""
    facts: list[ProposedFact] = []
    before = ""
    for sentence in sentences_of(text):
        language = detect(sentence)
        for said in _statements(sentence, language):
            stated = said
            concrete = CONCRETE.search(said) if language.vague.search(said) else None
            if concrete and concrete["sure"] and before and len(before) < _LONGEST // 2:
                start = text.find(before)  # "We took the oak table. It costs $1,240."
                end = text.find(said, start + len(before))
                if _BORDER.fullmatch(text, start + len(before), end):
                    stated = text[start : end + len(said)]
            plain = stated.translate(QUOTES)
            if role is Role.USER:
                category = _of_user(plain, language) or _of_user(_head(plain, language), language)
                if category is None and IDENTIFIER.search(plain):
                    category = FactCategory.NUMERIC
            else:
                category = _of_assistant(plain, language, is_long=len(text) > LONG_REPLY)
            if category is not None:
                if facts and facts[-1].value == before and stated != said:
                    facts.pop()
                facts.append(ProposedFact(slot_of(stated), stated, category, importance=category.importance))
            before = stated
    most = _FACTS_PER_MESSAGE + len(text) // _CHARACTERS_PER_FURTHER_FACT
    best = sorted(range(len(facts)), key=lambda place: -facts[place].importance)[:most]
    return [facts[place] for place in sorted(best)]


def _statements(sentence: str, language: Language) -> Iterator[str]:
    """Yield what a sentence states, without what leads to it and without what it asks."""
    if sentence.startswith("[") and sentence.endswith("]"):  # "[shares a photo]"
        return
    for _ in range(4):
        shorter = language.lead_ins.sub("", sentence, count=1).strip()
        if shorter == sentence or not shorter:
            break
        sentence = shorter
    plain = sentence.translate(QUOTES)
    clauses = clauses_of(plain)
    end = len(sentence)
    if "?" in plain or "？" in plain:
        asked = [start for start, to in clauses if language.seeking.search(plain[start:to])]
        end = asked[0] if asked else clauses[-1][0] if clauses else 0
    else:
        asked = [
            start
            for start, to in clauses
            if language.seeking.search(plain[start:to]) and not language.forbidding.search(plain[start:to])
        ]
        if asked and language.is_spaced:
            return
        end = asked[0] if asked else end  # "订单号是 AB-20931，请查一下"
    stated = _cut(sentence[:end].strip(" ,;:-–—，、；：").rstrip(".。"))
    only_condition = end < len(sentence) and language.condition.search(stated)
    if stated and not only_condition and not language.supposition.search(plain[:end]):
        yield stated


def _cut(sentence: str) -> str:
    """Return a long sentence up to a border between its clauses."""
    if len(sentence) <= _LONGEST:
        return sentence
    ends = [end for _, end in clauses_of(sentence) if 40 <= end <= _LONGEST]
    return sentence[: ends[-1]] if ends else ""


def _of_user(plain: str, language: Language) -> FactCategory | None:
    """Return the kind of a user's statement; `None` if it states nothing worth knowing."""
    words = content_words(plain) if language.is_spaced else re.findall(r"\w{2}", plain)
    concrete = CONCRETE.search(plain)
    is_named = any(not name[:2].isupper() for name in NAMES.findall(plain))  # "AI" names nobody
    if not (words or concrete or is_named) or language.chit_chat.search(plain):
        return None
    if language.forbidding.search(plain):
        return FactCategory.CONDITION if len(words) > 1 or not language.vague.search(plain) else None
    is_sure = concrete is not None and concrete.lastgroup == "sure"
    if _is_vague(plain, language) or _is_fragment(plain, language) or language.wanting.search(plain):
        return None
    if language.listener.search(plain):
        return FactCategory.NUMERIC if is_sure and language.asserting.search(plain) else None
    if language.feeling.search(plain) and not is_sure:
        return None
    if len(words) + is_named <= (len(plain) > _SHORT):
        return None
    is_own = language.oneself.search(plain) is not None
    dates = DATES.findall(plain)
    if is_own and (is_named or concrete or dates):
        return _kind(plain, language, concrete)
    is_lasting = any(form.search(plain) for form in (language.deciding, language.preferring))
    if lasting := language.lasting.search(plain):  # "I confirm" has no object
        rest = f"{plain[: lasting.start()]} {plain[lasting.end() :]}"
        is_lasting |= not language.is_spaced or len(words) >= _NAMED or bool(content_words(rest))
    if is_own and is_lasting and not language.unnamed.search(_head(plain, language)):
        return _kind(plain, language, concrete)
    if (is_sure or (dates and not DATES.match(plain))) and language.asserting.search(plain):
        return _kind(plain, language, concrete)
    return None


def _is_vague(plain: str, language: Language) -> bool:
    """Return whether a statement is about something that only the conversation names."""
    if language.vague.search(plain):
        return True
    pronoun = language.unnamed.search(plain)
    return pronoun is not None and len(content_words(plain[: pronoun.start()])) < _NAMED


def _head(plain: str, language: Language) -> str:
    """Return a sentence up to its second clause: "Court is set for the 22nd and I'd rather not be late"."""
    if language.condition.search(plain):
        return ""
    ends = [end for _, end in clauses_of(plain)[:1]]
    if joined := language.joining.search(plain):
        ends.append(joined.start())
    return plain[: min(ends, default=0)]


def _is_fragment(plain: str, language: Language) -> bool:
    """Return whether a statement is no more than a condition or a time: "Since I was 17 or so"."""
    return language.condition.search(plain) is not None and len(content_words(plain)) <= _NAMED


def _of_assistant(plain: str, language: Language, *, is_long: bool) -> FactCategory | None:
    """Return the kind of an assistant's statement: a decision with a value, an id or a date; `None` for others."""
    concrete = CONCRETE.search(plain)
    if language.chit_chat.search(plain) or language.wanting.search(plain) or is_long or not concrete:
        return None
    is_yours = language.yours.search(plain) is not None
    if language.deciding.search(plain) and (is_yours or language.oneself.search(plain)):
        return FactCategory.DECISION
    return FactCategory.NUMERIC if concrete.lastgroup == "sure" and is_yours else None


def _kind(plain: str, language: Language, concrete: re.Match[str] | None) -> FactCategory:
    if concrete and concrete.lastgroup == "sure":
        return FactCategory.NUMERIC
    if language.deciding.search(plain):
        return FactCategory.DECISION
    if concrete:
        return FactCategory.NUMERIC
    if language.preferring.search(plain):
        return FactCategory.GENERAL
    return FactCategory.ENTITY if NAMES.search(plain) else FactCategory.STATE
