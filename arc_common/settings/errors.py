"""What is wrong with a setting, in words: its name, the value received (never a secret's) and what is allowed."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, SecretStr, ValidationError

from arc_common.exceptions import ConfigurationError
from arc_common.settings.declaration import Knob, closest, environment_name, groups_of, knobs_of
from arc_common.settings.secret import HIDDEN, SecretUrl, hide_password, sounds_secret

__all__ = ["configuration_error", "not_a_group", "unknown_setting"]

_SHOWN = 120

Path = tuple[str, ...]


def configuration_error(
    error: ValidationError, model: type[BaseModel], *, given: Mapping[str, Any], names: Mapping[Path, str]
) -> ConfigurationError:
    """Pydantic's complaint as arc's: one line for each setting that is wrong.

    Args:
        error: What pydantic found.
        model: The settings model that was being made.
        given: The constructor's arguments; a value that is among them is named as Python writes it.
        names: For each path that the environment set, the variable that did.
    """
    lines = []
    for found in error.errors(include_url=False):
        path = tuple(str(step) for step in found["loc"])
        origin = None if _is_given(given, path) else _origin(path, names)
        knob = next((knobs_of(model)[path[:n]] for n in (2, 1) if path[:n] in knobs_of(model)), None)
        if found["type"] == "extra_forbidden":
            lines.append(str(unknown_setting(path, found["input"], model, origin=origin)))
        elif knob is None:
            lines.append(str(not_a_group(path, found["input"], model, origin=origin)))
        else:
            reason = found.get("ctx", {}).get("error")
            lines.append(_line(knob, origin, found["input"], str(reason) if reason else knob.allowed))
    return ConfigurationError("\n".join(lines))


def unknown_setting(
    path: Path, value: object, model: type[BaseModel], *, origin: str | None = None
) -> ConfigurationError:
    """There is no such setting. The value is shown only where it can't be a secret: beside a near name of a plain knob.

    Args:
        path: Where the setting would be.
        value: What it was to be set to.
        model: The settings model.
        origin: The environment variable that names it, if it came from there.
    """
    in_environment = origin == environment_name(path)
    name = environment_name(path) if in_environment else ".".join(path)
    known: dict[str, bool] = {}  # each name that could have been meant, and whether its value is secret
    for group_name, of in groups_of(model).items():
        known[environment_name([group_name]) if in_environment else group_name] = _holds_secret(of)
    for known_path, knob in knobs_of(model).items():
        known[environment_name(known_path) if in_environment else knob.name] = knob.secret
    meant = closest(name, known)
    hint = f"; did you mean {meant}?" if meant else "."
    group = groups_of(model).get(path[0]) if len(path) > 1 else None
    harmless = (
        meant is not None
        and not known[meant]
        and not (group and _holds_secret(group))
        and not sounds_secret(f"{name} {value}")
    )
    whose = f"Settings of {path[0]}" if group else "Settings"
    return ConfigurationError(
        f"{_named(name, origin)}: no such setting (got {_shown(value, harmless)}){hint} "
        f"{whose}: {', '.join((group or model).model_fields)}"
    )


def not_a_group(path: Path, value: object, model: type[BaseModel], *, origin: str | None = None) -> ConfigurationError:
    """A whole group was set to something that is not a mapping (in the environment: a JSON object)."""
    group = groups_of(model)[path[0]]
    harmless = not _holds_secret(group) and not sounds_secret(str(value))
    expected = "a JSON object" if origin else "a mapping"
    return ConfigurationError(
        f"{_named(path[0], origin)}: got {_shown(value, harmless)}, expected {expected} "
        f"with some of {', '.join(group.model_fields)}"
    )


def _line(knob: Knob, origin: str | None, value: object, expected: str) -> str:
    shown = hide_password(value) if knob.kind is SecretUrl and isinstance(value, str) else value
    return f"{_named(knob.name, origin)}: got {_shown(shown, knob.kind is not SecretStr)}, expected {expected}"


def _holds_secret(group: type[BaseModel]) -> bool:
    return any(knob.secret for knob in knobs_of(group).values())


def _named(name: str, origin: str | None) -> str:
    """The variable that a user can correct, with the setting's name where the variable doesn't spell it."""
    if origin is None or origin in (name, environment_name(name.split("."))):
        return origin or name
    return f"{origin} ({name})"


def _shown(value: object, harmless: bool) -> str:
    if not harmless:
        return HIDDEN
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


def _is_given(given: Mapping[str, Any], path: Sequence[str]) -> bool:
    inner: Any = given
    for step in path:
        if not isinstance(inner, Mapping) or step not in inner:
            return False
        inner = inner[step]
    return True


def _origin(path: Path, names: Mapping[Path, str]) -> str | None:
    return next((names[path[:n]] for n in (2, 1) if path[:n] in names), None)
