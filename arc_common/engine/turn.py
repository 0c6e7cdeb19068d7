"""Builds a session's context window for a turn, and the view for adapters with a prompt of their own."""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from arc_common.context import (
    ContextWindow,
    Costs,
    HistoryRoom,
    Layers,
    LeftOut,
    RecalledLine,
    Receipt,
    Request,
    ViewLimits,
    build_context_window,
    build_view,
    history_room,
)
from arc_common.engine.documents import documents_of_turn, unknown_scopes
from arc_common.memories import Pin, ScoredMemory
from arc_common.memory.conversation import ConversationLog, LoadedHistory, as_messages, opens_a_turn
from arc_common.memory.pins import with_local_days
from arc_common.memory.recall.lines import message_lines
from arc_common.memory.recall.ranking import specific_terms
from arc_common.memory.recall.service import FoundForTurn
from arc_common.memory.summaries.trigger import is_summarised
from arc_common.messages import Message, Role, local
from arc_common.observability import SECTION_TOKENS, Attributes, timed
from arc_common.prompts.context import render_idle_note
from arc_common.prompts.memories import render_memory_line
from arc_common.protocols import SessionKey, StoredMessage
from arc_common.protocols.search_index import Candidates, IndexQuery, Scope
from arc_common.rag import RagContext
from arc_common.tokens.budget import usable_tokens
from arc_common.tokens.counters import message_tokens_batch
from arc_common.tokens.selection import current_turn
from arc_common.trust import Trust

if TYPE_CHECKING:
    from arc_common.engine.runtime import Runtime
    from arc_common.memory.recall.index import LookedUp


_log = logging.getLogger("arc.context")

_SPARE = 2
"""Lines are rendered up to this multiple of the room, so that smaller ones can replace those that don't fit."""
_SHARE_OF_BEST = 0.5
"""Memories that match less than this share of the best one's relevance only share words with the question."""
_NOTHING_LEARNED = (
    "the {:,} oldest messages are left out, and facts and summary say nothing of them (small talk, pasted text)"
)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class IndexFindings:
    """The index's findings for a turn's question, read in one statement; `None` for each part that was not asked."""

    without_documents: frozenset[Scope] = frozenset()
    memories: Candidates | None = None
    messages: "LookedUp | None" = None


def look_up(
    runtime: "Runtime",
    key: SessionKey,
    query: str,
    *,
    room: int,
    documents: Collection[Scope] = (),
    tags: Sequence[str] = (),
) -> IndexFindings:
    """Look for documents, memories (with one of the tags) and messages in all scopes at once. Never raises."""
    asked = {scope: IndexQuery(scope, "document") for scope in documents}
    queries = list(asked.values())
    settings = runtime.settings
    asking = None
    try:
        if settings.memory.enabled:
            service = runtime.long_term
            scope, most = service.scope_of(key), settings.memory.top_k
            queries.append(service.keeper.asking(scope, query, limit=most, tags=tags))
        if settings.recall.enabled and room:
            asking = runtime.recall.asking(key, query, room=room)
            queries.append(asking[1])
        if not queries:
            return IndexFindings()
        found = runtime.store.index.candidates(*queries)
    except Exception:  # noqa: BLE001 - each part then asks on its own, and reports its failure
        _log.debug("a turn could not look into all scopes at once", exc_info=True)
        return IndexFindings()
    return IndexFindings(
        frozenset([scope for scope, one in zip(asked, found, strict=False) if not one.count]),
        found[len(asked)] if settings.memory.enabled else None,
        None if asking is None else (*asking, found[-1]),
    )


def with_recollections(
    runtime: "Runtime",
    key: SessionKey | None,
    query: str,
    layers: Layers,
    *,
    shown: Collection[str],
    hidden: int | None,
    room: int,
    findings: IndexFindings | None = None,
    tags: Sequence[str] = (),
) -> tuple[Layers, tuple[str, ...]]:
    """Return the layers with the items recalled for the question, and notes on problems. Never raises."""
    if key is None or not query.strip():
        return layers, ()
    others = runtime.settings.recall.scope == "user" and key.user_id is not None
    recalls = runtime.settings.recall.enabled and (others or hidden != 0)
    if findings is None:
        findings = look_up(runtime, key, query, room=room if recalls else 0, tags=tags)
    snippets, facts = runtime.artifacts.of_turn(key, query, facts=layers.recalled)
    memories = _memories(runtime, key, query, findings.memories, tags)
    found = FoundForTurn()
    if recalls:
        found = runtime.recall.for_turn(key, query, layers=layers, shown=shown, room=room, looked=findings.messages)
    count = runtime.context_counter.count
    recollected = replace(
        layers,
        recalled=tuple(facts),
        memories=tuple(
            [
                RecalledLine(
                    one.memory.id,
                    line,
                    count(line),
                    one.score_parts,
                    trust=one.memory.trust,
                    speaker=one.memory.speaker,
                )
                for one in memories
                for line in [render_memory_line(one)]
            ]
        ),
        artifacts=tuple(
            [
                RecalledLine(one.id, line, count(line), one.found.score_parts, trust=Trust.UNTRUSTED, source=one.source)
                for one in snippets
                for line in [one.line]
            ]
        ),
        messages=tuple(_lines(found, query, runtime, room=room)),
    )
    return recollected, found.notes


def _memories(
    runtime: "Runtime", key: SessionKey, query: str, candidates: Candidates | None, tags: Sequence[str]
) -> list[ScoredMemory]:
    """Return the memories (with one of the tags) that match, best first; none if memories are off. Never raises."""
    memory = runtime.settings.memory
    if not memory.enabled:
        return []
    try:
        service = runtime.long_term
        scope = service.scope_of(key)
        if runtime.gathers(key) and runtime.settings.background.in_process:
            service.catch_up(key)
        if candidates is not None and not candidates.ids and runtime.embedder is None:
            return []
        found = service.keeper.search(scope, query, limit=memory.top_k, tags=tags, candidates=candidates, on=key)
        least = _SHARE_OF_BEST * max((one.score_parts["relevance"] for one in found), default=0.0)
        return [one for one in found if one.score_parts["relevance"] >= least]
    except Exception as error:  # noqa: BLE001 - the turn continues without memories; the counter says so
        _log.warning("a turn continues without memories: %s", error, exc_info=error)
        runtime.observer.count("memory.errors")
        return []


def _lines(found: FoundForTurn, question: str, runtime: "Runtime", *, room: int) -> list[RecalledLine]:
    """Return the messages' lines until they fill their share of the room, or exceed `_SPARE` times all of it."""
    left = room * (found.share if found.share < 1 else _SPARE)
    zone, shown = runtime.clock().tzinfo, list[RecalledLine]()
    lines = message_lines(
        [one.stored.message for one in found.messages],
        question,
        tokens=[one.stored.tokens for one in found.messages],
        room=room * found.share,
    )
    asked, none = frozenset(specific_terms(question)), frozenset[str]()
    counts = runtime.context_counter.count_batch([line.text for line in lines])
    for one, line, tokens in zip(found.messages, lines, counts, strict=True):
        if left <= 0:
            break
        left -= tokens
        message, (session_id, seq) = one.stored.message, one.place
        said_at = local(message.created_at, zone) if message.created_at else _LONG_AGO
        order = (said_at, session_id, seq)
        words = none if "vector" in one.parts else asked
        source, user = line.source, line.user
        shown.append(
            RecalledLine(message.id or "", line.text, tokens, one.parts, order, line.trust, source, user, words)
        )
    return shown


class Reader:
    """Reads one conversation for one turn."""

    def __init__(
        self,
        runtime: "Runtime",
        key: SessionKey | None,
        log: ConversationLog | None,
        *,
        memory_tags: Sequence[str],
        following: Sequence[Message],
    ) -> None:
        self._memory_tags = memory_tags  # any if empty
        self._following = following
        self._runtime = runtime
        self._key = key
        self._log = log
        self._pins: Sequence[Pin] | None = None  # `None` until the session's state is read
        self._findings: IndexFindings | None = None  # `None` until the question is known

    def context(self, request: Request, history: Sequence[Message] | None, *, retrieve: bool) -> ContextWindow:
        """Build the window over the stored or the given history; with `retrieve`, search for documents."""
        with timed(self._runtime.observer, "context") as span:
            window = self._context(request, history, retrieve=retrieve)
            if span is not None:
                span.set(_span_attributes(self._key, window))
        return window

    def _context(self, request: Request, history: Sequence[Message] | None, *, retrieve: bool) -> ContextWindow:
        runtime = self._runtime
        costs = Costs(runtime.context_counter, {})
        if self._key is not None and request.query is not None and request.query.text.strip():
            room, scopes = request.budget.max_tokens("recalled"), unknown_scopes(runtime, self._key) if retrieve else ()
            self._findings = look_up(
                runtime, self._key, request.query.text, room=room, documents=scopes, tags=self._memory_tags
            )
        retrieved = self._retrieved(request, history) if retrieve else RagContext.EMPTY
        if retrieved.documents and not request.documents:
            request = replace(request, documents=retrieved.documents)
        with timed(runtime.observer, "context.load"):
            loaded = self._pinned(self._followed(self._loaded(request, costs, history)))
            loaded = self._recollected(request, loaded, is_whole=history is None)
        costs.know(loaded.tokens)
        if loaded.summarised and not runtime.window_is_set:
            request = replace(request, max_turns=None, max_messages=None)
        note = "" if history is not None else idle_note(runtime, request, loaded.messages)
        with timed(runtime.observer, "context.budget"):
            window = build_context_window(
                request,
                loaded.messages,
                costs=costs,
                layers=replace(loaded.layers, idle_note=note) if note else loaded.layers,
                unread=loaded.unread,
                notes=(*retrieved.notes, *loaded.notes, *runtime.services.models.notes),
                passed_over=retrieved.omissions,
                stored=history is None,
            )
        self._report(request, window, loaded)
        return window

    def view(
        self, limits: ViewLimits, *, following: Sequence[Message], count: Callable[[Message], int] | None, query: str
    ) -> list[Message]:
        """Return facts, summary and the newest whole turns within the limits: see `Session.window`."""
        runtime = self._runtime
        whole = runtime.default_budget().input_limit if limits.max_tokens is None else limits.max_tokens
        most = whole if count else usable_tokens(whole, runtime.token_counter)
        if limits.unlimited:
            max_turns, max_messages = runtime.settings.conversation.window_limits
            limits = replace(limits, max_tokens=most, max_turns=max_turns, max_messages=max_messages)
            limited = runtime.settings.conversation.window_is_set
        else:
            limited = limits.max_turns is not None or limits.max_messages is not None
            limits = replace(limits, max_tokens=None if limits.max_tokens is None else most)
        available = max(most - limits.reserved, 0)

        def question(read: Sequence[Message]) -> str:
            return query if query.strip() else _unanswered([*read, *following])

        with timed(runtime.observer, "context.load"):
            loaded = self._summarised(self._view_room(available), question)[0] if limits.include_summary else None
            if loaded is None and self._log is not None:
                loaded = self._log.load(
                    max_turns=limits.max_turns,
                    max_messages=limits.max_messages,
                    max_tokens=None if limits.max_tokens is None else most,
                    count=count,
                )
        if loaded is None:
            return []
        loaded = self._pinned(loaded)
        if limits.include_summary:
            loaded = self._recollected_in_view(loaded, question(loaded.messages), room=available // 4)
            said = [*loaded.messages, *following]
            asked = not said or said[-1].role is Role.ASSISTANT  # then the question follows the view
            note = idle_note(runtime, Request(query=Message(Role.USER, query)) if asked else Request(), said)
            loaded = replace(loaded, layers=replace(loaded.layers, idle_note=note)) if note else loaded
        if loaded.summarised and not limited:
            limits = replace(limits, max_turns=None, max_messages=None)
        recount = count is not None and loaded.summarised  # a plain load has already used `count`
        known = {id(message): count(message) for message in loaded.messages} if count and recount else loaded.tokens
        raw = list(map(count, following)) if count else message_tokens_batch(runtime.context_counter, following)
        costs = Costs(
            runtime.context_counter, {**known, **dict(zip(map(id, following), raw, strict=True))}, count=count
        )
        view = build_view(
            limits,
            [*loaded.messages, *following],
            costs=costs,
            most=most,
            error_reserve=whole - most,
            layers=loaded.layers,
            unread=loaded.unread,
            notes=(*loaded.notes, *runtime.services.models.notes),
            nearest=runtime.settings.context.receipt_misses,
        )
        self._keep(view.receipt, view.messages, loaded)
        return list(view.messages)

    def _pinned(self, loaded: LoadedHistory) -> LoadedHistory:
        """Add the session's pins to the loaded history; they are read on their own if no state was read."""
        if self._key is None:
            return loaded
        pins = self._pins
        if pins is None:
            pins = self._runtime.store.summaries.state(self._key, limit=0, view=False).pins
        zone = self._runtime.clock().tzinfo
        return replace(loaded, layers=replace(loaded.layers, pins=with_local_days(pins, zone))) if pins else loaded

    def _view_room(self, available: int) -> HistoryRoom:
        """Return the room for verbatim messages in a view of `available` tokens."""
        budget = replace(
            self._runtime.default_budget(), context_window=max(available, 1), output_reserve=0, relative_error=0.0
        )
        threshold = self._runtime.settings.conversation.compression_threshold
        return HistoryRoom(budget, available, Costs(self._runtime.context_counter, {}), threshold)

    def _recollected_in_view(self, loaded: LoadedHistory, query: str, *, room: int) -> LoadedHistory:
        """Add the items recalled for the question, within `room` tokens; without a question, remove recalled facts."""
        room = min(room, self._runtime.default_budget().max_tokens("recalled"))
        if not query.strip() or not room:
            return replace(loaded, layers=replace(loaded.layers, recalled=()))
        layers, notes = self._recollections(query, loaded, is_whole=True, room=room)
        layers = replace(layers, recalled=tuple(fact for fact in layers.recalled if fact.id not in layers.fact_ids))
        costs = Costs(self._runtime.context_counter, {})
        layers = layers.recollecting(lambda line: costs.corrected(line.tokens) + 1, room)
        return replace(loaded, layers=layers, notes=(*loaded.notes, *notes))

    def _recollections(
        self, query: str, loaded: LoadedHistory, *, is_whole: bool, room: int
    ) -> tuple[Layers, tuple[str, ...]]:
        return with_recollections(
            self._runtime,
            self._key,
            query,
            loaded.layers,
            shown={message.id for message in loaded.messages if message.id},
            hidden=loaded.unread.count + loaded.layers.covered if is_whole else None,
            room=room,
            findings=self._findings,
            tags=self._memory_tags,
        )

    def _retrieved(self, request: Request, history: Sequence[Message] | None) -> RagContext:
        """Retrieve documents for this turn, if there are any."""
        turns = self._runtime.settings.rag.max_history_turns

        def ask() -> tuple[str, Sequence[Message]]:
            said: Sequence[Message] = as_messages(history or (), "history")
            if history is None and self._log is not None and (turns or request.query is None):
                said = self._log.load(max_turns=max(turns, 1), max_messages=None, max_tokens=None).messages
            said = [*said, *self._following]
            if request.query is not None:
                return request.query.text, said
            turn = current_turn(said)  # the question is in the history
            return turn.user.text if turn.user else "", turn.before

        empty = self._findings.without_documents if self._findings else ()
        return documents_of_turn(self._runtime, self._key, ask, empty=empty)

    def _loaded(self, request: Request, costs: Costs, history: Sequence[Message] | None) -> LoadedHistory:
        """Return the given history, or the stored one with its facts and summary."""
        if history is not None or self._log is None:
            given = as_messages(history or (), "history")
            counts = message_tokens_batch(self._runtime.context_counter, given)
            return LoadedHistory(tuple(given), dict(zip(map(id, given), counts, strict=True)), LeftOut(0, 0))

        def question(read: Sequence[Message]) -> str:
            asked = request.query or current_turn([*read, *self._following]).user
            return asked.text if asked else ""

        summarised, notes = self._summarised(history_room(request, costs), question)
        if summarised is not None:
            return summarised
        plain = self._log.load(
            max_turns=request.max_turns,
            max_messages=request.max_messages,
            max_tokens=request.budget.input_tokens,
        )
        return replace(plain, notes=notes)

    def _followed(self, loaded: LoadedHistory) -> LoadedHistory:
        """Add the messages that follow the history and are not stored."""
        if not self._following:
            return loaded
        counts = message_tokens_batch(self._runtime.context_counter, self._following)
        tokens = loaded.tokens | dict(zip(map(id, self._following), counts, strict=True))
        return replace(loaded, messages=(*loaded.messages, *self._following), tokens=tokens)

    def _recollected(self, request: Request, loaded: LoadedHistory, *, is_whole: bool) -> LoadedHistory:
        """Add the items recalled for the question to the loaded history."""
        room = request.budget.max_tokens("recalled")
        if self._key is None or not room:
            return loaded
        query = request.query or current_turn(loaded.messages).user
        layers, notes = self._recollections(query.text if query else "", loaded, is_whole=is_whole, room=room)
        return replace(loaded, layers=layers, notes=(*loaded.notes, *notes))

    def _summarised(
        self, room: HistoryRoom, question: Callable[[Sequence[Message]], str]
    ) -> tuple[LoadedHistory | None, tuple[str, ...]]:
        """Return the history with facts and summary (`None` if summaries don't apply yet), and notes on problems."""
        memory = self._runtime.memory
        if memory is None or self._key is None or self._log is None:
            return None, ()
        remembered = memory.read(self._key, room)
        state = remembered.state
        self._pins = state.pins if state else None
        if state is None or not is_summarised(state, self._runtime.settings.summary):
            return None, remembered.notes
        view, notes = state.view, remembered.notes
        if view is not None and view.covered and not (view.facts or view.narrative):
            notes = (*notes, _NOTHING_LEARNED.format(view.covered))
        read = self._with_question(state.messages)
        messages = tuple([stored.message for stored in read])
        loaded = LoadedHistory(
            messages=messages,
            tokens=self._log.raw_tokens(read),
            unread=LeftOut(max(state.message_count - (view.covered if view else 0) - len(read), 0), 0),
            layers=memory.layers(self._key, state, question(messages)),
            summarised=True,
            notes=notes,
            at_seq=read[-1].seq if read else None,
        )
        return loaded, notes

    def _with_question(self, read: tuple[StoredMessage, ...]) -> tuple[StoredMessage, ...]:
        """Prepend the current user message if the running turn began before the messages that were read."""
        if not read or self._log is None or any(map(opens_a_turn, read)):
            return read
        question = self._log.newest_question(before=read[0].seq)
        return (question, *read) if question else read

    def _report(self, request: Request, window: ContextWindow, loaded: LoadedHistory) -> None:
        """Log the receipt, keep it for `debug`, and warn once when the conversation approaches its limit."""
        if self._key is None:
            return
        self._keep(window.receipt, window.messages, loaded)
        kept = next((section.tokens for section in window.sections if section.name == "history"), 0)
        tokens = window.total_tokens - kept + sum(loaded.tokens.values()) + loaded.unread.tokens
        if tokens > request.threshold and self._runtime.receipts.is_first_warning(self._key):
            _log.warning(
                "Approaching token limit: %d tokens (session %r); older turns will be summarised or left out",
                tokens,
                self._key.session_id,
            )

    def _keep(self, receipt: Receipt, messages: Sequence[Message], loaded: LoadedHistory) -> None:
        if self._key is None:
            return
        runtime = self._runtime
        runtime.keep(self._key, receipt)
        is_temporary = bool(self._following)  # its messages are stored nowhere
        if runtime.settings.context.store_receipts != "off" and not is_temporary:
            runtime.receipt_log.note(runtime.on_branch(self._key), receipt, messages, at_seq=loaded.at_seq)
        level = logging.INFO if runtime.settings.context.debug else logging.DEBUG
        if _log.isEnabledFor(level):
            _log.log(level, "session %r: %s", self._key.session_id, receipt.to_json())


def _span_attributes(key: SessionKey | None, window: ContextWindow) -> Attributes:
    """Return the attributes of a turn's span: the conversation's id, and the tokens of each section."""
    sections = {f"{SECTION_TOKENS}{section.name}": section.tokens for section in window.sections}
    whose = {} if key is None else {"gen_ai.conversation.id": key.session_id}
    return {**whose, **sections, "arc.total_tokens": window.total_tokens, "arc.notes": len(window.receipt.notes)}


def _unanswered(said: Sequence[Message]) -> str:
    """Return the newest user message's text if it is unanswered, also when tool results follow it; otherwise `""`."""
    if not said or said[-1].role not in (Role.USER, Role.TOOL):
        return ""
    return next((message.text for message in reversed(said) if message.role is Role.USER), "")


def idle_note(runtime: "Runtime", request: Request, messages: Sequence[Message]) -> str:
    """Return a note on how long the conversation was idle before the current user message; `""` if not long."""
    longest = runtime.settings.conversation.resume_note_days
    if longest is None:
        return ""
    now: datetime | None = runtime.clock()
    if request.query is None:
        turn = current_turn(messages)
        now, messages = turn.user.created_at if turn.user else None, turn.before
    rested = timedelta(days=longest)
    if now is None or any(said.created_at and now - said.created_at <= rested for said in reversed(messages)):
        return ""  # usually decided by the newest message
    last = max((message.created_at for message in messages if message.created_at), default=None)
    if last is None:
        return ""
    return render_idle_note((now - last).days)
