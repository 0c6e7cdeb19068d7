"""Finds agreements and open questions in a conversation, and the sentence that another needs to be understood."""

from collections import Counter
from collections.abc import Sequence, Set
from functools import cached_property
from itertools import chain

from arc_common.concurrency import giving_way
from arc_common.context.repetition import without_lead_in
from arc_common.memory.facts.extraction import QUOTES, is_bare_value, is_vague
from arc_common.text.analyzer import content_words
from arc_common.text.languages.korean import strip_particles
from arc_common.text.languages.registry import CONCRETE, DATES, detect, possible_languages
from arc_common.text.sentences import announces, is_question, rough_tokens

QUESTION_MARKS = ("?", "？")
_TERMS = 60
_SHORTEST = 4
"""The least (approximate) tokens of a telling sentence, unlike "Yes, please." or "Hey Ann!"."""
_FEW = 3
"""The most specific words of a sentence that may say nothing alone."""
_REPLY = 8
"""The most words of a reply without a verb."""

Place = tuple[int, int]
"""The place of a message, and that of a sentence in it."""


def terms_of(sentence: str, speakers: Set[str] = frozenset()) -> Counter[str]:
    """Return a sentence's specific words; of scripts without spaces, as character pairs."""
    words = [strip_particles(word.casefold()) for word in content_words(sentence)[:_TERMS]]
    named = {word for word in words if word in speakers}
    terms: Counter[str] = Counter()
    for word in words:
        if word in named and len(named) == 1:  # one name may be the listener's
            continue
        if "\u3040" <= word[0] <= "\u9fff" and len(word) > 1:
            terms.update(word[i : i + 2] for i in range(len(word) - 1))
        else:
            terms[word] += 1
    return terms


def is_telling(sentence: str) -> bool:
    """Return whether a sentence says something alone."""
    return rough_tokens(without_lead_in(sentence)) >= _SHORTEST and not announces(sentence)


def asks(sentence: str) -> bool:
    """Return whether a sentence is a question or a request."""
    return sentence.rstrip(")）”\"' ").endswith(QUESTION_MARKS) or detect(sentence).seeking.search(sentence) is not None


class _Sentence:
    """The forms of a sentence that matter to its neighbours."""

    def __init__(self, text: str) -> None:
        language = detect(text)
        agreed = next(filter(None, (one.agreeing.search(text) for one in possible_languages(text))), None)
        self.asks = asks(text)
        self.is_question = is_question(text)
        self.is_put_off = language.undecided.search(text) is not None
        self.defers = self.is_put_off or language.unknowing.search(text) is not None
        self.agrees = agreed is not None and not self.asks and not self.defers
        self.settles = self.agrees or language.deciding.search(text) is not None
        self.is_telling = is_telling(text)
        self.terms = terms_of(text.replace(agreed[0], " ") if agreed else text).keys()
        self._text, self._plain = text, without_lead_in(text).translate(QUOTES)
        self._is_short = sum(map(str.isalpha, self.terms)) <= (_FEW if language.is_spaced else 2 * _FEW)
        self.is_vague = is_vague(self._plain, language, least=1 if self.asks else 2)
        if agreed:
            self.is_clear = len(self.terms) > 1
        else:
            self.is_clear = self.is_telling and not (self._is_short and (self.is_vague or is_bare_value(self._plain)))

    @cached_property
    def is_reply(self) -> bool:
        """Return whether the sentence says nothing without the question before it."""
        language = detect(self._text)
        of_what = language.attribute.match(self._plain)  # "电话是82291133" does not say whose it is
        is_ownerless = of_what is not None and of_what.start("name") == 0
        is_fragment = language.is_spaced and is_bare_value(self._plain, most=_REPLY)
        return self._is_short or self.defers or is_ownerless or is_fragment

    @cached_property
    def introduces(self) -> bool:
        """Return whether the sentence says what a later one is about."""
        if not self.is_clear or len(self.terms) < 2:
            return False
        says_something = self.asks or self.settles or any(form.search(self._text) for form in (CONCRETE, DATES))
        return says_something or detect(self._text).chit_chat.search(self._text.lower()) is None


class Dialogue:
    """The sentences of messages, by their places; the last messages may be there only to answer earlier ones."""

    def __init__(self, speakers: Sequence[str], sentences: Sequence[Sequence[str]]) -> None:
        self._speakers = speakers
        self._sentences = [list(map(_Sentence, giving_way(one))) for one in sentences]

    def needed(self, at: Place) -> Place | None:
        """Return the sentence that makes one clear: itself, or the last clear one before it; `None` if there is none.

        It is looked for in the same message, and in the one before if somebody else sent that.
        """
        of, place = at
        before = self._before(of)
        if self._is_answer(at) and self._at(at).is_reply:
            return before[-1] if self._at(before[-1]).terms and not self._at(before[-1]).is_vague else None
        if self._at(at).is_clear:
            return at
        earlier = [*before, *((of, i) for i in range(place))]
        return next((one for one in reversed(earlier) if self._at(one).introduces), None)

    def kept(self) -> set[Place]:
        """Return the agreements, and the questions and decisions that are left open."""
        places = [(of, place) for of, said in enumerate(self._sentences) for place in range(len(said))]
        return {at for at in places if self._is_kept(at)}

    def _is_kept(self, at: Place) -> bool:
        one = self._at(at)
        if one.agrees:
            return self.needed(at) is not None
        if one.is_put_off or (one.defers and self._is_answer(at)):
            later = chain.from_iterable(self._sentences[at[0] + 1 :])
            return bool(one.terms) and not any(after.settles and after.terms & one.terms for after in later)
        return one.is_question and bool(one.terms) and self._is_open(at[0], one.terms)

    def _is_answer(self, at: Place) -> bool:
        before = self._before(at[0])
        return at[1] == 0 and bool(before) and self._at(before[-1]).asks

    def _before(self, of: int) -> list[Place]:
        """Return the sentences of the message before one, if somebody else said it."""
        is_others = of > 0 and self._speakers[of - 1] != self._speakers[of]
        return [(of - 1, place) for place in range(len(self._sentences[of - 1]))] if is_others else []

    def _at(self, at: Place) -> _Sentence:
        return self._sentences[at[0]][at[1]]

    def _is_open(self, of: int, asked: Set[str]) -> bool:
        """Return whether nobody answers a question: there is no reply, or it is put off or a question."""
        later = list(zip(self._speakers[of:], self._sentences[of:], strict=True))
        stated = [one for _, said in later for one in said if not one.is_question and not one.defers]
        if any(2 * len(one.terms & asked) >= len(asked) for one in stated):
            return False
        replies = [said for speaker, said in later if speaker != later[0][0] and said]
        first = [one for one in replies[0] if not one.is_question] if replies else []  # a request may be an answer
        if first:
            return any(one.defers for one in first)  # "I'll ask"
        return not any(one.is_telling and one in stated for said in replies for one in said)
