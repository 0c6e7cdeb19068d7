"""The protocol of stores for conversations, and the values that it exchanges."""

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

from arc_common.exceptions import InvalidInputError, check_whole
from arc_common.messages import Message, check_identifier, member_of

if TYPE_CHECKING:
    from arc_common.protocols.receipts import ReceiptStore
    from arc_common.protocols.records import Records
    from arc_common.protocols.review import ReviewQueue
    from arc_common.protocols.search_index import IndexStore
    from arc_common.protocols.summaries import SummaryStore


@dataclass(frozen=True, slots=True)
class SessionKey:
    """Identifies a conversation and its owner; every read and write of a store requires one.

    A session id belongs to its caller: two callers may use the same id for different conversations. Within a caller,
    the first write binds the conversation to its user; a key with another user finds nothing. A key without `branch`
    is on the conversation's current branch; with one, it is on that branch.
    """

    session_id: str
    caller_id: str = "default"
    user_id: str | None = None
    account_id: str | None = None
    branch: int | None = None

    @property
    def session(self) -> tuple[str, str]:
        """The caller and the session, which all branches share."""
        return self.caller_id, self.session_id

    def __post_init__(self) -> None:
        check_identifier("session_id", self.session_id)
        check_identifier("caller_id", self.caller_id)
        for name in ("user_id", "account_id"):
            value = getattr(self, name)
            if value is not None:
                check_identifier(name, value)
        if self.branch is not None:
            check_whole("branch", self.branch, least=0)
            if self.branch >= _END:
                raise InvalidInputError("branch", self.branch, "the number of a branch")


@dataclass(frozen=True, slots=True)
class CountedMessage:
    """A message ready to be stored (it has an id and a time), with its token count by the counter named `counter`."""

    message: Message
    tokens: int
    counter: str


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as the store holds it.

    Args:
        message: The message, with its id and time.
        seq: Its position on the session's path: larger is later. Unique on a branch and never reused there, but not
            always consecutive.
        tokens: Its token count, taken by the counter named `counter` when the message was stored.
        revision: 1 at first; increases by one each time other content is stored under the same id.
        edited: True if the append that returned this value created the revision; always false for a message that was
            read.
        branch: The branch on which it was stored; branches that forked after it show it too. An append with `After`
            returns the branch that it was made on.
        thread: The thread whose run stored it from a checkpoint, if any.
    """

    message: Message
    seq: int
    tokens: int
    counter: str
    revision: int = 1
    edited: bool = field(default=False, compare=False)
    branch: int = field(default=0, compare=False)
    thread: str | None = field(default=None, compare=False)


class Edits(NamedTuple):
    """Messages that were edited or removed, as (branch, `seq`), and the store's own note of them."""

    note: str
    places: tuple[tuple[int, int], ...]


NO_EDITS = Edits("", ())

EditReader = Literal["index", "memories"]
"""A reader of edited messages: the index for recall, or the extraction of long-term memories."""


@dataclass(frozen=True, slots=True)
class After:
    """The place after which a run that starts from a checkpoint continues.

    Args:
        thread: The run's thread, in at most 32 characters. Messages that its runs store carry it.
        seq: The newest message that the run has seen on the key's branch; `None` for the newest one that is stored.
        without: The `seq`s of earlier messages that the run no longer has.
    """

    thread: str
    seq: int | None = None
    without: tuple[int, ...] = ()


class ConversationStatus(StrEnum):
    """The state of a conversation. Parsed case-insensitively."""

    ACTIVE = "active"
    ARCHIVED = "archived"
    """Its messages are in the archive; the next access brings them back."""
    DELETED = "deleted"
    """Deleted with `soft=True`: it can't be used until it is restored."""

    @classmethod
    def _missing_(cls, value: object) -> "ConversationStatus":
        return member_of(cls, value, "status")


@dataclass(frozen=True, slots=True)
class Conversation:
    """The record of a session. Counts and sums cover the messages stored now; times are UTC.

    `last_seq` is the `seq` of the newest message ever stored, and `remembered_seq` that of the newest one that was read
    for long-term memories; 0 for none. `archived_as` names the archive's object that an archived one is in.
    """

    key: SessionKey
    created_at: datetime
    updated_at: datetime
    last_message_at: datetime | None
    message_count: int
    tool_calls_count: int
    total_tokens: int
    status: ConversationStatus
    last_seq: int = 0
    remembered_seq: int = 0
    archived_as: str | None = None


@dataclass(frozen=True, slots=True)
class ConversationPage:
    """A page of conversations, newest first, and the cursor of the next page (`None` on the last page)."""

    conversations: tuple[Conversation, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class ConversationFilter:
    """Which conversations a listing shows: those that meet all conditions that are not `None`.

    Args:
        status: Their status; `None` for active and archived ones.
        active_since: The earliest time of the newest message; of the creation where there is none.
        idle_since: The latest time of the newest message.
    """

    status: ConversationStatus | None = None
    active_since: datetime | None = None
    idle_since: datetime | None = None
    created_since: datetime | None = None
    created_before: datetime | None = None
    min_messages: int | None = None
    max_messages: int | None = None


EVERY_CONVERSATION = ConversationFilter()
"""All but deleted ones."""


@dataclass(frozen=True, slots=True)
class Idle:
    """Conversations of one status that nobody has used since a time.

    Their newest message and their last change are no younger, so that neither messages with old dates nor a clock that
    was set back make a conversation look idle.
    """

    status: ConversationStatus
    since: datetime


_MAIN_BRANCH = 0
_END = 2**62


@dataclass(frozen=True, slots=True)
class Path:
    """The messages that a branch shows: those of other branches up to a `seq` each, then its own."""

    branch: int = _MAIN_BRANCH
    before: tuple[tuple[int, int], ...] = ()

    @classmethod
    def from_text(cls, branch: int, text: str | None) -> "Path":
        """Read what `text` wrote; the main branch alone is always the same object."""
        if branch == _MAIN_BRANCH and not text:
            return MAIN
        return cls(branch, tuple((one, last) for one, last in json.loads(text or "[]")))

    @property
    def text(self) -> str:
        """The parts before the branch itself, as stored."""
        return json.dumps([list(part) for part in self.before])

    @property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """The branches along the path in order, each with the last `seq` that the path shows of it."""
        return (*self.before, (self.branch, _END))

    @property
    def forks(self) -> tuple[tuple[int, int, int], ...]:
        """The parts, each with the branch that was forked from it."""
        forked = (*(branch for branch, _ in self.parts[1:]), _END)
        return tuple((branch, last, fork) for (branch, last), fork in zip(self.parts, forked, strict=True))

    def branch_at(self, seq: int) -> int:
        """Return the branch that holds this place."""
        part = bisect_left(self.before, seq, key=lambda part: part[1])
        return self.before[part][0] if part < len(self.before) else self.branch

    def shows(self, branch: int, seq: int) -> bool:
        """Return whether a point lies on the path."""
        return any(one == branch and seq <= last for one, last in self.parts)

    def forked(self, seq: int, branch: int) -> "Path":
        """Return the path of a new branch that continues after a place."""
        before: list[tuple[int, int]] = []
        for one, last in self.parts:
            before.append((one, min(seq, last)))
            if seq < last:  # at the end of a part, messages added after its last one count, too
                break
        return Path(branch, tuple(before))

    def shared_with(self, others: Iterable["Path"]) -> int:
        """Return the last place that this path shares with one of the others; 0 if there is none."""
        last = 0
        for other in others:
            for (one, ours), (another, theirs) in zip(self.parts, other.parts, strict=False):
                if one != another:
                    break
                last = max(last, min(ours, theirs))
                if ours != theirs:
                    break
        return last


MAIN = Path()
NOWHERE = Path(-1)
"""A path that no branch has, for memories read on a branch that was deleted before they were stored."""


@dataclass(frozen=True, slots=True)
class Branch:
    """One line of a conversation: the messages up to a fork, and those after it. Times are UTC.

    Args:
        id: Its number: 0 for the branch on which the conversation began.
        name: The name given by `fork`, if any. A rewind or an edit passes it on to the branch that it makes.
        parent: The branch from which it was forked or, if that was deleted, the nearest one before it whose messages
            it shows; `None` for the first, and if none of these exists any more.
        forked_at: The id of the last message that it shares with its parent; `None` if it shares none, or that message
            was removed.
        message_count: The number of messages that it shows, including those before the fork.
        created_at: The time of the fork.
        last_message_at: The time of the newest message stored on it; `None` if there is none since the fork.
        is_current: True if sessions opened without a branch are on it.
        is_live: True if it is in use; false once it was rewound, or left by an edit.
    """

    id: int
    name: str | None
    parent: int | None
    forked_at: str | None
    message_count: int
    created_at: datetime
    last_message_at: datetime | None
    is_current: bool
    is_live: bool


BranchAction = Literal["list", "fork", "rewind", "switch", "delete"]


class ConversationStore(Protocol):
    """Stores conversations. Thread-safe; every method is atomic, and durable when it returns.

    A method that takes a session's key accesses only that session, along the path of the key's branch: the messages
    before each fork, and the branch's own. It raises `SessionNotFoundError` if the caller's conversation belongs to
    another user, `BranchNotFoundError` if the conversation has no such branch, `ConversationDeletedError` if it was
    deleted softly, and treats a conversation that does not exist as one with an empty branch 0.
    """

    def append(
        self,
        key: SessionKey,
        messages: Sequence[CountedMessage],
        *,
        max_messages: int | None = None,
        keep_unsummarized: bool = False,
        after: After | None = None,
    ) -> list[StoredMessage]:
        """Append messages to a conversation, and create the conversation if it does not exist.

        - Idempotent: a message whose id is already stored with the same content is left as it is; with other content,
          it becomes a new revision at its old position. If another branch shows the message too, the edit forks the
          key's branch before it: the messages after it are copied, the branch's name passes to the fork, keys without a
          branch move to it, and a key with one finds the fork's number on the messages returned.
        - Stores all of the messages or none, in the order of the calls, across processes.
        - With `max_messages`, removes the oldest whole turns until no more messages than that are left; the newest
          turn always stays. Nothing is removed while the conversation has several branches, nor (with
          `keep_unsummarized`) before it is summarised.
        - With `after`, the key's branch becomes current. If runs of the same thread stored messages after that place,
          or if the run no longer has earlier ones, it continues on a fork that shows neither; a retried run finds its
          fork. Messages of other writers after the place stay, and the run's follow them.

        Returns:
            Each message as it is stored now, in the order given (a message given twice is returned twice).
        """

    def read(
        self,
        key: SessionKey,
        *,
        ids: Sequence[str] | None = None,
        seqs: Sequence[int] | None = None,
        beside: bool = False,
        before: int | None = None,
        after: int | None = None,
        limit: int | None = None,
    ) -> list[StoredMessage]:
        """Return messages, oldest first. Reads as many rows as it returns, however long the conversation is.

        Args:
            key: The session.
            ids: Return the stored ones of these message ids, each once.
            seqs: Return the stored ones of these `seq`s, each once.
            beside: Also return the answers to users' messages among `seqs`, and the questions before the other ones.
            before: Return only messages with a smaller `seq`.
            after: Return only messages with a larger `seq`.
            limit: The maximum number of messages: the oldest ones with `after` alone, otherwise the newest.
        """

    def branch(
        self, key: SessionKey, action: BranchAction, *, at: str | None = None, name: str | None = None
    ) -> list[Branch]:
        """Return the conversation's branches in the order of their ids, or the one that an action made or chose.

        - "list" changes nothing.
        - "fork" makes a branch that shows the key's messages up to the one with the id `at` (all of them without it),
          and has them in common with the key's branch: no message is copied.
        - "rewind" forks likewise, and passes the name of the key's branch on to the fork, which becomes current if that
          branch is. The key's branch is no longer live.
        - "switch" makes the key's branch current and live.
        - "delete" removes the key's branch and those of its messages that no other branch shows, and returns it.

        Raises:
            InvalidInputError: The key's branch has no message `at`, another branch has the name, or the branch to be
                deleted is current.
            BranchNotFoundError: The conversation has no such branch.
            SessionNotFoundError: The conversation does not exist, or belongs to another user ("list" returns no branch
                of one that does not exist).
        """

    def path(self, key: SessionKey, *, known: bool = False) -> Path:
        """Return the path of the key's branch; with `known`, as the last read of the session found it."""

    def get(self, key: SessionKey) -> Conversation | None:
        """Return the session's record, or `None` if nothing was ever stored or the session was deleted."""

    def page(
        self,
        caller_id: str,
        *,
        user_id: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        which: ConversationFilter = EVERY_CONVERSATION,
    ) -> ConversationPage:
        """Return a page of a caller's conversations, or of one user's with `user_id`, newest first by creation."""

    def remove(self, key: SessionKey, message_ids: Sequence[str]) -> int:
        """Remove messages on every branch, with the memories derived from them alone; return the number removed."""

    def delete(
        self, key: SessionKey, *, keep_session: bool = False, soft: bool = False, idle: Idle | None = None
    ) -> int | None:
        """Remove all messages, forks and derived data, and the session itself unless `keep_session` is set.

        With `soft`, nothing is removed, but only `restore` and `delete` can use the session from then on. With `idle`,
        nothing happens to a session that is not idle any more.

        Returns:
            The number of messages removed; `None` if the session does not exist or is not idle.
        """

    def close(self) -> None:
        """Release the store's resources. Safe to call twice."""


class Store(ConversationStore, Protocol):
    """A conversation store that also keeps summaries, records and the search index."""

    @property
    def summaries(self) -> "SummaryStore":
        """The summaries and facts of its conversations."""

    @property
    def records(self) -> "Records":
        """The long-term memories and pins."""

    @property
    def index(self) -> "IndexStore":
        """The search index. Deleting a session also deletes its entries."""

    @property
    def reviews(self) -> "ReviewQueue":
        """The review queue. Deleting a session also deletes its answers, and the documents that they became."""

    @property
    def receipts(self) -> "ReceiptStore":
        """The stored receipts. Deleting a session also deletes its receipts."""

    def edits(self, key: SessionKey, *, reader: EditReader, done: Edits = NO_EDITS) -> Edits:
        """Return the edits that a reader has not processed yet; first mark those of `done` as processed.

        An edit notes its messages in its own transaction, because whoever makes it may die before any reader processes
        it. The index processes removals too; memories are removed with their messages.
        """

    def idle(self, which: Idle) -> Iterator[SessionKey]:
        """Yield the idle conversations of all callers, those that were created longest ago first."""

    def archive(self, key: SessionKey, *, idle: Idle | None = None) -> bool:
        """Move a conversation's messages into the archive; the next access to them brings them back.

        - Everything else stays: summaries, facts, records, index, branches and counts.
        - Nothing is removed before the object has been read back, and nothing at all if somebody writes meanwhile.
        - Safe to repeat after an interruption, and from many machines at once.

        Returns:
            True if it was archived; false if it already is, has no messages, is not idle, or is being written to.

        Raises:
            ConfigurationError: The store has no archive.
            ArchiveError: The object could not be stored.
            SessionNotFoundError: The conversation does not exist, or belongs to another user.
            ConversationDeletedError: It was deleted softly.
        """

    def sweep(self) -> int:
        """Remove objects that a machine wrote to the archive after their conversation was deleted or changed.

        It removes such an object itself, unless it dies; so they are removed once more a day later. Returns how many;
        one that can't be removed is logged and keeps no other.

        Raises:
            ConfigurationError: The store has no archive.
            ArchiveError: The archive can't be reached.
        """

    def restore(self, key: SessionKey) -> bool:
        """Make an archived or softly deleted conversation active again; return whether it was one of these.

        Raises:
            SessionNotFoundError: The conversation does not exist, or belongs to another user.
            ArchiveError: Its object is missing or damaged, or the archive can't be reached. Nothing was changed.
        """

    def check(self) -> None:
        """Raise `StoreUnavailableError` if the database's file was moved, so that new writes would be lost."""

    def traces(self, caller_id: str, user_id: str | None) -> "Traces":
        """Return the rows of a caller's user; without a user, all rows of the caller."""

    def dump(self, caller_id: str, user_id: str | None) -> Iterator[dict[str, Any]]:
        """Yield everything of a caller's user, or of the whole caller, as JSON objects: each is one step for `load`.

        A conversation with its branches and everything derived from it is one object, read from one snapshot.
        """

    def load(self, record: Mapping[str, Any]) -> bool:
        """Store an object that `dump` yielded, in one transaction; return whether anything was stored.

        Existing data stay as they are, so an import that was interrupted can be repeated.

        Raises:
            InvalidInputError: The object is not from `dump`, or another conversation has its id. Nothing was stored.
        """


@runtime_checkable
class Degradable(Protocol):
    """A store that works without a part that fails, such as a cache."""

    def problems(self) -> Mapping[str, str]:
        """Return the error of each part that does not work, by the part's name. Never raises."""


class Traces(Protocol):
    """The rows of a caller's user, and the remains of deleted rows in a database."""

    def owned(self) -> Mapping[str, int]:
        """Count the rows that belong to the caller and user, by table, and their objects in the archive."""

    def left(self) -> Mapping[str, int]:
        """Count the rows that name the caller and user, and the caller's rows whose conversation or scope is gone.

        Objects in the archive that `owned` counted are counted again.
        """

    def clean(self) -> list[str]:
        """Remove the remains of deleted rows where that is possible; return descriptions of those that stay."""

    def found_in_file(self, texts: Iterable[str]) -> int:
        """Return how many of the texts are in the database's file although no row has them."""
