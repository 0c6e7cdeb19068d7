"""As much of a message as there is room for."""

from collections.abc import Callable
from dataclasses import replace

from arc_common.messages import ContentPart, Message
from arc_common.tokens.compression.truncation import truncated

__all__ = ["shortened"]

_MEDIA = frozenset({"image", "audio", "file"})


def shortened(message: Message, *, max_tokens: int, count: Callable[[Message], int]) -> Message | None:
    """A message that fits: itself; or the head of its text (see `truncated`) with what else is in it.

    - Where pictures, sounds and files leave no room for its text, `[cleared: image]` stands in the place of each.
    - `None` where that is too large, too: calls, and what is not known, are never taken out.

    Args:
        message: The message.
        max_tokens: Tokens of the whole message.
        count: The tokens of a message.
    """
    found = truncated(message, max_tokens=max_tokens, count=count)
    if found is None and (bare := _without_media(message)) is not message:
        found = truncated(bare, max_tokens=max_tokens, count=count)
    return found


def _without_media(message: Message) -> Message:
    """The message with a word in the place of what is heard or seen; its exact foreign form is gone."""
    content = message.content
    if content is None or isinstance(content, str) or not any(part.type in _MEDIA for part in content):
        return message
    parts = (ContentPart("text", f"[cleared: {part.type}]") if part.type in _MEDIA else part for part in content)
    return replace(message, content=tuple(parts), origin=None)
