"""Chains with memory: the user's turn is stored before the chain runs, and the answer when it arrives."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal

from arc_common.engine.context_engine import ContextEngine
from arc_common.engine.session import Session
from arc_common.exceptions import InvalidInputError, MissingDependencyError
from arc_common.tokens.selection import check_limits
from langchain_arc.chain_turns import CUT_SHORT, ChainTurn, TurnOptions
from langchain_arc.chain_values import SessionSource

try:
    from langchain_core.runnables import Runnable, RunnableConfig
    from langchain_core.runnables.base import coerce_to_runnable
    from langchain_core.runnables.utils import ConfigurableFieldSpec, get_unique_config_specs
except ImportError as error:
    raise MissingDependencyError("with_arc_memory", package="langchain-core", extra="langchain") from error


def with_arc_memory(
    runnable: Runnable[Any, Any] | Callable[..., Any],
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
) -> Runnable[Any, Any]:
    """Add memory to a chain: a replacement for `RunnableWithMessageHistory` with the same parameters.

    `with_arc_memory(prompt | model, engine, input_messages_key="question", history_messages_key="history")`, run with
    `config={"configurable": {"session_id": "s"}}`.

    - The user's messages are stored before the chain runs, and its answer when it arrives. Each is stored once, even if
      the chain returns the whole conversation (as agents do) or an unanswered message is sent again.
    - The chain sees the conversation's facts and summary, then the newest whole turns within the limits. System
      messages at the start of the input are instructions: they are shown first and never stored.
    - If a streamed answer has several iterations, the last one is stored. If a stream is closed or cancelled, the part
      that arrived is stored, with `{"cut_short": True}` in its metadata.
    - An answer that could not be stored is logged, counted (`save.errors`) and passed to the engine's `on_save_error`;
      the chain still returns it.
    - Sync calls, async calls, streams and batches all work; no event loop is blocked.

    Args:
        runnable: Takes a list of messages, a dictionary with one key for all messages, or one with a key for the input
            and one for the history; returns text, messages, or a dictionary with them.
        engine: Stores the conversations.
        input_messages_key: The input's key in a dictionary; by default its only key, or "input".
        output_messages_key: The answer's key in a dictionary; by default its only key, or "output".
        history_messages_key: The key for the history; without it, the history precedes the input.
        history_factory_config: The keys of `config["configurable"]` that name the session: any of `session_id`,
            `user_id`, `caller_id` and `account_id`, or whatever `get_session` takes; by default `session_id`.
        get_session: Returns the session for these keys, passed by name: `lambda user_id, conversation_id:
            engine.session(conversation_id, user_id=user_id)`.
        session_id: The session of runs whose configuration names none.
        user_id: The user to whom the conversations of such runs belong.
        caller_id: The application to which the conversations belong.
        account_id: The account recorded with the conversations.
        max_tokens: The most tokens of history; by default, and at most, what the input leaves of the engine's budget.
            The chain's own prompt is not counted: leave room for a long one here.
        max_turns: The most turns of history.
        max_messages: The most messages of history. Without any limit, the settings' limits apply.
        include_summary: Whether facts and summary precede the messages.
        on_error: What is kept of a turn when the chain raises (the error itself is always raised): "keep_user" keeps
            the user's messages, "drop_turn" keeps nothing.
        on_store_error: What happens when the store fails before the chain runs: "raise" stops the turn, "continue" runs
            it without history, or unsaved; the failure is logged and counted (`context.errors`, `save.errors`).

    Raises:
        BudgetExceededError: In a run: the input alone exceeds the engine's budget. Nothing is stored, and the chain is
            not run.
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
    source = SessionSource(
        engine, session_id, user_id, caller_id, account_id, tuple(history_factory_config or ()), get_session
    )
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
    return _ChainWithMemory(coerce_to_runnable(runnable), source, options)


class _ChainWithMemory(Runnable[Any, Any]):
    """Runs a chain, storing the user's turn before it and the answer after it."""

    def __init__(self, runnable: Runnable[Any, Any], source: SessionSource, options: TurnOptions) -> None:
        self._runnable = runnable
        self._source = source
        self._options = options

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
        try:
            output = self._runnable.invoke(value, config, **kwargs)
        except BaseException:
            turn.fail()
            raise
        turn.end(output)
        return output

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 - the same
        turn = self._turn(config)
        value = await asyncio.to_thread(turn.begin, input)
        try:
            output = await self._runnable.ainvoke(value, config, **kwargs)
        except BaseException:
            await asyncio.to_thread(turn.fail)
            raise
        await asyncio.to_thread(turn.end, output)
        return output

    def stream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any | None) -> Iterator[Any]:  # noqa: A002 - the same
        turn = self._turn(config)
        value = turn.begin(input)
        try:
            with _closed(self._runnable.stream(value, config, **kwargs)) as chunks:
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
        turn = self._turn(config)
        value = await asyncio.to_thread(turn.begin, input)
        try:
            async with _aclosed(self._runnable.astream(value, config, **kwargs)) as chunks:
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
        return ChainTurn(self._source.session(config), self._options, self._source.engine)


@contextmanager
def _closed(chunks: Iterator[Any]) -> Iterator[Iterator[Any]]:
    """Close the stream at the end, so that a model stops as soon as nobody reads its answer."""
    try:
        yield chunks
    finally:
        if isinstance(chunks, Generator):
            chunks.close()


@asynccontextmanager
async def _aclosed(chunks: AsyncIterator[Any]) -> AsyncIterator[AsyncIterator[Any]]:
    """Async form of `_closed`."""
    try:
        yield chunks
    finally:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()
