"""Downloads a file in several attempts: waits for busy servers, resumes broken transfers."""

from __future__ import annotations

import email.utils
import http
import logging
import os
import time
from collections.abc import Mapping

from dragoman.kernel.errors import UsageError, writing
from dragoman_training.transfer import (
    Accept,
    BrokenOff,
    PartialFile,
    Refused,
    Unreachable,
    Watch,
    transfer,
)

log = logging.getLogger(__name__)

_TIMEOUT_S = 30.0
_BUSY = {408, 425, 429, 500, 502, 503, 504}
"""Status codes after which the same request may succeed when repeated."""
_TRIES = 6
"""Attempts in a row that brought no byte of a file."""
_FIRST_WAIT_S, _MOST_WAIT_S = 1.0, 120.0
_TRUE = {"1", "true", "yes", "on"}


class Unavailable(UsageError):
    """The server is unreachable, refuses or breaks off."""


class Missing(Unavailable):
    """The server has no such file."""


def is_offline() -> bool:
    """Whether the environment forbids downloads of models."""
    return os.environ.get("HF_HUB_OFFLINE", "").lower() in _TRUE


def forbidden(name: str) -> UsageError:
    """The error for a model that would have to be downloaded."""
    return UsageError(f"{name}: needs a download, which HF_HUB_OFFLINE or --offline forbids")


def download(
    address: str,
    partial: PartialFile,
    accept: Accept,
    watch: Watch,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Download a file; retry as long as attempts make progress.

    Args:
        address: URL of the file; must be secure.
        partial: the part downloaded so far, by this or an earlier call; the rest is appended.
        accept: see `Accept`.
        watch: see `Watch`.
        headers: of the requests.

    Raises:
        Missing: the server has no such file; what was downloaded of it is removed.
        Unavailable: the server is unreachable, refuses or breaks off.
        UsageError: the disk cannot be written.
    """
    try:
        _transfer(address, partial, accept, watch, headers or {})
    except Refused as error:
        if error.code == http.HTTPStatus.NOT_FOUND:
            partial.path.unlink(missing_ok=True)
            raise Missing(f"{address}: no such file") from error
        reason = f"{error}; try again later" if error.code in _BUSY else str(error)
        raise Unavailable(f"{address}: {reason}") from error
    except Unreachable as error:
        raise Unavailable(
            f"{address}: cannot be reached: {error}; name a folder that has the files"
        ) from error
    except BrokenOff as error:
        raise Unavailable(f"{address}: {error}") from error


def _transfer(
    address: str, partial: PartialFile, accept: Accept, watch: Watch, headers: Mapping[str, str]
) -> None:
    fruitless = 0
    while True:
        before = partial.size_bytes
        try:
            with writing(partial.path):
                transfer(address, partial, _TIMEOUT_S, headers, accept, watch)
            return
        except (Refused, BrokenOff) as error:
            fruitless = 0 if partial.size_bytes > before else fruitless + 1
            wait_s = _wait_s(error, fruitless)
            busy = not isinstance(error, Refused) or error.code in _BUSY
            if not busy or fruitless >= _TRIES or wait_s > _MOST_WAIT_S:
                raise
            log.warning("%s: %s; trying again in %g s", address, error, wait_s)
            time.sleep(wait_s)


def _wait_s(error: Refused | BrokenOff, fruitless: int) -> float:
    """Seconds to wait before the next attempt: from `Retry-After`, else exponential backoff."""
    retry_after = str(error.headers.get("Retry-After", "")) if isinstance(error, Refused) else ""
    if retry_after.isdecimal():
        return float(retry_after)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:
        return _FIRST_WAIT_S * 2.0 ** (fruitless - 1) if fruitless else 0.0
