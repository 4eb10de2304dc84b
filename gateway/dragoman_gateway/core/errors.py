"""Errors of the gateway, with codes and statuses; each protocol has its own format for them.

GatewayError             a message for people: it names the value and the fix
├── InvalidInput         400  malformed, of a wrong type, out of range, an unknown language
├── Unsupported          400  a feature that is not supported; the message names it
├── KeyMissing           401  a key is required
├── KeyRefused           403  an unknown, expired or revoked key, or not valid for this
├── Forbidden            403  a web page of another origin, or a wrong host name
├── NotFound             404
├── WrongMethod          405
├── SlowUpload           408  the body did not arrive in time
├── TooLarge             413  a body, text or file
├── WrongMediaType       415
│   └── UnknownFormat    415  a file of a format that is not translated
├── TooManyRequests      429  above a limit per minute, or too many concurrent requests
├── QuotaUsedUp          429  the monthly quota of characters
├── HeadTooLarge         431
├── Internal             500  an error in the gateway or the server
├── Unavailable          503  no server, or a server that is overloaded or starting
│   └── DiskFull         503  the gateway cannot store more
└── DeadlineExceeded     504
"""

from __future__ import annotations

import errno
import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from traceback import format_tb

import dragoman_client
from dragoman_options.refusal import Refusal, Refused

_FULL_RETRY_S = 60.0


class GatewayError(Exception):
    """Base class of all errors in answers to requests.

    Attributes:
        status: HTTP status; a protocol may use another one.
        code: kind of error, for programs.
        retry_after_s: when to retry; None: unknown, or never.
    """

    status = 500
    code = "internal"

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        """Store the message and the time to wait."""
        super().__init__(message)
        self.retry_after_s = retry_after_s

    @property
    def retry_whole_s(self) -> int | None:
        """`retry_after_s` for an answer: rounded up to whole seconds, at least 1."""
        return None if self.retry_after_s is None else max(1, math.ceil(self.retry_after_s))


class InvalidInput(Refused, GatewayError):
    """Malformed, of a wrong type, out of range, or in an unknown language."""

    status, code = 400, "invalid_input"


class Unsupported(GatewayError):
    """A feature that is not supported."""

    status, code = 400, "unsupported"


class KeyMissing(GatewayError):
    """A key is required."""

    status, code = 401, "key_missing"


class KeyRefused(GatewayError):
    """An unknown, expired or revoked key, or a key that is not valid for this."""

    status, code = 403, "key_refused"


class Forbidden(GatewayError):
    """A web page of another origin, or a host name that is not the gateway's."""

    status, code = 403, "forbidden"


class NotFound(GatewayError):
    """No such path, glossary, memory, job or file."""

    status, code = 404, "not_found"


class WrongMethod(GatewayError):
    """The path exists, but not with this method.

    Attributes:
        allowed: methods of the path.
    """

    status, code = 405, "wrong_method"

    def __init__(self, message: str, allowed: tuple[str, ...] = ()) -> None:
        """Store the methods."""
        super().__init__(message)
        self.allowed = allowed


class SlowUpload(GatewayError):
    """The body did not arrive in time."""

    status, code = 408, "slow_upload"


class TooLarge(GatewayError):
    """A body, text or file is too large."""

    status, code = 413, "too_large"


class WrongMediaType(GatewayError):
    """A content type that is not supported here."""

    status, code = 415, "wrong_media_type"


class UnknownFormat(WrongMediaType):
    """A file of a format that is not translated."""


class TooManyRequests(GatewayError):
    """Above a limit per minute, or too many concurrent requests."""

    status, code = 429, "too_many_requests"


class QuotaUsedUp(GatewayError):
    """The monthly quota of characters is used up."""

    status, code = 429, "quota_used_up"


class HeadTooLarge(GatewayError):
    """The headers or the URL of a request are too long."""

    status, code = 431, "head_too_large"


class Internal(GatewayError):
    """An error in the gateway or in the server behind it."""


class Unavailable(GatewayError):
    """No server can answer now: it is missing, overloaded, starting or shutting down."""

    status, code = 503, "unavailable"


class DiskFull(Unavailable):
    """The gateway cannot store more."""

    def __init__(self) -> None:
        """Set the message."""
        super().__init__("the gateway's disk is full: try again later", _FULL_RETRY_S)


class DeadlineExceeded(GatewayError):
    """No answer in time."""

    status, code = 504, "deadline_exceeded"


def is_disk_full(error: BaseException) -> bool:
    """Whether an error means that a file could not be written on a full disk."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def log_fault(log: logging.Logger, what: str, error: BaseException) -> None:
    """Log an unexpected error: its class and traceback, but not its message, which may quote texts.

    A full disk is logged without a traceback.

    Args:
        log: the logger.
        what: what failed, such as the name of an endpoint; not a path, which may have a secret.
        error: the error.
    """
    if is_disk_full(error):
        log.error("%s: the disk is full", what)
        return
    log.error("%s: %s\n%s", what, type(error).__name__, "".join(format_tb(error.__traceback__)))


class _ClientErrors:
    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, dragoman_client.TranslationError):
            raise of_client(error) from error
        if isinstance(error, TypeError | ValueError):
            raise InvalidInput(*Refusal.of(error)) from error


def client_errors() -> AbstractContextManager[None]:
    """Convert errors of the client library and of the option table; each request does this twice.

    Raises:
        GatewayError: the converted error.
    """
    return _CLIENT_ERRORS


_CLIENT_ERRORS = _ClientErrors()


@contextmanager
def renumbering(numbers: Sequence[int]) -> Iterator[None]:
    """Give the index in a whole request of a text that is refused among some of its texts.

    Args:
        numbers: for each of these texts its index in the request.

    Raises:
        InvalidInput: a text is refused.
    """
    try:
        yield
    except InvalidInput as error:
        if error.text_index is None:
            raise
        raise InvalidInput(*Refusal.of(error).moved(numbers[error.text_index])) from error


def of_client(error: dragoman_client.TranslationError) -> GatewayError:
    """Returns the gateway's error for a failed request to the server.

    Messages that are not the engine's may contain the server's internal address, so they are
    replaced.
    """
    match error:
        case dragoman_client.InvalidRequest():
            return InvalidInput(*Refusal.of(error))
        case dragoman_client.ServerUnavailable(retry_after_s=None):
            return Unavailable("no translation server is available: try again soon")
        case dragoman_client.ServerUnavailable():
            return Unavailable(str(error), error.retry_after_s)
        case dragoman_client.DeadlineExceeded():
            return DeadlineExceeded(
                "the server did not answer in time: send less text in a request, or try again later"
            )
    return Internal("the server failed: see its log")
