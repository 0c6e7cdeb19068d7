"""Keeps what people said from being read as a template: LlamaIndex's context engines format the history they are given.

Their formatter replaces each `{name}` that it has a value for, wherever it stands, and knows no escape: of
`{{context_str}}` it replaces the inner part.
"""

import re
from collections.abc import Iterable
from dataclasses import replace

from llama_index.core.base.llms.types import ChatMessage

from arc_common.messages import Message
from llamaindex_arc.messages import from_arc

__all__ = ["shown", "without_fields"]

_FIELD = re.compile(r"\{(?=[^\W\d][\w.]*\})")


def without_fields(text: str) -> str:
    """The text with a space after the brace of each template field (`{ name}`): then no value is put there."""
    return _FIELD.sub("{ ", text)


def shown(window: Iterable[Message]) -> list[ChatMessage]:
    """A window's messages as LlamaIndex's; no template field is left in the one that arc made of facts and summary."""
    return [
        from_arc(replace(message, content=without_fields(message.text)) if message.made_by_arc else message)
        for message in window
    ]
