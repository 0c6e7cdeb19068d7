"""Run LangGraph's own tests of its stores with `ArcStore` in their place.

    git clone --depth 1 https://github.com/langchain-ai/langgraph
    python -m benchmarks.upstream_store langgraph                        # SQLite
    python -m benchmarks.upstream_store langgraph --url postgresql://…   # an empty database

Only tests of the batching class and of one store's internals are excluded; `EXCLUDED` gives the reasons. So is the file
of PostgresStore, which repeats these tests and otherwise reads and writes that store's tables.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

SHIM = '''
"""Replaces LangGraph's stores."""
import os
from asyncio import sleep, to_thread
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from langchain_arc import ArcStore, open_engine

URL = os.environ.get("UPSTREAM_STORE_URL")
_users = count()
_engine = None


def InMemoryStore(*, index=None, ttl=None):
    """Return a store in memory, or that of a new user in the database."""
    global _engine
    if URL is None:
        return ArcStore(open_engine("sqlite://"), index=index, ttl=ttl)
    _engine = _engine or open_engine(URL)
    return ArcStore(_engine, user_id=f"{os.getpid()}-{next(_users)}", index=index, ttl=ttl)


class SqliteStore:
    @staticmethod
    @contextmanager
    def from_conn_string(address, *, index=None, ttl=None):
        fields = (index or {}).get("text_fields")  # SqliteStore's name for `fields`
        store = InMemoryStore(index={**index, "fields": fields} if fields else index, ttl=ttl)
        store.__class__.setup = lambda self: None
        yield store


class AsyncSqliteStore:
    @staticmethod
    @asynccontextmanager
    async def from_conn_string(address, *, index=None, ttl=None):
        with SqliteStore.from_conn_string(address, index=index, ttl=ttl) as store:
            sweep = store.sweep_ttl
            store.setup, store.sweep_ttl = (lambda: sleep(0)), (lambda: to_thread(sweep))
            yield store


NS_MATCH_FUNCTION = BaseSqliteStore = SqliteIndexConfig = _escape_glob_literal = _namespace_match_pattern = None
'''
FILES = {
    "libs/checkpoint/tests/test_store.py": {
        "from langgraph.store.memory import InMemoryStore": "from shim import InMemoryStore",
        "from tests.embed_test_utils": "from embed_test_utils",
        "from pytest_mock import MockerFixture": "MockerFixture = object",
    },
    "libs/checkpoint-sqlite/tests/test_store.py": {
        "from langgraph.store.sqlite import": "from shim import",
        "from langgraph.store.sqlite.base import": "from shim import",
    },
    "libs/checkpoint-sqlite/tests/test_async_store.py": {
        "from langgraph.store.sqlite import": "from shim import",
        "from langgraph.store.sqlite.base import": "from shim import",
        "from tests.test_store": "from test_store_1",
    },
    "libs/checkpoint-sqlite/tests/test_ttl.py": {
        "from langgraph.store.sqlite import": "from shim import",
        "from langgraph.store.sqlite.aio import": "from shim import",
    },
}
EXCLUDED = (
    "async_batch_store",  # tests AsyncBatchedBaseStore over a mock and over a store that it wraps
    "sql_injection_vulnerability",  # expects an error for keys with quotes, which are plain data here
    "nonnull_migrations",
    "escape_glob_literal",
    "namespace_match_pattern",
    "uses_indexable_condition",
    "no_running_loop",  # expects an error for blocking calls on an event loop
    "ttl_sweeper",  # tests a thread that removes expired items, which are never returned here
    "ttl_override_default",  # expects that reads don't renew an item, contrary to TTLConfig's default
)


def main() -> int:
    """Copy the tests, replace the stores, and run the tests."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a checkout of langchain-ai/langgraph")
    parser.add_argument("--url", help="a SQLAlchemy URL; by default SQLite in memory")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder)
        (into / "shim.py").write_text(SHIM, "utf-8")
        helper = given.checkout / "libs/checkpoint/tests/embed_test_utils.py"
        (into / helper.name).write_text(helper.read_text("utf-8"), "utf-8")
        for place, (path, changes) in enumerate(FILES.items()):
            text = (given.checkout / path).read_text("utf-8")
            for before, after in changes.items():
                if before not in text:
                    raise SystemExit(f"{path} of this checkout does not contain {before!r}")
                text = text.replace(before, after)
            (into / f"test_store_{place}.py").write_text(text, "utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", folder]
        command += ["--rootdir", folder, "-k", " and ".join(f"not {name}" for name in EXCLUDED)]
        command += ["--deselect", "test_store_1.py::test_vector_store_initialization"]  # reads SQLite's tables
        root = Path(__file__).parents[1]
        environment = {"PYTHONPATH": f"{folder}:{root}", "PATH": "/usr/bin:/bin"}
        if given.url:
            environment["UPSTREAM_STORE_URL"] = given.url
        return subprocess.run(command, cwd=folder, env=environment, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
