"""The pages, and their content. Looking changes nothing that is stored, and restores nothing from the archive."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from markupsafe import Markup

from arc_common.context import ContextWindow
from arc_common.context.display import LOOKS, left_out, render_details, usage
from arc_common.engine.receipts import SentRequest
from arc_common.engine.replay import ReplayedTurn
from arc_common.exceptions import ArcError, BudgetExceededError, InvalidInputError, NotFoundError
from arc_common.messages import Message, Role
from arc_common.prompts.context import without_fences
from arc_common.protocols import Conversation, ConversationStatus
from arc_common.protocols.review import CandidateStatus
from arc_common.server.inspector.comparison import OTHER, Comparison, Segment, compare, segments
from arc_common.server.inspector.visit import Visit
from arc_common.tokens.budget import TokenBudget

Answer = tuple[str, Mapping[str, Any]] | str
"""A template with its values, or the address to go to."""

_CONVERSATIONS = 30
_MESSAGES = 40
_REQUESTS = 50
_LISTED = 200
_FOUND = 10
_SAID = ("message", "fact")
"""The parts of a message's score that come from its own words, not from its neighbours or its meaning."""
_LEAST = 0.05
"""The least of them that counts as found: parts of words alone have a hundredth of this."""
_ACTIVE = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(days=7), "month": timedelta(days=30)}
_SECTIONS = ("facts", "summary", "recalled", "history")
"""The sections whose limits can be tried out: those that a rebuilt turn can have."""


def conversations(visit: Visit) -> Answer:
    """List conversations, the newest first; with words, those in which they occur."""
    status, active, words = visit.text("status"), visit.text("active"), visit.text("q")
    if active is not None and active not in _ACTIVE:
        raise InvalidInputError("active", active, f"one of {', '.join(_ACTIVE)}")
    now = visit.engine.clock()
    page = visit.engine.admin.sessions(
        visit.access.caller_id,
        visit.user_id,
        _CONVERSATIONS,
        visit.text("cursor"),
        status=status,
        active_since=now - _ACTIVE[active] if active else None,
    )
    rows = [Row.of(visit, one, words) for one in page.conversations]
    values = {
        "rows": [row for row in rows if row.matches],
        "looked_at": len(rows),
        "next_cursor": page.next_cursor,
        "statuses": list(ConversationStatus),
        "activities": list(_ACTIVE),
        "filters": {"q": words, "user": visit.text("user"), "status": status, "active": active},
    }
    return "conversations.html", values


@dataclass(frozen=True, slots=True)
class Row:
    """A conversation in the list: its last words, or the messages in which the words were found."""

    conversation: Conversation
    matches: bool
    messages: Sequence[Message]

    @classmethod
    def of(cls, visit: Visit, one: Conversation, words: str | None) -> "Row":
        """Read a conversation's entry for the list. An archived one is not brought back for it."""
        names = f"{one.key.session_id}\n{one.key.user_id or ''}".casefold()
        is_named = not words or words.casefold() in names
        if one.status is not ConversationStatus.ACTIVE:
            return cls(one, is_named, ())
        session = visit.engine.session(one.key.session_id, user_id=one.key.user_id, caller_id=one.key.caller_id)
        if not words:
            return cls(one, True, session.messages(limit=1))
        hits = session.recall(words, top_k=2, scope="session")
        found = [hit.message for hit in hits if max(hit.score_parts.get(part, 0) for part in _SAID) >= _LEAST]
        return cls(one, is_named or bool(found), found)


def conversation(visit: Visit) -> Answer:
    """Show one conversation: its messages, and all that Arc made of it."""
    session, debug = visit.session, visit.debug
    if visit.is_archived:
        return "archived.html", {"conversation": debug.conversation, "requests": _requests(visit)}
    words, before = visit.text("q"), visit.text("before")
    messages = session.messages(limit=_MESSAGES + 1, before=before)
    requests = _requests(visit)
    chart, branches = bars(requests[::-1]), session.branches()
    values = {
        "conversation": debug.conversation,
        "progress": debug.progress,
        "branches": branches,
        "names": {one.id: one.name or f"branch {one.id}" for one in branches},
        "messages": messages[-_MESSAGES:],
        "older": messages[1].id if len(messages) > _MESSAGES else None,
        "before": before,
        "requests": requests,
        "chart": chart,
        "sections": _legend(chart),
        "largest": max((one.window for one in requests), key=lambda window: window.total_tokens, default=None),
        "by_message": _by_message(requests),
        "facts": session.facts(include_superseded=True, include_ungrounded=True)[:_LISTED],
        "pins": session.pins(),
        "memories": visit.memories.list(status=None, include_superseded=True, limit=_LISTED),
        "most": _LISTED,
        "words": words,
        "found": session.recall(words, top_k=_FOUND, scope="session") if words else [],
        "done": visit.text("done"),
    }
    return "conversation.html", values


@dataclass(frozen=True, slots=True)
class Bar:
    """A request in the chart: its id, number, tokens, place and width in percent, and its segments."""

    id: str
    number: int
    at: datetime
    tokens: int
    left: float
    width: float
    segments: Sequence[Segment]


def bars(requests: Sequence[SentRequest]) -> list[Bar]:
    """Return the chart of some requests, the oldest first."""
    most = max((one.window.total_tokens for one in requests), default=0)
    step = 100 / max(len(requests), 8)
    return [
        Bar(
            one.id,
            place + 1,
            one.created_at,
            one.window.total_tokens,
            place * step,
            0.8 * step,
            segments(one.window, most),
        )
        for place, one in enumerate(requests)
    ]


def _legend(chart: Sequence[Bar]) -> list[tuple[str, str]]:
    """Return the names and titles of the sections in a chart, in the order of a window."""
    titles = {one.name: one.title for bar in chart for one in bar.segments}
    return [(name, titles[name]) for name in (*LOOKS, OTHER) if name in titles]


def _requests(visit: Visit) -> list[SentRequest]:
    """Return the stored requests of the conversation, the newest first."""
    return visit.engine.admin.requests(
        visit.session_id,
        limit=_REQUESTS,
        caller_id=visit.access.caller_id,
        user_id=visit.user_id,
        branch=visit.branch,
    )


def _asked(window: ContextWindow) -> Message | None:
    """Return the user's message that a request answers."""
    return next((one for one in reversed(window.messages) if one.role is Role.USER), None)


def _by_message(requests: Sequence[SentRequest]) -> Mapping[str, Sequence[SentRequest]]:
    """Return the requests by the id of the user's message that they answer, or by its text."""
    found: dict[str, list[SentRequest]] = defaultdict(list)
    for one in reversed(requests):
        if asked := _asked(one.window):
            found[asked.id or without_fences(asked.text).strip()].append(one)
    return found


@dataclass(frozen=True, slots=True)
class Shown:
    """A request that the turn's page shows, the one before it, and its place among the others."""

    window: ContextWindow
    earlier: ContextWindow | None
    sent: SentRequest | None
    turn: int | str | None
    number: int
    count: int
    links: Mapping[str, str | None]


def turn(visit: Visit) -> Answer:
    """Show the request of one turn: as it was sent, or else as it would be built today."""
    wanted = visit.text("request")
    if visit.is_archived and not wanted:
        return visit.of_conversation("conversation")
    shown = _as_sent(visit, wanted) if wanted else _rebuilt(visit, visit.text("message") or visit.number("turn"))
    window = shown.window
    limit = max(window.receipt.input_tokens, window.total_tokens, 1)
    values = {
        "shown": shown,
        "window": window,
        "usage": usage(window),
        "segments": segments(window, limit),
        "enlarged": segments(window, window.total_tokens) if 2 * window.total_tokens < limit else (),
        "details": Markup(render_details(window)),  # noqa: S704 - it escapes what it shows
        "left_out": left_out(window),
        "change": compare(shown.earlier, window) if shown.earlier else None,
        "trial": _tried(visit, shown.turn),
    }
    return "turn.html", values


def _as_sent(visit: Visit, wanted: str) -> Shown:
    found = _requests(visit)
    ids = [one.id for one in found]
    if wanted not in ids:
        raise NotFoundError(f"request {wanted!r} is not stored, or no longer: only the newest {_REQUESTS} are kept")
    at = ids.index(wanted)
    sent = found[at]
    earlier = next((one for one in found[at + 1 :] if one.branch == sent.branch), None)
    links = {
        "earlier": visit.of_conversation("turn", request=ids[at + 1]) if at + 1 < len(ids) else None,
        "later": visit.of_conversation("turn", request=ids[at - 1]) if at else None,
    }
    count = len(ids)
    window = earlier.window if earlier else None
    return Shown(sent.window, window, sent, _turn_of(visit, sent), count - at, count, links)


def _turn_of(visit: Visit, sent: SentRequest) -> str | None:
    """Return the id of the stored user's message that a request answers."""
    asked = _asked(sent.window)
    if asked is None or visit.is_archived:
        return None
    if asked.id:
        return asked.id
    text = without_fences(asked.text).strip()
    same = [one for one in visit.session.messages() if one.role is Role.USER and one.text.strip() == text]
    nearest = min(same, key=lambda one: abs((one.created_at or sent.created_at) - sent.created_at), default=None)
    return nearest.id if nearest else None


def _rebuilt(visit: Visit, turn: int | str | None) -> Shown:
    replayed = _replayed(visit, turn)
    number, count = replayed.number, replayed.count
    earlier = None
    if number > 1:
        with suppress(BudgetExceededError):
            earlier = _replayed(visit, number - 1).window
    links = {
        "earlier": visit.of_conversation("turn", turn=number - 1) if number > 1 else None,
        "later": visit.of_conversation("turn", turn=number + 1) if number < count else None,
    }
    return Shown(replayed.window, earlier, None, number, number, count, links)


def _replayed(visit: Visit, turn: int | str | None, budget: TokenBudget | None = None) -> ReplayedTurn:
    """Assemble a stored turn again, with the engine's budget or another one, without storing anything."""
    return visit.engine.admin.replay(
        visit.session_id,
        turn,
        budget=budget,
        caller_id=visit.access.caller_id,
        user_id=visit.user_id,
        branch=visit.branch,
    )


@dataclass(frozen=True, slots=True)
class Trial:
    """The what-if panel: the limits in force, those to try, and their effect, or why they can't be tried."""

    budget: TokenBudget
    limits: Mapping[str, int]
    given: Mapping[str, int | None]
    change: Comparison | None = None
    windows: tuple[ContextWindow, ContextWindow] | None = None
    problem: str | None = None


def _tried(visit: Visit, turn: int | str | None) -> Trial | None:
    """Assemble the turn with other limits, and compare it with the one under the limits in force."""
    if turn is None:
        return None
    budget = visit.engine.budget
    reserve = budget.context_window - budget.input_limit
    limits = {"window": budget.context_window, "reserve": reserve}
    limits |= {name: budget.max_tokens(name) for name in _SECTIONS}
    given: dict[str, int | None] = dict.fromkeys(limits)
    try:
        given = {name: visit.number(f"try_{name}") for name in limits}
        if all(value is None for value in given.values()):
            return Trial(budget, limits, given)
        sections = {name: value for name in _SECTIONS if (value := given[name]) is not None}
        tried = replace(
            budget,
            context_window=limits["window"] if given["window"] is None else given["window"],
            output_reserve=budget.output_reserve if given["reserve"] is None else given["reserve"],
            sections={**budget.sections, **sections},
        )
        windows = _replayed(visit, turn).window, _replayed(visit, turn, tried).window
    except NotFoundError:
        raise
    except ArcError as error:
        return Trial(budget, limits, given, problem=str(error))
    return Trial(budget, limits, given, compare(*windows), windows)


def review(visit: Visit) -> Answer:
    """Show the review queue, the oldest first."""
    status = CandidateStatus(visit.text("status") or CandidateStatus.PENDING)
    channel = visit.text("channel")
    page = visit.access.ingestion.candidates(
        status, channel=channel, user_id=visit.user_id, limit=_CONVERSATIONS, cursor=visit.text("cursor")
    )
    values = {
        "candidates": page.candidates,
        "next_cursor": page.next_cursor,
        "status": status,
        "statuses": list(CandidateStatus),
        "filters": {"user": visit.text("user"), "channel": channel},
        "done": visit.text("done"),
    }
    return "review.html", values
