"""One server for all workers of a run, in a process that ends it when pytest has ended, also when that was killed.

Run as a module it is that process: it prints the server's address, and waits for the process of the given id.
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
    """Return the address of the run's server; the first worker that asks has it started.

    Args:
        kind: "postgres", whose address is its port, or "s3", whose address is a URL.
        folder: A folder that all workers of the run share.
        owner: The id of the process that the server ends with.
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
    ) as process:  # in a session of its own, an interrupt of the run leaves it the time to clean up
        assert process.stdout is not None
        said = process.stdout.readline().strip()
    assert said, f"the server {kind} did not start"
    return said


def _keep(kind: str, owner: int) -> None:
    if os.fork():
        os._exit(0)  # the worker that started it has no child to wait for
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    ended = os.pidfd_open(owner)
    with _SERVERS[kind]() as server:
        sys.stdout.write(f"{server}\n")
        sys.stdout.close()
        select.select([ended], [], [])


if __name__ == "__main__":
    _keep(sys.argv[1], int(sys.argv[2]))
