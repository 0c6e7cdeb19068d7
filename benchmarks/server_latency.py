"""Measure the latency of reads through the REST API and through a bare FastAPI route with the same store call.

    python benchmarks/server_latency.py [--clients 200] [--seconds 30] [--url sqlite:///FILE]

Both routes are in one server. Each client reads the last 20 messages of a session from both routes alternately, waiting
for each answer.
"""

import argparse
import asyncio
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arc_common import ContextEngine, Message
from arc_common.messages import plain_fields
from arc_common.server import Role, Token, create_app

SECRET = "a-token-for-the-benchmark"  # noqa: S105 - used by this benchmark only
LIMIT = 20
ROUTES = {"arc": f"/api/sessions/s/messages?limit={LIMIT}", "bare": "/bare"}


def serve(url: str, port: int) -> None:
    """Serve the API and the bare route until the process is terminated."""
    import uvicorn

    with ContextEngine.open(url) as engine:
        app = create_app(engine, [Token(SECRET, role=Role.READER)])
        session = engine.session("s")

        @app.get("/bare")
        async def bare() -> Any:
            return [plain_fields(message) for message in await session.amessages(limit=LIMIT)]

        uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False)


@dataclass
class Latencies:
    """The seconds of each answer by route, and the number of answers without status 200."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in ROUTES})
    errors: int = 0

    def percentile(self, name: str, share: float) -> float:
        """Return a percentile in ms."""
        return statistics.quantiles(self.seconds[name], n=1_000)[round(share * 1_000) - 1] * 1_000


async def client(port: int, end: float, most: int, taken: Latencies, *, first: int) -> None:
    """Send requests on one open connection until the time or the number of requests is reached."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    names = list(ROUTES)
    for number in range(most):
        if time.perf_counter() > end:
            break
        name = names[(first + number) % 2]
        head = f"GET {ROUTES[name]} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {SECRET}\r\n\r\n"
        start = time.perf_counter()
        writer.write(head.encode())
        headers = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(headers.partition(b"content-length:")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
        taken.seconds[name].append(time.perf_counter() - start)
        taken.errors += not headers.startswith(b"http/1.1 200")
    writer.close()


async def run_clients(port: int, *, clients: int, seconds: float, most: int = sys.maxsize) -> Latencies:
    """Run the clients concurrently."""
    taken = Latencies()
    end = time.perf_counter() + seconds
    await asyncio.gather(*(client(port, end, most, taken, first=number) for number in range(clients)))
    return taken


def run(url: str, *, clients: int, seconds: float, most: int = sys.maxsize) -> Latencies:
    """Fill a session, start the server, run the clients, and terminate the server."""
    with ContextEngine.open(url) as engine:
        texts = [f"Message {number} about orders, deliveries and refunds." for number in range(200)]
        engine.session("s").append([Message("user" if n % 2 else "assistant", text) for n, text in enumerate(texts)])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, __file__, "--url", url, "--serve", str(port)]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}) as server:
        try:
            _wait_for(port, server)
            asyncio.run(run_clients(port, clients=2, seconds=60, most=20))  # warm-up
            return asyncio.run(run_clients(port, clients=clients, seconds=seconds, most=most))
        finally:
            server.terminate()


def _wait_for(port: int, server: "subprocess.Popen[bytes]") -> None:
    while server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit(f"the server exited with code {server.returncode}")


def main() -> None:
    """Print the percentiles of both routes in ms."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--url", help="an empty database; by default a temporary SQLite file")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.url, given.serve)
        return
    with tempfile.TemporaryDirectory() as folder:
        url = given.url or f"sqlite:///{folder}/arc.db"
        taken = run(url, clients=given.clients, seconds=given.seconds)
    print(f"{given.clients} clients, {given.seconds:.0f} s, {taken.errors} errors")
    print(f"{'':6}{'requests':>10}{'p50 ms':>10}{'p99 ms':>10}")
    for name, seconds in taken.seconds.items():
        p50, p99 = taken.percentile(name, 0.5), taken.percentile(name, 0.99)
        print(f"{name:6}{len(seconds):>10,}{p50:>10.1f}{p99:>10.1f}")
    print(f"p99: {taken.percentile('arc', 0.99) / taken.percentile('bare', 0.99):.2f} times the bare route's")


if __name__ == "__main__":
    main()
