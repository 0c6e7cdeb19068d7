"""With a cipher, a database contains no readable text, and everything works as without one."""

import json
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from hashlib import blake2b
from itertools import combinations
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography.fernet import Fernet, MultiFernet
from redis import Redis
from sqlalchemy import make_url

from arc_common import (
    ArcSettings,
    ConfigurationError,
    ContextEngine,
    Document,
    InvalidInputError,
    Message,
    StoreError,
    ToolCall,
)
from arc_common.messages import Origin, Role
from arc_common.stores.conversations import SqlStore
from arc_common.testing import CountingObserver
from langchain_arc import ArcStore
from tests.goldens.recordings import differences
from tests.goldens.windows import build, turns
from tests.support.databases import new_database, rows, run
from tests.support.redis_servers import RedisServer
from tests.support.servers import PostgresServer
from tests.support.summaries import Model

SAID = "zyzzyvaquokka"
"""A word that occurs in no key, hash or ciphertext by chance."""
FACT = {"key": "a diet", "value": f"my {SAID}: it eats 0 boats", "category": "NUMERIC"}


class Summarizer(Model):
    """Writes the word into its narratives, too."""

    def complete(self, messages: Sequence[Message]) -> str:
        super().complete(messages)
        return json.dumps({"facts": [FACT], "narrative": f"The user has a {SAID}."})


class Vectors:
    name = "letters"

    def embed(self, texts: list[str]) -> list[list[float]]:
        return [[text.count(letter) + 0.1 for letter in "aeiost"] for text in texts]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a database without tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'arc.db'}"
    return new_database(request.getfixturevalue("postgres"), tables=False)


@pytest.fixture
def key() -> str:
    return Fernet.generate_key().decode()


def encrypted(*keys: str, **more: Any) -> ArcSettings:
    return ArcSettings(storage={"encryption_keys": ",".join(keys) or None}, model_calls={"attempts": 1}, **more)


KEPT = {"context": {"store_receipts": "all"}, "rag": {"ingestion": {"enabled": True}}}
"""Settings that store requests and answered questions."""


def fill(engine: ContextEngine) -> None:
    """Store the word in every possible way."""
    session = engine.session("s", user_id="ann")
    origin = Origin("test", json.dumps({"text": SAID}))
    call = ToolCall("search", {"query": SAID}, "call-1")
    for number in range(12):
        asked = Message(Role.USER, f"Question {number} about my {SAID}: it eats {number} boats.", metadata={"k": SAID})
        session.append(
            [
                asked,
                Message(Role.ASSISTANT, "", tool_calls=(call,), origin=origin),
                Message(Role.TOOL, f"Found a {SAID}.", tool_call_id="call-1", name="search"),
                Message(Role.ASSISTANT, f"Your {SAID} is fine."),
            ]
        )
    (edited,) = session.append([Message(Role.USER, f"Never feed the {SAID}.", id="edited")])
    session.append([Message(Role.USER, f"Never feed the {SAID} again.", id="edited")])
    session.pin(f"The {SAID} is mine.")
    session.pin(edited.id)
    session.add_artifact(f"A page on the {SAID}.", source=f"https://{SAID}.example")
    session.fork(name="other").save_turn(f"On a branch, the {SAID} sleeps.", "Good.")
    session.rewind(to=session.messages()[-3].id)
    session.save_turn(f"The {SAID} weighs 5 kg.", "Noted.")
    session.pin(f"The {SAID} is heavy.")
    session.summarize()
    memories = engine.memories(user_id="ann")
    memory = memories.add(f"Ann has a {SAID}.", importance=0.9, tags=[SAID], metadata={"name": SAID})
    memories.edit(memory.id, text=f"Ann has two of the {SAID}.")
    memories.extract(f"My {SAID} lives in Busan.")
    of_ann = engine.documents_of("default", user_id="ann")
    more = {"animal": SAID, "names": [SAID, "Bo"], "deep": {"of": SAID}, "weight": 5}
    of_ann.add([Document(f"All about the {SAID}. " * 40, source=f"{SAID}.pdf", metadata=more)])
    store = ArcStore(engine)
    store.put((SAID, "notes"), SAID, {"text": f"Items on the {SAID}", "kind": SAID})
    engine.ingestion.capture(f"What does a {SAID} eat?", f"A {SAID} eats boats.", run_id="run", user_id="ann")
    session.window(query=f"How is my {SAID}?")
    for _ in range(2):
        assert SAID in str([message.text for message in session.context(f"How is my {SAID}?").messages])
    assert engine.flush(60)


def stored_bytes(url: str, postgres: PostgresServer | None) -> bytes:
    """Return a SQLite database's files, or every column of every table of a PostgreSQL database."""
    address = make_url(url)
    if address.drivername.startswith("sqlite"):
        path = Path(address.database or "")
        return b"".join(one.read_bytes() for one in path.parent.glob(f"{path.name}*"))
    assert postgres is not None
    with psycopg.connect(postgres.dsn(address.database)) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        rows = [row for (table,) in tables for row in connection.execute(f"SELECT t::text FROM {table} t").fetchall()]
    return "\n".join(row[0] for row in rows).encode()


@pytest.fixture
def server(request: pytest.FixtureRequest, url: str) -> PostgresServer | None:
    return None if url.startswith("sqlite") else request.getfixturevalue("postgres")


def test_no_text_stands_in_the_database(url: str, server: PostgresServer | None, key: str) -> None:
    """No file, log or column contains the word, and every kind of data can still be read and searched."""
    model = Summarizer()
    with ContextEngine.open(url, settings=encrypted(key, **KEPT), chat_model=model, embedder=Vectors()) as engine:
        fill(engine)
        found = stored_bytes(url, server)
    assert len(found) > 10_000
    assert found.count(SAID.encode()) == 0
    assert found.count(SAID.encode().hex().encode()) == 0
    with ContextEngine.open(url, settings=encrypted(key), embedder=Vectors()) as engine:
        session = engine.session("s", user_id="ann")
        assert SAID in session.messages()[-2].text
        assert any(SAID in fact.value for fact in session.facts())
        assert {pin.text for pin in session.pins()} >= {f"The {SAID} is heavy."}
        assert engine.documents_of("default", user_id="ann").search(
            SAID, filters={"animal": SAID, "weight": {"$gt": 4}}
        )
        assert SAID in engine.admin.requests("s", user_id="ann")[0].window.messages[-1].text
        assert SAID in engine.ingestion.candidates().candidates[0].response
        assert ArcStore(engine).get((SAID, "notes"), SAID).value["kind"] == SAID
        assert [one.message for one in session.recall(f"What does my {SAID} eat?")]
        assert engine.memories(user_id="ann").search(f"{SAID} of Ann")


def test_the_same_search_finds_plain_text(tmp_path: Path) -> None:
    """Without a key, the search finds the word in each table; otherwise the test above would prove nothing."""
    url = f"sqlite:///{tmp_path / 'plain.db'}"
    with ContextEngine.open(url, settings=encrypted(**KEPT), chat_model=Summarizer(), embedder=Vectors()) as engine:
        fill(engine)
        assert stored_bytes(url, None).count(SAID.encode()) > 100
        tables = ("messages", "segments", "facts", "views", "receipts", "records", "index_entries", "index_texts")
        with closing(sqlite3.connect(tmp_path / "plain.db")) as connection:
            for table in (*tables, "index_values"):
                rows = connection.execute(f"SELECT * FROM arc_{table}").fetchall()
                assert SAID in str(rows), table


def test_requests_are_what_the_goldens_say(
    tmp_path: Path, postgres: PostgresServer, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARC_STORAGE__ENCRYPTION_KEYS", key)
    path = tmp_path / "filled.db"
    build(f"sqlite:///{path}", "ko")
    for way, budget in {"arc": 4_000, "langchain-middleware": 1_000}.items():
        copied = shutil.copy(path, tmp_path / f"{way}.db")
        assert not differences("ko", way, budget, turns(f"sqlite:///{copied}", "ko", way, budget))
    filled = new_database(postgres, tables=False)
    build(filled, "en")
    assert not differences("en", "arc", 4_000, turns(filled, "en", "arc", 4_000))


@pytest.mark.parametrize("given", ["no key", "another key", "a key for a plain database"])
def test_a_database_and_keys_that_do_not_fit_are_refused(
    url: str, server: PostgresServer | None, key: str, given: str
) -> None:
    """They are refused before anything is written."""
    plain, other = given == "a key for a plain database", Fernet.generate_key().decode()
    with ContextEngine.open(url, settings=encrypted(*([] if plain else [key]))) as engine:
        engine.session("s").save_turn("Hello", "Hi")
    before = stored_bytes(url, server)
    settings, expected = {
        "no key": (encrypted(), "is encrypted: set storage.encryption_keys"),
        "another key": (encrypted(other), "under another key"),
        "a key for a plain database": (encrypted(key), "is not encrypted"),
    }[given]
    with ContextEngine.open(url, settings=settings) as engine:
        for use in (engine.session("s").messages, lambda: engine.session("s").append([Message(Role.USER, "Hi")])):
            with pytest.raises(ConfigurationError, match=expected):
                use()
        assert not engine.health().ok
    assert stored_bytes(url, server) == before


@pytest.mark.parametrize("keys", ["", "short", f"{'A' * 43}=,short", "ключ"])
def test_an_invalid_key_is_refused_without_being_shown(keys: str) -> None:
    with pytest.raises(ConfigurationError, match="encryption_keys") as caught:
        ContextEngine.open("sqlite://", settings=ArcSettings(storage={"encryption_keys": keys}))
    assert not keys or keys not in str(caught.value)


def test_keys_are_rotated(url: str, key: str) -> None:
    """The new key is put before the old one, which is not needed once everything is encrypted again."""
    with ContextEngine.open(url, settings=encrypted(key), chat_model=Summarizer(), embedder=Vectors()) as engine:
        fill(engine)
        before = shown(engine)
    new = Fernet.generate_key().decode()
    with ContextEngine.open(url, settings=encrypted(new, key), embedder=Vectors()) as engine:
        assert shown(engine) == before
    store = SqlStore(url, cipher=MultiFernet([Fernet(new), Fernet(key)]))
    assert store.reencrypt() > 100
    store.close()
    with ContextEngine.open(url, settings=encrypted(new), embedder=Vectors()) as engine:
        assert shown(engine) == before
    with ContextEngine.open(url, settings=encrypted(key)) as engine, pytest.raises(ConfigurationError):
        engine.session("s").messages()


def shown(engine: ContextEngine) -> list[Any]:
    session = engine.session("s", user_id="ann")
    documents = engine.documents_of("default", user_id="ann")
    return [
        session.messages(),
        [message.text for message in session.context(f"What does my {SAID} eat?").messages],
        session.facts(),
        session.pins(),
        [(one.memory.text, round(one.score, 6)) for one in engine.memories(user_id="ann").search(SAID)],
        [(one.document, round(one.score or 0, 6)) for one in documents.search(SAID, filters={"names": "Bo"})],
    ]


def test_data_move_between_encrypted_and_plain_databases(url: str, tmp_path: Path, key: str) -> None:
    """An export is plain; an import is encrypted with the other database's key, and its facts are found."""
    with ContextEngine.open(url, settings=encrypted(key), chat_model=Summarizer(), embedder=Vectors()) as engine:
        fill(engine)
        before = shown(engine)
        engine.admin.export(tmp_path / "data.jsonl", caller_id="default", user_id=None)
    assert SAID in (tmp_path / "data.jsonl").read_text()
    for name, settings in {"plain": encrypted(), "other": encrypted(Fernet.generate_key().decode())}.items():
        address = f"sqlite:///{tmp_path / name}.db"
        with ContextEngine.open(address, settings=settings, embedder=Vectors()) as engine:
            engine.admin.import_(tmp_path / "data.jsonl")
            assert shown(engine) == before
            found = engine.session("s", user_id="ann").facts()
            assert any(one.key == FACT["key"] for one in found)


def test_texts_are_not_compared_by_their_order(url: str, key: str) -> None:
    with ContextEngine.open(url, settings=encrypted(key)) as engine:
        engine.documents.add([Document("All about bees.", metadata={"day": "2026-01-02", "at": 20260102})])
        assert engine.documents.search("bees", filters={"at": {"$gte": 20260101}, "day": {"$ne": "x"}})
        for filters in ({"day": {"$gte": "2026"}}, {"$or": [{"at": 1}, {"$not": {"day": {"$lt": "2026"}}}]}):
            with pytest.raises(InvalidInputError, match="encrypted"):
                engine.documents.search("bees", filters=filters)


def test_a_changed_text_is_an_error(tmp_path: Path, key: str) -> None:
    """Someone who can write to the database can't insert text into a conversation."""
    url = f"sqlite:///{tmp_path / 'arc.db'}"
    with ContextEngine.open(url, settings=encrypted(key)) as engine:
        engine.session("s").save_turn("Hello", "Hi")
    for change in (
        """UPDATE arc_messages SET body = '{"content": "Send money."}'""",
        "UPDATE arc_messages SET body = 'x'",
    ):
        with closing(sqlite3.connect(tmp_path / "arc.db", isolation_level=None)) as connection:
            connection.execute(change)
        with ContextEngine.open(url, settings=encrypted(key)) as engine, pytest.raises(StoreError, match="decrypted"):
            engine.session("s").messages()


def test_no_text_stands_in_redis(redis: RedisServer, tmp_path: Path, key: str) -> None:
    """Each process reads the encrypted values that the other has cached."""
    url, prefix = f"sqlite:///{tmp_path / 'arc.db'}", f"encrypted-{tmp_path.name}:"
    kept = {"url": redis.url, "key_prefix": prefix}
    observer = CountingObserver()
    for number in range(2):
        with ContextEngine.open(url, settings=encrypted(key, redis=kept), observer=observer) as engine:
            session = engine.session("s", user_id="ann")
            session.save_turn(f"My {SAID} is number {number}.", "Noted.")
            for _ in range(2):
                assert SAID in str([message.text for message in session.context("How is it?").messages])
    assert observer.counts["redis.hits"]
    assert not observer.counts["redis.errors"]
    with closing(Redis.from_url(redis.url)) as client:
        values = [client.hgetall(name) for name in client.scan_iter(f"{prefix}conversation:*")]
    assert values
    assert SAID not in str(values)


class Reversing:
    """A user's own cipher, which only reverses the hexadecimal text."""

    def encrypt(self, data: bytes) -> bytes:
        return b"own:" + data.hex()[::-1].encode()

    def decrypt(self, token: bytes) -> bytes:
        if not token.startswith(b"own:"):
            raise ValueError("not mine")
        return bytes.fromhex(token.removeprefix(b"own:").decode()[::-1])


def test_a_cipher_of_ones_own(url: str, server: PostgresServer | None) -> None:
    with ContextEngine.open(url, cipher=Reversing()) as engine:
        engine.session("s").save_turn(f"My {SAID}", "Noted.")
        assert SAID.encode() not in stored_bytes(url, server)
        assert b"own:" in stored_bytes(url, server)
    with ContextEngine.open(url, cipher=Reversing()) as engine:
        assert SAID in engine.session("s").messages()[0].text


def test_fact_keys_are_hashed_under_the_databases_own_key(tmp_path: Path, key: str) -> None:
    """Equal fact keys have different hashes in two encrypted databases, and equal forms in two plain ones."""

    def hashes(name: str, settings: ArcSettings) -> tuple[set[Any], set[Any]]:
        path = tmp_path / f"{name}.db"
        numbers: Iterator[int] = iter(range(10**6))
        with ContextEngine.open(
            f"sqlite:///{path}", settings=settings, chat_model=Summarizer(), new_id=lambda: f"i{next(numbers)}"
        ) as engine:
            fill(engine)
        with closing(sqlite3.connect(path)) as connection:
            keys = {row[0] for row in connection.execute("SELECT folded_key FROM arc_facts WHERE fact_id IS NOT NULL")}
            slots = {row[0] for row in connection.execute("SELECT slot FROM arc_facts WHERE made_by = 'model'")}
        return keys, slots

    first, second, plain = hashes("a", encrypted(key)), hashes("b", encrypted(key)), hashes("c", encrypted())
    assert len(first[0]) == len(second[0]) == len(plain[0]) > 0
    assert first[0].isdisjoint(second[0] | plain[0])
    assert first[1].isdisjoint(plain[1])
    assert hashes("d", encrypted())[0] & plain[0]


@pytest.mark.parametrize("kept", ["plain", "encrypted"])
def test_words_of_the_index_can_not_be_guessed(
    url: str, server: PostgresServer | None, key: str, tmp_path: Path, kept: str
) -> None:
    """Whoever has the database has the salts of its words; only its key tells which words they are."""
    settings = encrypted(key) if kept == "encrypted" else encrypted()
    with ContextEngine.open(url, settings=settings) as engine:
        engine.documents.add([Document(f"The {SAID} eats boats.", metadata={"animal": SAID})])
        assert engine.documents.search(SAID, filters={"animal": SAID})
    ((salt,),) = rows(url, "SELECT salt FROM arc_index_scopes")
    stored = stored_bytes(url, server)
    for word in (SAID, "boat", "eat"):
        guessed = blake2b(word.encode(), digest_size=8, key=salt).digest()
        forms = guessed.hex(), str(int.from_bytes(guessed, "big", signed=True))
        assert any(form.encode() in stored for form in forms) == (kept == "plain")


def test_words_of_the_index_are_hashed_under_the_databases_own_key(tmp_path: Path, key: str) -> None:
    """With one salt, the same words have the same hashes in two plain databases, and in no others."""

    def words(name: str, settings: ArcSettings) -> set[str]:
        url = f"sqlite:///{tmp_path / name}.db"
        for text in ("Something else.", f"The {SAID} eats boats."):
            with ContextEngine.open(url, settings=settings) as engine:
                engine.documents.add([Document(text, id=text)])
            run(url, f"UPDATE arc_index_scopes SET salt = x'{'07' * 16}'")
        return set(rows(url, "SELECT * FROM arc_index_words")[-1][0].split())

    other = Fernet.generate_key().decode()
    plain, first, same, another = (
        words(str(number), encrypted(*keys)) for number, keys in enumerate([(), (key,), (key,), (other,)])
    )
    assert plain == words("plain", encrypted())
    assert all(one.isdisjoint(two) for one, two in combinations([plain, first, same, another], 2))
