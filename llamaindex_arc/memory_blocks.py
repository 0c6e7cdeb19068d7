"""What a question needs of what was said before, as a block of LlamaIndex's `Memory`."""

from collections.abc import Sequence
from typing import Unpack

from arc_common.engine import ContextEngine
from arc_common.exceptions import MissingDependencyError
from arc_common.memory.artifacts import excerpts_of
from arc_common.messages import Message
from arc_common.prompts import render_recalled
from arc_common.session import Session
from llamaindex_arc.session_blocks import BlockOptions, SessionBlock

try:
    from llama_index.core.base.llms.types import ChatMessage, MessageRole
except ImportError as error:
    raise MissingDependencyError("llamaindex_arc.blocks", package="llama-index-core", extra="llamaindex") from error

__all__ = ["ArcRecallBlock"]

_LONG = 600
"""Characters. Of a longer message the sentences are shown that match the question best."""


class ArcRecallBlock(SessionBlock):
    """What was said in this session about the user's question, and left the `Memory`'s queue since.

    - The best `settings.recall.top_k` messages within `settings.budget.memory` tokens, in conversation order, each with
      its day and who said it; of long ones the sentences that match.
    - Of the `Memory`'s own session alone: the id is taken from each call, so that one block may serve many.
    - What the queue still shows is not repeated; nothing where `settings.recall.enabled` is off.
    - For the rest, and the arguments, see `ArcFactsBlock`.
    """

    # In each class: type checkers believe that a pydantic class without an `__init__` of its own takes its fields.
    def __init__(
        self, engine: ContextEngine | None = None, *, name: str = "ArcRecall", **given: Unpack[BlockOptions]
    ) -> None:
        super().__init__(engine, name=name, **given)

    @classmethod
    def class_name(cls) -> str:
        """The name in serialised form."""
        return "ArcRecallBlock"

    def _text(self, session: Session, messages: Sequence[ChatMessage]) -> str:
        settings = self._engine.settings
        question = _question(messages)
        if not settings.recall.enabled or not question.strip():
            return ""
        shown = {message.content for message in messages}
        most = settings.recall.top_k
        found = [one.message for one in session.recall(question, top_k=most + len(messages))]
        lines = {
            message.id or "": _line(message, question)
            for message in [one for one in found if one.text.strip() and one.text not in shown][:most]
        }
        fitting = self._fitting(lines, settings.budget.memory)
        return render_recalled([lines[one.id] for one in session.find(fitting) if one.id])

    def _fitting(self, lines: dict[str, str], most: int) -> list[str]:
        """The first of the lines that fit together, block and all."""
        fitting: list[str] = []
        for key in lines:
            block = render_recalled([lines[one] for one in [*fitting, key]])
            if self._engine.token_counter.count(block) <= most:
                fitting.append(key)
        return fitting


def _question(messages: Sequence[ChatMessage]) -> str:
    """What the user said last."""
    return next((one.content or "" for one in reversed(messages) if one.role == MessageRole.USER), "")


def _line(message: Message, question: str) -> str:
    """A message as an item of a list, in one line: `- 2026-03-01, user: …`."""
    said = message.text if len(message.text) <= _LONG else " … ".join(excerpts_of(message.text, question))
    when = f"{message.created_at:%Y-%m-%d}, " if message.created_at else ""
    return f"- {when}{message.role.value}: {' '.join(said.split())}"
