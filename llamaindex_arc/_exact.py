"""The exact form of a LlamaIndex message as text, and back.

Not by `model_dump` and `model_validate`: those encode bytes as they please, look for files, guess mime types and drop
what a subclass adds.
"""

from llama_index.core.base.llms.types import ChatMessage

from arc_common.objects import OBJECTS
from arc_common.serialization import dumps, loads

__all__ = ["from_exact", "to_exact"]


def to_exact(message: ChatMessage) -> str:
    """The text from which `from_exact` makes an equal message.

    - Takes bytes, paths, addresses, enumerations and pydantic objects (a provider's tool calls) wherever they are.

    Raises:
        InvalidInputError: It holds something else that has no reversible form, an open stream for instance.
    """
    return dumps(message, field="message", extensions=OBJECTS)


def from_exact(text: str) -> ChatMessage | None:
    """A fresh message from that text; `None` if one of its classes isn't loaded in this process."""
    try:
        message = loads(text, extensions=OBJECTS)
    except LookupError:
        return None
    return message if isinstance(message, ChatMessage) else None
