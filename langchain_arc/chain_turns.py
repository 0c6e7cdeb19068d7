"""One turn of a chain with memory: builds what the chain sees, and stores the input and the answer."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from arc_common.engine.context_engine import ContextEngine
from arc_common.engine.session import Session
from arc_common.exceptions import BudgetExceededError, MissingDependencyError, StoreError
from arc_common.messages import Message, Role, same_content
from arc_common.tokens.budget import usable_tokens
from langchain_arc.chain_values import input_messages, output_messages, picked
from langchain_arc.fitting import arc_tokens
from langchain_arc.messages import from_arc
from langchain_arc.replays import new_messages, taken_meanwhile
from langchain_arc.states import split_instructions
from langchain_arc.stored_messages import ids_of, stored_batch

try:
    from langchain_core.messages import BaseMessage, BaseMessageChunk
except ImportError as error:
    raise MissingDependencyError("with_arc_memory", package="langchain-core", extra="langchain") from error

_log = logging.getLogger("arc.chains")

CUT_SHORT = (GeneratorExit, KeyboardInterrupt, asyncio.CancelledError)
"""The exceptions that end a stream early without a failure."""

_NOTHING = object()


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """Options for storing and showing turns: see `with_arc_memory`."""

    input_key: str | None = None
    output_key: str | None = None
    history_key: str | None = None
    max_tokens: int | None = None
    max_turns: int | None = None
    max_messages: int | None = None
    include_summary: bool = True
    drop_failed: bool = False
    raise_store_errors: bool = True


class ChainTurn:
    """One turn: call `begin`, then one of `end`, `fail` and `cut_short`."""

    def __init__(self, session: Session, options: TurnOptions, engine: ContextEngine) -> None:
        self._session = session
        self._options = options
        self._engine = engine
        self._known: set[str] = set()
        self._asked: list[Message] = []
        self._new_ids: list[str] = []
        self._written: Any = _NOTHING

    def begin(self, value: Any) -> Any:
        """Store the user's messages; return the chain's input with the conversation so far."""
        options = self._options
        given = input_messages(picked(value, options.input_key, field="input", usual=("input",)))
        instructions, said = split_instructions(given)
        taken = self._checked(given, has_instructions=bool(instructions))
        view = self._view("\n".join(message.text for message in stored_batch(said)), taken=taken)
        self._known = set(ids_of(view))
        view = self._ask(view, stored_batch(said))
        history: list[BaseMessage] = [*instructions, *map(from_arc, view)]
        key = options.history_key or options.input_key
        if options.history_key is None:
            history += _with_ids(said, self._asked)
            if isinstance(value, dict) and key is None:
                key = next(name for name in value if len(value) == 1 or name == "input")
        return {**value, key: history} if isinstance(value, dict) else history

    def write(self, chunk: Any) -> None:
        """Add a chunk of a streamed answer; a message with another id starts the next iteration."""
        before = self._written
        if before is _NOTHING or _begins_anew(before, chunk):
            self._written = chunk
            return
        try:
            self._written = before + chunk
        except TypeError:  # chunks that are whole values: the last one counts
            self._written = chunk

    @property
    def written(self) -> Any:
        """The chunks so far, joined; `None` before the first."""
        return None if self._written is _NOTHING else self._written

    def end(self, output: Any) -> None:
        """Store the answer."""
        if self._written is not _NOTHING or output is not None:
            self._store(self._answer(output))

    def fail(self) -> None:
        """Handle a failed chain: store nothing, and remove the user's new messages if `drop_failed` is set."""
        if not self._options.drop_failed or not self._new_ids:
            return
        try:
            self._session.remove(self._new_ids)
        except Exception as error:  # noqa: BLE001 - the chain's own error is the one that is raised
            self._session.report_save_error(error, self._asked)

    def cut_short(self) -> None:
        """Store the partial answer of a stream that ended early, marked as such; without one, the turn fails."""
        try:
            came = [] if self._written is _NOTHING else self._answer(self._written)
        except Exception as error:  # noqa: BLE001 - a partial answer may be malformed in any way
            self._session.report_save_error(error, self._asked)
            came = []
        marked = [replace(it, metadata={**it.metadata, "cut_short": True}) for it in came if it.content]
        if marked:
            self._store(marked)
        else:
            self.fail()

    def _checked(self, given: Sequence[BaseMessage], *, has_instructions: bool) -> int:
        """Return the tokens of the input; raise if they exceed the budget."""
        tokens, available = arc_tokens(self._engine.token_counter, given), self._engine.budget.input_tokens
        if tokens > available:
            what = "system messages and user message" if has_instructions else "user message"
            raise BudgetExceededError(what, needed=tokens, available=available)
        return tokens

    def _view(self, question: str, *, taken: int) -> list[Message]:
        options = self._options
        unlimited = options.max_tokens is options.max_turns is options.max_messages is None
        budget, own = self._engine.budget, options.max_tokens
        if own is not None and usable_tokens(own, self._engine.token_counter) <= budget.input_tokens - taken:
            most, reserved = own, 0
        else:
            most, reserved = budget.input_limit, taken
        try:
            return self._session.window(
                max_tokens=None if unlimited else most,
                max_turns=options.max_turns,
                max_messages=options.max_messages,
                reserved=reserved,
                include_summary=options.include_summary,
                query=question,
            )
        except StoreError as error:
            if options.raise_store_errors:
                raise
            _log.error("session %r could not be read: %s", self._session.id, error, exc_info=error)
            self._engine.observer.count("context.errors")
            return []

    def _ask(self, view: list[Message], said: list[Message]) -> list[Message]:
        """Store the user's messages; return the view without them."""
        again = _unanswered(view, said)
        if again:
            self._asked = view[-again:]
            return view[:-again]
        self._asked = said
        if not said:
            return view
        try:
            there = {message.id for message in self._session.find(ids_of(said))}
            self._asked = self._session.append(said)
        except StoreError as error:
            if self._options.raise_store_errors:
                raise
            self._session.report_save_error(error, said)
            return view
        asked = {message.id for message in self._asked if message.id}
        self._new_ids = sorted(asked - there)
        return [message for message in view if message.id not in asked]

    def _answer(self, output: Any) -> list[Message]:
        said = output_messages(picked(output, self._options.output_key, field="output", usual=("output",)))
        return stored_batch(said)

    def _store(self, batch: list[Message]) -> None:
        """Store what is new in an answer, which may repeat the conversation and the input."""
        try:
            asked = set(ids_of(self._asked))
            found = self._session.find([name for name in ids_of(batch) if name not in asked])
            known: dict[str, Message | None] = {name: None for name in self._known if name not in asked}
            known.update((message.id, message) for message in found if message.id)
            new = [it for it in new_messages([*self._asked, *batch], known) if it.id not in asked]
            new = new[_echoed(new, self._asked) :]
            stored = self._session.append(new) if new else []
            if again := taken_meanwhile(new, stored, known):
                self._session.append(again)
        except Exception as error:  # noqa: BLE001 - a failed save must not take the answer away; it is reported instead
            self._session.report_save_error(error, batch)


def _unanswered(view: Sequence[Message], said: Sequence[Message]) -> int:
    """Return how many messages at the view's end repeat what the user says now and have no answer yet."""
    tail = view[len(view) - len(said) :] if said and len(said) <= len(view) else ()
    alike = tail and all(
        one.role is Role.USER and same_content(one, other) and one.id and other.id in (None, one.id)
        for one, other in zip(tail, said, strict=True)
    )
    return len(said) if alike else 0


def _echoed(new: Sequence[Message], asked: Sequence[Message]) -> int:
    """Return how many messages at the start repeat the input under other ids, as some chains do."""
    echoes = asked and len(new) > len(asked) and all(map(same_content, new, asked))
    return len(asked) if echoes else 0


def _with_ids(said: Sequence[BaseMessage], asked: Sequence[Message]) -> list[BaseMessage]:
    """Return the messages with their stored ids, so that they are recognised if the chain returns them."""
    if len(said) != len(asked):  # some of them are arc's own, which are not stored
        return list(said)
    return [
        it.model_copy(update={"id": stored.id}) if it.id is None else it for it, stored in zip(said, asked, strict=True)
    ]


def _begins_anew(before: Any, chunk: Any) -> bool:
    if not isinstance(before, BaseMessageChunk) or not isinstance(chunk, BaseMessageChunk):
        return isinstance(before, BaseMessage) and isinstance(chunk, BaseMessage)
    return before.id is not None and chunk.id is not None and before.id != chunk.id
