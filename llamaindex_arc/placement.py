"""Places facts and summary in the messages of a memory, and recognises them when they are handed back."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock

from arc_common.documents import checked_items
from arc_common.messages import Message, Role
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
    carrier = messages[first].model_copy(update={"blocks": messages[first].blocks[1:]})
    before = [message for message in messages[:first] if message.role is not MessageRole.SYSTEM]
    return [*before, carrier, *messages[first + 1 :]], True


def _carries_memory(message: ChatMessage) -> bool:
    if message.role is not MessageRole.USER or len(message.blocks) < 2:
        return False
    block = message.blocks[0]
    if not isinstance(block, TextBlock):
        return False
    outside, _ = parse_fences(block.text)
    return holds_memory(block.text) and block.text.startswith(_OPENING) and block.text.endswith("\n\n") and not outside
