"""What a framework's adapter contributes to the demo, and how it is found."""

import importlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from arc_common.exceptions import ConfigurationError
from arc_common.protocols import ChatModel

if TYPE_CHECKING:
    from arc_common.settings import ArcSettings

__all__ = ["Ask", "Commands", "Half", "Missing", "Stage", "find_halves", "model_class"]

GROUP = "arc.commands"
"""The entry point group: an entry's name is the extra that installs what it needs, its value a `register(commands)`."""

Ask = Callable[[str], str]
"""Sends one user message through a framework and returns the answer's text."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What a half plays with.

    Args:
        url: The database that the conversation is in.
        session_id: The conversation.
        settings: For the engine that the half opens.
        system_prompt: The instructions.
        model: Answers every request; the half puts it behind its framework's model class.
    """

    url: str
    session_id: str
    settings: "ArcSettings"
    system_prompt: str
    model: ChatModel


@dataclass(frozen=True, slots=True)
class Half:
    """A framework's part in the demo.

    Args:
        name: The framework's.
        recipe: What is run, in a few words.
        play: Sets the framework up over the stage's database for as long as the context lasts.
        model: The framework's model for a provider and a model's name. Raises `ConfigurationError` without the
            provider's package.
    """

    name: str
    recipe: str
    play: Callable[[Stage], AbstractContextManager[Ask]]
    model: Callable[[str, str], ChatModel]


@dataclass(frozen=True, slots=True)
class Missing:
    """An adapter that could not be imported: the extra that it is in, and why."""

    extra: str
    reason: str


class Commands:
    """What the `arc` command hands to each adapter's `register`."""

    def __init__(self) -> None:
        self._halves: list[Half] = []

    @property
    def halves(self) -> Sequence[Half]:
        """The demo's halves, in the order in which they were added."""
        return tuple(self._halves)

    def add_demo_half(self, half: Half) -> None:
        """Add a framework to the demo."""
        self._halves.append(half)


def find_halves() -> tuple[Sequence[Half], Sequence[Missing]]:
    """The halves of all adapters that can be imported, and those that can't, both in order of their names."""
    commands = Commands()
    missing = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            entry.load()(commands)
        except ImportError as error:
            missing.append(Missing(entry.name, str(error)))
    return commands.halves, missing


def model_class(module: str, name: str, package: str) -> Any:
    """A provider's model class.

    Raises:
        ConfigurationError: Its package is not installed.
    """
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise ConfigurationError(f"{name} needs the package {package!r}: pip install {package}") from error
