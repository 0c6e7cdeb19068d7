"""`ArcChatMemoryBuffer.get` returns requests that every provider accepts, within the limit, for any conversation."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from random import Random

import pytest

from arc_common.engine.context_engine import ContextEngine
from arc_common.exceptions import BudgetExceededError
from arc_common.messages import Message, Role, exchanges_of, turns_of
from arc_common.tokens.budget import usable_tokens
from arc_common.tokens.counters import message_tokens
from arc_common.tokens.selection import says_something, select_window
from llamaindex_arc import ArcChatMemoryBuffer, ArcChatStore, from_arc, open_engine, to_arc
from tests.support.conversations import random_conversation
from tests.support.llamaindex_helpers import NO_SUMMARIES, settle
from tests.support.providers import anthropic, gemini, openai

SEEDS = 2_000
"""Seeds of unsummarised conversations; later ones are summarised."""
SUMMARISED = 8


@dataclass(frozen=True, slots=True)
class Asked:
    """A memory's messages for a seed, in arc's form, its token limit, and the costs of its turns."""

    conversation: list[Message]
    given: list[Message]
    limit: int
    taken: int
    tokens: int
    turns: list[int]
    largest: int

    @property
    def spoken(self) -> list[Message]:
        return [message for message in self.given if message.role is not Role.SYSTEM]


def asked(engine: ContextEngine, seeds: range, *, summarised: bool = False) -> Iterator[Asked]:
    """Yield each seed's result at a limit from far too small to ample, unless a question is rejected."""
    store = ArcChatStore(engine)

    def count(message: Message) -> int:
        return message_tokens(engine.token_counter, message)

    for seed in seeds:
        rng = Random(seed)
        history = list(map(from_arc, random_conversation(seed)))
        conversation = list(map(to_arc, history))
        limit = int(10 ** (1.2 + rng.random() * 2.6))
        room = usable_tokens(limit, engine.token_counter)
        taken = int(rng.random() * limit * 1.2) if rng.random() < 0.5 else 0
        placement = "user" if rng.random() < 0.5 else "system"
        memory = ArcChatMemoryBuffer.from_defaults(
            chat_store=store, session_id=f"s{seed}", token_limit=limit, facts_role=placement
        )
        memory.put_messages(history)
        if summarised:
            settle(engine)
        questions = [one for one in conversation if one.role is Role.USER and says_something(one)]
        try:
            given = list(map(to_arc, memory.get(initial_token_count=taken)))
        except BudgetExceededError as error:
            assert error.needed > error.available == room
            assert error.needed >= count(questions[-1])
        else:
            kept = select_window(conversation).kept
            turns = [sum(map(count, turn.messages)) for turn in turns_of(exchanges_of(kept)[0])]
            largest = max(map(count, kept), default=0)
            yield Asked(conversation, given, room, taken, sum(map(count, given)), turns, largest)
        memory.chat_store.delete_messages(memory.chat_store_key)


def check(case: Asked) -> None:
    """Check that every provider accepts it and the limit holds."""
    questions = [one for one in case.conversation if one.role is Role.USER and says_something(one)]
    if not questions:  # assistant messages alone are no request
        return
    assert case.tokens <= case.limit
    newest = [one for one in case.spoken if one.role is Role.USER]
    assert newest[-1].text.endswith(questions[-1].text)
    assert case.tokens <= max(case.limit - case.taken, 0) or len(newest) == 1
    request = case.given
    if case.spoken[-1].role is Role.ASSISTANT:
        request = [*request, Message(Role.USER, "And now?")]
    for provider in (openai, anthropic, gemini):
        assert provider.violations(provider.render(request)) == []


@pytest.mark.parametrize("seeds", [100, pytest.param(SEEDS, marks=pytest.mark.torture)])
def test_no_conversation_makes_a_broken_request(seeds: int) -> None:
    """There are parallel, missing and late calls, several writers, huge and empty messages, and twelve scripts.

    If more than the limit could be shown, no turn exceeds it and no message a tenth of it, nine tenths are used.
    """
    used: list[float] = []
    with open_engine(settings=NO_SUMMARIES) as engine:
        for case in asked(engine, range(seeds)):
            check(case)
            if not case.taken and sum(case.turns) > case.limit > max(case.turns) and case.largest < case.limit / 10:
                used.append(case.tokens / case.limit)
    assert used or seeds < SEEDS
    assert min(used, default=1) > 0.9


def test_nor_does_one_that_is_summarised() -> None:
    """Facts and summary come first, or precede the first user message's text."""
    with open_engine() as engine:
        long = (seed for seed in range(SEEDS, SEEDS + 10**6) if 30 < len(random_conversation(seed)) < 200)
        for seed in islice(long, SUMMARISED):
            for case in asked(engine, range(seed, seed + 1), summarised=True):
                check(case)
