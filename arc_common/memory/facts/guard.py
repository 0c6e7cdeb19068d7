"""The fidelity guard: keeps excerpts of messages for the values that no fact says."""

import re
from collections.abc import Sequence

from arc_common.context.repetition import without_lead_in
from arc_common.facts import FactCategory, ProposedFact
from arc_common.memory.facts.extraction import IDENTIFIER, LONG_REPLY, QUOTES, answering, with_answered
from arc_common.memory.facts.fidelity import has_values, missing_facts
from arc_common.messages import Message, Role
from arc_common.text.languages.language import Language
from arc_common.text.languages.registry import CONCRETE, DATES, NAMES, detect
from arc_common.text.sentences import clauses_of, sentences_of

_IMPORTANCE = 0.4
"""The importance of an excerpt, as a share of its kind's."""
_WORD = re.compile(r"\w")
_LONGEST = 160
"""Shorten a longer sentence to its clauses with values, and a longer clause to the part around its first value."""
_LONGEST_EXCERPT = 400
_SKIPPED = " … "


def excerpts_of(messages: Sequence[Message], *, facts: Sequence[ProposedFact]) -> list[ProposedFact]:
    """Return an excerpt of each message that has values which no fact with this source says.

    - Values are numbers, money, dates, times, ids, addresses, names, prohibitions and conditions. Every clear one of a
      user's counts; plain numbers, weekdays and names do not in small talk, and plain numbers
      not in requests.
    - An assistant's values count only if they are ids, part of a decision or about the user, and the user has not just
      said them.
    - Deterministic; linear in the length of the texts.
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
            found.append(answering(excerpt, answered))
        if message.role is Role.USER:
            by_user = f"{said}\n{excerpt.value if excerpt else ''}"
    return found


def _excerpt(message: Message, facts: Sequence[ProposedFact], *, said: str) -> ProposedFact | None:
    if message.role is not Role.USER and len(message.text) > LONG_REPLY:
        return None
    sources = (message.id,) if message.id else ()
    pieces: list[str] = []
    kinds: list[FactCategory] = []
    sentences = sentences_of(message.text)
    for sentence in sentences:
        if sentence.startswith("[") and sentence.endswith("]"):  # "[shares a photo of two dogs]"
            continue
        if len(sentences) > 1 and not _WORD.search(DATES.sub("", sentence)):  # "Tuesday! Let's go."
            continue
        plain = without_lead_in(sentence.translate(QUOTES))  # "Hey Ann" names whom it is said to
        kind = _kind(plain, detect(sentence), message.role)
        if kind is None:
            continue
        if kind is FactCategory.CONDITION:
            is_lost = bool(missing_facts([ProposedFact("", sentence, kind, sources)], facts=facts))
        else:
            is_lost = not has_values(said, sentence)
        if is_lost:
            pieces.append(_shortened(sentence))
            kinds.append(kind)
    if not pieces:
        return None
    kind = max(kinds, key=lambda one: one.importance)
    text = _SKIPPED.join(pieces)
    while len(text) > _LONGEST_EXCERPT and len(pieces) > 1:
        pieces.pop()
        text = _SKIPPED.join(pieces)
    return ProposedFact("", text, kind, sources, _IMPORTANCE * kind.importance)


def _kind(plain: str, language: Language, role: Role) -> FactCategory | None:
    """Return the kind of the values that a sentence must not lose; `None` if it has none."""
    sure = any(match.lastgroup == "sure" for match in CONCRETE.finditer(plain))
    if role is not Role.USER:
        is_about_user = language.listener.search(plain) and "?" not in plain and not language.wanting.search(plain)
        is_decided = (sure or DATES.search(plain)) and (is_about_user or language.deciding.search(plain))
        return FactCategory.NUMERIC if is_decided or IDENTIFIER.search(plain) else None
    is_small_talk = language.chit_chat.search(plain)
    if language.forbidding.search(plain) and not is_small_talk and not plain.endswith("?"):
        return FactCategory.CONDITION
    if sure:
        return FactCategory.NUMERIC
    if is_small_talk or ("?" in plain and not language.listener.search(plain)):
        return None
    is_number = CONCRETE.search(plain) and not language.seeking.search(plain)  # "write part 2" says nothing later
    if is_number or DATES.search(plain):
        return FactCategory.NUMERIC
    is_about_user = any(form.search(plain) for form in (language.oneself, language.wanting, language.seeking))
    return FactCategory.ENTITY if NAMES.search(plain) and is_about_user and "?" not in plain else None


def _shortened(sentence: str) -> str:
    """Return a sentence, or the clauses of a long one that have its values."""
    if len(sentence) <= _LONGEST:
        return sentence
    telling = [
        clause
        for start, end in clauses_of(sentence)
        for clause in (sentence[start:end],)
        if any(form.search(clause) for form in (CONCRETE, DATES, NAMES, detect(clause).forbidding))
    ]
    kept = _SKIPPED.join(telling or [sentence])
    return kept if len(kept) <= _LONGEST_EXCERPT else f"{kept[:_LONGEST_EXCERPT].rsplit(' ', 1)[0]}…"
