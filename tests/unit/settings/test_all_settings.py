"""Each setting by itself: its default, its description with unit and bounds, and the names that set it."""

import pytest
from pydantic import BaseModel

from arc_common.settings import ArcSettings, SecretUrl, SettingDescription, describe_settings
from tests.unit.settings.refusing import refused

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
    """Every setting's value by its dotted name, found by walking the values, not by what the code under test says."""
    found: dict[str, object] = {}
    for name in type(model).model_fields:
        value = getattr(model, name)
        inner = flat(value, f"{prefix}{name}.") if isinstance(value, BaseModel) else {f"{prefix}{name}": value}
        found |= inner
    return found


def other_value(description: SettingDescription) -> tuple[str, object]:
    """Some text that the setting accepts and that is not its default, with the value that it stands for."""
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
    return "elsewhere", "elsewhere"


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
        "conversation.resume_note_days": 7,
        "budget.context_window": 128_000,
        "budget.output_reserve": None,
        "budget.documents": 4_000,
        "budget.recalled": 800,
        "budget.facts": 1_000,
        "budget.facts_share": 0.15,
        "context.placement": "user",
        "context.facts_role": "system",
        "summary.enabled": True,
        "summary.trigger_message_count": 20,
        "summary.recent_message_count": 10,
        "summary.high_water_mark": 34,
        "summary.high_water_tokens": 8_000,
        "summary.max_tokens": 500,
        "summary.leaf_messages": 64,
        "summary.leaf_tokens": 2_200,
        "summary.reread_for_blocks": False,
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
    }
    assert {name: at(made, name) for name in expected} == expected


def test_every_default_is_within_its_own_bounds() -> None:
    """Passing every default explicitly gives the same settings: none of them breaks the rules of its setting."""
    made = ArcSettings()
    assert ArcSettings(**made.model_dump()) == made


def test_every_setting_is_described() -> None:
    """Each setting is in `describe_settings` with a description, its default, and for a number its unit."""
    for name, value in flat(ArcSettings()).items():
        description = DESCRIBED[name]
        assert description.description.endswith("."), name
        assert description.default == value, name
        assert description.environment_names[0] == "ARC_" + name.upper().replace(".", "__")
        if "number" in description.allowed:
            assert description.description.partition(": ")[0] in UNITS, name


def test_nothing_else_is_described() -> None:
    """`describe_settings` names the model's settings, each once, and knows every alias that is tested here."""
    assert [description.name for description in describe_settings()] == list(flat(ArcSettings()))
    aliases = {name for description in describe_settings() for name in description.environment_names[1:]}
    assert aliases == {name for name, *_ in ALIASES}


def test_every_setting_is_set_by_its_own_environment_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ARC_GROUP__SETTING` changes that setting, and no other."""
    defaults = flat(ArcSettings.model_construct())
    for name, description in DESCRIBED.items():
        text, value = other_value(description)
        with monkeypatch.context() as patch:
            patch.setenv(description.environment_names[0], text)
            assert flat(ArcSettings()) == defaults | {name: value}


def test_none_in_the_environment_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where None is allowed, the word `none` gives it."""
    names = [name for name, description in DESCRIBED.items() if description.allowed.endswith("none")]
    assert len(names) > 5
    for name in names:
        with monkeypatch.context() as patch:
            patch.setenv(DESCRIBED[name].environment_names[0], "None")
            assert at(ArcSettings(), name) is None, name


def test_an_alias_sets_its_setting_and_the_own_name_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name from comparable services is accepted, and beaten by the `ARC_` name."""
    for alias, text, name, value in ALIASES:
        with monkeypatch.context() as patch:
            patch.setenv(alias, text)
            assert at(ArcSettings(), name) == value, alias
            own, own_value = other_value(DESCRIBED[name])
            patch.setenv(DESCRIBED[name].environment_names[0], own)
            assert at(ArcSettings(), name) == own_value, alias


def test_a_wrong_value_names_the_alias_that_gave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the variable that the operator set, the setting behind it, the value and what is allowed."""
    for alias, text, name, _ in ALIASES:
        if text.replace(".", "").isdigit():
            with monkeypatch.context() as patch:
                patch.setenv(alias, "many")
                told = f"{alias} ({name}): got 'many', expected {DESCRIBED[name].allowed}"
                assert told in refused().splitlines()
