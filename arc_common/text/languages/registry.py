"""The languages that arc knows, the detector of a text's language, and patterns for texts in any language."""

import re

from arc_common.caches import cached_by_hash
from arc_common.text.languages.chinese_japanese import CHINESE_JAPANESE
from arc_common.text.languages.english import ENGLISH
from arc_common.text.languages.german import GERMAN
from arc_common.text.languages.korean import KOREAN
from arc_common.text.languages.language import Language, Pattern, word_set

LANGUAGES = (ENGLISH, GERMAN, KOREAN, CHINESE_JAPANESE)
"""The first of each script is the default if nothing distinguishes the others."""

_LATIN = tuple(one for one in LANGUAGES if one.script == "latin")
OTHER_MARKERS = frozenset().union(*(language.markers for language in _LATIN[1:]))
"""Markers of languages in Latin letters other than English; a text without any is in none of these."""

_HANGUL = re.compile(r"[가-힣]+")
_HAN_OR_KANA = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]+")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")


@cached_by_hash(4_096)
def detect(text: str) -> Language:
    """Return the language that a text is most likely in."""
    hangul, han = _HANGUL.findall(text), _HAN_OR_KANA.findall(text)
    if not hangul and not han:
        return _by_words(text)[0]
    language, words = _by_words(text)
    if words > len(hangul) + len(han):
        return language
    return KOREAN if hangul and len("".join(hangul)) >= len("".join(han)) else CHINESE_JAPANESE


def possible_languages(text: str) -> tuple[Language, ...]:
    """Return the languages that a text may be in by its characters."""
    return _LATIN if text.isascii() else LANGUAGES


def with_other_scripts(language: Language) -> tuple[Language, ...]:
    """Return a language and the first of each other script, with which its texts may be mixed."""
    first = {one.script: one for one in reversed(LANGUAGES)} | {language.script: language}
    return tuple(first[script] for script in dict.fromkeys(one.script for one in LANGUAGES))


def _by_words(text: str) -> tuple[Language, int]:
    """Return the language in Latin letters with the most markers in a text, and their number."""
    words = [word.replace("’", "'") for word in _WORD.findall(text.lower())]
    counts = [sum(map(language.markers.__contains__, words)) for language in _LATIN]
    most = max(counts)
    if most <= sum(map(_MARKERS_OF_OTHERS.__contains__, words)):
        return ENGLISH, 0
    return _LATIN[counts.index(most)], most


_MARKERS_OF_OTHERS = word_set(
    "el la los las de del que en un una unos unas por con para es está su mi yo le les des du et est je vous il elle "
    "nous dans pour avec sur pas ne une mon ma mes il lo gli che di non per sono uma não meu minha het "
    "een van ik niet maar op dat zijn wij jij og det att som jag inte på av han hon bir ve bu için yang dan di saya"
) - OTHER_MARKERS.union(ENGLISH.markers)
"""Frequent words of languages in Latin letters without a file, which are treated as English."""

CONCRETE = re.compile(
    r"(?P<sure>[\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]{2,63}|(?:https?://|www\.)[^\s<>\"']{3,300}"
    r"|[$€£¥₩₹]\s?\d|\d[\d,.]{0,15}\s?(?:[천만억万億千]\s?[원円元]|[$€£¥₩₹원円元])|(?=[A-Za-z-]{1,8}\d)[A-Za-z]{1,6}-?\d[\w-]{2,20}"
    r"|(?<![\w:])\d{1,2}:[0-5]\d(?!\d)|\d{4,20}|\+?\d{2,4}[\s.-]\d{2,4}[\s.-]\d{2,4}|#\d+|\d{1,2}(?:st|nd|rd|th)\b"
    r"|\d{1,2}\s?[ap]\.?m\b|\d{1,2}\s?[월月]\s?\d{0,2}|\d{1,2}[/.]\d{1,2}(?:[/.]\d{2,4})?)|(?P<some>(?!(?<=<)3(?!\S))\d)"
)
"""A value in any language: an address, a code, money, a time, a date; less sure, any other number but in "<3"."""

NAMES = re.compile(
    r"(?<=[\w;'\"(-] )(?!I\b|I'|OK\b)[A-ZÀ-ÖØ-Þ][\w'&-]+|(?<=, )(?!I\b|I'|OK\b)[A-ZÀ-ÖØ-Þ][\w'&-]+(?!\w|\W*$)"
)
"""A word with a capital inside a sentence; at its end, after a comma, it only addresses somebody."""

ADDRESSED = re.compile(r"(?:^|(?<=, ))[A-ZÀ-ÖØ-Þ][\w'-]*(?=,|[.!?]*$)")
"""A word with a capital between commas or at a sentence's edge, which may only address somebody: "Well, Ann, …"."""

_DATED = sorted(
    {
        re.escape(word)
        for language in LANGUAGES
        for word in (*language.dates, *(word for word, number in language.numbers.items() if number != "1"))
        if word != "may" and len(word) > 1 and not word.isdigit()
    }
)
_BEFORE_MAY = r"(?:(?<=\d )|(?<=\d[a-z][a-z] )|(?<=\b(?:in|of|by) )|(?<=(?:next|last) ))"
_MAY = rf"may(?= \d\d?(?:st|nd|rd|th))|(?-i:May)(?= \d)|{_BEFORE_MAY}may"
"""The month, not the verb."""
DATES = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(_DATED)}|{_MAY})(?![A-Za-z])", re.IGNORECASE)


SEEKING_LATIN = Pattern(
    # words that ask, requests, and what was forgotten: Spanish, Portuguese, French, Italian, Dutch and others
    r"(?<!\w)(?:¿|qué|quién(?:es)?|cuál(?:es)?|cuándo|dónde|cómo|cuánt[oa]s?|d[ai]me|deme|recu[eé]rdame|mu[eé]strame"
    r"|ay[uú]dame|olvid(?:é|ado)|no\s(?:recuerdo|me\sacuerdo)|por\sfavor|qual|quais|quem|quando|onde|quant[oaie]s?"
    r"|diga|lembre|esqueci|(?:le|la)?quel(?:le)?s?|qui|où|combien|pourquoi|quoi|est-ce|qu['’]est|dis[-\s]moi|rappelle"
    r"|\w{2,20}-(?:moi|nous)|\w{1,20}-(?:t-)?(?:je|tu|il|elle|on|vous|ils|elles)|oublié|me\ssouviens|s['’]il\s(?:te"
    r"|vous)|svp|stp|chi|dove|perché|quale|quali|dimmi|ricordami|dimenticato|per\sfavore|wie|wanneer|waar|welke"
    r"|hoeveel|nerede|kimin|kaç|siapa|berapa|kapan|mana)(?!\w)"
    # at the beginning also without accents, and verbs before their subjects
    r"|^(?:y\s|e\s|et\s)?(?:que|cual(?:es)?|cuando|donde|como|quien(?:es)?|cuant[oa]s?|por\sque|comment|quand"
    r"|(?:me\s)?(?:puede|podría)s?|sabes|recuerdas|te\sacuerdas|(?:tu\s)?peux|(?:vous\s)?pouvez)\s\w"
)
SEEKING_CYRILLIC = Pattern(
    r"(?<!\w)(?:кто|ко(?:го|му)|кем|что|ч(?:его|ему|ем|ём)|ч(?:ей|ья|ье|ьё|ьи|ью)|где|куда|откуда|когда|как"
    r"|как(?:ой|ая|ое|ие|ую|ого|ому|им|ом|их|ими)|скольк\w{1,3}|почему|зачем|ли|разве|напомни\w*|скажи\w*|подскажи\w*"
    r"|покажи\w*|найди\w*|дай(?:те)?|назови\w*|повтори\w*|расскажи\w*|перечисли\w*|напиши\w*|помоги\w*|помни(?:шь|те)"
    r"|знае(?:шь|те)|може(?:шь|те)|не\s(?:помню|знаю)|вспомнить|узнать|забыл\w*|пожалуйста|хто|де|коли|скільки)(?!\w)",
)
