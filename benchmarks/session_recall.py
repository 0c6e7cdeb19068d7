"""Measure recall over a conversation's messages, with no embedder: what comes back among the first few for a question.

    python benchmarks/session_recall.py --data PATH

Prints how many of each set's planted facts come back among the first 5 and 20 of 120 messages (`session.recall` gives
the first 5, and 20 where no message plainly answers), and how high (mean reciprocal rank). Then for each window (0
terms: every message by itself) the share of evidence found in the shared conversations, by the messages alone and, as
`session.recall` does, together with the facts that the rules read from them:
LoCoMo: evidence turns in the top 10; LongMemEval: evidence turns in the top 10 of all turns;
SGD and CrossWOZ: the value asked for is in one of the top 5 messages.
"""

import argparse
import gzip
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from arc_common.memory.facts.extraction import extract_facts
from arc_common.messages import Message, Role
from tests.support.message_recall import recall
from tests.support.planted_facts import FACT_SETS, build_conversation, load_facts

OTHER_SETS = (
    "facts_own_question",
    "facts_asked_again",
    "facts_asked_later",
    "facts_week_later_home",
    "facts_week_later_study",
)
"""Sets by which no weight was chosen. Only "asked_again" was written after the last word of the thesaurus;
"own_question" came back whole before there was one, and the last three, asked in hardly any of
the facts' words, flatter it."""

Facts = Sequence[tuple[str, Sequence[int]]]
Search = Callable[[str, Sequence[str], Facts, int, int], list[int]]


def by_messages(question: str, texts: Sequence[str], facts: Facts, top_k: int, window: int) -> list[int]:  # noqa: ARG001 - called as by_both is
    """The places of the best messages, by the messages alone."""
    found = recall(question, texts, top_k=top_k, window_terms=window, reads=False)
    return [one.place.seq for one in found]


def by_both(question: str, texts: Sequence[str], facts: Facts, top_k: int, window: int) -> list[int]:
    """The places of the best messages, by them and their facts."""
    return [found.place.seq for found in recall(question, texts, facts, top_k=top_k, window_terms=window)]


SEARCHES: dict[str, Search] = {"messages": by_messages, "with facts": by_both}
"""Both are asked one after the other, as a conversation's index is kept for the next question alone."""


def main() -> None:
    """Read the conversations, ask, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder of the shared data; without it only the planted facts")
    parser.add_argument("--windows", type=int, nargs="+", default=[60], help="terms of a window")
    arguments = parser.parse_args()
    for name in (*FACT_SETS, *OTHER_SETS):
        ranks = [rank for seed in range(3) for rank in _planted(name, seed)]
        few, many = (sum(rank <= most for rank in ranks) / 3 for most in (5, 20))
        mrr = mean(1 / rank for rank in ranks)
        print(f"{name:34} of 60 in 5: {few:4.1f}, in 20: {many:4.1f}, MRR {mrr:.3f}", flush=True)
    if arguments.data is None:
        return
    print("window  by              LoCoMo@10  LongMemEval@10  SGD@5  CrossWOZ@5")
    for window in arguments.windows:
        results = [
            list(zip(*found(_read(arguments.data, name), window), strict=True))
            for found, name in (
                (_locomo, "recall_locomo"),
                (_longmemeval, "recall_longmemeval"),
                (_values, "facts_sgd"),
                (_values, "facts_crosswoz"),
            )
        ]
        for place, label in enumerate(SEARCHES):
            values = [mean(one[place]) for one in results]
            row = f"{values[0]:9.3f}  {values[1]:14.3f}  {values[2]:5.3f}  {values[3]:10.3f}"
            print(f"{window:6}  {label:14}  {row}", flush=True)


def _read(folder: Path, name: str) -> Any:
    with gzip.open(folder / f"{name}.json.gz", "rt", encoding="utf-8") as file:
        return json.load(file)


def _facts(turns: Sequence[tuple[str, str]]) -> Facts:
    """What the rules read from the turns (role and text), and from which."""
    messages = [Message(Role(role), text, id=str(place)) for place, (role, text) in enumerate(turns)]
    found = extract_facts(messages)
    return [(fact.value, [int(source) for source in fact.sources]) for fact in found]


def _planted(name: str, seed: int) -> Iterator[float]:
    """The rank of the first message that has the fact, for each question; infinite behind the twentieth."""
    conversation = build_conversation(load_facts(name), seed=seed)
    texts = [message.text for message in conversation]
    facts = _facts([(message.role, message.text) for message in conversation])
    for fact in load_facts(name):
        places = by_both(fact.question, texts, facts, 20, 60)
        yield next((float(i) for i, place in enumerate(places, 1) if fact.value in texts[place]), float("inf"))


def _locomo(conversations: Any, window: int) -> Iterator[list[float]]:
    for conversation in conversations:
        turns = conversation["turns"]
        texts = [f"{turn['speaker']}: {turn['text']}" for turn in turns]
        facts = _facts([("user", turn["text"]) for turn in turns])
        for question in conversation["questions"]:
            if question["category"] != "adversarial" and question["evidence"]:
                found = [search(question["question"], texts, facts, 10, window) for search in SEARCHES.values()]
                ids = [{turns[place]["id"] for place in places} for places in found]
                yield [len(one.intersection(question["evidence"])) / len(question["evidence"]) for one in ids]


def _longmemeval(conversations: Any, window: int) -> Iterator[list[float]]:
    for conversation in conversations:
        turns = [turn for session in conversation["sessions"] for turn in session["turns"]]
        evidence = {place for place, turn in enumerate(turns) if turn.get("evidence")}
        if evidence:
            texts = [turn["content"] for turn in turns]
            facts = _facts([(turn["role"], turn["content"]) for turn in turns])
            found = [search(conversation["question"], texts, facts, 10, window) for search in SEARCHES.values()]
            yield [len(evidence.intersection(places)) / len(evidence) for places in found]


def _values(conversations: Any, window: int) -> Iterator[list[float]]:
    for conversation in conversations:
        texts = [turn["text"].casefold() for turn in conversation["turns"]]
        facts = _facts([(turn["role"], turn["text"]) for turn in conversation["turns"]])
        for probe in conversation["probes"]:
            found = [search(probe["question"], texts, facts, 5, window) for search in SEARCHES.values()]
            yield [float(any(probe["value"].casefold() in texts[place] for place in places)) for places in found]


if __name__ == "__main__":
    main()
