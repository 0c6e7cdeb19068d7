"""ArcSettings: what it reads, which source wins, what it refuses and how it says so, and that no secret shows."""

import json
import os
import pickle
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from arc_common.exceptions import ArcError, ConfigurationError
from arc_common.settings import (
    ArcSettings,
    AwsSettings,
    RagSettings,
    RedisSettings,
    SecretUrl,
    SettingDescription,
    StorageSettings,
    SummarySettings,
    describe_settings,
    hide_password,
)

DESCRIBED = {description.name: description for description in describe_settings()}
UNITS = {
    "Artifacts",
    "Bullets",
    "Bytes",
    "Calls",
    "Connections",
    "Cosine",
    "Days",
    "Documents",
    "Failures",
    "Hours",
    "Items",
    "Memories",
    "Messages",
    "Ranks",
    "Seconds",
    "Sessions",
    "Share",
    "Snippets",
    "Terms",
    "Texts",
    "Threads",
    "Tokens",
    "Turns",
    "Vectors",
}
ALIASES = [
    ("CONVERSATION_STORAGE_MODE", "sql", "storage.mode", "sql"),
    ("CONVERSATION_ROLLING_WINDOW_SIZE", "31", "conversation.rolling_window_size", 31),
    ("CONVERSATION_MAX_CONTEXT_TOKENS", "100000", "conversation.max_context_tokens", 100_000),
    ("CONVERSATION_COMPRESSION_THRESHOLD", "80000", "conversation.compression_threshold", 80_000),
    ("CONVERSATION_TTL_HOURS", "48", "conversation.ttl_hours", 48),
    ("EMBEDDINGS_DEVICE", "cuda:1", "embeddings.device", "cuda:1"),
    ("RAG_CHUNK_SIZE", "301", "rag.chunk_size", 301),
    ("RAG_CHUNK_OVERLAP", "51", "rag.chunk_overlap", 51),
    ("RAG_TOP_K_MAX", "6", "artifacts.top_k", 6),
    ("RAG_SIMILARITY_THRESHOLD", "0.25", "rag.similarity_threshold", 0.25),
    ("RAG_RE_RANK_TOP_N", "21", "artifacts.rerank_top_n", 21),
    ("RAG_FINAL_TOP_K", "4", "artifacts.final_top_k", 4),
    ("RAG_PER_TURN_MEMORY_BUDGET_TOKENS", "801", "budget.memory", 801),
    ("CONVO_SUMMARY_EVERY_N_MESSAGES", "12", "summary.leaf_messages", 12),
    ("CONVO_SUMMARY_MAX_TOKENS", "400", "summary.max_narrative_tokens", 400),
    ("ARCHIVE_S3_BUCKET", "old-chats", "archive.s3_bucket", "old-chats"),
    ("AWS_ACCESS_KEY_ID", "AKIA1", "aws.access_key_id", SecretStr("AKIA1")),
    ("AWS_SECRET_ACCESS_KEY", "s3cr3t", "aws.secret_access_key", SecretStr("s3cr3t")),
    ("AWS_SESSION_TOKEN", "t0ken", "aws.session_token", SecretStr("t0ken")),
    ("AWS_REGION", "eu-west-1", "aws.region", "eu-west-1"),
    ("AWS_DEFAULT_REGION", "eu-west-2", "aws.region", "eu-west-2"),
    ("AWS_ENDPOINT_URL", "http://127.0.0.1:9000", "aws.endpoint_url", SecretUrl("http://127.0.0.1:9000")),
]


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith(("ARC_", "AWS_", "RAG_", "CONVO_", "CONVERSATION_", "EMBEDDINGS_", "ARCHIVE_")):
            monkeypatch.delenv(name)


def at(made: object, name: str) -> object:
    for step in name.split("."):
        made = getattr(made, step)
    return made


def flat(model: BaseModel, prefix: str = "") -> dict[str, object]:
    """Every knob's value by its dotted name, found by walking the values, not by what the code under test says."""
    found: dict[str, object] = {}
    for name in type(model).model_fields:
        value = getattr(model, name)
        inner = flat(value, f"{prefix}{name}.") if isinstance(value, BaseModel) else {f"{prefix}{name}": value}
        found |= inner
    return found


def refused(**values: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        ArcSettings(**values)
    assert isinstance(caught.value, ArcError)
    return str(caught.value)


def other_value(description: SettingDescription) -> tuple[str, object]:
    """Some text that the knob accepts and that is not its default, with the value that it stands for."""
    allowed, default = description.allowed, description.default
    if allowed.startswith("true"):
        return ("false", False) if default else ("true", True)
    if allowed.startswith("one of"):
        choice = next(word for word in allowed.split("'")[1::2] if word != default)
        return choice, choice
    if allowed.startswith("a whole number"):
        number = default + 1 if isinstance(default, int) else 7
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
    return "elsewhere", SecretStr("elsewhere") if "secret" in allowed else "elsewhere"


def test_the_defaults_are_the_designs() -> None:
    """The figures that the design and its issues give are what settings say when nothing is set."""
    made = ArcSettings()
    expected = {
        "database_url": None,
        "require_scope": False,
        "storage.max_sessions_in_memory": 1_000,
        "storage.max_messages_per_session": None,
        "storage.auto_migrate": True,
        "storage.synchronous": "full",
        "conversation.max_turns": 10,
        "conversation.rolling_window_size": 20,
        "conversation.compression_threshold": 0.8,
        "conversation.ttl_hours": 720,
        "conversation.resume_note_days": 7,
        "budget.context_window": 128_000,
        "budget.output_reserve": None,
        "budget.documents": 4_000,
        "budget.memory": 800,
        "budget.facts": 1_000,
        "budget.facts_share": 0.15,
        "context.placement": "user",
        "context.facts_placement": "system",
        "summary.enabled": True,
        "summary.trigger_message_count": 20,
        "summary.recent_message_count": 10,
        "summary.high_water_mark": 34,
        "summary.high_water_tokens": 8_000,
        "summary.max_narrative_tokens": 500,
        "summary.leaf_messages": 16,
        "memory.max_per_scope": 50,
        "memory.top_k": 5,
        "memory.merge_similarity": 0.8,
        "memory.min_importance": 0.3,
        "artifacts.top_k": 5,
        "artifacts.rerank_top_n": 20,
        "artifacts.final_top_k": 3,
        "rag.enabled": None,
        "rag.top_k": 10,
        "rag.similarity_threshold": None,
        "rag.max_context_tokens": 4_000,
        "rag.chunk_size": 300,
        "rag.chunk_overlap": 50,
        "embeddings.device": "cpu",
    }
    assert {name: at(made, name) for name in expected} == expected


def test_every_default_is_within_its_own_bounds() -> None:
    """Passing every default explicitly gives the same settings: none of them breaks the rules of its knob."""
    made = ArcSettings()
    assert ArcSettings(**made.model_dump()) == made


@pytest.mark.parametrize("name", flat(ArcSettings()))
def test_every_knob_is_described(name: str) -> None:
    """Each knob is in `describe_settings` with a description, its default, and for a number its unit."""
    description = DESCRIBED[name]
    assert description.description.endswith(".")
    assert description.default == at(ArcSettings(), name)
    assert description.environment_names[0] == "ARC_" + name.upper().replace(".", "__")
    if "number" in description.allowed:
        assert description.description.partition(": ")[0] in UNITS


def test_nothing_else_is_described() -> None:
    """`describe_settings` names the model's knobs, each once, and knows every alias that is tested here."""
    assert [description.name for description in describe_settings()] == list(flat(ArcSettings()))
    aliases = {name for description in describe_settings() for name in description.environment_names[1:]}
    assert aliases == {name for name, *_ in ALIASES}


@pytest.mark.parametrize("name", flat(ArcSettings()))
def test_every_knob_is_set_by_its_own_environment_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ARC_GROUP__KNOB` changes that knob, and no other."""
    text, value = other_value(DESCRIBED[name])
    monkeypatch.setenv(DESCRIBED[name].environment_names[0], text)
    assert flat(ArcSettings()) == flat(ArcSettings.model_construct()) | {name: value}


@pytest.mark.parametrize("name", [name for name, d in DESCRIBED.items() if d.allowed.endswith("none")])
def test_none_in_the_environment_is_none(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where None is allowed, the word `none` gives it."""
    monkeypatch.setenv(DESCRIBED[name].environment_names[0], "None")
    assert at(ArcSettings(), name) is None


@pytest.mark.parametrize(("alias", "text", "name", "value"), ALIASES, ids=[alias for alias, *_ in ALIASES])
def test_an_alias_sets_its_knob_and_the_own_name_wins(
    alias: str, text: str, name: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name from comparable services is accepted, named in the error when wrong, and beaten by the `ARC_` name."""
    monkeypatch.setenv(alias, text)
    assert at(ArcSettings(), name) == value
    own, own_value = other_value(DESCRIBED[name])
    monkeypatch.setenv(DESCRIBED[name].environment_names[0], own)
    assert at(ArcSettings(), name) == own_value


@pytest.mark.parametrize("alias", [alias for alias, text, *_ in ALIASES if text.replace(".", "").isdigit()])
def test_a_wrong_value_names_the_alias_that_gave_it(alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the variable that the operator set, the knob behind it, the value and what is allowed."""
    monkeypatch.setenv(alias, "many")
    name = next(name for other, _, name, _ in ALIASES if other == alias)
    assert refused() == f"{alias} ({name}): got 'many', expected {DESCRIBED[name].allowed}"


def test_an_alias_beats_its_second_alias(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS_REGION wins over AWS_DEFAULT_REGION, as it does for AWS's own tools that read both."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert ArcSettings().aws.region == "eu-west-1"


def test_sources_win_in_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Constructor, then environment, then the .env file asked for, then the default; knob by knob in one group."""
    env_file = tmp_path / ".env"
    env_file.write_text("ARC_SUMMARY__LEAF_MESSAGES=3\nARC_SUMMARY__HIGH_WATER_MARK=3\nARC_SUMMARY__TRIGGER_TOKENS=3\n")
    monkeypatch.setenv("ARC_SUMMARY__LEAF_MESSAGES", "2")
    monkeypatch.setenv("ARC_SUMMARY__HIGH_WATER_MARK", "2")
    summary = ArcSettings(_env_file=env_file, summary={"leaf_messages": 9}).summary
    assert (summary.leaf_messages, summary.high_water_mark, summary.trigger_tokens) == (9, 2, 3)
    assert summary.recent_message_count == 10


def test_an_alias_in_the_environment_does_not_beat_the_own_name_in_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`ARC_` names win over aliases, wherever either is written; aliases in a .env file are read too."""
    env_file = tmp_path / ".env"
    env_file.write_text("ARC_ARTIFACTS__FINAL_TOP_K=2\nRAG_TOP_K_MAX=8\nSOMETHING_ELSE=x\n")
    monkeypatch.setenv("RAG_FINAL_TOP_K", "1")
    artifacts = ArcSettings(_env_file=env_file).artifacts
    assert (artifacts.final_top_k, artifacts.top_k) == (2, 8)


def test_a_dotenv_file_is_not_read_unless_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A .env file in the working directory changes nothing by being there."""
    (tmp_path / ".env").write_text("ARC_CONVERSATION__MAX_TURNS=3\n")
    monkeypatch.chdir(tmp_path)
    assert ArcSettings().conversation.max_turns == 10


def test_a_wrong_line_in_a_dotenv_file_is_named(tmp_path: Path) -> None:
    """A wrong value in a file that was asked for is reported by its variable."""
    env_file = tmp_path / ".env"
    env_file.write_text("ARC_CONVERSATION__MAX_TURNS=0\n")
    assert refused(_env_file=env_file) == "ARC_CONVERSATION__MAX_TURNS: got '0', expected a whole number ≥ 1"


def test_a_group_as_json_and_its_knobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A JSON object sets a group, and a knob's own variable wins over it."""
    monkeypatch.setenv("ARC_SUMMARY", json.dumps({"enabled": False, "leaf_messages": 5, "llm_model": None}))
    monkeypatch.setenv("ARC_SUMMARY__LEAF_MESSAGES", "6")
    monkeypatch.setenv("CONVO_SUMMARY_EVERY_N_MESSAGES", "7")
    summary = ArcSettings().summary
    assert (summary.enabled, summary.leaf_messages, summary.recent_message_count) == (False, 6, 10)


def test_json_wins_over_an_alias(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ARC_SUMMARY` is an ARC_ name: what it says wins over an alias of the same knob."""
    monkeypatch.setenv("ARC_SUMMARY", '{"leaf_messages": 5}')
    monkeypatch.setenv("CONVO_SUMMARY_EVERY_N_MESSAGES", "7")
    assert ArcSettings().summary.leaf_messages == 5


def test_names_are_read_case_insensitively_and_empty_is_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower-case names count, and an empty variable, as compose files leave behind, does not."""
    monkeypatch.setenv("arc_summary__leaf_messages", "5")
    monkeypatch.setenv("ARC_SUMMARY__ENABLED", "")
    monkeypatch.setenv("ARC_DATABASE_URL", "")
    made = ArcSettings()
    assert (made.summary.leaf_messages, made.summary.enabled, made.database_url) == (5, True, None)


def test_a_group_object_replaces_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group given as an object is taken whole, whatever the environment says about it."""
    monkeypatch.setenv("ARC_SUMMARY__LEAF_MESSAGES", "5")
    assert ArcSettings(summary=SummarySettings(enabled=False)).summary == SummarySettings(enabled=False)


@pytest.mark.parametrize(
    ("environment", "parts"),
    [
        ({"ARC_SUMARY__ENABLED": "false"}, ["ARC_SUMARY__ENABLED: ", "'false'", "mean ARC_SUMMARY__ENABLED?"]),
        ({"ARC_SUMMARY__ENABLD": "false"}, ["ARC_SUMMARY__ENABLD: ", "'false'", "ARC_SUMMARY__ENABLED?", "of summary"]),
        ({"ARC_SUMMARY__ENABLED__X": "1"}, ["ARC_SUMMARY__ENABLED__X: ", "mean ARC_SUMMARY__ENABLED?"]),
        ({"ARC_DATABASE__URL": "x://u:pw@h"}, ["ARC_DATABASE__URL: ", "mean ARC_DATABASE_URL?"]),
        ({"ARC_SUMMRY": "{}"}, ["ARC_SUMMRY: ", "mean ARC_SUMMARY?"]),
        ({"ARC_ZZZ": "1"}, ["ARC_ZZZ: no such setting", "Settings: database_url, require_scope, storage"]),
        ({"ARC_": "1"}, ["ARC_: no such setting"]),
        ({"ARC_SUMMARY": '{"enabled": fals'}, ["ARC_SUMMARY: ", '{"enabled": fals', "a JSON object", "enabled, "]),
        ({"ARC_SUMMARY": "[1]"}, ["ARC_SUMMARY: ", "[1]", "a JSON object"]),
        ({"ARC_SUMMARY": '{"enabld": 1}'}, ["ARC_SUMMARY (summary.enabld): ", "got 1", "mean summary.enabled?"]),
        ({"ARC_SUMMARY": '{"enabled": "x"}'}, ["ARC_SUMMARY (summary.enabled): got 'x', expected true or false"]),
        ({"ARC_SUMMARY__ENABLED": "x"}, ["ARC_SUMMARY__ENABLED: got 'x', expected true or false"]),
        ({"ARC_CONTEXT__PLACEMENT": "x"}, ["ARC_CONTEXT__PLACEMENT: got 'x', expected one of 'user', 'system'"]),
        ({"CONVERSATION_STORAGE_MODE": "mongo"}, ["CONVERSATION_STORAGE_MODE (storage.mode): ", "'sql', 'redis'"]),
        ({"ARC_BUDGET__FACTS_SHARE": "nan"}, ["ARC_BUDGET__FACTS_SHARE: got 'nan', expected a number ≥ 0 and ≤ 1"]),
        ({"ARC_CONVERSATION__TTL_HOURS": "inf"}, ["got 'inf', expected a number > 0, or none"]),
        ({"ARC_BUDGET__FACTS_SHARE": "1.1"}, ["got '1.1', expected a number ≥ 0 and ≤ 1"]),
        ({"ARC_BUDGET__DOCUMENTS": "-1"}, ["ARC_BUDGET__DOCUMENTS: got '-1', expected a whole number ≥ 0"]),
        ({"ARC_DATABASE_URL": "arc.db"}, ["ARC_DATABASE_URL: got 'arc.db', expected a URL with its scheme"]),
        ({"RAG_CHUNK_OVERLAP": "300"}, ["RAG_CHUNK_OVERLAP (rag.chunk_overlap): got '300'", "rag.chunk_size (300)"]),
        ({"ARC_RAG__CHUNK_SIZE": "40"}, ["rag.chunk_overlap: got 50", "rag.chunk_size (40)"]),
        ({"ARC_BUDGET__OUTPUT_RESERVE": "128000"}, ["ARC_BUDGET__OUTPUT_RESERVE: ", "budget.context_window (128,000)"]),
    ],
    ids=lambda value: next(iter(value.items())) if isinstance(value, dict) else "",
)
def test_a_wrong_environment_is_refused(
    environment: dict[str, str], parts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong name or value in the environment is named as it stands there, with what was meant or is allowed."""
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    message = refused()
    assert [part for part in parts if part not in message] == []


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        ({"sumary": {"enabled": False}}, ["sumary: no such setting", "{'enabled': False}", "mean summary?"]),
        ({"summary": {"enabld": False}}, ["summary.enabld: no such setting (got False)", "mean summary.enabled?"]),
        ({"summary": {"enabled": "x"}}, ["summary.enabled: got 'x', expected true or false"]),
        ({"summary": 3}, ["summary: got 3, expected a mapping", "enabled"]),
        ({"summary": None}, ["summary: got None, expected a mapping"]),
        ({"database_url": 3}, ["database_url: got 3, expected a URL"]),
        ({"require_scope": "maybe"}, ["require_scope: got 'maybe', expected true or false"]),
        ({"rag": RagSettings, "zzz": 1}, ["rag: got <class", "\nzzz: no such setting"]),
        ({"summary": {"llm_model": "x" * 500, "leaf_messages": "y" * 500}}, ["… (502 characters)"]),
        ({"artifacts": {"recency_cues": [1]}}, ["artifacts.recency_cues: got 1, expected words"]),
    ],
    ids=["group", "knob", "value", "not-a-mapping", "none", "url", "top", "two", "long", "item"],
)
def test_a_wrong_argument_is_refused(values: dict[str, Any], parts: list[str]) -> None:
    """A wrong keyword or value in the constructor is named as Python writes it."""
    message = refused(**values)
    assert [part for part in parts if part not in message] == []


def test_the_argument_is_named_when_it_hides_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """With both wrong, the one that counted, the constructor's, is reported."""
    monkeypatch.setenv("ARC_SUMMARY__ENABLED", "x")
    assert refused(summary={"enabled": "nope"}) == "summary.enabled: got 'nope', expected true or false"


def test_every_wrong_setting_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three mistakes are three lines."""
    monkeypatch.setenv("ARC_SUMMARY__ENABLED", "x")
    monkeypatch.setenv("RAG_TOP_K_MAX", "0")
    assert len(refused(require_scope="x").splitlines()) == 3


def test_a_group_of_its_own_raises_the_same_error() -> None:
    """A group made directly reports by arc's error too, and pydantic's is not in the traceback."""
    with pytest.raises(ConfigurationError, match="trigger_message_count: got 0, expected a whole number ≥ 1") as caught:
        SummarySettings(trigger_message_count=0)
    shown = "".join(traceback.format_exception(caught.value))
    assert "ValidationError" not in shown


def test_a_group_of_its_own_hides_secrets_too() -> None:
    """A wrong secret handed to a group shows in neither the error nor its context."""
    with pytest.raises(ConfigurationError, match="secret_access_key: got ") as caught:
        AwsSettings(secret_access_key=["hunter2"])  # type: ignore[arg-type]  # the wrong type is the point
    assert "hunter2" not in f"{caught.value}{caught.value.__context__}"


def test_settings_are_immutable() -> None:
    """Neither settings nor a group in them can be changed, and the refusal does not show what was to be written."""
    made = ArcSettings()
    for target, name in ((made, "database_url"), (made.aws, "secret_access_key")):
        with pytest.raises(ConfigurationError, match=f"{name}: settings are immutable") as caught:
            setattr(target, name, "hunter2")
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "mode", "url"),
    [
        ({}, "in-memory", None),
        ({"database_url": "sqlite:///x.db"}, "sql", "sqlite:///x.db"),
        ({"database_url": "sqlite:///x.db", "storage": {"mode": "sql"}}, "sql", "sqlite:///x.db"),
        ({"database_url": "sqlite:///x.db", "storage": {"mode": "in-memory"}}, "in-memory", None),
        ({"database_url": "sqlite:///x.db", "storage": {"mode": "Memory"}}, "in-memory", None),
        ({"redis": {"url": "redis://h"}}, "in-memory", None),
        ({"redis": {"url": "redis://h"}, "storage": {"mode": "redis"}}, "redis", None),
        (
            {"redis": {"url": "redis://h"}, "storage": {"mode": "redis"}, "database_url": "sqlite:///x.db"},
            "redis",
            "sqlite:///x.db",
        ),
    ],
    ids=["nothing", "url", "sql", "explicit-memory", "memory-alias", "redis-url-alone", "redis", "redis-over-sql"],
)
def test_storage_is_chosen_by_settings(values: dict[str, Any], mode: str | None, url: str | None) -> None:
    """A database URL means SQL, nothing means memory, and an explicit mode wins."""
    made = ArcSettings(**values)
    assert (made.storage_mode, made.resolved_database_url) == (mode, url)


@pytest.mark.parametrize(("mode", "variable"), [("sql", "ARC_DATABASE_URL"), ("redis", "ARC_REDIS__URL")])
def test_a_mode_without_its_url_is_refused_when_it_is_asked_for(
    mode: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings can be made (the engine may bring a URL of its own); asking them for the store is an error."""
    monkeypatch.setenv("CONVERSATION_STORAGE_MODE", mode)
    made = ArcSettings()
    for name in ("storage_mode", "resolved_database_url"):
        with pytest.raises(ConfigurationError, match=f"CONVERSATION_STORAGE_MODE.*got '{mode}'.*{variable}"):
            getattr(made, name)


def test_the_archive_is_a_url_or_a_bucket() -> None:
    """`archive.url` wins over the bucket; with neither there is no archive."""
    assert ArcSettings().resolved_archive_url is None
    assert ArcSettings(archive={"s3_bucket": "old-chats"}).resolved_archive_url == "s3://old-chats"
    both = ArcSettings(archive={"s3_bucket": "old-chats", "url": "file:///tmp/a"})
    assert both.resolved_archive_url == "file:///tmp/a"


SECRETS = {
    "ARC_DATABASE_URL": "postgresql+psycopg://arc:hunter2@db/arc",
    "ARC_REDIS__URL": "redis://:hunter2@cache/0",
    "ARC_ARCHIVE__URL": "ftp://arc:hunter2@files/a",
    "AWS_ACCESS_KEY_ID": "hunter2",
    "AWS_SECRET_ACCESS_KEY": "hunter2",
    "AWS_SESSION_TOKEN": "hunter2",
    "AWS_ENDPOINT_URL": "http://arc:hunter2@s3:9000",
}


def test_no_secret_shows_in_any_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """repr, str, JSON, a dump, an f-string and a group's repr hide passwords and keys; the user and host stay."""
    for name, text in SECRETS.items():
        monkeypatch.setenv(name, text)
    made = ArcSettings()
    shown = f"{made!r} {made} {made.model_dump_json()} {made.model_dump()} {made.aws} {made.database_url}"
    assert "hunter2" not in shown
    assert "postgresql+psycopg://arc:***@db/arc" in shown
    assert made.resolved_database_url == SECRETS["ARC_DATABASE_URL"]
    assert made.resolved_archive_url == SECRETS["ARC_ARCHIVE__URL"]


def test_settings_survive_pickling() -> None:
    """Secrets included, so that settings can be handed to another process."""
    made = ArcSettings(database_url="sqlite:///x.db", aws={"secret_access_key": "s"})
    assert pickle.loads(pickle.dumps(made)) == made  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    "environment",
    [
        {"ARC_DATABASE_URL": "postgres:/arc:hunter2@db"},
        {"ARC_DATABASE_URL": "host=db user=arc password=hunter2"},
        {"ARC_DATABSE_URL": "postgres://arc:hunter2@db"},
        {"ARC_AWS__SECRET_ACESS_KEY": "hunter2"},
        {"ARC_AWS__SESION": "hunter2"},
        {"ARC_AWS": '{"secret_access_key": "hunter2"'},
        {"ARC_AWS": '"hunter2"'},
        {"ARC_AWS": '{"secret_acess_key": "hunter2"}'},
        {"ARC_AWS": '{"secret_access_key": ["hunter2"]}'},
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
@settings(max_examples=200, deadline=None)
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


@given(
    path=st.sampled_from(["database_url", "aws.secret_access_key", "aws.session_token", "redis.url", "aws.nothing"]),
    junk=st.one_of(st.binary(), st.lists(st.text()), st.dictionaries(st.text(), st.text()), st.integers(), st.none()),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_only_arcs_error_ever_comes_out(path: str, junk: object) -> None:
    """Whatever is handed in, the constructor works or raises ConfigurationError."""
    *group, knob = path.split(".")
    values = {group[0]: {knob: junk}} if group else {knob: junk}
    try:
        ArcSettings(**values)
    except ConfigurationError as error:
        assert str(error).startswith(path)


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": os.environ["PATH"], **environment},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )


def test_importing_reads_no_environment() -> None:
    """A wrong variable is no error before settings are made, and describing them needs none."""
    code = "import arc_common.settings as s; s.describe_settings(); print('fine'); s.ArcSettings()"
    result = run(code, ARC_NONSENSE="1")
    assert result.stdout == "fine\n"
    assert "ConfigurationError: ARC_NONSENSE" in result.stderr


def test_the_package_does_not_import_settings_until_they_are_used() -> None:
    """`import arc_common` stays light: neither pydantic-settings nor this module comes with it."""
    result = run(
        "import sys, arc_common; print('arc_common.settings' in sys.modules, 'pydantic_settings' in sys.modules)"
    )
    assert result.stdout == "False False\n"


def test_settings_import_nothing_heavy() -> None:
    """Settings bring pydantic and no database, framework or numerics."""
    heavy = "sqlalchemy numpy tiktoken langchain_core llama_index rapidfuzz typer rich"
    result = run(f"import sys, arc_common.settings; print([name for name in {heavy.split()} if name in sys.modules])")
    assert result.stdout == "[]\n"


def test_groups_can_be_built_and_passed() -> None:
    """Groups are ordinary typed objects: what they hold is what the settings hold."""
    made = ArcSettings(storage=StorageSettings(mode="in-memory"), redis=RedisSettings(url=SecretUrl("redis://h")))
    assert made.storage.mode == "in-memory"
    assert made.redis.url == SecretUrl("redis://h")
