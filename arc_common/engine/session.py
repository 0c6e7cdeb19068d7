"""Session: the API of one conversation."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from arc_common.caches import reading_texts
from arc_common.concurrency import async_form, replying, started
from arc_common.context import ContextWindow, Receipt, ViewLimits, as_documents
from arc_common.documents import Document, ScoredDocument
from arc_common.engine.turn import Reader
from arc_common.exceptions import (
    BranchNotFoundError,
    EngineClosedError,
    InvalidInputError,
    NotFoundError,
    check_moment,
    check_whole,
)
from arc_common.facts import Fact, facts_at
from arc_common.memories import Pin, checked_memory_tags
from arc_common.memory.conversation import ConversationLog, StreamedTurn, as_messages
from arc_common.messages import Message, Role, as_message, check_identifier
from arc_common.observability import timed
from arc_common.protocols import Branch, SessionKey, StoredMessage
from arc_common.protocols.conversations import After
from arc_common.protocols.search_index import Scope
from arc_common.protocols.summaries import Compaction, ConversationSummary, ScoredMessage
from arc_common.tokens.budget import TokenBudget
from arc_common.tokens.selection import check_limits

if TYPE_CHECKING:
    from arc_common.engine.runtime import Runtime

_log = logging.getLogger("arc.session")


class Session:
    """One conversation of one caller and user.

        session.append([Message("user", "Hello")])
        window = session.context("What did I say?")

    - Each method blocks, and has an async form with the prefix `a`, the same signature and the same behaviour.
    - Every method raises `StoreError` if the store fails, and `SessionNotFoundError` if the session belongs to another
      user, unless it says that it never raises.
    """

    def __init__(self, runtime: "Runtime", key: SessionKey | None, branch_name: str | None = None) -> None:
        self._runtime = runtime
        self._workers = runtime.workers
        self._given = key
        self._branch_name = branch_name

    def __repr__(self) -> str:
        """Name the session and its owner."""
        return f"<Session of {self._given}>" if self._given else "<Session without an id>"

    @property
    def id(self) -> str | None:
        """The session's id; `None` for a session without history."""
        return self._given.session_id if self._given else None

    @property
    def branch(self) -> int | str | None:
        """The branch that the session is on: its number, or the name by which it was opened.

        - `None` if the session follows the current branch.
        - A rewind, or an edit of a message that other branches show, moves the session to the branch that it makes.
        """
        return self._branch_name or (self._given.branch if self._given else None)

    @property
    def _key(self) -> SessionKey | None:
        """The session with the number of its branch; a name is looked up at first use."""
        key = self._given
        if key is not None and self._branch_name is not None and key.branch is None:
            key = self._given = self._named(key, self._branch_name)
        return key

    def _named(self, key: SessionKey, name: str | None) -> SessionKey:
        if name is None:
            return key
        for branch in self._runtime.store.branch(key, "list"):
            if branch.name == name:
                return replace(key, branch=branch.id)
        raise BranchNotFoundError(key.session_id, name)

    def append(self, messages: Message | Iterable[Message]) -> list[Message]:
        """Append messages, oldest first, and return them as stored, with ids and times.

        - Idempotent: a message whose id is stored with the same content is left unchanged; with different content it
          becomes a new revision in the same position. Messages without an id get one.
        - Atomic, durable on return, and ordered across processes. The first write creates the conversation.
        - Messages created by arc itself are skipped.

        Raises:
            InvalidInputError: A message can't be stored, or the session has no id. Nothing was written.
        """
        listed = as_messages(messages)
        with replying(), timed(self._runtime.observer, "context.save"):
            key = self._needed()
            stored = self._log(key).append(self._runtime.with_sources(key, listed))
        messages = [one.message for one in stored]
        edited = [one for one in stored if one.edited]
        if key.branch is not None and (forks := [one.branch for one in edited if one.branch > key.branch]):
            key = self._given = replace(key, branch=forks[0])
        self._runtime.saved(key, messages, edited=[one.message.id or "" for one in edited])
        return messages

    aappend = async_form(append)

    def save_turn(
        self, user: Message | str, assistant: Message | str | Iterable[Message], *, success: bool = True
    ) -> None:
        """Save the user's message and the answer to it (with tool calls, all of its messages in order). Never raises.

        - A turn without `success` is not saved, nor is any turn of a session without an id.
        - A failed save is logged, counted (`save.errors`) and passed to the engine's `on_save_error`.
        """
        if not success or self._given is None:
            self._runtime.observer.count("save.skipped")
            return
        messages: list[Message] = []
        try:
            messages = [as_message("user", user, Role.USER), *_as_answer(assistant)]
            self.append(messages)
        except Exception as error:  # noqa: BLE001 - a failed save must not break the reply; it is reported instead
            self.report_save_error(error, messages)

    async def asave_turn(
        self, user: Message | str, assistant: Message | str | Iterable[Message], *, success: bool = True
    ) -> None:
        """Async form of `save_turn`; saves even if the task is cancelled meanwhile."""
        try:
            await self._workers.run(self.save_turn, user, assistant, success=success)
        except EngineClosedError as error:
            self.report_save_error(error, [])

    def stream_turn(self, user: Message | str) -> StreamedTurn:
        """Collect a streamed answer and save the turn when it ends: see `StreamedTurn`."""
        return StreamedTurn(as_message("user", user, Role.USER), save=self.save_turn, asave=self.asave_turn)

    def report_save_error(self, error: Exception, messages: Sequence[Message]) -> None:
        """Log and count messages that could not be saved, and pass them to the engine's `on_save_error`. Never raises.

        Intended for adapters whose framework would swallow the error.
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
        """Async form of `report_save_error`; also works after the engine is closed."""
        await asyncio.wrap_future(started(lambda: self.report_save_error(error, messages), name="arc-save-error"))

    def note(self, text: str) -> None:
        """Add a note to the session's newest receipt, for adapters that see the model's answer. Does no I/O."""
        if not isinstance(text, str):
            raise InvalidInputError("text", text, "text")
        key = None if self._key is None else self._runtime.on_branch(self._key)
        if key is not None and (receipt := self._runtime.receipts.newest(key)) is not None:
            self._runtime.receipts.keep(key, replace(receipt, notes=(*receipt.notes, text)))

    anote = async_form(note)

    def receipt(self) -> Receipt | None:
        """Return the receipt of the session's last request, whichever adapter built it.

        `None` if this process built none recently. `engine.admin.requests` returns those that are stored.
        """
        return None if self._key is None else self._runtime.receipts.newest(self._runtime.on_branch(self._key))

    areceipt = async_form(receipt)

    def receipt_events(self) -> list[str]:
        """Return the last request's receipt as server-sent events; none unless `context.debug` (MEMORY_DEBUG) is on.

        `with_receipt` adds them to a stream.
        """
        receipt = self.receipt() if self._runtime.settings.context.debug else None
        return [] if receipt is None else [f"{line}\n\n" for line in receipt.sse_lines()]

    areceipt_events = async_form(receipt_events)

    @reading_texts()
    def messages(self, *, limit: int | None = None, before: str | None = None) -> list[Message]:
        """Return the original messages, oldest first: the newest `limit`, of those before the message `before`.

        Raises:
            InvalidInputError: `limit` is negative, or no message has the id `before`.
        """
        if self._key is None:
            return []
        return self._log(self._key).originals(limit=limit, before=before)

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
        memory_tags: Sequence[str] | None = None,
    ) -> list[Message]:
        """Return the newest whole turns that fit all limits together, for adapters with a prompt of their own.

        - Once the conversation is summarised, one leading system message with facts and summary precedes the turns.
        - Without any limit, the settings' limits apply: turns or messages, and the default budget's tokens.
        - Only as many messages as needed are read, however long the conversation is.

        Args:
            max_tokens: The most tokens, including system messages at the start. These are never dropped: if they alone
                exceed the limit, only they are returned.
            max_turns: The most turns.
            max_messages: The most messages.
            reserved: Tokens of `max_tokens` used by something else; may exceed `max_tokens`.
            keep_opening: Keep messages before the first user message (a greeting) if the whole conversation
                fits; with `keep_newest`, only until the user speaks.
            keep_newest: Treat the newest turn as running: its user message is kept whole, and its newest
                exchange is kept, shortened if necessary, even if `reserved` leaves no room for them.
            following: Messages that follow the stored ones but aren't stored themselves.
            count: Counts the tokens of a message; by default the engine's counter, whose counts are stored.
            include_summary: Replace the messages that facts and summary cover by these.
            query: The user's question; by default the newest user message if it is unanswered. Items recalled for it
                follow the summary, within the budget for recalled items and a quarter of the limit.
            memory_tags: As in `context`.

        Raises:
            BudgetExceededError: With `keep_newest`: the newest user message and the system messages at the start exceed
                `max_tokens`; or the session's pins do.
            InvalidInputError: A limit is negative or not a whole number, or an argument is of the wrong type.
        """
        check_limits(max_turns=max_turns, max_messages=max_messages, max_tokens=max_tokens)
        check_whole("reserved", reserved, least=0)
        if not isinstance(query, str):
            raise InvalidInputError("query", query, "text")
        if count is not None and not callable(count):
            raise InvalidInputError("count", count, "a function from a message to its tokens, or None")
        following = as_messages(following, "following")
        reader = self._reader(memory_tags)
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
            return reader.view(limits, following=following, count=count, query=query)

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
        following: Sequence[Message] = (),
        memory_tags: Sequence[str] | None = None,
    ) -> ContextWindow:
        """Build the context window of this turn: see `ContextWindow` for its guarantees.

        Args:
            query: The current user message. With `None`, it is the newest user message of the history, and the messages
                after it are the running turn.
            system_prompt: The application's instructions.
            documents: Retrieved text for this turn, best first; by default the engine's own documents are searched.
            tools: The tools' schemas in OpenAI form; they cost tokens.
            response_format: The answer's schema; it costs tokens.
            budget: The request's token budget; by default the settings' budget.
            history: Messages to use instead of the stored history, oldest first.
            following: Messages that follow the history but aren't stored themselves.
            memory_tags: Show only pinned memories and those with one of these tags; by default, long-term memories with
                any tags or none.

        Raises:
            BudgetExceededError: The system prompt, the session's pins and the user message alone don't fit.
            InvalidInputError: An argument is invalid, or there is no user message.
        """
        request = self._runtime.request(
            budget,
            query=None if query is None else as_message("query", query, Role.USER),
            system_prompt=system_prompt,
            documents=() if documents is None else as_documents(documents),
            tools=tools,
            response_format=response_format,
        )
        reader = self._reader(memory_tags, () if following == () else as_messages(following, "following"))
        with replying():
            return reader.context(request, history, retrieve=documents is None)

    acontext = async_form(context)

    @reading_texts()
    def facts(
        self,
        *,
        include_superseded: bool = False,
        include_ungrounded: bool = False,
        include_excerpts: bool = False,
        as_of: datetime | None = None,
    ) -> list[Fact]:
        """Return the conversation's facts, most important first, then newest first; `find` returns their `sources`.

        Superseded facts are no longer valid. Ungrounded facts have no support in a message; no model is shown these.
        Excerpts quote values that no fact says ("Book a table for 4 at 7 pm"); the summary shows them.
        With `as_of` (a time with zone), returns the facts that were valid then.
        """
        moment = check_moment("as_of", as_of)
        memory = self._runtime.memory
        if memory is None or self._key is None:
            return []
        if moment is not None:
            found = memory.facts(self._key, include_superseded=True, include_excerpts=bool(include_excerpts))
            return facts_at(found, moment)
        return memory.facts(
            self._key,
            include_superseded=bool(include_superseded),
            include_ungrounded=bool(include_ungrounded),
            include_excerpts=bool(include_excerpts),
        )

    afacts = async_form(facts)

    def summary(self) -> ConversationSummary | None:
        """Return the current summary of the older messages; `None` if there is none."""
        memory = self._runtime.memory
        return None if memory is None or self._key is None else memory.summary(self._key)

    asummary = async_form(summary)

    @reading_texts()
    def summarize(self) -> ConversationSummary | None:
        """Write the due summaries and index messages for recall now, wait for both, and return the summary."""
        memory, key = self._runtime.memory, self._key
        if key is not None and self._runtime.settings.recall.enabled:
            self._runtime.recall.catch_up(key)
        if memory is not None and key is not None:
            memory.queues.finish(key)
        return self.summary()

    asummarize = async_form(summarize)

    @reading_texts()
    def compact(self) -> Compaction:
        """Summarise all but the recent messages now, show the summary from the next request on, and return the effect.

            done = session.compact()
            print(f"{done.messages} messages: {done.tokens_before} -> {done.tokens_after} tokens")

        - Waits for the chat model; if that fails, rules write the summary, and a note says so.
        - The newest `settings.summary.recent_message_count` messages and the running turn stay as they are, and all
          originals stay stored.
        - Requests then begin differently, so a provider's prompt cache misses on the next one.
        """
        self._runtime.check_open()
        memory, key = self._runtime.memory, self._key
        return Compaction() if memory is None or key is None else memory.compact(key, self._runtime.default_budget())

    acompact = async_form(compact)

    def remember(self) -> None:
        """Extract long-term memories from this session in the background, if `settings.memory.enabled` is on.

        Only a session without a user needs this call: a user's sessions are read whenever they save.
        """
        runtime = self._runtime
        if self._key is not None and runtime.settings.memory.enabled:
            runtime.long_term.read_soon(self._key)

    aremember = async_form(remember)

    @reading_texts()
    def recall(
        self, query: str, *, top_k: int | None = None, scope: Literal["session", "user"] | None = None
    ) -> list[ScoredMessage]:
        """Return the `top_k` messages (10 by default) that are most relevant to a question or statement, best first.

        They are ranked as in a turn, but all of them may come back, including those that a turn shows already.

        Args:
            query: The question or statement.
            top_k: The most messages.
            scope: Search this session, or all sessions of its user; by default `settings.recall.scope`.

        Raises:
            InvalidInputError: An argument is invalid, or the scope is "user" and the session has no user.
        """
        if not isinstance(query, str):
            raise InvalidInputError("query", query, "text")
        if top_k is not None:
            check_whole("top_k", top_k)
        if scope not in (None, "session", "user"):
            raise InvalidInputError("scope", scope, "'session', 'user' or None")
        if self._key is None or not query.strip():
            return []
        if scope == "user" and self._key.user_id is None:
            raise InvalidInputError("scope", scope, "'session': this session has no user_id")
        return self._runtime.recall.recall(self._key, query, top_k=top_k, scope=scope)

    arecall = async_form(recall)

    def pin(self, text: str) -> Pin:
        """Show a text, or the message with this id, word for word in every request of the session, and return the pin.

        - Pins lead the facts, are never summarised, and are not shortened: a budget that can't hold them raises
          `BudgetExceededError` before any model is called.
        - The pin of a message shows its day and speaker, follows its edits, and is removed with it.
        - Pinning the same again returns the same pin.

        Raises:
            InvalidInputError: The text is empty, the message has no text, or the session has no id.
        """
        return self._runtime.pins.pin(self._needed(), text)

    apin = async_form(pin)

    def pins(self, *, suggested: bool = False) -> list[Pin]:
        """Return the texts that every request shows: the session's pins and its scopes' pinned memories, oldest first.

        With `suggested`, returns texts that may be worth pinning instead: the user's conditions and prohibitions.
        """
        if self._key is None:
            return []
        return self._runtime.pins.suggested(self._key) if suggested else self._runtime.pins.pins(self._key)

    apins = async_form(pins)

    def unpin(self, pin_id: str) -> None:
        """Remove a pin of the session. `engine.memories(...).unpin` does so for a pinned memory.

        Raises:
            MemoryNotFoundError: The session has no pin of its own with that id.
        """
        self._runtime.pins.unpin(self._needed(), pin_id)

    aunpin = async_form(unpin)

    def add_artifact(
        self, content: str, *, source: str, kind: str = "tools", metadata: Mapping[str, Any] | None = None
    ) -> str:
        """Store the output of a tool or a search for later questions of this session, and return the artifact's id.

        - Content of up to 1,000,000 characters is split at sentences into chunks of `settings.rag.chunk_size` tokens.
        - Adding the same content from the same source again updates the artifact's time.
        - A turn shows a few excerpts that match its question (see `settings.artifacts`), marked as data, with source
          and day.

        Args:
            content: The text to store.
            source: The origin (a tool's name or a URL) in one line.
            kind: Always "tools": the conversation's own memory stores facts and summary.
            metadata: JSON values to store with the artifact.

        Raises:
            InvalidInputError: An argument is invalid, or the session has no id. Nothing was written.
        """
        self._runtime.check_open()
        added = self._runtime.artifacts.add(self._key, content, source=source, kind=kind, metadata=metadata)
        self._runtime.answer_sources.show(self._runtime.on_branch(self._needed()), [(source, content)])
        return added

    aadd_artifact = async_form(add_artifact)

    def exists(self) -> bool:
        """Return whether the session exists for this caller and user: something was stored, and it was not deleted."""
        if self._given is None:
            return False
        with suppress(NotFoundError):
            return self._runtime.store.get(self._needed()) is not None
        return False

    aexists = async_form(exists)

    def clear(self) -> int:
        """Remove all messages and everything derived from them, keep the session, and return the number of messages."""
        if self._key is None:
            return 0
        removed = self._runtime.store.delete(self._key, keep_session=True)
        self._runtime.forget_derived(self._key, existed=removed is not None)
        return removed or 0

    aclear = async_form(clear)

    def delete(self, *, soft: bool = False) -> bool:
        """Remove the session with its messages and everything derived from them; return whether it existed.

        With `soft`, nothing is removed yet: whoever uses the session from then on gets `ConversationDeletedError`, and
        other sessions don't recall its messages, until `engine.admin.restore` brings it back or `engine.admin.purge`
        removes it. Memories that it left with its user stay until then.
        """
        return self._key is not None and self._runtime.delete_session(self._key, soft=bool(soft))

    adelete = async_form(delete)

    def archive(self) -> bool:
        """Move the session's messages into the archive now; return whether that was done.

        Nothing is moved if the session has no messages, is archived already, or somebody writes to it meanwhile. The
        next use of the session brings the messages back by itself.

        Raises:
            ArchiveError: The archive can't be reached; the messages stay where they are.
            ConfigurationError: `settings.archive.url` is not set.
            SessionNotFoundError: Nothing was stored in the session yet.
        """
        if self._key is None:
            return False
        self._runtime.wait(self._runtime.settings.summary.synchronous_timeout_seconds)  # for work on its messages
        return self._runtime.archive_session(self._key)

    aarchive = async_form(archive)

    @reading_texts()
    def find(self, message_ids: Sequence[str]) -> list[Message]:
        """Return the stored messages with these ids, oldest first."""
        if self._key is None:
            return []
        return [stored.message for stored in self._runtime.store.read(self._key, ids=message_ids)]

    afind = async_form(find)

    def stored(
        self, message_ids: Sequence[str] | None = None, *, after: int | None = None, limit: int | None = None
    ) -> list[StoredMessage]:
        """Return the messages with these ids, those after a place or the newest, with places. Intended for adapters."""
        key = self._key
        return [] if key is None else self._runtime.store.read(key, ids=message_ids, after=after, limit=limit)

    astored = async_form(stored)

    def resume(self, messages: Sequence[Message], after: After) -> tuple["Session", list[StoredMessage]]:
        """Append the messages of a run that starts from a checkpoint; return a session on the branch that has them.

        Intended for adapters whose framework keeps checkpoints: see `After`.
        """
        key, listed = self._needed(), as_messages(messages)
        if not isinstance(after, After):
            raise InvalidInputError("after", after, "an After")
        with replying(), timed(self._runtime.observer, "context.save"):
            stored = self._log(key).append(self._runtime.with_sources(key, listed), after=after)
        on = replace(key, branch=stored[0].branch) if stored else key
        new = [one.message for one in stored]
        self._runtime.saved(on, new, edited=[one.message.id or "" for one in stored if one.edited])
        return Session(self._runtime, on), stored

    aresume = async_form(resume)

    def remove(self, message_ids: Sequence[str]) -> int:
        """Remove messages by id, and return the number removed. Ids that are not stored change nothing."""
        if self._key is None:
            return 0
        key = self._key
        removed = self._runtime.store.remove(key, message_ids)
        self._runtime.recall.forget_messages(key)
        forgotten = self._runtime.long_term.forget(key, message_ids)  # some are left if a removal was interrupted
        if removed or forgotten:
            self._runtime.receipt_log.forget(Scope(key.caller_id, key.user_id))
            self._runtime.forget(key)
        return removed

    aremove = async_form(remove)

    def fork(self, at: str | None = None, *, name: str | None = None) -> "Session":
        """Make a branch that continues after the message with the id `at`, and return a session on it.

            idea = session.fork(at=message.id, name="idea")
            engine.session("s", branch="idea")  # opens it again

        - Both branches share the messages up to there, and everything derived from them; nothing is copied.
        - This session, and the conversation's current branch, stay as they are.

        Args:
            at: The id of the last shared message; by default the newest.
            name: A name to open the branch by, instead of its number.

        Raises:
            InvalidInputError: This branch has no such message, or the name is taken.
            SessionNotFoundError: Nothing was stored in the session yet.
        """
        key = self._needed()
        (made,) = self._runtime.store.branch(key, "fork", at=at, name=name)
        return Session(self._runtime, replace(key, branch=made.id), name)

    afork = async_form(fork)

    def rewind(self, to: str) -> None:
        """Go back to the message with the id `to`: requests no longer show the messages after it.

        - The session continues on a new branch, which takes over this one's name, and becomes current if this one is.
        - The messages after it stay on a branch that is no longer live: see `branches`.
        - Does nothing if nothing follows the message.

        Raises:
            InvalidInputError: This branch has no such message.
            SessionNotFoundError: Nothing was stored in the session yet.
        """
        key = self._needed()
        try:
            (made,) = self._runtime.store.branch(key, "rewind", at=check_identifier("to", to))
        except InvalidInputError as error:
            raise InvalidInputError("to", to, error.expected) from None
        self._runtime.forget(key)
        if key.branch is not None:
            self._given = replace(key, branch=made.id)

    arewind = async_form(rewind)

    def branches(self) -> list[Branch]:
        """Return the conversation's branches in the order in which they were made; none if nothing is stored."""
        return [] if self._given is None else self._runtime.store.branch(self._given, "list")

    abranches = async_form(branches)

    def switch(self, to: int | str) -> None:
        """Make a branch, by number or name, the current one: the branch of sessions opened without one.

        Raises:
            BranchNotFoundError: The session has no such branch.
        """
        key = self._on(to, "to")
        self._runtime.store.branch(key, "switch")
        self._runtime.forget(replace(key, branch=None))

    aswitch = async_form(switch)

    def delete_branch(self, branch: int | str) -> None:
        """Delete a branch, by number or name, with everything that no other branch shows.

        Raises:
            BranchNotFoundError: The session has no such branch.
            InvalidInputError: The branch is the current one: `switch` to another one, or `delete` the session.
        """
        key, store = self._on(branch), self._runtime.store
        path, newest = store.path(key), store.read(key, limit=1)
        store.branch(key, "delete")
        self._runtime.recall.forget_branch(key, path, end=newest[0].seq if newest else 0)
        self._runtime.receipt_log.forget(Scope(key.caller_id, key.user_id))
        self._runtime.forget(key)

    adelete_branch = async_form(delete_branch)

    def _on(self, branch: int | str, field: str = "branch") -> SessionKey:
        """Return the key of a branch, given by number or name."""
        if branch is None:
            raise InvalidInputError(field, branch, "the number or the name of a branch")
        return self._named(*on_branch(replace(self._needed(), branch=None), branch, field))

    def _needed(self) -> SessionKey:
        key = self._key
        if key is None:
            raise InvalidInputError("session_id", None, "an id, to store messages under")
        return key

    def _log(self, key: SessionKey) -> ConversationLog:
        self._runtime.check_open()
        return ConversationLog(self._runtime.services, key)

    def _reader(self, memory_tags: Sequence[str] | None, following: Sequence[Message] = ()) -> Reader:
        tags = () if memory_tags is None else checked_memory_tags(memory_tags)
        log = self._log(self._key) if self._key else None
        return Reader(self._runtime, self._key, log, memory_tags=tags, following=following)


def on_branch(key: SessionKey, branch: int | str | None, field: str = "branch") -> tuple[SessionKey, str | None]:
    """Return the key and the name of a branch given by number or name."""
    if isinstance(branch, str):
        return key, check_identifier(field, branch)
    if branch is not None and (isinstance(branch, bool) or not isinstance(branch, int) or not 0 <= branch < 2**31):
        raise InvalidInputError(field, branch, "the number or the name of a branch, or None for the current one")
    return (key if branch is None else replace(key, branch=branch)), None


def _as_answer(assistant: Message | str | Iterable[Message]) -> list[Message]:
    if isinstance(assistant, Message | str):
        return [as_message("assistant", assistant, Role.ASSISTANT)]
    return as_messages(assistant, "assistant")
