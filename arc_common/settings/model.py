"""ArcSettings: all settings, read from the constructor and the environment."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from arc_common.exceptions import ConfigurationError
from arc_common.settings.base import (
    PREFIX,
    Immutable,
    SettingDescription,
    Url,
    configuration_error,
    environment_name,
    groups_of,
    not_a_group,
    settings_of,
    unknown_setting,
)
from arc_common.settings.groups import (
    ArtifactSettings,
    BackgroundSettings,
    BudgetSettings,
    ContextSettings,
    ConversationSettings,
    EmbeddingSettings,
    FactSettings,
    MemorySettings,
    ModelCallSettings,
    RagSettings,
    RecallSettings,
    StorageMode,
    StorageSettings,
    SummarySettings,
    TokenSettings,
)


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

    def _read_setting(self, setting: SettingDescription, variables: Mapping[str, str]) -> None:
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


class ArcSettings(Immutable, BaseSettings):
    """All settings of arc, read on construction and immutable afterwards.

    - Precedence: constructor argument, `ARC_…` variable, alias, default. A group given as a mapping is merged setting
      by setting; a group object replaces the whole group.
    - In the environment `summary.enabled` is `ARC_SUMMARY__ENABLED`; `ARC_SUMMARY` may hold the group as a JSON
      object. `none` is None. An empty variable counts as not set.
    - A `.env` file is read only when asked for: `ArcSettings(_env_file=".env")`; the environment wins over it.
    - Passwords and keys never appear in the `repr`, in JSON or in errors.

    Raises:
        ConfigurationError: A name or a value is wrong; the message has one line per error with the name, the value
            received and the values allowed.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    database_url: Url | None = Field(
        default=None,
        description="Any SQLAlchemy URL. None: conversations are kept in memory only.",
    )
    require_scope: bool = Field(
        default=False, description="Refuse the default caller, so that every call names its own."
    )
    storage: StorageSettings = StorageSettings()
    conversation: ConversationSettings = ConversationSettings()
    budget: BudgetSettings = BudgetSettings()
    context: ContextSettings = ContextSettings()
    summary: SummarySettings = SummarySettings()
    facts: FactSettings = FactSettings()
    memory: MemorySettings = MemorySettings()
    recall: RecallSettings = RecallSettings()
    artifacts: ArtifactSettings = ArtifactSettings()
    rag: RagSettings = RagSettings()
    embeddings: EmbeddingSettings = EmbeddingSettings()
    model_calls: ModelCallSettings = ModelCallSettings()
    background: BackgroundSettings = BackgroundSettings()
    tokens: TokenSettings = TokenSettings()

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            kind = type(self)
            files = {"env_file": values["_env_file"]} if "_env_file" in values else {}
            read = EnvironmentSource(kind, DotEnvSettingsSource(kind, **files), EnvSettingsSource(kind))
            # from None: pydantic's error holds the values, and one of them may be a secret
            raise configuration_error(error, kind, given=values, names=read.names) from None
        self._check_message_cap()

    def _check_message_cap(self) -> None:
        """Refuse a message cap per session that would remove messages before they are summarised."""
        cap, summary = self.storage.max_messages_per_session, self.summary
        least = 2 * summary.leaf_messages + summary.recent_message_count + summary.trigger_message_count
        if cap is not None and cap < least and summary.enabled:
            raise ConfigurationError(
                f"storage.max_messages_per_session: got {cap}, expected at least {least} "
                "(2 * summary.leaf_messages + summary.recent_message_count + summary.trigger_message_count) or None: "
                "a smaller cap removes messages before their facts are read; raise the cap, lower these settings, or "
                "set summary.enabled to false"
            )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic-settings passes it by name
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources: the constructor, then `EnvironmentSource` for the environment and a `.env` file."""
        return init_settings, EnvironmentSource(settings_cls, dotenv_settings, env_settings)

    @property
    def storage_mode(self) -> StorageMode:
        """The chosen store: `storage.mode` if set, otherwise sql with a database URL and in-memory without one.

        With an explicit `in-memory`, a database URL is ignored. The mode is checked here, not on construction, because
        an engine may be opened with its own URL.

        Raises:
            ConfigurationError: The mode needs a URL that is not set.
        """
        mode = self.storage.mode
        if mode is None:
            return "in-memory" if self.database_url is None else "sql"
        if mode == "sql" and self.database_url is None:
            raise ConfigurationError(
                "storage.mode (ARC_STORAGE__MODE, CONVERSATION_STORAGE_MODE): got 'sql', which needs database_url "
                "(ARC_DATABASE_URL), and that is not set; set it, or choose 'in-memory'"
            )
        return mode

    @property
    def resolved_database_url(self) -> str | None:
        """The database's full URL, including the password; `None` if no database is used.

        Raises:
            ConfigurationError: As for `storage_mode`.
        """
        if self.storage_mode == "in-memory" or self.database_url is None:
            return None
        return self.database_url.get_secret_value()


def describe_settings() -> list[SettingDescription]:
    """Describe all settings in the model's order, without reading the environment."""
    return list(settings_of(ArcSettings).values())
