"""What stores keep of a conversation's summaries and facts, and the protocol for it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from arc_common.facts import Fact
from arc_common.messages import Message, Role
from arc_common.protocols import SessionKey, StoredMessage

__all__ = [
    "Commit",
    "ConversationSummary",
    "Lease",
    "Maker",
    "Outline",
    "ScoredMessage",
    "Segment",
    "SegmentOutline",
    "SessionState",
    "SummaryInspection",
    "SummaryStore",
    "View",
]

Maker = Literal["model", "rules"]


@dataclass(frozen=True, slots=True)
class Outline:
    """What planning needs to know of a message."""

    seq: int
    role: Role
    tokens: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a conversation and its narrative.

    Args:
        level: 0 a leaf, 1 a block of four leaves, 2 and above an era.
        start: The `seq` of its first message.
        end: The `seq` of its last message; messages between them may have been removed since.
        narrative: What happened in it; `""` when it has to be written (again).
        tokens: The narrative's tokens.
        made_by: Who wrote the narrative; `None` when it has to be written (again).
        sources: For leaves and blocks: id and content hash of each message that was read, in order.
        parts: How many segments of the level below it was made from.
        created_at: When it was written (UTC).
    """

    level: int
    start: int
    end: int
    narrative: str
    tokens: int
    made_by: Maker | None
    sources: tuple[tuple[str, str], ...] = ()
    parts: int = 0
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SegmentOutline:
    """What there is to know of a segment without its text.

    Args:
        level: As a `Segment`'s, and so are `start`, `end`, `tokens`, `made_by`, `parts` and `created_at`.
        start: The `seq` of its first message.
        end: The `seq` of its last message.
        tokens: The narrative's tokens.
        made_by: Who wrote the narrative, if anybody has.
        parts: How many segments of the level below it was made from.
        covered: Whether a higher segment stands for it.
        created_at: When it was written (UTC).
    """

    level: int
    start: int
    end: int
    tokens: int
    made_by: Maker | None
    parts: int
    covered: bool
    created_at: datetime | None

    @property
    def stale(self) -> bool:
        """Whether it has to be written again: one of its messages was edited or removed."""
        return self.made_by is None


@dataclass(frozen=True, slots=True)
class View:
    """What is adopted: the stable part of the prompt, unchanged until the next adoption.

    Args:
        version: 1 for the first adoption, one more for each further one.
        boundary: The `seq` of the last message that summaries stand for; 0 for none.
        covered: How many messages those are.
        facts: The adopted facts' lines, as shown.
        fact_ids: Their ids.
        narrative: The narratives, as shown.
        instructions: The texts of system messages that lie before the boundary: they are always shown.
        correction: The token counter's correction at adoption.
        adopted_at: When (UTC).
        stale: Whether the texts must be written again because a message before the boundary was edited or removed.
        unshown: How many narratives did not fit or have yet to be written again.
        unshown_tokens: Their tokens.
    """

    version: int
    boundary: int
    covered: int
    facts: tuple[str, ...]
    fact_ids: tuple[str, ...]
    narrative: str
    instructions: tuple[str, ...]
    correction: float
    adopted_at: datetime
    stale: bool = False
    unshown: int = 0
    unshown_tokens: int = 0


@dataclass(frozen=True, slots=True)
class ConversationSummary:
    """What stands for a conversation's older messages.

    Args:
        narrative: What happened, the newest part at the end.
        facts: The facts that hold, the most important first.
        summarized_up_to: How many of the session's messages, from its beginning, the summary stands for; 0 for none.
        pending: How many messages lie behind it, the newest: nothing stands for them yet.
        created_at: When its first part was written (UTC).
        updated_at: When its last part was written (UTC).
    """

    narrative: str
    facts: tuple[Fact, ...]
    summarized_up_to: int
    pending: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ScoredMessage:
    """A message that a question found.

    Args:
        message: The original.
        score: Higher is better.
        score_parts: What the score was made from.
        session_id: The session that it is of, where several were searched or it is known.
    """

    message: Message
    score: float
    score_parts: Mapping[str, float]
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class SessionState:
    """One snapshot of what a turn needs.

    Args:
        view: What is adopted, if anything is.
        messages: The newest messages behind the view's boundary and behind `after` (all of them unless `limit` cut
            them), oldest first.
        message_count: Of the whole session.
        total_tokens: Of the whole session, as stored.
        epoch: Changes with every edit, removal and clearing.
        facts_version: Changes with every change of the ledger.
    """

    view: View | None = None
    messages: tuple[StoredMessage, ...] = ()
    message_count: int = 0
    total_tokens: int = 0
    epoch: int = 0
    facts_version: int = 0


@dataclass(frozen=True, slots=True)
class SummaryInspection:
    """How far a session's summaries have come.

    Args:
        segments: Every segment, by where it begins and then by level.
        view: What is adopted, if anything is.
        message_count: Messages in the session.
        pending: Messages behind the last segment that is written: nothing stands for them yet.
        is_busy: Whether this process is at work on it.
    """

    segments: tuple[SegmentOutline, ...]
    view: View | None
    message_count: int
    pending: int
    is_busy: bool


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on a session's summaries, until another takes it.

    Args:
        owner: Who holds it.
        fence: Grows with each change of owner; a commit with an older one is refused.
        epoch: The session's epoch when it was taken.
    """

    owner: str
    fence: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A finished segment with what follows from it, stored in one transaction.

    Args:
        segment: The segment. It replaces one of the same level and start (a running era grows); one by rules never
            replaces one by a model.
        facts: The facts read from it: they replace all that were read from this leaf before.
        superseded: Facts of earlier leaves that no longer hold, by id, with the id of the new one.
        removed: Facts of earlier leaves that no longer hold, with nothing in their place.
    """

    segment: Segment
    facts: tuple[Fact, ...] = ()
    superseded: dict[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


class SummaryStore(Protocol):
    """Where summaries and facts are kept, beside the conversation. Thread-safe; every method is atomic and scoped.

    - Editing or removing a message empties the leaf over it and the leaves with a fact that names it as a source
      (narrative, tokens, sources and maker), removes the blocks and eras over them (their other parts stand for
      themselves again), removes these leaves' facts with all that they superseded and removed, makes the view stale
      (its boundary stays, its texts go) and changes the epoch: all in the edit's own transaction. A leaf that has no
      messages left goes altogether; a view that rests on nothing of this stays.
    - A fact lies in a slot, which holds its newest fact only: what a leaf superseded holds again when the leaf goes,
      unless a later fact of the slot stands.
    - Messages that leave by a cap on the conversation's length change nothing here: what was read from them stays.
    - Clearing and deleting a session remove all of it. An epoch or lease of a deleted session is of no use in one of
      the same name that was made anew.
    """

    def state(self, key: SessionKey, *, limit: int, after: int = 0) -> SessionState:
        """View and newest messages behind its boundary (at most `limit`), in one snapshot and one round trip.

        With `after`, only messages behind that place too: who keeps the earlier ones reads what is new. Those kept are
        still right while the epoch is the same, and all there while the count of messages has grown by those read.
        """

    def cover(self, key: SessionKey) -> list[Segment]:
        """The segments that no higher one stands for, oldest first (empty ones too)."""

    def segments(self, key: SessionKey) -> list[SegmentOutline]:
        """Every segment without its text, by where it begins and then by level."""

    def parts(self, key: SessionKey, segment: Segment) -> list[Segment]:
        """The segments of the level below that lie within it, oldest first."""

    def unfinished(self, key: SessionKey, *, limit: int) -> list[Segment]:
        """Leaves and blocks that are empty or made by rules and still have messages: first the empty, oldest first."""

    def outlines(self, key: SessionKey, *, after: int, limit: int) -> list[Outline]:
        """The oldest messages behind a place, without their texts."""

    def acquire(self, key: SessionKey, *, owner: str, seconds: float) -> Lease | None:
        """Take the lease if it is free, expired or the owner's own; `None` if another has it or there is no session."""

    def release(self, key: SessionKey, lease: Lease) -> None:
        """Give the lease back, if it is still this one."""

    def commit(self, key: SessionKey, commit: Commit, *, lease: Lease | None, epoch: int) -> bool:
        """Store a segment; whether it was stored.

        Refused (and nothing is changed) when the epoch is another by now, when `lease` is given and another has been
        taken meanwhile (an expired one that nobody has taken serves), when it is by rules and there is one by a model,
        when the same stretch is there by the same maker, and when it overlaps another of its level (a running era may
        grow).
        """

    def adopt(self, key: SessionKey, view: View, *, epoch: int) -> bool:
        """Store the view, if the epoch is still this one and the stored view's version is one less; whether it was.

        Without a stored view the version must be 1.
        """

    def facts(
        self,
        key: SessionKey,
        *,
        include_superseded: bool = False,
        include_ungrounded: bool = False,
        limit: int | None = None,
    ) -> list[Fact]:
        """The ledger: the most important first (newest first among equals).

        What holds; on request also what no longer does, and what a model said that its sources don't.
        """

    def fact_ids(self, key: SessionKey, *, limit: int) -> list[str]:
        """The ids of the first `limit` facts that hold, in the order of `facts`."""

    def facts_of_ids(self, key: SessionKey, ids: Sequence[str]) -> list[Fact]:
        """Those of the facts that are there, whatever is to be said of them, in the order of `facts`."""

    def facts_of_keys(
        self,
        key: SessionKey,
        keys: Sequence[str],
        *,
        without: int | None = None,
        saying: Collection[str] | None = None,
    ) -> list[Fact]:
        """The facts that hold under these keys (compared after folding case and space).

        With `saying`, of those that rules found only the ones that say one of these values (compared likewise): a key
        that rules give may have hundreds.

        With `without`, as if the leaf that begins at that place had not been read: not its facts, but those that only
        these superseded or it removed. That is what a leaf's new reading is to be merged with.
        """
