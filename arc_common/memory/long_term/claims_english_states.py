"""What English clauses state: values of which a thing has one, and what there is to be over later."""

import re
from collections.abc import Iterator

from arc_common.memory.long_term.claims import Claim, changed, ended, owned, placed, said, valued
from arc_common.memory.long_term.claims_english_clauses import (
    ROLES,
    Clause,
    modifiers_of,
    names_of,
    plain_of,
    stems_of,
    tokens_of,
    until,
)
from arc_common.memory.long_term.claims_english_phrases import ADDITIVE, INTENDED, LEARNS, NOW, RATHER
from arc_common.memory.long_term.claims_english_tokens import Word
from arc_common.memory.long_term.claims_english_words import (
    ATTRIBUTES,
    AUXILIARIES,
    CLASSES,
    DENIED_BY,
    FILLERS,
    JOINS,
    LIGHT,
    MANY,
    OCCUPATIONS,
    PREPOSITIONS,
    PRONOUNS,
    QUALITIES,
    SCHOOLS,
    STATES,
    VERBS,
)
from arc_common.memory.long_term.claims_kinds import MOMENTS, OF_THINGS, STATUS, WHEN, kind_of
from arc_common.text.languages.language import word_set

__all__ = ["says", "states"]

_BEGIN = frozenset({"start", "begin", "take", "place", "held", "happen", "schedul", "weigh", "weight"})
"""Stems of what stands with a value and says nothing more."""

_HAS = re.compile(r"\b(?:have|has|had|got|own|owns|adopted|met|know|knows)\b")
"""With one of these verbs, "called Rex" names something that somebody has, not the speaker."""

_CHOSEN = word_set("favorite favourite main go-to usual current primary best preferred first")
_WITHOUT = re.compile(r"(?<=\bam )single$|\bonly child\b|\blive alone\b|\bon my own\b|\bby myself\b")
_QUALITY = re.compile(r"(?:ful|ous|able|ible|less|[a-z]{2}ing|[a-z]{2}ed)$")
_FOR = re.compile(r"\b(?:use|uses)\s(?P<held>\S.{1,30}?)\sfor\s(?!work|school|home)(?P<role>\S.{1,30})$")
_AS = re.compile(
    r"\b(?:use|uses|have|has|drink|eat|wear)\s(?P<held>\S.{1,40}?)\sas\s(?:my|our|his|her|their"
    r"|the)\s(?P<role>\S.{1,40})$"
)


def states(clause: Clause) -> Iterator[Claim]:
    """What a clause claims that says how things are."""
    low, words = clause.low, clause.predicate
    roles = clause.roles()
    yield from says(
        clause, words, *names_of(words), *modifiers_of(words), *(t for tokens in roles.values() for t in tokens)
    )
    yield from _owns(clause)
    for word in words:
        for denied in DENIED_BY.get(word.low, ()):
            yield from ended(clause.subject, clause.people, {denied, "~"})
    if not clause.subject and (match := _WITHOUT.search(low)):
        for denied in DENIED_BY[match[0]]:
            yield from ended(frozenset(), "", {denied, "#"})
    if ADDITIVE.search(low):
        return
    if NOW.search(low):
        plain = {stem for stem in plain_of([w for w in words if not w.is_name]) if stem != "~"} | clause.subject
        values = {word.value for word in words if word.value}
        for tokens in roles.values():
            about = plain - {token.split("=")[1] for token in tokens} - _BEGIN
            yield from changed(clause.people, about, tokens)
        for kind in sorted(set(map(kind_of, values))):
            of_kind = {value for value in values if kind_of(value) == kind}
            about = plain | values - of_kind
            if plain or kind not in OF_THINGS | MOMENTS:
                yield from changed(clause.people, about - _BEGIN - LIGHT or about, of_kind)
    if match := RATHER.search(low):
        both = {*plain_of(clause.within(match["value"])), *plain_of(clause.within(match["other"]))}
        yield from valued({*clause.subject, *both}, "rather", plain_of(clause.within(match["value"])))
        return
    if match := _AS.search(low):
        about = stems_of(clause.within(match["role"]))
        yield from valued(clause.subject | about, "is", stems_of(clause.within(match["held"])))
    if (match := _FOR.search(low)) and any(word.is_name for word in clause.within(match["held"])):
        yield from valued(stems_of(clause.within(match["role"])), "used for", stems_of(clause.within(match["held"])))
    yield from _typed(clause)
    yield from _complements(clause)
    yield from _identity(clause)


def _owns(clause: Clause) -> Iterator[Claim]:
    """That the user has what is called the user's."""
    if clause.is_past():
        return
    for words in (clause.names, clause.predicate):
        for place, word in enumerate(words):
            if word.low in ("my", "our"):
                thing = until(words[place:], PREPOSITIONS | AUXILIARIES | {"own", "old", "first"})[1:4]
                owner = next((i for i, w in enumerate(thing) if w.low.endswith("'s")), len(thing))
                tokens = {token for w in thing[: owner + 1] for token in (CLASSES.get(w.low, "~"), *stems_of([w]))}
                yield from owned(tokens - {"~"})


def _typed(clause: Clause) -> Iterator[Claim]:
    """Values whose kind their words tell; two exclude each other if all else is the same."""
    low, words = clause.low, clause.predicate
    if not clause.names and not any(
        word.stem in VERBS or word.low in AUXILIARIES or word.value.startswith("trans") for word in words
    ):
        return
    usual = re.search(r"\b(?:usually|always|normally|generally)\b", low)
    indefinite = re.search(r"\b(?:an?|some)\b", low)
    main = re.search(r"\b(?:main|only|favou?rite|primary|usual|preferred)\b", low) is not None
    for kind in dict.fromkeys(kind_of(word.value) for word in words if word.value):
        of_user = not clause.subject or bool(clause.people)
        is_way = kind == "transport" and re.search(r"\bto (?:work|school|campus|class|college|uni)\b|\bonsite\b", low)
        is_in = kind == "language" and " in " in f" {low}"
        if kind in OF_THINGS and of_user and not (main or is_way or is_in):
            continue
        if indefinite and not usual and kind in ("clock", "date", "weekday", "colour", "size"):
            continue
        rest = {*clause.subject, *(t for t in tokens_of(words, verbs=True) if kind_of(t) != kind)}
        if kind in STATUS:
            rest = set(clause.subject)
        elif clause.is_past():
            continue
        elif INTENDED.search(low):
            rest.add("?")
        yield from valued(rest - _BEGIN, kind, {w.value for w in words if kind_of(w.value) == kind})


def _complements(clause: Clause) -> Iterator[Claim]:
    """What verbs take one of at a time: where somebody lives, for whom they work."""
    words = clause.predicate
    if INTENDED.search(clause.low):
        return
    when = {word.value for word in words if kind_of(word.value) in WHEN}
    for place, word in enumerate(words):
        for at in range(place + 1, len(words)):
            joined = words[at].low if words[at].low in PREPOSITIONS else ""
            is_next = at == place + 1 and not joined
            name = STATES.get(f"{word.stem} {joined}" if joined else word.stem if is_next else "")
            if (
                words[place + 1].low == "out"
                or name is None
                or (name == "name" and _HAS.search(clause.low))
                or (name == "goes to" and not clause.people and not SCHOOLS & {w.low for w in words})
            ):
                continue
            if name == "live with" and [w.low for w in words[at + 1 : at + 2]] in (["us"], ["me"]):
                yield from valued(clause.subject, "with us", {"here"})
            complement = until(words[at if is_next else at + 1 :], PREPOSITIONS)
            named = {stem for w in complement if w.is_name for stem in (w.stem,)}
            kind = f"{name} name" if named else name
            if named or (name not in ("car", "runs on", "dates", "supports") and stems_of(complement)):
                rest = stems_of(words[place + 1 : at]) if name == "at" else set()
                yield from placed(clause.subject | when | rest, kind, named or stems_of(complement))
                if name in ("bank", "insurer", "major", "car"):
                    yield from valued(clause.subject | {name}, "is", named or stems_of(complement))
                if name == "job":
                    yield from valued(clause.subject, "employment", {"employment=employed"})


def _identity(clause: Clause) -> Iterator[Claim]:
    """Who, what or where something is that there is one of."""
    words = clause.predicate
    verb = next((i for i, w in enumerate(words) if w.low in ("is", "are", "will", "am")), None)
    if verb is None:
        return
    rest = [word for word in words[verb + 1 :] if word.low not in ("now", "be", "currently", "named", "called")]
    if not rest:
        return
    complement = until(rest[1:] if rest[0].low in PREPOSITIONS else rest, PREPOSITIONS)
    stems = stems_of(complement)
    head = clause.names[-1].low if clause.names else ""
    if occupation := {w.stem for w in complement if w.low in OCCUPATIONS}:
        yield from valued(clause.subject, "occupation", occupation)
    if not clause.subject:
        return
    if len(clause.names) == 1 and rest[0].low in ("my", "our"):
        yield from valued(stems, "is", clause.subject)
        yield from changed("", stems if NOW.search(clause.low) else (), {f"name={stem}" for stem in clause.subject})
    joined = ROLES.get(rest[0].low)
    if joined in ("at", "with") and not clause.people and any(kind_of(stem) not in WHEN for stem in stems):
        has_number = any(kind_of(stem).startswith("amount") for stem in stems)
        yield from valued(clause.subject, f"{joined} number" if has_number else joined, stems)
    if rest[0].low in PREPOSITIONS:
        return
    named = [word for word in complement if word.is_name]
    is_attribute = any(word.low in _CHOSEN for word in clause.names) or (
        any(w.low.removesuffix("'s") in ATTRIBUTES for w in clause.names[-2:])
        or " favorit" in f" {' '.join(clause.subject)}"
    )
    is_name = named and len(named) == len([w for w in complement if w.stem and w.low not in FILLERS | PRONOUNS])
    is_name = is_name and not re.search(r"(?:ish|ese|ian)$", named[-1].low)
    is_quality = any(word.low in QUALITIES or _QUALITY.search(word.low) for word in complement if not word.is_name)
    if is_quality or any(word.value for word in complement):
        return
    if is_attribute or (is_name and head not in MANY):
        yield from valued(clause.subject - {"name"} or clause.subject, "is", stems)


def says(clause: Clause, words: list[Word], *more: str) -> Iterator[Claim]:
    """That these words of a clause are so, with more tokens that say how."""
    tokens = {*clause.subject, *tokens_of(words), *more}
    tokens |= {CLASSES[word.low] for word in words if word.low in CLASSES}
    tokens |= {word.stem for word in words if word.value and word.stem and word.low.isalpha()}
    if "cigarett" in tokens or any(word.stem in JOINS for word in words[:3]):
        tokens |= {"~", "#"}
    if re.search(r"\bwants?\b", clause.low):
        tokens.discard("~")
    if "live" in tokens and any(token.startswith("with=") for token in more):
        tokens |= {"~", "#"}
    if any(word.low in ("it", "them") for word in words):
        tokens |= clause.before
    if "favorit" in tokens:
        tokens.add("~")
    if not LEARNS.search(clause.low):
        tokens.add("+")
    yield from said(clause.subject, clause.people, tokens)
