"""Databases of releases, from which upgrades are tested.

At each release, before any later change of the schema, record its tables with a conversation in them:

    python -m tests.support.releases 0.1.0

writes `0.1.0.sqlite.gz` (a file) and `0.1.0.postgres.gz` (SQL of pg_dump) to `tests/support/data/releases`.
`test_upgrades.py` upgrades copies of them with every later version.
"""

import gzip
import subprocess
import sys
import tempfile
from pathlib import Path

from arc_common import ArcSettings, ContextEngine, Document
from arc_common.messages import Message, Role
from tests.support.databases import new_database
from tests.support.servers import PostgresServer, postgres_package, postgres_server

FOLDER = Path(__file__).parent / "data" / "releases"


class Lengths:
    """Embeds a text as its length."""

    name = "lengths"

    def embed(self, texts: list[str]) -> list[list[float]]:
        """Return one vector of two numbers for each text."""
        return [[1.0, float(len(text))] for text in texts]


def fill(url: str) -> None:
    """Store what each later version must still show."""
    settings = ArcSettings(memory={"enabled": True}, background={"in_process": False})
    with ContextEngine.open(url, settings=settings, embedder=Lengths()) as engine:
        session = engine.session("s", user_id="ann")
        for number in range(30):
            said = f"Order {number} is ORD-{1000 + number}. I prefer tea."
            session.append([Message(Role.USER, said, id=f"q{number}"), Message(Role.ASSISTANT, "Noted.")])
        session.fork(at="q3", name="idea").append(Message(Role.USER, "On the fork."))
        session.pin("Never call before noon.")
        engine.documents.add(Document("The warranty lasts three years.", id="warranty"))
        engine.memories(user_id="ann").add("Ann keeps bees in Ulm.")
        engine.admin.work()


def record(name: str, folder: Path, server: PostgresServer) -> None:
    """Write the databases of this version."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        file = Path(made) / "arc.db"
        fill(f"sqlite:///{file}")
        (folder / f"{name}.sqlite.gz").write_bytes(gzip.compress(file.read_bytes(), mtime=0))
    url = new_database(server, tables=False)
    fill(url)
    dumped = _run("pg_dump", "--no-owner", "--no-privileges", "--dbname", _plain(url))
    (folder / f"{name}.postgres.gz").write_bytes(gzip.compress(dumped, mtime=0))


def load_postgres(file: Path, url: str) -> None:
    """Load a recorded database into an empty one."""
    _run(
        "psql", "--quiet", "--set", "ON_ERROR_STOP=1", "--dbname", _plain(url), given=gzip.decompress(file.read_bytes())
    )


def _plain(url: str) -> str:
    return url.replace("postgresql+psycopg://", "postgresql://")


def _run(program: str, *arguments: str, given: bytes | None = None) -> bytes:
    command = [str(postgres_package() / "pginstall" / "bin" / program), *arguments]
    return subprocess.run(command, input=given, check=True, capture_output=True).stdout


if __name__ == "__main__":
    with postgres_server() as running:
        record(sys.argv[1], FOLDER, running)
