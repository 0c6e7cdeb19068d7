"""Servers that all workers of a run share, in a process that ends them with the run, even if pytest is killed.

Run as a module, it is that process: it prints the server's address and waits for the process with the given id to end.
"""

import fcntl
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers import postgres_server, s3_server

ROOT = Path(__file__).parents[2]


@contextmanager
def _postgres() -> Iterator[str]:
    with postgres_server() as server:
        yield str(server.port)


_SERVERS = {"postgres": _postgres, "s3": s3_server}


def address(kind: str, folder: Path, owner: int) -> str:
    """Return the address of the run's server; the first worker that asks starts it.

    It is a port for "postgres", a URL for "s3"; the server ends with the process `owner`. All workers share the folder.
    """
    with (folder / f"{kind}.address").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if not (known := file.read()):
            known = _started(kind, owner)
            file.write(known)
        return known


def _started(kind: str, owner: int) -> str:
    command = [sys.executable, "-m", "tests.support.shared_servers", kind, str(owner)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:  # its own session: an interrupt of the run leaves it time to clean up
        assert process.stdout is not None
        said = process.stdout.readline().strip()
    assert said, f"the server {kind} did not start"
    return said


def _keep(kind: str, owner: int) -> None:
    if os.fork():
        os._exit(0)  # leaves the worker without a child to wait for
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    ended = os.pidfd_open(owner)
    with _SERVERS[kind]() as server:
        sys.stdout.write(f"{server}\n")
        sys.stdout.close()
        select.select([ended], [], [])


if __name__ == "__main__":
    _keep(sys.argv[1], int(sys.argv[2]))
