"""Download a Marian model's files from a hub over HTTPS, all of one commit, each verified.

A hub states the commit (`X-Repo-Commit`), and each file's size and Git object name: the SHA-1 of
small files, the SHA-256 of large ones (`X-Linked-Etag`, else `ETag`). Content that comes from
another server after a redirect is verified against the digest that the hub states.

Source: https://huggingface.co/docs/hub/models-downloading and huggingface_hub's `file_download.py`
"""

from __future__ import annotations

import hashlib
import http
import os
import re
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from email.message import Message
from pathlib import Path

from dragoman.kernel.errors import UsageError
from dragoman_training.marian.importing import (
    LIST,
    SOURCE_PIECES,
    TARGET_LIST,
    TARGET_PIECES,
    TOKENIZER_CONFIG,
)
from dragoman_training.marian.settings import CONFIG
from dragoman_training.marian.stored_tensors import PICKLE, SAFETENSORS, pickle_obstacle
from dragoman_training.patience import Missing, Unavailable, download, forbidden, is_offline
from dragoman_training.secure_http import Hop, is_secure
from dragoman_training.transfer import PartialFile, Refused

ENDPOINT = "https://huggingface.co"
MAIN = "main"
"""The default revision."""
_NEEDED = (CONFIG, LIST, SOURCE_PIECES, TARGET_PIECES)
_OPTIONAL = (TOKENIZER_CONFIG, TARGET_LIST)
_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_PRIVATE = {http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN}

OnProgress = Callable[[str, int, int | None], None]
"""Called with the file, the bytes downloaded so far, and the total."""


def is_hub_name(name: str) -> bool:
    """Whether it has the form `owner/model`."""
    return _NAME.fullmatch(name) is not None


@dataclass(frozen=True)
class Fetched:
    """The commit of the files, if they came from a hub, and the digest of each file."""

    commit: str | None
    digests: dict[str, str]


@dataclass(frozen=True)
class Hub:
    """A hub, or a server with the same API.

    Attributes:
        endpoint: base URL.
        revision: branch, tag or commit.
        token: sent only to the endpoint.
        offline: refuse to download anything.

    Raises:
        UsageError: the endpoint is not an HTTPS URL, the revision is not UTF-8, or the token
            cannot be sent.
    """

    endpoint: str = ENDPOINT
    revision: str = MAIN
    token: str = field(default="", repr=False)
    offline: bool = False

    def __post_init__(self) -> None:
        if not _is_address(self.endpoint):
            raise UsageError(f"--endpoint {self.endpoint!r}: write it as {ENDPOINT}")
        try:
            self.revision.encode()
        except UnicodeEncodeError as error:
            raise UsageError(f"--revision {self.revision!r}: is not UTF-8") from error
        if not (self.token.isascii() and self.token.isprintable()) or " " in self.token:
            raise UsageError("HF_TOKEN: is not a valid token")

    @classmethod
    def of_environment(
        cls, revision: str = MAIN, endpoint: str | None = None, offline: bool = False
    ) -> Hub:
        """The hub that `HF_ENDPOINT`, `HF_TOKEN` and `HF_HUB_OFFLINE` name."""
        address = endpoint or os.environ.get("HF_ENDPOINT") or ENDPOINT
        token = os.environ.get("HF_TOKEN", "").strip()
        return cls(address, revision, token, offline or is_offline())

    def fetch(self, name: str, folder: Path, on_progress: OnProgress) -> Fetched:
        """Download a model's files.

        Args:
            name: `owner/model`.
            folder: where they go; must exist. Partial files of an earlier call are resumed.
            on_progress: see `OnProgress`.

        Raises:
            UsageError: the hub has no such model, is unreachable, breaks off, or sends other
                content than it states.
        """
        first = self._first(name, folder, on_progress)
        pinned = replace(self, revision=first.commit)
        digests = {_NEEDED[0]: first.digest}

        def fetch(file: str) -> bool:
            if stated := pinned._fetch(name, file, folder, on_progress):
                digests[file] = stated.digest
            return stated is not None

        for file in (*_NEEDED[1:], *_OPTIONAL):
            if not fetch(file) and file in _NEEDED:
                raise pinned._missing(name, file)
        if not fetch(SAFETENSORS):
            if obstacle := pickle_obstacle():
                raise UsageError(
                    f"{self.endpoint}: {name} has no {SAFETENSORS} but {PICKLE}, and {obstacle}"
                )
            if not fetch(PICKLE):
                raise UsageError(f"{self.endpoint}: {name} has no {SAFETENSORS} and no {PICKLE}")
        return Fetched(first.commit, digests)

    def commit(self, name: str, folder: Path, on_progress: OnProgress) -> str:
        """The commit that `fetch` would download; same arguments and errors as `fetch`."""
        return self._first(name, folder, on_progress).commit

    def check_online(self, name: str) -> None:
        """Check that downloads are allowed.

        Raises:
            UsageError: they are not.
        """
        if self.offline:
            raise forbidden(name)

    def _first(self, name: str, folder: Path, on_progress: OnProgress) -> _Stated:
        self.check_online(name)
        stated = self._fetch(name, _NEEDED[0], folder, on_progress)
        if stated is None:
            raise self._missing(name, _NEEDED[0])
        return stated

    def _missing(self, name: str, file: str) -> UsageError:
        return UsageError(f"{self._address(name, file)}: no such file or model")

    def _address(self, name: str, file: str) -> str:
        revision = urllib.parse.quote(self.revision, safe="")
        return f"{self.endpoint.rstrip('/')}/{name}/resolve/{revision}/{file}"

    def _fetch(self, name: str, file: str, folder: Path, on_progress: OnProgress) -> _Stated | None:
        """Download and verify a file; return what the hub states about it, None if it has none."""
        address = self._address(name, file)
        partial = PartialFile(folder / file, folder / f".{file}.version")
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        stated: list[_Stated] = []

        def accept(answers: list[Hop]) -> int | None:
            stated.append(self._stated(address, answers))
            return stated[-1].size_bytes

        try:
            download(
                address, partial, accept, lambda done, size: on_progress(file, done, size), headers
            )
        except Missing:
            return None
        except Unavailable as error:
            # The hub gives this answer for models that do not exist, too.
            if isinstance(error.__cause__, Refused) and error.__cause__.code in _PRIVATE:
                raise UsageError(
                    f"{error}; there is no such model, or it is not public and needs HF_TOKEN"
                ) from error
            raise
        digest = _digest(partial.path, stated[-1].digest)
        if digest != stated[-1].digest:
            partial.path.unlink()
            raise UsageError(f"{address}: has digest {digest}, the hub states {stated[-1].digest}")
        return stated[-1]

    def _stated(self, address: str, answers: list[Hop]) -> _Stated:
        """What the hub states about a file; headers of servers that it redirects to are ignored."""
        host = urllib.parse.urlsplit(address).netloc
        own = [headers for url, headers in answers if urllib.parse.urlsplit(url).netloc == host]
        commit = _first(own, "X-Repo-Commit")
        tag = _first(own, "X-Linked-Etag") or own[-1]["ETag"] or ""
        digest = tag.removeprefix("W/").strip('"')
        if not _COMMIT.fullmatch(commit) or not _DIGEST.fullmatch(digest):
            raise UsageError(
                f"{address}: the server states no commit and digest, as a hub does; name a "
                "folder that has the files"
            )
        if _COMMIT.fullmatch(self.revision) and commit != self.revision:
            raise UsageError(f"{address}: the hub sends commit {commit}")
        size = _first(own, "X-Linked-Size")
        return _Stated(commit, digest, int(size) if size.isdecimal() else None)


@dataclass(frozen=True)
class _Stated:
    """What a hub states about a file; `digest` is a SHA-256, or Git's SHA-1.

    `size_bytes` is None if the hub does not state it.
    """

    commit: str
    digest: str
    size_bytes: int | None


def _first(answers: list[Message], name: str) -> str:
    """The first value of a header, or an empty string."""
    return next((headers[name] for headers in answers if headers[name]), "")


def _digest(path: Path, like: str) -> str:
    """A file's SHA-256 or Git SHA-1, whichever has the length of `like`."""
    with path.open("rb") as file:
        if len(like) == 64:
            return hashlib.file_digest(file, "sha256").hexdigest()
        git = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
        return hashlib.file_digest(file, lambda: git).hexdigest()


def _is_address(text: str) -> bool:
    """Whether it is a valid base URL: HTTPS, or loopback."""
    try:
        parts = urllib.parse.urlsplit(text)
        host, path = (parts.hostname or "").encode("idna"), parts.path.encode("ascii")
        has_place = bool(host) and parts.port != 0 and is_secure(text)
    except ValueError:
        return False
    plain = not parts.query and not parts.fragment and b" " not in host + path
    return has_place and plain and text.isprintable()
