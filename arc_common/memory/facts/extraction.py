"""Facts by rules: what messages state in their speaker's own words, and excerpts of them for values no fact has."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from arc_common.caches import cached_text
from arc_common.concurrency import giving_way
from arc_common.context.repetition import without_lead_in
from arc_common.facts import IN_REPLY, FactCategory, ProposedFact
from arc_common.memory.facts.fidelity import has_values, missing_facts
from arc_common.memory.long_term.contradictions import slot_of
from arc_common.memory.own_words import learnable
from arc_common.messages import Message, Role
from arc_common.prompts.context import speaker_of, user_name
from arc_common.text.analyzer import content_words
from arc_common.text.languages.language import Language
from arc_common.text.languages.registry import CONCRETE, DATES, NAMES, detect
from arc_common.text.sentences import clauses_of, is_question, sentences_of

_BORDER = re.compile(r"[.!。！]\s{0,2}")

IDENTIFIER = re.compile(
    r"[\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]{2,63}"
    r"|(?<![\w/.-])(?=[A-Z\d-]{0,12}[A-Z])(?=[A-Z-]{0,12}\d[A-Z-]{0,12}\d)[A-Z\d]{1,12}(?:-[A-Z\d]{1,12}){1,4}(?![a-z-])"
)
"""An e-mail address, or a code of capitals and digits in parts: a user who states one means it to be kept."""

_CODE = re.compile(r"\b(?=[A-Z]*\d)(?=\d*[A-Z])[A-Z\d]{5,20}\b")

QUOTES = str.maketrans("’‘＇", "'''")

_READ_CHARACTERS = 50_000
"""Read a longer message (a pasted document) only at its start and its end, half of these characters each."""

_KEPT_TEXTS = 4_096
_KEPT_CHARACTERS = 4_000
"""Cache the facts of a text, because most texts are read twice (facts and memories); longer ones are not cached."""

_LONGEST = 240
"""Cut a longer sentence at the last border of a clause before this many characters."""

_SHORT = 5
"""A statement of more words needs two specific ones."""
_TOLD = 4
"""A statement with at least this many specific words counts in spite of a word of praise or feeling."""
_OF_CLAUSE = 2
"""The fewest specific words of a clause that is a statement without the rest of its sentence."""
_NAMED = 3
"""The fewest specific words before a pronoun that refers to one of them."""

_FEW = 2
"""The most words of a value."""

_LABEL = 1
"""The most words of a value that says nothing."""

_REPLY = 8
"""The most words of a reply that is shown with the text that it answers."""
_ANSWERED = 160
"""The most characters of the text shown with a reply."""

_TAGGED = 80
"""The most characters at a sentence's end that are searched for a tag that asks to confirm the sentence."""

_FORBIDDING = 3
"""The fewest words of a prohibition: "Never book" does not say what."""

_FACTS_PER_MESSAGE = 4
_CHARACTERS_PER_FURTHER_FACT = 400
LONG_REPLY = 1_500


def extract_facts(
    messages: Sequence[Message], *, told_by: Callable[[Message], bool] = lambda _: True
) -> list[ProposedFact]:
    """Extract the facts that the messages state: whole sentences, in their order, each once.

    - A user's fact says something about themselves, their people, things, plans or conditions, or gives a value.
    - An assistant's fact is a decision, perhaps with its date, or an id.
    - Questions, requests, suppositions, courtesies and comments on the conversation are not facts.
    - Deterministic; linear in the length of the text.
    """
    facts: dict[tuple[str | None, str], ProposedFact] = {}
    by_user: Sequence[ProposedFact] = ()
    for message, answered in with_answered(messages):
        if not told_by(message):
            continue
        found = [answering(fact, answered) for fact in _facts_of(message)]
        if message.role is Role.USER:
            by_user = found
            # "Ref MS-20931" says nothing; "New one: MS-20931" changes what was said before
            found = [fact for fact in found if IN_REPLY in fact.value or not is_bare_value(fact.value, most=_LABEL)]
        else:  # "Noted: …" says nothing new
            found = [fact for fact in found if not any(has_values(one.value, fact.value) for one in by_user)]
        for fact in found:
            same = user_name(message), " ".join(fact.value.casefold().split())
            known = facts.pop(same, None)
            if known is not None:
                fact = replace(fact, sources=tuple(dict.fromkeys(known.sources + fact.sources)))  # noqa: PLW2901
            facts[same] = fact
    return list(facts.values())


def with_answered(messages: Sequence[Message]) -> Iterator[tuple[Message, Message | None]]:
    """Yield the messages that may be learned, each with the one right before it if that is somebody else's."""
    before = {after.id: one.id for one, after in pairwise(messages) if after.id}
    last: Message | None = None
    for message in giving_way(learnable(messages)):
        is_next = last is not None and last.id is not None and last.id == before.get(message.id or "")
        yield message, last if last is not None and is_next and speaker_of(last) != speaker_of(message) else None
        last = message


def answering(fact: ProposedFact, answered: Message | None) -> ProposedFact:
    """Return a fact with the question or the assistant's statement that it answers, if it states nothing alone."""
    is_value = is_bare_value(fact.value, most=_REPLY) or _is_limit(_ruled(fact.value))
    if answered is None or not (is_value or (len(fact.value.split()) <= _REPLY and _is_unclear(fact.value))):
        return fact
    said = (sentences_of(answered.text) or [""])[-1]
    if not said or len(said) > _ANSWERED:
        return fact
    is_courtesy = said.endswith("!") or detect(said).chit_chat.search(said.translate(QUOTES)) or not content_words(said)
    if not said.endswith(("?", "？")) and (
        not is_value or answered.role is not Role.ASSISTANT or is_courtesy or _words(fact.value) > _FEW
    ):  # "The choir begins at six." has no form that asserts, and is no reply to a statement
        return fact
    value = fact.value.rstrip(".。")
    return replace(fact, value=f"{value}{IN_REPLY}{said})", sources=(*fact.sources, answered.id or ""))


def _words(text: str) -> int:
    """Return the number of words of a text; in a script without spaces, about two characters are one."""
    return len(text.split()) if detect(text).is_spaced else len(text) // 2


def _ruled(text: str) -> re.Match[str] | None:
    return detect(text).forbidding.search(text.translate(QUOTES))


def _is_limit(ruled: re.Match[str] | None) -> bool:
    return ruled is not None and ruled.lastgroup == "limit"


def is_bare_value(text: str, *, most: int = _FEW) -> bool:
    """Return whether a text of at most `most` words is only a value ("HB-4471902") and no statement."""
    plain, language = text.translate(QUOTES), detect(text)
    forms = language.asserting, language.oneself, language.forbidding, language.deciding
    words = sum(word.strip(".,:;!").isalpha() for word in plain.split())
    is_bare = language.bare.match(plain) or not any(form.search(plain) for form in forms)
    return words <= most and bool(is_bare)


def _facts_of(message: Message) -> list[ProposedFact]:
    text = message.text
    if len(text) > _READ_CHARACTERS:
        text = f"{text[: _READ_CHARACTERS // 2]}\n{text[-_READ_CHARACTERS // 2 :]}"
    stated = (_kept if len(text) <= _KEPT_CHARACTERS else _stated)(text, message.role)
    return [replace(fact, sources=(message.id,)) for fact in stated] if message.id else list(stated)


@cached_text(_KEPT_TEXTS)
def _kept(text: str, role: Role) -> Sequence[ProposedFact]:
    return _stated(text, role)


def _stated(text: str, role: Role) -> Sequence[ProposedFact]:
    """Return the facts that a text states, without sources; of many, the most important."""
    facts: list[ProposedFact] = []
    before = ""
    is_personal = len(text) <= _LONGEST or detect(text).oneself.search(text.translate(QUOTES)) is not None
    for sentence in sentences_of(text):
        language = detect(sentence)
        for said in _statements(sentence, language):
            stated = said
            is_value = CONCRETE.search(said) and is_bare_value(said)
            concrete = CONCRETE.search(said) if language.vague.match(said) else None
            follows = before and len(before) < _LONGEST // 2 and not language.chit_chat.search(before)
            if follows and (is_value or (concrete and concrete["sure"])):
                start = text.find(before)  # "We took the oak table. It costs $1,240." "Booked the Soki. Ref SK-1029-A."
                end = text.find(said, start + len(before))
                if _BORDER.fullmatch(text, start + len(before), end):
                    stated = text[start : end + len(said)]
                    language = detect(stated)  # "Nummer AB-1" alone is in none
            plain = stated.translate(QUOTES)
            if role is Role.USER:
                category, start = _of_user(plain, language, is_personal=is_personal)
                stated = stated[start:].strip()
                if category is None and _identifies(plain, language):
                    category, stated = FactCategory.NUMERIC, said
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
    """Yield the statements of a sentence, without introductory words and questions."""
    if sentence.startswith("[") and sentence.endswith("]"):  # "[shares a photo]"
        return
    sentence = without_lead_in(sentence)
    plain = sentence.translate(QUOTES)
    clauses = clauses_of(plain)
    is_marked = is_question(plain)
    asked = [
        start
        for start, to in clauses
        if language.seeking.search(plain[start:to])
        and (is_marked or _asks(plain[start:to], language) or not language.forbidding.search(plain[start:to]))
        and not (start and language.relating.match(plain, start))
    ]
    if tag := language.confirming.search(plain, max(0, len(plain) - _TAGGED)):  # it asks about the clause before it
        asked += [start for start, _ in clauses if start <= tag.start()][-1:]
    end = min(asked, default=clauses[-1][0] if is_marked and clauses else len(sentence))
    stated = _cut(sentence[:end].strip(" ,;:-–—，、；：").rstrip(".。"))
    only_condition = end < len(sentence) and language.condition.search(stated)
    if stated and not only_condition:
        yield stated


def _asks(plain: str, language: Language) -> bool:
    """Return whether a clause has the form of a question, marked or not; a request may be a rule: "Book only …"."""
    found = language.seeking.search(plain)
    return found is not None and found.lastgroup == "asked"


def _cut(sentence: str) -> str:
    """Return a long sentence up to a border between its clauses."""
    if len(sentence) <= _LONGEST:
        return sentence
    ends = [end for _, end in clauses_of(sentence) if 40 <= end <= _LONGEST]
    return sentence[: ends[-1]] if ends else ""


def _of_user(plain: str, language: Language, *, is_personal: bool) -> tuple[FactCategory | None, int]:
    """Return the kind of a user's sentence, and where its statement begins: at its start, or behind a joint."""
    joints = list(language.joining.finditer(plain))
    ends = [*(joint.start() for joint in joints), len(plain)]
    parts = [(0, end) for end in reversed(ends)]
    parts += [
        (joint.end(), end)
        for joint, end in zip(joints, ends[1:], strict=True)
        if not language.condition.match(joint[0].strip(" ,")) and language.oneself.match(plain[joint.end() :].lstrip())
    ]
    for start, end in parts:
        part = plain[start:end].strip()
        if start and len(content_words(part)) < _OF_CLAUSE:
            continue
        kind = _stated_kind(part, language, is_personal=is_personal, least=1 + (part != plain))
        if kind is not None:
            return kind, start
        if language.condition.search(plain):
            break
    return None, 0


def _stated_kind(plain: str, language: Language, *, is_personal: bool, least: int) -> FactCategory | None:
    """Return the kind of a statement with at least `least` specific words; `None` if it states nothing."""
    words = content_words(plain) if language.is_spaced else re.findall(r"\w{2}", plain)
    concrete = CONCRETE.search(plain)
    is_sure = concrete is not None and concrete.lastgroup == "sure"
    names = () if language.capitalises_nouns else NAMES.findall(plain)
    is_named = any(not name[:2].isupper() for name in names)  # "AI" names nobody
    dates = [date.casefold() for date in DATES.findall(plain)]
    is_dated = any(date in language.dates for date in dates)
    is_told = bool(is_named or concrete or is_dated)
    is_own, is_decided = (form.search(plain) is not None for form in (language.oneself, language.deciding))
    lasting = language.lasting.search(plain)
    is_small_talk = language.chit_chat.search(plain) and not (is_own and (is_sure or (lasting and len(words) >= _TOLD)))
    ruled = language.forbidding.search(plain)
    is_limit = _is_limit(ruled)
    if (
        not (words or is_told or is_limit)
        or is_small_talk
        or plain.count('"') % 2
        or language.supposition.search(plain)
    ):
        return None
    if ruled is not None:
        is_whole = is_own or is_told or not language.is_spaced or len(plain.split()) >= _FORBIDDING
        is_clear = is_limit or (is_whole and not is_vague(plain, language, least=1))
        return FactCategory.CONDITION if is_clear else None
    if is_vague(plain, language, least=_NAMED) or language.wanting.search(plain):
        return None
    if language.condition.search(plain) and len(clauses_of(plain)) < 2:
        return None
    if language.listener.search(plain):
        return FactCategory.NUMERIC if is_sure and language.asserting.search(plain) else None
    if is_own:
        forms = language.preferring, language.leaving, language.naming
        is_clear = is_told or is_decided or any(form.search(plain) for form in forms)
        if lasting and not content_words(f"{plain[: lasting.start()]} {plain[lasting.end() :]}"):
            words = words[1:]  # "I confirm" has no object
        enough = 1 if is_clear else max(least, 1 + (len(plain.split()) > _SHORT))
        return _kind(plain, language, concrete) if (is_clear or lasting) and len(words) + is_named >= enough else None
    is_valued = is_sure or (is_dated and not DATES.match(plain))
    named = sum(word.isalpha() for word in words) + bool(_CODE.search(plain)) + ("may" in dates)  # also a stop word
    is_whole = named > 1 or not language.is_spaced
    if is_personal and is_valued and is_whole and language.asserting.search(plain):
        return _kind(plain, language, concrete)
    return None


def _identifies(plain: str, language: Language) -> bool:
    """Return whether a clause of a sentence has an id, and is neither a comment nor what its speaker would like."""
    if not IDENTIFIER.search(plain) or language.supposition.search(plain):
        return False
    clauses = [plain[start:end] for start, end in clauses_of(plain)]
    wanted = [bool(language.wanting.search(clause) and language.oneself.search(clause)) for clause in clauses]
    return any(
        IDENTIFIER.search(clause)
        and not language.chit_chat.search(clause)
        and not is_wanted
        and (not any(wanted) or language.asserting.search(clause))  # "I'd like to see clocks, like the KM-150"
        for clause, is_wanted in zip(clauses, wanted, strict=True)
    )


def is_vague(plain: str, language: Language, *, least: int) -> bool:
    """Return whether a statement has a bare "this", or a pronoun with fewer than `least` specific words before it."""
    pronouns = list(language.vague.finditer(plain))
    if any(pronoun.lastgroup == "bare" for pronoun in pronouns):
        return True
    return bool(pronouns) and len(content_words(plain[: pronouns[0].start()])) < least


def _of_assistant(plain: str, language: Language, *, is_long: bool) -> FactCategory | None:
    """Return the kind of an assistant's statement: a decision with a value, or an id; `None` for others."""
    if is_long or any(form.search(plain) for form in (language.chit_chat, language.wanting, language.supposition)):
        return None
    is_about = language.listener.search(plain) or language.oneself.search(plain)
    if is_vague(plain, language, least=1):
        return None
    if language.deciding.search(plain) and is_about and CONCRETE.search(plain):
        return FactCategory.DECISION
    return FactCategory.NUMERIC if is_about and IDENTIFIER.search(plain) else None


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


_EXCERPTED = 0.4
"""The importance of an excerpt, as a share of its kind's."""
_UNCLEAR = 0.5
"""The importance of an excerpt that says little alone ("mine is 2 MB"), as a share of a clear one's."""
_LETTER = re.compile(r"\w")
_LONGEST_SENTENCE = 160
"""Shorten a longer sentence to its clauses with values, and a longer clause to the part around its first value."""
_MOST_OF_MESSAGE = 400
_SKIPPED = " … "
_ENDS = (".", "!", "?", "。", "！", "？")


def excerpts_of(messages: Sequence[Message], *, facts: Sequence[ProposedFact]) -> list[ProposedFact]:
    """Return an excerpt of each message that has values which no fact with this source says.

    Every clear value of a user's counts, other than in small talk or a request; an assistant's only if it is an id, or
    part of a decision or about the user. What the user has just said is not said again.
    """
    known: dict[str, list[ProposedFact]] = {}
    for fact in facts:
        for source in fact.sources:
            known.setdefault(source, []).append(fact)
    found = []
    by_user = ""
    for message, answered in with_answered(messages):
        own = known.get(message.id, []) if message.id else facts
        said = "\n".join(f"{fact.key} {fact.value}" for fact in own)
        before = "" if message.role is Role.USER else by_user  # "Noted: …" says nothing new
        excerpt = _excerpt(message, own, said=f"{said}\n{before}")
        if excerpt is not None:
            found.append(_weighed(answering(excerpt, answered)))
        if message.role is Role.USER:
            by_user = f"{said}\n{excerpt.value if excerpt else ''}"
    return found


def _weighed(excerpt: ProposedFact) -> ProposedFact:
    """Return an excerpt, with less importance if a reader can't tell what it is about."""
    is_clear = excerpt.category is FactCategory.CONDITION or IN_REPLY in excerpt.value
    if is_clear or not _is_unclear(excerpt.value):
        return excerpt
    return replace(excerpt, importance=_UNCLEAR * excerpt.importance)


def _is_unclear(text: str) -> bool:
    """Return whether a reader can't tell what a text is about: "It's 180.", "20 minutes."."""
    return is_bare_value(text) or is_vague(text.translate(QUOTES), detect(text), least=_OF_CLAUSE)


def _names_subject(sentence: str, language: Language) -> bool:
    """Return whether a short sentence may name what the next one is about: "My watch broke", not "I asked"."""
    words = len(content_words(sentence))
    is_asked = sentence.endswith(("?", "？")) or language.chit_chat.search(sentence.translate(QUOTES))
    is_telling = words >= (_OF_CLAUSE if language.is_spaced else 1)
    return is_telling and not is_asked and len(sentence) < _LONGEST // 2


def _excerpt(message: Message, facts: Sequence[ProposedFact], *, said: str) -> ProposedFact | None:
    if message.role is not Role.USER and len(message.text) > LONG_REPLY:
        return None
    sources = (message.id,) if message.id else ()
    text, last = "", -1
    kinds: list[FactCategory] = []
    sentences = sentences_of(message.text)
    for place, sentence in enumerate(sentences):
        if sentence.startswith("[") and sentence.endswith("]"):  # "[shares a photo of two dogs]"
            continue
        if len(sentences) > 1 and not _LETTER.search(DATES.sub("", sentence)):  # "Tuesday! Let's go."
            continue
        plain = without_lead_in(sentence.translate(QUOTES))  # "Hey Ann" names whom it is said to
        kind = _kind_of_values(plain, detect(sentence), message.role)
        if kind is None:
            continue
        if kind is FactCategory.CONDITION:
            is_lost = bool(missing_facts([ProposedFact("", sentence, kind, sources)], facts=facts))
        else:
            is_lost = not has_values(said, sentence)
        if not is_lost:
            continue
        piece = _shortened(sentence)
        if (
            place
            and place - 1 != last
            and _is_unclear(piece)
            and _names_subject(sentences[place - 1], detect(sentence))
        ):
            piece = f"{sentences[place - 1]} {piece}"  # "My watch broke. It's a Garmin 245."
        if text:
            is_next = place - 1 == last and text.endswith(_ENDS)
            piece = f"{text}{' ' if is_next else _SKIPPED}{piece}"
            if len(piece) > _MOST_OF_MESSAGE:
                break
        text, last = piece, place
        kinds.append(kind)
    if not text:
        return None
    kind = max(kinds, key=lambda one: one.importance)
    return ProposedFact("", text, kind, sources, _EXCERPTED * kind.importance)


def _kind_of_values(plain: str, language: Language, role: Role) -> FactCategory | None:
    """Return the kind of the values that a sentence must not lose; `None` if it has none."""
    sure, is_asked = any(match.lastgroup == "sure" for match in CONCRETE.finditer(plain)), is_question(plain)
    if role is not Role.USER:
        is_about_user = language.listener.search(plain) and not is_asked and not language.wanting.search(plain)
        is_decided = (sure or DATES.search(plain)) and (is_about_user or language.deciding.search(plain))
        return FactCategory.NUMERIC if is_decided or IDENTIFIER.search(plain) else None
    is_small_talk = language.chit_chat.search(plain)
    is_rule = language.forbidding.search(plain) and not is_small_talk
    if is_rule and not plain.endswith(("?", "？")) and not _asks(plain, language):
        return FactCategory.CONDITION
    if sure:
        return FactCategory.NUMERIC
    if is_small_talk or (is_asked and not language.listener.search(plain)):
        return None
    is_number = CONCRETE.search(plain) and not language.seeking.search(plain)  # "write part 2" says nothing later
    if is_number or DATES.search(plain):
        return FactCategory.NUMERIC
    is_about_user = any(form.search(plain) for form in (language.oneself, language.wanting, language.seeking))
    return FactCategory.ENTITY if NAMES.search(plain) and is_about_user and not is_asked else None


def _shortened(sentence: str) -> str:
    """Return a sentence, or the clauses of a long one that have its values."""
    if len(sentence) <= _LONGEST_SENTENCE:
        return sentence
    telling = [
        clause
        for start, end in clauses_of(sentence)
        for clause in (sentence[start:end],)
        if any(form.search(clause) for form in (CONCRETE, DATES, NAMES, detect(clause).forbidding))
    ]
    kept = _SKIPPED.join(telling or [sentence])
    return kept if len(kept) <= _MOST_OF_MESSAGE else f"{kept[:_MOST_OF_MESSAGE].rsplit(' ', 1)[0]}…"
