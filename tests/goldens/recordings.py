"""Goldens as text files: one of requests and one of receipts for each language and entry point.

- Requests: a line for each turn with the keys of its messages, then each message once, as JSON after its key. The key
  is a hash of the message, so that a change affects only this message's lines.
- Receipts: a JSON line for each part of each turn's receipt.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from tests.goldens.windows import Turn

_FOLDER = Path(__file__).parent / "data"


def write(language: str, way: str, turns: Mapping[int, Sequence[Turn]]) -> None:
    """Record the turns of an entry point by budget. The same turns give the same bytes."""
    messages: dict[str, str] = {}
    shown: list[str] = []
    receipts: list[str] = []
    for budget, asked in turns.items():
        for number, turn in enumerate(asked, start=1):
            lines = {_key(line): line for line in map(_line, turn.messages)}
            messages |= lines
            shown.append(f"{budget} {number}: {' '.join(_key(_line(message)) for message in turn.messages)}")
            receipts.extend(_line([budget, number, *part]) for part in _parts(turn.receipt))
    _write(_requests(language, way), [*shown, "", *(f"{key} {line}" for key, line in messages.items())])
    _write(_receipts(language, way), receipts)


def differences(language: str, way: str, budget: int, turns: Sequence[Turn]) -> str:
    """Return a readable description of the differences from the recorded turns, or an empty string."""
    was, now = _read(language, way, budget), list(map(_as_recorded, turns))
    changed = []
    for number, (before, after) in enumerate(zip(was, now, strict=True), start=1):
        for part in [part for part in ("messages", "receipt") if before[part] != after[part]]:
            texts = [_for_people(before[part]), _for_people(after[part])]
            name = f"{language}/{way}, {budget:,} tokens, turn {number}, {part}"
            changed.extend(unified_diff(*texts, f"{name}: recorded", f"{name}: now", n=2, lineterm=""))
    return "\n".join(changed)


def _read(language: str, way: str, budget: int) -> list[dict[str, Any]]:
    return [turn for asked, turn in _read_all(language, way) if asked == budget]


@cache
def _read_all(language: str, way: str) -> list[tuple[int, dict[str, Any]]]:
    head, _, tail = _requests(language, way).read_text("utf-8").partition("\n\n")
    messages = {key: json.loads(line) for key, _, line in (row.partition(" ") for row in tail.splitlines())}
    receipts = [json.loads(line) for line in _receipts(language, way).read_text("utf-8").splitlines()]
    turns = []
    for row in head.splitlines():
        name, _, keys = row.partition(":")
        asked, number = map(int, name.split())
        parts = [part for budget, turn, *part in receipts if (budget, turn) == (asked, number)]
        turns.append((asked, {"messages": [messages[key] for key in keys.split()], "receipt": parts}))
    return turns


def _as_recorded(turn: Turn) -> dict[str, Any]:
    return json.loads(_line({"messages": turn.messages, "receipt": list(_parts(turn.receipt))}))  # type: ignore[no-any-return]


def _parts(receipt: Mapping[str, Any] | None) -> Iterator[list[Any]]:
    """Yield a receipt's entries, and the objects of a list one by one."""
    for name, value in sorted((receipt or {}).items()):
        if isinstance(value, list) and all(isinstance(one, dict) for one in value):
            yield from ([name, one] for one in value)
        else:
            yield [name, value]


def _for_people(value: Any) -> list[str]:
    return json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True).replace("\\n", "\n").splitlines()


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _key(line: str) -> str:
    return blake2b(line.encode(), digest_size=4).hexdigest()


def _write(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def _requests(language: str, way: str) -> Path:
    return _FOLDER / language / f"{way}.requests.txt"


def _receipts(language: str, way: str) -> Path:
    return _FOLDER / language / f"{way}.receipts.txt"
