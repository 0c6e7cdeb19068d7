"""A chain with a memory: the user's turn is stored before it runs, the answer when it is there."""

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
    """A chain that remembers its conversation: what `RunnableWithMessageHistory` is used for, with its parameters.

    `with_arc_memory(prompt | model, engine, input_messages_key="question", history_messages_key="history")`, run with
    `config={"configurable": {"session_id": "s"}}`.

    - The user's messages are stored before the chain runs, its answer when it is there; each once, also if the chain
      hands the whole conversation back (an agent does), and if a message is sent again that nothing answered yet.
    - The chain sees what a model should see of the conversation: facts and summary, then the newest whole turns within
      the limits. System messages at the start of the input are instructions: shown first, never stored.
    - Of a streamed answer in several iterations the last one is stored. A stream that is closed or cancelled is stored
      as far as it came, and its metadata says so (`{"cut_short": True}`).
    - An answer that could not be stored is logged, counted (`save.errors`) and handed to the engine's `on_save_error`;
      it comes back all the same.
    - Sync, async, streaming and batches; no event loop is blocked.

    Args:
        runnable: Takes a list of messages, a dictionary with one key for all messages, or one with a key for the input
            and one for the history; gives text, messages, or a dictionary with them.
        engine: Keeps the conversations.
        input_messages_key: The input's key in a dictionary; by default its only key, or "input".
        output_messages_key: The answer's key in a dictionary; by default its only key, or "output".
        history_messages_key: The key that the history goes to; without one it stands before the input.
        history_factory_config: Which keys of `config["configurable"]` name the session: of `session_id`, `user_id`,
            `caller_id` and `account_id`, or whatever `get_session` takes; by default `session_id`.
        get_session: Gives the session for these keys, by name: `lambda user_id, conversation_id:
            engine.session(conversation_id, user_id=user_id)`.
        session_id: The session of runs whose configuration names none.
        user_id: The user whom conversations belong to, likewise.
        caller_id: The application that they belong to.
        account_id: The account that they are noted under.
        max_tokens: At most so many tokens of history; by default, and at most, what the input leaves of the engine's
            budget. The chain's own prompt is not known here: where it is long, this leaves room for it.
        max_turns: At most so many turns of it.
        max_messages: At most so many messages of it. With no limit at all, the settings' own hold.
        include_summary: Whether facts and summary stand before the messages.
        on_error: What stays of a turn when the chain raises (the error itself is always raised): "keep_user" for the
            user's messages, "drop_turn" for nothing.
        on_store_error: What a store does that fails before the chain runs: "raise" stops the turn, "continue" runs it
            without history, or unsaved; logged and counted (`context.errors`, `save.errors`).

    Raises:
        BudgetExceededError: In a run: the input alone is larger than the engine's budget. Nothing is stored, and the
            chain is not run.
        InvalidInputError: An argument is not what it should be. In a run: nothing names the session, or input or output
            are no messages.
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
    """Runs a chain between the two halves of a turn's storing."""

    def __init__(self, runnable: Runnable[Any, Any], source: SessionSource, options: TurnOptions) -> None:
        self._runnable = runnable
        self._source = source
        self._options = options

    @property
    def InputType(self) -> Any:  # noqa: N802 - LangChain's name
        """What the chain takes, without the history."""
        return Any

    @property
    def OutputType(self) -> Any:  # noqa: N802 - LangChain's name
        """What the chain gives."""
        return self._runnable.OutputType

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """The chain's own keys, and those that name the session."""
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
    """The stream, closed at the end: a model that nobody reads any more stops at once."""
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
