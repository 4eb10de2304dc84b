"""A web server in this process, and files that it sends in ranges and with faults."""

from __future__ import annotations

import contextlib
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Fault:
    """The fault of one response; by default there is none."""

    status: int = 0
    """Sent instead of the file."""
    retry_after: str | None = None
    most_bytes: int | None = None
    """Number of bytes after which the connection is closed."""
    stated_bytes: int | None = None
    """Value of `Content-Length` instead of the correct one."""
    delay_s: float = 0.0
    """Pause between two parts of the body."""


class Handler(BaseHTTPRequestHandler):
    """Logs nothing; `respond` answers a request."""

    def do_GET(self) -> None:
        self.respond()

    def do_POST(self) -> None:
        self.respond()

    def respond(self) -> None:
        raise NotImplementedError

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Send status and headers."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def answer(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send a whole response."""
        self.begin(status, {**headers, "Content-Length": str(len(body))})
        self.wfile.write(body)

    def send_file(self, body: bytes, tag: str, fault: Fault) -> None:
        """Send a file, or the rest of it that is requested."""
        if fault.status:
            after = {} if fault.retry_after is None else {"Retry-After": fault.retry_after}
            self.answer(fault.status, after)
            return
        requested = self.headers["Range"] if self.headers["If-Range"] == tag else None
        first = int(requested.removeprefix("bytes=").removesuffix("-")) if requested else 0
        if first and first >= len(body):
            self.answer(416, {"ETag": tag, "Content-Range": f"bytes */{len(body)}"})
            return
        length = len(body) - first if fault.stated_bytes is None else fault.stated_bytes
        self.begin(206 if first else 200, {"ETag": tag, "Content-Length": str(length)})
        sent = body[first:][: fault.most_bytes]
        middle = len(sent) // 2 if fault.delay_s else len(sent)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.wfile.write(sent[:middle])  # a client that refuses a response may disconnect early
            time.sleep(fault.delay_s)
            self.wfile.write(sent[middle:])

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serving(handler: type[Handler], tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve on a free port, which is yielded."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
