"""An HTTP proxy that makes some requests to a server fail, break off, or be stored in part."""

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

FAULTS = ("error", "busy", "refused", "lost answer", "cut upload", "cut answer")
"""Faults of a request: an internal error, "slow down", a connection that closes before or after the server has done its
work, half a body that is forwarded as if it were complete, and half an answer.
"""


class FaultyProxy(ThreadingHTTPServer):
    """Calls `fault` with each request's method and applies the fault that it returns; `None` is none."""

    daemon_threads = True

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = urlsplit(target).netloc
        self.fault: Callable[[str], str | None] = lambda _: None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultyProxy

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.server.fault(self.command)
        if fault in ("error", "busy"):
            self._answer(500 if fault == "error" else 503, [], b"<Error><Code>InternalError</Code></Error>")
            return
        if fault != "refused":
            connection = http.client.HTTPConnection(self.server.target, timeout=30)
            headers = {name: value for name, value in self.headers.items() if name.lower() != "content-length"}
            if fault == "cut upload":
                body = body[: len(body) // 2]
                headers = {name: value for name, value in headers.items() if not _is_checksum(name)}
            connection.request(self.command, self.path, body, {**headers, "Content-Length": str(len(body))})
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
        if fault in ("refused", "lost answer"):
            self.close_connection = True
            self.connection.close()
            return
        if fault == "cut answer":
            content = content[: len(content) // 2]
        self._answer(answer.status, answer.getheaders(), content)

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection") and not _is_checksum(name):
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(content)))
        elif length := dict(headers).get("Content-Length"):
            self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _forward  # noqa: N815 - the base class requires these names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


def _is_checksum(name: str) -> bool:
    return name.lower().startswith(("content-md5", "x-amz-checksum", "x-amz-sdk-checksum", "x-amz-trailer"))


@contextmanager
def faulty_proxy(target: str) -> Iterator[FaultyProxy]:
    """Start a proxy in front of the server at this address."""
    with FaultyProxy(target) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
