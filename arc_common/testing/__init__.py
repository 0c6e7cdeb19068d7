"""Fakes for testing code that uses arc."""

from arc_common.testing.fakes import (
    CountingObserver,
    FailingChatModel,
    ReplyingChatModel,
    ScriptedChatModel,
    SlowChatModel,
)

__all__ = ["CountingObserver", "FailingChatModel", "ReplyingChatModel", "ScriptedChatModel", "SlowChatModel"]
