"""Model providers' published message rules: rendering of a conversation as a request, and checks of a request."""

from tests.support.providers import anthropic, gemini, openai
from tests.support.providers.rules import Violation

__all__ = ["Violation", "anthropic", "gemini", "openai"]
