"""ContextWindow: the messages of one request, with their receipt."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from arc_common.context.receipt import Receipt, Section
from arc_common.messages import Message

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, slots=True, repr=False)
class ContextWindow:
    """The messages of a request, ready for a model, and their receipt.

    - `total_tokens`, including framing, tools and response schema, is at most the budget's `input_tokens`, which
      excludes the tokens kept free because the counter estimates (`receipt.error_reserve`).
    - The system prompt and the current user message are complete.
    - At most one system message leads, followed by a user message; each tool call precedes all of its results.
    """

    messages: tuple[Message, ...]
    sections: tuple[Section, ...]
    total_tokens: int
    receipt: Receipt

    def __repr__(self) -> str:
        """Return one line: the tokens used and available, the number of messages, and the tokens of each section."""
        sections = ", ".join(f"{section.name} {section.tokens:,}" for section in self.sections if section.tokens)
        used = f"{self.total_tokens:,} of {self.receipt.input_tokens:,} tokens"
        count = len(self.messages)
        return f"<ContextWindow {used}, {count} message{'' if count == 1 else 's'}: {sections or 'nothing'}>"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the budget by section, each section's items, and the omissions."""
        from arc_common.context.display_html import render_html  # noqa: PLC0415 - imported only for display

        return render_html(self)

    def __rich__(self) -> "RenderableType":
        """Return the rich renderable for a terminal: `rich.print(window)`."""
        from arc_common.context.display_terminal import render_terminal  # noqa: PLC0415 - rich takes a while to import

        return render_terminal(self)
