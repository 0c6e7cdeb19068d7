"""What the groups of settings have in common."""

from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, SecretStr, ValidationError

from arc_common.exceptions import ConfigurationError
from arc_common.settings.errors import configuration_error
from arc_common.settings.secret import ANEW, SecretUrl

__all__ = ["Group", "Immutable", "Url"]


def _with_scheme(url: SecretUrl) -> SecretUrl:
    scheme, separator, _ = url.get_secret_value().partition("://")
    if not separator or not scheme:
        raise ValueError("a URL with its scheme (sqlite:///arc.db, postgresql+psycopg://…, redis://…, s3://…)")
    return url


Url: TypeAlias = Annotated[SecretUrl, AfterValidator(_with_scheme)]


class Immutable:
    """Refuses assignment by arc's error: pydantic's shows the value that was to be written, which may be a secret."""

    def __setattr__(self, name: str, value: object) -> None:
        raise ConfigurationError(f"{name}: settings are immutable; make new ones with the value that you want")

    def __getstate__(self) -> Any:
        for name, value in vars(self).items():
            if isinstance(value, SecretStr):
                raise ConfigurationError(f"{name}: a secret can't be pickled; {ANEW}")
        return super().__getstate__()


class Group(Immutable, BaseModel):
    """Some knobs that belong together. Immutable; unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            # from None: pydantic's error holds the values, and one of them may be a secret
            raise configuration_error(error, type(self), given=values, names={}) from None

    # pydantic's own mark: inside ArcSettings a group is validated without this constructor, so that the error there
    # has the group's name and the environment variable's.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # functions carry no such attribute in typeshed
