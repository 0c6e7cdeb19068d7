"""Python objects inside messages as reversible JSON: pydantic models, enumerations, paths and addresses.

An object is stored as its class's name and its raw fields. Nothing is imported when reading, because stored data must
not choose the code that runs: a class that this process has not loaded raises `LookupError`. No validator runs, so a
path whose file was deleted since can still be read.
"""

import sys
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import AnyUrl, BaseModel

from arc_common.serialization import Extension

__all__ = ["OBJECTS"]


def _name_of(value: object) -> str | None:
    """Return the name by which `_class_named` finds the value's class; `None` if it wouldn't find the class."""
    kind = type(value)
    name = f"{kind.__module__}:{kind.__qualname__}"
    return name if _found(name) is kind else None


def _class_named(name: str, base: type) -> Any:
    found = _found(name)
    if isinstance(found, type) and issubclass(found, base):
        return found
    raise LookupError(name)


def _found(name: str) -> object:
    module, _, path = name.partition(":")
    found: object = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def _model_fields(value: object) -> dict[str, Any] | None:
    if not isinstance(value, BaseModel) or value.__pydantic_private__ or (name := _name_of(value)) is None:
        return None
    extra = {"extra fields": value.model_extra} if value.model_extra else {}
    return {"class": name, **value.__dict__, **extra}  # neither key can be a field's name


def _model(fields: dict[str, Any]) -> BaseModel:
    cls = _class_named(fields.pop("class"), BaseModel)
    extra = fields.pop("extra fields", None)
    made: BaseModel = cls.model_construct(**fields)
    if extra:
        object.__setattr__(made, "__pydantic_extra__", extra)
    return made


def _member(value: object) -> list[Any] | None:
    if not isinstance(value, Enum) or (name := _name_of(value)) is None:
        return None
    return [name, value.value]


def _enumeration(stored: list[Any]) -> Any:
    name, value = stored
    try:
        return _class_named(name, Enum)(value)
    except LookupError:  # most enumerations are also text or numbers, and equal their plain values
        return value


def _address(value: object) -> list[str] | None:
    if not isinstance(value, AnyUrl) or (name := _name_of(value)) is None:
        return None
    return [name, str(value)]


OBJECTS: tuple[Extension, ...] = (
    ("model", _model_fields, _model),
    ("enum", _member, _enumeration),
    ("url", _address, lambda stored: _class_named(stored[0], AnyUrl)(stored[1])),
    ("path", lambda value: str(value) if type(value) is type(Path()) else None, Path),
)
"""Extensions for `serialization.dumps` and `serialization.loads`."""
