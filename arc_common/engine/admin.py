"""Administration: lists and archives sessions, erases and exports users, does background work."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from arc_common.concurrency import async_form
from arc_common.context import Receipt
from arc_common.engine.importers import Imported, load_others
from arc_common.engine.maintenance import Maintenance, archive, clear, maintain, purge
from arc_common.engine.memories import member
from arc_common.engine.reembedding import VectorsMade
from arc_common.engine.replay import ReplayedTurn, replay
from arc_common.engine.user_data import ErasureReceipt, Progress, erase, export, load
from arc_common.engine.worker import WorkDone, Worker
from arc_common.exceptions import (
    ConfigurationError,
    InvalidInputError,
    SessionNotFoundError,
    check_calls,
    check_moment,
    check_whole,
)
from arc_common.protocols import (
    Conversation,
    ConversationFilter,
    ConversationPage,
    ConversationStatus,
    SessionKey,
)
from arc_common.protocols.summaries import ConversationSummary, SummaryInspection
from arc_common.tokens.budget import TokenBudget

if TYPE_CHECKING:
    from arc_common.engine.receipts import SentRequest
    from arc_common.engine.runtime import Runtime


@dataclass(frozen=True, slots=True)
class SessionDebug:
    """The state of one session."""

    conversation: Conversation
    """The session's record."""
    summary: ConversationSummary | None
    """The summary written so far, adopted or not; `None` if the session is archived."""
    receipt: Receipt | None
    """The receipt of the newest context window or view: of this process, or the stored one, if there is any."""
    progress: SummaryInspection | None = None
    """The segments and the adopted view; `None` if `summary.enabled` is off, or the session archived."""

    def to_dict(self) -> dict[str, Any]:
        """Return the state as JSON values: counts, ids, times and tokens, but no message text."""
        record, summary = self.conversation, self.summary
        return {
            "session_id": record.key.session_id,
            "caller_id": record.key.caller_id,
            "user_id": record.key.user_id,
            "created_at": record.created_at.isoformat(),
            "last_message_at": record.last_message_at.isoformat() if record.last_message_at else None,
            "message_count": record.message_count,
            "tool_calls_count": record.tool_calls_count,
            "total_tokens": record.total_tokens,
            "status": record.status,
            "summary": None
            if summary is None
            else {
                "summarized_up_to": summary.summarized_up_to,
                "pending": summary.pending,
                "facts": len(summary.facts),
                "updated_at": summary.updated_at.isoformat(),
            },
            "receipt": self.receipt.to_dict() if self.receipt else None,
        }


class Admin:
    """Operations for administrators. Each method has an async form, and raises `StoreError` if the store fails."""

    def __init__(self, runtime: "Runtime") -> None:
        self._runtime = runtime
        self._workers = runtime.workers

    def sessions(
        self,
        caller_id: str = "default",
        user_id: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        *,
        status: ConversationStatus | str | None = None,
        active_since: datetime | None = None,
        idle_since: datetime | None = None,
        created_since: datetime | None = None,
        created_before: datetime | None = None,
        min_messages: int | None = None,
        max_messages: int | None = None,
    ) -> ConversationPage:
        """Return one page of a caller's conversations (with `user_id`, of that user's), newest first.

        - A page has at most `limit` conversations, and a `next_cursor` to pass as `cursor` with the same conditions.
        - `status` is "active", "archived" or "deleted"; by default, active and archived ones are listed.
        - `active_since` and `idle_since` are the earliest and the latest time of the newest message. All times need a
          zone.

        Raises:
            InvalidInputError: `limit` is less than 1, `cursor` is not from an earlier page, or a condition is invalid.
        """
        SessionKey("any", caller_id, user_id)
        for name, count in (("min_messages", min_messages), ("max_messages", max_messages)):
            if count is not None:
                check_whole(name, count, least=0)
        which = ConversationFilter(
            status=None if status is None else member(ConversationStatus, "status", status),
            active_since=check_moment("active_since", active_since),
            idle_since=check_moment("idle_since", idle_since),
            created_since=check_moment("created_since", created_since),
            created_before=check_moment("created_before", created_before),
            min_messages=min_messages,
            max_messages=max_messages,
        )
        return self._runtime.store.page(caller_id, user_id=user_id, limit=limit, cursor=cursor, which=which)

    asessions = async_form(sessions)

    def debug(
        self,
        session_id: str,
        *,
        caller_id: str = "default",
        user_id: str | None = None,
        branch: int | None = None,
    ) -> SessionDebug:
        """Return a session's record, its summary, and the receipt of its newest context window.

        They are those of its current branch, or of the one with the number `branch`. An archived session stays where it
        is, and is shown without its summary.

        Raises:
            BranchNotFoundError: The session has no such branch.
            SessionNotFoundError: The caller and user have no such session.
        """
        runtime = self._runtime
        key = SessionKey(session_id, caller_id, user_id, branch=branch)
        record = runtime.store.get(key)
        if record is None:
            raise SessionNotFoundError(session_id)
        memory = None if record.status is ConversationStatus.ARCHIVED else runtime.memory
        on = replace(key, branch=runtime.store.path(key).branch)
        receipt = runtime.receipts.newest(on)
        if receipt is None and runtime.settings.context.store_receipts != "off":
            stored = runtime.receipt_log.find(on, limit=1)
            receipt = stored[0].window.receipt if stored else None
        return SessionDebug(
            conversation=record,
            summary=memory.summary(key) if memory else None,
            receipt=receipt,
            progress=memory.inspect(key) if memory else None,
        )

    adebug = async_form(debug)

    def requests(
        self,
        session_id: str,
        *,
        limit: int = 20,
        caller_id: str = "default",
        user_id: str | None = None,
        branch: int | None = None,
    ) -> "list[SentRequest]":
        """Return a session's newest requests as they were sent, the newest first (see `context.store_receipts`).

        Those of all branches, or of the one with the number `branch`.

        Raises:
            InvalidInputError: `limit` is less than 1.
            SessionNotFoundError: The caller and user have no such session.
        """
        key = SessionKey(session_id, caller_id, user_id, branch=branch)
        if self._runtime.store.get(key) is None:
            raise SessionNotFoundError(session_id)
        return self._runtime.receipt_log.find(key, limit=limit)

    arequests = async_form(requests)

    def replay(
        self,
        session_id: str,
        turn: int | str | None = None,
        *,
        budget: TokenBudget | None = None,
        caller_id: str = "default",
        user_id: str | None = None,
        branch: int | None = None,
    ) -> ReplayedTurn:
        """Rebuild the context window of a stored turn as it would be built today.

        - `turn` is the number of the user message, from 1, or its id; by default the newest. `budget` is by default the
          settings', and `branch` the current one.
        - Changes nothing: no summary is adopted, and no receipt is kept.
        - The window ends before the turn's last answer.
        - Facts and summary are the currently adopted ones. They are omitted if they cover the turn itself; if they were
          adopted after it, the receipt's notes say so.
        - The application's system prompt, tools and documents are not stored, and so not included.
        - The whole session is read: the cost grows with its length.

        Raises:
            BranchNotFoundError: The session has no such branch.
            BudgetExceededError: The user message alone doesn't fit.
            InvalidInputError: The session has no such turn.
            SessionNotFoundError: The caller and user have no such session.
        """
        key = SessionKey(session_id, caller_id, user_id, branch=branch)
        return replay(self._runtime, key, turn=turn, budget=budget or self._runtime.default_budget())

    areplay = async_form(replay)

    def archive(self, *, older_than: timedelta | None = None, progress: Progress | None = None) -> Maintenance:
        """Archive the sessions, of all callers, that nobody has used for a time; return how many.

            engine.admin.archive(older_than=timedelta(days=30))

        - Only their messages leave the database; summaries, facts, memories and branches stay. The next use of a
          session brings its messages back by itself.
        - A session is left as it is if somebody writes to it meanwhile, or if its object could not be read back.
        - May be interrupted and repeated, and run on many machines at once.

        Args:
            older_than: The time since the newest message and the last change; by default `settings.archive.after_days`.
            progress: Called after each session with the number so far.

        Raises:
            ConfigurationError: `settings.archive.url` is not set.
            InvalidInputError: `older_than` is negative.
        """
        check_calls(progress)
        return archive(self._runtime, older_than, progress)

    aarchive = async_form(archive)

    def maintain(self, *, progress: Progress | None = None) -> Maintenance:
        """Archive or delete, as the settings say, the sessions of all callers that nobody has used for a while.

        - With `settings.archive.enabled`, archives after `archive.after_days` or `conversation.ttl_hours`, whichever
          is less. Otherwise deletes after `conversation.ttl_hours`; without it, nothing is ever deleted.
        - A session that fails is logged, counted (`maintenance.errors`) and tried again by the next run.
        - Safe to run on many machines at once: `arc maintain --every 60m` or `settings.maintenance.interval_minutes`.
        """
        check_calls(progress)
        return maintain(self._runtime, progress)

    amaintain = async_form(maintain)

    def restore(self, session_id: str, *, caller_id: str = "default", user_id: str | None = None) -> bool:
        """Bring back a session that was archived, or deleted with `soft=True`; return whether it was one of these.

        Archived sessions also come back by themselves when they are used.

        Raises:
            ArchiveError: Its object is missing or damaged, or the archive can't be reached.
            SessionNotFoundError: The caller and user have no such session, or it was deleted for good.
        """
        return self._runtime.store.restore(SessionKey(session_id, caller_id, user_id))

    arestore = async_form(restore)

    def purge(self, *, older_than: timedelta = timedelta(0), progress: Progress | None = None) -> int:
        """Remove the sessions, of all callers, that were deleted with `soft=True`; return their number.

        If one can't be removed, such as one whose archive is away, the others are, and its error is raised at the end.

        Args:
            older_than: Keep those that were deleted more recently than this.
            progress: Called after each session with the number so far.

        Raises:
            InvalidInputError: `older_than` is negative.
        """
        check_calls(progress)
        return purge(self._runtime, older_than, progress)

    apurge = async_form(purge)

    def clear(self, *, caller_id: str, user_id: str | None = None, progress: Progress | None = None) -> int:
        """Delete all sessions of a caller, or of one of its users, whatever their status; return their number.

        - Memories, documents and everything else that belongs to no single session stay: `erase` removes those, too.
        - If one session can't be deleted, the others are, and its error is raised at the end.

        Raises:
            InvalidInputError: An id is invalid.
        """
        SessionKey("any", caller_id, user_id)
        check_calls(progress)
        return clear(self._runtime, caller_id, user_id, progress)

    aclear = async_form(clear)

    def erase(self, *, caller_id: str, user_id: str | None) -> ErasureReceipt:
        """Erase everything of a user, or of a whole caller with `user_id=None`, and check that nothing is left.

            receipt = engine.admin.erase(caller_id="shop", user_id="ann")
            assert receipt.is_complete, receipt.left

        - Removes the conversations with everything derived from them, and the user's memories, documents and artifacts.
          Shared memories of the caller's users that come from these conversations alone are removed, too.
        - Then counts the rows that still name them, lets SQLite overwrite the remains of deleted rows in its file,
          and searches the file.
        - May be repeated after an interruption. The user must not write meanwhile.

        Raises:
            InvalidInputError: An id is invalid.
        """
        SessionKey("any", caller_id, user_id)
        return erase(self._runtime, caller_id, user_id)

    aerase = async_form(erase)

    def export(self, path: str | Path, *, caller_id: str, user_id: str | None, progress: Progress | None = None) -> int:
        """Write everything of a user, or of a whole caller with `user_id=None`, to a file; return its lines.

            engine.admin.export("ann.jsonl.gz", caller_id="shop", user_id="ann")
            other.admin.import_("ann.jsonl.gz")

        - The file has one JSON object per line; a name that ends in ".gz" compresses it. Branches, summaries, facts,
          memories with their history, documents and vectors are included.
        - One conversation at a time is in memory, read from one snapshot. An interrupted export leaves no file
          of that name.

        Raises:
            InvalidInputError: An id or the path is invalid.
        """
        SessionKey("any", caller_id, user_id)
        return export(self._runtime, path, caller_id, user_id, progress)

    aexport = async_form(export)

    def import_(
        self,
        source: str | Path | Iterable[Imported],
        *,
        caller_id: str | None = None,
        user_id: str | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Import a file that `export` wrote, or another library's data; return the number of lines stored.

            engine.admin.import_("ann.jsonl.gz")
            engine.admin.import_(message_store("sqlite:///history.db"), user_id="ann")

        - Each line is one transaction. Existing data stay unchanged, so an interrupted import can be repeated.
        - Ids and callers of an export stay those of the export.
        - Other libraries' data are read by `langchain_arc.importers`, `llamaindex_arc.importers` and `mem0_memories` of
          `arc_common.engine.importers`; the number returned is that of messages and memories.

        Args:
            source: The file's path, or conversations and memories.
            caller_id: The caller who gets them; "default" by default. Not for an export.
            user_id: The user who gets them, whatever the source says. Not for an export.
            progress: Called after each step with the number of lines or messages read.

        Raises:
            InvalidInputError: The file is not from `export` of this version, or the database holds another conversation
                with the id of one; or a message is invalid. The lines before are stored.
            SessionNotFoundError: A conversation of another user has the id of one that is imported.
        """
        if not isinstance(source, str | Path) and isinstance(source, Iterable):
            SessionKey("any", caller_id or "default", user_id)
            return load_others(self._runtime, source, caller_id or "default", user_id, progress)
        if caller_id is not None or user_id is not None:
            raise InvalidInputError("caller_id, user_id", (caller_id, user_id), "None: an export names its own")
        return load(self._runtime, source, progress)

    aimport_ = async_form(import_)

    def work(
        self,
        *,
        threads: int = 1,
        until_idle: bool = True,
        limit: int | None = None,
        progress: Progress | None = None,
        stop: Event | None = None,
    ) -> WorkDone:
        """Do the background work of all sessions in the database, of any caller and written by any process.

            engine.admin.work()  # after an import, for example

        - Writes summaries, indexes messages for recall and extracts long-term memories, with this engine's models.
        - Any number of processes may work at once: each session is leased to one of them. The work of a process that
          died is taken over once its lease has expired, and nothing is done twice.
        - A session whose work fails is due again in a minute; the others continue.

        Args:
            threads: The number of sessions worked on at once, at most 256.
            until_idle: Return once nothing is due; otherwise, wait for more work until `stop` is set.
            limit: The most sessions to work on.
            progress: Called with the number of sessions so far.
            stop: Once it is set, finish the summary, index entry or memory at hand, and return.

        Raises:
            InvalidInputError: A number is not a whole one above zero, or another argument is of the wrong type.
        """
        check_whole("threads", threads)
        check_calls(progress, stop)
        if not isinstance(until_idle, bool):
            raise InvalidInputError("until_idle", until_idle, "True or False")
        if limit is not None:
            check_whole("limit", limit)
        worker = Worker(self._runtime, until_idle=until_idle, limit=limit, progress=progress, stop=stop)
        return worker.run(threads)

    awork = async_form(work)

    def reembed(self, *, progress: Progress | None = None, stop: Event | None = None) -> VectorsMade:
        """Embed all texts in the database again with this engine's embedder, after you changed it; return the counts.

        - The new vectors of each scope (a user's documents, a conversation's messages, …) are made beside the old ones
          and take their place once all are made. Until then, its texts are found by words.
        - Makes missing vectors too. If it is interrupted or the embedder fails, the next call continues from there.
        - Any number of processes may do so at once: each scope is leased to one of them.
        - An application's own items (`engine.items_of`) have an embedder of their own: call their `re_embed`.

        Args:
            progress: Called with the number of vectors so far.
            stop: Once it is set, finish the batch at hand, and return.

        Raises:
            ConfigurationError: The engine has no embedder.
        """
        check_calls(progress, stop)
        if self._runtime.embedder is None:
            raise ConfigurationError("embedder: got None, expected an embedder: open the engine with the new one")
        stopping = (lambda: False) if stop is None else stop.is_set
        return self._runtime.vectors.run(everything=True, stop=stopping, progress=progress)

    areembed = async_form(reembed)
