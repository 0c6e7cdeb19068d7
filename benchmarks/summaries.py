"""Measure the tokens of summarising a conversation incrementally, compared with summarising all of it each time.

    python benchmarks/summaries.py [--messages 100 1000 10000]

The conversation is generated: about 60 tokens a message, a fact in every second one. All figures are counts, not times.

- "sent by arc": the tokens sent to the summariser, prompts included, and how many times the conversation's tokens that
  is; "calls": the summariser's calls.
- "all anew": a lower bound of the alternative, which sends the whole conversation so far for each of arc's leaves,
  without instructions.
- "narratives ≤": the largest number of narrative tokens in a request.
- "facts read": the number of facts by how often each was read.
"""

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from arc_common import ArcSettings, CalibratedTokenCounter, ContextEngine, Message, Role, TokenBudget
from arc_common.tokens.counters import message_tokens_batch

WORDS = [
    start + middle + end for start in "bdfgklmnprstv" for middle in "aeiou" for end in ("ba", "ken", "lor", "mi", "nas")
]
"""Made-up words, so that none is more informative than another."""
MARK = re.compile(r"\bfact-(\d+)\b")


class CountingModel:
    """A model that reports the facts it is shown and counts the tokens it is sent."""

    def __init__(self) -> None:
        self.counter = CalibratedTokenCounter()
        self.tokens = 0
        self.calls = 0
        self.leaves = 0
        self.read: Counter[str] = Counter()

    def complete(self, messages: Sequence[Message]) -> str:
        """Return a summary in the requested form."""
        text = "\n".join(message.text for message in messages)
        self.tokens += sum(message_tokens_batch(self.counter, messages))
        self.calls += 1
        narrative = " ".join(random.Random(self.calls).choices(WORDS, k=45)) + "."
        if '"facts"' not in text:
            return json.dumps({"narrative": narrative})
        self.leaves += 1
        found = list(dict.fromkeys(MARK.findall(messages[-1].text.split("<arc:conversation>")[-1])))
        self.read.update(found)
        facts = [{"key": f"entry {n}", "value": f"fact-{n}", "category": "ENTITY"} for n in found]
        return json.dumps({"facts": facts, "narrative": narrative})


def conversation(count: int) -> list[Message]:
    """Return alternating user and assistant messages; each user message states a fact."""
    rng = random.Random(0)
    messages = []
    for n in range(count):
        words = " ".join(rng.choices(WORDS, k=45))
        text = f"My reference is fact-{n} and {words}." if n % 2 == 0 else f"Thank you, {words}."
        messages.append(Message(Role.USER if n % 2 == 0 else Role.ASSISTANT, text, id=f"m{n}"))
    return messages


def measure(count: int) -> dict[str, object]:
    """Replay a conversation of `count` messages and return the figures."""
    model = CountingModel()
    counter = CalibratedTokenCounter()
    messages = conversation(count)
    sizes = message_tokens_batch(counter, messages)
    budget = TokenBudget(16_000, 0)
    with ContextEngine.open(summary_model=model, token_counter=counter, settings=ArcSettings()) as engine:
        session = engine.session("s")
        widest = 0
        for start in range(0, count, 50):
            session.append(messages[start : start + 50])
            session.summarize()
            window = session.context("And now?", budget=budget)
            system = window.messages[0].text if window.messages[0].role is Role.SYSTEM else ""
            narrative = system.partition("Summary:\n")[2].removesuffix("\n</arc:memory>")
            widest = max(widest, counter.count(narrative))
    anew = sum(sum(sizes[: count * (number + 1) // model.leaves]) for number in range(model.leaves))
    reads = Counter(model.read.values())
    return {
        "messages": count,
        "conversation": sum(sizes),
        "arc": model.tokens,
        "arc x": model.tokens / sum(sizes),
        "calls": model.calls,
        "anew": anew,
        "anew x": anew / sum(sizes),
        "narratives": widest,
        "read": ", ".join(f"{times}x: {number}" for times, number in sorted(reads.items())),
    }


def main() -> None:
    """Measure each length and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, nargs="+", default=[100, 1_000, 10_000])
    table = Table(
        "messages", "tokens", "sent by arc", "times", "calls", "all anew", "times", "narratives ≤", "facts read"
    )
    for count in parser.parse_args().messages:
        row = measure(count)
        table.add_row(
            f"{row['messages']:,}",
            f"{row['conversation']:,}",
            f"{row['arc']:,}",
            f"{row['arc x']:.1f}",
            f"{row['calls']:,}",
            f"{row['anew']:,}",
            f"{row['anew x']:.1f}",
            str(row["narratives"]),
            str(row["read"]),
        )
    Console(width=118).print(table)


if __name__ == "__main__":
    main()
