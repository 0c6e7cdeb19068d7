"""What English statements claim: read by closed classes of words, whatever they are about."""

import re
from collections.abc import Iterator

from arc_common.memory.long_term.claims import Claim, Mark, changed, ended, valued
from arc_common.memory.long_term.claims_english_clauses import (
    ROLES,
    Clause,
    clause_of,
    given,
    modifiers_of,
    names_of,
    plain_of,
    stems_of,
    until,
)
from arc_common.memory.long_term.claims_english_phrases import (
    CAUSED,
    CHANGES,
    DISLIKES,
    ENDS,
    HYPOTHETICAL,
    INTENDED,
    LONG_AGO,
    NEGATION,
    NOW,
    PAST,
    SWAPS,
)
from arc_common.memory.long_term.claims_english_states import says, states
from arc_common.memory.long_term.claims_english_tokens import Word, clauses_of, words_of
from arc_common.memory.long_term.claims_english_words import (
    DWELLINGS,
    FILLERS,
    LIGHT,
    OCCUPATIONS,
    PLACES,
    PREPOSITIONS,
)
from arc_common.memory.long_term.claims_kinds import MOMENTS, WHEN, kind_of

__all__ = ["claims_of", "is_negated"]

_TELLS = frozenset({"old", "new", "second", "extra", "spare"})
"""What tells the thing that is over from the one that there is."""

_LASTS = ("amount-day", "amount-month")
"""Kinds of values that say for how long something has not been so."""

_NO_LONGER = re.compile(r"\b(?:no longer|longer|now|nowadays|instead)\b")
_GOES = re.compile(
    r"went|gone|f[ea]ll|r[io]se|gr[eo]w|hit|reach|put|set|brought|cut|turn|drop|jump|gain|climb|shr|slip"
)
"""Verbs that change an amount or a time, and do other things besides."""

_TO = Word("to", "to")
_NAME = Word("name", "name")
"""Words that are meant where they are left out."""


def is_negated(text: str) -> bool:
    """Whether the text denies something."""
    folded = text.casefold().replace("’", "'")
    return any(pattern.search(folded) for pattern in (NEGATION, DISLIKES, ENDS))


def claims_of(sentence: str) -> Iterator[Claim]:
    """What an English sentence claims."""
    clauses = clauses_of(sentence)
    whole = " ".join(clauses)
    if HYPOTHETICAL.search(whole) or PAST.search(whole.casefold()):
        return
    is_dated = LONG_AGO.search(whole) is not None
    before: list[Word] = []
    for place, clause in enumerate(clauses):
        causes = CAUSED.match(clause.casefold())
        words = words_of(
            f"I {causes['verb'] or ''} {clause[causes.end() :]}" if causes else clause, is_first=place == 0
        )
        read = clause_of(words, before, clauses[place + 1 :])
        is_long_ago = is_dated and read.is_past()
        is_of_another = place > 0 and bool(read.names) and read.names[0].low in ("his", "her", "its", "their")
        for claim in _claims(read):
            if claim.mark is Mark.ENDED or not (is_long_ago or (is_of_another and claim.mark is Mark.VALUE)):
                yield claim
        before = read.names or before


def _claims(clause: Clause) -> Iterator[Claim]:
    """What a clause claims: that something is over, isn't so, has changed, or is so."""
    low = clause.low
    if swap := SWAPS.search(low):
        old, new = swap["old"] or swap["left"] or swap["dropped"], swap["new"] or swap["taken"] or swap["kept"]
        yield from _ends(clause, clause.within(old))
        yield from says(clause, clause.within(new))
        yield from _changes(clause, clause.within(new), clause.within(new))
    elif match := DISLIKES.search(low):
        yield from _ends(clause, clause.after(match.end()), engages=True)
    elif (match := ENDS.search(low)) and not NEGATION.search(low) and not INTENDED.search(low):
        yield from _is_over(clause, match)
    elif match := NEGATION.search(low):
        if not re.search(r"\bdid not\b|\b(?:was|were) not\b", low) or NOW.search(low):
            yield from _denies(clause)
    elif not INTENDED.search(low) and (match := CHANGES.search(low)) and (found := _change(clause, match)):
        yield from found
    elif not clause.is_event():
        yield from states(clause)


def _ends(clause: Clause, words: list[Word], *, engages: bool = False) -> Iterator[Claim]:
    """That what these words name is over, or, if they say that somebody has to do with it, that this is."""
    plain = [stem for stem in plain_of(words) if stem != "~"] + [w.low for w in words if w.low in _TELLS]
    tokens = {stem for stem in plain if stem not in LIGHT} or set(plain)
    tokens |= {word.value for word in words if word.value and (engages or kind_of(word.value) not in WHEN)}
    if engages:
        tokens.add("~")
    if tokens:
        yield from ended(clause.subject, clause.people, tokens)


def _is_over(clause: Clause, match: re.Match[str]) -> Iterator[Claim]:
    """That what stands behind the verb is over; what it is about, if nothing does."""
    words = clause.after(match.end())
    if words and words[0].low in ("by", "to", "off", "behind"):
        return
    if words and words[0].low in ("at", "in", "for", "away") and match[0].startswith(("stop", "le", "return", "lost")):
        return
    if words and words[0].low in ("it", "them", "that"):
        yield from ended(frozenset(), clause.people, clause.before)
    elif any(word.stem and word.low not in FILLERS for word in words if kind_of(word.value) not in WHEN):
        yield from _ends(clause, given(words))
    elif clause.low.startswith("lost"):
        return  # a game
    elif clause.people and match[0] in ("died", "passed away"):
        yield from ended(clause.subject, clause.people, clause.subject)
    elif not clause.subject:
        yield from _ends(clause, [word for word in clause.predicate[: -len(words) or None] if word.low != "let"][:-1])
    elif not clause.people:
        yield from ended(frozenset(), "", {stem for stem in clause.subject if stem not in LIGHT} or clause.subject)


def _denies(clause: Clause) -> Iterator[Claim]:
    """That something isn't so."""
    if re.search(r"\bnot have (?:my|our)\b", clause.low):
        return  # it is only not at hand
    words = [word for word in clause.predicate if word.low not in ("not", "no", "never", "without")]
    tokens = (
        set(plain_of(words))
        | {word.low for word in words if word.low in _TELLS}
        | {word.value for word in words if word.value and kind_of(word.value) not in _LASTS}
    )
    if not clause.has_verb() and any(word.low in ("have", "has") for word in words):
        tokens.add("#")
    if "want" in tokens and _NO_LONGER.search(clause.low):
        yield from ended(clause.subject, clause.people, {"~", *tokens} - {"want"})
    if re.search(r"\bcan not\b", clause.low):
        tokens.add("+")
    if _NO_LONGER.search(clause.low) and len(tokens - {"~", "#", "+"}) > 1:
        tokens -= {"~", "#"}
    yield from ended(clause.subject, clause.people, tokens | clause.subject)


def _change(clause: Clause, match: re.Match[str]) -> list[Claim]:
    """What has another value than before, and which; nothing if the verb says no such thing here."""
    verb = match[0]
    words = clause.after(match.end())
    joins = {word.low: i for i, word in reversed(list(enumerate(words)))}
    place = next((joins[low] for low in ("to", "into", "until", "till", "with", "as") if low in joins), None)
    if place is None and verb.startswith(
        ("renam", "repaint", "paint", "dy", "turn", "brought", "chang", "cut", "switch")
    ):
        values = [w for w in words if w.is_name or (w.value and kind_of(w.value) not in ("amount", *WHEN))]
        if values:
            start = words.index(next((word for word in values if word.is_name), values[-1]))
            start -= start > 0 and words[start - 1].value.startswith("brightness")
            words = [*words[:start], _TO, *words[start:]]
        place = words.index(_TO) if values else None
        if not values and verb.startswith(("renam", "chang", "switch")):
            names = [w for text in clause.following for w in words_of(text, is_first=False) if w.is_name]
            return list(_changes(clause, [*words, _NAME] if verb.startswith("renam") else words, names))
    if place is None and verb.startswith("mov"):
        place = next((i for i, word in enumerate(words) if i and ROLES.get(word.low) == "at"), None)
    if place is None or (_GOES.match(verb) and not any(word.value for word in words[place + 1 : place + 3])):
        return []
    topic, new = words[: max(0, place)], words[place + 1 :]
    first = len(until(new, PREPOSITIONS))
    new = new[:first] + [word for word in new[first:] if kind_of(word.value) not in MOMENTS]
    about = [
        word
        for word in until(topic, frozenset({"out", "off", "from"}))
        if word.low not in PREPOSITIONS | {"back", "up", "down", "forward"}
    ]
    found = list(says(clause, [*topic, *new]))
    moves = verb.startswith(("mov", "reloc", "transf")) and not plain_of(about)
    if moves and verb.endswith("ing"):
        return list(says(clause, new))
    if moves and (clause.people or not clause.subject) and all(kind_of(word.value) in ("", *MOMENTS) for word in new):
        where = until(new, PREPOSITIONS)
        named = {word.stem for word in where if word.is_name}
        if not named and not DWELLINGS & {word.low for word in where}:
            return found
        found += valued(clause.subject, "home name" if named else "home", named or stems_of(where))
        found += valued(clause.subject, "with us", {"away"} if stems_of(where) else ())
    elif occupation := {word.stem for word in new if word.low in OCCUPATIONS}:
        found += valued(clause.subject, "occupation", occupation)
    elif plain_of(about) or clause.subject:
        found += _changes(clause, [*clause.names, *about] if plain_of(about) == [] else about, new)
    else:
        found += _changes(clause, new, new)
    return found


def _changes(clause: Clause, topic: list[Word], new: list[Word]) -> Iterator[Claim]:
    """That the topic has the new value."""
    values = {word.value for word in new if word.value} | names_of(new) | modifiers_of(new)
    about = {s for w in topic if not w.value and not (w.is_name and topic is new) for s in plain_of([w])}
    if topic is not new:
        about |= {word.value for word in topic if word.value and kind_of(word.value) not in WHEN}
        about = about - PLACES or about
    if topic is new:
        about -= {token.split("=")[1] for token in modifiers_of(new)}
    yield from changed(clause.people, about, values)
    if topic is new:
        return
    for kind in sorted({kind_of(word.value) for word in new if word.value}):
        yield from valued(about, kind, {w.value for w in new if kind_of(w.value) == kind})
    complement = until(new, PREPOSITIONS)
    if not any(word.value for word in complement):
        yield from valued(about, "is", stems_of(complement))
    if not any(kind_of(word.value) in WHEN for word in complement):
        for kind in ("at", "at number"):
            yield from valued(about, kind, stems_of(complement))
