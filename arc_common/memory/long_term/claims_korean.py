"""What Korean statements claim: read by particles, endings and closed classes of words, whatever they are about."""

import re
import unicodedata
from collections.abc import Iterator

from arc_common.memory.long_term.claims import Claim, Mark, changed, ended, valued
from arc_common.memory.long_term.claims_kinds import OF_THINGS, WHEN, kind_of
from arc_common.memory.long_term.claims_korean_clauses import PLACES, VERBAL_NOUN, Clause, engages, noun_of
from arc_common.memory.long_term.claims_korean_states import moved, says, states
from arc_common.memory.long_term.claims_korean_tokens import Word, clauses_of, stem_of_verb, words_of
from arc_common.memory.long_term.claims_korean_words import (
    CHANGES,
    DISLIKES,
    ENDS,
    HYPOTHETICAL,
    INTENDED,
    LIGHT,
    LONG_AGO,
    NEGATION,
    NOW,
    PAST,
    STATES,
)

__all__ = ["claims_of", "is_negated"]

_CAUSE = re.compile(r"\S+\s때문에\s")
_DIED = re.compile(r"돌아가[시셨]|별세|사망")
_FINE = re.compile(r"(?:아무\s)?(?:문제|상관|지장)\s?(?:가|이|도)?\s?없\S*|괜찮\S*")


def is_negated(text: str) -> bool:
    """Whether the text denies something."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return any("가" <= character <= "힣" for character in text) and NEGATION.search(folded) is not None


def claims_of(sentence: str) -> Iterator[Claim]:
    """What a Korean sentence claims."""
    clauses = clauses_of(sentence)
    whole = " ".join(clauses) + ("?" if sentence.rstrip().endswith("?") else "")
    if HYPOTHETICAL.search(whole) or PAST.search(whole):
        return
    is_dated = LONG_AGO.search(whole) is not None
    people = ""
    for place, clause in enumerate(clauses):
        read = Clause(" ".join(_CAUSE.sub(" ", _FINE.sub(" ", clause)).split()), people)
        is_long_ago = is_dated and read.is_past()
        is_of_another = place > 0 and len(read.head) == 1
        for claim in _claims(read):
            if claim.mark is Mark.ENDED or not (is_long_ago or (is_of_another and claim.mark is Mark.VALUE)):
                yield claim
        people = read.people


def _claims(clause: Clause) -> Iterator[Claim]:
    text = clause.text
    if match := re.search(r"(?P<old>\S+(?:\s\S+)?)\s대신(?=\s)", text):
        yield from _ends(clause, words_of(match["old"])[-1:])
        yield from says(clause, words_of(text[match.end() :]))
    elif (match := ENDS.search(text)) and not re.search(r"지\s않|안\s끊|못\s끊", text) and not INTENDED.search(text):
        yield from _ends(clause, words_of(text[: match.start()]))
    elif DISLIKES.search(text):
        yield from ended(frozenset(), clause.people, clause.tokens(clause.words[:-1]) | {"~"})
    elif NEGATION.search(text):
        yield from _denies(clause)
    elif not INTENDED.search(text) and (match := CHANGES.search(text)) and (found := _change(clause, match)):
        yield from found
    elif not clause.is_event():
        yield from states(clause)


def _ends(clause: Clause, words: list[Word]) -> Iterator[Claim]:
    words = [word for word in words if not word.text.endswith("던")]
    tokens = {noun_of(word.base) for word in words if not word.value and not clause.is_owner(word)}
    if not tokens and _DIED.search(clause.text):
        tokens = {clause.people} - {""}
    tokens |= {word.value for word in words if word.value and (word.base or kind_of(word.value) not in WHEN)}
    yield from ended(frozenset(), clause.people, tokens - LIGHT or tokens)


def _denies(clause: Clause) -> Iterator[Claim]:
    text = re.sub(r"기로\s(?:했|하였|함|결정)\S*$", "다", clause.text)
    if text == clause.text and clause.is_event() and not NOW.search(text):
        return
    text = re.sub(r"지\s?(?:는|도|를)?\s?(?:않|못).*$", "", text)
    text = re.sub(r"(?<=[가-힣])\s수(?:가|는|도)?\s없\S*$", "", text)
    nothing = re.search(r"(?:없|아니|아닙)\S*$", text)
    inner = Clause(re.sub(r"(?<=[가-힣])[이가]\s*$", "", text[: nothing.start()]) if nothing else text, clause.people)
    tokens = inner.tokens(inner.words[:-1] if not nothing else [])
    if nothing:
        tokens |= {word.value or noun_of(word.base) for word in inner.words if word.base or word.value}
        tokens |= {"#"} if nothing[0].startswith("없") else set()
        if "필요" in tokens:
            tokens -= {"필요", "#"}
    else:
        verb = re.sub(r"^(?:안|못)(?=[가-힣])", "", inner.verb.text)
        match = VERBAL_NOUN.match(inner.verb.text)
        tokens |= {noun_of(match["noun"]), "~"} if match else {"~" if engages(verb) else stem_of_verb(verb)}
    if re.search(r"(?:^|\s)못|지\s?(?:는|도)?\s?못", clause.text):
        tokens.add("+")
    yield from ended(inner.thing() if nothing else frozenset(), clause.people, tokens)


def _change(clause: Clause, match: re.Match[str]) -> list[Claim]:
    """What has another value than before, and which; nothing if the verb says no such thing here."""
    before = words_of(clause.text[: match.start()])
    to = next((i for i in range(len(before) - 1, -1, -1) if before[i].role in ("to", "until")), None)
    if to is None and match[0] in ("자르", "잘랐", "잘라", "염색", "칠했") and before and before[-1].value:
        to = len(before) - 1
    if to is None:
        return []
    start = to
    while start and not before[start - 1].role and (before[start - 1].base or before[start - 1].value):
        start -= 1
    new = before[start : to + 1]
    old = [word for word in before[:start] if word.text.endswith("에서") and word.base]
    topic = {
        word.value or noun_of(word.base)
        for word in before[:start]
        if (word.base or word.value)
        and word not in old
        and not clause.is_owner(word)
        and (kind_of(word.value) not in WHEN or (not word.role and kind_of(word.value) in OF_THINGS))
    }
    state = STATES.get(match[0])
    shared = {noun_of(w.base) for w in before[:start] if w.base} & {noun_of(w.base) for w in new if w.base}
    if shared and len(topic) > 1:
        return [*says(clause, new), *ended(frozenset(), clause.people, topic)]
    plain = {noun_of(word.base) for word in new if word.base and not word.value}
    found: list[Claim] = []
    if old:
        left = before[: before.index(old[-1]) + 1]
        ends = ended(frozenset(), clause.people, {noun_of(w.base) for w in left if w.base and not clause.is_owner(w)})
        return [*ends, *says(clause, new)]
    if state and not topic:
        return [*moved(clause, state, plain), *says(clause, new)]
    topic -= PLACES
    about = topic | ({clause.people} - {""}) or plain
    for kind in sorted({kind_of(word.value) for word in new if word.value}):
        values = {word.value for word in new if kind_of(word.value) == kind}
        found += valued(about, kind, values)
        if plain:
            found += valued(about | plain, kind, values)
    if not any(word.value for word in new):
        found += valued(about, "is", plain)
    for kind in ("at", "at number"):
        found += valued(about, kind, plain)
    values = {word.value for word in new if word.value} | {
        f"{role}={noun}" for noun in plain for role in ("is", "to", "at")
    }
    values |= {f"of {word}={noun}" for noun in plain for word in topic}
    found += changed(clause.people, about, values)
    return [*says(clause, [*before[:start], *new]), *found]
