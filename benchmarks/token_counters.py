"""Measure the speed and error of the token counters, compared with chars/4 and a plain tiktoken loop.

    python benchmarks/token_counters.py --data PATH

Prints for each class of text the µs per 1,000 characters and per message of 200 characters, and the error of the total
against o200k_base. At the end, the time of an exact batch, relative to a loop of tiktoken's `encode_ordinary` and
compared with its threaded batch.
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter

from token_corpora import corpora

from arc_common.tokens.calibration import CalibratedTokenCounter
from arc_common.tokens.counters import HeuristicTokenCounter, TiktokenCounter, local_encoding

_SHOWN = (
    *("en", "chat_user", "chat_assistant_markdown", "ko", "zh", "ja", "tool_results", "tool_calls", "crosswoz"),
    *("emoji", "hex", "json_min", "log"),
)


def main() -> None:
    """Measure the counters and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the shared data")
    classes = {name: texts for name, texts in corpora(parser.parse_args().data).items() if name in _SHOWN}

    exact, estimates = TiktokenCounter("o200k_base"), (HeuristicTokenCounter(), CalibratedTokenCounter())
    counters = (exact, *estimates)
    names = [counter.name for counter in counters]
    print(f"{'':24}" + "".join(f"{name:>24}" for name in names))
    print(f"{'class':24}" + f"{'µs/1,000   µs/200 char.':>24}" * len(names))
    for name in _SHOWN:
        joined = "\n".join(classes[name])
        long, short = joined[:20_000], [joined[i : i + 200] for i in range(0, 20_000, 200)]
        row = ""
        for counter in counters:
            per_thousand = _seconds(partial(counter.count, long)) / len(long) * 1e9
            per_message = _seconds(partial(counter.count_batch, short)) / len(short) * 1e6
            row += f"{per_thousand:14.1f}{per_message:10.1f}"
        print(f"{name:24}{row}")

    print(f"\n{'error of the total, %':24}{'chars/4':>12}" + "".join(f"{c.name:>16}" for c in estimates))
    for name in _SHOWN:
        texts = classes[name]
        true = sum(exact.count_batch(texts))
        totals = [sum(len(text) for text in texts) / 4, *(float(sum(c.count_batch(texts))) for c in estimates)]
        errors = [100 * (total / true - 1) for total in totals]
        print(f"{name:24}{errors[0]:12.1f}" + "".join(f"{error:16.1f}" for error in errors[1:]))

    encoding = local_encoding("o200k_base", None)
    if encoding is None:
        print("\nthe vocabulary o200k_base is missing: the exact batch was not measured")
        return
    texts = [text for name in _SHOWN for text in classes[name]]

    def loop() -> list[int]:
        encode = encoding.encode_ordinary
        return [len(encode(text)) for text in texts]

    plain, ours, threaded = _interleaved(
        loop, lambda: exact.count_batch(texts), lambda: encoding.encode_ordinary_batch(texts)
    )
    print(f"\n{len(texts):,} texts: plain loop {plain * 1e3:.0f} ms; count_batch {ours / plain:.3f} of that; ", end="")
    print(f"tiktoken's threaded batch {threaded / plain:.3f}")


def _seconds(work: Callable[[], object], repeats: int = 7) -> float:
    return min(_once(work) for _ in range(repeats))


def _interleaved(*works: Callable[[], object], repeats: int = 9) -> list[float]:
    """Return the minimum time of each function; they alternate, so that other load affects all of them."""
    rounds = [[_once(work) for work in works] for _ in range(repeats)]
    return [min(times) for times in zip(*rounds, strict=True)]


def _once(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


if __name__ == "__main__":
    main()
