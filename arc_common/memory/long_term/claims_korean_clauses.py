"""Korean clauses: who does what, in words and values."""

import re

from arc_common.memory.long_term.claims_kinds import KIND_OF_WORD
from arc_common.memory.long_term.claims_korean_tokens import Word, bare, stem_of_verb, words_of
from arc_common.memory.long_term.claims_korean_words import COPULA, ENGAGES, JOINS, PEOPLE, SAME, USER

__all__ = ["PLACES", "VERBAL_NOUN", "Clause", "engages", "is_verb", "noun_of"]

VERBAL_NOUN = re.compile(r"^(?P<noun>[가-힣a-z]{2,}|일)(?:을|를)?(?:하|해|했|한|할|합|함|중)[가-힣]{0,6}$")
_DOING = re.compile(
    r"(?<=[가-힣])\s수\s있\S*$|(?<=[가-힣])\s(?:예정|계획)\S*$|(?<=[가-힣])\s중(?:이에요|이야|이다|입니다|임)$"
    r"|(?<=[가-힣])\s(?:거|것)(?:야|예요|에요|다|이다|입니다)$|(?:고|아|어)\s(?:있|계)[가-힣]+$"
    r"|(?<=[아어여해와워])[야도]\s(?:해|하|한|합|돼|되|된|됩)[가-힣]*$|기\s시작[가-힣]+$|기로\s[가-힣]+$|는\s편[가-힣]*$|게\s됐[가-힣]*$|[은는]\s중[가-힣]*$"
)
"""What stands behind a verb and only says how far it is done."""

_FORMS = {
    "살": re.compile(r"살|산다|삽니|사세|사신|사셔"),
    "있": re.compile(r"있|계시|계세"),
    "일": re.compile(r"일(?:하|해|한|합|을)"),
    "이사": re.compile(r"이사"),
}
"""Forms of verbs that begin like others."""

PLACES = frozenset({"장소", "시간", "날짜", "위치", "시각", "일정"})
"""What says of a value only its kind."""


class Clause:
    """A clause in words.

    Args:
        text: As it stands, folded.
        people: Whom the clause before is about; nothing for the user.
    """

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
        match = VERBAL_NOUN.match(self.verb.text)
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
        return match[0] not in ("고", "라", "세요", "셔")

    def thing(self) -> frozenset[str]:
        """What the clause is about, if that is a thing, and not one that the user has to do with."""
        tops = [word for word in self.head if word.role == "topic"]
        if not tops or self.people or not tops[-1].base:
            return frozenset()
        if not self.is_copula and engages(self.verb.text) and not self.verb.text.startswith("있"):
            return frozenset()
        return frozenset(self.tokens(self.words[: self.words.index(tops[-1]) + 1]))

    def tokens(self, words: list[Word], *, verbs: bool = False) -> set[str]:
        """What words say, the verb at the end in a form that it has with every ending."""
        found: set[str] = set()
        for word in words:
            if word.value:
                found.add(word.value)
            elif word is self.verb:
                found |= self.predicate(verbs=verbs)
            elif word.base:
                found.add(noun_of(word.base))
        return found

    def predicate(self, *, verbs: bool) -> set[str]:
        """What the last word says."""
        text = self.verb.text
        if self.is_copula:
            return {noun_of(self.verb.base)} if self.verb.base else set()
        if match := VERBAL_NOUN.match(text):
            return {noun_of(match["noun"])} | (set() if verbs else {"~", "#"})
        stem = stem_of_verb(text)
        if text.startswith("안 ") or not stem:
            return set()
        if verbs or not engages(text):
            return {stem}
        return {"~"} if re.match(r"좋|즐|보|봐|본|듣|들|읽|배우|배워", text) else {"~", "#"}

    def is_event(self) -> bool:
        """Whether it happened, and says nothing of what is so now."""
        return self.is_past() and not JOINS.search(self.text)

    def is_past(self) -> bool:
        """Whether it is told in the past."""
        return any(_is_past(character) for character in self.text)

    def is_owner(self, word: Word) -> bool:
        """Whether a word names the user, or somebody whom the clause is about."""
        return not word.base or (word.role in ("topic", "subject", "of", "") and PEOPLE.search(word.base) is not None)


def noun_of(base: str) -> str:
    """One word for what has several."""
    return SAME.get(base, base)


def _is_past(character: str) -> bool:
    return "가" <= character <= "힣" and (ord(character) - 0xAC00) % 28 == 20 and character not in "있겠"


def engages(text: str) -> bool:
    """Whether a verb says that somebody has to do with a thing."""
    return any(is_verb(text, verb) for verb in ENGAGES)


def is_verb(text: str, verb: str) -> bool:
    """Whether a text begins with a form of a verb, as far as its first syllables tell."""
    if verb in _FORMS:
        return _FORMS[verb].match(text) is not None
    if len(text) < len(verb) or text.startswith(("가르", "열", "여는", "연")):
        return False
    return all(stem_of_verb(text[place:]) == stem_of_verb(verb[place:]) for place in range(min(2, len(verb))))
