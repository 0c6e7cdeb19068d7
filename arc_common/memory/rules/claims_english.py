"""What English statements claim: read by closed classes of words, whatever they are about."""

import re
from collections.abc import Iterator
from itertools import pairwise

from arc_common.memory.rules.claims import Claim, Mark, changed, ended, owned, placed, said, valued
from arc_common.memory.rules.claims_english_tokens import Word, clauses_of, words_of
from arc_common.memory.rules.claims_english_words import (
    ADDITIVE,
    ATTRIBUTES,
    AUXILIARIES,
    CAUSED,
    CHANGES,
    CLASSES,
    DENIED_BY,
    DISLIKES,
    ENDS,
    ENGAGES,
    FILLERS,
    HYPOTHETICAL,
    INTENDED,
    JOINS,
    LEARNS,
    LIGHT,
    LIKES,
    LONG_AGO,
    MANY,
    NEGATION,
    NOW,
    OCCUPATIONS,
    PAST,
    PEOPLE,
    PLACES,
    PREPOSITIONS,
    PRONOUNS,
    RATHER,
    SCHOOLS,
    STATES,
    SUBJECTS,
    SWAPS,
    VERBS,
)
from arc_common.memory.rules.claims_kinds import kind_of
from arc_common.memory.rules.vocabulary import word_set
from arc_common.text.words import BASE_FORMS

__all__ = ["claims_of", "is_negated"]

_OF_THINGS = frozenset({"weekday", "season", "daypart", "language", "colour", "transport"})
"""Kinds of values of which somebody has several, but a thing has one."""


def is_negated(text: str) -> bool:
    """Whether the text denies something."""
    return NEGATION.search(text.casefold().replace("’", "'")) is not None


def claims_of(sentence: str) -> Iterator[Claim]:
    """What an English sentence claims."""
    clauses = clauses_of(sentence)
    whole = " ".join(clauses)
    if HYPOTHETICAL.search(whole) or PAST.search(whole.casefold()):
        return
    is_long_ago = LONG_AGO.search(whole) is not None
    before: list[Word] = []
    for place, clause in enumerate(clauses):
        causes = CAUSED.match(clause.casefold())
        words = words_of(
            f"I {causes['verb'] or ''} {clause[causes.end() :]}" if causes else clause, is_first=place == 0
        )
        subject, predicate = _split(words, before)
        claims = _Clause(subject, predicate, before, clauses[place:]).claims()
        yield from (claim for claim in claims if claim.mark is Mark.ENDED or not is_long_ago)
        before = subject or before


def _split(words: list[Word], before: list[Word]) -> tuple[list[Word], list[Word]]:
    """The subject of a clause and what is said of it; a clause without a subject has that of the one before."""
    for place, word in enumerate(words):
        if word.low in SUBJECTS:
            return [], words[place + 1 :]
        if [w.low for w in words[place + 1 : place + 2]] == ["and"] and {
            w.low for w in words[place + 2 : place + 3]
        } & SUBJECTS:
            return [], [*words[place + 3 :], word]
        if word.low in ("the", "now") or (word.low in FILLERS and not place):
            continue
        break
    else:
        return [], words
    if words[0].low in AUXILIARIES or _is_finite(words[0]):
        return before, words
    has_plural = False
    negated = ("no", "longer", "not", "never", "now", "also", "still", "currently")
    for place, word in enumerate(words):
        follows = place > 0 and words[place - 1].low not in PRONOUNS
        is_verb = follows and (_is_finite(word) or (has_plural and word.stem in VERBS) or _is_likely(words, place))
        if is_verb or (place and word.low in AUXILIARIES):
            start = next(i for i in range(place, 0, -1) if i == 1 or words[i - 1].low not in negated)
            return words[:start], words[start:]
        has_plural = has_plural or (word.low.endswith("s") and not word.low.endswith("'s"))
    return [], words


def _is_likely(words: list[Word], place: int) -> bool:
    """Whether a word stands like a verb in the third person: behind a noun, before what completes it."""
    word, follower = words[place], words[place + 1] if place + 1 < len(words) else None
    ends = word.low.endswith("s") and "'" not in word.low and not word.is_name and not word.value
    completes = follower is not None and (
        follower.value or follower.low in PREPOSITIONS | {"the", "a", "an", "my", "our"}
    )
    return ends and bool(completes) and not any(later.low in AUXILIARIES for later in words[place:])


def _is_finite(word: Word) -> bool:
    if word.is_name or "-" in word.low:
        return False
    is_form = word.low.endswith(("s", "ed")) or word.low in BASE_FORMS
    return (word.stem in VERBS and is_form) or word.low.endswith("ed") or CHANGES.fullmatch(word.low) is not None


class _Clause:
    """One clause, and what it claims."""

    def __init__(self, subject: list[Word], predicate: list[Word], before: list[Word], rest: list[str]) -> None:
        self.predicate = predicate
        self.low = " ".join(word.low for word in predicate)
        self.names = subject
        self.subject = frozenset({*_stems(subject), *({w.low for w in subject} & {"from", "back", "without"})})
        self.before = frozenset(_stems(before))
        self.rest = rest
        owners = {word.stem for word in subject if word.low.removesuffix("'s") in PEOPLE or word.is_name}
        self.people = " ".join(sorted(owners)) if not re.search(r"\b(?:my|our)\b", self.low) else ""

    def claims(self) -> Iterator[Claim]:
        low = self.low
        if swap := SWAPS.search(low):
            old, new = swap["old"] or swap["left"] or swap["dropped"], swap["new"] or swap["taken"] or swap["kept"]
            yield from self.ends(self.within(old))
            yield from self.says(self.within(new))
            yield from self.changes(self.within(new), self.within(new))
        elif match := DISLIKES.search(low):
            yield from self.ends(self.after(match.end()), engages=True)
        elif (match := ENDS.search(low)) and not NEGATION.search(low) and not INTENDED.search(low):
            yield from self.is_over(match)
        elif match := NEGATION.search(low):
            if not re.search(r"\bdid not\b|\b(?:was|were) not\b", low) or NOW.search(low):
                yield from self.denies()
        elif not INTENDED.search(low) and (match := CHANGES.search(low)) and (found := self.change(match)):
            yield from found
        elif not self.is_event():
            yield from self.states()

    def is_past(self) -> bool:
        """Whether it is told in the past, and so happened; only a result of it may be so now."""
        for word in self.predicate:
            if word.low in ("is", "are", "am", "be", "been", "has", "have", "will"):
                return False
            if word.low in ("was", "were", "had", "did"):
                return True
            if word.stem in VERBS | JOINS and not word.value:
                return word.low.endswith("ed") or (word.low in BASE_FORMS and not word.low.endswith("s"))
        return False

    def is_event(self) -> bool:
        """Whether it happened, and says nothing of what is so now."""
        verb = next((word for word in self.predicate if word.stem in VERBS | JOINS and not word.value), None)
        return self.is_past() and (verb is None or verb.stem not in JOINS or self.predicate[0].low in ("was", "were"))

    def within(self, text: str) -> list[Word]:
        """The words of the predicate that a part of it has."""
        start = len(self.low[: self.low.index(text)].split())
        return self.predicate[start : start + len(text.split())]

    def after(self, position: int) -> list[Word]:
        return self.predicate[len(self.low[:position].split()) :]

    def says(self, words: list[Word], *more: str) -> Iterator[Claim]:
        tokens = {*self.subject, *_tokens(words), *more}
        tokens |= {CLASSES[word.low] for word in words if word.low in CLASSES}
        tokens |= {word.stem for word in words if word.value and word.stem and word.low.isalpha()}
        if "cigarett" in tokens or any(word.stem in JOINS for word in words[:3]):
            tokens |= {"~", "#"}
        if re.search(r"\bwants?\b", self.low):
            tokens.discard("~")
        if "live" in tokens and any(token.startswith("with=") for token in more):
            tokens |= {"~", "#"}
        if not LEARNS.search(self.low):
            tokens.add("+")
        yield from said(self.subject, self.people, tokens)

    def ends(self, words: list[Word], *, engages: bool = False) -> Iterator[Claim]:
        plain = [stem for stem in _plain(words) if stem != "~"] + [w.low for w in words if w.low in _TELLS]
        tokens = {stem for stem in plain if stem not in LIGHT} or set(plain)
        tokens |= {word.value for word in words if kind_of(word.value) not in ("", *_WHEN)}
        if engages:
            tokens.add("~")
        if tokens:
            yield from ended(self.subject, self.people, tokens)

    def is_over(self, match: re.Match[str]) -> Iterator[Claim]:
        words = self.after(match.end())
        if words and words[0].low in ("by", "to", "off", "behind"):
            return
        if (
            words
            and words[0].low in ("at", "in", "for", "away")
            and match[0].startswith(("stop", "le", "return", "lost"))
        ):
            return
        if words and words[0].low in ("it", "them", "that"):
            yield from ended(frozenset(), self.people, self.before)
        elif any(word.stem and word.low not in FILLERS for word in words if kind_of(word.value) not in _WHEN):
            yield from self.ends(_given(words))
        elif not self.subject:
            yield from self.ends([word for word in self.predicate[: -len(words) or None] if word.low != "let"][:-1])
        else:
            yield from ended(frozenset(), "", {stem for stem in self.subject if stem not in LIGHT} or self.subject)

    def denies(self) -> Iterator[Claim]:
        words = [word for word in self.predicate if word.low not in ("not", "no", "never", "without")]
        tokens = (
            set(_plain(words))
            | {word.low for word in words if word.low in _TELLS}
            | {word.value for word in words if word.value and kind_of(word.value) not in _LASTS}
        )
        if not self.has_verb() and any(word.low in ("have", "has") for word in words):
            tokens.add("#")
        if "want" in tokens and _NO_LONGER.search(self.low):
            yield from ended(self.subject, self.people, {"~", *tokens} - {"want"})
        if re.search(r"\bcan not\b", self.low):
            tokens.add("+")
        if _NO_LONGER.search(self.low) and len(tokens - {"~", "#", "+"}) > 1:
            tokens -= {"~", "#"}
        yield from ended(self.subject, self.people, tokens | self.subject)

    def has_verb(self) -> bool:
        return any(
            word.stem in VERBS for word in self.predicate if word.low not in ("have", "has", "had", "do", "does")
        )

    def change(self, match: re.Match[str]) -> list[Claim]:
        """What has another value than before, and which; nothing if the verb says no such thing here."""
        verb = match[0]
        words = self.after(match.end())
        place = next((i for i, w in enumerate(words) if w.low in ("to", "into", "until", "till", "with", "as")), None)
        if place is None and verb.startswith(
            ("renam", "repaint", "paint", "dy", "turn", "brought", "chang", "cut", "switch")
        ):
            values = [w for w in words if w.is_name or (w.value and kind_of(w.value) not in ("amount", *_WHEN))]
            place = words.index(values[0]) - 1 if values else None
            if not values and verb.startswith(("renam", "chang", "switch")):
                names = [w for text in self.rest[1:] for w in words_of(text, is_first=False) if w.is_name]
                return list(self.changes(words, names))
        if place is None and verb.startswith("mov"):
            place = next((i for i, word in enumerate(words) if i and _ROLES.get(word.low) == "at"), None)
        if place is None or (_GOES.match(verb) and not any(word.value for word in words[place + 1 : place + 3])):
            return []
        topic, new = words[: max(0, place)], words[place + 1 :]
        first = len(_until(new, tuple(PREPOSITIONS)))
        new = new[:first] + [word for word in new[first:] if kind_of(word.value) not in _MOMENTS]
        about = [word for word in topic if word.low not in PREPOSITIONS | {"back", "up", "down", "forward"}]
        found = list(self.says([*topic, *new]))
        moves = verb.startswith(("mov", "reloc", "transf")) and not _plain(about)
        if moves and verb.endswith("ing"):
            return list(self.says(new))
        if moves and (self.people or not self.subject) and all(kind_of(word.value) in ("", *_MOMENTS) for word in new):
            where = _until(new, tuple(PREPOSITIONS))
            named = {word.stem for word in where if word.is_name}
            found += valued(self.subject, "home name" if named else "home", named or _stems(where))
            found += valued(self.subject, "with us", {"away"} if _stems(where) else ())
        elif occupation := {word.stem for word in new if word.low in OCCUPATIONS}:
            found += valued(self.subject, "occupation", occupation)
        elif _plain(about) or self.subject:
            found += self.changes([*self.names, *about] if _plain(about) == [] else about, new)
        else:
            found += self.changes(new, new)
        return found

    def changes(self, topic: list[Word], new: list[Word]) -> Iterator[Claim]:
        """That the topic has the new value."""
        values = {word.value for word in new if word.value} | _names(new) | _modifiers(new)
        about = {s for w in topic if not w.value and not (w.is_name and topic is new) for s in _plain([w])}
        if topic is not new:
            about |= {word.value for word in topic if word.value and kind_of(word.value) not in _WHEN}
            about = about - PLACES or about
        if topic is new:
            about -= {token.split("=")[1] for token in _modifiers(new)}
        yield from changed(self.people, about, values)
        if topic is new:
            return
        for kind in sorted({kind_of(word.value) for word in new if word.value}):
            yield from valued(about, kind, {w.value for w in new if kind_of(w.value) == kind})
        complement = _until(new, tuple(PREPOSITIONS))
        yield from valued(about, "is", _stems(complement))
        yield from valued(about, "at", _stems(complement))

    def states(self) -> Iterator[Claim]:
        low, words = self.low, self.predicate
        roles = self.roles()
        yield from self.says(
            words, *_names(words), *_modifiers(words), *(t for tokens in roles.values() for t in tokens)
        )
        yield from self.owns()
        for word in words:
            for denied in DENIED_BY.get(word.low, ()):
                yield from ended(self.subject, self.people, {denied, "~"})
        if not self.subject and (match := _WITHOUT.search(low)):
            for denied in DENIED_BY[match[0]]:
                yield from ended(frozenset(), "", {denied, "#"})
        if ADDITIVE.search(low):
            return
        if NOW.search(low):
            plain = {stem for stem in _plain([w for w in words if not w.is_name]) if stem != "~"} | self.subject
            values = {word.value for word in words if word.value}
            for tokens in roles.values():
                about = plain - {token.split("=")[1] for token in tokens} - _BEGIN
                yield from changed(self.people, about, tokens)
            for kind in sorted(set(map(kind_of, values))):
                of_kind = {value for value in values if kind_of(value) == kind}
                about = plain | values - of_kind
                yield from changed(self.people, about - _BEGIN - LIGHT or about, of_kind)
        if match := RATHER.search(low):
            both = {*_plain(self.within(match["value"])), *_plain(self.within(match["other"]))}
            yield from valued({*self.subject, *both}, "rather", _plain(self.within(match["value"])))
            return
        if match := _AS.search(low):
            about = _stems(self.within(match["role"]))
            yield from valued(self.subject | about, "is", _stems(self.within(match["held"])))
        yield from self.typed()
        yield from self.complements()
        yield from self.identity()

    def roles(self) -> dict[str, set[str]]:
        """What stands behind each preposition, other than times and values of a kind."""
        found: dict[str, set[str]] = {}
        for place, word in enumerate(self.predicate):
            if role := _ROLES.get(word.low):
                complement = _until(self.predicate[place + 1 :], tuple(PREPOSITIONS))
                if stems := _plain(complement, verbs=True):
                    found.setdefault(role, {f"{role}={stem}" for stem in stems})
        return found

    def owns(self) -> Iterator[Claim]:
        """That the user has what is called the user's."""
        if self.is_past():
            return
        for words in (self.names, self.predicate):
            for place, word in enumerate(words):
                if word.low in ("my", "our"):
                    thing = _until(words[place:], tuple(PREPOSITIONS | AUXILIARIES | {"own", "old", "first"}))[1:4]
                    owner = next((i for i, w in enumerate(thing) if w.low.endswith("'s")), len(thing))
                    tokens = {token for w in thing[: owner + 1] for token in (CLASSES.get(w.low, "~"), *_stems([w]))}
                    yield from owned(tokens - {"~"})

    def typed(self) -> Iterator[Claim]:
        """Values whose kind their words tell; two exclude each other if all else is the same."""
        low, words = self.low, self.predicate
        if not self.names and not any(
            word.stem in VERBS or word.low in AUXILIARIES or word.value.startswith("trans") for word in words
        ):
            return
        indefinite = re.search(r"\b(?:an?|some)\b", low)
        main = re.search(r"\b(?:main|only|favou?rite|primary|usual|preferred)\b", low) is not None
        for kind in dict.fromkeys(kind_of(word.value) for word in words if word.value):
            of_user = not self.subject or bool(self.people)
            is_way = kind == "transport" and re.search(
                r"\bto (?:work|school|campus|class|college|uni)\b|\bonsite\b", low
            )
            is_in = kind == "language" and " in " in f" {low}"
            if kind in _OF_THINGS and of_user and not (main or is_way or is_in):
                continue
            if indefinite and kind in ("clock", "date", "weekday", "colour", "size"):
                continue
            rest = {*self.subject, *(t for t in _tokens(words, verbs=True) if kind_of(t) != kind)}
            if kind in ("marital", "employment", "hand", "contract"):
                rest = set(self.subject)
            elif self.is_past():
                continue
            elif INTENDED.search(low):
                rest.add("?")
            yield from valued(rest - _BEGIN, kind, {w.value for w in words if kind_of(w.value) == kind})

    def complements(self) -> Iterator[Claim]:
        """What verbs take one of at a time: where somebody lives, for whom they work."""
        words = self.predicate
        if INTENDED.search(self.low):
            return
        when = {word.value for word in words if kind_of(word.value) in _WHEN}
        for place, word in enumerate(words):
            for at in range(place + 1, len(words)):
                joined = words[at].low if words[at].low in PREPOSITIONS else ""
                is_next = at == place + 1 and not joined
                name = STATES.get(f"{word.stem} {joined}" if joined else word.stem if is_next else "")
                if name is None or (name == "goes to" and not self.people and not SCHOOLS & {w.low for w in words}):
                    continue
                if name == "live with" and [w.low for w in words[at + 1 : at + 2]] in (["us"], ["me"]):
                    yield from valued(self.subject, "with us", {"here"})
                complement = _until(words[at if is_next else at + 1 :], tuple(PREPOSITIONS))
                named = {stem for w in complement if w.is_name for stem in (w.stem,)}
                kind = f"{name} name" if named else name
                if named or (name not in ("car", "runs on", "dates", "supports") and _stems(complement)):
                    yield from placed(self.subject | when, kind, named or _stems(complement))
                    if name == "job":
                        yield from valued(self.subject, "employment", {"employment=employed"})

    def identity(self) -> Iterator[Claim]:
        """Who, what or where something is that there is one of."""
        words = self.predicate
        verb = next((i for i, w in enumerate(words) if w.low in ("is", "are", "will", "am")), None)
        if verb is None:
            return
        rest = [word for word in words[verb + 1 :] if word.low not in ("now", "be", "currently", "named", "called")]
        if not rest:
            return
        complement = _until(rest[1:] if rest[0].low in PREPOSITIONS else rest, tuple(PREPOSITIONS))
        stems = _stems(complement)
        head = self.names[-1].low if self.names else ""
        if occupation := {w.stem for w in complement if w.low in OCCUPATIONS}:
            yield from valued(self.subject, "occupation", occupation)
        if not self.subject:
            return
        joined = _ROLES.get(rest[0].low)
        if joined in ("at", "with") and not self.people and any(kind_of(stem) not in _WHEN for stem in stems):
            has_number = any(kind_of(stem).startswith("amount") for stem in stems)
            yield from valued(self.subject, f"{joined} number" if has_number else joined, stems)
        if rest[0].low in PREPOSITIONS:
            return
        named = [word for word in complement if word.is_name]
        is_attribute = any(word.low in _CHOSEN for word in self.names) or (
            any(w.low.removesuffix("'s") in ATTRIBUTES for w in self.names[-2:])
            or " favorit" in f" {' '.join(self.subject)}"
        )
        is_name = named and len(named) == len([w for w in complement if w.stem and w.low not in FILLERS | PRONOUNS])
        is_name = is_name and not re.search(r"(?:ish|ese|ian)$", named[-1].low)
        if is_attribute or (is_name and head not in MANY):
            yield from valued(self.subject - {"name"} or self.subject, "is", stems)


_WHEN = frozenset({"weekday", "daypart", "season", "date", "clock", "amount", "amount-day", "amount-month", "often"})
_ROLES = dict.fromkeys(("in", "at", "on", "by", "near", "next", "under", "behind"), "at")
_ROLES |= {word: word for word in ("to", "with", "from", "as")}
_TELLS = frozenset({"old", "new", "second", "extra", "spare"})
"""What tells the thing that is over from the one that there is."""

_MOMENTS = ("date", "weekday", "clock")
_LASTS = ("amount-day", "amount-month")
_BEGIN = frozenset({"start", "begin", "take", "place", "held", "happen", "schedul", "weigh", "weight"})


_CHOSEN = word_set("favorite favourite main go-to usual current primary best preferred first")
_NO_LONGER = re.compile(r"\b(?:no longer|longer|now|nowadays|instead)\b")
_WITHOUT = re.compile(r"(?<=\bam )single$|\bonly child\b|\blive alone\b|\bon my own\b|\bby myself\b")
_GOES = re.compile(
    r"w[e]nt|gone|f[ea]ll|r[io]se|gr[eo]w|hit|reach|put|set|brought|cut|turn|drop|jump|gain|climb|shr|slip"
)
"""Verbs that change an amount or a time, and do other things besides."""

_AS = re.compile(
    r"\b(?:use|uses|have|has|drink|eat|wear)\s(?P<held>\S.{1,40}?)\sas\s(?:my|our|his|her|their"
    r"|the)\s(?P<role>\S.{1,40})$"
)


def _until(words: list[Word], stops: tuple[str, ...]) -> list[Word]:
    for place, word in enumerate(words):
        if place and word.low in stops:
            return words[:place]
    return words


def _given(words: list[Word]) -> list[Word]:
    """What is over, without why and who has it now; a name says which one it is."""
    for place, word in enumerate(words):
        is_whom = word.low in ("to", "with", "for") and not any(w.is_name for w in words[place + 1 : place + 2])
        if place and (is_whom or word.low == "because"):
            return words[:place]
    return words


def _plain(words: list[Word], *, verbs: bool = False) -> list[str]:
    """The stems of words that say something; of verbs by which somebody has to do with a thing a sign for all."""
    found = []
    for word in words:
        if word.value or not word.stem or word.low in FILLERS or word.low in PRONOUNS or word.low in AUXILIARIES:
            continue
        found.append("~" if word.stem in ENGAGES and not word.is_name and not verbs else word.stem)
    return found


def _tokens(words: list[Word], *, verbs: bool = False) -> set[str]:
    tokens = {*_plain(words, verbs=verbs), *(word.value for word in words if word.value)}
    if any(word.low in ("have", "has", "had", "smoke", "smokes", "smoking") for word in words) and not verbs:
        tokens.add("~")
    if "~" in tokens and not any(word.stem in LIKES for word in words):
        tokens.add("#")
    return tokens


def _stems(words: list[Word]) -> set[str]:
    return {*_plain(words, verbs=True), *(word.value for word in words if word.value)}


def _names(words: list[Word]) -> set[str]:
    return {f"name={word.stem}" for word in words if word.is_name}


def _modifiers(words: list[Word]) -> set[str]:
    """What tells a thing from others of its kind: "pro" of a plan."""
    found = set()
    for one, other in pairwise(words):
        is_modified = one.is_name or _plain([one]) not in ([], ["~"])
        if is_modified and not other.is_name and _plain([other], verbs=True):
            found.add(f"of {other.stem}={one.stem}")
    return found
