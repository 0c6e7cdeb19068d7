"""What comes back for a turn besides what is always shown: memories, artifacts, facts and messages, as lines."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from arc_common.context import Layers, RecalledLine
from arc_common.engine.artifacts import artifacts_of_turn
from arc_common.engine.memories import memories_of_turn
from arc_common.memory.artifacts import excerpts_of
from arc_common.messages import Message, Role
from arc_common.prompts.memories import render_memory_line
from arc_common.protocols import SessionKey

if TYPE_CHECKING:
    from arc_common.engine.runtime import Runtime
    from arc_common.memory.recall.service import RecalledMessage

__all__ = ["message_line", "with_recollections"]

_LONG = 1_200
"""Characters: of longer messages an excerpt is shown. One reply of a page would leave no room for anything else."""
_SPARE = 2
"""Times the room: what does not fit is passed over for what is smaller."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def with_recollections(
    runtime: "Runtime",
    key: SessionKey | None,
    query: str,
    layers: Layers,
    *,
    shown: Collection[str],
    hidden: int | None,
    room: int,
) -> tuple[Layers, tuple[str, ...]]:
    """The layers with what comes back for the turn's question, and what went wrong; never raises.

    Args:
        runtime: What the engine's sessions share.
        key: Whose turn it is; `None` for a session without history, which remembers nothing.
        query: What the user says.
        layers: What is shown of the session anyway, with the facts that the question may need.
        shown: The ids of the messages that the turn shows.
        hidden: How many further messages the session has, if that is known: with none it has nothing to recall, and of
            few a quarter comes back at most, so that a turn never costs more than the whole conversation would.
        room: The tokens that there are for all of it.
    """
    if key is None or not query.strip():
        return layers, ()
    artifacts = artifacts_of_turn(runtime, key, query, facts=layers.recalled)
    facts = {one.artifact.id for one in artifacts if one.artifact.kind == "facts"}
    memories = memories_of_turn(runtime, key, query)
    settings = runtime.settings
    found: Sequence[RecalledMessage] = ()
    notes: tuple[str, ...] = ()
    others = settings.recall.scope == "user" and key.user_id is not None
    if settings.recall.enabled and (others or hidden != 0):
        top_k, diversity = settings.recall.top_k, settings.recall.diversity
        if hidden is not None and not others:
            top_k = min(top_k, max(hidden // 4, 1))
        found, notes = runtime.recall.for_turn(
            key,
            query,
            shown=shown,
            top_k=top_k,
            diversity=diversity,
            boundary=layers.boundary,
            turn=layers.turn,
        )
    chosen = tuple(fact for fact in layers.recalled if fact.id in facts)
    count = runtime.context_counter.count
    recollected = replace(
        layers,
        recalled=chosen if settings.artifacts.enabled else layers.recalled,
        memories=tuple(
            RecalledLine(one.memory.id, line, count(line), one.score_parts)
            for one in memories
            for line in [render_memory_line(one)]
        ),
        artifacts=tuple(
            RecalledLine(one.artifact.id, one.line, count(one.line), one.score_parts)
            for one in artifacts
            if one.artifact.kind == "tools"
        ),
        messages=tuple(_lines(found, query, runtime, room=room)),
    )
    return recollected, notes


def message_line(message: Message, question: str) -> str:
    """How a recalled message is shown: who said it, and what, in one paragraph. Its day stands above it.

    Of a long one, the sentences that match the question best.
    """
    who = message.name or {Role.USER: "user", Role.ASSISTANT: "assistant"}.get(message.role, message.role.value)
    text = message.text
    if len(text) > _LONG:
        text = " … ".join(excerpts_of(text, question))[:_LONG]
    return f"{' '.join(who.split())}: {' '.join(text.split())}"


def _lines(
    found: "Sequence[RecalledMessage]", question: str, runtime: "Runtime", *, room: int
) -> Iterator[RecalledLine]:
    """The messages' lines, until there are more than there can be room for."""
    left = _SPARE * room
    for one in found:
        if left <= 0:
            break
        message = one.stored.message
        line = message_line(message, question)
        tokens = runtime.context_counter.count(line)
        left -= tokens
        order = (message.created_at or _LONG_AGO, one.place.session_id, one.place.seq)
        yield RecalledLine(message.id or "", line, tokens, one.parts, order)
