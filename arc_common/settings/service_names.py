"""Which model provider's key is in the environment. Keys themselves are left to the providers' own clients."""

import os
from dataclasses import dataclass

__all__ = ["PROVIDERS", "Provider", "provider_with_key"]


@dataclass(frozen=True, slots=True)
class Provider:
    """A model provider.

    Args:
        name: As it is written before the colon in "openai:gpt-5-mini".
        keys: The environment variables, any of which holds its key.
        model: The model that is taken when none is named: a small one.
    """

    name: str
    keys: tuple[str, ...]
    model: str


PROVIDERS = (
    Provider("openai", ("OPENAI_API_KEY",), "gpt-5-mini"),
    Provider("anthropic", ("ANTHROPIC_API_KEY",), "claude-haiku-4-5"),
    Provider("google", ("GOOGLE_API_KEY", "GEMINI_API_KEY"), "gemini-2.5-flash"),
)


def provider_with_key() -> Provider | None:
    """The first provider whose key is set and not empty."""
    return next((provider for provider in PROVIDERS if any(map(os.environ.get, provider.keys))), None)
