"""Shows memories to a model, and asks it to extract them."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal, get_args

from pydantic import BaseModel, Field

from arc_common.exceptions import InvalidInputError
from arc_common.memories import SAID_BY, Memory, MemoryType, ProposedMemory, ScoredMemory
from arc_common.messages import Message, Role
from arc_common.prompts.context import (
    DATA_RULE,
    MEMORIES_HEADING,
    defused_markers,
    json_values,
    render_answer_form,
    render_choices,
    render_conversation,
    render_fence,
    storable_line,
)
from arc_common.trust import speaker_name

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


class MemoryAnswer(BaseModel):
    """A statement worth remembering."""

    type: str = Field(description="its kind, one of those listed below.")
    content: str = Field(
        description='one statement in one or two sentences, to be understood without the conversation ("The user lives '
        'in Busan", not "lives there now"); names, numbers and dates exactly as they were said; only what was said.'
    )
    importance: float = Field(description="from 0 (of no use later) to 1 (a mistake if forgotten).")
    replaces: list[int] = Field(
        default_factory=list, description="the numbers of the known statements that it ends; none otherwise."
    )


class MemoriesAnswer(BaseModel):
    """What is worth remembering of a conversation."""

    memories: list[MemoryAnswer] = Field(description="the statements worth remembering, each with:")


_KINDS = render_choices(MemoryType)
EXTRACTION_INSTRUCTIONS = f"""{{about}} {DATA_RULE}

{render_answer_form(MemoriesAnswer)}

Kinds: {_KINDS}.

Leave out small talk, general knowledge, what holds only for this moment, what is only supposed ("if I lived in …"), \
what is quoted or to be translated, what the user asks to forget, and what the assistant suggested but the user did \
not take up. Most exchanges hold nothing worth remembering: then write {{"memories": []}}. Write in the language of \
the conversation."""

KNOWN_INSTRUCTIONS = """What is known of the user already is numbered. Name under "replaces" the numbers of those \
that do not hold any longer because of a statement (something was moved, changed, ended, lost, corrected or taken \
back), like {"type": "fact", "content": "The user lives in Busan.", "importance": 0.7, "replaces": [2]}. A statement \
that adds to what is known, or says it more exactly, replaces nothing; nor does what was so before, is only planned, \
or concerns somebody or something else. That something known is over is worth remembering."""

_CHARACTERS = 16_000
_MOST = 16
_SHOWN = 500
_MOST_REPLACED = 3
_DEFAULT_IMPORTANCE = 0.5
_WORDS_OF_IMPORTANCE = {"low": 0.2, "medium": 0.5, "high": 0.8, "critical": 1.0}


class MemoryFormatError(Exception):
    """A model's answer is not a list of memories; the message says why."""


def render_extraction_request(
    messages: Sequence[Message],
    *,
    mode: InteractionMode = "chat",
    known: Sequence[str] = (),
    types: Mapping[str, str] = MappingProxyType({}),
    instructions: str = "",
) -> list[Message]:
    """Ask which memories some messages hold, of the built-in and these types, and which known ones they replace."""
    if not isinstance(mode, str) or mode not in _ABOUT:
        raise InvalidInputError("mode", mode, f"one of {', '.join(get_args(InteractionMode))}")
    conversation = render_conversation(messages, max_characters=_CHARACTERS)
    own = [MemoryType.described(name, hint) for name, hint in types.items()]
    said = EXTRACTION_INSTRUCTIONS.replace("{about}", _ABOUT[mode]).replace(_KINDS, render_choices([*MemoryType, *own]))
    instructions = f"{said}\n\n{instructions.strip()}" if instructions.strip() else said
    asked = f"{render_fence('conversation', conversation)}\n\nNow write the JSON object about the record above."
    if known:
        instructions = f"{instructions}\n\n{KNOWN_INSTRUCTIONS}"
        lines = (f"{number}. {' '.join(text.split())[:_SHOWN]}" for number, text in enumerate(known, 1))
        asked = "\n\n".join([render_fence("known", "\n".join(lines)), asked])
    return [Message(Role.SYSTEM, instructions), Message(Role.USER, asked)]


def parse_extraction(answer: str, *, known: Sequence[str] = (), types: Collection[str] = ()) -> list[ProposedMemory]:
    """Parse a model's answer into memories, without sources; an unknown type is read as a fact."""
    found: dict[str, ProposedMemory] = {}
    read = answer.strip().strip("`").strip().casefold() in ("none", "null", "[]")
    for value in json_values(answer):
        listed = _listed(value)
        if listed is None:
            continue
        read = True
        for item in listed:
            memory = _memory(item, known, types)
            if memory is not None and len(found) < _MOST:
                found.setdefault(memory.text.casefold(), memory)
        if found:
            break
    if not read:
        raise MemoryFormatError("the answer has no list of memories")
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


def _memory(item: object, known: Sequence[str], types: Collection[str]) -> ProposedMemory | None:
    if isinstance(item, str):
        item = {"content": item}
    if not isinstance(item, Mapping):
        return None
    text = next((item[name] for name in ("content", "text", "memory") if isinstance(item.get(name), str)), "")
    text = storable_line(text, _SHOWN)
    if not text or text[0] in "[{<":  # brackets hold numbers, labels and code, which small models put into a statement
        return None
    replaces = _replaces(item.get("replaces"), known)
    return ProposedMemory(text, _type(item.get("type"), types), _importance(item.get("importance")), replaces=replaces)


def _replaces(value: object, known: Sequence[str]) -> tuple[str, ...]:
    numbers = value if isinstance(value, list) else [value]
    said = {str(number).strip() for number in numbers if isinstance(number, int | str) and not isinstance(number, bool)}
    return tuple(name for number, name in enumerate(known, 1) if str(number) in said)


def _type(value: object, types: Collection[str]) -> MemoryType:
    try:
        kind = MemoryType(value) if isinstance(value, str) else MemoryType.FACT
    except InvalidInputError:
        return MemoryType.FACT
    return kind if kind in (*MemoryType, *map(MemoryType, types)) else MemoryType.FACT


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


_BREAKS = "\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_NOTED = "noted"
_DATED = r"\d{4}-\d\d-\d\d, [^:\n]{1,100}: "
_LISTED = rf"\[[\w-]{{1,255}}\][ \t]{{0,4}}\((?:{'|'.join(MemoryType)}), importance \d"
_LINE = re.compile(
    rf"(?:^|(?<=[{_BREAKS}]))[ \t>]{{0,20}}(?:[-*+•·‣◦–—]|[0-9]{{1,3}}[.)])?[ \t>*_`]{{0,10}}(?:{_DATED}|{_LISTED})"
    rf"[^{_BREAKS}]*",
    re.IGNORECASE,
)
"""Matches a memory as `render_memory_line` or a tool shows it, after any list or quotation mark."""


def render_memory_line(memory: ScoredMemory) -> str:
    """Render a memory as one line, with its day and who said it: `- 2026-11-20, user: …`, `- 2026-11-20, Mina: …`.

    A memory that nobody said in these words is "noted", or an "insight" if it was concluded: "noted from Mina".
    """
    known = memory.memory
    text = defused_markers(" ".join(known.text.split()))
    return f"- {known.valid_from:%Y-%m-%d}, {memory_source(known)}: {text}"


def memory_source(memory: Memory) -> str:
    """Return who said a memory, as prompts name them."""
    said_by = memory.metadata.get(SAID_BY)
    who = speaker_name(memory.speaker)
    if said_by == Role.ASSISTANT.value:
        return Role.ASSISTANT.value
    if said_by == Role.USER.value:
        return who
    noted = memory.type.value if memory.type is MemoryType.INSIGHT else _NOTED
    return f"{noted} from {who}" if memory.speaker else noted


def render_memories(memories: Sequence[ScoredMemory]) -> str:
    """Render the block of memories, in the order given; `""` for none."""
    return "\n".join([MEMORIES_HEADING, *map(render_memory_line, memories)]) if memories else ""


def without_memories(text: str) -> str:
    """Remove lines of memories as models see them from a text, whoever repeated them and in any kind of list."""
    return _LINE.sub("", text).replace(MEMORIES_HEADING, "").strip()
