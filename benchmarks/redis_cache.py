"""What the cache in Redis saves a database: `state`, a turn's first read, of conversations that a process has not seen.

    python benchmarks/redis_cache.py --url postgresql://… --redis redis://… [--sessions 40] [--messages 60]

The database must be empty. Both stores read each conversation in turn, five times, by engines that have not read it
before. Bytes are those that PostgreSQL sends, counted by a proxy before it, which must be on TCP; times are taken
without the proxy, and with `--context` those of `session.context` too.
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

_WORDS = (  # noqa: SIM905 - readable
    "we moved the delivery of green tea from Busan to next Monday because the harbour is closed and the customer asked "
    "whether the invoice could name the second warehouse instead of the first one as agreed in spring"
).split()
_ROUNDS = 5
_LIMIT = 256


class Proxy:
    """Counts the bytes that a server sends."""

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


def said(number: int) -> Message:
    """Return a message of 25 words of a user, or 110 of an assistant."""
    role, words = ("user", 25) if number % 2 == 0 else ("assistant", 110)
    return Message(role, " ".join(islice(cycle(_WORDS), number % 31, number % 31 + words)))


def main() -> None:
    """Fill the database, and print medians."""
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
            engine.session(f"s{number}").append([said(number + n) for n in range(given.messages)])
    keys = [SessionKey(f"s{number}") for number in range(given.sessions)]
    seen: dict[tuple[str, str], list[float]] = defaultdict(list)
    for address, name in ((through, "bytes"), (given.url, "ms"), (given.url, "process ms")):
        stores = {"plain": SqlStore(address), "redis": CachedStore(address, redis=redis)}
        clock = {"bytes": lambda: proxy.sent, "ms": time.perf_counter, "process ms": time.process_time}[name]
        for number, key in enumerate(keys * (_ROUNDS + 1)):
            for which in list(stores)[:: 1 if number % 2 else -1]:
                before = clock()
                stores[which].summaries.state(key, limit=_LIMIT)
                if number >= len(keys):  # all are cached, and all statements prepared
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
