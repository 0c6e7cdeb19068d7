"""Builds a turn's context window."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any

from arc_common.context.allocation import Allocator, wanted_tokens
from arc_common.context.receipt import (
    ContextWindow,
    Item,
    LazyItems,
    LeftOut,
    Omission,
    Section,
    message_items,
    receipt_of,
    shared_out,
    with_parts_of,
)
from arc_common.context.repetition import Said, each_once
from arc_common.context.request import (
    NO_LAYERS,
    NOTHING,
    RECALLED,
    Costs,
    Draft,
    Layers,
    RecalledLine,
    Request,
    fact_items,
    plain,
)
from arc_common.documents import Document, ScoredDocument
from arc_common.exceptions import BudgetExceededError, InvalidInputError
from arc_common.messages import Message, Role
from arc_common.prompts.context import by_day
from arc_common.tokens.compression.truncation import shortened
from arc_common.tokens.counters import REQUEST_OVERHEAD
from arc_common.tokens.selection import (
    OLDER,
    Changed,
    CurrentTurn,
    Dropped,
    Fitted,
    Selection,
    current_turn,
    fit_exchanges,
    select_window,
    with_distinct_call_ids,
)
from arc_common.trust import Trust

TOO_LARGE = "no room for it"
NOT_ADOPTED = "less relevant fact"
NOT_NARRATED = "summary beyond its limit"
OLDER_STEP = "older step of the running turn"

_KINDS = 4
"""Recalled items share one section: memories, artifacts and facts get up to a quarter each, messages the rest."""

_SYSTEM = Role.SYSTEM
_ORDER = ("system", "tools", "facts", "summary", "history", "user_message", "recalled", "documents", "current_turn")
"""The order of the sections in the receipt."""


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
    """Build a request within its budget from the newest messages and the layers.

    The system prompt, the user message and the schemas are reserved first. The budget's sections share the remaining
    tokens by `min_tokens`, `max_tokens` and priority (`TokenBudget.allot`), and lend their unused tokens. With the
    default priorities the oldest whole turns are dropped first, then documents (best first; a document that doesn't fit
    is skipped for the next), then older messages of the current turn. The history's system messages are merged into the
    one system message: those at the start of a given history are as fixed as the system prompt, and the oldest ones of
    a `stored` history are dropped, with a note, if they don't fit.

    Without a query in the request, the history's newest user message is the current one: it is shown whole, recalled
    items and documents follow its text, and the messages after it are the running turn.

    Raises:
        BudgetExceededError: The system prompt, the pins and the current user message alone don't fit.
        InvalidInputError: Neither the request nor the history has a user message.
    """
    builder = _WindowBuilder(request, history, costs=costs, layers=layers, notes=notes, stored=stored)
    builder.fill_facts_and_summary()
    builder.fill_recalled()
    builder.fill_current_turn()
    builder.fill_documents()
    builder.fill_history()
    return builder.window(unread, passed_over)


class Builder:
    """Holds the costs and the omissions so far, for windows and views alike."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._omissions: list[Omission] = []

    def _shorten(self, message: Message, room: int) -> Message | None:
        return shortened(message, max_tokens=room, count=self._costs.message)

    def _items(self, messages: Sequence[Message]) -> LazyItems:
        return message_items(messages, self._costs.each(messages))

    def _note_dropped(self, dropped: Sequence[Dropped]) -> None:
        self._omissions += [
            Omission("message", left.message.id, self._costs.message(left.message), left.reason) for left in dropped
        ]

    def _note_older_steps(self, steps: Fitted) -> None:
        self._note_dropped([Dropped(message, OLDER_STEP) for message in reversed(steps.dropped)])

    def _note_changed(self, changed: Sequence[Changed]) -> None:
        self._omissions += [
            Omission("message", part.message.id, max(part.tokens_before - part.tokens_after, 0), part.reason)
            for part in changed
        ]


class _WindowBuilder(Builder):
    """Builds one request: fills its sections one after the other."""

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
        super().__init__(costs)
        self._request, self._layers, self._notes = request, layers, list(notes)
        spoken = with_distinct_call_ids([message for message in history if message.role is not _SYSTEM])
        turn = CurrentTurn(tuple(spoken), request.query, (), ()) if request.query else current_turn(spoken)
        if turn.user is None:
            raise InvalidInputError("query", None, "a user message, here or in the history: a request needs one")
        self._note_dropped(turn.dropped)
        self._before: Sequence[Message] = turn.before
        self._whole: tuple[Sequence[Message], Selection] | None = None  # the selection, if all of the history fits
        self._user, self._running = turn.user, turn.running
        self._steps = tuple([message for step in turn.running for message in step.messages])
        self._merged: list[Omission] = []
        self._schemas = costs.schemas(request)
        opened = self._fixed_parts(history, turn.user, stored=stored)
        pins = layers.pins
        self._pinned = opened.tokens(costs) - opened.showing(pins=()).tokens(costs) if pins else 0
        self._allocator = Allocator(
            opened,
            budget=request.budget,
            schemas=self._schemas,
            wanted=wanted_tokens(request, layers, before=turn.before, running=turn.running, costs=costs),
            costs=costs,
        )

    def _fixed_parts(self, history: Sequence[Message], user: Message, *, stored: bool) -> Draft:
        """Return the draft with the fixed parts, dropping the oldest remembered instructions until it fits."""
        request, costs = self._request, self._costs
        remarks = [message.text for message in history if message.role is _SYSTEM]
        leading = 0 if stored else len(list(takewhile(lambda message: message.role is Role.SYSTEM, history)))
        fixed = [request.system_prompt or "", *remarks[:leading]]
        optional = [*self._layers.instructions, *remarks[leading:]]
        limit = request.budget.input_tokens
        while True:
            texts = tuple([text for text in (*fixed, *optional) if text.strip()])
            draft = Draft(request, user, Layers(instructions=texts, pins=self._layers.pins))
            needed = REQUEST_OVERHEAD + self._schemas + draft.tokens(costs)
            if needed <= limit:
                return draft
            if not optional:
                parts = ["system prompt"] if any(fixed) else []
                parts += ["pins"] if self._layers.pins else []
                parts += ["user message", *(["tool and response schemas"] if self._schemas else [])]
                raise BudgetExceededError(" and ".join(parts), needed=needed, available=limit)
            del optional[0]  # the newest instructions are kept longest
            self._notes.append("a stored system message was left out: no room for it")

    def fill_facts_and_summary(self) -> None:
        """Fill in adopted facts and summary, within their shares and half of the room; drop facts last."""
        costs, layers, allocator = self._costs, self._layers, self._allocator
        room_facts, room_narrative = allocator.room("facts"), allocator.room("summary")
        lent = min(allocator.room("recalled"), self._request.budget.lent_to_facts())
        narrative = layers.narrative_lines
        while layers.facts and costs.text(by_day(layers.facts)) > room_facts + lent:
            layers = layers.with_fewer_facts()
        while narrative and costs.text(by_day(narrative)) > room_narrative:
            narrative = narrative[1:]
        while layers.facts or narrative:
            filled = allocator.draft.showing(facts=layers.facts, narrative="\n".join(narrative))
            if allocator.added(filled) <= allocator.left // 2:
                break
            if narrative:
                narrative = narrative[1:]
            else:
                layers = layers.with_fewer_facts()
        else:
            filled = allocator.draft
        alone = allocator.draft.showing(facts=layers.facts) if narrative else filled
        facts = allocator.added(alone) if layers.facts else 0
        summary = allocator.fill(filled) - facts
        self._borrowed = min(max(facts - room_facts, 0), lent)
        limit, fixed = max(room_facts + lent, facts), self._pinned
        allocator.close(
            "facts",
            tokens=facts,
            limit=limit,
            fixed=fixed,
            items=shared_out(facts + fixed, partial(fact_items, layers.pins, layers.facts, layers.fact_ids)),
        )
        items = shared_out(summary, lambda: [Item("summary", line) for line in narrative])
        allocator.close("summary", tokens=summary, limit=max(room_narrative, summary), items=items)
        self._omissions += [
            Omission("summary", None, costs.text(line), TOO_LARGE)
            for line in reversed(layers.narrative_lines[: len(layers.narrative_lines) - len(narrative)])
        ]
        self._adopted = frozenset(layers.fact_ids)
        self._remembered = replace(layers, narrative="\n".join(narrative))
        if layers is not self._layers:
            adopted = zip(self._layers.facts, self._layers.fact_ids, strict=False)
            self._omissions += [
                Omission("fact", name, costs.text(line), TOO_LARGE)
                for line, name in list(adopted)[::-1]
                if name not in self._adopted
            ]

    def fill_recalled(self) -> None:
        """Fill in the memories, artifacts, facts and messages recalled for the question, and the idle note."""
        layers, most = self._layers, self._request.budget.max_tokens("recalled")
        room = max(min(self._allocator.room("recalled"), most - self._borrowed), 0)
        spent = 0
        if layers.idle_note:
            noted = self._allocator.draft.showing(idle_note=layers.idle_note)
            spent = self._allocator.fill(noted) if self._allocator.added(noted) <= room else 0
        quarter = most // _KINDS
        if layers.has_recollections:
            self._said = self._said_so_far()
            remembered = self._recall(layers.memories, "memories", min(room - spent, quarter))
            spent += remembered
            spent += self._recall(layers.artifacts, "artifacts", min(room - spent, 2 * quarter - remembered))
            facts = [fact for fact in layers.recalled if fact.id not in self._adopted]
            spent += self._recall(facts, "recalled", min(room - spent, quarter if layers.messages else room))
            spent += self._recall(layers.messages, "messages", room - spent)
        shown = self._allocator.draft.shown
        named = {one.id for one in (*shown.memories, *shown.artifacts)}.union([one.id for one in self._merged])
        self._omissions += [
            Omission(kind, one.id, self._costs.corrected(one.tokens), TOO_LARGE, one.score_parts)
            for kind, lines in (("memory", layers.memories), ("artifact", layers.artifacts))
            for one in lines
            if one.id not in named
        ]
        trusts = [one.trust for lines in (shown.memories, shown.artifacts, shown.messages) for one in lines]
        items = shared_out(
            spent, self._allocator.draft.recollections(self._costs), holds_untrusted=Trust.UNTRUSTED in trusts
        )
        self._allocator.close("recalled", tokens=spent, limit=room, items=items)

    def _recall(self, lines: Sequence[RecalledLine], kind: str, room: int) -> int:
        """Show the best lines that fit, without what is said already, and return their tokens."""
        if not lines:
            return 0
        corrected = self._costs.corrected
        lines, merged = each_once(lines, RECALLED[kind], self._said, corrected=corrected, room=room)
        self._merged += merged
        filled = self._allocator.filled(
            lines,
            lambda kept: self._allocator.draft.showing(**{kind: kept}),
            sizes=list(map(corrected, [line.tokens for line in lines])),
            room=room,
        )
        return self._allocator.fill(filled) if filled is not self._allocator.draft else 0

    def _said_so_far(self) -> Said:
        """Return the texts shown before anything is recalled: verbatim messages, facts and summary."""
        said = Said(self._layers.recalled_lines)
        room = self._allocator.room("history")  # sections that are filled later can only leave more
        verbatim = self._window(room).kept if self._compressed(room) is None else ()
        said.add_fixed((*verbatim, self._user), self._remembered)
        return said

    def fill_current_turn(self) -> None:
        """Fill in the running turn after the user's message: whole, or its newest steps."""
        room = self._allocator.room("current_turn")
        steps = fit_exchanges(self._running, room, count=self._costs.message, shorten=self._shorten)
        self._steps = steps.shown
        self._note_older_steps(steps)
        self._note_changed(steps.changed)
        if self._running:
            self._allocator.close("current_turn", tokens=steps.tokens, limit=room, items=self._items(steps.shown))

    def fill_documents(self) -> None:
        """Fill in documents, best first."""
        room = self._allocator.room("documents")
        documents = self._request.documents
        filled = self._allocator.filled(
            documents,
            lambda kept: replace(self._allocator.draft, documents=kept),
            sizes=[self._costs.text(plain(document).text) for document in documents],
            room=room,
        )
        shown = [_document(document, self._costs) for document in filled.documents]
        tokens = self._allocator.fill(filled)
        items = shared_out(tokens, lambda: shown, holds_untrusted=bool(shown))
        self._allocator.close("documents", tokens=tokens, limit=room, items=items)
        kept = {id(document) for document in filled.documents}
        missed = [_document(document, self._costs) for document in documents if id(document) not in kept]
        self._missed_documents = [
            Omission("document", item.id, item.tokens or 0, TOO_LARGE, item.score_parts) for item in missed
        ]

    def fill_history(self) -> None:
        """Fill in the newest turns of the history that fit."""
        room = self._allocator.room("history")
        self._compress(room)
        selection = self._window(room)
        self._kept = selection.kept
        tokens = self._costs.messages(selection.kept)
        self._note_changed(selection.changed)
        self._note_dropped(selection.dropped[::-1])
        self._allocator.close("history", tokens=tokens, limit=room, items=self._items(selection.kept))

    def _window(self, room: int) -> Selection:
        """Return the newest turns before the current one that fit."""
        if self._whole is not None and self._whole[0] is self._before:
            return self._whole[1]  # more room makes no difference
        shown = 0 if self._request.query else 1 + len(self._steps)
        selection = select_window(
            self._before,
            max_turns=less(self._request.max_turns, 1 if shown else 0),
            max_messages=less(self._request.max_messages, shown),
            max_tokens=room,
            count=self._costs.message,
            total=self._costs.messages,
            continued=True,
            shorten=self._shorten,
        )
        if not selection.changed and OLDER not in [left.reason for left in selection.dropped]:
            self._whole = self._before, selection
        return selection

    def _compress(self, room: int) -> None:
        """Apply the compression strategy to a history above its threshold, before turns are dropped at the limit."""
        strategy, most = self._request.compression, self._compressed(room)
        if strategy is None or most is None:
            return
        made = strategy.compress(self._before, max_tokens=most, count=self._costs.message)
        self._before = made.messages
        self._note_dropped(made.dropped[::-1])
        self._note_changed(made.changed)

    def _compressed(self, room: int) -> int | None:
        """Return the tokens that the compression strategy may leave of the history; `None` if it leaves it alone."""
        request = self._request
        used = request.budget.input_tokens - self._allocator.left
        most = min(max(request.threshold - used, 0), room)
        return None if request.compression is None or self._allocator.wanted("history") <= most else most

    def window(self, unread: LeftOut, passed_over: Sequence[Omission]) -> ContextWindow:
        """Return the messages with their sections and receipt."""
        request, draft, costs, sections = self._request, self._allocator.draft, self._costs, self._allocator.sections
        limit = request.budget.input_tokens
        texts = draft.shown.instructions
        bare = Draft(request, draft.user, Layers(instructions=texts)).system
        instructions = costs.message(bare) if bare else 0
        asked = REQUEST_OVERHEAD + costs.message(self._user)
        written = shared_out(instructions, lambda: [Item("message", text) for text in texts])
        sections["system"] = Section("system", instructions, limit, written)
        sections["tools"] = Section("tools", self._schemas, limit, self._tool_items())
        sections["user_message"] = Section("user_message", asked, limit, message_items([self._user], [asked]))
        said = [one for one in (draft.system, *self._kept, draft.query, *self._steps) if one]
        kept = [
            *[pin.id for pin in self._layers.pins],
            *self._remembered.fact_ids,
            *[message.id for message in said],
            *[fact.id for fact in draft.shown.recalled],
            *[plain(document).id for document in draft.documents],
        ]
        receipt = receipt_of(
            [name for name in kept if name],
            [*self._omissions, *self._missed_documents, *passed_over, *self._merged],
            rest={OLDER: unread, NOT_ADOPTED: self._not_shown(), NOT_NARRATED: self._layers.not_narrated},
            notes=self._notes,
            nearest=request.nearest,
            sections=tuple([sections[name] for name in _ORDER if name in sections]),
            total_tokens=limit - self._allocator.left,
            input_tokens=request.budget.input_limit,
            error_reserve=request.budget.input_limit - limit,
        )
        return ContextWindow(tuple(said), receipt.sections, receipt.total_tokens, receipt)

    def _tool_items(self) -> Sequence[Item]:
        request, costs = self._request, self._costs
        tools = [Item("tool", "", _tool_name(tool), costs.tool(tool)) for tool in request.tools or ()]
        if request.response_format:
            rest = self._schemas - costs.schemas(replace(request, response_format=None))
            tools.append(Item("schema", "", tokens=rest))
        return with_parts_of(self._schemas, tools) if tools else ()

    def _not_shown(self) -> LeftOut:
        """Return the count and tokens of the facts that are neither adopted nor recalled."""
        others = self._layers.not_recalled
        if not self._layers.recalled:
            return others
        shown = {fact.id for fact in self._allocator.draft.shown.recalled}.union(self._layers.fact_ids)
        shown = shown.union([one.id for one in self._merged if one.id])
        missed = [fact.tokens for fact in self._layers.recalled if fact.id not in shown]
        return LeftOut(others.count + len(missed), others.tokens + sum(map(self._costs.corrected, missed)))


def _document(document: Document | ScoredDocument, costs: Costs) -> Item:
    text = plain(document)
    parts = document.score_parts if isinstance(document, ScoredDocument) else {}
    source = text.source or "a document"
    tokens = costs.text(text.text)
    return Item("document", text.text, text.id or text.source, tokens, parts, trust=Trust.UNTRUSTED, source=source)


def _tool_name(tool: Mapping[str, Any]) -> str | None:
    function = tool.get("function", tool)
    name = function.get("name") if isinstance(function, Mapping) else None
    return name if isinstance(name, str) else None


def less(limit: int | None, taken: int) -> int | None:
    """Return the rest of a limit, if there is one."""
    return None if limit is None else max(limit - taken, 0)
