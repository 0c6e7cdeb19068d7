"""Sources of settings and their precedence; nothing is read before it is needed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from arc_common.exceptions import ConfigurationError
from arc_common.settings import ArcSettings, SummarySettings


def test_sources_win_in_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The order is constructor, environment, given .env file, default, also within one group."""
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
    """`ARC_` names override aliases in any source; aliases in a .env file are read, too."""
    env_file = tmp_path / ".env"
    env_file.write_text("ARC_ARTIFACTS__FINAL_TOP_K=2\nRAG_TOP_K_MAX=8\nSOMETHING_ELSE=x\n")
    monkeypatch.setenv("RAG_FINAL_TOP_K", "1")
    artifacts = ArcSettings(_env_file=env_file).artifacts
    assert (artifacts.final_top_k, artifacts.top_k) == (2, 8)


def test_a_dotenv_file_is_not_read_unless_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A .env file in the working directory has no effect by itself."""
    (tmp_path / ".env").write_text("ARC_CONVERSATION__MAX_TURNS=3\n")
    monkeypatch.chdir(tmp_path)
    assert ArcSettings().conversation.max_turns == 10


def test_a_group_as_json_and_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A JSON object sets a group, and a setting's own variable overrides it."""
    monkeypatch.setenv("ARC_SUMMARY", json.dumps({"enabled": False, "leaf_messages": 5, "llm_model": None}))
    monkeypatch.setenv("ARC_SUMMARY__LEAF_MESSAGES", "6")
    monkeypatch.setenv("CONVO_SUMMARY_EVERY_N_MESSAGES", "7")
    summary = ArcSettings().summary
    assert (summary.enabled, summary.leaf_messages, summary.recent_message_count) == (False, 6, 10)


def test_json_wins_over_an_alias(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ARC_SUMMARY` is an ARC_ name, so its values override an alias of the same setting."""
    monkeypatch.setenv("ARC_SUMMARY", '{"leaf_messages": 5}')
    monkeypatch.setenv("CONVO_SUMMARY_EVERY_N_MESSAGES", "7")
    assert ArcSettings().summary.leaf_messages == 5


def test_names_are_read_case_insensitively_and_empty_is_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower-case names count; empty variables, as compose files leave them, don't."""
    monkeypatch.setenv("arc_summary__leaf_messages", "5")
    monkeypatch.setenv("ARC_SUMMARY__ENABLED", "")
    monkeypatch.setenv("ARC_DATABASE_URL", "")
    made = ArcSettings()
    assert (made.summary.leaf_messages, made.summary.enabled, made.database_url) == (5, True, None)


def test_a_group_object_replaces_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group given as an object is used whole, whatever the environment."""
    monkeypatch.setenv("ARC_SUMMARY__LEAF_MESSAGES", "5")
    assert ArcSettings(summary=SummarySettings(enabled=False)).summary == SummarySettings(enabled=False)


def test_settings_are_immutable() -> None:
    """Neither settings nor groups can be changed, and the error does not show the rejected value."""
    made = ArcSettings()
    for target, name in ((made, "database_url"), (made.storage, "mode")):
        with pytest.raises(ConfigurationError, match=f"{name}: settings are immutable") as caught:
            setattr(target, name, "hunter2")
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "url"),
    [
        ({}, None),
        ({"database_url": "sqlite:///x.db"}, "sqlite:///x.db"),
        ({"database_url": "sqlite:///x.db", "storage": {"mode": "sql"}}, "sqlite:///x.db"),
        ({"database_url": "sqlite:///x.db", "storage": {"mode": "in-memory"}}, None),
        ({"database_url": "sqlite:///x.db", "storage": {"mode": "Memory"}}, None),
    ],
    ids=["nothing", "url", "sql", "explicit-memory", "memory-alias"],
)
def test_storage_is_chosen_by_settings(values: dict[str, Any], url: str | None) -> None:
    """A database URL means SQL, nothing means memory, and an explicit mode wins."""
    made = ArcSettings(**values)
    assert made.resolved_database_url == url


def test_a_mode_without_its_url_is_refused_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings can be created, since the engine may have its own URL; requesting the store is an error."""
    monkeypatch.setenv("CONVERSATION_STORAGE_MODE", "sql")
    made = ArcSettings()
    with pytest.raises(ConfigurationError, match=r"CONVERSATION_STORAGE_MODE.*got 'sql'.*ARC_DATABASE_URL"):
        _ = made.resolved_database_url


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": os.environ["PATH"], **environment},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )


def test_importing_reads_no_environment() -> None:
    """A wrong variable is no error before settings are created, and describing them does not create any."""
    code = "import arc_common.settings as s; s.describe_settings(); print('fine'); s.ArcSettings()"
    result = run(code, ARC_NONSENSE="1")
    assert result.stdout == "fine\n"
    assert "ConfigurationError: ARC_NONSENSE" in result.stderr


def test_settings_import_nothing_heavy() -> None:
    """Settings import pydantic but no database, framework or numerics."""
    heavy = "sqlalchemy numpy tiktoken langchain_core llama_index rapidfuzz typer rich"
    result = run(f"import sys, arc_common.settings; print([name for name in {heavy.split()} if name in sys.modules])")
    assert result.stdout == "[]\n"
