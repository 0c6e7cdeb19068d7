"""What an index and its searches are given, checked: errors name the field and the value."""

import math
from collections.abc import Mapping
from typing import Literal, get_args

from arc_common.documents import checked_items
from arc_common.exceptions import InvalidInputError

__all__ = ["SearchMode", "check_search", "checked_ids", "checked_weights"]

SearchMode = Literal["hybrid", "lexical", "dense"]


def checked_ids(ids: object) -> list[str]:
    """Several texts."""
    return checked_items("ids", ids, str, expected="a collection of ids")


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
