"""What an index and its searches are given, checked: errors name the field and the value."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from arc_common.exceptions import InvalidInputError

__all__ = ["SearchMode", "check_search", "checked_ids", "checked_weights", "several"]

SearchMode = Literal["hybrid", "lexical", "dense"]


def several(name: str, given: object) -> list[Any]:
    """What was given, if it is several things and not a text or a mapping, whose parts might pass for them."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidInputError(name, given, "several of them, in a list")
    return list(given)


def checked_ids(ids: object) -> list[str]:
    """Several texts."""
    checked = several("ids", ids)
    if wrong := [one for one in checked if not isinstance(one, str)]:
        raise InvalidInputError("ids", wrong[0], "texts")
    return checked


def checked_weights(weights: Mapping[str, float] | None) -> dict[str, float]:
    """What each part counts, 1 by default."""
    checked = {"bm25": 1.0, "vector": 1.0}
    for name, weight in (weights or {}).items():
        if name not in checked:
            raise InvalidInputError("weights", name, "the parts 'bm25' and 'vector'")
        if not isinstance(weight, int | float) or not 0 <= weight < math.inf:
            raise InvalidInputError(f"weights[{name!r}]", weight, "a finite number from 0 on")
        checked[name] = weight
    if not any(checked.values()):
        raise InvalidInputError("weights", weights, "at least one above zero")
    return checked


def check_search(query: object, top_k: object, threshold: object, mode: object) -> None:
    """See that a search can be made so."""
    if not isinstance(query, str):
        raise InvalidInputError("query", query, "text")
    if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
        raise InvalidInputError("top_k", top_k, "a whole number of at least 1")
    if threshold is not None and not (isinstance(threshold, int | float) and -1 <= threshold <= 1):
        raise InvalidInputError("threshold", threshold, "a cosine from -1 to 1, or None")
    if not isinstance(mode, str) or mode not in get_args(SearchMode):
        raise InvalidInputError("mode", mode, f"one of {', '.join(get_args(SearchMode))}")
