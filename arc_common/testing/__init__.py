"""Fakes for testing code that uses arc."""

from arc_common.testing.fakes import FailingChatModel, ReplyingChatModel, SlowChatModel
from arc_common.testing.observers import CountingObserver
from arc_common.testing.scripted import ScriptedChatModel

__all__ = ["CountingObserver", "FailingChatModel", "ReplyingChatModel", "ScriptedChatModel", "SlowChatModel"]
