"""Each setting's names and bounds, and errors for wrong values that reveal no secret."""

import copy
import pickle
import traceback
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from arc_common.exceptions import ArcError, ConfigurationError, hide_password
from arc_common.settings import (
    ArcSettings,
    RagSettings,
    SecretUrl,
    SettingDescription,
    SummarySettings,
    describe_settings,
)
from arc_common.settings.base import SecretText


def refused(**values: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        ArcSettings(**values)
    assert isinstance(caught.value, ArcError)
    return str(caught.value)


DESCRIBED = {description.name: description for description in describe_settings()}
UNITS = {
    "Artifacts", "Bullets", "Bytes", "Calls", "Characters", "Connections", "Cosine", "Days", "Documents", "Failures",
    "Hours", "Items", "Memories", "Messages", "Minutes", "Price", "Ranks", "Seconds", "Sessions", "Share", "Snippets",
    "Terms", "Texts", "Threads", "Tokens", "Turns", "Vectors",
}  # fmt: skip
ALIASES = [
    ("ARCHIVE_S3_BUCKET", "chats", "archive.s3_bucket", "chats"),
    ("CONVERSATION_TTL_HOURS", "12.5", "conversation.ttl_hours", 12.5),
    ("CONVERSATION_STORAGE_MODE", "sql", "storage.mode", "sql"),
    ("CONVERSATION_ROLLING_WINDOW_SIZE", "31", "conversation.rolling_window_size", 31),
    ("CONVERSATION_MAX_CONTEXT_TOKENS", "100000", "conversation.max_context_tokens", 100_000),
    ("CONVERSATION_COMPRESSION_THRESHOLD", "80000", "conversation.compression_threshold", 80_000),
    ("MEMORY_DEBUG", "true", "context.debug", True),
    ("RAG_CHUNK_SIZE", "301", "rag.chunk_size", 301),
    ("RAG_CHUNK_OVERLAP", "51", "rag.chunk_overlap", 51),
    ("RAG_TOP_K_MAX", "6", "artifacts.top_k", 6),
    ("RAG_TOP_K_MAX", "6", "rag.top_k", 6),
    ("RAG_SIMILARITY_THRESHOLD", "0.25", "rag.similarity_threshold", 0.25),
    ("RAG_RE_RANK_TOP_N", "21", "artifacts.rerank_top_n", 21),
    ("RAG_FINAL_TOP_K", "4", "artifacts.final_top_k", 4),
    ("RAG_FINAL_TOP_K", "4", "rag.rerank_top_k", 4),
    ("RAG_PER_TURN_MEMORY_BUDGET_TOKENS", "801", "budget.recalled", 801),
    ("CONVO_SUMMARY_EVERY_N_MESSAGES", "12", "summary.leaf_messages", 12),
    ("CONVO_SUMMARY_MAX_TOKENS", "400", "summary.max_tokens", 400),
]


def at(made: object, name: str) -> object:
    for step in name.split("."):
        made = getattr(made, step)
    return made


def flat(model: BaseModel, prefix: str = "") -> dict[str, object]:
    """Return every setting's value by its dotted name, from the values and not from the code under test."""
    found: dict[str, object] = {}
    for name in type(model).model_fields:
        value = getattr(model, name)
        inner = flat(value, f"{prefix}{name}.") if isinstance(value, BaseModel) else {f"{prefix}{name}": value}
        found |= inner
    return found


def other_value(description: SettingDescription) -> tuple[str, object]:
    """Return a text that the setting accepts and that is not its default, with its value."""
    allowed, default = description.allowed, description.default
    if allowed.startswith("true"):
        return ("false", False) if default else ("true", True)
    if allowed.startswith("one of"):
        choice = next(word for word in allowed.split("'")[1::2] if word != default)
        return choice, choice
    if allowed.startswith("a whole number"):
        number = default + 1 if isinstance(default, int) else 700
        return str(number), number
    if allowed.startswith("a number"):
        return "0.25", 0.25
    if allowed.startswith("a URL"):
        return "memory://here", SecretUrl("memory://here")
    if allowed.startswith("words out of"):
        one, two = allowed.split("'")[1::2][:2]
        return f"{two}, {one}", (two, one)
    if allowed.startswith("words"):
        return "one, two,", ("one", "two")
    if description.is_secret:
        return "elsewhere", SecretText("elsewhere")
    if default == {}:
        return '{"goal": "what is to be reached"}', {"goal": "what is to be reached"}
    return "elsewhere", "elsewhere"


def test_every_default_is_within_its_own_bounds() -> None:
    """Passing every default explicitly gives the same settings."""
    made = ArcSettings()
    assert ArcSettings(**made.model_dump()) == made


def test_every_setting_is_described() -> None:
    """Each setting has a description, its default, and for a number its unit."""
    for name, value in flat(ArcSettings()).items():
        description = DESCRIBED[name]
        assert description.description.endswith("."), name
        assert description.default == value, name
        assert description.environment_names[0] == "ARC_" + name.upper().replace(".", "__")
        if "number" in description.allowed:
            assert description.description.partition(": ")[0] in UNITS, name


def test_nothing_else_is_described() -> None:
    """`describe_settings` lists the model's settings, each once, and every alias tested here."""
    assert [description.name for description in describe_settings()] == list(flat(ArcSettings()))
    aliases = {name for description in describe_settings() for name in description.environment_names[1:]}
    assert aliases == {name for name, *_ in ALIASES}


def test_every_setting_is_set_by_its_own_environment_name(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = flat(ArcSettings.model_construct())
    for name, description in DESCRIBED.items():
        text, value = other_value(description)
        with monkeypatch.context() as patch:
            patch.setenv(description.environment_names[0], text)
            assert flat(ArcSettings()) == defaults | {name: value}


def test_none_in_the_environment_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [name for name, description in DESCRIBED.items() if description.allowed.endswith("none")]
    assert len(names) > 5
    for name in names:
        with monkeypatch.context() as patch:
            patch.setenv(DESCRIBED[name].environment_names[0], "None")
            assert at(ArcSettings(), name) is None, name


def test_an_alias_sets_its_setting_and_the_own_name_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name from comparable services is accepted, and the `ARC_` name overrides it."""
    for alias, text, name, value in ALIASES:
        with monkeypatch.context() as patch:
            patch.setenv(alias, text)
            assert at(ArcSettings(), name) == value, alias
            own, own_value = other_value(DESCRIBED[name])
            patch.setenv(DESCRIBED[name].environment_names[0], own)
            assert at(ArcSettings(), name) == own_value, alias


def test_a_wrong_value_names_the_alias_of_its_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the setting, its variables, the value and the allowed values."""
    for alias, text, name, _ in ALIASES:
        if text.replace(".", "").isdigit():
            with monkeypatch.context() as patch:
                patch.setenv(alias, "many")
                lines = [line for line in refused().splitlines() if line.startswith(f"{name} (ARC_")]
                assert [f"{alias}): got 'many', expected {DESCRIBED[name].allowed}" in line for line in lines] == [True]


def test_a_wrong_line_in_a_dotenv_file_is_named(tmp_path: Path) -> None:
    """A wrong value in a file that was asked for is reported, too."""
    env_file = tmp_path / ".env"
    env_file.write_text("ARC_CONVERSATION__MAX_TURNS=0\n")
    name = "conversation.max_turns (ARC_CONVERSATION__MAX_TURNS)"
    assert refused(_env_file=env_file) == f"{name}: got '0', expected a whole number ≥ 1"


def test_a_dotenv_file_in_another_encoding_is_named(tmp_path: Path) -> None:
    """As editors on Windows may write it."""
    env_file = tmp_path / ".env"
    for encoding in ("latin-1", "utf-16"):
        env_file.write_text("ARC_DATABASE_URL=sqlite:///müller.db\n", encoding)
        assert refused(_env_file=env_file).startswith(f"_env_file: got {env_file}, expected a file in UTF-8 (invalid")


WRONG_ENVIRONMENTS = [
    ("ARC_SUMARY__ENABLED", "false", ["ARC_SUMARY__ENABLED: ", "'false'", "mean ARC_SUMMARY__ENABLED?"]),
    ("ARC_SUMMARY__ENABLD", "false", ["ARC_SUMMARY__ENABLD: ", "'false'", "ARC_SUMMARY__ENABLED?", "of summary"]),
    ("ARC_SUMMARY__ENABLED__X", "1", ["ARC_SUMMARY__ENABLED__X: ", "mean ARC_SUMMARY__ENABLED?"]),
    ("ARC_DATABASE__URL", "x://u:pw@h", ["ARC_DATABASE__URL: ", "mean ARC_DATABASE_URL?"]),
    ("ARC_SUMMRY", "{}", ["ARC_SUMMRY: ", "mean ARC_SUMMARY?"]),
    ("ARC_ZZZ", "1", ["ARC_ZZZ: no such setting", "Settings: database_url, require_scope, storage"]),
    ("ARC_", "1", ["ARC_: no such setting"]),
    ("ARC_SUMMARY", '{"enabled": fals', ["ARC_SUMMARY: ", '{"enabled": fals', "a JSON object", "enabled, "]),
    ("ARC_SUMMARY", "[1]", ["ARC_SUMMARY: ", "[1]", "a JSON object"]),
    ("ARC_SUMMARY", '{"enabld": 1}', ["summary.enabld: ", "got 1", "mean summary.enabled?"]),
    ("ARC_SUMMARY", '{"enabled": "x"}', ["summary.enabled (ARC_SUMMARY__ENABLED): got 'x', expected true or false"]),
    ("ARC_SUMMARY__ENABLED", "x", ["(ARC_SUMMARY__ENABLED): got 'x', expected true or false"]),
    ("ARC_CONTEXT__PLACEMENT", "x", ["(ARC_CONTEXT__PLACEMENT): got 'x', expected one of 'user', 'system'"]),
    (
        "CONVERSATION_STORAGE_MODE",
        "mongo",
        ["storage.mode (ARC_STORAGE__MODE, CONVERSATION_STORAGE_MODE): ", "'in-memory', 'sql'"],
    ),
    ("ARC_BUDGET__FACTS_SHARE", "nan", ["(ARC_BUDGET__FACTS_SHARE): got 'nan', expected a number ≥ 0 and ≤ 1"]),
    ("ARC_CONVERSATION__RESUME_NOTE_DAYS", "inf", ["got 'inf', expected a number > 0, or none"]),
    ("ARC_BUDGET__FACTS_SHARE", "1.1", ["got '1.1', expected a number ≥ 0 and ≤ 1"]),
    ("ARC_BUDGET__DOCUMENTS", "-1", ["(ARC_BUDGET__DOCUMENTS): got '-1', expected a whole number ≥ 0"]),
    ("ARC_DATABASE_URL", "arc.db", ["(ARC_DATABASE_URL): got 'arc.db', expected a URL with its scheme"]),
    ("RAG_CHUNK_OVERLAP", "300", ["RAG_CHUNK_OVERLAP): got '300'", "rag.chunk_size (300)"]),
    (
        "ARC_RAG__CHUNK_SIZE",
        "40",
        ["rag.chunk_overlap (ARC_RAG__CHUNK_OVERLAP, RAG_CHUNK_OVERLAP): got 50", "rag.chunk_size (40)"],
    ),
    ("ARC_BUDGET__OUTPUT_RESERVE", "128000", ["(ARC_BUDGET__OUTPUT_RESERVE): ", "budget.context_window (128,000)"]),
]


def test_a_wrong_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong name is quoted; a wrong value comes with its setting, variables and allowed values."""
    for name, text, parts in WRONG_ENVIRONMENTS:
        with monkeypatch.context() as patch:
            patch.setenv(name, text)
            message = refused()
        assert [part for part in parts if part not in message] == [], name


WRONG_ARGUMENTS: list[tuple[dict[str, Any], list[str]]] = [
    ({"sumary": {"enabled": False}}, ["sumary: no such setting", "{'enabled': False}", "mean summary?"]),
    ({"summary": {"enabld": False}}, ["summary.enabld: no such setting (got False)", "mean summary.enabled?"]),
    ({"summary": {"enabled": "x"}}, ["summary.enabled (ARC_SUMMARY__ENABLED): got 'x', expected true or false"]),
    ({"summary": 3}, ["summary: got 3, expected a mapping", "enabled"]),
    ({"summary": None}, ["summary: got None, expected a mapping"]),
    ({"database_url": 3}, ["database_url (ARC_DATABASE_URL): got 3, expected a URL"]),
    ({"require_scope": "maybe"}, ["require_scope (ARC_REQUIRE_SCOPE): got 'maybe', expected true or false"]),
    ({"rag": RagSettings, "zzz": 1}, ["rag: got <class", "\nzzz: no such setting"]),
    ({"summary": {"llm_model": "x" * 500, "leaf_messages": "y" * 500}}, ["… (502 characters)"]),
    (
        {"artifacts": {"recency_cues": [1]}},
        ["artifacts.recency_cues (ARC_ARTIFACTS__RECENCY_CUES): got 1, expected words"],
    ),
]


def test_a_wrong_argument_is_refused() -> None:
    """A wrong keyword or value in the constructor is named as Python writes it."""
    for values, parts in WRONG_ARGUMENTS:
        message = refused(**values)
        assert [part for part in parts if part not in message] == [], values


def test_the_argument_counts_when_it_hides_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """If both are wrong, the constructor's value, which is in effect, is reported."""
    monkeypatch.setenv("ARC_SUMMARY__ENABLED", "x")
    assert "got 'nope', expected true or false" in refused(summary={"enabled": "nope"})


def test_every_wrong_setting_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARC_SUMMARY__ENABLED", "x")
    monkeypatch.setenv("CONVO_SUMMARY_MAX_TOKENS", "-1")
    assert len(refused(require_scope="x").splitlines()) == 3


def test_a_group_of_its_own_raises_the_same_error() -> None:
    """A group created directly raises arc's error, too, without pydantic's in the traceback."""
    with pytest.raises(ConfigurationError, match="trigger_message_count: got 0, expected a whole number ≥ 1") as caught:
        SummarySettings(trigger_message_count=0)
    shown = "".join(traceback.format_exception(caught.value))
    assert "ValidationError" not in shown


@given(
    path=st.sampled_from(["database_url", "summary.llm_model", "storage.mode", "rag.top_k", "rag.nothing"]),
    junk=st.one_of(st.binary(), st.lists(st.text()), st.dictionaries(st.text(), st.text()), st.integers(), st.none()),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_only_arcs_error_ever_comes_out(path: str, junk: object) -> None:
    """For any input, the constructor succeeds or raises ConfigurationError."""
    *group, setting = path.split(".")
    values = {group[0]: {setting: junk}} if group else {setting: junk}
    try:
        ArcSettings(**values)
    except ConfigurationError as error:
        assert str(error).startswith(path)


DATABASE = "postgresql+psycopg://arc:hunter2@db/arc"


def test_no_secret_shows_in_any_form() -> None:
    """repr, str, JSON, a dump and an f-string hide the password; the user and host stay."""
    made = ArcSettings(database_url=DATABASE)
    shown = f"{made!r} {made} {made.model_dump_json()} {made.model_dump()} {made.database_url}"
    assert "hunter2" not in shown
    assert "postgresql+psycopg://arc:***@db/arc" in shown
    assert made.resolved_database_url == DATABASE


def test_a_secret_is_in_no_pickle() -> None:
    """Pickles end up in files and queues: settings with a secret can't be pickled; copies keep it."""
    made = ArcSettings(database_url=DATABASE)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(ConfigurationError, match="pickled") as caught:
            pickle.dumps(made, protocol)
        assert "hunter2" not in str(caught.value)
    for copied in (copy.copy(made), copy.deepcopy(made), made.model_copy(), made.model_copy(deep=True)):
        assert copied == made
        assert "hunter2" not in f"{copied} {copied!r}"


def test_settings_without_a_secret_can_be_pickled() -> None:
    made = ArcSettings(database_url="sqlite:///arc.db", summary={"enabled": False})
    assert pickle.loads(pickle.dumps(made)) == made  # noqa: S301 - its own bytes


@pytest.mark.parametrize(
    "environment",
    [
        {"ARC_DATABASE_URL": "postgres:/arc:hunter2@db"},
        {"ARC_DATABASE_URL": "host=db user=arc password=hunter2"},
        {"ARC_DATABSE_URL": "postgres://arc:hunter2@db"},
        {"ARC_REDIS__URL": "redis:/:hunter2@cache/0"},
        {"ARC_REDIS__ULR": "redis://:hunter2@cache/0"},
        {"ARC_REDIS__TTL_URL": "redis://:hunter2@cache/0"},
        {"ARC_REDIS": "redis://:hunter2@cache/0"},
        {"ARC_REDIS": '{"url": "redis://:hunter2@cache/0"'},
        {"ARC_AWS__SECRET_ACCESS_KEY": "hunter2"},
        {"ARC_AWS": '{"secret_access_key": "hunter2"}'},
        {"ARC_SUMMARY": '{"password": "hunter2"'},
        {"ARC_SUMMARY__API_KEY": "hunter2"},
        {"ARC_OTHER_PRODUCT": "hunter2"},
    ],
    ids=lambda environment: next(iter(environment.items())),
)
def test_no_secret_shows_in_an_error(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither message nor traceback contains a secret, even if its name is misspelt."""
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    with pytest.raises(ConfigurationError) as caught:
        ArcSettings()
    assert next(iter(environment)) in str(caught.value)
    shown = "".join(traceback.format_exception(caught.value))
    assert "ValidationError" not in shown
    assert "hunter2" not in shown + str(caught.value.__context__)  # error reporters print the context, too


@given(
    scheme=st.sampled_from(["postgresql+psycopg", "redis", "https", "mysql"]),
    user=st.text(max_size=8).filter(lambda text: ":" not in text),
    password=st.text(min_size=1, max_size=20),
    query=st.sampled_from(["", "?sslmode=require", "?a=b@c"]),
)
@example(scheme="redis", user="", password="p@ss:w/o?rd#1", query="")
@example(scheme="postgresql+psycopg", user="arc@tenant", password="p", query="")
def test_hide_password_hides_any_password(scheme: str, user: str, password: str, query: str) -> None:
    """The shown URL does not depend on the password, whatever its characters and escapes."""
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
    assert hide_password(url) == shown
