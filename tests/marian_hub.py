"""A hub on this machine that serves one Marian model, with faults that a test requests."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tests.web_server import Fault, Handler, serving

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MODEL = "owner/opus-mt-en-de"
WEIGHTS = "model.safetensors"
"""File on another server, to which the hub redirects: the same server under another name."""


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
        with serving(type("Handler", (_Handler,), {"hub": self})) as port:
            self.address = f"http://127.0.0.1:{port}"
            yield self

    def asked(self, file: str) -> list[dict[str, str]]:
        """The headers of the requests for a file, at its final location."""
        where = "/elsewhere/" if file == WEIGHTS else "/resolve/"
        return [
            headers
            for path, headers in self.requests
            if where in path and path.endswith(f"/{file}")
        ]


class _Handler(Handler):
    """`main` leads to one commit; files are requested by the commit, all but the first."""

    hub: MarianHub

    def respond(self) -> None:
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
            self.answer(302, {"Location": f"{there}/elsewhere/{file}", **linked})
        else:
            self._send(path)

    def _send(self, path: Path) -> None:
        """A file, correct or faulty."""
        body = path.read_bytes()
        faults = self.hub.faults.get(path.name, [])
        tag = f'"{hashlib.sha256(body).hexdigest()}"'
        if path.name != WEIGHTS:
            tag = f'W/"{hashlib.sha1(b"blob %d" % len(body) + bytes(1) + body).hexdigest()}"'
        if self.hub.misbehaves == f"damages {path.name}":
            body = body[:-1] + b"?"
        self.send_file(body, tag, faults.pop(0) if faults else Fault())

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        if self.hub.misbehaves != "states no commit":
            other = self.hub.misbehaves == "changes" and "config.json" not in self.path
            commit = self.hub.commit[::-1] if other else self.hub.commit
            headers = {**headers, "X-Repo-Commit": commit}
        super().begin(status, headers)
