"""No secret shows: in no form of settings, in no error, and in no address."""

import copy
import pickle
import traceback

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arc_common.exceptions import ConfigurationError, hide_password
from arc_common.settings import ArcSettings

DATABASE = "postgresql+psycopg://arc:hunter2@db/arc"


def test_no_secret_shows_in_any_form() -> None:
    """repr, str, JSON, a dump and an f-string hide the password; the user and host stay."""
    made = ArcSettings(database_url=DATABASE)
    shown = f"{made!r} {made} {made.model_dump_json()} {made.model_dump()} {made.database_url}"
    assert "hunter2" not in shown
    assert "postgresql+psycopg://arc:***@db/arc" in shown
    assert made.resolved_database_url == DATABASE


def test_a_secret_is_in_no_pickle() -> None:
    """Pickles are kept in files and queues: settings with a secret are refused; their copies go on holding it."""
    made = ArcSettings(database_url=DATABASE)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(ConfigurationError, match="pickled") as caught:
            pickle.dumps(made, protocol)
        assert "hunter2" not in str(caught.value)
    for copied in (copy.copy(made), copy.deepcopy(made), made.model_copy(), made.model_copy(deep=True)):
        assert copied == made
        assert "hunter2" not in f"{copied} {copied!r}"


def test_settings_without_a_secret_can_be_pickled() -> None:
    """An address without a password is none."""
    made = ArcSettings(database_url="sqlite:///arc.db", summary={"enabled": False})
    assert pickle.loads(pickle.dumps(made)) == made  # noqa: S301 - its own bytes


@pytest.mark.parametrize(
    "environment",
    [
        {"ARC_DATABASE_URL": "postgres:/arc:hunter2@db"},
        {"ARC_DATABASE_URL": "host=db user=arc password=hunter2"},
        {"ARC_DATABSE_URL": "postgres://arc:hunter2@db"},
        {"ARC_REDIS__URL": "redis://:hunter2@cache/0"},
        {"ARC_AWS__SECRET_ACCESS_KEY": "hunter2"},
        {"ARC_AWS": '{"secret_access_key": "hunter2"}'},
        {"ARC_SUMMARY": '{"password": "hunter2"'},
        {"ARC_SUMMARY__API_KEY": "hunter2"},
        {"ARC_OTHER_PRODUCT": "hunter2"},
    ],
    ids=lambda environment: next(iter(environment.items())),
)
def test_no_secret_shows_in_an_error(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the message nor the printed traceback holds a secret's value, also when its name is misspelt."""
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    with pytest.raises(ConfigurationError) as caught:
        ArcSettings()
    assert next(iter(environment)) in str(caught.value)
    shown = "".join(traceback.format_exception(caught.value))
    assert "ValidationError" not in shown
    assert "hunter2" not in shown + str(caught.value.__context__)  # error reporters print the context too


@given(
    scheme=st.sampled_from(["postgresql+psycopg", "redis", "https", "mysql"]),
    user=st.text(max_size=8).filter(lambda text: ":" not in text),
    password=st.text(min_size=1, max_size=20),
    query=st.sampled_from(["", "?sslmode=require", "?a=b@c"]),
)
@example(scheme="redis", user="", password="p@ss:w/o?rd#1", query="")
@example(scheme="postgresql+psycopg", user="arc@tenant", password="p", query="")
def test_hide_password_hides_any_password(scheme: str, user: str, password: str, query: str) -> None:
    """Whatever the password is made of, escaped or not, the shown URL does not depend on it."""
    shown = hide_password(f"{scheme}://{user}:{password}@host/db{query}")
    assert shown == hide_password(f"{scheme}://{user}:another@host/db{query}")
    assert shown.startswith(f"{scheme}://{user}:***@")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///a.db", "sqlite:///a.db"),
        ("sqlite://", "sqlite://"),
        ("postgresql://db:5432/arc?sslmode=require", "postgresql://db:5432/arc?sslmode=require"),
        ("postgresql://db/arc?user=u&password=p&x=1", "postgresql://db/arc?user=u&password=***&x=1"),
        ("redis://:p@h/0", "redis://:***@h/0"),
        ("arc:p@db", "**********"),
    ],
    ids=["file", "memory", "plain", "parameter", "no-user", "no-scheme"],
)
def test_hide_password_keeps_the_rest(url: str, shown: str) -> None:
    """What is no secret stays readable."""
    assert hide_password(url) == shown
