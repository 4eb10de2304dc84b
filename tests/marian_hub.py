"""A hub on this machine that serves one Marian model, with faults that a test requests."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MODEL = "owner/opus-mt-en-de"
WEIGHTS = "model.safetensors"
"""File on another server, to which the hub redirects: the same server under another name."""


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


@dataclass
class MarianHub:
    """A hub's content, and the requests that it received.

    Attributes:
        folder: of the model's files.
        misbehaves: the fault of all requests; see `_Handler`.
        token: the token that is required, if any.
        faults: of the next responses that send a file, by its name.
        requests: paths and headers, in order.
        address: of the hub, while it runs.
    """

    folder: Path
    misbehaves: str = ""
    token: str = ""
    commit: str = COMMIT
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    address: str = ""

    @contextlib.contextmanager
    def run(self) -> Iterator[MarianHub]:
        """Serve on a free port."""
        handler = type("Handler", (_Handler,), {"hub": self})
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            self.address = f"http://127.0.0.1:{server.server_port}"
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()

    def asked(self, file: str) -> list[dict[str, str]]:
        """The headers of the requests for a file, at its final location."""
        where = "/elsewhere/" if file == WEIGHTS else "/resolve/"
        return [
            headers
            for path, headers in self.requests
            if where in path and path.endswith(f"/{file}")
        ]


class _Handler(http.server.BaseHTTPRequestHandler):
    """`main` leads to one commit; files are requested by the commit, all but the first."""

    hub: MarianHub

    def do_GET(self) -> None:
        hub, location = self.hub, urlsplit(self.path).path
        hub.requests.append((location, dict(self.headers)))
        *words, file = location.strip("/").split("/")
        path = hub.folder / file
        revision = "main" if file == "config.json" else hub.commit
        if words == ["elsewhere"]:
            self._send(path)
        elif hub.token and self.headers["Authorization"] != f"Bearer {hub.token}":
            self.send_error(401)
        elif words != [*MODEL.split("/"), "resolve", revision] or not path.is_file():
            self.send_error(401 if words[0] == "secret" else 404)
        elif file == WEIGHTS:
            elsewhere = hub.address.replace("127.0.0.1", "localhost")
            there = "http://hub.example" if hub.misbehaves == "leaves TLS" else elsewhere
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            linked = {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(path.stat().st_size)}
            if hub.misbehaves == "trusts others":
                linked = {}
            self._answer(302, Location=f"{there}/elsewhere/{file}", Content_Length="0", **linked)
        else:
            self._send(path)

    def _send(self, path: Path) -> None:
        """A file, or the rest of it, correct or faulty."""
        body = path.read_bytes()
        faults = self.hub.faults.get(path.name, [])
        fault = faults.pop(0) if faults else Fault()
        if fault.status:
            after = {} if fault.retry_after is None else {"Retry-After": fault.retry_after}
            self._answer(fault.status, Content_Length="0", **after)
            return
        tag = f'"{hashlib.sha256(body).hexdigest()}"'
        if path.name != WEIGHTS:
            tag = f'W/"{hashlib.sha1(b"blob %d" % len(body) + bytes(1) + body).hexdigest()}"'
        begin = self._begin(tag)
        if begin == len(body):
            self._answer(416, ETag=tag, Content_Range=f"bytes */{begin}", Content_Length="0")
            return
        if self.hub.misbehaves == f"damages {path.name}":
            body = body[:-1] + b"?"
        rest = body[begin:]
        length = len(rest) if fault.stated_bytes is None else fault.stated_bytes
        self._answer(206 if begin else 200, ETag=tag, Content_Length=str(length))
        sent = rest[: fault.most_bytes]
        middle = len(sent) // 2 if fault.delay_s else len(sent)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.wfile.write(sent[:middle])  # a client that refuses a response may disconnect early
            time.sleep(fault.delay_s)
            self.wfile.write(sent[middle:])

    def _begin(self, tag: str) -> int:
        requested = self.headers["Range"] if self.headers["If-Range"] == tag else None
        return int(requested.removeprefix("bytes=").removesuffix("-")) if requested else 0

    def _answer(self, status: int, **headers: str) -> None:
        self.send_response(status)
        if self.hub.misbehaves != "states no commit":
            other = self.hub.misbehaves == "changes" and "config.json" not in self.path
            headers["X-Repo-Commit"] = self.hub.commit[::-1] if other else self.hub.commit
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        pass
