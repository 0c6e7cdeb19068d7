"""What settings refuse, and how they say so: what was given, under which name, and what was meant or is allowed."""

import traceback
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arc_common.exceptions import ConfigurationError
from arc_common.settings import ArcSettings, RagSettings, SummarySettings
from tests.unit.settings.refusing import refused


def test_a_wrong_line_in_a_dotenv_file_is_named(tmp_path: Path) -> None:
    """A wrong value in a file that was asked for is reported by its variable."""
    env_file = tmp_path / ".env"
    env_file.write_text("ARC_CONVERSATION__MAX_TURNS=0\n")
    assert refused(_env_file=env_file) == "ARC_CONVERSATION__MAX_TURNS: got '0', expected a whole number ≥ 1"


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
        ({"CONVERSATION_STORAGE_MODE": "mongo"}, ["CONVERSATION_STORAGE_MODE (storage.mode): ", "'in-memory', 'sql'"]),
        ({"ARC_BUDGET__FACTS_SHARE": "nan"}, ["ARC_BUDGET__FACTS_SHARE: got 'nan', expected a number ≥ 0 and ≤ 1"]),
        ({"ARC_CONVERSATION__RESUME_NOTE_DAYS": "inf"}, ["got 'inf', expected a number > 0, or none"]),
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
    ids=["group", "setting", "value", "not-a-mapping", "none", "url", "top", "two", "long", "item"],
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
    monkeypatch.setenv("CONVO_SUMMARY_MAX_TOKENS", "-1")
    assert len(refused(require_scope="x").splitlines()) == 3


def test_a_group_of_its_own_raises_the_same_error() -> None:
    """A group made directly reports by arc's error too, and pydantic's is not in the traceback."""
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
    """Whatever is handed in, the constructor works or raises ConfigurationError."""
    *group, setting = path.split(".")
    values = {group[0]: {setting: junk}} if group else {setting: junk}
    try:
        ArcSettings(**values)
    except ConfigurationError as error:
        assert str(error).startswith(path)
