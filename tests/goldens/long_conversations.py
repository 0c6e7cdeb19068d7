r"""Six whole conversations, and arc's requests at two or three turns of each, as files for people to read.

`long/NAME.txt` is a conversation with one message per line and "\n" for a line break inside a text:

    # the system prompt            > the user                 ! a tool call: name and arguments
    @ the time from here on        Rosa> a named user         = its result
                                   < the assistant

A message may begin with `[image NAME]` or `[file NAME]`. `long/NAME.TURN.golden` is the request at the user message
with that number, as text.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from arc_common import ContentPart, ContextEngine, Message, TokenBudget, ToolCall

_FOLDER = Path(__file__).parent / "long"
NAMES = tuple(sorted(path.stem for path in _FOLDER.glob("*.txt")))
_TURNS = (10, 50, 200)
_TURNS_OF = {"german": (45, 90)}
"""The turns with a recorded request: before anything is summarised, and once most is."""
_BUDGET = 4_000
_EVERY = 5
"""Interval in turns between requests, since what a request adopts affects the later ones."""
_LINE = re.compile(r"([#@!=<>]|[A-Z]\w*>) (.*)")
_PART = re.compile(r"\[(image|file) ([^\]]+)\]\s*")
_TOOLS = ("run_tests", "read_file", "search_code", "edit_file", "open_pr", "shell")


@dataclass(slots=True)
class _Clock:
    now: datetime

    def __call__(self) -> datetime:
        return self.now


def golden(name: str, turn: int) -> Path:
    """Return the file of a recorded request."""
    return _FOLDER / f"{name}.{turn}.golden"


def requests(name: str) -> dict[int, str]:
    """Replay a conversation on a database in memory and return its requests by turn."""
    system, *said = _read(name)
    assert said[0].created_at is not None
    clock = _Clock(said[0].created_at)
    turns = _TURNS_OF.get(name, _TURNS)
    made: dict[int, str] = {}
    turn = 0
    with ContextEngine.open("sqlite://", clock=clock, new_id=(f"minted_{n}" for n in range(10**6)).__next__) as engine:
        session = engine.session(name, user_id="user")
        for message in said:
            assert message.created_at is not None
            clock.now = message.created_at
            if message.role == "user":
                turn += 1
                if turn % _EVERY == 0:
                    window = session.context(message, system_prompt=system.text, budget=TokenBudget(_BUDGET, 0))
                    made[turn] = "".join(map(_shown, window.messages))
                if turn == max(turns):
                    break
            session.append([message])
            assert engine.flush(60)
    return {turn: made[turn] for turn in turns}


def _read(name: str) -> Iterator[Message]:
    now, calls = datetime(2026, 1, 1, tzinfo=UTC), 0
    waiting: list[Message] = []
    for place, line in enumerate((_FOLDER / f"{name}.txt").read_text("utf-8").splitlines()):
        found = _LINE.fullmatch(line)
        assert found is not None, f"{name}.txt, line {place + 1}: {line!r}"
        mark, text = found[1], found[2].replace("\\n", "\n")
        now += timedelta(minutes=1)
        if mark == "@":
            now = datetime.strptime(text, "%Y-%m-%d %H:%M").replace(tzinfo=UTC)
        elif mark == "#":
            yield Message("system", text)
        elif mark == "!":
            calls += 1
            tool, _, arguments = text.partition(" ")
            assert tool in _TOOLS, tool
            call = ToolCall(tool, json.loads(arguments), id=f"call_{calls}")
            waiting.append(Message("assistant", None, tool_calls=(call,), id=f"m{place}", created_at=now))
        elif mark == "=":
            call = waiting[-1].tool_calls[0]
            yield from waiting
            waiting.clear()
            yield Message("tool", text, tool_call_id=call.id, name=call.name, id=f"m{place}", created_at=now)
        else:
            message = Message("assistant" if mark == "<" else "user", text, id=f"m{place}", created_at=now)
            if part := _PART.match(text):
                kind, file = part.groups()
                rest = text[part.end() :]
                parts = [ContentPart("text", text=rest)] if rest else []
                parts.append(ContentPart(kind, name=file, url=f"https://files.example/{file}"))
                message = replace(message, content=parts)
            yield replace(message, name=mark[:-1]) if len(mark) > 1 else message


def _shown(message: Message) -> str:
    parts = [] if message.content is None or isinstance(message.content, str) else message.content
    lines = [message.text, *(f"({part.type}: {part.name})" for part in parts if part.type != "text")]
    lines += [f"(calls {call.name} {json.dumps(call.arguments, ensure_ascii=False)})" for call in message.tool_calls]
    head = f"=== {message.role.value}{f' {message.name}' if message.name else ''}"
    return "".join(f"{line}\n" for line in (head, *lines) if line)
