"""What Korean clauses state: values of which a thing has one, and what there is to be over later."""

import re
from collections.abc import Iterator

from arc_common.memory.long_term.claims import Claim, changed, ended, owned, placed, said, valued
from arc_common.memory.long_term.claims_kinds import OF_THINGS, STATUS, WHEN, kind_of
from arc_common.memory.long_term.claims_korean_clauses import PLACES, VERBAL_NOUN, Clause, is_verb, noun_of
from arc_common.memory.long_term.claims_korean_tokens import Word, bare, stem_of_verb
from arc_common.memory.long_term.claims_korean_words import (
    CHANGES,
    CLASSES,
    COPULA,
    DENIED_BY,
    FUTURE,
    INTENDED,
    JOINS,
    LEARNS,
    MANY,
    MOST,
    NO_EMPLOYER,
    NOW,
    OCCUPATION,
    PEOPLE,
    SCHOOL,
    STATES,
    TITLE,
)

__all__ = ["moved", "says", "states"]

_DWELLING = re.compile(r"(?:원룸|투룸|아파트|오피스텔|빌라|주택|기숙사|집|본가|고시원|자취방|요양원)$")
_TAKEN = frozenset({"고기", "유제품", "술", "담배"})


def moved(clause: Clause, state: str, where: set[str]) -> Iterator[Claim]:
    """That somebody is somewhere: at home, at work, at school."""
    if FUTURE.search(clause.text) or (state == "job" and any(map(NO_EMPLOYER.search, where))):
        return
    if any(map(_DWELLING.search, where)):
        state = "dwelling"
    if state == "major":
        yield from valued([clause.people, "전공"], "is", where)
    else:
        yield from (valued if CHANGES.search(clause.text) else placed)(
            [clause.people], "school" if any(map(SCHOOL.search, where)) else state, where
        )


def states(clause: Clause) -> Iterator[Claim]:
    """What a clause claims that says how things are."""
    words, text = clause.words, clause.text
    roles = _roles(clause)
    objects = [word for word in words if word.role == "object" and word.base]
    tops = [word for word in words if word.role == "topic" and word.base]
    if objects and tops:
        roles.add(f"of {noun_of(tops[-1].base)}={noun_of(objects[-1].base)}")
        if is_verb(clause.verb.text, "쓰") and not clause.people and not any(word.value for word in words):
            yield from valued(clause.tokens(clause.head), "is", {noun_of(objects[-1].base)})
    yield from says(clause, words, *roles)
    for word in words:
        for denied in DENIED_BY.get(COPULA.sub("", word.text), DENIED_BY.get(word.base, ())):
            yield from ended(frozenset(), clause.people, {denied, "~" if denied in _TAKEN else "#"})
    if any(word.role == "also" for word in words) or re.search(r"(?:^|\s)(?:또|둘째|두\s?번째)\s", text):
        return
    is_new = NOW.search(text) is not None or re.search(r"(?:^|\s)새(?:로운)?\s", text) is not None
    if is_new and clause.is_copula and clause.head and not clause.verb.value:
        yield from changed(
            clause.people, clause.tokens(clause.head) - {"새"}, {r for r in roles if r.startswith("is=")}
        )
    if NOW.search(text) or re.search(r"올해부터|이번\s?(?:달|주|학기)부터", text):
        for role, least in (("at", 1), ("to", 1), ("with", 1), ("object", 2)):
            tokens = {token for token in roles if token.startswith(f"{role}=")}
            about = clause.tokens(words) - {token.split("=")[1] for token in tokens} - {"혼자"}
            if len(about - {"~", "#"}) >= least:
                yield from changed(clause.people, about, tokens)
        values = {word.value for word in words if word.value}
        yield from changed(clause.people, clause.tokens(words) - values, values)
    if match := re.match(r"(?:내|제|우리)\s(?P<thing>[가-힣]+)", text):
        yield from owned({noun_of(bare(match["thing"]))})
    yield from _typed(clause)
    if not INTENDED.search(text):
        yield from _complements(clause)
    if clause.is_copula:
        yield from _identity(clause)


def _roles(clause: Clause) -> set[str]:
    """What its particle says of each noun, and of those before it that have none."""
    found = {"with=혼자"} if "혼자" in clause.text else set()
    phrase: list[str] = []
    for word in clause.words:
        role = "is" if word is clause.verb and clause.is_copula else word.role
        phrase = [*phrase, noun_of(word.base)] if word.base and not word.value else phrase
        if role in ("is", "to", "at", "with", "object"):
            found |= {f"{role}={noun}" for noun in phrase}
        if word.role or word.value:
            phrase = []
    return found


def _typed(clause: Clause) -> Iterator[Claim]:
    """Values whose kind their words tell; two exclude each other if all else is the same."""
    values = [word.value for word in clause.words if word.value]
    for kind in dict.fromkeys(map(kind_of, values)):
        if kind in OF_THINGS and not clause.thing() and not clause.is_copula and not MOST.search(clause.text):
            continue
        if kind in ("clock", "date", "weekday") and clause.verb.text.startswith("있"):
            continue
        rest = {token for token in clause.tokens(clause.words, verbs=True) if kind_of(token) != kind} - PLACES
        if kind in STATUS:
            rest = {clause.people}
        elif INTENDED.search(clause.text):
            rest.add("?")
        yield from valued(rest - {""}, kind, {value for value in values if kind_of(value) == kind})


def _complements(clause: Clause) -> Iterator[Claim]:
    """What verbs take one of at a time: where somebody lives, for whom they work, what is used as what."""
    text = clause.verb.text
    match = VERBAL_NOUN.match(text)
    stem = match["noun"] if match else text
    state = next(
        (name for verb, name in STATES.items() if is_verb(text, verb) or (len(verb) > 1 and stem.startswith(verb))),
        None,
    )
    when = {word.value for word in clause.words if kind_of(word.value) in ("weekday", "daypart", "season")}
    where = [place for place, word in enumerate(clause.words) if word.role in ("at", "to") and word is not clause.verb]
    if state and where:
        start = where[-1]
        while start and not clause.words[start - 1].role and clause.words[start - 1].base:
            start -= 1
        found = {
            word.value or noun_of(word.base) for word in clause.words[start : where[-1] + 1] if word.base or word.value
        }
        found = {token for token in found if kind_of(token) not in WHEN}
        thing = clause.thing()
        if state == "kept" and clause.head:
            yield from valued(clause.tokens(clause.head), "at", found)
        elif state == "kept":
            pass
        elif state == "at" and thing:
            number = "at number" if any(kind_of(token).startswith("amount") for token in found) else "at"
            yield from valued(thing - PLACES, number, found)
        elif state == "stays":
            yield from valued(clause.tokens(clause.words[:start]), state, found)
        elif state == "sleeps":
            yield from valued(thing | {clause.people} | when, state, found)
        elif state != "at" and not thing:
            yield from moved(clause, state, found) if not when else ()
    if state == "home" and (
        company := re.search(r"(?P<who>\S+?)(?:이랑|랑|하고|와|과)\s|(?P<alone>혼자)\s", clause.text)
    ):
        yield from valued([clause.people], "live with", {company["who"] or "alone"})
    objects = [word for word in clause.words if word.role == "object"]
    if objects and where and stem_of_verb(text) == stem_of_verb("쓰") and clause.words[where[-1]].role == "to":
        after = clause.words[clause.words.index(objects[-1]) + 1 : where[-1] + 1]
        yield from valued(clause.tokens(after), "is", {noun_of(objects[-1].base)})
    if match and match["noun"] == "전공" and objects:
        yield from valued([clause.people, "전공"], "is", {noun_of(objects[-1].base)})


def _identity(clause: Clause) -> Iterator[Claim]:
    """Who, what or where something is that there is one of."""
    place = max((i for i, word in enumerate(clause.words) if word.role in ("topic", "subject")), default=None)
    complement = clause.words[place + 1 :] if place is not None else clause.words
    tokens = clause.tokens(complement)
    nouns = [COPULA.sub("", word.text) if word is clause.verb else word.base for word in complement]
    if nouns and OCCUPATION.search(nouns[-1]):
        yield from valued([clause.people], "occupation", {nouns[-1]})
    if place is None or not clause.words[place].base:
        return
    head = clause.words[place].base
    about = clause.tokens(clause.words[: place + 1])
    if MANY.search(head) or ("좋아" in clause.text and not MOST.search(clause.text)):
        return
    if any("=" in token for token in tokens):
        return
    if not PEOPLE.search(head) or (nouns and TITLE.search(nouns[-1])):
        yield from valued(about, "is", tokens)


def says(clause: Clause, words: list[Word], *more: str) -> Iterator[Claim]:
    """That these words of a clause are so, with more tokens that say how."""
    tokens = clause.tokens(words) | set(more)
    for word in words:
        if word.base in CLASSES:
            tokens |= {CLASSES[word.base], f"of {CLASSES[word.base]}={word.base}"}
    if JOINS.search(clause.text):
        tokens |= {"~", "#"}
    if "좋아하" in clause.text:
        tokens.add("~")
    if not LEARNS.search(clause.text):
        tokens.add("+")
    yield from said(clause.thing(), clause.people, tokens)
