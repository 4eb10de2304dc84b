"""One attempt to download a file over HTTPS; it resumes where the last attempt broke off."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import Message
from pathlib import Path

from dragoman_training.secure_http import Hop, open_url

PIECE_BYTES = 1 << 20
_PARTIAL_CONTENT, _RANGE_NOT_SATISFIABLE = 206, 416

Watch = Callable[[int, int | None], None]
"""Called with the number of bytes so far and the total, if it is known."""
Accept = Callable[[list[Hop]], int | None]
"""Checks the responses to a request before any of the file is read; the last of them sends the
file. It returns the file's size, if it knows that better than the last response's length header."""


class Refused(Exception):
    """The server answered with an error."""

    def __init__(self, code: int, reason: str, headers: Message) -> None:
        """Keep the response."""
        super().__init__(f"{code} {reason}")
        self.code, self.headers = code, headers


class Unreachable(Exception):
    """No response came; the message says why."""


class BrokenOff(Exception):
    """The transfer ended early; the message says where and why."""


@dataclass(frozen=True)
class PartialFile:
    """The part of a file downloaded so far, and beside it the version of the file it belongs to."""

    path: Path
    version: Path

    @property
    def size_bytes(self) -> int:
        """Number of bytes that can be resumed from."""
        return self.path.stat().st_size if self.path.exists() and self.known_version else 0

    @property
    def known_version(self) -> str:
        """Version of the file that the bytes belong to; empty if it is unknown or damaged."""
        try:
            known = self.version.read_text(encoding="ascii")
        except (OSError, ValueError):
            return ""
        return known if known.isprintable() else ""

    def remember_version(self, headers: Message) -> None:
        """Save what identifies this version of the file; without it, the next attempt restarts."""
        tag = headers.get("ETag")
        known = tag if tag and not tag.startswith("W/") else headers.get("Last-Modified")
        if known and known.isascii():
            self.version.write_text(known, encoding="ascii")
        else:
            self.version.unlink(missing_ok=True)


def transfer(
    url: str,
    partial: PartialFile,
    timeout_s: float,
    headers: Mapping[str, str],
    accept: Accept,
    watch: Watch,
) -> None:
    """Download the missing bytes of a file, in one attempt.

    Args:
        url: of the file; must be secure.
        partial: the part downloaded so far; the rest is appended to it.
        timeout_s: for the connection, and for each read.
        headers: of the request; `Authorization` is not sent to other hosts.
        accept: see `Accept`.
        watch: see `Watch`.

    Raises:
        Refused, Unreachable, BrokenOff: the attempt failed.
        OSError: the disk cannot be written.
    """
    there = partial.size_bytes
    request = urllib.request.Request(url, headers=dict(headers))  # noqa: S310
    if there:
        request.add_header("Range", f"bytes={there}-")
        request.add_header("If-Range", partial.known_version)
    hops: list[Hop] = []
    try:
        response = open_url(request, timeout_s, hops)
    except urllib.error.HTTPError as error:
        error.close()
        if not there or error.code != _RANGE_NOT_SATISFIABLE:
            raise Refused(error.code, error.reason, error.headers) from error
        accept([*hops, (error.url or url, error.headers)])
        if error.headers.get("Content-Range", f"bytes */{there}") == f"bytes */{there}":
            return  # nothing is missing
        partial.path.unlink()
        transfer(url, partial, timeout_s, headers, accept, watch)
        return
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ConnectionResetError | TimeoutError):
            raise _broken(there, None, str(reason) or type(reason).__name__) from error
        raise Unreachable(str(reason)) from error
    with response:
        size = accept([*hops, (response.url, response.headers)])
        if response.status != _PARTIAL_CONTENT:
            there = 0
        partial.remember_version(response.headers)
        length = response.headers.get("Content-Length")
        if size is None and length and length.isdecimal():
            size = there + int(length)
        done = _receive(response, partial.path, there, size, watch)
    if size is not None and done < size:
        raise _broken(done, size, "the server closed the connection")


def _receive(
    response: http.client.HTTPResponse, path: Path, there: int, size: int | None, watch: Watch
) -> int:
    """Append to the file until the stream ends."""
    with path.open("r+b" if there else "wb") as file:
        file.seek(there)
        while True:
            watch(there, size)
            try:
                piece = response.read(PIECE_BYTES)
            except (OSError, http.client.HTTPException) as error:
                file.flush()
                raise _broken(there, size, str(error) or type(error).__name__) from error
            if not piece:
                return there
            file.write(piece)
            there += len(piece)


def _broken(done: int, size: int | None, reason: str) -> BrokenOff:
    of = f" of {size}" if size is not None else ""
    return BrokenOff(f"broke off after {done}{of} bytes: {reason}")
