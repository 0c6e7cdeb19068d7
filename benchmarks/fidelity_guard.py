"""Measure the planted facts that the fidelity guard finds, and the facts and excerpts it takes from ordinary chats.

    python benchmarks/fidelity_guard.py [--data PATH] [--seed 1]

Each set plants 60 facts in 120 messages of small talk, in English or Korean. With --data, the facts are also planted
among the messages of public chats. Each line shows:

- the facts found by the rules alone, and with the guard's excerpts;
- the facts still there when the most important lines fill 600, 1,000 and 1,300 tokens;
- the other lines found, the tokens per line, and the kinds of the missed facts.

For the public chats themselves it prints the facts and excerpts per message, the share of messages with a fact among
those that a question asks about and among the others, and the ms per message.
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

from arc_common.memory.facts.extraction import excerpts_of, extract_facts
from arc_common.messages import Message, Role
from arc_common.tokens.counters import TiktokenCounter
from tests.support.planted_facts import FACT_SETS, PlantedFact, build_conversation, load_facts

TOKEN_LIMITS = (600, 1_000, 1_300)


def folded(text: str) -> str:
    """Fold case and white space, as the acceptance test does."""
    return " ".join(text.casefold().split())


def load(data: Path, name: str) -> Any:
    """Read one file of the shared data."""
    with gzip.open(data / f"{name}.json.gz", "rt", encoding="utf-8") as file:
        return json.load(file)


def recall(
    name: str, conversation: Sequence[Message], planted: Sequence[PlantedFact], counter: TiktokenCounter
) -> None:
    """Print the planted facts that are found, in total and within each token limit."""
    facts = extract_facts(conversation)
    found = [*facts, *excerpts_of(conversation, facts=facts)]
    lines = [f"- 2026-01-01, user: {fact.value}" for fact in found]
    costs = [tokens + 1 for tokens in counter.count_batch(lines)]
    order = sorted(range(len(found)), key=lambda i: -found[i].importance)
    hits = []
    for limit in (*TOKEN_LIMITS, 10**9):
        kept, used = [], 0
        for i in order:
            if used + costs[i] <= limit:
                kept.append(folded(lines[i]))
                used += costs[i]
        hits.append([fact for fact in planted if any(folded(fact.value) in line for line in kept)])
    stated = sum(any(folded(fact.value) in folded(one.value) for one in facts) for fact in planted)
    missed = Counter(fact.kind for fact in planted if fact not in hits[-1])
    extra = sum(not any(folded(fact.value) in folded(one.value) for fact in planted) for one in found)
    within = " ".join(f"{limit}: {len(hit)}" for limit, hit in zip(TOKEN_LIMITS, hits, strict=False))
    print(
        f"{name:32} facts {stated}, with excerpts {len(hits[-1])} of {len(planted)} | within tokens {within} | "
        f"{extra} others, {sum(costs) / len(costs):.1f} tokens per line | missed {dict(missed) or 'none'}"
    )


def planted_in_chat(planted: Sequence[PlantedFact], talk: Sequence[str], seed: int) -> list[Message]:
    """Plant the facts in real messages, each before or after a message's text."""
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


def facts_per_message(name: str, messages: Iterable[tuple[str, str, bool]]) -> None:
    """Print the facts and excerpts per message, and the share of messages with a fact."""
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
        for asked, label in ((True, "asked about"), (False, "others"))
        if shares[asked]
    )
    milliseconds = 1_000 * (time.perf_counter() - start) / total
    kept = f"excerpts {sum(excerpts) / total:.3f}"
    print(f"{name:20} facts per message: {per_message} | {kept} | messages with a fact: {share}", end="")
    print(f" | {milliseconds:.1f} ms per message")


def main() -> None:
    """Measure the planted facts, and the public chats if --data is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the shared data (default: only planted facts)")
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
            recall(f"{label}: {name[6:]}", planted_in_chat(planted, talk, arguments.seed), planted, counter)
    asked = {evidence for chat in locomo for question in chat["questions"] for evidence in question["evidence"]}
    facts_per_message("LoCoMo", (("user", one["text"], one["id"] in asked) for chat in locomo for one in chat["turns"]))
    unique = {turn["content"]: turn for turn in turns}
    facts_per_message("LongMemEval", ((turn["role"], text, bool(turn["evidence"])) for text, turn in unique.items()))
    for name in ("facts_sgd", "facts_crosswoz"):
        dialogues = load(arguments.data, name)
        facts_per_message(name, ((turn["role"], turn["text"], False) for chat in dialogues for turn in chat["turns"]))


if __name__ == "__main__":
    main()
