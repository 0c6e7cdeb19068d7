"""Long-term memories: how they are shown to a model, and how a model is asked to extract them."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from arc_common.exceptions import InvalidInputError
from arc_common.memories import MAX_MEMORY_CHARACTERS, SAID_BY, MemoryType, ProposedMemory, ScoredMemory
from arc_common.messages import Message, Role
from arc_common.prompts.context import (
    DATA_RULE,
    MEMORIES_CLOSING,
    MEMORIES_HEADING,
    defused_markers,
    json_values,
    render_choices,
    render_conversation,
    render_fence,
    storable_line,
)

InteractionMode = Literal["chat", "rag", "agent"]


_ABOUT = {
    "chat": "You decide what is worth remembering of a conversation when the next one begins, weeks later.",
    "rag": "You decide what is worth remembering of an exchange in which questions were answered from documents. "
    "Remember what it tells about the user: what they work on, what they look for, how they want to be answered. "
    "What the documents say is found in the documents again; leave it out.",
    "agent": "You decide what is worth remembering of an exchange in which an assistant used tools to do something for "
    "the user. Remember what the user wants done and how, what was decided, and what came of it. What a tool returned "
    "can be looked up again; leave it out, unless the user relies on it from now on.",
}

EXTRACTION_INSTRUCTIONS = f"""{{about}} {DATA_RULE}

Write one JSON list and nothing else:
[{{"type": "…", "content": "…", "importance": 0.0}}]

content: one statement in one or two sentences, to be understood without the conversation ("The user lives in Busan", \
not "lives there now"); names, numbers and dates exactly as they were said; only what was said.
type: {render_choices(MemoryType)}.
importance: from 0 (of no use later) to 1 (a mistake if forgotten).

Leave out small talk, general knowledge, what holds only for this moment, what is only supposed ("if I lived in …"), \
what is quoted or to be translated, what the user asks to forget, and what the assistant suggested but the user did \
not take up. Most exchanges hold nothing worth remembering: then write []. Write in the language of the \
conversation."""

KNOWN_INSTRUCTIONS = """What is known of the user already is numbered. Add to a statement "replaces": the numbers of \
those that do not hold any longer because of it (something was moved, changed, ended, lost, corrected or taken back), \
like {"type": "fact", "content": "The user lives in Busan.", "importance": 0.7, "replaces": [2]}. A statement that \
adds to what is known, or says it more exactly, replaces nothing; nor does what was so before, is only planned, or \
concerns somebody or something else. That something known is over is worth remembering."""

_CHARACTERS = 16_000
_MOST = 16
_SHOWN = 500
_MOST_REPLACED = 3
_DEFAULT_IMPORTANCE = 0.5
_WORDS_OF_IMPORTANCE = {"low": 0.2, "medium": 0.5, "high": 0.8, "critical": 1.0}
_BREAKS = "\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_LABELLED = rf"\[(?:{'|'.join(kind.upper() for kind in MemoryType)})\]"
_LISTED = rf"\[[\w-]{{1,255}}\][ \t]{{0,4}}\((?:{'|'.join(MemoryType)}), importance \d"
_LINE = re.compile(
    rf"(?:^|(?<=[{_BREAKS}]))[ \t>]{{0,20}}(?:[-*+•·‣◦–—]|[0-9]{{1,3}}[.)])?[ \t>*_`]{{0,10}}(?:{_LABELLED}|{_LISTED})"
    rf"[^{_BREAKS}]*|{_LABELLED}[^\[{_BREAKS}]{{0,{MAX_MEMORY_CHARACTERS}}}\(importance: [0-9](?:\.[0-9]{{1,9}})?\)",
    re.IGNORECASE,
)
"""Matches a memory as `render_memory_line` or a tool shows it, after any list or quotation mark; a memory with its
importance is also matched within a line."""


class MemoryFormatError(Exception):
    """A model's answer is not a list of memories; the message says why."""


def render_memory_line(memory: ScoredMemory) -> str:
    """Render a memory as one line: `- [FACT] … (importance: 0.9)`."""
    known = memory.memory
    text = defused_markers(" ".join(known.text.split()))
    if known.metadata.get(SAID_BY) == Role.USER.value:
        text = f"The user said: {text}"
    return f"- [{known.type.value.upper()}] {text} (importance: {known.importance:.1f})"


def render_memories(memories: Sequence[ScoredMemory]) -> str:
    """Render the block of memories, in the order given; `""` for none."""
    if not memories:
        return ""
    return "\n".join([MEMORIES_HEADING, *map(render_memory_line, memories), MEMORIES_CLOSING])


def without_memories(text: str) -> str:
    """Remove memories as shown to models from a text, whoever repeated them, in any kind of list."""
    text = _LINE.sub("", text)
    return text.replace(MEMORIES_HEADING, "").replace(MEMORIES_CLOSING, "").strip()


def render_extraction_request(
    messages: Sequence[Message], *, mode: InteractionMode = "chat", known: Sequence[str] = ()
) -> list[Message]:
    """Ask which memories some messages hold, and which known ones they replace."""
    if not isinstance(mode, str) or mode not in _ABOUT:
        raise InvalidInputError("mode", mode, f"one of {', '.join(get_args(InteractionMode))}")
    conversation = render_conversation(messages, max_characters=_CHARACTERS)
    instructions = EXTRACTION_INSTRUCTIONS.replace("{about}", _ABOUT[mode])
    asked = f"{render_fence('conversation', conversation)}\n\nNow write the JSON list about the record above."
    if known:
        instructions = f"{instructions}\n\n{KNOWN_INSTRUCTIONS}"
        lines = (f"{number}. {' '.join(text.split())[:_SHOWN]}" for number, text in enumerate(known, 1))
        asked = "\n\n".join([render_fence("known", "\n".join(lines)), asked])
    return [Message(Role.SYSTEM, instructions), Message(Role.USER, asked)]


def parse_extraction(answer: str, *, known: Sequence[str] = ()) -> list[ProposedMemory]:
    """Parse a model's answer into memories, without sources; an empty list if it reports none."""
    found: dict[str, ProposedMemory] = {}
    read = answer.strip().strip("`").strip().casefold() in ("none", "null", "[]")
    for value in json_values(answer):
        listed = _listed(value)
        if listed is None:
            continue
        read = True
        for item in listed:
            memory = _memory(item, known)
            if memory is not None and len(found) < _MOST:
                found.setdefault(memory.text.casefold(), memory)
        if found:
            break
    if not read:
        raise MemoryFormatError("it holds no JSON list")
    replaced = {name for memory in found.values() for name in memory.replaces}
    if len(replaced) > _MOST_REPLACED:
        return [replace(memory, replaces=()) for memory in found.values()]
    return list(found.values())


def _listed(value: Mapping[str, Any] | list[Any]) -> list[Any] | None:
    if isinstance(value, list):
        return value
    for name in ("memories", "items", "results", "data"):
        if isinstance(value.get(name), list):
            return list(value[name])
    if any(name in value for name in ("content", "text", "memory")):
        return [value]
    return next((inside for inside in value.values() if isinstance(inside, list)), None)


def _memory(item: object, known: Sequence[str]) -> ProposedMemory | None:
    if isinstance(item, str):
        item = {"content": item}
    if not isinstance(item, Mapping):
        return None
    text = next((item[name] for name in ("content", "text", "memory") if isinstance(item.get(name), str)), "")
    text = storable_line(text, _SHOWN)
    if not text:
        return None
    replaces = _replaces(item.get("replaces"), known)
    return ProposedMemory(text, _type(item.get("type")), _importance(item.get("importance")), replaces=replaces)


def _replaces(value: object, known: Sequence[str]) -> tuple[str, ...]:
    numbers = value if isinstance(value, list) else [value]
    said = {str(number).strip() for number in numbers if isinstance(number, int | str) and not isinstance(number, bool)}
    return tuple(name for number, name in enumerate(known, 1) if str(number) in said)


def _type(value: object) -> MemoryType:
    try:
        return MemoryType(value) if isinstance(value, str) else MemoryType.FACT
    except InvalidInputError:
        return MemoryType.FACT


def _importance(value: object) -> float:
    if isinstance(value, str):
        word = value.strip().casefold()
        try:
            value = _WORDS_OF_IMPORTANCE.get(word) if word in _WORDS_OF_IMPORTANCE else float(word)
        except ValueError:
            return _DEFAULT_IMPORTANCE
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return _DEFAULT_IMPORTANCE
    return min(1.0, max(0.0, float(value)))
