"""Puts a request together within its budget. Pure."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeVar

from arc_common.context_window import NEAREST, ContextWindow, LeftOut, Omission, Section, receipt_of
from arc_common.documents import Document, ScoredDocument
from arc_common.exceptions import BudgetExceededError, InvalidInputError
from arc_common.messages import ARC_MARK, ContentPart, Message, Role
from arc_common.prompts import render_documents, render_memory, render_recalled
from arc_common.protocols import TokenCounter
from arc_common.tokens.budget import TokenBudget
from arc_common.tokens.correction import Correcting
from arc_common.tokens.counting import REQUEST_OVERHEAD, message_tokens, schema_tokens, tools_tokens
from arc_common.tokens.window import OLDER, Dropped, select_window

__all__ = [
    "Costs",
    "Layers",
    "RecalledFact",
    "Request",
    "as_documents",
    "build_context_window",
    "history_room",
    "memory_message",
]

TOO_LARGE = "no room for it"
UNPINNED = "fact that is not pinned"

NOTHING = LeftOut(0, 0)

_FRAMING = 16
"""Tokens around an item in its block, at most, as far as that is foreseen."""

T = TypeVar("T")


class RecalledFact(NamedTuple):
    """A fact for this question: its id, its line, and that line's tokens as counted, without correction."""

    id: str
    line: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Layers:
    """What is remembered of a conversation besides the messages shown.

    Args:
        facts: The pinned facts' lines.
        fact_ids: Their ids.
        narrative: The summary.
        instructions: System messages that summaries stand for.
        recalled: Further facts for this question, best first.
        recalled_ceiling: The tokens that they may take together.
        not_recalled: The facts that are neither pinned nor recalled.
    """

    facts: tuple[str, ...] = ()
    fact_ids: tuple[str, ...] = ()
    narrative: str = ""
    instructions: tuple[str, ...] = ()
    recalled: tuple[RecalledFact, ...] = ()
    recalled_ceiling: int = 0
    not_recalled: LeftOut = NOTHING


NO_LAYERS = Layers()


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
        placement: Where what changes from turn to turn goes: behind the user's text, or into the system message.
        facts_placement: Where facts and summary go: into the system message, or behind the user's text.
        nearest: How many of the things left out the receipt names one by one.
    """

    query: Message | None = None
    system_prompt: str | None = None
    documents: tuple[Document | ScoredDocument, ...] = ()
    tools: Sequence[Mapping[str, Any]] | None = None
    response_format: Mapping[str, Any] | None = None
    budget: TokenBudget = field(default_factory=TokenBudget)
    max_turns: int | None = None
    max_messages: int | None = None
    placement: Literal["user", "system"] = "user"
    facts_placement: Literal["system", "user"] = "system"
    nearest: int = NEAREST

    def __post_init__(self) -> None:
        if not isinstance(self.system_prompt, str | None):
            raise InvalidInputError("system_prompt", self.system_prompt, "text or None")
        if not isinstance(self.budget, TokenBudget):
            raise InvalidInputError("budget", self.budget, "a TokenBudget or None")
        if not isinstance(self.tools, Sequence | None) or isinstance(self.tools, str):
            raise InvalidInputError("tools", self.tools, "a sequence of tool schemas or None")
        if not isinstance(self.response_format, Mapping | None):
            raise InvalidInputError("response_format", self.response_format, "a schema or None")


class Costs:
    """What messages cost under a counter and its correction; each new text is counted once.

    Args:
        counter: The counter.
        stored: The stored raw counts of the history's messages, by `id()`.
    """

    def __init__(self, counter: TokenCounter, stored: Mapping[int, int]) -> None:
        self._counter = counter
        self._stored = stored
        self._factor = counter.correction.factor if isinstance(counter, Correcting) else 1.0
        self._counted: dict[tuple[Role, str], int] = {}

    def stored(self, message: Message) -> int:
        """A message of the history."""
        return self.corrected(self._stored[id(message)])

    def fresh(self, message: Message) -> int:
        """A message that is not stored."""
        if not isinstance(message.content, str) or message.tool_calls or message.name or message.tool_call_id:
            return self.corrected(message_tokens(self._counter, message))
        key = (message.role, message.content)
        if key not in self._counted:
            self._counted[key] = self.corrected(message_tokens(self._counter, message))
        return self._counted[key]

    def text(self, text: str) -> int:
        """A piece of text."""
        return self.corrected(self._counter.count(text))

    def schemas(self, request: Request) -> int:
        """Tools and response schema."""
        tools = tools_tokens(self._counter, request.tools)
        return self.corrected(tools + schema_tokens(self._counter, request.response_format))

    def corrected(self, raw: int) -> int:
        """What was counted, with the counter's correction."""
        return raw if self._factor == 1.0 else math.ceil(round(raw * self._factor, 3))


def history_room(request: Request, costs: Costs, *, layers: int) -> int:
    """The tokens that there are for verbatim messages when every other part takes what it may.

    Args:
        request: What the caller brings.
        costs: What it costs.
        layers: The most that facts, summary and recalled facts may take together.
    """
    draft = _Draft(request, (request.system_prompt,) if request.system_prompt else ())
    fixed = draft.tokens(costs.fresh)
    documents = sum(costs.text(_plain(document).text) for document in request.documents)
    documents = min(documents, request.budget.ceiling("documents"))
    left = request.budget.input_tokens - REQUEST_OVERHEAD - costs.schemas(request) - fixed - documents
    return max(left - min(layers, left // 2), 0)


@dataclass(frozen=True, slots=True)
class _Draft:
    """The messages around the history, as far as they are filled."""

    request: Request
    system_texts: tuple[str, ...]
    memory: str = ""
    recalled: tuple[RecalledFact, ...] = ()
    documents: tuple[Document | ScoredDocument, ...] = ()

    @property
    def system(self) -> Message | None:
        """All system text as one message: providers merge, hoist, reject or silently drop any further one."""
        request = self.request
        texts = list(self.system_texts)
        if self.memory and (request.facts_placement == "system" or request.query is None):
            texts.append(self.memory)
        if request.placement == "system" or request.query is None:
            texts += self._volatile
        return Message(Role.SYSTEM, "\n\n".join(texts), metadata={ARC_MARK: "system"}) if texts else None

    @property
    def query(self) -> Message | None:
        """The user's message; what changes from turn to turn stands behind its text, so that all before it stays."""
        request = self.request
        if request.query is None:
            return None
        blocks = [self.memory] if self.memory and request.facts_placement == "user" else []
        if request.placement == "user":
            blocks += self._volatile
        return _appended(request.query, "\n\n".join(blocks)) if blocks else request.query

    @property
    def _volatile(self) -> list[str]:
        documents = [_plain(document) for document in self.documents]
        return [
            block
            for block in (render_recalled([fact.line for fact in self.recalled]), render_documents(documents))
            if block
        ]

    def tokens(self, count: Callable[[Message], int]) -> int:
        return sum(count(message) for message in (self.system, self.query) if message)


def build_context_window(
    request: Request,
    history: Sequence[Message],
    *,
    costs: Costs,
    layers: Layers = NO_LAYERS,
    unread: LeftOut = NOTHING,
    notes: Sequence[str] = (),
) -> ContextWindow:
    """Put a request together within its budget.

    What is fixed comes first: system prompt, user message, schemas. Then, each within its ceiling and as far as there
    is room: facts and summary (shortened if need be), recalled facts, documents (best first; one that doesn't fit is
    passed over for the next). The history gets what is left, by whole turns from the newest. System messages of the
    history stand in the one system message; where there is no room for them the oldest leave, and the receipt says so.

    Args:
        request: What the caller brings.
        history: The conversation's newest messages, oldest first.
        costs: What messages cost.
        layers: What is remembered besides.
        unread: The messages before `history` that were not even loaded and that no summary stands for.
        notes: What went wrong so far, for the receipt.

    Raises:
        BudgetExceededError: The system prompt and the current user message alone don't fit.
    """
    fresh = costs.fresh
    limit = request.budget.input_tokens
    schemas = costs.schemas(request)
    prompt = (request.system_prompt,) if request.system_prompt else ()
    remarks = [message.text for message in history if message.role is Role.SYSTEM]
    stored = [text for text in (*layers.instructions, *remarks) if text]
    query_cost = fresh(request.query) if request.query else 0
    while True:
        texts = (*prompt, *stored)
        draft = _Draft(request, texts)
        system_cost = fresh(draft.system) if draft.system else 0
        fixed = REQUEST_OVERHEAD + schemas + system_cost + query_cost
        if fixed <= limit or not stored:
            break
        del stored[0]  # the newest instructions hold longest
        notes = (*notes, "a stored system message was left out: no room for it")
    if fixed > limit:
        raise BudgetExceededError(_fixed_parts(request, schemas), needed=fixed, available=limit)

    carried = system_cost + query_cost
    draft, memory_cost, facts_shown = _with_memory(draft, layers, limit - fixed, fresh, before=carried)
    carried += memory_cost
    recalled_room = min(layers.recalled_ceiling, limit - REQUEST_OVERHEAD - schemas - carried)
    draft, recalled_cost = _filled(
        draft, layers.recalled, lambda kept: replace(draft, recalled=kept),
        size=lambda fact: costs.corrected(fact.tokens),
        room=recalled_room, cost=lambda filled: filled.tokens(fresh) - carried,
    )  # fmt: skip
    carried += recalled_cost
    documents_room = min(request.budget.ceiling("documents"), limit - REQUEST_OVERHEAD - schemas - carried)
    draft, documents_cost = _filled(
        draft, request.documents, lambda kept: replace(draft, documents=kept),
        size=lambda document: costs.text(_plain(document).text),
        room=documents_room, cost=lambda filled: filled.tokens(fresh) - carried,
    )  # fmt: skip
    carried += documents_cost
    room = limit - REQUEST_OVERHEAD - schemas - carried
    selection = select_window(
        [message for message in history if message.role is not Role.SYSTEM],
        max_turns=request.max_turns,
        max_messages=request.max_messages,
        max_tokens=room,
        count=costs.stored,
        live=request.query is None,
    )
    system, query = draft.system, draft.query
    messages = (*([system] if system else ()), *selection.kept, *([query] if query else ()))
    history_cost = sum(map(costs.stored, selection.kept))
    sections = (
        Section("system", system_cost, limit, int(bool(texts))),
        Section("tools", schemas, limit, len(request.tools or ())),
        Section("memory", memory_cost, limit - fixed, facts_shown + bool(draft.memory and layers.narrative)),
        Section("recalled", recalled_cost, recalled_room, len(draft.recalled)),
        Section("documents", documents_cost, documents_room, len(draft.documents)),
        Section("history", history_cost, room, len(selection.kept)),
        Section("query", query_cost, limit, int(query is not None)),
    )
    passed_over = [
        _missed_document(document, costs.text(_plain(document).text))
        for document in request.documents
        if not any(document is shown for shown in draft.documents)
    ]
    omissions = [*(_missed_message(dropped, costs.stored) for dropped in reversed(selection.dropped)), *passed_over]
    kept = [
        *layers.fact_ids[:facts_shown],
        *(message.id for message in messages),
        *(fact.id for fact in draft.recalled),
        *(_plain(document).id for document in draft.documents),
    ]
    return ContextWindow(
        messages=messages,
        sections=sections,
        total_tokens=REQUEST_OVERHEAD + schemas + carried + history_cost,
        receipt=receipt_of(
            [name for name in kept if name],
            omissions,
            rest={OLDER: unread, UNPINNED: _not_shown(layers, draft, costs)},
            notes=notes,
            nearest=request.nearest,
        ),
    )


def memory_message(layers: Layers, *, max_tokens: int, count: Callable[[Message], int]) -> Message | None:
    """Older instructions, facts and summary as one leading system message, for views that have no prompt of their own.

    Facts and summary are shortened until they fit; instructions never are.
    """
    instructions = list(layers.instructions)
    for facts, narrative in [*_shorter(layers), ((), "")]:
        memory = render_memory(facts, narrative)
        texts = [*instructions, *([memory] if memory else ())]
        message = Message(Role.SYSTEM, "\n\n".join(texts), metadata={ARC_MARK: "memory"})
        if texts and (not memory or count(message) <= max_tokens):
            return message
    return None


def _with_memory(
    draft: _Draft, layers: Layers, room: int, fresh: Callable[[Message], int], *, before: int
) -> tuple[_Draft, int, int]:
    """The draft with as much of facts and summary as half of the room takes, what that costs, and how many facts."""
    for facts, narrative in _shorter(layers):
        filled = replace(draft, memory=render_memory(facts, narrative))
        added = filled.tokens(fresh) - before
        if added <= room // 2:
            return filled, added, len(facts)
    return draft, 0, 0


def _shorter(layers: Layers) -> list[tuple[tuple[str, ...], str]]:
    """Facts and summary, then less and less of them: facts outlast the summary."""
    facts, narrative = layers.facts, layers.narrative
    if not facts and not narrative:
        return []
    steps = [(facts, narrative), (facts, "")]
    while len(facts) > 1:
        facts = facts[len(facts) // 4 or 1 :]
        steps.append((facts, ""))
    return steps


def _filled(
    draft: _Draft,
    items: Sequence[T],
    fill: Callable[[tuple[T, ...]], _Draft],
    *,
    size: Callable[[T], int],
    room: int,
    cost: Callable[[_Draft], int],
) -> tuple[_Draft, int]:
    """The draft with the items that fit, best first, and what they cost.

    Chosen by their own sizes, then counted as they stand in the message; what is too much then leaves from the end.
    """
    chosen: list[T] = []
    estimated = 0
    for item in items:
        tokens = size(item)
        if estimated + tokens <= room:
            chosen.append(item)
            estimated += tokens
    while chosen:
        filled = fill(tuple(chosen))
        added = cost(filled)
        if added <= room:
            return filled, added
        while chosen and added > room:  # counting is dear: take away what is surely too much before the next one
            added -= 2 * size(chosen.pop()) + _FRAMING
    return draft, 0


def _not_shown(layers: Layers, draft: _Draft, costs: Costs) -> LeftOut:
    """The facts that are neither pinned nor recalled."""
    shown = {fact.id for fact in draft.recalled}
    missed = [fact.tokens for fact in layers.recalled if fact.id not in shown]
    others = layers.not_recalled
    return LeftOut(others.count + len(missed), others.tokens + sum(map(costs.corrected, missed)))


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


def as_documents(documents: Sequence[object] | None) -> tuple[Document | ScoredDocument, ...]:
    """What a caller gave as documents; plain text is one too.

    Raises:
        InvalidInputError: One of them is something else.
    """
    if isinstance(documents, str | Document | ScoredDocument) or not isinstance(documents, Iterable | None):
        raise InvalidInputError("documents", documents, "a sequence of documents")
    return tuple(_as_document(document) for document in documents or ())


def _as_document(value: object) -> Document | ScoredDocument:
    if isinstance(value, str):
        return Document(value)
    if isinstance(value, Document | ScoredDocument):
        return value
    raise InvalidInputError("documents", value, "text, a Document or a ScoredDocument")
