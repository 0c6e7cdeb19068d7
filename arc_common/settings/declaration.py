"""What a settings model says about its own knobs: their paths, environment names, types, bounds and units."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from arc_common.settings.secret import SecretUrl

__all__ = ["PREFIX", "EnvironmentAlias", "Knob", "closest", "environment_name", "groups_of", "knobs_of"]

PREFIX = "ARC_"
_DELIMITER = "__"

_WORDS: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple: "words, in the environment separated by commas",
    SecretStr: "text, kept secret",
    SecretUrl: "a URL with its scheme (sqlite:///arc.db)",
}
_BOUNDS = (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"))


@dataclass(frozen=True, slots=True)
class EnvironmentAlias:
    """A further environment name of a knob, in its annotation; the knob's own `ARC_` name wins over it."""

    name: str


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting: where it stands in its model, and what the model says about it."""

    path: tuple[str, ...]
    field: FieldInfo

    @property
    def name(self) -> str:
        """As it is written in Python: `summary.enabled`."""
        return ".".join(self.path)

    @property
    def environment_names(self) -> tuple[str, ...]:
        """The environment variables that set it, the one that wins first."""
        aliases = [item.name for item in self.field.metadata if isinstance(item, EnvironmentAlias)]
        return (environment_name(self.path), *aliases)

    @property
    def kind(self) -> Any:
        """Its type, without `None`; of a tuple or a Literal the origin."""
        kind = _kinds(self.field.annotation)[0]
        return get_origin(kind) or kind

    @property
    def optional(self) -> bool:
        """Whether `None` is allowed."""
        return NoneType in _kinds(self.field.annotation)

    @property
    def secret(self) -> bool:
        """Whether its value, or a part of it, must not be shown."""
        return self.kind in (SecretStr, SecretUrl)

    @property
    def allowed(self) -> str:
        """What it accepts, in words: "a whole number ≥ 1, or none"."""
        if self.kind is Literal:
            words = "one of " + ", ".join(repr(choice) for choice in get_args(_kinds(self.field.annotation)[0]))
        else:
            words = _WORDS.get(self.kind, "text")
        choices = get_args(self.field.annotation)[:1] if self.kind is tuple else ()
        if choices and get_origin(choices[0]) is Literal:
            words = (
                "words out of "
                + ", ".join(map(repr, get_args(choices[0])))
                + ", in the environment separated by commas"
            )
        limits = [
            f"{sign} {limit:,}"
            for attribute, sign in _BOUNDS
            for item in self.field.metadata
            if (limit := getattr(item, attribute, None)) is not None
        ]
        return words + (" " + " and ".join(limits) if limits else "") + (", or none" if self.optional else "")


def _kinds(annotation: Any) -> list[Any]:
    """The members of a union, or the type itself; `None` last."""
    members = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    bare = [get_args(member)[0] if get_origin(member) is Annotated else member for member in members]
    return sorted(bare, key=lambda kind: kind is NoneType)


def environment_name(path: Iterable[str]) -> str:
    """`("summary", "enabled")` → `ARC_SUMMARY__ENABLED`."""
    return PREFIX + _DELIMITER.join(path).upper()


@cache
def groups_of(model: type[BaseModel]) -> Mapping[str, type[BaseModel]]:
    """The model's groups of knobs, by name."""
    kinds = {name: field.annotation for name, field in model.model_fields.items()}
    return {name: kind for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, BaseModel)}


@cache
def knobs_of(model: type[BaseModel]) -> Mapping[tuple[str, ...], Knob]:
    """Every knob of the model and of its groups, by path, in the order in which they are written."""
    knobs: dict[tuple[str, ...], Knob] = {}
    for name, field in model.model_fields.items():
        group = groups_of(model).get(name)
        inner = {(name, *path): knob.field for path, knob in knobs_of(group).items()} if group else {(name,): field}
        knobs.update((path, Knob(path, of)) for path, of in inner.items())
    return knobs


def closest(name: str, names: Iterable[str]) -> str | None:
    """The name that was probably meant, if one is near enough."""
    found = difflib.get_close_matches(name, list(names), n=1, cutoff=0.7)
    return found[0] if found else None
