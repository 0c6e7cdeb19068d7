"""Escapes braces in messages, because LlamaIndex's context engines format the history as a template."""

import re

_FIELD = re.compile(r"\{(?=[^\W\d][\w.]*\})")


def without_fields(text: str) -> str:
    """Put a space after the opening brace of each template field (`{ name}`), so that no value is inserted."""
    return _FIELD.sub("{ ", text)
