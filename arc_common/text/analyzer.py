"""The analyzer for all lexical matching: turns text into terms, identically on every backend, and finds its words."""

import re
import unicodedata
from collections.abc import Iterable, Sequence, Set
from functools import cache
from threading import local
from typing import Protocol, TypeVar

import Stemmer

from arc_common.caches import cached_text
from arc_common.text.languages.chinese_japanese import CHINESE_JAPANESE
from arc_common.text.languages.english import ENGLISH
from arc_common.text.languages.korean import KOREAN, strip_particles
from arc_common.text.languages.language import Language
from arc_common.text.languages.registry import OTHER_MARKERS, detect, with_other_scripts

T = TypeVar("T")

_MAX_TERM = 64
"""The most characters of a term. Longer runs (encoded data) are cut: nobody searches for their ends."""

_WHOLE = "_"
"""Marks a word of one syllable; no other term has it."""

_MAX_WORD = 24
"""The most characters of a natural word; longer ones are not analysed."""

_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u0900-\u0903\u093a-\u094f\u0951-\u0957"
    "\u0962\u0963\u0981-\u0983\u09bc-\u09d7\u0a01-\u0a03\u0a3c-\u0a51\u0a81-\u0a83\u0abc-\u0acd\u0b01-\u0b03"
    "\u0b3c-\u0b57\u0b82\u0bbe-\u0bcd\u0bd7\u0c00-\u0c04\u0c3c-\u0c56\u0c81-\u0c83\u0cbc-\u0cd6\u0d00-\u0d03"
    "\u0d3b-\u0d4d\u0d57\u0d82\u0d83\u0dca-\u0ddf\u0f71-\u0f84\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff"
)
r"""Marks that belong to the preceding letter but are not in `\w`: without them, Indic words would be split."""

_VIETNAMESE = re.compile("[\u1ea0-\u1ef9ơưƠƯ\u0309\u031b\u0323]")
"""Letters and marks that few other languages use; a Vietnamese sentence without one of them is rare."""

_HANGUL = "가-힣\u1100-\u11ff"
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af々〇"
_UNSPACED = (
    f"{_HAN}"
    "ぁ-ゖゝ-ゟァ-ヺー-ヿ\u31f0-\u31ff\U0001aff0-\U0001b16f"  # kana
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ebd\u0ec0-\u0ecd\u1000-\u103f\u1050-\u108f\u1780-\u17d3"  # Thai to Khmer
)
"""Scripts that put no spaces between words."""

_LETTERS = f"[^\\W_{_HANGUL}{_UNSPACED}](?:[^\\W_{_HANGUL}{_UNSPACED}]|[{_MARKS}])*"
_PIECE = re.compile(
    f"(?P<hangul>[{_HANGUL}]+)|(?P<unspaced>[{_UNSPACED}]+)"
    f"|(?P<compound>{_LETTERS}(?:(?:[-._:@/+']|(?<=[0-9]),(?=[0-9])){_LETTERS})*)"
)
_HAN_CHARACTER = re.compile(f"[{_HAN}]")
_SCRIPT = re.compile(f"[{_HAN}]+|(?P<hiragana>[ぁ-ゖー]+)|[ァ-ヺー]+|[^{_UNSPACED}]+")
_UNSPACED_CHARACTER = re.compile(f"[{_UNSPACED}]")
_NUMBER = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]{1,3}(?:\.[0-9]{3})+(?:,[0-9]+)?|[0-9]+\.[0-9]+")
_CONNECTOR = re.compile(r"[-._:@/+,]")
_RUN_OF_KIND = re.compile(r"[0-9]+|[^0-9]+")
_EDGES = ".,;:!?\"'()[]{}<>*_`~…。、，！？：；（）「」『』《》“”‘’"
_AMOUNT = re.compile(r"[^\w\s]?[0-9][0-9.,]*(?:[^\W\d_]*|[^\w\s])")
_APOSTROPHES = "‘’ʼ"
_NOT_TEN_DIGITS = re.compile(r"[^\W\D0-9]")
_LONG_RUN_OF_MARKS = re.compile(r"([^\w\s]{30})[^\w\s]+")

_STEMMERS = (
    ("\u0370", "\u03ff", "greek"),
    ("\u0400", "\u04ff", "russian"),
    ("\u0530", "\u058f", "armenian"),
    ("\u0600", "\u06ff", "arabic"),
    ("\u0900", "\u097f", "hindi"),
    ("\u0b80", "\u0bff", "tamil"),
)
"""The language of a word, by its first letter; Latin words count as English."""

_STEMMED_BY_SCRIPT = frozenset({None, "english"})
"""Stemmers of languages whose words need no stem beyond that of their script."""


def analyze(text: str) -> list[str]:
    """Return the terms of a text, in order, with repetitions; two texts match where they share terms.

    - Unicode is normalised (NFKC); case and Latin accents are folded. Vietnamese tones distinguish words, so Vietnamese
      words also give a term with tones: the same word ranks first, and one typed without tones still matches.
    - Words are stemmed by the language of their script (Latin letters: English). A text detected as another language
      also gives that language's stems; a query too short for detection finds words as they stand.
    - Chinese, Japanese, Korean, Thai and similar scripts give pairs of characters; an isolated character gives itself.
      Consecutive isolated characters ("龙 井 茶") also give the pairs that they would form without spaces. Korean words
      lose their particles first, and also give their first syllable; a word of a single syllable gives that syllable
      and, marked, the whole word.
    - "1,240" gives `1240`; a code such as "ORD-7731" gives its parts and their concatenation, so that each spelling
      matches.
    - Deterministic; any text is accepted; time is linear in its length (8 to 25 MB/s, 1 to 4 for new words).
    """
    if not text.isascii() and _VIETNAMESE.search(text):
        return _with_pairs(_toned_terms(word) for word in _words(_fold(text)))
    chunks = text.lower().split() if text.isascii() else text.split()
    if not OTHER_MARKERS.isdisjoint(chunks):
        language = detect(text)
        if language.stemmer not in _STEMMED_BY_SCRIPT:
            return _with_pairs(_stemmed_terms(word, language) for word in _words(_fold(text)))
    terms: list[str] = []
    for chunk in chunks:
        found = _known.get(chunk) or _terms_of_chunk(chunk)
        if isinstance(found, _Alone):
            return _with_pairs(map(_terms_of_chunk, chunks))
        terms += found
    return terms


def analyze_query(text: str, *, drop_stop_words: bool = True) -> list[str]:
    """Return the terms of a query: those of `analyze`, without stop words and question words.

    Only languages with a file have stop words; in other languages nothing is dropped. A query of stop words alone keeps
    them all, so that it still has terms.
    """
    return list(_query_terms(text)) if drop_stop_words else analyze(text)


@cached_text(64)  # a turn looks for one question in messages, memories and facts
def _query_terms(text: str) -> Sequence[str]:
    language = detect(text)
    stop_words = language.stop_words or ENGLISH.stop_words
    words = [word for word in _words(_fold(text)) if word not in stop_words]
    if _VIETNAMESE.search(text):
        terms = _with_pairs([_toned_terms(word, stop_words) for word in words])
    else:
        terms = _with_pairs([_stemmed_terms(word, language, stop_words) for word in words])
    return terms or analyze(text)


@cached_text(1 << 14)
def stem(word: str, language: Language) -> str:
    """Return the stem of a folded word in a language."""
    if language.stem_of is not None:
        return language.stem_of(word)
    if language.stemmer is None or len(word) > _MAX_WORD:
        return word
    return _stemmer(language.stemmer).stemWord(language.base_forms.get(word, word))


def han_characters(text: str) -> list[str]:
    """Return the Han characters of a text, in order, with repetitions: each is a word or a part of one.

    Beside the pairs of `analyze`, they let a text be found by a single character, or by a short form of a word
    (Nie, Gao, Zhang & Zhou 2000, "On the Use of Words and N-grams for Chinese Information Retrieval").
    """
    return [] if text.isascii() else _HAN_CHARACTER.findall(_fold(text))


def query_words(text: str) -> list[str]:
    """Return the content words of a query, in order: folded, neither stemmed nor cut, without stop words.

    They serve for looking words up; unspaced scripts (Chinese, Japanese, Thai) give none, and compounds stay as they
    are.
    """
    words: list[str] = []
    stop_words = detect(text).stop_words or ENGLISH.stop_words
    for word in _words(_fold(text)):
        for piece in _PIECE.finditer("" if word in stop_words else word):
            found = piece[0]
            if piece.lastgroup == "unspaced":
                continue
            stop = KOREAN.stop_word.fullmatch(found) if piece.lastgroup == "hangul" else found in stop_words
            if not stop:
                words.append(found)
    return words


def is_general(text: str) -> bool:
    """Return whether a query names nothing except by general nouns ("the place"), or names nothing at all."""
    general_nouns = ENGLISH.general_nouns
    return all(word in general_nouns for word in query_words(text)) and not _UNSPACED_CHARACTER.search(text)


_PLAIN_WORD = re.compile(r"[^\W_]+(?:['’.&-][^\W_]+)*")


def words_of(text: str) -> list[str]:
    """Return the words of a text as they stand, in order; a run of Chinese characters or kana is one word."""
    return _PLAIN_WORD.findall(text)


_LAUGHTER = re.compile(r"[ㄱ-ㅣ]+|(?:h[aeio]){2,}h?|lo+l|lmf?ao")


def is_common(word: str, language: Language | None = None) -> bool:
    """Return whether a word occurs in most conversations in a language (English by default)."""
    folded, common = word.casefold().replace("’", "'"), _common_words(language or ENGLISH)
    is_letter = len(folded) == 1 and folded.isascii()
    forms = (folded, folded.split("'")[0], strip_particles(folded))
    return is_letter or any(form in common for form in forms) or _LAUGHTER.fullmatch(folded) is not None


@cache
def _common_words(language: Language) -> frozenset[str]:
    return frozenset().union(*(one.stop_words | one.common_words for one in with_other_scripts(language)))


def content_words(text: str) -> list[str]:
    """Return the words that are specific to this text, in order, as they stand."""
    language = detect(text)
    return [word for word in words_of(text) if not is_common(word, language)]


def apart(text: str) -> str:
    """Return a text in Chinese or Japanese with spaces for its common words, and where the script changes.

    Leaves out single characters, and one or two hiragana in a row, which are mostly endings of verbs.
    """
    rest = CHINESE_JAPANESE.common_word.sub(" ", _fold(text))
    return " ".join([one[0] for one in _SCRIPT.finditer(rest) if len(one[0]) > (2 if one["hiragana"] else 1)])


def _fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    # Python orders marks in quadratic time; as in Unicode's stream-safe form, at most 30 in a row are kept.
    text = _LONG_RUN_OF_MARKS.sub(r"\1", text) if len(text) > 30 else text
    for apostrophe in _APOSTROPHES:  # `translate` would take longer than everything else here
        text = text.replace(apostrophe, "'")
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return _NOT_TEN_DIGITS.sub(lambda match: str(unicodedata.decimal(match[0], match[0])), text)


def _words(folded: str) -> list[str]:
    """Return the whitespace-separated words, without surrounding punctuation."""
    return [word for chunk in folded.split() if (word := chunk.strip(_EDGES))]


_MOST_KNOWN = 1 << 17
_MAX_AMOUNT = 6

_known: dict[str, Sequence[str]] = {}
"""Caches the terms of whitespace-separated chunks, since ordinary words recur.

It holds only words, punctuation and short numbers ("1970s", "$37.6", "22일"), not codes, addresses or long runs.
"""


class _Alone(tuple[str, ...]):
    """The term of an isolated character in an unspaced script; empty if it is a stop word in a query."""

    __slots__ = ()


def _terms_of_chunk(chunk: str) -> Sequence[str]:
    if (known := _known.get(chunk)) is not None:
        return known
    word = chunk.lower().strip(_EDGES)
    is_plain = word.isascii() and word.isalpha()
    words = [word] if is_plain else _words(_fold(chunk))
    if is_plain:  # found in half the time
        terms: Sequence[str] = (_stem(word),)
    elif len(words) == 1:
        terms = _terms_of_word(words[0])
    else:  # only punctuation, or one sign for a whole phrase
        terms = tuple(_with_pairs(map(_terms_of_word, words)))
    if len(chunk) <= _MAX_WORD and (is_plain or not terms or all(map(_is_ordinary, words))):
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[chunk] = terms
    return terms


def _is_ordinary(word: str) -> bool:
    letters = word.replace("-", "").replace("'", "")
    return letters.isalpha() or (len(word) <= _MAX_AMOUNT and _AMOUNT.fullmatch(word) is not None)


def _terms_of_word(word: str, stop_words: Set[str] | None = None) -> Sequence[str]:
    """Return the terms of a word; of a query's word, without stop words."""
    kind = _Alone if len(word) == 1 and _UNSPACED_CHARACTER.match(word) else tuple
    return kind(_terms_of_pieces(word, stop_words))


def _toned_terms(word: str, stop_words: Set[str] | None = None) -> Sequence[str]:
    """Return the terms of a word in a Vietnamese text, with tones and without."""
    terms = _terms_of_word(word, stop_words)
    if word.isascii() or word[0] >= "\u2000" or not word.isalpha():
        return terms
    return tuple(dict.fromkeys((*terms, word[:_MAX_TERM], _bare(word).replace("đ", "d")[:_MAX_TERM])))


def _stemmed_terms(word: str, language: Language, stop_words: Set[str] | None = None) -> Sequence[str]:
    """Return the terms of a word, and its stem in the text's language if that is not the one of its script."""
    terms = _terms_of_word(word, stop_words)
    if language.stemmer is None or language.stemmer in _STEMMED_BY_SCRIPT or not terms or not word.isalpha():
        return terms
    return tuple(dict.fromkeys((*terms, _bare(_stemmer(language.stemmer).stemWord(word[:_MAX_WORD])))))


def _bare(word: str) -> str:
    """Return the word without its accents."""
    return "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))


def _with_pairs(words: Iterable[Sequence[str]]) -> list[str]:
    """Return the terms of words; single characters next to each other also give pairs."""
    terms: list[str] = []
    before = ""
    for found in words:
        is_alone = isinstance(found, _Alone)
        if found or is_alone:  # not punctuation
            alone = found[0] if found and is_alone else ""
            if before and alone:
                terms.append(before + alone)
            terms += found
            before = alone
    return terms


def _terms_of_pieces(word: str, stop_words: Set[str] | None) -> list[str]:
    terms: list[str] = []
    alone = ""
    for piece in _PIECE.finditer(word):
        found = piece[0]
        if piece.lastgroup == "unspaced":
            before, alone = alone, found if len(found) == 1 else ""
            parts = (
                [part for part in CHINESE_JAPANESE.stop_word.split(found) if part]
                if stop_words is not None
                else [found]
            )
            if parts and before and alone:
                terms.append(before + alone)
            for part in parts:
                terms += _pairs(part)
            alone = alone if parts else ""
            continue
        alone = ""
        if piece.lastgroup == "hangul":
            if stop_words is None or not (KOREAN.stop_word.fullmatch(found)):
                terms += _hangul(found)
        elif not stop_words or found not in stop_words:
            terms += _compound(found)
    return terms


def _pairs(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)] if len(run) > 1 else [run] if run else []


def _hangul(word: str) -> list[str]:
    # Verbs change after their first syllable ("좋아요", "좋더라"). A mark tells a one-syllable word from these, as for
    # n-grams at a word's edge (McNamee & Mayfield 2004): nDCG@10 of Korean documents is .953 with it, .949 without.
    stem = KOREAN.particles.sub("", word) if len(word) <= _MAX_WORD else word
    return [stem[0], *_pairs(stem)] if len(stem) > 1 else [stem, f"{stem}{_WHOLE}"]


def _compound(text: str) -> list[str]:
    """Return the terms of letters and digits joined by single marks."""
    if text.isdigit():
        return [text[:_MAX_TERM]]
    if _NUMBER.fullmatch(text):
        return [_number(text)]
    parts = _CONNECTOR.split(text)
    if len(parts) == 1:
        return _simple(text)
    terms = [term for part in parts for term in _simple(part)]
    joined = "".join(parts)
    is_one_word = set(_CONNECTOR.findall(text)) == {"-"}
    is_code = any(map(str.isdigit, joined)) and not ("/" in text or "@" in text)
    if (is_one_word or is_code) and len(joined) <= _MAX_TERM:
        terms.append(joined)
    return terms


def _number(text: str) -> str:
    """Return a number without thousands separators, and without decimals that are all zero."""
    mark = max(text.rfind(","), text.rfind("."))
    in_thousands = len(text) - mark == 4 and mark <= 3 and text[0] != "0" and len({",", "."} & set(text)) == 1
    is_decimal = text.count(text[mark]) == 1 and not in_thousands
    whole, fraction = (text[:mark], text[mark + 1 :]) if is_decimal else (text, "")
    whole = whole.replace(",", "").replace(".", "")
    return (f"{whole}.{fraction}" if fraction.strip("0") else whole)[:_MAX_TERM]


def _simple(part: str) -> list[str]:
    """Return the terms of letters, digits and apostrophes."""
    if "'" in part:
        if part.endswith("n't") and len(part) > 3:
            return [_stem(part[:-3])]
        *words, last = part.split("'")
        kept = words if last in {"s", "m", "re", "ve", "ll", "d"} else [*words, last]
        return [term for word in kept for term in _simple(word)]
    runs = _RUN_OF_KIND.findall(part)
    if len(runs) == 1:
        return [_stem(part)]
    return [part[:_MAX_TERM], *(_stem(run) for run in runs)] if len(runs) == 2 else [part[:_MAX_TERM]]


def _stem(word: str) -> str:
    if not 2 < len(word) <= _MAX_WORD or word.isdigit():
        return word[:_MAX_TERM]
    return _stem_of(word)


def _stem_of(word: str) -> str:
    first = word[0]
    if first < "\u0370":
        if not word.isascii():
            word = _bare(word)
        base_forms = ENGLISH.base_forms
        return _stemmer("english").stemWord(base_forms.get(word, word)) if word.isascii() else word
    for start, end, language in _STEMMERS:
        if start <= first <= end:
            return _stemmer(language).stemWord(word.replace("ё", "е"))
    return word


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802 - PyStemmer's name


_of_thread = local()  # a stemmer keeps the current word as state


def _stemmer(language: str) -> _Stemmer:
    """Return this thread's stemmer of a language, without a cache of its own."""
    stemmer: _Stemmer | None = getattr(_of_thread, language, None)
    if stemmer is None:
        stemmer = Stemmer.Stemmer(language, 0)
        setattr(_of_thread, language, stemmer)
    return stemmer
