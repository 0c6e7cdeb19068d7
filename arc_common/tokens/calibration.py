"""Estimates tokens from script and content, with coefficients fitted to a real tokenizer."""

import math
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from operator import mul
from threading import Lock
from typing import Protocol, runtime_checkable

from arc_common.exceptions import check_whole
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


_DATA = tomllib.loads(files("arc_common.tokens").joinpath("calibration.toml").read_text("utf-8"))
COEFFICIENTS: Mapping[str, float] = _DATA["coefficients"]
"""Tokens per feature; features without one cost nothing."""
_COSTS = defaultdict(float, COEFFICIENTS)
_LINE_END = COEFFICIENTS["line_end"]
_ENGLISH, _WESTERN = (frozenset(_DATA["words"][name].split()) for name in ("english", "western"))
_CLASSES: Mapping[str, str] = _DATA["classes"]
_NAMES = tuple(_CLASSES)
_ASCII_CODE = {
    "punctuation": b".", "space": b" ", "line_end": b"\n", "tab": b"\t", "digit": b"0", "upper": b"A", "lower": b"a",
}  # fmt: skip
_CODE = {name: bytes((index + 128,)) for index, name in enumerate(_NAMES)} | _ASCII_CODE


class _ClassOf(dict[int, str]):
    """Maps code points to their classes as characters, for `str.translate`; filled on demand."""

    def __missing__(self, code: int) -> str:
        for name in reversed(_NAMES):
            for first, last in _RANGES[name]:
                if first <= code <= last:
                    self[code] = _CODE[name].decode("latin-1")
                    return self[code]
        raise AssertionError(code)  # the first two classes and the ASCII ones cover all code points


_RANGES = {
    name: tuple((ord(first), ord(last or first)) for first, last in re.findall(r"(.)(?:-(.))?", characters, re.DOTALL))
    for name, characters in _CLASSES.items()
}
_class_of = _ClassOf()
_ASCII_CODES = b"".join(_ASCII_CODE.values())
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
_IN_RUNS = str.split(
    "greek cyrillic armenian hebrew arabic devanagari bengali gurmukhi gujarati oriya tamil telugu kannada malayalam "
    "sinhala thai lao tibetan burmese georgian ethiopic khmer hiragana katakana hangul"
)
"""Classes with two features each: the runs, and the further characters in runs."""
_KEEP = {name: _only(name, *_PARTS.get(name, ())) for name in (*_IN_RUNS, *_ASCII_CODE)}
_SINGLE = frozenset(str.split(
    "rare rare_wide accented accented_far accented_rare turkish vietnamese combining polytonic hebrew_mark arabic_mark "
    "arabic_rare cyrillic_not_russian cyrillic_rare jamo jamo_alone full_width digit_known digit_rare cjk_mark "
    "typography symbol joiner picture face flag_letter skin_tone"
))  # fmt: skip
"""Classes whose characters cost about the same each."""

_ACCENTED = ("accented", "accented_far", "accented_rare", "turkish", "vietnamese", "combining")
_WORD = re.compile(f"[a-z{''.join(map(_CLASSES.__getitem__, _ACCENTED))}]+")
_LOWER_ONLY = bytes(code if chr(code).islower() else 32 for code in range(128)).ljust(256)

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_REPEATED = re.compile(r"([!-/:-@\[-`{-~])\1+")


class _NotMarkToSpace(dict[int, int]):
    """Maps ASCII punctuation to itself and other code points to a space, for `str.translate`."""

    def __missing__(self, code: int) -> int:
        return code if _class_of[code] == "." else 32


_NOT_MARK_TO_SPACE = _NotMarkToSpace()


def _by_length(cost: Callable[[int], int]) -> Callable[[Sequence[str | bytes]], int]:
    """Return a function that sums `cost(length)` over pieces, with a lookup table for usual lengths."""
    table = list(map(cost, range(64)))  # indexed by a method in C, which a tuple does not have

    def total(pieces: Sequence[str | bytes]) -> int:
        try:
            return sum(map(table.__getitem__, map(len, pieces)))
        except IndexError:
            return sum(map(cost, map(len, pieces)))

    return total


_sixteens = _by_length(lambda length: (length + 15) // 16)
_three_to_six = _by_length(lambda length: min(max(0, length - 2), 4))  # "--------" is one token
_threes = _by_length(lambda length: (length + 2) // 3)
_beyond_four = _by_length(lambda length: max(0, length - 4))
_beyond_two = _by_length(lambda length: max(0, length - 2))
_wide_spaces = _by_length(lambda length: (length + 62) // 64)  # a single one belongs to the next word


def _classes_of(text: str) -> bytes:
    """Return the class of each character as a byte; `str.translate` takes a tenth of a microsecond for each."""
    if text.isascii():
        return text.encode().translate(_ASCII_CLASS_OF)
    if 20 * len(text.encode("ascii", "ignore")) < 19 * len(text):
        return text.translate(_class_of).encode("latin-1")
    classes = bytearray(text.encode("ascii", "replace").translate(_ASCII_CLASS_OF))
    for run in _NOT_ASCII.finditer(text):
        classes[run.start() : run.end()] = run[0].translate(_class_of).encode("latin-1")
    return bytes(classes)


def features(text: str) -> dict[str, float]:
    """Return a text's features by name, omitting some that are zero. Linear in the text's length."""
    found, counts = _counted(text)
    return {**found, **_of_languages(counts)}


_MARKS = ("punctuation", "cjk_mark", "typography")
_OTHERS = (*_ACCENTED, "han", "han_traditional", "kana", "russian", "not_russian", "cyrillic_run", "cyrillic_more")
_NO_OTHERS = (0,) * len(_OTHERS)
_NOTHING = (0,) * 8 + _NO_OTHERS
_DIGITS = frozenset(("digit_known", "digit_rare"))


def _counted(line: str) -> tuple[dict[str, int], tuple[int, ...]]:
    """Return a text's features by name, and the counts from which `_of_languages` estimates a whole text's languages.

    `classes` reads like the text: `0a` is a digit before a lower-case letter.
    """
    classes = _classes_of(line)
    count, only = classes.count, classes.translate
    marks, upper = count(b"."), count(b"A")
    found = {"punctuation_run": marks}
    if count(b".."):
        in_runs = only(_KEEP["punctuation"]).split()
        marks = len(in_runs)
        found = {"punctuation_run": _sixteens(in_runs), "punctuation_more": _three_to_six(in_runs)}
        if found["punctuation_more"]:
            mixed = _REPEATED.sub(r"\1", line).translate(_NOT_MARK_TO_SPACE).split()
            found["punctuation_mixed"] = _beyond_two(mixed)
    if b"\n" in classes:  # a line end after a mark is part of the mark's token
        marks_before = sum([count(_CODE[name] + b"\n") for name in _MARKS])
        found["line_end"] = _sixteens(only(_KEEP["line_end"]).split()) - marks_before
    if b"\t" in classes:
        found["tab"] = _sixteens(only(_KEEP["tab"]).split())
    if b"  " in classes:
        found["spaces"] = _wide_spaces(only(_KEEP["space"]).split())
    if b"0" in classes:
        found["digit_group"] = _threes(only(_KEEP["digit"]).split())
        found["space_before_digit"] = count(b" 0")
        found["letter_after_digit"] = count(b"0a") + count(b"0A")
    if upper:
        in_runs = only(_KEEP["upper"]).split()
        found["upper_more"] = upper - len(in_runs)
        found["upper_alone"] = len(in_runs) - count(b"Aa")
        found["upper_inside"] = count(b"aA")
    others = _NO_OTHERS if line.isascii() else _counted_others(classes, found)
    return found, (count(b"a") + upper, marks, *_counted_words(line), *others)


def _counted_others(classes: bytes, found: dict[str, int]) -> tuple[int, ...]:
    """Add the features of characters that are not ASCII; return the counts of `_OTHERS`."""
    present = classes.translate(None, delete=_ASCII_CODES)
    counts = {_NAMES[code - 128]: present.count(code) for code in set(present)}
    found |= {name: number for name, number in counts.items() if name in _SINGLE}
    for name in _DIGITS & counts.keys():
        found["space_before_digit"] = found.get("space_before_digit", 0) + classes.count(b" " + _CODE[name])
    counts["not_russian"] = counts.get("cyrillic_not_russian", 0) + counts.get("cyrillic_rare", 0)
    counts["russian"] = counts.get("cyrillic_russian", 0)
    counts["kana"] = counts.get("hiragana", 0) + counts.get("katakana", 0)
    for name, parts in _PARTS.items():
        counts[name] = counts.get(name, 0) + sum([counts.get(part, 0) for part in parts])
    for name in [name for name in _IN_RUNS if counts.get(name)]:
        found[f"{name}_run"] = len(classes.translate(_KEEP[name]).split())
        found[f"{name}_more"] = counts[name] - found[f"{name}_run"]
    counts["cyrillic_run"], counts["cyrillic_more"] = found.pop("cyrillic_run", 0), found.pop("cyrillic_more", 0)
    return tuple([counts.get(name, 0) for name in _OTHERS])


def _counted_words(line: str) -> tuple[int, ...]:
    """Count words in Latin letters: all, letters beyond four, known ones, and letters that tell languages apart."""
    if line.isascii():
        lowered = line.encode().lower()
        words = lowered.translate(_LOWER_ONLY).decode().split()
        unusual = len(lowered) - len(lowered.translate(None, b"kqwxyz"))
        not_turkish = lowered.count(b"w") + lowered.count(b"x")
    else:
        low = line.lower()
        words = _WORD.findall(low)
        unusual, not_turkish = (sum(map(low.count, few)) for few in ("kqwxyz", "êîûwx"))
    return (
        len(words),
        _beyond_four(words),
        sum(map(_ENGLISH.__contains__, words)),
        sum(map(_WESTERN.__contains__, words)),
        unusual,  # frequent in Basque and Luganda, rare elsewhere
        not_turkish,  # Kurdish writes "ş", too
    )


def _of_languages(counts: tuple[int, ...]) -> dict[str, float]:
    """Divide words among English (and code), Western European, Turkish, Vietnamese and other languages, and Han too."""
    letters, marks, count, more, english, western, unusual, not_turkish = counts[:8]
    *accented, han, han_traditional, kana, russian, not_russian, cyrillic_run, cyrillic_more = counts[8:]
    found: dict[str, float] = {}
    if letters:
        in_code = min(1.0, max(0.0, (marks / (count + 1) - 0.25) / 0.35))  # prose has 0.15 marks a word, code 0.6
        foreign = western + sum(accented)
        in_english = min(1.0, (english + 1) / (0.25 * count + 1 + foreign))  # prose: every fourth word at least
        left = foreign_share = (1 - in_english) * (1 - in_code)
        shares = {"english": 1 - foreign_share}
        if left:
            for language, known in (
                ("vietnamese", 2 * accented[_VIETNAMESE]),  # every second word has a letter of its own
                ("turkish", 3 * max(0, accented[_TURKISH] - not_turkish)),
                ("western", 5 * western),
            ):
                shares[language] = min(left, known / (count + 0.5) * foreign_share)
                left -= shares[language]
            shares["foreign"], found["foreign_unusual"] = left, left * unusual
        for language, share in shares.items():
            found[f"{language}_word"], found[f"{language}_more"] = share * count, share * more
    if han:
        japanese = min(1.0, 5 * kana / han)
        found["han_japanese"], found["han_chinese"] = japanese * han, (1 - japanese) * han
        found["han_traditional"] = (1 - japanese) * han_traditional
    if cyrillic_run:
        script = "russian" if russian and not not_russian else "cyrillic"
        found[f"{script}_run"], found[f"{script}_more"] = cyrillic_run, cyrillic_more
    return found


_VIETNAMESE, _TURKISH = _ACCENTED.index("vietnamese"), _ACCENTED.index("turkish")


_Counts = tuple[float, tuple[int, ...]]
"""The tokens of features that count the same in any language, and the counts for `_of_languages`."""

_LINE = re.compile(r"[^\r\n]+")
_LINE_ENDS = re.compile(r"[\r\n]+")
_MARK_CODES = frozenset([_CODE[name].decode("latin-1") for name in _MARKS])
_MOST_LINES = 8_192
_FEW = 16
_known: dict[int, _Counts] = {}
"""Caches lines by their hashes: a prompt shows lines that were counted alone, between a few headings."""


def _counts_of(text: str) -> _Counts:
    """Count a text by its lines, which add up to it: except line ends, nothing that is counted spans two lines."""
    if "\n" not in text and "\r" not in text:
        return _counts_of_line(text)
    lines = _LINE.findall(text)
    known = [_known.get(hash(line) + len(line)) for line in lines]
    if known.count(None) > _FEW:  # each line by itself would take twice as long
        new = _split("\n".join([line for line, one in zip(lines, known, strict=True) if one is None]))
        counts = [new, *filter(None, known)]
    else:
        counts = list(map(_counts_of_line, lines))
    ended = lines if text[-1] in "\r\n" else lines[:-1]
    ends = _sixteens(_LINE_ENDS.findall(text)) - sum([_class_of[ord(line[-1])] in _MARK_CODES for line in ended])
    tokens = sum([one for one, _ in counts]) + _LINE_END * ends
    return tokens, tuple(map(sum, zip(_NOTHING, *[one for _, one in counts], strict=True)))


def _counts_of_line(line: str) -> _Counts:
    key = hash(line) + len(line)  # as in `cached_by_hash`
    counts = _known.get(key)
    if counts is None:
        counts = _split(line)
        if len(_known) >= _MOST_LINES:
            _known.clear()
        _known[key] = counts
    return counts


def _split(text: str) -> _Counts:
    found, counts = _counted(text)
    found["line_end"] = 0
    return _cost(found), counts


def _cost(found: Mapping[str, float]) -> float:
    """Return the tokens of some features."""
    tokens: float = sum(map(mul, map(_COSTS.__getitem__, found), found.values()))
    return tokens


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
        tokens, counts = _counts_of(text)
        return max(1, math.ceil(round(tokens + _cost(_of_languages(counts)), 6)))  # rounded first: 2.0000000001 is 2

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, in order."""
        return list(map(self.count, texts))

    @property
    def correction(self) -> Correction:
        """The correction in use; `corrected` applies it to sums, but `count` does not."""
        return self._correction

    def observe(self, estimated_tokens: int, reported_tokens: int) -> None:
        """Record a request's raw estimate and the tokens that the provider reported; ignore a pair with a zero."""
        for field, value in (("estimated_tokens", estimated_tokens), ("reported_tokens", reported_tokens)):
            check_whole(field, value, least=0)
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
