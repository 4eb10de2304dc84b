"""Downloads over HTTPS: broken transfers are resumed, files are checked against their digests."""

from __future__ import annotations

import hashlib
import http.client
import json
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from dragoman.kernel.errors import UsageError
from dragoman_training.secure_http import is_secure, open_url

log = logging.getLogger(__name__)

LOCK = "corpora.lock.json"
"""Beside the text: what each URL gave the first time that it was fetched."""

_PIECE_BYTES = 1 << 20
_TIMEOUT_S = 60.0
_PARTIAL_CONTENT, _RANGE_NOT_SATISFIABLE = 206, 416
# Some servers refuse what calls itself Python.
_AGENT = "Mozilla/5.0 (compatible; dragoman)"


@dataclass(frozen=True)
class Source:
    """A file on a server, and what is publicly known of it."""

    url: str
    sha256: str | None = None
    md5: str | None = None
    """Where nothing better is public."""
    size_bytes: int | None = None

    def __post_init__(self) -> None:
        try:
            secure = is_secure(self.url)
        except ValueError as error:
            raise UsageError(f"url is {self.url!r}: {error}") from error
        if not secure:
            raise UsageError(f"url is {self.url!r}: give one that begins with https://")
        if not (self.url.isascii() and self.url.isprintable()) or " " in self.url:
            raise UsageError(f"url is {self.url!r}: write what is not ASCII, and spaces, as %C3%A4")

    @property
    def name(self) -> str:
        """A file name, different for each URL."""
        short = hashlib.sha256(self.url.encode()).hexdigest()[:8]
        return f"{short}-{Path(urlsplit(self.url).path).name}"


@dataclass(frozen=True)
class Download:
    """A file that was fetched."""

    source: Source
    path: Path
    sha256: str


Watch = Callable[[int, int | None], None]
"""Told how many bytes are there, and how many there will be."""


def fetch(
    source: Source, folder: Path, lock: Path, watch: Watch = lambda done, total: None
) -> Download:
    """Download a file, unless it is there, and check it.

    Args:
        source: what.
        folder: where to; a transfer that breaks off leaves a hidden `.partial` there, with which
            the next one goes on, if the server can and has not changed the file.
        lock: what `remember` has written; a file that is in there must be the same again.
        watch: see `Watch`.

    Raises:
        UsageError: the server cannot be reached, refuses, breaks off or gives another file, or the
            disk cannot be written.
    """
    path = folder / source.name
    try:
        if path.exists():
            return Download(source, path, _checked(source, path, lock))
        folder.mkdir(parents=True, exist_ok=True)
        partial, version = _begun(source, folder)
        _transfer(source, folder, watch)
        try:
            found = _checked(source, partial, lock)
        finally:
            if not partial.exists():
                version.unlink(missing_ok=True)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
        version.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be written: {error.strerror}; run it again to go on"
        ) from error
    return Download(source, path, found)


def remember(download: Download, lock: Path) -> None:
    """Write into the lock what a URL gave, once that has been of use.

    Raises:
        UsageError: the lock cannot be read or written.
    """
    known = _locked(lock)
    source = download.source
    if known.get(source.url) != download.sha256:
        _write_lock(lock, {**known, source.url: download.sha256})
        if source.sha256 is None:
            found = download.sha256
            log.info(
                "%s: SHA-256 %s, kept in %s; another later is refused", source.url, found, lock
            )


def discard(download: Download, lock: Path) -> None:
    """Remove a file that turned out to be of no use, and forget that its URL gave it.

    Raises:
        UsageError: the lock cannot be read or written.
    """
    download.path.unlink(missing_ok=True)
    known = _locked(lock)
    if known.pop(download.source.url, None) is not None:
        _write_lock(lock, known)


def _transfer(source: Source, folder: Path, watch: Watch) -> None:
    """Get the bytes that are missing."""
    partial, version = _begun(source, folder)
    known = _version(version)
    there = partial.stat().st_size if partial.exists() and known else 0
    request = urllib.request.Request(source.url, headers={"User-Agent": _AGENT})  # noqa: S310  (see Source)
    if there:
        request.add_header("Range", f"bytes={there}-")
        request.add_header("If-Range", known)
    try:
        response = open_url(request, _TIMEOUT_S)
    except urllib.error.HTTPError as error:
        if there and error.code == _RANGE_NOT_SATISFIABLE:
            if error.headers.get("Content-Range", f"bytes */{there}") == f"bytes */{there}":
                return  # nothing is missing
            partial.unlink()
            _transfer(source, folder, watch)
            return
        raise UsageError(f"{source.url}: the server says {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise UsageError(
            f"{source.url}: cannot be reached: {reason}; text that was brought here by other means "
            "needs no network, see --data-dir of the other commands"
        ) from error
    with response:
        if response.status != _PARTIAL_CONTENT:
            there = 0
        _remember_version(response.headers, version)
        length = response.headers.get("Content-Length")
        total = there + int(length) if length and length.isdecimal() else source.size_bytes
        done = _receive(source, response, partial, there, total, watch)
    if total is not None and done < total:
        raise _broken(source, done, total, "the server closed the connection")


def _begun(source: Source, folder: Path) -> tuple[Path, Path]:
    """What a transfer leaves that broke off: the bytes, and of which version of the file."""
    return folder / f".{source.name}.partial", folder / f".{source.name}.version"


def _receive(
    source: Source,
    response: http.client.HTTPResponse,
    partial: Path,
    there: int,
    total: int | None,
    watch: Watch,
) -> int:
    """Append to what is there, as long as something comes."""
    with partial.open("r+b" if there else "wb") as file:
        file.seek(there)
        while True:
            watch(there, total)
            try:
                piece = response.read(_PIECE_BYTES)
            except (OSError, http.client.HTTPException) as error:
                file.flush()
                raise _broken(source, there, total, str(error) or type(error).__name__) from error
            if not piece:
                return there
            file.write(piece)
            there += len(piece)


def _broken(source: Source, done: int, total: int | None, reason: str) -> UsageError:
    of = f" of {total}" if total is not None else ""
    return UsageError(
        f"{source.url}: broke off after {done}{of} bytes: {reason}; run it again to go on"
    )


def _remember_version(headers: http.client.HTTPMessage, version: Path) -> None:
    """Keep what tells the file on the server from another one; without it, one begins anew."""
    tag = headers.get("ETag")
    known = tag if tag and not tag.startswith("W/") else headers.get("Last-Modified")
    if known and known.isascii():
        version.write_text(known, encoding="ascii")
    else:
        version.unlink(missing_ok=True)


def _version(path: Path) -> str:
    """Of which file on the server a transfer has left bytes; nothing where that is damaged."""
    try:
        known = path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
    return known if known.isprintable() else ""


def _checked(source: Source, path: Path, lock: Path) -> str:
    """Hold a file against what is known of it, and give its SHA-256."""
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
        where = f"when it was first fetched it was, by {lock},"
        _compare(source, path, "SHA-256", sha256, known[source.url], where)
    return sha256


def _compare(source: Source, path: Path, kind: str, found: str, expected: str, where: str) -> None:
    if found != expected:
        path.unlink()
        raise UsageError(
            f"{source.url}: has {kind} {found}, {where} {expected}; the file on the server is "
            "another one now, or was damaged on the way, and has been removed"
        )


def _write_lock(lock: Path, known: dict[str, str]) -> None:
    partial = lock.with_name(f".{lock.name}.partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.write(json.dumps(known, indent=2, sort_keys=True) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, lock)
    except OSError as error:
        partial.unlink(missing_ok=True)
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
