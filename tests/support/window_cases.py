"""Random requests over random conversations, and an independent count of their parts' tokens."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import takewhile
from random import Random

from arc_common import (
    CalibratedTokenCounter,
    ContentPart,
    Document,
    HeuristicTokenCounter,
    Message,
    Role,
    ScoredDocument,
    TiktokenCounter,
    TokenBudget,
)
from arc_common.context import NO_LAYERS, Layers, RecalledLine, Request
from arc_common.protocols import TokenCounter
from arc_common.serialization import dumps
from tests.support.conversations import random_conversation, random_text, running_turn

TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "Looks something up.",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    },
}
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}, "sure": {"type": "boolean"}}}
IMAGE = ContentPart("image", url="https://example.org/a.png", mime_type="image/png")


class Remembering:
    """A counter that caches another one's counts of the last few conversations."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._counts: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        if text not in self._counts:
            if len(self._counts) > 20_000:
                self._counts.clear()
            self._counts[text] = self._counter.count(text)
        return self._counts[text]


@dataclass(frozen=True, slots=True)
class Case:
    """One request over one conversation."""

    seed: int
    counter: TokenCounter
    request: Request
    history: tuple[Message, ...]
    layers: Layers = NO_LAYERS

    @property
    def prompt(self) -> str:
        """Return the expected system prompt: the given one, then system messages that begin a given history."""
        leading = takewhile(lambda message: message.role is Role.SYSTEM, self.history)
        return "\n\n".join(filter(None, [self.request.system_prompt, *(message.text for message in leading)]))

    @property
    def current(self) -> Message:
        """Return the current user message: the given one, or the newest of the history."""
        if self.request.query is not None:
            return self.request.query
        return next(message for message in reversed(self.history) if message.role is Role.USER and says(message))


def says(message: Message) -> bool:
    """Return whether a message has text or media."""
    return bool(message.text.strip()) or any(part.type != "text" for part in parts(message))


def parts(message: Message) -> Sequence[ContentPart]:
    return () if message.content is None or isinstance(message.content, str) else message.content


@cache
def counter_named(name: str) -> TokenCounter:
    if name == "heuristic":
        return HeuristicTokenCounter()
    if name == "tiktoken":
        return TiktokenCounter("o200k_base")
    counter = CalibratedTokenCounter()
    if name != "calibrated":
        counter.observe(100_000, 137_000 if name == "dearer" else 71_000)
        counter.adopt_correction()
    return counter


def case_of(seed: int) -> Case:
    """Return the case of a seed: a budget from far too small to ample, and any combination of request fields."""
    rng = Random(seed * 2 + 1)
    counter = counter_named(
        rng.choices(["heuristic", "calibrated", "dearer", "cheaper", "tiktoken"], [76, 4, 6, 6, 8])[0]
    )
    history = random_conversation(seed) if rng.random() < 0.99 else _long_history(rng)
    query: Message | None = None
    chance = rng.random()
    if chance < 0.2:
        history += running_turn(rng)
    elif chance < 0.3 and any(message.role is Role.USER and says(message) for message in history):
        pass  # the conversation unchanged, however it ends
    else:
        text = random_text(rng, most_words=600 if rng.random() < 0.02 else 30)
        content = (ContentPart("text", text=text), IMAGE) if rng.random() < 0.04 else text
        query = Message(Role.USER, content, id="query" if rng.random() < 0.5 else None)
    documents = tuple(_document(rng) for _ in range(int(rng.random() ** 3 * 8)))
    request = Request(
        query=query,
        system_prompt=random_text(rng, most_words=300 if rng.random() < 0.05 else 40) if rng.random() < 0.6 else None,
        documents=documents,
        tools=[TOOL] * int(rng.random() * 3) or None,
        response_format=SCHEMA if rng.random() < 0.1 else None,
        max_turns=1 + int(rng.random() * 10) if rng.random() < 0.08 else None,
        max_messages=1 + int(rng.random() * 20) if rng.random() < 0.08 else None,
        placement="system" if rng.random() < 0.2 else "user",
        facts_role="user" if rng.random() < 0.2 else "system",
    )
    layers = _layers(rng, counter) if rng.random() < 0.25 else NO_LAYERS
    case = Case(seed, counter, request, tuple(history), layers)
    fixed, total = fixed_tokens(case), sum(map(plain_tokens(counter), history))
    if rng.random() < 0.15:
        wanted = fixed * (0.5 + rng.random())
    else:
        wanted = fixed + total * 2 ** (rng.random() * 7 - 6)
    error = getattr(counter, "relative_error", 0.0)
    wanted = max(int(wanted * factor(counter) * (1 + error)), 1)
    reserve = None if rng.random() < 0.3 else int(rng.random() * 500)
    window = wanted * 4 // 3 if reserve is None else wanted + reserve
    return replace(case, request=replace(request, budget=TokenBudget(window, reserve, relative_error=error)))


def _long_history(rng: Random) -> list[Message]:
    """Return a dozen conversations in sequence, as in a session of weeks."""
    seeds = [int(rng.random() * 2**32) for _ in range(12)]
    return [
        replace(message, id=f"{place}-{message.id}")
        for place, seed in enumerate(seeds)
        for message in random_conversation(seed)
    ]


def _document(rng: Random) -> Document | ScoredDocument:
    document = Document(
        random_text(rng, most_words=120),
        id=f"d{int(rng.random() * 9)}" if rng.random() < 0.7 else None,
        source=random_text(rng, most_words=3) if rng.random() < 0.5 else None,
    )
    return ScoredDocument(document, rng.random(), {"bm25": rng.random()}) if rng.random() < 0.5 else document


def _layers(rng: Random, counter: TokenCounter) -> Layers:
    facts = [f"- {random_text(rng, most_words=12)}" for _ in range(int(rng.random() ** 2 * 20))]
    recalled = [f"- {random_text(rng, most_words=12)}" for _ in range(int(rng.random() ** 2 * 8))]
    return Layers(
        facts=tuple(facts),
        fact_ids=tuple(f"fact-{place}" for place in range(len(facts))),
        narrative="\n".join(random_text(rng) for _ in range(int(rng.random() * 6))),
        instructions=tuple(random_text(rng) for _ in range(int(rng.random() ** 3 * 4))),
        recalled=tuple(RecalledLine(f"r-{i}", line, counter.count(line)) for i, line in enumerate(recalled)),
        idle_note="Note: This conversation was last active 9 days ago." if rng.random() < 0.3 else "",
    )


def factor(counter: TokenCounter) -> float:
    correction = getattr(counter, "correction", None)
    return 1.0 if correction is None else correction.factor


@cache
def plain_tokens(counter: TokenCounter) -> Callable[[Message], int]:
    """Return an independent implementation of `message_tokens`, which counts piece by piece."""
    count = Remembering(counter)

    def tokens(message: Message) -> int:
        total = 4 + sum(map(part_tokens, parts(message)))
        if isinstance(message.content, str):
            total += count(message.content)
        for call in message.tool_calls:
            written = call.arguments
            text = written if isinstance(written, str) else json.dumps(dict(written), ensure_ascii=False, default=str)
            total += 3 + count(call.name) + count(text) + count(call.id or "")
        if message.name is not None:
            total += 1 + count(message.name)
        return total + count(message.tool_call_id or "")

    def part_tokens(part: ContentPart) -> int:
        total = count(part.text or "")
        if part.type == "image":
            return total + (85 if part.extra.get("detail") == "low" else 765)
        if part.type == "audio":
            return total + len(part.data or "") * 3 // 4 // 1600 + 1
        if part.type == "file":
            return total + count(part.name or "") + len(part.data or "") * 3 // 4 // 32 + 1
        return total + (count(dumps(dict(part.extra), field="extra")) if part.type == "opaque" else 0)

    return tokens


def fixed_tokens(case: Case) -> int:
    """Return the uncorrected tokens of system prompt, current user message, schemas and framing."""
    tokens = plain_tokens(case.counter)
    fixed = [Message(Role.SYSTEM, case.prompt)] if case.prompt else []
    return 3 + schema_tokens(case) + sum(map(tokens, [*fixed, case.current]))


def schema_tokens(case: Case) -> int:
    """Return the tokens of tools and response format as compact JSON."""
    request = case.request
    schemas = [*(request.tools or ()), *([request.response_format] if request.response_format else ())]
    compact = (json.dumps(schema, ensure_ascii=False, separators=(",", ":")) for schema in schemas)
    return sum(map(case.counter.count, compact))


def told(case: Case, *, most_messages: int = 40) -> str:
    """Describe the case for the reader of a failed test, with the end of a long history."""
    request = replace(case.request, budget=TokenBudget())
    lines = [
        f"seed {case.seed}, {case.counter.name}, {case.request.budget.input_tokens} tokens for the input",
        f"request: {request!r:.400}",
        f"layers: {case.layers!r:.200}",
        f"history of {len(case.history)} messages:",
    ]
    lines += [
        f"  {message.id} {message.role.value}: {message.content!r:.80}"
        + "".join(f" calls {call.name}#{call.id}" for call in message.tool_calls)
        + (f" answers #{message.tool_call_id}" if message.role is Role.TOOL else "")
        for message in case.history[-most_messages:]
    ]
    return "\n".join(lines)
