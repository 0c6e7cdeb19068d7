"""What a model gets to see on one turn, what each part costs, and what was left out. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from arc_common.documents import Document, ScoredDocument
from arc_common.exceptions import BudgetExceededError, InvalidInputError
from arc_common.messages import ARC_MARK, ContentPart, Message, Role
from arc_common.prompts import render_documents
from arc_common.protocols import TokenCounter
from arc_common.tokens.budget import TokenBudget
from arc_common.tokens.correction import corrected
from arc_common.tokens.counting import REQUEST_OVERHEAD, message_tokens, schema_tokens, tools_tokens
from arc_common.tokens.window import OLDER, Dropped, select_window

__all__ = [
    "ContextWindow",
    "LeftOut",
    "Omission",
    "Receipt",
    "Request",
    "Section",
    "as_documents",
    "build_context_window",
]

NEAREST = 20
"""How many of the things left out a receipt names one by one."""

TOO_LARGE = "no room for it"


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the request: its tokens, the most it could have had, and how many items it holds."""

    name: str
    tokens: int
    allotted: int
    items: int


@dataclass(frozen=True, slots=True)
class Omission:
    """One thing that was left out: its kind ("message", "document"), what names it, its tokens and the reason."""

    kind: str
    id: str | None
    tokens: int
    reason: str
    score_parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """How many things were left out for one reason, and their tokens together."""

    count: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a request was made of, and what it was not.

    Args:
        kept: The ids of the messages and documents in it, in its order.
        nearest: Up to 20 of the things left out, those that came closest first.
        rest: All other things left out, by reason.
        notes: What went wrong on the way without stopping it.
    """

    kept: tuple[str, ...]
    nearest: tuple[Omission, ...] = ()
    rest: Mapping[str, LeftOut] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """The messages of a request, ready for a model, with the account of them.

    - `total_tokens`, framing, tools and response schema included, is at most the budget's `input_tokens`.
    - The system prompt and the current user message are there whole.
    - One leading system message at most, then the user's first; each tool call stands before all of its results.
    """

    messages: tuple[Message, ...]
    sections: tuple[Section, ...]
    total_tokens: int
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Request:
    """What the caller brings to a turn.

    Args:
        query: The current user message; `None` when it is in the history already.
        system_prompt: The instructions.
        documents: Retrieved text for this turn, best first.
        tools: The tools' schemas (OpenAI form), which cost tokens.
        response_format: The schema of the answer, which costs tokens.
        budget: What the request may cost.
        max_turns: At most so many turns of history; `None` for as many as fit.
        max_messages: At most so many messages of history; `None` for as many as fit.
    """

    query: Message | None = None
    system_prompt: str | None = None
    documents: tuple[Document | ScoredDocument, ...] = ()
    tools: Sequence[Mapping[str, Any]] | None = None
    response_format: Mapping[str, Any] | None = None
    budget: TokenBudget = field(default_factory=TokenBudget)
    max_turns: int | None = None
    max_messages: int | None = None


def build_context_window(
    request: Request,
    history: Sequence[Message],
    *,
    counter: TokenCounter,
    raw_tokens: Callable[[Message], int],
    unread: LeftOut = LeftOut(0, 0),
) -> ContextWindow:
    """Put a request together within its budget.

    Documents come before old turns: they are taken first, best first, up to their ceiling; one that doesn't fit is
    passed over for the next. The history gets what is left, by whole turns from the newest.

    Args:
        request: What the caller brings.
        history: The conversation's newest messages, oldest first.
        counter: Counts what has no stored count.
        raw_tokens: The stored count of a message of the history.
        unread: The messages before `history`, which were not even loaded.

    Raises:
        BudgetExceededError: The system prompt and the current user message alone don't fit.
    """

    def cost(message: Message) -> int:
        return corrected(counter, raw_tokens(message))

    def fresh(message: Message) -> int:
        return corrected(counter, message_tokens(counter, message))

    limit = request.budget.input_tokens
    schemas = corrected(counter, tools_tokens(counter, request.tools) + schema_tokens(counter, request.response_format))
    hoisted = [message for message in history if message.role is Role.SYSTEM]
    system = _system_message(request.system_prompt, hoisted)
    system_cost = fresh(system) if system else 0
    query_cost = fresh(request.query) if request.query else 0
    fixed = REQUEST_OVERHEAD + schemas + system_cost + query_cost
    if fixed > limit:
        raise BudgetExceededError(_fixed_parts(request, schemas), needed=fixed, available=limit)

    documents_room = min(request.budget.ceiling("documents"), limit - fixed)
    shown, passed_over, documents_cost = _fit_documents(
        request, system, documents_room, fresh, before=system_cost + query_cost
    )
    room = limit - fixed - documents_cost
    selection = select_window(
        [message for message in history if message.role is not Role.SYSTEM],
        max_turns=request.max_turns,
        max_messages=request.max_messages,
        max_tokens=room,
        count=cost,
        live=request.query is None,
    )
    system, query = _with_documents(system, request.query, shown)
    messages = (*([system] if system else ()), *selection.kept, *([query] if query else ()))
    history_cost = sum(map(cost, selection.kept))
    sections = (
        Section("system", system_cost, limit, int(system is not None)),
        Section("tools", schemas, limit, len(request.tools or ())),
        Section("documents", documents_cost, documents_room, len(shown)),
        Section("history", history_cost, room, len(selection.kept)),
        Section("query", query_cost, limit, int(query is not None)),
    )
    omissions = [*(_missed_message(dropped, cost) for dropped in reversed(selection.dropped)), *passed_over]
    kept = [message.id for message in messages] + [_plain(document).id for document in shown]
    return ContextWindow(
        messages=messages,
        sections=sections,
        total_tokens=fixed + documents_cost + history_cost,
        receipt=_receipt([name for name in kept if name], omissions, unread),
    )


def _system_message(prompt: str | None, hoisted: Sequence[Message]) -> Message | None:
    """All system text as one message: providers merge, hoist, reject or silently drop any further one."""
    texts = [text for text in (prompt, *(message.text for message in hoisted)) if text]
    if not texts:
        return None
    return Message(Role.SYSTEM, "\n\n".join(texts), metadata={ARC_MARK: "system"})


def _fixed_parts(request: Request, schemas: int) -> str:
    parts = [
        name
        for name, there in (
            ("system prompt", request.system_prompt),
            ("user message", request.query),
            ("tool and response schemas", schemas),
        )
        if there
    ]
    return " and ".join(parts) or "request framing"


def _fit_documents(
    request: Request, system: Message | None, room: int, fresh: Callable[[Message], int], *, before: int
) -> tuple[list[Document | ScoredDocument], list[Omission], int]:
    """The documents that fit, those that don't, and what showing them adds to the messages that carry them."""
    shown: list[Document | ScoredDocument] = []
    passed_over: list[Omission] = []
    total = 0
    for document in request.documents:
        merged = _with_documents(system, request.query, [*shown, document])
        added = sum(fresh(message) for message in merged if message) - before
        if added <= room:
            shown.append(document)
            total = added
        else:
            passed_over.append(_missed_document(document, added - total))
    return shown, passed_over, total


def _with_documents(
    system: Message | None, query: Message | None, documents: Sequence[Document | ScoredDocument]
) -> tuple[Message | None, Message | None]:
    """Documents stand behind the user's text: what comes before them stays the same from turn to turn."""
    block = render_documents([_plain(document) for document in documents])
    if not block:
        return system, query
    if query is not None:
        return system, _appended(query, block)
    text = f"{system.text}\n\n{block}" if system else block
    return Message(Role.SYSTEM, text, metadata={ARC_MARK: "system"}), None


def _appended(message: Message, block: str) -> Message:
    """The message with a block behind its content; its exact foreign form no longer holds."""
    metadata = {**message.metadata, ARC_MARK: "context"}
    if message.content is None or isinstance(message.content, str):
        text = f"{message.content}\n\n{block}" if message.content else block
        return replace(message, content=text, metadata=metadata, origin=None)
    parts = (*message.content, ContentPart("text", text=f"\n\n{block}"))
    return replace(message, content=parts, metadata=metadata, origin=None)


def _plain(document: Document | ScoredDocument) -> Document:
    return document.document if isinstance(document, ScoredDocument) else document


def _missed_message(dropped: Dropped, cost: Callable[[Message], int]) -> Omission:
    return Omission("message", dropped.message.id, cost(dropped.message), dropped.reason)


def _missed_document(document: Document | ScoredDocument, tokens: int) -> Omission:
    parts = document.score_parts if isinstance(document, ScoredDocument) else {}
    return Omission("document", _plain(document).id or _plain(document).source, tokens, TOO_LARGE, parts)


def _receipt(kept: list[str], omissions: list[Omission], unread: LeftOut) -> Receipt:
    counts: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    for omission in omissions[NEAREST:]:
        counts[omission.reason] += 1
        tokens[omission.reason] += omission.tokens
    if unread.count:
        counts[OLDER] += unread.count
        tokens[OLDER] += unread.tokens
    return Receipt(
        kept=tuple(kept),
        nearest=tuple(omissions[:NEAREST]),
        rest={reason: LeftOut(counts[reason], tokens[reason]) for reason in sorted(counts)},
    )


def as_documents(documents: Sequence[object] | None) -> tuple[Document | ScoredDocument, ...]:
    """What a caller gave as documents; plain text is one too.

    Raises:
        InvalidInputError: One of them is something else.
    """
    if isinstance(documents, str | Document | ScoredDocument):
        raise InvalidInputError("documents", documents, "a sequence of documents")
    return tuple(_as_document(document) for document in documents or ())


def _as_document(value: object) -> Document | ScoredDocument:
    if isinstance(value, str):
        return Document(value)
    if isinstance(value, Document | ScoredDocument):
        return value
    raise InvalidInputError("documents", value, "text, a Document or a ScoredDocument")
