"""Keeps what people said from being read as a template: LlamaIndex's context engines format the history they are given.

Their formatter replaces each `{name}` that it has a value for, wherever it stands, and knows no escape: of
`{{context_str}}` it replaces the inner part.
"""

import re

__all__ = ["without_fields"]

_FIELD = re.compile(r"\{(?=[^\W\d][\w.]*\})")


def without_fields(text: str) -> str:
    """The text with a space after the brace of each template field (`{ name}`): then no value is put there."""
    return _FIELD.sub("{ ", text)
