"""Mozilla's servers on this machine: both lists of models, and the files of made-up ones."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import zstandard

from tests.marian_students import Student, write_student
from tests.web_server import Fault, Handler, serving

REGISTRY, RECORDS = "/db/models.json", "/v1/records"
_ROLES = {
    "model": "model",
    "lex": "lexicalShortlist",
    "vocab": "vocab",
    "srcvocab": "srcVocab",
    "trgvocab": "trgVocab",
}
"""Words of the registry, by those of the records, which are the beginnings of the names."""


@dataclass(frozen=True)
class Model:
    """A model that the servers have; `changes` are those of its entry in the registry."""

    pair: str
    student: Student = field(default_factory=Student)
    architecture: str = "tiny"
    status: str | None = "Release"
    version: str = "3.0"
    where_used: str = ""
    """The records' filter."""


@dataclass
class MozillaServers:
    """The servers' content, and the requests that they received.

    Attributes:
        folder: for the models' files.
        models: what they have.
        faults: of the next responses, by the end of the path.
        missing: ends of paths that there are none of.
        requests: paths and headers, in order.
        address: while it runs.
    """

    folder: Path
    models: list[Model]
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    address: str = ""
    content: dict[str, bytes] = field(default_factory=dict)

    @contextlib.contextmanager
    def run(self) -> Iterator[MozillaServers]:
        """Serve on a free port."""
        with serving(type("Handler", (_Handler,), {"servers": self})) as port:
            self.address = f"http://127.0.0.1:{port}"
            self.publish()
            yield self

    @property
    def environment(self) -> dict[str, str]:
        """The variables that name these servers."""
        return {
            "DRAGOMAN_FIREFOX_REGISTRY_URL": self.address + REGISTRY,
            "DRAGOMAN_FIREFOX_RECORDS_URL": self.address + RECORDS,
            "DRAGOMAN_FIREFOX_FILES_URL": self.address + "/attachments",
        }

    def publish(self) -> None:
        """Make both lists and all files anew, from `models`."""
        self.content.clear()
        registry: dict[str, Any] = {}
        records = []
        for number, model in enumerate(self.models):
            source, _, target = model.pair.partition("-")
            files = {}
            for path in self._files(model, number):
                role = path.name.partition(".")[0]
                unpacked = path.read_bytes()
                place = f"models/{model.pair}/{number}/{path.name}.gz"
                self.content[f"/{place}"] = gzip.compress(unpacked, mtime=0)
                files[_ROLES[role]] = {"path": place}
                digest: dict[str, Any] = {
                    "decompressedSize": len(unpacked),
                    "decompressedHash": hashlib.sha256(unpacked).hexdigest(),
                }
                if role == "model":
                    files["model"] |= {
                        "uncompressedSize": digest["decompressedSize"],
                        "uncompressedHash": digest["decompressedHash"],
                    }
                location = f"main/{number}-{path.name}.zst"
                packed = zstandard.compress(unpacked)
                self.content[f"/attachments/{location}"] = packed
                records.append(
                    {
                        "name": path.name,
                        "sourceLanguage": source,
                        "targetLanguage": target,
                        "architecture": model.architecture,
                        "version": model.version,
                        "fileType": role,
                        "filter_expression": model.where_used,
                        "attachment": {"location": location, "size": len(packed)},
                        **digest,
                    }
                )
            registry.setdefault(model.pair, []).append(
                {
                    "architecture": model.architecture,
                    "releaseStatus": model.status,
                    "sourceLanguage": source,
                    "targetLanguage": target,
                    "files": files,
                }
            )
        listed = {"generated": "today", "baseUrl": self.address, "models": registry}
        self.content[REGISTRY] = json.dumps(listed).encode()
        self.content[RECORDS] = json.dumps({"data": records}).encode()

    def _files(self, model: Model, number: int) -> list[Path]:
        folder = self.folder / str(number)
        if not folder.exists():
            write_student(folder, model.student)
            for path in folder.iterdir():
                path.rename(folder / path.name.replace("ende", model.pair.replace("-", "")))
        return sorted(folder.iterdir())

    def requested(self, end: str) -> list[dict[str, str]]:
        """The headers of the requests for a path with this end."""
        return [headers for path, headers in self.requests if path.endswith(end)]

    def fault_of(self, path: str) -> Fault:
        """The fault of the next response for a path."""
        for end, faults in self.faults.items():
            if path.endswith(end) and faults:
                return faults.pop(0)
        return Fault()


class _Handler(Handler):
    servers: MozillaServers

    def respond(self) -> None:
        servers, path = self.servers, urlsplit(self.path).path
        servers.requests.append((path, dict(self.headers)))
        body = servers.content.get(path)
        if body is None or path.endswith(tuple(servers.missing)):
            self.send_error(404)
            return
        self.send_file(body, f'"{hashlib.sha256(body).hexdigest()}"', servers.fault_of(path))
