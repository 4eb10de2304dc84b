"""Errors of the gateway: one table of codes and statuses, which each protocol writes in its shape.

GatewayError             a message for a person: it names the value and the fix
├── InvalidInput         400  malformed, of a wrong type, out of range, an unknown language
├── Unsupported          400  a feature that is not offered, refused by its name
├── KeyMissing           401  a key is required
├── KeyRefused           403  an unknown, expired or revoked key, or not for this
├── Forbidden            403  a web page of another origin, or a wrong name of the gateway
├── NotFound             404
├── WrongMethod          405
├── SlowUpload           408  the body did not arrive in time
├── TooLarge             413  a body, text or file
├── WrongMediaType       415
├── TooManyRequests      429  above the limits of a minute, or too many at once
├── QuotaUsedUp          429  the characters of the month
├── HeadTooLarge         431
├── Internal             500  a fault of the gateway or the server
├── Unavailable          503  no server, or one that is overloaded or starting
└── DeadlineExceeded     504
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import format_tb

import dragoman_client


class GatewayError(Exception):
    """Base of every error that a request is answered with.

    Attributes:
        status: of HTTP; a protocol may have another one.
        code: name of the kind of error, for programs.
        retry_after_s: when another try can help; None: unknown, or never.
    """

    status = 500
    code = "internal"

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        """Keep the message and the time to wait."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class InvalidInput(GatewayError):
    """Malformed, of a wrong type, out of range, or in an unknown language."""

    status, code = 400, "invalid_input"


class Unsupported(GatewayError):
    """A feature that is not offered."""

    status, code = 400, "unsupported"


class KeyMissing(GatewayError):
    """A key is required."""

    status, code = 401, "key_missing"


class KeyRefused(GatewayError):
    """An unknown, expired or revoked key, or a key that does not allow this."""

    status, code = 403, "key_refused"


class Forbidden(GatewayError):
    """A web page of another origin, or a name that is not the gateway's."""

    status, code = 403, "forbidden"


class NotFound(GatewayError):
    """No such path, glossary, job or file."""

    status, code = 404, "not_found"


class WrongMethod(GatewayError):
    """The path exists, but not with this method.

    Attributes:
        allowed: methods that it has.
    """

    status, code = 405, "wrong_method"

    def __init__(self, message: str, allowed: tuple[str, ...] = ()) -> None:
        """Keep the methods."""
        super().__init__(message)
        self.allowed = allowed


class SlowUpload(GatewayError):
    """The body did not arrive in time."""

    status, code = 408, "slow_upload"


class TooLarge(GatewayError):
    """A body, text or file is too large."""

    status, code = 413, "too_large"


class WrongMediaType(GatewayError):
    """A content type that is not read here."""

    status, code = 415, "wrong_media_type"


class TooManyRequests(GatewayError):
    """Above the limits of a minute, or too many requests at once."""

    status, code = 429, "too_many_requests"


class QuotaUsedUp(GatewayError):
    """The characters of the month are used up."""

    status, code = 429, "quota_used_up"


class HeadTooLarge(GatewayError):
    """The headers of a request, or its address, are too long."""

    status, code = 431, "head_too_large"


class Internal(GatewayError):
    """A fault of the gateway or of the server behind it."""


class Unavailable(GatewayError):
    """No server can answer now: none is there, or it is overloaded, starting or going down."""

    status, code = 503, "unavailable"


class DeadlineExceeded(GatewayError):
    """No answer in time."""

    status, code = 504, "deadline_exceeded"


def log_fault(log: logging.Logger, what: str, error: BaseException) -> None:
    """Log an unforeseen error: its class and place, not its message, which may quote a text.

    Args:
        log: takes it.
        what: failed, such as the name of an endpoint; not a path, which may hold a secret.
        error: the error.
    """
    log.error("%s: %s\n%s", what, type(error).__name__, "".join(format_tb(error.__traceback__)))


@contextmanager
def client_errors() -> Iterator[None]:
    """Errors of the client library, and of the option table, as the gateway's.

    Raises:
        GatewayError: one of them was raised inside.
    """
    try:
        yield
    except dragoman_client.TranslationError as error:
        raise of_client(error) from error
    except (TypeError, ValueError) as error:
        raise InvalidInput(str(error)) from error


def of_client(error: dragoman_client.TranslationError) -> GatewayError:
    """The error that a failed request to the server stands for.

    Where the message is not the engine's own, it may name the server's address within a network:
    another one takes its place.
    """
    match error:
        case dragoman_client.InvalidRequest():
            return InvalidInput(str(error))
        case dragoman_client.ServerUnavailable(retry_after_s=None):
            return Unavailable("no server translates now: try again soon")
        case dragoman_client.ServerUnavailable():
            return Unavailable(str(error), error.retry_after_s)
        case dragoman_client.DeadlineExceeded():
            return DeadlineExceeded(
                "the server did not answer in time: send less at once, or later"
            )
    return Internal("the server failed: see its log")
