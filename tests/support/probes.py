"""Counters of work below the store: syncs of a SQLite file, round trips to a server, statements of a thread."""

import ctypes
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import create_engine, event


class _Methods(ctypes.Structure):
    """The head of SQLite's `sqlite3_io_methods`; the rest is copied unchanged."""

    _fields_ = (
        ("version", ctypes.c_int),
        ("close", ctypes.c_void_p),
        ("read", ctypes.c_void_p),
        ("write", ctypes.c_void_p),
        ("truncate", ctypes.c_void_p),
        ("sync", ctypes.c_void_p),
        ("others", ctypes.c_void_p * 13),
    )


class _File(ctypes.Structure):
    """`sqlite3_file`."""

    _fields_ = (("methods", ctypes.POINTER(_Methods)),)


class _System(ctypes.Structure):
    """The head of `sqlite3_vfs`, up to the function that opens files."""

    _fields_ = (
        ("version", ctypes.c_int),
        ("file_size", ctypes.c_int),
        ("path_length", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("open", ctypes.c_void_p),
    )


_Open = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(_File), ctypes.c_int, ctypes.c_void_p
)
_Sync = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_File), ctypes.c_int)


@contextmanager
def counted_syncs() -> Iterator[list[str]]:
    """Collect the name (such as "arc.db-wal") of each sync that SQLite requests for a file opened within the block.

    The open function of the VFS that `sqlite3` uses is replaced by one whose files have another sync function. Skips
    the test on a Python with built-in SQLite, whose symbols can't be found there.
    """
    import _sqlite3

    try:
        find = ctypes.CDLL(_sqlite3.__file__).sqlite3_vfs_find
    except (AttributeError, OSError) as error:
        pytest.skip(f"this Python's SQLite hides its interface: {error}")
    find.restype = ctypes.POINTER(_System)
    system = find(None).contents
    syncs: list[str] = []
    names: dict[int, str] = {}
    kept: list[object] = []
    original_open = _Open(system.open)

    def open_file(vfs: int, path: int | None, file: "ctypes._Pointer[_File]", flags: int, out: int) -> int:
        result = original_open(vfs, path, file, flags, out)
        if result == 0 and path and file.contents.methods:
            names[ctypes.addressof(file.contents)] = ctypes.string_at(path).decode().rpartition("/")[2]
            methods = _Methods.from_buffer_copy(file.contents.methods.contents)
            original_sync = _Sync(methods.sync)

            def sync(one: "ctypes._Pointer[_File]", how: int) -> int:
                syncs.append(names[ctypes.addressof(one.contents)])
                return int(original_sync(one, how))

            callback = _Sync(sync)
            methods.sync = ctypes.cast(callback, ctypes.c_void_p).value
            kept.extend((callback, methods, original_sync))
            file.contents.methods = ctypes.pointer(methods)
        return int(result)

    replaced = _Open(open_file)
    before, system.open = system.open, ctypes.cast(replaced, ctypes.c_void_p).value
    _everlasting.append((replaced, kept))  # connections that outlive the block still call them
    try:
        yield syncs
    finally:
        system.open = before


_everlasting: list[object] = []


QUIET = 0.02
"""Seconds of silence after which the client is assumed to wait for an answer, unless its bytes say so. A large batch is
sent in pieces, and an answer to the first one would otherwise make one round trip look like two.
"""


def _waits_for_answer(sent: bytes) -> bool:
    """Return whether what was sent ends with a message of PostgreSQL's protocol that ends a batch: Sync or Query."""
    return sent.endswith(b"S\0\0\0\4") or (sent[:1] == b"Q" and int.from_bytes(sent[1:5]) == len(sent) - 1)


@dataclass(slots=True)
class Wire:
    """A counting proxy in front of a local server."""

    port: int
    round_trips: int = 0
    _listener: socket.socket = field(default_factory=socket.socket)
    _ends: list[socket.socket] = field(default_factory=list)

    def forward(self, server_port: int) -> None:
        """Serve connections until the listener closes."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", server_port))
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._ends += [client, server]
            threading.Thread(target=self._pump, args=(client, server), daemon=True).start()

    def _pump(self, client: socket.socket, server: socket.socket) -> None:
        client_speaks = False
        with suppress(OSError, ValueError):
            while True:
                ready, _, _ = select.select([client, server], [], [])
                source, sink = (client, server) if client in ready else (server, client)
                data = source.recv(65536)
                if not data:
                    break
                if source is client and not client_speaks:
                    self.round_trips += 1
                    while (
                        not _waits_for_answer(data)
                        and select.select([client], [], [], QUIET)[0]
                        and (more := client.recv(65536))
                    ):
                        data += more
                client_speaks = source is client
                sink.sendall(data)
        for end in (client, server):
            end.close()

    def close(self) -> None:
        """Stop listening and end all connections."""
        self._listener.close()
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def wire(server_port: int) -> Iterator[Wire]:
    """Yield a proxy that counts the round trips: how often the client sends after the server has."""
    listener = socket.create_server(("127.0.0.1", 0))
    proxy = Wire(listener.getsockname()[1], _listener=listener)
    accepting = threading.Thread(target=proxy.forward, args=(server_port,), daemon=True)
    accepting.start()
    try:
        yield proxy
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        proxy.close()
        accepting.join(5)


SET_UP = ("--", "PRAGMA", "CREATE VIRTUAL TABLE IF NOT EXISTS temp.")
"""Prefixes of the statements that set up a connection."""


READING = ("BEGIN", "COMMIT", "ROLLBACK")
"""Statements that begin and end a read transaction."""


class OwnThread:
    """Counts what this thread runs on a database's connections: statements, and steps of SQLite's virtual machine."""

    def __init__(self, url: str) -> None:
        self.statements: list[str] = []
        self.steps = 0
        self.database = create_engine(url)
        me = threading.get_ident()

        def note(sql: str) -> None:
            if threading.get_ident() == me and sql not in READING and not sql.startswith(SET_UP):
                self.statements.append(sql)

        def step() -> None:
            self.steps += threading.get_ident() == me

        @event.listens_for(self.database, "connect")
        def watch(connection: Any, _: object) -> None:
            connection.set_trace_callback(note)
            connection.set_progress_handler(step, 10)

    def connect(self, connections: int) -> None:
        """Fill the pool with so many connections, since a turn opens one if the background uses all others."""
        for connection in [self.database.connect() for _ in range(connections)]:
            connection.close()
