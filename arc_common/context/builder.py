"""Builds the context window: fills each section of a request within its share, and writes the receipt."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from arc_common.context.allocation import Sharing, wishes
from arc_common.context.draft import NO_LAYERS, NOTHING, Draft, Layers, RecalledKind, RecalledLine, fact_items
from arc_common.context.receipt import (
    ContextWindow,
    Item,
    LeftOut,
    MessageItems,
    Omission,
    Section,
    receipt_of,
    with_parts_of,
)
from arc_common.context.request import Costs, Request, plain
from arc_common.documents import Document, ScoredDocument
from arc_common.exceptions import BudgetExceededError, InvalidInputError
from arc_common.messages import Exchange, Message, Role
from arc_common.tokens.compression.truncation import shortened
from arc_common.tokens.counters import REQUEST_OVERHEAD
from arc_common.tokens.selection import (
    OLDER,
    Changed,
    Dropped,
    current_turn,
    fit_exchanges,
    select_window,
    with_distinct_call_ids,
)

TOO_LARGE = "no room for it"
NOT_ADOPTED = "fact that is not adopted"
NOT_NARRATED = "summary beyond its limit"

_KINDS = 4
"""Recalled items share one section: memories, artifacts and facts get up to a quarter each, messages the rest."""


def build_context_window(
    request: Request,
    history: Sequence[Message],
    *,
    costs: Costs,
    layers: Layers = NO_LAYERS,
    unread: LeftOut = NOTHING,
    notes: Sequence[str] = (),
    passed_over: Sequence[Omission] = (),
    stored: bool = False,
) -> ContextWindow:
    """Build a request within its budget.

    The system prompt, the user message and the schemas are reserved first. The budget's sections share the remaining
    tokens by `min_tokens`, `max_tokens` and priority (`TokenBudget.allot`), and lend their unused tokens. With the
    default priorities the oldest whole turns are dropped first, then documents (best first; a document that doesn't fit
    is skipped for the next), then older messages of the current turn. The history's system messages are merged into the
    one system message.

    Without a query in the request, the history's newest user message is the current one: it is shown whole, recalled
    items and documents follow its text, and the messages after it are the running turn.

    Args:
        request: The caller's request.
        history: The conversation's newest messages, oldest first.
        costs: Counts the tokens of messages.
        layers: Facts, summary and recalled items.
        unread: The messages before `history` that were neither loaded nor summarised.
        notes: Problems so far, for the receipt.
        passed_over: Retrieved documents that are not in the request, for the receipt.
        stored: Whether the history was loaded from the store. Its oldest system messages are then dropped, with a
            note, if they don't fit. System messages at the start of a given history are as fixed as the system prompt.

    Raises:
        BudgetExceededError: The system prompt and the current user message alone don't fit.
        InvalidInputError: Neither the request nor the history has a user message.
    """
    builder = _Builder(request, history, costs=costs, layers=layers, notes=notes, stored=stored)
    builder.remember()
    builder.recall()
    builder.run()
    builder.show()
    builder.converse()
    return builder.window(unread, passed_over)


class _Builder:
    """Builds one request: holds its parts, their tokens and the omissions so far."""

    def __init__(
        self,
        request: Request,
        history: Sequence[Message],
        *,
        costs: Costs,
        layers: Layers,
        notes: Sequence[str],
        stored: bool,
    ) -> None:
        self._request, self._costs, self._layers = request, costs, layers
        self._notes = list(notes)
        self._omissions: list[Omission] = []
        spoken = with_distinct_call_ids([message for message in history if message.role is not Role.SYSTEM])
        before, user, running = self._split(spoken)
        self._before, self._user, self._running = before, user, running
        self._schemas = costs.schemas(request)
        self._sharing = Sharing(
            self._opened(history, user, layers, stored=stored),
            budget=request.budget,
            schemas=self._schemas,
            wanted=wishes(request, layers, before=before, running=running, costs=costs),
            costs=costs,
        )

    def _split(self, spoken: Sequence[Message]) -> tuple[Sequence[Message], Message, Sequence[Exchange]]:
        if self._request.query is not None:
            return spoken, self._request.query, ()
        turn = current_turn(spoken)
        if turn.user is None:
            raise InvalidInputError("query", None, "a user message, here or in the history: a request needs one")
        self._note_dropped(turn.dropped)
        return turn.before, turn.user, turn.running

    def _opened(self, history: Sequence[Message], user: Message, layers: Layers, *, stored: bool) -> Draft:
        """Return the draft with the fixed parts, dropping the oldest remembered instructions until it fits."""
        request, costs = self._request, self._costs
        remarks = [message.text for message in history if message.role is Role.SYSTEM]
        first = next((i for i, message in enumerate(history) if message.role is not Role.SYSTEM), len(history))
        fixed = [request.system_prompt or "", *([] if stored else remarks[:first])]
        optional = [*layers.instructions, *(remarks if stored else remarks[first:])]
        limit = request.budget.input_tokens
        while True:
            draft = Draft(request, user, tuple(text for text in (*fixed, *optional) if text.strip()))
            needed = REQUEST_OVERHEAD + self._schemas + draft.tokens(costs)
            if needed <= limit:
                return draft
            if not optional:
                parts = ["system prompt"] if any(fixed) else []
                parts += ["user message", *(["tool and response schemas"] if self._schemas else [])]
                raise BudgetExceededError(" and ".join(parts), needed=needed, available=limit)
            del optional[0]  # the newest instructions are kept longest
            self._notes.append("a stored system message was left out: no room for it")

    def remember(self) -> None:
        """Fill in adopted facts and summary, within their shares and half of the room; drop facts last."""
        costs, layers = self._costs, self._layers
        room_facts, room_narrative = self._sharing.room("facts"), self._sharing.room("summary")
        lent = min(self._sharing.room("recalled"), self._request.budget.lent_to_facts())
        narrative = layers.narrative_lines
        while layers.facts and costs.text("\n".join(layers.facts)) > room_facts + lent:
            layers = layers.with_fewer_facts()
        while narrative and costs.text("\n".join(narrative)) > room_narrative:
            narrative = narrative[1:]
        while layers.facts or narrative:
            filled = replace(self._sharing.draft, facts=layers.facts, narrative=narrative)
            if self._sharing.added(filled) <= self._sharing.left // 2:
                break
            if narrative:
                narrative = narrative[1:]
            else:
                layers = layers.with_fewer_facts()
        facts = self._sharing.fill(replace(self._sharing.draft, facts=layers.facts))
        summary = self._sharing.fill(replace(self._sharing.draft, narrative=narrative))
        self._borrowed = min(max(facts - room_facts, 0), lent)
        self._sharing.close("facts", tokens=facts, limit=max(room_facts + lent, facts), items=fact_items(layers))
        lines = [Item("summary", line) for line in narrative]
        self._sharing.close("summary", tokens=summary, limit=max(room_narrative, summary), items=lines)
        missed = layers.narrative_lines[: len(layers.narrative_lines) - len(narrative)]
        self._pinned = frozenset(layers.fact_ids)
        self._omissions += [Omission("summary", None, costs.text(line), TOO_LARGE) for line in reversed(missed)]
        adopted = zip(self._layers.facts, self._layers.fact_ids, strict=False)
        self._omissions += [
            Omission("fact", name, costs.text(line), TOO_LARGE)
            for line, name in list(adopted)[::-1]
            if name not in self._pinned
        ]

    def recall(self) -> None:
        """Fill in the memories, artifacts, facts and messages recalled for the question, and the idle note."""
        most = self._request.budget.max_tokens("recalled")
        room = max(min(self._sharing.room("recalled"), most - self._borrowed), 0)
        noted = replace(self._sharing.draft, idle_note=self._layers.idle_note)
        spent = self._sharing.added(noted)
        if self._layers.idle_note and spent <= room:
            self._sharing.fill(noted)
        else:
            spent = 0
        layers, quarter = self._layers, most // _KINDS
        remembered = self._recall(layers.memories, "memories", min(room - spent, quarter))
        spent += remembered
        spent += self._recall(layers.artifacts, "artifacts", min(room - spent, 2 * quarter - remembered))
        facts = [fact for fact in layers.recalled if fact.id not in self._pinned]
        spent += self._recall(facts, "recalled", min(room - spent, quarter if layers.messages else room))
        spent += self._recall(layers.messages, "said", room - spent)
        draft = self._sharing.draft
        items = draft.recollections(self._costs)
        shown = {item.id for item in items}
        self._omissions += [
            Omission(kind, one.id, self._costs.corrected(one.tokens), TOO_LARGE, one.score_parts)
            for kind, lines in (("memory", layers.memories), ("artifact", layers.artifacts))
            for one in lines
            if one.id not in shown
        ]
        self._sharing.close("recalled", tokens=spent, limit=room, items=items)

    def _recall(self, lines: Sequence[RecalledLine], kind: RecalledKind, room: int) -> int:
        """Show the best lines that fit, and return their tokens."""
        if not lines:
            return 0
        filled = self._sharing.filled(
            lines,
            lambda kept: self._sharing.draft.recalling(kind, kept),
            size=lambda line: self._costs.corrected(line.tokens),
            room=room,
        )
        return self._sharing.fill(filled)

    def run(self) -> None:
        """Fill in the running turn after the user's message: whole, or its newest steps."""
        room = self._sharing.room("current_turn")
        fitted = fit_exchanges(self._running, room, count=self._costs.message, shorten=self._shorten)
        self._running_messages = fitted.shown
        self._note_dropped([Dropped(message, "older step of the running turn") for message in reversed(fitted.dropped)])
        self._note_changed(fitted.changed)
        if self._running:
            self._sharing.close("current_turn", tokens=fitted.tokens, limit=room, items=self._items(fitted.shown))

    def show(self) -> None:
        """Fill in documents, best first."""
        room = self._sharing.room("documents")
        documents = self._request.documents
        filled = self._sharing.filled(
            documents,
            lambda kept: replace(self._sharing.draft, documents=kept),
            size=lambda document: self._costs.text(plain(document).text),
            room=room,
        )
        shown = [_document(document, self._costs) for document in filled.documents]
        self._sharing.close("documents", tokens=self._sharing.fill(filled), limit=room, items=shown)
        kept = {id(document) for document in filled.documents}
        self._missed_documents = [
            Omission("document", item.id, item.tokens or 0, TOO_LARGE, item.score_parts)
            for document in documents
            if id(document) not in kept
            for item in [_document(document, self._costs)]
        ]

    def converse(self) -> None:
        """Fill in the newest turns of the history that fit."""
        room = self._sharing.room("history")
        self._compress(room)
        shown = 0 if self._request.query else 1 + len(self._running_messages)
        selection = select_window(
            self._before,
            max_turns=_less(self._request.max_turns, 1 if shown else 0),
            max_messages=_less(self._request.max_messages, shown),
            max_tokens=room,
            count=self._costs.message,
            continued=True,
            shorten=self._shorten,
        )
        self._kept = selection.kept
        tokens = self._costs.messages(selection.kept)
        self._note_changed(selection.changed)
        self._note_dropped(selection.dropped[::-1])
        self._sharing.close("history", tokens=tokens, limit=room, items=self._items(selection.kept))

    def _compress(self, room: int) -> None:
        """Apply the compression strategy to a history above its threshold, before turns are dropped at the limit."""
        strategy, request = self._request.compression, self._request
        used = request.budget.input_tokens - self._sharing.left
        most = min(max(request.threshold - used, 0), room)
        if strategy is None or self._sharing.wanted("history") <= most:
            return
        made = strategy.compress(self._before, max_tokens=most, count=self._costs.message)
        self._before = made.messages
        self._note_dropped(made.dropped[::-1])
        self._note_changed(made.changed)

    def window(self, unread: LeftOut, passed_over: Sequence[Omission]) -> ContextWindow:
        """Return the messages with their sections and receipt."""
        request, draft, costs = self._request, self._sharing.draft, self._costs
        limit = request.budget.input_tokens
        system, query = draft.system, draft.query
        bare = Draft(request, draft.user, draft.instructions)
        instructions = costs.message(bare.system) if bare.system else 0
        system_items = [Item("message", text) for text in draft.instructions]
        tools = [Item("tool", "", _tool_name(tool), costs.tool(tool)) for tool in request.tools or ()]
        if request.response_format:
            rest = self._schemas - costs.schemas(replace(request, response_format=None))
            tools.append(Item("schema", "", tokens=rest))
        asked = REQUEST_OVERHEAD + costs.message(self._user)
        for name, tokens, items in (
            ("system", instructions, with_parts_of(instructions, system_items)),
            ("tools", self._schemas, with_parts_of(self._schemas, tools)),
            ("user_message", asked, MessageItems([self._user], [asked])),
        ):
            self._sharing.sections[name] = Section(name, tokens, limit, items)
        messages = (
            *([system] if system else ()),
            *self._kept,
            *([query] if query else ()),
            *self._running_messages,
        )
        sections = tuple(self._sharing.sections[name] for name in _ORDER if name in self._sharing.sections)
        total = limit - self._sharing.left
        kept = [
            *(item.id for item in self._sharing.sections["facts"].items),
            *(message.id for message in messages),
            *(fact.id for fact in draft.recalled),
            *(plain(document).id for document in draft.documents),
        ]
        receipt = receipt_of(
            [name for name in kept if name],
            [*self._omissions, *self._missed_documents, *passed_over],
            rest={OLDER: unread, NOT_ADOPTED: self._not_shown(), NOT_NARRATED: self._layers.not_narrated},
            notes=self._notes,
            nearest=request.nearest,
            sections=sections,
            total_tokens=total,
            input_tokens=request.budget.input_limit,
            error_reserve=request.budget.input_limit - limit,
        )
        return ContextWindow(messages=messages, sections=sections, total_tokens=total, receipt=receipt)

    def _shorten(self, message: Message, room: int) -> Message | None:
        return shortened(message, max_tokens=room, count=self._costs.message)

    def _items(self, messages: Sequence[Message]) -> MessageItems:
        return MessageItems(messages, list(map(self._costs.message, messages)))

    def _not_shown(self) -> LeftOut:
        """Return the count and tokens of the facts that are neither adopted nor recalled."""
        shown = {fact.id for fact in self._sharing.draft.recalled}.union(self._layers.fact_ids)
        missed = [fact.tokens for fact in self._layers.recalled if fact.id not in shown]
        others = self._layers.not_recalled
        return LeftOut(others.count + len(missed), others.tokens + sum(map(self._costs.corrected, missed)))

    def _note_dropped(self, dropped: Sequence[Dropped]) -> None:
        self._omissions += [
            Omission("message", left.message.id, self._costs.message(left.message), left.reason) for left in dropped
        ]

    def _note_changed(self, changed: Sequence[Changed]) -> None:
        self._omissions += [
            Omission("message", part.message.id, max(part.tokens_before - part.tokens_after, 0), part.reason)
            for part in changed
        ]


_ORDER = ("system", "tools", "facts", "summary", "history", "user_message", "recalled", "documents", "current_turn")
"""The order of the sections in the receipt."""


def _document(document: Document | ScoredDocument, costs: Costs) -> Item:
    text = plain(document)
    parts = document.score_parts if isinstance(document, ScoredDocument) else {}
    return Item("document", text.text, text.id or text.source, costs.text(text.text), parts)


def _less(limit: int | None, taken: int) -> int | None:
    return None if limit is None else max(limit - taken, 0)


def _tool_name(tool: Mapping[str, Any]) -> str | None:
    function = tool.get("function", tool)
    name = function.get("name") if isinstance(function, Mapping) else None
    return name if isinstance(name, str) else None
