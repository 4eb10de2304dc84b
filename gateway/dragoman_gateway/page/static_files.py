"""The page's static files: read once, and sent with their hashes as entity tags."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath

from starlette.datastructures import Headers
from starlette.responses import Response

INDEX = "index.html"
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class StaticFile:
    """A file of the page.

    Attributes:
        media_type: value of the header `Content-Type`.
        content: the content.
        packed: the content compressed with gzip.
        tag: entity tag of the content.
    """

    media_type: str
    content: bytes
    packed: bytes
    tag: str

    def answer(self, request_headers: Headers, headers: dict[str, str]) -> Response:
        """Returns the file, or 304 if the browser has it already.

        Args:
            request_headers: headers of the request.
            headers: additional headers of the answer.
        """
        # Browsers revalidate each time, so that all files are of the same version after an upgrade.
        headers = {
            "ETag": self.tag,
            "Cache-Control": "no-cache",
            "Vary": "Accept-Encoding",
            **headers,
        }
        if _matches(request_headers.get("if-none-match", ""), self.tag):
            return Response(status_code=304, headers=headers)
        if _takes_gzip(request_headers.get("accept-encoding", "")):
            headers["Content-Encoding"] = "gzip"
            return Response(self.packed, headers=headers, media_type=self.media_type)
        return Response(self.content, headers=headers, media_type=self.media_type)


def read_files() -> dict[str, StaticFile]:
    """Returns all files of the page by their path below `static`."""
    folder = resources.files("dragoman_gateway.page") / "static"
    return {name: _read(name, file) for name, file in sorted(_below(folder).items())}


def _below(folder: Traversable, prefix: str = "") -> dict[str, Traversable]:
    files: dict[str, Traversable] = {}
    for entry in folder.iterdir():
        if entry.is_dir():
            files |= _below(entry, f"{prefix}{entry.name}/")
        elif PurePosixPath(entry.name).suffix in _MEDIA_TYPES:
            files[prefix + entry.name] = entry
    return files


def _read(name: str, file: Traversable) -> StaticFile:
    content = file.read_bytes()
    # Weak, since it also identifies the compressed form.
    tag = f'W/"{hashlib.sha256(content).hexdigest()[:32]}"'
    media_type = _MEDIA_TYPES[PurePosixPath(name).suffix]
    return StaticFile(media_type, content, gzip.compress(content, mtime=0), tag)


def _matches(header: str, tag: str) -> bool:
    """Whether `If-None-Match` has the tag; weakness is ignored, since NGINX makes tags weak."""
    given = {part.strip().removeprefix("W/") for part in header.split(",")}
    return "*" in given or tag.removeprefix("W/") in given


def _takes_gzip(header: str) -> bool:
    for part in header.split(","):
        coding, _, weight = part.replace(" ", "").partition(";")
        if coding.lower() in ("gzip", "*"):
            return weight.lower() not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
