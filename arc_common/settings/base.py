"""The base of the settings: secret URLs, descriptions, error messages, and the environment as their source."""

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Self, TypeAlias, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Secret, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource

from arc_common.exceptions import HIDDEN, ConfigurationError, hide_password, shown, sounds_secret


class SecretText(Secret[str]):
    """A text that is never shown: not in `repr`, `str`, JSON or an f-string.

    `get_secret_value()` returns it. A secret can't be pickled.
    """

    def _display(self) -> str:
        return HIDDEN

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        text = self.get_secret_value()
        if self._display() != text:
            raise ConfigurationError(
                f"{self}: a secret can't be pickled; load the settings from the environment again where they are needed"
            )
        return type(self), (text,)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self


class SecretUrl(SecretText):
    """A URL whose password is never shown. `get_secret_value()` returns the full URL."""

    def _display(self) -> str:
        return hide_password(self.get_secret_value())


Path = tuple[str, ...]

PREFIX = "ARC_"
_DELIMITER = "__"

_WORDS: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple: "words, in the environment separated by commas",
    SecretUrl: "a URL with its scheme (sqlite:///arc.db)",
}
_BOUNDS = (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"))


@dataclass(frozen=True, slots=True)
class EnvironmentAlias:
    """Annotates a setting with another environment variable; the setting's own `ARC_` variable takes precedence."""

    name: str


@dataclass(frozen=True, slots=True)
class SettingDescription:
    """One setting: its path in the model, and its field."""

    path: Path
    field: FieldInfo

    @property
    def name(self) -> str:
        """The setting's name in Python: `summary.enabled`."""
        return ".".join(self.path)

    @property
    def environment_names(self) -> tuple[str, ...]:
        """The environment variables of the setting, in order of precedence."""
        aliases = [item.name for item in self.field.metadata if isinstance(item, EnvironmentAlias)]
        return (environment_name(self.path), *aliases)

    @property
    def description(self) -> str:
        """The setting's meaning; a number's description begins with its unit."""
        return self.field.description or ""

    @property
    def default(self) -> object:
        """The default value."""
        return self.field.get_default()

    @property
    def kind(self) -> Any:
        """The setting's type without `None`; for a tuple or a Literal, its origin."""
        kind = _kinds(self.field.annotation)[0]
        return get_origin(kind) or kind

    @property
    def is_secret(self) -> bool:
        """Return whether the value, or a part of it, must not be shown."""
        return isinstance(self.kind, type) and issubclass(self.kind, SecretText)

    @property
    def optional(self) -> bool:
        """Return whether `None` is allowed."""
        return NoneType in _kinds(self.field.annotation)

    @property
    def allowed(self) -> str:
        """The allowed values in words: "a whole number ≥ 1, or none"."""
        choices = get_args(_kinds(self.field.annotation)[0])
        if self.kind is Literal:
            words = f"one of {', '.join(map(repr, choices))}"
        elif self.kind is tuple and get_origin(choices[0]) is Literal:
            words = f"words out of {', '.join(map(repr, get_args(choices[0])))}, in the environment separated by commas"
        else:
            words = _WORDS.get(self.kind, "text")
        limits = [
            f"{sign} {limit:,}"
            for attribute, sign in _BOUNDS
            for item in self.field.metadata
            if (limit := getattr(item, attribute, None)) is not None
        ]
        return words + (" " + " and ".join(limits) if limits else "") + (", or none" if self.optional else "")


def _kinds(annotation: Any) -> list[Any]:
    """Return the members of a union, or the type itself; `None` comes last."""
    members = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    bare = [get_args(member)[0] if get_origin(member) is Annotated else member for member in members]
    return sorted(bare, key=lambda kind: kind is NoneType)


def environment_name(path: Iterable[str]) -> str:
    """Return a setting's environment variable: `("summary", "enabled")` gives `ARC_SUMMARY__ENABLED`."""
    return PREFIX + _DELIMITER.join(path).upper()


@cache
def groups_of(model: type[BaseModel]) -> Mapping[str, type[BaseModel]]:
    """Return the model's groups of settings, by name."""
    kinds = {name: field.annotation for name, field in model.model_fields.items()}
    return {name: kind for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, BaseModel)}


@cache
def settings_of(model: type[BaseModel]) -> Mapping[Path, SettingDescription]:
    """Return all settings of the model and its groups, by path, in the order of definition."""
    settings: dict[Path, SettingDescription] = {}
    for name, field in model.model_fields.items():
        group = groups_of(model).get(name)
        fields = {path: inner.field for path, inner in settings_of(group).items()} if group else {(): field}
        settings.update({(name, *path): SettingDescription((name, *path), of) for path, of in fields.items()})
    return settings


def configuration_error(error: ValidationError, model: type[BaseModel]) -> ConfigurationError:
    """Convert pydantic's error to arc's, with one line for each wrong setting."""
    lines = []
    for found in error.errors(include_url=False):
        path = tuple(str(step) for step in found["loc"])
        setting = next((settings_of(model)[path[:n]] for n in (3, 2, 1) if path[:n] in settings_of(model)), None)
        if found["type"] == "extra_forbidden":
            lines.append(str(unknown_setting(path, found["input"], model)))
        elif setting is None:
            lines.append(str(not_a_group(path, found["input"], model)))
        else:
            value, reason = found["input"], found.get("ctx", {}).get("error")
            visible = value
            if setting.is_secret:
                text = value if isinstance(value, str) else ""
                visible = value if not text else hide_password(text) if setting.kind is SecretUrl else HIDDEN
            variables = f" ({', '.join(setting.environment_names)})" if issubclass(model, BaseSettings) else ""
            lines.append(f"{setting.name}{variables}: got {shown(visible)}, expected {reason or setting.allowed}")
    return ConfigurationError("\n".join(lines))


def unknown_setting(
    path: Path, value: object, model: type[BaseModel], *, in_environment: bool = False
) -> ConfigurationError:
    """Return the error for an unknown setting."""

    def called(known: Path) -> str:
        return environment_name(known) if in_environment else ".".join(known)

    name = called(path)
    secret = {called((group,)): False for group in groups_of(model)}
    secret |= {called(known): setting.is_secret for known, setting in settings_of(model).items()}
    meant = next(iter(difflib.get_close_matches(name, secret, n=1, cutoff=0.7)), None)
    hint = f"; did you mean {meant}?" if meant else "."
    group = groups_of(model).get(path[0]) if len(path) > 1 else None
    harmless = meant is not None and not secret[meant] and not sounds_secret(name)
    whose = f"Settings of {path[0]}" if group else "Settings"
    return ConfigurationError(
        f"{name}: no such setting (got {_unless_secret(value) if harmless else HIDDEN}){hint} "
        f"{whose}: {', '.join((group or model).model_fields)}"
    )


def not_a_group(
    path: Path, value: object, model: type[BaseModel], *, in_environment: bool = False
) -> ConfigurationError:
    """Return the error for a group whose value is not a mapping (in the environment: not a JSON object)."""
    name, expected = (environment_name(path), "a JSON object") if in_environment else (path[0], "a mapping")
    return ConfigurationError(
        f"{name}: got {_unless_secret(value)}, expected {expected} "
        f"with some of {', '.join(groups_of(model)[path[0]].model_fields)}"
    )


def _unless_secret(value: object) -> str:
    """Return the value for a message, unless it may hold a password or an address with one."""
    text = str(value)
    return HIDDEN if sounds_secret(text) or "@" in text else shown(value)


def _with_scheme(url: SecretUrl) -> SecretUrl:
    scheme, separator, _ = url.get_secret_value().partition("://")
    if not separator or not scheme:
        raise ValueError("a URL with its scheme (sqlite:///arc.db, postgresql+psycopg://…, redis://…)")
    return url


Url: TypeAlias = Annotated[SecretUrl, AfterValidator(_with_scheme)]


class Immutable:
    """Refuses assignment with arc's error, because pydantic's shows the new value, which may be a secret."""

    def __setattr__(self, name: str, value: object) -> None:
        raise ConfigurationError(f"{name}: settings are immutable; create new settings with the new value")


class Group(Immutable, BaseModel):
    """A group of related settings. Immutable; unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            # from None: pydantic's error holds the values, and one of them may be a secret
            raise configuration_error(error, type(self)) from None

    # pydantic's own mark: inside ArcSettings a group is validated without this constructor, so that the error there
    # has the group's name and the environment variable's.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # functions carry no such attribute in typeshed


class EnvironmentSource(PydanticBaseSettingsSource):
    """A pydantic-settings source that reads environment variables."""

    def __init__(self, settings_cls: type[BaseSettings], *sources: PydanticBaseSettingsSource) -> None:
        super().__init__(settings_cls)
        self.values: dict[str, Any] = {}
        variables: dict[str, str] = {}
        for source in sources:
            if isinstance(source, EnvSettingsSource):
                variables |= {name.upper(): text for name, text in source.env_vars.items() if text is not None}
        self._refuse_unknown(variables)
        for name in groups_of(settings_cls):
            self._read_group(name, variables)
        for setting in settings_of(settings_cls).values():
            self._read_setting(setting, variables)

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002 - theirs
        """Return the value found for one field of the model."""
        return self.values.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Return all values found, nested like the model."""
        return self.values

    def _refuse_unknown(self, variables: Mapping[str, str]) -> None:
        paths = [*settings_of(self.settings_cls), *((name,) for name in groups_of(self.settings_cls))]
        known = {environment_name(path) for path in paths}
        for name, text in variables.items():
            if name.startswith(PREFIX) and name not in known:
                path = tuple(name.removeprefix(PREFIX).lower().split("__"))
                raise unknown_setting(path, text, self.settings_cls, in_environment=True)

    def _read_group(self, group: str, variables: Mapping[str, str]) -> None:
        name = environment_name([group])
        if name not in variables:
            return
        text = variables[name]
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise not_a_group((group,), text, self.settings_cls, in_environment=True)
        self.values[group] = value

    def _read_setting(self, setting: SettingDescription, variables: Mapping[str, str]) -> None:
        inner = self.values
        for step in setting.path[:-1]:
            inner = inner.setdefault(step, {})
        own, *aliases = setting.environment_names
        names = [own] if setting.path[-1] in inner else [own, *aliases]
        text = next((variables[name] for name in names if name in variables), None)
        if text is not None:
            inner[setting.path[-1]] = None if setting.optional and text.strip().lower() == "none" else text
