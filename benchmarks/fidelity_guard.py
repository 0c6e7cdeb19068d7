"""What the fidelity guard finds, and how much of it ordinary chats give.

    python benchmarks/fidelity_guard.py --data PATH

Prints, for each set of planted facts (60 in 120 messages of small talk, English and Korean), how many are found as
facts, how many with the guard's excerpts, and how many are still there when the most important lines of both fill 600,
1,000 and 1,300 tokens; the kinds that are missed; the same with the public chats' own messages as small talk; and on
the public chats the facts and excerpts per message, next to the share of messages with a fact among those that a
question is about and among the others.
"""

import argparse
import gzip
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from arc_common.memory.facts.extraction import extract_facts
from arc_common.memory.facts.guard import excerpts_of
from arc_common.messages import Message, Role
from arc_common.tokens.counters import TiktokenCounter
from tests.support.planted_facts import FACT_SETS, PlantedFact, build_conversation, load_facts

CEILINGS = (600, 1_000, 1_300)


def folded(text: str) -> str:
    """As the acceptance test compares: case and space make no difference."""
    return " ".join(text.casefold().split())


def load(data: Path, name: str) -> Any:
    """One of the public files."""
    with gzip.open(data / f"{name}.json.gz", "rt", encoding="utf-8") as file:
        return json.load(file)


def recall(
    name: str, conversation: Sequence[Message], planted: Sequence[PlantedFact], counter: TiktokenCounter
) -> None:
    """Print how many planted facts are found, and how many within each ceiling."""
    facts = extract_facts(conversation)
    found = [*facts, *excerpts_of(conversation, facts=facts)]
    lines = [f"- 2026-01-01, user: {fact.value}" for fact in found]
    costs = [tokens + 1 for tokens in counter.count_batch(lines)]
    order = sorted(range(len(found)), key=lambda i: -found[i].importance)
    hits = []
    for ceiling in (*CEILINGS, 10**9):
        kept, used = [], 0
        for i in order:
            if used + costs[i] <= ceiling:
                kept.append(folded(lines[i]))
                used += costs[i]
        hits.append([fact for fact in planted if any(folded(fact.value) in line for line in kept)])
    stated = sum(any(folded(fact.value) in folded(one.value) for one in facts) for fact in planted)
    missed = Counter(fact.kind for fact in planted if fact not in hits[-1])
    extra = sum(not any(folded(fact.value) in folded(one.value) for fact in planted) for one in found)
    within = " ".join(f"{ceiling}: {len(hit)}" for ceiling, hit in zip(CEILINGS, hits, strict=False))
    print(
        f"{name:32} facts {stated}, with excerpts {len(hits[-1])} of {len(planted)} | within tokens {within} | "
        f"{extra} others, "
        f"{sum(costs) / len(costs):.1f} tokens a line | missed {dict(missed) or 'none'}"
    )


def in_real_talk(planted: Sequence[PlantedFact], talk: Sequence[str], seed: int) -> list[Message]:
    """The planted facts, each behind or before a real message."""
    rng = random.Random(seed)
    messages = [Message((Role.USER, Role.ASSISTANT)[i % 2], text, id=f"m{i}") for i, text in enumerate(talk[:120])]
    for role in (Role.USER, Role.ASSISTANT):
        places = [i for i, message in enumerate(messages) if message.role is role]
        rng.shuffle(places)
        for i, fact in enumerate(fact for fact in planted if fact.role == role):
            place = places[i % len(places)]
            parts = [messages[place].text, fact.text]
            rng.shuffle(parts)
            messages[place] = replace(messages[place], content=" ".join(parts))
    return messages


def flood(name: str, messages: Iterable[tuple[str, str, bool]]) -> None:
    """Print the facts per message by role, and the share of messages with one, by whether a question asks for it."""
    start = time.perf_counter()
    counts: dict[str, list[int]] = {}
    excerpts: list[int] = []
    shares: dict[bool, list[bool]] = {True: [], False: []}
    for role, text, asked in messages:
        message = Message(Role(role), text, id="m")
        facts = extract_facts([message])
        excerpts.append(len(excerpts_of([message], facts=facts)))
        found = len(facts)
        counts.setdefault(role, []).append(found)
        if role == "user":
            shares[asked].append(found > 0)
    per_message = ", ".join(f"{role} {sum(found) / len(found):.3f} ({len(found)})" for role, found in counts.items())
    total = sum(map(len, counts.values()))
    share = " ".join(
        f"{label} {100 * sum(shares[asked]) / len(shares[asked]):.0f} %"
        for asked, label in ((True, "asked for"), (False, "others"))
        if shares[asked]
    )
    milliseconds = 1_000 * (time.perf_counter() - start) / total
    kept = f"excerpts {sum(excerpts) / total:.3f}"
    print(f"{name:20} facts per message: {per_message} | {kept} | messages with a fact: {share}, {milliseconds:.1f} ms")


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with the public chats; without it only the planted facts")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    counter = TiktokenCounter("o200k_base")
    for name in FACT_SETS:
        planted = load_facts(name)
        recall(name, build_conversation(planted, seed=arguments.seed), planted, counter)
    if arguments.data is None:
        return
    locomo = load(arguments.data, "recall_locomo")
    chats = load(arguments.data, "recall_longmemeval")
    turns = [turn for chat in chats for session in chat["sessions"] for turn in session["turns"]]
    short = [turn["content"] for turn in turns if turn["role"] == "user" and 80 < len(turn["content"]) < 400]
    for label, talk in (("LoCoMo", [turn["text"] for turn in locomo[0]["turns"]]), ("LongMemEval", short)):
        for name in FACT_SETS:
            planted = load_facts(name)
            recall(f"{label}: {name[6:]}", in_real_talk(planted, talk, arguments.seed), planted, counter)
    asked = {evidence for chat in locomo for question in chat["questions"] for evidence in question["evidence"]}
    flood("LoCoMo", (("user", turn["text"], turn["id"] in asked) for chat in locomo for turn in chat["turns"]))
    unique = {turn["content"]: turn for turn in turns}
    flood("LongMemEval", ((turn["role"], text, bool(turn["evidence"])) for text, turn in unique.items()))
    for name in ("facts_sgd", "facts_crosswoz"):
        dialogues = load(arguments.data, name)
        flood(name, ((turn["role"], turn["text"], False) for chat in dialogues for turn in chat["turns"]))


if __name__ == "__main__":
    main()
