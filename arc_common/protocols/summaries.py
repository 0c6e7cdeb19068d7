"""The protocol of stores for a conversation's summaries and facts, and the values that it exchanges."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from arc_common.facts import Fact
from arc_common.memories import Pin
from arc_common.messages import Message, Role
from arc_common.protocols.conversations import SessionKey, StoredMessage

Maker = Literal["model", "rules"]
SegmentPart = Literal["cover", "all", "unfinished"]


@dataclass(frozen=True, slots=True)
class Outline:
    """The properties of a message that planning needs."""

    seq: int
    role: Role
    tokens: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A range of a conversation and its narrative.

    Args:
        level: 0 for a leaf, 1 for a block of four leaves, 2 and above for an era.
        start: The `seq` of its first message.
        end: The `seq` of its last message; messages between the two may have been removed since.
        narrative: An account of the range; `""` if it must be written (again).
        tokens: The narrative's token count.
        made_by: The author of the narrative; `None` if it must be written (again).
        sources: For leaves and blocks: the id and content hash of each message read, in order.
        parts: The number of segments of the level below from which it was made.
        created_at: The time at which it was written (UTC).
        covered: True if a higher segment covers it, as stored.
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
    covered: bool = field(default=False, compare=False)

    @property
    def stale(self) -> bool:
        """`True` if the segment must be written again because one of its messages was edited or removed."""
        return self.made_by is None


@dataclass(frozen=True, slots=True)
class View:
    """The adopted summary: the stable part of the prompt, unchanged until the next adoption.

    Args:
        version: 1 for the first adoption; increases by one with each further one.
        boundary: The `seq` of the last message that summaries cover; 0 if they cover none.
        covered: The number of messages that summaries cover.
        facts: The adopted facts' lines, as shown.
        narrative: The narratives, as shown.
        instructions: The texts of the system messages before the boundary, which are always shown.
        correction: The token counter's correction at adoption.
        stale: True if the texts must be written again because a message before the boundary was edited or removed.
        unshown: The number of narratives that did not fit or have yet to be written again.
        unshown_tokens: The token count of these narratives.
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
    """The summary of a conversation's older messages.

    Args:
        narrative: An account of these messages, the newest part at the end.
        facts: The valid facts, the most important first.
        summarized_up_to: The number of messages, from the session's beginning, that the summary covers; 0 for none.
        pending: The number of newer messages, which the summary does not cover yet.
        created_at: The time at which its first part was written (UTC).
        updated_at: The time at which its last part was written (UTC).
    """

    narrative: str
    facts: tuple[Fact, ...]
    summarized_up_to: int
    pending: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Compaction:
    """The effect of `Session.compact`.

    Args:
        messages: The number of messages in whose place requests now show facts and a summary.
        tokens_before: The tokens of all facts, summary and messages that a large request would have shown before.
        tokens_after: The tokens that it shows now.
        notes: Problems, such as summaries written by rules because the model failed.
    """

    messages: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoredMessage:
    """A message found by a query.

    Args:
        score: Its score; higher is better.
        session_id: The message's session, if several were searched or it is known.
    """

    message: Message
    score: float
    score_parts: Mapping[str, float]
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class SessionState:
    """A snapshot of a session with all that a turn needs.

    Args:
        messages: The newest messages after both the view's boundary and `after` (all of them, up to `limit`), oldest
            first.
        total_tokens: The sum of the stored token counts of the whole session.
        epoch: A number that changes with every edit, removal and clearing.
        facts_version: A number that changes with every change to the ledger.
        summarized_to: The `seq` of the last message in a written segment; 0 if there is none.
        pins: The texts that every request shows, oldest first: the session's own and its scopes' pinned memories.
        outlines: The oldest messages after `after` without their texts, up to the number asked for.
    """

    view: View | None = None
    messages: tuple[StoredMessage, ...] = ()
    message_count: int = 0
    total_tokens: int = 0
    epoch: int = 0
    facts_version: int = 0
    summarized_to: int = 0
    pins: tuple[Pin, ...] = ()
    outlines: tuple[Outline, ...] = ()

    @property
    def boundary(self) -> int:
        """The `seq` of the last message that the adopted summary covers; 0 if there is none."""
        return self.view.boundary if self.view else 0


@dataclass(frozen=True, slots=True)
class SummaryInspection:
    """The progress of a session's summaries.

    Args:
        segments: Every segment, ordered by start and then by level.
        pending: The number of messages after the last written segment, which no segment covers yet.
        is_busy: True while this process is summarising the session.
    """

    segments: tuple[Segment, ...]
    view: View | None
    message_count: int
    pending: int
    is_busy: bool


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on a session's summaries until another owner takes it.

    Args:
        fence: A number that grows with each change of owner; a commit with an older one is refused.
        epoch: The session's epoch when the lease was taken.
        key: The session.
    """

    owner: str
    fence: int
    epoch: int
    key: SessionKey | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """A finished segment and the resulting changes to facts, stored in one transaction.

    Args:
        segment: The segment. It replaces one of the same level and start (a running era grows), but one made by rules
            never replaces one made by a model.
        facts: The facts read from the segment; they replace all facts read from this leaf before.
        ends: The facts that are no longer valid, each with the fact that replaces it; by ids, `None` for none.
            At least one is of this leaf, and the replacement is of the same leaf or a later one, on whichever branch.
        facts_version: The ledger into which the facts were merged; a commit to another one is refused.
    """

    segment: Segment
    facts: tuple[Fact, ...] = ()
    ends: tuple[tuple[str, str | None], ...] = ()
    facts_version: int | None = None


class SummaryStore(Protocol):
    """Stores summaries and facts beside the conversation. Thread-safe; every method is atomic and sees one session.

    - Editing or removing a message does the following in the edit's own transaction: it empties the leaf that covers
      the message and the leaves with a fact that names it as a source (narrative, tokens, sources and maker); removes
      the blocks and eras above these leaves (their other parts are uncovered again); removes these leaves' facts and
      undoes their supersessions and removals of other facts; makes the view stale (its boundary stays, its texts are
      removed); and changes the epoch. A leaf without any messages left is removed; a view that depends on none of this
      stays.
    - Facts that say the same share a slot. The end of a fact is stored in the leaf of its replacement: the fact is
      valid on paths that do not show that leaf, and again when the leaf is removed, unless a later leaf ends it, too.
    - Removing messages through a cap on the conversation's length changes nothing here: summaries and facts made from
      them stay.
    - Segments made from messages before a fork are shared: every branch that shows the newest message read for a
      segment shows the segment and its facts, unless it had read these messages in other segments already. Adopted
      views belong to the branch that adopted them, and to those forked from it later.
    - Clearing or deleting a session removes all of its summaries and facts. An epoch or lease of a deleted session is
      invalid for a new session with the same id.
    """

    def state(
        self, key: SessionKey, *, limit: int, after: int = 0, outlines: int = 0, view: bool = True
    ) -> SessionState:
        """Return the view and the newest messages after its boundary, in one snapshot and one round trip.

        Returns at most `limit` messages, and with `after` only those with a larger `seq`, so that a caller that keeps
        the earlier messages reads only the new ones. The kept messages are current while the epoch is the same, and
        complete while the message count has grown by exactly the number of messages read.

        With `outlines`, also returns as many of the oldest messages with a `seq` above `after`, without their texts and
        whatever the boundary is. With `view=False`, leaves the view out, so that a damaged one does not hide the pins.
        """

    def segments(
        self, key: SessionKey, *, part: SegmentPart = "cover", within: Segment | None = None, limit: int | None = None
    ) -> list[Segment]:
        """Return segments, ordered by start and then by level.

        Args:
            key: The session.
            part: "cover" for the segments that no higher one covers, including empty ones; "all" for all; "unfinished"
                for leaves and blocks with messages that are empty or made by rules (empty ones first).
            within: Return the segments of the level below that lie within this one, whatever `part` is.
            limit: The maximum number of unfinished segments.
        """

    def claim(self, key: SessionKey | None, *, owner: str, seconds: float) -> Lease | None:
        """Take the lease if it is free, expired or already the owner's.

        - Work on a session is due once a message is stored, edited or removed, until a claim without a key and a
          release with `worked` follow.
        - Without a key, take the free lease of any caller's session whose work has been due longest. Two owners never
          get the same one at once, and it is due again if the lease expires.

        Returns:
            The lease; `None` if another owner holds it, the session does not exist, or nothing is due.
        """

    def release(
        self, key: SessionKey, lease: Lease, *, worked: bool = False, due_again: datetime | None = None
    ) -> None:
        """Release the lease if it is still the current one.

        With `worked`, the session's work is done until `due_again`, or until something is stored: it stays due if that
        has happened since the claim.
        """

    def commit(self, key: SessionKey, commit: Commit, *, lease: Lease | None, epoch: int) -> bool:
        """Store a segment; return whether it was stored.

        Refuses, changing nothing, in any of these cases:

        - The session's epoch is no longer `epoch`, or its ledger no longer the commit's.
        - `lease` is given and another one has been taken since (an expired lease that nobody has taken is accepted).
        - The segment was made by rules and one made by a model is stored.
        - The same range by the same maker is stored.
        - It overlaps another segment of its level (but a running era may grow).
        """

    def adopt(self, key: SessionKey, view: View, *, epoch: int) -> bool:
        """Store the view if the session's epoch is still `epoch`; return whether it was stored.

        The view's version must be one above the stored view's, or 1 if none is stored.
        """

    def facts(
        self,
        key: SessionKey,
        *,
        keys: Sequence[str] | None = None,
        leaf: int = 0,
        saying: Collection[str] | None = None,
        include_superseded: bool = False,
        include_ungrounded: bool = False,
        known: Mapping[str, Fact] | None = None,
        limit: int | None = None,
    ) -> list[Fact]:
        """Return facts of the ledger, the most important first (newest first among equals).

        Args:
            key: The session.
            keys: Return all valid facts under these keys, compared after folding case and whitespace.
            leaf: The start of a leaf that is read, maybe again: return the facts of earlier leaves that were valid
                before it and, with `keys`, also all facts of later leaves, on any branch.
            saying: With `keys`, the values (compared likewise) to which facts found by rules are limited, because a
                key that rules assign may have hundreds of facts.
            include_superseded: Include facts that are no longer valid.
            include_ungrounded: Include facts that a model stated but their sources don't.
            known: Facts by id that the caller read in the same epoch; they are returned as given, not read again.
            limit: The maximum number of facts; all if `None`.
        """
