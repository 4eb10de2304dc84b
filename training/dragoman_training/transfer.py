"""One try to bring a file over HTTPS, which goes on where the one before it broke off."""

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
"""Told how many bytes are there, and how many there will be."""
Accept = Callable[[list[Hop]], int | None]
"""Looks at the answers to a request, the last of which sends the file, before any of it comes. It
returns the file's size, if it knows better than the length that the last answer states."""


class Refused(Exception):
    """The server answered with an error."""

    def __init__(self, code: int, reason: str, headers: Message) -> None:
        """Keep the answer."""
        super().__init__(f"{code} {reason}")
        self.code, self.headers = code, headers


class Unreachable(Exception):
    """No answer came; the message says why."""


class BrokenOff(Exception):
    """The transfer ended early; the message says where and why."""


@dataclass(frozen=True)
class PartialFile:
    """What has come of a file, and beside it of which version of the file that is."""

    path: Path
    version: Path

    @property
    def size_bytes(self) -> int:
        """How much is there that can be gone on with."""
        return self.path.stat().st_size if self.path.exists() and self.known_version else 0

    @property
    def known_version(self) -> str:
        """Of which file on the server there are bytes; empty where that is damaged."""
        try:
            known = self.version.read_text(encoding="ascii")
        except (OSError, ValueError):
            return ""
        return known if known.isprintable() else ""

    def remember_version(self, headers: Message) -> None:
        """Keep what tells the file on the server from another one; without it, one begins anew."""
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
    """Get the bytes of a file that are missing, in one try.

    Args:
        url: of the file; it is secure.
        partial: what is there, and gets the rest.
        timeout_s: of the connection, and of each read.
        headers: of the request; `Authorization` does not go to other hosts.
        accept: see `Accept`.
        watch: see `Watch`.

    Raises:
        Refused, Unreachable, BrokenOff: the try failed.
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
    """Append to what is there, as long as something comes."""
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
