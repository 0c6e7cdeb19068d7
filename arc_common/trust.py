"""Levels of trust, and the quotation of untrusted text. No text can raise its own level."""

import re
from collections.abc import Iterable
from enum import StrEnum

SOURCE = "arc_source"
"""The metadata key of a message whose text is not its speaker's: a word on where it is from ("web page example.com",
"import from WhatsApp"). Such a message is untrusted."""


class Trust(StrEnum):
    """The trust in a text, lowest first. Untrusted text is never learned, and only quoted with its source."""

    UNTRUSTED = "untrusted"
    """Texts of tools, documents and imports, pasted or quoted texts, and answers that rest on any of these."""
    ASSISTANT = "assistant"
    """An assistant's own words."""
    USER = "user"
    """A user's own words, and texts that somebody entered or approved by hand."""

    @classmethod
    def least(cls, trusts: Iterable["Trust"]) -> "Trust":
        """Return the lowest of some levels; the highest for none."""
        order = list(cls)
        return min(trusts, key=order.index, default=cls.USER)


_INNER_QUOTES = str.maketrans('“”„«»"', "‘’‘‘’'")


def quoted(text: str) -> str:
    """Return a text as a quotation on one line, which nothing in the text ends."""
    return f"“{' '.join(text.translate(_INNER_QUOTES).split())}”"


_LONGEST_NAME = 60
_NAME = re.compile(r"(?!(?:user|assistant|system|tool|noted|insight)\b)[^\W_][\w .'’-]*", re.IGNORECASE)


def speaker_name(name: str | None, role: str = "user") -> str:
    """Return a speaker's name as prompts show it, or the role for none: one line that passes for no other speaker."""
    plain = " ".join((name or "").replace(":", " ").split())[:_LONGEST_NAME].rstrip()
    if not plain:
        return role
    return plain if _NAME.fullmatch(plain) else f"{role} {quoted(plain)}"
