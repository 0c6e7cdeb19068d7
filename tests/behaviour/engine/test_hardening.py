"""Wrong input where it is easily given: clear errors of arc's own, and no secrets in them."""

import copy

import pytest

from arc_common import ArcSettings, ConfigurationError, ContextEngine, InvalidInputError, Message, StoreUnavailableError
from arc_common.tokens.budget import TokenBudget
from langchain_arc import ArcChatMessageHistory
from llamaindex_arc import ArcChatMemoryBuffer, ArcTokenBudgetPostprocessor

SECRET = "SEC@RETPW"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://user:{SECRET}@127.0.0.1:1/db",
        "postgresql://user@127.0.0.1:1/db?password=RETPW",
        "postgresql://user@127.0.0.1:1/db?passwrd=RETPW",
        f"mysql://user:{SECRET}@127.0.0.1/db",
        f"postgresql://user:{SECRET}@127.0.0.1:port/db",
    ],
    ids=["unescaped", "parameter", "misspelt", "unsupported", "no port"],
)
def test_no_password_is_in_an_error(url):
    """Neither in the address shown, nor in what the driver says of it, nor in the errors behind it that are shown."""
    with pytest.raises((ConfigurationError, StoreUnavailableError)) as caught, ContextEngine.open(url) as engine:
        engine.session("s").messages()
    assert "RETPW" not in str(caught.value)


def test_a_context_of_wrong_things_is_refused():
    """By the name of the argument."""
    cases = [
        {"documents": 5},
        {"tools": 5},
        {"tools": "text"},
        {"system_prompt": 5},
        {"budget": 5},
        {"response_format": 5},
    ]
    for wrong in cases:
        with ContextEngine.open() as engine, pytest.raises(InvalidInputError, match=next(iter(wrong))):
            engine.session("s").context("hi", **wrong)


def test_an_engine_of_wrong_parts_is_refused():
    """When it is opened, not when it is first used."""
    cases = [
        {"token_counter": 5},
        {"settings": 5},
        {"chat_model": 5},
        {"embedder": 5},
        {"on_save_error": 5},
        {"clock": 5},
        {"new_id": 5},
        {"summary_model": 5},
    ]
    for wrong in cases:
        with pytest.raises(InvalidInputError, match=next(iter(wrong))):
            ContextEngine.open(**wrong)


def test_sql_storage_needs_a_database():
    """Nobody should believe that conversations are kept while they are in this process's memory."""
    settings = ArcSettings(storage={"mode": "sql"})
    with pytest.raises(ConfigurationError, match="database_url"):
        ContextEngine.open(settings=settings)


def test_recall_of_nothing_is_refused():
    """As its docstring says."""
    for top_k in [0, -1, True, 1.5]:
        with ContextEngine.open() as engine, pytest.raises(InvalidInputError, match="top_k"):
            engine.session("s").recall("what?", top_k=top_k)


def test_a_stored_system_message_can_not_block_a_session():
    """Where it doesn't fit it is left out, and the receipt says so."""
    with ContextEngine.open() as engine:
        session = engine.session("s")
        session.append([Message("system", "word " * 2_000), Message("system", "Be kind."), Message("user", "one")])
        window = session.context("hi", budget=TokenBudget(1_000, 100))
    assert window.messages[0].text == "Be kind."
    assert window.messages[-1].text == "hi"
    assert "a stored system message was left out: no room for it" in window.receipt.notes


def test_adapters_refuse_what_is_no_engine():
    """Before a run, not in it."""
    for make in (lambda: ArcChatMessageHistory("a", engine=None), lambda: ArcChatMessageHistory.factory(5)):
        with pytest.raises(InvalidInputError, match="engine"):
            make()


@pytest.mark.parametrize("text", ["garbage", "[]", None], ids=repr)
def test_a_memory_from_garbage_is_refused(text):
    """By arc's own error."""
    with pytest.raises(InvalidInputError):
        ArcChatMemoryBuffer.from_string(text)


def test_a_postprocessor_can_be_copied():
    """Query engines copy theirs."""
    assert copy.deepcopy(ArcTokenBudgetPostprocessor(max_tokens=5)).max_tokens == 5
