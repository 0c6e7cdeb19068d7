"""Estimates tokens from script and content, with coefficients fitted to a real tokenizer."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Protocol, runtime_checkable

from arc_common.exceptions import InvalidInputError
from arc_common.protocols import TokenCounter

_PRIOR_TOKENS = 2_000
"""Tokens of agreement assumed at the start, so that one short request changes the factor little."""

_LOWEST, _HIGHEST = 0.5, 2.0
"""No tokenizer in use differs more on a whole conversation; a factor outside these limits means a wrong report."""


@dataclass(frozen=True, slots=True)
class Correction:
    """The ratio of reported to estimated tokens, with its version."""

    version: int = 0
    factor: float = 1.0


@runtime_checkable
class Correcting(Protocol):
    """A token counter that learns from reported usage. Its counts stay raw; budgeting code applies `corrected`."""

    @property
    def correction(self) -> Correction:
        """The correction in use."""

    def observe(self, estimated_tokens: int, reported_tokens: int) -> None:
        """Record a request's raw estimate and the tokens that the provider reported."""

    def adopt_correction(self) -> Correction:
        """Adopt the learned correction and return the one now in use."""


def corrected(counter: TokenCounter, raw_total: int) -> int:
    """Apply the counter's current correction, if it has one, to a sum of its raw counts, rounding up."""
    correction = getattr(counter, "correction", None)  # isinstance with a protocol takes 45 µs per message
    if not isinstance(correction, Correction):
        return raw_total
    return math.ceil(round(raw_total * correction.factor, 3))


_split = str.split
_ENGLISH = frozenset(
    _split(
        "the of and to in is that for it you was with on as are be at by this have from or an had not but what all "
        "were we when your can there said which she do their if will each about up out them then many some so these "
        "would other into has more her two like him see could no make than been who its now my made did get may our "
        "me us how any after also just only they he his use where most i a"
    )
)
_WESTERN = frozenset(
    _split(
        "de la el los las en que y un una es por con para del se su le les des et du est une pour dans qui sur pas il "
        "au ne ce der die das und ist nicht ein eine zu den von mit auf im dem sie di che per non sono della o os da "
        "em um uma não com het van een te dat niet op zijn och att det som på är av og til av jeg du ikke "
        "yang dan untuk dengan ini itu dari pada tidak anda atau dalam akan ke oleh"
    )
)
"""The commonest words of Spanish, French, German, Italian, Portuguese, Dutch, Swedish, Norwegian and Indonesian,
without English words. Vocabularies contain these languages' words, too."""

_TRADITIONAL = (
    "個們這來說國為會後對過學開關長問間還點見現發經頭進從動實種體當無應與機電氣專書話讓樣錢車東門請認識覺幾將該項設"
    "號連選資訊網頁檔"
)
_CLASSES = {
    "rare": "\x80-\U0010ffff",  # all characters of no other class; vocabularies lack them and encode their bytes
    "punctuation": "\x00-\x08\x0b\x0c\x0e-\x1f!-/:-@[-`{-\x7f",
    "space": " ",
    "line_end": "\n\r",
    "tab": "\t",
    "digit": "0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "accented": "\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u00ff",
    "accented_far": "\u0100-\u017f",  # Polish, Czech, Turkish …
    "accented_rare": "\u0180-\u02ff\u1e00-\u1e9f\u1efa-\u1eff",  # African languages, phonetics
    "turkish": "ğĞıİşŞ",
    "vietnamese": "ơƠưƯ\u1ea0-\u1ef9",
    "combining": "\u0300-\u036f\u3099\u309a",  # decomposed text (NFD): a mark costs more than its letter
    "greek": "\u0370-\u03ff",
    "polytonic": "\u1f00-\u1fff",
    "cyrillic": "\u0400-\u052f\u1c80-\u1c8f",
    "cyrillic_not_russian": "\u0402-\u040f\u0452-\u052f",
    # letters of smaller languages that Tatar, Kazakh and Kyrgyz don't have
    "cyrillic_rare": "\u0460-\u0489\u0498\u0499\u049e-\u04a1\u04a4-\u04ad\u04b4-\u04b9\u04bc-\u04d7\u04da-\u04e7"
    "\u04ea-\u04ed\u04f0-\u052f",
    "cyrillic_russian": "ыэЫЭ",
    "armenian": "\u0530-\u058f",
    "hebrew": "\u0590-\u05ff",
    "hebrew_mark": "\u0591-\u05c7",
    "arabic": "\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufefc",
    "arabic_mark": "\u064b-\u065f\u0670",
    # letters that Arabic, Persian and Urdu don't have, but Kurdish, Uyghur, Sindhi and Pashto
    "arabic_rare": "\u0671-\u0678\u067a-\u067d\u067f-\u0685\u0687\u0689-\u0690\u0692-\u0697\u0699-\u06a8\u06aa-\u06ae"
    "\u06b0-\u06b9\u06bb-\u06bd\u06bf\u06c0\u06c2-\u06cb\u06cd-\u06d1\u06d3-\u06d5",
    "devanagari": "\u0900-\u097f",
    "bengali": "\u0980-\u09ff",
    "gurmukhi": "\u0a00-\u0a7f",
    "gujarati": "\u0a80-\u0aff",
    "oriya": "\u0b00-\u0b7f",
    "tamil": "\u0b80-\u0bff",
    "telugu": "\u0c00-\u0c7f",
    "kannada": "\u0c80-\u0cff",
    "malayalam": "\u0d00-\u0d7f",
    "sinhala": "\u0d80-\u0dff",
    "thai": "\u0e00-\u0e7f",
    "lao": "\u0e80-\u0eff",
    "tibetan": "\u0f00-\u0fff",
    "burmese": "\u1000-\u109f",
    "georgian": "\u10a0-\u10ff",
    "ethiopic": "\u1200-\u139f",
    "khmer": "\u1780-\u17ff",
    "han": "\u3400-\u9fff\uf900-\ufaff",
    "han_traditional": _TRADITIONAL,
    "hiragana": "\u3040-\u309f",
    "katakana": "\u30a0-\u30ff\u31f0-\u31ff",
    "hangul": "\uac00-\ud7a3",
    "jamo_alone": "\u3130-\u318f",  # as used in chats
    "jamo": "\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff",
    "cjk_mark": "\u3000-\u303f\ufe30-\ufe4f\uff00-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65",
    "full_width": "\uff21-\uff3a\uff41-\uff5a\uff66-\uffef",
    # digits of Arabic, Persian, Devanagari, Bengali, Gujarati, Burmese and Khmer, and full-width ones
    "digit_known": "\u0660-\u0669\u06f0-\u06f9\u0966-\u096f\u09e6-\u09ef\u0ae6-\u0aef\u1040-\u1049\u17e0-\u17e9"
    "\uff10-\uff19",
    "digit_rare": "\u0a66-\u0a6f\u0b66-\u0b6f\u0be6-\u0bef\u0c66-\u0c6f\u0ce6-\u0cef\u0d66-\u0d6f\u0de6-\u0def"
    "\u0e50-\u0e59\u0ed0-\u0ed9\u0f20-\u0f33\u1090-\u1099",
    "typography": "\u0080-\u00a9\u00ab-\u00b9\u00bb-\u00bf\u00d7\u00f7\u2000-\u200a\u2010-\u203f\u20a0-\u20bf",
    "symbol": "\u2040-\u209f\u2100-\u2bff",
    "joiner": "\u200b-\u200f\ufe00-\ufe0f",
    "rare_wide": "\U00010000-\U0010ffff",
    "picture": "\U0001f000-\U0001fbff",
    "face": "\U0001f600-\U0001f64f",
    "flag_letter": "\U0001f1e6-\U0001f1ff",
    "skin_tone": "\U0001f3fb-\U0001f3ff",
}
"""Characters by class; a later class takes precedence over earlier ones."""

_NAMES = tuple(_CLASSES)
_CODE = {name: bytes((index + 1,)) for index, name in enumerate(_NAMES)}
_ASCII_CODE = {name: _CODE[name] for name in ("punctuation", "space", "line_end", "tab", "digit", "upper", "lower")}


class _ClassOf(dict[int, str]):
    """Maps code points to their classes as characters, for `str.translate`; filled on demand."""

    def __missing__(self, code: int) -> str:
        for name in reversed(_NAMES):
            for first, last in _RANGES[name]:
                if first <= code <= last:
                    self[code] = _CODE[name].decode()
                    return self[code]
        raise AssertionError(code)  # the first two classes and the ASCII ones cover all code points


_RANGES = {
    name: tuple((ord(first), ord(last or first)) for first, last in re.findall(r"(.)(?:-(.))?", characters, re.DOTALL))
    for name, characters in _CLASSES.items()
}
_class_of = _ClassOf()
_ASCII_CLASS_OF = "".join(_class_of[code] for code in range(128)).encode().ljust(256)


def _only(*names: str) -> bytes:
    """Return a table for `bytes.translate` that keeps these classes and turns all others into spaces."""
    return bytes(0x78 if bytes((code,)) in [_CODE[name] for name in names] else 0x20 for code in range(256))


_PARTS = {
    "cyrillic": ("cyrillic_not_russian", "cyrillic_rare", "cyrillic_russian"),
    "hebrew": ("hebrew_mark",),
    "arabic": ("arabic_rare", "arabic_mark"),
    "han": ("han_traditional",),
}
"""Classes and their subclasses, whose characters also count towards the class and its runs."""
_ASCII_IN_RUNS = ("upper",)
_IN_RUNS = (
    *_ASCII_IN_RUNS,
    *_split(
        "greek cyrillic armenian hebrew arabic devanagari bengali gurmukhi gujarati oriya tamil telugu kannada "
        "malayalam sinhala thai lao tibetan burmese georgian ethiopic khmer hiragana katakana hangul"
    ),
)
"""Classes with two features each: the runs, and the further characters in runs."""
_KEEP = {
    name: _only(name, *_PARTS.get(name, ())) for name in (*_IN_RUNS, "punctuation", "space", "line_end", "tab", "digit")
}
_SINGLE = _split(
    "rare rare_wide accented accented_far accented_rare turkish vietnamese combining polytonic hebrew_mark arabic_mark "
    "arabic_rare cyrillic_not_russian cyrillic_rare jamo jamo_alone full_width digit_known digit_rare cjk_mark "
    "typography symbol joiner picture face flag_letter skin_tone"
)
"""Classes whose characters cost about the same each."""

_ACCENTED = ("accented", "accented_far", "accented_rare", "turkish", "vietnamese", "combining")
_WORD = re.compile(f"[a-z{''.join(map(_CLASSES.__getitem__, _ACCENTED))}]+")
_NOT_LOWER_TO_SPACE = {code: " " for code in range(128) if not chr(code).islower()}

_REPEATED = re.compile(r"([!-/:-@\[-`{-~])\1+")


class _NotMarkToSpace(dict[int, int]):
    """Maps ASCII punctuation to itself and other code points to a space, for `str.translate`."""

    def __missing__(self, code: int) -> int:
        return code if _class_of[code] == _CODE["punctuation"].decode() else 32


_NOT_MARK_TO_SPACE = _NotMarkToSpace()


def _by_length(cost: Callable[[int], int]) -> Callable[[Sequence[str | bytes]], int]:
    """Return a function that sums `cost(length)` over pieces, with a lookup table for usual lengths."""
    table = tuple(map(cost, range(64)))

    def total(pieces: Sequence[str | bytes]) -> int:
        try:
            return sum(map(table.__getitem__, map(len, pieces)))
        except IndexError:
            return sum(map(cost, map(len, pieces)))

    return total


_beyond_four = _by_length(lambda length: max(0, length - 4))
_beyond_sixteen = _by_length(lambda length: max(0, length - 16))  # such long strings are not words
_sixteens = _by_length(lambda length: (length + 15) // 16)
_three_to_six = _by_length(lambda length: min(max(0, length - 2), 4))  # "--------" is one token
_threes = _by_length(lambda length: (length + 2) // 3)
_beyond_two = _by_length(lambda length: max(0, length - 2))
_wide_spaces = _by_length(lambda length: (length + 62) // 64)  # a single one belongs to the next word


def features(text: str) -> dict[str, float]:
    """Return a text's features by name, omitting some that are zero. Linear in the text's length."""
    is_ascii = text.isascii()
    classes = text.encode().translate(_ASCII_CLASS_OF) if is_ascii else text.translate(_class_of).encode()
    characters = {name: classes.count(code) for name, code in (_ASCII_CODE if is_ascii else _CODE).items()}
    found: dict[str, float] = {}

    def runs(name: str) -> list[bytes]:
        return classes.translate(_KEEP[name]).split()

    def meetings(before: str, after: str) -> int:
        return classes.count(_CODE[before] + _CODE[after])

    if not is_ascii:
        for name, parts in _PARTS.items():
            characters[name] += sum([characters[part] for part in parts])
    for name in _ASCII_IN_RUNS if is_ascii else _IN_RUNS:
        if characters[name]:
            count = len(runs(name))
            found[f"{name}_run"] = count
            found[f"{name}_more"] = characters[name] - count
    marks = runs("punctuation")
    found["punctuation_run"] = _sixteens(marks)
    found["punctuation_more"] = _three_to_six(marks)
    if found["punctuation_more"]:
        found["punctuation_mixed"] = _beyond_two(_REPEATED.sub(r"\1", text).translate(_NOT_MARK_TO_SPACE).split())
    if characters["line_end"]:  # a line end after a mark is part of the mark's token
        after_marks = sum(meetings(name, "line_end") for name in ("punctuation", "cjk_mark", "typography"))
        found["line_end"] = _sixteens(runs("line_end")) - after_marks
    if characters["tab"]:
        found["tab"] = _sixteens(runs("tab"))
    if meetings("space", "space"):
        found["spaces"] = _wide_spaces(runs("space"))
    if characters["digit"]:
        found["digit_group"] = _threes(runs("digit"))
        found["space_before_digit"] = meetings("space", "digit")
        found["letter_after_digit"] = meetings("digit", "lower") + meetings("digit", "upper")
    if characters["upper"]:
        found["upper_alone"] = found.pop("upper_run") - meetings("upper", "lower")
        found["upper_inside"] = meetings("lower", "upper")
    if characters["lower"] or characters["upper"]:
        found |= _latin(text, len(marks), {name: characters.get(name, 0) for name in _ACCENTED})
    if not is_ascii:
        found |= {name: characters[name] for name in _SINGLE if characters[name]}
        found |= _han(characters)
        found["space_before_typography"] = meetings("space", "typography")
        if characters["digit_known"] or characters["digit_rare"]:
            before = meetings("space", "digit_known") + meetings("space", "digit_rare")
            found["space_before_digit"] = found.get("space_before_digit", 0) + before
        others = characters["cyrillic_not_russian"] + characters["cyrillic_rare"]
        if characters["cyrillic_russian"] and not others:
            found["russian_run"], found["russian_more"] = found.pop("cyrillic_run"), found.pop("cyrillic_more")
    return found


def _latin(text: str, punctuation: int, accented: Mapping[str, int]) -> dict[str, float]:
    """Divide Latin words among English (and code), Western European, Turkish, Vietnamese and other languages."""
    lowered = text.lower()
    words = lowered.translate(_NOT_LOWER_TO_SPACE).split() if text.isascii() else _WORD.findall(lowered)
    count, more, longer = len(words), _beyond_four(words), _beyond_sixteen(words)
    english = sum(map(_ENGLISH.__contains__, words))
    western = sum(map(_WESTERN.__contains__, words))
    in_code = min(1.0, max(0.0, (punctuation / (count + 1) - 0.25) / 0.35))  # prose has 0.15 marks a word, code 0.6
    foreign = western + sum(accented.values())
    in_english = min(1.0, (english + 1) / (0.25 * count + 1 + foreign))  # prose: every fourth word at least
    left = foreign_share = (1 - in_english) * (1 - in_code)
    shares = {"english": 1 - foreign_share}
    for language, known in (
        ("vietnamese", 2 * accented["vietnamese"]),  # every second word has a letter of its own
        ("turkish", 3 * max(0, accented["turkish"] - sum(map(lowered.count, "êîûwx")))),  # Kurdish writes "ş", too
        ("western", 5 * western),
    ):
        shares[language] = min(left, known / (count + 0.5) * foreign_share)
        left -= shares[language]
    shares["foreign"] = left
    words_of = {f"{language}_word": share * count for language, share in shares.items()}
    unusual = left * sum(map(lowered.count, "kqwxyz"))  # letters of Basque and Luganda, rare in better known languages
    more_of = {f"{language}_more": share * more for language, share in shares.items()}
    return words_of | more_of | {"foreign_unusual": unusual, "endless": longer}


def _han(characters: dict[str, int]) -> dict[str, float]:
    han = characters["han"]
    if not han:
        return {}
    japanese = min(1.0, 5 * (characters["hiragana"] + characters["katakana"]) / han)
    return {
        "han_japanese": japanese * han,
        "han_chinese": (1 - japanese) * han,
        "han_traditional": (1 - japanese) * characters["han_traditional"],
    }


_RELATIVE_ERROR = 0.13
"""The error does not shrink with length (1.12 at 500 and at 16,000 tokens): a kind of text has a constant bias."""


class CalibratedTokenCounter:
    """Estimates tokens from a text's scripts and content, without a vocabulary and without I/O.

    - The count is the sum of the text's features times their coefficients, rounded up; at least 1 for any text, 0 for
      `""`. Text is not normalised: decomposed text (NFD) has up to twice the tokens of the same text composed.
    - The coefficients are fitted to o200k_base: to the mean of English, Korean, Chinese, Japanese and code, and above
      the mean of other languages.
    - `relative_error` is 0.13: of held-out requests with one to five kinds of text in 60 languages, 1 in 1,000 has more
      than 1.13 times the counted tokens (`benchmarks/fit_token_counter.py`). Older vocabularies (cl100k_base) need up
      to five times as many tokens in Indic and Caucasian scripts; use `TiktokenCounter` for them.
    - Any text is accepted, including lone surrogates and NUL. Time is linear in the length: about 20 µs for a message
      of 200 characters.
    - `count` is independent of learned corrections, so stored counts stay valid; `corrected(counter, total)` applies
      the correction, which changes only in `adopt_correction`.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._estimated = self._reported = _PRIOR_TOKENS
        self._correction = Correction()

    @property
    def name(self) -> str:
        """`calibrated/2`."""
        return "calibrated/2"

    @property
    def relative_error(self) -> float:
        """0.13; see the class docstring."""
        return _RELATIVE_ERROR

    def count(self, text: str) -> int:
        """Return the tokens of one text; 0 for `""`."""
        if not text:
            return 0
        tokens = sum([COEFFICIENTS.get(name, 0.0) * value for name, value in features(text).items()])
        return max(1, math.ceil(round(tokens, 6)))  # rounded first: 2.0000000001 is 2

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, in order."""
        return [self.count(text) for text in texts]

    @property
    def correction(self) -> Correction:
        """The correction in use; `corrected` applies it to sums, but `count` does not."""
        return self._correction

    def observe(self, estimated_tokens: int, reported_tokens: int) -> None:
        """Record a request's raw estimate and the tokens that the provider reported; ignore a pair with a zero."""
        for field, value in (("estimated_tokens", estimated_tokens), ("reported_tokens", reported_tokens)):
            if type(value) is not int or value < 0:
                raise InvalidInputError(field, value, "a whole number, 0 or more")
        if estimated_tokens and reported_tokens:
            with self._lock:
                self._estimated += estimated_tokens
                self._reported += reported_tokens

    def adopt_correction(self) -> Correction:
        """Adopt the learned correction; called when a summary is adopted, because the prompt changes then anyway.

        It is a new version if the factor changed, otherwise the current one.
        """
        with self._lock:
            factor = round(min(max(self._reported / self._estimated, _LOWEST), _HIGHEST), 3)
            if factor != self._correction.factor:
                self._correction = Correction(self._correction.version + 1, factor)
            return self._correction


COEFFICIENTS: Mapping[str, float] = {
    "punctuation_run": 0.975,
    "digit_group": 0.985,
    "space_before_digit": 1.0,
    "letter_after_digit": 0.019,
    "upper_alone": 0.623,
    "upper_inside": 0.79,
    "english_word": 0.734,
    "turkish_word": 0.388,
    "western_word": 1.33,
    "foreign_word": 1.546,
    "english_more": 0.215,
    "vietnamese_more": 0.712,
    "turkish_more": 0.379,
    "foreign_more": 0.151,
    "foreign_unusual": 0.745,
    "typography": 0.349,
    "symbol": 1.56,
    "greek_run": 0.496,
    "greek_more": 0.413,
    "line_end": 1.0,
    "accented": 0.706,
    "hangul_run": 0.586,
    "hangul_more": 0.935,
    "turkish": 0.853,
    "cjk_mark": 0.327,
    "han_japanese": 1.145,
    "han_chinese": 0.877,
    "han_traditional": 1.472,
    "accented_far": 0.857,
    "punctuation_mixed": 0.5,
    "jamo_alone": 1.881,
    "spaces": 0.854,
    "rare": 3.026,
    "hiragana_run": 0.884,
    "hiragana_more": 0.397,
    "katakana_run": 1.268,
    "katakana_more": 0.569,
    "hebrew_run": 0.559,
    "hebrew_more": 0.444,
    "tab": 0.798,
    "ethiopic_run": 2.307,
    "ethiopic_more": 2.199,
    "arabic_run": 0.763,
    "arabic_more": 0.257,
    "arabic_mark": 1.869,
    "accented_rare": 1.608,
    "cyrillic_run": 0.942,
    "cyrillic_more": 0.313,
    "tibetan_run": 0.691,
    "tibetan_more": 1.794,
    "digit_known": 0.952,
    "joiner": 0.354,
    "polytonic": 2.95,
    "gujarati_run": 0.478,
    "gujarati_more": 0.627,
    "devanagari_more": 0.605,
    "kannada_run": 1.475,
    "kannada_more": 0.299,
    "digit_rare": 1.899,
    "russian_run": 2.015,
    "malayalam_run": 1.775,
    "malayalam_more": 0.219,
    "sinhala_run": 0.211,
    "sinhala_more": 0.824,
    "tamil_run": 1.704,
    "tamil_more": 0.21,
    "telugu_run": 0.929,
    "telugu_more": 0.433,
    "vietnamese": 1.361,
    "combining": 1.714,
    "picture": 2.21,
    "rare_wide": 4.0,
    "bengali_run": 0.528,
    "bengali_more": 0.458,
    "arabic_rare": 1.404,
    "cyrillic_rare": 3.062,
    "hebrew_mark": 1.046,
    "georgian_run": 1.044,
    "georgian_more": 0.282,
    "thai_run": 1.506,
    "thai_more": 0.324,
    "oriya_run": 0.799,
    "oriya_more": 1.227,
    "gurmukhi_run": 0.774,
    "gurmukhi_more": 0.747,
    "burmese_run": 2.028,
    "burmese_more": 0.46,
    "armenian_run": 0.837,
    "armenian_more": 0.35,
    "khmer_run": 1.66,
    "khmer_more": 0.551,
    "lao_run": 0.686,
    "lao_more": 2.185,
    "face": 1.892,
    "flag_letter": 1.751,
    "skin_tone": 1.592,
    "full_width": 1.824,
    "jamo": 3.133,
}
"""Tokens per feature, fitted to o200k_base by `benchmarks/fit_token_counter.py --write`; others cost nothing."""
