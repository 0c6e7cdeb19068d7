"""Fakes for testing code that uses arc."""

from arc_common.testing.fakes import (
    CountingObserver,
    FailingChatModel,
    OneThreadChatModel,
    ReplyingChatModel,
    ScriptedChatModel,
    SlowChatModel,
    StructuredReplyingChatModel,
)

__all__ = [
    "CountingObserver",
    "FailingChatModel",
    "OneThreadChatModel",
    "ReplyingChatModel",
    "ScriptedChatModel",
    "SlowChatModel",
    "StructuredReplyingChatModel",
]
