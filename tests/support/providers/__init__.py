"""Model providers' published message rules: render a conversation as a provider's request, and check a request."""

from arc_common.testing.providers import anthropic, gemini, openai
from arc_common.testing.providers.rules import Violation

__all__ = ["Violation", "anthropic", "gemini", "openai"]
