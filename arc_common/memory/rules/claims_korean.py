"""What Korean statements claim: read by particles, endings and closed classes of words, whatever they are about."""

import re
import unicodedata
from collections.abc import Iterator

from arc_common.memory.rules.claims import Claim, changed, ended, owned, placed, said, valued
from arc_common.memory.rules.claims_kinds import KIND_OF_WORD, kind_of
from arc_common.memory.rules.claims_korean_tokens import Word, bare, clauses_of, stem_of_verb, words_of
from arc_common.memory.rules.claims_korean_words import (
    CHANGES,
    CLASSES,
    COPULA,
    DENIED_BY,
    DISLIKES,
    ENDS,
    ENGAGES,
    FUTURE,
    HYPOTHETICAL,
    INTENDED,
    JOINS,
    LEARNS,
    LIGHT,
    MANY,
    MOST,
    NEGATION,
    NO_EMPLOYER,
    NOW,
    OCCUPATION,
    PAST,
    PEOPLE,
    SCHOOL,
    STATES,
    TITLE,
    USER,
)

__all__ = ["claims_of", "is_negated"]

_OF_THINGS = frozenset({"weekday", "season", "daypart", "language", "colour", "transport"})
_WHEN = frozenset({"weekday", "daypart", "season", "date", "clock", "amount", "amount-day", "amount-month", "often"})
_VERBAL_NOUN = re.compile(r"^(?P<noun>[가-힣a-z]{2,}|일)(?:을|를)?(?:하|해|했|한|할|합|함|중)[가-힣]{0,6}$")
_DOING = re.compile(
    r"(?<=[가-힣])\s수\s있\S*$|(?:고|아|어)\s(?:있|계)[가-힣]+$|기\s시작[가-힣]+$|기로\s[가-힣]+$|는\s편[가-힣]*$|게\s됐[가-힣]*$|[은는]\s중[가-힣]*$"
)
_TAKEN = frozenset({"고기", "유제품", "술", "담배"})
_CAUSE = re.compile(r"\S+\s때문에\s")
_FINE = re.compile(r"(?:아무\s)?(?:문제|상관|지장)\s?(?:가|이|도)?\s?없\S*|괜찮\S*")
_PLACES = frozenset({"장소", "시간", "날짜", "위치", "시각", "일정"})


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
    people = ""
    for clause in clauses:
        reader = _Clause(" ".join(_CAUSE.sub(" ", _FINE.sub(" ", clause)).split()), people)
        yield from reader.claims()
        people = reader.people


class _Clause:
    """One clause, and what it claims."""

    def __init__(self, text: str, people: str) -> None:
        doing = _DOING.search(text)
        self.text = text
        self.main = (text[: doing.start() + 1] if doing else text).strip()
        self.words = words_of(self.main)
        tops = [place for place, word in enumerate(self.words) if word.role in ("topic", "subject")]
        self.head = self.words[: tops[-1] + 1] if tops else []
        owners = {word.base for word in self.head if word.base and PEOPLE.search(word.base)}
        if tops and self.words[tops[-1]].role == "subject" and re.match(r"있|없|생[기겼]", self.words[-1].text):
            owners.discard(self.words[tops[-1]].base)
        named = any(word.text in USER or bare(word.text) in USER for word in self.words)
        self.people = " ".join(sorted(owners)) or ("" if tops or named else people)
        self.verb = self.words[-1] if self.words else Word("", "")
        self.is_copula = self._ends_in_copula()
        if self.words and not self.verb.value:
            noun = self._noun_of_verb()
            value = KIND_OF_WORD.get(noun) or KIND_OF_WORD.get(f"{noun}이", "")
            if noun:
                self.verb = self.words[-1] = Word(self.verb.text, bare(noun), "", value)

    def _noun_of_verb(self) -> str:
        if self.is_copula:
            return COPULA.sub("", self.verb.text)
        match = _VERBAL_NOUN.match(self.verb.text)
        return match["noun"] if match else ""

    def _ends_in_copula(self) -> bool:
        text = self.verb.text
        if self.verb.value:
            return True
        if not (match := COPULA.search(text)) or match.start() == 0:
            return False
        before = text[match.start() - 1]
        if match[0] == "다":
            final = (ord(before) - 0xAC00) % 28 if "가" <= before <= "힣" else 0
            return final == 0 and not text.endswith(("하다", "되다", "가다", "오다", "크다"))
        return match[0] not in ("고", "라", "세요", "셔") or False

    def thing(self) -> frozenset[str]:
        """What the clause is about, if that is a thing, and not one that the user has to do with."""
        tops = [word for word in self.head if word.role == "topic"]
        if not tops or self.people or not tops[-1].base:
            return frozenset()
        if not self.is_copula and _engages(self.verb.text) and not self.verb.text.startswith("있"):
            return frozenset()
        return frozenset(self.tokens(self.words[: self.words.index(tops[-1]) + 1]))

    def doer(self) -> frozenset[str]:
        """What the clause is about, if it tells of it alone."""
        tells = (
            self.is_copula or self.verb.text.startswith("있") or any(w.value.startswith("clock") for w in self.words)
        )
        return self.thing() if tells else frozenset()

    def tokens(self, words: list[Word], *, verbs: bool = False) -> set[str]:
        """What words say, the verb at the end in a form that it has with every ending."""
        found: set[str] = set()
        for word in words:
            if word.value:
                found.add(word.value)
            elif word is self.verb:
                found |= self.predicate(verbs=verbs)
            elif word.base:
                found.add(_noun(word.base))
        return found

    def predicate(self, *, verbs: bool) -> set[str]:
        text = self.verb.text
        if self.is_copula:
            return {_noun(self.verb.base)} if self.verb.base else set()
        if match := _VERBAL_NOUN.match(text):
            return {_noun(match["noun"])} | (set() if verbs else {"~", "#"})
        stem = stem_of_verb(text)
        if text.startswith("안 ") or not stem:
            return set()
        if verbs or not _engages(text):
            return {stem}
        return {"~"} if re.match(r"좋|즐|보|봐|본|듣|들|읽|배우|배워", text) else {"~", "#"}

    def claims(self) -> Iterator[Claim]:
        text = self.text
        if match := re.search(r"(?P<old>\S+(?:\s\S+)?)\s대신(?=\s)", text):
            yield from self.ends(words_of(match["old"])[-1:])
            yield from self.says(words_of(text[match.end() :]))
        elif (
            (match := ENDS.search(text)) and not re.search(r"지\s않|안\s끊|못\s끊", text) and not INTENDED.search(text)
        ):
            yield from self.ends(words_of(text[: match.start()]))
        elif DISLIKES.search(text):
            yield from ended(frozenset(), self.people, self.tokens(self.words[:-1]) | {"~"})
        elif NEGATION.search(text):
            yield from self.denies()
        elif not INTENDED.search(text) and (match := CHANGES.search(text)) and (found := self.change(match)):
            yield from found
        elif not self.is_event():
            yield from self.states()

    def is_event(self) -> bool:
        """Whether it happened, and says nothing of what is so now."""
        return any(_is_past(character) for character in self.text) and not JOINS.search(self.text)

    def says(self, words: list[Word], *more: str) -> Iterator[Claim]:
        tokens = self.tokens(words) | set(more)
        for word in words:
            if word.base in CLASSES:
                tokens |= {CLASSES[word.base], f"of {CLASSES[word.base]}={word.base}"}
        if JOINS.search(self.text):
            tokens |= {"~", "#"}
        if not LEARNS.search(self.text):
            tokens.add("+")
        yield from said(self.doer(), self.people, tokens)

    def ends(self, words: list[Word]) -> Iterator[Claim]:
        tokens = {_noun(word.base) for word in words if not word.value and not self.is_owner(word)}
        tokens |= {word.value for word in words if word.value and (word.base or kind_of(word.value) not in _WHEN)}
        yield from ended(frozenset(), self.people, tokens - LIGHT or tokens)

    def is_owner(self, word: Word) -> bool:
        return not word.base or (word.role in ("topic", "subject", "of", "") and PEOPLE.search(word.base) is not None)

    def denies(self) -> Iterator[Claim]:
        text = self.text
        if self.is_event() and not NOW.search(text):
            return
        text = re.sub(r"지\s?(?:는|도|를)?\s?(?:않|못).*$", "", text)
        nothing = re.search(r"(?:없|아니|아닙)\S*$", text)
        inner = _Clause(text[: nothing.start()] if nothing else text, self.people)
        tokens = inner.tokens(inner.words[:-1] if not nothing else [])
        if nothing:
            tokens |= {word.value or _noun(word.base) for word in inner.words if word.base or word.value}
            tokens |= {"#"} if nothing[0].startswith("없") else set()
        else:
            verb = re.sub(r"^(?:안|못)(?=[가-힣])", "", inner.verb.text)
            match = _VERBAL_NOUN.match(inner.verb.text)
            tokens |= {_noun(match["noun"]), "~"} if match else {"~" if _engages(verb) else stem_of_verb(verb)}
        if re.search(r"(?:^|\s)못|지\s?(?:는|도)?\s?못", self.text):
            tokens.add("+")
        yield from ended(inner.doer() if nothing else frozenset(), self.people, tokens)

    def change(self, match: re.Match[str]) -> list[Claim]:
        """What has another value than before, and which; nothing if the verb says no such thing here."""
        before = words_of(self.text[: match.start()])
        to = next((i for i in range(len(before) - 1, -1, -1) if before[i].role == "to"), None)
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
            word.value or _noun(word.base)
            for word in before[:start]
            if (word.base or word.value)
            and word not in old
            and not self.is_owner(word)
            and kind_of(word.value) not in _WHEN
        }
        state = STATES.get(match[0])
        shared = {_noun(w.base) for w in before[:start] if w.base} & {_noun(w.base) for w in new if w.base}
        if shared and len(topic) > 1:
            return [*self.says(new), *ended(frozenset(), self.people, topic)]
        plain = {_noun(word.base) for word in new if word.base and not word.value}
        found: list[Claim] = []
        if old:
            left = before[: before.index(old[-1]) + 1]
            ends = ended(frozenset(), self.people, {_noun(w.base) for w in left if w.base and not self.is_owner(w)})
            return [*ends, *self.says(new)]
        if state and not topic:
            return [*self.place(state, plain), *self.says(new)]
        topic -= _PLACES
        about = topic | ({self.people} - {""}) or plain
        for kind in sorted({kind_of(word.value) for word in new if word.value}):
            values = {word.value for word in new if kind_of(word.value) == kind}
            found += valued(about, kind, values)
            if plain:
                found += valued(about | plain, kind, values)
        if not any(word.value for word in new):
            found += valued(about, "is", plain)
        found += valued(about, "at", plain)
        values = {word.value for word in new if word.value} | {
            f"{role}={noun}" for noun in plain for role in ("is", "to", "at")
        }
        values |= {f"of {word}={noun}" for noun in plain for word in topic}
        found += changed(self.people, about, values)
        return [*self.says([*before[:start], *new]), *found]

    def place(self, state: str, where: set[str]) -> Iterator[Claim]:
        if FUTURE.search(self.text) or (state == "job" and any(map(NO_EMPLOYER.search, where))):
            return
        if state == "major":
            yield from valued([self.people, "전공"], "is", where)
        else:
            yield from (valued if CHANGES.search(self.text) else placed)(
                [self.people], "school" if any(map(SCHOOL.search, where)) else state, where
            )

    def states(self) -> Iterator[Claim]:
        words, text = self.words, self.text
        roles = {
            f"{role}={_noun(word.base)}"
            for word in words
            for role in (("is",) if word is self.verb and self.is_copula else (word.role,))
            if role in ("is", "to", "at", "object") and word.base and not word.value
        }
        objects = [word for word in words if word.role == "object" and word.base]
        tops = [word for word in words if word.role == "topic" and word.base]
        if objects and tops:
            roles.add(f"of {_noun(tops[-1].base)}={_noun(objects[-1].base)}")
        yield from self.says(words, *roles)
        for word in words:
            for denied in DENIED_BY.get(COPULA.sub("", word.text), DENIED_BY.get(word.base, ())):
                yield from ended(frozenset(), self.people, {denied, "~" if denied in _TAKEN else "#"})
        if any(word.role == "also" for word in words) or re.search(r"(?:^|\s)(?:또|둘째|두\s?번째)\s", text):
            return
        is_new = NOW.search(text) is not None or re.search(r"(?:^|\s)새(?:로운)?\s", text) is not None
        if is_new and self.is_copula and self.head and not self.verb.value:
            yield from changed(self.people, self.tokens(self.head) - {"새"}, {r for r in roles if r.startswith("is=")})
        if NOW.search(text) or re.search(r"올해부터|이번\s?(?:달|주|학기)부터", text):
            for role, least in (("at", 1), ("to", 1), ("object", 2)):
                tokens = {token for token in roles if token.startswith(f"{role}=")}
                about = self.tokens(words) - {token.split("=")[1] for token in tokens}
                if len(about - {"~", "#"}) >= least:
                    yield from changed(self.people, about, tokens)
            values = {word.value for word in words if word.value}
            yield from changed(self.people, self.tokens(words) - values, values)
        if match := re.match(r"(?:내|제|우리)\s(?P<thing>[가-힣]+)", text):
            yield from owned({_noun(bare(match["thing"]))})
        yield from self.typed()
        if not INTENDED.search(text):
            yield from self.complements()
        if self.is_copula:
            yield from self.identity()

    def typed(self) -> Iterator[Claim]:
        """Values whose kind their words tell; two exclude each other if all else is the same."""
        values = [word.value for word in self.words if word.value]
        for kind in dict.fromkeys(map(kind_of, values)):
            if kind in _OF_THINGS and not self.thing() and not self.is_copula and not MOST.search(self.text):
                continue
            if kind in ("clock", "date", "weekday") and self.verb.text.startswith("있"):
                continue
            rest = {token for token in self.tokens(self.words, verbs=True) if kind_of(token) != kind} - _PLACES
            if kind in ("marital", "employment", "hand", "contract"):
                rest = {self.people}
            elif INTENDED.search(self.text):
                rest.add("?")
            yield from valued(rest - {""}, kind, {value for value in values if kind_of(value) == kind})

    def complements(self) -> Iterator[Claim]:
        """What verbs take one of at a time: where somebody lives, for whom they work, what is used as what."""
        text = self.verb.text
        match = _VERBAL_NOUN.match(text)
        stem = match["noun"] if match else text
        state = next(
            (name for verb, name in STATES.items() if stem.startswith(verb) or (not match and _is_verb(text, verb))),
            None,
        )
        when = {word.value for word in self.words if kind_of(word.value) in ("weekday", "daypart", "season")}
        where = [place for place, word in enumerate(self.words) if word.role in ("at", "to") and word is not self.verb]
        if state and where:
            start = where[-1]
            while start and not self.words[start - 1].role and self.words[start - 1].base:
                start -= 1
            found = {
                word.value or _noun(word.base) for word in self.words[start : where[-1] + 1] if word.base or word.value
            }
            found = {token for token in found if kind_of(token) not in _WHEN}
            thing = self.thing()
            if state == "kept" and self.head:
                yield from valued(self.tokens(self.head), "at", found)
            elif state == "kept":
                pass
            elif state == "at" and thing:
                number = "at number" if any(kind_of(token).startswith("amount") for token in found) else "at"
                yield from valued(thing - _PLACES, number, found)
            elif state == "sleeps":
                yield from valued(thing | {self.people} | when, state, found)
            elif state != "at" and not thing:
                yield from self.place(state, found) if not when else ()
        if state == "home" and (
            company := re.search(r"(?P<who>\S+?)(?:이랑|랑|하고|와|과)\s|(?P<alone>혼자)\s", self.text)
        ):
            yield from valued([self.people], "live with", {company["who"] or "alone"})
        objects = [word for word in self.words if word.role == "object"]
        if objects and where and stem_of_verb(text) == stem_of_verb("쓰") and self.words[where[-1]].role == "to":
            after = self.words[self.words.index(objects[-1]) + 1 : where[-1] + 1]
            yield from valued(self.tokens(after), "is", {_noun(objects[-1].base)})
        if match and match["noun"] == "전공" and objects:
            yield from valued([self.people, "전공"], "is", {_noun(objects[-1].base)})

    def identity(self) -> Iterator[Claim]:
        """Who, what or where something is that there is one of."""
        place = max((i for i, word in enumerate(self.words) if word.role in ("topic", "subject")), default=None)
        complement = self.words[place + 1 :] if place is not None else self.words
        tokens = self.tokens(complement)
        nouns = [COPULA.sub("", word.text) if word is self.verb else word.base for word in complement]
        if nouns and OCCUPATION.search(nouns[-1]):
            yield from valued([self.people], "occupation", {nouns[-1]})
        if place is None or not self.words[place].base:
            return
        head = self.words[place].base
        about = self.tokens(self.words[: place + 1])
        if MANY.search(head) or ("좋아" in self.text and not MOST.search(self.text)):
            return
        if any("=" in token for token in tokens):
            return
        if not PEOPLE.search(head) or (nouns and TITLE.search(nouns[-1])):
            yield from valued(about, "is", tokens)


def _noun(base: str) -> str:
    return {
        "체중": "몸무게",
        "색상": "색",
        "색깔": "색",
        "핸드폰": "휴대폰",
        "급여": "월급",
        "미팅": "회의",
        "제일": "가장",
        "결혼식": "marital=married",
    }.get(base, base)


def _is_past(character: str) -> bool:
    return "가" <= character <= "힣" and (ord(character) - 0xAC00) % 28 == 20 and character not in "있겠"


def _engages(text: str) -> bool:
    return any(_is_verb(text, verb) for verb in ENGAGES)


def _is_verb(text: str, verb: str) -> bool:
    """Whether a text begins with a form of a verb, as far as its first syllables tell."""
    if len(text) < len(verb) or text.startswith(("가르", "열", "여는", "연")):
        return False
    return all(stem_of_verb(text[place:]) == stem_of_verb(verb[place:]) for place in range(min(2, len(verb))))
