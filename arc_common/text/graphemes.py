"""Where a text may be cut without dividing what a reader sees as one character."""

import unicodedata

__all__ = ["grapheme_break"]

_MOST = 64
"""Characters: what is joined to more of them before it is no character that anybody reads."""

_JOINER = "\u200d"
_JOINED_HANGUL = frozenset(["ll", "lv", "lo", "lc", "vv", "vt", "ov", "ot", "ct", "tt"])


def grapheme_break(text: str, offset: int) -> int:
    """The last border between characters, as a reader sees them, at `offset` or before it.

    Letters keep their marks, emoji their modifiers, joiners and flags, Korean jamo their syllable (Unicode Annex 29,
    without the rules for Indic conjuncts and prepended marks). What would go back more than 64 characters stays at
    `offset`.
    """
    border = min(offset, len(text))
    lowest = border - _MOST
    while lowest < border and 0 < border < len(text) and _are_one(text, border):
        border -= 1
    return border if border > lowest else min(offset, len(text))


def _are_one(text: str, border: int) -> bool:
    """Whether the characters on the two sides of a border belong together."""
    before, after = text[border - 1], text[border]
    if before == "\r" and after == "\n":
        return True
    if before < "\u0300" and after < "\u0300":  # nearly all there is
        return False
    if after == _JOINER or unicodedata.category(after) in ("Mn", "Mc", "Me") or "\U0001f3fb" <= after <= "\U0001f3ff":
        return unicodedata.category(before) != "Cc"
    if "\U000e0020" <= after <= "\U000e007f":
        return True
    if before == _JOINER:
        return unicodedata.category(after) == "So"
    if _is_flag(before) and _is_flag(after):
        flags = 0
        while flags < _MOST and border - flags > 0 and _is_flag(text[border - flags - 1]):
            flags += 1
        return flags % 2 == 1
    return _hangul(before) + _hangul(after) in _JOINED_HANGUL


def _is_flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _hangul(character: str) -> str:
    """What a Korean letter is: leading consonant, vowel, trailing consonant, syllable open or closed."""
    if "\u1100" <= character <= "\u115f":
        return "l"
    if "\u1160" <= character <= "\u11a7":
        return "v"
    if "\u11a8" <= character <= "\u11ff":
        return "t"
    if "가" <= character <= "힣":
        return "o" if (ord(character) - ord("가")) % 28 == 0 else "c"
    return "-"
