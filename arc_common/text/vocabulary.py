"""The specific words of a text: those that do not occur in most conversations."""

import re
from functools import cache

from arc_common.text.languages.english import ENGLISH
from arc_common.text.languages.korean import strip_particles
from arc_common.text.languages.language import Language
from arc_common.text.languages.registry import detect, with_other_scripts

WORD = re.compile(r"[^\W_]+(?:['’.&-][^\W_]+)*")


def words_of(text: str) -> list[str]:
    """Return the words of a text as they stand, in order; a run of Chinese characters or kana is one word."""
    return WORD.findall(text)


def is_common(word: str, language: Language = ENGLISH) -> bool:
    """Return whether a word occurs in most conversations in a language, and so is not specific to this one."""
    folded, common = word.casefold().replace("’", "'"), _common_words(language)
    is_letter = len(folded) == 1 and folded.isascii()
    return is_letter or any(form in common for form in (folded, folded.split("'")[0], strip_particles(folded)))


@cache
def _common_words(language: Language) -> frozenset[str]:
    return frozenset().union(*(one.common_words for one in with_other_scripts(language)))


def content_words(text: str) -> list[str]:
    """Return the words that are specific to this text, in order, as they stand."""
    language = detect(text)
    return [word for word in words_of(text) if not is_common(word, language)]
