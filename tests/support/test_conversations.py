"""Random conversations have the promised faults and writing systems, and depend on the seed alone."""

from itertools import pairwise
from random import Random

import pytest

from arc_common import Role
from arc_common.messages import exchanges_of
from tests.support.conversations import random_conversation, running_turn
from tests.support.providers import anthropic, gemini, openai
from tests.support.writing_systems import WRITING_SYSTEMS

NUMBER = 1_500


@pytest.fixture(scope="module")
def conversations():
    """Return many random conversations."""
    return [random_conversation(seed) for seed in range(NUMBER)]


FAULTS = {
    "parallel calls": lambda messages: any(len(message.tool_calls) > 1 for message in messages),
    "calls without results": lambda messages: not all(exchange.complete for exchange in exchanges_of(messages)[0]),
    "results without calls": lambda messages: bool(exchanges_of(messages)[1]),
    "results away from their calls": lambda messages: any(
        before.role in (Role.USER, Role.SYSTEM) and message.role is Role.TOOL for before, message in pairwise(messages)
    ),
    "calls without ids": lambda messages: any(call.id is None for message in messages for call in message.tool_calls),
    "ids used again": lambda messages: (
        len(ids := [call.id for message in messages for call in message.tool_calls if call.id]) > len(set(ids))
    ),
    "arguments that are no JSON": lambda messages: any(
        isinstance(call.arguments, str) for message in messages for call in message.tool_calls
    ),
    "several writers": lambda messages: len({message.name for message in messages if message.role is Role.USER}) > 1,
    "runs of a role": lambda messages: any(
        before.role is message.role is Role.USER for before, message in pairwise(messages)
    ),
    "system messages inside": lambda messages: any(message.role is Role.SYSTEM for message in messages[1:]),
    "no user first": lambda messages: messages[0].role is Role.ASSISTANT,
    "no content": lambda messages: any(message.content is None and not message.tool_calls for message in messages),
    "blank content": lambda messages: any(message.content in ("", " ") for message in messages),
    "pictures": lambda messages: any(
        part.type == "image" for message in messages for part in message.content or () if not isinstance(part, str)
    ),
    "giant messages": lambda messages: any(len(message.text) > 5_000 for message in messages),
    "giant turns": lambda messages: sum(bool(message.tool_calls) for message in messages) > 40,
}


def test_each_kind_occurs_and_none_is_everywhere(conversations):
    """Each fault is rare enough to occur both alone and together with others."""
    for name, has in FAULTS.items():
        assert 0.002 < sum(map(has, conversations)) / NUMBER < 0.6, name


def test_all_writing_systems_occur(conversations):
    """Each writing system occurs in a good many conversations."""
    joined = ["".join(message.text for message in messages) for messages in conversations]
    for name, words in WRITING_SYSTEMS.items():
        assert sum(max(words, key=len) in text for text in joined) > NUMBER / 60, name


def test_sound_and_broken_conversations_both_occur(conversations):
    """Every provider accepts some conversations as they are and rejects others."""
    for provider in (anthropic, gemini, openai):
        refused = sum(
            any(violation.rule != "last" for violation in provider.violations(provider.render(messages)))
            for messages in conversations
        )
        assert 0.2 < refused / NUMBER < 0.9


def test_a_running_turn_begins_with_the_user_and_only_its_last_calls_are_open():
    """The state is that of an agent at the time of its next model call."""
    turns = [running_turn(Random(seed)) for seed in range(300)]
    complete = []
    for turn in turns:
        exchanges, orphans = exchanges_of(turn)
        assert turn[0].role is Role.USER
        assert turn[0].text.strip()
        assert not orphans
        assert all(exchange.complete for exchange in exchanges[:-1])
        complete.append(exchanges[-1].complete)
    assert {True, False} == set(complete)
