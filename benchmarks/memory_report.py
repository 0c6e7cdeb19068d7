"""Measure what memory adds to requests, in one table: waste, precision, recall, kept facts, tokens, cost and CPU.

    OMP_NUM_THREADS=1 python benchmarks/memory_report.py --data FOLDER [--save FILE] [--against FILE] [--only NAME…]

FOLDER holds the shared data. `--save` writes the figures as JSON, `--against` prints them beside those of such a file.
To compare two versions of arc, run the script with each of them first on PYTHONPATH.

500 turns of LoCoMo, SGD and CrossWOZ are replayed as one session each with arc's defaults, with budgets of 4,000 and
128,000 tokens. A shingle is four consecutive terms of the analyser within one line.

- "waste, verbatim": the share of a request's shingles that occur earlier in its verbatim messages. "waste": the same
  share over the whole request, less that of the verbatim messages.
- "kept": the share of the values said before a turn that its request contains, the mean of every fifth turn. "kept at
  the end" depends on how recent the last adoption is (facts_sgd, facts_crosswoz).
- "tokens" and "cost": the mean of a request in o200k_base tokens, and at cached prices (see prompt_cache.py).
- "CPU": the median of `session.context`, in ms of the calling thread.
- "recall": the share of LoCoMo's evidence without an embedder, by messages ("counted") and by their shingles that the
  section contains ("shown"); see recall.py. "long answers": the same of LongMemEval's answers over 1,200 characters.
  Their eight questions a conversation are made of words of the user's messages before them. "elsewhere": the share of
  the budget that is filled for questions and turns of the next conversation, which nothing in this one can answer.
- "precision", "precision: recall", "precision: waste": see precision.py.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from statistics import mean, median

import precision
import prompt_cache
import recall
from rich.console import Console
from rich.table import Table

from arc_common import ContextEngine, Role, TiktokenCounter, TokenBudget

_REPLAYED = {"LoCoMo": "recall_locomo", "SGD": "facts_sgd", "CrossWOZ": "facts_crosswoz"}
_BUDGETS = (4_000, 128_000)
_RECALLED = (800, 2_000, 4_000)
_ELSEWHERE = 60
"""The questions, and the turns, of a conversation that are asked in another one."""
_INTERVAL = 5
"""Interval in turns at which requests are examined."""


def repeated(texts: Iterable[str]) -> float:
    """Return the share of shingles that are repetitions."""
    found = recall.shingles("\n".join(texts))
    return 1 - len(set(found)) / len(found) if found else 0.0


def replayed(conversation: prompt_cache.Conversation, budget: int) -> dict[str, float]:
    """Replay a conversation with arc's defaults; the background catches up before each turn."""
    usage, waste, verbatim, times, kept = prompt_cache.Usage(), [], [], [], []
    with ContextEngine.open(token_counter=TiktokenCounter("o200k_base")) as engine:
        session = engine.session("replay", user_id="user")
        for number, (user, assistant) in enumerate(conversation.turns):
            started = time.thread_time()
            window = session.context(user, system_prompt=prompt_cache.SYSTEM, budget=TokenBudget(budget, 0))
            times.append(time.thread_time() - started)
            usage.add([(message.role.value, message.text) for message in window.messages])
            if number % _INTERVAL == 0:
                parts = [section for section in window.sections if section.name in ("history", "user_message")]
                verbatim.append(repeated(item.text for section in parts for item in section.items))
                waste.append(repeated(message.text for message in window.messages))
            if number % _INTERVAL == 0 or number == len(conversation.turns) - 1:
                text = prompt_cache.folded("\n".join(message.text for message in window.messages))
                said = [value for value, (_, turn) in conversation.said.items() if turn < number]
                kept += [mean(prompt_cache.folded(value) in text for value in said)] if said else []
            session.save_turn(user, assistant)
            engine.flush(60)
    figures = {
        "waste": 100 * (mean(waste) - mean(verbatim)),
        "waste, verbatim": 100 * mean(verbatim),
        "tokens": usage.tokens / usage.calls,
        "cost": usage.cost / usage.calls,
        "CPU, ms": 1_000 * median(times),
    }
    if kept:
        figures |= {"kept": 100 * mean(kept), "kept at the end": 100 * kept[-1]}
    return figures


def replays(data: Path, *, turns: int) -> dict[str, float]:
    """Return the figures of all replays."""
    figures = {}
    for name, file in _REPLAYED.items():
        conversation = prompt_cache.joined(data / f"{file}.json.gz", turns)
        for budget in _BUDGETS:
            figures |= {f"{name}, {budget:,}: {key}": value for key, value in replayed(conversation, budget).items()}
    return figures


def recalled(data: Path, *, conversations: int) -> dict[str, float]:
    """Return the recall of LoCoMo's evidence and of LongMemEval's long answers without an embedder."""
    found: dict[str, list[float]] = {}
    for file, name in (("recall_locomo", "recall"), ("recall_longmemeval", "long answers")):
        read = list(islice(recall.conversations(data / f"{file}.json.gz"), conversations))
        for conversation, following in zip(read, [*read[1:], *read[:1]], strict=True):
            questions = conversation.questions if name == "recall" else recall.about_long_answers(conversation)
            elsewhere = _of_another(following) if name == "recall" and len(read) > 1 else ()
            for key, value in _asked(conversation, questions, elsewhere):
                found.setdefault(f"{name} {key}", []).append(value)
    return {name: 100 * mean(values) for name, values in found.items()}


def _of_another(conversation: recall.Conversation) -> list[recall.Question]:
    """Return questions and turns of a conversation, to be asked in another one."""
    turns = [recall.Question(one.text, "turn") for one in conversation.messages if one.role is Role.USER]
    return [*conversation.questions[:_ELSEWHERE], *turns[:: max(len(turns) // _ELSEWHERE, 1)][:_ELSEWHERE]]


def _asked(
    conversation: recall.Conversation, questions: Sequence[recall.Question], elsewhere: Sequence[recall.Question]
) -> Iterator[tuple[str, float]]:
    """Ask questions, and yield the share of each one's evidence by the way it is counted."""
    said = {message.id: set(recall.shingles(message.text)) for message in conversation.messages}
    counter = TiktokenCounter("o200k_base")
    ask, close = recall.arc(conversation, counter, _RECALLED, None)
    for question in questions:
        found, shown = ask(question)
        wanted = question.evidence
        yield "@10", len(wanted.intersection(found[:10])) / len(wanted)
        words = {shingle for name in wanted for shingle in said[name]}
        for budget, (ids, text) in shown.items():
            yield f"in {budget:,}, counted", len(wanted & ids) / len(wanted)
            if words:
                yield f"in {budget:,}, shown", len(words.intersection(recall.shingles(text))) / len(words)
    for question in elsewhere:
        for budget, (_, text) in ask(question)[1].items():
            yield f"elsewhere, of {budget:,}", counter.count(text) / budget
    close()


def main() -> None:
    """Measure the chosen parts, print the table and save the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the shared data")
    parser.add_argument("--turns", type=int, default=500)
    parser.add_argument("--conversations", type=int, default=4, help="of LoCoMo and LongMemEval, to ask about")
    parser.add_argument("--save", type=Path, help="write the figures as JSON")
    parser.add_argument("--against", type=Path, help="print the figures beside those of this file")
    parts: Mapping[str, Callable[[argparse.Namespace], dict[str, float]]] = {
        "replays": lambda given: replays(given.data, turns=given.turns),
        "recall": lambda given: recalled(given.data, conversations=given.conversations),
        "precision": lambda _: precision.figures(),
    }
    parser.add_argument("--only", nargs="+", choices=list(parts), default=list(parts))
    arguments = parser.parse_args()
    figures: dict[str, float] = {}
    for name in arguments.only:
        figures |= parts[name](arguments)
    if arguments.save:
        arguments.save.write_text(json.dumps(figures, indent=1), "utf-8")
    before = json.loads(arguments.against.read_text("utf-8")) if arguments.against else {}
    table = Table("", *(["before"] if before else []), "now", *(["change"] if before else []))
    for name, value in figures.items():
        was = before.get(name)
        compared = [] if not before else ["–", "–"] if was is None else [f"{was:,.1f}", f"{value - was:+,.1f}"]
        table.add_row(name, *compared[:1], f"{value:,.1f}", *compared[1:])
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
