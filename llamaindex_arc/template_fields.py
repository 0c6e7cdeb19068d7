"""Escapes braces in messages, because LlamaIndex's context engines format the history as a template."""

import re

_FIELD = re.compile(r"\{(?=[^\W\d][\w.]*\})")


def without_fields(text: str) -> str:
    """The text with a space after the brace of each template field (`{ name}`): then no value is put there."""
    return _FIELD.sub("{ ", text)
