"""The workers of a run share servers that are started once and never left behind."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg

from tests.support.servers import PostgresServer
from tests.support.shared_servers import address


def test_one_server_serves_all_workers_and_ends_with_a_killed_run(tmp_path: Path) -> None:
    run = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    try:
        with ThreadPoolExecutor(2) as workers:
            (port,) = set(workers.map(lambda _: address("postgres", tmp_path, run.pid), range(2)))
        with psycopg.connect(PostgresServer(int(port)).dsn()) as connection:
            (folder,) = connection.execute("SHOW data_directory").fetchone() or ()
    finally:
        run.kill()
        run.wait()
    deadline = time.monotonic() + 20
    while Path(folder).exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
