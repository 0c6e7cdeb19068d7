"""Places facts and summary in the messages of a memory; recognises them, and the conversation, in a request."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import count, pairwise
from typing import Literal

from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock

from arc_common.documents import checked_items
from arc_common.messages import Message, Role, content_of
from arc_common.prompts.context import MEMORY_HEADING, holds_memory, parse_fences
from llamaindex_arc.messages import from_arc

_FIELD = re.compile(r"\{(?=[^\W\d][\w.]*\})")


def without_fields(text: str) -> str:
    """Put a space after the opening brace of each template field (`{ name}`), so that no value is inserted."""
    return _FIELD.sub("{ ", text)


FactsRole = Literal["system", "user"]

PLACEMENT_TOKENS = 4
"""The most tokens that splitting one counted message into two may cost."""

_OPENING = "<arc:memory>\n"


def shown(window: Iterable[Message], *, facts_role: FactsRole) -> list[ChatMessage]:
    """Convert a window's messages to LlamaIndex's, with facts and summary in the requested role."""
    messages = list(window)
    made, first = messages[:1], next((i for i, message in enumerate(messages) if message.role is Role.USER), None)
    if not (made and made[0].made_by_arc):
        return list(map(from_arc, messages))
    text = without_fields(made[0].text)
    start = text.rfind(_OPENING + MEMORY_HEADING)
    if facts_role == "system" or first is None or start < 0:
        return list(map(from_arc, [replace(made[0], content=text), *messages[1:]]))
    placed = list(map(from_arc, messages))
    placed[first].blocks.insert(0, TextBlock(text=f"{text[start:]}\n\n"))
    instructions = [from_arc(replace(made[0], content=text[:start].removesuffix("\n\n")))] if start else []
    return [*instructions, *placed[1:]]


def without_memory(messages: Sequence[ChatMessage]) -> tuple[list[ChatMessage], bool]:
    """Return messages without the memory that `shown` put there with "user", and whether there was any."""
    messages = checked_items("messages", messages, ChatMessage, expected="LlamaIndex's ChatMessages")
    first = next((i for i, message in enumerate(messages) if _carries_memory(message)), None)
    if first is None:
        return messages, False
    carrier = bare(messages[first])
    before = [message for message in messages[:first] if message.role is not MessageRole.SYSTEM]
    return [*before, carrier, *messages[first + 1 :]], True


def bare(message: ChatMessage) -> ChatMessage:
    """Return a message without the memory that `shown` put there with "user"."""
    return message.model_copy(update={"blocks": message.blocks[1:]}) if _carries_memory(message) else message


def _carries_memory(message: ChatMessage) -> bool:
    if message.role is not MessageRole.USER or len(message.blocks) < 2:
        return False
    block = message.blocks[0]
    if not isinstance(block, TextBlock):
        return False
    outside, _ = parse_fences(block.text)
    return holds_memory(block.text) and block.text.startswith(_OPENING) and block.text.endswith("\n\n") and not outside


def place_of(stored: Sequence[Message], request: Sequence[Message]) -> tuple[slice, int] | None:
    """Return the part of a request that is stored, and the number of stored messages up to its end; `None` for none."""
    # Messages within the part may differ: a request cuts results, and templates change texts.
    here, there = list(map(content_of, request)), list(map(content_of, stored))
    found: list[int] = []
    shift = 0
    for ahead in range(1 - len(here), len(there)):
        pairs = zip(count(max(-ahead, 0)), here[max(-ahead, 0) :], there[max(ahead, 0) :], strict=False)
        same = [place for place, one, other in pairs if one == other]
        if same and len(same) >= len(found):
            found, shift = same, ahead
    return (slice(found[0], found[-1] + 1), found[-1] + 1 + shift) if found else None


def without_oldest(text: str, lines: Sequence[str], *, excess: int, tokens: Callable[[str], int]) -> str | None:
    """Remove the oldest lines from a text until `excess` tokens are gone; `None` if it lacks the newest line."""
    starts = [text.rfind(lines[-1]) if lines else -1]
    if starts[0] < 0:
        return None
    for line in reversed(lines[:-1]):
        if not text.endswith(f"{line}\n", 0, starts[0]):
            break
        starts.insert(0, starts[0] - len(line) - 1)
    end = starts[0]
    for start, following in pairwise([*starts, starts[-1] + len(lines[-1])]):
        if excess <= 0:
            break
        end = following
        excess -= tokens(text[start:end])
    return text[: starts[0]] + text[end:]
