"""Measure how much of each request repeats the previous one, its cost at cached prices, and the facts that it holds.

    python benchmarks/prompt_cache.py [--data PATH…] [--turns 500] [--budgets 4000 16000] [--output-price 5]

PATH: files of the shared data (facts_sgd, facts_crosswoz, recall_locomo, recall_longmemeval), whose conversations are
joined to the given length. Without any, the conversation is generated: about 60 tokens a message, and a fact in every
second turn. It is replayed turn by turn with each history strategy.

- "repeated": the share of input tokens that are a prefix of the previous request. "stable": the same share of the
  tokens before the current user message. Tokens are compared one by one, including each message's role framing.
- "cost": in thousands of fresh input tokens; "summaries" is the summariser's part. Repeated tokens cost a tenth from
  1,024 tokens on, in blocks of 128. Tokens that the summariser writes cost `--output-price`.
- "calls": the summariser's calls. "blocking": those that a reply waited for.
- "held": the values from earlier turns that the last request contains. "average": their mean share of every tenth
  request.

Arc runs with its defaults; with recall off and its tokens lent to pinned facts ("nothing recalled"), like the other
strategies, since recalled text is never cached and nobody asks for it in these conversations; and, in addition, without
a model ("by rules": its summaries cost nothing).

All strategies count exactly (o200k_base) and use one scripted summariser. It reports the values that it is shown and no
others, and to arc only those that are not among the known facts, as its prompt asks. The peers run as documented, with
the same budget: `trim_messages` keeps the last tokens from a user message on; `SummarizationMiddleware` is triggered by
the budget, once with its defaults (it keeps 20 messages, the summariser sees 4,000 tokens), once with 30 % kept and
everything shown to the summariser; `Memory` has its defaults and the tokens that the system prompt leaves. A summary
outside arc may hold as many tokens of facts as arc pins. Full history has no budget. All figures are counts, not times.
"""

import argparse
import asyncio
import gzip
import json
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import takewhile
from pathlib import Path
from statistics import mean
from typing import Any, Protocol

from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage, trim_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory
from rich.console import Console
from rich.table import Column, Table
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import StaticPool

from arc_common import ArcSettings, ContextEngine, Message, TiktokenCounter, TokenBudget
from arc_common.tokens.budget import DEFAULT_SECTIONS
from arc_common.tokens.counters import local_encoding

SYSTEM = (
    "You are the assistant of a small company. Answer in the language of the user, briefly and to the point. Use only "
    "what was said in this conversation and what your tools return; when you don't know something, say so and ask. "
    "Never make up order numbers, prices or dates. Amounts are in euros unless the user says otherwise."
)
NARRATIVE = (
    "They went through several requests one after the other; the user named what they want and the assistant answered "
    "or asked back. The tone was friendly, and what was agreed stands."
)
CACHED_PRICE = 0.1
CACHE_MINIMUM = 1_024
CACHE_BLOCK = 128
NOTHING_RECALLED = {"recalled": 0, "facts": replace(DEFAULT_SECTIONS["facts"], share=0.25)}
"""Sections without recall. With small budgets, the defaults lend pinned facts as much of the memory section."""
_SAMPLING = 10
"""Interval in turns at which a request is searched for values."""

Line = tuple[str, str]
"""A message of a request: its role and its text."""


@dataclass(frozen=True)
class Conversation:
    """Turns of user and assistant texts; for each value to hold, its question and the turn that states it."""

    name: str
    turns: Sequence[tuple[str, str]]
    said: Mapping[str, tuple[str, int]]


@dataclass
class Usage:
    """The token counts and the cost of a sequence of requests."""

    tokens: int = 0
    repeated: int = 0
    stable: int = 0
    stable_repeated: int = 0
    largest: int = 0
    calls: int = 0
    cost: float = 0.0
    _before: list[Line] = field(default_factory=list)

    def add(self, request: list[Line]) -> None:
        """Count a request, compared with the previous one."""
        sizes = [len(tokens(line)) for line in request]
        total = sum(sizes)
        stable = total - sizes[-1]
        repeated = common_prefix(self._before, request)
        cached = 0 if repeated < CACHE_MINIMUM else repeated - (repeated - CACHE_MINIMUM) % CACHE_BLOCK
        self.tokens += total
        self.repeated += repeated
        self.stable += stable
        self.stable_repeated += min(repeated, stable)
        self.largest = max(self.largest, total)
        self.calls += 1
        self.cost += total - cached + CACHED_PRICE * cached
        self._before = request


@cache
def tokens(line: Line) -> tuple[int, ...]:
    """Return a message's tokens: start, role, separator, text, end; special tokens are negative."""
    role, text = line
    encoding = local_encoding("o200k_base", None)
    if encoding is None:
        raise SystemExit("the vocabulary o200k_base is missing: pip install llama-index-core")
    return (-1, -10 - ("system", "user", "assistant").index(role), -2, *encoding.encode_ordinary(text), -3)


def size(lines: Sequence[Line]) -> int:
    """Return the tokens of the messages."""
    return sum(len(tokens(line)) for line in lines)


def common_prefix(before: Sequence[Line], request: Sequence[Line]) -> int:
    """Return the number of tokens in the common prefix of two requests."""
    same = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(before, request, strict=False))))
    total = size(request[:same])
    if same < min(len(before), len(request)):
        pairs = zip(tokens(before[same]), tokens(request[same]), strict=False)
        total += len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    return total


def folded(text: str) -> str:
    """Fold case and white space, for the search of values."""
    return " ".join(text.casefold().split())


class Summariser:
    """The scripted model of all strategies: reports the values that its request shows, and counts the cost.

    Args:
        said: The values of the conversation, with their questions.
        output_price: The price of a token that it writes, relative to a fresh input token.
        most: Maximum tokens of facts in a plain-text summary.
    """

    def __init__(self, said: Mapping[str, tuple[str, int]], *, output_price: float, most: int) -> None:
        self._said = said
        self._price = output_price
        self._most = most
        self.usage = Usage()
        self.replying: int | None = None
        self.blocking_calls = 0

    def complete(self, messages: Sequence[Message]) -> str:
        """Return arc's form of a summary: JSON with facts and narrative."""
        request = [(message.role.value, message.text) for message in messages]
        shown = self._asked(request, messages[-1].text.rpartition("<arc:conversation>")[2])
        wants_facts = '"facts"' in messages[0].text
        known = messages[-1].text.rpartition("<arc:conversation>")[0]
        new = [(key, value) for key, value in shown if f"- {key}: {value}\n" not in known]
        facts: dict[str, list[str]] = {}
        for key, value in new:
            facts.setdefault(_category(value), []).append(f"{key}: {value}")
        answer = {"facts": facts, "narrative": NARRATIVE} if wants_facts else {"narrative": NARRATIVE}
        return self._answered(json.dumps(answer, ensure_ascii=False))

    def summary(self, messages: Sequence[BaseMessage]) -> str:
        """Return a plain-text summary: the newest facts that fit, and the narrative."""
        request = list(map(_line, messages))
        shown = [f"- {key}: {value}" for key, value in self._asked(request, request[-1][1])]
        while shown and len(tokens(("user", "\n".join(shown)))) > self._most:
            del shown[0]
        return self._answered("\n".join([*shown, NARRATIVE]))

    def _asked(self, request: list[Line], conversation: str) -> list[tuple[str, str]]:
        self.usage.add(request)
        self.blocking_calls += self.replying == threading.get_ident()
        text = folded(conversation)
        return [(key, value) for value, (key, _) in self._said.items() if folded(value) in text]

    def _answered(self, answer: str) -> str:
        self.usage.cost += self._price * len(tokens(("assistant", answer)))
        return answer


class ScriptedModel(BaseChatModel):
    """The summariser as a LangChain model."""

    summariser: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(self.summariser.summary(messages)))])


class HistoryStrategy(Protocol):
    """A strategy that keeps a conversation and builds requests from it."""

    def request(self, user: str) -> list[Line]:
        """Return the messages that the model gets in this turn."""

    def answered(self, user: str, assistant: str) -> None:
        """Store the turn."""

    def close(self) -> None:
        """Release resources."""


class Arc:
    """An arc session whose background work catches up after each turn."""

    def __init__(self, budget: int, summariser: Summariser, *, recall: bool = True, by_rules: bool = False) -> None:
        self._budget = TokenBudget(budget, 0, DEFAULT_SECTIONS if recall else NOTHING_RECALLED)
        self._summariser = summariser
        self._engine = ContextEngine.open(
            chat_model=None if by_rules else summariser,
            token_counter=TiktokenCounter("o200k_base"),
            settings=ArcSettings(recall={"enabled": recall}),
        )
        self._session = self._engine.session("replay")

    def request(self, user: str) -> list[Line]:
        """Return the context window."""
        window = self._session.context(user, system_prompt=SYSTEM, budget=self._budget)
        self._summariser.blocking_calls += any("waited" in note for note in window.receipt.notes)
        return [(message.role.value, message.text) for message in window.messages]

    def answered(self, user: str, assistant: str) -> None:
        """Save the turn, then summarise outside of any reply."""
        self._session.save_turn(user, assistant)
        replying, self._summariser.replying = self._summariser.replying, None
        self._session.summarize()
        self._summariser.replying = replying

    def close(self) -> None:
        """Stop the background threads."""
        self._engine.close()


class FullHistory:
    """The full history; `shown` selects the messages of a request."""

    def __init__(self, shown: Callable[[list[BaseMessage]], list[BaseMessage]] = list) -> None:
        self._messages: list[BaseMessage] = [SystemMessage(SYSTEM)]
        self._shown = shown

    def request(self, user: str) -> list[Line]:
        """Return the selected messages."""
        return list(map(_line, self._shown([*self._messages, HumanMessage(user)])))

    def answered(self, user: str, assistant: str) -> None:
        """Store the turn."""
        self._messages += [HumanMessage(user), AIMessage(assistant)]

    def close(self) -> None:
        """Do nothing."""


def trimmed(budget: int) -> FullHistory:
    """Return a history that `trim_messages` of LangChain limits."""

    def shown(messages: list[BaseMessage]) -> list[BaseMessage]:
        return trim_messages(
            messages,
            max_tokens=budget,
            token_counter=_count,
            strategy="last",
            include_system=True,
            start_on="human",
        )

    return FullHistory(shown)


class Middleware:
    """LangChain's `SummarizationMiddleware`; its `before_model` updates the state as in an agent."""

    def __init__(self, budget: int, summariser: Summariser, **options: Any) -> None:
        self._middleware: Any = SummarizationMiddleware(
            ScriptedModel(summariser=summariser),
            trigger=("tokens", budget - size([("system", SYSTEM)])),
            token_counter=_count,
            **options,
        )
        self._state: list[BaseMessage] = []

    def request(self, user: str) -> list[Line]:
        """Return the system prompt and the state, after summarising it if it is too long."""
        self._state.append(HumanMessage(user))
        update = self._middleware.before_model({"messages": self._state}, None)
        if update is not None:
            self._state = [message for message in update["messages"] if not isinstance(message, RemoveMessage)]
        return [("system", SYSTEM), *map(_line, self._state)]

    def answered(self, user: str, assistant: str) -> None:  # noqa: ARG002 - the user's message is already stored
        """Store the answer."""
        self._state.append(AIMessage(assistant))

    def close(self) -> None:
        """Do nothing."""


class LlamaIndexMemory:
    """LlamaIndex's `Memory`, used like its chat engines use it: put, then get."""

    def __init__(self, budget: int) -> None:
        def tokenizer(text: str) -> list[int]:
            return list(tokens(("user", text)))

        left = budget - size([("system", SYSTEM)])
        self._loop = asyncio.Runner()
        self._database = create_async_engine("sqlite+aiosqlite:///:memory:", poolclass=StaticPool)
        self._memory = Memory.from_defaults(
            session_id="replay", token_limit=left, tokenizer_fn=tokenizer, async_engine=self._database
        )

    def request(self, user: str) -> list[Line]:
        """Return the system prompt and the memory's messages."""
        self._loop.run(self._memory.aput(ChatMessage(role="user", content=user)))
        shown = [(message.role.value, message.content or "") for message in self._loop.run(self._memory.aget())]
        return [("system", SYSTEM), *shown]

    def answered(self, user: str, assistant: str) -> None:  # noqa: ARG002 - the user's message is already stored
        """Store the answer."""
        self._loop.run(self._memory.aput(ChatMessage(role="assistant", content=assistant)))

    def close(self) -> None:
        """Stop the database's thread."""
        self._loop.run(self._database.dispose())
        self._loop.close()


def _line(message: BaseMessage) -> Line:
    return {"human": "user", "ai": "assistant"}.get(message.type, message.type), str(message.content)


def _category(value: str) -> str:
    return "NUMERIC" if any(character.isdigit() for character in value) else "ENTITY"


def _count(messages: Sequence[BaseMessage]) -> int:
    return size([_line(message) for message in messages])


def strategies(budget: int) -> Iterator[tuple[str, Callable[[Summariser], HistoryStrategy]]]:
    """Yield the strategies to compare."""
    yield "arc", lambda summariser: Arc(budget, summariser)
    yield "SummarizationMiddleware", lambda summariser: Middleware(budget, summariser)
    keeping = {"keep": ("tokens", int(0.3 * budget)), "trim_tokens_to_summarize": None}
    yield "… keeping 30 %", lambda summariser: Middleware(budget, summariser, **keeping)
    yield "trim_messages", lambda _: trimmed(budget)
    yield "LlamaIndex Memory", lambda _: LlamaIndexMemory(budget)


def variants(budget: int) -> Iterator[tuple[str, Callable[[Summariser], HistoryStrategy]]]:
    """Yield variants of arc."""
    yield "… nothing recalled", lambda summariser: Arc(budget, summariser, recall=False)
    yield "… and by rules", lambda summariser: Arc(budget, summariser, recall=False, by_rules=True)


def replay(
    conversation: Conversation, make: Callable[[Summariser], HistoryStrategy], summariser: Summariser
) -> dict[str, Any]:
    """Replay a conversation with a strategy and return its figures."""
    usage, shares = Usage(), []
    held = known = 0
    strategy = make(summariser)
    for number, (user, assistant) in enumerate(conversation.turns):
        summariser.replying = threading.get_ident()
        request = strategy.request(user)
        usage.add(request)
        if number % _SAMPLING == 0 or number == len(conversation.turns) - 1:
            text = folded("\n".join(text for _, text in request))
            before = [value for value, (_, turn) in conversation.said.items() if turn < number]
            held, known = sum(folded(value) in text for value in before), len(before)
            shares += [held / known] if known else []
        strategy.answered(user, assistant)
    strategy.close()
    return {
        "turns": usage.calls,
        "mean": usage.tokens / usage.calls,
        "largest": usage.largest,
        "repeated": usage.repeated / usage.tokens,
        "stable": usage.stable_repeated / usage.stable,
        "cost": usage.cost + summariser.usage.cost,
        "summaries": summariser.usage.cost,
        "calls": summariser.usage.calls,
        "blocking": summariser.blocking_calls,
        "held": held,
        "known": known,
        "average": mean(shares) if shares else None,
    }


def compare(
    conversation: Conversation, budget: int, *, output_price: float, with_variants: bool = False
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the figures of each strategy."""
    most = TokenBudget(budget, 0).max_tokens("facts")
    first, *others = strategies(budget)
    for name, make in (first, *(variants(budget) if with_variants else ()), *others):
        yield name, replay(conversation, make, Summariser(conversation.said, output_price=output_price, most=most))


def full_history(conversation: Conversation, *, output_price: float) -> dict[str, Any]:
    """Return the figures of the full history."""
    unused = Summariser({}, output_price=output_price, most=0)
    return replay(conversation, lambda _: FullHistory(), unused)


def generated(turns: int, *, seed: int = 0) -> Conversation:
    """Generate small talk of made-up words with a new value in every second turn."""
    rng = random.Random(seed)
    middles, ends = "aeiou", ("ba", "ken", "lor", "mi", "nas")
    words = [start + middle + end for start in "bdfgklmnprstv" for middle in middles for end in ends]
    made: list[tuple[str, str]] = []
    said: dict[str, tuple[str, int]] = {}

    def talk(least: int, most: int) -> str:
        return " ".join(rng.choices(words, k=rng.randint(least, most))).capitalize() + "."

    for number in range(turns):
        user = talk(12, 28)
        if number % 2 == 0:
            thing = f"{rng.choice(words)} {rng.choice(words)}"
            value = f"{rng.choice('ABCDEFGH')}{rng.choice('KLMNPQRS')}-{rng.randint(10_000, 99_999)}"
            said.setdefault(value, (f"number of the {thing}", number))
            user = f"The number of the {thing} is {value}. {user}"
        made.append((user, talk(15, 35)))
    return Conversation("generated", made, said)


def joined(path: Path, turns: int) -> Conversation:
    """Join conversations of a file until they have `turns` turns."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        data = json.load(file)
    made: list[list[Line]] = []
    said: dict[str, tuple[str, int]] = {}
    for item in data:
        start = len(made)
        for role, text in _spoken(item):
            if role == "user" and (not made or made[-1][-1][0] == "assistant" or len(made) == start):
                made.append([])
            if len(made) > start and text:
                made[-1].append((role, text))
        probes = sorted((folded(probe["value"]), probe["question"], probe["value"]) for probe in item.get("probes", ()))
        for key, question, value in probes:
            texts = [(i, folded(" ".join(text for _, text in made[i]))) for i in range(start, len(made))]
            first = next((i for i, text in texts if key in text), None)
            if first is not None and first < turns:
                said.setdefault(value, (question, first))
        if len(made) >= turns:
            break
    whole = [(_by("user", turn), _by("assistant", turn) or "…") for turn in made[:turns]]
    return Conversation(path.name.split(".")[0], whole, said)


def _by(role: str, turn: Sequence[Line]) -> str:
    return "\n".join(text for by, text in turn if by == role)


def _spoken(item: Any) -> Iterator[Line]:
    if "sessions" in item:
        yield from ((turn["role"], turn["content"]) for session in item["sessions"] for turn in session["turns"])
    elif "probes" in item:
        yield from ((turn["role"], turn["text"]) for turn in item["turns"])
    else:
        first = item["turns"][0]["speaker"]
        yield from (("user" if turn["speaker"] == first else "assistant", turn["text"]) for turn in item["turns"])


def main() -> None:
    """Replay each conversation and print one table for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="*", default=[], help="files of the shared data")
    parser.add_argument("--turns", type=int, default=500)
    parser.add_argument("--budgets", type=int, nargs="+", default=[4_000, 16_000], help="input tokens")
    parser.add_argument("--output-price", type=float, default=5.0, help="of an output token, in fresh input tokens")
    arguments = parser.parse_args()
    price = arguments.output_price
    console = Console(width=140)
    for conversation in [joined(path, arguments.turns) for path in arguments.data] or [generated(arguments.turns)]:
        table = Table(
            Column("strategy", no_wrap=True), "budget", "mean", "largest", "repeated", "stable", "cost", "summaries",
            "calls", "blocking", "held", "average", title=f"{conversation.name}: {len(conversation.turns)} turns",
        )  # fmt: skip
        for budget in arguments.budgets:
            for name, row in compare(conversation, budget, output_price=price, with_variants=True):
                table.add_row(name, f"{budget:,}", *_cells(row))
            table.add_section()
        table.add_row("full history", "–", *_cells(full_history(conversation, output_price=price)))
        console.print(table)


def _cells(row: Mapping[str, Any]) -> Iterator[str]:
    yield f"{row['mean']:,.0f}"
    yield f"{row['largest']:,}"
    yield f"{row['repeated']:.1%}"
    yield f"{row['stable']:.1%}"
    yield f"{row['cost'] / 1_000:,.0f}"
    yield f"{row['summaries'] / 1_000:,.0f}"
    yield str(row["calls"])
    yield str(row["blocking"])
    yield f"{row['held']} of {row['known']}" if row["known"] else "–"
    yield "–" if row["average"] is None else f"{row['average']:.0%}"


if __name__ == "__main__":
    main()
