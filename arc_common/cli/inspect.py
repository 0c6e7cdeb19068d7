"""`arc inspect`: prints a stored session's state, and the context window of one of its turns."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from arc_common.context.display import counted, excerpt
from arc_common.context.display_terminal import render_terminal
from arc_common.engine.admin import SessionDebug
from arc_common.engine.context_engine import ContextEngine
from arc_common.engine.replay import ReplayedTurn
from arc_common.exceptions import ConfigurationError
from arc_common.messages import Message
from arc_common.settings import ArcSettings

_NAME_CHARACTERS = 80


def inspect_session(
    console: Console,
    session_id: str,
    *,
    turn: int | None = None,
    url: str | None = None,
    caller_id: str = "default",
    user_id: str | None = None,
    tokens: int | None = None,
    full: bool = False,
    as_json: bool = False,
) -> None:
    """Print a stored session's state, and the context window of one of its turns as it would be built today."""
    with _opened(url) as engine:
        debug = engine.admin.debug(session_id, caller_id=caller_id, user_id=user_id)
        budget = None if tokens is None else replace(engine.budget, context_window=tokens, output_reserve=0)
        shown = engine.admin.replay(session_id, turn, budget=budget, caller_id=caller_id, user_id=user_id)
    if as_json:
        text = json.dumps(_as_json(debug, shown, full=full), indent=2, default=str)
        console.print(Text(text), soft_wrap=True)
        return
    console.print(_headline(debug, shown))
    console.print()
    console.print(render_terminal(shown.window, full=full))


def _opened(url: str | None) -> ContextEngine:
    """Open an engine on an existing database, without creating tables."""
    from sqlalchemy import make_url  # noqa: PLC0415 - imported only when the command runs

    settings = ArcSettings(storage={"auto_migrate": False}, summary={"llm_model": None})  # inspecting calls no model
    address = url or settings.resolved_database_url
    if address is None:
        raise ConfigurationError("no database: give its address, or set ARC_DATABASE_URL (sqlite:///arc.db)")
    engine = ContextEngine.open(address, settings=settings)
    parsed = make_url(address)
    file = parsed.database if parsed.get_backend_name() == "sqlite" else None
    if file and file != ":memory:" and not file.startswith("file:") and not Path(file).is_file():
        engine.close()
        raise ConfigurationError(f"database URL: no file {file!r}, expected one that an engine has written to")
    return engine


def _headline(debug: SessionDebug, shown: ReplayedTurn) -> Text:
    record, summary = debug.conversation, debug.summary
    owners = {"caller": None if record.key.caller_id == "default" else record.key.caller_id, "user": record.key.user_id}
    whose = ", ".join(f"{kind} {excerpt(name, _NAME_CHARACTERS)}" for kind, name in owners.items() if name)
    counts = [counted(record.message_count, "message"), counted(record.total_tokens, "token")]
    if record.tool_calls_count:
        counts.append(counted(record.tool_calls_count, "tool call"))
    last = f" to {record.last_message_at:%Y-%m-%d %H:%M}" if record.last_message_at else ""
    written = "no summary yet"
    if summary is not None:
        written = (
            f"summary of {counted(summary.summarized_up_to, 'message')}, {counted(len(summary.facts), 'fact')}, "
            f"{counted(summary.pending, 'message')} not summarised"
        )
    return Text.assemble(
        ("session ", "dim"),
        (excerpt(record.key.session_id, _NAME_CHARACTERS), "bold"),
        (f"  {whose}\n" if whose else "\n", "dim"),
        f"{', '.join(counts)}, from {record.created_at:%Y-%m-%d %H:%M}{last} UTC\n{written}\n",
        ("turn ", "dim"),
        (f"{shown.number:,}", "bold"),
        (f" of {shown.count:,}: what the model is shown before it answers", "dim"),
    )


def _as_json(debug: SessionDebug, shown: ReplayedTurn, *, full: bool) -> dict[str, Any]:
    receipt = shown.window.receipt.to_dict()
    messages = {"messages": list(map(_message, shown.window.messages))} if full else {}
    session = {name: value for name, value in debug.to_dict().items() if name != "receipt"}
    return {"session": session, "turn": shown.number, "turns": shown.count, "receipt": receipt, **messages}


def _message(message: Message) -> dict[str, Any]:
    content = message.content
    return {
        "role": message.role.value,
        "content": content if content is None or isinstance(content, str) else [asdict(part) for part in content],
        "tool_calls": [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls],
        "tool_call_id": message.tool_call_id,
        "name": message.name,
        "id": message.id,
    }
