"""Measure what each compression strategy keeps of conversations that exceed the budget.

    python benchmarks/compression.py --data PATH… [--budgets 1000 2000 4000]

PATH: files of the shared data (recall_locomo, recall_longmemeval, facts_sgd, facts_crosswoz, tools_sgd). Columns are
means over a file's conversations, for each budget and strategy:

- "tokens": tokens kept; "used": their share of the budget.
- "messages": the share of messages kept, including shortened ones.
- "evidence": the share of evidence kept, without any retrieval. Evidence is the messages that answer a question
  (LoCoMo, LongMemEval) or the value that a question asks for (SGD, CrossWOZ). tools_sgd has no questions: its
  conversations are joined by tens, and the evidence is every argument value that a user message mentions.

Strategies that only shorten or drop one kind of message run before a rolling window. "summarize" writes a rule-based
summary of at most 400 tokens.
"""

import argparse
import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from rich.console import Console
from rich.table import Table

from arc_common import CalibratedTokenCounter, Message, ToolCall
from arc_common.memory.summaries.summarizers import RuleBasedSummarizer
from arc_common.tokens.compression import Chain, Compression, CompressionStrategy, Summarize, strategy
from arc_common.tokens.counters import message_tokens, message_tokens_batch

SUMMARY_TOKENS = 400


@dataclass(frozen=True)
class Conversation:
    """Messages, and a function that scores how much of their evidence a compression keeps."""

    messages: list[Message]
    evidence: Callable[[Compression], float | None]


def main() -> None:
    """Compress every conversation and print one table per file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="files of the shared data")
    parser.add_argument("--budgets", type=int, nargs="+", default=[1_000, 2_000, 4_000], help="tokens")
    arguments = parser.parse_args()
    counter = CalibratedTokenCounter()
    for path in arguments.data:
        conversations = list(_conversations(path))
        counted = [_counts(counter, conversation.messages) for conversation in conversations]
        table = Table("strategy", "budget", "tokens", "used", "messages", "evidence", title=path.name.split(".")[0])
        for budget in arguments.budgets:
            for name, made in _strategies(counter):
                table.add_row(name, f"{budget:,}", *_measured(made, budget, conversations, counted))
            table.add_section()
        Console(width=90).print(table)


def _strategies(counter: CalibratedTokenCounter) -> Iterator[tuple[str, CompressionStrategy]]:
    summarizer = RuleBasedSummarizer(counter)
    rolling = strategy("rolling_window")
    for name in ("rolling_window", "token_pruning", "score_pruning"):
        yield name, strategy(name)
    for name in ("clear_tool_results", "drop_tool_results", "truncate", "prune_system"):
        yield f"{name}, rolling", Chain((strategy(name), rolling))
    yield "summarize", Summarize(summarize=lambda older: summarizer.narrative(older, max_tokens=SUMMARY_TOKENS))


def _counts(counter: CalibratedTokenCounter, messages: Sequence[Message]) -> Callable[[Message], int]:
    known = dict(zip(map(id, messages), message_tokens_batch(counter, messages), strict=True))
    return lambda message: known[id(message)] if id(message) in known else message_tokens(counter, message)


def _measured(
    made: CompressionStrategy,
    budget: int,
    conversations: Sequence[Conversation],
    counted: Sequence[Callable[[Message], int]],
) -> Iterator[str]:
    results = [
        made.compress(conversation.messages, max_tokens=budget, count=count)
        for conversation, count in zip(conversations, counted, strict=True)
    ]
    pairs = list(zip(conversations, results, strict=True))
    found = [share for conversation, result in pairs if (share := conversation.evidence(result)) is not None]
    yield f"{mean(result.tokens for result in results):,.0f}"
    yield f"{mean(result.tokens for result in results) / budget:.0%}"
    yield f"{mean(1 - len(result.dropped) / len(conversation.messages) for conversation, result in pairs):.1%}"
    yield f"{mean(found):.1%}" if found else "–"


def _conversations(path: Path) -> Iterator[Conversation]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        data = json.load(file)
    first = data[0]
    if "messages" in first:
        yield from _tools(data)
    elif "probes" in first:
        for item in data:
            messages = [Message(turn["role"], turn["text"], id=str(i)) for i, turn in enumerate(item["turns"])]
            yield Conversation(messages, _values([probe["value"] for probe in item["probes"]]))
    elif "sessions" in first:
        for item in data:
            turns = [turn for session in item["sessions"] for turn in session["turns"]]
            messages = [Message(turn["role"], turn["content"], id=str(i)) for i, turn in enumerate(turns)]
            yield Conversation(messages, _messages([{str(i) for i, turn in enumerate(turns) if turn.get("evidence")}]))
    else:
        for item in data:
            user = item["turns"][0]["speaker"]
            messages = [
                Message("user" if turn["speaker"] == user else "assistant", turn["text"], id=turn["id"])
                for turn in item["turns"]
            ]
            asked = [set(q["evidence"]) for q in item["questions"] if q["category"] != "adversarial"]
            yield Conversation(messages, _messages(asked))


def _tools(data: Any) -> Iterator[Conversation]:
    for start in range(0, len(data), 10):
        messages = [_message(message) for item in data[start : start + 10] for message in item["messages"]]
        values = {
            value
            for message in messages
            for call in message.tool_calls
            for value in json.loads(str(call.arguments)).values()
            if isinstance(value, str) and any(value in said.text for said in messages if said.role == "user")
        }
        yield Conversation(messages, _values(sorted(values)))


def _message(message: Any) -> Message:
    return Message(
        message["role"],
        message["content"],
        tool_calls=tuple(
            ToolCall(call["function"]["name"], call["function"]["arguments"], id=call["id"])
            for call in message.get("tool_calls") or ()
        ),
        tool_call_id=message.get("tool_call_id"),
    )


def _messages(asked: list[set[str]]) -> Callable[[Compression], float | None]:
    """Score a compression by the mean share of each question's evidence messages that it keeps unchanged."""

    def share(result: Compression) -> float | None:
        changed = {id(change.replacement) for change in result.changed}
        kept = {message.id for message in result.messages if id(message) not in changed}
        return mean([len(ids & kept) / len(ids) for ids in asked if ids] or [0.0]) if any(asked) else None

    return share


def _values(values: list[str]) -> Callable[[Compression], float | None]:
    """Score a compression by the share of values that its text contains."""

    def share(result: Compression) -> float | None:
        text = "\n".join(message.text for message in result.messages).casefold()
        return mean(value.casefold() in text for value in values) if values else None

    return share


if __name__ == "__main__":
    main()
