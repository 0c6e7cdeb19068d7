"""Measure what the Redis cache saves PostgreSQL: bytes and time of `state`, the first read of a turn.

    python benchmarks/redis_cache.py --url postgresql://… --redis redis://… [--sessions 40] [--messages 60] [--context]

The database must be empty and reachable over TCP. A plain and a cached store alternately read the state of each
session, in six rounds of which the first warms up. Neither keeps messages in this process. Prints medians: the bytes
that PostgreSQL sends (counted by a proxy, in a pass of its own), wall-clock ms, and CPU ms of this process. With
`--context`, also the ms of `session.context`, with new engines in each round.
"""

import argparse
import socket
import statistics
import threading
import time
from collections import defaultdict
from contextlib import suppress
from itertools import cycle, islice

from sqlalchemy import make_url

from arc_common import ArcSettings, ContextEngine, Message
from arc_common.protocols import SessionKey
from arc_common.settings import RedisSettings
from arc_common.stores.conversations import SqlStore
from arc_common.stores.redis_cache import CachedStore

_WORDS = (  # noqa: SIM905 - more readable than a list
    "we moved the delivery of green tea from Busan to next Monday because the harbour is closed and the customer asked "
    "whether the invoice could name the second warehouse instead of the first one as agreed in spring"
).split()
_ROUNDS = 5
_LIMIT = 256


class Proxy:
    """A TCP proxy that counts the bytes a server sends."""

    def __init__(self, host: str, port: int) -> None:
        self.sent = 0
        self._server = host, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            server = socket.create_connection(self._server)
            for source, sink in ((client, server), (server, client)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._pump, args=(source, sink, source is server), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, counts: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self.sent += len(data) * counts
                sink.sendall(data)


def message(number: int) -> Message:
    """Return a message of 25 words from a user or 110 from an assistant."""
    role, words = ("user", 25) if number % 2 == 0 else ("assistant", 110)
    return Message(role, " ".join(islice(cycle(_WORDS), number % 31, number % 31 + words)))


def main() -> None:
    """Fill the database, read it, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--redis", required=True)
    parser.add_argument("--sessions", type=int, default=40)
    parser.add_argument("--messages", type=int, default=60)
    parser.add_argument("--context", action="store_true")
    given = parser.parse_args()
    url = make_url(given.url)
    proxy = Proxy(url.host or "127.0.0.1", url.port or 5432)
    through = url.set(host="127.0.0.1", port=proxy.port).render_as_string(hide_password=False)
    redis = RedisSettings(url=given.redis)
    with ContextEngine.open(given.url, settings=ArcSettings(summary={"enabled": False})) as engine:
        for number in range(given.sessions):
            engine.session(f"s{number}").append([message(number + n) for n in range(given.messages)])
    keys = [SessionKey(f"s{number}") for number in range(given.sessions)]
    seen: dict[tuple[str, str], list[float]] = defaultdict(list)
    for address, name in ((through, "bytes"), (given.url, "ms"), (given.url, "CPU ms")):
        stores = {"plain": SqlStore(address), "redis": CachedStore(address, redis=redis)}
        clock = {"bytes": lambda: proxy.sent, "ms": time.perf_counter, "CPU ms": time.process_time}[name]
        for number, key in enumerate(keys * (_ROUNDS + 1)):
            for which in list(stores)[:: 1 if number % 2 else -1]:
                before = clock()
                stores[which].summaries.state(key, limit=_LIMIT)
                if number >= len(keys):  # after the warm-up round
                    seen[which, name].append((clock() - before) * (1 if name == "bytes" else 1_000))
        for store in stores.values():
            store.close()
    if given.context:
        settings = {"plain": ArcSettings(), "redis": ArcSettings(redis={"url": given.redis})}
        for number in range(_ROUNDS):
            engines = {which: ContextEngine.open(given.url, settings=settings[which]) for which in settings}
            for place, key in enumerate(keys):
                for which in list(engines)[:: 1 if (place + number) % 2 else -1]:
                    before = time.perf_counter()
                    engines[which].session(key.session_id).context("When does the tea come?")
                    if place > 4:
                        seen[which, "context ms"].append((time.perf_counter() - before) * 1_000)
            for engine in engines.values():
                engine.close()
    for (which, name), values in sorted(seen.items(), key=lambda item: item[0][::-1]):
        print(f"{name:12} {which:6} {statistics.median(values):10,.2f}")


if __name__ == "__main__":
    main()
