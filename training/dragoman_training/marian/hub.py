"""Fetching a Marian model's files from a hub by HTTPS, all of one commit, each checked.

A hub states the commit (`X-Repo-Commit`), and of each file its size and its name in Git: a SHA-1
over its content for small files, the SHA-256 of its content for large ones (`X-Linked-Etag`, else
`ETag`). So what another server sends, to which the hub redirects, is held against the hub's word.

Source: https://huggingface.co/docs/hub/models-downloading and huggingface_hub's `file_download.py`
"""

from __future__ import annotations

import hashlib
import http.client
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, replace
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
from dragoman_training.marian.stored_tensors import PICKLE, SAFETENSORS
from dragoman_training.secure_http import Hop, is_secure, open_url

ENDPOINT = "https://huggingface.co"
_NEEDED = (CONFIG, LIST, SOURCE_PIECES, TARGET_PIECES)
_OPTIONAL = (TOKENIZER_CONFIG, TARGET_LIST)
_WEIGHTS = (SAFETENSORS, PICKLE)
_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_CHUNK_BYTES = 1 << 20
_TIMEOUT_S = 30.0

Told = Callable[[str, int, int | None], None]
"""Called with the file, the bytes that have come, and how many there will be."""


def is_hub_name(name: str) -> bool:
    """Whether it reads `owner/model`."""
    return _NAME.fullmatch(name) is not None


@dataclass(frozen=True)
class Hub:
    """A hub, or what answers like one.

    Attributes:
        endpoint: where its addresses begin.
        revision: branch, tag or commit.

    Raises:
        UsageError: the endpoint is no address of HTTPS, or the revision is not UTF-8.
    """

    endpoint: str = ENDPOINT
    revision: str = "main"

    def __post_init__(self) -> None:
        if not _is_address(self.endpoint):
            raise UsageError(f"--endpoint {self.endpoint!r}: write it as {ENDPOINT}")
        try:
            self.revision.encode()
        except UnicodeEncodeError as error:
            raise UsageError(f"--revision {self.revision!r}: is not UTF-8") from error

    def fetch(self, name: str, folder: Path, told: Told) -> str:
        """Fetch a model's files.

        Args:
            name: `owner/model`.
            folder: that gets them; it is there.
            told: see `Told`.

        Returns:
            The commit that they are of.

        Raises:
            UsageError: the hub has no such model, cannot be reached, stops in the middle, or does
                not send what it states.
        """
        pinned = replace(self, revision=self._need(name, _NEEDED[0], folder, told))
        for file in _NEEDED[1:]:
            pinned._need(name, file, folder, told)
        for file in _OPTIONAL:
            pinned._fetch(name, file, folder, told)
        if not any(pinned._fetch(name, file, folder, told) for file in _WEIGHTS):
            files = " and no ".join(_WEIGHTS)
            raise UsageError(f"{self.endpoint}: {name} has no {files}")
        return pinned.revision

    def _need(self, name: str, file: str, folder: Path, told: Told) -> str:
        """Fetch a file that must be there, and give its commit."""
        commit = self._fetch(name, file, folder, told)
        if commit is None:
            raise UsageError(f"{self._address(name, file)}: there is no such file or model")
        return commit

    def _address(self, name: str, file: str) -> str:
        revision = urllib.parse.quote(self.revision, safe="")
        return f"{self.endpoint.rstrip('/')}/{name}/resolve/{revision}/{file}"

    def _fetch(self, name: str, file: str, folder: Path, told: Told) -> str | None:
        """Fetch a file, check it, and give its commit; None if there is no such file."""
        address = self._address(name, file)
        hops: list[Hop] = []
        try:
            with open_url(urllib.request.Request(address), _TIMEOUT_S, hops) as answer:  # noqa: S310
                stated = self._stated(address, [*hops, (answer.url, answer.headers)])
                done = 0
                with (folder / file).open("wb") as out:
                    while chunk := answer.read(_CHUNK_BYTES):
                        out.write(chunk)
                        done += len(chunk)
                        told(file, done, stated.size_bytes)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == http.HTTPStatus.NOT_FOUND:
                return None
            reason = f"{error.code} {error.reason}"
            # The hub says so of models that are not there, too.
            if error.code in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN):
                reason += "; there is no such model, or it is not public"
            raise UsageError(f"{address}: {reason}") from error
        except urllib.error.URLError as error:
            raise UsageError(
                f"{address}: cannot be reached: {error.reason}; name a folder that has the files"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise UsageError(f"{address}: broke off: {error}") from error
        if stated.size_bytes is not None and done < stated.size_bytes:
            raise UsageError(f"{address}: broke off after {done} of {stated.size_bytes} bytes")
        found = _digest(folder / file, stated.digest)
        if found != stated.digest:
            raise UsageError(f"{address}: has digest {found}, the hub states {stated.digest}")
        return stated.commit

    def _stated(self, address: str, answers: list[Hop]) -> _Stated:
        """What the hub states of a file; what is stated where it redirects to counts for nothing.

        Raises:
            UsageError: it does not state a commit and a digest, or states another commit.
        """
        host = urllib.parse.urlsplit(address).netloc
        own = [headers for url, headers in answers if urllib.parse.urlsplit(url).netloc == host]
        commit = _first(own, "X-Repo-Commit")
        tag = _first(own, "X-Linked-Etag") or own[-1]["ETag"] or ""
        digest = tag.removeprefix("W/").strip('"')
        if not _COMMIT.fullmatch(commit) or not _DIGEST.fullmatch(digest):
            raise UsageError(
                f"{address}: the server states no commit and digest of it, as a hub does; name a "
                "folder that has the files"
            )
        if _COMMIT.fullmatch(self.revision) and commit != self.revision:
            raise UsageError(f"{address}: the hub sends commit {commit}")
        size = _first(own, "X-Linked-Size") or answers[-1][1]["Content-Length"] or ""
        return _Stated(commit, digest, int(size) if size.isdecimal() else None)


@dataclass(frozen=True)
class _Stated:
    """What a hub states of a file; `digest` is a SHA-256, or Git's SHA-1."""

    commit: str
    digest: str
    size_bytes: int | None


def _first(answers: list[Message], name: str) -> str:
    """The first value of a header, or nothing."""
    return next((headers[name] for headers in answers if headers[name]), "")


def _digest(path: Path, like: str) -> str:
    """A file's SHA-256, or what Git would call it, whichever is as long as another."""
    with path.open("rb") as file:
        if len(like) == 64:
            return hashlib.file_digest(file, "sha256").hexdigest()
        git = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
        return hashlib.file_digest(file, lambda: git).hexdigest()


def _is_address(text: str) -> bool:
    """Whether addresses may begin like this: over HTTPS, or to this machine."""
    try:
        parts = urllib.parse.urlsplit(text)
        host, path = (parts.hostname or "").encode("idna"), parts.path.encode("ascii")
        has_place = bool(host) and parts.port != 0 and is_secure(text)
    except ValueError:
        return False
    plain = not parts.query and not parts.fragment and b" " not in host + path
    return has_place and plain and text.isprintable()
