"""Addresses that may hold a password, and how they are shown without it."""

import re

__all__ = ["HIDDEN", "hide_password", "scrubbed", "sounds_secret"]

HIDDEN = "**********"

_SECRET_WORDS = re.compile(r"pass|pwd|secret|token(?!s)|key|credential|auth|signature", re.IGNORECASE)  # tokens: a unit
_LOGIN = re.compile(r"^([^:]+://[^:]*:)(.*)@", re.DOTALL)  # to the last @: passwords with @ or / come unescaped
_PARAMETER = re.compile(r"([?&;])([^=&;]+)=([^&;]*)")


def sounds_secret(name: str) -> bool:
    """Whether a name is one that passwords, tokens and keys go by."""
    return _SECRET_WORDS.search(name) is not None


def hide_password(url: str) -> str:
    """The URL as it may be shown: its password, and each query parameter named like a secret, replaced by `***`.

    - Works on malformed URLs too, and rather hides too much: text without a scheme is hidden whole if it has an `@` or
      a word like "password" in it.
    - A URL without a password comes back as it is.
    """
    if "://" not in url:
        return HIDDEN if "@" in url or sounds_secret(url) else url
    shown = _LOGIN.sub(r"\1***@", url, count=1)
    return _PARAMETER.sub(lambda match: f"{match[1]}{match[2]}=***" if sounds_secret(match[2]) else match[0], shown)


def scrubbed(text: str, url: str) -> str:
    """A driver's message about a URL, without the URL's secrets: also where it took a part of one for a host."""
    login = _LOGIN.match(url)
    secrets = [login[2]] if login else []
    secrets += [match[3] for match in _PARAMETER.finditer(url) if sounds_secret(match[2])]
    pieces = {piece for secret in secrets for piece in (secret, *secret.split("@"), *secret.split("/"))}
    for piece in sorted((piece for piece in pieces if len(piece) > 2), key=len, reverse=True):
        text = text.replace(piece, "***")
    return text
