"""Chains with memory: the user's turn is stored before the chain runs, and the answer when it arrives."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, BaseMessageChunk, HumanMessage, convert_to_messages
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import coerce_to_runnable
from langchain_core.runnables.utils import ConfigurableFieldSpec, Output, get_unique_config_specs

from arc_common.documents import checked_items
from arc_common.engine.context_engine import ContextEngine, checked_engine
from arc_common.engine.session import Session
from arc_common.exceptions import BudgetExceededError, InvalidInputError, StoreError
from arc_common.messages import Message, Role, same_content
from arc_common.tokens.budget import usable_tokens
from arc_common.tokens.overflow import LearnedLimits, aanswered, answered, astreamed, streamed
from arc_common.tokens.selection import check_limits
from langchain_arc.messages import from_arc
from langchain_arc.stored_messages import ids_of, new_messages, split_instructions, stored_batch, taken_meanwhile
from langchain_arc.token_limit import arc_tokens

_NAMES = ("session_id", "user_id", "caller_id", "account_id")
_FORMS = "text, a message, a list of messages, or a dictionary with one of these under a key"


@dataclass(frozen=True, slots=True)
class SessionSource:
    """Finds the session of a run."""

    engine: ContextEngine
    session_id: str | None = None
    user_id: str | None = None
    caller_id: str = "default"
    account_id: str | None = None
    specs: Sequence[ConfigurableFieldSpec] = ()
    get_session: Callable[..., Session] | None = None

    def __post_init__(self) -> None:
        checked_engine(self.engine)
        self.engine.session(
            self.session_id, user_id=self.user_id, caller_id=self.caller_id, account_id=self.account_id
        )  # checks the ids early
        if self.get_session is not None and not callable(self.get_session):
            raise InvalidInputError("get_session", self.get_session, "a function that returns a Session, or None")
        for spec in self.specs:
            if self.get_session is None and spec.id not in _NAMES:
                raise InvalidInputError(
                    "history_factory_config", spec.id, f"one of {', '.join(_NAMES)}, or a get_session that takes it"
                )

    @property
    def fields(self) -> list[ConfigurableFieldSpec]:
        """The configuration keys that name the session."""
        if self.specs:
            return list(self.specs)
        return [
            ConfigurableFieldSpec(
                id="session_id",
                annotation=str,
                name="Session ID",
                description="The conversation's id.",
                default=self.session_id,
                is_shared=True,
            )
        ]

    def session(self, config: RunnableConfig | None) -> Session:
        """Return the run's session."""
        configurable: Mapping[str, Any] = (config or {}).get("configurable") or {}
        names = {spec.id: configurable[spec.id] for spec in self.fields if spec.id in configurable}
        if self.session_id is not None:
            names.setdefault("session_id", self.session_id)
        missing = [spec.id for spec in self.fields if spec.id not in names]
        if missing:
            wanted = ", ".join(f'"{name}": …' for name in missing)
            raise InvalidInputError('config["configurable"]', dict(names), f"{{{wanted}}}")
        if self.get_session is not None:
            return self.get_session(**names)
        default = {"user_id": self.user_id, "caller_id": self.caller_id, "account_id": self.account_id}
        return self.engine.session(**{**default, **names})


def picked(value: Any, key: str | None, *, field: str, usual: Sequence[str]) -> Any:
    """Return a dictionary's value under the given key, its only key or a usual one; other values unchanged."""
    if not isinstance(value, Mapping):
        return value
    if key is None:
        key = next(iter(value)) if len(value) == 1 else next((name for name in usual if name in value), None)
    if key is None or key not in value:
        raise InvalidInputError(field, sorted(map(str, value)), f"a dictionary with the key {key or usual[0]!r}")
    return value[key]


def messages_of(value: Any, field: str, text_as: type[BaseMessage]) -> list[BaseMessage]:
    """Convert a chain's input or answer to messages."""
    if isinstance(value, str):
        return [text_as(value)]
    if isinstance(value, BaseMessage):
        return [value]
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        try:
            return list(convert_to_messages(value))
        except (ValueError, NotImplementedError, TypeError, RecursionError) as error:
            raise InvalidInputError(field, value, _FORMS) from error
    raise InvalidInputError(field, value, _FORMS)


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

    def __init__(self, session: Session, options: TurnOptions, engine: ContextEngine, limits: LearnedLimits) -> None:
        self._limits = limits
        self._counted = 0
        self._session = session
        self._options = options
        self._engine = engine
        self._known: set[str] = set()
        self._asked: list[Message] = []
        self._new_ids: list[str] = []
        self._written: Any = _NOTHING

    def begin(self, value: Any) -> Any:
        """Store the user's messages; return the chain's input with the conversation so far."""
        given = self._given(value)
        instructions, said = split_instructions(given)
        taken = self._checked(given, has_instructions=bool(instructions))
        view = self._view("\n".join(message.text for message in stored_batch(said)), taken=taken)
        self._known = set(ids_of(view))
        view = self._ask(view, stored_batch(said))
        return self._with_history(value, instructions, view, said)

    def begin_again(self, value: Any, error: Exception) -> tuple[Any, AbstractContextManager[None]]:
        """Return the input with less of the conversation, after a model refused it as too long (see `Again`)."""
        note = self._limits.learn(error, self._counted, whole=False)
        instructions, said = split_instructions(self._given(value))
        question = "\n".join(message.text for message in stored_batch(said))
        asked = {message.id for message in self._asked}
        view = self._view(question, taken=arc_tokens(self._engine.token_counter, [*instructions, *said]))
        self._session.note(note)
        shown = self._with_history(value, instructions, [one for one in view if one.id not in asked], said)
        return shown, self._limits.last_try(self._counted)

    def _given(self, value: Any) -> list[BaseMessage]:
        given = picked(value, self._options.input_key, field="input", usual=("input",))
        return messages_of(given, "input", HumanMessage)

    def _with_history(
        self, value: Any, instructions: Sequence[BaseMessage], view: Sequence[Message], said: Sequence[BaseMessage]
    ) -> Any:
        """Return the chain's input with the conversation so far."""
        options = self._options
        history: list[BaseMessage] = [*instructions, *map(from_arc, view)]
        self._counted = arc_tokens(self._engine.token_counter, [*history, *said])
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
        budget, own = self._limits.limited(self._engine.budget), options.max_tokens
        unlimited = unlimited and budget == self._engine.budget
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
        said = picked(output, self._options.output_key, field="output", usual=("output",))
        return stored_batch(messages_of(said, "output", AIMessage))

    def _store(self, batch: list[Message]) -> None:
        """Store the new messages of an answer, which may repeat the conversation and the input."""
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
    """Return how many unanswered messages at the view's end repeat the user's new ones."""
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


def with_arc_memory(
    runnable: Runnable[Any, Output] | Callable[..., Output],
    engine: ContextEngine,
    *,
    input_messages_key: str | None = None,
    output_messages_key: str | None = None,
    history_messages_key: str | None = None,
    history_factory_config: Sequence[ConfigurableFieldSpec] | None = None,
    get_session: Callable[..., Session] | None = None,
    session_id: str | None = None,
    user_id: str | None = None,
    caller_id: str = "default",
    account_id: str | None = None,
    max_tokens: int | None = None,
    max_turns: int | None = None,
    max_messages: int | None = None,
    include_summary: bool = True,
    on_error: Literal["keep_user", "drop_turn"] = "keep_user",
    on_store_error: Literal["raise", "continue"] = "raise",
) -> Runnable[Any, Output]:
    """Add memory to a chain: a replacement for `RunnableWithMessageHistory` with the same parameters.

        chain = with_arc_memory(prompt | model, engine, input_messages_key="question", history_messages_key="history")
        chain.invoke({"question": "Hello"}, {"configurable": {"session_id": "s"}})

    - The user's messages are stored before the chain runs, and its answer when it arrives. Each is stored once, even if
      the chain returns the whole conversation (as agents do) or an unanswered message is sent again.
    - The chain sees the conversation's facts and summary, then the newest whole turns within the limits. System
      messages at the start of the input are instructions: they are shown first and never stored.
    - A request that the model refuses as too long is made once more with less of the conversation, unless a stream has
      begun: see `ArcMemoryMiddleware`.
    - If a streamed answer has several iterations, the last one is stored. If a stream is closed or cancelled, the part
      that arrived is stored, with `{"cut_short": True}` in its metadata.
    - An answer that could not be stored is logged, counted (`save.errors`) and passed to the engine's `on_save_error`;
      the chain still returns it.
    - Sync calls, async calls, streams and batches all work; no event loop is blocked.
    - The chain takes a list of messages, a dictionary with one key for all messages, or one with a key for the input
      and one for the history; it returns text, messages, or a dictionary with them.
    - `input_messages_key` and `output_messages_key` are by default a dictionary's only key, or "input" and "output";
      without `history_messages_key`, the history precedes the input.
    - `history_factory_config` names the keys of `config["configurable"]` that name the session: any of `session_id`
      (the default), `user_id`, `caller_id` and `account_id`, or whatever `get_session` takes by name. The arguments
      with these names, as in `ContextEngine.session`, apply to runs whose configuration has none.
    - `max_tokens`, `max_turns` and `max_messages` limit the history; without any, the settings' limits apply. It gets
      at most the tokens that the input leaves of the engine's budget. The chain's own prompt is not counted: leave room
      for a long one.
    - When the chain raises, `on_error` "keep_user" keeps the user's messages, and "drop_turn" nothing of the turn.
    - When the store fails before the chain runs, `on_store_error` "raise" stops the turn, and "continue" runs it
      without history, or unsaved; the failure is logged and counted (`context.errors`, `save.errors`).

    Raises:
        BudgetExceededError: In a run: the input alone exceeds the engine's budget. The chain is not run.
        InvalidInputError: An argument is invalid. In a run: nothing names the session, or the input or output cannot be
            read as messages.
        SessionNotFoundError: In a run: the session belongs to another user.
        StoreError: In a run: the store failed before the chain ran, and `on_store_error` is "raise".
    """
    check_limits(max_turns=max_turns, max_messages=max_messages, max_tokens=max_tokens)
    for name, value, allowed in (
        ("on_error", on_error, ("keep_user", "drop_turn")),
        ("on_store_error", on_store_error, ("raise", "continue")),
    ):
        if value not in allowed:
            raise InvalidInputError(name, value, f'"{allowed[0]}" or "{allowed[1]}"')
    if not isinstance(include_summary, bool):
        raise InvalidInputError("include_summary", include_summary, "True or False")
    fields = () if history_factory_config is None else history_factory_config
    specs = checked_items("history_factory_config", fields, ConfigurableFieldSpec, expected="ConfigurableFieldSpecs")
    source = SessionSource(engine, session_id, user_id, caller_id, account_id, tuple(specs), get_session)
    options = TurnOptions(
        input_key=input_messages_key,
        output_key=output_messages_key,
        history_key=history_messages_key,
        max_tokens=max_tokens,
        max_turns=max_turns,
        max_messages=max_messages,
        include_summary=include_summary,
        drop_failed=on_error == "drop_turn",
        raise_store_errors=on_store_error == "raise",
    )
    try:
        return _ChainWithMemory(coerce_to_runnable(runnable), source, options)
    except (TypeError, RecursionError) as error:
        expected = "a Runnable, a function, or a dictionary of these"
        raise InvalidInputError("runnable", runnable, expected) from error


class _ChainWithMemory(Runnable[Any, Output]):
    """Runs a chain, storing the user's turn before it and the answer after it."""

    def __init__(self, runnable: Runnable[Any, Output], source: SessionSource, options: TurnOptions) -> None:
        self._runnable = runnable
        self._source = source
        self._options = options
        self._limits = LearnedLimits(source.engine.observer)

    @property
    def InputType(self) -> Any:  # noqa: N802 - LangChain's name
        """The chain's input, without the history."""
        return Any

    @property
    def OutputType(self) -> Any:  # noqa: N802 - LangChain's name
        """The chain's output."""
        return self._runnable.OutputType

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """The chain's own configuration keys, and those that name the session."""
        return get_unique_config_specs([*self._runnable.config_specs, *self._source.fields])

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 - LangChain's name
        turn = self._turn(config)
        value = turn.begin(input)
        ask = partial(self._runnable.invoke, config=config, **kwargs)
        try:
            output = answered(ask, value, partial(turn.begin_again, input))
        except BaseException:
            turn.fail()
            raise
        turn.end(output)
        return output

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 - the same
        turn = self._turn(config)
        value = await asyncio.to_thread(turn.begin, input)
        ask = partial(self._runnable.ainvoke, config=config, **kwargs)
        try:
            output = await aanswered(ask, value, partial(turn.begin_again, input))
        except BaseException:
            await asyncio.to_thread(turn.fail)
            raise
        await asyncio.to_thread(turn.end, output)
        return output

    def stream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any | None) -> Iterator[Any]:  # noqa: A002 - the same
        turn = self._turn(config)
        value = turn.begin(input)
        ask = partial(self._runnable.stream, config=config, **kwargs)
        try:
            with closing(streamed(ask, value, partial(turn.begin_again, input))) as chunks:
                for chunk in chunks:
                    turn.write(chunk)
                    yield chunk
        except CUT_SHORT:
            turn.cut_short()
            raise
        except BaseException:
            turn.fail()
            raise
        turn.end(turn.written)

    async def astream(
        self,
        input: Any,  # noqa: A002 - the same
        config: RunnableConfig | None = None,
        **kwargs: Any | None,
    ) -> AsyncIterator[Any]:
        async def ask(value: Any) -> AsyncIterator[Any]:
            return self._runnable.astream(value, config, **kwargs)

        turn = self._turn(config)
        value = await asyncio.to_thread(turn.begin, input)
        try:
            async with aclosing(astreamed(ask, value, partial(turn.begin_again, input))) as chunks:
                async for chunk in chunks:
                    turn.write(chunk)
                    yield chunk
        except CUT_SHORT:
            await asyncio.to_thread(turn.cut_short)
            raise
        except BaseException:
            await asyncio.to_thread(turn.fail)
            raise
        await asyncio.to_thread(turn.end, turn.written)

    def _turn(self, config: RunnableConfig | None) -> ChainTurn:
        return ChainTurn(self._source.session(config), self._options, self._source.engine, self._limits)
