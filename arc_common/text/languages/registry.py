"""The languages that arc knows, and the detector of a text's language."""

import re

from arc_common.text.languages import fallback
from arc_common.text.languages.chinese_japanese import CHINESE_JAPANESE
from arc_common.text.languages.english import ENGLISH
from arc_common.text.languages.german import GERMAN
from arc_common.text.languages.korean import KOREAN
from arc_common.text.languages.language import Language

LANGUAGES = (ENGLISH, GERMAN, KOREAN, CHINESE_JAPANESE)
"""The first of each script is the default if nothing distinguishes the others."""

_LATIN = tuple(one for one in LANGUAGES if one.script == "latin")
OTHER_MARKERS = frozenset().union(*(language.markers for language in _LATIN[1:]))
"""Markers of languages in Latin letters other than English; a text without any is in none of these."""

_HANGUL = re.compile(r"[가-힣]+")
_HAN_OR_KANA = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]+")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")


def detect(text: str) -> Language:
    """Return the language that a text is most likely in."""
    hangul, han = _HANGUL.findall(text), _HAN_OR_KANA.findall(text)
    if not hangul and not han:
        return _by_words(text)[0]
    language, words = _by_words(text)
    if words > len(hangul) + len(han):
        return language
    return KOREAN if hangul and len("".join(hangul)) >= len("".join(han)) else CHINESE_JAPANESE


def with_other_scripts(language: Language) -> tuple[Language, ...]:
    """Return a language and the first of each other script, with which its texts may be mixed."""
    first = {one.script: one for one in reversed(LANGUAGES)} | {language.script: language}
    return tuple(first[script] for script in dict.fromkeys(one.script for one in LANGUAGES))


def _by_words(text: str) -> tuple[Language, int]:
    """Return the language in Latin letters with the most markers in a text, and their number."""
    words = [word.replace("’", "'") for word in _WORD.findall(text.lower())]
    counts = [sum(word in language.markers for word in words) for language in _LATIN]
    most = max(counts)
    if most <= sum(word in fallback.MARKERS for word in words):
        return ENGLISH, 0
    return _LATIN[counts.index(most)], most
