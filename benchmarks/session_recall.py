"""Measure lexical recall over a conversation's messages: what comes back among the first few for a question.

    python benchmarks/session_recall.py --data PATH

For each window (0 terms: every message by itself) the share of evidence found:
LoCoMo: evidence turns in the top 10; LongMemEval: evidence turns in the top 10 of all turns;
SGD and CrossWOZ: the value asked for is in one of the top 5 messages.
"""

import argparse
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

from arc_common.memory.recall import SessionIndex


def main() -> None:
    """Read the conversations, ask, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the shared data")
    parser.add_argument("--windows", type=int, nargs="+", default=[0, 30, 60, 90], help="terms of a window")
    arguments = parser.parse_args()
    print("window  LoCoMo@10  LongMemEval@10  SGD@5  CrossWOZ@5")
    for window in arguments.windows:
        results = (
            mean(_locomo(_read(arguments.data, "recall_locomo"), window)),
            mean(_longmemeval(_read(arguments.data, "recall_longmemeval"), window)),
            mean(_values(_read(arguments.data, "facts_sgd"), window)),
            mean(_values(_read(arguments.data, "facts_crosswoz"), window)),
        )
        print(f"{window:6}  {results[0]:9.3f}  {results[1]:14.3f}  {results[2]:5.3f}  {results[3]:10.3f}", flush=True)


def _read(folder: Path, name: str) -> Any:
    with gzip.open(folder / f"{name}.json.gz", "rt", encoding="utf-8") as file:
        return json.load(file)


def _locomo(conversations: Any, window: int) -> Iterator[float]:
    for conversation in conversations:
        turns = ((turn["id"], f"{turn['speaker']}: {turn['text']}") for turn in conversation["turns"])
        index = SessionIndex(turns, window_terms=window)
        for question in conversation["questions"]:
            if question["category"] != "adversarial" and question["evidence"]:
                found = {turn_id for turn_id, _ in index.search(question["question"], top_k=10)}
                yield len(found.intersection(question["evidence"])) / len(question["evidence"])


def _longmemeval(conversations: Any, window: int) -> Iterator[float]:
    for conversation in conversations:
        turns = [turn for session in conversation["sessions"] for turn in session["turns"]]
        evidence = {str(i) for i, turn in enumerate(turns) if turn.get("evidence")}
        if evidence:
            index = SessionIndex(((str(i), turn["content"]) for i, turn in enumerate(turns)), window_terms=window)
            found = {turn_id for turn_id, _ in index.search(conversation["question"], top_k=10)}
            yield len(found & evidence) / len(evidence)


def _values(conversations: Any, window: int) -> Iterator[float]:
    for conversation in conversations:
        texts = {str(i): turn["text"].casefold() for i, turn in enumerate(conversation["turns"])}
        index = SessionIndex(texts.items(), window_terms=window)
        for probe in conversation["probes"]:
            found = index.search(probe["question"], top_k=5)
            yield float(any(probe["value"].casefold() in texts[turn_id] for turn_id, _ in found))


if __name__ == "__main__":
    main()
