"""`arc db upgrade` from the database of each release, and from one that this version has just created.

See `tests/support/releases.py` for recording a release. None is released yet, so the tables of 0.1.0 may change.
"""

import gzip
from pathlib import Path

import pgvector.sqlalchemy  # noqa: F401 - lets SQLAlchemy know the type of pgvector
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine

from arc_common import ArcSettings, ContextEngine
from arc_common.stores.database.migrate import current_revision, upgrade
from arc_common.stores.database.schema import HEAD, VERSION_TABLE, WORDS, index_tables, metadata
from tests.support import releases
from tests.support.databases import new_database
from tests.support.releases import Lengths
from tests.support.servers import PostgresServer

RELEASES = sorted({file.name.rsplit(".", 2)[0] for file in releases.FOLDER.glob("*.gz")})


@pytest.fixture(scope="module")
def this_version(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    releases.record("this version", folder, postgres)
    return folder


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("name", [*RELEASES, "this version"])
def test_a_releases_database_is_upgraded(
    name: str, kind: str, this_version: Path, tmp_path: Path, postgres: PostgresServer
) -> None:
    """The upgraded database has the tables of a new one, shows all stored data, and can be used further."""
    file = (releases.FOLDER if name in RELEASES else this_version) / f"{name}.{kind}.gz"
    url = f"sqlite:///{tmp_path / 'arc.db'}"
    if kind == "sqlite":
        (tmp_path / "arc.db").write_bytes(gzip.decompress(file.read_bytes()))
    else:
        url = new_database(postgres, tables=False)
        releases.load_postgres(file, url)
    engine = create_engine(url)
    upgrade(engine)
    assert current_revision(engine) == HEAD
    options = {
        "version_table": VERSION_TABLE,
        "include_name": lambda name, kind, _: not (kind == "table" and name.startswith(WORDS)),
    }
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, [metadata, index_tables(engine.dialect.name).metadata]) == []
    engine.dispose()
    settings = ArcSettings(memory={"enabled": True})
    with ContextEngine.open(url, settings=settings, embedder=Lengths()) as opened:
        session = opened.session("s", user_id="ann")
        assert [one.id for one in session.messages()][::2] == [f"q{number}" for number in range(30)]
        assert [one.text for one in opened.session("s", user_id="ann", branch="idea").messages()][-1] == "On the fork."
        assert any("tea" in fact.value for fact in session.facts())
        assert session.summary() is not None
        assert session.recall("ORD-1004", top_k=1)[0].message.id == "q4"
        assert [pin.text for pin in session.pins()] == ["Never call before noon."]
        assert set(opened.documents.search("warranty")[0].score_parts) == {"bm25", "vector"}
        assert opened.memories(user_id="ann").search("bees")[0].memory.text == "Ann keeps bees in Ulm."
        session.save_turn("One more order, ORD-2000.", "Noted.")
        assert session.recall("ORD-2000", top_k=1)[0].message.text.startswith("One more")
