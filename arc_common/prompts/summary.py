"""Summaries: requests for a leaf, a block and an era, and the parsers of a model's answers."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field, create_model

from arc_common.facts import Fact, FactCategory, ProposedFact
from arc_common.messages import Message, Role
from arc_common.prompts.context import (
    DATA_RULE,
    is_refusal,
    json_values,
    render_answer_form,
    render_conversation,
    render_fence,
    storable_line,
)


def _lines(kind: FactCategory) -> Any:
    return list[str], Field(default_factory=list, description=kind.hint or "anything else")


_Facts: Any = create_model("Facts", **{kind.name: _lines(kind) for kind in FactCategory})


class SummaryAnswer(BaseModel):
    """The notes of a part of a conversation."""

    facts: _Facts = Field(
        default_factory=_Facts,
        description="what must still be known much later, one whole sentence each that can be understood alone, as "
        '"key: sentence": the key says in a few words what it is about ("delivery address") and, of several users, '
        "whose; numbers, dates, names, codes and prohibitions exactly as they were said; only what was said. Leave "
        "out small talk, and suggestions that nobody agreed to. A known fact that changed: the same key with the new "
        "sentence. Don't repeat known facts that stay as they are.",
    )
    removed: list[str] = Field(
        default_factory=list,
        description="the keys of known facts that no longer hold and have no new value; of those without a key, the "
        "sentences.",
    )
    narrative: str = Field(
        description="2–3 sentences on flow, tone and agreements, without repeating the facts; only what was said."
    )


class NarrativeAnswer(BaseModel):
    """The notes of a part of a conversation, told in a few sentences."""

    narrative: str = Field(description="2–3 sentences on flow, tone and agreements; only what was said.")


_INSTRUCTIONS = f"""You keep the notes of a conversation. {DATA_RULE}

{{form}}

The narrative takes at most {{max_tokens}} tokens. Write in the language of the conversation."""
LEAF_INSTRUCTIONS = _INSTRUCTIONS.replace("{form}", render_answer_form(SummaryAnswer))
ERA_INSTRUCTIONS = (
    _INSTRUCTIONS.replace("{form}", render_answer_form(NarrativeAnswer))
    + " What you are given are notes, oldest first: tell them as one, and add nothing to them."
)

_LEAF_CHARACTERS = 16_000
"""Ordinary messages stay below this; a pasted log is cut for the model, never for the guard."""

_MAX_FACTS = 64
_MAX_KEY = 120
_MAX_VALUE = 500
_MAX_NARRATIVE = 4_000
_SHOWN_ANSWER = 2_000

_LIST_MARKS = re.compile(r"(?:(?:[-*•]|\[\d{1,4}\]|\d{1,3}[.)])\s+)+")
"""The beginning of a list's first item: a narrative that keeps it looks like arc's own excerpts."""
_COPIED = re.compile(r"[\[{<]|.*\[(?:user|assistant|tool)\b", re.DOTALL)
"""Matches a narrative that copies the form, or lines of the conversation, which name their speaker in brackets."""
_COLON = re.compile(r"(?<=\S)(?::\s|：\s?)|(?<=[\u3040-\u30ff\u3400-\u9fff가-힣]):")
"""Separates key and value; a time ("10:30") contains no match."""


class SummaryFormatError(Exception):
    """A model's answer is not a summary; the message says why, in words that the model can be told."""


@dataclass(frozen=True, slots=True)
class ParsedSummary:
    """The content of a model's answer: facts (without sources), keys of facts to remove, and a narrative."""

    facts: tuple[ProposedFact, ...]
    removed_keys: tuple[str, ...]
    narrative: str


def render_leaf_request(messages: Sequence[Message], *, related: Iterable[Fact], max_tokens: int) -> list[Message]:
    """Ask for the facts and the narrative of messages, with the known facts that they may change."""
    known = "\n".join(" ".join(f"- {fact.key}: {fact.value}".removeprefix("- : ").split()) for fact in related)
    parts = [render_fence("known-facts", known)] if known else []
    parts.append(render_fence("conversation", render_conversation(messages, max_characters=_LEAF_CHARACTERS)))
    return _request(LEAF_INSTRUCTIONS, parts, max_tokens)


def render_era_request(narratives: Sequence[str], *, max_tokens: int) -> list[Message]:
    """Ask for one narrative in place of many."""
    notes = "\n".join(f"{number}. {' '.join(text.split())}" for number, text in enumerate(narratives, 1))
    return _request(ERA_INSTRUCTIONS, [render_fence("notes", notes)], max_tokens)


def render_correction(request: Sequence[Message], answer: str, reason: str) -> list[Message]:
    """Ask again after an answer that could not be read, and say why."""
    *before, last = request
    shown = render_fence("answer", answer[:_SHOWN_ANSWER]) + "\n\n" if answer.strip() else ""
    text = f"{last.text}\n\n{shown}That answer can't be used: {reason}. Write only the JSON object."
    return [*before, Message(Role.USER, text)]


def _request(instructions: str, parts: Sequence[str], max_tokens: int) -> list[Message]:
    return [
        Message(Role.SYSTEM, instructions.replace("{max_tokens}", str(max_tokens))),
        Message(Role.USER, "\n\n".join([*parts, "Now write the JSON object about the record above."])),
    ]


def parse_summary(answer: str) -> ParsedSummary:
    """Parse an answer to a leaf's request; corrects mistakes whose meaning is clear, and leaves out the rest."""
    found = _first(answer, lambda value: isinstance(value, list) and _is_facts(value))
    listed = found
    if isinstance(found, dict):
        listed = found.get("facts", {name: value for name, value in found.items() if _is_category(name)})
    facts: dict[tuple[str, str], ProposedFact] = {}
    removed: list[str] = []
    for key, value, category in _entries(listed):
        if value is None:
            removed.append(key)
        elif value and len(facts) < _MAX_FACTS:
            kind = _category(category)
            facts[key.casefold(), value.casefold()] = ProposedFact(key, value, kind, importance=kind.importance)
    if isinstance(found, dict) and isinstance(gone := found.get("removed"), list):
        removed += [
            key for item in gone if (key := _line(item.get("key") if isinstance(item, dict) else item, _MAX_KEY))
        ]
    narrative = _narrative(found)
    if not facts and not narrative:
        raise SummaryFormatError('"facts" and "narrative" are missing, empty or a copy of the request')
    if not facts and is_refusal(narrative):
        raise SummaryFormatError("it is a refusal, and only notes of what was said are asked for")
    return ParsedSummary(tuple(facts.values()), tuple(dict.fromkeys(removed[:_MAX_FACTS])), narrative)


def parse_narrative(answer: str) -> str:
    """Parse an answer to an era's request, as tolerantly as `parse_summary`."""
    narrative = _narrative(_first(answer, lambda _: False))
    if not narrative:
        raise SummaryFormatError('"narrative" is missing, empty or a copy of the request')
    if is_refusal(narrative):
        raise SummaryFormatError("it is a refusal, and only notes of what was said are asked for")
    return narrative


def _first(answer: str, is_wanted: Callable[[Any], bool]) -> Any:
    """Return the first value with a narrative or facts, or one that is wanted; also looks one level down."""
    read = False
    for value in json_values(answer):
        read = True
        inside = value.values() if isinstance(value, dict) else ()
        for candidate in (value, *inside):
            if (isinstance(candidate, dict) and ("narrative" in candidate or "facts" in candidate)) or is_wanted(value):
                return candidate
    raise SummaryFormatError("it has no JSON object with these names" if read else "it has no JSON object")


def _is_facts(value: list[Any]) -> bool:
    return any(isinstance(item, dict) and "value" in item for item in value)


def _entries(listed: object) -> Iterator[tuple[str, str | None, object]]:
    """Yield key, value and category of each fact given; the value is `None` if the fact is removed."""
    if isinstance(listed, dict) and not _is_fact(listed):
        for name, value in listed.items():
            if (facts := _of_category(name, value)) is None:
                yield from _entries([{"key": name, "value": value}])
            else:
                about = "" if _is_category(name) or name.isupper() else name
                yield from (
                    (_line(f"{about} {key}", _MAX_KEY), said, category or name)
                    for key, said, category in _entries(facts)
                )
        return
    for item in [listed] if isinstance(listed, dict) else listed if isinstance(listed, list) else ():
        if isinstance(item, str):
            yield *_pair(item), None
        elif isinstance(item, dict) and not _is_fact(item) and any(map(_is_category, item)):
            yield from _entries(item)
        elif isinstance(item, dict):
            key = _line(item.get("key"), _MAX_KEY)
            if item.get("removed") is not True and item.get("value", "") is not None:
                yield key, _line(item.get("value"), _MAX_VALUE), item.get("category")
            elif key:
                yield key, None, None


def _of_category(name: str, value: object) -> list[object] | dict[str, object] | None:
    """Return the facts of a category; `None` if the name is a fact's key ("state": "Texas")."""
    if isinstance(value, str):
        lines = value.splitlines()
        return list(lines) if _is_category(name) and all(map(_COLON.search, lines)) else None
    if _is_category(name):
        return value if isinstance(value, list | dict) else None
    pairs = isinstance(value, list) and all(isinstance(line, str) and _COLON.search(line) for line in value)
    return value if pairs and isinstance(value, list) else None


def _is_fact(item: dict[str, Any]) -> bool:
    return "key" in item and "value" in item


def _is_category(name: str) -> bool:
    return name.strip().upper() in FactCategory.__members__


def _pair(line: str) -> tuple[str, str]:
    """Split a fact's line into key and value; without a key, or with one too long, all of it is the value."""
    key, colon, value = _COLON.sub(": ", line, count=1).partition(": ")
    if not colon or len(key) > _MAX_KEY:
        return "", _line(line, _MAX_VALUE)
    return _line(key, _MAX_KEY), _line(value, _MAX_VALUE)


def _category(value: object) -> FactCategory:
    name = value.strip().upper() if isinstance(value, str) else ""
    return FactCategory(name) if name in FactCategory.__members__ else FactCategory.GENERAL


def _narrative(found: object) -> str:
    told = _line(found.get("narrative"), _MAX_NARRATIVE) if isinstance(found, dict) else ""
    found_marks = _LIST_MARKS.match(told)
    told = told[found_marks.end() :] if found_marks else told
    return "" if _COPIED.match(told) else told


def _line(value: object, most: int) -> str:
    """Return a value as one line of storable text; `""` if it has no clear meaning as text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)[:most]
    if isinstance(value, list):
        return ", ".join(
            filter(None, (_line(item, most) for item in value[:_MAX_FACTS] if not isinstance(item, list)))
        )[:most]
    if isinstance(value, dict):
        pairs = (
            (_line(key, most), _line(item, most)) for key, item in value.items() if not isinstance(item, dict | list)
        )
        return "; ".join(f"{key}: {item}" for key, item in pairs if item)[:most]
    if not isinstance(value, str):
        return ""
    return storable_line(value, most)
