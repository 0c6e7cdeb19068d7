"""Reads settings from the environment: `ARC_GROUP__SETTING`, `ARC_GROUP` as JSON, and the settings' aliases."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource

from arc_common.settings.base import (
    PREFIX,
    SettingSpec,
    environment_name,
    groups_of,
    not_a_group,
    settings_of,
    unknown_setting,
)


@dataclass(frozen=True, slots=True)
class Provider:
    """A model provider: its name, the variables of its key, and its default model."""

    name: str
    keys: tuple[str, ...]
    model: str


PROVIDERS = (
    Provider("openai", ("OPENAI_API_KEY",), "gpt-5-mini"),
    Provider("anthropic", ("ANTHROPIC_API_KEY",), "claude-haiku-4-5"),
    Provider("google", ("GOOGLE_API_KEY", "GEMINI_API_KEY"), "gemini-2.5-flash"),
)


def provider_with_key() -> Provider | None:
    """Return the first provider whose key is set and not empty; `None` if there is none."""
    return next((provider for provider in PROVIDERS if any(map(os.environ.get, provider.keys))), None)


class EnvironmentSource(PydanticBaseSettingsSource):
    """A pydantic-settings source that reads environment variables."""

    def __init__(self, settings_cls: type[BaseSettings], *sources: PydanticBaseSettingsSource) -> None:
        super().__init__(settings_cls)
        self.values: dict[str, Any] = {}
        self.names: dict[tuple[str, ...], str] = {}
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
                raise unknown_setting(path, text, self.settings_cls, origin=name)

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
            raise not_a_group((group,), text, self.settings_cls, origin=name)
        self.values[group] = value
        self.names |= {(group, inner): name for inner in value}

    def _read_setting(self, setting: SettingSpec, variables: Mapping[str, str]) -> None:
        own, *aliases = setting.environment_names
        names = [own] if setting.path in self.names else [own, *aliases]
        name = next((name for name in names if name in variables), None)
        if name is None:
            return
        text = variables[name]
        inner = self.values
        for step in setting.path[:-1]:
            inner = inner.setdefault(step, {})
        inner[setting.path[-1]] = None if setting.optional and text.strip().lower() == "none" else text
        self.names[setting.path] = name
