"""Downloads over HTTPS: broken transfers are resumed, files are checked against their digests."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from dragoman.kernel.errors import UsageError
from dragoman.kernel.replacement import replacing
from dragoman_training.secure_http import Hop, is_secure
from dragoman_training.transfer import (
    BrokenOff,
    PartialFile,
    Refused,
    Unreachable,
    Watch,
    transfer,
)

log = logging.getLogger(__name__)

LOCK = "corpora.lock.json"
"""File beside the text: the digest of each URL when it was first downloaded."""

_TIMEOUT_S = 60.0
# Some servers refuse Python's default user agent.
_AGENT = "Mozilla/5.0 (compatible; dragoman)"


@dataclass(frozen=True)
class RemoteFile:
    """A file on a server, and what is publicly known about it."""

    url: str
    sha256: str | None = None
    md5: str | None = None
    """Used if no better digest is public."""
    size_bytes: int | None = None

    def __post_init__(self) -> None:
        try:
            secure = is_secure(self.url)
        except ValueError as error:
            raise UsageError(f"url is {self.url!r}: {error}") from error
        if not secure:
            raise UsageError(f"url is {self.url!r}: give one that begins with https://")
        if not (self.url.isascii() and self.url.isprintable()) or " " in self.url:
            raise UsageError(f"url is {self.url!r}: write spaces and non-ASCII as %C3%A4")

    @property
    def name(self) -> str:
        """A file name, unique for each URL."""
        short = hashlib.sha256(self.url.encode()).hexdigest()[:8]
        return f"{short}-{Path(urlsplit(self.url).path).name}"


@dataclass(frozen=True)
class Download:
    """A downloaded file."""

    source: RemoteFile
    path: Path
    sha256: str


def fetch(
    source: RemoteFile, folder: Path, lock: Path, watch: Watch = lambda _done, _total: None
) -> Download:
    """Download a file unless it exists, and verify it.

    Args:
        source: the file.
        folder: where to; a transfer that breaks off leaves a hidden `.partial` there. The next call
            resumes it if the server supports that and the file is unchanged.
        lock: what `remember` has written; a file listed there must be unchanged.
        watch: see `Watch`.

    Raises:
        UsageError: the server is unreachable, refuses, breaks off or sends another file, or the
            disk cannot be written.
    """
    path = folder / source.name
    try:
        if path.exists():
            return Download(source, path, _checked(source, path, lock))
        folder.mkdir(parents=True, exist_ok=True)
        partial = _begun(source, folder)
        _transfer(source, partial, watch)
        try:
            digest = _checked(source, partial.path, lock)
        finally:
            if not partial.path.exists():
                partial.version.unlink(missing_ok=True)
        with partial.path.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(partial.path, path)
        partial.version.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be written: {error.strerror}; run it again to resume"
        ) from error
    return Download(source, path, digest)


def remember(download: Download, lock: Path) -> None:
    """Record the digest of a URL in the lock, after the file has proved usable.

    Raises:
        UsageError: the lock cannot be read or written.
    """
    known = _locked(lock)
    source = download.source
    if known.get(source.url) != download.sha256:
        _write_lock(lock, {**known, source.url: download.sha256})
        if source.sha256 is None:
            log.info(
                "%s: SHA-256 %s, kept in %s; other content will be refused",
                source.url,
                download.sha256,
                lock,
            )


def discard(download: Download, lock: Path) -> None:
    """Remove an unusable file, and its URL from the lock.

    Raises:
        UsageError: the lock cannot be read or written.
    """
    download.path.unlink(missing_ok=True)
    known = _locked(lock)
    if known.pop(download.source.url, None) is not None:
        _write_lock(lock, known)


def _transfer(source: RemoteFile, partial: PartialFile, watch: Watch) -> None:
    """Download the missing bytes."""

    def size_bytes(answers: list[Hop]) -> int | None:
        return None if "Content-Length" in answers[-1][1] else source.size_bytes

    try:
        transfer(source.url, partial, _TIMEOUT_S, {"User-Agent": _AGENT}, size_bytes, watch)
    except Refused as error:
        raise UsageError(f"{source.url}: the server answered {error}") from error
    except Unreachable as error:
        raise UsageError(
            f"{source.url}: cannot be reached: {error}; text that was copied here by other means "
            "needs no network, see --data-dir of the other commands"
        ) from error
    except BrokenOff as error:
        raise UsageError(f"{source.url}: {error}; run it again to resume") from error


def _begun(source: RemoteFile, folder: Path) -> PartialFile:
    """The files that a broken transfer leaves."""
    return PartialFile(folder / f".{source.name}.partial", folder / f".{source.name}.version")


def _checked(source: RemoteFile, path: Path, lock: Path) -> str:
    """Check a file against the registry and the lock, and return its SHA-256."""
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    known = _locked(lock)
    if source.md5 is not None:
        with path.open("rb") as file:
            md5 = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
        _compare(source, path, "MD5", md5, source.md5, "the registry says")
    if source.sha256 is not None:
        _compare(source, path, "SHA-256", sha256, source.sha256, "the registry says")
    elif source.url in known:
        where = f"when first downloaded it was, by {lock},"
        _compare(source, path, "SHA-256", sha256, known[source.url], where)
    return sha256


def _compare(
    source: RemoteFile, path: Path, kind: str, actual: str, expected: str, where: str
) -> None:
    if actual != expected:
        path.unlink()
        raise UsageError(
            f"{source.url}: has {kind} {actual}, {where} {expected}; the file on the server has "
            "changed, or was damaged in transfer, and has been removed"
        )


def _write_lock(lock: Path, known: dict[str, str]) -> None:
    try:
        with replacing(lock) as (partial,), partial.open("w", encoding="utf-8") as file:
            file.write(json.dumps(known, indent=2, sort_keys=True) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UsageError(f"{lock}: cannot be written: {error.strerror}") from error


def _locked(lock: Path) -> dict[str, str]:
    if not lock.exists():
        return {}
    try:
        known = json.loads(lock.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{lock}: cannot be read: {error}") from error
    if not isinstance(known, dict):
        raise UsageError(f"{lock}: expected a table of URLs")
    return known
