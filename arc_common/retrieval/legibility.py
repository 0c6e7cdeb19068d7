"""How well an embedder reads the texts that a query is about, by these texts alone. Pure.

Texts that share telling words lie near each other in the vectors of an embedder that can read them (the cluster
hypothesis, tested by texts' nearest ones: Voorhees 1985, "The Cluster Hypothesis Revisited"); in those of one that
can't, where they lie has little to do with their words. Many texts tell that far better than the one query does. They
are those that have the query's words: translations of each other, which share none, are not compared.
"""

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # numpy takes a tenth of a second, which importing arc must not cost
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["legibility"]

_USUAL = 0.3
"""The agreement with which cosines count as they are: that of MiniLM on chats. On abstracts, paragraphs and one-line
descriptions it is .56, .50 and .54, on scripts that it can't read .13 (Korean) and .28 (Chinese); that of multilingual
embedders (E5, USE) on the same Chinese and Korean texts .56 to .62."""

_FEWEST = 4
"""Two distances from a text lie on a line, however little they have to do with words."""

_ROUNDING = 1e-9


def legibility(
    terms: Mapping[str, Mapping[str, float]],
    vectors: "Mapping[str, NDArray[np.float32]]",
) -> float:
    """What cosines of such texts should count: 1 as usual, less where words don't bear them out, up to 3 where they do.

    - The correlation (Pearson) of each text's cosines with the others and of the words it shares with them, on average;
      words weigh as in tf-idf (ln(1 + frequency) × rarity among these texts: Salton & Buckley 1988). Single characters
      don't count: in Chinese and Korean they are parts of pairs that do, elsewhere letters and digits.
    - Few texts prove nothing: the standard error of a correlation over all pairs is added to both, what is found and
      what is usual. 1 for fewer than four, and where no two share more than any others.
    - Above 0. The same in whatever order texts come. Each is compared with each.

    Args:
        terms: How often each term occurs in each text.
        vectors: Of those of the texts that have one, each of length 1 and all of one dimension.
    """
    import numpy as np  # noqa: PLC0415 - see above

    ids = sorted(entry_id for entry_id in terms if entry_id in vectors)
    if len(ids) < _FEWEST:
        return 1.0
    matrix = np.stack([vectors[entry_id] for entry_id in ids]).astype(np.float64)
    shared = _similarities([{term: n for term, n in terms[entry_id].items() if len(term) > 1} for entry_id in ids])
    others = ~np.eye(len(ids), dtype=bool)
    near, alike = (_centred(table[others].reshape(len(ids), -1)) for table in (matrix @ matrix.T, shared))
    spreads, tells = np.linalg.norm(near, axis=1), np.linalg.norm(alike, axis=1)
    telling = tells > _ROUNDING
    if not telling.any():
        return 1.0
    products = (near * alike).sum(axis=1)
    agreements = np.divide(products, spreads * tells, out=np.zeros(len(ids)), where=telling & (spreads > _ROUNDING))
    error = 1 / math.sqrt(math.comb(len(ids), 2))
    return (max(0.0, float(agreements[telling].mean())) + error) / (_USUAL + error)


def _centred(rows: "NDArray[np.float64]") -> "NDArray[np.float64]":
    centred: NDArray[np.float64] = rows - rows.mean(axis=1, keepdims=True)
    return centred


def _similarities(texts: list[Mapping[str, float]]) -> "NDArray[np.float64]":
    """The cosines of the texts' terms; of a text without any, 0."""
    import numpy as np  # noqa: PLC0415 - see above

    held = Counter(term for terms in texts for term in terms)
    rarity = [math.log1p((len(texts) - n + 0.5) / (n + 0.5)) for n in range(len(texts) + 1)]
    column = {term: place for place, term in enumerate(sorted(term for term, n in held.items() if n > 1))}
    table, squares = np.zeros((len(texts), len(column))), np.zeros(len(texts))
    for row, terms in enumerate(texts):
        weights = {term: math.log1p(frequency) * rarity[held[term]] for term, frequency in terms.items()}
        squares[row] = math.fsum(weight * weight for weight in weights.values())
        for term in weights.keys() & column.keys():
            table[row, column[term]] = weights[term]
    table /= np.sqrt(np.where(squares > 0, squares, 1.0))[:, None]
    similarities: NDArray[np.float64] = table @ table.T
    return similarities
