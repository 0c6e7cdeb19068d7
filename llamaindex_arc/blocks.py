"""A session's facts and its summary as blocks of LlamaIndex's `Memory`."""
# ruff: noqa: ARG002 - `Memory` calls every block with more than these need

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import ClassVar, Unpack

from arc_common.engine.context_engine import ContextEngine
from arc_common.engine.session import Session
from arc_common.exceptions import MissingDependencyError
from arc_common.facts import Fact
from arc_common.memory.facts.extraction import extract_facts
from arc_common.memory.facts.ledger import adopted_facts
from arc_common.memory.summaries.summarizers import RuleBasedSummarizer
from arc_common.messages import Message
from arc_common.prompts import render_memory
from arc_common.protocols.summaries import ConversationSummary
from llamaindex_arc.session_blocks import BlockOptions, SessionBlock

try:
    from llama_index.core.base.llms.types import ChatMessage
except ImportError as error:
    raise MissingDependencyError("llamaindex_arc.blocks", package="llama-index-core", extra="llamaindex") from error

_MOST_PENDING = 64
"""The most unsummarised messages that the rules read; more than ever wait for a summary."""
_FRAME = 4
"""Lines before the content: the marker, the heading, an empty line and the label."""
_UNDATED = datetime.fromtimestamp(0, UTC)


class ArcFactsBlock(SessionBlock):
    """Shows a session's facts as `- key: value` lines: the most important, within `settings.budget.facts` tokens.

    - Messages that are not summarised yet contribute the facts that rules find in them.
    - Facts are durable, in the engine's session with the same id as the `Memory`; two sessions never mix, whatever
      object serves them.
    - A turn is stored once, even if two blocks receive it or a `Memory` replays its history: it is identified by its
      words. A turn that repeats an earlier one word for word is kept once.
    - Putting never raises: a failure is logged, counted (`save.errors`) and passed to the engine's `on_save_error`.
      Messages that a failing store could not take are stored with the next messages of their session.
    - A copy works on the same engine. A block can't be pickled, because its engine holds connections.

    Args:
        engine: The engine that keeps the sessions; by default a new one, as the settings say.
        name: The block's name in the prompt.
        description: The block's purpose.
        priority: 0 keeps the block whole; otherwise, `Memory` shortens lower numbers first when there is no room.
        accept_short_term_memory: Whether messages that leave the `Memory`'s queue are stored.
        caller_id: The application to which the sessions belong.
        user_id: The user to whom the sessions belong.
    """

    _frame: ClassVar[int] = _FRAME

    # In each class: type checkers believe that a pydantic class without an `__init__` of its own takes its fields.
    def __init__(
        self, engine: ContextEngine | None = None, *, name: str = "ArcFacts", **given: Unpack[BlockOptions]
    ) -> None:
        super().__init__(engine, name=name, **given)

    @classmethod
    def class_name(cls) -> str:
        """Return the name in serialised form."""
        return "ArcFactsBlock"

    def _text(self, session: Session, messages: Sequence[ChatMessage]) -> str:
        if not self._engine.settings.summary.enabled:
            return ""
        summary, pending = _written(session)
        facts = [*(summary.facts if summary else ()), *_facts_of(pending)]
        count = self._engine.token_counter.count
        shown = adopted_facts(facts, max_tokens=self._engine.settings.budget.facts, count=count)
        return render_memory([fact.line for fact in shown], "")


class ArcSummaryBlock(SessionBlock):
    """Shows a session's summary, the newest part last, within `settings.summary.max_tokens` tokens.

    - Messages that are not summarised yet contribute their most informative sentences.
    - For everything else, including the arguments, see `ArcFactsBlock`.
    """

    _frame: ClassVar[int] = _FRAME

    # In each class: type checkers believe that a pydantic class without an `__init__` of its own takes its fields.
    def __init__(
        self, engine: ContextEngine | None = None, *, name: str = "ArcSummary", **given: Unpack[BlockOptions]
    ) -> None:
        super().__init__(engine, name=name, **given)

    @classmethod
    def class_name(cls) -> str:
        """Return the name in serialised form."""
        return "ArcSummaryBlock"

    def _text(self, session: Session, messages: Sequence[ChatMessage]) -> str:
        settings = self._engine.settings.summary
        if not settings.enabled:
            return ""
        summary, pending = _written(session)
        rules = RuleBasedSummarizer(self._engine.token_counter)
        newest = rules.narrative(pending, max_tokens=settings.leaf_narrative_tokens)
        return render_memory((), "\n".join(filter(None, [summary.narrative if summary else "", newest])))


def _written(session: Session) -> tuple[ConversationSummary | None, list[Message]]:
    """Return a session's summary, and the messages that it does not cover yet."""
    summary = session.summary()
    limit = _MOST_PENDING if summary is None else min(summary.pending, _MOST_PENDING)
    return summary, session.messages(limit=limit)


def _facts_of(messages: Sequence[Message]) -> list[Fact]:
    """Return the facts that rules find in messages, in the ledger's form."""
    times = {message.id: message.created_at for message in messages}
    return [
        Fact(
            id=f"pending-{number}",
            key=found.key,
            value=found.value,
            category=found.category,
            sources=found.sources,
            importance=found.importance,
            segment=0,
            made_by="rules",
            valid_from=next((time for source in found.sources if (time := times.get(source))), _UNDATED),
        )
        for number, found in enumerate(extract_facts(messages))
    ]
