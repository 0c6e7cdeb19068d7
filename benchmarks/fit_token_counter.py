"""Measure the calibrated counter's error against real tokenizers, after fitting its coefficients to one of them.

    python benchmarks/fit_token_counter.py --data PATH [--write]

Needs scipy and the packages named in `real_tokenizers.py` and `token_corpora.py`: use a separate environment. `--write`
puts the coefficients into `arc_common/tokens/calibration.toml`.

The fit is a least-squares fit with bounded coefficients and a small ridge, which separates rare features. Classes that
represent one language among many weigh underestimates six times as much as overestimates, so that a feature's
coefficient suits the languages in which it costs most. Half of a class's weight goes to the relative errors of its
texts, half to the error of its total.

Prints the coefficients, the errors by class, and a simulation: requests of one to five classes that were not fitted are
filled to limits of 500 to 16,000 tokens. The 99.9th percentile of real over counted tokens is the error that the
counter states.
"""

import argparse
import random
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from real_tokenizers import FITTED, tokenizers
from scipy.optimize import lsq_linear
from token_corpora import corpora, weight

from arc_common.tokens.calibration import features
from arc_common.tokens.counters import HeuristicTokenCounter

Numbers = NDArray[np.float64]

_KINDS = ("spacy", "cms", "mail", "nfd", "short")
_REQUESTS = 10_000
_FRAME = 4  # tokens of a message's framing
_FILE = Path(__file__).parent.parent / "arc_common" / "tokens" / "calibration.toml"
_RIDGE = 0.01
_UNDERESTIMATE_WEIGHT = 6.0
"""Weight of an underestimated token, relative to an overestimated one."""
_ROUNDS = 6
_LOWEST = {"spaces": 0.5, "line_end": 1.0, "punctuation_mixed": 0.5}
"""Lower bounds. The longest run of spaces in a vocabulary has 128, two of the pieces that the feature counts. A line
end after a word is a token, and so is every second mark in a row of different marks.
"""
_HIGHEST = {"space_before_digit": 1.0}
_HIGHEST_ELSE = 4.0
"""Upper bounds: a space is at most one token, any other character at most its bytes in UTF-8."""


def main() -> None:
    """Fit the coefficients, print them with their errors, and optionally write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the shared data")
    parser.add_argument("--write", action="store_true", help="replace the stored coefficients")
    arguments = parser.parse_args()

    classes = corpora(arguments.data)
    exact = tokenizers()
    counted = {
        name: {label: np.array([count(text) for text in texts], dtype=float) for label, count in exact.items()}
        for name, texts in classes.items()
    }
    found = {name: [features(text) for text in texts] for name, texts in classes.items()}
    names = list(dict.fromkeys(key for rows in found.values() for row in rows for key in row))
    tables = {
        name: np.array([[row.get(key, 0.0) for key in names] for row in rows], dtype=float)
        for name, rows in found.items()
    }
    highest = np.array([_HIGHEST.get(key, _HIGHEST_ELSE) for key in names])
    fitted = [(tables[name], counted[name][FITTED], weight(name)) for name in classes if weight(name)]
    lowest = np.array([_LOWEST.get(key, 0.0) for key in names])
    coefficients = _fit(fitted, lowest, highest)
    estimates = {name: np.ceil(np.round(tables[name] @ coefficients, 6)) for name in classes}

    for key, value in zip(names, coefficients, strict=True):
        print(f"{key:24} {value:6.3f}")
    _report(classes, counted, estimates)
    _report_requests({n: (estimates[n], counted[n][FITTED]) for n in classes if not weight(n)})
    if arguments.write:
        _write(dict(zip(names, coefficients.tolist(), strict=True)))


def _fit(classes: list[tuple[Numbers, Numbers, float]], lowest: Numbers, highest: Numbers) -> Numbers:
    rows: list[Numbers] = []
    goals: list[Numbers] = []
    missed: list[Numbers] = []
    for table, tokens, heavy in classes:
        weights = heavy / 2 / np.maximum(tokens, 8.0) / np.sqrt(len(tokens))
        rows += [table * weights[:, None], heavy * table.sum(axis=0)[None, :] / tokens.sum()]
        goals += [tokens * weights, heavy * np.ones(1)]
        missed.append(np.full(len(tokens) + 1, _UNDERESTIMATE_WEIGHT if heavy <= 1 else 1.0))
    table, goal, factors = np.vstack(rows), np.concatenate(goals), np.concatenate(missed)
    ridge = _RIDGE * np.eye(table.shape[1])
    scale = np.ones(len(goal))
    for _ in range(_ROUNDS):  # the fit decides which texts are underestimated
        own, upper = np.linalg.qr(np.vstack([table * scale[:, None], ridge]))
        rest = own.T @ np.concatenate([goal * scale, np.zeros(len(ridge))])
        result = lsq_linear(upper, rest, bounds=(lowest, highest))
        scale = np.where(table @ result.x < goal, np.sqrt(factors), 1.0)
    return np.asarray(np.round(result.x, 3), dtype=float)


def _report(
    classes: dict[str, list[str]],
    counted: dict[str, dict[str, Numbers]],
    estimates: dict[str, Numbers],
) -> None:
    heuristic = HeuristicTokenCounter()
    labels = list(next(iter(counted.values())))
    print(f"\nError of the total in %: chars/4 and the heuristic against {labels[0]}, the fit against each tokenizer;")
    print(f"'per text' is the fit's mean absolute error of one text against {labels[0]}. * fitted class\n")
    print(f"{'class':25}{'chars/4':>8}{'heurist.':>9}" + "".join(f"{x:>12}" for x in labels) + "  per text")
    summary: dict[str, list[list[float]]] = {}
    for name, texts in classes.items():
        exact, estimate = counted[name][labels[0]], estimates[name]
        others = [sum(len(text) / 4 for text in texts), float(sum(heuristic.count_batch(texts)))]
        errors = [100 * (total / exact.sum() - 1) for total in others]
        errors += [100 * (estimate.sum() / tokens.sum() - 1) for tokens in counted[name].values()]
        per_text = 100 * float(np.mean(np.abs(estimate - exact) / np.maximum(1, exact)))
        group = "fitted" if weight(name) else name.split("_")[0] if name.startswith(_KINDS) else "unseen"
        summary.setdefault(group, []).append([*errors, per_text])
        star = "*" if weight(name) else " "
        print(
            f"{name:24}{star}{errors[0]:8.1f}{errors[1]:9.1f}"
            + "".join(f"{error:12.1f}" for error in errors[2:])
            + f"{per_text:10.1f}"
        )
    for group, errors in summary.items():
        for word, reduced in (("mean", np.abs(errors).mean(axis=0)), ("worst", np.abs(errors).max(axis=0))):
            print(
                f"{word + ' of ' + group:25}{reduced[0]:8.1f}{reduced[1]:9.1f}"
                + "".join(f"{error:12.1f}" for error in reduced[2:-1])
                + f"{reduced[-1]:10.1f}"
            )


def _report_requests(classes: dict[str, tuple[Numbers, Numbers]]) -> None:
    rng = random.Random(1)
    names = sorted(classes)
    shares = []
    for _ in range(_REQUESTS):
        limit = rng.choice((500, 1_000, 2_000, 4_000, 8_000, 16_000))
        chosen = rng.choices(names, k=rng.randint(1, 5))
        counted = real = 0.0
        while counted < limit:
            estimates, tokens = classes[rng.choice(chosen)]
            place = rng.randrange(len(tokens))
            counted += estimates[place] + _FRAME
            real += tokens[place] + _FRAME
        shares.append(real / counted)
    half, hundred, thousand = np.quantile(shares, (0.5, 0.99, 0.999))
    print(f"\nRequests of unseen classes, real over counted tokens: median {half:.3f}, ", end="")
    print(f"99th percentile {hundred:.3f}, 99.9th {thousand:.3f}")


def _write(coefficients: dict[str, float]) -> None:
    head, mark, _ = _FILE.read_text(encoding="utf-8").partition("[coefficients]\n")
    lines = (f"{name} = {value}\n" for name, value in coefficients.items() if value)
    _FILE.write_text(head + mark + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
