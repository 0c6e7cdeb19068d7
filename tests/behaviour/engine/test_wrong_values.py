"""Any argument is accepted or raises one of arc's errors, and then nothing is written."""

import dataclasses
import inspect
import math
import re
import sqlite3
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from arc_common import (
    ArcError,
    ArcSettings,
    ConfigurationError,
    ContentPart,
    ContextEngine,
    Document,
    InvalidInputError,
    Message,
    Origin,
    ScoredDocument,
    StoreUnavailableError,
    ToolCall,
)
from arc_common.filters import AllOf, AnyOf, Condition, Filter, Not
from arc_common.testing import CountingObserver
from arc_common.tokens.budget import SectionBudget, TokenBudget
from tests.support.databases import sqlite_url

SECRET = "SEC@RETPW"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://user:{SECRET}@127.0.0.1:1/db",
        "postgresql://user@127.0.0.1:1/db?password=RETPW",
        "postgresql://user@127.0.0.1:1/db?sslpassword=RETPW",
        "postgresql://user@127.0.0.1:1/db?passwrd=RETPW",
        f"mysql://user:{SECRET}@127.0.0.1/db",
        f"postgresql://user:{SECRET}@127.0.0.1:port/db",
    ],
    ids=["unescaped", "parameter", "key's", "misspelt", "unsupported", "no port"],
)
def test_no_password_shows(url, caplog):
    """No repr, log, traceback or health report contains it."""
    caplog.set_level("DEBUG")
    shown = []
    try:
        with ContextEngine.open(url) as engine:
            shown += [repr(engine), repr(engine.session("s")), str(engine.health())]
            engine.session("s").save_turn("Hello", "Hi")
            engine.session("s").messages()
    except (ConfigurationError, StoreUnavailableError) as error:
        shown += traceback.format_exception(error)
    assert shown
    assert not [text for text in [*shown, caplog.text] if "RETPW" in text]


def test_sql_storage_needs_a_database():
    """Otherwise conversations would silently stay in this process's memory."""
    settings = ArcSettings(storage={"mode": "sql"})
    with pytest.raises(ConfigurationError, match="database_url"):
        ContextEngine.open(settings=settings)


def test_an_unknown_strategy_is_a_wrong_setting():
    settings = ArcSettings(context={"compression": ["rolling"]})
    with pytest.raises(ConfigurationError, match=r"context\.compression: .*'rolling', expected one of rolling_window"):
        ContextEngine.open(settings=settings)


def test_a_stored_system_message_can_not_block_a_session():
    with ContextEngine.open() as engine:
        session = engine.session("s")
        session.append([Message("system", "word " * 2_000), Message("system", "Be kind."), Message("user", "one")])
        window = session.context("hi", budget=TokenBudget(1_000, 100))
    assert window.messages[0].text == "Be kind."
    assert window.messages[-1].text == "hi"
    assert "a stored system message was left out: no room for it" in window.receipt.notes


def nested(depth: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(depth):
        made = [made]
    return made


def mapping(depth: int) -> dict[str, Any]:
    """Return nested dictionaries, each also a filter and a schema."""
    made: dict[str, Any] = {"a": 1}
    for _ in range(depth):
        made = {"$not": made}
    return made


WRONG = {
    "None": None,
    "5": 5,
    "-1": -1,
    "1.5": 1.5,
    "True": True,
    "x": "x",
    "empty": "",
    "long": "x" * 300,
    "bytes": b"x",
    "[]": [],
    "[5]": [5],
    "[None]": [None],
    "{}": {},
    "object": object(),
    "nan": math.nan,
    "inf": math.inf,
    "huge": 10**400,
    "surrogate": "\ud800",
    "NUL": "\x00",
    "deep list": nested(5_000),
    "deep mapping": mapping(5_000),
    "deep schema": [mapping(5_000)],
    "set": {1},
}

DAY = datetime(2026, 1, 1, tzinfo=UTC)

STORED = "stored"
"""A placeholder for the id of the engine's memory."""

SESSION: dict[str, dict[str, Any]] = {
    "add_artifact": {"content": "It rains.", "source": "weather", "kind": "tools", "metadata": {}},
    "append": {"messages": [Message("user", "more")]},
    "archive": {},
    "branches": {},
    "clear": {},
    "compact": {},
    "context": {
        "query": "hi",
        "system_prompt": "Be kind.",
        "documents": ["a text"],
        "tools": [],
        "response_format": {},
        "budget": TokenBudget(),
        "history": [Message("user", "q")],
        "following": [Message("assistant", "a")],
        "memory_tags": ["drinks"],
    },
    "delete": {"soft": False},
    "delete_branch": {"branch": "idea"},
    "exists": {},
    "facts": {"include_superseded": False, "include_ungrounded": False, "include_excerpts": False, "as_of": DAY},
    "find": {"message_ids": ["m1"]},
    "fork": {"at": "m1", "name": None},
    "messages": {"limit": 1, "before": "m1"},
    "pin": {"text": "Never call before noon."},
    "note": {"text": "a note"},
    "pins": {"suggested": False},
    "recall": {"query": "cat", "top_k": 1, "scope": "session"},
    "receipt": {},
    "receipt_events": {},
    "remember": {},
    "remove": {"message_ids": ["m1"]},
    "rewind": {"to": "m1"},
    "save_turn": {"user": "hi", "assistant": "hello", "success": True},
    "stored": {"message_ids": ["m1"], "after": None, "limit": 1},
    "stream_turn": {"user": "hi"},
    "summarize": {},
    "summary": {},
    "switch": {"to": "main"},
    "unpin": {"pin_id": "x"},
    "window": {
        "max_tokens": 100,
        "max_turns": 1,
        "max_messages": 1,
        "reserved": 0,
        "keep_opening": False,
        "keep_newest": False,
        "following": (),
        "count": None,
        "include_summary": True,
        "query": "cat",
        "memory_tags": ["drinks"],
    },
}
DOCUMENTS: dict[str, dict[str, Any]] = {
    "add": {"documents": ["new"], "chunk": False},
    "count": {},
    "delete": {"ids": ["d1"]},
    "get": {"ids": ["d1"]},
    "retrieve": {"query": "cat", "top_k": 1, "filters": {"a": 1}},
    "retrieve_with_notes": {"query": "cat", "top_k": 1, "filters": {"a": 1}, "cosines": False},
    "search": {"query": "cat", "top_k": 1, "filters": {"a": 1}},
}
MEMORIES: dict[str, dict[str, Any]] = {
    "add": {
        "text": "Ann likes tea.",
        "type": "fact",
        "importance": 0.5,
        "metadata": {},
        "sources": [("s", "m1")],
        "status": "ACTIVE",
        "tags": ["drinks"],
        "valid_from": DAY,
        "valid_until": None,
        "speaker": "Ann",
    },
    "context": {"query": "tea", "top_k": 1, "tags": ["drinks"], "as_of": DAY},
    "count": {},
    "delete": {"memory_id": "x"},
    "edit": {
        "memory_id": STORED,
        "text": "Ann has two cats.",
        "type": "fact",
        "importance": 0.5,
        "tags": ["pets"],
        "metadata": {},
        "valid_from": DAY,
        "valid_until": None,
        "revision": None,
    },
    "extract": {"user_message": "I like tea.", "assistant_message": "Good.", "mode": "chat", "session_id": "s"},
    "forget": {
        "memory_id": "x",
        "session_id": "s",
        "branch": 0,
        "messages": [Message("user", "Forget that I like tea.")],
    },
    "get": {"memory_id": "x"},
    "history": {"memory_id": STORED},
    "list": {"status": "ACTIVE", "type": "fact", "limit": 1, "include_superseded": False},
    "pin": {"memory_id": STORED},
    "propose": {
        "text": "Ann likes tea.",
        "type": "fact",
        "importance": 0.5,
        "metadata": {},
        "session_id": "s",
        "branch": 0,
        "messages": [Message("user", "I like tea.")],
    },
    "rollback": {"memory_id": STORED, "revision": 1},
    "search": {"query": "tea", "top_k": 1, "tags": ["drinks"], "as_of": DAY},
    "set_status": {"memory_id": STORED, "status": "ACTIVE"},
    "unpin": {"memory_id": STORED},
}
ENGINE: dict[str, dict[str, Any]] = {
    "close": {},
    "health": {},
    "documents_of": {"caller_id": "c", "user_id": "u", "shared": True},
    "flush": {"timeout": 1.0},
    "ingestion_of": {"caller_id": "c"},
    "items_of": {"caller_id": "c", "user_id": "u", "embedder": None},
    "memories": {"user_id": "u", "session_id": "s", "caller_id": "c"},
    "open": dict.fromkeys(inspect.signature(ContextEngine.open).parameters),
    "rag": {"sources": None, "transformers": None, "reranker": None, "citations": False},
    "session": {"session_id": "s", "user_id": "u", "caller_id": "c", "account_id": "a", "branch": "main"},
}
ADMIN: dict[str, dict[str, Any]] = {
    "archive": {"older_than": timedelta(days=30), "progress": None},
    "clear": {"caller_id": "other", "user_id": None, "progress": None},
    "debug": {"session_id": "s", "caller_id": "default", "user_id": None, "branch": 0},
    "erase": {"caller_id": "other", "user_id": None},
    "export": {"path": "copy.jsonl", "caller_id": "default", "user_id": None, "progress": None},
    "import_": {"source": [], "caller_id": None, "user_id": None, "progress": None},
    "maintain": {"progress": None},
    "purge": {"older_than": timedelta(days=30), "progress": None},
    "reembed": {"progress": None, "stop": None},
    "replay": {"session_id": "s", "turn": 1, "budget": None, "caller_id": "default", "user_id": None, "branch": 0},
    "requests": {"session_id": "s", "limit": 1, "caller_id": "default", "user_id": None, "branch": 0},
    "restore": {"session_id": "s", "caller_id": "default", "user_id": None},
    "sessions": {
        "caller_id": "default",
        "user_id": None,
        "limit": 1,
        "cursor": None,
        "status": None,
        "active_since": DAY,
        "idle_since": DAY,
        "created_since": DAY,
        "created_before": DAY,
        "min_messages": 0,
        "max_messages": 10,
    },
    "work": {"threads": 1, "until_idle": True, "limit": 1, "progress": None, "stop": None},
}
FACES: dict[str, tuple[Callable[[ContextEngine], Any], dict[str, dict[str, Any]]]] = {
    "engine": (lambda engine: engine, ENGINE),
    "session": (lambda engine: engine.session("s"), SESSION),
    "documents": (lambda engine: engine.documents, DOCUMENTS),
    "memories": (lambda engine: engine.memories(), MEMORIES),
    "admin": (lambda engine: engine.admin, ADMIN),
}
BELOW = {"documents": "entry", "top_k": "limit", "max_tokens": "context_window"}
"""Arguments whose values are also refused by what they are given to, under its own name."""
FOR_ADAPTERS = {"report_save_error", "resume"}
"""Methods whose arguments come from adapters, whatever their values."""


def methods(face: object) -> set[str]:
    """Return the public methods; an async form shares its twin's implementation."""
    named = {name for name in dir(type(face)) if not name.startswith("_") and callable(getattr(type(face), name))}
    return {name for name in named if not (name[0] == "a" and name[1:] in named)} - FOR_ADAPTERS


def names(error: InvalidInputError) -> list[str]:
    """Return the words of the field that an error names."""
    return re.findall(r"\w+", error.field)


@pytest.fixture
def engine(tmp_path, monkeypatch) -> Iterator[ContextEngine]:
    """Open an engine with a message, a document and a memory; exports are written next to its file."""
    monkeypatch.chdir(tmp_path)
    settings = ArcSettings(summary={"enabled": False}, memory={"enabled": False}, recall={"enabled": False})
    with ContextEngine.open(sqlite_url(tmp_path), settings=settings) as opened:
        opened.session("s").append([Message("user", "I have a cat.", id="m1"), Message("assistant", "Nice.")])
        opened.documents.add([Document("A text about a cat.", "d1")])
        opened.memories().add("Ann has a cat.")
        yield opened


@pytest.fixture
def written(engine: ContextEngine, tmp_path: Path) -> Iterator[Callable[[], tuple[Any, ...]]]:
    """Return a function that returns what is stored, and reads it anew only if its file has changed."""
    seen: dict[int, tuple[Any, ...]] = {}

    def read() -> tuple[Any, ...]:
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version not in seen:
            seen[version] = (
                engine.session("s").messages(),
                engine.session("s").pins(),
                engine.documents.count(),
                engine.memories().list(status=None, include_superseded=True),
                len(engine.admin.sessions().conversations),
                connection.execute("SELECT * FROM arc_scopes ORDER BY 1, 2, 3, 4").fetchall(),
            )
        return seen[version]

    with closing(sqlite3.connect(tmp_path / "arc.db")) as connection:
        yield read


def test_what_would_silently_find_or_do_nothing_is_refused(engine: ContextEngine) -> None:
    session = engine.session("s")
    calls: list[tuple[str, Callable[[], object]]] = [
        *(("top_k", lambda top_k=top_k: session.recall("what?", top_k=top_k)) for top_k in (0, -1, True)),
        ("before", lambda: session.messages(before="nobody")),
        ("memory_tags", lambda: session.context("hi", memory_tags=[])),
        ("memory_tags", lambda: session.window(memory_tags=[])),
        ("ids", lambda: engine.documents.get("d1")),
        ("ids", lambda: engine.documents.delete("d1")),
    ]
    for name, call in calls:
        with pytest.raises(InvalidInputError, match=f"^{name}: "):
            call()


@pytest.mark.parametrize("face", FACES)
def test_every_public_method_is_tried(engine: ContextEngine, face: str) -> None:
    made, calls = FACES[face]
    found = {name: list(inspect.signature(getattr(made(engine), name)).parameters) for name in methods(made(engine))}
    assert found == {name: list(given) for name, given in calls.items()}


@pytest.mark.parametrize(("face", "name"), [(face, name) for face, (_, calls) in FACES.items() for name in calls])
def test_a_wrong_argument_is_taken_or_refused_by_an_error_of_arc(
    engine: ContextEngine, written: Callable[[], tuple[Any, ...]], face: str, name: str
) -> None:
    make, calls = FACES[face]
    stored = engine.memories().list()[0].id
    usual = {argument: stored if value is STORED else value for argument, value in calls[name].items()}
    bare = []
    before = written()
    for argument in usual:
        for label, value in WRONG.items():
            try:
                made = getattr(make(engine), name)(**{**usual, argument: value})
                if isinstance(made, ContextEngine):
                    made.close()
            except ArcError as error:
                if written() != before:
                    before = written()
                    bare.append(f"{argument}={label}: refused, and something was written")
                if isinstance(error, InvalidInputError) and not {argument, BELOW.get(argument)} & set(names(error)):
                    bare.append(f"{argument}={label}: refused as {error.field}")
            except Exception as error:  # noqa: BLE001 - the test looks for foreign errors
                bare.append(f"{argument}={label}: {type(error).__name__}: {str(error)[:100]}")
            else:
                before = written()
    assert "\n".join(bare) == ""


VALUES: dict[type, dict[str, Any]] = {
    ContentPart: {"type": "text", "text": "hi"},
    Document: {"text": "a text"},
    Message: {"role": "user", "content": "hi"},
    Origin: {"format": "langchain", "json": "{}"},
    ScoredDocument: {"document": Document("a text"), "score": 0.5},
    SectionBudget: {},
    TokenBudget: {},
    ToolCall: {"name": "add"},
}


def use(engine: ContextEngine, value: Any) -> None:
    session = engine.session("s")
    if isinstance(value, ContentPart):
        value = Message("user", (value,))
    if isinstance(value, ToolCall):
        value = Message("assistant", tool_calls=(value,))
    if isinstance(value, Origin):
        value = Message("user", "hi", origin=value)
    if isinstance(value, Message):
        session.append(value)
        session.context("hi", history=[value])
    elif isinstance(value, Document):
        engine.documents.add([value])
        session.context("hi", documents=[value])
    elif isinstance(value, ScoredDocument):
        session.context("hi", documents=[value])
    elif isinstance(value, SectionBudget):
        session.context("hi", budget=TokenBudget(sections={"facts": value}))
    else:
        session.context("hi", budget=value)


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.__name__)
def test_a_value_of_wrong_parts_is_taken_or_refused_by_an_error_of_arc(engine: ContextEngine, kind: type) -> None:
    bare = []
    for field in dataclasses.fields(kind):
        for label, value in WRONG.items():
            try:
                use(engine, kind(**{**VALUES[kind], field.name: value}))
            except ArcError:
                continue
            except Exception as error:  # noqa: BLE001 - the test looks for foreign errors
                bare.append(f"{field.name}={label}: {type(error).__name__}: {str(error)[:100]}")
    assert "\n".join(bare) == ""


@pytest.mark.parametrize("wrong", [datetime(2026, 1, 1), None, 5], ids=["no zone", "None", "number"])  # noqa: DTZ001
def test_a_clock_without_a_zone_is_refused(tmp_path, wrong: Any) -> None:
    url = sqlite_url(tmp_path)
    with ContextEngine.open(url, clock=lambda: wrong) as engine, pytest.raises(ArcError, match="clock: got"):
        engine.session("s").append([Message("user", "hi")])
    with ContextEngine.open(url) as engine:
        assert engine.session("s").messages() == []


@pytest.mark.parametrize("around", [Not, lambda inner: AllOf((inner,)), lambda inner: AnyOf((inner,))])
def test_filters_are_refused_beyond_sixteen_levels(around: Callable[[Filter], Filter]) -> None:
    made: Filter = Condition("a", "eq", 1)
    for _ in range(16):
        made = around(made)
    with ContextEngine.open() as engine:
        engine.documents.add([Document("a cat", metadata={"a": 1})])
        assert len(engine.documents.search("cat", filters=made)) == 1
    with pytest.raises(ArcError, match=r"filters: got .*, expected at most 16 levels of nesting"):
        around(made)


def test_what_is_no_function_is_refused_when_an_engine_is_opened():
    for name in ("on_save_error", "clock", "new_id"):
        with pytest.raises(InvalidInputError, match=f"{name}: got 5"):
            ContextEngine.open(**{name: 5})


def test_a_part_without_its_methods_is_refused_when_an_engine_is_opened():
    """The error lists them. A class is refused as well: it was to be called."""
    wanted = {"observer": "count, timing", "embedder": "name, embed", "cipher": "encrypt, decrypt"}
    for name, methods in wanted.items():
        for wrong in (object(), print, CountingObserver):
            with pytest.raises(InvalidInputError, match=f"{name}: got <.*>, expected None, or an .* {methods} "):
                ContextEngine.open(**{name: wrong})


@pytest.mark.parametrize("counts", [[None], [1.5], [-5], ["5"], [], [1, 2], None], ids=str)
def test_a_counter_that_does_not_count_is_a_clear_error(counts: Any) -> None:
    class Counter:
        name = "wrong"

        def count(self, text: str) -> int:
            return len(text)

        def count_batch(self, texts: list[str]) -> Any:
            return counts

    with ContextEngine.open(token_counter=Counter()) as engine:
        session = engine.session("s")
        for call in (session.context, lambda text: session.append([Message("user", text)])):
            with pytest.raises(InvalidInputError, match=r"token_counter: got .* expected a counter whose count_batch"):
                call("Hi.")
        assert not session.exists()
