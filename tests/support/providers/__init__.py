"""Model providers' published message rules: render a conversation as a provider's request, and check a request."""

from tests.support.providers import anthropic, gemini, openai
from tests.support.providers.rules import Violation

__all__ = ["Violation", "anthropic", "gemini", "openai"]
