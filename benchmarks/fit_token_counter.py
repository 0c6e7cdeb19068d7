"""Fit the calibrated counter's coefficients to real tokenizers, and show how well they hold on classes not fitted.

    python benchmarks/fit_token_counter.py --data PATH [--write]

Needs, besides arc: the packages named in `real_tokenizers.py` and `token_corpora.py`, and scipy. Use an environment of
its own. `--write` puts the coefficients into `arc_common/tokens/coefficients.py`.

Least squares with coefficients of at least zero. Each class weighs the same: half by its texts' relative errors, half
by the error of its total, so that no class is bought with another's bias. A small ridge keeps features that seldom
occur apart. Nothing is tuned by hand.
"""

import argparse
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from real_tokenizers import CURRENT, tokenizers
from scipy.optimize import lsq_linear
from token_corpora import FITTED, corpora

from arc_common.tokens.features import features
from arc_common.tokens.heuristic import HeuristicTokenCounter

Numbers = NDArray[np.float64]

_FILE = Path(__file__).parent.parent / "arc_common" / "tokens" / "coefficients.py"
_RIDGE = 0.01
_HIGHEST = {"space_before_digit": 1.0}
_HIGHEST_ELSE = 4.0
"""A space is one token at most; a character at most its bytes in UTF-8."""


def main() -> None:
    """Read the texts, count, fit, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the shared data")
    parser.add_argument("--write", action="store_true", help="replace the coefficients in the source")
    arguments = parser.parse_args()

    classes = corpora(arguments.data)
    exact = tokenizers()
    counted = {
        name: {label: np.array([count(text) for text in texts], dtype=float) for label, count in exact.items()}
        for name, texts in classes.items()
    }
    blends = {
        name: np.exp(sum(weight * np.log(np.maximum(1.0, counts[label])) for label, weight in CURRENT.items()))
        for name, counts in counted.items()
    }
    found = {name: [features(text) for text in texts] for name, texts in classes.items()}
    names = list(dict.fromkeys(key for rows in found.values() for row in rows for key in row))
    tables = {
        name: np.array([[row.get(key, 0.0) for key in names] for row in rows], dtype=float)
        for name, rows in found.items()
    }
    highest = np.array([_HIGHEST.get(key, _HIGHEST_ELSE) for key in names])
    coefficients = _fit([(tables[name], blends[name]) for name in classes if name in FITTED], highest)
    estimates = {name: np.ceil(np.round(tables[name] @ coefficients, 6)) for name in classes}

    for key, value in zip(names, coefficients, strict=True):
        print(f"{key:24} {value:6.3f}")
    _report(classes, counted, blends, estimates)
    if arguments.write:
        _write(dict(zip(names, coefficients.tolist(), strict=True)))


def _fit(classes: list[tuple[Numbers, Numbers]], highest: Numbers) -> Numbers:
    rows: list[Numbers] = []
    goals: list[Numbers] = []
    for table, tokens in classes:
        weights = 1 / np.maximum(tokens, 8.0) / np.sqrt(len(tokens))
        rows += [table * weights[:, None], table.sum(axis=0)[None, :] / tokens.sum()]
        goals += [tokens * weights, np.ones(1)]
    size = rows[0].shape[1]
    rows.append(_RIDGE * np.eye(size))
    goals.append(np.zeros(size))
    result = lsq_linear(np.vstack(rows), np.concatenate(goals), bounds=(0.0, highest))
    return np.asarray(np.round(result.x, 3), dtype=float)


def _report(
    classes: dict[str, list[str]],
    counted: dict[str, dict[str, Numbers]],
    blends: dict[str, Numbers],
    estimates: dict[str, Numbers],
) -> None:
    heuristic = HeuristicTokenCounter()
    labels = list(next(iter(counted.values())))
    print(f"\nError of the total, in %, of: chars/4 and the heuristic (to {labels[0]}), the fit to each tokenizer; and")
    print(f"the fit's mean absolute error of a single text (to {labels[0]}). * fitted class\n")
    print(f"{'class':25}{'chars/4':>8}{'heurist.':>9}{'blend':>7}" + "".join(f"{x:>12}" for x in labels) + "  a text")
    summary: dict[str, list[list[float]]] = {}
    for name, texts in classes.items():
        exact, estimate = counted[name][labels[0]], estimates[name]
        others = [sum(len(text) / 4 for text in texts), float(sum(heuristic.count_batch(texts)))]
        errors = [100 * (total / exact.sum() - 1) for total in others]
        errors += [100 * (estimate.sum() / tokens.sum() - 1) for tokens in (blends[name], *counted[name].values())]
        per_text = 100 * float(np.mean(np.abs(estimate - exact) / np.maximum(1, exact)))
        group = "fitted" if name in FITTED else "sentences" if name.startswith("spacy") else "unseen"
        summary.setdefault(group, []).append([*errors, per_text])
        star = "*" if name in FITTED else " "
        print(
            f"{name:24}{star}{errors[0]:8.1f}{errors[1]:9.1f}{errors[2]:7.1f}"
            + "".join(f"{error:12.1f}" for error in errors[3:])
            + f"{per_text:8.1f}"
        )
    for group, errors in summary.items():
        for word, reduced in (("mean", np.abs(errors).mean(axis=0)), ("worst", np.abs(errors).max(axis=0))):
            print(
                f"{word + ' of ' + group:25}{reduced[0]:8.1f}{reduced[1]:9.1f}{reduced[2]:7.1f}"
                + "".join(f"{error:12.1f}" for error in reduced[3:-1])
                + f"{reduced[-1]:8.1f}"
            )


def _write(coefficients: dict[str, float]) -> None:
    lines = "".join(f'    "{name}": {value},\n' for name, value in coefficients.items() if value)
    text = re.sub(r"(?s)(= \{\n).*?(\n?\})", rf"\g<1>{lines}}}", _FILE.read_text(encoding="utf-8"), count=1)
    _FILE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
