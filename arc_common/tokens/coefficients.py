"""Tokens per feature, as `benchmarks/fit_token_counter.py --write` fitted them to a blend of real tokenizers.

The blend: the geometric mean of o200k_base (weight 0.7), DeepSeek V4, Qwen 3.6 and Mistral's Tekken v3 (0.1 each).
"""

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["COEFFICIENTS"]

_FITTED = {
    "digit_run": 0.678,
    "digit_more": 0.415,
    "punctuation_run": 0.983,
    "punctuation_more": 0.085,
    "space_before_digit": 1.0,
    "letter_after_digit": 0.388,
    "upper_alone": 0.188,
    "upper_inside": 1.316,
    "english_word": 0.852,
    "western_word": 1.1,
    "foreign_word": 0.964,
    "english_more": 0.112,
    "western_more": 0.115,
    "foreign_more": 0.524,
    "typography": 0.461,
    "symbol": 1.562,
    "greek_run": 0.155,
    "greek_more": 0.484,
    "line_end_run": 0.01,
    "line_end_more": 0.076,
    "accented": 0.174,
    "han_japanese": 1.025,
    "han_chinese": 0.807,
    "han_traditional": 1.391,
    "hangul_run": 0.6,
    "hangul_more": 0.827,
    "cjk_mark": 0.781,
    "rare": 1.74,
    "spaces": 0.888,
    "hiragana_run": 0.97,
    "hiragana_more": 0.279,
    "katakana_run": 0.473,
    "katakana_more": 0.683,
    "hebrew_run": 0.568,
    "hebrew_more": 0.461,
    "tab_run": 0.286,
    "tab_more": 0.057,
    "arabic_run": 0.766,
    "arabic_more": 0.243,
    "joiner": 0.838,
    "picture": 2.305,
    "russian_run": 0.366,
    "russian_more": 0.269,
    "cyrillic_run": 0.829,
    "cyrillic_more": 0.283,
    "cyrillic_not_russian": 0.331,
    "arabic_rare": 1.752,
    "armenian_run": 0.703,
    "armenian_more": 0.428,
    "georgian_run": 0.869,
    "georgian_more": 0.368,
    "devanagari_run": 0.094,
    "devanagari_more": 0.533,
    "indic_run": 0.871,
    "indic_more": 0.405,
    "burmese_run": 1.385,
    "burmese_more": 0.584,
    "khmer_run": 1.327,
    "khmer_more": 0.797,
    "thai_run": 0.985,
    "thai_more": 0.358,
    "flag_letter": 1.979,
    "skin_tone": 1.439,
}

COEFFICIENTS: Mapping[str, float] = MappingProxyType(_FITTED)
"""A feature that is not here costs nothing."""
