"""Replays turns: rebuilds the context window of a stored turn as it would be built today."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from arc_common.context import NO_LAYERS, ContextWindow, Costs, Layers, build_context_window
from arc_common.engine.turn import idle_note, with_recollections
from arc_common.exceptions import InvalidInputError, SessionNotFoundError
from arc_common.memory.summaries.trigger import is_long_enough
from arc_common.messages import Role
from arc_common.protocols import SessionKey, StoredMessage
from arc_common.protocols.summaries import View
from arc_common.tokens.budget import TokenBudget
from arc_common.tokens.counters import message_tokens_batch
from arc_common.tokens.selection import says_something

if TYPE_CHECKING:
    from arc_common.engine.runtime import Runtime

NOT_STORED = "replayed from what is stored: without the application's own system prompt, tools and documents"
BEYOND = "facts and summary cover later turns by now, so they are left out; the turns before this one are shown"
NOT_ADOPTED = "summaries are written, but none is adopted yet: the last turns are shown"
LATER = "facts and summary were adopted after this turn"


@dataclass(frozen=True, slots=True)
class ReplayedTurn:
    """A stored turn with its rebuilt context window: its number from 1, and the session's number of turns."""

    number: int
    count: int
    window: ContextWindow


def replay(runtime: "Runtime", key: SessionKey, *, turn: int | str | None, budget: TokenBudget) -> ReplayedTurn:
    """Build the request of a stored turn as it would be built today, without changing anything."""
    if runtime.store.get(key) is None:
        raise SessionNotFoundError(key.session_id)
    stored = runtime.store.read(key)
    opening = [
        place for place, one in enumerate(stored) if one.message.role is Role.USER and says_something(one.message)
    ]
    number = _checked(turn, [stored[place].message.id for place in opening])
    start = opening[number - 1]
    end = opening[number] if number < len(opening) else len(stored)
    asked = stored[start]
    view, notes = _adopted(runtime, key, asked)
    boundary = view.boundary if view else 0
    shown = [one for one in stored[: _before_the_answer(stored, start, end)] if one.seq > boundary]
    messages = [one.message for one in shown]
    request = runtime.request(budget)
    if view is not None and not runtime.settings.conversation.window_is_set:
        request = replace(request, max_turns=None, max_messages=None)
    pins = tuple(runtime.pins.pins(key))
    note = idle_note(runtime, request, messages)
    layers = replace(_layers(runtime, key, view, asked.message.text), pins=pins, idle_note=note)
    if view is not None and budget.max_tokens(
        "recalled"
    ):  # without a view, the messages that the turn itself showed are unknown
        layers, missed = with_recollections(
            runtime,
            key,
            asked.message.text,
            replace(layers, turn=asked.seq),
            shown={message.id for message in messages if message.id},
            hidden=view.covered,
            room=budget.max_tokens("recalled"),
        )
        notes = (*notes, *missed)
    if shown[-1] is asked:  # without tool calls the question is the query, as in `Session.context`
        request = replace(request, query=messages.pop())
    window = build_context_window(
        request,
        messages,
        costs=Costs(runtime.context_counter, _tokens(runtime, shown)),
        layers=layers,
        notes=(NOT_STORED, *notes),
        stored=True,
    )
    return ReplayedTurn(number, len(opening), window)


def _checked(turn: int | str | None, ids: Sequence[str | None]) -> int:
    count = len(ids)
    if not count:
        raise InvalidInputError("turn", turn, "a session with a user message; this one has none")
    if turn is None:
        return count
    if isinstance(turn, str) and turn in ids:
        return ids.index(turn) + 1
    if isinstance(turn, bool) or not isinstance(turn, int) or not 1 <= turn <= count:
        expected = f"a whole number from 1 to {count}, or the id of one: the session's user messages"
        raise InvalidInputError("turn", turn, expected)
    return turn


def _before_the_answer(stored: Sequence[StoredMessage], start: int, end: int) -> int:
    """Return the position where the turn's last answer begins, because the model had not seen its own answer."""
    while end > start + 1 and stored[end - 1].message.role is Role.ASSISTANT:
        end -= 1
    return end


def _adopted(runtime: "Runtime", key: SessionKey, asked: StoredMessage) -> tuple[View | None, tuple[str, ...]]:
    """Return the view if it is current and ends before the turn, and the notes for the receipt."""
    memory = runtime.memory
    found = memory.inspect(key) if memory else None
    view = found.view if found else None
    if view is None or view.stale:
        due = found and found.segments and is_long_enough(found.message_count, runtime.settings.summary)
        return None, (NOT_ADOPTED,) if due else ()
    if view.boundary >= asked.seq:
        return None, (BEYOND,)
    when = asked.message.created_at
    return view, (LATER,) if when is not None and view.adopted_at > when else ()


def _layers(runtime: "Runtime", key: SessionKey, view: View | None, query: str) -> Layers:
    memory = runtime.memory
    if view is None or memory is None:
        return NO_LAYERS
    return memory.layers(key, replace(runtime.store.summaries.state(key, limit=0, view=False), view=view), query)


def _tokens(runtime: "Runtime", stored: Sequence[StoredMessage]) -> dict[int, int]:
    """Return the messages' counts by `id()`, using the stored counts of the same counter."""
    others = [one.message for one in stored if one.counter != runtime.token_counter.name]
    counts = message_tokens_batch(runtime.context_counter, others)
    return {id(one.message): one.tokens for one in stored} | dict(zip(map(id, others), counts, strict=True))
