"""Session: one conversation, as its user sees it."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from arc_common.concurrency import async_form, replying, started
from arc_common.context import ContextWindow, ViewLimits, as_documents
from arc_common.documents import Document, ScoredDocument
from arc_common.engine.artifacts import add_artifact, forget_artifacts
from arc_common.engine.runtime import Runtime
from arc_common.engine.turn import Reader
from arc_common.exceptions import EngineClosedError, InvalidInputError
from arc_common.facts import Fact
from arc_common.memory.conversation import ConversationLog, StreamedTurn, as_messages
from arc_common.messages import Message, Role
from arc_common.observability import timed
from arc_common.protocols import SessionKey
from arc_common.protocols.summaries import ConversationSummary, ScoredMessage
from arc_common.tokens.budget import TokenBudget
from arc_common.tokens.selection import check_limits

_log = logging.getLogger("arc.session")


class Session:
    """One conversation of one caller and user.

    Its methods block; each has an async form with an `a` in front, of the same signature and behaviour.
    """

    def __init__(self, runtime: Runtime, key: SessionKey | None) -> None:
        self._runtime = runtime
        self._workers = runtime.workers
        self._key = key

    @property
    def id(self) -> str | None:
        """The session's id; `None` for a session without history."""
        return self._key.session_id if self._key else None

    def append(self, messages: Message | Iterable[Message]) -> list[Message]:
        """Store messages behind those that are there; the conversation is created if need be.

        - Idempotent: a message whose id is there with the same content is left as it is; with other content it
          becomes a new revision in its old place. Messages without an id get one.
        - All of them or none; durable on return; ordered across processes.
        - Messages that arc itself made are passed over.

        Returns:
            The messages as they are stored, with ids and times.

        Raises:
            InvalidInputError: A message can't be stored, or the session has no id. Nothing was written.
            SessionNotFoundError: The session belongs to another user.
            StoreError: The store failed. Nothing was written.
        """
        listed = as_messages(messages)
        with replying(), timed(self._runtime.observer, "context.save"):
            stored = self._log().append(listed)
        messages = [one.message for one in stored]
        if self._key is not None:
            self._runtime.saved(self._key, messages, edited=[one.message.id or "" for one in stored if one.edited])
        return messages

    aappend = async_form(append)

    def save_turn(
        self, user: Message | str, assistant: Message | str | Iterable[Message], *, success: bool = True
    ) -> None:
        """Save the user's message and the answer to it; never raises into the reply.

        - A turn that did not succeed is not saved.
        - A save that fails is logged, counted (`save.errors`) and handed to the engine's `on_save_error`.
        - A session without an id saves nothing.

        Args:
            user: The user's message.
            assistant: The answer; with tool calls, all messages of it in their order.
            success: Whether the turn came to its end.
        """
        if not success or self._key is None:
            self._runtime.observer.count("save.skipped")
            return
        messages: list[Message] = []
        try:
            messages = [_as_message(user, Role.USER), *_as_answer(assistant)]
            self.append(messages)
        except Exception as error:  # noqa: BLE001 - a failed save must not break the reply; it is reported instead
            self.report_save_error(error, messages)

    async def asave_turn(
        self, user: Message | str, assistant: Message | str | Iterable[Message], *, success: bool = True
    ) -> None:
        """Async form of `save_turn`; saves also when the task is cancelled meanwhile."""
        try:
            await self._workers.run(self.save_turn, user, assistant, success=success)
        except EngineClosedError as error:
            self.report_save_error(error, [])

    def stream_turn(self, user: Message | str) -> StreamedTurn:
        """Collect a streamed answer and save the turn at its end: see `StreamedTurn`."""
        return StreamedTurn(_as_message(user, Role.USER), save=self.save_turn, asave=self.asave_turn)

    def report_save_error(self, error: Exception, messages: Sequence[Message]) -> None:
        """Log and count messages that could not be saved, and hand them to the engine's `on_save_error`; never raises.

        For adapters whose framework would swallow the error.
        """
        runtime = self._runtime
        _log.error("a turn of session %r was not saved: %s", self.id, error, exc_info=error)
        runtime.observer.count("save.errors")
        if runtime.on_save_error is None:
            return
        try:
            runtime.on_save_error(error, messages)
        except Exception:  # noqa: BLE001 - the user's own handler must not break the reply either
            _log.exception("on_save_error itself failed")

    async def areport_save_error(self, error: Exception, messages: Sequence[Message]) -> None:
        """Async form of `report_save_error`; works also when the engine is closed."""
        await asyncio.wrap_future(started(lambda: self.report_save_error(error, messages), name="arc-save-error"))

    def messages(self, *, limit: int | None = None, before: str | None = None) -> list[Message]:
        """The originals, oldest first.

        Args:
            limit: At most so many, the newest.
            before: Only those before the message with this id.

        Raises:
            InvalidInputError: The limit is negative, or there is no message with that id.
            SessionNotFoundError: The session belongs to another user.
            StoreError: The store failed.
        """
        if self._key is None:
            return []
        return self._log().originals(limit=limit, before=before)

    amessages = async_form(messages)

    def window(
        self,
        *,
        max_tokens: int | None = None,
        max_turns: int | None = None,
        max_messages: int | None = None,
        reserved: int = 0,
        keep_opening: bool = False,
        keep_newest: bool = False,
        following: Sequence[Message] = (),
        count: Callable[[Message], int] | None = None,
        include_summary: bool = True,
        query: str = "",
    ) -> list[Message]:
        """The newest whole turns that fit all limits together: see `select_window` for what holds.

        - Behind one leading system message with facts and summary, once the conversation is summarised.
        - With no limit at all, the settings' own hold: turns or messages, and the default budget's tokens.
        - Reads as many messages as it needs, however long the conversation is.

        Args:
            max_tokens: At most so many tokens, system messages at the start included (which are never left out: when
                they alone are larger, only they come).
            max_turns: At most so many turns.
            max_messages: At most so many messages.
            reserved: Tokens of `max_tokens` that something else takes, a section of the receipt; it may be all of them
                and more.
            keep_opening: Keep what comes before the first user message (a greeting) when the whole conversation fits;
                with `keep_newest` only until the user speaks.
            keep_newest: Treat the newest turn as the one that is running: its user message is there whole, and its
                newest exchange, if need be shortened, also where `reserved` leaves no room for them.
            following: Messages behind the stored ones that aren't stored themselves.
            count: Counts a message; by default the engine's counter does, once, when the message is stored.
            include_summary: Whether facts and summary stand in front, in place of their messages.
            query: What the user asks; by default the newest user message, while it waits for an answer. Behind facts
                and summary stands what comes back for it, within the budget's limit for recalled items and a quarter of
                the limit. None of it without `include_summary`.

        Raises:
            BudgetExceededError: With `keep_newest`: the newest user message, with the system messages at the start, is
                larger than `max_tokens`.
            InvalidInputError: A limit is negative or no whole number.
            SessionNotFoundError: The session belongs to another user.
            StoreError: The store failed.
        """
        check_limits(max_turns=max_turns, max_messages=max_messages, max_tokens=max_tokens, reserved=reserved)
        if reserved is None:
            raise InvalidInputError("reserved", reserved, "a whole number of at least 0")
        if not isinstance(query, str):
            raise InvalidInputError("query", query, "text")
        if count is not None and not callable(count):
            raise InvalidInputError("count", count, "a function from a message to its tokens, or None")
        following = as_messages(following, "following")
        if self._key is None:
            return []
        limits = ViewLimits(
            max_tokens,
            max_turns,
            max_messages,
            reserved,
            keep_opening=keep_opening,
            keep_newest=keep_newest,
            include_summary=include_summary,
        )
        with replying():
            return self._reader().view(limits, following=following, count=count, query=query)

    awindow = async_form(window)

    def context(
        self,
        query: Message | str | None = None,
        *,
        system_prompt: str | None = None,
        documents: Sequence[Document | ScoredDocument | str] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        response_format: Mapping[str, Any] | None = None,
        budget: TokenBudget | None = None,
        history: Sequence[Message] | None = None,
    ) -> ContextWindow:
        """What the model gets to see on this turn: see `ContextWindow` for what holds.

        Args:
            query: The current user message; `None` when it is in the history already: then the newest user message is
                the current one, and what follows it is the turn that is running.
            system_prompt: The instructions.
            documents: Retrieved text for this turn, best first; by default the engine's own documents are searched.
            tools: The tools' schemas in OpenAI form; they cost tokens.
            response_format: The answer's schema; it costs tokens.
            budget: What the request may cost; by default the settings' budget.
            history: Takes the place of the stored history.

        Raises:
            BudgetExceededError: The system prompt and the user message alone don't fit.
            InvalidInputError: An argument is not what it should be, or there is no user message at all.
            SessionNotFoundError: The session belongs to another user.
            StoreError: The store failed.
        """
        request = replace(
            self._runtime.request(budget),
            query=None if query is None else _as_message(query, Role.USER),
            system_prompt=system_prompt,
            documents=as_documents(documents),
            tools=tools,
            response_format=response_format,
        )
        with replying():
            return self._reader().context(request, history, retrieve=documents is None)

    acontext = async_form(context)

    def facts(self, *, include_superseded: bool = False, include_ungrounded: bool = False) -> list[Fact]:
        """What the conversation established: the most important first, the newest first among equals.

        Each fact's `sources` are the ids of the messages that say it: see `find`.

        Args:
            include_superseded: Also those that no longer hold.
            include_ungrounded: Also what a model made up: it is kept for inspection, and never shown to a model.
        """
        memory = self._runtime.memory
        if memory is None or self._key is None:
            return []
        return memory.facts(
            self._key, include_superseded=bool(include_superseded), include_ungrounded=bool(include_ungrounded)
        )

    afacts = async_form(facts)

    def summary(self) -> ConversationSummary | None:
        """What stands for the older messages by now; `None` if nothing does."""
        memory = self._runtime.memory
        return None if memory is None or self._key is None else memory.summary(self._key)

    asummary = async_form(summary)

    def summarize(self) -> ConversationSummary | None:
        """Have what is due written now (and what was said indexed for recall), wait for it, and give the summary."""
        memory = self._runtime.memory
        if self._key is not None and self._runtime.settings.recall.enabled:
            self._runtime.recall.catch_up(self._key)
        if memory is None or self._key is None:
            return None
        memory.summarize(self._key)
        return memory.summary(self._key)

    asummarize = async_form(summarize)

    def remember(self) -> None:
        """Have what it says read for long-term memories soon, in the background, also if it has no user.

        Sessions of a user are read for the user's memories as they save. One of nobody would remember for itself alone,
        where its facts serve, so it is read when it is asked for. Nothing where `settings.memory.enabled` is off.

        Raises:
            EngineClosedError: The engine was closed.
        """
        runtime = self._runtime
        if self._key is not None and runtime.settings.memory.enabled:
            runtime.long_term.read_soon(self._key)

    aremember = async_form(remember)

    def recall(self, query: str, *, top_k: int | None = None) -> list[ScoredMessage]:
        """The messages of this session that a question is about, best first, wherever they lie.

        Args:
            query: The question.
            top_k: At most so many. By default five, and twenty where no message has half of what is asked by its
                words: then many are about as likely to be meant.

        Raises:
            InvalidInputError: The question is no text, or `top_k` is less than 1.
        """
        if not isinstance(query, str):
            raise InvalidInputError("query", query, "text")
        if top_k is not None and (isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1):
            raise InvalidInputError("top_k", top_k, "a whole number of at least 1, or None")
        if self._key is None or not query.strip():
            return []
        return self._runtime.recall.recall(self._key, query, top_k=top_k)

    arecall = async_form(recall)

    def add_artifact(
        self, content: str, *, source: str, kind: str = "tools", metadata: Mapping[str, Any] | None = None
    ) -> str:
        """Keep what a tool or a search brought, for later questions of this session; its id.

        - Long content is cut at sentences into chunks of `settings.rag.chunk_size` tokens, each found by itself.
        - The same content from the same source is the same artifact, with a new time.
        - A turn shows a few excerpts of what its question is about (see `settings.artifacts`), as data, with source
          and day.

        Args:
            content: What it says; at most 1,000,000 characters.
            source: Where it comes from (a tool's name, an address): one line.
            kind: "tools". Facts and summary are artifacts too, but the conversation's own memory keeps them.
            metadata: JSON values to keep with it.

        Raises:
            InvalidInputError: An argument is not what it should be, or the session has no id. Nothing was written.
            SessionNotFoundError: The session belongs to another user.
            StoreError: The store failed.
        """
        return add_artifact(self._runtime, self._key, content, source=source, kind=kind, metadata=metadata)

    aadd_artifact = async_form(add_artifact)

    def exists(self) -> bool:
        """Whether anything was ever stored in it (and it was not deleted) by this caller and user."""
        if self._key is None:
            return False
        with suppress(LookupError):
            return self._runtime.store.conversation(self._key) is not None
        return False

    aexists = async_form(exists)

    def clear(self) -> int:
        """Remove all messages and everything made from them, but keep the session; how many there were."""
        if self._key is None:
            return 0
        removed = self._runtime.store.clear(self._key)
        self._forget_derived(self._key)
        return removed

    aclear = async_form(clear)

    def delete(self) -> bool:
        """Remove the session with everything in it and made from it; whether there was one."""
        if self._key is None:
            return False
        deleted = self._runtime.store.delete(self._key)
        self._forget_derived(self._key)
        return deleted

    adelete = async_form(delete)

    def find(self, message_ids: Sequence[str]) -> list[Message]:
        """Return the stored messages with these ids, oldest first."""
        if self._key is None:
            return []
        return [stored.message for stored in self._runtime.store.find(self._key, message_ids)]

    afind = async_form(find)

    def remove(self, message_ids: Sequence[str]) -> int:
        """Remove single messages; how many were there."""
        if self._key is None:
            return 0
        store = self._runtime.store
        places = [stored.seq for stored in store.find(self._key, message_ids)]
        removed = store.remove(self._key, message_ids)
        self._runtime.recall.forget_messages(self._key, places)
        self._runtime.long_term.forget(self._key, message_ids)
        self._runtime.forget(self._key)
        return removed

    aremove = async_form(remove)

    def _forget_derived(self, key: SessionKey) -> None:
        """Remove what was made from messages that are gone, as far as the store has not done so with them."""
        self._runtime.forget(key)
        forget_artifacts(self._runtime, key)
        self._runtime.recall.forget_session(key)
        self._runtime.long_term.forget(key)

    def _log(self) -> ConversationLog:
        if self._key is None:
            raise InvalidInputError("session_id", None, "an id, to store messages under")
        runtime = self._runtime
        return ConversationLog(
            runtime.store,
            self._key,
            counter=runtime.token_counter,
            clock=runtime.clock,
            new_id=runtime.new_id,
            max_messages=runtime.settings.storage.max_messages_per_session,
        )

    def _reader(self) -> Reader:
        return Reader(self._runtime, self._key, self._log() if self._key else None)


def _as_message(value: Message | str, role: Role) -> Message:
    if isinstance(value, Message):
        return value
    if isinstance(value, str):
        return Message(role, value)
    raise InvalidInputError("message", value, "text or a Message")


def _as_answer(assistant: Message | str | Iterable[Message]) -> list[Message]:
    if isinstance(assistant, Message | str):
        return [_as_message(assistant, Role.ASSISTANT)]
    return as_messages(assistant)
